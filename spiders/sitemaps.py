"""Fetches and reads the sitemap files of crawls and maps (docs/crawling.md, Sitemaps)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy import Request

from scraper_service.discovery.sitemap import (
    FETCH_TIMEOUT_S,
    MAX_BYTES,
    MAX_LEVELS,
    SitemapContent,
    absent,
)
from scraper_service.options.urls import request_url

if TYPE_CHECKING:
    from scrapy.http import Response

    from scraper_service.discovery.sitemap import ChoiceT
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.spiders.base import PageSpider


def sitemap_request(
    url: str, options: ScrapeOptions, time_s: float, *, places: bool, **facts: Any
) -> Request:
    """Return the request for a sitemap file, with a deadline in ``time_s`` seconds.

    With ``places``, the response is the list of sitemaps in robots.txt.
    ``facts`` are arguments of the request; their ``meta`` overrides the defaults.
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
    return Request(request_url(url), dont_filter=True, meta=meta, **facts)


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
        source, time_s, choice, **spider.owner(response)
    )
    warnings = content.warnings
    if content.nested and level >= MAX_LEVELS:
        text = f"sitemaps are nested more than {MAX_LEVELS} levels deep."
        content, warnings = evolve(content, nested=()), (*warnings, text)
    return evolve(content, warnings=tuple(f"{response.url}: {t}" for t in warnings))
