"""Sitemap files as crawls and maps fetch and read them (interface document, 11.5)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from scrapy import Request

from scraper_service.discovery.sitemap import FETCH_TIMEOUT_S, MAX_BYTES, MAX_LEVELS
from scraper_service.items import PageError

if TYPE_CHECKING:
    from scrapy.http import Response

    from scraper_service.discovery.sitemap import SitemapContent
    from scraper_service.options.scrape import ScrapeOptions
    from spiders.base import PageSpider


@frozen(kw_only=True)
class SitemapReading:
    """What came of a sitemap file: ``error`` is None if it was read.

    ``nested`` are the addresses of further files, ``warnings`` name the file.
    """

    slices: tuple[Any, ...] = ()
    count: int = 0
    nested: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: PageError | None = None


def sitemap_request(
    url: str, options: ScrapeOptions, time_s: float, *, places: bool, **facts: Any
) -> Request:
    """Return the request for a sitemap file, which may take ``time_s``.

    That for the ``places`` is answered with a list of those that robots.txt names.
    ``facts`` are arguments of the request; its ``meta`` is added to ours.
    """
    meta = {
        "cookiejar": None,
        "deadline": time.monotonic() + time_s,
        "dont_merge_cookies": True,
        "download_maxsize": MAX_BYTES,
        "options": evolve(options, formats=(), timeout_ms=max(1, round(time_s * 1000))),
        "robots_only": places,
        "time_s": time_s,
        **facts.pop("meta"),
    }
    return Request(url, dont_filter=True, meta=meta, **facts)


async def read_sitemap(
    spider: PageSpider,
    response: Response,
    level: int,
    choice: Any,
    time_s: float = FETCH_TIMEOUT_S,
    **how: Any,
) -> SitemapReading:
    """Return what an answer lists, chosen by ``choice``, ``level`` files deep.

    ``how`` are further arguments of the pool's ``read_sitemap``.
    """
    if not 200 <= response.status < 300:
        text = f"HTTP status {response.status}"
        return SitemapReading(error=PageError("SITEMAP_ABSENT", text))
    source = spider.page_source(response, max_bytes=MAX_BYTES)
    content: SitemapContent = await spider.pool.read_sitemap(
        source, time_s, choice, **spider.owner(response), **how
    )
    nested = [url for url, _ in content.nested] if level < MAX_LEVELS else []
    warnings = [f"{response.url}: {text}" for text in content.warnings]
    if len(nested) < len(content.nested):
        text = f"sitemaps are nested more than {MAX_LEVELS} levels deep"
        warnings.append(f"{response.url}: {text}.")
    error = content.error
    return SitemapReading(
        slices=content.slices,
        count=content.count,
        nested=tuple(nested),
        warnings=tuple(warnings),
        error=None if error is None else PageError("SITEMAP_UNREADABLE", error),
    )
