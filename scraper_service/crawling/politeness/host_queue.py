"""The queue of a job: claims URLs, and chooses the next request by the state of its host."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import TYPE_CHECKING

from scraper_service.crawling.observability import (
    BACKOFF,
    CRAWL_DELAY,
    DELAY,
)
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.urls import url_parts
from scraper_service.storage.frontier.leases import Beyond

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from scrapy import Request

    from scraper_service.crawling.observability import JobTally
    from scraper_service.crawling.politeness.host_limits import HostLock
    from scraper_service.crawling.politeness.host_pace import HostPace
    from scraper_service.shared_objects import BackgroundTasks
    from scraper_service.storage.job_records import Claim, ClaimedRow

ANY_NUMBER = 1_000_000
# Times as many rows, if the first rows wait for their hosts, or are fetched faster than
# further rows are claimed.
LOOK_AHEAD = 4
SHORT_CLAIMS = 2  # in a row that last longer than the rows, until a claim doubles
LOOK_EVERY_S = 5.0  # after a look-ahead found no other host
BEYOND_S = 0.5  # between two looks for other sites, each at some thousand URLs
MOST_EVERY_S = 60.0  # the same, after further looks for other sites in vain
FEW_HOSTS = 4  # with fewer, a job looks for URLs of other sites
POLL_S = 1.0  # for rows of other processes
FEW_ROWS = 4  # of a claim while teams compete for converters


class HostQueue:
    """Rows and requests of one job that wait for their hosts.

    ``rows`` are leased rows that were not requested yet, with their hosts. ``held`` are
    requests whose page has a ``retry_at``; they get their whole time again. ``nudge`` is
    called when the next request may be ready. ``delay_s`` is the pause between two pages of
    the job, 0 for none. ``slots`` is the number of pages that the job may have in flight;
    hosts with pages or rows have equal parts of them, so that slow hosts leave some to
    others. ``shut_hosts`` is the number of hosts that kept :meth:`next_row` from a row.
    ``tally`` counts the waits.
    """

    def __init__(
        self,
        pace: HostPace,
        nudge: Callable[[], None],
        tally: JobTally | None = None,
    ):
        self.delay_s = 0.0
        self.slots = ANY_NUMBER
        self.rows: deque[tuple[str, ClaimedRow]] = deque()
        self.held: deque[Request] = deque()
        self.shut_hosts = 0
        self._pace = pace
        self._nudge = nudge
        self._tally = tally
        self._shut_since: dict[str, float] = {}
        self._hosts: dict[int, str] = {}  # row id to host, for rows in flight
        self._wanted: dict[str, asyncio.Task[HostLock]] = {}
        self._locks: dict[int, HostLock] = {}  # by row id
        self._last_end = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def add(self, rows: Iterable[ClaimedRow]) -> None:
        self.rows.extend((pace_key(row.url), row) for row in rows)

    def hold(self, request: Request) -> bool:
        """Hold a request of a row if it has to wait. Return True if it is held.

        A held request has no lock. It takes a lock when its wait is over.
        """
        host, state = pace_key(request.url), PageState.of(request)
        backoff_s, state.backoff_s = state.backoff_s, 0.0
        # Otherwise the wait is for the pause of the host, which is counted already.
        if self._tally is not None and backoff_s > self._pace.pause_s(host):
            self._tally.add_delay(host, BACKOFF, backoff_s)
        if pause_s := self._pause_s(host):
            opens_at = time.monotonic() + pause_s
            state.retry_at = max(state.retry_at or 0, opens_at)
        if state.retry_at is None:
            return False
        self.held.append(request)
        state.held_at = time.monotonic()
        row_id = state.job_lease.row_id
        self.leave(row_id)
        self._release_lock(row_id)
        return True

    def next_held(self) -> Request | None:
        """Return the first held request whose wait is over, or None.

        The retry of what may be one broken page lets the rows of its host pass.
        """
        now = time.monotonic()
        part = self._part() if self.held else 0
        for request in self.held:
            state = PageState.of(request)
            wait_s = (state.retry_at or 0) - now
            if wait_s > 0:
                self._nudge_in(wait_s)
            elif self._lets_rows_pass(request):
                continue
            elif self._is_ready(host := pace_key(request.url), part):
                self.held.remove(request)
                state.retry_at, state.deadline = None, now + state.time_s
                self._note(host, state.held_at)
                self._start(state.job_lease.row_id, host)
                return request
        return None

    def _lets_rows_pass(self, request: Request) -> bool:
        """Return True for a retry that would close its host again, if only it is broken."""
        host = pace_key(request.url)
        return (
            "retry_times" in request.meta
            and self._pace.may_be_one_page(host)
            and any(each == host for each, _ in self.rows)
        )

    def next_row(self) -> ClaimedRow | None:
        """Return the first row whose host accepts requests now, or None."""
        shut: set[str] = set()
        part = self._part()
        for index, (host, row) in enumerate(self.rows):
            if host not in shut and self._is_ready(host, part):
                del self.rows[index]
                self._note(host, self._shut_since.pop(host, None))
                self._start(row.id, host)
                return row
            shut.add(host)
            self._shut_since.setdefault(host, time.monotonic())
            if self.delay_s:
                break  # one page at a time: no later row may pass
        self.shut_hosts = 0 if self.delay_s else len(shut)
        return None

    def opens_in_s(self) -> float:
        """Return the seconds until the next row or request may start, 0 if unknown."""
        now = time.monotonic()
        waits = [self._pace.pause_s(host) for host in {host for host, _ in self.rows}]
        waits += ((PageState.of(x).retry_at or 0) - now for x in self.held)
        if not waits:
            return 0.0
        pause_s = self._last_end + self.delay_s - now if self.delay_s else 0.0
        return max(0.0, pause_s, min(waits))

    def end_page(self, row_id: int) -> None:
        """Note that a page has ended, fetched or not."""
        self._last_end = time.monotonic()
        self.leave(row_id)
        self._release_lock(row_id)

    def give_up_locks(self, *, rests: bool = False) -> None:
        """Release the locks that no page has yet, and wait for no further locks.

        A job that ``rests`` gives up all; another one those at hosts without a row or a held
        request. Other jobs would wait for them in vain.
        """
        if not self._wanted:
            return
        kept: set[str] = set()
        if not rests:
            kept = {host for host, _ in self.rows}
            kept |= {pace_key(request.url) for request in self.held}
        for host in self._wanted.keys() - kept:
            task = self._wanted.pop(host)
            if not task.cancel() and not task.cancelled():
                task.result().end()

    def close(self) -> None:
        """Release all locks and stop waiting."""
        if self._alarm is not None:
            self._alarm.cancel()
        self.give_up_locks(rests=True)
        for row_id in tuple(self._locks):
            self._release_lock(row_id)

    def _start(self, row_id: int, host: str) -> None:
        self._hosts[row_id] = host
        if host in self._wanted:
            self._locks[row_id] = self._wanted.pop(host).result()

    def _release_lock(self, row_id: int) -> None:
        if lock := self._locks.pop(row_id, None):
            lock.end()

    def _note(self, host: str, since: float | None) -> None:
        if self._tally is None:
            return
        if since is not None:
            self._tally.add_wait(host, time.monotonic() - since)
        if pause_s := self._pause_s(host):
            source = DELAY if pause_s == self.delay_s else CRAWL_DELAY
            self._tally.add_delay(host, source, pause_s)

    def leave(self, row_id: int) -> None:
        """Note that a page no longer needs its host, unless the page is held."""
        self._hosts.pop(row_id, None)

    @property
    def hosts(self) -> set[str]:
        """The hosts of rows and of pages in flight."""
        return {host for host, _ in self.rows} | set(self._hosts.values())

    def _part(self) -> int:
        return math.ceil(self.slots / max(1, len(self.hosts)))

    def _is_ready(self, host: str, part: int) -> bool:
        if self.delay_s:
            wait_s = self._last_end + self.delay_s - time.monotonic()
            if wait_s > 0:
                self._nudge_in(wait_s)
                return False
        if not self._has_room(host, part):
            return False
        pause_s = self._pause_s(host)
        needs_lock = pause_s > 0 or host in self._wanted
        return not needs_lock or self._has_lock(host, pause_s)

    def _pause_s(self, host: str) -> float:
        return max(self.delay_s, self._pace.locks.crawl_delay_s(host))

    def _has_room(self, host: str, part: int) -> bool:
        in_flight = sum(host == each for each in self._hosts.values())
        if in_flight < min(part, self._pace.job_limit(host)):
            return True
        if (wait_s := self._pace.pause_s(host)) > 0:
            self._nudge_in(wait_s)
        return False  # otherwise the end of a page nudges the scheduler

    def _has_lock(self, host: str, pause_s: float) -> bool:
        """Return True if this job has the lock of a host. Otherwise wait for the lock."""
        if host not in self._wanted:
            task = asyncio.ensure_future(self._pace.locks.take(host, pause_s))
            task.add_done_callback(lambda _: self._nudge())
            self._wanted[host] = task
        return self._wanted[host].done()

    def _nudge_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        # The handle itself knows no time if there is none left.
        if self._alarm is None or self._alarm_at > at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm, self._alarm_at = loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._alarm = None
        self._nudge()


class StoredQueue(HostQueue):
    """The rows of a job that only reads stored responses. They wait only for ``delay_s``."""

    def _pause_s(self, host: str) -> float:
        return 0.0

    def _has_room(self, host: str, part: int) -> bool:
        return True


class Claims:
    """Claims URLs of one job ahead of their fetch, in batches, one claim at a time.

    ``claim`` leases up to so many URLs, or those beyond some sites; it raises
    :exc:`ServiceUnavailable`. ``take`` gets each result. ``queue`` holds the rows that were
    claimed, and ``slots`` is the number of pages that the job may have in flight. Claims stop
    after ``has_ended``. While ``is_contended``, because other teams wait for converters, no row
    is claimed ahead: other processes may have a converter for it. ``wake`` is called when a
    page may be ready, or another claim may find rows. ``tasks`` run the claims.
    """

    def __init__(
        self,
        claim: Callable[[int, Beyond | None], Awaitable[Claim]],
        take: Callable[[Claim], None],
        queue: HostQueue,
        slots: int,
        has_ended: Callable[[], bool],
        is_contended: Callable[[], bool],
        wake: Callable[[], None],
        tasks: BackgroundTasks,
    ):
        self._ask = claim
        self._take = take
        self._queue = queue
        self._slots = slots
        self._has_ended = has_ended
        self._is_contended = is_contended
        self._wake = wake
        self._tasks = tasks
        #: Seconds after a claim without a row until the next one.
        self.poll_s = POLL_S
        self.is_running = False
        #: True if the last claim found no row.
        self.is_dry = False
        self._has_news = False  # since the last claim began
        self._polls = False  # since a claim without a row, until there is news
        self._batch = slots  # rows of a claim
        self._short_claims = 0  # in a row
        self._ran_out = False  # of rows, during the running claim
        self._look_at = 0.0
        self._beyond = 0  # the last row of a look for other sites
        self._beyond_at = 0.0
        self._beyond_every_s = LOOK_EVERY_S

    @property
    def is_looking_beyond(self) -> bool:
        """True if a look for other sites has not seen all URLs of the job."""
        return self._beyond > 0

    @property
    def may_bring_rows(self) -> bool:
        """True if a claim is running, unless it only repeats one that found no row."""
        return self.is_running and not self._polls

    def expect_rows(self) -> None:
        """Note that the next claim may find rows, also if one is running."""
        self._polls = False
        self._end_rest()

    def refill(self) -> None:
        """Claim rows if few are left: a claim takes a transaction."""
        if not self._queue.rows or (
            len(self._queue.rows) <= self._batch and not self._is_contended()
        ):
            self._soon()

    def ran_out(self) -> None:
        """Note that no row was left for the next page."""
        self._ran_out = self.is_running

    def look_ahead(self) -> list[ClaimedRow]:
        """Claim more rows if the first ones wait. Return the surplus of a single host."""
        hosts, rows = self._queue.shut_hosts, self._queue.rows
        if not hosts or time.monotonic() < self._look_at:
            return []
        if not self.is_dry and len(rows) < LOOK_AHEAD * self._slots:
            self._soon()
        elif hosts == 1:
            self._look_at = time.monotonic() + LOOK_EVERY_S
            surplus = [rows.pop()[1] for _ in range(len(rows) - self._batch)]
            return surplus[::-1]
        return []

    def look_beyond(self) -> None:
        """Look for URLs of other sites, if a few sites have all slots of the job."""
        if self._queue.delay_s or self.is_running or self._has_ended():
            return
        if time.monotonic() < self._beyond_at:
            return
        hosts = self._queue.hosts
        if len(hosts) >= FEW_HOSTS or len(self._queue.rows) < self._slots:
            return
        sites = {_site(row.url) for _, row in self._queue.rows}
        self.is_running = True
        beyond = Beyond(self._beyond, tuple(sorted(sites)))
        self._tasks.spawn(self.claim(beyond))

    async def claim(self, beyond: Beyond | None = None) -> None:
        """Claim rows now, of any site or ``beyond`` some."""
        if self._has_ended():
            self.is_running = False
            return
        self.is_running = True
        self._has_news = False
        count = min(FEW_ROWS, self._batch) if self._is_contended() else self._batch
        try:
            claim = await self._ask(count, beyond)
        except ServiceUnavailable:
            self._rest()
            return
        finally:
            self.is_running = False
        if beyond is None:
            self._note_size(len(claim.rows))
        else:
            self._note_look_beyond(claim)
        self._take(claim)
        if claim.rows:
            self._polls = False
        elif not (self._has_news or beyond):
            self._rest()
        self._wake()

    def _soon(self) -> None:
        if not (self.is_running or self._has_ended() or self.is_dry):
            self.is_running = True
            self._tasks.spawn(self.claim())

    def _rest(self) -> None:
        """Pause claims for a while, or until news arrives."""
        self.is_dry = self._polls = True
        asyncio.get_running_loop().call_later(self.poll_s, self._look_again)

    def _look_again(self) -> None:
        self._end_rest()
        self._wake()

    def _end_rest(self) -> None:
        self.is_dry = False
        self._has_news = True

    def _note_size(self, count: int) -> None:
        """Claim more rows from now on if a fast crawl has waited for its last claims."""
        is_short = self._ran_out and count == self._batch
        self._short_claims = self._short_claims + 1 if is_short else 0
        self._ran_out = False
        if self._short_claims == SHORT_CLAIMS:
            self._short_claims = 0
            self._batch = min(2 * self._batch, LOOK_AHEAD * self._slots)

    def _note_look_beyond(self, claim: Claim) -> None:
        """Note how far a look for other sites went. Without any, the next ones are rarer."""
        self._beyond = claim.last or 0
        if claim.rows:
            self._beyond_every_s = LOOK_EVERY_S
        elif claim.last is None:
            self._beyond_every_s = min(2 * self._beyond_every_s, MOST_EVERY_S)
        wait_s = BEYOND_S if claim.last else self._beyond_every_s
        self._beyond_at = time.monotonic() + wait_s


def _site(url: str) -> str:
    parts = url_parts(url)
    return f"{parts.scheme}://{parts.netloc}/"
