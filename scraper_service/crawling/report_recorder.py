"""What a job asks of its hosts, counted while it runs and stored every second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Self
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.errors import ServiceUnavailable
from scraper_service.options.origins import origin, robots_url
from scraper_service.storage.database import Database
from scraper_service.storage.politeness import tally_rows
from scraper_service.storage.politeness.tally import JobTally, RobotsSeen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

    from scraper_service.crawling.robots_fetch import RobotsAnswer

STORE_S = 1.0


class JobRecorder:
    """An extension that keeps the counts of the job ``JOB_ID`` in the database.

    Those of all processes and of their restarts add up. A process that is killed loses
    what it counted in its last :data:`STORE_S`; one that stops loses nothing. While the
    database does not answer, the counts wait.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, JobRecorder]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler):
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        if not self._job_id:
            raise NotConfigured  # with a reason it would be a warning at each start
        self.tally = JobTally()
        self._database = Database.shared(crawler.settings)
        self._alone = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        type(self)._of[crawler] = self
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @classmethod
    def find(cls, crawler: Crawler) -> JobRecorder | None:
        """Return the recorder of a crawler, None if it works on no stored job."""
        return cls._of.get(crawler)

    @classmethod
    def tally_of(cls, crawler: Crawler) -> JobTally | None:
        """Return where the requests of a crawler are counted, None for nowhere."""
        recorder = cls.find(crawler)
        return recorder.tally if recorder else None

    def note_robots(
        self, url: str, answer: RobotsAnswer, agents: Sequence[str]
    ) -> None:
        """Note what the robots.txt of the site of ``url`` means to ``agents``.

        Without agents it was only read for its sitemaps.
        """
        seen = RobotsSeen(
            state=answer.state,
            detail=answer.detail,
            agent=answer.agent(agents) if agents else None,
            crawl_delay_s=answer.group(agents).crawl_delay_s if agents else None,
        )
        self.tally.robots(robots_url(origin(url)), seen)

    async def store(self) -> None:
        """Store what was counted since the last time; it is kept if that fails.

        A caller that goes away interrupts nothing.
        """
        await asyncio.shield(asyncio.ensure_future(self._store()))

    async def _store(self) -> None:
        async with self._alone:
            if not (tallied := self.tally.take()):
                return
            try:
                await self._database.write_locking(
                    tally_rows.record, self._job_id, tallied
                )
            except ServiceUnavailable:  # logged where it was raised
                self.tally.put_back(tallied)

    def _opened(self) -> None:
        self._task = asyncio.ensure_future(self._store_often())

    async def _store_often(self) -> None:
        while True:
            await asyncio.sleep(STORE_S)
            await self.store()

    async def _closed(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.store()
