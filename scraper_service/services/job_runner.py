"""Runs the stored jobs with crawlers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from scraper_service.crawling.artefacts import shared_artefacts
from scraper_service.crawling.job_process import Presence, broken, early_end
from scraper_service.crawling.logs import job_logger, log_end, with_facts
from scraper_service.crawling.politeness.crawl_report import JobRecorder
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import (
    SecretsUnreadable,
    ServiceUnavailable,
    StoreUnavailable,
)
from scraper_service.options.serialization import options_from_json
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.accounts import (
    audit,
    browser_sessions,
    disk_use,
    feedback,
    model_tokens,
)
from scraper_service.storage.accounts.audit import SERVICE, Actor
from scraper_service.storage.accounts.keys import record_expired_keys
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.uploads import Uploads
from scraper_service.storage.jobs.job_control import pause_full_job
from scraper_service.storage.jobs.job_records import JobState
from scraper_service.storage.jobs.jobs import Jobs
from scraper_service.storage.page_index import PageIndex
from scraper_service.storage.politeness import host_permits, hosts

if TYPE_CHECKING:
    from scrapy.crawler import AsyncCrawlerProcess, Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.job_records import Job

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for jobs that other or earlier processes have stored
EXPIRE_S = 30.0
QUOTA_S = 1.0
DAY_S = 86_400
OPENING_S = 0.05
CLOSING_S = 0.01
PAUSED = (
    "The job was paused because the disk quota of the team, {} MiB, is used up. Delete other"
    " jobs or raise the quota, then let it go on with PATCH and paused: false."
)


class JobRunner(Protocol):
    """The interface of the class that the setting ``JOB_RUNNER`` names.

    It is called with the Scrapy process of the service and the job database. It raises
    :exc:`ValueError` for an invalid setting.
    """

    settings: BaseSettings
    owner: str  # the id of this process in the table of workers

    async def open(self) -> None:
        """Start to run jobs. Raises errors of the database."""
        ...

    async def close(self) -> None:
        """Start no more jobs. The Scrapy process closes its crawlers itself."""
        ...

    def wake(self) -> None:
        """Look for new jobs at once."""
        ...

    async def store_counts(self, job_id: str) -> None:
        """Store the counts of a job so far, if it runs in this process."""
        ...

    async def cancel(self, job_id: str) -> None:
        """Begin to end a cancelled job, and return at once."""
        ...

    async def hold(self, job_id: str) -> None:
        """Start no page of a job in this process until :meth:`refresh`.

        Leased URLs without a request return to the frontier, so a change counts for them.
        """
        ...

    async def refresh(self, job_id: str) -> None:
        """Apply a change of a job by its caller.

        When this returns, this process starts no page of a paused job.
        """
        ...


async def end_long_pauses(database: Database, most_days: int) -> None:
    """Cancel jobs that have been paused for ``most_days``."""
    days = "1 day" if most_days == 1 else f"{most_days} days"
    reason = f"The job was paused for {days}, the longest time for a pause."
    jobs = Jobs(database)
    for job_id in await jobs.end_long_pauses(most_days * DAY_S, reason):
        if (job := await jobs.get(job_id, None)) is not None:
            log_end(job)


async def pause_full_jobs(database: Database, settings: BaseSettings) -> None:
    """Pause the crawls and batches of teams that have no room on the disk.

    Their running pages are still stored, and nothing is lost.
    """
    usual_mb = settings.getint("TEAM_DISK_MB")
    actor = Actor(SERVICE) if settings.getint("AUDIT_DAYS") else None
    for team_id, limit in await database.read(disk_use.full_teams, usual_mb):
        warning = PAUSED.format(limit // disk_use.MIB)
        for job_id in await database.read(disk_use.running_jobs, team_id):
            if await database.write_locking(pause_full_job, job_id, warning, actor):
                facts = with_facts(job=job_id, event="paused")
                job_logger.warning("job %s: %s", job_id, warning, extra=facts)


async def expire(database: Database, settings: BaseSettings) -> None:
    """Delete expired jobs, pages, files and counts, and old entries of the audit log."""
    await database.write(hosts.forget_hosts)
    await database.write(host_permits.forget)
    await database.write(model_tokens.forget)
    while await Jobs(database).expire():
        pass
    while await PageIndex(database).expire():
        pass
    while await database.write(artefacts.expire):
        pass
    while await database.write(feedback.expire):
        pass
    while await database.write(browser_sessions.expire):
        pass
    while await database.write(disk_use.fold):
        pass
    if days := settings.getint("AUDIT_DAYS"):
        await database.write(record_expired_keys, days)
    while await database.write(audit.expire, days):
        pass
    await Uploads(database).expire()
    try:
        await shared_artefacts(settings).sweep(database)
    except StoreUnavailable as error:
        logger.warning("files of expired pages are deleted later: %s", error)


async def stop_crawlers(process: AsyncCrawlerProcess) -> None:
    """Stop all crawlers of a process, and wait until their components are closed.

    Scrapy's own ``stop()`` does not wait for crawlers that were closing already.
    """
    crawlers = list(process.crawlers)
    await process.stop()
    while any(crawler.engine and crawler.engine.spider for crawler in crawlers):  # noqa: ASYNC110  # Scrapy has no signal
        await asyncio.sleep(CLOSING_S)


class LocalRunner:
    """Runs the active jobs of the database, at most ``MAX_RUNNING_JOBS`` at a time.

    Teams take turns: a team with many jobs does not hold up a team with few. Jobs of
    other processes are run too, since all processes share a job's frontier. Leases of
    this process last ``LEASE_S`` beyond its last heartbeat. With ``only``, the id of a
    job, only that job runs. Without it, jobs of :data:`LOCAL_TEAM` do not run here:
    they belong to the commands that started them, and an interrupt has to stop them.
    """

    def __init__(
        self, process: AsyncCrawlerProcess, database: Database, only: str | None = None
    ):
        self._process = process
        self._database = database
        self._jobs = Jobs(database)
        self._only = only
        self.settings = process.settings
        self.owner = str(uuid.uuid4())
        self._presence = Presence(self.settings, database, self.owner)
        self._crawlers: dict[str, Crawler] = {}
        self._teams: dict[str, str] = {}  # by job, the first started first
        self._leaving: set[str] = set()  # jobs that stop so that others can run
        self._cancelling: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._wanted = asyncio.Event()
        self._closing = False

    async def open(self) -> None:
        """Start to run jobs. Raises errors of the database."""
        await self._presence.open()
        self._presence.every(POLL_S, self._take_up, self._wanted)
        self._presence.every(EXPIRE_S, partial(expire, self._database, self.settings))
        pause = partial(pause_full_jobs, self._database, self.settings)
        self._presence.every(QUOTA_S, pause)
        most_days = self.settings.getint("PAUSE_MAX_DAYS")
        self._presence.every(
            EXPIRE_S, partial(end_long_pauses, self._database, most_days)
        )

    async def close(self) -> None:
        """Start no more jobs. The Scrapy process closes its crawlers itself."""
        self._closing = True
        self._presence.close()
        self._tasks.cancel()

    def wake(self) -> None:
        """Look for new jobs at once."""
        self._wanted.set()

    async def store_counts(self, job_id: str) -> None:
        """Store the counts of a job so far, if it runs in this process."""
        crawler = self._crawlers.get(job_id)
        if crawler is not None and (recorder := JobRecorder.find(crawler)):
            await recorder.store()

    async def cancel(self, job_id: str) -> None:
        """Close the crawler of a job that was cancelled, if it runs here."""
        crawler = self._crawlers.get(job_id)
        if crawler is not None and job_id not in self._cancelling:
            # Not awaited: its running requests end first.
            task = asyncio.ensure_future(self._close_crawler(crawler))
            self._cancelling[job_id] = task
            task.add_done_callback(lambda _: self._cancelling.pop(job_id, None))

    async def hold(self, job_id: str) -> None:
        """Start no page of a job here until :meth:`refresh`."""
        if scheduler := self._scheduler(job_id):
            await scheduler.hold()

    async def refresh(self, job_id: str) -> None:
        """Apply a change of a job by its caller, if the job runs here or may run now."""
        if scheduler := self._scheduler(job_id):
            with contextlib.suppress(ServiceUnavailable):  # the next look finds it
                await scheduler.refresh()
        self.wake()

    def _scheduler(self, job_id: str) -> LeasedScheduler | None:
        crawler = self._crawlers.get(job_id)
        return None if crawler is None else LeasedScheduler.find(crawler)

    async def _close_crawler(self, crawler: Crawler) -> None:
        try:
            await self._opened(crawler)
            if crawler.engine is None or not crawler.engine.running:
                return  # it has ended already
            if scheduler := LeasedScheduler.find(crawler):
                scheduler.abandon()
            await crawler.engine.close_spider_async(reason="cancelled")
        except RuntimeError:
            logger.debug("a crawler was closed already", exc_info=True)
        except Exception:
            logger.exception("a crawler could not be closed")

    async def _take_up(self) -> None:
        most = self.settings.getint("MAX_RUNNING_JOBS")
        turns = await self._jobs.turns(tuple(self._crawlers), most, self._only)
        for job_id in self._crawlers.keys() - turns.active.keys():
            await self.cancel(job_id)
        for job_id, revision in turns.active.items():
            if scheduler := self._scheduler(job_id):
                scheduler.notice(revision)
        waiting = sorted(turns.waiting, key=self._has_fewest)
        for job_id, team_id in waiting:
            if self._closing or not self._has_room_for(team_id, most):
                return
            try:
                job = await self._jobs.get_whole(job_id)
            except SecretsUnreadable as error:
                await self._fail(job_id, str(error))
                continue
            if job is not None and job.is_active and job_id not in self._crawlers:
                await self._jobs.start(job_id)
                self._start(job)

    async def _fail(self, job_id: str, error: str) -> None:
        if await self._jobs.end(job_id, JobState.FAILED, error):
            job = await self._jobs.get(job_id, None)
            if job is not None:
                log_end(job)

    def _running(self) -> Counter[str]:
        """Count the running jobs of each team, without the jobs that stop."""
        stay = self._teams.keys() - self._leaving
        return Counter(self._teams[job_id] for job_id in stay)

    def _has_fewest(self, waiting: tuple[str, str]) -> int:
        return self._running()[waiting[1]]

    def _has_room_for(self, team_id: str, most: int) -> bool:
        """Return True if a job of a team may run.

        At the limit, a job may run if another team has at least two running jobs more.
        The latest job of that team then stops for a while and loses nothing.
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
        self._tasks.spawn(self._stop_crawler(crawler))
        return True

    async def _opened(self, crawler: Crawler) -> None:
        """Wait until a crawler is open or has ended. While opening, it cannot close."""
        while crawler.crawling and not (crawler.engine and crawler.engine.running):  # noqa: ASYNC110  # Scrapy has no signal
            await asyncio.sleep(OPENING_S)

    async def _stop_crawler(self, crawler: Crawler) -> None:
        """Stop a crawler: running requests end, all others return to the frontier."""
        await self._opened(crawler)
        with contextlib.suppress(RuntimeError):  # it has ended already
            await crawler.stop_async()

    def _start(self, job: Job) -> None:
        crawler = self._process.create_crawler(job.spider)
        crawler.settings.set("JOB_ID", job.id, priority="cmdline")
        crawler.settings.set("SOURCE_JOB_ID", job.source_job_id, priority="cmdline")
        crawler.settings.set("BASE_JOB_ID", job.base_job_id, priority="cmdline")
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
        self._tasks.spawn(self._follow(job, crawler, ended))

    async def _follow(
        self, job: Job, crawler: Crawler, ended: asyncio.Future[Any]
    ) -> None:
        """Wait for the end of a crawler. Mark the job as failed if it could not run."""
        error = None
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            return
        except ServiceUnavailable:
            logger.warning("job %s is run later: the database is unavailable", job.id)
        except Exception as caught:
            logger.exception("the crawler of job %s broke", job.id)
            error = broken(caught)
        if error is None and crawler.stats is not None:
            error = early_end(crawler.stats.get_value("finish_reason"))
        if error is not None:
            with contextlib.suppress(ServiceUnavailable):
                await self._fail(job.id, error)
        self._crawlers.pop(job.id, None)
        self._teams.pop(job.id, None)
        self._leaving.discard(job.id)
        self.wake()
