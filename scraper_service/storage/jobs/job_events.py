"""The events of a job for readers, in order.

Events are written under the lock of the job row, so their numbers rise in the order of
commits. A reader that has seen an event never misses an earlier event. Functions run
inside a transaction that only reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import func, select

from scraper_service.content.stored_pages import decompress
from scraper_service.options.serialization import webhook_from_json
from scraper_service.storage.job_records import Event, Job, event_error, failure_of
from scraper_service.storage.jobs.job_store import get_job
from scraper_service.storage.schema import event, frontier, page, webhook
from scraper_service.storage.transactions import number_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

READ_ROWS = 100  # events in one read


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
    calls return the rest.
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
    size = 0
    for count, row in enumerate(rows):
        size += row.size or 0
        if count and size > max_bytes:
            rows = rows[:count]
            break
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
    return webhook_from_json(json.loads(config)).metadata if config else {}
