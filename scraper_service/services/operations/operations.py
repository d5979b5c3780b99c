"""Runs extract, agent, deep research and llms.txt jobs, here called operations.

An operation is a coroutine of several steps. The result of a step is stored
(:mod:`scraper_service.storage.jobs.operations`) before the next step begins. So the coroutine
may end at any ``await``, and another process can continue it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import evolve

from scraper_service.crawling.logs import job_logger, log_begin, with_facts
from scraper_service.crawling.metrics import CREDITS
from scraper_service.errors import (
    JobNotFound,
    OptionUnavailable,
    QueueFull,
    ServiceUnavailable,
    counted,
)
from scraper_service.options.availability import (
    missing_model,
    require_agent,
    require_available,
    require_researchable,
)
from scraper_service.options.extraction import AgentOptions, ResearchOptions
from scraper_service.options.limits import Retention, under_policy
from scraper_service.options.serialization import operation_from_json
from scraper_service.services.accounts import DiskQuota
from scraper_service.services.metrics.tracing import job_span, note_job
from scraper_service.shared_objects import BackgroundTasks, ChangePoll, repeat
from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.jobs import admission, operations
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.crawling.download.engines import Engines
    from scraper_service.crawling.politeness.team_limits import TeamPermits
    from scraper_service.options.crawl import BatchOptions
    from scraper_service.options.extraction import OperationOptionsT
    from scraper_service.services.accounts import Team
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.operations import (
        Entry,
        OperationEntry,
        OperationRow,
        StepFailure,
        Taken,
    )

T = TypeVar("T")

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for operations of processes that are gone
NEW_S = 0.5  # for operations that other processes have stored
LOOK_S = 1.0  # at a step that another process works on
BETWEEN_LOOKS_S = 0.1
RETRY_S = 1.0  # where the service is too busy for a step, or one broke
MAX_TRIES = 3  # of what breaks
AGENT_CREDITS = 5  # that a team must have, unless the caller set fewer: one page


class OperationFailed(Exception):
    """An operation came to nothing; the text is for its caller."""


class ClaimLost(Exception):
    """Another process works on the operation now, or it has ended."""


class Operation:
    """An operation that this process works on; see :class:`Taken` for its facts.

    Each step raises :exc:`ClaimLost` if the operation is not this process's any more.
    """

    def __init__(
        self, taken: Taken, database: Database, runner: JobRunner, pool: ConverterPool
    ):
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
        self._pool = pool

    @cached_property
    def options(self) -> Any:
        """The options, of the class for the operation's kind."""
        return operation_from_json(self._kind, json.loads(self._options))

    def deadline(self, seconds: float) -> float:
        """Return the time ``seconds`` after the start (:func:`time.monotonic`)."""
        return self._began + seconds

    async def in_pool(
        self, function: Callable[..., T], *args: Any, timeout_s: float | None = None
    ) -> T:
        """Return the result of a function that runs in the converter pool.

        Raises the errors of :meth:`ConverterPool.run`.
        """
        own: dict[str, Any] = {"team_id": self.team_id, "job_id": self.id}
        if timeout_s is not None:
            own["timeout_s"] = timeout_s
        found: T = await self._pool.run(function, *args, **own)
        return found

    async def remember(self, **facts: Any) -> None:
        """Store results of a step in :attr:`memory`, as JSON values by name."""
        self.memory |= facts
        memory = json.dumps(self.memory)
        await self.store(operations.remember, memory)

    async def advance(self, result: bytes, action: Any = None, **facts: Any) -> None:
        """Do as :meth:`remember` and :meth:`show` in one write.

        ``action`` is the JSON value of an event for the webhook, None for no event.
        """
        self.memory |= facts
        memory = json.dumps(self.memory)
        event = None if action is None else json.dumps(action)
        await self.store(operations.advance, memory, result, event)

    async def store(self, function: Callable[..., bool], *args: Any) -> None:
        """Run a write of a step, ``function(connection, job_id, lease, *args)``.

        It returns False if the lease is outdated, and has stored nothing then.
        """
        if not await self._database.write(function, self.id, self._claim, *args):
            raise ClaimLost(self.id)

    def close(self, state: str, **facts: Any) -> None:
        """Note that a step of :meth:`store` has ended the operation."""
        self.is_over = True
        self._log_end(state, **facts)

    async def show(self, result: bytes) -> None:
        """Store the result so far as JSON, which the caller can read."""
        await self.store(operations.show, result)

    async def begin(
        self, name: str, batch: BatchOptions, base_id: str | None = None
    ) -> str:
        """Start a batch as the step ``name``, unless it runs already; return its id.

        It repeats the unchanged pages of the job ``base_id``.
        """
        await self.store(operations.add_step, name, batch, base_id)
        self._runner.wake()
        return operations.step_id(self.id, name)

    async def looks(self, step: str, until: float) -> AsyncIterator[Job]:
        """Yield the state of a batch now and then, until it ends or ``until`` is over."""
        while True:
            changed = self._database.changed(step, LOOK_S)
            job = await Jobs(self._database).get(step, None)
            if job is None:
                return
            yield job
            left = until - time.monotonic()
            if not job.is_active or left <= 0:
                return
            await asyncio.wait([changed], timeout=left)
            await asyncio.sleep(BETWEEN_LOOKS_S)

    async def ended(self, step: str, until: float) -> str | None:
        """Wait for a batch until a time; return why some of its pages are missing.

        Return None if every page was delivered or has failed.
        """
        last = None
        async for job in self.looks(step, until):
            last = job
        if last is None or last.state is JobState.COMPLETED:
            return None
        if last.is_active:
            return f"only {last.done} of {counted(last.total, 'page')} could be read in time"
        return (last.error or f"its pages were {last.state}").rstrip(".")

    async def entries(self, step: str, skip: int = 0) -> AsyncIterator[list[Entry]]:
        """Yield the pages of a batch from number ``skip``, in the order of arrival."""
        while found := await self._database.read(operations.read_entries, step, skip):
            skip += len(found)
            yield found

    async def failures(self, step: str) -> list[StepFailure]:
        """Return the pages of a batch that failed."""
        return await self._database.read(operations.read_failures, step)

    async def complete(
        self, result: bytes, pages: int, price: int, tokens: int | None = None
    ) -> None:
        """Store the result as JSON and charge ``price`` credits for ``pages`` pages."""
        await self.store(operations.complete, result, pages, price, tokens)
        CREDITS.labels(self._kind).inc(price)
        self.is_over = True
        self._log_end("completed", pages=pages, credits=price)

    async def fail(self, error: str, result: bytes | None = None) -> None:
        """End the operation without a result. It costs nothing.

        ``result`` is the JSON that the caller sees beside the error; None leaves it as
        it is.
        """
        await self.store(operations.fail, error, result)
        self.is_over = True
        self._log_end("failed", error=error)

    def _log_end(self, state: str, **facts: Any) -> None:
        seconds = round(time.monotonic() - self._began, 3)
        told = ", ".join(f"{name} {value}" for name, value in facts.items())
        job_logger.log(
            logging.WARNING if "error" in facts else logging.INFO,
            "job %s (%s) %s after %.1f s: %s",
            *(self.id, self._kind, state, seconds, told),
            extra=with_facts(job=self.id, event=state, seconds=seconds, **facts),
        )

    async def release(self) -> None:
        """Release the claim, so that any process may continue the operation."""
        await self._database.write(operations.release, self.id, self._claim)


