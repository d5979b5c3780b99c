"""The queue of a job: chooses the next request by the state of its host."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import TYPE_CHECKING

from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.politeness.crawl_report import BACKOFF, CRAWL_DELAY, DELAY
from scraper_service.crawling.politeness.host_limits import pace_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request

    from scraper_service.crawling.politeness.crawl_report import JobTally
    from scraper_service.crawling.politeness.host_pace import HostPace
    from scraper_service.crawling.politeness.host_turns import Turn
    from scraper_service.storage.job_records import ClaimedRow

ANY_NUMBER = 1_000_000


class HostQueue:
    """Rows and requests of one job that wait for their hosts.

    ``rows`` are leased rows that were not requested yet, with their hosts. ``held`` are
    requests whose page has a ``retry_at``; they get their whole time again. ``nudge`` is
    called when the next request may be ready. ``delay_s`` is the pause between two pages of
    the job, 0 for none. ``slots`` is the number of pages that the job may have in flight; hosts with pages or rows have equal parts of them,
    so that slow hosts leave room to others. ``shut_hosts`` is the number of hosts that kept
    :meth:`next_row` from a row. ``tally`` counts the waits.
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
        self._wanted: dict[str, asyncio.Task[Turn]] = {}
        self._turns: dict[int, Turn] = {}  # by row id
        self._last_end = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    def add(self, rows: Iterable[ClaimedRow]) -> None:
        self.rows.extend((pace_key(row.url), row) for row in rows)

    def hold(self, request: Request) -> bool:
        """Hold a request of a row if it has to wait. Return True if it is held.

        A held request has no turn. It takes one when its wait is over.
        """
        host, state = pace_key(request.url), PageState.of(request)
        backoff_s, state.backoff_s = state.backoff_s, 0.0
        # Otherwise the wait is for the pause of the host, which is counted already.
        if self._tally is not None and backoff_s > self._pace.closed_s(host):
            self._tally.delayed(host, BACKOFF, backoff_s)
        if pause_s := self._pause_s(host):
            opens_at = time.monotonic() + pause_s
            state.retry_at = max(state.retry_at or 0, opens_at)
        if state.retry_at is None:
            return False
        self.held.append(request)
        state.held_at = time.monotonic()
        row_id = state.job_lease.row_id
        self.leave(row_id)
        self._end_turn(row_id)
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
        for place, (host, row) in enumerate(self.rows):
            if host not in shut and self._is_ready(host, part):
                del self.rows[place]
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
        waits = [self._pace.closed_s(host) for host in {host for host, _ in self.rows}]
        waits += ((PageState.of(x).retry_at or 0) - now for x in self.held)
        if not waits:
            return 0.0
        pause_s = self._last_end + self.delay_s - now if self.delay_s else 0.0
        return max(0.0, pause_s, min(waits))

    def ended(self, row_id: int) -> None:
        """Note that a page has ended, fetched or not."""
        self._last_end = time.monotonic()
        self.leave(row_id)
        self._end_turn(row_id)

    def give_up_turns(self, *, rests: bool = False) -> None:
        """Give back the turns that no page has yet, and wait for no more of them.

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
        """Return all turns and stop waiting."""
        if self._alarm is not None:
            self._alarm.cancel()
        self.give_up_turns(rests=True)
        for row_id in tuple(self._turns):
            self._end_turn(row_id)

    def _start(self, row_id: int, host: str) -> None:
        self._hosts[row_id] = host
        if host in self._wanted:
            self._turns[row_id] = self._wanted.pop(host).result()

    def _end_turn(self, row_id: int) -> None:
        if turn := self._turns.pop(row_id, None):
            turn.end()

    def _note(self, host: str, since: float | None) -> None:
        """Count the wait of the next page and its reason."""
        if self._tally is None:
            return
        if since is not None:
            self._tally.waited(host, time.monotonic() - since)
        if pause_s := self._pause_s(host):
            source = DELAY if pause_s == self.delay_s else CRAWL_DELAY
            self._tally.delayed(host, source, pause_s)

    def leave(self, row_id: int) -> None:
        """Note that a page no longer needs its host, unless the page is held."""
        self._hosts.pop(row_id, None)

    @property
    def hosts(self) -> set[str]:
        """The hosts of rows and of pages in flight."""
        return {host for host, _ in self.rows} | set(self._hosts.values())

    def _part(self) -> int:
        """Return the pages in flight that each host may have."""
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
        needs_turn = pause_s > 0 or host in self._wanted
        return not needs_turn or self._has_turn(host, pause_s)

    def _pause_s(self, host: str) -> float:
        """Return the pause between two pages of a host, 0 for none."""
        return max(self.delay_s, self._pace.turns.crawl_delay_s(host))

    def _has_room(self, host: str, part: int) -> bool:
        in_flight = sum(host == each for each in self._hosts.values())
        if in_flight < min(part, self._pace.room(host)):
            return True
        if (wait_s := self._pace.closed_s(host)) > 0:
            self._nudge_in(wait_s)
        return False  # otherwise the end of a page nudges the scheduler

    def _has_turn(self, host: str, pause_s: float) -> bool:
        """Return True if this job has the turn at a host. Otherwise wait for the turn."""
        if host not in self._wanted:
            task = asyncio.ensure_future(self._pace.turns.take(host, pause_s))
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
    """Rows of a job that fetches nothing. They wait for no host, only for ``delay_s``."""

    def _pause_s(self, host: str) -> float:
        return 0.0

    def _has_room(self, host: str, part: int) -> bool:
        return True
