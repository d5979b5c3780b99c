"""Runs the stored jobs of every kind: takes them, runs them, ends their runs.

Spiders run crawls and batches, in this process or on scrapyd nodes. Coroutines run all other
jobs, always in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define
from scrapy.crawler import Crawler

from scraper_service.crawling.job_process import Presence, broken, early_end
from scraper_service.crawling.observability import JobRecorder, log_begin, log_end
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.jobs import (
    CHECKS,
    CRAWLED,
    JOBS,
    KINDS,
    LIMITS,
    MODEL_JOBS,
    options_from_json,
)
from scraper_service.services.observability.tracing import job_span
from scraper_service.services.upkeep import keep_up
from scraper_service.shared_objects import BackgroundTasks, ChangePoll
from scraper_service.storage.frontier import leases
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs.jobs import Jobs
from scraper_service.storage.jobs.runs import Taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.runs import RunningJobs, WaitingJob

#: Why a run ends, and the error of the job that fails with it.
EndT: TypeAlias = "tuple[str | None, str | None]"

logger = logging.getLogger(__name__)

POLL_S = 2.0  # for changes of jobs, and for jobs that need one more process
NEW_S = 0.25  # for jobs without a run or with a lock, while another job may run
MOST_TEAMS = 1000  # whose last starts are remembered
OPENING_S = 0.05
CLOSING_S = 0.01
HOLD_S = 2.0  # for the return of leases at shutdown
REST_S = 10.0  # the shortest wait of a job for its hosts that lets another job run
RESTING = 10  # jobs that wait for their hosts, per job that may run
# What waits while no process takes it.
WAITING = {
    JOBS: "crawls and batches",
    MODEL_JOBS: "extract, agent, deep research and llms.txt jobs",
    CHECKS: "checks of monitors",
}


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


def _warning(work: str) -> str:
    return (
        f"No process runs {WAITING[work]}: they wait. Start `scraper-service worker`, or"
        f" set SCRAPER_{LIMITS[work]} above 0."
    )


@define(eq=False)
class StartedJob:
    """A job that runs in this process."""

    taken: Taken
    #: A key of :data:`LIMITS`.
    work: str
    task: asyncio.Task[None] | None = None
    #: Of the job of a spider.
    crawler: Crawler | None = None
    #: Closes the crawler of a cancelled job.
    closing: asyncio.Task[None] | None = None
    #: True while it stops so that others can run.
    is_leaving: bool = False
    #: True while another job runs instead, since its hosts ask for a pause.
    is_resting: bool = False


class JobRunner:
    """Runs the active jobs of the database. The setting ``JOB_RUNNER`` names a subclass.

    :meth:`_take_up` finds the jobs that need a process, and takes them with
    :meth:`Jobs.take`, for each kind of work up to its limit. Teams alternate: a team with
    many jobs does not delay a team with few. A run ends with :meth:`Jobs.end_run`, or with
    this process: then other processes take its job. Runs of this process last ``LEASE_S``
    beyond its last heartbeat.

    A subclass runs the jobs of spiders. ``most_jobs`` is the most of them at a time. With
    ``only``, the id of a job, only that job runs. Without it, jobs of :data:`LOCAL_TEAM` do
    not run here: they belong to the commands that started them, and an interrupt has to stop
    them.
    """

    #: The most processes of a job on nodes, None where this process runs it.
    most_processes: int | None = None

    def __init__(
        self,
        process: AsyncCrawlerProcess,
        database: Database,
        most_jobs: int,
        only: str | None = None,
    ):
        self._process = process
        self._database = database
        self._jobs = Jobs(database)
        self._only = only
        self.settings: BaseSettings = process.settings
        #: The id of this process in the table of workers.
        self.owner = str(uuid.uuid4())
        self._poll = ChangePoll(database.version)
        self._limits = {
            work: 0 if only else self.settings.getint(name)
            for work, name in LIMITS.items()
        } | {JOBS: most_jobs}
        #: The kinds that this process takes, by work.
        self._kinds: dict[str, Collection[str]] = {JOBS: CRAWLED} if most_jobs else {}
        self._coroutines: dict[str, Callable[[Taken], Awaitable[None]]] = {}
        self._presence = Presence(
            self.settings,
            database,
            self.owner,
            leases.COMMAND
            if only
            else self.settings.get("PROCESS_KIND", leases.SERVICE),
            () if only else tuple(k for k, most in self._limits.items() if most),
            lambda: self.running,
        )
        self._running: dict[str, StartedJob] = {}  # the first started first
        self._was_refused = False  # by a job that seemed to need a process
        self._turn = 0  # counts the starts
        self._last_starts: dict[tuple[str, str], int] = {}  # by work and team
        self._tasks = BackgroundTasks()
        self._wanted = asyncio.Event()
        self._untaken: list[str] = []  # work that no process takes
        self.is_closing = False

    @property
    def running(self) -> int:
        """The number of jobs of spiders that run in this process."""
        return sum(each.work == JOBS for each in self._running.values())

    @property
    def running_operations(self) -> int:
        """The number of other jobs that run in this process."""
        return len(self._running) - self.running

    @property
    def is_alone(self) -> bool:
        """True if no other process shares the database, as of a few seconds ago."""
        return self._presence.is_alone

    @property
    def workers(self) -> Counter[str]:
        """The live processes of the database by kind, without those that end."""
        live = self._presence.live
        return Counter(each.kind or "unknown" for each in live if not each.drains)

    @property
    def warnings(self) -> list[str]:
        """Sentences for an operator: of work that no process takes."""
        return [_warning(work) for work in self._untaken]

    async def open(self) -> None:
        """Start to run jobs of spiders. Raises errors of the database."""
        await self._presence.open()
        self._presence.every(POLL_S, self._take_up, self._wanted, self._may_find_some)
        if self._only is None:
            self._presence.every(NEW_S, self._look)
        keep_up(self._presence, self._database, self.settings)

    def run_kinds(
        self, coroutines: Mapping[str, Callable[[Taken], Awaitable[None]]]
    ) -> None:
        """Start to run jobs of other kinds, each with its coroutine.

        It continues a job from its last stored step, and ends the job.
        """
        self._coroutines |= coroutines
        for name in coroutines:
            work = KINDS[name].work
            if self._limits[work]:
                self._kinds[work] = (*self._kinds.get(work, ()), name)
        self.wake()

    async def close(self) -> None:
        """Take no more jobs, and end the runs of this process: others go on with its jobs.

        The Scrapy process closes its crawlers itself, after their running pages.
        """
        self.is_closing = True
        self._presence.drain()
        running = tuple(self._running.values())
        holds = [
            asyncio.ensure_future(self.hold(each.taken.job.id))
            for each in running
            if each.work == JOBS
        ]
        coroutines = [each.task for each in running if each.task and each.work != JOBS]
        for task in coroutines:
            task.cancel()
        if coroutines:
            await asyncio.wait(coroutines)
        if holds:
            await asyncio.wait(holds, timeout=HOLD_S)
        self._tasks.cancel()
        await self._end_runs()

    async def leave(self) -> None:
        """End the heartbeats of this process, after its crawlers have closed."""
        await self._end_runs()  # a job may have been taken while the others ended
        await self._presence.leave()

    async def _end_runs(self) -> None:
        # Without the database they end with the last heartbeat.
        with contextlib.suppress(ServiceUnavailable):
            await self._jobs.end_all_runs(self.owner)

    def wake(self) -> None:
        """Look for new jobs at once."""
        self._wanted.set()

    async def store_counts(self, job_id: str) -> None:
        """Store the counts of a job so far, if it runs in this process."""

    async def cancel(self, job_id: str) -> None:
        """Begin to end a job that was cancelled, and return at once."""
        found = self._running.get(job_id)
        if found is not None and found.work != JOBS and found.task is not None:
            found.task.cancel()

    async def hold(self, job_id: str) -> None:
        """Start no page of a job in this process until :meth:`refresh`.

        Leased URLs without a request return to the frontier, so a change counts for them.
        """

    async def refresh(self, job_id: str) -> None:
        """Apply a change of a job by its caller.

        When this returns, this process starts no page of a paused job.
        """
        self.wake()

    # -- rounds ----------------------------------------------------------------------

    def _takers(self, work: str) -> int:
        return leases.takers(self._presence.live, work)

    def _may_find_some(self) -> bool:
        return self._poll.is_due()

    async def _look(self) -> None:
        """Take up jobs at once that other processes have stored, or whose runs have ended.

        Logs which work begins and ceases to wait for a process.
        """
        before = self._untaken
        self._untaken = [work for work in LIMITS if not self._takers(work)]
        for work in self._untaken:
            if work not in before:
                logger.warning("%s", _warning(work))
        for work in before:
            if work not in self._untaken:
                logger.info("a process takes %s again", WAITING[work])
        kinds = [
            name
            for work, names in self._kinds.items()
            if self._has_free(work)
            for name in names
        ]
        if not kinds or self.is_alone:
            return
        if self._was_refused or await self._jobs.has_untaken(kinds):
            self._was_refused = False
            self.wake()

    async def _take_up(self) -> None:
        """Follow the changes of the jobs that run here, and take others."""
        found = await self._jobs.running(self.owner, tuple(self._running))
        for job_id, each in tuple(self._running.items()):
            if job_id not in found.active and each.work == JOBS:
                await self.cancel(job_id)
        if self._only is None:
            for step in found.orphans:
                await self._jobs.end(step, JobState.CANCELLED)
                await self.cancel(step)
        self._notice(found)
        for work in tuple(self._kinds):
            await self._take_some(work)

    def _notice(self, found: RunningJobs) -> None:
        """Follow the changes of the active jobs that run here."""

    async def _take_some(self, work: str) -> None:
        waiting = await self._jobs.waiting(
            self.owner,
            self._kinds[work],
            tuple(self._running),
            self._limits[work],
            self.settings.getint("JOB_CONCURRENCY"),
            self._only,
            self.most_processes,
        )
        left = list(self._share(work, waiting))
        while left:
            each = self._next(work, left)
            left.remove(each)
            if self.is_closing or not self._has_room(work, each):
                return
            try:
                is_taken = await self._take(work, each)
            except ServiceUnavailable:
                raise
            except Exception:
                logger.exception("job %s could not be taken", each.id)
                continue  # with the others
            if not is_taken:
                self._was_refused = True  # it may be locked by a page that is stored
                continue
            self._turn += 1
            self._last_starts.pop((work, each.team_id), None)
            self._last_starts[work, each.team_id] = self._turn
            if len(self._last_starts) > MOST_TEAMS:
                del self._last_starts[next(iter(self._last_starts))]  # the longest ago

    def _share(self, work: str, waiting: list[WaitingJob]) -> Iterator[WaitingJob]:
        """Yield running jobs, and this process's part of the queued ones."""
        queued = sum(each.is_queued for each in waiting)
        left = math.ceil(queued / max(1, self._takers(work)))
        for each in waiting:
            if not each.is_queued or left > 0:
                yield each
            left -= each.is_queued

    def _next(self, work: str, waiting: list[WaitingJob]) -> WaitingJob:
        """Return the job whose team has the fewest running ones here.

        Jobs that nobody runs come before large jobs that need a further process. Of several
        teams, it is the one whose last job started first.
        """
        running = self._teams(work)

        def order(each: WaitingJob) -> tuple[int, bool, int]:
            last = self._last_starts.get((work, each.team_id), 0)
            return running[each.team_id], each.processes > 0, last

        return min(waiting, key=order)

    def _teams(self, work: str) -> Counter[str]:
        """Count the running jobs of each team, without those that stop or rest."""
        return Counter(
            each.taken.job.team_id
            for each in self._running.values()
            if each.work == work and not (each.is_leaving or each.is_resting)
        )

    def _has_free(self, work: str) -> bool:
        """Return True if a further job may run, and no present one has to stop."""
        return self._teams(work).total() < self._limits[work]

    def _has_room(self, work: str, each: WaitingJob) -> bool:
        """Return True if a waiting job may run. Others may stop for it."""
        return self._has_free(work)

    async def _take(self, work: str, each: WaitingJob) -> bool:
        """Take a waiting job and start it. Return False if it needs no process."""
        at_once = 0 if self._only else self.settings.getint("JOB_CONCURRENCY")
        taken = await self._take_job(each.id, self.owner, at_once)
        if taken is None or self.is_closing:
            return False
        found = self._running[each.id] = StartedJob(taken, work)
        found.task = self._tasks.spawn(self._follow(found))
        return True

    async def _take_job(self, job_id: str, *args: Any) -> Taken | None:
        """Take a job with arguments of :func:`~.runs.take`."""
        taken = await self._jobs.take(job_id, *args)
        if isinstance(taken, JobState):
            await self._log_end(job_id)
            return None
        return taken

    # -- one job ---------------------------------------------------------------------

    async def _follow(self, running: StartedJob) -> None:
        """Run a job until it ends here, and end its run."""
        job = running.taken.job
        reason: str | None = "cancelled"
        error: str | None = None
        begin = self._crawl if running.work == JOBS else self._run
        try:
            reason, error = await begin(running)
        except asyncio.CancelledError:
            if self.is_closing:
                return  # all runs of this process end
        try:
            await self._end(running.taken, reason, error)
        except ServiceUnavailable:
            logger.warning("a run of job %s ends when it is taken again", job.id)
        finally:
            self._running.pop(job.id, None)
            self.wake()

    async def _end(self, taken: Taken, reason: str | None, error: str | None) -> None:
        if await self._jobs.end_run(taken.job.id, taken.run_id, reason, error):
            await self._log_end(taken.job.id)

    async def _log_end(self, job_id: str) -> None:
        failed = await self._jobs.get(job_id, None)
        if failed is not None:
            log_end(failed)

    async def _run(self, running: StartedJob) -> EndT:
        """Run a coroutine, which ends its job itself."""
        job = running.taken.job
        try:
            log_begin(job.id, self.owner, is_first=running.taken.is_first)
            with job_span(job.id, job.kind):
                await self._coroutines[job.kind](running.taken)
        except ServiceUnavailable:
            return "unavailable", None  # it is run again later
        except Exception:
            logger.exception("the end of job %s could not be stored", job.id)
            return "broken", None
        return "finished", None

    async def _crawl(self, running: StartedJob) -> EndT:
        """Run the spider of a job."""
        raise NotImplementedError


