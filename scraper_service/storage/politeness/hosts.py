"""What is known of one host: how much it takes at once, and when it may be asked.

Nothing here waits or knows a clock: the times are those of who calls.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, deque
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from attrs import define, field, frozen

from scraper_service.options.origins import host_of, plain_address

MAX_PAUSE_S = 600.0  # whatever a site asks for (threats, P-3)
BACKOFF_S = 1.0  # the first pause where a site names none; it doubles
MAX_BACKOFF_S = 60.0
BUSY = frozenset({429, 503})
BUSY_IN_A_ROW = 3  # a 503 without Retry-After may be one broken page
# How many requests an unknown host may have in flight: the next step comes with as many
# good responses as the step has requests, or after a time without one.
RAMP = (1, 2, 3, 4)
RAMP_S = 1.0
STREAK = 10  # good answers before more is tried
MARGIN = 1.25  # between two requests, over what the site was seen to take
UNKNOWN_GAP_S = 1.0  # after a 429 to the first request of all
MAX_GAP_S = 60.0
# For so long the rate that drew a 429 is not tried again; it doubles with each.
QUIET_S = 60.0
QUIET_PERIODS = 10  # or as many of the pauses that were asked for
FORGET_S = 600.0  # but no longer, nor is an idle host remembered longer
SAMPLE = 16  # answers whose median is the latency of a moment
SLOW_S = 1.0  # below it, latency says more about us than about the site
PATIENT_S = 5.0  # a request that waited less has not shown a site to be slow
MAX_NAME = 260  # characters; a host name has 253


def pace_key(url: str) -> str:
    """Return the host under which the pace of an address is kept.

    Scheme and ``www.`` make no difference, nor do the ports of http and https: one
    server answers them all. Another port is another server.
    """
    return _pace_key(urlsplit(url).netloc)


@lru_cache(4096)
def _pace_key(netloc: str) -> str:
    plain = plain_address(f"http://{netloc}/")
    name = host_of(plain).removeprefix("www.")
    try:
        port = urlsplit(plain).port
    except ValueError:
        port = None
    return (name if port in {None, 80, 443} else f"{name}:{port}")[:MAX_NAME]


def retry_after_s(value: str, sent: str, now: float) -> float | None:
    """Return the pause that a ``Retry-After`` asks for; None if it names none.

    Seconds or an HTTP date (RFC 9110, 10.2.3), which counts from ``sent``, the
    answer's own ``Date``, else from ``now`` (s since 1970). What is negative, past
    or nonsense names none.
    """
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", value.strip(), re.ASCII):
        pause_s = float(value)
    elif (until := _seconds_of(value)) is not None:
        pause_s = until - (_seconds_of(sent) or now)
    else:
        return None
    return min(pause_s, MAX_PAUSE_S) if pause_s > 0 else None


def _seconds_of(date: str) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def backoff_s(times: int) -> float:
    """Return the pause before attempt ``times`` (from 1) where a site names none."""
    pause_s: float = min(BACKOFF_S * 2 ** min(times - 1, 30), MAX_BACKOFF_S)
    return pause_s * random.uniform(0.75, 1.25)  # noqa: S311  # no secret


@frozen(kw_only=True)
class HostReport:
    """What was asked of a host by this process.

    ``peak_rate`` is the most requests that began in one second; ``wait_s`` adds up
    over all requests. ``backoffs`` counts by reason: a status, ``timeout``,
    ``latency``.
    """

    requests: int
    peak_rate: int
    peak_in_flight: int
    bytes: int
    wait_s: float
    window: int
    gap_s: float
    backoffs: Mapping[str, int]


class SharedHost(NamedTuple):
    """What processes tell each other of a host in trouble."""

    name: str
    pause_s: float
    window: int
    gap_s: float


@define(eq=False)
class Host:
    """How much a host takes; all processes together, but for the counters.

    ``window`` is how many requests may be in flight, from 1 to ``ceiling``. It halves
    at most once per round trip: what was under way when trouble came says nothing new.
    With ``is_new`` a host first takes the steps of :data:`RAMP`, see :attr:`limit`.
    A 429 also sets ``gap_s``, the least time from start to start: what the site took in
    the time that it asks us to wait is taken for its rate.
    """

    ceiling: int
    is_new: bool = False
    window: int = field(init=False)
    gap_s: float = 0.0
    opens_at: float = 0.0  # the end of a pause
    next_at: float = 0.0  # the next start, by the gap
    used_at: float = 0.0
    in_flight: int = 0
    requests: int = 0
    peak_in_flight: int = 0
    peak_rate: int = 0
    bytes: int = 0
    wait_s: float = 0.0
    backoffs: Counter[str] = field(factory=Counter)
    _second: int = -1
    _rate: int = 0
    _trouble_at: float = float("-inf")
    _troubles: int = 0  # without a good answer in between
    _busy_in_a_row: int = 0
    _streak: int = 0
    _good: deque[list[int]] = field(factory=lambda: deque(maxlen=int(MAX_PAUSE_S)))
    _episode: _Episode | None = None
    _latencies: list[float] = field(factory=list)
    _usual_s: float | None = None
    _quiet_s: float = QUIET_S
    _step: int = 0
    _step_at: float = float("inf")  # its begin
    _answers: int = 0  # good ones, in this step

    def __attrs_post_init__(self) -> None:
        self.window = self.ceiling

    @property
    def limit(self) -> int:
        """The requests that may be in flight now: the window, fewer for a new host."""
        return min(self.window, RAMP[self._step]) if self.is_new else self.window

    def ramps_in(self, now: float) -> float:
        """Return the seconds until the next step without a response, 0 if it is due.

        Infinite for a host that is not new.
        """
        return max(0.0, self._step_at + RAMP_S - now) if self.is_new else math.inf

    def ramp_up(self, now: float) -> None:
        """Take the next step of a new host; behind the last one it is not new."""
        self._step, self._step_at, self._answers = self._step + 1, now, 0
        if self._step >= len(RAMP) or RAMP[self._step] >= self.window:
            self.is_new = False

    def opens_in(self, now: float) -> float:
        """Return the seconds until the next request may start, by the clock alone."""
        return max(self.opens_at, self.next_at) - now

    def start(self, now: float) -> None:
        """Count a request that starts."""
        self.used_at = now
        self._step_at = min(self._step_at, now)
        self.in_flight += 1
        self.requests += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        if int(now) != self._second:
            self._second, self._rate = int(now), 0
        self._rate += 1
        self.peak_rate = max(self.peak_rate, self._rate)
        if self.gap_s:
            self.next_at = max(self.next_at, now) + self.gap_s

    def good(self, started_at: float, now: float, latency_s: float) -> bool:
        """Note an answer without trouble; tell whether it came too slowly."""
        self._busy_in_a_row = 0
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
        return self._is_slow(latency_s) and self._halve("latency", started_at, now)

    def _recover(self, now: float) -> None:
        self._streak = 0
        self.window = min(self.window + 1, self.ceiling)
        if self.gap_s and now - self._trouble_at > self._quiet_s:
            self.gap_s = self.gap_s * 0.8 if self.gap_s > 0.01 else 0.0

    def _is_slow(self, latency_s: float) -> bool:
        self._latencies.append(latency_s)
        if len(self._latencies) < SAMPLE:
            return False
        now_s = median(self._latencies)
        self._latencies.clear()
        usual_s = now_s if self._usual_s is None else self._usual_s
        # A site that stays slow is slow; it is not ours to wait for better days.
        self._usual_s = now_s if now_s < usual_s else usual_s + (now_s - usual_s) / 8
        return now_s > max(2 * usual_s, SLOW_S)

    def timed_out(self, started_at: float, now: float) -> bool:
        """Note that no answer came in time; tell whether the window shrank."""
        if now - started_at < PATIENT_S:
            return False
        return self._halve("timeout", started_at, now)

    def busy(
        self, status: int, pause_s: float | None, started_at: float, now: float
    ) -> bool:
        """Note a 429 or 503, with the pause it asks for; tell whether it is news."""
        self._busy_in_a_row += 1
        is_new = self._halve(str(status), started_at, now)
        self._troubles += is_new
        if pause_s is None and (status == 429 or self._busy_in_a_row >= BUSY_IN_A_ROW):
            pause_s = backoff_s(self._troubles) if is_new else 0.0
        if status == 429 and (is_new or self._episode is None):
            period_s = max(1.0, pause_s or 0.0)
            accepted = self._good_since(now - period_s)
            self._episode = _Episode(period_s, accepted, 2 * self.gap_s)
            quiet_s = max(QUIET_S, QUIET_PERIODS * period_s)
            self._quiet_s = max(quiet_s, 2 * self._quiet_s if self.gap_s else 0)
            self._quiet_s = min(self._quiet_s, FORGET_S)
            self.gap_s = self._episode.gap_s
        opens_at = now + (pause_s or 0.0)
        is_later = opens_at > max(self.opens_at, now)
        self.opens_at = max(self.opens_at, opens_at)
        return is_new or is_later

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
        """Return how many good answers came; the second it began in counts in part."""
        first, part = since // 1, 1 - since % 1
        counts = (
            count * (part if second == first else 1)
            for second, count in self._good
            if second >= first
        )
        return round(sum(counts))

    def adopt(self, shared: SharedHost, now: float) -> None:
        """Take over what another process has learned."""
        self.opens_at = max(self.opens_at, now + shared.pause_s)
        self.window = min(self.window, shared.window)
        if shared.gap_s > self.gap_s:
            self.gap_s = shared.gap_s
            self._trouble_at = now

    def is_plain(self, now: float) -> bool:
        """Tell whether nothing would be lost with it."""
        if self.in_flight or self.opens_in(now) > 0:
            return False
        known = self.window < self.ceiling or self.gap_s
        return not known or now - self.used_at > FORGET_S

    def report(self) -> HostReport:
        return HostReport(
            requests=self.requests,
            peak_rate=self.peak_rate,
            peak_in_flight=self.peak_in_flight,
            bytes=self.bytes,
            wait_s=self.wait_s,
            window=self.window,
            gap_s=self.gap_s,
            backoffs=dict(self.backoffs),
        )


@define
class _Episode:
    """A 429 and what was under way with it.

    ``accepted`` requests were answered in ``period_s`` before it; those that are
    answered late still count.
    """

    period_s: float
    accepted: int
    least_s: float

    @property
    def gap_s(self) -> float:
        gap_s = UNKNOWN_GAP_S
        if self.accepted:
            gap_s = MARGIN * self.period_s / self.accepted
        return min(MAX_GAP_S, max(gap_s, self.least_s))
