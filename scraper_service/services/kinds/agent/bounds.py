"""What a run of an agent may do, by its options: pages, rounds, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.options.crawl import BatchOptions
from scraper_service.options.scrape import PdfParser, SiteRules
from scraper_service.options.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.options.extraction import RunOptionsT
    from scraper_service.options.scrape import ScrapeOptions

RESULTS = 10  # of one search
MAPPED = 60  # URLs of one map
MOST_A_ROUND = 10  # pages
PDF_PAGES = 20  # of one file


@frozen
class RunBounds:
    """The most pages and rounds of a run, and when it ends at the latest."""

    pages: int
    #: Of an agent, actions; of deep research, searches with their pages.
    rounds: int
    #: A time of :func:`time.monotonic`.
    until: float
    #: The error of a run that goes on then. None: it writes from what it has read.
    late: str | None = None


class RunStopped(Exception):
    """Raised when a run fails. The text is for its caller, ``reason`` its stopReason."""

    def __init__(self, reason: str, text: str):
        self.reason = reason
        super().__init__(text)


def read_options(options: RunOptionsT) -> ScrapeOptions:
    """Return how the pages of a run are scraped."""
    formats: tuple[Any, ...] = options.page_formats
    parsers: tuple[Any, ...] = (PdfParser(max_pages=PDF_PAGES),)
    return evolve(options.scrape, formats=formats, parsers=parsers)


def batches(options: RunOptionsT, urls: Sequence[str]) -> Iterator[BatchOptions]:
    """Yield the batches of a round: one, or one per host if only these may be read."""
    scrape = read_options(options)
    if not options.only_urls:
        if urls:
            yield _batch(urls, scrape)
        return
    rules = scrape.site_rules or SiteRules()
    by_host: dict[str, list[str]] = {}
    for url in urls:
        by_host.setdefault(host_of(url), []).append(url)
    for host, own in by_host.items():
        yield _batch(own, evolve(scrape, site_rules=evolve(rules, only=(host,))))


def _batch(urls: Sequence[str], scrape: ScrapeOptions) -> BatchOptions:
    return BatchOptions(
        urls=tuple(urls), scrape=scrape, max_concurrency=None, webhook=None
    )
