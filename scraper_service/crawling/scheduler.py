"""Scrapy's scheduler for jobs: leases URLs of the frontier in the job database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from attrs import evolve
from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro

from scraper_service.crawling.middlewares import job_changed, page_abandoned
from scraper_service.crawling.page_state import PUT_OFF, PageState
from scraper_service.crawling.politeness.crawl_report import JobRecorder
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.crawling.politeness.host_queue import (
    LOOK_EVERY_S,
    POLL_S,
    Claims,
    HostQueue,
    StoredQueue,
)
from scraper_service.crawling.politeness.team_limits import JobPermits, TeamPermits
from scraper_service.crawling.scrapy_shortcuts import nudge
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Lease
from scraper_service.options.serialization import (
    options_from_json,
    scrape_options_from_json,
)
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.accounts.credits import Credits
from scraper_service.storage.connections import insist
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.frontier import CrawlFrontier, Frontier
from scraper_service.storage.job_records import (
    ACTIVE,
    LOCAL_TEAM,
    Commit,
    Outcome,
    UrlKind,
)
from scraper_service.storage.jobs import job_listing
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scraper_service.storage.frontier.leases import Beyond
    from scraper_service.storage.job_records import Claim, ClaimedRow, Job

T = TypeVar("T")
RenewT: TypeAlias = "Callable[[], Awaitable[Outcome]]"

logger = logging.getLogger(__name__)

EXTRA_LEASES = 4  # beyond the requests in flight, for pages in the converter pool
STORED_AT_ONCE = 32  # pages being stored that do not count as leases
HOLD_S = 1.0  # for pages that are on their way to their hosts
HOLD_POLL_S = 0.01
QUIET_S = 5.0  # without a new page, until a job is known to wait for its hosts


class LeasedScheduler(BaseScheduler):
    """Hands out the URLs of one job, and stores the outcome of each.

    The job is the setting ``JOB_ID``. Without it, a job in memory is made of the spider's
    options, and its pages are not kept. URLs are claimed ahead in batches, because Scrapy calls
    :meth:`next_request` synchronously. Each lease ends in :meth:`settle`, or is returned in
    :meth:`close`, or later by :class:`~scraper_service.crawling.job_process.Presence`.
    Requests wait for their hosts here, before their time begins. Rows of other hosts may pass
    them.

    A caller may change the job. If another process stored the change, call :meth:`notice`. A
    process that stores one itself calls :meth:`hold` before, and :meth:`refresh` after it. The crawler of a paused job ends with the pages that are running, for the reason
    ``paused``.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, LeasedScheduler]] = WeakKeyDictionary()
    _live: ClassVar[WeakSet[LeasedScheduler]] = WeakSet()  # schedulers with leases

    def __init__(self, crawler: Crawler):
        settings = crawler.settings
        self._crawler = crawler
        self.job_id: str = settings.get("JOB_ID") or ""
        self.keeps_pages = bool(self.job_id)
        self.owner: str = settings.get("JOB_OWNER") or str(uuid.uuid4())
        self._database = (
            Database.shared(settings) if self.job_id else Database.in_memory()
        )
        self._jobs = Jobs(self._database)
        self._frontier: CrawlFrontier = Frontier(self._database, self.owner)
        self._credits = Credits(self._database, self.owner)
        self._slots = settings.getint("JOB_CONCURRENCY")
        self._concurrency: int | None = None
        self._team_id: str | None = None
        self._page_price: int | None = None  # reserved per page, None for no limit
        self._again: deque[Request] = deque()  # redirects, with their leases
        tally = JobRecorder.tally_of(crawler)
        make_queue = StoredQueue if settings.get("SOURCE_JOB_ID") else HostQueue
        self._queue = make_queue(HostPace.shared(settings), self._nudge, tally)
        self._permits = JobPermits(TeamPermits.shared(), self._nudge)
        self._leases: dict[int, int] = {}  # row id to token, for all leases
        self._out = 0  # leases handed to the engine
        self._storing = 0  # of these, pages that are being stored
        self._pages: dict[int, str] = {}  # row id to page id, of these
        self._ended = False
        self._revision = self._noticed = -1  # of the job, -1 before it was read
        self._paused = False
        self._holds = 0  # changes that are being stored
        self._returning = 0  # leases of requests that are being returned
        self._requested: set[int] = set()  # row ids of pages with a request
        self._last_start = time.monotonic()  # of a page
        self._on_due: Callable[[], None] | None = None  # while the job rests
        self._tasks = BackgroundTasks()
        self._claims = Claims(
            self._claim,
            self._take,
            self._queue,
            self._slots,
            has_ended=lambda: self._ended,
            is_contended=self._is_contended,
            wake=self._nudge,
            tasks=self._tasks,
        )
        type(self)._of[crawler] = self
        type(self)._live.add(self)
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

    @classmethod
    def unknown(
        cls, owner: str, leases: Iterable[tuple[str, int, int]]
    ) -> set[tuple[str, int, int]]:
        """Return the leases that no crawler of ``owner`` holds, as (job id, row id, token).

        Jobs with a running claim are left out: its rows are not known yet.
        """
        by_job: dict[str, list[LeasedScheduler]] = {}
        for each in cls._live:
            if each.owner == owner:
                by_job.setdefault(each.job_id, []).append(each)
        return {
            (job_id, row_id, token)
            for job_id, row_id, token in leases
            if not any(
                each._claims.is_running or each._leases.get(row_id) == token
                for each in by_job.get(job_id, ())
            )
        }

    @property
    def team_id(self) -> str | None:
        """The team of the job, None for a job in memory."""
        return self._team_id

    @property
    def has_ended(self) -> bool:
        """True if the job takes no results any more: it is cancelled or finished."""
        return self._ended

    @property
    def waits_s(self) -> float:
        """The seconds until the next page may start, if the whole job waits for its hosts.

        Otherwise 0, also for the first :data:`QUIET_S` of the wait.
        """
        if self._ended or self.is_paused or self._claims.may_bring_rows:
            return 0.0
        if self._claims.is_looking_beyond or self._again:
            return 0.0
        if self._out > len(self._queue.held):
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
        # Other jobs, one of which has its place, would wait for what it does not use.
        self._permits.give_up()
        self._queue.give_up_turns(rests=True)

    def go_on(self) -> None:
        """End a :meth:`rest`."""
        self._on_due = None
        self._claims.poll_s = POLL_S
        self._nudge()

    def abandon(self) -> None:
        """Cancel the job's running requests and accept no new URLs."""
        self._ended = True
        for scrape_id in tuple(self._pages.values()):
            self._crawler.signals.send_catch_log(page_abandoned, scrape_id=scrape_id)

    # -- the interface of Scrapy -----------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def has_pending_requests(self) -> bool:
        if self._paused:
            return bool(self._again)
        return not self._ended

    def enqueue_request(self, request: Request) -> bool:
        """Take back a request with a lease. Spiders yield no other requests."""
        state = PageState.of(request)
        lease = state.job_lease
        if state.retry_at == PUT_OFF:
            self._tasks.spawn(self._return(lease))
        elif self._queue.hold(request):
            self._permits.free(lease.row_id)
            if self._paused:
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
            self._rest(self._on_due)
            return None
        if self._out - len(self._queue.held) >= self._limit():
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
            self._look_ahead()
            self._claims.look_beyond()
            return None
        self._last_start = time.monotonic()
        state = PageState.of(request)
        waited_s = self._permits.use(state.job_lease.row_id)
        if waited_s is not None:
            state.queued_s = (state.queued_s or 0.0) + waited_s
        return request

    def _rest(self, on_due: Callable[[], None]) -> None:
        if self.is_due:
            on_due()
        else:
            self._look_ahead()
            self._claims.look_beyond()

    def _has_converters(self) -> bool:
        """Return True if the converter pool takes another page of the team."""
        spider: Any = self._crawler.spider
        has_capacity: bool = spider.pool.has_capacity(self._team_id, self._nudge)
        return has_capacity

    def _is_contended(self) -> bool:
        """Return True if other teams wait for the converters."""
        spider: Any = self._crawler.spider
        is_contended: bool = spider.pool.is_contended(self._team_id)
        return is_contended

    def _next_row(self) -> Request | None:
        row = self._queue.next_row()
        if row is None:
            return None
        self._out += 1
        return self._request(row)

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    # -- leases ----------------------------------------------------------------------

    async def _open(self, spider: Any) -> None:
        options = spider.options
        self._set_pace(options)
        if self.job_id:
            job = await self._read_job()
            self._team_id = job.team_id if job else None
            if job is not None:
                self._apply(job)
            await self.insist(TeamPermits.shared().refresh)
        else:
            await self._make_job(options)
        self._permits.open(self._team_id or LOCAL_TEAM, self.job_id)
        await self._claims.claim()

    async def _make_job(self, options: Any) -> None:
        await self._jobs.make_team(LOCAL_TEAM)
        if options.webhook is not None:
            logger.warning("the webhook is not called: only the service sends webhooks")
            options = evolve(options, webhook=None)
        terms = Terms(team_id=LOCAL_TEAM)
        job = await self._jobs.create(terms, options, 2)
        self.job_id = job.id

    def _limit(self) -> int:
        """Return the largest number of leases that the engine may have."""
        if self._queue.delay_s:
            return 1
        limit = self._concurrency or self._slots + EXTRA_LEASES
        return limit + min(self._storing, STORED_AT_ONCE)

    def _look_ahead(self) -> None:
        if surplus := self._claims.look_ahead():
            self._tasks.spawn(self._give_back(surplus))

    async def _give_back(self, rows: list[ClaimedRow]) -> None:
        # Forgotten first: they may be claimed again before the response.
        leases = [(row.id, self._leases.pop(row.id, row.token)) for row in rows]
        try:
            await self._frontier.release(self.job_id, leases)
        except ServiceUnavailable:
            self._queue.add([row for row in rows if row.id not in self._leases])
            self._leases = {**dict(leases), **self._leases}

    def _request(self, row: ClaimedRow) -> Request:
        spider: Any = self._crawler.spider
        options = spider.options.scrape
        if row.options is not None:
            options = scrape_options_from_json(json.loads(row.options))
        deadline = time.monotonic() + options.deadline_ms / 1000
        is_sitemap = row.kind == UrlKind.SITEMAP
        lease = Lease(row.id, row.key, row.token, row.depth, is_sitemap, row.lastmod)
        page_id = self._pages[row.id] = str(uuid.uuid4())
        make = spider.sitemap_request if is_sitemap else spider.page_request
        request: Request = make(
            row.url, options, page_id, deadline, lease, self._team_id
        )
        return request

    # -- changes by the caller ---------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """True while no request of a further page may start."""
        return self._paused or self._holds > 0

    def notice(self, revision: int) -> None:
        """Apply the changes of the job up to ``revision``, soon."""
        if revision > self._noticed >= 0:
            self._noticed = revision
            self._tasks.spawn(self._catch_up(revision))

    async def _catch_up(self, revision: int) -> None:
        with contextlib.suppress(ServiceUnavailable):  # the crawl closes
            job = await self._read_job()
            if job is not None and revision > self._revision:
                await self._change(job)

    async def hold(self) -> None:
        """Start no further page until :meth:`refresh`.

        Returns the leased URLs without a request, so that a change of the job counts for
        them. Waits for them for at most :data:`HOLD_S`.
        """
        self._holds += 1
        end = time.monotonic() + HOLD_S
        await self._return_unrequested()
        while (
            self._claims.is_running
            or self._returning
            or self._pages.keys() - self._requested
        ):
            if time.monotonic() > end:
                break
            await asyncio.sleep(HOLD_POLL_S)

    async def refresh(self) -> None:
        """Apply the job as it is stored now, and end a :meth:`hold`.

        After a pause, no request of a further page starts. Raises
        :exc:`ServiceUnavailable`.
        """
        self._holds = max(0, self._holds - 1)
        self._claims.expect_rows()
        self._nudge()
        job = await self._jobs.get(self.job_id, None)
        if job is not None and job.revision > self._revision >= 0:
            await self._change(job)

    def note_request(self, row_id: int) -> None:
        """Note that the first request of a page has started."""
        self._requested.add(row_id)

    async def _change(self, job: Job) -> None:
        self._apply(job)
        await self._return_unrequested()
        self._nudge()

    def _apply(self, job: Job) -> None:
        if job.revision:  # else the spider has the options of the job
            spider: Any = self._crawler.spider
            spider.change_options(options_from_json(job.kind, json.loads(job.options)))
            self._set_pace(spider.options)
        self._revision = job.revision
        self._noticed = max(self._noticed, job.revision)
        self._paused = job.paused_at is not None
        self._claims.expect_rows()

    def _set_pace(self, options: Any) -> None:
        self._concurrency = options.max_concurrency
        self._queue.delay_s = options.delay_s or 0.0
        self._queue.slots = self._concurrency or self._slots

    async def _return_unrequested(self) -> None:
        """Return leased URLs without a request; of a paused job also retries."""
        self._crawler.signals.send_catch_log(job_changed)
        self._return_held()
        await self._return_rows()

    async def _return_rows(self) -> None:
        rows = [row for _, row in self._queue.rows]
        self._queue.rows.clear()
        self._queue.give_up_turns()
        if rows:
            await self._give_back(rows)

    def _return_held(self) -> None:
        for request in tuple(self._queue.held):
            lease = PageState.of(request).job_lease
            if self._paused or lease.row_id not in self._requested:
                self._queue.held.remove(request)
                self._tasks.spawn(self._return(lease))
        self._queue.give_up_turns()

    def _idle(self) -> None:
        if self._paused and not self._ended:
            raise CloseSpider("paused")

    async def _read_job(self) -> Job | None:
        return await self.insist(lambda: self._jobs.get(self.job_id, None))

    # -- claims ------------------------------------------------------------------------

    def _claim(self, count: int, beyond: Beyond | None) -> Awaitable[Claim]:
        return self._frontier.claim(self.job_id, count, beyond)

    async def _take(self, claim: Claim) -> None:
        # A claim may return a row whose page is still in work here, as its lease had ended. That
        # page stays, with the new token.
        self._queue.add([row for row in claim.rows if row.id not in self._leases])
        self._leases.update((row.id, row.token) for row in claim.rows)
        if claim.base is not None:
            spider: Any = self._crawler.spider
            spider.move_to(claim.base)
        self._page_price = claim.page_price
        self._ended = self._ended or claim.state not in ACTIVE
        if claim.revision < self._revision or self.is_paused:
            await self._return_rows()  # it was made before the change
        self.notice(claim.revision)

    def _nudge(self) -> None:
        """Make the engine call :meth:`next_request` again."""
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
            commit = await self.store(await self._pay_extra(outcome))
            while commit.is_stale and renew is not None:
                commit = await self.store(await renew())
        finally:
            self._storing -= 1
        token = self._leases.get(outcome.row_id)
        self._forget(outcome.row_id)
        if commit.new_links or not commit.delivered:
            self._claims.expect_rows()
        if commit.state not in ACTIVE:
            self._ended = True
            if not commit.accepted and token is not None:
                self._leases[outcome.row_id] = token  # close() returns it
        self.notice(commit.revision)
        self._nudge()
        return commit

    def _forget(self, row_id: int) -> None:
        """Forget a page that was handed to the engine and has ended."""
        self._leases.pop(row_id, None)
        self._pages.pop(row_id, None)
        self._requested.discard(row_id)
        self._queue.end_page(row_id)
        self._permits.free(row_id)
        self._out -= 1

    async def read(self, function: Callable[..., T], *args: object) -> T:
        """Read from the database, however long it is unavailable.

        Raises :exc:`ServiceUnavailable` as :meth:`insist`.
        """
        return await self.insist(lambda: self._database.read(function, *args))

    async def store(self, outcome: Outcome) -> Commit:
        """Store an outcome, see :meth:`settle`. An outcome that goes on keeps its lease."""
        # Without further URLs the job waits for this commit: for its links, or for its end.
        waits = not self._claims.is_dry
        while True:
            sent = self._with_token(outcome)
            commit = await self.insist(
                partial(self._frontier.store, self.job_id, sent, waits=waits)
            )
            # Again if the lease was lost, and this crawl has claimed the URL since.
            if commit.accepted or self._with_token(sent) is sent:
                break
        if commit.new_links:
            self._claims.expect_rows()
            self._nudge()
        return commit

    def _with_token(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the token of the latest claim of its URL."""
        token = self._leases.get(outcome.row_id, outcome.token)
        return outcome if token == outcome.token else evolve(outcome, token=token)

    async def _pay_extra(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or a failure if the team cannot pay for the page.

        The usual price is reserved. A PDF file may cost more.
        """
        if self._page_price is None or self._team_id is None:
            return outcome
        team_id, extra = self._team_id, outcome.credits - self._page_price
        if extra <= 0 or await self.insist(
            lambda: self._credits.top_up(
                team_id, self.job_id, outcome.row_id, outcome.page_id, extra
            )
        ):
            return outcome
        text = f"Insufficient credits: the page costs {outcome.credits}."
        return evolve(
            outcome,
            page=None,
            credits=0,
            code="INSUFFICIENT_CREDITS",
            error=text,
            snapshot=None,
        )

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
            self._tasks.spawn(self._return(lease))
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

    async def _return(self, lease: Lease) -> None:
        row_id, token = lease.row_id, self._leases.get(lease.row_id, lease.token)
        self._forget(row_id)  # first: it may be claimed again before the response
        self._returning += 1
        try:
            await self.insist(
                lambda: self._frontier.release(self.job_id, [(row_id, token)])
            )
        except ServiceUnavailable:
            self._leases.setdefault(row_id, token)  # close() returns it
            return
        finally:
            self._returning -= 1
        self._claims.expect_rows()
        self._nudge()

    async def _close(self) -> None:
        self._ended = True
        self._queue.close()
        self._permits.close()
        type(self)._of.pop(self._crawler, None)  # the value keeps its key alive
        # Not cancelled: the database finishes its work anyway, and the rows of a claim
        # would be lost.
        await self._tasks.join()
        leases = tuple(self._leases.items())
        try:
            if not self.keeps_pages:
                await self._note_reasons()
                self._database.close()
            elif leases:
                await self._frontier.release(self.job_id, leases)
        except ServiceUnavailable:
            logger.warning("%d leases are given back by a later look", len(leases))
        finally:
            self._leases.clear()
            type(self)._live.discard(self)

    async def _note_reasons(self) -> None:
        """Store in the stats how many URLs have a reason: ``urls/<reason>``.

        A job in memory ends with its crawler.
        """
        counts = await self._database.read(job_listing.count_by_state, self.job_id)
        assert self._crawler.stats is not None
        for reason, count in counts[1].items():
            self._crawler.stats.set_value(f"urls/{reason}", count)