class LocalRunner(JobRunner):
    """Runs all jobs in this process, at most ``MAX_RUNNING_JOBS`` of spiders at a time.

    A job whose hosts all ask for a pause of :data:`REST_S` or more rests if others wait,
    until there is something to fetch and another job may run. Jobs of other processes
    are run too, since all processes share a job's frontier. With ``MAX_RUNNING_JOBS`` 0 no job
    of a spider runs here.
    """

    def __init__(
        self, process: AsyncCrawlerProcess, database: Database, only: str | None = None
    ):
        # A command runs its own job, whatever services leave to workers.
        most = 1 if only else process.settings.getint("MAX_RUNNING_JOBS")
        super().__init__(process, database, most, only)

    async def store_counts(self, job_id: str) -> None:
        crawler = self._crawler(job_id)
        if crawler is not None and (recorder := JobRecorder.find(crawler)):
            await recorder.store()

    async def cancel(self, job_id: str) -> None:
        await super().cancel(job_id)
        found = self._running.get(job_id)
        if found is None or found.crawler is None:
            return
        if found.closing is None or found.closing.done():  # the latter has failed
            # Not awaited: its running requests end first.
            closing = self._close_crawler(found.crawler)
            found.closing = asyncio.ensure_future(closing)

    async def hold(self, job_id: str) -> None:
        if scheduler := self._scheduler(job_id):
            await scheduler.hold()

    async def refresh(self, job_id: str) -> None:
        if scheduler := self._scheduler(job_id):
            with contextlib.suppress(ServiceUnavailable):  # the next look finds it
                await scheduler.refresh()
        self.wake()

    def _crawler(self, job_id: str) -> Crawler | None:
        found = self._running.get(job_id)
        return None if found is None else found.crawler

    def _scheduler(self, job_id: str) -> LeasedScheduler | None:
        crawler = self._crawler(job_id)
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
        rests = any(each.is_resting for each in self._running.values())
        return super()._may_find_some() or rests

    def _notice(self, found: RunningJobs) -> None:
        for job_id, revision in found.active.items():
            if scheduler := self._scheduler(job_id):
                scheduler.notice(revision)
            each = self._running.get(job_id)
            if each is not None and each.work == JOBS and job_id not in found.held:
                self._leave(each)  # this process was late, and taken for dead
        self._go_on()

    def _go_on(self) -> None:
        """Resume resting jobs that have something to fetch."""
        for job_id, each in tuple(self._running.items()):
            scheduler = self._scheduler(job_id)
            if not each.is_resting or scheduler is None or not scheduler.is_due:
                continue
            if not self.is_closing and self._free_slot(each.taken.job.team_id):
                each.is_resting = False
                scheduler.go_on()

    def _has_room(self, work: str, each: WaitingJob) -> bool:
        if work == JOBS:
            return self._free_slot(each.team_id)
        return super()._has_room(work, each)

    def _free_slot(self, team_id: str) -> bool:
        """Let a running job rest or stop for a job of a team, if needed and possible.

        Return True if the job may run.
        """
        return self._has_free(JOBS) or self._rest_one() or self._stop_one(team_id)

    def _active(self) -> list[StartedJob]:
        """Return the jobs of spiders that neither stop nor rest, the first started first."""
        return [
            each
            for each in self._running.values()
            if each.work == JOBS and not (each.is_leaving or each.is_resting)
        ]

    def _stop_one(self, team_id: str) -> bool:
        """Stop the latest job of a team with at least two running jobs more than another.

        Return False without such a team.
        """
        running = self._teams(JOBS)
        [(largest, count)] = running.most_common(1)
        if count <= running[team_id] + 1:
            return False
        latest = [x for x in self._active() if x.taken.job.team_id == largest][-1]
        if latest.crawler is None:
            return False  # it has just been taken
        self._leave(latest)
        return True

    def _leave(self, running: StartedJob) -> None:
        """Stop a job here. It loses nothing, and is continued later."""
        if running.crawler is not None and not running.is_leaving:
            running.is_leaving = True
            self._tasks.spawn(stop_crawler(running.crawler))

    def _rest_one(self) -> bool:
        """Let the job with the longest wait for its hosts rest. Return False without one."""
        rests = sum(each.is_resting for each in self._running.values())
        if rests >= RESTING * self._limits[JOBS]:
            return False
        waits = [
            (scheduler.waits_s, each, scheduler)
            for each in self._active()
            if (scheduler := self._scheduler(each.taken.job.id))
        ]
        longest = max(waits, key=lambda found: found[0], default=None)
        if longest is None or longest[0] < REST_S:
            return False
        _, each, scheduler = longest
        each.is_resting = True
        scheduler.rest(self.wake)
        return True

    async def _crawl(self, running: StartedJob) -> EndT:
        job = running.taken.job
        values = {
            "JOB_ID": job.id,
            "SOURCE_JOB_ID": job.source_job_id,
            "BASE_JOB_ID": job.base_job_id,
            "JOB_OWNER": self.owner,
            "JOB_IS_FIRST": running.taken.is_first,
        }
        try:
            crawler = running.crawler = self._process.create_crawler(job.spider)
            crawler.settings.setdict(values, priority="cmdline")
            options = options_from_json(job.kind, json.loads(job.options))
            await asyncio.shield(self._process.crawl(crawler, options=options))
        except ServiceUnavailable:
            logger.warning("job %s is run later: the database is unavailable", job.id)
            return "unavailable", None
        except Exception as error:
            logger.exception("the crawler of job %s broke", job.id)
            return "broken", broken(error)
        assert crawler.stats is not None
        reason = crawler.stats.get_value("finish_reason")
        return reason, early_end(reason)
