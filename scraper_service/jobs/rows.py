"""What the transactions of jobs share: the clock, the lock of a job, its events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, insert, select, text
from sqlalchemy.dialects import postgresql, sqlite

from scraper_service.jobs.model import JobState
from scraper_service.jobs.tables import event, job

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

RETENTION_S = 86_400  # after the last change of a job (interface document, 1.13)


def now_of(connection: Connection) -> float:
    """Return the database's time: processes on several machines share leases."""
    if connection.dialect.name == "sqlite":
        return time.time()  # its processes are on one machine
    clock = text("SELECT extract(epoch FROM clock_timestamp())")
    return float(connection.scalar(clock) or 0)


_LOCK = (
    select(job.c.state, job.c.base, job.c.page_price)
    .where(job.c.id == bindparam("job_id"))
    .with_for_update()
)


class LockedJob(NamedTuple):
    """What is read of a job with its lock."""

    state: JobState
    base: str | None = None
    page_price: int | None = None


def lock_job(connection: Connection, job_id: str) -> LockedJob:
    """Lock the row of a job; a lost one counts as cancelled."""
    found = connection.execute(_LOCK, {"job_id": job_id}).one_or_none()
    return LockedJob(JobState(found[0]), *found[1:]) if found else _LOST


_LOST = LockedJob(JobState.CANCELLED)


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
