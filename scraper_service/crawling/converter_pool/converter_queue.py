"""The queue of the converter pool: fair between teams, then between jobs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field, frozen

from scraper_service.errors import QueueFull

LARGE_BYTES = 2**20  # a larger input counts as slow to convert
LEAST_BYTES = 64 * 2**10  # the smallest weight of a task, which bounds their number
LEAST_S = 0.005  # the smallest converter time of a task
FLOOR_PARTS = 16  # a team may always queue one sixteenth of all bytes
MAX_IDLE_TEAMS = 1000  # idle teams with a remembered converter time


@frozen
class EarlyResult:
    """The result of a function that has not finished.

    ``rest`` is what it returns then; None if its process has died.
    """

    result: Any
    rest: asyncio.Future[Any]


@define(eq=False)
class Task:
    """A call of ``function`` that waits for a converter or runs in one.

    :ivar make_args: returns the arguments for a limit in seconds.
    :ivar size: bytes of the input.
    :ivar limit_s: seconds that it may run in a converter.
    :ivar counts_waiting: True if ``limit_s`` includes the time in the queue.
    :ivar packs_slowly: True if its arguments may take long to pickle.
    :ivar ends_at: time of the event loop at which it times out.
    :ivar rest: what it returns when its result has been sent early; None if that was not.
    :ivar is_large: True if it is slow, by its size or from a first try.
    :ivar deaths: number of converters that died while they ran it.
    :ivar interruptions: number of times it was ended for another team.
    :ivar began: when it last began to run.
    """

    function: Callable[..., Any]
    make_args: Callable[[float], tuple[object, ...]]
    team_id: str
    job_id: str
    size: int
    limit_s: float
    counts_waiting: bool
    packs_slowly: bool
    future: asyncio.Future[Any]
    ends_at: float = 0.0
    timer: asyncio.TimerHandle | None = None
    rest: asyncio.Future[Any] | None = None
    is_large: bool = field(init=False)
    deaths: int = 0
    interruptions: int = 0
    number: int = 0
    began: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.is_large = self.size > LARGE_BYTES

    @property
    def weight(self) -> int:
        """Its bytes in the queue."""
        return max(self.size, LEAST_BYTES)

    def fail(self, error: Exception) -> None:
        """Raise ``error`` in its caller, unless the call has ended."""
        if isinstance(error, StopIteration):  # a future refuses it
            error = RuntimeError("StopIteration")
        if not self.future.done():
            self.future.set_exception(error)

    def end_rest(self, value: Any) -> None:
        """End a task that has sent its early result."""
        if self.rest is not None and not self.rest.done():
            self.rest.set_result(value)

    def stop_timer(self) -> None:
        """Let it time out no more."""
        if self.timer is not None:
            self.timer.cancel()


class ConverterQueue:
    """The tasks of a converter pool, and the used converter time of each team.

    Inputs that are :meth:`reading` count for others that are about to be read.

    The next task is from the team with the least converter time, as in start-time fair
    queueing. A team that was idle starts with the least time of the others. The jobs of a team
    alternate. The tasks of a job keep their order.

    ``processes_of`` returns in how many services and workers a team has pages. Its time counts
    as often, so that its share of all of them does not grow with their number.

    All tasks together may have ``max_bytes`` of input. A team may queue as many bytes as are
    left for others (the dynamic threshold of switch buffers), so a single team gets half.
    :meth:`add` accepts every task: callers check :meth:`has_capacity` first.
    """

    def __init__(
        self, max_bytes: int, processes_of: Callable[[str], int] = lambda team_id: 1
    ):
        self._max_bytes = max_bytes
        self._processes_of = processes_of
        self._bytes = 0
        self._read_bytes = 0
        self._teams: dict[str, _Team] = {}
        self._wakes: dict[Callable[[], None], None] = {}
        self._active = 0  # teams with inputs
        self._clock = 0.0  # used time of the team whose task began last
        self._number = 0
        self.waiting = 0
        self.waiting_small = 0

    def has_capacity(self, team_id: str, size: int = 0) -> bool:
        """Return True if a team may queue ``size`` more bytes."""
        team = self._teams.get(team_id)
        return team is None or self._fits(team.bytes, self._bytes, size)

    def require_capacity(self, team_id: str | None, size: int = 0) -> None:
        """Raise :exc:`QueueFull` if a team may not queue ``size`` more bytes."""
        if not self.has_capacity(team_id or "", size):
            text = "Too many bytes of this team wait for their conversion already."
            raise QueueFull(text)

    @asynccontextmanager
    async def reading(self, team_id: str | None, size: int) -> AsyncIterator[None]:
        """Count ``size`` bytes of an input while it is read.

        Waits until the team may queue as many beside all that it reads.
        """
        name = team_id or ""
        while not self._may_read(name, size):
            changed = asyncio.Event()
            self.wake_later(changed.set)
            await changed.wait()
        self._enter(name).read_bytes += size
        self._read_bytes += size
        try:
            yield
        finally:
            team = self._teams.get(name)
            if team is not None:  # otherwise the queue was cleared
                team.read_bytes -= size
                self._read_bytes -= size
                self._leave(name, team)
            self._wake()

    def _may_read(self, team_id: str, size: int) -> bool:
        team = self._teams.get(team_id)
        return team is None or self._fits(
            team.bytes + team.read_bytes, self._bytes + self._read_bytes, size
        )

    def wake_later(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once, as soon as an input has left the queue."""
        self._wakes[wake] = None

    def _wake(self) -> None:
        wakes, self._wakes = self._wakes, {}
        for wake in wakes:
            wake()

    def _fits(self, own: int, total: int, size: int) -> bool:
        most = max(self._max_bytes // FLOOR_PARTS, self._max_bytes - total)
        return not own or own + size <= most

    @property
    def has_starving(self) -> bool:
        """True if a team has waiting tasks and no running task."""
        return any(team.waiting and not team.running for team in self._teams.values())

    def has_others(self, team_id: str) -> bool:
        """Return True if another team has waiting tasks."""
        return any(
            team.waiting and each != team_id for each, team in self._teams.items()
        )

    def waiting_of(self, team_id: str) -> int:
        """Return the number of waiting tasks of a team."""
        team = self._teams.get(team_id)
        return team.waiting if team else 0

    def running_of(self, team_id: str) -> int:
        """Return the number of running tasks of a team."""
        return self._teams[team_id].running

    def add(self, task: Task) -> None:
        """Queue a new task."""
        team = self._enter(task.team_id)
        team.bytes += task.weight
        self._bytes += task.weight
        self._number += 1
        task.number = self._number
        self._append(team, task)

    def _enter(self, team_id: str) -> _Team:
        team = self._teams.get(team_id)
        if team is None:
            team = self._teams[team_id] = _Team(used_s=self._clock)
        if not team.held:
            team.used_s = max(team.used_s, self._clock)
            self._active += 1
        team.held += 1
        return team

    def _forget(self, team: _Team, task: Task) -> None:
        team.bytes -= task.weight
        self._bytes -= task.weight
        self._leave(task.team_id, team)

    def _leave(self, team_id: str, team: _Team) -> None:
        team.held -= 1
        if team.held:
            return
        self._active -= 1
        if not self._active:
            self._teams.clear()
        elif team.used_s <= self._clock or len(self._teams) > MAX_IDLE_TEAMS:
            del self._teams[team_id]

    def next(self, now: float, *, small_only: bool = False) -> Task | None:
        """Remove and return the next task, or None."""
        best, least = None, 0.0
        for team in self._teams.values():
            if team.waiting_small or (team.waiting and not small_only):
                used = team.used_seconds(now)
                if best is None or used < least:
                    best, least = team, used
        if best is None:
            return None
        self._clock = max(self._clock, least)
        task = best.take(small_only=small_only)
        self._count(best, task, -1)
        task.began = now
        best.used_s += LEAST_S - now
        best.running += 1
        return task

    def put_back(self, task: Task, now: float) -> None:
        """Queue a running task again, before other tasks of its job."""
        team = self._teams[task.team_id]
        team.stop(now)
        self._append(team, task, first=True)

    def end(self, task: Task, now: float, extra_s: float = 0.0) -> None:
        """Remove a running task. Charge its team for its time and ``extra_s``."""
        team = self._teams[task.team_id]
        team.stop(now)
        elsewhere = self._processes_of(task.team_id) - 1
        team.used_s += extra_s + elsewhere * (now - task.began)
        self._forget(team, task)
        self._wake()

    def remove(self, task: Task) -> None:
        """Remove a waiting task."""
        team = self._teams[task.team_id]
        team.remove(task)
        self._count(team, task, -1)
        self._forget(team, task)
        self._wake()

    def clear(self) -> list[Task]:
        """Remove all tasks. Return the waiting tasks."""
        found = [task for team in self._teams.values() for task in team.all_waiting()]
        self._teams.clear()
        self._active = self._bytes = self._read_bytes = 0
        self.waiting = self.waiting_small = 0
        return found

    def _append(self, team: _Team, task: Task, *, first: bool = False) -> None:
        team.append(task, first=first)
        self._count(team, task, 1)

    def _count(self, team: _Team, task: Task, number: int) -> None:
        team.waiting += number
        self.waiting += number
        if not task.is_large:
            team.waiting_small += number
            self.waiting_small += number


@define(eq=False)
class _Team:
    """A team's tasks by job, and its used converter time."""

    #: Without running tasks: the start of each is subtracted.
    used_s: float
    held: int = 0  # inputs that are read, wait, or run
    bytes: int = 0  # of those that wait or run
    read_bytes: int = 0
    running: int = 0
    waiting: int = 0
    waiting_small: int = 0
    jobs: dict[str, _Job] = field(factory=dict)  # with waiting tasks

    def used_seconds(self, now: float) -> float:
        return self.used_s + self.running * now

    def append(self, task: Task, *, first: bool) -> None:
        job = self.jobs.get(task.job_id)
        if job is None:
            job = self.jobs[task.job_id] = _Job()
        queue = job.large if task.is_large else job.small
        if first:
            queue.appendleft(task)
        else:
            queue.append(task)

    def take(self, *, small_only: bool) -> Task:
        """Remove and return the next task. Its job moves to the end."""
        job_id = next(
            job_id
            for job_id, job in self.jobs.items()
            if job.small or (job.large and not small_only)
        )
        job = self.jobs.pop(job_id)
        task = job.take(small_only=small_only)
        if job.small or job.large:
            self.jobs[job_id] = job
        return task

    def remove(self, task: Task) -> None:
        job = self.jobs[task.job_id]
        (job.large if task.is_large else job.small).remove(task)
        if not (job.small or job.large):
            del self.jobs[task.job_id]

    def stop(self, now: float) -> None:
        """Count the end of a running task."""
        self.running -= 1
        self.used_s += now

    def all_waiting(self) -> list[Task]:
        return [task for job in self.jobs.values() for task in (*job.small, *job.large)]


@define(eq=False)
class _Job:
    small: deque[Task] = field(factory=deque)
    large: deque[Task] = field(factory=deque)

    def take(self, *, small_only: bool) -> Task:
        if small_only or not self.large:
            return self.small.popleft()
        if not self.small or self.large[0].number < self.small[0].number:
            return self.large.popleft()
        return self.small.popleft()
