"""The deletion of jobs and single calls: hidden at once, their rows deleted in slices later.

Functions run inside a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, func, or_, select, update

from scraper_service.storage import job_secrets
from scraper_service.storage.accounts import audit, disk_use
from scraper_service.storage.frontier.outcomes import end_job
from scraper_service.storage.job_records import ACTIVE, JobState, RunState
from scraper_service.storage.jobs.job_history import CALLS, INTERACT
from scraper_service.storage.schema import (
    activity,
    artefact,
    browser_session,
    delivery,
    event,
    frontier,
    idempotency,
    job,
    job_host,
    job_robots,
    job_stat,
    monitor_check,
    monitor_message,
    monitor_page,
    operation,
    page,
    page_source,
    page_text,
    refused_key,
    refused_list,
    run,
    scrape,
    snapshot,
    source,
    webhook,
)
from scraper_service.storage.transactions import (
    EXPIRE_ROWS,
    delete_some,
    inline,
    lock_job,
    now_of,
    number_of,
    transaction,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor

STOP_S = 600.0  # for the processes of an ended job, before its rows are deleted


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


def delete_call_or_session(
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


def expire(connection: Connection) -> int:
    """Delete a slice of expired rows. Return the number of rows, 0 at the end.

    Several services may call this at once. Each job is deleted by one of them.
    """
    now = now_of(connection)
    size = func.length(scrape.c.body).label("size")
    removed = disk_use.take_expired(connection, scrape, size)
    for table in (activity, snapshot, source, idempotency):
        removed += delete_some(connection, table, table.c.expires_at <= now)
    # Locked: another service would find few rows left, and take them for the last.
    # A run that has not ended is needed to stop its process. Deleted jobs come first.
    has_run = exists().where(
        run.c.job_id == job.c.id,
        run.c.node.is_not(None),
        run.c.state < inline(RunState.ENDED),
    )
    is_over = or_(~has_run, job.c.completed_at <= now - STOP_S)
    job_id = connection.scalar(
        select(job.c.id)
        .where(job.c.expires_at <= now, job.c.state.not_in(ACTIVE), is_over)
        .order_by(job.c.expires_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if job_id is None:
        return removed
    disk_use.free_job(connection, job_id)
    for table in _OF_JOBS:
        of_job = (
            table.c.job_number == number_of(job_id)
            if "job_number" in table.c
            else table.c.job_id == job_id
        )
        found = delete_some(
            connection, table, of_job, limit=EXPIRE_ROWS, skips_locked=False
        )
        removed += found
        if found == EXPIRE_ROWS:
            return removed
    job_secrets.forget_all(connection, job_id)
    connection.execute(delete(activity).where(activity.c.id == job_id))
    connection.execute(delete(job).where(job.c.id == job_id))
    return removed + 1


# Tables with many rows per job come first.
_OF_JOBS = (
    *(page, monitor_page, page_source, event, frontier, refused_key, refused_list),
    *(job_host, job_robots, job_stat, run, page_text, delivery),
    *(webhook, operation, monitor_message, monitor_check),
)
