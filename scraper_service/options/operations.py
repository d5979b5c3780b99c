"""What operations of several steps are asked to do (interface document, 15 and 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import field, frozen
from attrs.validators import (
    deep_iterable,
    ge,
    in_,
    instance_of,
    le,
    max_len,
    min_len,
    optional,
)

from scraper_service.options.converter import structured, unstructured
from scraper_service.options.formats import Json
from scraper_service.options.jobs import Webhook
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_EXTRACT_URLS = 10
MAX_LLMS_URLS = 5000
MAX_DEPTH = 12
MAX_RESEARCH_URLS = 1000
MIN_RESEARCH_S, MAX_RESEARCH_S = 30, 600
SITE = "/*"  # the end of an address that stands for the pages below it

_texts = deep_iterable(instance_of(str), instance_of(tuple))
_flag = instance_of(bool)
_text = optional(instance_of(str))


@frozen(kw_only=True)
class ExtractOptions:
    """Pages to read, and the data wanted of them all together.

    An address of ``urls`` that ends in :data:`SITE` stands for the pages below it, at
    most ``limit`` of them (None: what the operator sets). Without ``urls`` a search for
    the ``prompt`` finds the pages, with ``enable_web_search`` further ones.
    ``timeout_ms`` is the time for all; then what has been read counts.
    """

    kind: ClassVar[str] = "extract"

    urls: tuple[str, ...] = field(validator=[max_len(MAX_EXTRACT_URLS), _texts])
    prompt: str | None = field(validator=_text)
    system_prompt: str | None = field(validator=_text)
    schema: dict[str, Any] | None = field(validator=optional(instance_of(dict)))
    limit: int | None = field(validator=optional(ge(1)))
    ignore_sitemap: bool = field(validator=_flag)
    include_subdomains: bool = field(validator=_flag)
    allow_external_links: bool = field(validator=_flag)
    enable_web_search: bool = field(validator=_flag)
    show_sources: bool = field(validator=_flag)
    timeout_ms: int | None = field(validator=optional(ge(1)))
    webhook: Webhook | None
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None

    @property
    def target(self) -> str:
        """What the list of a team's calls says of it."""
        return next(iter(self.urls), self.prompt or "")

    def counts(self, site_pages: int, searched: int) -> Iterator[int]:
        """Yield how many pages each of its sources may bring.

        ``site_pages`` are those of a site without ``limit``, ``searched`` of a search.
        """
        for url in self.urls:
            yield (self.limit or site_pages) if url.endswith(SITE) else 1
        if self.searches:
            yield searched

    @property
    def searches(self) -> bool:
        return self.enable_web_search or not self.urls


@frozen(kw_only=True)
class LlmsTextOptions:
    """A site whose pages are to be listed for language models.

    ``show_full_text`` asks for the text of the pages, too; without ``use_cache`` each
    is fetched anew.
    """

    kind: ClassVar[str] = "llmstxt"
    webhook: ClassVar[None] = None

    url: str = field(validator=instance_of(str))
    max_urls: int = field(validator=[ge(1), le(MAX_LLMS_URLS)])
    show_full_text: bool = field(validator=_flag)
    use_cache: bool = field(validator=_flag)
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None

    @property
    def target(self) -> str:
        return self.url


@frozen(kw_only=True)
class ResearchOptions:
    """A question that is searched for, read about and answered with its sources.

    ``max_depth`` rounds of searches are made at most, ``max_urls`` pages read, in
    ``time_limit_s``. ``formats`` are ``markdown`` for a text, ``json`` for the data
    that ``json`` asks for.
    """

    kind: ClassVar[str] = "deep_research"
    webhook: ClassVar[None] = None

    query: str = field(validator=min_len(1))
    max_depth: int = field(validator=[ge(1), le(MAX_DEPTH)])
    max_urls: int = field(validator=[ge(1), le(MAX_RESEARCH_URLS)])
    time_limit_s: int = field(validator=[ge(MIN_RESEARCH_S), le(MAX_RESEARCH_S)])
    analysis_prompt: str | None = field(validator=_text)
    system_prompt: str | None = field(validator=_text)
    formats: tuple[str, ...] = field(
        validator=deep_iterable(in_(("markdown", "json")), instance_of(tuple))
    )
    json: Json
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None

    @property
    def target(self) -> str:
        return self.query


OperationOptionsT: TypeAlias = ExtractOptions | LlmsTextOptions | ResearchOptions

OPERATIONS: Mapping[str, type[OperationOptionsT]] = {
    cls.kind: cls for cls in (ExtractOptions, LlmsTextOptions, ResearchOptions)
}


def operation_to_json(options: OperationOptionsT) -> dict[str, Any]:
    """Return ``options`` as JSON values, to be read by :func:`operation_from_json`."""
    return unstructured(options)


def operation_from_json(kind: str, value: Mapping[str, Any]) -> OperationOptionsT:
    """Return the options of the ``kind`` (of :data:`OPERATIONS`) written as ``value``.

    :raises InvalidOptions: for an unknown key, a missing one, or a wrong value.
    """
    return structured(value, OPERATIONS[kind])
