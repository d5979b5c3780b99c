"""The rows of what jobs ask of hosts, and of what robots.txt files refuse.

Functions take a connection inside a transaction. Those that write lock the job first,
and are for :meth:`Database.write_locking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import select

from scraper_service.storage.frontier.transactions import dialect_insert
from scraper_service.storage.politeness.tally import HostCounts, RobotsSeen
from scraper_service.storage.schema import job, job_host, job_robots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.politeness.tally import Tallied

MAX_HOSTS = 1000  # in one report: those that were asked most, or refused most
READ_ROWS = 500  # in one statement
MAX_URL = 300  # characters; scheme, host, port and /robots.txt have fewer
MAX_TEXT = 500
NUMBERS = ("requests", "bytes", "wait_s", "peak_rate", "peak_in_flight")


@frozen
class RobotsRow:
    """A robots.txt and how many addresses of the job it refuses.

    ``seen`` is None where the job fetched no page of the site: links to it were refused
    by rules that another job had asked for.
    """

    url: str
    seen: RobotsSeen | None
    refused: int


def record(connection: Connection, job_id: str, tallied: Tallied) -> None:
    """Add what a process has counted; of a job that is gone, nothing is kept."""
    lock = select(job.c.id).where(job.c.id == job_id).with_for_update()
    if connection.scalar(lock) is None:
        return
    names = list(tallied.hosts)
    for first in range(0, len(names), READ_ROWS):
        _add_hosts(connection, job_id, tallied, names[first : first + READ_ROWS])
    rows = [
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
    if rows:
        _upsert_robots(connection, rows, "state", "detail", "agent", "crawl_delay_s")


def _add_hosts(
    connection: Connection, job_id: str, tallied: Tallied, names: list[str]
) -> None:
    stored = read_hosts(connection, job_id, names)
    rows = []
    for name in names:
        counts = stored.get(name, HostCounts())
        counts.add(tallied.hosts[name])
        numbers = {column: getattr(counts, column) for column in NUMBERS}
        rows.append(
            {"job_id": job_id, "host": name, **numbers, "facts": counts.facts()}
        )
    statement = dialect_insert(connection, job_host)
    changed = {name: statement.excluded[name] for name in (*NUMBERS, "facts")}
    keys = ["job_id", "host"]
    statement = statement.on_conflict_do_update(index_elements=keys, set_=changed)
    connection.execute(statement, rows)


def read_hosts(
    connection: Connection, job_id: str, names: list[str] | None = None
) -> dict[str, HostCounts]:
    """Return the counts of hosts; without names, of those asked most."""
    columns = job_host.c
    query = select(job_host).where(columns.job_id == job_id)
    if names is None:
        query = query.order_by(columns.requests.desc(), columns.host).limit(MAX_HOSTS)
    else:
        query = query.where(columns.host.in_(names))
    return {
        row.host: HostCounts.restored(
            {name: row._mapping[name] for name in NUMBERS}, row.facts
        )
        for row in connection.execute(query)
    }


def add_refused(
    connection: Connection, job_id: str, refused: Mapping[str, int]
) -> None:
    """Count addresses that a robots.txt, by its own address, refuses.

    In the transaction that stores them; the job is locked.
    """
    rows = [
        {"job_id": job_id, "url": url[:MAX_URL], "refused": count}
        for url, count in refused.items()
        if count
    ]
    if rows:
        _upsert_robots(connection, rows, "refused")


def _upsert_robots(
    connection: Connection, rows: Sequence[Mapping[str, object]], *names: str
) -> None:
    statement = dialect_insert(connection, job_robots)
    changed = {name: statement.excluded[name] for name in names}
    if "refused" in changed:
        changed["refused"] += job_robots.c.refused
    keys = ["job_id", "url"]
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=changed), rows
    )


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
