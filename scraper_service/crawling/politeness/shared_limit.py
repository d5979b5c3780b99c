"""What this process may have in flight at each host or of each team, of what all may.

A fair queue has what waits for a permit, with the timers that wake it. The limit of pages per
team holds over all jobs, scrapes and processes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from attrs import define, field

from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks, Singletons
from scraper_service.storage import politeness
from scraper_service.storage.politeness import Elsewhere, Need, equal_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scraper_service.shared_objects import ChangePoll
    from scraper_service.storage.database import Database
    from scraper_service.storage.politeness import Claimed


ItemT = TypeVar("ItemT")
CallLaterT: TypeAlias = "Callable[[float, Callable[[], object]], Timer]"
LOOK_S = 0.5  # between two looks at the other processes
ALONE_LOOK_S = 2.0  # the same, while no other process shares the database file
IDLE_S = 5.0  # without a start, before a process gives its part back
MOST_AT_ONCE = 500  # hosts or teams in one transaction
UNLIMITED = 1_000_000_000


class FairQueue(Generic[ItemT]):
    """Waiting items by owner. Owners alternate: the first owner comes next."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[ItemT]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[ItemT]:
        return iter([item for queue in self._queues.values() for item in queue])

    def count(self, owner: str) -> int:
        """Return the number of an owner's items."""
        return len(self._queues.get(owner, ()))

    def ahead_of(self, owner: str) -> int:
        """Return the number of items that come before a further item of ``owner``."""
        own = self.count(owner)
        others = (queue for name, queue in self._queues.items() if name != owner)
        return own + sum(min(len(queue), own + 1) for queue in others)

    def add(self, owner: str, item: ItemT) -> None:
        self._queues.setdefault(owner, deque()).append(item)

    def pop(self) -> ItemT:
        """Remove and return the next item. Its owner moves to the end."""
        owner, queue = next(iter(self._queues.items()))
        item = queue.popleft()
        del self._queues[owner]
        if queue:
            self._queues[owner] = queue
        return item

    def remove(self, owner: str, item: ItemT) -> None:
        """Remove an item, unless it is gone already."""
        queue = self._queues.get(owner)
        if queue is not None and item in queue:
            queue.remove(item)
            if not queue:
                del self._queues[owner]


class Timer(Protocol):
    """A timer, as returned by ``call_later`` of an event loop."""

    def cancel(self) -> None: ...


def call_later(seconds: float, function: Callable[[], object]) -> Timer:
    """Call ``function`` in the running event loop."""
    return asyncio.get_running_loop().call_later(seconds, function)


@define(eq=False, kw_only=True)
class Limited:
    """A host or a team: its limit, and what this process has of it."""

    name: str = ""
    #: What all processes together may have in flight.
    window: int = UNLIMITED
    in_flight: int = 0
    waiting: FairQueue[Any] = field(factory=FairQueue)
    #: Time of the last start.
    used_at: float = 0.0

    # State of :class:`SharedLimit`.
    permits: int = 0  # a start is allowed while fewer are in flight
    granted: int = 0  # what the other processes leave to this process
    may_ask: bool = True  # False after less than was needed, until the next look
    is_asking: bool = False

    @property
    def limit(self) -> int:
        """What may be in flight by the state of this process."""
        return self.window

    @property
    def needed(self) -> int:
        """What this process could have in flight."""
        return min(self.window, self.in_flight + len(self.waiting))


LimitedT = TypeVar("LimitedT", bound=Limited)


