"""The places of one job among the pages that its team may have under way."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.storage.politeness.team_limits import TeamPlaces


class JobPlaces:
    """Takes a place for each page before it is asked for; the scheduler asks at once.

    ``nudge`` is called when it is worth to ask for the next page again.
    """

    def __init__(self, places: TeamPlaces, nudge: Callable[[], None]):
        self._places = places
        self._nudge = nudge
        self._team_id = ""
        self._job_id = ""
        self._rows: set[int] = set()  # that have a place
        self._next: asyncio.Task[bool] | None = None
        self._since: float | None = None

    def open(self, team_id: str, job_id: str) -> None:
        self._team_id, self._job_id = team_id, job_id

    def take(self) -> bool:
        """Take a place for the next page; if none is free, wait for one."""
        if self._next is not None:
            if not self._next.done():
                return False
            is_late, self._next = self._next.result(), None
            if not is_late:
                self._since = None
            return True
        self._since = None
        if self._places.enter(self._team_id):
            return True
        self._since = time.monotonic()
        waiting = self._places.wait(self._team_id, self._job_id)
        self._next = asyncio.ensure_future(waiting)
        self._next.add_done_callback(self._came)
        return False

    def _came(self, waited: asyncio.Task[bool]) -> None:
        if not waited.cancelled():
            self._nudge()

    def use(self, row_id: int) -> float | None:
        """Give the place that was taken to a page; return the seconds it waited.

        None where the limit of the team did not hold it up.
        """
        self._rows.add(row_id)
        return None if self._since is None else time.monotonic() - self._since

    def give_back(self) -> None:
        """Leave the place that was taken: no page is ready for it."""
        self._places.leave(self._team_id)

    def free(self, row_id: int) -> None:
        """Leave the place of a page that has ended, or waits for something else."""
        if row_id in self._rows:
            self._rows.remove(row_id)
            self._places.leave(self._team_id)

    def close(self) -> None:
        """Leave all places."""
        if self._next is not None and not self._next.cancel():
            self._next.result()
            self.give_back()
        self._next = None
        for row_id in tuple(self._rows):
            self.free(row_id)
