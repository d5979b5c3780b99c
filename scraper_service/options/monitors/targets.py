"""What a monitor looks at: the targets scrape, crawl and search.

Each kind has the same members beside its options: ``max_pages`` of a check, the ``scrape``
options of its pages and the ``job`` that fetches them (None for searches), ``fixed_urls``
(None if each check finds them), ``shown``, the members of a response that differ from the
request, and ``charges_itself``: its job pays, not the check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import evolve, field, frozen
from attrs.validators import ge, in_, le, max_len, min_len

from scraper_service.options.crawl import BatchOptions, CrawlOptions
from scraper_service.options.formats import (
    ChangeTracking,
    ComparedText,
    Format,
    Json,
    Markdown,
)
from scraper_service.options.monitors.compare import Compare
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.options.serialization import structured, unstructured

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TARGETS = 50
MAX_URLS = 1000  # of a target
MAX_QUERIES = 12
MAX_QUERY = 256  # characters
MAX_RESULTS = 50
MAX_DOMAINS = 50
#: Seconds of each ``searchWindow``.
WINDOWS: Mapping[str, int] = {
    "5m": 300,
    "15m": 900,
    "1h": 3600,
    "6h": 6 * 3600,
    "24h": 86_400,
    "7d": 7 * 86_400,
}
MODES = ("markdown", "json", "mixed")


@frozen(kw_only=True)
class ScrapeTarget:
    """URLs that are scraped."""

    type: ClassVar[str] = "scrape"
    charges_itself: ClassVar[bool] = False

    id: str
    urls: tuple[str, ...] = field(validator=[min_len(1), max_len(MAX_URLS)])
    scrape: ScrapeOptions
    #: What is compared: one of :data:`MODES`.
    mode: str = field(validator=in_(MODES))
    compare: Compare = field(factory=Compare)

    @property
    def max_pages(self) -> int:
        return len(self.urls)

    @property
    def fixed_urls(self) -> tuple[str, ...]:
        return self.urls

    def job(self) -> BatchOptions:
        return BatchOptions(
            urls=self.urls, scrape=self.scrape, max_concurrency=None, webhook=None
        )

    def shown(self) -> dict[str, Any]:
        return {"urls": list(self.urls)}


@frozen(kw_only=True)
class CrawlTarget:
    """A site that is crawled."""

    type: ClassVar[str] = "crawl"
    charges_itself: ClassVar[bool] = True
    fixed_urls: ClassVar[None] = None

    id: str
    crawl: CrawlOptions
    mode: str = field(validator=in_(MODES))
    compare: Compare = field(factory=Compare)

    @property
    def max_pages(self) -> int:
        return self.crawl.limit

    @property
    def scrape(self) -> ScrapeOptions:
        return self.crawl.scrape

    def job(self) -> CrawlOptions:
        return self.crawl

    def shown(self) -> dict[str, Any]:
        return {}


@frozen(kw_only=True)
class SearchTarget:
    """Queries whose new results are reported."""

    type: ClassVar[str] = "search"
    charges_itself: ClassVar[bool] = False
    scrape: ClassVar[None] = None
    fixed_urls: ClassVar[None] = None

    id: str
    queries: tuple[str, ...] = field(validator=[min_len(1), max_len(MAX_QUERIES)])
    window: str = field(default="24h", validator=in_(WINDOWS))
    #: Results of one check, over all queries.
    max_results: int = field(default=10, validator=[ge(1), le(MAX_RESULTS)])
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()

    @property
    def max_pages(self) -> int:
        return self.max_results

    def job(self) -> None:
        return None

    def shown(self) -> dict[str, Any]:
        return {
            "queries": list(self.queries),
            "searchWindow": self.window,
            "maxResults": self.max_results,
        }


TargetT: TypeAlias = ScrapeTarget | CrawlTarget | SearchTarget
TARGETS: Mapping[str, type[TargetT]] = {
    kind.type: kind for kind in (ScrapeTarget, CrawlTarget, SearchTarget)
}


def target_to_json(target: TargetT) -> dict[str, Any]:
    """Return a target as JSON values for :func:`target_from_json`."""
    return {"type": target.type, **unstructured(target)}


def target_from_json(value: Mapping[str, Any]) -> TargetT:
    """Return the target from the JSON values of :func:`target_to_json`."""
    values = dict(value)
    return structured(values, TARGETS[values.pop("type")])


def monitored_formats(given: tuple[Format, ...]) -> tuple[tuple[Format, ...], str]:
    """Return the formats of a monitored page, and the mode of its comparison.

    Markdown is always made. ``changeTracking`` stands for what is compared: its data come
    from the format ``json``, because a monitor compares with snapshots of its own. Raises
    :exc:`ValueError`.
    """
    tracking = next((f for f in given if isinstance(f, ChangeTracking)), None)
    formats = [f for f in given if not isinstance(f, ChangeTracking)]
    if not any(isinstance(f, Markdown) for f in formats):
        formats.append(Markdown())
    if tracking is None or "json" not in tracking.modes:
        return tuple(formats), "markdown"
    data = next((f for f in formats if isinstance(f, Json)), None)
    asked = (tracking.prompt, tracking.schema, tracking.selectors)
    if any(each is not None for each in asked):
        if data is None:
            prompt, schema, selectors = asked
            formats.append(Json(prompt=prompt, schema=schema, selectors=selectors))
        elif (data.prompt, data.schema, data.selectors) != asked:
            raise ValueError(
                "changeTracking and json must have the same schema, prompt and selectors,"
                " or one of them none: a page has one json"
            )
    elif data is None:
        raise ValueError(
            "changeTracking with the mode json needs a schema, a prompt, selectors, or the format json"
            " beside it"
        )
    return tuple(formats), "mixed" if "git-diff" in tracking.modes else "json"


def with_compared_text(scrape: ScrapeOptions, compare: Compare) -> ScrapeOptions:
    """Return the options of a monitored page that also make the parts to compare."""
    if not compare.selects:
        return scrape
    parts = ComparedText(compare.include_selectors, compare.exclude_selectors)
    formats: Any = (*scrape.formats, parts)
    return evolve(scrape, formats=formats)
