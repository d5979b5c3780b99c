"""How a map finds the addresses of a site (interface document, 13.2)."""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy.exceptions import IgnoreRequest

from scraper_service.discovery import MapScope, sitemap_key
from scraper_service.discovery.map_results import (
    KNOWN,
    LINKS,
    SITEMAPS,
    START,
    MapChoice,
    PlaceT,
    chosen_rows,
    known_rows,
    sitemap_rows,
    start_row,
    text_of,
)
from scraper_service.discovery.sitemap import FETCH_TIMEOUT_S, MAX_FILES, SLICE_ROWS
from scraper_service.discovery.sitemap_locations import (
    first_base,
    reads_sitemaps,
    sitemap_places,
    starts_with_sitemap,
)
from scraper_service.items import MapFound, PageContent
from spiders.gathered import Gathered, MapCall
from spiders.sitemaps import read_sitemap, sitemap_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy import Request
    from scrapy.http import Response

    from scraper_service.options.jobs import MapOptions
    from spiders.base import PageSpider

logger = logging.getLogger(__name__)

FILES_AT_ONCE = 4  # of one map, each up to 50 MiB
FETCH_SHARE = 0.5  # of the time of the map: no single answer may take more
MAX_WARNINGS = 5
QUEUED_AT_ONCE = 50  # files, in about a millisecond of the reactor's time
FEW = 1  # addresses
NOT_THERE = frozenset({404, 410})


