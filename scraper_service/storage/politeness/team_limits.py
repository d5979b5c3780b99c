"""How many pages of a team are under way at a time, over all jobs, scrapes, processes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, ClassVar, Self

from attrs import define, field

from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.politeness import share_rows
from scraper_service.storage.politeness.host_turns import CallLaterT, Timer, call_later

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from scraper_service.storage.database import Database

REFRESH_S = 1.0  # for limits that change, and places that other processes want
POLL_S = 0.2  # while all places are with other processes
MAX_TEAMS = 10_000  # that are remembered without need


class TeamPlaces:
    """Lets pages of teams start, in turn between their owners: jobs, single scrapes.

    A team without a limit needs no database and never waits. Of one with a limit,
    processes that :meth:`connect` take as many places as they need and share them in
    equal parts where that is too many; a process that is gone loses its own with its
    leases.
    """

    _shared: ClassVar[Self | None] = None

    def __init__(self, call_later: CallLaterT = call_later):
        self._call_later = call_later
        self._teams: dict[str, _Team] = {}
        self._limits: Mapping[str, int] = {}
        self._published: set[str] = set()
        self._database: Database | None = None
        self._owner = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def shared(cls) -> Self:
        """Return the places of this process, made on first use."""
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def connect(self, database: Database, owner: str) -> None:
        """Keep to the limits in ``database``, together with its other processes.

        ``owner`` is the id of this one in the table of workers.
        """
        self._database, self._owner = database, owner

    async def learn(self) -> None:
        """Have the limits of today before the first page of a job."""
        if self._database is not None:
            await self.refresh()

    def limit_to(self, team_id: str, limit: int | None) -> None:
        """Note the limit of a team; one that is known already is left as it is."""
        if team_id not in self._teams:
            self._team(team_id).limit = limit

    def in_use(self, team_id: str) -> int:
        """Return the pages of a team that this process has under way."""
        team = self._teams.get(team_id)
        return team.in_use if team else 0

    def waiting(self, team_id: str, owner: str) -> int:
        """Return how many pages of an owner wait for a place."""
        team = self._teams.get(team_id)
        return len(team.waiting.get(owner, ())) if team else 0

    def free(self, team_id: str) -> int:
        """Return the places that a team has, as far as this process knows."""
        team = self._teams.get(team_id)
        return max(0, team.limit - team.in_use) if team and team.limit else 0

    async def in_use_elsewhere(self, team_id: str) -> int:
        """Return the pages of a team that other processes have under way."""
        if self._database is None:
            return 0
        return await self._database.read(
            share_rows.in_use_elsewhere, team_id, self._owner
        )

    def enter(self, team_id: str) -> bool:
        """Take a place if one is free and nobody waits for it."""
        team = self._team(team_id)
        if team.waiting or not team.has_room:
            return False
        team.in_use += 1
        return True

    async def wait(self, team_id: str, owner: str) -> bool:
        """Wait for a place; tell whether the limit is what it waited for."""
        team = self._team(team_id)
        waiter = _Waiter(asyncio.get_running_loop().create_future(), team.is_full)
        team.waiting.setdefault(owner, deque()).append(waiter)
        self._dispatch(team)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            team.remove(owner, waiter)
            if waiter.turn.done() and not waiter.turn.cancelled():
                self.leave(team_id)  # it had its place, and does not use it
            raise
        return waiter.is_late

    def leave(self, team_id: str) -> None:
        """Give a place to the next one."""
        team = self._teams[team_id]
        team.in_use -= 1
        self._dispatch(team)
        if team.granted > max(team.target, team.in_use):
            self._ask_soon(team)  # somebody else wants it

    def _team(self, team_id: str) -> _Team:
        team = self._teams.get(team_id)
        if team is None:
            if len(self._teams) >= MAX_TEAMS:
                self._teams = {k: t for k, t in self._teams.items() if not t.is_idle}
            team = self._teams[team_id] = _Team(team_id, self._limits.get(team_id))
        return team

    def _dispatch(self, team: _Team) -> None:
        while team.waiting and team.has_room:
            turn = team.next().turn
            if not turn.done():  # else it was cancelled, and does not know yet
                team.in_use += 1
                turn.set_result(None)
        if team.waiting and team.limit is not None and team.target < team.limit:
            self._ask_soon(team)

    # -- other processes ---------------------------------------------------------------

    def _ask_soon(self, team: _Team) -> None:
        if self._database is not None and not team.is_asking and team.timer is None:
            team.is_asking = True
            self._spawn(self._ask(self._database, team))

    async def _ask(self, database: Database, team: _Team) -> None:
        wanted = team.in_use + team.count
        if team.limit is not None:
            wanted = min(wanted, team.limit)
        # Until the answer, no more than the database is told of now.
        team.target = min(team.target, team.in_use)
        try:
            team.limit, team.target, team.granted = await database.write_first(
                share_rows.ask, team.id, team.id, self._owner, wanted, team.in_use
            )
        except ServiceUnavailable:
            pass  # the next try follows
        finally:
            team.is_asking = False
        team.mark_late()
        if team.count and team.limit is not None and team.target < team.limit:
            team.timer = self._call_later(POLL_S, lambda: self._wake(team))
        self._dispatch(team)

    def _wake(self, team: _Team) -> None:
        team.timer = None
        self._dispatch(team)

    async def refresh(self) -> None:
        """Take over limits that changed, and give up places that others want.

        Every :data:`REFRESH_S`. Raises :exc:`ServiceUnavailable`.
        """
        assert self._database is not None
        found = await self._database.read(share_rows.read_limits)
        self._limits = found.by_team
        for team in tuple(self._teams.values()):
            team.limit = found.by_team.get(team.id)
            if team.limit is not None and not (team.is_idle and not team.granted):
                self._ask_soon(team)
            elif team.is_idle:
                del self._teams[team.id]
            self._dispatch(team)
        if found.workers > 1:
            await self._publish(self._database)

    async def _publish(self, database: Database) -> None:
        counts = {t.id: t.in_use for t in self._teams.values() if t.limit is None}
        told = {k: n for k, n in counts.items() if n or k in self._published}
        told |= dict.fromkeys(self._published - counts.keys() - self._limits.keys(), 0)
        self._published = {team_id for team_id, count in told.items() if count}
        if told:
            await database.write(share_rows.publish, self._owner, told)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@define(eq=False)
class _Waiter:
    turn: asyncio.Future[None]
    is_late: bool  # the limit keeps it waiting


@define(eq=False)
class _Team:
    """A team in this process, and who waits: by owner, the one to come next in front.

    Pages may start while ``in_use`` is below ``target``; ``granted`` is what the
    database says of this process.
    """

    id: str
    limit: int | None
    target: int = 0
    granted: int = 0
    in_use: int = 0
    waiting: dict[str, deque[_Waiter]] = field(factory=dict)
    is_asking: bool = False
    timer: Timer | None = None

    @property
    def has_room(self) -> bool:
        return self.limit is None or self.in_use < self.target

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.in_use >= self.limit

    @property
    def is_idle(self) -> bool:
        return not (self.in_use or self.waiting or self.is_asking)

    @property
    def count(self) -> int:
        """Pages that wait."""
        return sum(map(len, self.waiting.values()))

    def next(self) -> _Waiter:
        """Take out who comes next; its owner goes to the end."""
        owner, queue = next(iter(self.waiting.items()))
        waiter = queue.popleft()
        del self.waiting[owner]
        if queue:
            self.waiting[owner] = queue
        return waiter

    def remove(self, owner: str, waiter: _Waiter) -> None:
        queue = self.waiting.get(owner)
        if queue is None or waiter not in queue:
            return
        queue.remove(waiter)
        if not queue:
            del self.waiting[owner]

    def mark_late(self) -> None:
        """Note that who is left, beyond the places there are, has to wait."""
        free = max(0, self.target - self.in_use)
        waiters = [waiter for queue in self.waiting.values() for waiter in queue]
        for waiter in waiters[free:]:
            waiter.is_late = True
