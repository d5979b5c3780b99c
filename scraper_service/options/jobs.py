"""What each kind of work is asked to do: one class per spider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

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

from scraper_service.options.scrape import ScrapeOptions

MAX_BATCH_URLS = 100_000
MAX_DELAY_S = 60
MAX_MAP_LIMIT = 100_000  # addresses
MAX_SEARCH = 10_000  # characters
SITEMAP_MODES = ("include", "skip", "only")
# What a receiver of events gets that names none; the last has to be asked for.
COMMON_EVENTS = ("started", "page", "completed", "failed")
EVENTS = (*COMMON_EVENTS, "cancelled")

_INDEX_FILES = frozenset({"index.html", "index.php"})
_texts = deep_iterable(instance_of(str), instance_of(tuple))
_flag = instance_of(bool)


@frozen(kw_only=True)
class PageOptions:
    """One address and how to scrape it.

    ``url`` is the address as the caller wrote it, a missing scheme added. ``origin``,
    ``integration`` and ``audit_username`` say who asks, for the log only.
    """

    url: str = field(validator=instance_of(str))
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None


@frozen(kw_only=True)
class Webhook:
    """Where the events of a job are sent (interface document, 18.1).

    ``headers`` are added to each delivery, ``metadata`` (any JSON) is echoed in it.
    ``events`` are of :data:`EVENTS`, without the name of the kind of job.
    """

    url: str = field(validator=instance_of(str))
    headers: tuple[tuple[str, str], ...] = ()
    metadata: Mapping[str, Any] = field(factory=dict)
    events: tuple[str, ...] = field(
        default=COMMON_EVENTS,
        validator=deep_iterable(in_(EVENTS), instance_of(tuple)),
    )


@frozen(kw_only=True)
class CrawlOptions:
    """What a crawl may visit and how each page is scraped (interface document, 11).

    ``limit`` counts pages delivered or in work. ``max_discovery_depth`` counts links
    from the start, ``max_path_depth`` segments below its path; None is unlimited.
    ``delay_s`` is the pause between two pages, in seconds. The patterns are regular
    expressions, see :mod:`scraper_service.options.patterns`. ``prompt`` asks for
    options to be derived, ``dedupe_boilerplate`` for Markdown without what repeats over
    the pages of a site.
    """

    url: str = field(validator=instance_of(str))
    limit: int = field(validator=ge(1))
    max_discovery_depth: int | None = field(validator=optional(ge(0)))
    delay_s: float | None = field(validator=optional([gt(0), le(MAX_DELAY_S)]))
    max_concurrency: int | None = field(validator=optional(ge(1)))
    crawl_entire_domain: bool = field(validator=_flag)
    allow_subdomains: bool = field(validator=_flag)
    allow_external_links: bool = field(validator=_flag)
    include_paths: tuple[str, ...] = field(validator=_texts)
    exclude_paths: tuple[str, ...] = field(validator=_texts)
    regex_on_full_url: bool = field(validator=_flag)
    ignore_robots_txt: bool = field(validator=_flag)
    robots_user_agent: str | None = field(validator=optional(instance_of(str)))
    sitemap: str = field(validator=in_(SITEMAP_MODES))
    deduplicate_similar_urls: bool = field(validator=_flag)
    ignore_query_parameters: bool = field(validator=_flag)
    max_path_depth: int | None = field(validator=optional(ge(0)))
    prompt: str | None = field(validator=optional(instance_of(str)))
    dedupe_boilerplate: bool = field(default=False, validator=_flag)
    webhook: Webhook | None
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None


@frozen(kw_only=True)
class BatchOptions:
    """Addresses to scrape alike, each once per entry, in no particular order.

    ``dedupe_boilerplate`` is that of :class:`CrawlOptions`.
    """

    urls: tuple[str, ...] = field(
        validator=[min_len(1), max_len(MAX_BATCH_URLS), _texts]
    )
    max_concurrency: int | None = field(validator=optional(ge(1)))
    dedupe_boilerplate: bool = field(default=False, validator=_flag)
    webhook: Webhook | None
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None


@frozen(kw_only=True)
class MapOptions:
    """Which addresses of a site to list (interface document, 13).

    ``search`` are words by which they are ranked, empty for none. ``filter_by_path``
    leaves out what is not below the path of ``url``. ``scrape`` says how the start
    page and the sitemaps are fetched; its time-out is that of the whole map.
    """

    url: str = field(validator=instance_of(str))
    search: str = field(validator=max_len(MAX_SEARCH))
    limit: int = field(validator=[ge(1), le(MAX_MAP_LIMIT)])
    sitemap: str = field(validator=in_(SITEMAP_MODES))
    include_subdomains: bool = field(validator=_flag)
    ignore_query_parameters: bool = field(validator=_flag)
    filter_by_path: bool = field(validator=_flag)
    include_paths: tuple[str, ...] = field(validator=_texts)
    exclude_paths: tuple[str, ...] = field(validator=_texts)
    regex_on_full_url: bool = field(validator=_flag)
    scrape: ScrapeOptions
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None

    # What the rules of a crawl's scope read beside.
    allow_external_links: ClassVar[bool] = False
    max_discovery_depth: ClassVar[int | None] = None
    max_path_depth: ClassVar[int | None] = None

    @property
    def allow_subdomains(self) -> bool:
        return self.include_subdomains

    @property
    def crawl_entire_domain(self) -> bool:
        return not self.filter_by_path


def path_depth(url: str) -> int:
    """Return the number of path segments of ``url``, a final index file not counted."""
    return depth_of_path(urlsplit(url).path)


def depth_of_path(path: str) -> int:
    """Return the number of segments of ``path``, a final index file not counted."""
    segments = [part for part in path.split("/") if part]
    return len(segments) - bool(segments and segments[-1] in _INDEX_FILES)
