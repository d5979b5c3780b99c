"""Operations of several steps: extract, agent, deep research and llms.txt jobs.

An operation is a job without a crawler. Batches fetch its pages. Their ids follow from
the id of the operation and the name of the step, so a process that continues after a
crash finds them. One process at a time works on an operation. Writes with an outdated
:class:`OperationLease` are refused.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from sqlalchemy import and_, func, insert, or_, select, update

from scraper_service.content.stored_pages import compress, decompress
from scraper_service.discovery import Reason
from scraper_service.errors import SecretsUnreadable
from scraper_service.options.serialization import options_to_json
from scraper_service.storage import job_secrets
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.links import seed_of
from scraper_service.storage.job_records import ACTIVE, JobState, RowState, UrlKind
from scraper_service.storage.jobs import job_store
from scraper_service.storage.schema import frontier, job, operation, page, worker
from scraper_service.storage.transactions import (
    lock_job,
    note,
    now_of,
    number_of,
    transaction,
    try_lock_job,
)
from scraper_service.storage.webhooks import subscriptions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection

    from scraper_service.options.crawl import BatchOptions
    from scraper_service.options.extraction import OperationOptionsT

# Processes that ended with an operation before its next step; then it has failed.
MAX_ATTEMPTS = 10
ENTRY_BYTES = 4 * 2**20  # of pages in one read
ENTRY_ROWS = 100


@frozen
class OperationLease:
    """The lease of a process on an operation, with a fencing ``token``."""

    owner: str
    token: int


@frozen(kw_only=True)
class Taken:
    """An operation that this process works on."""

    id: str
    team_id: str
    kind: str
    version: int
    #: JSON, with secrets.
    options: str
    #: JSON of :func:`remember`.
    memory: str
    #: The largest number of pages to read.
    page_limit: int
    #: A sentence if the caller asked for more pages.
    warning: str | None
    #: Seconds since the start of the operation.
    age_s: float
    claim: OperationLease


@frozen(kw_only=True)
class OperationRow:
    """An operation as its caller reads it. Times are seconds since 1970."""

    id: str
    kind: str
    version: int
    state: JobState
    #: JSON.
    options: str
    error: str | None
    credits: int
    #: Tokens that a language model used, None without a model.
    tokens: int | None
    expires_at: float
    #: JSON, None before the first result.
    result: bytes | None


@frozen
class StartedOperation:
    """An operation that was just stored."""

    id: str
    #: Says that its limit was lowered.
    warning: str | None


@frozen(kw_only=True)
class OperationEntry:
    """An operation in a list of a team's operations of one kind."""

    id: str
    state: JobState
    #: JSON.
    options: str
    #: Seconds since 1970, a whole number of milliseconds.
    created_at: float


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


def step_id(operation_id: str, name: str) -> str:
    """Return the id of the batch that is a step of an operation."""
    return str(uuid.uuid5(uuid.UUID(operation_id), name))


def insert_operation(
    connection: Connection,
    job_id: str,
    team_id: str,
    options: OperationOptionsT,
    text: str,
    version: int,
    **bill: Any,
) -> None:
    """Store an operation. ``bill`` has columns of the job: limit, key, credits."""
    job_store.queue_job(
        connection,
        job_id,
        team_id=team_id,
        kind=options.kind,
        version=version,
        url=options.target,
        options=text,
        **bill,
    )
    connection.execute(insert(operation).values(job_id=job_id, memory="{}"))


def read_operation(
    connection: Connection, job_id: str, team_id: str, kind: str
) -> OperationRow | None:
    """Return an operation of a team unless it has expired."""
    row = connection.execute(
        select(job, operation.c.result, operation.c.tokens)
        .join(operation, operation.c.job_id == job.c.id)
        .where(job.c.id == job_id, job.c.team_id == team_id, job.c.kind == kind)
    ).one_or_none()
    if row is None:
        return None
    if row.state not in ACTIVE and row.expires_at <= now_of(connection):
        return None
    return OperationRow(
        id=row.id,
        kind=row.kind,
        version=row.version,
        state=JobState(row.state),
        options=row.options,
        error=row.error,
        credits=row.credits,
        tokens=row.tokens,
        expires_at=row.expires_at,
        result=None if row.result is None else decompress(row.result),
    )


