"""List the URLs of a site (docs/api/map-and-search.md, Maps).

``scrapy crawl map -a url=https://example.org -O links.jsonl``
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import frozen
from scrapy.exceptions import IgnoreRequest

from scraper_service.content.page_status import WEB_PAGE
from scraper_service.crawling.page_state import FetchKind, PageState
from scraper_service.discovery.canonical_urls import sitemap_key
from scraper_service.discovery.map_results import (
    KNOWN,
    LINKS,
    SITEMAPS,
    START,
    MapChoice,
    OriginT,
    ShapeT,
    choose_rows,
    decode_rows,
    known_rows,
    merge_rows,
    object_row,
    order_rows,
    start_row,
    text_of,
)
from scraper_service.discovery.scope_rules import MapScope
from scraper_service.discovery.sitemap import (
    FETCH_TIMEOUT_S,
    MAX_FILES,
    SLICE_ROWS,
    first_base,
    reads_sitemaps,
    sitemap_candidates,
    starts_with_sitemap,
)
from scraper_service.errors import MapTimedOut
from scraper_service.items import KnownPage, MapFound, MapLink, PageContent
from scraper_service.options.limits import require_available
from scraper_service.options.spider_arguments import map_options
from scraper_service.options.urls import join_url, url_parts
from scraper_service.spiders.base import PageSpider, options_object
from scraper_service.spiders.sitemaps import (
    GUESSES,
    is_missing,
    is_usual,
    read_sitemap,
    sitemap_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Request
    from scrapy.http import Response

    from scraper_service.discovery.map_results import Rows, Slice
    from scraper_service.options.map_search import MapOptions

T = TypeVar("T")


@frozen(kw_only=True)
class MapCall:
    """The caller's part of a map request."""

    #: A time of :func:`time.monotonic`.
    deadline: float
    team_id: str | None = None
    #: The pages that crawls of the team have found, in slices.
    known: AsyncIterator[list[KnownPage]] | None = None
    #: An importable function that makes the JSON of a URL.
    shape: ShapeT = object_row
    #: The ID of the map in log lines.
    call_id: str = "map"


