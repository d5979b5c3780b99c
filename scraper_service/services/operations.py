"""Runs operations of several steps: coroutines that another process can go on with.

What a step has found is stored before the next one begins
(:mod:`scraper_service.storage.operations`), so a coroutine that is started again skips what
is there. It may be ended at any ``await``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from scraper_service.errors import QueueFull, ServiceError, ServiceUnavailable
from scraper_service.options.operations import operation_from_json
from scraper_service.storage import admission, jobs, operations
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from scraper_service.options.jobs import BatchOptions
    from scraper_service.options.operations import OperationOptionsT
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.storage.admission import Terms
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.operations import (
        Entry,
        Failure,
        OperationRow,
        Taken,
    )

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for operations of processes that are gone
LOOK_S = 1.0  # at a step that another process works on
BETWEEN_LOOKS_S = 0.1
RETRY_S = 1.0  # where the service is too busy for a step, or one broke
MAX_TRIES = 3  # of what breaks


class OperationFailed(Exception):
    """An operation came to nothing; the text is for its caller."""


class ClaimLost(Exception):
    """Another process works on the operation now, or it has ended."""


class Operation:
    """An operation that this process works on; see :class:`Taken` for its facts.

    Each step raises :exc:`ClaimLost` if the operation is not this process's any more.
    """

    def __init__(self, taken: Taken, database: Database, runner: JobRunner):
        self.id = taken.id
        self.team_id = taken.team_id
        self.page_limit = taken.page_limit
        self.warning = taken.warning
        self.memory: dict[str, Any] = json.loads(taken.memory)
        self.is_over = False
        self._kind, self._options = taken.kind, taken.options
        self._began = time.monotonic() - taken.age_s
        self._claim = taken.claim
        self._database = database
        self._runner = runner

    @cached_property
    def options(self) -> Any:
        """What was asked for: the class of the operation's kind."""
        return operation_from_json(self._kind, json.loads(self._options))

    def deadline(self, seconds: float) -> float:
        """Return when ``seconds`` since the start are over (:func:`time.monotonic`)."""
        return self._began + seconds

    async def remember(self, **facts: Any) -> None:
        """Store what a step has found, as JSON values by name, in :attr:`memory`."""
        self.memory |= facts
        memory = json.dumps(self.memory)
        await self._store(operations.remember, memory)

    async def show(self, result: bytes) -> None:
        """Let the caller read what there is so far, as JSON."""
        await self._store(operations.show, result)

    async def begin(self, name: str, asked: BatchOptions) -> str:
        """Have a batch run as the step ``name``, unless it does; return its id."""
        await self._store(operations.add_step, name, asked)
        self._runner.wake()
        return operations.step_id(self.id, name)

    async def looks(self, step: str, until: float) -> AsyncIterator[Job]:
        """Yield a batch now and then, until it ends or a time is over."""
        while True:
            changed = self._database.changed(step, LOOK_S)
            job = await self._database.read(jobs.get_job, step, None)
            if job is None:
                return
            yield job
            left = until - time.monotonic()
            if not job.is_active or left <= 0:
                return
            await asyncio.wait([changed], timeout=left)
            await asyncio.sleep(BETWEEN_LOOKS_S)

    async def ended(self, step: str, until: float) -> str | None:
        """Wait for the end of a batch, or for a time; tell why it has not all its pages.

        None where it has: each was delivered or has failed.
        """
        last = None
        async for job in self.looks(step, until):
            last = job
        if last is None or last.state is JobState.COMPLETED:
            return None
        if last.is_active:
            return f"only {last.done} of {last.total} pages were read in time"
        return (last.error or f"its pages were {last.state}").rstrip(".")

    async def entries(self, step: str, skip: int = 0) -> AsyncIterator[list[Entry]]:
        """Yield the pages of a batch from the ``skip``-th that came, some at a time."""
        while found := await self._database.read(operations.read_entries, step, skip):
            skip += len(found)
            yield found

    async def failures(self, step: str) -> list[Failure]:
        """Return the addresses of a batch that could not be read."""
        return await self._database.read(operations.read_failures, step)

    async def complete(
        self, result: bytes, pages: int, price: int, tokens: int | None = None
    ) -> None:
        """Store the result as JSON and charge ``price`` credits for ``pages`` pages."""
        await self._store(operations.complete, result, pages, price, tokens)
        self.is_over = True

    async def fail(self, error: str) -> None:
        """End it without a result; it costs nothing."""
        await self._store(operations.fail, error)
        self.is_over = True

    async def release(self) -> None:
        """Leave it to whoever goes on with it."""
        await self._database.write_locking(operations.release, self.id, self._claim)

    async def _store(self, function: Callable[..., bool], *args: Any) -> None:
        stored = await self._database.write_locking(
            function, self.id, self._claim, *args
        )
        if not stored:
            raise ClaimLost(self.id)


