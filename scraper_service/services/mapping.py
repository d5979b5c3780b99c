"""Maps: lists of the URLs of a site, a bounded number at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.crawling.middlewares import page_ended
from scraper_service.crawling.page_errors import map_failure, map_warnings
from scraper_service.crawling.robots import RobotsPolicy
from scraper_service.errors import MapTimedOut, QueueFull, ServiceUnavailable, plural
from scraper_service.items import PageError
from scraper_service.services.resident_crawler import Resident
from scraper_service.storage.frontier import links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.discovery.map_results import ShapeT
    from scraper_service.items import KnownPage, MapFound
    from scraper_service.options.map_search import MapOptions
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
