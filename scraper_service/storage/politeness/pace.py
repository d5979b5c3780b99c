"""The one pace per host: over all jobs and scrapes of a process, and over processes."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import define, field

from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.politeness import host_rows
from scraper_service.storage.politeness.host_turns import (
    CallLaterT,
    Timer,
    Turns,
    call_later,
)
from scraper_service.storage.politeness.hosts import BUSY, Host, HostReport, SharedHost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database

REFRESH_S = 2.0  # what other processes tell is at most that old
MAX_HOSTS = 10_000  # that are remembered without need
ANY_NUMBER = 1_000_000
QUEUED_S = 10.0  # of requests of one job that wait for the gap of their host


class HostBusy(TimeoutError):
    """The turn of a request would come after its deadline.

    ``opens_at`` is when it is worth to ask again, by the clock of the pace.
    """

    def __init__(self, name: str, opens_at: float):
        super().__init__(f"{name} takes no further request in time")
        self.opens_at = opens_at


class HostPace:
    """Lets requests start: so many at once, so far apart, fair between their owners.

    Every request takes a :meth:`slot` of its host, at once and without a database
    where the host is idle. A page that wants a pause between pages takes one of
    ``turns`` before. A host starts with ``ceiling`` requests in flight, and slows down
    by its answers: see :class:`Host`. With ``ramps`` a host that nothing is known of
    starts with one request. Processes that :meth:`connect` share the ceiling
    in equal parts, the starts of a host with a gap one by one, and what they learn
    within :data:`REFRESH_S`.
    """

    _shared: ClassVar[Self | None] = None

    def __init__(
        self,
        ceiling: int,
        clock: Callable[[], float] = time.monotonic,
        call_later: CallLaterT = call_later,
        *,
        ramps: bool = False,
    ):
        self.clock = clock
        self.turns = Turns(clock, call_later)
        self._ceiling = ceiling
        self._ramps = ramps
        self._call_later = call_later
        self._lines: dict[str, _Line] = {}
        self._sweep_at = MAX_HOSTS
        self._workers = 1
        self._database: Database | None = None
        self._since = 0.0  # database time
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def shared(cls, settings: BaseSettings) -> Self:
        """Return the one pace of this process, made on first use."""
        if cls._shared is None:
            cls._shared = cls(settings.getint("HOST_CONCURRENCY"), ramps=True)
        return cls._shared

    def connect(self, database: Database, owner: str) -> None:
        """Keep one pace with the other processes of ``database``.

        ``owner`` is the id of this one in the table of workers.
        """
        self.turns.connect(database, owner)
        self._database = database

    # -- requests --------------------------------------------------------------------

    def slot(
        self,
        name: str,
        owner: str = "",
        deadline: float = math.inf,
        patience_s: float = math.inf,
    ) -> Slot:
        """Return the place of one request at a host, an asynchronous context manager.

        ``name`` is a :func:`~scraper_service.storage.politeness.hosts.pace_key`; owners take turns
        while they wait. Entering raises :exc:`HostBusy` as soon as it is known that
        the request could not start before ``deadline``, or that a pause lasts longer
        than ``patience_s``.
        """
        return Slot(self, self._line(name), owner, deadline, patience_s)

    def room(self, name: str) -> int:
        """Return how many requests one job may have under way at a host."""
        line = self._lines.get(name)
        if line is None:
            return ANY_NUMBER
        host = line.host
        if host.opens_at > self.clock():
            return 0
        if not host.gap_s:
            is_wide = host.window >= self._ceiling
            return ANY_NUMBER if is_wide else 1 + self._at_once(host)
        # One that waits too long would miss its deadline.
        return 1 + min(self._at_once(host), int(QUEUED_S / host.gap_s))

    def closed_s(self, name: str) -> float:
        """Return the seconds until a pause of the host ends, 0 if there is none."""
        line = self._lines.get(name)
        return max(0.0, line.host.opens_at - self.clock()) if line else 0.0

    def report(self, name: str) -> HostReport:
        """Return what was asked of a host by this process."""
        line = self._lines.get(name)
        return (line.host if line else Host(self._ceiling)).report()

    def _line(self, name: str) -> _Line:
        line = self._lines.get(name)
        if line is None:
            now = self.clock()
            if len(self._lines) >= self._sweep_at:
                self._sweep(now)
            host = Host(self._ceiling, self._ramps, used_at=now)
            line = self._lines[name] = _Line(name, host)
        return line

    def _sweep(self, now: float) -> None:
        self._lines = {
            name: line
            for name, line in self._lines.items()
            if line.waiting or not line.host.is_plain(now)
        }
        self._sweep_at = max(MAX_HOSTS, 2 * len(self._lines))

    def _at_once(self, host: Host) -> int:
        return max(1, host.limit // self._workers)

    def _may_start(self, line: _Line, now: float) -> bool:
        host = line.host
        if host.opens_in(now) > 0:
            return False
        if host.in_flight >= self._at_once(host):
            if host.ramps_in(now) > 0:
                return False
            host.ramp_up(now)
            return self._may_start(line, now)
        return line.has_start or not host.gap_s or self._database is None

    def enter(self, slot: Slot) -> bool:
        """Start a request at once if its host is free; for :class:`Slot`."""
        now, line = self.clock(), slot.line
        if line.waiting or not self._may_start(line, now):
            return False
        self._start(slot, now)
        return True

    def _start(self, slot: Slot, now: float) -> None:
        slot.started_at = now
        slot.line.has_start = False
        slot.line.host.start(now)

    async def wait(self, slot: Slot) -> None:
        """Wait until a request has been started; for :class:`Slot`."""
        line, now = slot.line, self.clock()
        likely_at = now + self._likely_wait_s(slot, now)
        if likely_at > slot.deadline or line.host.opens_at > now + slot.patience_s:
            raise HostBusy(line.name, likely_at)
        slot.turn = asyncio.get_running_loop().create_future()
        line.add(slot)
        self._dispatch(line)
        timer = None
        if slot.deadline < math.inf:
            timer = self._call_later(
                slot.deadline - now, lambda: self._refuse(slot, slot.deadline)
            )
        try:
            await slot.turn
        except asyncio.CancelledError:
            line.remove(slot)
            if slot.started_at is not None:
                self.leave(slot)  # it had its turn, and does not use it
            elif not slot.turn.cancelled():
                slot.turn.exception()  # read, else it is logged as lost
            raise
        finally:
            if timer is not None:
                timer.cancel()
            line.host.wait_s += self.clock() - now

    def _likely_wait_s(self, slot: Slot, now: float) -> float:
        host = slot.line.host
        ahead = slot.line.ahead_of(slot.owner)
        return max(0.0, host.opens_in(now)) + ahead * host.gap_s

    def _refuse(self, slot: Slot, opens_at: float) -> None:
        """Tell one who waits that there is no use in it."""
        if slot.turn is not None and not slot.turn.done():
            slot.line.remove(slot)
            slot.turn.set_exception(HostBusy(slot.line.name, opens_at))

    def _dispatch(self, line: _Line) -> None:
        """Start those whose turn it is; come again when the host opens."""
        now = self.clock()
        while line.waiting and self._may_start(line, now):
            slot = line.next()
            assert slot.turn is not None
            if not slot.turn.done():  # else it was cancelled, and does not know yet
                self._start(slot, now)
                slot.turn.set_result(None)
        if not line.waiting:
            return
        if line.host.gap_s and not line.has_start and self._database is not None:
            self._reserve_soon(self._database, line)
            return
        wait_s = max(line.host.opens_in(now), 0.0) or line.host.ramps_in(now)
        if line.timer is None and 0 < wait_s < math.inf:
            line.timer = self._call_later(wait_s, lambda: self._wake(line))

    def _wake(self, line: _Line) -> None:
        line.timer = None
        self._dispatch(line)

    def leave(self, slot: Slot) -> None:
        """Give the place of a request to the next one; for :class:`Slot`."""
        slot.line.host.in_flight -= 1
        if slot.line.waiting:
            self._dispatch(slot.line)

    def note(self, line: _Line) -> None:
        """Have a host in trouble known: here, and to the other processes."""
        now = self.clock()
        host = line.host
        line.has_start = False  # it was before the pause
        for slot in line.slots():
            if host.opens_at > min(slot.deadline, now + slot.patience_s):
                self._refuse(slot, host.opens_at)
        if self._database is not None:
            pause_s = max(0.0, host.opens_at - now)
            shared = SharedHost(line.name, pause_s, host.window, host.gap_s)
            self._spawn(self._publish(self._database, shared))

    # -- other processes ---------------------------------------------------------------

    async def refresh(self) -> None:
        """Take over what other processes have learned; every :data:`REFRESH_S`.

        Raises :exc:`ServiceUnavailable`.
        """
        assert self._database is not None
        found = await self._database.read(host_rows.read_shared, self._since)
        # A transaction may have been stamped before, and committed after this read.
        self._since = found.now - REFRESH_S
        self._workers = found.workers
        for shared in found.hosts:
            line = self._line(shared.name)
            line.has_start &= line.host.opens_at >= self.clock() + shared.pause_s
            line.host.adopt(shared, self.clock())
        for line in self._lines.values():
            self._dispatch(line)

    def _reserve_soon(self, database: Database, line: _Line) -> None:
        if not line.is_reserving:
            line.is_reserving = True
            self._spawn(self._reserve(database, line))

    async def _reserve(self, database: Database, line: _Line) -> None:
        """Have the next start of a host, of all processes, be one of ours."""
        gap_s = line.host.gap_s
        try:
            wait_s = await database.write_locking(host_rows.reserve, line.name, gap_s)
        except ServiceUnavailable:
            wait_s = gap_s * self._workers
        line.is_reserving = False
        line.has_start = True
        line.host.next_at = self.clock() + wait_s
        self._dispatch(line)

    async def _publish(self, database: Database, shared: SharedHost) -> None:
        with suppress(ServiceUnavailable):
            await database.write_locking(host_rows.publish, shared.name, shared)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Slot:
    """The place of one request at its host; made by :meth:`HostPace.slot`."""

    __slots__ = (
        "_pace",
        "deadline",
        "line",
        "owner",
        "patience_s",
        "started_at",
        "turn",
    )

    def __init__(
        self,
        pace: HostPace,
        line: _Line,
        owner: str,
        deadline: float,
        patience_s: float,
    ):
        self._pace = pace
        self.line = line
        self.owner = owner
        self.deadline = deadline
        self.patience_s = patience_s
        self.started_at: float | None = None
        self.turn: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        if not self._pace.enter(self):
            await self._pace.wait(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pace.leave(self)

    @property
    def gap_s(self) -> float:
        """The least time between two requests to the host, of all processes."""
        return self.line.host.gap_s

    @property
    def pause_s(self) -> float:
        """The seconds for which the host is not asked at all."""
        return max(0.0, self.line.host.opens_at - self._pace.clock())

    def answered(
        self, status: int, size: int, latency_s: float, pause_s: float | None = None
    ) -> str | None:
        """Note how the host answered: ``size`` in bytes, time to the first of them.

        ``pause_s`` is what its Retry-After asks for. Returns the reason if this answer
        made the host slower, as :attr:`HostReport.backoffs` counts it.
        """
        assert self.started_at is not None
        now, host = self._pace.clock(), self.line.host
        before = host.backoffs.total()
        host.bytes += size
        if status in BUSY:
            is_news = host.busy(status, pause_s, self.started_at, now)
        else:
            is_news = host.good(self.started_at, now, latency_s)
        if is_news:
            self._pace.note(self.line)
        if host.backoffs.total() == before:
            return None
        return str(status) if status in BUSY else "latency"

    def timed_out(self) -> str | None:
        """Note that the host did not answer in time; return as :meth:`answered`."""
        assert self.started_at is not None
        if self.line.host.timed_out(self.started_at, self._pace.clock()):
            self._pace.note(self.line)
            return "timeout"
        return None


@define(eq=False)
class _Line:
    """A host and who waits for it: by owner, the one to come next in front."""

    name: str
    host: Host
    waiting: dict[str, deque[Slot]] = field(factory=dict)
    timer: Timer | None = None
    is_reserving: bool = False
    has_start: bool = False  # ``host.next_at`` is ours among the processes

    def slots(self) -> list[Slot]:
        return [slot for queue in self.waiting.values() for slot in queue]

    def add(self, slot: Slot) -> None:
        self.waiting.setdefault(slot.owner, deque()).append(slot)

    def next(self) -> Slot:
        """Take out who comes next; its owner goes to the end."""
        owner, queue = next(iter(self.waiting.items()))
        slot = queue.popleft()
        del self.waiting[owner]
        if queue:
            self.waiting[owner] = queue
        return slot

    def remove(self, slot: Slot) -> None:
        queue = self.waiting.get(slot.owner)
        if queue is None or slot not in queue:
            return
        queue.remove(slot)
        if not queue:
            del self.waiting[slot.owner]

    def ahead_of(self, owner: str) -> int:
        """Return how many would start before one more of ``owner``."""
        own = len(self.waiting.get(owner, ()))
        others = (queue for name, queue in self.waiting.items() if name != owner)
        return own + sum(min(len(queue), own + 1) for queue in others)
