"""The frontier of a job: claims, and the one transaction per page.

Functions take a connection inside a transaction of :meth:`Database.write_job`; those
that change rows of a job lock its row first. The law of
conservation: an address is in exactly one state, ``open`` counts the pending and leased
ones, ``done`` and ``failed`` the ended ones, and the counts on the job row change only
here, together with the rows. The limit belongs to this transaction too: an address is
pending only while open + delivered pages < limit.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from scraper_service.jobs.model import (
    ACTIVE,
    Claim,
    ClaimedRow,
    Commit,
    JobState,
    Link,
    Outcome,
    RowState,
)
from scraper_service.jobs.tables import event, frontier, job, ledger, page, worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Table

# Leases of one address that ended with their process. Pages are understood in processes
# of their own, so a page hardly ever ends this one; restarts in a row should fail none.
MAX_ATTEMPTS = 10
INSERT_ROWS = 500  # per statement; SQLite takes 32,766 parameters
RETENTION_S = 86_400  # after the last change of a job (interface document, 1.13)
_CLOCKS = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400",
}
COMPRESSION = 1  # of 9; three times smaller already, and five times faster


def now_of(connection: Connection) -> float:
    """Return the database's time: processes on several machines share leases."""
    clock = _CLOCKS[connection.dialect.name]
    return float(connection.scalar(text(clock)) or 0)


def claim(connection: Connection, job_id: str, owner: str, count: int) -> Claim:
    """Lease up to ``count`` pending addresses, the oldest first."""
    state = _lock(connection, job_id)
    if state not in ACTIVE:
        return Claim((), state)
    oldest = (
        select(frontier.c.id)
        .where(frontier.c.job_id == job_id, frontier.c.state == RowState.PENDING)
        .order_by(frontier.c.id)
        .limit(count)
        .with_for_update(skip_locked=True)
    )
    columns = (frontier.c[name] for name in ClaimedRow.__match_args__)
    rows = connection.execute(
        update(frontier)
        .where(frontier.c.id.in_(oldest.scalar_subquery()))
        .values(
            state=RowState.LEASED,
            owner=owner,
            token=frontier.c.token + 1,
            attempts=frontier.c.attempts + 1,
        )
        .returning(*columns)
    )
    # RETURNING has no order.
    return Claim(tuple(sorted((ClaimedRow(*row) for row in rows), key=_id)), state)


def _lock(connection: Connection, job_id: str) -> JobState:
    """Lock the row of a job; one that is gone counts as cancelled."""
    query = select(job.c.state).where(job.c.id == job_id).with_for_update()
    return JobState(connection.scalar(query) or JobState.CANCELLED)


def _id(row: ClaimedRow) -> int:
    return row.id


def release(
    connection: Connection, job_id: str, leases: Sequence[tuple[int, int]]
) -> None:
    """Give back leases, as (id, token), unused; that is no attempt."""
    _lock(connection, job_id)
    for row_id, token in leases:
        connection.execute(
            update(frontier)
            .where(
                frontier.c.id == row_id,
                frontier.c.token == token,
                frontier.c.state == RowState.LEASED,
            )
            .values(
                state=RowState.PENDING,
                owner=None,
                attempts=frontier.c.attempts - 1,
            )
        )


def beat(connection: Connection, owner: str, lease_s: float) -> None:
    """Keep the leases of ``owner`` for another ``lease_s`` seconds."""
    until = now_of(connection) + lease_s
    changed = connection.execute(
        update(worker).where(worker.c.id == owner).values(until=until)
    )
    if not changed.rowcount:
        connection.execute(insert(worker).values(id=owner, until=until))


def forget_workers(connection: Connection) -> None:
    """Delete the rows of processes that have been gone for long."""
    connection.execute(
        worker.delete().where(worker.c.until < now_of(connection) - RETENTION_S)
    )


def _lost(connection: Connection) -> ColumnElement[bool]:
    live = select(worker.c.id).where(worker.c.until >= now_of(connection))
    return and_(
        frontier.c.state == RowState.LEASED,
        frontier.c.owner.is_not(None),
        frontier.c.owner.not_in(live),
    )