class Gathered:
    """The rows of a map so far, in bounded memory.

    From twice the limit of the map on, the converter pool merges the rows.
    """

    def __init__(self, spider: PageSpider, options: MapOptions, call: MapCall):
        self._pool = spider.pool
        self._options = options
        self._call = call
        self._slices: list[Slice] = []
        self._count = 0
        #: Rows after this origin cannot be part of the map; None if all rows can.
        self.last: OriginT | None = None

    async def add(self, rows: Rows) -> None:
        """Add the rows of one source."""
        self._slices += rows.slices
        self._count += rows.count
        if self._count < 2 * self._options.limit:
            return
        slices, self._slices, self._count = self._slices, [], 0
        merged = await self.run(merge_rows, slices, self._options)
        # A source adds its slices one after the other, so rows of an origin
        # keep their order.
        self._slices = [*merged.slices, *self._slices]
        self._count += merged.count
        if merged.count == self._options.limit and not self._options.search:
            origins = {self.last, merged.last} - {None}
            self.last = min(origin for origin in origins if origin is not None)

    async def ordered_urls(self) -> tuple[tuple[bytes, ...], int]:
        """Return the ordered URLs of the map as JSON, and their number."""
        return await self.run(order_rows, self._slices, self._options)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call a function in the pool and return its result.

        The timeout lies after the deadline of the map, which ends the call first.
        """
        left_s = self._call.deadline - time.monotonic()
        return await self._pool.run(
            function,
            *args,
            timeout_s=max(1, left_s + 1),
            team_id=self._call.team_id,
        )


logger = logging.getLogger(__name__)

FILES_AT_ONCE = 4  # sitemap files of one map; each has up to 50 MiB
FETCH_SHARE = 0.5  # the part of a map's time that a single response may take
MAX_WARNINGS = 5
QUEUED_AT_ONCE = 50  # files; they take about a millisecond of the reactor's time
FEW = 1  # a map with at most so many URLs gets a warning
NOT_THERE = frozenset({404, 410})  # statuses of missing sitemaps


class Finding:
    """Collects the URLs of one map; its tasks end with :meth:`run`."""

    def __init__(self, spider: PageSpider, options: MapOptions, call: MapCall):
        self._spider = spider
        self._options = options
        self._call = call
        self._scope = MapScope(options, first_base(options))
        self._rows = Gathered(spider, options, call)
        self._fetch_s = min(
            FETCH_TIMEOUT_S, FETCH_SHARE * (call.deadline - time.monotonic())
        )
        self._files: list[tuple[OriginT, int, str]] = []  # a heap: origin, level, URL
        self._known_files: set[int] = set()
        self._guessed: set[str] = set()
        self._left = MAX_FILES
        self._warnings: list[str] = []
        self._failures: list[tuple[str, BaseException]] = []

    async def run(self) -> MapFound:
        """Return the URLs found, even if some sources failed."""
        links_count = self._options.sitemap != "only"
        async with asyncio.TaskGroup() as group:
            # The start page comes first: a redirect may move the map to another host.
            if links_count and not starts_with_sitemap(self._options):
                await self._read_start()
            if links_count and self._call.known is not None:
                group.create_task(self._take_known(self._call.known))
            if reads_sitemaps(self._options):
                await self._read_sitemaps()
        slices, count = await self._rows.ordered_urls()
        if count <= FEW:
            number = "1 URL was" if count else "No URL was"
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
            self._note_failure("The start page", refusal)
            rules = self._spider.robots.find_cached(url)
            if rules and rules.state == "ok" and rules.refusal(url, self._agents):
                await self._take_start([url, None, None])
        except Exception as error:
            self._note_failure("The start page", error)
        else:
            await self._take_page(content)

    @property
    def _agents(self) -> tuple[str, ...]:
        return self._spider.robots.agents()

    async def _start_page(self) -> PageContent:
        """Return the start page, after its refreshes."""
        request = self._spider.page_request(
            self._options.url,
            self._options.scrape,
            self._call.call_id,
            time.monotonic() + self._fetch_s,
            team_id=self._call.team_id,
        )
        PageState.of(request).robots_agents = self._agents
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
        moved = self._scope.rebase(fetch.url)
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
            await self._rows.add(await self._rows.run(choose_rows, part, choice))

    async def _take_start(self, facts: list[str | None]) -> None:
        await self._rows.add(
            await self._rows.run(start_row, facts, self._choice(START))
        )

    # -- sitemaps --------------------------------------------------------------------

    async def _read_sitemaps(self) -> None:
        """Read all sitemap files in the order of their origins, some at a time."""
        await self._find_sitemaps()
        running: set[asyncio.Task[None]] = set()
        try:
            while running or self._needs_more():
                while len(running) < FILES_AT_ONCE and self._needs_more():
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

    def _needs_more(self) -> bool:
        """Return True if another file must be read; drop files without useful rows."""
        last = self._rows.last
        if last is not None:
            self._files = [file for file in self._files if file[0] <= last]
            heapq.heapify(self._files)
        return bool(self._files) and self._left > 0

    async def _find_sitemaps(self) -> None:
        """Queue the sitemaps of robots.txt and those at the usual URLs."""
        from_sitemap = starts_with_sitemap(self._options)
        start = self._options.url if from_sitemap else self._scope.base.href
        declared: list[str] = []
        try:
            url = join_url(start, "/robots.txt")
            robots = self._request(url, FetchKind.SITEMAP_URLS)
            found = json.loads((await self._download(robots)).body)
            declared = found["sitemaps"]
            if found["warning"]:
                self._warnings.append(found["warning"])
        except Exception as error:
            self._note_failure("The robots.txt", error)
        self._declared = set(declared)
        await self._queue((SITEMAPS,), 1, sitemap_candidates(start, declared))

    async def _queue(self, origin: OriginT, level: int, urls: Sequence[str]) -> None:
        """Queue each new file once; leave out files of hosts outside of the scope."""
        for number, url in enumerate(urls):
            if number % QUEUED_AT_ONCE == QUEUED_AT_ONCE - 1:
                await asyncio.sleep(0)
            key = sitemap_key(url)
            if key not in self._known_files and not self._scope.foreign(url):
                self._known_files.add(key)
                heapq.heappush(self._files, ((*origin, number), level, url))

    def _request(self, url: str, kind: FetchKind = FetchKind.SITEMAP) -> Request:
        return sitemap_request(
            url,
            self._options.scrape,
            self._fetch_s,
            kind,
            scrape_id=str(uuid.uuid4()),
            team_id=self._call.team_id,
        )

    async def _read_file(self, origin: OriginT, level: int, url: str) -> None:
        choice = self._choice(*origin)
        try:
            response = await self._download(self._request(url))
        except Exception as error:
            if url not in self._guessed:
                self._note_failure(f"The sitemap {url}", error)
            return
        found = await read_sitemap(self._spider, response, level, choice, self._fetch_s)
        nested = found.nested
        if is_missing(response, found):
            if url in self._guessed:
                GUESSES.note_missing(url)
                return
            is_own = url_parts(url).netloc == self._scope.base.host
            if level == 1 and is_own and is_usual(url) and not self._declared:
                nested = GUESSES.of_host(url)
                self._guessed.update(nested)
        await self._queue(origin, level + 1, nested)
        if found.error is None:
            await self._rows.add(found.rows)
        else:
            why = found.error.message.removesuffix(".")
            self._log(f"The sitemap {url}", why, response.status not in NOT_THERE)
        # Most sites have nothing at the usual URLs, or an HTML page.
        is_named = level > 1 or url in self._declared or url == self._options.url
        is_odd = 200 <= response.status < 300 and found.page != WEB_PAGE
        if found.error is not None and (is_named or is_odd):
            text = f"The sitemap {url} could not be read: {why}."
            self._warnings.append(text)
        if is_named:
            self._warnings += found.warnings

    # -- known pages -----------------------------------------------------------------

    async def _take_known(self, known: AsyncIterator[Any]) -> None:
        choice = self._choice(KNOWN)
        async for pages in known:
            await self._rows.add(await self._rows.run(known_rows, pages, choice))

    # -- failures --------------------------------------------------------------------

    def _note_failure(self, name: str, cause: Exception) -> None:
        """Record and log the failure of a source."""
        self._failures.append((name, cause))
        why = str(cause) or type(cause).__name__
        self._log(name, why, not isinstance(cause, IgnoreRequest))

    def _log(self, name: str, why: str, is_loss: bool) -> None:
        """Log a failure: v2 responses have only the first failures, v1 responses none."""
        level = logging.WARNING if is_loss else logging.INFO
        text = "map %s of %s: %s could not be read: %s"
        logger.log(level, text, self._call.call_id, self._options.url, name, why)

    def _choice(self, *origin: int) -> MapChoice:
        base = self._scope.base.href
        return MapChoice(self._options, base, origin, self._call.shape)

    async def _download(self, request: Request) -> Response:
        """Return the response to a request after redirects; raise its error."""
        engine = self._spider.crawler.engine
        assert engine is not None
        return await engine.download_async(request)


class MapSpider(PageSpider):
    """A spider that lists a site from sitemaps, its start page and known pages.

    The arguments are those of
    :func:`scraper_service.options.spider_arguments.map_options`.
    Alternatively, ``options`` is a
    :class:`~scraper_service.options.map_search.MapOptions`. A ``resident`` spider
    starts without a map; its owner calls :meth:`find`.
    """

    name = "map"
    find_links = True
    found: MapFound | None = None

    def __init__(
        self,
        *args: Any,
        resident: bool = False,
        **kwargs: Any,
    ):
        super().__init__(*args)
        self.options: MapOptions | None = None
        if not resident:
            self.options = options_object(kwargs) or map_options(kwargs)
        if self.options is not None:
            require_available(self.options.scrape)

    async def start(self) -> AsyncIterator[MapLink]:
        """Yield the URLs found; nothing if the spider is resident."""
        if self.options is None:
            return
        time_s = self.options.scrape.deadline_ms / 1000
        deadline = time.monotonic() + time_s
        try:
            async with asyncio.timeout(time_s):
                self.found = await self.find(self.options, deadline=deadline)
        except TimeoutError:
            self.logger.error("%s", MapTimedOut())
            return
        for warning in self.found.warnings:
            self.logger.warning("%s", warning)
        for name, cause in self.found.failures:
            self.logger.warning("%s: %s", name, str(cause) or type(cause).__name__)
        for part in self.found.slices:
            for row in decode_rows(part):
                yield MapLink(**row)

    async def find(self, options: MapOptions, **call: Any) -> MapFound:
        """Return the URLs of a site; cancelling the caller cancels all requests.

        ``call`` are the fields of :class:`~scraper_service.spiders.map.MapCall`. The
        caller enforces the deadline.
        """
        return await Finding(self, options, MapCall(**call)).run()
