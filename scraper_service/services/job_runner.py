"""Who runs the jobs of the database; here: crawlers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from scraper_service.crawling.heartbeat import Presence
from scraper_service.crawling.job_process import broken, early_end
from scraper_service.crawling.report_recorder import JobRecorder
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import SecretsUnreadable, ServiceUnavailable
from scraper_service.options.job_arguments import options_from_json
from scraper_service.storage import artefacts, jobs
from scraper_service.storage.accounts import model_tokens
from scraper_service.storage.artefacts import Artefacts
from scraper_service.storage.job_records import JobState
from scraper_service.storage.page_index import expiry
from scraper_service.storage.politeness import host_rows

if TYPE_CHECKING:
    from scrapy.crawler import AsyncCrawlerProcess, Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for jobs of other processes, and of an earlier life of this one
EXPIRE_S = 30.0
OPENING_S = 0.05


class JobRunner(Protocol):
    """What the setting ``JOB_RUNNER`` names.

    It is made with the process of the service and the job database; :exc:`ValueError`
    then says which setting cannot be used.
    """

    settings: BaseSettings
    owner: str  # the id of this process in the table of workers

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
    await database.write(model_tokens.forget)
    while await database.write(jobs.expire):
        pass
    while await database.write(expiry.expire):
        pass
    while await database.write(artefacts.expire):
        pass
    files = Artefacts(database.data_dir / artefacts.FOLDER, b"")  # it signs nothing
    if names := await asyncio.to_thread(files.names):
        names = await database.read(artefacts.unheld, names)
        await asyncio.to_thread(files.remove, names)


class LocalRunner:
    """Run the active jobs of the database, at most ``MAX_RUNNING_JOBS`` at a time.

    Teams take turns: one with many jobs leaves room for those with fewer.
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
        self._teams: dict[str, str] = {}  # of those jobs, the oldest here first
        self._leaving: set[str] = set()  # of those jobs: others have their turn
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
        try:
            await self._opened(crawler)
            if crawler.engine is None or not crawler.engine.running:
                return  # it has ended by itself
            if scheduler := LeasedScheduler.find(crawler):
                scheduler.abandon()
            await crawler.engine.close_spider_async(reason="cancelled")
        except RuntimeError:
            logger.debug("a crawler was closed by itself", exc_info=True)
        except Exception:
            logger.exception("a crawler could not be closed")

    async def _take_up(self) -> None:
        most = self.settings.getint("MAX_RUNNING_JOBS")
        turns = await self._database.read(
            jobs.job_turns, tuple(self._crawlers), most, self._only
        )
        for job_id in self._crawlers.keys() - turns.active:
            await self.cancel(job_id)
        waiting = sorted(turns.waiting, key=self._has_fewest)
        for job_id, team_id in waiting:
            if self._closing or not self._has_room_for(team_id, most):
                return
            try:
                job = await self._database.read(jobs.get_whole_job, job_id)
            except SecretsUnreadable as error:
                logger.error("job %s has failed: %s", job_id, error)
                await self._database.write_locking(
                    jobs.end_job, job_id, JobState.FAILED, str(error)
                )
                continue
            if job is not None and job.is_active and job_id not in self._crawlers:
                await self._database.write_locking(jobs.start_job, job_id)
                self._start(job)

    def _running(self) -> Counter[str]:
        """Return the teams of the jobs that run here, without those that leave."""
        stay = self._teams.keys() - self._leaving
        return Counter(self._teams[job_id] for job_id in stay)

    def _has_fewest(self, waiting: tuple[str, str]) -> int:
        return self._running()[waiting[1]]

    def _has_room_for(self, team_id: str, most: int) -> bool:
        """Tell whether a job may run; where there is no room, a team has to have more.

        The latest job of the team with the most leaves then, for a while: nothing of
        it is lost, and its turn comes again.
        """
        running = self._running()
        if running.total() < most:
            return True
        [(largest, count)] = running.most_common(1)
        if count <= running[team_id] + 1:
            return False
        latest = [
            job_id
            for job_id, owner in self._teams.items()
            if owner == largest and job_id not in self._leaving
        ][-1]
        self._leaving.add(latest)
        crawler = self._crawlers[latest]
        task = asyncio.ensure_future(self._stop_crawler(crawler))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _opened(self, crawler: Crawler) -> None:
        """Wait until a crawler is open, or has ended: one half open cannot be closed."""
        while crawler.crawling and not (crawler.engine and crawler.engine.running):  # noqa: ASYNC110  # Scrapy tells nobody
            await asyncio.sleep(OPENING_S)

    async def _stop_crawler(self, crawler: Crawler) -> None:
        """Let the pages under way end, and give the others back."""
        await self._opened(crawler)
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            await crawler.stop_async()

    def _start(self, job: Job) -> None:
        crawler = self._process.create_crawler(job.kind)
        crawler.settings.set("JOB_ID", job.id, priority="cmdline")
        crawler.settings.set("JOB_OWNER", self.owner, priority="cmdline")
        self._crawlers[job.id] = crawler
        self._teams[job.id] = job.team_id
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
        except ServiceUnavailable:
            logger.warning("job %s is left for later: no database", job.id)
        except Exception as caught:
            logger.exception("the crawler of job %s broke", job.id)
            error = broken(caught)
        if error is None and crawler.stats is not None:
            error = early_end(crawler.stats.get_value("finish_reason"))
        if error is not None:
            with contextlib.suppress(ServiceUnavailable):
                await self._database.write_locking(
                    jobs.end_job, job.id, JobState.FAILED, error
                )
        self._crawlers.pop(job.id, None)
        self._teams.pop(job.id, None)
        self._leaving.discard(job.id)
        self.wake()
