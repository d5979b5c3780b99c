"""Checks of monitors: their records, their start, and what is read of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from sqlalchemy import exists, func, insert, or_, select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.errors import CheckRunning, JobNotFound, OutOfCredits, ServiceError
from scraper_service.options.jobs import MONITOR_CHECK
from scraper_service.options.limits import DAY_S, SitePolicy
from scraper_service.storage import webhooks
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import ACTIVE, JobState, PageRow
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.jobs.model_jobs import step_id
from scraper_service.storage.monitors.messages import open_messages
from scraper_service.storage.monitors.monitors import (
    NOT_FOUND,
    Definition,
    lock_monitor,
    seal_definition,
    set_monitor,
)
from scraper_service.storage.monitors.snapshots import PageSnapshot
from scraper_service.storage.schema import (
    job,
    monitor,
    monitor_check,
    monitor_page,
    operation,
)
from scraper_service.storage.transactions import (
    count_fitting,
    lock_job,
    now_of,
    transaction,
)
from scraper_service.storage.webhooks import OpenDeliveries

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select

    from scraper_service.storage.monitors.monitors import Monitor


STATES = ("same", "changed", "new", "removed", "error")  # of pages
CHUNK_BYTES = 10 * 2**20  # of pages in one response
_NO_PAGES = json.dumps(dict.fromkeys(STATES, 0))


@frozen(kw_only=True)
class CheckRow:
    """A check of a monitor. Times are seconds since 1970."""

    id: str
    monitor_id: str
    #: ``queued``, ``running``, ``completed``, ``partial``, ``failed``, ``skipped_overlap`` or
    #: ``skipped_no_credits``.
    status: str
    #: ``scheduled`` or ``manual``.
    trigger: str
    #: The number of pages by state.
    counts: dict[str, int]
    #: The results of the targets, by their attributes.
    results: list[dict[str, Any]]
    #: The number of stored pages.
    pages: int
    estimate: int | None
    credits: int | None
    error: str | None
    scheduled_for: float | None
    started_at: float | None
    finished_at: float | None
    created_at: float
    updated_at: float
    #: None without a webhook.
    deliveries: OpenDeliveries | None = None
    #: The same for messages to channels.
    messages: tuple[int, int] | None = None


@frozen(kw_only=True)
class CheckPlan:
    """What a process needs to run a check."""

    monitor_id: str
    team_id: str
    key_id: str | None
    goal: str | None
    #: Whether the language model judges changes.
    judge: bool
    #: Seconds since the start of the check.
    age_s: float
    #: The sites that the team may fetch.
    site_policy: SitePolicy | None
    #: The time of the last complete check, None before.
    last_at: float | None
    #: The last check with pages, None before the first.
    last_check_id: str | None
    definition: Definition


@frozen(kw_only=True)
class CheckedPages:
    """Pages of one target, and what changes with them."""

    target_id: str
    rows: Sequence[PageRow] = ()
    #: New snapshots.
    new: Sequence[PageSnapshot] = ()
    #: Keys of found URLs whose snapshots stay, and the page that was equal; None for errors.
    kept: Sequence[tuple[str, str | None]] = ()
    #: Keys of snapshots to delete.
    dropped: Sequence[str] = ()


@frozen(kw_only=True)
class CheckEnd:
    """The end of a check."""

    status: str
    error: str | None
    results: Sequence[dict[str, Any]]
    #: Credits that the check itself charges: pages of scrape targets, and searches.
    price: int
    #: All credits, with those of its crawls.
    credits: int
    #: The price of the next check.
    estimate: int | None = None
    #: Whether a page is new, removed or failed, or has a change that matters.
    has_news: bool = True


@frozen
class CheckPages:
    """Some pages of a check, and whether there are more after them."""

    rows: list[PageRow] = field(factory=list)
    has_more: bool = False


@transaction(first="{team_id}", apart=True)
def start_check(
    connection: Connection,
    team_id: str,
    monitor_id: str,
    trigger: str,
    at: float | None = None,
    usual_disk_mb: int = 0,
) -> CheckRow | ServiceError | None:
    """Make a check of a monitor, with the credits for its pages. Locks the team.

    A ``scheduled`` check is made only if the monitor is due at ``at``, by default now, and
    moves its next run time; else this returns None. It may be skipped: while another check
    runs, and without credits; or fail at once: without disk space. A ``manual`` check
    returns an error then. ``usual_disk_mb`` is the quota in MiB of teams without one of
    their own, 0 for none.
    """
    is_manual = trigger == "manual"
    ledger.lock_team(connection, team_id)
    found = lock_monitor(connection, monitor_id, team_id, waits=is_manual)
    if found is None:
        return JobNotFound(NOT_FOUND) if is_manual else None
    if at is None:
        at = now_of(connection)
    scheduled_for = None
    if not is_manual:
        if found.next_at is None or found.next_at > at:
            return None
        # At least the stored time: a clock or a time zone may have changed since.
        scheduled_for = max(found.next_at, found.schedule.last_until(at))
        if scheduled_for > at:
            scheduled_for = found.next_at
        set_monitor(connection, found.id, next_at=found.schedule.next_after(at))
    status, error, reserved = "queued", None, 0
    if found.is_checked:
        if is_manual:
            return CheckRunning()
        status, error = "skipped_overlap", "The check before was still running."
    elif full := disk_use.refusal_of(connection, team_id, usual_disk_mb):
        if is_manual:
            return full
        status, error = "failed", str(full)
    elif (left := _lack(connection, found)) is not None:
        if is_manual:
            return OutOfCredits(max(found.reserve, 1), left)
        status = "skipped_no_credits"
        error = str(OutOfCredits(max(found.reserve, 1), left))
    elif found.reserve:
        reserved = found.reserve
    return _insert_check(
        connection, found, trigger, status, error, reserved, scheduled_for, at
    )


def _lack(connection: Connection, found: Monitor) -> int | None:
    """Take the credits of a check. Return None, or the balance if it is too low."""
    if found.reserve:
        return ledger.take(connection, found.team_id, found.reserve)
    left = ledger.balance(connection, found.team_id)
    return left if left is not None and left < 1 and found.estimate else None


def _insert_check(
    connection: Connection,
    found: Monitor,
    trigger: str,
    status: str,
    error: str | None,
    reserved: int,
    scheduled_for: float | None,
    at: float,
) -> CheckRow:
    check_id, is_queued = str(uuid.uuid4()), status == "queued"
    job_rows.queue_job(
        connection,
        check_id,
        options="{}",
        team_id=found.team_id,
        kind=MONITOR_CHECK,
        version=2,
        url=found.id,  # to which lists link
        target=found.name,
        key_id=found.key_id,
        reserved=reserved,
        retention_s=float(found.retention_days * DAY_S),
        # Skipped checks are in no list of jobs.
        parent_id=None if is_queued else found.id,
    )
    if is_queued:
        call = Call(check_id, found.team_id, found.key_id, "monitor", 2, found.name, at)
        ledger.note_activity(connection, call, at)
        connection.execute(insert(operation).values(job_id=check_id, memory="{}"))
        definition: dict[str, Any] = seal_definition(connection, found.definition)
        set_monitor(connection, found.id, check_id=check_id)
    else:
        definition = {}
        connection.execute(
            update(job)
            .where(job.c.id == check_id)
            .values(
                state=JobState.COMPLETED,
                completed_at=at,
                expires_at=at + found.retention_days * DAY_S,
            )
        )
    connection.execute(
        insert(monitor_check).values(
            job_id=check_id,
            monitor_id=found.id,
            status=status,
            trigger=trigger,
            counts=_NO_PAGES,
            results="[]",
            estimate=found.estimate,
            credits=None if is_queued else 0,
            error=error,
            scheduled_for=scheduled_for,
            finished_at=None if is_queued else at,
            created_at=at,
            updated_at=at,
            **definition,
        )
    )
    if (hook := found.definition.hook) is not None:
        webhooks.attach(connection, check_id, hook)
        if not is_queued:
            webhooks.tell_locked(connection, check_id, "check.completed", at)
    check = read_check(connection, found.id, check_id)
    assert check is not None
    return check


@transaction(first="{team_id}", apart=True)
def put_off(
    connection: Connection, team_id: str, monitor_id: str, until: float
) -> None:
    """Let a due monitor that cannot be read wait until a time, without reading it."""
    found = (monitor.c.id == monitor_id, monitor.c.team_id == team_id)
    connection.execute(
        update(monitor).where(*found, monitor.c.next_at < until).values(next_at=until)
    )


def due_monitors(
    connection: Connection, at: float | None, limit: int
) -> tuple[float, list[tuple[str, str]]]:
    """Return the time, and the monitors that are due then, as (id, team id).

    Those that wait longest come first. ``at`` is by default the time of the database.
    """
    if at is None:
        at = now_of(connection)
    rows = connection.execute(
        select(monitor.c.id, monitor.c.team_id)
        .where(monitor.c.next_at <= at)
        .order_by(monitor.c.next_at)
        .limit(limit)
    )
    return at, [(row.id, row.team_id) for row in rows]


# -- read ----------------------------------------------------------------------------------


def _check(connection: Connection, row: Row[Any]) -> CheckRow:
    values = {
        name: row._mapping[name]
        for name in (
            *("monitor_id", "status", "trigger", "pages", "estimate", "credits"),
            *("error", "scheduled_for", "started_at", "finished_at"),
            *("created_at", "updated_at"),
        )
    }
    return CheckRow(
        id=row.job_id,
        counts=json.loads(row.counts),
        results=json.loads(row.results),
        deliveries=webhooks.open_deliveries(connection, row.job_id),
        messages=open_messages(connection, row.job_id),
        **values,
    )


def _checks_of(monitor_id: str) -> Select[Any]:
    return (
        select(monitor_check)
        .join(job, job.c.id == monitor_check.c.job_id)
        .where(monitor_check.c.monitor_id == monitor_id, job.c.expires_at > 0)
    )


def read_check(
    connection: Connection, monitor_id: str, check_id: str
) -> CheckRow | None:
    """Return a check of a monitor."""
    row = connection.execute(
        _checks_of(monitor_id).where(monitor_check.c.job_id == check_id)
    ).one_or_none()
    return None if row is None else _check(connection, row)


def list_checks(
    connection: Connection,
    monitor_id: str,
    status: str | None,
    offset: int,
    limit: int,
) -> tuple[list[CheckRow], int]:
    """Return checks of a monitor, the newest first, and the number of all of them."""
    query = _checks_of(monitor_id)
    if status is not None:
        query = query.where(monitor_check.c.status == status)
    total = connection.scalar(select(func.count()).select_from(query.subquery())) or 0
    rows = connection.execute(
        query.order_by(monitor_check.c.created_at.desc(), monitor_check.c.job_id.desc())
        .offset(offset)
        .limit(limit)
    ).all()
    return [_check(connection, row) for row in rows], total


def read_check_pages(
    connection: Connection, check_id: str, status: str | None, skip: int, limit: int
) -> CheckPages:
    """Return up to ``limit`` pages of a check in the order of completion.

    They have at most :data:`CHUNK_BYTES`, but at least one page if there is one.
    """
    of_check = monitor_page.c.job_id == check_id
    query = select(monitor_page.c.seq, monitor_page.c.size).where(of_check)
    if status is not None:
        query = query.where(monitor_page.c.status == status)
    rows = connection.execute(
        query.order_by(monitor_page.c.seq).offset(skip).limit(limit + 1)
    ).all()
    fitting = count_fitting([row.size for row in rows[:limit]], CHUNK_BYTES)
    numbers = [row.seq for row in rows[:fitting]]
    bodies = connection.scalars(
        select(monitor_page.c.body)
        .where(of_check, monitor_page.c.seq.in_(numbers))
        .order_by(monitor_page.c.seq)
    )
    found = [PageRow.read(decompress(body)) for body in bodies]
    return CheckPages(found, len(rows) > len(numbers))


def check_ids(connection: Connection, monitor_id: str) -> list[str]:
    """Return the ids of all checks of a monitor."""
    columns = select(monitor_check.c.job_id)
    return list(
        connection.scalars(columns.where(monitor_check.c.monitor_id == monitor_id))
    )


@transaction(row="{job_id}")
def hide_check(connection: Connection, job_id: str) -> None:
    """End a check of a deleted monitor, or a job that it has started, and let it expire.

    A check with waiting deliveries lives for another day.
    """
    lock_job(connection, job_id)
    outcomes.end_job(connection, job_id, JobState.CANCELLED)
    waiting = webhooks.open_deliveries(connection, job_id)
    keep_s = DAY_S if waiting and waiting.waiting else 0
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(expires_at=now_of(connection) + keep_s)
    )
    connection.execute(
        update(monitor_check)
        .where(monitor_check.c.job_id == job_id)
        .values(definition=None, sealed=None)
    )


def orphaned_checks(connection: Connection, limit: int) -> list[str]:
    """Return checks of deleted monitors that are not hidden.

    The process that deleted their monitor has ended before it hid them.
    """
    is_there = exists().where(monitor.c.id == monitor_check.c.monitor_id)
    lives = job.c.expires_at > now_of(connection) + DAY_S
    return list(
        connection.scalars(
            select(monitor_check.c.job_id)
            .join(job, job.c.id == monitor_check.c.job_id)
            .where(~is_there, or_(job.c.state.in_(ACTIVE), lives))
            .limit(limit)
        )
    )


def step_ids(connection: Connection, check_id: str) -> list[str]:
    """Return the ids of the jobs that a check has started, crawls too."""
    row = connection.execute(
        select(operation.c.memory).where(operation.c.job_id == check_id)
    ).one_or_none()
    names = [] if row is None else json.loads(row.memory).get("steps", [])
    return [step_id(check_id, name) for name in names]
