"""Changes of active jobs by their callers: pause, resume, limit, pace.

A change is one transaction. It raises the ``revision`` of the job, by which the processes
that work on the job notice the change. Functions run inside a transaction and return
errors, since raising would end the transaction for other functions, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen
from sqlalchemy import select, update

from scraper_service.errors import (
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    ServiceError,
)
from scraper_service.options.crawl import CHANGEABLE
from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.jobs import job_store
from scraper_service.storage.jobs.job_records import (
    ACTIVE,
    CRAWLED,
    Effect,
    Job,
    JobChange,
    JobState,
)
from scraper_service.storage.schema import job
from scraper_service.storage.transactions import lock_job, now_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row


@frozen(kw_only=True)
class ChangeRequest:
    """A change that a caller asks for."""

    #: True pauses the job, False resumes it, None does neither.
    paused: bool | None = None
    #: Some of :data:`~scraper_service.options.crawl.CHANGEABLE` with their new values.
    options: Mapping[str, Any] = field(factory=dict)


@frozen
class ChangedJob:
    """A job after a change."""

    job: Job
    change: JobChange


def change_job(
    connection: Connection, job_id: str, team_id: str, request: ChangeRequest
) -> ChangedJob | ServiceError:
    """Pause or resume a job, and change its options.

    A change to what already holds changes nothing. Resuming completes a job without open
    URLs. May return :exc:`JobNotFound`, :exc:`JobFinished`, :exc:`OptionUnavailable` and
    :exc:`OutOfCredits`, without a change. Needs a transaction of its own
    (:meth:`Database.write_aside`), since it locks the team and then the job.
    """
    lock_team(connection, team_id)
    row = lock_own_job(connection, job_id, team_id)
    if row is None:
        return JobNotFound("Job not found")
    if row.state not in ACTIVE:
        return JobFinished(row.kind, row.state)
    for name in request.options:
        if name not in CHANGEABLE[row.kind]:
            return OptionUnavailable(
                name, f"A {row.kind} has no such option to change."
            )
    before = options_in_force(row)
    values = {k: v for k, v in request.options.items() if v != before[k]}
    options, effect = {**before, **values}, Effect()
    changed = OpenJob(connection, row)
    if "limit" in values:
        admitted = changed.change_limit(values["limit"])
        if isinstance(admitted, ServiceError):
            return admitted
        effect = Effect(admitted)
    if values:
        changed.note("updated", _detail(options, effect))
    if request.paused not in {None, row.paused_at is not None}:
        changed.paused_at = changed.at if request.paused else None
        kind = "paused" if request.paused else "resumed"
        changed.note(kind, _detail(options, Effect()))
    elif not values:
        return _changed(connection, row, options, effect)
    text = json.dumps({**json.loads(row.options), **values})
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(revision=row.revision + 1, options=text)
    )
    changed.write(JobState(row.state))
    return _changed(connection, row, options, effect)


def _detail(options: Mapping[str, Any], effect: Effect) -> str:
    return json.dumps(asdict(JobChange(options, effect)))


def _changed(
    connection: Connection, row: Row[Any], options: Mapping[str, Any], effect: Effect
) -> ChangedJob:
    found = job_store.get_job(connection, row.id, row.team_id)
    assert found is not None
    return ChangedJob(found, JobChange(options, effect))


def lock_own_job(connection: Connection, job_id: str, team_id: str) -> Row[Any] | None:
    """Return the locked row of a team's crawl or batch, None without one."""
    row = connection.execute(
        select(job)
        .where(
            job.c.id == job_id,
            job.c.team_id == team_id,
            job.c.kind.in_(CRAWLED),
            job.c.parent_id.is_(None),
        )
        .with_for_update()
    ).one_or_none()
    if row is None or (
        row.state not in ACTIVE and row.expires_at <= now_of(connection)
    ):
        return None
    return row


def options_in_force(row: Row[Any]) -> dict[str, Any]:
    """Return the options of a job row that callers may change, by attribute."""
    options = json.loads(row.options)
    found = {name: options.get(name) for name in CHANGEABLE[row.kind]}
    if "limit" in found:
        found["limit"] = row.page_limit  # which may be lower, for lack of credits
    return found


def long_paused(connection: Connection, most_s: float) -> list[str]:
    """Return the ids of jobs that have been paused for ``most_s`` seconds."""
    query = select(job.c.id).where(
        job.c.state.in_(ACTIVE), job.c.paused_at <= now_of(connection) - most_s
    )
    return list(connection.scalars(query))


def end_long_pause(
    connection: Connection, job_id: str, most_s: float, reason: str
) -> bool:
    """Cancel a job that has been paused for ``most_s`` seconds. Return True if it was."""
    paused_at = lock_job(connection, job_id).paused_at
    if paused_at is None or paused_at > now_of(connection) - most_s:
        return False  # resumed meanwhile
    return job_store.end_job(connection, job_id, JobState.CANCELLED, reason)
