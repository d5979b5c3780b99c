"""Operations of several steps: who works on one, what it has found, how it ended.

An operation is a job that no crawler runs. Its pages are fetched by batches of its own,
whose ids follow from its id and the name of the step, so that who goes on after a crash
finds them. One process at a time works on it; what another one still stores under an
earlier :class:`Claim` is refused. Functions take a connection inside a transaction of
:meth:`Database.write_locking` with the operation as the name, unless they only read.
"""

from __future__ import annotations

import json
import uuid
import zlib
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from sqlalchemy import func, insert, select, update

from scraper_service.errors import SecretsUnreadable
from scraper_service.options.job_arguments import options_to_json
from scraper_service.storage import job_secrets, jobs, webhook_outbox
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.frontier.seeds import seed_of
from scraper_service.storage.frontier.transactions import (
    RETENTION_S,
    lock_job,
    note,
    now_of,
    try_lock_job,
)
from scraper_service.storage.job_records import ACTIVE, JobState, RowState
from scraper_service.storage.schema import frontier, job, operation, page, worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from scraper_service.options.jobs import BatchOptions
    from scraper_service.options.operations import OperationOptionsT

# Processes that ended with an operation before its next step; then it has failed.
MAX_ATTEMPTS = 10
ENTRY_BYTES = 4 * 2**20  # of pages in one read
ENTRY_ROWS = 100
COMPRESSION = 1


@frozen
class Claim:
    """The right to work on an operation: ``token`` is the fencing token."""

    owner: str
    token: int


@frozen(kw_only=True)
class Taken:
    """An operation that this process works on now.

    ``options`` and ``memory`` are JSON; at most ``page_limit`` pages may be read, and
    ``warning`` says if the caller wanted more. It began ``age_s`` ago.
    """

    id: str
    team_id: str
    kind: str
    version: int
    options: str
    memory: str
    page_limit: int
    warning: str | None
    age_s: float
    claim: Claim


@frozen(kw_only=True)
class OperationRow:
    """An operation as its caller sees it. Times are seconds since 1970.

    ``options`` and ``result`` are JSON, the latter None where there is nothing yet;
    ``tokens`` are those that a model counted, None without one.
    """

    id: str
    kind: str
    version: int
    state: JobState
    options: str
    error: str | None
    credits: int
    tokens: int | None
    expires_at: float
    result: bytes | None


@frozen
class Entry:
    """A page of a step: its number among the addresses asked for, and its JSON."""

    number: int
    body: bytes


@frozen
class Failure:
    """An address of a step that could not be read, and why."""

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
    asked: OperationOptionsT,
    options: str,
    version: int,
    **bill: Any,
) -> None:
    """Store an operation; ``bill`` are the columns of the job that say what it may."""
    jobs.queue_job(
        connection,
        job_id,
        team_id=team_id,
        kind=asked.kind,
        version=version,
        url=asked.target,
        options=options,
        **bill,
    )
    connection.execute(insert(operation).values(job_id=job_id, memory="{}"))


def read_operation(
    connection: Connection, job_id: str, team_id: str, kind: str
) -> OperationRow | None:
    """Return an operation of a team that has not expired; it only reads."""
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
        result=None if row.result is None else zlib.decompress(row.result),
    )


# -- who works on them ---------------------------------------------------------------


def waiting(
    connection: Connection, owner: str, busy: Mapping[str, str], limit: int
) -> list[tuple[str, str]]:
    """Return operations that nobody works on, as (id, team); it only reads.

    ``busy`` are those that ``owner``, this process, works on, with their teams. Teams
    take turns: who has the fewest under way here comes first.
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


def take(connection: Connection, job_id: str, owner: str) -> Taken | None:
    """Begin to work on an operation, or go on; None if another process was faster.

    None also if its row is locked. One that ended its process again and again fails,
    and so does one whose secrets this process cannot read.
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
        jobs.end_job(connection, job_id, JobState.FAILED, error)
        return None
    try:
        options = job_secrets.whole_options(connection, job_id, row.options)
    except SecretsUnreadable as unreadable:
        jobs.end_job(connection, job_id, JobState.FAILED, str(unreadable))
        return None
    token = row.token + 1
    connection.execute(
        update(operation)
        .where(operation.c.job_id == job_id)
        .values(owner=owner, token=token, attempts=row.attempts + 1)
    )
    jobs.start_job(connection, job_id)
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
        claim=Claim(owner, token),
    )


def release(connection: Connection, job_id: str, claim: Claim) -> None:
    """Leave an operation to whoever goes on with it; that was no attempt."""
    if _holds(connection, job_id, claim):
        connection.execute(
            update(operation)
            .where(operation.c.job_id == job_id)
            .values(owner=None, attempts=operation.c.attempts - 1)
        )


