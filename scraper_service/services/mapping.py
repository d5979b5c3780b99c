"""Maps of sites for callers who wait, a bounded number at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.crawling.page_errors import map_failure, map_warnings
from scraper_service.crawling.robots import RobotsPolicy
from scraper_service.crawling.signals import page_ended
from scraper_service.errors import MapTimedOut, QueueFull, ServiceUnavailable
from scraper_service.items import PageError
from scraper_service.services.resident_crawler import Resident
from scraper_service.storage.frontier import known_urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.discovery.map_results import ShapeT
    from scraper_service.items import KnownPage, MapFound
    from scraper_service.options.jobs import MapOptions
    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

JUDGED_AT_ONCE = 50  # addresses by robots.txt, in about a millisecond of the reactor's


@frozen
class Map:
    """What a caller gets: ``slices`` as they were shaped, and the warnings.

    ``failure`` is None unless nothing is known of the site, for that reason. ``count``
    is the number of addresses.
    """

    slices: tuple[bytes, ...]
    count: int
    warnings: list[str]
    failure: PageError | None


class MapCrawler(Resident):
    """List sites, ``MAX_RUNNING_MAPS`` at a time; others wait for their turn."""

    def __init__(self, process: AsyncCrawlerProcess, database: Database):
        super().__init__(process, "map")
        self._database = database
        self._most = process.settings.getint("MAX_PENDING_MAPS")
        self._turns = asyncio.Semaphore(process.settings.getint("MAX_RUNNING_MAPS"))
        self._none_left = asyncio.Event()
        self._none_left.set()
        self.pending = 0  # running, or waiting for their turn

    async def drained(self) -> None:
        """Wait for the end of all maps."""
        await self._none_left.wait()

    async def find(
        self, options: MapOptions, team_id: str, call_id: str, shape: ShapeT
    ) -> Map:
        """Return a map; a caller that is cancelled ends the work.

        Raises :exc:`~scraper_service.errors.MapTimedOut`, :exc:`QueueFull`, and
        :exc:`ServiceUnavailable` while starting or stopping.
        """
        if not self.is_open:
            raise ServiceUnavailable("The service is starting or stopping.")
        if self.pending >= self._most:
            raise QueueFull(f"{self._most} maps are under way already.")
        deadline = time.monotonic() + options.scrape.deadline_ms / 1000
        self.pending += 1
        self._none_left.clear()
        try:
            found = await self._found(options, team_id, call_id, shape, deadline)
        finally:
            self.pending -= 1
            if not self.pending:
                self._none_left.set()
        failure = map_failure(found)
        if failure is not None and failure.code == "SCRAPE_TIMEOUT":
            raise MapTimedOut
        return Map(found.slices, found.count, map_warnings(found), failure)

    async def permitted(self, urls: Sequence[str]) -> list[str]:
        """Return those addresses that no robots.txt keeps us from."""
        policy = RobotsPolicy.shared(self._crawler.settings)
        agents = policy.agents()
        kept = []
        for number, url in enumerate(urls):
            if number % JUDGED_AT_ONCE == JUDGED_AT_ONCE - 1:
                await asyncio.sleep(0)
            rules = await policy.rules(self._crawler, url)
            if rules.refusal(url, agents) is None:
                kept.append(url)
        return kept

    async def _found(
        self,
        options: MapOptions,
        team_id: str,
        call_id: str,
        shape: ShapeT,
        deadline: float,
    ) -> MapFound:
        spider: Any = self._crawler.spider
        try:
            async with asyncio.timeout(deadline - time.monotonic()), self._turns:
                found: MapFound = await spider.find(
                    options,
                    call_id=call_id,
                    deadline=deadline,
                    team_id=team_id,
                    known=self._known(options, team_id),
                    shape=shape,
                )
        except TimeoutError:
            raise MapTimedOut from None
        finally:
            signals = self._crawler.signals
            signals.send_catch_log(page_ended, scrape_id=call_id)
        return found

    async def _known(
        self, options: MapOptions, team_id: str
    ) -> AsyncIterator[list[KnownPage]]:
        """Yield what the team's crawls of the site have found; a part if need be."""
        try:
            jobs = await self._database.read(known_urls.crawls_of, team_id, options.url)
            reading = known_urls.Reading(jobs)
            while pages := await self._database.read(reading.next):
                yield pages
        except ServiceUnavailable:
            logger.warning("a map goes without what is stored")