def read_operations(
    connection: Connection, team_id: str, kind: str, before: float | None, limit: int
) -> list[OperationEntry]:
    """Return the newest operations of a kind, at most ``limit``.

    They were started before the time ``before``, in seconds since 1970.
    """
    columns = job.c
    query = (
        select(columns.id, columns.state, columns.options, columns.created_at)
        .where(
            columns.team_id == team_id,
            columns.kind == kind,
            or_(columns.state.in_(ACTIVE), columns.expires_at > now_of(connection)),
        )
        .order_by(columns.created_at.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(columns.created_at < before)
    return [
        OperationEntry(
            id=row.id,
            state=JobState(row.state),
            options=row.options,
            created_at=row.created_at,
        )
        for row in connection.execute(query)
    ]


def next_start(connection: Connection, team_id: str, kind: str) -> float:
    """Return a time for the start of an operation, in seconds since 1970.

    It is a whole number of milliseconds, and later than the start of every other
    operation of this kind of the team, which is locked. So a list that goes on before a
    millisecond leaves nothing out.
    """
    last = connection.scalar(
        select(func.max(job.c.created_at)).where(
            job.c.team_id == team_id, job.c.kind == kind
        )
    )
    now_ms = int(now_of(connection) * 1000)
    return max(now_ms, round((last or 0) * 1000) + 1) / 1000


# -- claims --------------------------------------------------------------------------


def waiting(
    connection: Connection,
    owner: str,
    busy: Mapping[str, str],
    limit: int,
    kinds: Collection[str],
) -> list[tuple[str, str]]:
    """Return operations of some kinds without a working process, as (id, team).

    ``busy`` are the operations of ``owner``, this process, with their teams. Teams with the
    fewest running operations come first.
    """
    live = select(worker.c.id).where(
        worker.c.until >= now_of(connection), worker.c.id != owner
    )
    place = func.row_number().over(
        partition_by=job.c.team_id, order_by=(job.c.created_at, job.c.id)
    )
    ranked = (
        select(job.c.id, job.c.team_id, job.c.created_at, place.label("place"))
        .join(operation, operation.c.job_id == job.c.id)
        .where(
            job.c.state.in_(ACTIVE),
            job.c.kind.in_(tuple(kinds)),
            job.c.id.not_in(tuple(busy)),
            operation.c.owner.is_(None) | operation.c.owner.not_in(live),
        )
        .subquery()
    )
    rows = connection.execute(
        select(ranked.c.id, ranked.c.team_id, ranked.c.place)
        .where(ranked.c.place <= limit)
        .order_by(ranked.c.place, ranked.c.created_at)
    ).all()
    teams = list(busy.values())
    ordered = sorted(rows, key=lambda row: row.place + teams.count(row.team_id))
    return [(row.id, row.team_id) for row in ordered[:limit]]


@transaction(row="{job_id}")
def take(connection: Connection, job_id: str, owner: str) -> Taken | None:
    """Claim an operation. Return None if another process was faster or locks the row.

    An operation fails if it ended its process :data:`MAX_ATTEMPTS` times, or if this
    process cannot decrypt its secrets.
    """
    locked = try_lock_job(connection, job_id)
    if locked is None or locked.state not in ACTIVE:
        return None
    row = connection.execute(
        select(job, operation.c.memory, operation.c.token, operation.c.attempts)
        .add_columns(operation.c.owner)
        .join(operation, operation.c.job_id == job.c.id)
        .where(job.c.id == job_id)
    ).one()
    now = now_of(connection)
    until = connection.scalar(select(worker.c.until).where(worker.c.id == row.owner))
    if until is not None and until >= now and row.owner != owner:
        return None
    if row.attempts >= MAX_ATTEMPTS:
        error = f"The process ended {MAX_ATTEMPTS} times in the same step."
        outcomes.end_job(connection, job_id, JobState.FAILED, error)
        return None
    try:
        options = job_secrets.whole_options(connection, job_id, row.options)
    except SecretsUnreadable as unreadable:
        outcomes.end_job(connection, job_id, JobState.FAILED, str(unreadable))
        return None
    token = row.token + 1
    connection.execute(
        update(operation)
        .where(operation.c.job_id == job_id)
        .values(owner=owner, token=token, attempts=row.attempts + 1)
    )
    job_store.start_job(connection, job_id)
    return Taken(
        id=job_id,
        team_id=row.team_id,
        kind=row.kind,
        version=row.version,
        options=options,
        memory=row.memory,
        page_limit=row.page_limit,
        warning=row.warning,
        age_s=max(0.0, now - row.created_at),
        claim=OperationLease(owner, token),
    )


@transaction(row="{job_id}")
def release(connection: Connection, job_id: str, claim: OperationLease) -> None:
    """Return an operation for another process. The attempt does not count."""
    if holds(connection, job_id, claim):
        connection.execute(
            update(operation)
            .where(operation.c.job_id == job_id)
            .values(owner=None, attempts=operation.c.attempts - 1)
        )


def holds(connection: Connection, job_id: str, claim: OperationLease) -> bool:
    """Lock an operation. Return True if it is active and the claim is valid."""
    if lock_job(connection, job_id).state not in ACTIVE:
        return False
    columns = select(operation.c.owner, operation.c.token)
    found = connection.execute(columns.where(operation.c.job_id == job_id)).one()
    return tuple(found) == (claim.owner, claim.token)


# -- steps: each returns False and stores nothing if the claim is outdated ---------------


@transaction(row="{job_id}")
def remember(
    connection: Connection, job_id: str, claim: OperationLease, memory: str
) -> bool:
    """Store the findings of the steps so far."""
    if not holds(connection, job_id, claim):
        return False
    connection.execute(
        update(operation)
        .where(operation.c.job_id == job_id)
        .values(memory=memory, attempts=1)
    )
    return True


@transaction(row="{job_id}")
def advance(
    connection: Connection,
    job_id: str,
    claim: OperationLease,
    memory: str,
    result: bytes,
    action: str | None,
) -> bool:
    """Store the findings of the steps so far, and what the caller sees of them.

    ``action`` is JSON for the webhook of an agent, None without a new action.
    """
    if not remember(connection, job_id, claim, memory):
        return False
    _store_result(connection, job_id, result)
    if action is not None:
        at = now_of(connection)
        subscriptions.tell_locked(connection, job_id, "action", at, [action])
    return True


@transaction(row="{job_id}")
def show(
    connection: Connection, job_id: str, claim: OperationLease, result: bytes
) -> bool:
    """Store a preliminary result for the caller."""
    if not holds(connection, job_id, claim):
        return False
    _store_result(connection, job_id, result)
    return True


@transaction(row="{job_id}")
def add_step(
    connection: Connection,
    job_id: str,
    claim: OperationLease,
    name: str,
    batch: BatchOptions,
    base_id: str | None = None,
) -> bool:
    """Start a batch as a step unless it exists. ``base_id`` is the base of the job."""
    if not holds(connection, job_id, claim):
        return False
    child_id = step_id(job_id, name)
    if job_store.get_job(connection, child_id, None) is None:
        columns = select(job.c.team_id, job.c.version, job.c.key_id, job.c.retention_s)
        row = connection.execute(columns.where(job.c.id == job_id)).one()
        # Only monitors read the responses of a step again.
        keeps = bool(batch.keep_sources)
        kept = evolve(batch, urls=batch.urls[:1], keep_sources=keeps)
        options = json.dumps(options_to_json(kept))
        job_store.insert_job(
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
    claim: OperationLease,
    result: bytes,
    pages: int,
    price: int,
    tokens: int | None = None,
) -> bool:
    """Store the result, charge for ``pages``, and complete the operation.

    ``price`` is for all pages. The rest of the reserved credits goes back to the team.
    """
    if not holds(connection, job_id, claim):
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
    subscriptions.tell_locked(connection, job_id, JobState.COMPLETED.value, at)
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
    claim: OperationLease,
    error: str,
    result: bytes | None = None,
) -> bool:
    """Fail an operation. It costs nothing.

    ``result`` is what the caller sees beside the error; None leaves it as it is.
    """
    if not holds(connection, job_id, claim):
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


def orphans(connection: Connection) -> list[str]:
    """Return active steps of operations that have ended."""
    parent = job.alias("parent")
    query = (
        select(job.c.id)
        .join(parent, parent.c.id == job.c.parent_id)
        .where(job.c.state.in_(ACTIVE), parent.c.state.not_in(ACTIVE))
    )
    return list(connection.scalars(query))


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
    size = 0
    numbers: dict[str, int] = {}
    for row in rows:
        size += row.size
        if numbers and size > ENTRY_BYTES:
            break
        numbers[row.id] = row.key
    bodies = connection.execute(
        select(page.c.id, page.c.body)
        .where(page.c.id.in_(tuple(numbers)))
        .order_by(page.c.seq)
    )
    return [Entry(numbers[row.id], decompress(row.body)) for row in bodies]


def read_failures(connection: Connection, child_id: str) -> list[StepFailure]:
    """Return the failed URLs of a step, in the order of the batch.

    Also those that robots.txt refused when their turn came.
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
