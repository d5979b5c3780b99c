"""The steps of a running check: its start, its pages, its end.

Functions run inside a transaction. Each step returns False and stores nothing if the run
of its process has ended. Pages are stored together with the position that they were read
up to, so each URL makes one row.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import evolve
from sqlalchemy import insert, select, update

from scraper_service.content.stored_pages import compress
from scraper_service.errors import plural
from scraper_service.options.jobs import unstructure
from scraper_service.options.limits import DAY_S, policy_from_json
from scraper_service.storage import webhooks
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.frontier.job_warnings import JobWarning, add_warning
from scraper_service.storage.frontier.links import seed_of
from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.jobs.model_jobs import step_id, store_end, store_memory
from scraper_service.storage.jobs.runs import holds
from scraper_service.storage.monitors import messages, snapshots
from scraper_service.storage.monitors.checks import CheckedPages, CheckEnd, CheckPlan
from scraper_service.storage.monitors.monitors import (
    RUNNING,
    UNREADABLE,
    lock_monitor,
    open_definition,
    set_monitor,
)
from scraper_service.storage.schema import (
    job,
    monitor,
    monitor_check,
    monitor_page,
    page,
    team,
)
from scraper_service.storage.transactions import now_of, number_of, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.storage.monitors.monitors import Monitor


BACKOFF_AFTER = 3  # failed checks in a row; then a monitor runs less often
MAX_BACKOFF = 10  # doublings of the interval


@transaction(row="{job_id}")
def begin(connection: Connection, job_id: str, run_id: str) -> bool:
    """Note that a check runs. A second call changes nothing."""
    if not holds(connection, job_id, run_id):
        return False
    at = now_of(connection)
    connection.execute(
        update(monitor_check)
        .where(monitor_check.c.job_id == job_id, monitor_check.c.status == "queued")
        .values(status="running", started_at=at, updated_at=at)
    )
    return True


def read_plan(connection: Connection, job_id: str) -> CheckPlan | None:
    """Return what a check needs to run, None if it has ended or its monitor is gone.

    Raises :exc:`~scraper_service.errors.SecretsUnreadable`.
    """
    row = connection.execute(
        select(
            monitor_check.c.monitor_id,
            monitor_check.c.definition,
            monitor_check.c.sealed,
            monitor_check.c.started_at,
            monitor.c.team_id,
            monitor.c.key_id,
            monitor.c.goal,
            monitor.c.judge,
            monitor.c.last_at,
            team.c.site_policy,
        )
        .join(monitor, monitor.c.id == monitor_check.c.monitor_id)
        .join(team, team.c.id == monitor.c.team_id)
        .where(monitor_check.c.job_id == job_id)
        .where(monitor_check.c.status.in_(RUNNING))
    ).one_or_none()
    if row is None or (row.definition is None and row.sealed is None):
        return None
    return CheckPlan(
        monitor_id=row.monitor_id,
        team_id=row.team_id,
        key_id=row.key_id,
        goal=row.goal,
        judge=bool(row.judge),
        age_s=max(0.0, now_of(connection) - row.started_at),
        site_policy=policy_from_json(row.site_policy),
        last_at=row.last_at,
        last_check_id=_last_check(connection, row.monitor_id),
        definition=open_definition(connection, row),  # type: ignore[arg-type]  # a row of columns
    )


def _last_check(connection: Connection, monitor_id: str) -> str | None:
    return connection.scalar(
        select(monitor_check.c.job_id)
        .where(
            monitor_check.c.monitor_id == monitor_id,
            monitor_check.c.status.in_(("completed", "partial")),
        )
        .order_by(monitor_check.c.created_at.desc(), monitor_check.c.job_id.desc())
        .limit(1)
    )


def batches_of(connection: Connection, check_id: str) -> list[str]:
    """Return the ids of the batches of an ended check. Its crawls are jobs of the team."""
    results = connection.scalar(
        select(monitor_check.c.results).where(monitor_check.c.job_id == check_id)
    )
    return [
        step_id(check_id, each["target_id"])
        for each in json.loads(results or "[]")
        if each["type"] == "scrape"
    ]


@transaction(first="{team_id}", apart=True)
def add_crawl(
    connection: Connection,
    job_id: str,
    run_id: str,
    team_id: str,
    name: str,
    options: CrawlOptions,
    page_price: int,
    base_id: str | None = None,
) -> bool:
    """Start the crawl of a target as a job of the team, unless it exists.

    It repeats the unchanged pages of the job ``base_id``.

    Its limit is lowered to the number of pages that the team can pay. Without credits for
    one page, no crawl starts. Locks the team, then the check.
    """
    ledger.lock_team(connection, team_id)
    if not holds(connection, job_id, run_id):
        return False
    crawl_id = step_id(job_id, name)
    if job_rows.get_job(connection, crawl_id, None) is not None:
        return True
    columns = select(job.c.key_id, job.c.retention_s)
    row = connection.execute(columns.where(job.c.id == job_id)).one()
    seed = seed_of(options)
    bill: dict[str, Any] = {}
    if ledger.balance(connection, team_id) is not None:
        assert seed.page_limit is not None
        pages, _ = ledger.take_up_to(
            connection, team_id, page_price, seed.page_limit, 1
        )
        if not pages:
            return True
        bill = {"page_price": page_price, "reserved": page_price * pages}
        if pages < seed.page_limit:
            bill["warning"] = add_warning(
                None, JobWarning.LIMIT_LOWERED, wanted=seed.page_limit, pages=pages
            )
            seed = type(seed)(seed.kind, seed.url, pages, seed.links)
    job_rows.insert_job(
        connection,
        team_id,
        seed,
        json.dumps(unstructure(options)),
        2,
        crawl_id,
        base_job_id=base_id,
        key_id=row.key_id,
        retention_s=row.retention_s,
        **bill,
    )
    return True


@transaction(row="{job_id}")
def add_pages(
    connection: Connection,
    job_id: str,
    run_id: str,
    memory: str,
    found: CheckedPages,
) -> bool:
    """Store pages of a check, their snapshots and events, and the position of the check.

    ``memory`` is the memory of the model job that includes these pages.
    """
    if not holds(connection, job_id, run_id):
        return False
    at = now_of(connection)
    columns = monitor_check.c
    facts = select(columns.monitor_id, columns.pages, columns.counts)
    check = connection.execute(facts.where(columns.job_id == job_id)).one()
    counts = json.loads(check.counts)
    rows = []
    for seq, each in enumerate(found.rows, check.pages):
        counts[each.facts["status"]] += 1
        text = each.encode(
            id=str(uuid.uuid5(uuid.UUID(job_id), str(seq))),
            target_id=found.target_id,
            at=at,
        )
        rows.append(
            {
                "job_id": job_id,
                "seq": seq,
                "status": each.facts["status"],
                "size": len(text),
                "body": compress(text),
            }
        )
    key = (check.monitor_id, found.target_id, job_id, at)
    # Locked: a deletion of the monitor deletes these snapshots too, or comes before them.
    there = select(monitor.c.id).where(monitor.c.id == check.monitor_id)
    if connection.scalar(there.with_for_update(read=True, key_share=True)) is None:
        return False
    snapshots.store(connection, *key, found.new)
    snapshots.keep(connection, *key, found.kept)
    if found.dropped:
        snapshots.drop(connection, check.monitor_id, found.target_id, found.dropped)
    if rows:
        connection.execute(insert(monitor_page), rows)
        size = sum(len(row["body"]) for row in rows)
        disk_use.add_to_job(connection, job_id, size)
        webhooks.tell_locked(
            connection, job_id, "page", at, [str(row["seq"]) for row in rows]
        )
    connection.execute(
        update(monitor_check)
        .where(monitor_check.c.job_id == job_id)
        .values(pages=check.pages + len(rows), counts=json.dumps(counts), updated_at=at)
    )
    store_memory(connection, job_id, memory)
    return True


@transaction(row="{job_id}")
def finish(connection: Connection, job_id: str, run_id: str, end: CheckEnd) -> bool:
    """End a check: charge it, and store its result with the monitor."""
    if not holds(connection, job_id, run_id):
        return False
    columns = select(
        job.c.team_id, job.c.key_id, job.c.reserved, monitor_check.c.pages
    ).join(monitor_check, monitor_check.c.job_id == job.c.id)
    row = connection.execute(columns.where(job.c.id == job_id)).one()
    # A remainder below zero becomes a debt: a file may have had more pages than expected.
    ledger.give_back(connection, row.team_id, row.reserved - end.price)
    if end.price:
        ledger.charge_job(connection, row.team_id, job_id, row.key_id, end.price)
    at = now_of(connection)
    _end(connection, job_id, evolve(end, results=_results(connection, job_id, end)), at)
    state = JobState.FAILED if end.status == "failed" else JobState.COMPLETED
    values = {"state": state, "error": end.error, "pages": row.pages}
    store_end(connection, job_id, at, credits=end.price, **values)
    # The pages of its steps live as long as the check.
    names = [each["target_id"] for each in end.results]
    connection.execute(
        update(job)
        .where(
            job.c.id.in_([step_id(job_id, name) for name in names]),
            job.c.state.not_in(ACTIVE),
            job.c.expires_at > 0,
        )
        .values(expires_at=at + job.c.retention_s)
    )
    return True


def _results(
    connection: Connection, job_id: str, end: CheckEnd
) -> list[dict[str, Any]]:
    found = []
    for each in end.results:
        result = each
        if each["type"] == "scrape":
            step = step_id(job_id, each["target_id"])
            ids = connection.scalars(
                select(page.c.id)
                .where(page.c.job_number == number_of(step))
                .order_by(page.c.seq)
            )
            result = {**each, "scrape_ids": list(ids)}
        found.append(result)
    return found


@transaction(row="{job_id}")
def settle_lost(connection: Connection, job_id: str, at: float | None = None) -> bool:
    """End a check whose job has ended without it, such as by a broken process."""
    columns = monitor_check.c
    row = connection.execute(
        select(job.c.state, job.c.error, columns.status)
        .add_columns(columns.definition, columns.sealed)
        .join(monitor_check, monitor_check.c.job_id == job.c.id)
        .where(job.c.id == job_id)
        .with_for_update()
    ).one_or_none()
    if row is None or row.status not in RUNNING or row.state in ACTIVE:
        return False
    error = row.error or f"The check was {row.state}."
    _keep_hook(connection, job_id, row)
    at = now_of(connection) if at is None else at
    _end(
        connection,
        job_id,
        CheckEnd(status="failed", error=error, results=(), price=0, credits=0),
        at,
    )
    return True


def _keep_hook(connection: Connection, job_id: str, row: Row[Any]) -> None:
    """Set the webhook of a check again, since its job has ended and lost the headers."""
    if row.definition is None and row.sealed is None:
        return
    with suppress(*UNREADABLE):
        if (hook := open_definition(connection, row).hook) is not None:
            webhooks.attach(connection, job_id, hook)


def lost_checks(connection: Connection, limit: int) -> list[str]:
    """Return checks whose job has ended without them."""
    return list(
        connection.scalars(
            select(monitor_check.c.job_id)
            .join(job, job.c.id == monitor_check.c.job_id)
            .where(
                monitor_check.c.status.in_(RUNNING),
                job.c.state.not_in(ACTIVE),
            )
            .limit(limit)
        )
    )


def _end(connection: Connection, job_id: str, end: CheckEnd, at: float) -> None:
    """Store the end of a check in its row and with its monitor, and tell of it."""
    check = connection.execute(
        select(monitor_check).where(monitor_check.c.job_id == job_id)
    ).one()
    error = end.error
    try:
        found = lock_monitor(connection, check.monitor_id)
    except UNREADABLE:
        found = None  # its check ends all the same
    if found is not None:
        failures = found.failures + 1 if end.status == "failed" else 0
        values: dict[str, Any] = {
            "last_at": at,
            "summary": check.counts,
            "failures": failures,
        }
        if end.estimate is not None:
            values["estimate"] = end.estimate
        if failures >= BACKOFF_AFTER and found.next_at is not None:
            values["next_at"] = next_at = _backoff_time(found, failures, at)
            minutes = plural(round((next_at - at) / 60), "minute")
            error = (
                f"{error or ''} The monitor has failed {failures} times in a row: its"
                f" next check waits for {minutes}."
            ).strip()
        set_monitor(connection, found.id, **values)
        snapshots.prune(connection, found.id, found.definition.targets)
        counts = json.loads(check.counts)
        is_news = end.has_news and sum(counts.values()) > counts["same"]
        if is_news and not found.is_muted(at):
            mail = [messages.MAIL] if found.wants_mail else []
            messages.add_messages(connection, job_id, [*found.channels, *mail], at)
    connection.execute(
        update(monitor_check)
        .where(monitor_check.c.job_id == job_id)
        .values(
            status=end.status,
            error=error,
            results=json.dumps(list(end.results)),
            credits=end.credits,
            finished_at=at,
            updated_at=at,
            definition=None,
            sealed=None,
        )
    )
    webhooks.tell_locked(connection, job_id, "check.completed", at)


def _backoff_time(found: Monitor, failures: int, at: float) -> float:
    """Return the next run time of a monitor that keeps failing: its interval, doubled."""
    schedule = found.schedule
    first = schedule.next_after(at)
    interval = schedule.next_after(first) - first
    wait = interval * 2 ** min(failures - BACKOFF_AFTER + 1, MAX_BACKOFF)
    return schedule.next_after(at + min(wait, max(DAY_S, interval)) - 1)
