"""A pool of processes that run functions, with a queue, time-outs and replacement.

Processes are forked by a fork server, not by the service: a forked reactor would share its
epoll descriptor.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from scraper_service.crawling.converter_pool.converter import (
    Converter,
    ForkServer,
    pack_call,
    size_of,
    wrap_large,
)
from scraper_service.crawling.converter_pool.converter_process import (
    EARLY_RESULT,
    ERROR,
    LAST_ERROR,
    OUTDATED,
    READY,
    RESULT,
)
from scraper_service.crawling.converter_pool.converter_queue import (
    ConverterQueue,
    EarlyResult,
    Task,
)
from scraper_service.crawling.observability import (
    CONVERSION_SECONDS,
    CONVERTER_QUEUE,
    CONVERTER_RESTARTS,
)
from scraper_service.crawling.politeness.shared_limit import TeamPermits
from scraper_service.errors import (
    ConverterDied,
    ConvertersFailed,
    NoConverter,
)
from scraper_service.shared_objects import BackgroundTasks, next_turn

if TYPE_CHECKING:
    from collections.abc import Callable


ResultT = TypeVar("ResultT")
ArgsT = tuple[object, ...]

logger = logging.getLogger(__name__)

JOB_PATIENCE_S = 600.0  # the longest wait of a job's task in the queue
SLOW_S = 2.0  # a task that runs longer counts as slow
TURN_S = 10.0  # of a running task while another team has no converter
SPARE_IDLE_S = 30.0  # until the spare converter ends
ABANDONED_S = 2.0  # of a running task after its caller is gone
START_COST_S = 2.0  # of converter time, charged for a process that a task ended
WAITING_AHEAD = 8  # tasks of a team for each process, while teams compete for them
DEATHS = 2  # of its converters, until a task fails

TICK_S = 0.5  # between two checks of the processes
START_TRIES = 3  # failed starts in a row, until warm_up fails
PAUSE_S = 0.5  # after a failed start; doubles with each further failure
MAX_PAUSE_S = 30.0


class ProcessPool:
    """Runs functions in ``processes`` processes of ``memory_mb`` address space each.

    Teams share converter time fairly, and the jobs of a team alternate. Inputs of all teams may
    have ``queue_mb`` MiB together. While all processes run slow tasks, a spare process runs small
    ones. A slow task is interrupted if another team has no process, and begins again later.

    A task runs again after its process died, and fails at the second death. Processes that
    died, hang or were stopped are replaced one by one, and so is a process after ``tasks``
    tasks.

    All methods belong to the thread of one event loop.
    """

    def __init__(
        self,
        processes: int,
        memory_mb: int,
        tasks: int,
        queue_mb: int = 256,
    ) -> None:
        self._processes = processes
        self._memory_bytes = memory_mb * 2**20
        self._tasks = tasks
        #: The inputs that wait, and the capacity of each team.
        self.queue = ConverterQueue(queue_mb * 2**20, TeamPermits.shared().processes_of)
        self._forks: ForkServer | None = None
        self._former_forks: list[ForkServer] = []
        self._converters: list[Converter] = []
        self._running: dict[Task, Converter] = {}
        self._executor = ThreadPoolExecutor(2, "converters")
        self._background = BackgroundTasks()
        self._opened_in: asyncio.AbstractEventLoop | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._warm: asyncio.Future[None] | None = None
        self._failures = 0  # failed starts in a row
        self._why = ""  # error of the last failed start
        self._start_at = 0.0  # earliest time of the next start
        self._spare_at = 0.0  # last time that the spare process was needed
        self._is_closed = False
        atexit.register(self.close)

    # -- the interface -----------------------------------------------------------------

    def prepare(self) -> None:
        """Start the fork server before the first task. It imports beside its caller."""
        if self._forks is None:
            self._forks = ForkServer.take()

    async def warm_up(self) -> None:
        """Start all processes and keep them started. Return when they are ready.

        Raises :exc:`ConvertersFailed` after several failed starts in a row.
        """
        self._open()
        self._warm = self._loop.create_future()
        self._dispatch()
        await self._warm

    @property
    def working(self) -> int:
        """The number of processes that are ready and respond."""
        return sum(
            each.is_ready and not each.reason and not each.stops
            for each in self._converters
        )

    @property
    def failure(self) -> str | None:
        """Why no process works, as a sentence. None if at least one does.

        Also None before the first use, which starts processes.
        """
        if self.working or self._opened_in is None:
            return None
        if self._is_closed:
            return "The converter processes have ended."
        if self._failures:
            return f"Converter processes cannot be started: {self._why}."
        if any(each.stops for each in self._converters):
            return "The converter processes are stopped."
        return "The converter processes are starting."

    def has_capacity(
        self, team_id: str | None, wake: Callable[[], None] | None = None
    ) -> bool:
        """Return True if a team may queue another input.

        With ``wake``, few inputs of the team may wait while other teams wait, too: other
        services or workers may have a process for the rest. If there is no capacity,
        ``wake`` is called once, as soon as an input has left the queue.
        """
        team = team_id or ""
        most = WAITING_AHEAD * self._processes
        is_ahead = (
            wake is not None
            and self.queue.waiting_of(team) >= most
            and self.is_contended(team)
        )
        if not is_ahead and self.queue.has_capacity(team):
            return True
        if wake is not None:
            self.queue.wake_later(wake)
        return False

    def is_contended(self, team_id: str | None) -> bool:
        """Return True if inputs of other teams wait for a process."""
        return self.queue.has_others(team_id or "")

    async def run(
        self,
        function: Callable[..., ResultT],
        *args: object,
        timeout_s: float = 60,
        team_id: str | None = None,
        job_id: str = "",
        may_refuse: bool = False,
    ) -> ResultT:
        """Return the result of an importable ``function`` that runs in a process.

        The process is killed ``timeout_s`` after the call. For a job, the time in the queue does not
        count, but is at most :data:`JOB_PATIENCE_S`. ``team_id`` and ``job_id`` are charged with the
        converter time.

        A function that returns :class:`~scraper_service.content.stored_pages.Unfinished` has an
        :class:`EarlyResult`.

        Raises :exc:`TimeoutError`, its subclass :exc:`NoConverter` if ``function`` did not begin in
        time, :exc:`ConverterDied` after two dead processes, :exc:`QueueFull` with ``may_refuse`` if
        the team has too many bytes in the queue, and exceptions of ``function``. Cancelling the
        caller ends the task.
        """
        sent = tuple(map(wrap_large, args))
        return await self.submit(
            function,
            lambda _limit_s: sent,
            sum(map(size_of, args)),
            timeout_s,
            team_id,
            job_id,
            may_refuse=may_refuse,
            packs_slowly=any(isinstance(each, list) for each in args),
        )

    def close(self) -> None:
        """End all processes at once, and cancel running and waiting tasks."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        if self._ticker is not None:
            self._ticker.cancel()
        self._executor.shutdown(cancel_futures=True)
        for converter in self._converters:
            converter.end_now()
        self._converters.clear()
        self._renew()
        for forks in self._former_forks:
            forks.close()
        if self._opened_in is not None and not self._opened_in.is_closed():
            for task in (*self._running, *self.queue.clear()):
                task.stop_timer()
                task.future.cancel()
                task.end_rest(None)
        self._running.clear()

    # -- tasks -------------------------------------------------------------------------

    async def submit(
        self,
        function: Callable[..., ResultT],
        make_args: Callable[[float], ArgsT],
        size: int,
        timeout_s: float,
        team_id: str | None,
        job_id: str,
        *,
        may_refuse: bool = False,
        packs_slowly: bool = False,
    ) -> ResultT:
        self._open()
        team_id = team_id or ""
        if may_refuse:
            self.queue.require_capacity(team_id, size)
        if timeout_s <= 0:
            raise NoConverter
        task = Task(
            function,
            make_args,
            team_id,
            job_id,
            size,
            limit_s=timeout_s,
            counts_waiting=not job_id,
            packs_slowly=packs_slowly,
            future=self._loop.create_future(),
        )
        self._set_end(task, JOB_PATIENCE_S if job_id else timeout_s)
        self.queue.add(task)
        self._dispatch()
        try:
            result: ResultT = await task.future
        except asyncio.CancelledError:
            self._abandon(task)
            raise
        finally:
            if task not in self._running:
                task.stop_timer()
        return result

    def _set_end(self, task: Task, left_s: float) -> None:
        task.stop_timer()
        task.ends_at = self._loop.time() + left_s
        task.timer = self._loop.call_at(task.ends_at, self._expire, task)

    def _expire(self, task: Task) -> None:
        """Time out a task."""
        converter = self._running.get(task)
        if converter is not None:
            task.fail(TimeoutError())
            converter.kill("timeout")
        elif not task.future.done():
            self.queue.remove(task)
            task.fail(NoConverter())

    def _abandon(self, task: Task) -> None:
        """Give up a task whose caller is gone. A running task may end within a moment.

        Most do, and a new process costs more time than they need.
        """
        if self._is_closed:
            return
        if task in self._running:
            left_s = task.ends_at - self._loop.time()
            self._set_end(task, min(left_s, ABANDONED_S))
        elif task.future.cancelled():  # else it ended in the same loop iteration
            self.queue.remove(task)

    def _dispatch(self) -> None:
        """Give tasks to idle processes, then start missing processes."""
        now = self._loop.time()
        while self.queue.waiting:
            converter = next((c for c in self._converters if c.is_idle), None)
            if converter is None:
                break
            is_clogged = self._slow(now) >= self._processes
            if not is_clogged and len(self._running) >= self._processes:
                break
            task = self.queue.next(now, small_only=is_clogged)
            if task is None:
                break
            self._begin(converter, task, now)
        self._start_missing(now)

    def _slow(self, now: float) -> int:
        """Return the number of running tasks that are slow."""
        return sum(
            task.is_large or now - converter.began > SLOW_S
            for task, converter in self._running.items()
        )

    def _begin(self, converter: Converter, task: Task, now: float) -> None:
        if task.counts_waiting:
            limit_s = task.ends_at - now
        else:
            limit_s = task.limit_s
            self._set_end(task, limit_s)
        converter.task, converter.began = task, now
        self._running[task] = converter
        args = task.make_args(max(limit_s, 0.0))
        if task.packs_slowly:
            self._background.spawn(self._send_large(converter, task, args))
            return
        try:
            converter.send(pack_call(task.function, args))
        except Exception as error:  # it cannot be pickled
            self._unsent(converter, task, error)

    async def _send_large(self, converter: Converter, task: Task, args: ArgsT) -> None:
        """Pickle the arguments of a task in a thread, then send it."""
        try:
            parts = await self._loop.run_in_executor(
                self._executor, pack_call, task.function, args
            )
        except Exception as error:
            self._unsent(converter, task, error)
        else:
            if converter.task is task:
                converter.send(parts)

    def _unsent(self, converter: Converter, task: Task, error: Exception) -> None:
        if converter.task is task:
            self._end_task(converter, task)
        task.fail(error)
        self._loop.call_soon(self._dispatch)

    def _end_task(self, converter: Converter, task: Task, extra_s: float = 0.0) -> None:
        converter.task = None
        del self._running[task]
        task.stop_timer()
        task.end_rest(None)
        self.queue.end(task, self._loop.time(), extra_s)

    # -- processes ---------------------------------------------------------------------

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        assert self._opened_in is not None
        return self._opened_in

    @property
    def _lasting(self) -> list[Converter]:
        """The processes that are not about to end."""
        return [c for c in self._converters if not c.reason and not c.is_retiring]

    def _open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the converter pool is closed")
        loop = asyncio.get_running_loop()
        if self._opened_in is None:
            self._opened_in = loop
            self._ticker = loop.call_at(next_turn(TICK_S, loop.time()), self._tick)
        elif self._opened_in is not loop:
            raise RuntimeError("the converter pool belongs to another event loop")

    def _start_missing(self, now: float) -> None:
        wanted = self._processes
        if self._warm is None:
            wanted = min(wanted, len(self._running) + self.queue.waiting)
        if self._slow(now) >= self._processes:
            self._spare_at = now
            if self.queue.waiting_small:
                wanted = self._processes + 1
        kept = len(self._lasting)
        while kept < wanted and now >= self._start_at:
            kept += 1
            self._start()

    def _start(self) -> None:
        try:
            self.prepare()
            assert self._forks is not None
            converter = Converter(
                self._forks,
                self._memory_bytes,
                self._loop,
                self._executor,
                self._take,
                self._on_end,
            )
        except OSError as error:
            self._renew()
            self._start_failed(str(error))
        else:
            self._converters.append(converter)

    def _start_failed(self, why: str) -> None:
        """Count a failed start. The next start waits longer."""
        self._failures += 1
        self._why = why
        pause_s = min(MAX_PAUSE_S, PAUSE_S * 2 ** (self._failures - 1))
        self._start_at = self._loop.time() + pause_s
        logger.warning(
            "a converter process could not start (%s); the next try is in %s s",
            why,
            pause_s,
        )
        warm = self._warm
        if warm is not None and not warm.done() and self._failures >= START_TRIES:
            warm.set_exception(ConvertersFailed(why))

    def _renew(self) -> None:
        """Fork the next process from a fork server that imports the present code."""
        self._former_forks = [each for each in self._former_forks if each.is_running]
        if self._forks is not None:
            self._forks.retire()
            self._former_forks.append(self._forks)
            self._forks = None

    def _take(self, converter: Converter, kind: int, value: Any) -> None:
        """Handle a reply of a process."""
        converter.pinged_at = None
        task = converter.task
        if kind == READY:
            self._ready(converter)
        elif kind == OUTDATED:
            converter.failure = f"a part of the service is missing: {value}"
            logger.warning("a converter process ends: %s", converter.failure)
            self._renew()
        elif task is not None and kind == EARLY_RESULT:
            task.rest = self._loop.create_future()
            if not task.future.done():
                task.future.set_result(EarlyResult(value, task.rest))
            return
        elif task is not None:
            self._failures = 0
            converter.done += 1
            if kind == RESULT:
                task.end_rest(value)
            CONVERSION_SECONDS.observe(self._loop.time() - converter.began)
            self._end_task(converter, task)
            if kind == RESULT and not task.future.done():
                task.future.set_result(value)
            elif kind in {ERROR, LAST_ERROR}:
                if task.rest is not None:
                    logger.error("a task failed after its early result", exc_info=value)
                task.fail(value)
            if kind == LAST_ERROR:
                converter.reason = "broken"
            self._retire_if_due(converter)
        elif kind == LAST_ERROR:  # during its start
            converter.failure = repr(value)
        else:
            self._failures = 0
        self._dispatch()

    def _ready(self, converter: Converter) -> None:
        converter.is_ready = True
        for each in self._converters:
            if each.is_retiring and not each.reason:
                if each.task is None:
                    each.retire()
                break
        warm = self._warm
        if warm is not None and not warm.done() and self.working >= self._processes:
            warm.set_result(None)

    def _retire_if_due(self, converter: Converter) -> None:
        """Replace a process that has run enough tasks."""
        if converter.reason:
            return
        if converter.is_retiring:
            if sum(each.is_ready for each in self._lasting) >= self._processes:
                converter.retire()
        elif converter.done >= self._tasks:
            converter.is_retiring = True

    def _on_end(self, converter: Converter) -> None:
        """Replace a dead process, and queue its task again."""
        if converter in self._converters:
            self._converters.remove(converter)
        if self._is_closed:
            return
        task, now = converter.task, self._loop.time()
        if converter.reason != "retired":
            CONVERTER_RESTARTS.inc()
        if not converter.reason:
            logger.warning("a converter process died (%s)", converter.how)
        if task is not None:
            self._task_lost(converter, task, now)
        if not converter.is_ready:
            if converter.reason not in {"retired", "stopped"}:
                self._renew()
                self._start_failed(converter.failure or converter.how)
        elif not converter.reason and not converter.done:
            self._start_failed(converter.how)  # otherwise this could repeat endlessly
        self._dispatch()

    def _task_lost(self, converter: Converter, task: Task, now: float) -> None:
        """Queue the task of a dead process again, or fail it as the cause."""
        if not converter.reason:
            task.deaths += 1
        if not task.future.done() and task.deaths < DEATHS:
            converter.task = None
            del self._running[task]
            self.queue.put_back(task, now)
            if not task.counts_waiting:
                self._set_end(task, JOB_PATIENCE_S)
            return
        self._end_task(converter, task, START_COST_S)
        task.fail(ConverterDied(converter.failure or converter.how))

    def _tick(self) -> None:
        """Check the processes and the waiting tasks. Called every :data:`TICK_S`."""
        now = self._loop.time()
        self._ticker = self._loop.call_at(next_turn(TICK_S, now), self._tick)
        for converter in tuple(self._converters):
            if not converter.reason:
                converter.check(now)
        self._make_way(now)
        self._interrupt(now)
        self._end_spare(now)
        self._dispatch()
        CONVERTER_QUEUE.set(self.queue.waiting)

    def _make_way(self, now: float) -> None:
        """Interrupt a task that turned out to be slow while small tasks wait.

        It begins again as a large task. At most ``processes`` large tasks run, so there is such a
        task if all processes are busy for long.
        """
        if not self.queue.waiting_small or self._slow(now) <= self._processes:
            return
        misjudged = [task for task in self._running if not task.is_large]
        if misjudged:
            task = max(misjudged, key=lambda each: self._running[each].began)
            task.is_large = True
            self._running[task].kill("large")

    def _interrupt(self, now: float) -> None:
        """Interrupt a slow task while another team has no process.

        It begins again later, and may then run twice as long.
        """
        if self._slow(now) < self._processes or not self.queue.has_starving:
            return
        if any(converter.reason for converter in self._running.values()):
            return  # a task was just interrupted
        long = [
            task
            for task, converter in self._running.items()
            if now - converter.began > TURN_S * 2**task.interruptions
        ]
        if long:
            task = max(long, key=lambda each: self.queue.running_of(each.team_id))
            task.interruptions += 1
            task.is_large = True
            self._running[task].kill("turn")

    def _end_spare(self, now: float) -> None:
        kept = self._lasting
        if len(kept) > self._processes and now - self._spare_at > SPARE_IDLE_S:
            idle = next((each for each in kept if each.is_idle), None)
            if idle is not None:
                idle.retire()
