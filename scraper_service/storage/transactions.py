"""Shared parts of transactions: what they lock, the clock, deletion in slices."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, insert, select, text, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from scraper_service.storage.job_records import JobState
from scraper_service.storage.schema import event, frontier, job, worker
from scraper_service.storage.statements import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import (
        BindParameter,
        ClauseElement,
        ColumnElement,
        Connection,
        Row,
        ScalarSelect,
        Table,
    )

    from scraper_service.storage.job_records import RowState

FunctionT = TypeVar("FunctionT", bound="Callable[..., Any]")

RETENTION_S = 86_400  # after the last change of a job, unless its caller chose another


class Locking(NamedTuple):
    """What a transaction locks, and where it runs; see :func:`transaction`."""

    #: Format of the name of the lock, empty without a lock.
    name: str = ""
    is_row: bool = False
    is_apart: bool = False
    #: Names of the arguments, for ``name``.
    parameters: tuple[str, ...] = ()

    def name_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the name of the lock of a call with these arguments."""
        if not self.parameters:
            return self.name
        return self.name.format(
            **dict(zip(self.parameters, args, strict=False)), **kwargs
        )


def transaction(
    *, first: str = "", row: str = "", apart: bool = False
) -> Callable[[FunctionT], FunctionT]:
    """Declare what a function locks, for :class:`~scraper_service.storage.database.Database`.

    ``first`` and ``row`` name the lock by the arguments of the function, such as
    ``"{job_id}"``. ``first`` is the id of a team, or starts with the id; it may also be a
    name of work that no two threads do at a time. ``row`` is a job, a host or a source.
    All processes lock in the same order: names of ``first`` before those of ``row``, each
    in alphabetic order. The row of a job is locked before its other rows.

    A function that runs ``apart`` has a transaction of its own in another thread on
    PostgreSQL; SQLite has one writer at a time. With a name, it may wait long for locks.
    Without a name, it must be idempotent, and must not lock rows that others need, since
    readers wait for its thread.
    """

    def declare(function: FunctionT) -> FunctionT:
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        name = f"!{first}" if first else row  # before all ids and hosts
        parameters = code.co_varnames[1:count] if "{" in name else ()
        locking = Locking(name, bool(row), apart, parameters)
        function.__dict__["locking"] = locking
        return function

    return declare


def locking_of(function: Callable[..., Any]) -> Locking:
    """Return what :func:`transaction` declares for a function, else no lock."""
    found: Locking = getattr(function, "locking", _NO_LOCK)
    return found


_NO_LOCK = Locking()


#: Seconds. A lease, turn or pause that ends later was stored before the clock was set back,
#: and has ended.
FARTHEST_S = 3600.0


def now_of(connection: Connection) -> float:
    """Return the time of the database, since processes of many machines share leases."""
    if connection.dialect.name == "sqlite":
        return time.time()  # its processes are on one machine
    clock = text("SELECT extract(epoch FROM clock_timestamp())")
    return float(connection.scalar(clock) or 0)


_READ = select(
    *(job.c.state, job.c.base, job.c.page_price),
    *(job.c.revision, job.c.paused_at, job.c.copying, job.c.number),
).where(job.c.id == bindparam("job_id"))
_NUMBER = select(job.c.number).where(job.c.id == bindparam("job_id"))
_NOTE = Statement(
    insert(event).values(
        job_number=_NUMBER.scalar_subquery(),
        **{name: bindparam(name) for name in ("kind", "at", "detail")},
    )
)
_LOOK = Statement(_READ)
_LOCK = Statement(_READ.with_for_update())
_LOCK_SHARED = Statement(_READ.with_for_update(key_share=True, read=True))
_TRY_LOCK = Statement(_READ.with_for_update(skip_locked=True))


class LockedJob(NamedTuple):
    """Facts of a job that are read with its lock."""

    state: JobState
    base: str | None = None
    page_price: int | None = None
    revision: int = 0
    paused_at: float | None = None
    copying: str | None = None
    number: int = 0


def lock_job(connection: Connection, job_id: str) -> LockedJob:
    """Lock the row of a job. A job without a row counts as cancelled."""
    found = _LOCK.one(connection, {"job_id": job_id})
    return LockedJob(JobState(found[0]), *found[1:]) if found else _LOST


def look_at_job(connection: Connection, job_id: str) -> LockedJob:
    """Return the facts of a job without a lock. A job without a row counts as cancelled."""
    found = _LOOK.one(connection, {"job_id": job_id})
    return LockedJob(JobState(found[0]), *found[1:]) if found else _LOST


def lock_job_shared(connection: Connection, job_id: str) -> LockedJob:
    """Lock the row of a job against changes by its caller, but not against commits.

    Many transactions may have this lock at a time, and one more may store pages of the job.
    """
    found = _LOCK_SHARED.one(connection, {"job_id": job_id})
    return LockedJob(JobState(found[0]), *found[1:]) if found else _LOST


