"""The limit of pages in flight per team, over all jobs, scrapes and processes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from attrs import define, field

from scraper_service.crawling.politeness.fair_queue import FairQueue
from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks, Singletons
from scraper_service.storage.politeness import team_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.storage.database import Database

REFRESH_S = 1.0  # between two reads of changed limits
POLL_S = 0.2  # while other processes have all permits


class TeamPermits:
    """Limits the pages in flight per team, fairly between jobs and single scrapes.

    A team without a limit needs no database and never waits. Connected processes share a
    limit: each takes as many permits as it needs, and all get equal parts if there are too
    few. A dead process loses its permits together with its leases. So a process starts no page
    of a team with a limit after its lease has ended, until it has its permits anew.

    ``clock`` returns seconds.
    """

    _instances: ClassVar[Singletons[TeamPermits]] = Singletons()

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._valid_until = 0.0  # all permits, by the lease of this process
        self._lapses = 0
        self._teams: dict[str, _Team] = {}
        self._limits: Mapping[str, int] = {}
        self._processes: Mapping[str, int] = {}
        self._database: Database | None = None
        self._owner = ""
        self._tasks = BackgroundTasks()

    @classmethod
    def shared(cls) -> TeamPermits:
        """Return the limits of this process, created by the first call."""
        return cls._instances.get(cls, cls)

    def connect(self, database: Database, owner: str) -> None:
        """Share the limits in ``database`` with its other processes.

        ``owner`` is the id of this process in the table of workers.
        """
        self._database, self._owner = database, owner

    def limit_to(self, team_id: str, limit: int | None) -> None:
        """Set the limit of a team that is new to this process."""
        if team_id not in self._teams:
            self._team(team_id).limit = limit

    def in_use(self, team_id: str) -> int:
        """Return the team's pages in flight in this process."""
        team = self._teams.get(team_id)
        return team.in_use if team else 0

    def waiting(self, team_id: str, owner: str) -> int:
        """Return the number of an owner's pages that wait for a permit."""
        team = self._teams.get(team_id)
        return team.waiting.count(owner) if team else 0

    def free(self, team_id: str) -> int:
        """Return the free permits of a team by the state of this process."""
        team = self._teams.get(team_id)
        return max(0, team.limit - team.in_use) if team and team.limit else 0

    def processes_of(self, team_id: str) -> int:
        """Return in how many processes a team has pages in flight, at least 1."""
        return self._processes.get(team_id, 1)

    async def in_use_elsewhere(self, team_id: str) -> int:
        """Return the team's pages in flight in other processes."""
        if self._database is None:
            return 0
        return await self._database.read(
            team_limits.in_use_elsewhere, team_id, self._owner
        )

    def enter(self, team_id: str) -> bool:
        """Take a permit if one is free and no other page waits."""
        team = self._team(team_id)
        if team.waiting or not self._has_room(team):
            return False
        team.in_use += 1
        return True

    async def wait(self, team_id: str, owner: str) -> bool:
        """Wait for a permit. Return True if the limit caused the wait."""
        team = self._team(team_id)
        is_late = team.limit is not None and team.in_use >= team.limit
        waiter = _Waiter(asyncio.get_running_loop().create_future(), is_late)
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
        team.in_use -= 1
        self._dispatch(team)
        if team.granted > max(team.target, team.in_use):
            self._ask_soon(team)  # other processes may need the permit

    def _team(self, team_id: str) -> _Team:
        team = self._teams.get(team_id)
        if team is None:
            team = self._teams[team_id] = _Team(team_id, self._limits.get(team_id))
        return team

    def _has_room(self, team: _Team) -> bool:
        if team.limit is None:
            return True
        return team.in_use < team.target and self._clock() <= self._valid_until

    def _dispatch(self, team: _Team) -> None:
        while team.waiting and self._has_room(team):
            turn = team.waiting.pop().turn
            if not turn.done():  # else the waiting task was cancelled
                team.in_use += 1
                turn.set_result(None)
        if team.waiting and team.limit is not None and team.target < team.limit:
            self._ask_soon(team)

    # -- other processes ---------------------------------------------------------------

    def _ask_soon(self, team: _Team) -> None:
        if self._database is not None and not team.is_asking and team.timer is None:
            team.is_asking = True
            self._tasks.spawn(self._ask(self._database, team))

    async def _ask(self, database: Database, team: _Team) -> None:
        wanted = team.in_use + len(team.waiting)
        if team.limit is not None:
            wanted = min(wanted, team.limit)
        # Until the database responds, start no page beyond those in flight.
        team.target = min(team.target, team.in_use)
        lapses = self._lapses
        try:
            grant = await database.write_first(
                team_limits.ask, team.id, team.id, self._owner, wanted, team.in_use
            )
            team.limit, team.granted = grant.limit, grant.granted
            if lapses == self._lapses:  # else others may have the permits since
                team.target = grant.target
        except ServiceUnavailable:
            pass  # the next try follows
        finally:
            team.is_asking = False
        for waiter in list(team.waiting)[max(0, team.target - team.in_use) :]:
            waiter.is_late = True
        if team.waiting and team.limit is not None and team.target < team.limit:
            loop = asyncio.get_running_loop()
            team.timer = loop.call_later(POLL_S, self._wake, team)
        self._dispatch(team)

    def _wake(self, team: _Team) -> None:
        team.timer = None
        self._dispatch(team)

    async def refresh(self) -> None:
        """Apply changed limits, and return permits that other processes need.

        Called before the first page of a job, and every :data:`REFRESH_S`. Other processes
        also learn how many pages of a team without a limit run here. Raises
        :exc:`ServiceUnavailable`.
        """
        if self._database is None:
            return
        looked_at = self._clock()
        found = await self._database.read(team_limits.read_limits, self._owner)
        self._limits, self._processes = found.by_team, found.processes
        has_lapsed = self._clock() > self._valid_until
        self._lapses += has_lapsed
        # Not longer than others count its permits: the last heartbeat was earlier.
        self._valid_until = looked_at + found.lease_s
        for team in tuple(self._teams.values()):
            if has_lapsed:
                team.target = 0
            team.limit = found.by_team.get(team.id)
            if team.is_idle and not team.granted:
                del self._teams[team.id]
            elif team.limit is not None or team.granted or found.workers > 1:
                self._ask_soon(team)
            self._dispatch(team)


@define(eq=False)
class _Waiter:
    turn: asyncio.Future[None]
    is_late: bool  # True if the limit causes the wait


@define(eq=False)
class _Team:
    """A team in this process, with its waiting pages."""

    id: str
    limit: int | None
    #: Pages may start while ``in_use`` is below.
    target: int = 0
    #: Permits that the database grants to this process.
    granted: int = 0
    in_use: int = 0
    waiting: FairQueue[_Waiter] = field(factory=FairQueue)
    is_asking: bool = False
    timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return not (self.in_use or self.waiting or self.is_asking)


class JobPermits:
    """The permits of one job. Takes a permit before each page, without blocking.

    ``nudge`` is called when the scheduler should try the next page again.
    """

    def __init__(self, permits: TeamPermits, nudge: Callable[[], None]):
        self._permits = permits
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
