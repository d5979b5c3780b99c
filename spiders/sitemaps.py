"""Fetches and reads the sitemap files of crawls and maps (docs/how-to/crawling.md, Sitemaps)."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy import Request

from scraper_service.crawling.page_state import STATE, FetchKind, PageState
from scraper_service.discovery.sitemap import (
    FETCH_TIMEOUT_S,
    MAX_BYTES,
    MAX_LEVELS,
    SitemapContent,
    absent,
)
from scraper_service.options.urls import join_url, request_url, url_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from scraper_service.discovery.sitemap import ChoiceT
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.spiders.base import PageSpider


USUAL_PATH = "/sitemap.xml"
#: Other names of the sitemap of a host, tried if it has none at the usual path.
OTHER_PATHS = (
    *("/sitemap_index.xml", "/sitemap-index.xml", "/wp-sitemap.xml"),
    *("/sitemap.xml.gz", "/sitemap.txt"),
)
REMEMBER_S = 86_400.0  # that there is no sitemap at a URL
MAX_REMEMBERED = 20_000  # URLs


class SitemapGuesses:
    """The guessed URLs of sitemaps where hosts have none, for all jobs of a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._missing: OrderedDict[str, float] = OrderedDict()  # until when

    def of_host(self, url: str) -> tuple[str, ...]:
        """Return the guesses for the host of ``url`` that are not known to be missing."""
        now = self._clock()
        guesses = (join_url(url, path) for path in OTHER_PATHS)
        return tuple(each for each in guesses if self._missing.get(each, 0) <= now)

    def note_missing(self, url: str) -> None:
        """Remember for :data:`REMEMBER_S` that there is no sitemap at ``url``."""
        self._missing[url] = self._clock() + REMEMBER_S
        self._missing.move_to_end(url)
        if len(self._missing) > MAX_REMEMBERED:
            self._missing.popitem(last=False)


GUESSES = SitemapGuesses()


def is_usual(url: str) -> bool:
    """Return True for the usual URL of the sitemap of a host."""
    return url_parts(url)[2:4] == (USUAL_PATH, "")


def is_guess(url: str) -> bool:
    """Return True for the other URLs at which the sitemap of a host is guessed."""
    path, query = url_parts(url)[2:4]
    return path in OTHER_PATHS and not query


def is_missing(response: Response, found: SitemapContent) -> bool:
    """Return True if a site has no sitemap where it sent ``response``.

    Some sites send a page for each path instead of a 404.
    """
    return not found.is_sitemap or response.status in {400, 401, 403, 404, 406, 410}


def sitemap_request(
    url: str,
    options: ScrapeOptions,
    time_s: float,
    kind: FetchKind,
    callback: Callable[..., Any] | None = None,
    errback: Callable[..., Any] | None = None,
    **facts: Any,
) -> Request:
    """Return the request for a sitemap file, with a deadline in ``time_s`` seconds.

    ``facts`` are further fields of its :class:`~scraper_service.crawling.page_state.PageState`.
    """
    state = PageState(
        options=evolve(options, formats=(), timeout_ms=max(1, round(time_s * 1000))),
        source_url=url,
        deadline=time.monotonic() + time_s,
        time_s=time_s,
        kind=kind,
        **facts,
    )
    return Request(
        request_url(url),
        callback=callback,
        errback=errback,
        dont_filter=True,
        meta={
            STATE: state,
            "cookiejar": None,
            "dont_merge_cookies": True,
            "download_maxsize": MAX_BYTES,
        },
    )


async def read_sitemap(
    spider: PageSpider,
    response: Response,
    level: int,
    choice: ChoiceT,
    time_s: float = FETCH_TIMEOUT_S,
) -> SitemapContent:
    """Return the content of a sitemap response, with warnings that name the file.

    ``level`` is the nesting level of the file. ``choice`` makes the rows.
    """
    if not 200 <= response.status < 300:
        return SitemapContent(error=absent(response.status))
    source = spider.page_source(response, max_bytes=MAX_BYTES)
    content: SitemapContent = await spider.pool.read_sitemap(
        source, time_s, choice, **spider.owner(PageState.of(response))
    )
    warnings = content.warnings
    if content.nested and level >= MAX_LEVELS:
        text = f"sitemaps are nested more than {MAX_LEVELS} levels deep."
        content, warnings = evolve(content, nested=()), (*warnings, text)
    return evolve(content, warnings=tuple(f"{response.url}: {t}" for t in warnings))
