"""The state of one host: its limit of requests in flight, and its pauses.

A host with a pause between two pages has one page at a time.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from functools import lru_cache, partial
from statistics import median
from typing import TYPE_CHECKING

from attrs import define, field

from scraper_service.crawling.politeness.shared_limit import Limited, Timer
from scraper_service.discovery.outgoing_requests import MAX_PAUSE_S, backoff_s
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.urls import origin, url_parts
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage import politeness
from scraper_service.storage.connections import insist

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.crawling.politeness.shared_limit import CallLaterT
    from scraper_service.storage.database import Database
    from scraper_service.storage.politeness import SharedHost

BUSY_IN_A_ROW = 3  # a single 503 without Retry-After may be one broken page
# Requests in flight of an unknown host. The next step follows after as many good responses
# as the step has requests, or after RAMP_S without a response.
RAMP = (1, 2, 3, 4)
RAMP_S = 1.0
STREAK = 10  # good responses until the window grows
MARGIN = 1.25  # factor for the gap, over the rate that the site accepted
UNKNOWN_GAP_S = 1.0  # after a 429 to the first request
MAX_GAP_S = 60.0
UNASKED_GAP_S = 10.0  # the longest gap that a 429 without Retry-After causes
FREE_TROUBLES = 2  # backoffs in a row that may have causes other than the rate
# Time without a faster rate after a 429. It doubles with each further 429.
QUIET_S = 60.0
QUIET_PERIODS = 10  # or as many requested pauses, if that is longer
FORGET_S = 600.0  # the longest such time; an idle host is forgotten after it
SAMPLE = 16  # responses whose median is the current latency
SLOW_S = 1.0  # a lower latency never counts as slow
PATIENT_S = 5.0  # a shorter wait than this does not count as a time-out
LOST_PAGES = 3  # in a row, that were busy at all tries, until a page has one try only
LOST_S = 2 * FORGET_S  # time without a further one, after which pages have all tries
MAX_BUSY_PAGES = 64  # that are remembered of a host
MAX_NAME = 260  # characters; a host name has at most 253
MAX_CRAWL_DELAY_S = 10.0  # the longest Crawl-delay of robots.txt that is kept
RETRY_S = 1.0  # while the database is unavailable


def pace_key(url: str) -> str:
    """Return the key of a URL's host for its pace.

    The key ignores the scheme, ``www.`` and the ports 80 and 443, since the same server
    has them all. Other ports belong to other servers.
    """
    return _pace_key(url_parts(url).netloc)


@lru_cache(4096)
def _pace_key(netloc: str) -> str:
    _, host, port = origin(f"http://{netloc}/")
    name = host.removeprefix("www.")
    return (name if port in {80, 443} else f"{name}:{port}")[:MAX_NAME]


@define(eq=False)
class Host(Limited):
    """The pace of a host for all processes together, and its waiting requests and locks.

    ``window`` is the number of requests that may be in flight, from 1 to ``ceiling``. The
    window halves at most once per round trip, since failures of requests already in flight
    have the same cause. With ``is_new`` a host first takes the steps of :data:`RAMP`, see
    :attr:`limit`. A 429 also sets ``gap_s``, the shortest time between two starts. The rate
    is the number of accepted requests in a time as long as the requested pause. The gap doubles
    with further 429s, up to one request per pause, since some sites answer 429 to a part of the
    requests at any rate. It grows beyond that only while all responses are busy. A page that is
    busy again makes the host no slower: it says nothing of other pages, and a busy host refuses
    them too. If other pages had good responses since, it does not make the host wait either.
    """

    ceiling: int
    is_new: bool = False
    gap_s: float = 0.0
    opens_at: float = 0.0  # end of the pause
    next_at: float = 0.0  # next start, with a gap
    backoffs: Counter[str] = field(factory=Counter)  # by reason

    # State of :class:`~scraper_service.crawling.politeness.host_pace.HostPace`.
    timer: Timer | None = None
    is_reserving: bool = False
    has_start: bool = False  # ``next_at`` is reserved for this process

    # State of :class:`~scraper_service.crawling.politeness.host_limits.HostLocks`.
    crawl_delay_s: float = 0.0
    lock_users: int = 0  # waiting and running
    free_at: float = 0.0  # start of the next lock, without a database
    lock: asyncio.Lock = field(factory=asyncio.Lock)

    _trouble_at: float = float("-inf")
    _troubles: int = 0  # backoffs without a good response in between
    _busy_in_a_row: int = 0
    _busy_pages: dict[str, float] = field(factory=dict)  # with the end of their time
    _alone: str = ""  # the page that was busy again, while others were not
    _lost_pages: int = 0  # in a row, without a good response in between
    _lost_at: float = float("-inf")
    _streak: int = 0
    _good: deque[list[int]] = field(factory=lambda: deque(maxlen=int(MAX_PAUSE_S)))
    _episode: _Episode | None = None
    _latencies: list[float] = field(factory=list)
    _usual_s: float | None = None
    _quiet_s: float = QUIET_S
    _step: int = 0
    _step_at: float = float("inf")  # start of this step
    _answers: int = 0  # good responses of this step

    def __attrs_post_init__(self) -> None:
        self.window = self.ceiling

    @property
    def limit(self) -> int:
        """Maximum of requests in flight: the window, or less for a new host."""
        return min(self.window, RAMP[self._step]) if self.is_new else self.window

    def ramps_in(self, now: float) -> float:
        """Return the seconds until the next step without a response, 0 if it is due.

        Infinite for a host that is not new.
        """
        return max(0.0, self._step_at + RAMP_S - now) if self.is_new else math.inf

    def ramp_up(self, now: float) -> None:
        """Take the next step of a new host. After the last step the host is not new."""
        self._step, self._step_at, self._answers = self._step + 1, now, 0
        if self._step >= len(RAMP) or RAMP[self._step] >= self.window:
            self.is_new = False

    def opens_in(self, now: float) -> float:
        """Return the seconds until the next start, by pause and gap."""
        return max(self.opens_at, self.next_at) - now

    def start(self, now: float) -> None:
        """Count the start of a request."""
        self.used_at = now
        self._step_at = min(self._step_at, now)
        self.in_flight += 1
        if self.gap_s:
            self.next_at = max(self.next_at, now) + self.gap_s

    def good(self, started_at: float, now: float, latency_s: float) -> bool:
        """Note a good response. Return True if it was slow enough for a backoff."""
        self._busy_in_a_row = self._lost_pages = 0
        self._alone = ""
        if self._good and self._good[-1][0] == int(now):
            self._good[-1][1] += 1
        else:
            self._good.append([int(now), 1])
        if started_at <= self._trouble_at:
            if self._episode is not None:
                self._episode.accepted += 1
                self.gap_s = self._episode.gap_s
            return False
        self._troubles = 0
        self._answers += 1
        if self.is_new and self._answers >= RAMP[self._step]:
            self.ramp_up(now)
        self._streak += 1
        if self._streak >= STREAK:
            self._recover(now)
        return self._note_latency(latency_s) and self._halve("latency", started_at, now)

    def _recover(self, now: float) -> None:
        self._streak = 0
        self.window = min(self.window + 1, self.ceiling)
        if self.gap_s and now - self._trouble_at > self._quiet_s:
            self.gap_s = self.gap_s * 0.8 if self.gap_s > 0.01 else 0.0

    def _note_latency(self, latency_s: float) -> bool:
        self._latencies.append(latency_s)
        if len(self._latencies) < SAMPLE:
            return False
        now_s = median(self._latencies)
        self._latencies.clear()
        usual_s = now_s if self._usual_s is None else self._usual_s
        # A site that stays slow becomes the usual latency.
        self._usual_s = now_s if now_s < usual_s else usual_s + (now_s - usual_s) / 8
        return now_s > max(2 * usual_s, SLOW_S)

    def note_timeout(self, started_at: float, now: float) -> bool:
        """Note a time-out. Return True if the window shrank."""
        if now - started_at < PATIENT_S:
            return False
        return self._halve("timeout", started_at, now)

    def busy(
        self,
        status: int,
        pause_s: float | None,
        started_at: float,
        now: float,
        page: str,
    ) -> bool:
        """Note a 429 or 503 of a page, with its pause. Return True if the pace became slower."""
        is_again = self._is_busy_again(page, now, pause_s or 0.0)
        is_alone = is_again and (not self._busy_in_a_row or page == self._alone)
        self._alone = page if is_alone else ""
        self._busy_in_a_row += 1
        if is_alone:
            return False
        is_of_host = not (is_again or self.refuses_all(now))
        is_new = is_of_host and self._halve(str(status), started_at, now)
        self._troubles += is_new
        is_asked = pause_s is not None
        if pause_s is None and (status == 429 or self._busy_in_a_row >= BUSY_IN_A_ROW):
            pause_s = backoff_s(self._troubles) if is_new else 0.0
        if status == 429 and is_of_host and (is_new or self._episode is None):
            period_s = max(1.0, pause_s or 0.0)
            accepted = self._good_since(now - period_s)
            # Without good responses in between, the site asks for more than it says.
            most_s = max(UNKNOWN_GAP_S, MARGIN * period_s)
            most_s *= 2 ** max(0, self._troubles - FREE_TROUBLES)
            if not is_asked:
                most_s = min(most_s, UNASKED_GAP_S)
            self._episode = _Episode(period_s, accepted, self.gap_s, most_s)
            quiet_s = max(QUIET_S, QUIET_PERIODS * period_s)
            self._quiet_s = max(quiet_s, 2 * self._quiet_s if self.gap_s else 0)
            self._quiet_s = min(self._quiet_s, FORGET_S)
            self.gap_s = self._episode.gap_s
        opens_at = now + (pause_s or 0.0)
        is_later = opens_at > max(self.opens_at, now)
        self.opens_at = max(self.opens_at, opens_at)
        return is_new or is_later

    def note_lost_page(self, now: float) -> None:
        """Note a page that was busy at its last try."""
        self._lost_pages += 1
        self._lost_at = now

    def refuses_all(self, now: float) -> bool:
        """Return True if several pages in a row were busy at all their tries.

        Then a page has one try, and the host becomes no slower.
        """
        return self._lost_pages >= LOST_PAGES and now - self._lost_at < LOST_S

    @property
    def may_be_one_page(self) -> bool:
        """True if the last busy responses may come from one broken page, not from the host."""
        return 0 < self._busy_in_a_row < BUSY_IN_A_ROW

    def _is_busy_again(self, page: str, now: float, pause_s: float) -> bool:
        """Return True if a page was busy, until :data:`FORGET_S` after its pause.

        Else remember it.
        """
        if now < self._busy_pages.get(page, -math.inf):
            return True
        if len(self._busy_pages) >= MAX_BUSY_PAGES:
            del self._busy_pages[next(iter(self._busy_pages))]
        self._busy_pages[page] = now + pause_s + FORGET_S
        return False

    def _halve(self, reason: str, started_at: float, now: float) -> bool:
        self._streak = 0
        if started_at <= self._trouble_at:
            return False
        self._trouble_at = now
        self._episode = None
        self.window = max(1, self.limit // 2)
        self.is_new = False
        self.backoffs[reason] += 1
        return True

    def _good_since(self, since: float) -> int:
        """Return the number of good responses since ``since``, its second in part."""
        first, part = since // 1, 1 - since % 1
        counts = (
            count * (part if second == first else 1)
            for second, count in self._good
            if second >= first
        )
        return round(sum(counts))

    def adopt(self, shared: SharedHost, now: float) -> None:
        """Apply the pace that another process has learnt."""
        self.opens_at = max(self.opens_at, now + shared.pause_s)
        self.window = min(self.window, shared.window)
        if shared.gap_s > self.gap_s:
            self.gap_s = shared.gap_s
            self._trouble_at = now

    def is_plain(self, now: float) -> bool:
        """Return True if the host has its default state, so that it may be forgotten."""
        if self.in_flight or self.waiting or self.lock_users or self.granted:
            return False
        if max(self.opens_in(now), self.free_at - now) > 0:
            return False
        known = self.window < self.ceiling or self.gap_s or self.crawl_delay_s
        return not known or now - self.used_at > FORGET_S


@define
class _Episode:
    """A 429 and the requests around it."""

    #: Length of the requested pause.
    period_s: float
    #: Accepted requests in this time before the 429. Later responses still count.
    accepted: int
    #: The gap before. It doubles up to ``most_s``, and never becomes shorter.
    before_s: float
    most_s: float

    @property
    def gap_s(self) -> float:
        gap_s = UNKNOWN_GAP_S
        if self.accepted:
            gap_s = MARGIN * self.period_s / self.accepted
        gap_s = min(max(gap_s, 2 * self.before_s), self.most_s, MAX_GAP_S)
        return max(gap_s, self.before_s)


class HostLocks:
    """Grants one page of a host at a time, in the order of requests.

    The next lock begins after the pause, which starts at the end of the last page. With a
    database, all its processes share a lock: a row that one statement takes. A dead
    process loses its locks together with its leases.
    """

    def __init__(
        self,
        host: Callable[[str], Host],
        clock: Callable[[], float],
        call_later: CallLaterT,
    ):
        self._host = host
        self._clock = clock
        self._call_later = call_later
        self._database: Database | None = None
        self._owner = ""
        self._tasks = BackgroundTasks()

    def connect(self, database: Database, owner: str) -> None:
        """Share locks with other processes, see :meth:`HostPace.connect`."""
        self._database, self._owner = database, owner

    def set_crawl_delay(self, name: str, delay_s: float) -> None:
        """Set the Crawl-delay of a host, up to :data:`MAX_CRAWL_DELAY_S`."""
        self._host(name).crawl_delay_s = max(0.0, min(delay_s, MAX_CRAWL_DELAY_S))

    def crawl_delay_s(self, name: str) -> float:
        """Return the Crawl-delay of a host, 0 for none."""
        return self._host(name).crawl_delay_s

    async def take(self, name: str, delay_s: float) -> HostLock:
        """Wait for a lock: the right to fetch one page of a host.

        Call :meth:`HostLock.end` afterwards. The next lock begins ``delay_s`` later.
        """
        host = self._host(name)
        host.lock_users += 1
        try:
            await host.lock.acquire()
        except BaseException:
            host.lock_users -= 1
            raise
        try:
            while (wait_s := await self._try(host, delay_s)) > 0:
                await self._sleep(wait_s)
        except BaseException:
            self._end(host, 0.0)
            raise
        return HostLock(partial(self._end, host, delay_s))

    async def _try(self, host: Host, delay_s: float) -> float:
        """Return 0 if the lock was free, else the seconds until the next try."""
        if self._database is None:
            return host.free_at - self._clock()
        try:
            return await self._database.write(
                politeness.take_turn, host.name, self._owner, delay_s
            )
        except ServiceUnavailable:
            return RETRY_S

    async def _sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self._call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def _end(self, host: Host, delay_s: float) -> None:
        host.free_at = max(host.free_at, self._clock() + delay_s)
        if self._database is None:
            _release(host)
        else:
            self._tasks.spawn(self._give_back(self._database, host, delay_s))

    async def _give_back(self, database: Database, host: Host, delay_s: float) -> None:
        """Release a lock, however long the database is unavailable.

        Until then other processes wait, since this one lives.
        """
        give_back = partial(
            database.write, politeness.end_turn, host.name, self._owner, delay_s
        )
        try:
            await insist(give_back, lambda: True)
        finally:
            _release(host)


def _release(host: Host) -> None:
    host.lock_users -= 1
    host.lock.release()


class HostLock:
    """The right to fetch one page of a host, from :meth:`HostLocks.take`."""

    def __init__(self, end: Callable[[], None]):
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        """Release the lock. Further calls have no effect."""
        if self._end is not None:
            end, self._end = self._end, None
            end()
