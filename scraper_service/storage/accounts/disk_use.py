"""The bytes that teams have stored: pages, kept responses, files, uploads, results.

They are counted as they are stored, compressed. The sum of a team's rows is its use. A
transaction that stores or deletes adds a row, so no transaction waits for another one of
the team. :func:`fold` joins the rows of a team to one. The bytes of a job stand on its row
too, and are freed at once when the job is deleted or has expired.

Links, events and logs of jobs, the page cache, the page index and snapshots do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, exists, func, select, update

from scraper_service.errors import DiskQuotaExceeded
from scraper_service.options.jobs import CRAWLED
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.schema import disk_use, job, team
from scraper_service.storage.transactions import Insertion, Statement, now_of, take_some

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

MIB = 2**20
MAX_FOLDED = 10_000  # rows in one transaction

_ADD = Insertion(disk_use, "team_id", "bytes")
_USED = Statement(
    select(func.coalesce(func.sum(disk_use.c.bytes), 0).label("bytes")).where(
        disk_use.c.team_id == bindparam("team")
    )
)


def add(connection: Connection, team_id: str, size: int) -> None:
    """Count bytes that were stored, or deleted if ``size`` is negative. Locks nothing."""
    if size:
        _ADD.run(connection, {"team_id": team_id, "bytes": size})


def add_to_job(connection: Connection, job_id: str, size: int) -> None:
    """Count bytes of a job, whose row it locks. A job that is gone counts nothing."""
    team_id = connection.scalar(
        update(job)
        .where(job.c.id == job_id)
        .values(stored=job.c.stored + size)
        .returning(job.c.team_id)
    )
    if team_id is not None:
        add(connection, team_id, size)


def take_expired(connection: Connection, table: Table, size: ColumnElement[int]) -> int:
    """Delete some expired rows of teams, whose bytes count no more. Return their number."""
    is_old = table.c.expires_at <= now_of(connection)
    rows = take_some(connection, table, is_old, columns=(table.c.team_id, size))
    for team_id, freed in rows:
        if team_id is not None:
            add(connection, team_id, -freed)
    return len(rows)


def free_job(connection: Connection, job_id: str) -> None:
    """Stop to count a job that is being deleted. Its row is locked."""
    row = connection.execute(
        select(job.c.team_id, job.c.stored).where(job.c.id == job_id)
    ).one_or_none()
    if row is not None and row.stored:
        connection.execute(update(job).where(job.c.id == job_id).values(stored=0))
        add(connection, row.team_id, -row.stored)


def read_used(connection: Connection, team_id: str) -> int:
    """Return the bytes that a team has stored."""
    return int(_USED.one(connection, {"team": team_id}).bytes)


def refusal(
    connection: Connection, team_id: str, limit: int | None
) -> DiskQuotaExceeded | None:
    """Return the error of a team that has stored ``limit`` bytes, None if it has not."""
    if limit is None or (found := read_used(connection, team_id)) < limit:
        return None
    return DiskQuotaExceeded(found, limit)


def refusal_of(
    connection: Connection, team_id: str, usual_mb: int
) -> DiskQuotaExceeded | None:
    """Do as :func:`refusal` with the quota of the team.

    ``usual_mb`` is the quota in MiB of teams without one of their own, 0 for none.
    """
    own_mb = connection.scalar(select(team.c.disk_mb).where(team.c.id == team_id))
    most_mb = usual_mb if own_mb is None else own_mb
    return refusal(connection, team_id, most_mb * MIB if most_mb else None)


def full_teams(connection: Connection, usual_mb: int) -> list[tuple[str, int]]:
    """Return the teams with running jobs and no disk space left, with their quotas in bytes.

    ``usual_mb`` is the quota in MiB of teams without one of their own, 0 for none.
    """
    is_running = exists().where(
        job.c.team_id == team.c.id,
        job.c.state.in_(ACTIVE),
        job.c.paused_at.is_(None),
    )
    query = select(team.c.id, func.coalesce(team.c.disk_mb, usual_mb).label("most"))
    limited = func.coalesce(team.c.disk_mb, usual_mb) > 0
    return [
        (row.id, row.most * MIB)
        for row in connection.execute(query.where(limited, is_running))
        if read_used(connection, row.id) >= row.most * MIB
    ]


def running_jobs(connection: Connection, team_id: str) -> list[str]:
    """Return the ids of the crawls and batches of a team that are not paused."""
    query = select(job.c.id).where(
        job.c.team_id == team_id,
        job.c.state.in_(ACTIVE),
        job.c.paused_at.is_(None),
        job.c.parent_id.is_(None),
        job.c.kind.in_(CRAWLED),
    )
    return list(connection.scalars(query))


def fold(connection: Connection) -> int:
    """Join rows of a team with many rows to one. Return their number, 0 at the end.

    Rows that another process is joining are left out.
    """
    team_id = connection.scalar(
        select(disk_use.c.team_id)
        .group_by(disk_use.c.team_id)
        .having(func.count() > 1)
        .order_by(func.count().desc())
        .limit(1)
    )
    if team_id is None:
        return 0
    some = (
        select(disk_use.c.id)
        .where(disk_use.c.team_id == team_id)
        .order_by(disk_use.c.id)
        .limit(MAX_FOLDED)
        .with_for_update(skip_locked=True)
    )
    sizes = connection.scalars(
        delete(disk_use).where(disk_use.c.id.in_(some)).returning(disk_use.c.bytes)
    ).all()
    if sizes:
        _ADD.run(connection, {"team_id": team_id, "bytes": sum(sizes)})
    # Another process has the other rows if there was one row only.
    return len(sizes) if len(sizes) > 1 else 0
