"""The limit of pages in flight per team, over all jobs, scrapes and processes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from attrs import define

from scraper_service.crawling.politeness.shared_limit import (
    UNLIMITED,
    Limited,
    SharedLimit,
)
from scraper_service.shared_objects import Singletons
from scraper_service.storage import politeness
from scraper_service.storage.politeness import Elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.storage.database import Database

REFRESH_S = 1.0  # between two reads of changed limits
NOWHERE = Elsewhere(processes=0, pages=0)


class TeamPermits:
    """Limits the pages in flight per team, fairly between jobs and single scrapes.

    A team without a limit never waits. Processes that :meth:`connect` share the limits by
    ``shared_limit``. ``clock`` returns seconds.
    """

    _instances: ClassVar[Singletons[TeamPermits]] = Singletons()

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._teams: dict[str, Limited] = {}
        self._limits: Mapping[str, int] = {}
        self._elsewhere: Mapping[str, Elsewhere] = {}
        self.shared_limit = SharedLimit(
            politeness.TEAM,
            self._teams,
            self._team,
            self._dispatch,
            clock,
            counts=True,
        )
        self._database: Database | None = None
        self._owner = ""

    @classmethod
    def shared(cls) -> TeamPermits:
        """Return the limits of this process, created by the first call."""
        return cls._instances.get(cls, cls)

    def connect(self, database: Database, owner: str) -> None:
        """Share the limits in ``database`` with its other processes.

        ``owner`` is the id of this process in the table of workers.
        """
        self._database, self._owner = database, owner
        self.shared_limit.connect(database, owner)

    def limit_to(self, team_id: str, limit: int | None) -> None:
        """Set the limit of a team that is new to this process."""
        if team_id not in self._teams:
            self._team(team_id).window = limit or UNLIMITED

    def in_use(self, team_id: str) -> int:
        """Return the team's pages in flight in this process."""
        team = self._teams.get(team_id)
        return team.in_flight if team else 0

    def waiting(self, team_id: str, owner: str) -> int:
        """Return the number of an owner's pages that wait for a permit."""
        team = self._teams.get(team_id)
        return team.waiting.count(owner) if team else 0

    def free(self, team_id: str) -> int:
        """Return the free permits of a team by the state of this process."""
        team = self._teams.get(team_id)
        return max(0, team.window - team.in_flight) if team else 0

    def processes_of(self, team_id: str) -> int:
        """Return in how many processes a team has pages in flight, with this process."""
        return 1 + self._elsewhere.get(team_id, NOWHERE).processes

    def in_use_elsewhere(self, team_id: str) -> int:
        """Return the team's pages in flight in other processes, as of a second ago."""
        return self._elsewhere.get(team_id, NOWHERE).pages

    def enter(self, team_id: str) -> bool:
        """Take a permit if one is free and no other page waits."""
        team = self._team(team_id)
        if team.waiting or not self._has_room(team):
            return False
        self._start(team)
        return True

    async def wait(self, team_id: str, owner: str) -> bool:
        """Wait for a permit. Return True if the limit caused the wait."""
        team = self._team(team_id)
        waiter = _Waiter(asyncio.get_running_loop().create_future())
        team.waiting.add(owner, waiter)
        self._dispatch(team)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            team.waiting.remove(owner, waiter)
            if waiter.turn.done() and not waiter.turn.cancelled():
                self.leave(team_id)  # return the granted permit unused
            raise
        return waiter.is_late

    def leave(self, team_id: str) -> None:
        """Return a permit, and grant it to the next page."""
        team = self._teams[team_id]
        team.in_flight -= 1
        self._dispatch(team)
        self.shared_limit.note_end(team)

    def _team(self, team_id: str) -> Limited:
        team = self._teams.get(team_id)
        if team is None:
            window = self._limits.get(team_id, UNLIMITED)
            team = self._teams[team_id] = Limited(name=team_id, window=window)
        return team

    def _has_room(self, team: Limited) -> bool:
        return team.in_flight < self.shared_limit.may_have(team)

    def _start(self, team: Limited) -> None:
        team.in_flight += 1
        team.used_at = self._clock()

    def _dispatch(self, team: Limited) -> None:
        while team.waiting and self._has_room(team):
            turn = team.waiting.pop().turn
            if not turn.done():  # else the waiting task was cancelled
                self._start(team)
                turn.set_result(None)
        if not team.waiting:
            return
        self.shared_limit.want(team)
        if team.in_flight >= team.window or not team.may_ask:
            for waiter in team.waiting:
                waiter.is_late = True

    async def refresh(self) -> None:
        """Apply changed limits, look at pages of other processes, and forget idle teams.

        Called before the first page of a job, and every :data:`REFRESH_S`. Raises
        :exc:`ServiceUnavailable`.
        """
        if self._database is None:
            return
        found = await self._database.read(politeness.read_teams, self._owner)
        self._limits, self._elsewhere = found
        for team in tuple(self._teams.values()):
            team.window = self._limits.get(team.name, UNLIMITED)
            if not (team.in_flight or team.waiting or team.granted or team.is_asking):
                del self._teams[team.name]
            self._dispatch(team)


@define(eq=False)
class _Waiter:
    turn: asyncio.Future[None]
    is_late: bool = False  # True if the limit causes the wait


class JobPermits:
    """The permits of one job. Takes a permit before each page, without blocking.

    ``nudge`` is called when the scheduler should try the next page again.
    """

    def __init__(self, teams: TeamPermits, nudge: Callable[[], None]):
        self._permits = teams
        self._nudge = nudge
        self._team_id = ""
        self._job_id = ""
        self._rows: set[int] = set()  # rows with a permit
        self._next: asyncio.Task[float | None] | None = None
        self._waited_s: float | None = None  # of the next page

    def open(self, team_id: str, job_id: str) -> None:
        self._team_id, self._job_id = team_id, job_id

    def take(self) -> bool:
        """Take a permit for the next page. If none is free, start waiting for one."""
        if self._next is None:
            self._waited_s = None
            if self._permits.enter(self._team_id):
                return True
            self._next = asyncio.ensure_future(self._wait())
            return False
        if not self._next.done():
            return False
        self._waited_s, self._next = self._next.result(), None
        return True

    async def _wait(self) -> float | None:
        began = time.monotonic()
        is_late = await self._permits.wait(self._team_id, self._job_id)
        self._nudge()
        return time.monotonic() - began if is_late else None

    def use(self, row_id: int) -> float | None:
        """Assign the permit to a page. Return the seconds that the page waited.

        None if the limit of the team caused no wait.
        """
        self._rows.add(row_id)
        return self._waited_s

    def give_back(self) -> None:
        """Return the permit, since no page is ready."""
        self._permits.leave(self._team_id)

    def free(self, row_id: int) -> None:
        """Return the permit of a page that has ended, or that waits for something else."""
        if row_id in self._rows:
            self._rows.remove(row_id)
            self._permits.leave(self._team_id)

    def give_up(self) -> None:
        """Return the permit for a next page, or stop waiting for it: there is no such page."""
        if self._next is not None and not self._next.cancel():
            self._next.result()
            self.give_back()
        self._next = None

    def close(self) -> None:
        """Return all permits."""
        self.give_up()
        for row_id in tuple(self._rows):
            self.free(row_id)
