"""Maps of sites, the pages of search results, and both as sources of other jobs."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import define, evolve, field, frozen

from scraper_service.content.search import category_of
from scraper_service.crawling.middlewares import page_ended
from scraper_service.crawling.page_errors import map_failure, map_warnings
from scraper_service.crawling.robots import RobotsPolicy
from scraper_service.discovery.map_results import object_row
from scraper_service.errors import (
    DiskQuotaExceeded,
    MapTimedOut,
    OutOfCredits,
    QueueFull,
    ServiceUnavailable,
    plural,
)
from scraper_service.items import Hit, Page, PageError
from scraper_service.options.jobs import PageOptions
from scraper_service.options.map_search import (
    MAX_MAP_LIMIT,
    MAX_QUERY,
    MAX_SEARCH,
    MapOptions,
    SearchOptions,
)
from scraper_service.options.scrape import OVERALL_TIMEOUT_MS
from scraper_service.options.spider_arguments import MAP_DEFAULTS
from scraper_service.options.urls import caller_url
from scraper_service.search_engines.web_search import Searches
from scraper_service.services.accounts import Team
from scraper_service.services.resident_crawler import Resident, failed_page
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.frontier import links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.discovery.map_results import ShapeT
    from scraper_service.items import KnownPage, MapFound
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.search_engines.web_search import SearchOutcome
    from scraper_service.storage.database import Database


logger = logging.getLogger(__name__)

JUDGED_AT_ONCE = 50  # URLs matched to robots.txt in a row: about 1 ms on the reactor


@frozen
class Map:
    """The URLs of a site."""

    #: The id of the call.
    id: str
    #: URLs as JSON, in the form that the caller's ``shape`` gives them.
    slices: tuple[bytes, ...]
    #: The number of URLs.
    count: int
    warnings: list[str]
    #: Why there are no URLs; None if there are any.
    failure: PageError | None


class MapCrawler(Resident):
    """Maps sites, ``MAX_RUNNING_MAPS`` at a time. Further maps wait."""

    def __init__(self, process: AsyncCrawlerProcess, database: Database):
        super().__init__(process, "map")
        self._database = database
        self._most = process.settings.getint("MAX_PENDING_MAPS")
        self._turns = asyncio.Semaphore(process.settings.getint("MAX_RUNNING_MAPS"))
        self.pending = 0  # maps that run or wait

    async def find(
        self, options: MapOptions, team_id: str, call_id: str, shape: ShapeT
    ) -> Map:
        """Return a map. Cancelling the caller ends the work.

        Raises :exc:`~scraper_service.errors.MapTimedOut`, :exc:`QueueFull`, and during
        start and shutdown :exc:`ServiceUnavailable`.
        """
        if not self.is_open:
            raise ServiceUnavailable("The service is starting or stopping.")
        if self.pending >= self._most:
            raise QueueFull(f"Already under way: {plural(self._most, 'map')}.")
        deadline = time.monotonic() + options.scrape.deadline_ms / 1000
        self.pending += 1
        try:
            found = await self._run_map(options, team_id, call_id, shape, deadline)
        finally:
            self.pending -= 1
        failure = map_failure(found)
        if failure is not None and failure.code == "SCRAPE_TIMEOUT":
            raise MapTimedOut
        return Map(call_id, found.slices, found.count, map_warnings(found), failure)

    async def permitted_urls(self, urls: Sequence[str]) -> list[str]:
        """Return the URLs that robots.txt allows."""
        policy = RobotsPolicy.shared(self.crawler.settings)
        agents = policy.agents()
        kept = []
        for number, url in enumerate(urls):
            if number % JUDGED_AT_ONCE == JUDGED_AT_ONCE - 1:
                await asyncio.sleep(0)
            rules = await policy.rules(self.crawler, url)
            if rules.refusal(url, agents) is None:
                kept.append(url)
        return kept

    async def _run_map(
        self,
        options: MapOptions,
        team_id: str,
        call_id: str,
        shape: ShapeT,
        deadline: float,
    ) -> MapFound:
        spider: Any = self.crawler.spider
        try:
            async with asyncio.timeout(deadline - time.monotonic()), self._turns:
                found: MapFound = await spider.find(
                    options,
                    call_id=call_id,
                    deadline=deadline,
                    team_id=team_id,
                    known=self._known_pages(options, team_id),
                    shape=shape,
                )
        except TimeoutError:
            raise MapTimedOut from None
        finally:
            signals = self.crawler.signals
            signals.send_catch_log(page_ended, scrape_id=call_id)
        return found

    async def _known_pages(
        self, options: MapOptions, team_id: str
    ) -> AsyncIterator[list[KnownPage]]:
        """Yield the URLs that the team's crawls of the site have found.

        Yields fewer while the database is unavailable.
        """
        try:
            jobs = await self._database.read(links.crawls_of, team_id, options.url)
            reading = links.KnownUrlReader(jobs)
            while pages := await self._database.read(reading.next):
                yield pages
        except ServiceUnavailable:
            logger.warning(
                "a map does without stored URLs: the database is unavailable"
            )


# -- pages of search results -----------------------------------------------------------

PAGES_AT_ONCE = 16  # of one search
IMAGES = "images"  # results of this kind are never scraped

ScrapeT: TypeAlias = "Callable[[PageOptions, Team, int, str], Awaitable[Page]]"


@frozen
class Result:
    """A search result."""

    hit: Hit
    #: The rank of the result, from 1.
    position: int
    category: str | None = None
    #: None if only the list of results was requested.
    page: Page | None = None


@frozen
class SearchAnswer:
    """The results of a search."""

    id: str
    #: Results by kind of source.
    groups: Mapping[str, tuple[Result, ...]]
    warnings: tuple[str, ...]
    #: Credits for the search and its pages.
    credits_used: int
    #: Ids of pages that are scraped in the background, by kind; else None.
    scrape_ids: Mapping[str, tuple[str, ...]] | None = None
    #: True if the pages were scraped.
    is_scraped: bool = field(default=False)


@define(eq=False)
class ResultPages:
    """Scrapes the results of one search, until its deadline."""

    _in_background: ClassVar[BackgroundTasks] = BackgroundTasks()

    _scrape: ScrapeT
    _options: SearchOptions
    _team: Team
    _version: int
    _deadline: float
    _turns: asyncio.Semaphore = field(
        init=False, factory=partial(asyncio.Semaphore, PAGES_AT_ONCE)
    )

    async def answer(
        self, search_id: str, found: SearchOutcome, price: int
    ) -> SearchAnswer:
        """Return the results, with their pages if the options ask for them."""
        groups = {
            kind: tuple(
                Result(hit, n, category_of(hit.url, self._options.categories))
                for n, hit in enumerate(hits, 1)
            )
            for kind, hits in found.groups.items()
        }
        answer = SearchAnswer(search_id, groups, found.warnings, price)
        scrape = self._options.scrape
        if scrape is None or not scrape.formats:
            return answer
        if self._options.in_background:
            return evolve(answer, scrape_ids=self._begin(groups, scrape))
        kinds = [kind for kind in groups if kind != IMAGES]
        scraped = await asyncio.gather(
            *(self._scrape_results(groups[kind], scrape) for kind in kinds)
        )
        groups |= zip(kinds, scraped, strict=True)
        pages = [each.page for results in groups.values() for each in results]
        total = price + sum(page.metadata.credits_used for page in pages if page)
        return evolve(answer, groups=groups, credits_used=total, is_scraped=True)

    async def _scrape_results(
        self, results: tuple[Result, ...], scrape: ScrapeOptions
    ) -> tuple[Result, ...]:
        ids = [str(uuid.uuid4()) for _ in results]
        pages = await asyncio.gather(
            *(
                self._page(result.hit.url, scrape, scrape_id, self._deadline)
                for result, scrape_id in zip(results, ids, strict=True)
            )
        )
        return tuple(
            evolve(result, page=page)
            for result, page in zip(results, pages, strict=True)
        )

    def _begin(
        self, groups: Mapping[str, tuple[Result, ...]], scrape: ScrapeOptions
    ) -> dict[str, tuple[str, ...]]:
        """Scrape the pages in the background; return their ids."""
        ids = {}
        for kind, results in groups.items():
            if kind == IMAGES:
                continue
            ids[kind] = tuple(str(uuid.uuid4()) for _ in results)
            for result, scrape_id in zip(results, ids[kind], strict=True):
                self._in_background.spawn(
                    self._in_own_time(result.hit.url, scrape, scrape_id)
                )
        return ids

    async def _in_own_time(
        self, url: str, scrape: ScrapeOptions, scrape_id: str
    ) -> None:
        deadline = time.monotonic() + scrape.deadline_ms / 1000
        page = await self._page(url, scrape, scrape_id, deadline)
        if page.failure is not None:
            logger.info("a result of a search failed: %s", page.failure.message)

    async def _page(
        self, url: str, scrape: ScrapeOptions, scrape_id: str, deadline: float
    ) -> Page:
        """Return the page of a result; a failed page if it cannot be fetched."""
        options = PageOptions(
            url=url,
            scrape=scrape,
            origin=self._options.origin,
            integration=self._options.integration,
            audit_username=self._options.audit_username,
        )
        try:
            options = evolve(options, url=caller_url(url))
            async with self._turns, asyncio.timeout(deadline - time.monotonic()):
                return await self._scrape(options, self._team, self._version, scrape_id)
        except TimeoutError:
            text = "The page was not ready within the timeout of the search."
            return failed_page(options, scrape_id, "SCRAPE_TIMEOUT", text)
        except OutOfCredits as error:
            code, text = "INSUFFICIENT_CREDITS", str(error)
        except DiskQuotaExceeded as error:
            code, text = "DISK_QUOTA_EXCEEDED", str(error)
        except QueueFull as error:
            code, text = "CONCURRENCY_QUEUE_TIMEOUT", str(error)
        except (ValueError, ServiceUnavailable) as error:
            code, text = "BAD_REQUEST", str(error)
        return failed_page(options, scrape_id, code, text)


# -- pages for other jobs ---------------------------------------------------------------

MAP_TIMEOUT_S = 60.0


@frozen
class Listed:
    """The URLs of a site as JSON objects."""

    slices: tuple[bytes, ...] = ()
    #: Why there are none.
    error: str | None = None


@frozen(eq=False)
class Sources:
    """Finds pages for model jobs by maps and searches, which are not charged."""

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
