"""Which page of a job comes next, by what the hosts of its pages take."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from scraper_service.storage.politeness.hosts import pace_key
from scraper_service.storage.politeness.tally import BACKOFF, CRAWL_DELAY, DELAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request

    from scraper_service.storage.job_records import ClaimedRow
    from scraper_service.storage.politeness.host_turns import Turn
    from scraper_service.storage.politeness.pace import HostPace
    from scraper_service.storage.politeness.tally import JobTally


class HostQueue:
    """Rows and requests of one job that wait for their hosts, before their time begins.

    ``rows`` are claimed and not asked for yet, with their hosts. ``held`` requests have
    ``meta["retry_at"]`` (:func:`time.monotonic`), and ``meta["time_s"]``, which they
    are given anew. ``nudge`` is called when it is worth to ask for the next again.
    ``delay_s`` is the pause between two pages of the job, 0 for none; ``shut_hosts``
    how many hosts kept :meth:`next_row` from a row. ``tally`` is told who waited.
    """

    def __init__(
        self,
        pace: HostPace,
        nudge: Callable[[], None],
        tally: JobTally | None = None,
    ):
        self.delay_s = 0.0
        self.rows: deque[tuple[str, ClaimedRow]] = deque()
        self.held: deque[Request] = deque()
        self.shut_hosts = 0
        self._pace = pace
        self._nudge = nudge
        self._tally = tally
        self._shut_since: dict[str, float] = {}
        self._held_since: dict[int, float] = {}  # by row id
        self._hosts: dict[int, str] = {}  # row id to the host where it is under way
        self._under_way: Counter[str] = Counter()  # of those
        self._wanted: dict[str, asyncio.Task[Turn]] = {}
        self._turns: dict[int, Turn] = {}  # by row id
        self._last_end = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, rows: Iterable[ClaimedRow]) -> None:
        self.rows.extend((pace_key(row.url), row) for row in rows)

    def hold(self, request: Request) -> bool:
        """Keep a request of a row that was handed out, if it has to wait."""
        self._note_backoff(request)
        if pause_s := self._pause_s(pace_key(request.url)):
            opens_at = time.monotonic() + pause_s
            request.meta["retry_at"] = max(request.meta.get("retry_at", 0), opens_at)
        if "retry_at" not in request.meta:
            return False
        self.held.append(request)
        row_id = request.meta["lease"].row_id
        self._held_since[row_id] = time.monotonic()
        self.leave(row_id)
        return True

    def next_held(self) -> Request | None:
        """Take the first request that waited for long enough, None if none did."""
        now = time.monotonic()
        for request in self.held:
            wait_s = request.meta["retry_at"] - now
            if wait_s > 0:
                self._nudge_in(wait_s)
            elif self._has_room(host := pace_key(request.url)):
                self.held.remove(request)
                del request.meta["retry_at"]
                request.meta["deadline"] = now + request.meta["time_s"]
                row_id = request.meta["lease"].row_id
                self._note(host, self._held_since.pop(row_id, now))
                self._enter(row_id, host)
                return request
        return None

    def next_row(self) -> ClaimedRow | None:
        """Take the first row whose host is ready, None if there is none."""
        shut: set[str] = set()
        for place, (host, row) in enumerate(self.rows):
            if host not in shut and self._is_ready(host):
                del self.rows[place]
                self._enter(row.id, host)
                self._note(host, self._shut_since.pop(host, None))
                if host in self._wanted:
                    self._turns[row.id] = self._wanted.pop(host).result()
                return row
            shut.add(host)
            self._shut_since.setdefault(host, time.monotonic())
            if self.delay_s:
                break  # one page at a time: none passes in front
        self.shut_hosts = 0 if self.delay_s else len(shut)
        return None

    def ended(self, row_id: int) -> None:
        """Note that a page has ended, fetched or not."""
        self._last_end = time.monotonic()
        self.leave(row_id)
        if turn := self._turns.pop(row_id, None):
            turn.end()

    def close(self) -> None:
        """Give back all turns and wait for none."""
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._wanted.values():
            if not task.cancel() and not task.cancelled():
                task.result().end()
        for turn in self._turns.values():
            turn.end()

    def _note(self, host: str, since: float | None) -> None:
        """Count a page that comes next: what it waited for, and how long."""
        if self._tally is None:
            return
        tally = self._tally.host(host)
        if since is not None:
            tally.waited(time.monotonic() - since)
        if pause_s := self._pause_s(host):
            tally.delayed(DELAY if pause_s == self.delay_s else CRAWL_DELAY, pause_s)

    def _note_backoff(self, request: Request) -> None:
        backoff_s = request.meta.pop("backoff_s", 0.0)
        host = pace_key(request.url)
        # Else the pause of the host is what it waits for, and counted already.
        if self._tally is not None and backoff_s > self._pace.closed_s(host):
            self._tally.host(host).delayed(BACKOFF, backoff_s)

    def _enter(self, row_id: int, host: str) -> None:
        self._hosts[row_id] = host
        self._under_way[host] += 1

    def leave(self, row_id: int) -> None:
        """Note that nothing more is asked of the host of a page, unless it is held."""
        host = self._hosts.pop(row_id, None)
        if host is not None:
            self._under_way[host] -= 1
            if not self._under_way[host]:
                del self._under_way[host]

    def _is_ready(self, host: str) -> bool:
        if not self._is_due() or not self._has_room(host):
            return False
        pause_s = self._pause_s(host)
        if not pause_s and host not in self._wanted:
            return True
        return self._has_turn(host, pause_s)

    def _is_due(self) -> bool:
        wait_s = self._last_end + self.delay_s - time.monotonic()
        if self.delay_s and wait_s > 0:
            self._nudge_in(wait_s)
            return False
        return True

    def _pause_s(self, host: str) -> float:
        """Return the pause between two pages of a host, 0 for none."""
        return max(self.delay_s, self._pace.turns.crawl_delay_s(host))

    def _has_room(self, host: str) -> bool:
        if self._under_way[host] < self._pace.room(host):
            return True
        if (wait_s := self._pace.closed_s(host)) > 0:
            self._nudge_in(wait_s)
        return False  # else the end of a page has the next one asked for

    def _has_turn(self, host: str, pause_s: float) -> bool:
        """Tell whether it is this job's turn at a host; if not, it will be."""
        if host not in self._wanted:
            task = asyncio.ensure_future(self._pace.turns.take(host, pause_s))
            task.add_done_callback(lambda _: self._nudge())
            self._wanted[host] = task
        return self._wanted[host].done()

    def _nudge_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._alarm is None or self._alarm.when() > at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._nudge()
