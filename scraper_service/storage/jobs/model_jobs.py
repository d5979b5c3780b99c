"""Model jobs: extract, agent, deep research and llms.txt jobs.

A model job is a job without a crawler. Batches fetch its pages. Their ids follow from
the id of the model job and the name of the step, so a process that continues after a
crash finds them. Steps store nothing if the run of their process has ended
(:mod:`scraper_service.storage.jobs.runs`).
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, frozen
from sqlalchemy import and_, func, or_, select, update

from scraper_service.content.stored_pages import compress, decompress
from scraper_service.discovery.scope_rules import Reason
from scraper_service.options.jobs import unstructure
from scraper_service.storage import job_secrets, webhooks
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.links import seed_of
from scraper_service.storage.job_records import ACTIVE, Job, JobState, RowState, UrlKind
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.jobs.runs import holds
from scraper_service.storage.schema import frontier, job, operation, page
from scraper_service.storage.transactions import (
    count_fitting,
    is_stored,
    note,
    now_of,
    number_of,
    transaction,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.options.jobs import BatchOptions


ENTRY_BYTES = 4 * 2**20  # of pages in one read
ENTRY_ROWS = 100


@frozen(kw_only=True)
class ModelJobRow(Job):
    """A model job as its caller reads it."""

    #: Tokens that a language model used, None without a model.
    tokens: int | None
    #: JSON, None before the first result.
    result: bytes | None


@frozen
class Entry:
    """A page of a step: its number among the URLs of the batch, and its JSON."""

    number: int
    body: bytes


@frozen
class StepFailure:
    """A URL of a step that could not be read."""

    number: int
    url: str
    error: str


def step_id(job_id: str, name: str) -> str:
    """Return the id of the batch that is a step of a model job."""
    return str(uuid.uuid5(uuid.UUID(job_id), name))


def read_model_job(
    connection: Connection, job_id: str, team_id: str, kind: str
) -> ModelJobRow | None:
    """Return a model job of a team unless it has expired."""
    row = connection.execute(
        select(job, operation.c.result, operation.c.tokens)
        .join(operation, operation.c.job_id == job.c.id)
        .where(job.c.id == job_id, job.c.team_id == team_id, job.c.kind == kind)
    ).one_or_none()
    if row is None:
        return None
    if row.state not in ACTIVE and row.expires_at <= now_of(connection):
        return None
    return ModelJobRow(
        **asdict(job_rows.job_of(row)),
        tokens=row.tokens,
        result=None if row.result is None else decompress(row.result),
    )


def read_model_jobs(
    connection: Connection, team_id: str, kind: str, before: float | None, limit: int
) -> list[Job]:
    """Return the newest model jobs of a kind, at most ``limit``.

    They were started before the time ``before``, in seconds since 1970.
    """
    query = (
        select(*job_rows.COLUMNS)
        .where(
            job.c.team_id == team_id,
            job.c.kind == kind,
            is_stored(now_of(connection)),
        )
        .order_by(job.c.created_at.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(job.c.created_at < before)
    return [job_rows.job_of(row) for row in connection.execute(query)]


def next_start(connection: Connection, team_id: str, kind: str) -> float:
    """Return a time for the start of a model job, in seconds since 1970.

    It is a whole number of milliseconds, and later than the start of every other
    model job of this kind of the team, which is locked. So a list that goes on before a
    millisecond leaves nothing out.
    """
    last = connection.scalar(
        select(func.max(job.c.created_at)).where(
            job.c.team_id == team_id, job.c.kind == kind
        )
    )
    now_ms = int(now_of(connection) * 1000)
    return max(now_ms, round((last or 0) * 1000) + 1) / 1000


# -- steps: each returns False and stores nothing if the run has ended ------------------


@transaction(row="{job_id}")
def remember(connection: Connection, job_id: str, run_id: str, memory: str) -> bool:
    """Store the findings of the steps so far."""
    if not holds(connection, job_id, run_id):
        return False
    store_memory(connection, job_id, memory)
    return True


def store_memory(connection: Connection, job_id: str, memory: str) -> None:
    """Store the findings of a job whose run has not ended."""
    connection.execute(
        update(operation)
        .where(operation.c.job_id == job_id)
        .values(memory=memory, steps=operation.c.steps + 1)
    )


@transaction(row="{job_id}")
def advance(
    connection: Connection,
    job_id: str,
    run_id: str,
    memory: str,
    result: bytes,
    action: str | None,
) -> bool:
    """Store the findings of the steps so far, and what the caller sees of them.

    ``action`` is JSON for the webhook of an agent, None without a new action.
    """
    if not remember(connection, job_id, run_id, memory):
        return False
    _store_result(connection, job_id, result)
    if action is not None:
        at = now_of(connection)
        webhooks.tell_locked(connection, job_id, "action", at, [action])
    return True


@transaction(row="{job_id}")
def show(connection: Connection, job_id: str, run_id: str, result: bytes) -> bool:
    """Store a preliminary result for the caller."""
    if not holds(connection, job_id, run_id):
        return False
    _store_result(connection, job_id, result)
    return True


@transaction(row="{job_id}")
def add_step(
    connection: Connection,
    job_id: str,
    run_id: str,
    name: str,
    batch: BatchOptions,
    base_id: str | None = None,
) -> bool:
    """Start a batch as a step unless it exists. ``base_id`` is the base of the job."""
    if not holds(connection, job_id, run_id):
        return False
    child_id = step_id(job_id, name)
    if job_rows.get_job(connection, child_id, None) is None:
        columns = select(job.c.team_id, job.c.version, job.c.key_id, job.c.retention_s)
        row = connection.execute(columns.where(job.c.id == job_id)).one()
        # Only monitors read the responses of a step again.
        keeps = bool(batch.keep_sources)
        kept = evolve(batch, urls=batch.urls[:1], keep_sources=keeps)
        options = json.dumps(unstructure(kept))
        job_rows.insert_job(
            connection,
            row.team_id,
            seed_of(batch),
            options,
            row.version,
            child_id,
            parent_id=job_id,
            base_job_id=base_id,
            key_id=row.key_id,
            retention_s=row.retention_s,
        )
    return True


@transaction(row="{job_id}")
def complete(
    connection: Connection,
    job_id: str,
    run_id: str,
    result: bytes,
    pages: int,
    price: int,
    tokens: int | None = None,
) -> bool:
    """Store the result, charge for ``pages``, and complete the model job.

    ``price`` is for all pages. The other reserved credits go back to the team.
    """
    if not holds(connection, job_id, run_id):
        return False
    at = now_of(connection)
    columns = select(job.c.team_id, job.c.key_id, job.c.reserved)
    row = connection.execute(columns.where(job.c.id == job_id)).one()
    _store_result(connection, job_id, result)
    connection.execute(
        update(operation).where(operation.c.job_id == job_id).values(tokens=tokens)
    )
    ledger.give_back(connection, row.team_id, max(0, row.reserved - price))
    ledger.charge_job(connection, row.team_id, job_id, row.key_id, price)
    webhooks.tell_locked(connection, job_id, JobState.COMPLETED.value, at)
    values = {"state": JobState.COMPLETED, "pages": pages, "credits": price}
    store_end(connection, job_id, at, **values)
    return True


def store_end(connection: Connection, job_id: str, at: float, **values: Any) -> None:
    """Store ``values`` of a job that has run to its end, whose deliveries are written."""
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            reserved=0,
            completed_at=at,
            expires_at=at + job.c.retention_s,
            **values,
        )
    )
    note(connection, job_id, JobState.COMPLETED.value, at)
    job_secrets.forget(connection, job_id)


@transaction(row="{job_id}")
def fail(
    connection: Connection,
    job_id: str,
    run_id: str,
    error: str,
    result: bytes | None = None,
) -> bool:
    """Fail a model job. It costs nothing.

    ``result`` is what the caller sees with the error; None leaves it as it is.
    """
    if not holds(connection, job_id, run_id):
        return False
    if result is not None:
        _store_result(connection, job_id, result)
    return outcomes.end_job(connection, job_id, JobState.FAILED, error)


def _store_result(connection: Connection, job_id: str, result: bytes) -> None:
    body = compress(result)
    before = connection.scalar(
        select(func.length(operation.c.result)).where(operation.c.job_id == job_id)
    )
    connection.execute(
        update(operation).where(operation.c.job_id == job_id).values(result=body)
    )
    disk_use.add_to_job(connection, job_id, len(body) - (before or 0))


# -- results of steps --------------------------------------------------------------------


def read_entries(connection: Connection, child_id: str, skip: int) -> list[Entry]:
    """Return pages of a step from position ``skip``, in the order of delivery.

    Returns at most :data:`ENTRY_ROWS` pages and :data:`ENTRY_BYTES` bytes, but at least one
    page if there is one.
    """
    rows = connection.execute(
        select(page.c.id, page.c.size, frontier.c.key)
        .join(frontier, frontier.c.id == page.c.frontier_id)
        .where(page.c.job_number == number_of(child_id), page.c.seq >= skip)
        .order_by(page.c.seq)
        .limit(ENTRY_ROWS)
    ).all()
    fitting = count_fitting([row.size for row in rows], ENTRY_BYTES)
    numbers = {row.id: row.key for row in rows[:fitting]}
    bodies = connection.execute(
        select(page.c.id, page.c.body)
        .where(page.c.id.in_(tuple(numbers)))
        .order_by(page.c.seq)
    )
    return [Entry(numbers[row.id], decompress(row.body)) for row in bodies]


def read_failures(connection: Connection, child_id: str) -> list[StepFailure]:
    """Return the failed URLs of a step, in the order of the batch.

    Also those that robots.txt refused before the fetch.
    """
    columns = frontier.c
    is_refused = (
        columns.state == RowState.SKIPPED,
        columns.code == Reason.ROBOTS,
        columns.page_id.is_not(None),
    )
    rows = connection.execute(
        select(columns.key, columns.url, columns.error)
        .where(
            columns.job_number == number_of(child_id),
            or_(columns.state == RowState.FAILED, and_(*is_refused)),
            columns.kind == UrlKind.PAGE,
        )
        .order_by(columns.key)
    )
    return [StepFailure(row.key, row.url, row.error or "") for row in rows]
