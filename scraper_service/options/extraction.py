"""The options of extract, agent, llms.txt and deep research jobs: a frozen class each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import field, frozen
from attrs.validators import (
    deep_iterable,
    ge,
    gt,
    in_,
    instance_of,
    le,
    max_len,
    min_len,
    optional,
)

from scraper_service.options.crawl import DAYS, Caller, Webhook
from scraper_service.options.formats import Format, Json, Links, Markdown
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_EXTRACT_URLS = 10
MAX_AGENT_URLS = 100
MAX_MODEL_NAME = 256  # characters
EFFORTS = ("low", "medium", "high")
MAX_LLMS_URLS = 5000
MAX_DEPTH = 12
MAX_QUESTION = 10_000  # characters
MAX_RESEARCH_URLS = 1000
MIN_RESEARCH_S, MAX_RESEARCH_S = 30, 600
SITE = "/*"  # the end of a URL that stands for the pages below it

_texts = deep_iterable(instance_of(str), instance_of(tuple))
_flag = instance_of(bool)
_text = optional(instance_of(str))


@frozen(kw_only=True)
class ExtractOptions(Caller):
    """Pages to read, and the data to find in all of them together.

    Without ``urls`` a search for the ``prompt`` finds the pages.
    """

    kind: ClassVar[str] = "extract"

    #: A URL that ends in :data:`SITE` stands for the pages below it.
    urls: tuple[str, ...] = field(validator=[max_len(MAX_EXTRACT_URLS), _texts])
    prompt: str | None = field(validator=_text)
    system_prompt: str | None = field(validator=_text)
    schema: dict[str, Any] | None = field(validator=optional(instance_of(dict)))
    #: Pages of each URL that ends in :data:`SITE`; None is the operator's limit.
    limit: int | None = field(validator=optional(ge(1)))
    ignore_sitemap: bool = field(validator=_flag)
    include_subdomains: bool = field(validator=_flag)
    allow_external_links: bool = field(validator=_flag)
    #: True adds the pages of a search to ``urls``.
    enable_web_search: bool = field(validator=_flag)
    show_sources: bool = field(validator=_flag)
    #: Time for the whole job. Then the result is made from the pages read so far.
    timeout_ms: int | None = field(validator=optional(ge(1)))
    webhook: Webhook | None
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)

    @property
    def target(self) -> str:
        """The job in the list of a team's jobs: its first URL or its prompt."""
        return next(iter(self.urls), self.prompt or "")

    def counts(self, site_pages: int, searched: int) -> Iterator[int]:
        """Yield the most pages of each source.

        ``site_pages`` is the number for a site without ``limit``, ``searched`` that for
        a search.
        """
        for url in self.urls:
            yield (self.limit or site_pages) if url.endswith(SITE) else 1
        if self.searches:
            yield searched

    @property
    def searches(self) -> bool:
        """Whether a search finds pages."""
        return self.enable_web_search or not self.urls


@frozen(kw_only=True)
class LlmsTextOptions(Caller):
    """A site whose pages are listed for language models."""

    kind: ClassVar[str] = "llmstxt"
    webhook: ClassVar[None] = None

    url: str = field(validator=instance_of(str))
    max_urls: int = field(validator=[ge(1), le(MAX_LLMS_URLS)])
    #: True adds the text of the pages.
    show_full_text: bool = field(validator=_flag)
    #: False fetches each page again.
    use_cache: bool = field(validator=_flag)
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)

    @property
    def target(self) -> str:
        return self.url


@frozen(kw_only=True)
class ResearchOptions(Caller):
    """A question that is answered from the pages of several searches, with sources.

    An agent runs it: the class has the members of :class:`AgentOptions` that it reads.
    """

    kind: ClassVar[str] = "deep_research"
    webhook: ClassVar[None] = None
    urls: ClassVar[tuple[str, ...]] = ()
    only_urls: ClassVar[bool] = False
    schema: ClassVar[None] = None

    query: str = field(validator=min_len(1))
    #: Rounds of searches.
    max_depth: int = field(validator=[ge(1), le(MAX_DEPTH)])
    #: Pages to read.
    max_urls: int = field(validator=[ge(1), le(MAX_RESEARCH_URLS)])
    #: Seconds.
    time_limit_s: int = field(validator=[ge(MIN_RESEARCH_S), le(MAX_RESEARCH_S)])
    analysis_prompt: str | None = field(validator=_text)
    system_prompt: str | None = field(validator=_text)
    #: ``markdown`` for a text, ``json`` for structured data.
    formats: tuple[str, ...] = field(
        validator=deep_iterable(in_(("markdown", "json")), instance_of(tuple))
    )
    #: The structured data.
    json: Json
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)

    @property
    def target(self) -> str:
        return self.query

    @property
    def prompt(self) -> str:
        return self.query

    @property
    def page_formats(self) -> tuple[Format, ...]:
        """The formats of the pages that it reads."""
        return (Markdown(), self.json) if "json" in self.formats else (Markdown(),)

    @property
    def instructions(self) -> str:
        """Further instructions for the language model, without the prompt."""
        return " ".join(filter(None, [self.system_prompt, self.analysis_prompt]))


@frozen(kw_only=True)
class AgentOptions(Caller):
    """A request in words, for which a language model searches and reads pages."""

    kind: ClassVar[str] = "agent"
    #: Further instructions for the language model, without the prompt.
    instructions: ClassVar[str] = ""

    prompt: str = field(validator=min_len(1))
    #: Where to start.
    urls: tuple[str, ...] = field(validator=[max_len(MAX_AGENT_URLS), _texts])
    #: True fetches nothing but ``urls`` and redirects on their hosts.
    only_urls: bool = field(validator=_flag)
    #: The JSON Schema of the result; None for a text.
    schema: dict[str, Any] | None = field(validator=optional(instance_of(dict)))
    #: The run fails when it would cost more.
    max_credits: float = field(validator=gt(0))
    #: Any name; responses repeat it.
    model: str | None = field(validator=_text)
    #: Bounds pages and rounds; None is ``medium``.
    effort: str | None = field(validator=optional(in_(EFFORTS)))
    webhook: Webhook | None
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)

    @property
    def target(self) -> str:
        """The run in the list of a team's jobs: its first URL or its prompt."""
        return next(iter(self.urls), self.prompt)

    @property
    def page_formats(self) -> tuple[Format, ...]:
        """The formats of the pages that it reads."""
        if self.schema is None:
            return Markdown(), Links()
        return Markdown(), Links(), Json(prompt=self.prompt, schema=self.schema)


OperationOptionsT: TypeAlias = (
    ExtractOptions | AgentOptions | LlmsTextOptions | ResearchOptions
)

#: What an agent runs.
RunOptionsT: TypeAlias = AgentOptions | ResearchOptions