class SharedLimit(Generic[LimitedT]):
    """Divides the limit of each host, or of each team, among the processes of a database.

    A process that is alone with a host or team gets up to all of its limit. As soon as another
    process wants some, each gets equal parts, or as much as it needs. The parts never sum to
    more than the limit. A dead process loses its part together with its leases, so a process
    that was stopped for longer than its lease starts nothing before it has its part anew.

    On PostgreSQL each process asks from its start. On SQLite a process asks from the moment
    it sees another one, and a new process starts nothing until all others do.

    ``kind`` is that of the rows in the database. ``known`` has the hosts or teams of this
    process by name, and ``find`` adds one. ``dispatch`` is called when one may have more in
    flight. With ``counts`` other processes can read the number of running requests.
    """

    def __init__(
        self,
        kind: str,
        known: Mapping[str, LimitedT],
        find: Callable[[str], LimitedT],
        dispatch: Callable[[LimitedT], None],
        clock: Callable[[], float],
        *,
        counts: bool = False,
    ) -> None:
        self._kind = kind
        self._known = known
        self._find = find
        self._dispatch = dispatch
        self._clock = clock
        self._counts = counts
        self._database: Database | None = None
        self._owner = ""
        self._shares = False
        self._is_ready = True
        self._valid_until = 0.0  # all permits, by the lease of this process
        self._expiries = 0  # of all permits
        self._next_look = 0.0
        self.workers = 1  # live processes, with this one
        self._asked: list[LimitedT] = []
        self._asking: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()

    def connect(self, database: Database, owner: str) -> None:
        """Share with the other processes of ``database``.

        ``owner`` is the id of this process in the table of workers. Work with a limit waits
        for the first :meth:`look`.
        """
        self._database, self._owner = database, owner
        self._shares = database.engine.dialect.name != "sqlite"
        self._is_ready = False

    def may_have(self, each: LimitedT) -> int:
        """Return what may be in flight in this process."""
        if self._database is None or each.window >= UNLIMITED:
            return each.limit
        if not self._is_ready:
            return 0
        if not self._shares:
            return each.limit
        if self._clock() > self._valid_until:
            return 0
        return min(each.limit, each.permits)

    def want(self, each: LimitedT) -> None:
        """Request permits for waiting work, unless the last request failed to get all."""
        is_full = each.in_flight >= each.permits < each.window
        if self._shares and self._is_ready and is_full and each.may_ask:
            self._ask(each)

    def note_end(self, each: LimitedT) -> None:
        """Note the end of a request or page. Other processes may wait for its permit."""
        if each.granted > max(each.permits, each.in_flight):
            self._ask(each)

    def _ask(self, each: LimitedT) -> None:
        """Request the needed permits, together with all other requests of this moment."""
        if self._database is None or each.is_asking:
            return
        each.is_asking = True
        self._asked.append(each)
        if self._asking is None:
            self._asking = self._tasks.spawn(self._ask_all(self._database))

    async def _ask_all(self, database: Database) -> None:
        await asyncio.sleep(0)  # other limits are requested at this moment
        try:
            while wanted := self._asked[:MOST_AT_ONCE]:
                del self._asked[:MOST_AT_ONCE]
                with suppress(ServiceUnavailable):  # the next look asks again
                    await self._ask_for(database, wanted)
        finally:
            self._asking = None

    async def _ask_for(self, database: Database, wanted: Sequence[LimitedT]) -> None:
        needs = []
        for each in wanted:
            # Until the database responds, nothing starts beyond what is in flight.
            each.permits = min(each.permits, each.in_flight)
            needs.append(Need(each.name, each.window, each.needed, each.in_flight))
        expiries = self._expiries
        try:
            call = self._kind, self._owner, needs
            grants = await database.write(politeness.ask_for_permits, *call)
        finally:
            for each in wanted:
                each.is_asking = False
        for each, grant, need in zip(wanted, grants, needs, strict=True):
            each.granted = grant.granted
            if expiries != self._expiries:  # others may have the permits since
                self._ask(each)
                continue
            each.permits = grant.target
            each.may_ask = grant.target >= need.wanted
            self._dispatch(each)

    def is_look_due(self, poll: ChangePoll) -> bool:
        """Return True if a look at the other processes may find something new.

        A process that waits for the others has to see at once that they are ready.
        """
        if not self._is_ready:
            return True
        is_time = self._shares or self._clock() >= self._next_look
        return is_time and poll.is_due()

    async def look(self) -> None:
        """Look at the other processes. Called every :data:`LOOK_S`.

        Raises :exc:`ServiceUnavailable`.
        """
        if (database := self._database) is None:
            return
        looked_at = self._clock()
        self._next_look = looked_at + ALONE_LOOK_S
        found = await database.read(politeness.read_processes, self._kind, self._owner)
        self.workers = max(1, found.workers)
        has_lapsed = self._clock() > self._valid_until
        # Not longer than others count what it has: the heartbeat was earlier.
        self._valid_until = looked_at + found.lease_s
        # Permits from before all processes took part, or from before a pause, count no longer.
        is_first = self.workers > 1 and not self._shares
        is_anew = has_lapsed or is_first or not self._is_ready
        self._expiries += is_anew
        self._shares |= is_first
        if has_lapsed or not self._is_ready:
            self._is_ready = found.others_ask or not self._shares
        if self._shares:
            claims = {} if is_anew else found.claims
            for name in claims:
                self._find(name)  # if it was forgotten, its part is given back later
            for each in tuple(self._known.values()):
                self._compare(each, claims.get(each.name))
            if not found.is_marked:
                await self._mark(database)
        for each in tuple(self._known.values()):
            self._dispatch(each)

    async def _mark(self, database: Database) -> None:
        """Let others start, as soon as they see all that is in flight here."""
        if self._asking is not None:
            await self._asking
        if all(each.in_flight <= each.granted for each in self._known.values()):
            await database.write(politeness.mark_asking, self._kind, self._owner)

    def _compare(self, each: LimitedT, claims: Mapping[str, Claimed] | None) -> None:
        """Ask again for a part of a limit, if that would change it."""
        if each.is_asking:
            return
        if claims is None:
            each.permits = each.granted = 0
            each.may_ask = True
            if each.in_flight and (each.window < UNLIMITED or self.workers > 1):
                self._ask(each)  # for what waits, :meth:`want` asks
            return
        mine = claims[self._owner]
        others = [claim for owner, claim in claims.items() if owner != self._owner]
        granted = sum(claim.granted for claim in claims.values())
        each.granted = max(each.granted, mine.granted)  # a response may be lost
        need = each.needed
        fair, rest = equal_parts(each.window, [need, *(o.wanted for o in others)])
        most = fair + (rest > 0) if fair else 0  # below one each, they alternate
        lacks = need > mine.granted and (granted < each.window or not mine.waits)
        has_too_much = mine.granted > min(need, most) and any(o.waits for o in others)
        is_wide = granted > each.window and mine.granted > each.in_flight
        is_idle = not need and self._clock() - each.used_at > IDLE_S
        is_counted = self._counts and self.workers > 1
        is_old = is_counted and mine.in_use != each.in_flight
        if lacks or has_too_much or is_wide or is_idle or is_old:
            self._ask(each)


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
            await waiter.granted
        except asyncio.CancelledError:
            team.waiting.remove(owner, waiter)
            if waiter.granted.done() and not waiter.granted.cancelled():
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
            granted = team.waiting.pop().granted
            if not granted.done():  # else the waiting task was cancelled
                self._start(team)
                granted.set_result(None)
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
    granted: asyncio.Future[None]
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
