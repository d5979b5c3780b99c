"""Single scrapes: the place among the pages of the team, then the page."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from scraper_service.errors import QueueFull
from scraper_service.services.resident_crawler import failed_page
from scraper_service.storage.politeness.team_limits import TeamPlaces

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.items import Page, Upload
    from scraper_service.options.jobs import PageOptions
    from scraper_service.services.accounts import Team
    from scraper_service.services.resident_crawler import ResidentCrawler

OWNER = "scrape"  # all scrapes of a team together take turns with each of its jobs


class Scrapes:
    """Fetches single pages, as many of a team at a time as it may have under way."""

    def __init__(self, resident: ResidentCrawler, settings: BaseSettings):
        self.places = TeamPlaces.shared()
        self._resident = resident
        self._most = settings.getint("MAX_QUEUED_SCRAPES")
        self._under_way: Counter[str] = Counter()

    def under_way(self, team_id: str) -> int:
        """Return the scrapes of a team that have a place, of this process."""
        return self._under_way[team_id]

    def waiting(self, team_id: str) -> int:
        """Return the scrapes of a team that wait for one."""
        return self.places.waiting(team_id, OWNER)

    async def fetch(
        self,
        options: PageOptions,
        team: Team,
        scrape_id: str,
        upload: Upload | None = None,
    ) -> Page:
        """Return the page, fetched or failed; never later than its deadline.

        Raises :exc:`QueueFull` where ``MAX_QUEUED_SCRAPES`` wait, and what
        :meth:`ResidentCrawler.fetch` raises.
        """
        began = time.monotonic()
        deadline = began + options.scrape.deadline_ms / 1000
        self.places.limit_to(team.id, team.concurrency)
        queued_s = None
        if not self.places.enter(team.id):
            if self.waiting(team.id) - self.places.free(team.id) >= self._most:
                raise QueueFull(f"{self._most} scrapes of this team wait already.")
            try:
                async with asyncio.timeout(deadline - began):
                    is_late = await self.places.wait(team.id, OWNER)
            except TimeoutError:
                message = (
                    "The page waited until its timeout: the team had as many under way"
                    " as it may have. A longer timeout may help."
                )
                code = "CONCURRENCY_QUEUE_TIMEOUT"
                return failed_page(options, scrape_id, code, message)
            queued_s = time.monotonic() - began if is_late else None
        self._under_way[team.id] += 1
        try:
            return await self._resident.fetch(
                options,
                team.id,
                scrape_id,
                deadline,
                queued_s,
                team.key_id or team.id,
                upload,
            )
        finally:
            self._under_way -= Counter({team.id: 1})  # which forgets those with none
            self.places.leave(team.id)
