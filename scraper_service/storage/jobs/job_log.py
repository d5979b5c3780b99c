"""The events of a job, and its log.

Watchers and webhooks read events in their order. The log adds the runs of the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import func, select

from scraper_service.content.stored_pages import decompress
from scraper_service.options.jobs import Webhook, structure
from scraper_service.storage.frontier import refused_links
from scraper_service.storage.job_records import Event, Job, event_error, failure_of
from scraper_service.storage.jobs.job_rows import get_job
from scraper_service.storage.schema import event, frontier, page, run, webhook
from scraper_service.storage.transactions import count_fitting, number_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

READ_ROWS = 100  # events in one read
MOST_REASONS = 50  # that :func:`read_log` returns
PAGE = "page"


@frozen
class JobEvents:
    """Events of a job in order."""

    job: Job
    events: tuple[Event, ...]
    #: ``metadata`` of the job's webhook, empty without a webhook.
    metadata: Mapping[str, Any]


def has_event(
    connection: Connection, job_id: str, team_id: str, number: int
) -> bool | None:
    """Return True if a job has the event with this number, or for 0.

    Returns None if the team has no such job.
    """
    if get_job(connection, job_id, team_id) is None:
        return None
    found = select(event.c.id).where(
        event.c.id == number, event.c.job_number == number_of(job_id)
    )
    return not number or connection.scalar(found) is not None


def newest_event(connection: Connection, job_id: str, team_id: str) -> int | None:
    """Return the number of a job's newest event, 0 without one.

    Returns None if the team has no such job.
    """
    if get_job(connection, job_id, team_id) is None:
        return None
    number = connection.scalar(
        select(func.max(event.c.id)).where(event.c.job_number == number_of(job_id))
    )
    return number or 0


def read_events(
    connection: Connection, job_id: str, team_id: str, after: int, max_bytes: int
) -> JobEvents | None:
    """Return the events of a job after number ``after``, and the job.

    Returns None if the team has no such job. Returns at most ``max_bytes`` of pages, but at least one event if there is one. Later
    calls return more.
    """
    job = get_job(connection, job_id, team_id)
    if job is None:
        return None
    rows = connection.execute(
        select(event, page.c.size)
        .outerjoin(page, page.c.id == event.c.page_id)
        .where(event.c.job_number == number_of(job_id), event.c.id > after)
        .order_by(event.c.id)
        .limit(READ_ROWS)
    ).all()
    rows = rows[: count_fitting([row.size or 0 for row in rows], max_bytes)]
    bodies = _bodies(connection, [row.page_id for row in rows if row.page_id])
    errors = _errors(connection, [row.row_id for row in rows if row.row_id])
    events = tuple(
        Event(
            job_id=job_id,
            job_kind=job.kind,
            seq=row.id,
            kind=row.kind,
            page=bodies.get(row.page_id),
            error=failure_of(row.kind, row.detail)
            or event_error(
                row.kind, row.page_id in bodies, errors.get(row.row_id), job.error
            ),
            detail=None if row.kind == "page" else row.detail,
        )
        for row in rows
    )
    return JobEvents(job, events, _metadata(connection, job_id) if events else {})


def _bodies(connection: Connection, page_ids: list[str]) -> dict[str | None, bytes]:
    if not page_ids:
        return {}
    found = select(page.c.id, page.c.body).where(page.c.id.in_(page_ids))
    return {row.id: decompress(row.body) for row in connection.execute(found)}


def _errors(connection: Connection, row_ids: list[int]) -> dict[int | None, str]:
    if not row_ids:
        return {}
    found = select(frontier.c.id, frontier.c.error).where(frontier.c.id.in_(row_ids))
    return {row.id: row.error for row in connection.execute(found)}


def _metadata(connection: Connection, job_id: str) -> Mapping[str, Any]:
    config = connection.scalar(
        select(webhook.c.config).where(webhook.c.job_id == job_id)
    )
    return structure(json.loads(config), Webhook).metadata if config else {}


BEGAN, LEFT, TAKEN_OVER = "began", "left", "taken over"


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
