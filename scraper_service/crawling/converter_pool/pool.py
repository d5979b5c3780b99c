"""The converter pool: everything that reads fetched bytes runs in its processes.

They are killable, with limits of time and memory, and spawned, not forked: a forked
reactor would share its epoll descriptor.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from attrs import evolve

from scraper_service.content.convert import render
from scraper_service.content.markdown.converters import MARKDOWN_CONVERTERS, NATIVE
from scraper_service.content.wire import content_from_wire
from scraper_service.crawling.converter_pool.converter import (
    JOINED_BYTES,
    Converter,
    packed,
)
from scraper_service.crawling.converter_pool.converter_process import (
    ERROR,
    LAST_ERROR,
    OUTDATED,
    READY,
    RESULT,
)
from scraper_service.crawling.converter_pool.converter_queue import (
    LARGE_BYTES,
    ConverterQueue,
    Task,
)
from scraper_service.discovery.sitemap import SitemapContent, read_sitemap
from scraper_service.errors import (
    ConverterDied,
    ConvertersFailed,
    NoConverter,
    QueueFull,
)
from scraper_service.items import QUEUE_FULL, PageContent, PageError, PageSource
from scraper_service.storage.accounts.keys import forget_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from scraper_service.discovery.sitemap import ChooseT
    from scraper_service.options.scrape import ScrapeOptions

ResultT = TypeVar("ResultT")
ArgsT = tuple[object, ...]

logger = logging.getLogger(__name__)

# A process is killed at the time-out; a PDF is told to stop this much before, so that
# it can say how far it came.
STOP_EARLY_S = 0.5
JOB_PATIENCE_S = 600.0  # that a task of a job waits for a converter, its run excluded
SLOW_S = 2.0  # a task that runs longer keeps no small one from starting
TURN_S = 10.0  # that a task may run while another team has no converter at all
SPARE_IDLE_S = 30.0  # until the converter beyond CONVERTER_PROCESSES ends
ABANDONED_S = 2.0  # that a task may still run when its caller is gone
START_COST_S = 2.0  # of converter time, charged for a process that a task ended
DEATHS = 2  # of its converters, until a task is guilty of them

MOST_SIZED = 1000  # values of a list, whose bytes are counted

TICK_S = 0.5  # between two looks at the processes
STOPS = 2  # looks in a row that find a process stopped, until it is killed
PING_S = 5.0  # after which an idle process has to give a sign of life
PONG_S = 10.0  # for the sign
START_S = 120.0  # for a process to start
START_TRIES = 3  # that fail in a row, until warm_up gives up
PAUSE_S = 0.5  # after a start that failed; doubles with each further one
MAX_PAUSE_S = 30.0


class ConverterPool:
    """Run conversions in ``processes`` processes of ``memory_mb`` address space each.

    Teams share converter time fairly, and the jobs of a team take turns. Inputs of all
    teams may have ``queue_mb`` MiB together. While all processes run what takes long,
    one more process runs what is small. A task that keeps another team from having any
    process for long is ended and begins again later.

    A task whose process dies runs again at once; it is guilty of the second death. A
    process that died, hangs or was stopped is replaced alone; so is one that ran
    ``tasks`` tasks. ``markdown_converter`` is one of ``MARKDOWN_CONVERTERS``.

    All methods belong to the thread of one event loop.
    """

    _shared: ClassVar[Self | None] = None

    def __init__(
        self,
        processes: int,
        timeout_s: float,
        memory_mb: int,
        tasks: int,
        markdown_converter: str = NATIVE,
        queue_mb: int = 256,
    ) -> None:
        if markdown_converter not in MARKDOWN_CONVERTERS:
            known = " or ".join(MARKDOWN_CONVERTERS)
            message = f"SCRAPER_MARKDOWN_CONVERTER must be {known}, got {markdown_converter!r}"
            raise ValueError(message)
        self._markdown_converter = markdown_converter
        self.timeout_s = timeout_s
        self._processes = processes
        self._memory_bytes = memory_mb * 2**20
        self._tasks = tasks
        self._queue = ConverterQueue(queue_mb * 2**20)
        self._converters: list[Converter] = []
        self._running: dict[Task, Converter] = {}
        self._executor = ThreadPoolExecutor(2, "converters")
        self._background: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._wakes: dict[Callable[[], None], None] = {}
        self._warm: asyncio.Future[None] | None = None
        self._failures = 0  # starts that failed in a row
        self._why = ""  # the last one did
        self._start_at = 0.0  # not before
        self._spare_at = 0.0  # when the spare process was needed last
        self._is_closed = False
        atexit.register(self.close)  # before multiprocessing's own, which joins them

    @classmethod
    def shared(cls, settings: BaseSettings) -> Self:
        """Return the one pool of this process, made on first use."""
        if cls._shared is None:
            forget_secrets()
            cls._shared = cls(
                settings.getint("CONVERTER_PROCESSES") or os.cpu_count() or 1,
                settings.getfloat("CONVERTER_TIMEOUT_S"),
                settings.getint("CONVERTER_MEMORY_MB"),
                settings.getint("CONVERTER_TASKS"),
                settings["MARKDOWN_CONVERTER"],
                settings.getint("CONVERTER_QUEUE_MB"),
            )
        return cls._shared

    # -- what callers use --------------------------------------------------------------

    async def warm_up(self) -> None:
        """Start all processes; return when they work. They are then kept started.

        Raises :exc:`ConvertersFailed` when several starts in a row fail.
        """
        self._open()
        assert self._loop is not None
        self._warm = self._loop.create_future()
        self._dispatch()
        await self._warm

    @property
    def working(self) -> int:
        """Processes that have started and respond."""
        return sum(
            each.is_ready and not each.reason and not each.stops
            for each in self._converters
        )

    @property
    def fault(self) -> str | None:
        """Why no converter works, as a sentence; None if at least one does.

        None also before the first use, which starts them.
        """
        if self.working or self._loop is None:
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

        Else ``wake`` is called once, as soon as an input has left the queue.
        """
        if self._queue.has_capacity(team_id or ""):
            return True
        if wake is not None:
            self._wakes[wake] = None
        return False

    async def run(
        self,
        function: Callable[..., ResultT],
        *args: object,
        timeout_s: float = 60,
        team_id: str | None = None,
        job_id: str = "",
        may_refuse: bool = False,
    ) -> ResultT:
        """Return what the importable ``function`` returns in a process of the pool.

        Its process is ended ``timeout_s`` after the call. For a job, the time in the
        queue does not count, but is at most :data:`JOB_PATIENCE_S`. ``team_id`` and
        ``job_id`` say whose converter time is used.

        Raises :exc:`TimeoutError`, its subclass :exc:`NoConverter` when ``function``
        did not begin in time, :exc:`ConverterDied` when two processes died of it,
        :exc:`QueueFull` with ``may_refuse`` when the team has too many bytes in the
        queue, or what ``function`` raised. A caller that is cancelled ends the task.
        """
        sent = tuple(map(_uncopied, args))
        return await self._submit(
            function,
            lambda _limit_s: sent,
            sum(map(_size, args)),
            timeout_s,
            team_id,
            job_id,
            may_refuse=may_refuse,
            packs_slowly=any(isinstance(each, list) for each in args),
        )

    async def convert(
        self,
        source: PageSource,
        options: ScrapeOptions,
        timeout_s: float,
        team_id: str | None = None,
        job_id: str = "",
    ) -> PageContent:
        """Return the content of a page, or a content that says why there is none.

        ``timeout_s`` is the time its caller has left. A page of no job fails with the
        code :data:`QUEUE_FULL` when its team has too many bytes in the queue.
        """
        limit = min(timeout_s, self.timeout_s)
        if limit <= 0:
            return _failed("SCRAPE_TIMEOUT", "No time was left to convert the page.")
        size = len(source.body)
        sent = evolve(source, body=_uncopied(source.body))

        def make_args(limit_s: float) -> ArgsT:
            budget = max(limit_s - STOP_EARLY_S, limit_s / 2)
            return sent, options, budget, self._markdown_converter

        try:
            wire = await self._submit(
                render, make_args, size, limit, team_id, job_id, may_refuse=not job_id
            )
        except TimeoutError as error:
            text = f"The page took longer than {limit:.1f} s to convert{_late(error)}."
            return _failed("SCRAPE_TIMEOUT", text)
        except MemoryError:
            return _failed(
                "SCRAPE_ALL_ENGINES_FAILED",
                "The page needs more memory than a conversion may take.",
            )
        except QueueFull as error:
            return _failed(QUEUE_FULL, str(error))
        except ConverterDied as error:
            return _failed("SCRAPE_ALL_ENGINES_FAILED", f"The page {error}.")
        return content_from_wire(*wire)

    async def read_sitemap(
        self,
        source: PageSource,
        timeout_s: float,
        choose: ChooseT | None = None,
        read: Callable[..., SitemapContent] = read_sitemap,
        team_id: str | None = None,
        job_id: str = "",
    ) -> SitemapContent:
        """Return what a sitemap says, or a content that says why it cannot be read.

        ``choose``, which makes rows of the entries, has to be importable; so has
        ``read``, which is called with the source and it.
        """
        limit, size = min(timeout_s, self.timeout_s), len(source.body)
        sent = evolve(source, body=_uncopied(source.body))
        try:
            return await self._submit(
                read, lambda _limit_s: (sent, choose), size, limit, team_id, job_id
            )
        except TimeoutError as error:
            text = f"The sitemap took longer than {limit:.1f} s to read{_late(error)}."
        except MemoryError:
            text = "The sitemap needs more memory than a conversion may take."
        except ConverterDied as error:
            text = f"The sitemap {error}."
        return SitemapContent(error=text)

    def close(self) -> None:
        """End the processes at once; what runs and what waits is cancelled."""
        if type(self)._shared is self:
            type(self)._shared = None
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        if self._ticker is not None:
            self._ticker.cancel()
        self._executor.shutdown(cancel_futures=True)  # a process may be starting
        for converter in self._converters:
            converter.end_now()
        self._converters.clear()
        if self._loop is not None and not self._loop.is_closed():
            for task in (*self._running, *self._queue.clear()):
                if task.timer is not None:
                    task.timer.cancel()
                task.future.cancel()
        self._running.clear()

    # -- tasks -------------------------------------------------------------------------

    async def _submit(
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
        assert self._loop is not None
        team_id = team_id or ""
        if may_refuse and not self._queue.has_capacity(team_id, size):
            text = "Too many bytes of this team wait for their conversion already."
            raise QueueFull(text)
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
        self._queue.add(task)
        self._dispatch()
        try:
            result: ResultT = await task.future
        except asyncio.CancelledError:
            self._abandon(task)
            raise
        finally:
            if task.timer is not None and task not in self._running:
                task.timer.cancel()
        return result

    def _set_end(self, task: Task, left_s: float) -> None:
        assert self._loop is not None
        if task.timer is not None:
            task.timer.cancel()
        task.ends_at = self._loop.time() + left_s
        task.timer = self._loop.call_at(task.ends_at, self._expire, task)

    def _expire(self, task: Task) -> None:
        """Give up a task whose time is over."""
        converter = self._running.get(task)
        if converter is not None:
            _set_exception(task, TimeoutError())
            converter.kill("timeout")
        elif not task.future.done():
            self._queue.remove(task)
            self._wake()
            _set_exception(task, NoConverter())

    def _abandon(self, task: Task) -> None:
        """Forget a task whose caller is gone; a running one is not killed at once.

        Most end soon, and a new process costs more time than they do.
        """
        if self._is_closed:
            return
        if task in self._running:
            assert self._loop is not None
            left_s = task.ends_at - self._loop.time()
            self._set_end(task, min(left_s, ABANDONED_S))
        else:
            self._queue.remove(task)
            self._wake()

    def _dispatch(self) -> None:
        """Give tasks to idle processes, then start those that are missing."""
        assert self._loop is not None
        now = self._loop.time()
        while self._queue.waiting:
            converter = next((c for c in self._converters if c.is_idle), None)
            if converter is None:
                break
            is_clogged = self._slow(now) >= self._processes
            if not is_clogged and len(self._running) >= self._processes:
                break
            task = self._queue.next(now, small_only=is_clogged)
            if task is None:
                break
            self._begin(converter, task, now)
        self._start_missing(now)

    def _slow(self, now: float) -> int:
        """Return the number of running tasks that take long."""
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
            sending = asyncio.ensure_future(self._send_large(converter, task, args))
            self._background.add(sending)
            sending.add_done_callback(self._background.discard)
            return
        try:
            converter.send(packed(task.function, args))
        except Exception as error:  # it cannot be pickled
            self._unsent(converter, task, error)

    async def _send_large(self, converter: Converter, task: Task, args: ArgsT) -> None:
        """Send a task whose pickle is made in a thread, as it takes long."""
        assert self._loop is not None
        try:
            parts = await self._loop.run_in_executor(
                self._executor, packed, task.function, args
            )
        except Exception as error:
            self._unsent(converter, task, error)
        else:
            if converter.task is task:
                converter.send(parts)

    def _unsent(self, converter: Converter, task: Task, error: Exception) -> None:
        if converter.task is task:
            self._end_task(converter, task)
        _set_exception(task, error)
        assert self._loop is not None
        self._loop.call_soon(self._dispatch)

    def _end_task(self, converter: Converter, task: Task, extra_s: float = 0.0) -> None:
        assert self._loop is not None
        converter.task = None
        del self._running[task]
        if task.timer is not None:
            task.timer.cancel()
        self._queue.end(task, self._loop.time(), extra_s)
        self._wake()

    def _wake(self) -> None:
        wakes, self._wakes = self._wakes, {}
        for wake in wakes:
            wake()

    # -- processes ---------------------------------------------------------------------

    def _open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the converter pool is closed")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._ticker = loop.call_later(TICK_S, self._tick)
        elif self._loop is not loop:
            raise RuntimeError("the converter pool belongs to another event loop")

    def _start_missing(self, now: float) -> None:
        wanted = self._processes
        if self._warm is None:
            wanted = min(wanted, len(self._running) + self._queue.waiting)
        if self._slow(now) >= self._processes:
            self._spare_at = now
            if self._queue.waiting_small:
                wanted = self._processes + 1
        kept = sum(
            not each.reason and not each.is_retiring for each in self._converters
        )
        while kept < wanted and now >= self._start_at:
            kept += 1
            self._start(now)

    def _start(self, now: float) -> None:
        assert self._loop is not None
        converter = Converter(self._memory_bytes, self._loop, self._heard, self._ended)
        self._converters.append(converter)
        starting = asyncio.ensure_future(self._started(converter))
        self._background.add(starting)
        starting.add_done_callback(self._background.discard)

    async def _started(self, converter: Converter) -> None:
        try:
            await converter.start(self._executor)
        except (OSError, RuntimeError) as error:  # of the system, or it is closing
            converter.end_now()
            if converter in self._converters:
                self._converters.remove(converter)
            self._start_failed(str(error))

    def _start_failed(self, why: str) -> None:
        """Take note that a process could not start; the next one waits longer."""
        assert self._loop is not None
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

    def _heard(self, converter: Converter, payload: bytes) -> None:
        """Take a reply of a process."""
        if len(payload) > LARGE_BYTES:
            reading = asyncio.ensure_future(self._heard_large(converter, payload))
            self._background.add(reading)
            reading.add_done_callback(self._background.discard)
        else:
            self._take(converter, *_reply(payload))

    async def _heard_large(self, converter: Converter, payload: bytes) -> None:
        assert self._loop is not None
        reply = await self._loop.run_in_executor(self._executor, _reply, payload)
        self._take(converter, *reply)

    def _take(self, converter: Converter, kind: int, value: Any) -> None:
        converter.pinged_at = None
        task = converter.task
        if kind == READY:
            self._ready(converter)
        elif kind == OUTDATED:
            converter.fault = f"a part of the service is missing: {value}"
            logger.warning("a converter process ends: %s", converter.fault)
        elif task is not None:
            self._failures = 0
            converter.done += 1
            self._end_task(converter, task)
            if kind == RESULT and not task.future.done():
                task.future.set_result(value)
            elif kind in {ERROR, LAST_ERROR}:
                _set_exception(task, value)
            if kind == LAST_ERROR:
                converter.reason = "broken"
            self._retire_if_due(converter)
        elif kind == LAST_ERROR:  # while it was starting
            converter.fault = repr(value)
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
        """Have a process replaced that ran enough tasks."""
        if converter.reason:
            return
        if converter.is_retiring:
            kept = [c for c in self._converters if not c.reason and not c.is_retiring]
            if sum(each.is_ready for each in kept) >= self._processes:
                converter.retire()
        elif converter.done >= self._tasks:
            converter.is_retiring = True

    def _ended(self, converter: Converter) -> None:
        """Replace a process that is gone, and put back the task that it ran."""
        assert self._loop is not None
        if converter in self._converters:
            self._converters.remove(converter)
        if self._is_closed:
            return
        task, now = converter.task, self._loop.time()
        if not converter.reason:
            logger.warning("a converter process died (%s)", converter.how)
        if task is not None:
            self._task_lost(converter, task, now)
        if not converter.is_ready:
            if converter.reason != "retired":
                self._start_failed(converter.fault or converter.how)
        elif not converter.reason and not converter.done:
            self._start_failed(converter.how)  # else it could go on without end
        self._dispatch()

    def _task_lost(self, converter: Converter, task: Task, now: float) -> None:
        """Put back a task whose process is gone, unless it is to blame."""
        if not converter.reason:
            task.deaths += 1
        if not task.future.done() and task.deaths < DEATHS:
            converter.task = None
            del self._running[task]
            self._queue.put_back(task, now)
            if not task.counts_waiting:
                self._set_end(task, JOB_PATIENCE_S)
            return
        self._end_task(converter, task, START_COST_S)
        _set_exception(task, ConverterDied(converter.fault or converter.how))

    def _tick(self) -> None:
        """Look at the processes: are they alive, and are small tasks kept waiting?"""
        assert self._loop is not None
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        now = self._loop.time()
        for converter in tuple(self._converters):
            if not converter.reason:
                self._look_at(converter, now)
        self._make_way(now)
        self._interrupt(now)
        self._end_spare(now)
        self._dispatch()

    def _look_at(self, converter: Converter, now: float) -> None:
        converter.stops = converter.stops + 1 if converter.is_stopped() else 0
        silent_s = now - converter.heard_at
        if converter.stops >= STOPS:
            logger.warning("a converter process was stopped, and is replaced")
            converter.kill("stopped")
        elif not converter.is_ready:
            if silent_s > START_S:
                converter.kill("start")
        elif converter.pinged_at is not None:
            if now - converter.pinged_at > PONG_S:
                logger.warning("a converter process hangs, and is replaced")
                converter.kill("hung")
        elif converter.task is None and silent_s > PING_S:
            converter.pinged_at = now
            converter.send([])

    def _make_way(self, now: float) -> None:
        """End a task that seemed to be small, while others that are small wait.

        It begins again as a large one. At most ``processes`` tasks run that are known
        to be large, so there is such a task when all processes are busy for long.
        """
        if not self._queue.waiting_small or self._slow(now) <= self._processes:
            return
        misjudged = [task for task in self._running if not task.is_large]
        if misjudged:
            task = max(misjudged, key=lambda each: self._running[each].began)
            task.is_large = True
            self._running[task].kill("large")

    def _interrupt(self, now: float) -> None:
        """End a task that runs long, while a team waits that has no converter.

        It begins again later, and may then run twice as long as before.
        """
        if self._slow(now) < self._processes or not self._queue.has_starving:
            return
        if any(converter.reason for converter in self._running.values()):
            return  # one has just been ended
        long = [
            task
            for task, converter in self._running.items()
            if now - converter.began > TURN_S * 2**task.interruptions
        ]
        if long:
            task = max(long, key=lambda each: self._queue.running_of(each.team_id))
            task.interruptions += 1
            task.is_large = True
            self._running[task].kill("turn")

    def _end_spare(self, now: float) -> None:
        kept = [c for c in self._converters if not c.reason and not c.is_retiring]
        if len(kept) > self._processes and now - self._spare_at > SPARE_IDLE_S:
            idle = next((each for each in kept if each.is_idle), None)
            if idle is not None:
                idle.retire()


def _size(value: object) -> int:
    """Return about how many bytes of text a value has, of a long list its beginning."""
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value[:MOST_SIZED]))
    return 0


def _uncopied(value: Any) -> Any:
    """Return a value, wrapped to be sent as it is if it is a large byte string."""
    if isinstance(value, bytes) and len(value) > JOINED_BYTES:
        return pickle.PickleBuffer(value)
    return value


def _reply(payload: bytes) -> tuple[int, Any]:
    try:
        kind, value = pickle.loads(payload)  # noqa: S301  # of our own process
    except Exception as error:
        text = f"what a converter process sent cannot be read: {error!r}"
        return ERROR, RuntimeError(text)
    return kind, value


def _set_exception(task: Task, error: Exception) -> None:
    if isinstance(error, StopIteration):  # no future takes it
        error = RuntimeError("StopIteration")
    if not task.future.done():
        task.future.set_exception(error)


def _late(error: TimeoutError) -> str:
    return ": no converter was free" if isinstance(error, NoConverter) else ""


def _failed(code: str, message: str) -> PageContent:
    return PageContent(error=PageError(code, message))
