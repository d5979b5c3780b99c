"""Which processes of the database are live, and what none of them takes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.frontier import workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

LOOK_S = 2.0
# By kind of work: what waits while no process takes it, and the setting that is 0.
WAITING = {
    workers.JOBS: ("crawls and batches", "MAX_RUNNING_JOBS"),
    workers.OPERATIONS: (
        "extract, agent, deep research and llms.txt jobs",
        "MAX_RUNNING_OPERATIONS",
    ),
    workers.CHECKS: ("checks of monitors", "MONITOR_CONCURRENCY"),
}


class LiveWorkers:
    """Looks at the processes every :data:`LOOK_S`, and logs what begins and ceases to wait."""

    def __init__(self, database: Database):
        self._database = database
        self._waiting: tuple[str, ...] = ()
        #: Live processes by kind, without those that end.
        self.counts: Mapping[str, int] = {}
        self._loop: asyncio.Task[None] | None = None

    @property
    def warnings(self) -> list[str]:
        """A sentence for each kind of work that no process takes."""
        return [_warning(each) for each in self._waiting]

    def open(self) -> None:
        """Start to look."""
        self._loop = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop to look."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except ServiceUnavailable:
                pass  # logged where it was raised
            except Exception:
                logger.exception("the live processes could not be read")
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        found = await self._database.read(workers.live_workers)
        self.counts = Counter(
            each.kind or "unknown" for each in found if not each.drains
        )
        before = self._waiting
        self._waiting = tuple(k for k in WAITING if not workers.takers(found, k))
        for each in self._waiting:
            if each not in before:
                logger.warning("%s", _warning(each))
        for each in before:
            if each not in self._waiting:
                logger.info("a process takes %s again", WAITING[each][0])


def _warning(each: str) -> str:
    what, setting = WAITING[each]
    return (
        f"No process runs {what}: they wait. Start `scraper-service worker`, or set"
        f" SCRAPER_{setting} above 0."
    )
