"""Turns at a host with one page at a time and a pause between two pages.

The turns belong to the host: all jobs and processes share them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.connections import insist
from scraper_service.storage.politeness import hosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.crawling.politeness.fair_queue import CallLaterT
    from scraper_service.crawling.politeness.host_limits import Host
    from scraper_service.storage.database import Database

MAX_CRAWL_DELAY_S = 10.0  # the longest Crawl-delay of robots.txt that is kept
RETRY_S = 1.0  # while the database is unavailable


class Turns:
    """Grants one page of a host at a time, in the order of requests.

    The next turn begins after the pause, which starts at the end of the last page. With a
    database, turns hold over all its processes, by a row that one statement takes. A dead
    process loses its turn together with its leases.
    """

    def __init__(
        self,
        host: Callable[[str], Host],
        clock: Callable[[], float],
        call_later: CallLaterT,
    ):
        self._host = host
        self._clock = clock
        self._call_later = call_later
        self._database: Database | None = None
        self._owner = ""
        self._tasks = BackgroundTasks()

    def connect(self, database: Database, owner: str) -> None:
        """Share turns with other processes, see :meth:`HostPace.connect`."""
        self._database, self._owner = database, owner

    def set_crawl_delay(self, name: str, delay_s: float) -> None:
        """Set the Crawl-delay of a host, up to :data:`MAX_CRAWL_DELAY_S`."""
        self._host(name).crawl_delay_s = max(0.0, min(delay_s, MAX_CRAWL_DELAY_S))

    def crawl_delay_s(self, name: str) -> float:
        """Return the Crawl-delay of a host, 0 for none."""
        return self._host(name).crawl_delay_s

    async def take(self, name: str, delay_s: float) -> Turn:
        """Wait for a turn: the right to fetch one page of a host.

        Call :meth:`Turn.end` afterwards. The next turn begins ``delay_s`` later.
        """
        host = self._host(name)
        host.turns += 1
        try:
            await host.turn_lock.acquire()
        except BaseException:
            host.turns -= 1
            raise
        try:
            while (wait_s := await self._try(host, delay_s)) > 0:
                await self._sleep(wait_s)
        except BaseException:
            self._end(host, 0.0)
            raise
        return Turn(partial(self._end, host, delay_s))

    async def _try(self, host: Host, delay_s: float) -> float:
        """Return 0 if the turn was free, else the seconds until the next try."""
        if self._database is None:
            return host.turn_at - self._clock()
        try:
            return await self._database.write(
                hosts.take_turn, host.name, self._owner, delay_s
            )
        except ServiceUnavailable:
            return RETRY_S

    async def _sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self._call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def _end(self, host: Host, delay_s: float) -> None:
        host.turn_at = max(host.turn_at, self._clock() + delay_s)
        if self._database is None:
            _release(host)
        else:
            self._tasks.spawn(self._give_back(self._database, host, delay_s))

    async def _give_back(self, database: Database, host: Host, delay_s: float) -> None:
        """Give a turn back, however long the database is unavailable.

        Until then other processes wait, since this one lives.
        """
        give_back = partial(
            database.write, hosts.end_turn, host.name, self._owner, delay_s
        )
        try:
            await insist(give_back, lambda: True)
        finally:
            _release(host)


def _release(host: Host) -> None:
    host.turns -= 1
    host.turn_lock.release()


class Turn:
    """The right to fetch one page of a host, from :meth:`Turns.take`."""

    def __init__(self, end: Callable[[], None]):
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        """End the turn. Further calls have no effect."""
        if self._end is not None:
            end, self._end = self._end, None
            end()