def bereft_jobs(connection: Connection) -> list[str]:
    """Return the jobs with leases of processes that are gone."""
    query = select(frontier.c.job_id).where(_lost(connection)).distinct()
    return list(connection.scalars(query))


def reap(connection: Connection, job_id: str) -> int:
    """Return the leases of processes that are gone; tell how many addresses."""
    _lock(connection, job_id)
    columns = frontier.c
    lost = and_(columns.job_id == job_id, _lost(connection))
    poison = connection.execute(
        select(columns.id, columns.key, columns.token, columns.owner)
        .where(lost, columns.attempts >= MAX_ATTEMPTS)
        .order_by(columns.id)
    ).all()
    for row in poison:
        outcome = Outcome(
            row_id=row.id,
            key=row.key,
            token=row.token,
            owner=row.owner,
            page_id=_poison_id(row.id, row.token),
            code="SCRAPE_RETRY_LIMIT",
            error=f"The process ended {MAX_ATTEMPTS} times while it fetched this page.",
        )
        append(connection, job_id, outcome)
    returned = connection.execute(
        update(frontier).where(lost).values(state=RowState.PENDING, owner=None)
    )
    return returned.rowcount + len(poison)


def _poison_id(row_id: int, token: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row_id}/{token}"))


def append(connection: Connection, job_id: str, outcome: Outcome) -> Commit:
    """Store how the fetch of a leased address ended: all of it or nothing.

    Acknowledges the lease, lets new links and waiting addresses in as far as the limit
    has room, stores page, event and credits, and completes the job with its last row.
    """
    counts = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one_or_none()
    if counts is None or counts.state not in ACTIVE:
        state = JobState(counts.state) if counts else JobState.CANCELLED
        return Commit(accepted=False, delivered=False, state=state)
    at = now_of(connection)
    if not _acknowledge(connection, outcome, at):
        return Commit(accepted=False, delivered=False, state=JobState(counts.state))
    change = _Change(counts)
    delivered = outcome.page is not None and not _is_duplicate(
        connection, job_id, outcome, change
    )
    if outcome.page is None:
        change.failed += 1
    else:
        change.done += 1
    if delivered:
        _store_page(connection, job_id, outcome, change, at)
    new_links = _add(connection, job_id, outcome.links, change)
    _let_in(connection, job_id, change)
    state = change.write(connection, at)
    return Commit(True, delivered, state, new_links)


class _Change:
    """The counts of a job row while a transaction changes them."""

    def __init__(self, row: Row[Any]):
        self.job_id: str = row.id
        self.team_id: str = row.team_id
        self.limit: int | None = row.page_limit
        self.open: int = row.open - 1
        self.done: int = row.done
        self.failed: int = row.failed
        self.pages: int = row.pages
        self.held: int = row.held
        self.bytes: int = row.bytes
        self.credits: int = row.credits

    @property
    def room(self) -> int | None:
        """Addresses that may become pending, None for any number."""
        if self.limit is None:
            return None
        return max(0, self.limit - self.open - self.pages)

    def write(self, connection: Connection, at: float) -> JobState:
        state = JobState.SCRAPING if self.open else JobState.COMPLETED
        ended = {"completed_at": at} if state is JobState.COMPLETED else {}
        connection.execute(
            update(job)
            .where(job.c.id == self.job_id)
            .values(
                state=state,
                open=self.open,
                done=self.done,
                failed=self.failed,
                pages=self.pages,
                held=self.held,
                bytes=self.bytes,
                credits=self.credits,
                expires_at=at + RETENTION_S,
                **ended,
            )
        )
        if state is JobState.COMPLETED:
            note(connection, self.job_id, "completed", at)
        return state


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


def _acknowledge(connection: Connection, outcome: Outcome, at: float) -> bool:
    state = RowState.FAILED if outcome.page is None else RowState.DONE
    changed = connection.execute(
        update(frontier)
        .where(
            frontier.c.id == outcome.row_id,
            frontier.c.token == outcome.token,
            frontier.c.owner == outcome.owner,
            frontier.c.state == RowState.LEASED,
        )
        .values(
            state=state,
            owner=None,
            page_id=outcome.page_id,
            code=outcome.code,
            error=outcome.error,
            ended_at=at,
        )
    )
    return changed.rowcount == 1


