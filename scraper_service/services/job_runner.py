"""Runs the stored jobs with crawlers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from scraper_service.crawling.job_process import Presence, broken, early_end
from scraper_service.crawling.logs import log_end
from scraper_service.crawling.politeness.crawl_report import JobRecorder
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import SecretsUnreadable, ServiceUnavailable
from scraper_service.options.serialization import options_from_json
from scraper_service.services.upkeep import keep_up
from scraper_service.shared_objects import BackgroundTasks, ChangePoll
from scraper_service.storage.frontier import workers
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import AsyncCrawlerProcess, Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.turns import WaitingJob

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for changes of jobs, and for jobs that need one more process
NEW_S = 0.25  # for jobs that other processes have stored, while there is room for one
MOST_TEAMS = 1000  # whose last turns are remembered
OPENING_S = 0.05
CLOSING_S = 0.01
HOLD_S = 2.0  # for the return of leases at shutdown
REST_S = 10.0  # the shortest wait of a job for its hosts that makes room for another
RESTING = 10  # jobs that wait for their hosts, per job that may run


class JobRunner(Protocol):
    """The interface of the class that the setting ``JOB_RUNNER`` names.

    It is called with the Scrapy process of the service and the job database. It raises
    :exc:`ValueError` for an invalid setting.
    """

    settings: BaseSettings
    owner: str  # the id of this process in the table of workers

    @property
    def running(self) -> int:
        """The number of jobs that run in this process."""
        ...

    @property
    def is_alone(self) -> bool:
        """True if no other process shares the database, as of a few seconds ago."""
        ...

    @property
    def warnings(self) -> list[str]:
        """Sentences for an operator, such as that no node responds."""
        ...

    async def open(self) -> None:
        """Start to run jobs. Raises errors of the database."""
        ...

    async def close(self) -> None:
        """Start no more jobs. The Scrapy process closes its crawlers itself."""
        ...

    async def leave(self) -> None:
        """End the heartbeats of this process, after its crawlers have closed."""
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


def work_of(settings: BaseSettings) -> tuple[str, ...]:
    """Return what a process with these settings takes of the work of all teams."""
    rooms = {
        workers.OPERATIONS: "MAX_RUNNING_OPERATIONS",
        workers.CHECKS: "MONITOR_CONCURRENCY",
    }
    return (workers.JOBS, *(k for k, name in rooms.items() if settings.getint(name)))


async def opened(crawler: Crawler) -> None:
    """Wait until a crawler is open or has ended. While opening, it cannot close."""
    while crawler.crawling and not (crawler.engine and crawler.engine.running):  # noqa: ASYNC110  # Scrapy has no signal
        await asyncio.sleep(OPENING_S)


async def stop_crawler(crawler: Crawler) -> None:
    """Stop a crawler: running requests end, all others return to the frontier."""
    await opened(crawler)
    with contextlib.suppress(RuntimeError):  # it has ended already
        await crawler.stop_async()


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

    Teams take turns: a team with many jobs does not hold up a team with few. A job whose hosts
    all ask for a pause of :data:`REST_S` or more rests, if others wait for its place, until
    there is something to fetch and a place is free. Jobs of other processes are run too, since
    all processes share a job's frontier. Leases of this process last ``LEASE_S`` beyond its
    last heartbeat. With ``only``, the id of a job, only that job runs. Without it, jobs of
    :data:`LOCAL_TEAM` do not run here: they belong to the commands that started them, and an
    interrupt has to stop them. With ``MAX_RUNNING_JOBS`` 0 no job runs here.
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
        self._poll = ChangePoll(database.version)
        # A command runs its own job, whatever services leave to workers.
        self._most = 1 if only else self.settings.getint("MAX_RUNNING_JOBS")
        takes = work_of(self.settings)[0 if self._most else 1 :]
        self._presence = Presence(
            self.settings,
            database,
            self.owner,
            workers.COMMAND
            if only
            else self.settings.get("PROCESS_KIND", workers.SERVICE),
            () if only else takes,
            lambda: self.running,
        )
        self._crawlers: dict[str, Crawler] = {}
        self._teams: dict[str, str] = {}  # by job, the first started first
        self._turn = 0  # counts the starts
        self._last_turns: dict[str, int] = {}  # by team
        self._leaving: set[str] = set()  # jobs that stop so that others can run
        self._resting: list[str] = []  # jobs whose place another job has
        self._cancelling: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._wanted = asyncio.Event()
        self._closing = False

    @property
    def running(self) -> int:
        """The number of jobs that run in this process."""
        return len(self._crawlers)

    @property
    def is_alone(self) -> bool:
        """True if no other process shares the database, as of a few seconds ago."""
        return self._presence.is_alone

    @property
    def warnings(self) -> list[str]:
        """Empty: this process runs the jobs."""
        return []

    async def open(self) -> None:
        """Start to run jobs. Raises errors of the database."""
        await self._presence.open()
        if self._most:
            self._presence.every(
                POLL_S, self._take_up, self._wanted, self._may_find_some
            )
            if self._only is None:
                self._presence.every(NEW_S, self._look)
        keep_up(self._presence, self._database, self.settings)

    async def close(self) -> None:
        """Start no more jobs and pages. Return the leases of pages that do not run.

        The Scrapy process closes its crawlers itself.
        """
        self._closing = True
        self._presence.drain()
        # Their crawlers close after the running pages: others go on with the rest now.
        holds = [asyncio.ensure_future(self.hold(each)) for each in self._crawlers]
        if holds:
            await asyncio.wait(holds, timeout=HOLD_S)
        self._tasks.cancel()

    async def leave(self) -> None:
        """End the heartbeats of this process, after its crawlers have closed."""
        await self._presence.leave()

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
            await opened(crawler)
            if crawler.engine is None or not crawler.engine.running:
                return  # it has ended already
            if scheduler := LeasedScheduler.find(crawler):
                scheduler.abandon()
            await crawler.engine.close_spider_async(reason="cancelled")
        except RuntimeError:
            logger.debug("a crawler was closed already", exc_info=True)
        except Exception:
            logger.exception("a crawler could not be closed")

    def _may_find_some(self) -> bool:
        return self._poll.is_due() or bool(self._resting)

    async def _look(self) -> None:
        """Take up jobs at once that other processes have stored."""
        if self.is_alone:
            return
        if self._running().total() < self._most and await self._jobs.has_queued():
            self.wake()

    async def _take_up(self) -> None:
        turns = await self._jobs.runnable(
            tuple(self._crawlers),
            self._most,
            self.settings.getint("JOB_CONCURRENCY"),
            self._only,
        )
        for job_id in self._crawlers.keys() - turns.active.keys():
            await self.cancel(job_id)
        for job_id, revision in turns.active.items():
            if scheduler := self._scheduler(job_id):
                scheduler.notice(revision)
        self._go_on()
        waiting = list(self._share(turns.waiting))
        while waiting:
            each = self._next(waiting)
            waiting.remove(each)
            if self._closing or not self._make_room(each.team_id):
                return
            try:
                job = await self._jobs.get_whole(each.id)
            except SecretsUnreadable as error:
                await self._fail(each.id, str(error))
                continue
            if job is None or not job.is_active or each.id in self._crawlers:
                continue
            is_first = await self._jobs.start(each.id)
            is_known = job.state is not JobState.QUEUED
            if is_first or is_known or self._only or self.is_alone:
                self._start(job)  # else another process has just started it

    def _go_on(self) -> None:
        """Give places to jobs that rest and have something to fetch again."""
        for job_id in tuple(self._resting):
            scheduler = self._scheduler(job_id)
            if self._closing or scheduler is None or not scheduler.is_due:
                continue
            if self._make_room(self._teams[job_id]):
                self._resting.remove(job_id)
                scheduler.go_on()

    def _share(self, waiting: tuple[WaitingJob, ...]) -> Iterator[WaitingJob]:
        """Yield running jobs, and this process's part of the queued ones."""
        left = math.ceil(
            sum(each.is_queued for each in waiting) / self._presence.takers
        )
        for each in waiting:
            if not each.is_queued or left > 0:
                yield each
            left -= each.is_queued

    async def _fail(self, job_id: str, error: str) -> None:
        if await self._jobs.end(job_id, JobState.FAILED, error):
            job = await self._jobs.get(job_id, None)
            if job is not None:
                log_end(job)

    def _running(self) -> Counter[str]:
        """Count the running jobs of each team, without those that stop or rest."""
        stay = self._teams.keys() - self._leaving - set(self._resting)
        return Counter(self._teams[job_id] for job_id in stay)

    def _next(self, waiting: list[WaitingJob]) -> WaitingJob:
        """Return the job whose team has the fewest running ones here.

        Jobs that nobody runs come before large jobs that need a further process. Of several
        teams, it is the one whose last job started first.
        """
        running = self._running()

        def turn(each: WaitingJob) -> tuple[int, bool, int]:
            last = self._last_turns.get(each.team_id, 0)
            return running[each.team_id], each.processes > 0, last

        return min(waiting, key=turn)

    def _make_room(self, team_id: str) -> bool:
        """Let a running job make room for a job of a team if that is needed and possible.

        Return True if the job may run.
        """
        is_free = self._running().total() < self._most
        return is_free or self._rest_one() or self._stop_one(team_id)

    def _stop_one(self, team_id: str) -> bool:
        """Stop the latest job of a team with at least two running jobs more than another.

        The job loses nothing, and is continued later. Return False without such a team.
        """
        running = self._running()
        [(largest, count)] = running.most_common(1)
        if count <= running[team_id] + 1:
            return False
        latest = [
            job_id
            for job_id, owner in self._teams.items()
            if owner == largest and job_id not in {*self._leaving, *self._resting}
        ][-1]
        self._leaving.add(latest)
        crawler = self._crawlers[latest]
        self._tasks.spawn(stop_crawler(crawler))
        return True

    def _rest_one(self) -> bool:
        """Let the job with the longest wait for its hosts rest. Return False without one."""
        if len(self._resting) >= RESTING * self._most:
            return False
        waits = {
            job_id: scheduler.waits_s
            for job_id in self._crawlers.keys() - self._leaving - set(self._resting)
            if (scheduler := self._scheduler(job_id))
        }
        job_id = max(waits, key=lambda each: waits[each], default="")
        if waits.get(job_id, 0.0) < REST_S:
            return False
        self._resting.append(job_id)
        LeasedScheduler.of(self._crawlers[job_id]).rest(self.wake)
        return True

    def _start(self, job: Job) -> None:
        crawler = self._process.create_crawler(job.spider)
        crawler.settings.set("JOB_ID", job.id, priority="cmdline")
        crawler.settings.set("SOURCE_JOB_ID", job.source_job_id, priority="cmdline")
        crawler.settings.set("BASE_JOB_ID", job.base_job_id, priority="cmdline")
        crawler.settings.set("JOB_OWNER", self.owner, priority="cmdline")
        self._crawlers[job.id] = crawler
        self._teams[job.id] = job.team_id
        self._turn += 1
        self._last_turns.pop(job.team_id, None)
        self._last_turns[job.team_id] = self._turn
        if len(self._last_turns) > MOST_TEAMS:
            del self._last_turns[next(iter(self._last_turns))]  # the longest ago
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
        if job.id in self._resting:
            self._resting.remove(job.id)
        self.wake()