class Finding:
    """One map being made; its tasks end with it."""

    def __init__(self, spider: PageSpider, options: MapOptions, call: MapCall):
        self._spider = spider
        self._options = options
        self._call = call
        self._scope = MapScope(options, first_base(options))
        self._rows = Gathered(spider, options, call)
        self._fetch_s = min(
            FETCH_TIMEOUT_S, FETCH_SHARE * (call.deadline - time.monotonic())
        )
        self._files: list[tuple[PlaceT, int, str]] = []  # a heap: place, level, address
        self._known_files: set[int] = set()
        self._left = MAX_FILES
        self._warnings: list[str] = []
        self._failures: list[tuple[str, BaseException]] = []

    async def run(self) -> MapFound:
        """Return what was found, however much of it failed."""
        links_count = self._options.sitemap != "only"
        async with asyncio.TaskGroup() as group:
            # First of all: it may move the map to another host.
            if links_count and not starts_with_sitemap(self._options):
                await self._read_start()
            if links_count and self._call.known is not None:
                group.create_task(self._take_known(self._call.known))
            if reads_sitemaps(self._options):
                await self._read_sitemaps()
        slices, count = await self._rows.answered()
        if count <= FEW:
            number = "1 address was" if count else "No address was"
            self._warnings.append(f"{number} found.")
        return MapFound(
            slices=slices,
            count=count,
            warnings=tuple(self._warnings[:MAX_WARNINGS]),
            failures=tuple(self._failures[:MAX_WARNINGS]),
        )

    # -- the start page --------------------------------------------------------------

    async def _read_start(self) -> None:
        url = self._options.url
        try:
            content = await self._start_page()
        except IgnoreRequest as refusal:
            self._failed("The start page", refusal)
            rules = self._spider.robots.known(url)
            if rules and rules.state == "ok" and rules.refusal(url, self._agents):
                await self._take_start([url, None, None])
        except Exception as error:
            self._failed("The start page", error)
        else:
            await self._take_page(content)

    @property
    def _agents(self) -> tuple[str, ...]:
        return self._spider.robots.agents()

    async def _start_page(self) -> PageContent:
        """Return the start page, or what it refreshes to."""
        request = self._spider.page_request(
            self._options.url,
            self._options.scrape,
            self._call.call_id,
            time.monotonic() + self._fetch_s,
            team_id=self._call.team_id,
        )
        request.meta["robots_agents"] = self._agents
        while True:
            response = await self._download(request)
            async for item in self._spider.parse(response):
                if isinstance(item, PageContent):
                    return item
                request = item

    async def _take_page(self, content: PageContent) -> None:
        fetch = content.fetch
        assert fetch is not None
        assert fetch.status is not None
        moved = self._scope.rebased(fetch.url)
        start = self._options.url if moved is self._scope else fetch.url
        self._scope = moved
        if content.error is not None:
            self._warnings.append(
                f"The start page could not be read: {content.error.message}."
            )
        if fetch.status >= 400:
            text = f"The start page answered with HTTP status {fetch.status}."
            self._warnings.append(text)
        else:
            known = content.known
            about = [text_of(known.get(name)) for name in ("title", "description")]
            await self._take_start([start, *about])
        choice = self._choice(LINKS)
        for first in range(0, len(content.found), SLICE_ROWS):
            found = content.found[first : first + SLICE_ROWS]
            part = [(url, None, None) for url in found]
            await self._rows.add(await self._rows.run(chosen_rows, part, choice))

    async def _take_start(self, facts: list[str | None]) -> None:
        await self._rows.add(
            await self._rows.run(start_row, facts, self._choice(START))
        )

    # -- sitemaps --------------------------------------------------------------------

    async def _read_sitemaps(self) -> None:
        """Read all files there are, some at a time, the first places first."""
        await self._find_places()
        running: set[asyncio.Task[None]] = set()
        try:
            while running or self._wanted():
                while len(running) < FILES_AT_ONCE and self._wanted():
                    self._left -= 1
                    file = heapq.heappop(self._files)
                    running.add(asyncio.ensure_future(self._read_file(*file)))
                done, running = await asyncio.wait(
                    running, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
        finally:
            for task in running:
                task.cancel()
        if self._files and not self._left:
            text = f"Only the first {MAX_FILES} sitemap files were read."
            self._warnings.append(text)

    def _wanted(self) -> bool:
        """Tell whether another file is to be read; forget those of no use."""
        last = self._rows.last
        if last is not None:
            self._files = [file for file in self._files if file[0] <= last]
            heapq.heapify(self._files)
        return bool(self._files) and self._left > 0

    async def _find_places(self) -> None:
        """Queue the files that robots.txt names and those that sites usually have."""
        from_sitemap = starts_with_sitemap(self._options)
        start = self._options.url if from_sitemap else self._scope.base.href
        declared: list[str] = []
        try:
            robots = self._request(urljoin(start, "/robots.txt"), places=True)
            declared = json.loads((await self._download(robots)).body)
        except Exception as error:
            self._failed("The robots.txt", error)
        self._declared = set(declared)
        await self._queue((SITEMAPS,), 1, sitemap_places(start, declared))

    async def _queue(self, place: PlaceT, level: int, urls: Sequence[str]) -> None:
        """Take note of further files, each once; those of other sites are left out."""
        for number, url in enumerate(urls):
            if number % QUEUED_AT_ONCE == QUEUED_AT_ONCE - 1:
                await asyncio.sleep(0)
            key = sitemap_key(url)
            if key not in self._known_files and not self._scope.foreign(url):
                self._known_files.add(key)
                heapq.heappush(self._files, ((*place, number), level, url))

    def _request(self, url: str, *, places: bool = False) -> Request:
        meta = {"scrape_id": str(uuid.uuid4()), "team_id": self._call.team_id}
        return sitemap_request(
            url, self._options.scrape, self._fetch_s, places=places, meta=meta
        )

    async def _read_file(self, place: PlaceT, level: int, url: str) -> None:
        choice = self._choice(*place)
        try:
            response = await self._download(self._request(url))
        except Exception as error:
            self._failed(f"The sitemap {url}", error)
            return
        found = await read_sitemap(
            self._spider, response, level, choice, self._fetch_s, read=sitemap_rows
        )
        await self._queue(place, level + 1, found.nested)
        if found.error is not None:
            why = found.error.message.removesuffix(".")
            self._log(f"The sitemap {url}", why, response.status not in NOT_THERE)
        # Most sites have nothing at the usual places, or a page for visitors.
        is_named = level > 1 or url in self._declared or url == self._options.url
        if found.error is not None and (is_named or 200 <= response.status < 300):
            text = f"The sitemap {url} could not be read: {why}."
            self._warnings.append(text)
        if is_named:
            self._warnings += found.warnings
        await self._rows.add(found)

    # -- what is known ---------------------------------------------------------------

    async def _take_known(self, known: AsyncIterator[Any]) -> None:
        choice = self._choice(KNOWN)
        async for pages in known:
            await self._rows.add(await self._rows.run(known_rows, pages, choice))

    # -- what went wrong -------------------------------------------------------------

    def _failed(self, name: str, cause: Exception) -> None:
        """Take note of what brought no answer."""
        self._failures.append((name, cause))
        why = str(cause) or type(cause).__name__
        self._log(name, why, not isinstance(cause, IgnoreRequest))

    def _log(self, name: str, why: str, is_loss: bool) -> None:
        """Log every failure: callers are told of the first ones, those of v1 of none."""
        level = logging.WARNING if is_loss else logging.INFO
        text = "map %s of %s: %s could not be read: %s"
        logger.log(level, text, self._call.call_id, self._options.url, name, why)

    def _choice(self, *place: int) -> MapChoice:
        base = self._scope.base.href
        return MapChoice(self._options, base, place, self._call.shape)

    async def _download(self, request: Request) -> Response:
        """Return the answer to a request, redirects followed; raise why there is none."""
        engine = self._spider.crawler.engine
        assert engine is not None
        return await engine.download_async(request)
