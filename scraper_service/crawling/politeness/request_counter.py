"""Counts the requests of a job by host, and stores them and its stats every second.

Several processes may run a job. Their counts add up in
:mod:`scraper_service.storage.request_counts`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.crawling import Component
from scraper_service.errors import ServiceUnavailable
from scraper_service.storage import request_counts
from scraper_service.storage.database import Database
from scraper_service.storage.request_counts import (
    KEPT_SECONDS,
    HostCounts,
    RobotsSeen,
    Share,
    Tallied,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.crawler import Crawler


# Sources of a delay.
DELAY = "delay"  # option of the caller
CRAWL_DELAY = "crawlDelay"  # robots.txt
RETRY_AFTER = "retryAfter"  # a 429 or 503 with a Retry-After
BACKOFF = "backoff"  # a 429 or 503 without a Retry-After
ADAPTIVE = "adaptive"  # the learnt gap of the host

MAX_STATS = 100  # of a crawler; stats of later names are left out
MAX_STAT_NAME = 200


class JobTally:
    """New counts of one job in this process: requests by host, robots.txt files, stats.

    Hosts are named by their pace keys.
    """

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self._process = secrets.token_hex(4)
        self._counts: defaultdict[str, HostCounts] = defaultdict(HostCounts)
        self._robots: dict[str, RobotsSeen] = {}
        self._stats: Counter[str] = Counter()  # as taken
        self._in_flight: Counter[str] = Counter()
        self._taken_at = int(clock())

    def add_wait(self, host: str, seconds: float) -> None:
        """Add the wait of a request for its host."""
        self._counts[host].wait_s += seconds

    def add_delay(self, host: str, source: str, seconds: float) -> None:
        """Count a delay of one request."""
        self._counts[host].add_delay(source, 1, seconds)

    def begin(self, host: str) -> None:
        """Count the start of a request."""
        self._counts[host].requests += 1
        self._in_flight[host] += 1
        self._note_share(host, int(self._clock()), 1)

    def count_response(
        self, host: str, answer: str, size: int, backoff: str | None
    ) -> None:
        """Count a response of ``size`` bytes, and the backoff that it caused."""
        counts = self._counts[host]
        counts.answers[answer] += 1
        counts.bytes += size
        if backoff is not None:
            counts.backoffs[backoff] += 1

    def end(self, host: str) -> None:
        """Count the end of a request."""
        self._in_flight[host] -= 1
        if not self._in_flight[host]:
            del self._in_flight[host]

    def robots(self, url: str, seen: RobotsSeen) -> None:
        """Note the content of the robots.txt at ``url``."""
        self._robots[url] = seen

    def take(self, stats: Mapping[str, Any] | None = None) -> Tallied:
        """Return the new counts since the last call, with the growth of Scrapy's ``stats``."""
        now = int(self._clock())
        # The peaks need the requests in flight of each second, also without a start.
        for host in self._in_flight:
            for second in range(max(self._taken_at, now - KEPT_SECONDS) + 1, now + 1):
                self._note_share(host, second)
        self._taken_at = now
        grown = {
            name: value - self._stats[name]
            for name, value in sums_of(stats or {}).items()
            if value != self._stats[name]
        }
        self._stats.update(grown)
        taken = Tallied(self._counts, self._robots, grown)
        self._counts, self._robots = defaultdict(HostCounts), {}
        return taken

    def put_back(self, tallied: Tallied) -> None:
        """Keep counts that could not be stored."""
        for name, counts in tallied.hosts.items():
            self._counts[name].add(counts)
        self._robots = {**tallied.robots, **self._robots}
        self._stats.subtract(tallied.stats)

    def _note_share(self, host: str, second: int, begun: int = 0) -> None:
        share = Share(begun, self._in_flight[host])
        self._counts[host].add_share(second, self._process, share)


def sums_of(stats: Mapping[str, Any]) -> dict[str, float]:
    """Return the first :data:`MAX_STATS` Scrapy stats that add up over crawlers.

    Texts, dates, the memory of the process and largest values do not.
    """
    sums = (
        (name, value)
        for name, value in stats.items()
        if isinstance(value, (int, float))
        and len(name) <= MAX_STAT_NAME
        and not name.startswith("memusage/")
        and not name.endswith("max")
    )
    return dict(islice(sums, MAX_STATS))


STORE_S = 1.0


class JobRecorder(Component):
    """An extension that stores the counts of the job ``JOB_ID``, and Scrapy's stats of it.

    Counts of all processes and restarts add up. A killed process loses the counts of its last
    :data:`STORE_S`. Counts wait while the database is unavailable.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, JobRecorder]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler):
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        if not self._job_id:
            raise NotConfigured  # with a reason it would be a warning at each start
        self.tally = JobTally()
        self._crawler = crawler
        self._database = Database.shared(crawler.settings)
        self._alone = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        type(self)._of[crawler] = self
        crawler.signals.connect(self._on_open, signals.spider_opened)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    @classmethod
    def find(cls, crawler: Crawler) -> JobRecorder | None:
        """Return the recorder of a crawler, None without a stored job."""
        return cls._of.get(crawler)

    @classmethod
    def tally_of(cls, crawler: Crawler) -> JobTally | None:
        """Return the tally of a crawler, None without a stored job."""
        recorder = cls.find(crawler)
        return recorder.tally if recorder else None

    async def store(self) -> None:
        """Store the new counts. They are kept if that fails.

        Cancelling the caller does not cancel the transaction.
        """
        await asyncio.shield(asyncio.ensure_future(self._store()))

    async def _store(self) -> None:
        async with self._alone:
            assert self._crawler.stats is not None
            if not (tallied := self.tally.take(self._crawler.stats.get_stats())):
                return
            try:
                await self._database.write(request_counts.record, self._job_id, tallied)
            except ServiceUnavailable:  # logged where it was raised
                self.tally.put_back(tallied)

    def _on_open(self) -> None:
        self._task = asyncio.ensure_future(self._store_often())

    async def _store_often(self) -> None:
        while True:
            await asyncio.sleep(STORE_S)
            await self.store()

    async def _on_close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.store()
