"""Which processes of the database are live, and what none of them takes."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from scraper_service.options.job_kinds import CHECKS, JOBS, LIMITS, OPERATIONS
from scraper_service.shared_objects import Poller
from scraper_service.storage.frontier import workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

# What waits while no process takes it.
WAITING = {
    JOBS: "crawls and batches",
    OPERATIONS: "extract, agent, deep research and llms.txt jobs",
    CHECKS: "checks of monitors",
}


class LiveWorkers(Poller):
    """Looks at the processes, and logs what begins and ceases to wait."""

    failure = "the live processes could not be read"

    def __init__(self, database: Database):
        self._database = database
        self._waiting: tuple[str, ...] = ()
        #: Live processes by kind, without those that end.
        self.counts: Mapping[str, int] = {}

    @property
    def warnings(self) -> list[str]:
        """A sentence for each kind of work that no process takes."""
        return [_warning(each) for each in self._waiting]

    async def do_due(self) -> None:
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
                logger.info("a process takes %s again", WAITING[each])


def _warning(each: str) -> str:
    return (
        f"No process runs {WAITING[each]}: they wait. Start `scraper-service worker`, or"
        f" set SCRAPER_{LIMITS[each]} above 0."
    )
