"""What the transactions of jobs share: the clock, the lock of a job, its events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, delete, insert, select, text, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from scraper_service.storage.job_records import JobState
from scraper_service.storage.schema import event, frontier, job

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ColumnElement, Connection, Table

    from scraper_service.storage.job_records import RowState

RETENTION_S = 86_400  # after the last change of a job (interface document, 1.13)


def now_of(connection: Connection) -> float:
    """Return the database's time: processes on several machines share leases."""
    if connection.dialect.name == "sqlite":
        return time.time()  # its processes are on one machine
    clock = text("SELECT extract(epoch FROM clock_timestamp())")
    return float(connection.scalar(clock) or 0)


_READ = select(job.c.state, job.c.base, job.c.page_price).where(
    job.c.id == bindparam("job_id")
)
_LOCK = _READ.with_for_update()
_TRY_LOCK = _READ.with_for_update(skip_locked=True)


class LockedJob(NamedTuple):
    """What is read of a job with its lock."""

    state: JobState
    base: str | None = None
    page_price: int | None = None


def lock_job(connection: Connection, job_id: str) -> LockedJob:
    """Lock the row of a job; a lost one counts as cancelled."""
    found = connection.execute(_LOCK, {"job_id": job_id}).one_or_none()
    return LockedJob(JobState(found[0]), *found[1:]) if found else _LOST


def try_lock_job(connection: Connection, job_id: str) -> LockedJob | None:
    """Lock the row of a job; None, without a wait, if it is lost or locked."""
    found = connection.execute(_TRY_LOCK, {"job_id": job_id}).one_or_none()
    return LockedJob(JobState(found[0]), *found[1:]) if found else None


_LOST = LockedJob(JobState.CANCELLED)


def written(number: int) -> BindParameter[int]:
    """Return ``number`` as a part of the text of a statement.

    PostgreSQL plans a statement that it has prepared without its parameters: it knows
    neither that a partial index fits, nor that a limit is small.
    """
    return bindparam(None, int(number), literal_execute=True, unique=True)


def rows_in(job_id: str, state: RowState, after: int = 0) -> list[ColumnElement[bool]]:
    """Return the conditions of a job's rows in ``state``, behind the row ``after``.

    With :data:`IN_ORDER` they are read in the index of job, state and id, whatever the
    statistics say. With one state *equal* to a number, the primary key would have the
    same order: PostgreSQL would take it where the statistics are old, and read all rows
    that were in that state before.
    """
    columns = frontier.c
    found = [
        columns.job_id == job_id,
        columns.state.between(written(state), written(state)),
    ]
    if after:
        place = tuple_(written(state), after)
        found.append(tuple_(columns.state, columns.id) > place)
    return found


#: The order of :func:`rows_in`: the oldest row first.
IN_ORDER = (frontier.c.state, frontier.c.id)


def delete_some(
    connection: Connection,
    table: Table,
    *where: ColumnElement[bool],
    limit: int,
    skips_locked: bool = False,
) -> int:
    """Delete up to ``limit`` rows; return how many.

    With ``skips_locked`` rows that another transaction has locked are left out:
    services that delete at once wait for nobody, and never in a circle.
    """
    keys = list(table.primary_key)
    some = select(*keys).where(*where).limit(written(limit))
    if skips_locked:
        some = some.with_for_update(skip_locked=True)
    key = tuple_(*keys) if len(keys) > 1 else keys[0]
    return connection.execute(delete(table).where(key.in_(some))).rowcount


def note(
    connection: Connection,
    job_id: str,
    kind: str,
    at: float,
    page_id: str | None = None,
) -> None:
    """Write an event of a job."""
    connection.execute(
        insert(event).values(job_id=job_id, kind=kind, page_id=page_id, at=at)
    )


def dialect_insert(connection: Connection, table: Table) -> Any:
    """Return an insert that knows what to do on a conflict."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)
