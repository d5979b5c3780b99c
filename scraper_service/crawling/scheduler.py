"""Scrapy's SCHEDULER for jobs: leases on rows of the frontier in the job database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from attrs import evolve
from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.defer import deferred_from_coro

from scraper_service.crawling.database_retry import insist
from scraper_service.crawling.host_queue import HostQueue
from scraper_service.crawling.job_limits import JobPlaces
from scraper_service.crawling.report_recorder import JobRecorder
from scraper_service.crawling.signals import page_abandoned
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Lease
from scraper_service.options.job_arguments import scrape_options_from_json
from scraper_service.storage import job_listing
from scraper_service.storage import jobs as store
from scraper_service.storage.accounts.credits import top_up
from scraper_service.storage.admission import Terms, create_job
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import leases as frontier
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import (
    ACTIVE,
    LOCAL_TEAM,
    Commit,
    Job,
    Kind,
    Outcome,
)
from scraper_service.storage.politeness.pace import HostPace
from scraper_service.storage.politeness.team_limits import TeamPlaces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scraper_service.storage.job_records import ClaimedRow

T = TypeVar("T")
RenewT: TypeAlias = "Callable[[], Awaitable[Outcome]]"

logger = logging.getLogger(__name__)

EXTRA_LEASES = 4  # beyond the requests in flight, for pages that wait for the pool
STORED_AT_ONCE = 8  # pages in whose place others are fetched while they are stored
LOOK_AHEAD = 4  # times as many rows, while those in front wait for their hosts
LOOK_EVERY_S = 5.0  # after it found no other host
POLL_S = 1.0  # for rows that other processes bring


class LeasedScheduler(BaseScheduler):
    """Hand out the addresses of one job, and store how each of them ended.

    The job is that of the setting ``JOB_ID``; without one it is made of the spider's
    options, in memory, and its pages are not kept. Rows are claimed ahead in batches,
    because Scrapy asks synchronously. Every lease ends in :meth:`settle` or is given
    back in :meth:`close`, or later by
    :class:`~scraper_service.crawling.heartbeat.Presence`. What waits for its host
    waits here, before its time begins; rows of other hosts pass in front.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, LeasedScheduler]] = WeakKeyDictionary()
    _live: ClassVar[WeakSet[LeasedScheduler]] = WeakSet()  # that may have leases

    def __init__(self, crawler: Crawler):
        settings = crawler.settings
        self._crawler = crawler
        self.job_id: str = settings.get("JOB_ID") or ""
        self.keeps_pages = bool(self.job_id)
        self.owner: str = settings.get("JOB_OWNER") or str(uuid.uuid4())
        self._database = (
            Database.shared(settings) if self.job_id else Database.in_memory()
        )
        self._slots = settings.getint("JOB_CONCURRENCY")
        self._concurrency: int | None = None
        self._team_id: str | None = None
        self._page_price: int | None = None  # that was reserved, None for nothing
        self._again: deque[Request] = deque()  # redirects, lease in hand
        tally = JobRecorder.tally_of(crawler)
        self._queue = HostQueue(HostPace.shared(settings), self._nudge, tally)
        self._places = JobPlaces(TeamPlaces.shared(), self._nudge)
        self._leases: dict[int, int] = {}  # row id to token, all that are held
        self._out = 0  # leases handed to the engine
        self._storing = 0  # of those, whose pages wait for the database
        self._pages: dict[int, str] = {}  # row id to page id, of those
        self._look_at = 0.0
        self._dry = False
        self._claiming = False
        self._ended = False
        self._tasks: set[asyncio.Task[None]] = set()
        type(self)._of[crawler] = self
        type(self)._live.add(self)
        connect = crawler.signals.connect
        connect(self._page_lost, signals.spider_error)
        connect(self._page_lost, signals.item_error)

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
    def holds(cls, owner: str, job_id: str, lease: tuple[int, int]) -> bool:
        """Return True if a crawler of ``owner`` has a lease, as (id, token).

        Or if it may have: the answer to a claim of the job is on its way.
        """
        return any(
            each.owner == owner
            and each.job_id == job_id
            and (each._claiming or each._leases.get(lease[0]) == lease[1])
            for each in cls._live
        )

    def abandon(self) -> None:
        """End what is under way: the job was cancelled, and nothing more is added."""
        self._ended = True
        for scrape_id in tuple(self._pages.values()):
            self._crawler.signals.send_catch_log(page_abandoned, scrape_id=scrape_id)

    # -- what Scrapy calls -----------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def has_pending_requests(self) -> bool:
        return not self._ended

    def enqueue_request(self, request: Request) -> bool:
        """Take back a request that holds a lease; no other comes from our spiders."""
        if self._queue.hold(request):
            self._places.free(request.meta["lease"].row_id)
        else:
            self._again.append(request)
        return True

    def next_request(self) -> Request | None:
        if self._again:
            return self._again.popleft()
        if len(self._queue.rows) <= self._slots // 2:
            self._claim_soon()
        if self._out - len(self._queue.held) >= self._limit():
            return None
        if not (self._queue.held or self._queue.rows):
            return None
        if not self._has_converters() or not self._places.take():
            return None
        request = self._queue.next_held() or self._next_row()
        if request is None:
            self._places.give_back()
            self._look_ahead()
            return None
        waited_s = self._places.use(request.meta["lease"].row_id)
        if waited_s is not None:
            request.meta["queued_s"] = request.meta.get("queued_s", 0.0) + waited_s
        return request

    def _has_converters(self) -> bool:
        """Return True if the converters take another page of the team."""
        spider: Any = self._crawler.spider
        has_capacity: bool = spider.pool.has_capacity(self._team_id, self._nudge)
        return has_capacity

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
        self._concurrency = options.max_concurrency
        self._queue.delay_s = getattr(options, "delay_s", None) or 0.0
        if self.job_id:
            job = await self.read(store.get_job, self.job_id, None)
            self._team_id = job.team_id if job else None
            await self.insist(TeamPlaces.shared().learn)
        else:
            await self._make_job(options)
        self._places.open(self._team_id or LOCAL_TEAM, self.job_id)
        await self._claim()

    async def _make_job(self, options: Any) -> None:
        await self._database.write(store.make_team, LOCAL_TEAM)
        if options.webhook is not None:
            logger.warning("no webhook is called: that takes the service")
            options = evolve(options, webhook=None)
        terms = Terms(team_id=LOCAL_TEAM)
        job = await self._database.write(create_job, terms, options, 2)
        assert isinstance(job, Job)
        self.job_id = job.id

    def _limit(self) -> int:
        """Return how many leases may be out."""
        if self._queue.delay_s:
            return 1
        limit = self._concurrency or self._slots + EXTRA_LEASES
        return limit + min(self._storing, STORED_AT_ONCE)

    def _look_ahead(self) -> None:
        """Claim further rows; if all are of one host, leave them to others again."""
        hosts, rows = self._queue.shut_hosts, self._queue.rows
        if not hosts or time.monotonic() < self._look_at:
            return
        if not self._dry and len(rows) < LOOK_AHEAD * self._slots:
            self._claim_soon()
        elif hosts == 1:
            self._look_at = time.monotonic() + LOOK_EVERY_S
            surplus = [rows.pop()[1] for _ in range(len(rows) - self._slots)]
            self._spawn(self._give_back(surplus[::-1]))

    async def _give_back(self, rows: list[ClaimedRow]) -> None:
        leases = [(row.id, row.token) for row in rows]
        try:
            await self._database.write_locking(frontier.release, self.job_id, leases)
        except ServiceUnavailable:
            self._queue.add(rows)
            return
        for row_id, token in leases:
            if self._leases.get(row_id) == token:
                del self._leases[row_id]

    def _request(self, row: ClaimedRow) -> Request:
        spider: Any = self._crawler.spider
        options = spider.options.scrape
        if row.options is not None:
            options = scrape_options_from_json(json.loads(row.options))
        deadline = time.monotonic() + options.deadline_ms / 1000
        is_sitemap = row.kind == Kind.SITEMAP
        lease = Lease(row.id, row.key, row.token, row.depth, is_sitemap)
        page_id = self._pages[row.id] = str(uuid.uuid4())
        make = spider.sitemap_request if is_sitemap else spider.page_request
        request: Request = make(
            row.url, options, page_id, deadline, lease, self._team_id
        )
        request.meta.setdefault("time_s", options.deadline_ms / 1000)
        return request

    def _claim_soon(self) -> None:
        if not self._claiming and not self._ended and not self._dry:
            self._claiming = True
            self._spawn(self._claim())

    async def _claim(self) -> None:
        if self._ended:
            self._claiming = False
            return
        self._claiming = True
        try:
            claim = await self._database.write_locking(
                frontier.claim, self.job_id, self.owner, self._slots
            )
        except ServiceUnavailable:
            self._dry = True
            asyncio.get_running_loop().call_later(POLL_S, self._wake)
            return
        finally:
            self._claiming = False
        self._queue.add(claim.rows)
        self._leases.update((row.id, row.token) for row in claim.rows)
        if claim.base is not None:
            spider: Any = self._crawler.spider
            spider.move_to(claim.base)
        self._page_price = claim.page_price
        self._ended = self._ended or claim.state not in ACTIVE
        if not claim.rows:
            self._dry = True
            asyncio.get_running_loop().call_later(POLL_S, self._wake)
        self._nudge()

    def _wake(self) -> None:
        self._dry = False
        self._nudge()

    def _nudge(self) -> None:
        """Make the engine ask again: it would only do so after a response, or in 5 s."""
        engine = self._crawler.engine
        if engine is None or engine._slot is None or engine.scraper.slot is None:
            return  # still opening: the engine asks by itself
        if engine._slot.closing is None:
            engine._slot.nextcall.schedule()

    async def settle(self, outcome: Outcome, renew: RenewT | None = None) -> Commit:
        """Store how a leased address ended, however long the database takes.

        ``renew`` returns the outcome of a tracked page that was compared anew, as often
        as another page of the same address comes before it. Raises
        :exc:`ServiceUnavailable` only when the crawl is closing meanwhile.
        """
        self._queue.leave(outcome.row_id)  # its host may be asked for the next page
        self._storing += 1
        self._nudge()
        try:
            commit = await self.store(await self._paid(outcome))
            while commit.is_stale and renew is not None:
                commit = await self.store(await renew())
        finally:
            self._storing -= 1
        self._forget(outcome.row_id)
        if commit.new_links or not commit.delivered:
            self._dry = False
        if commit.state not in ACTIVE:
            self._ended = True
        self._nudge()
        return commit

    def _forget(self, row_id: int) -> None:
        """Note that a page which was handed to the engine has ended."""
        self._leases.pop(row_id, None)
        self._pages.pop(row_id, None)
        self._queue.ended(row_id)
        self._places.free(row_id)
        self._out -= 1

    async def read(self, function: Callable[..., T], *args: object) -> T:
        """Return what ``function`` reads in the database, however long it takes.

        Raises :exc:`ServiceUnavailable` as :meth:`insist`.
        """
        return await self.insist(lambda: self._database.read(function, *args))

    async def store(self, outcome: Outcome) -> Commit:
        """Store an outcome, however long the database takes, as :meth:`settle`.

        One that goes on keeps its lease.
        """
        commit = await self.insist(
            lambda: self._database.write_each(
                outcomes.append, self.job_id, outcome, waits=not outcome.goes_on
            )
        )
        if commit.new_links:
            self._dry = False
            self._nudge()
        return commit

    async def _paid(self, outcome: Outcome) -> Outcome:
        """Return the outcome; a failed one if the team cannot pay its page.

        What a page usually costs is reserved; a PDF file may cost more.
        """
        if self._page_price is None or self._team_id is None:
            return outcome
        team_id, extra = self._team_id, outcome.credits - self._page_price
        if extra <= 0 or await self.insist(
            lambda: self._database.write_aside(
                top_up, team_id, team_id, self.job_id, extra
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
        """Return what the database answers, however long it takes.

        Raises :exc:`ServiceUnavailable` only when the crawl is closing meanwhile.
        """
        return await insist(ask, lambda: self._crawler.crawling)

    def _page_lost(self, response: Any, failure: Any = None) -> None:
        """End the lease of a page that a bug kept from coming out.

        That of a page which needs the database is given back: it is fetched again.
        """
        request = getattr(response, "request", None)
        if request is None:
            return
        lease = request.meta.get("lease")
        if lease is None or lease.row_id not in self._leases:
            return
        if isinstance(getattr(failure, "value", None), ServiceUnavailable):
            self._spawn(self._return(lease))
            return
        outcome = Outcome(
            row_id=lease.row_id,
            key=lease.key,
            token=lease.token,
            owner=self.owner,
            page_id=request.meta["scrape_id"],
            kind=Kind.SITEMAP if lease.is_sitemap else Kind.PAGE,
            code="UNKNOWN_ERROR",
            error="An unexpected error occurred; it is in the log of the service.",
        )
        self._spawn(self._settle_lost(outcome))

    async def _settle_lost(self, outcome: Outcome) -> None:
        with contextlib.suppress(ServiceUnavailable):  # then the lease is given back
            await self.settle(outcome)

    async def _return(self, lease: Lease) -> None:
        leases = [(lease.row_id, lease.token)]
        with contextlib.suppress(ServiceUnavailable):  # then it is done at the end
            await self.insist(
                lambda: self._database.write_locking(
                    frontier.release, self.job_id, leases
                )
            )
            self._forget(lease.row_id)
            self._dry = False
            self._nudge()

    async def _close(self) -> None:
        self._ended = True
        self._queue.close()
        self._places.close()
        type(self)._of.pop(self._crawler, None)  # the value keeps its key alive
        # Not cancelled: the database does what it was asked for all the same, and the
        # rows of a claim would be nobody's.
        while self._tasks:
            await asyncio.wait(self._tasks)
        leases = tuple(self._leases.items())
        try:
            if not self.keeps_pages:
                await self._note_reasons()
                self._database.close()
            elif leases:
                await self._database.write_locking(
                    frontier.release, self.job_id, leases
                )
        except ServiceUnavailable:
            logger.warning("%d leases are given back by a later look", len(leases))
        finally:
            self._leases.clear()
            type(self)._live.discard(self)

    async def _note_reasons(self) -> None:
        """Leave in the stats how many URLs have a reason: ``urls/<reason>``.

        Nothing else tells of them when the job is gone with its crawler.
        """
        counts = await self._database.read(job_listing.count_addresses, self.job_id)
        assert self._crawler.stats is not None
        for reason, count in counts[1].items():
            self._crawler.stats.set_value(f"urls/{reason}", count)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
