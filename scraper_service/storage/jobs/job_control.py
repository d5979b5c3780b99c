"""Changes of a job by its caller: pause, other limits, the end, deletion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, frozen
from sqlalchemy import delete, exists, func, select, update

from scraper_service.errors import (
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    ServiceError,
)
from scraper_service.options.crawl import CHANGEABLE
from scraper_service.options.limits import DAY_S, HIDDEN
from scraper_service.options.parsing import short
from scraper_service.options.serialization import CRAWLED
from scraper_service.storage import job_secrets
from scraper_service.storage.accounts import audit, disk_use
from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.job_warnings import JobWarning, sentence_of
from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.frontier.outcomes import end_job
from scraper_service.storage.job_records import (
    ACTIVE,
    MAX_LIMIT,
    Effect,
    Job,
    JobChange,
    JobState,
)
from scraper_service.storage.jobs import job_store
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
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

    from scraper_service.options.crawl import ChangeRequest
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


@frozen
class ChangedJob:
    """A job after a change."""

    job: Job
    change: JobChange


@transaction(first="{team_id}", apart=True)
def change_job(
    connection: Connection,
    job_id: str,
    team_id: str,
    request: ChangeRequest,
    actor: Actor | None = None,
) -> ChangedJob | ServiceError:
    """Pause or resume a job, and change its options.

    A change to what already holds changes nothing. Resuming completes a job without open
    URLs. A finished job takes another retention only. May return :exc:`JobNotFound`, :exc:`JobFinished`, :exc:`OptionUnavailable` and
    :exc:`OutOfCredits`, without a change.
    """
    lock_team(connection, team_id)
    row = lock_own_job(connection, job_id, team_id)
    if row is None:
        return JobNotFound("Job not found")
    if row.state not in ACTIVE and not request.fits_finished:
        return JobFinished(row.kind, row.state)
    for name in request.options:
        if name not in CHANGEABLE[row.kind]:
            return OptionUnavailable(
                name, f"A {row.kind} has no such option to change."
            )
    days = request.options.get("retention_days")
    if days is not None and json.loads(row.options)["scrape"]["zero_data_retention"]:
        return OptionUnavailable("retention_days", HIDDEN.format(short(days)))
    changed = OpenJob(connection, row)
    before = _options_in_force(changed)
    values = {name: _as_json(value) for name, value in request.options.items()}
    if "limit" in values:
        values["limit"] = min(values["limit"], MAX_LIMIT)
    values = {name: value for name, value in values.items() if value != before[name]}
    pauses = request.paused not in {None, row.paused_at is not None}
    if not (values or pauses):
        return _read(connection, changed, Effect())
    if "retention_days" in values:
        changed.retention_s = values["retention_days"] * DAY_S
    if row.state not in ACTIVE:
        kept = _keep_finished(connection, changed, row)
        if isinstance(kept, ChangedJob):
            _record(connection, actor, job_id, values)
        return kept
    if "limit" in values and (refused := changed.change_limit(values["limit"])):
        return refused
    effect = _apply(changed, values) if values else Effect()
    if pauses:
        changed.paused_at = changed.at if request.paused else None
        kind = "paused" if request.paused else "resumed"
        changed.note(kind, _detail(changed, Effect()))
    _record(connection, actor, job_id, values, request.paused if pauses else None)
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            revision=row.revision + 1,
            options=changed.options,
            retention_s=changed.retention_s,
        )
    )
    changed.write(JobState(row.state))
    return _read(connection, changed, effect)


def _record(
    connection: Connection,
    actor: Actor | None,
    job_id: str,
    values: Mapping[str, Any],
    paused: bool | None = None,
) -> None:
    """Write a change into the audit log: names of options, not their values."""
    if values:
        audit.record(connection, actor, "job.changed", job_id, options=sorted(values))
    if paused is not None:
        action = "job.paused" if paused else "job.resumed"
        audit.record(connection, actor, action, job_id)


def _keep_finished(
    connection: Connection, changed: OpenJob, row: Row[Any]
) -> ChangedJob | OptionUnavailable:
    """Write the new retention of a finished job, from its last change on.

    Refuses one that is over already, since keys that may not delete jobs may change them.
    """
    found = job_store.get_job(connection, changed.job_id, changed.team_id)
    assert found is not None
    options = json.loads(row.options)
    options["retention_days"] = changed.retention_s / DAY_S
    changed.options = json.dumps(options)
    expires_at = row.expires_at - row.retention_s + changed.retention_s
    if expires_at <= changed.at:
        age_days = (changed.at - row.expires_at + row.retention_s) / DAY_S
        return OptionUnavailable(
            "retention_days",
            f"The job ended {age_days:.3g} days ago: retentionDays must be longer, got"
            f" {changed.retention_s / DAY_S:g}. DELETE /v2/jobs/{changed.job_id} deletes it.",
        )
    connection.execute(
        update(job)
        .where(job.c.id == changed.job_id)
        .values(
            options=changed.options,
            retention_s=changed.retention_s,
            expires_at=expires_at,
        )
    )
    return ChangedJob(
        evolve(found, expires_at=expires_at),
        JobChange(_options_in_force(changed), Effect()),
    )


def _options_in_force(changed: OpenJob) -> dict[str, Any]:
    """Return the options that callers may change, by attribute."""
    options = json.loads(changed.options)
    found = {name: options.get(name) for name in CHANGEABLE[changed.kind]}
    if "limit" in found:
        found["limit"] = changed.limit  # which may be lower, for lack of credits
    found["retention_days"] = changed.retention_s / DAY_S
    return found


def _detail(changed: OpenJob, effect: Effect) -> str:
    """Return the detail of an event of a change, as JSON."""
    return json.dumps(asdict(JobChange(_options_in_force(changed), effect)))


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _apply(changed: OpenJob, values: Mapping[str, Any]) -> Effect:
    """Apply changed options to a job, and let held URLs in that a higher limit admits."""
    changed.options = json.dumps({**json.loads(changed.options), **values})
    effect = Effect(changed.let_in())
    changed.note("updated", _detail(changed, effect))
    return effect


def _read(connection: Connection, changed: OpenJob, effect: Effect) -> ChangedJob:
    found = job_store.get_job(connection, changed.job_id, changed.team_id)
    assert found is not None
    return ChangedJob(found, JobChange(_options_in_force(changed), effect))


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


def long_paused(connection: Connection, most_s: float) -> list[str]:
    """Return the ids of jobs that have been paused for ``most_s`` seconds."""
    query = select(job.c.id).where(
        job.c.state.in_(ACTIVE), job.c.paused_at <= now_of(connection) - most_s
    )
    return list(connection.scalars(query))


@transaction(row="{job_id}")
def pause_full_job(
    connection: Connection, job_id: str, quota_mib: int, actor: Actor | None
) -> bool:
    """Pause a job whose team has no room. Return False if it does not run any more."""
    row = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one_or_none()
    if row is None or row.state not in ACTIVE or row.paused_at is not None:
        return False
    paused = OpenJob(connection, row)
    paused.paused_at = paused.at
    paused.warn(JobWarning.DISK_FULL, quota_mib=quota_mib)
    paused.note("paused", _detail(paused, Effect()))
    connection.execute(
        update(job).where(job.c.id == job_id).values(revision=row.revision + 1)
    )
    paused.write(JobState(row.state))
    reason = sentence_of(JobWarning.DISK_FULL, quota_mib=quota_mib)
    audit.record(
        connection, actor, "job.paused", job_id, team_id=row.team_id, reason=reason
    )
    return True


@transaction(row="{job_id}")
def end_long_pause(
    connection: Connection, job_id: str, most_s: float, reason: str
) -> bool:
    """Cancel a job that has been paused for ``most_s`` seconds. Return True if it was."""
    paused_at = lock_job(connection, job_id).paused_at
    if paused_at is None or paused_at > now_of(connection) - most_s:
        return False  # resumed meanwhile
    return outcomes.end_job(connection, job_id, JobState.CANCELLED, reason)
