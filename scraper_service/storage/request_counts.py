"""Counts of a job's requests by host, and of URLs that robots.txt files refuse.

Functions run inside a transaction. Functions that write lock the job first.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import define, field, frozen
from sqlalchemy import select

from scraper_service.storage.schema import job, job_host, job_robots, job_stat
from scraper_service.storage.transactions import transaction, upsert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

KEPT_SECONDS = 10  # of a host, until the counts of all processes have arrived


class Delay(NamedTuple):
    """A delay of requests."""

    #: Number of delayed requests.
    times: int
    longest_s: float


class Share(NamedTuple):
    """The requests of one process in one second."""

    #: Requests that began.
    begun: int
    #: The largest number of requests in flight.
    in_flight: int


@define
class HostCounts:
    """The requests of a job to one host. Counts of several processes add up."""

    requests: int = 0
    bytes: int = 0
    #: Sum of the waits of requests for the host.
    wait_s: float = 0.0
    #: The most requests that began in one second.
    peak_rate: int = 0
    #: Over several processes, exact to a second.
    peak_in_flight: int = 0
    #: Counts by status, ``timeout`` and ``failed``.
    answers: Counter[str] = field(factory=Counter)
    #: Reductions of the pace by status, ``timeout`` and ``latency``.
    backoffs: Counter[str] = field(factory=Counter)
    #: By source of the delay.
    delays: dict[str, Delay] = field(factory=dict)
    #: Shares by second since 1970 and process.
    seconds: dict[int, dict[str, Share]] = field(factory=dict)

    def add(self, other: HostCounts) -> None:
        """Add the counts of ``other``."""
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
                self.add_share(second, process, share)
        for second in sorted(self.seconds)[:-KEPT_SECONDS]:
            del self.seconds[second]

    def add_delay(self, source: str, times: int, longest_s: float) -> None:
        known = self.delays.get(source, Delay(0, 0.0))
        longest_s = max(known.longest_s, longest_s)
        self.delays[source] = Delay(known.times + times, longest_s)

    def add_share(self, second: int, process: str, share: Share) -> None:
        shares = self.seconds.setdefault(second, {})
        known = shares.get(process, Share(0, 0))
        in_flight = max(known.in_flight, share.in_flight)
        shares[process] = Share(known.begun + share.begun, in_flight)
        begun, in_flight = map(sum, zip(*shares.values(), strict=True))
        self.peak_rate = max(self.peak_rate, begun)
        self.peak_in_flight = max(self.peak_in_flight, in_flight)

    def facts(self) -> str:
        """Return the counts without a column of their own, as JSON."""
        facts = {name: getattr(self, name) for name in FACTS}
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def from_row(cls, row: Row[Any]) -> HostCounts:
        """Return the counts of a row of hosts."""
        found = json.loads(row.facts)
        return cls(
            **{name: row._mapping[name] for name in NUMBERS},
            answers=Counter(found["answers"]),
            backoffs=Counter(found["backoffs"]),
            delays={name: Delay(*value) for name, value in found["delays"].items()},
            seconds={
                int(second): {name: Share(*share) for name, share in shares.items()}
                for second, shares in found["seconds"].items()
            },
        )


#: Attributes of :class:`HostCounts` with a column, and those without.
NUMBERS = ("requests", "bytes", "wait_s", "peak_rate", "peak_in_flight")
FACTS = ("answers", "backoffs", "delays", "seconds")


@frozen
class RobotsSeen:
    """The robots.txt of a site, as a job has read it."""

    state: str
    detail: str
    #: The group that applies, in lower case, ``*`` for all, None without a group.
    agent: str | None
    #: As written in the robots.txt.
    crawl_delay_s: float | None


@frozen
class Tallied:
    """New counts for the database."""

    #: By pace key of the host.
    hosts: dict[str, HostCounts]
    #: By URL of the robots.txt.
    robots: dict[str, RobotsSeen]
    #: By name of a Scrapy stat, how much it has grown.
    stats: dict[str, float]

    def __bool__(self) -> bool:
        return bool(self.hosts or self.robots or self.stats)


MAX_HOSTS = 1000  # in one report
READ_ROWS = 500  # in one statement
MAX_URL = 300  # characters; the URL of a robots.txt is shorter
MAX_TEXT = 500


@frozen
class RobotsRow:
    """A robots.txt, with the number of the job's URLs that it refuses."""

    url: str
    #: None if the job fetched no page of the site, and knows its rules from another job.
    seen: RobotsSeen | None
    refused: int