class Work(Protocol):
    """A kind of operation."""

    def pages(self, options: Any) -> int:
        """Return how many pages an operation may have to pay for."""
        ...

    def price(self, options: Any) -> int:
        """Return what each of them costs, in credits."""
        ...

    async def __call__(self, operation: Operation) -> None:
        """Run an operation to its end, or go on where it was."""
        ...


class Operations:
    """Works on the operations of the database, together with other processes.

    ``kinds`` are the works by kind of operation. At most ``MAX_RUNNING_OPERATIONS``
    are under way in this process.
    """

    def __init__(
        self, database: Database, runner: JobRunner, kinds: Mapping[str, Work]
    ):
        self._database = database
        self._runner = runner
        self.kinds = kinds
        self._most = runner.settings.getint("MAX_RUNNING_OPERATIONS")
        self._running: dict[str, asyncio.Task[None]] = {}
        self._teams: dict[str, str] = {}  # of those
        self._wanted = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._is_closing = False

    def open(self) -> None:
        """Begin to take up operations."""
        self._loop = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """End the work of this process; others go on with it, or a later start."""
        self._is_closing = True
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        if tasks := list(self._running.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def start(
        self, options: OperationOptionsT, terms: Terms, version: int, pages: int
    ) -> str:
        """Store an operation that may read ``pages`` pages; return its id.

        Raises :exc:`~scraper_service.errors.OutOfCredits`, :exc:`QueueFull`, and
        :exc:`ServiceUnavailable` when it stops.
        """
        if self._is_closing:
            raise ServiceUnavailable("The service is stopping.")
        found = await self._database.write_first(
            admission.create_operation, terms.team_id, terms, options, version, pages
        )
        if isinstance(found, ServiceError):
            raise found
        self._wanted.set()
        return found

    async def read(
        self, operation_id: str, team_id: str, kind: str
    ) -> OperationRow | None:
        """Return an operation of a team, None if there is none or it has expired."""
        return await self._database.read(
            operations.read_operation, operation_id, team_id, kind
        )

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self._take_up()
                await self._end_orphans()
            except ServiceUnavailable:
                pass  # logged where it was raised; the next turn tries again
            except Exception:
                logger.exception("operations could not be taken up")
            try:
                await asyncio.wait_for(self._wanted.wait(), POLL_S)
            except TimeoutError:
                continue

    async def _take_up(self) -> None:
        room = self._most - len(self._running)
        if room <= 0:
            return
        owner = self._runner.owner
        found = await self._database.read(
            operations.waiting, owner, dict(self._teams), room
        )
        for operation_id, team_id in found:
            taken = await self._database.write_locking(
                operations.take, operation_id, owner
            )
            if taken is not None:
                task = asyncio.ensure_future(self._follow(taken))
                self._running[operation_id] = task
                self._teams[operation_id] = team_id

    async def _end_orphans(self) -> None:
        """Cancel steps that nobody waits for any more."""
        for step in await self._database.read(operations.orphans):
            await self._database.write_locking(jobs.end_job, step, JobState.CANCELLED)
            await self._runner.cancel(step)

    async def _follow(self, taken: Taken) -> None:
        """Work on an operation until it ends, or is another process's."""
        operation = Operation(taken, self._database, self._runner)
        try:
            await self._work(operation, taken.kind)
        except ClaimLost:
            logger.info("operation %s has ended, or was taken over", taken.id)
        except (asyncio.CancelledError, ServiceUnavailable):
            pass  # the service stops, or the database is away: it is taken up again
        except Exception:
            logger.exception("operation %s could not be ended", taken.id)
        finally:
            if not operation.is_over:
                await self._release(operation)
            self._running.pop(taken.id, None)
            self._teams.pop(taken.id, None)
            self._wanted.set()

    async def _work(self, operation: Operation, kind: str) -> None:
        tries = 0
        while not operation.is_over:
            try:
                await self.kinds[kind](operation)
            except QueueFull:
                await asyncio.sleep(RETRY_S)
            except OperationFailed as error:
                await operation.fail(str(error))
            except (ClaimLost, ServiceUnavailable):
                raise
            except Exception as error:
                # A converter process may have died of something else.
                logger.exception("operation %s broke", operation.id)
                tries += 1
                if tries < MAX_TRIES:
                    await asyncio.sleep(RETRY_S)
                    continue
                text = f"The operation could not be run: {type(error).__name__}."
                await operation.fail(text)

    async def _release(self, operation: Operation) -> None:
        try:
            await operation.release()
        except ServiceUnavailable:
            logger.warning("operation %s is left to its lease", operation.id)
