"""Finds pages for operations by maps and searches."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from scraper_service.discovery.map_results import object_row
from scraper_service.errors import MapTimedOut
from scraper_service.options.map_search import (
    MAX_MAP_LIMIT,
    MAX_QUERY,
    MAX_SEARCH,
    MapOptions,
    SearchOptions,
)
from scraper_service.options.scrape import OVERALL_TIMEOUT_MS
from scraper_service.options.spider_arguments import MAP_DEFAULTS
from scraper_service.search_engines.web_search import Searches
from scraper_service.services.map_search import MapCrawler

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scraper_service.items import Hit
    from scraper_service.options.scrape import ScrapeOptions

MAP_TIMEOUT_S = 60.0


@frozen
class Listed:
    """The URLs of a site as JSON objects."""

    slices: tuple[bytes, ...] = ()
    #: Why there are none.
    error: str | None = None


@frozen(eq=False)
class Sources:
    """Finds pages for operations by maps and searches, which are not charged."""

    _maps: MapCrawler
    _searches: Searches

    async def search(
        self, query: str, limit: int, team_id: str
    ) -> tuple[list[str], str | None]:
        """Return the URLs of web results, the best first, and a warning or None.

        Raises the errors of :meth:`Searches.find`.
        """
        hits, warning = await self.results(query, limit, team_id)
        return [hit.url for hit in hits], warning

    async def results(
        self, query: str, limit: int, team_id: str
    ) -> tuple[Sequence[Hit], str | None]:
        """Return web results as :meth:`search`, with their titles."""
        text = query[:MAX_QUERY]
        options = SearchOptions(query=text, limit=limit)
        found = await self._searches.find(options, team_id)
        return found.groups["web"], " ".join(found.warnings) or None

    async def site(
        self,
        url: str,
        team_id: str,
        scrape: ScrapeOptions,
        until: float,
        *,
        limit: int,
        words: str = "",
        ignore_sitemap: bool = False,
        include_subdomains: bool = True,
    ) -> Listed:
        """Return the URLs of a site, at most ``limit``, the most relevant first.

        Relevance is by ``words``. ``until`` is a time of :func:`time.monotonic`. Raises
        the errors of :meth:`MapCrawler.find` except its timeout.
        """
        left_s = min(until - time.monotonic(), MAP_TIMEOUT_S)
        timeout_ms = min(max(1, round(left_s * 1000)), OVERALL_TIMEOUT_MS)
        wanted = {
            **MAP_DEFAULTS,
            "url": url,
            "search": words[:MAX_SEARCH],
            "limit": min(limit, MAX_MAP_LIMIT),
            "sitemap": "skip" if ignore_sitemap else "include",
            "include_subdomains": include_subdomains,
        }
        scrape = evolve(
            scrape,
            formats=(),
            actions=(),
            wait_for_ms=0,
            max_age_ms=0,
            min_age_ms=None,
            lockdown=False,
            proxy="basic",
            store_in_cache=False,
            timeout_ms=timeout_ms,
        )
        options = MapOptions(scrape=scrape, **wanted)
        call_id = str(uuid.uuid4())
        try:
            found = await self._maps.find(options, team_id, call_id, object_row)
        except MapTimedOut:
            return Listed(error="its map was not ready in time")
        if found.failure is not None:
            return Listed(error=found.failure.message)
        return Listed(found.slices)

    async def permitted_urls(
        self, urls: Sequence[str], *named: str
    ) -> tuple[list[str], str | None]:
        """Return the URLs that robots.txt allows, and a warning about the others.

        URLs in ``named`` came from the caller and are always kept.
        """
        found = set(await self._maps.permitted_urls(urls)) | set(named)
        kept = [url for url in urls if url in found]
        count = len(urls) - len(kept)
        return kept, f"robots.txt refuses {count} of its pages." if count else None


def with_written_start(urls: Iterable[str], start: str) -> list[str]:
    """Return the URLs of a map, with the start URL as the caller wrote it.

    A map drops its trailing slash, and some sites respond only with the slash.
    """
    bare = start.rstrip("/")
    return [start if url == bare else url for url in urls]
