"""Jobs that a coroutine runs: model jobs, and checks of monitors.

Such a job has several steps. The result of a step is stored
(:mod:`scraper_service.storage.jobs.model_jobs`) before the next step begins. So the coroutine
may end at any ``await``, and another process can continue it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scraper_service.crawling.observability import CREDITS, job_logger, with_facts
from scraper_service.errors import QueueFull, ServiceUnavailable, plural
from scraper_service.options.jobs import BatchOptions, options_from_json
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import model_jobs
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.model_jobs import Entry, StepFailure
    from scraper_service.storage.jobs.runs import Taken

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOK_S = 1.0  # at a step that another process works on
BETWEEN_LOOKS_S = 0.1
RETRY_S = 1.0  # where the service is too busy for a step, or one broke
MAX_TRIES = 3  # of what breaks


def batch_of(urls: Iterable[str], scrape: ScrapeOptions) -> BatchOptions:
    """Return the batch of a step, which scrapes ``urls`` as one job."""
    return BatchOptions(
        urls=tuple(urls), scrape=scrape, max_concurrency=None, webhook=None
    )


class JobRunFailed(Exception):
    """A job came to nothing; the text is for its caller."""


class RunLost(Exception):
    """Another process runs the job now, or it has ended."""


class RunningJob:
    """A job that this process works on; see :class:`Taken` for its facts.

    Each step raises :exc:`RunLost` if the job is not this process's any more.
    """

    def __init__(
        self,
        taken: Taken,
        database: Database,
        pool: ConverterPool,
        wake: Callable[[], None],
    ):
        job = taken.job
        self.id = job.id
        self.team_id = job.team_id
        self.page_limit = job.page_limit or 0
        self.warning = job.warning
        self.memory: dict[str, Any] = json.loads(taken.memory or "{}")
        self.is_over = False
        self._kind, self._options = job.kind, job.options
        self._began = time.monotonic() - taken.age_s
        self._run_id = taken.run_id
        self._database = database
        self._pool = pool
        self._wake = wake

    @cached_property
    def options(self) -> Any:
        """The options, of the class for the job's kind."""
        return options_from_json(self._kind, json.loads(self._options))

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
        await self.store(model_jobs.remember, memory)

    async def advance(self, result: bytes, action: Any = None, **facts: Any) -> None:
        """Do as :meth:`remember` and :meth:`show` in one write.

        ``action`` is the JSON value of an event for the webhook, None for no event.
        """
        self.memory |= facts
        memory = json.dumps(self.memory)
        event = None if action is None else json.dumps(action)
        await self.store(model_jobs.advance, memory, result, event)

    async def store(self, function: Callable[..., bool], *args: Any) -> None:
        """Run a write of a step, ``function(connection, job_id, run_id, *args)``.

        It returns False if the run has ended, and has stored nothing then.
        """
        if not await self._database.write(function, self.id, self._run_id, *args):
            raise RunLost(self.id)

    def close(self, state: str, **facts: Any) -> None:
        """Note that a step of :meth:`store` has ended the job."""
        self.is_over = True
        self._log_end(state, **facts)

    async def show(self, result: bytes) -> None:
        """Store the result so far as JSON, which the caller can read."""
        await self.store(model_jobs.show, result)

    async def begin(
        self, name: str, batch: BatchOptions, base_id: str | None = None
    ) -> str:
        """Start a batch as the step ``name``, unless it runs already; return its id.

        It repeats the unchanged pages of the job ``base_id``.
        """
        await self.store(model_jobs.add_step, name, batch, base_id)
        self._wake()
        return model_jobs.step_id(self.id, name)

    async def looks(self, step: str, until: float) -> AsyncIterator[Job]:
        """Yield the state of a batch now and then, until it ends or ``until`` is over."""
        while True:
            changed = self._database.next_commit(step, LOOK_S)
            job = await Jobs(self._database).get(step, None)
            if job is None:
                return
            yield job
            left = until - time.monotonic()
            if not job.is_active or left <= 0:
                return
            await asyncio.wait([changed], timeout=left)
            await asyncio.sleep(BETWEEN_LOOKS_S)

    async def wait_for_batch(self, step: str, until: float) -> str | None:
        """Wait for a batch until a time; return why some of its pages are missing.

        Return None if every page was delivered or has failed.
        """
        last = None
        async for job in self.looks(step, until):
            last = job
        if last is None or last.state is JobState.COMPLETED:
            return None
        if last.is_active:
            return f"only {last.done} of {plural(last.total, 'page')} could be read in time"
        return (last.error or f"its pages were {last.state}").rstrip(".")

    async def entries(self, step: str, skip: int = 0) -> AsyncIterator[list[Entry]]:
        """Yield the pages of a batch from number ``skip``, in the order of arrival."""
        while found := await self._database.read(model_jobs.read_entries, step, skip):
            skip += len(found)
            yield found

    async def failures(self, step: str) -> list[StepFailure]:
        """Return the pages of a batch that failed."""
        return await self._database.read(model_jobs.read_failures, step)

    async def complete(
        self, result: bytes, pages: int, price: int, tokens: int | None = None
    ) -> None:
        """Store the result as JSON and charge ``price`` credits for ``pages`` pages."""
        await self.store(model_jobs.complete, result, pages, price, tokens)
        CREDITS.labels(self._kind).inc(price)
        self.is_over = True
        self._log_end("completed", pages=pages, credits=price)

    async def fail(self, error: str, result: bytes | None = None) -> None:
        """End the job without a result. It costs nothing.

        ``result`` is the JSON that the caller sees beside the error; None leaves it as
        it is.
        """
        await self.store(model_jobs.fail, error, result)
        self.is_over = True
        self._log_end("failed", error=error)

    def _log_end(self, state: str, **facts: Any) -> None:
        seconds = round(time.monotonic() - self._began, 3)
        shown = ", ".join(f"{name} {value}" for name, value in facts.items())
        job_logger.log(
            logging.WARNING if "error" in facts else logging.INFO,
            "job %s (%s) %s after %.1f s: %s",
            *(self.id, self._kind, state, seconds, shown),
            extra=with_facts(job=self.id, event=state, seconds=seconds, **facts),
        )


class Work(Protocol):
    """A kind of job. By default its pages are not charged when it starts."""

    def pages(self, options: Any) -> int:
        """Return the most pages that a job may be charged for."""
        return 0

    def price(self, options: Any) -> int:
        """Return the price of a page in credits."""
        return 0

    async def __call__(self, job: RunningJob) -> None:
        """Run a job from its last stored step to its end."""
        ...


async def run_job(
    work: Work,
    database: Database,
    pool: ConverterPool,
    wake: Callable[[], None],
    taken: Taken,
) -> None:
    """Run a job until it ends or another process takes it.

    ``wake`` lets the runner look for new steps. Raises :exc:`ServiceUnavailable`.
    """
    job = RunningJob(taken, database, pool, wake)
    tries = 0
    while not job.is_over:
        try:
            await work(job)
        except QueueFull:
            await asyncio.sleep(RETRY_S)
        except JobRunFailed as error:
            await job.fail(str(error))
        except RunLost:
            logger.info("job %s has ended, or was taken over", job.id)
            return
        except ServiceUnavailable:
            raise
        except Exception as error:
            # A converter process may have died for another reason.
            logger.exception("job %s broke", job.id)
            tries += 1
            if tries < MAX_TRIES:
                await asyncio.sleep(RETRY_S)
                continue
            text = f"The job could not be run: {type(error).__name__}."
            await job.fail(text)
