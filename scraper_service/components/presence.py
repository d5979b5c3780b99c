"""Signs of life of a process, to the others that share its job database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.jobs import frontier
from scraper_service.jobs.pace import REFRESH_S, HostPace
from scraper_service.jobs.places import REFRESH_S as PLACES_S
from scraper_service.jobs.places import TeamPlaces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.settings import BaseSettings

    from scraper_service.jobs.database import Database

logger = logging.getLogger(__name__)


class Presence:
    """Signs of life of ``owner``, by which its leases last ``LEASE_S`` beyond the last.

    While it is open it gives back the leases of processes that are gone, and keeps one
    pace with those that live, and to the limits of teams together with them.
    """

    def __init__(self, settings: BaseSettings, database: Database, owner: str):
        self._settings = settings
        self._database = database
        self._owner = owner
        self._tasks: set[asyncio.Task[None]] = set()

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
        await self._database.write(frontier.forget_workers)
        for job_id in await self._database.read(frontier.bereft_jobs):
            if returned := await self._database.write_locking(frontier.reap, job_id):
                logger.warning("%d addresses of a process that is gone", returned)


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
