"""The writer thread of the database, with group commit, and futures of commits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from attrs import define
from prometheus_client import Histogram
from sqlalchemy import Engine

from scraper_service.storage.connections import (
    ASIDE,
    PROBING,
    SHARING,
    Waits,
    is_ended,
    is_locked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
WorkT: TypeAlias = "tuple[str, Callable[..., list[Any]], Any, Future[Any]]"

MAX_GROUP = 100  # functions in one transaction
# After this time a group ends early: locks of a database that is far away are short, too.
GROUP_S = 0.5
# Between two transactions while only items wait, for each piece of work of the first. A
# transaction costs more than the rows of a page, so a fast crawl has larger ones.
ITEMS_EVERY_S = 0.02
MOST_TIMES = 10  # of this pause
ASIDE_AT_ONCE = 4  # threads for functions that wait for locks, and as many for others

logger = logging.getLogger(__name__)

_SECONDS = Histogram(
    "scraper_database_seconds",
    "Time of work with the job database: read, write (a transaction of one or more"
    " writes), store (of a page, from its submission to its commit).",
    ["operation"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
READ_TIME = _SECONDS.labels("read")
WRITE_TIME = _SECONDS.labels("write")
STORE_TIME = _SECONDS.labels("store")


class Writer:
    """Runs functions of a connection one after the other, in groups.

    A group is one transaction. If it fails, it is rolled back, and its functions run one by
    one, so that one bad function fails alone. A function may run twice: it must change only
    the database. Functions run in the order of what they lock, so processes never wait for
    each other in a circle. A group begins later the more work the last group had:
    :data:`ITEMS_EVERY_S` for each, up to :data:`MOST_TIMES`. Work that does not wait begins it.

    A group that takes longer than :data:`GROUP_S` becomes several transactions. So other
    processes do not wait long for its locks.

    A function that waits for a lock of another process delays the others for at most
    :attr:`Waits.lock_s` of :data:`SHARING`. Then another thread waits, and runs later
    functions of the same name too, until none of them waits.

    A lost connection is replaced once, and its functions run again. If the connection was
    lost during a commit, the functions fail, since nobody knows what was stored. If no
    connection can be opened, all waiting functions fail at once.
    """

    def __init__(self, engine: Engine):
        self._engine = engine.execution_options(immediate=True)
        self._queue: SimpleQueue[WorkT | None] = SimpleQueue()
        self._hurry = threading.Event()  # set if more than items wait
        self._items_at = 0.0  # monotonic time until which items wait
        self._aside: dict[str, deque[WorkT]] = {}  # by name
        self._lock = threading.Lock()  # of _aside
        self._patient = ThreadPoolExecutor(ASIDE_AT_ONCE, "database-aside")
        # Apart, so that claims do not wait for threads that wait for locked jobs.
        self._apart = ThreadPoolExecutor(ASIDE_AT_ONCE, "database-apart")
        self._thread = threading.Thread(
            target=self._run, name="database-write", daemon=True
        )
        self._thread.start()

    def submit(
        self,
        function: Callable[[Connection], ResultT],
        name: str = "",
        *,
        waits: bool = False,
    ) -> Future[ResultT]:
        """Return a future of the result, which is done after the commit.

        ``name`` is the key of what the function locks, empty if it locks nothing. With
        ``waits``, the next group begins no earlier for it.
        """
        work = _work(function, name)
        self._queue.put(work)
        if not waits:
            self._hurry.set()
        return work[-1]

    def submit_aside(
        self, function: Callable[[Connection], ResultT], name: str
    ) -> Future[ResultT]:
        """Do as :meth:`submit`, in another thread."""
        work = _work(function, name)
        self._put_aside([work], self._apart)
        return work[-1]

    def submit_each(
        self,
        function: Callable[[Connection, str, list[ItemT]], list[ResultT]],
        job_id: str,
        item: ItemT,
        *,
        waits: bool = True,
    ) -> Future[ResultT]:
        """Do as :meth:`submit`, for a function of many items.

        The items of a job that are in a group share one call of the function.
        """
        future: Future[ResultT] = Future()
        self._queue.put((job_id, function, item, future))
        if not waits:
            self._hurry.set()
        return future

    def close(self) -> None:
        """Run waiting functions and end the threads."""
        self._queue.put(None)
        self._hurry.set()
        self._thread.join()
        self._patient.shutdown()
        self._apart.shutdown()

    # -- the writer thread -------------------------------------------------------------

    def _run(self) -> None:
        while True:
            group, ends = self._next_group()
            if group := self._not_aside(group):
                self._write(group, SHARING)
            if ends:
                return

    def _next_group(self) -> tuple[list[WorkT], bool]:
        work = self._queue.get()
        if (wait_s := self._items_at - time.monotonic()) > 0:
            self._hurry.wait(wait_s)
        self._hurry.clear()  # before the queue is emptied: later work sets it again
        found = self._take_from(work)
        times = min(len(found[0]), MOST_TIMES)
        self._items_at = time.monotonic() + times * ITEMS_EVERY_S
        return found

    def _take_from(self, work: WorkT | None) -> tuple[list[WorkT], bool]:
        """Return ``work`` with further waiting work, and True before the end."""
        group: list[WorkT] = []
        while work is not None:
            if work[-1].set_running_or_notify_cancel():
                group.append(work)
            if len(group) >= MAX_GROUP:
                self._hurry.set()  # some of what still waits may be in a hurry
                return group, False
            try:
                work = self._queue.get_nowait()
            except Empty:
                return group, False
        return group, True

    def _write(self, group: list[WorkT], waits: Waits, *, again: bool = False) -> None:
        group.sort(key=itemgetter(0))
        attempt = _Attempt(self._engine, waits)
        try:
            with WRITE_TIME.time():
                results = attempt.run(group)
        except BaseException as error:  # the futures get the error
            if attempt.is_committing:
                _fail(group, error)
            elif is_ended(error) and not again:
                logger.info("a connection to the job database was lost: %s", error)
                self._write(group, waits, again=True)
            elif attempt.name is None:
                _fail(group if waits is ASIDE else [*group, *self._waiting()], error)
            elif is_locked(error) and waits is not ASIDE:
                self._go_round(group, attempt.name)
            elif len(group) == 1 or is_locked(error) or is_ended(error):
                _fail(group, error)
            else:
                logger.info("a group of %d writes failed (%s)", len(group), error)
                for work in group:
                    self._write([work], waits)
            return
        for (*_, future), result in zip(group, results, strict=False):
            future.set_result(result)
        if unwritten := group[len(results) :]:
            self._write(unwritten, waits)

    def _waiting(self) -> list[WorkT]:
        found: list[WorkT] = []
        ends = False
        while True:
            try:
                work = self._queue.get_nowait()
            except Empty:
                break
            if work is None:
                ends = True
            elif work[-1].set_running_or_notify_cancel():
                found.append(work)
        if ends:
            self._queue.put(None)
        return found

    # -- work that waits for locks of other processes ------------------------------------

    def _go_round(self, group: list[WorkT], name: str) -> None:
        """Run a group without the locked work, which waits in another thread."""
        locked = [work for work in group if work[0] == name]
        logger.info("%d writes wait for a lock of another process", len(locked))
        self._put_aside(locked, self._patient)
        if others := [work for work in group if work[0] != name]:
            # More rows may be locked: they must not delay the others again.
            self._write(others, PROBING)

    def _put_aside(self, works: list[WorkT], threads: ThreadPoolExecutor) -> None:
        with self._lock:
            for work in works:
                # Work without a name locks nothing, and waits for no other work.
                name = work[0] or f"#{id(work[-1])}"
                if name not in self._aside:
                    self._aside[name] = deque()
                    threads.submit(self._write_aside, name)
                self._aside[name].append(work)

    def _not_aside(self, group: list[WorkT]) -> list[WorkT]:
        """Return the work that waits in no other thread, by its name. Leave the other work there."""
        with self._lock:
            late = {name for name, *_ in group if name in self._aside}
        self._put_aside([work for work in group if work[0] in late], self._patient)
        return [work for work in group if work[0] not in late]

    def _write_aside(self, name: str) -> None:
        while True:
            with self._lock:
                works = list(self._aside[name])
                self._aside[name].clear()
                if not works:
                    del self._aside[name]
                    return
            self._write([w for w in works if _is_wanted(w[-1])], ASIDE)


@define
class _Attempt:
    """One transaction of a group. Its state tells what an error means."""

    engine: Engine
    waits: Waits
    #: Name of the running function, None before the first function.
    name: str | None = None
    is_committing: bool = False

    def run(self, group: list[WorkT]) -> list[Any]:
        """Run a sorted group, commit, and return the results.

        After :data:`GROUP_S` it runs no further function: there are fewer results than
        work.
        """
        results: list[Any] = []
        end = time.monotonic() + GROUP_S
        engine = self.engine.execution_options(waits=self.waits)
        with engine.connect() as connection:
            transaction = connection.begin()
            for (name, function), works in groupby(group, itemgetter(0, 1)):
                self.name = name
                results += function(connection, name, [work[2] for work in works])
                if time.monotonic() > end:
                    break
            self.is_committing = True
            transaction.commit()
        return results


def _work(function: Callable[[Connection], Any], name: str) -> WorkT:
    def each(connection: Connection, _: str, __: list[None]) -> list[Any]:
        return [function(connection)]

    return name, each, None, Future()


def _is_wanted(future: Future[Any]) -> bool:
    """Return False if the future was cancelled before its work began."""
    return future.running() or future.set_running_or_notify_cancel()


def _fail(group: list[WorkT], error: BaseException) -> None:
    for *_, future in group:
        future.set_exception(error)


class Commits:
    """Futures of the event loop that are done at the next commit under a name.

    They learn of commits of this process only. For commits of other processes they have a
    time limit.
    """

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, asyncio.Future[None]] = (
            WeakValueDictionary()
        )

    def next(self, name: str, within_s: float) -> asyncio.Future[None]:
        """Return a future of the next commit, done after ``within_s`` at the latest.

        Callers share the future: wait for it with :func:`asyncio.shield`. Call this before a
        read, so that no commit between the two is missed.
        """
        future = self._next.get(name)
        if future is None or future.done():
            loop = asyncio.get_running_loop()
            future = self._next[name] = loop.create_future()
            loop.call_later(within_s, _finish, future)
        return future

    def note(self, name: str) -> None:
        """Wake callers that wait for ``name``."""
        if (future := self._next.pop(name, None)) is not None:
            _finish(future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
