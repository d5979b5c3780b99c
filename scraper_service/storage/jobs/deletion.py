"""The deletion of a job before it expires.

A job is cancelled first, so that no process adds a row. Then it is hidden: it counts as
expired, which no reader returns, and the rows go in slices like those of expired jobs
(:func:`scraper_service.storage.jobs.job_store.expire`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, func, select, update

from scraper_service.storage import job_secrets
from scraper_service.storage.accounts import audit, disk_use
from scraper_service.storage.frontier.outcomes import end_job
from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.jobs.job_history import CALLS, INTERACT
from scraper_service.storage.schema import (
    activity,
    artefact,
    browser_session,
    job,
    scrape,
    webhook,
)
from scraper_service.storage.transactions import lock_job, now_of, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor


@transaction(row="{job_id}")
def cancel(connection: Connection, job_id: str, team_id: str) -> list[str] | None:
    """Cancel a job of a team if it is active. Return the ids of its steps.

    Returns None if the team has no such job.
    """
    lock_job(connection, job_id)
    columns = (job.c.state, job.c.expires_at)
    row = connection.execute(
        select(*columns).where(
            job.c.id == job_id, job.c.team_id == team_id, job.c.parent_id.is_(None)
        )
    ).one_or_none()
    if row is None:
        return None
    if row.state in ACTIVE:
        end_job(connection, job_id, JobState.CANCELLED)
    elif row.expires_at <= now_of(connection):
        return None
    steps = select(job.c.id).where(job.c.parent_id == job_id)
    return list(connection.scalars(steps))


@transaction(row="{job_id}")
def hide(connection: Connection, job_id: str, actor: Actor | None = None) -> None:
    """Hide a job and end its webhook. An active job, such as a step, is cancelled.

    ``actor`` is the caller, for the audit log.
    """
    lock_job(connection, job_id)
    end_job(connection, job_id, JobState.CANCELLED)
    job_secrets.forget_all(connection, job_id)
    connection.execute(delete(webhook).where(webhook.c.job_id == job_id))
    connection.execute(delete(activity).where(activity.c.id == job_id))
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(expires_at=0, hook_events=None, target=None)
    )
    disk_use.free_job(connection, job_id)
    audit.record(connection, actor, "job.deleted", job_id)


def delete_call(
    connection: Connection, call_id: str, team_id: str, actor: Actor | None = None
) -> bool:
    """Delete a single call with its page, or a browser session with its files.

    Returns False if the team has no such call, or the session has not ended.
    """
    is_open = exists().where(
        browser_session.c.id == call_id, browser_session.c.ended_at.is_(None)
    )
    deleted = connection.execute(
        delete(activity).where(
            activity.c.id == call_id,
            activity.c.team_id == team_id,
            activity.c.endpoint.in_((*CALLS, INTERACT)),
            activity.c.expires_at > now_of(connection),
            ~is_open,
        )
    )
    if not deleted.rowcount:
        return False
    freed = connection.scalars(
        delete(scrape)
        .where(scrape.c.id == call_id)
        .returning(func.length(scrape.c.body))
    ).all()
    files = connection.scalars(
        delete(artefact)
        .where(artefact.c.holder == call_id, artefact.c.job_id.is_(None))
        .returning(artefact.c.size)
    ).all()
    disk_use.add(connection, team_id, -sum(freed) - sum(files))
    audit.record(connection, actor, "call.deleted", call_id)
    return True