@transaction(row="{job_id}")
def record(connection: Connection, job_id: str, tallied: Tallied) -> None:
    """Add the counts of a process. Ignores a job that is gone."""
    lock = select(job.c.id).where(job.c.id == job_id).with_for_update()
    if connection.scalar(lock) is None:
        return
    names = list(tallied.hosts)
    for first in range(0, len(names), READ_ROWS):
        part = names[first : first + READ_ROWS]
        stored = read_hosts(connection, job_id, part)
        rows = []
        for name in part:
            counts = stored.get(name, HostCounts())
            counts.add(tallied.hosts[name])
            numbers = {column: getattr(counts, column) for column in NUMBERS}
            facts = {**numbers, "facts": counts.facts()}
            rows.append({"job_id": job_id, "host": name, **facts})
        upsert(connection, job_host, rows)
    robots = [
        {
            "job_id": job_id,
            "url": url[:MAX_URL],
            "state": seen.state,
            "detail": seen.detail[:MAX_TEXT],
            "agent": seen.agent and seen.agent[:MAX_TEXT],
            "crawl_delay_s": seen.crawl_delay_s,
        }
        for url, seen in tallied.robots.items()
    ]
    upsert(connection, job_robots, robots)
    stats = [
        {"job_id": job_id, "name": name, "value": value}
        for name, value in tallied.stats.items()
    ]
    upsert(connection, job_stat, stats, adds="value")


def read_hosts(
    connection: Connection, job_id: str, names: list[str] | None = None
) -> dict[str, HostCounts]:
    """Return the counts of hosts, without names of those with the most requests."""
    columns = job_host.c
    query = select(job_host).where(columns.job_id == job_id)
    if names is None:
        query = query.order_by(columns.requests.desc(), columns.host).limit(MAX_HOSTS)
    else:
        query = query.where(columns.host.in_(names))
    return {row.host: HostCounts.from_row(row) for row in connection.execute(query)}


def read_stats(connection: Connection, job_id: str) -> dict[str, float]:
    """Return the Scrapy stats of a job by name, whole numbers as integers."""
    columns = job_stat.c
    query = select(columns.name, columns.value).where(columns.job_id == job_id)
    return {
        name: int(value) if value.is_integer() else round(value, 3)
        for name, value in connection.execute(query.order_by(columns.name))
    }


def add_refused(
    connection: Connection, job_id: str, refused: Mapping[str, int]
) -> None:
    """Count refused URLs by the URL of their robots.txt.

    Runs in the transaction that stores the URLs, with the job locked.
    """
    rows = [
        {"job_id": job_id, "url": url[:MAX_URL], "refused": count}
        for url, count in refused.items()
        if count
    ]
    upsert(connection, job_robots, rows, adds="refused")


def read_robots(connection: Connection, job_id: str) -> tuple[RobotsRow, ...]:
    columns = job_robots.c
    rows = connection.execute(
        select(job_robots)
        .where(columns.job_id == job_id)
        .order_by(columns.refused.desc(), columns.url)
        .limit(MAX_HOSTS)
    )
    return tuple(
        RobotsRow(
            url=row.url,
            seen=RobotsSeen(row.state, row.detail, row.agent, row.crawl_delay_s)
            if row.state
            else None,
            refused=row.refused,
        )
        for row in rows
    )