def try_lock_job(connection: Connection, job_id: str) -> LockedJob | None:
    """Lock the row of a job without a wait. Return None if it is locked or gone."""
    found = _TRY_LOCK.one(connection, {"job_id": job_id})
    return LockedJob(JobState(found[0]), *found[1:]) if found else None


_LOST = LockedJob(JobState.CANCELLED)


def number_of(job_id: str | BindParameter[str]) -> ScalarSelect[int]:
    """Return the number of a job for a statement on a table with ``job_number``.

    The statement reads it once, from the index of the ids of jobs.
    """
    return select(job.c.number).where(job.c.id == job_id).scalar_subquery()


def read_number(connection: Connection, job_id: str) -> int:
    """Return the number of a job, 0 without one, which no job has."""
    return int(connection.scalar(_NUMBER, {"job_id": job_id}) or 0)


def inline(number: int) -> BindParameter[int]:
    """Return ``number`` as a literal in the text of a statement.

    PostgreSQL plans prepared statements without their parameters. With a parameter it
    would not use a partial index, and would not know that a limit is small.
    """
    return bindparam(None, int(number), literal_execute=True, unique=True)


def rows_in(job_id: str, state: RowState, after: int = 0) -> list[ColumnElement[bool]]:
    """Return the conditions for a job's rows in ``state``, with ids above ``after``.

    With :data:`IN_ORDER` the rows are read through the index of job, state and id, even
    with outdated statistics. The condition is ``BETWEEN``, since with ``=`` the primary key
    has the same order: PostgreSQL might scan it and read all rows that ever had the state.
    """
    columns = frontier.c
    found = [
        columns.job_number == number_of(job_id),
        columns.state.between(inline(state), inline(state)),
    ]
    if after:
        place = tuple_(inline(state), after)
        found.append(tuple_(columns.state, columns.id) > place)
    return found


#: The order for :func:`rows_in`: the oldest row first.
IN_ORDER = (frontier.c.state, frontier.c.id)


def delete_some(
    connection: Connection,
    table: Table,
    *where: ColumnElement[bool],
    limit: int,
    skips_locked: bool = False,
) -> int:
    """Delete up to ``limit`` rows. Return the number of deleted rows.

    ``skips_locked`` leaves out rows that another transaction has locked. Services that
    delete at the same time then never wait for each other.
    """
    which = _some(table, where, limit, skips_locked=skips_locked)
    return connection.execute(delete(table).where(which)).rowcount


def take_some(
    connection: Connection,
    table: Table,
    *where: ColumnElement[bool],
    limit: int,
    columns: Sequence[ColumnElement[Any]],
) -> Sequence[Row[Any]]:
    """Delete up to ``limit`` rows that nobody has locked. Return their ``columns``."""
    which = _some(table, where, limit, skips_locked=True)
    return connection.execute(delete(table).where(which).returning(*columns)).all()


def _some(
    table: Table,
    where: Sequence[ColumnElement[bool]],
    limit: int,
    *,
    skips_locked: bool,
) -> ColumnElement[bool]:
    keys = list(table.primary_key)
    some = select(*keys).where(*where).limit(inline(limit))
    if skips_locked:
        some = some.with_for_update(skip_locked=True)
    key = tuple_(*keys) if len(keys) > 1 else keys[0]
    return key.in_(some)


def note(
    connection: Connection,
    job_id: str,
    kind: str,
    at: float,
    detail: str | None = None,
) -> None:
    """Insert an event of a job. ``detail`` is JSON."""
    row = {"job_id": job_id, "kind": kind, "at": at, "detail": detail}
    _NOTE.run(connection, row)


def dialect_insert(connection: Connection, table: Table) -> Any:
    """Return an insert of the dialect, which supports ``ON CONFLICT``."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, object]],
    adds: str | None = None,
) -> None:
    """Insert rows. A row with a known primary key changes the stored row instead.

    All rows have the same columns, and other columns of a stored row stay. Values of the
    column ``adds`` are added to the stored values.
    """
    if rows:
        _upsert(table, tuple(rows[0]), adds).run_many(connection, rows)


@cache
def _upsert(table: Table, columns: tuple[str, ...], adds: str | None) -> Statement:
    def make(connection: Connection) -> ClauseElement:
        statement = dialect_insert(connection, table)
        statement = statement.values({name: bindparam(name) for name in columns})
        keys = [column.name for column in table.primary_key]
        changed = {
            name: statement.excluded[name] for name in columns if name not in keys
        }
        if adds is not None:
            changed[adds] += table.c[adds]
        found: ClauseElement = statement.on_conflict_do_update(
            index_elements=keys, set_=changed
        )
        return found

    return Statement(make)


def is_late(connection: Connection, owner: str) -> bool:
    """Return True if a process has a row in the table of workers that has ended.

    It slept for longer than its leases. Until its next heartbeat it takes nothing, since others
    would take that over at once.
    """
    until = connection.scalar(select(worker.c.until).where(worker.c.id == owner))
    return until is not None and until < now_of(connection)
