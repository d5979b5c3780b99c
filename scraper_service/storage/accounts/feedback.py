"""Ratings of calls by the teams that made them, one per call.

Functions run inside a transaction.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import and_, or_, select

from scraper_service.errors import CallFailed, JobNotFound
from scraper_service.storage.jobs.job_records import ACTIVE
from scraper_service.storage.schema import activity, feedback, job, page
from scraper_service.storage.transactions import (
    delete_some,
    dialect_insert,
    now_of,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.accounts.usage import CallPosition

KEPT_S = 366 * 86_400  # as long as the history of credits
EXPIRE_ROWS = 1000  # deleted in one transaction


@frozen
class Feedback:
    """A rating of a call.

    ``endpoint`` is ``search``, ``scrape``, ``parse`` or ``map``; ``rating`` is ``good``,
    ``partial`` or ``bad``. ``facts`` are the other keys in the caller's spelling.
    """

    endpoint: str
    job_id: str
    rating: str
    facts: Mapping[str, Any]


@frozen
class FeedbackRow:
    """Stored feedback. ``at`` is in seconds since 1970."""

    id: str
    at: float
    given: Feedback


def store_feedback(
    connection: Connection, job_id: str, team_id: str, given: Feedback
) -> tuple[str, bool]:
    """Store the feedback on the call ``job_id``, unless the call has some.

    Returns the id of the call's feedback, and True if it was stored before. Raises
    :exc:`JobNotFound` if the team has no such call of this endpoint, or it has expired,
    and :exc:`CallFailed` if the call has failed.
    """
    values = {
        "id": str(uuid.uuid4()),
        "team_id": team_id,
        "job_id": job_id,
        "endpoint": given.endpoint,
        "rating": given.rating,
        "facts": json.dumps(given.facts),
        "at": now_of(connection),
    }
    known = select(feedback.c.id, feedback.c.endpoint).where(
        feedback.c.team_id == team_id, feedback.c.job_id == job_id
    )
    row = connection.execute(known).one_or_none()
    if row is None:
        _check_call(connection, job_id, team_id, given.endpoint)
        # One statement, so that one of two equal calls wins.
        added = connection.scalar(
            dialect_insert(connection, feedback)
            .values(values)
            .on_conflict_do_nothing(index_elements=("team_id", "job_id"))
            .returning(feedback.c.id)
        )
        if added is not None:
            return added, False
        row = connection.execute(known).one()  # another process was faster
    if row.endpoint != given.endpoint:
        raise JobNotFound("Job not found.")
    return row.id, True


def _check_call(
    connection: Connection, call_id: str, team_id: str, endpoint: str
) -> None:
    row = connection.execute(
        select(activity.c.error).where(
            activity.c.id == call_id,
            activity.c.team_id == team_id,
            activity.c.endpoint == endpoint,
            activity.c.expires_at > now_of(connection),
        )
    ).one_or_none()
    if row is not None and row.error is not None:
        raise CallFailed(endpoint)
    if row is None and not (
        endpoint == "scrape" and _is_page(connection, call_id, team_id)
    ):
        raise JobNotFound("Job not found.")


def _is_page(connection: Connection, scrape_id: str, team_id: str) -> bool:
    """Return True for a page of a job. Its ``scrapeId`` is one like that of a scrape."""
    found = (
        select(page.c.id)
        .join(job, job.c.number == page.c.job_number)
        .where(
            page.c.id == scrape_id,
            job.c.team_id == team_id,
            or_(job.c.state.in_(ACTIVE), job.c.expires_at > now_of(connection)),
        )
    )
    return connection.scalar(found) is not None


def list_feedback(
    connection: Connection,
    team_id: str,
    endpoint: str | None,
    after: CallPosition | None,
    limit: int,
) -> list[FeedbackRow]:
    """Return a team's feedback, latest first. One more than ``limit`` if there is more."""
    columns = feedback.c
    where = [columns.team_id == team_id]
    if endpoint is not None:
        where.append(columns.endpoint == endpoint)
    if after is not None:
        same = and_(columns.at == after.at, columns.id < after.id)
        where.append(or_(columns.at < after.at, same))
    rows = connection.execute(
        select(feedback)
        .where(*where)
        .order_by(columns.at.desc(), columns.id.desc())
        .limit(limit + 1)
    )
    return [
        FeedbackRow(
            row.id,
            row.at,
            Feedback(row.endpoint, row.job_id, row.rating, json.loads(row.facts)),
        )
        for row in rows
    ]


def expire(connection: Connection) -> int:
    """Delete a slice of feedback older than :data:`KEPT_S`. Return the number of rows."""
    is_old = feedback.c.at <= now_of(connection) - KEPT_S
    return delete_some(
        connection, feedback, is_old, limit=EXPIRE_ROWS, skips_locked=True
    )