def _holds(connection: Connection, job_id: str, claim: Claim) -> bool:
    """Lock an operation; tell whether it goes on and the claim is still good."""
    if lock_job(connection, job_id).state not in ACTIVE:
        return False
    columns = select(operation.c.owner, operation.c.token)
    found = connection.execute(columns.where(operation.c.job_id == job_id)).one()
    return tuple(found) == (claim.owner, claim.token)


# -- steps: each is False, and stores nothing, when the claim was lost -------------------


def remember(connection: Connection, job_id: str, claim: Claim, memory: str) -> bool:
    """Store what the steps so far have found."""
    if not _holds(connection, job_id, claim):
        return False
    connection.execute(
        update(operation)
        .where(operation.c.job_id == job_id)
        .values(memory=memory, attempts=1)
    )
    return True


def show(connection: Connection, job_id: str, claim: Claim, result: bytes) -> bool:
    """Let the caller read what there is so far."""
    if not _holds(connection, job_id, claim):
        return False
    _store_result(connection, job_id, result)
    return True


def add_step(
    connection: Connection,
    job_id: str,
    claim: Claim,
    name: str,
    asked: BatchOptions,
) -> bool:
    """Have a batch run that is a step, unless it does already."""
    if not _holds(connection, job_id, claim):
        return False
    child_id = step_id(job_id, name)
    if jobs.get_job(connection, child_id, None) is None:
        columns = select(job.c.team_id, job.c.version, job.c.key_id)
        row = connection.execute(columns.where(job.c.id == job_id)).one()
        options = json.dumps(options_to_json(evolve(asked, urls=asked.urls[:1])))
        jobs.insert_job(
            connection,
            row.team_id,
            seed_of(asked),
            options,
            row.version,
            child_id,
            parent_id=job_id,
            key_id=row.key_id,
        )
    return True


def complete(
    connection: Connection,
    job_id: str,
    claim: Claim,
    result: bytes,
    pages: int,
    price: int,
    tokens: int | None = None,
) -> bool:
    """Store the result, charge for the ``pages`` used, and end the operation.

    ``price`` is that of all of them; what was reserved beyond it goes back.
    """
    if not _holds(connection, job_id, claim):
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
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            state=JobState.COMPLETED,
            pages=pages,
            credits=price,
            reserved=0,
            completed_at=at,
            expires_at=at + RETENTION_S,
        )
    )
    note(connection, job_id, JobState.COMPLETED.value, at)
    webhook_outbox.tell_one(connection, job_id, JobState.COMPLETED.value, at)
    job_secrets.forget(connection, job_id)
    return True


def fail(connection: Connection, job_id: str, claim: Claim, error: str) -> bool:
    """End an operation that came to nothing; it costs nothing."""
    if not _holds(connection, job_id, claim):
        return False
    return jobs.end_job(connection, job_id, JobState.FAILED, error)


def _store_result(connection: Connection, job_id: str, result: bytes) -> None:
    connection.execute(
        update(operation)
        .where(operation.c.job_id == job_id)
        .values(result=zlib.compress(result, COMPRESSION))
    )


def orphans(connection: Connection) -> list[str]:
    """Return steps that go on although their operation has ended; it only reads."""
    parent = job.alias("parent")
    query = (
        select(job.c.id)
        .join(parent, parent.c.id == job.c.parent_id)
        .where(job.c.state.in_(ACTIVE), parent.c.state.not_in(ACTIVE))
    )
    return list(connection.scalars(query))


# -- what the steps brought; these only read ---------------------------------------------


def read_entries(connection: Connection, child_id: str, skip: int) -> list[Entry]:
    """Return pages of a step from the ``skip``-th delivered one, as they came.

    At most :data:`ENTRY_ROWS`, and :data:`ENTRY_BYTES` of them, but one if there is one.
    """
    rows = connection.execute(
        select(page.c.id, page.c.size, frontier.c.key)
        .join(frontier, frontier.c.id == page.c.frontier_id)
        .where(page.c.job_id == child_id, page.c.seq >= skip)
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
    return [Entry(numbers[row.id], zlib.decompress(row.body)) for row in bodies]


def read_failures(connection: Connection, child_id: str) -> list[Failure]:
    """Return the addresses of a step that could not be read, in the order asked for."""
    columns = frontier.c
    rows = connection.execute(
        select(columns.key, columns.url, columns.error)
        .where(columns.job_id == child_id, columns.state == RowState.FAILED)
        .order_by(columns.key)
    )
    return [Failure(row.key, row.url, row.error or "") for row in rows]
