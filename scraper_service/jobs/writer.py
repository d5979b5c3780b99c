"""The one thread that writes: what waits shares a transaction."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from itertools import groupby
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Engine

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
WorkT: TypeAlias = "tuple[str, Callable[..., list[Any]], Any, Future[Any]]"

MAX_GROUP = 100  # functions in one transaction
# From one transaction to the next, while nothing but items waits: what a transaction
# costs besides its rows is more than a page's rows cost.
ITEMS_EVERY_S = 0.02

logger = logging.getLogger(__name__)


class Writer:
    """Runs functions of a connection one after the other, in groups.

    A group that fails is rolled back and its functions are repeated one by one, so that
    a bad one fails alone. They must therefore have no effect but on the database.
    Inside a group, they come in the order of what they lock: processes that write to
    the same rows wait for each other's locks, and never in a circle. Items, of which
    many come, wait for each other up to :data:`ITEMS_EVERY_S`, and for nothing else.
    """

    def __init__(self, engine: Engine):
        self._engine = engine.execution_options(immediate=True)
        self._queue: SimpleQueue[WorkT | None] = SimpleQueue()
        self._hurry = threading.Event()  # what waits is more than items
        self._items_at = 0.0  # by the monotonic clock: they wait until then
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
        future: Future[ResultT] = Future()

        def each(connection: Connection, _: str, __: list[None]) -> list[ResultT]:
            return [function(connection)]

        self._queue.put((name, each, None, future))
        self._hurry.set()
        return future

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
        """Finish what waits and end the thread."""
        self._queue.put(None)
        self._hurry.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            group, ends = self._next_group()
            if group:
                self._write(group)
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

    def _write(self, group: list[WorkT]) -> None:
        group.sort(key=itemgetter(0))
        try:
            with self._engine.begin() as connection:
                results = [
                    result
                    for (job_id, function), works in groupby(group, itemgetter(0, 1))
                    for result in function(connection, job_id, [w[2] for w in works])
                ]
        except BaseException as error:  # it is handed to who waits
            if len(group) == 1:
                group[0][-1].set_exception(error)
                return
            logger.info("a group of %d writes failed (%s)", len(group), error)
            for work in group:
                self._write([work])
            return
        for (*_, future), result in zip(group, results, strict=True):
            future.set_result(result)
