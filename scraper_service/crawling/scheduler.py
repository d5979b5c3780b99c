"""Scrapy's scheduler for jobs: leases URLs of the frontier in the job database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from attrs import define, evolve
from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro

from scraper_service.crawling.job_leases import JobLeases
from scraper_service.crawling.middlewares import job_changed, page_abandoned
from scraper_service.crawling.observability import JobRecorder
from scraper_service.crawling.page_state import PUT_OFF, PageState
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.crawling.politeness.host_queue import (
    LOOK_EVERY_S,
    POLL_S,
    Claims,
    HostQueue,
    StoredQueue,
)
from scraper_service.crawling.politeness.shared_limit import JobPermits, TeamPermits
from scraper_service.crawling.scrapy_shortcuts import nudge
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Lease
from scraper_service.options.jobs import (
    options_from_json,
    structure,
)
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.connections import insist
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import (
    ACTIVE,
    LOCAL_TEAM,
    Commit,
    Outcome,
    UrlKind,
)
from scraper_service.storage.jobs import job_urls
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scraper_service.storage.job_records import Claim, ClaimedRow, Job

T = TypeVar("T")
RenewT: TypeAlias = "Callable[[], Awaitable[Outcome]]"

logger = logging.getLogger(__name__)

EXTRA_LEASES = 4  # beyond the requests in flight, for pages in the converter pool
STORED_AT_ONCE = 32  # pages being stored that do not count as leases
HOLD_S = 1.0  # for pages that are on their way to their hosts
HOLD_POLL_S = 0.01
QUIET_S = 5.0  # without a new page, until a job is known to wait for its hosts


class JobPhase(Enum):
    """What a crawler may do with its job."""

    RUNNING = auto()
    #: Running pages end. No request of a further page starts.
    PAUSED = auto()
    #: The job takes no results any more: it is cancelled or finished, or the crawler closes.
    ENDED = auto()


@define
class _Page:
    id: str
    is_requested: bool = False  # once its first request has started


class LeasedScheduler(BaseScheduler):
    """Hands out the URLs of one job, and stores the outcome of each.

    The job is the setting ``JOB_ID``. Without it, a job in memory is made of the spider's
    options, and its pages are not kept. URLs are claimed ahead in batches, because Scrapy calls
    :meth:`next_request` synchronously. Each lease ends in :meth:`settle`, or is returned in
    :meth:`close`, or later by :class:`~scraper_service.crawling.job_process.Presence`.
    Requests wait for their hosts here, before their time begins. Rows of other hosts may pass
    them.

    A caller may change the job. If another process stored the change, call :meth:`notice`. A
    process that stores one itself calls :meth:`hold` before, and :meth:`refresh` after it. The
    crawler of a paused job ends with the pages that are running, for the reason ``paused``.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, LeasedScheduler]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler):
        settings = crawler.settings
        self._crawler = crawler
        job_id: str = settings.get("JOB_ID") or ""
        self.keeps_pages = bool(job_id)
        self.owner: str = settings.get("JOB_OWNER") or str(uuid.uuid4())
        self._database = Database.shared(settings) if job_id else Database.in_memory()
        self._jobs = Jobs(self._database)
        self._leases = JobLeases(self._database, job_id, self.owner, self.insist)
        self._slots = settings.getint("JOB_CONCURRENCY")
        self._concurrency: int | None = None  # of the options of the job
        self._again: deque[Request] = deque()  # redirects, with their leases
        tally = JobRecorder.tally_of(crawler)
        make_queue = StoredQueue if settings.get("SOURCE_JOB_ID") else HostQueue
        self._queue = make_queue(HostPace.shared(settings), self._nudge, tally)
        self._permits = JobPermits(TeamPermits.shared(), self._nudge)
        self._pages: dict[int, _Page] = {}  # by row id, in the engine or held
        self._storing = 0  # of these, pages that are being stored
        self._returning = 0  # returns of leases that are running
        self._phase = JobPhase.RUNNING
        self._revision = self._noticed = -1  # of the job, -1 before it was read
        self._changing = 0  # changes by the caller that are being stored
        self._last_start = time.monotonic()  # of a page
        self._on_due: Callable[[], None] | None = None  # while the job rests
        self._tasks = BackgroundTasks()
        self._claims = Claims(
            self._leases.claim,
            self._take,
            self._queue,
            self._slots,
            has_ended=lambda: self.has_ended,
            is_contended=self._is_contended,
            wake=self._nudge,
            tasks=self._tasks,
        )
        type(self)._of[crawler] = self
        connect = crawler.signals.connect
        connect(self._page_lost, signals.spider_error)
        connect(self._page_lost, signals.item_error)
        connect(self._idle, signals.spider_idle)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @classmethod
    def of(cls, crawler: Crawler) -> LeasedScheduler:
        """Return the scheduler of a running job's crawler."""
        return cls._of[crawler]

    @classmethod
    def find(cls, crawler: Crawler) -> LeasedScheduler | None:
        """Return the scheduler of a crawler, None while it is opening."""
        return cls._of.get(crawler)

    @property
    def job_id(self) -> str:
        """The id of the job, empty until a job in memory is open."""
        return self._leases.job_id

    @property
    def team_id(self) -> str | None:
        """The team of the job, None for a job in memory."""
        return self._leases.team_id

    @property
    def has_ended(self) -> bool:
        """True if the job takes no results any more: it is cancelled or finished."""
        return self._phase is JobPhase.ENDED

    @property
    def is_paused(self) -> bool:
        """True while no request of a further page may start."""
        return self._phase is JobPhase.PAUSED or self._changing > 0

    @property
    def waits_s(self) -> float:
        """The seconds until the next page may start, if the whole job waits for its hosts.

        Otherwise 0, also for the first :data:`QUIET_S` of the wait.
        """
        if self.has_ended or self.is_paused or self._claims.may_bring_rows:
            return 0.0
        if self._claims.is_looking_beyond or self._again or self._in_engine():
            return 0.0
        is_quiet = time.monotonic() > self._last_start + QUIET_S
        return self._queue.opens_in_s() if is_quiet else 0.0

    @property
    def is_due(self) -> bool:
        """True if a page could start, as far as hosts and pauses of the job allow."""
        return self._queue.opens_in_s() == 0

    def rest(self, on_due: Callable[[], None]) -> None:
        """Start no page until :meth:`go_on`. ``on_due`` is called when one could start."""
        self._on_due = on_due
        self._claims.poll_s = LOOK_EVERY_S
        # Otherwise other jobs would wait for permits and locks that this job does not use.
        self._permits.give_up()
        self._queue.give_up_locks(rests=True)

    def go_on(self) -> None:
        """End a :meth:`rest`."""
        self._on_due = None
        self._claims.poll_s = POLL_S
        self._nudge()

    def abandon(self) -> None:
        """Cancel the job's running requests and accept no new URLs."""
        self._phase = JobPhase.ENDED
        for page in tuple(self._pages.values()):
            self._crawler.signals.send_catch_log(page_abandoned, scrape_id=page.id)

    # -- the interface of Scrapy -----------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def has_pending_requests(self) -> bool:
        if self._phase is JobPhase.PAUSED:
            return bool(self._again)
        return not self.has_ended

    def enqueue_request(self, request: Request) -> bool:
        """Take back a request with a lease. Spiders yield no other requests."""
        state = PageState.of(request)
        lease = state.job_lease
        if state.retry_at == PUT_OFF:
            self._return_page(lease)
        elif self._queue.hold(request):
            self._permits.free(lease.row_id)
            if self._phase is JobPhase.PAUSED:
                self._return_held()
        else:
            self._again.append(request)
        return True

    def next_request(self) -> Request | None:
        if self._again:
            return self._again.popleft()
        if self.is_paused:
            self._permits.give_up()
            return None
        self._claims.refill()
        if self._on_due is not None:
            if self.is_due:
                self._on_due()
            else:
                self._look_further()
            return None
        if self._in_engine() >= self._limit():
            self._claims.look_beyond()
            return None
        if not (self._queue.held or self._queue.rows):
            self._claims.ran_out()
            self._permits.give_up()
            return None
        if not self._has_converters() or not self._permits.take():
            return None
        request = self._queue.next_held() or self._next_row()
        if request is None:
            self._permits.give_back()
            self._look_further()
            return None
        self._last_start = time.monotonic()
        state = PageState.of(request)
        waited_s = self._permits.use(state.job_lease.row_id)
        if waited_s is not None:
            state.queued_s = (state.queued_s or 0.0) + waited_s
        return request

    @property
    def _spider(self) -> Any:
        return self._crawler.spider

    def _has_converters(self) -> bool:
        return bool(self._spider.pool.has_capacity(self.team_id, self._nudge))

    def _is_contended(self) -> bool:
        return bool(self._spider.pool.is_contended(self.team_id))

    def _next_row(self) -> Request | None:
        row = self._queue.next_row()
        return None if row is None else self._request(row)

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    # -- a job from its begin to its end -----------------------------------------------

    async def _open(self, spider: Any) -> None:
        options = spider.options
        self._set_pace(options)
        if self.job_id:
            job = await self._read_job()
            if job is not None:
                self._leases.team_id = job.team_id
                self._apply(job)
            await self.insist(TeamPermits.shared().refresh)
        else:
            await self._make_job(options)
        self._permits.open(self.team_id or LOCAL_TEAM, self.job_id)
        await self._claims.claim()

    async def _make_job(self, options: Any) -> None:
        await self._jobs.make_team(LOCAL_TEAM)
        if options.webhook is not None:
            logger.warning("the webhook is not called: only the service sends webhooks")
            options = evolve(options, webhook=None)
        terms = Terms(team_id=LOCAL_TEAM)
        job = await self._jobs.create(terms, options, 2)
        self._leases.job_id = job.id

    async def _close(self) -> None:
        self._phase = JobPhase.ENDED
        self._queue.close()
        self._permits.close()
        type(self)._of.pop(self._crawler, None)  # the value keeps its key alive
        # Not cancelled: the database finishes its work anyway, and the rows of a claim
        # would be lost.
        await self._tasks.join()
        if self.keeps_pages:
            await self._leases.close()
        else:
            await self._note_reasons()
            self._database.close()

    async def _note_reasons(self) -> None:
        """Store in the stats how many URLs have a reason: ``urls/<reason>``.

        A job in memory ends with its crawler.
        """
        counts = await self._database.read(job_urls.count_by_state, self.job_id)
        assert self._crawler.stats is not None
        for reason, count in counts[1].items():
            self._crawler.stats.set_value(f"urls/{reason}", count)

    # -- pages -------------------------------------------------------------------------

    def _in_engine(self) -> int:
        """Return how many pages the engine has, without those that wait for their hosts."""
        return len(self._pages) - len(self._queue.held)

    def _limit(self) -> int:
        if self._queue.delay_s:
            return 1
        limit = self._concurrency or self._slots + EXTRA_LEASES
        return limit + min(self._storing, STORED_AT_ONCE)

    def _look_further(self) -> None:
        """Look for rows of other hosts, as those of the first rows are not ready."""
        self._return_rows(self._claims.look_ahead())
        self._claims.look_beyond()

    def _request(self, row: ClaimedRow) -> Request:
        options = self._spider.options.scrape
        if row.options is not None:
            options = structure(json.loads(row.options), ScrapeOptions)
        deadline = time.monotonic() + options.deadline_ms / 1000
        is_sitemap = row.kind == UrlKind.SITEMAP
        lease = Lease(row.id, row.key, row.token, row.depth, is_sitemap, row.lastmod)
        page = self._pages[row.id] = _Page(str(uuid.uuid4()))
        spider = self._spider
        make = spider.sitemap_request if is_sitemap else spider.page_request
        made: Request = make(row.url, options, page.id, deadline, lease, self.team_id)
        return made

    # -- changes by the caller ---------------------------------------------------------

    def notice(self, revision: int) -> None:
        """Apply the changes of the job up to ``revision``, soon."""
        if revision > self._noticed >= 0:
            self._noticed = revision
            self._tasks.spawn(self._catch_up(revision))

    async def _catch_up(self, revision: int) -> None:
        with contextlib.suppress(ServiceUnavailable):  # the crawl closes
            job = await self._read_job()
            if job is not None and revision > self._revision:
                self._change(job)

    async def hold(self) -> None:
        """Start no further page until :meth:`refresh`.

        Returns the leased URLs without a request, so that a change of the job counts for
        them. Waits for them for at most :data:`HOLD_S`.
        """
        self._changing += 1
        end = time.monotonic() + HOLD_S
        self._return_unrequested()
        while self._is_before_requests():
            if time.monotonic() > end:
                break
            await asyncio.sleep(HOLD_POLL_S)

    def _is_before_requests(self) -> bool:
        """Return True while leased URLs without a request are on their way."""
        if self._claims.is_running or self._returning:
            return True
        return not all(page.is_requested for page in self._pages.values())

    async def refresh(self) -> None:
        """Apply the job as it is stored now, and end a :meth:`hold`.

        After a pause, no request of a further page starts. Raises
        :exc:`ServiceUnavailable`.
        """
        self._changing = max(0, self._changing - 1)
        self._expect_rows()
        job = await self._jobs.get(self.job_id, None)
        if job is not None and job.revision > self._revision >= 0:
            self._change(job)

    def note_request(self, row_id: int) -> None:
        """Note that the first request of a page has started."""
        if page := self._pages.get(row_id):
            page.is_requested = True

    def _change(self, job: Job) -> None:
        self._apply(job)
        self._return_unrequested()
        self._nudge()

    def _apply(self, job: Job) -> None:
        if job.revision:  # else the spider has the options of the job
            options = options_from_json(job.kind, json.loads(job.options))
            self._spider.change_options(options)
            self._set_pace(self._spider.options)
        self._revision = job.revision
        self._noticed = max(self._noticed, job.revision)
        if not self.has_ended:
            is_paused = job.paused_at is not None
            self._phase = JobPhase.PAUSED if is_paused else JobPhase.RUNNING
        self._claims.expect_rows()

    def _set_pace(self, options: Any) -> None:
        self._concurrency = options.max_concurrency
        self._queue.delay_s = options.delay_s or 0.0
        self._queue.slots = self._concurrency or self._slots

    def _return_unrequested(self) -> None:
        """Return leased URLs without a request; of a paused job also retries."""
        self._crawler.signals.send_catch_log(job_changed)
        self._return_held()
        self._return_queued()

    def _return_queued(self) -> None:
        rows = [row for _, row in self._queue.rows]
        self._queue.rows.clear()
        self._queue.give_up_locks()
        self._return_rows(rows)

    def _return_held(self) -> None:
        for request in tuple(self._queue.held):
            lease = PageState.of(request).job_lease
            is_requested = self._pages[lease.row_id].is_requested
            if self._phase is JobPhase.PAUSED or not is_requested:
                self._queue.held.remove(request)
                self._return_page(lease)
        self._queue.give_up_locks()

    def _idle(self) -> None:
        if self._phase is JobPhase.PAUSED:
            raise CloseSpider("paused")

    async def _read_job(self) -> Job | None:
        return await self.insist(lambda: self._jobs.get(self.job_id, None))

    # -- claims, outcomes and returns ----------------------------------------------------

    def _take(self, claim: Claim) -> None:
        self._queue.add(claim.rows)
        if claim.base is not None:
            self._spider.move_to(claim.base)
        if claim.state not in ACTIVE:
            self._phase = JobPhase.ENDED
        if claim.revision < self._revision or self.is_paused:
            self._return_queued()  # it was made before the change
        self.notice(claim.revision)

    def _nudge(self) -> None:
        nudge(self._crawler.engine)

    async def settle(self, outcome: Outcome, renew: RenewT | None = None) -> Commit:
        """Store the outcome of a leased URL, however long the database is unavailable.

        ``renew`` returns the outcome of a tracked page after another comparison. It is called as
        long as other pages of the same URL are stored first. Raises
        :exc:`ServiceUnavailable` only if the crawl closes meanwhile.
        """
        self._queue.leave(outcome.row_id)  # its host may get the next request
        self._storing += 1
        self._nudge()
        try:
            commit = await self.store(await self._leases.pay_extra(outcome))
            while commit.is_stale and renew is not None:
                commit = await self.store(await renew())
        finally:
            self._storing -= 1
        self._forget(outcome.row_id)
        if commit.new_links or not commit.delivered:
            self._claims.expect_rows()
        if commit.state not in ACTIVE:
            self._phase = JobPhase.ENDED
        if commit.accepted or commit.state in ACTIVE:
            self._leases.end(outcome.row_id)  # else close() returns it
        self.notice(commit.revision)
        self._nudge()
        return commit

    def _forget(self, row_id: int) -> None:
        self._pages.pop(row_id, None)
        self._queue.end_page(row_id)
        self._permits.free(row_id)

    async def read(self, function: Callable[..., T], *args: object) -> T:
        """Read from the database, however long it is unavailable.

        Raises :exc:`ServiceUnavailable` as :meth:`insist`.
        """
        return await self.insist(lambda: self._database.read(function, *args))

    async def store(self, outcome: Outcome) -> Commit:
        """Store an outcome, see :meth:`settle`. An outcome that goes on keeps its lease."""
        # Without further URLs the job waits for this commit: for its links, or for its end.
        waits = not self._claims.is_dry
        commit = await self._leases.store(outcome, waits=waits)
        if commit.new_links:
            self._expect_rows()
        return commit

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``ask``, however long the database is unavailable.

        Raises :exc:`ServiceUnavailable` only if the crawl closes meanwhile.
        """
        return await insist(ask, lambda: self._crawler.crawling)

    def _page_lost(self, response: Any, failure: Any = None) -> None:
        """End the lease of a page that was lost through a bug.

        A page that was lost because the database is unavailable is returned, for another fetch.
        """
        request = getattr(response, "request", None)
        state = None if request is None else PageState.find(request)
        lease = None if state is None else state.lease
        if state is None or lease is None or lease.row_id not in self._leases:
            return
        if isinstance(getattr(failure, "value", None), ServiceUnavailable):
            self._return_page(lease)
            return
        outcome = Outcome(
            row_id=lease.row_id,
            key=lease.key,
            token=lease.token,
            owner=self.owner,
            page_id=state.scrape_id,
            kind=UrlKind.SITEMAP if lease.is_sitemap else UrlKind.PAGE,
            code="UNKNOWN_ERROR",
            error="An unexpected error occurred; it is in the log of the service.",
        )
        self._tasks.spawn(self._settle_lost(outcome))

    async def _settle_lost(self, outcome: Outcome) -> None:
        with contextlib.suppress(ServiceUnavailable):  # close() returns the lease
            await self.settle(outcome)

    def _return_page(self, lease: Lease) -> None:
        self._forget(lease.row_id)
        task = self._return([(lease.row_id, lease.token)])
        task.add_done_callback(lambda _: self._expect_rows())

    def _return_rows(self, rows: list[ClaimedRow]) -> None:
        if rows:
            self._return([(row.id, row.token) for row in rows])

    def _return(self, leases: list[tuple[int, int]]) -> asyncio.Task[None]:
        self._returning += 1
        return self._tasks.spawn(self._release(leases))

    async def _release(self, leases: list[tuple[int, int]]) -> None:
        try:
            with contextlib.suppress(ServiceUnavailable):  # close() returns them
                await self._leases.release(leases)
        finally:
            self._returning -= 1

    def _expect_rows(self) -> None:
        self._claims.expect_rows()
        self._nudge()
