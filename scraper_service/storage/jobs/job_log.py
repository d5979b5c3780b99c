"""What happened to a job: its events, and the processes that worked on it.

For operators (``jobs log``) and not for callers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import func, select

from scraper_service.storage.frontier import refused_links
from scraper_service.storage.schema import event, frontier, run
from scraper_service.storage.transactions import number_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

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


def read_log(connection: Connection, job_id: str) -> JobLogbook:
    """Return what happened to a job, without its pages."""
    events = connection.execute(
        select(event.c.at, event.c.kind, event.c.detail)
        .where(event.c.job_number == number_of(job_id), event.c.kind != PAGE)
        .order_by(event.c.id)
    )
    runs = connection.execute(
        select(run).where(run.c.job_id == job_id).order_by(run.c.created_at)
    )
    found = [
        *(LogEntry(x.at, x.kind, json.loads(x.detail or "{}")) for x in events),
        *(entry for row in runs for entry in _entries(row)),
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


def _entries(row: Row[Any]) -> Iterator[LogEntry]:
    process = {"process": row.owner}
    yield LogEntry(row.created_at, BEGAN, process)
    if row.urls is not None and row.ended_at is not None:
        yield LogEntry(row.ended_at, TAKEN_OVER, {**process, "urls": row.urls})
    elif row.ended_at is not None:
        yield LogEntry(row.ended_at, LEFT, {**process, "reason": row.reason})
