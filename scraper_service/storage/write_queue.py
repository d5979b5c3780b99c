"""The one thread that writes: what waits shares a transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from attrs import define
from sqlalchemy import Engine

from scraper_service.storage.timeouts import (
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
# From one transaction to the next, while nothing but items waits: what a transaction
# costs besides its rows is more than a page's rows cost.
ITEMS_EVERY_S = 0.02
ASIDE_AT_ONCE = 4  # names whose rows are waited for

logger = logging.getLogger(__name__)


class Writer:
    """Runs functions of a connection one after the other, in groups.

    A group that fails is rolled back and its functions are repeated one by one, so that
    a bad one fails alone. They must therefore have no effect but on the database.
    Inside a group, they come in the order of what they lock: processes that write to
    the same rows wait for each other's locks, and never in a circle. Items, of which
    many come, wait for each other up to :data:`ITEMS_EVERY_S`, and for nothing else.

    A function that has to wait for a lock of another process holds up the others for
    :attr:`Waits.lock_s` of :data:`SHARING`. Then it waits aside, in another thread, and
    with it all that comes for the same name until its turn there is over.

    A connection that turns out to be dead is replaced once, and what was under way on it is
    repeated. It is not when the connection was lost while the server committed: then
    nobody knows what was stored, and who asked has to find out. When no connection can
    be had, all that waits fails at once, so that nobody waits for one attempt after the
    other.
    """

    def __init__(self, engine: Engine):
        self._engine = engine.execution_options(immediate=True)
        self._queue: SimpleQueue[WorkT | None] = SimpleQueue()
        self._hurry = threading.Event()  # what waits is more than items
        self._items_at = 0.0  # by the monotonic clock: they wait until then
        self._aside: dict[str, deque[WorkT]] = {}  # by name
        self._lock = threading.Lock()  # of that
        self._patient = ThreadPoolExecutor(ASIDE_AT_ONCE, "database-aside")
        self._thread = threading.Thread(
            target=self._run, name="database-write", daemon=True
        )
        self._thread.start()

    def submit(
        self, function: Callable[[Connection], ResultT], name: str = ""
    ) -> Future[ResultT]:
        """Return what will hold the result, after the commit.

        ``name`` is what the function locks; one without locks nothing.
        """
        work = _work(function, name)
        self._queue.put(work)
        self._hurry.set()
        return work[-1]

    def submit_aside(
        self, function: Callable[[Connection], ResultT], name: str
    ) -> Future[ResultT]:
        """Do as :meth:`submit`, but not behind what waits for the one thread."""
        work = _work(function, name)
        self._put_aside([work])
        return work[-1]

    def submit_each(
        self,
        function: Callable[[Connection, str, list[ItemT]], list[ResultT]],
        job_id: str,
        item: ItemT,
        *,
        waits: bool = True,
    ) -> Future[ResultT]:
        """Do as :meth:`submit`; the items that wait for one function share a call.

        One that ``waits`` does so a moment for others, if some were written just before.
        """
        future: Future[ResultT] = Future()
        self._queue.put((job_id, function, item, future))
        if not waits:
            self._hurry.set()
        return future

    def close(self) -> None:
        """Finish what waits and end the threads."""
        self._queue.put(None)
        self._hurry.set()
        self._thread.join()
        self._patient.shutdown()

    # -- the one thread ----------------------------------------------------------------

    def _run(self) -> None:
        while True:
            group, ends = self._next_group()
            if group := self._not_aside(group):
                self._write(group, SHARING)
            if ends:
                return

    def _next_group(self) -> tuple[list[WorkT], bool]:
        group: list[WorkT] = []
        work = self._queue.get()
        if (wait_s := self._items_at - time.monotonic()) > 0:
            self._hurry.wait(wait_s)
        self._hurry.clear()  # before the queue is emptied: what comes later sets it anew
        self._items_at = time.monotonic() + ITEMS_EVERY_S
        while work is not None:
            if work[-1].set_running_or_notify_cancel():
                group.append(work)
            if len(group) >= MAX_GROUP:
                return group, False
            try:
                work = self._queue.get_nowait()
            except Empty:
                return group, False
        return group, True

    def _write(self, group: list[WorkT], waits: Waits, *, again: bool = False) -> None:
        """Run a group to its end, in one transaction if that can be."""
        group.sort(key=itemgetter(0))
        attempt = _Attempt(self._engine, waits)
        try:
            results = attempt.run(group)
        except BaseException as error:  # it is handed to who waits
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
        for (*_, future), result in zip(group, results, strict=True):
            future.set_result(result)

    def _waiting(self) -> list[WorkT]:
        """Take all that waits for its turn."""
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

    # -- what waits for the locks of others ----------------------------------------------

    def _go_round(self, group: list[WorkT], name: str) -> None:
        """Run a group without what is locked, which waits aside."""
        locked = [work for work in group if work[0] == name]
        logger.info("%d writes wait for a lock of another process", len(locked))
        self._put_aside(locked)
        if others := [work for work in group if work[0] != name]:
            # Where one row is locked others may be: they hold up nobody any more.
            self._write(others, PROBING)

    def _put_aside(self, works: list[WorkT]) -> None:
        with self._lock:
            for work in works:
                # What names no row may wait for any: it has nothing to do with others.
                name = work[0] or f"#{id(work[-1])}"
                if name not in self._aside:
                    self._aside[name] = deque()
                    self._patient.submit(self._write_aside, name)
                self._aside[name].append(work)

    def _not_aside(self, group: list[WorkT]) -> list[WorkT]:
        """Return what need not wait; what others of its name wait for, waits as well."""
        with self._lock:
            late = {name for name, *_ in group if name in self._aside}
        self._put_aside([work for work in group if work[0] in late])
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
    """One transaction of a group: how far it came is what an error means.

    ``name`` is that of the function that ran, None before the first one.
    """

    engine: Engine
    waits: Waits
    name: str | None = None
    is_committing: bool = False

    def run(self, group: list[WorkT]) -> list[Any]:
        """Return the results of a sorted group, after the commit."""
        results: list[Any] = []
        engine = self.engine.execution_options(waits=self.waits)
        with engine.connect() as connection:
            transaction = connection.begin()
            for (name, function), works in groupby(group, itemgetter(0, 1)):
                self.name = name
                results += function(connection, name, [work[2] for work in works])
            self.is_committing = True
            transaction.commit()
        return results


def _work(function: Callable[[Connection], Any], name: str) -> WorkT:
    def each(connection: Connection, _: str, __: list[None]) -> list[Any]:
        return [function(connection)]

    return name, each, None, Future()


def _is_wanted(future: Future[Any]) -> bool:
    """Return False if nobody waits any more: it was cancelled before it began."""
    return future.running() or future.set_running_or_notify_cancel()


def _fail(group: list[WorkT], error: BaseException) -> None:
    for *_, future in group:
        future.set_exception(error)
