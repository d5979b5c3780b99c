"""What one job asked of its hosts: counted in a process, added up over all of them.

Nothing here waits or stores; :mod:`scraper_service.storage.politeness.crawl_reports` does.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Self

from attrs import define, field, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEPT_SECONDS = 10  # of a host, for the shares of other processes to be added
MAX_KNOWN_SITES = 10_000  # whose robots.txt is not noted again while nothing changes

# What a delay is owed to.
DELAY = "delay"  # the caller's option
CRAWL_DELAY = "crawlDelay"  # robots.txt
RETRY_AFTER = "retryAfter"  # a 429 or 503 that names a pause
BACKOFF = "backoff"  # one that names none
ADAPTIVE = "adaptive"  # the gap that the pace of the host has learned


class Delay(NamedTuple):
    """To how many requests a delay applied, and the longest it was, in seconds."""

    times: int
    longest_s: float


class Share(NamedTuple):
    """What one process did in one second: requests begun, most of them in flight."""

    begun: int
    in_flight: int


@define
class HostCounts:
    """What a job asked of one host; two of them add up.

    ``wait_s`` adds up over requests that waited for the host. ``answers`` counts by
    status, ``timeout`` and ``failed``; ``backoffs`` what slowed down the pace of the
    host, by status, ``timeout``, ``latency``. ``seconds`` has the shares of processes,
    by second since 1970: those of one process replace each other, so that a second may
    be told twice; the peaks are those of their sums, so ``peak_in_flight`` of several
    processes is exact to a second.
    """

    requests: int = 0
    bytes: int = 0
    wait_s: float = 0.0
    peak_rate: int = 0
    peak_in_flight: int = 0
    answers: Counter[str] = field(factory=Counter)
    backoffs: Counter[str] = field(factory=Counter)
    delays: dict[str, Delay] = field(factory=dict)
    seconds: dict[int, dict[str, Share]] = field(factory=dict)

    def add(self, other: HostCounts) -> None:
        """Take over the counts of ``other``."""
        self.requests += other.requests
        self.bytes += other.bytes
        self.wait_s += other.wait_s
        self.peak_rate = max(self.peak_rate, other.peak_rate)
        self.peak_in_flight = max(self.peak_in_flight, other.peak_in_flight)
        self.answers.update(other.answers)
        self.backoffs.update(other.backoffs)
        for source, (times, longest_s) in other.delays.items():
            self.add_delay(source, times, longest_s)
        for second, shares in other.seconds.items():
            for process, share in shares.items():
                self._add_share(second, process, share)
        for second in sorted(self.seconds)[:-KEPT_SECONDS]:
            del self.seconds[second]

    def add_delay(self, source: str, times: int, longest_s: float) -> None:
        known = self.delays.get(source, Delay(0, 0.0))
        self.delays[source] = Delay(
            known.times + times, max(known.longest_s, longest_s)
        )

    def _add_share(self, second: int, process: str, share: Share) -> None:
        shares = self.seconds.setdefault(second, {})
        known = shares.get(process, Share(0, 0))
        shares[process] = Share(*map(max, known, share))
        begun, in_flight = (
            sum(column) for column in zip(*shares.values(), strict=True)
        )
        self.peak_rate = max(self.peak_rate, begun)
        self.peak_in_flight = max(self.peak_in_flight, in_flight)

    def facts(self) -> str:
        """Return as JSON what no column of a row holds."""
        facts = {
            "answers": self.answers,
            "backoffs": self.backoffs,
            "delays": self.delays,
            "seconds": self.seconds,
        }
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def restored(cls, columns: Mapping[str, float], facts: str) -> HostCounts:
        """Return the counts of a row: its numbers, and :meth:`facts`."""
        found = json.loads(facts)
        return cls(
            **columns,  # type: ignore[arg-type]  # they are those of the table
            answers=Counter(found["answers"]),
            backoffs=Counter(found["backoffs"]),
            delays={name: Delay(*value) for name, value in found["delays"].items()},
            seconds={
                int(second): {name: Share(*share) for name, share in shares.items()}
                for second, shares in found["seconds"].items()
            },
        )


@frozen
class RobotsSeen:
    """What a job found the robots.txt of a site to say.

    ``agent`` is whose group counts, in lower case, ``*`` for all, None where there is
    none or nobody asked; ``crawl_delay_s`` is as written there.
    """

    state: str
    detail: str
    agent: str | None
    crawl_delay_s: float | None


@frozen
class Tallied:
    """Counts on their way to the database: by host, and by address of a robots.txt."""

    hosts: dict[str, HostCounts]
    robots: dict[str, RobotsSeen]

    def __bool__(self) -> bool:
        return bool(self.hosts or self.robots)


class HostTally:
    """The requests of one job to one host, in this process."""

    def __init__(self, process: str = "", clock: Callable[[], float] = time.time):
        self._process = process
        self._clock = clock
        self._counts = HostCounts()
        self._visits = 0
        self._in_flight = 0
        self._told_at = int(clock())
        self._changed = False

    def visit(self) -> Visit:
        """Return one request, a context manager; entering it begins to wait."""
        return Visit(self)

    def waited(self, seconds: float) -> None:
        """Note that a request has waited for the host."""
        self._changed = True
        self._counts.wait_s += seconds

    def delayed(self, source: str, seconds: float) -> None:
        """Note a delay that applies to one request."""
        self._changed = True
        self._counts.add_delay(source, 1, seconds)

    def enter(self) -> None:
        """Count a request that may begin; for :class:`Visit`."""
        self._visits += 1

    def begin(self) -> None:
        """Count a request that begins."""
        self._changed = True
        self._counts.requests += 1
        self._in_flight += 1
        self._note_second(int(self._clock()), 1)

    def answered(self, answer: str, size: int, backoff: str | None) -> None:
        """Count an answer of ``size`` bytes, and what the pace made of it."""
        self._changed = True
        self._counts.answers[answer] += 1
        self._counts.bytes += size
        if backoff is not None:
            self._counts.backoffs[backoff] += 1

    def leave(self, *, has_begun: bool) -> None:
        """Count a request that has ended."""
        self._visits -= 1
        self._in_flight -= has_begun

    def _note_second(self, second: int, begun: int = 0) -> None:
        shares = self._counts.seconds.setdefault(second, {})
        known = shares.get(self._process, Share(0, 0))
        shares[self._process] = Share(
            known.begun + begun, max(known.in_flight, self._in_flight)
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self._visits or self._changed or self._counts.seconds)

    def take(self) -> HostCounts | None:
        """Return what is new since the last call, None if nothing is.

        Of the second that goes on, the share stays, and is told again as a whole.
        """
        now = int(self._clock())
        if self._in_flight:
            # Other processes begin requests while these go on.
            for second in range(max(self._told_at, now - KEPT_SECONDS) + 1, now + 1):
                self._changed |= second not in self._counts.seconds
                self._note_second(second)
        self._told_at = now
        current = self._counts.seconds.get(now)
        left = HostCounts(seconds={now: dict(current)} if current else {})
        if not self._changed:
            self._counts = left
            return None
        taken, self._counts, self._changed = self._counts, left, False
        return taken

    def put_back(self, counts: HostCounts) -> None:
        """Keep what was taken and not stored."""
        self._changed = True
        self._counts.add(counts)


class Visit:
    """One request of a job, from the moment it waits for its host."""

    def __init__(self, tally: HostTally):
        self._tally = tally
        self._asked_at = 0.0
        self._has_begun = False
        self._has_answer = False

    def __enter__(self) -> Self:
        self._asked_at = time.monotonic()
        self._tally.enter()
        return self

    def begin(self, gap_s: float) -> None:
        """Note that the host is asked now, ``gap_s`` after the request before."""
        self._tally.waited(time.monotonic() - self._asked_at)
        self._has_begun = True
        self._tally.begin()
        if gap_s:
            self._tally.delayed(ADAPTIVE, gap_s)

    def answered(self, answer: str, size: int = 0, backoff: str | None = None) -> None:
        """Note the answer: a status or ``timeout``; see :class:`HostCounts`."""
        self._has_answer = True
        self._tally.answered(answer, size, backoff)

    def delayed(self, source: str, seconds: float) -> None:
        """Note the pause that the answer brought."""
        self._tally.delayed(source, seconds)

    def __exit__(self, *_: object) -> None:
        if not self._has_begun:
            self._tally.waited(time.monotonic() - self._asked_at)
        elif not self._has_answer:
            self._tally.answered("failed", 0, None)
        self._tally.leave(has_begun=self._has_begun)


class JobTally:
    """The hosts of one job and their robots.txt, as this process saw them."""

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self._process = secrets.token_hex(4)
        self._hosts: dict[str, HostTally] = {}
        self._known: dict[str, RobotsSeen] = {}
        self._robots: dict[str, RobotsSeen] = {}

    def host(self, name: str) -> HostTally:
        """Return the tally of a host, by its pace key; not to be kept."""
        tally = self._hosts.get(name)
        if tally is None:
            tally = self._hosts[name] = HostTally(self._process, self._clock)
        return tally

    def robots(self, url: str, seen: RobotsSeen) -> None:
        """Note what the robots.txt at ``url`` says."""
        if self._known.get(url) == seen:
            return
        if len(self._known) >= MAX_KNOWN_SITES:
            self._known.clear()
        self._known[url] = self._robots[url] = seen

    def take(self) -> Tallied:
        """Return what is new since the last call."""
        taken = {name: tally.take() for name, tally in self._hosts.items()}
        hosts = {name: counts for name, counts in taken.items() if counts is not None}
        for name in taken:
            if self._hosts[name].is_idle:
                del self._hosts[name]
        robots, self._robots = self._robots, {}
        return Tallied(hosts, robots)

    def put_back(self, tallied: Tallied) -> None:
        """Keep what was taken and not stored."""
        for name, counts in tallied.hosts.items():
            self.host(name).put_back(counts)
        self._robots = {**tallied.robots, **self._robots}
