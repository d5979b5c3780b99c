"""Singletons of a process, and the background tasks of a service."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import time
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from scraper_service.errors import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator

InstanceT = TypeVar("InstanceT")

logger = logging.getLogger(__name__)

POLL_S = 2.0  # between two polls
MOST_PASSED_S = 5.0  # between two looks at a database that does not change
EARLY_S = 0.002  # a timer may end so much too early: its time has come
_PHASE_S = os.getpid() % 100 / 100  # processes of one machine look at different moments

# Net new objects before a garbage collection of the youngest generation; a page makes few
# cycles, and Python's default is 700.
OBJECTS_A_COLLECTION = 10_000


def begin_collections() -> None:
    """Collect garbage from now on, without the objects of the start.

    Imported modules stay, so full collections can skip them. A collection before would
    take 0.1 s, and free a few thousand small objects.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)
    gc.enable()


async def repeat(
    every_s: float,
    work: Callable[[], Awaitable[object]],
    failure: str,
    *,
    wanted: asyncio.Event | None = None,
    is_due: Callable[[], bool] = lambda: True,
) -> None:
    """Do ``work`` every ``every_s`` seconds, and whenever ``wanted`` is set.

    Skips a run unless ``is_due``; see :func:`next_turn`. After an error, logged as
    ``failure``, the next run follows.
    """
    wanted = wanted or asyncio.Event()
    loop = asyncio.get_running_loop()
    passes = False
    while True:
        wanted.clear()
        if not passes:
            passes = True
            try:
                await work()
            except ServiceUnavailable:
                passes = False  # logged where it was raised
            except Exception:
                logger.exception(failure)
                passes = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(next_turn(every_s, loop.time())):
                await wanted.wait()
        passes = passes and not wanted.is_set() and not is_due()


def next_turn(every_s: float, now: float) -> float:
    """Return when work runs next, a time of the event loop.

    Runs are at multiples of ``every_s``, so that all periodic work of an idle process wakes
    it at the same moments.
    """
    passed = math.floor((now + _PHASE_S + EARLY_S) / every_s)
    return (passed + 1) * every_s - _PHASE_S


class ChangePoll:
    """Skips polls of an unchanged database.

    ``version`` returns a number that every commit changes, or None if it is unknown. Time
    alone changes what a poll finds, so one is due :data:`MOST_PASSED_S` after the last.
    """

    def __init__(self, version: Callable[[], int | None]):
        self._version = version
        self._seen: int | None = None
        self._until = -math.inf

    def is_due(self) -> bool:
        """Return True if a poll may find something new. It has to follow at once."""
        version, now = self._version(), time.monotonic()
        if version is not None and version == self._seen and now < self._until:
            return False
        self._seen, self._until = version, now + MOST_PASSED_S
        return True


async def until_first_end(*waits: Awaitable[Any]) -> list[bool]:
    """Run until one of ``waits`` ends, and end the others.

    Returns which have ended. Raises the error of one that failed.
    """
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = [task.done() for task in tasks]
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return ended


class Singletons(Generic[InstanceT]):
    """The instances of a class in this process, by key.

    The key consists of the settings that an instance depends on. A class with a single
    instance per process uses itself as the key, so each subclass has an instance of its
    own. Iteration yields all instances. Example::

        class Proxies:
            _instances: ClassVar[Singletons[Proxies]] = Singletons()

            @classmethod
            def shared(cls, settings: BaseSettings) -> Proxies:
                entries = tuple(settings.getlist("PROXIES"))
                return cls._instances.get(entries, lambda: cls(entries))
    """

    def __init__(self) -> None:
        self._by_key: dict[Hashable, InstanceT] = {}

    def __iter__(self) -> Iterator[InstanceT]:
        return iter(tuple(self._by_key.values()))

    def get(self, key: Hashable | type, make: Callable[[], InstanceT]) -> InstanceT:
        """Return the instance for ``key``. The first call makes the instance."""
        if key not in self._by_key:
            self._by_key[key] = make()
        return self._by_key[key]

    def discard(self, instance: InstanceT) -> None:
        """Forget an instance, for example when it closes. The next call makes another."""
        for key, known in tuple(self._by_key.items()):
            if known is instance:
                del self._by_key[key]

    def clear(self) -> None:
        """Forget all instances."""
        self._by_key.clear()


ResultT = TypeVar("ResultT")


class BackgroundTasks:
    """A set of tasks that stay alive until they end.

    The event loop itself keeps only weak references to tasks. If a task fails, asyncio
    logs the exception when the task is collected. Iteration yields the running tasks.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        """Start a coroutine as a task and return the task.

        Also works before the event loop runs.
        """
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Cancel all tasks without waiting until they end."""
        for task in self:
            task.cancel()

    async def join(self) -> None:
        """Wait until all tasks have ended, also tasks that start during the wait."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class Poller:
    """Looks every :data:`POLL_S` for what is due, as other processes do.

    A subclass does it in :meth:`do_due`. Nothing is done unless :attr:`is_used`.
    """

    #: The failure of a poll, for the log.
    failure: ClassVar[str]

    _database: Any  #: A :class:`~scraper_service.storage.database.Database`.
    _loop: asyncio.Task[None] | None = None

    @property
    def is_used(self) -> bool:
        """Whether anything can be due."""
        return True

    async def do_due(self) -> object:
        """Do some of what is due."""
        raise NotImplementedError

    def open(self) -> None:
        """Start to look."""
        if self.is_used:
            poll = ChangePoll(self._database.version)
            polls = repeat(POLL_S, self.do_due, self.failure, is_due=poll.is_due)
            self._loop = asyncio.ensure_future(polls)

    async def close(self) -> None:
        """Stop to look. Other processes or a restart go on."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
