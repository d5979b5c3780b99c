"""Who runs the jobs of the database; here: crawlers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from scraper_service.components.job_process import broken, early_end
from scraper_service.components.presence import Presence
from scraper_service.components.recorder import JobRecorder
from scraper_service.components.scheduler import LeasedScheduler
from scraper_service.errors import ServiceUnavailable
from scraper_service.jobs import host_rows, store
from scraper_service.jobs.model import LOCAL_TEAM, JobState
from scraper_service.options.job_arguments import options_from_json

if TYPE_CHECKING:
    from scrapy.crawler import AsyncCrawlerProcess, Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.jobs.database import Database
    from scraper_service.jobs.model import Job

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for jobs of other processes, and of an earlier life of this one
EXPIRE_S = 30.0


class JobRunner(Protocol):
    """What the setting ``JOB_RUNNER`` names.

    It is made with the process of the service and the job database; :exc:`ValueError`
    then says which setting cannot be used.
    """

    settings: BaseSettings

    async def open(self) -> None:
        """Begin to take up jobs; raise what keeps the database from it."""
        ...

    async def close(self) -> None:
        """Take up nothing more; crawlers of this process are closed by it."""
        ...

    def wake(self) -> None:
        """Take up a job that was just stored, at once."""
        ...

    async def store_counts(self, job_id: str) -> None:
        """Store what this process has counted of a job so far, if it runs here."""
        ...

    async def cancel(self, job_id: str) -> None:
        """Have the work on a job that was cancelled end soon; wait for nothing."""
        ...


async def expire(database: Database) -> None:
    """Delete what was kept for long enough."""
    await database.write(host_rows.forget_hosts)
    while await database.write(store.expire):
        pass


class LocalRunner:
    """Run the active jobs of the database, at most ``MAX_RUNNING_JOBS`` at a time.

    Jobs of other processes are joined too: their frontier is shared. Leases of this
    process last ``LEASE_S`` beyond its last sign of life. With ``only``, the id of a
    job, that job is run and no other. Without, the jobs of :data:`LOCAL_TEAM` are left
    to the commands that started them: who interrupts one wants it to stop.
    """

    def __init__(
        self, process: AsyncCrawlerProcess, database: Database, only: str | None = None
    ):
        self._process = process
        self._database = database
        self._only = only
        self.settings = process.settings
        self.owner = str(uuid.uuid4())
        self._presence = Presence(self.settings, database, self.owner)
        self._crawlers: dict[str, Crawler] = {}
        self._cancelling: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted = asyncio.Event()
        self._closing = False

    async def open(self) -> None:
        """Begin to take up jobs; raise what keeps the database from it."""
        await self._presence.open()
        self._presence.every(POLL_S, self._take_up, self._wanted)
        self._presence.every(EXPIRE_S, partial(expire, self._database))

    async def close(self) -> None:
        """Take up nothing more; crawlers are closed by their process."""
        self._closing = True
        self._presence.close()
        for task in self._tasks:
            task.cancel()

    def wake(self) -> None:
        """Take up a job that was just stored, at once."""
        self._wanted.set()

    async def store_counts(self, job_id: str) -> None:
        """Store what this process has counted of a job so far, if it runs here."""
        crawler = self._crawlers.get(job_id)
        if crawler is not None and (recorder := JobRecorder.find(crawler)):
            await recorder.store()

    async def cancel(self, job_id: str) -> None:
        """Close the crawler of a job that was cancelled, if it runs here."""
        crawler = self._crawlers.get(job_id)
        if crawler is not None and job_id not in self._cancelling:
            # Nobody waits for it: the pages under way end first.
            task = asyncio.ensure_future(self._close_crawler(crawler))
            self._cancelling[job_id] = task
            task.add_done_callback(lambda _: self._cancelling.pop(job_id, None))

    async def _close_crawler(self, crawler: Crawler) -> None:
        if crawler.engine is None:
            return  # not open yet: the next turn tries again
        try:
            if scheduler := LeasedScheduler.find(crawler):
                scheduler.abandon()
            await crawler.engine.close_spider_async(reason="cancelled")
        except RuntimeError:
            logger.debug("a crawler was still opening, or closed", exc_info=True)
        except Exception:
            logger.exception("a crawler could not be closed")

    async def _take_up(self) -> None:
        active = await self._database.read(store.active_jobs)
        jobs = [job for job in active if self._is_ours(job)]
        for job in jobs:
            if self._closing or len(self._crawlers) >= self.settings.getint(
                "MAX_RUNNING_JOBS"
            ):
                return
            if job.id not in self._crawlers:
                await self._database.write_locking(store.start_job, job.id)
                self._start(job)
        for job_id in self._crawlers.keys() - {job.id for job in jobs}:
            await self.cancel(job_id)

    def _is_ours(self, job: Job) -> bool:
        return job.team_id != LOCAL_TEAM if self._only is None else job.id == self._only

    def _start(self, job: Job) -> None:
        crawler = self._process.create_crawler(job.kind)
        crawler.settings.set("JOB_ID", job.id, priority="cmdline")
        crawler.settings.set("JOB_OWNER", self.owner, priority="cmdline")
        self._crawlers[job.id] = crawler
        try:
            options = options_from_json(job.kind, json.loads(job.options))
        except ValueError as error:
            ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            ended.set_exception(error)
        else:
            ended = self._process.crawl(crawler, options=options)
        task = asyncio.ensure_future(self._follow(job, crawler, ended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(
        self, job: Job, crawler: Crawler, ended: asyncio.Future[Any]
    ) -> None:
        """Wait for the end of a crawler; a job that it could not run has failed."""
        error = None
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            return
        except Exception as caught:
            logger.exception("the crawler of job %s broke", job.id)
            error = broken(caught)
        if error is None and crawler.stats is not None:
            error = early_end(crawler.stats.get_value("finish_reason"))
        if error is not None:
            with contextlib.suppress(ServiceUnavailable):
                await self._database.write_locking(
                    store.end_job, job.id, JobState.FAILED, error
                )
        self._crawlers.pop(job.id, None)