def _is_duplicate(
    connection: Connection, job_id: str, outcome: Outcome, change: _Change
) -> bool:
    """Tell whether the page was redirected to one that the job has anyhow."""
    if outcome.final_key is None or outcome.final_key == outcome.key:
        return False
    other = connection.execute(
        select(frontier.c.id, frontier.c.state).where(
            frontier.c.job_id == job_id, frontier.c.key == outcome.final_key
        )
    ).one_or_none()
    if other is None:
        values = {"job_id": job_id, "key": outcome.final_key, "url": "", "depth": 0}
        connection.execute(insert(frontier).values(state=RowState.ALIAS, **values))
        return False
    if other.state in {RowState.DONE, RowState.LEASED, RowState.ALIAS}:
        connection.execute(
            update(frontier)
            .where(frontier.c.id == outcome.row_id)
            .values(code="DUPLICATE", error=f"duplicate of row {other.id}")
        )
        return True
    if other.state in {RowState.PENDING, RowState.HELD}:
        connection.execute(
            update(frontier)
            .where(frontier.c.id == other.id)
            .values(state=RowState.ALIAS, code="DUPLICATE")
        )
        change.open -= other.state == RowState.PENDING
        change.held -= other.state == RowState.HELD
    return False


def _store_page(
    connection: Connection, job_id: str, outcome: Outcome, change: _Change, at: float
) -> None:
    assert outcome.page is not None
    connection.execute(
        insert(page).values(
            id=outcome.page_id,
            job_id=job_id,
            seq=change.pages,
            start=change.bytes,
            size=len(outcome.page),
            frontier_id=outcome.row_id,
            body=zlib.compress(outcome.page, COMPRESSION),
        )
    )
    note(connection, job_id, "page", at, outcome.page_id)
    connection.execute(
        insert(ledger).values(
            page_id=outcome.page_id,
            team_id=change.team_id,
            job_id=job_id,
            credits=outcome.credits,
            at=at,
        )
    )
    change.pages += 1
    change.bytes += len(outcome.page)
    change.credits += outcome.credits


def _add(
    connection: Connection, job_id: str, links: Sequence[Link], change: _Change
) -> int:
    """Add addresses that are new; return how many."""
    if not links:
        return 0
    fits = change.room is None or len(links) <= change.room
    state = RowState.PENDING if fits else RowState.HELD
    added = insert_links(connection, job_id, links, state)
    if fits:
        change.open += added
    else:
        change.held += added
    return added


def dialect_insert(connection: Connection, table: Table) -> Any:
    """Return an insert that knows what to do on a conflict."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def insert_links(
    connection: Connection, job_id: str, links: Sequence[Link], state: RowState
) -> int:
    """Insert addresses whose key the job does not have yet; return how many."""
    added = 0
    for first in range(0, len(links), INSERT_ROWS):
        rows = [
            {
                "job_id": job_id,
                "key": link.key,
                "url": link.url,
                "depth": link.depth,
                "options": link.options,
                "state": state,
            }
            for link in links[first : first + INSERT_ROWS]
        ]
        insertion = dialect_insert(connection, frontier).values(rows)
        statement = insertion.on_conflict_do_nothing()
        # The driver of PostgreSQL has no row count for an insert of many rows.
        new = connection.execute(statement.returning(frontier.c.id))
        added += len(new.all())
    return added


def _let_in(connection: Connection, job_id: str, change: _Change) -> None:
    """Make waiting addresses pending, the oldest first, while there is room."""
    room = change.room
    if not change.held or not room:
        return
    oldest = (
        select(frontier.c.id)
        .where(frontier.c.job_id == job_id, frontier.c.state == RowState.HELD)
        .order_by(frontier.c.id)
        .limit(room)
    )
    let_in = connection.execute(
        update(frontier)
        .where(frontier.c.id.in_(oldest.scalar_subquery()))
        .values(state=RowState.PENDING)
    ).rowcount
    change.held -= let_in
    change.open += let_in
