"""Signs of life of a process, to the others that share its job database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.frontier import leases as frontier
from scraper_service.storage.politeness.pace import REFRESH_S, HostPace
from scraper_service.storage.politeness.team_limits import REFRESH_S as PLACES_S
from scraper_service.storage.politeness.team_limits import TeamPlaces
from scraper_service.storage.timeouts import end_half_sent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)


class Presence:
    """Signs of life of ``owner``, by which its leases last ``LEASE_S`` beyond the last.

    While it is open it gives back the leases of processes that are gone, and those of
    this one that no crawler of it has. It keeps one pace with the processes that live,
    and to the limits of teams together with them.
    """

    def __init__(self, settings: BaseSettings, database: Database, owner: str):
        self._settings = settings
        self._database = database
        self._owner = owner
        self._tasks: set[asyncio.Task[None]] = set()
        self._unknown: set[tuple[str, int, int]] = set()  # leases, at the last look

    async def open(self) -> None:
        """Show the first sign of life; raise what keeps the database from it."""
        await self._beat()
        self.go_on()

    def go_on(self) -> None:
        """Show further signs of life: the first one has been shown."""
        lease_s = self._settings.getfloat("LEASE_S")
        pace = HostPace.shared(self._settings)
        pace.connect(self._database, self._owner)
        places = TeamPlaces.shared()
        places.connect(self._database, self._owner)
        self.every(lease_s / 3, self._beat)
        self.every(lease_s / 3, self._reap)
        self.every(lease_s / 3, self._return_strays)
        self.every(REFRESH_S, pace.refresh)
        self.every(PLACES_S, places.refresh)

    def close(self) -> None:
        """End all that is repeated."""
        for task in self._tasks:
            task.cancel()

    def every(
        self,
        seconds: float,
        work: Callable[[], Awaitable[None]],
        wanted: asyncio.Event | None = None,
    ) -> None:
        """Repeat ``work`` until the end, with pauses that ``wanted`` cuts short.

        A database that does not answer, or an error, costs one turn.
        """
        task = asyncio.ensure_future(_repeat(seconds, work, wanted or asyncio.Event()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _beat(self) -> None:
        lease_s = self._settings.getfloat("LEASE_S")
        await self._database.write_apart(frontier.beat, self._owner, lease_s)

    async def _reap(self) -> None:
        if ended := await self._database.write_apart(end_half_sent):
            logger.warning("%d connections of a stopped process were ended", ended)
        await self._database.write(frontier.forget_workers)
        for job_id in await self._database.read(frontier.bereft_jobs):
            if returned := await self._database.write_locking(frontier.reap, job_id):
                logger.warning("%d addresses of a process that is gone", returned)

    async def _return_strays(self) -> None:
        """Give back what the database calls leased, and no crawler here has.

        As after an answer that was lost. A page may end between the two questions: only
        leases that were unknown twice in a row are given back.
        """
        leases = await self._database.read(frontier.leases_of, self._owner)
        unknown = {
            (job_id, row_id, token)
            for job_id, row_id, token in leases
            if not LeasedScheduler.holds(self._owner, job_id, (row_id, token))
        }
        strays, self._unknown = unknown & self._unknown, unknown
        by_job: dict[str, list[tuple[int, int]]] = {}
        for job_id, *lease in sorted(strays):
            by_job.setdefault(job_id, []).append((lease[0], lease[1]))
        for job_id, found in by_job.items():
            await self._database.write_locking(frontier.release, job_id, found)
            logger.warning("%d leases that no crawler had were returned", len(found))


async def _repeat(
    seconds: float, work: Callable[[], Awaitable[None]], wanted: asyncio.Event
) -> None:
    while True:
        try:
            await work()
        except ServiceUnavailable:
            pass  # logged where it was raised; the next turn tries again
        except Exception:
            logger.exception("a periodic task failed")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wanted.wait(), seconds)
        wanted.clear()