class Work(Protocol):
    """A kind of operation."""

    def pages(self, options: Any) -> int:
        """Return the most pages that an operation may be charged for."""
        ...

    def price(self, options: Any) -> int:
        """Return the price of a page in credits."""
        ...

    async def __call__(self, operation: Operation) -> None:
        """Run an operation from its last stored step to its end."""
        ...


class Operations:
    """Runs the stored operations, together with other processes.

    ``kinds`` is the work by kind of operation. This process runs at most ``most`` of them
    at a time, none with 0.
    """

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        pool: ConverterPool,
        kinds: Mapping[str, Work],
        most: int,
    ):
        self._database = database
        self._runner = runner
        self._pool = pool
        self.kinds = kinds
        self.disk = DiskQuota(database, runner.settings.getint("TEAM_DISK_MB"))
        self._most = most
        self._running: dict[str, asyncio.Task[None]] = {}
        self._teams: dict[str, str] = {}  # by running operation
        self._wanted = asyncio.Event()
        self._poll = ChangePoll(database.version)
        self._looked_at = -math.inf  # monotonic
        self._orphaned = asyncio.Event()  # set if steps may have lost their operation
        self._loops = BackgroundTasks()
        self._is_closing = False

    def open(self) -> None:
        """Start to run operations."""
        self._loops.spawn(
            repeat(
                NEW_S,
                self._take_up,
                "operations could not be taken up",
                wanted=self._wanted,
                is_due=self._may_find_some,
            )
        )
        self._loops.spawn(
            repeat(
                POLL_S,
                self._end_orphans,
                "the steps of ended operations could not be ended",
                wanted=self._orphaned,
                is_due=ChangePoll(self._database.version).is_due,
            )
        )

    @property
    def running(self) -> int:
        """The number of operations that run in this process."""
        return len(self._running)

    async def close(self) -> None:
        """Stop this process's work. Other processes or a restart continue it."""
        self._is_closing = True
        self._loops.cancel()
        await self._loops.join()
        if tasks := list(self._running.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def wake(self) -> None:
        """Look for operations at once."""
        self._wanted.set()

    async def start(
        self, options: OperationOptionsT, terms: Terms, version: int, pages: int
    ) -> operations.StartedOperation:
        """Store an operation that may read ``pages`` pages.

        Raises :exc:`~scraper_service.errors.OutOfCredits`, :exc:`QueueFull`, and during
        shutdown :exc:`ServiceUnavailable`.
        """
        if self._is_closing:
            raise ServiceUnavailable("The service is stopping.")
        found = await self._database.write(
            admission.create_operation, terms, options, version, pages
        )
        note_job(found.id)
        self._wanted.set()
        return found

    async def read(
        self, operation_id: str, team_id: str, kind: str
    ) -> OperationRow | None:
        """Return an operation of a team; None if it is unknown or has expired."""
        return await self._database.read(
            operations.read_operation, operation_id, team_id, kind
        )

    async def newest(
        self, team_id: str, kind: str, before: float | None, limit: int
    ) -> list[OperationEntry]:
        """Return the newest operations of a team, see :func:`operations.read_operations`."""
        return await self._database.read(
            operations.read_operations, team_id, kind, before, limit
        )

    async def cancel(
        self, operation_id: str, error: str, actor: Actor | None = None
    ) -> None:
        """Cancel an operation unless it has ended. ``error`` is for its caller.

        Its steps end soon, and no further one starts.
        """
        jobs = Jobs(self._database)
        if await jobs.end(operation_id, JobState.CANCELLED, error, actor):
            if (task := self._running.get(operation_id)) is not None:
                task.cancel()
            self._orphaned.set()

    def _may_find_some(self) -> bool:
        is_alone = self._runner.is_alone or not self._most
        if is_alone and time.monotonic() < self._looked_at + POLL_S:
            return False
        return self._poll.is_due()

    async def _take_up(self) -> None:
        self._looked_at = time.monotonic()
        room = self._most - len(self._running)
        if room <= 0:
            return
        owner = self._runner.owner
        found = await self._database.read(
            operations.waiting, owner, dict(self._teams), room, tuple(self.kinds)
        )
        for operation_id, team_id in found:
            taken = await self._database.write(operations.take, operation_id, owner)
            if taken is not None:
                task = asyncio.ensure_future(self._follow(taken))
                self._running[operation_id] = task
                self._teams[operation_id] = team_id

    async def _end_orphans(self) -> None:
        """Cancel steps whose operation has ended."""
        for step in await self._database.read(operations.orphans):
            await Jobs(self._database).end(step, JobState.CANCELLED)
            await self._runner.cancel(step)

    async def _follow(self, taken: Taken) -> None:
        """Run an operation until it ends or another process claims it."""
        operation = Operation(taken, self._database, self._runner, self._pool)
        try:
            await log_begin(self._database, taken.id, self._runner.owner)
            with job_span(taken.id, taken.kind):
                await self._work(operation, taken.kind)
        except ClaimLost:
            logger.info("operation %s has ended, or was taken over", taken.id)
        except (asyncio.CancelledError, ServiceUnavailable):
            pass  # at shutdown, or without the database: it is run again later
        except Exception:
            logger.exception("the end of operation %s could not be stored", taken.id)
        finally:
            if not operation.is_over:
                await self._release(operation)
            self._running.pop(taken.id, None)
            self._teams.pop(taken.id, None)
            self._wanted.set()
            self._orphaned.set()

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
                # A converter process may have died for another reason.
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
            logger.warning("operation %s is released when its lease ends", operation.id)


class OperationCalls:
    """Starts and reads the operations of a team."""

    def __init__(
        self,
        operations: Operations,
        engines: Engines,
        permits: TeamPermits,
        settings: BaseSettings,
    ):
        self._operations = operations
        self._engines = engines
        self._permits = permits
        self._most_jobs = settings.getint("MAX_ACTIVE_JOBS")
        self._webhook_url: str | None = settings["WEBHOOK_URL"] or None
        self._no_model = missing_model(settings)
        self._retention = Retention.of(settings)
        self._disk = operations.disk
        #: The name of the language model, None without a model.
        self.model_name: str | None = settings["LLM_MODEL"] or None

    async def start(
        self, options: OperationOptionsT, team: Team, version: int
    ) -> operations.StartedOperation:
        """Store an operation that is run soon.

        Raises :exc:`OptionUnavailable` and the errors of :meth:`Operations.start`.
        """
        options = under_policy(options, team.site_policy)
        try:
            # The operation sets the formats itself.
            scrape = evolve(options.scrape, formats=())
            require_available(scrape, self._engines.missing)
        except OptionUnavailable as error:
            error.nested = True
            raise
        if isinstance(options, ResearchOptions):
            require_researchable(self._no_model)
        if isinstance(options, AgentOptions):
            require_agent(self._no_model)
        work = self._operations.kinds[options.kind]
        terms = Terms(
            team_id=team.id,
            key_id=team.key_id,
            page_price=None if team.is_unlimited else work.price(options),
            most_jobs=self._most_jobs,
            webhook_url=self._webhook_url,
            retention_s=self._retention.seconds(options.retention_days),
            disk_bytes=self._disk.limit(team),
        )
        self._permits.limit_to(team.id, team.concurrency)
        pages = work.pages(options)
        if isinstance(options, AgentOptions):
            terms = evolve(terms, least_pages=min(pages, AGENT_CREDITS))
        return await self._operations.start(options, terms, version, pages)

    async def read(
        self, operation_id: str, team: Team, kind: str, not_found: str
    ) -> OperationRow:
        """Return an operation. Raises :exc:`JobNotFound` with the text ``not_found``."""
        found = await self._operations.read(operation_id, team.id, kind)
        if found is None:
            raise JobNotFound(not_found)
        return found

    async def newest(
        self, team: Team, kind: str, before: float | None, limit: int
    ) -> list[OperationEntry]:
        """Return the newest operations of a team that started before a time."""
        return await self._operations.newest(team.id, kind, before, limit)

    async def cancel(self, found: OperationRow, team: Team, error: str) -> JobState:
        """Cancel an operation unless it has ended. Return its state afterwards."""
        if found.state not in ACTIVE:
            return found.state
        await self._operations.cancel(found.id, error, team.actor)
        after = await self._operations.read(found.id, team.id, found.kind)
        return JobState.CANCELLED if after is None else after.state
