"""What happened to a job: its events, and the processes that worked on it.

For operators (``jobs log``) and not for callers. Entries beside the events of a job are in a
table of their own, since clients follow the events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import delete, func, insert, literal, select

from scraper_service.storage.frontier import refused_links
from scraper_service.storage.schema import event, frontier, job, job_log
from scraper_service.storage.transactions import now_of, number_of, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

MOST_ENTRIES = 200  # of a job; the oldest ones are deleted
MOST_REASONS = 50  # that :func:`read_log` returns
BEGAN, LEFT, TAKEN_OVER = "began", "left", "taken over"
PAGE = "page"


@frozen
class LogEntry:
    """One thing that happened to a job."""

    #: Seconds since 1970.
    at: float
    #: :data:`BEGAN`, :data:`LEFT`, :data:`TAKEN_OVER`, or the kind of an event.
    kind: str
    #: The id of the process, a reason, or numbers.
    facts: Mapping[str, Any]


@frozen
class JobLogbook:
    """The entries of a job in the order of time, and its failures."""

    entries: tuple[LogEntry, ...]
    #: URLs by reason: the code, how many, and the text of one of them.
    reasons: tuple[tuple[str, int, str], ...]


@transaction(row="{job_id}")
def record(
    connection: Connection, job_id: str, kind: str, facts: Mapping[str, Any]
) -> int:
    """Add an entry. Return the number of earlier entries of this kind.

    Does nothing for a job that was deleted.
    """
    is_same = (job_log.c.job_id == job_id, job_log.c.kind == kind)
    earlier = connection.scalar(select(func.count()).where(*is_same)) or 0
    values = {
        "job_id": job.c.id,
        "kind": literal(kind),
        "at": literal(now_of(connection)),
        "detail": literal(json.dumps(facts)),
    }
    known = select(*values.values()).where(job.c.id == job_id)
    connection.execute(insert(job_log).from_select(list(values), known))
    last_kept = (
        select(job_log.c.id)
        .where(job_log.c.job_id == job_id)
        .order_by(job_log.c.id.desc())
        .offset(MOST_ENTRIES - 1)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(
        delete(job_log).where(job_log.c.job_id == job_id, job_log.c.id < last_kept)
    )
    return earlier


def read_log(connection: Connection, job_id: str) -> JobLogbook:
    """Return what happened to a job, without its pages."""
    found = [
        LogEntry(row.at, row.kind, json.loads(row.detail or "{}"))
        for table, of_job in (
            (event, event.c.job_number == number_of(job_id)),
            (job_log, job_log.c.job_id == job_id),
        )
        for row in connection.execute(
            select(table.c.at, table.c.kind, table.c.detail)
            .where(of_job, table.c.kind != PAGE)
            .order_by(table.c.id)
        )
    ]
    count = func.count().label("count")
    reasons = connection.execute(
        select(frontier.c.code, count, func.max(frontier.c.error))
        .where(frontier.c.job_number == number_of(job_id), frontier.c.code.is_not(None))
        .group_by(frontier.c.code)
        .order_by(count.desc())
        .limit(MOST_REASONS)
    )
    counted = {code: (number, text or "") for code, number, text in reasons}
    for code, number in refused_links.counts(connection, job_id).items():
        more, text = counted.get(code, (0, ""))
        text = text or refused_links.an_error(connection, job_id, code) or ""
        counted[code] = number + more, text
    most = sorted(counted.items(), key=lambda each: -each[1][0])[:MOST_REASONS]
    return JobLogbook(
        tuple(sorted(found, key=lambda entry: entry.at)),
        tuple((code, number, text) for code, (number, text) in most),
    )
