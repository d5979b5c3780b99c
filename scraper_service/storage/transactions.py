"""Shared parts of transactions: statements, what they lock, the clock, deletion in slices.

A :class:`Statement` is compiled once and run by the driver, as those of each page are.
SQLAlchemy takes 20 µs or more for each call of a statement, and SQLite one or two. The
other statements of the package need no such care.
"""

from __future__ import annotations

import time
from collections import namedtuple
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import (
    Integer,
    bindparam,
    delete,
    insert,
    literal_column,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Select

from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.schema import event, frontier, job, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import (
        BindParameter,
        ClauseElement,
        ColumnElement,
        Connection,
        ScalarSelect,
        Table,
    )

    from scraper_service.storage.job_records import RowState


# -- statements of each page ---------------------------------------------------------

_SQLITE = sqlite.dialect(paramstyle="named")  # the values are mappings


class Statement:
    """A statement with named parameters, compiled at its first use in each dialect.

    ``make`` returns the statement for a connection, or is the statement. Values of parameters
    and of results are those of the driver: the types of their columns convert nothing. An
    expanding parameter (``IN``) is not supported. Errors are those of SQLAlchemy.
    """

    def __init__(self, make: ClauseElement | Callable[[Connection], ClauseElement]):
        self._make = make
        #: Text and values of the statement itself, by dialect.
        self._compiled: dict[str, tuple[str, dict[str, Any]]] = {}
        self._row: Callable[[Sequence[Any]], Any] = tuple
        if isinstance(make, Select):
            names = [str(column.key) for column in make.selected_columns]
            row = namedtuple("Row", names)  # type: ignore[misc]  # noqa: PYI024
            self._row = row._make

    def run(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Run the statement. Return the number of changed rows."""
        return int(self._execute(connection, values).rowcount)

    def run_many(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]]
    ) -> int:
        """Run the statement for each row. Return the number of changed rows."""
        if not rows:
            return 0
        text, own = self._compile_for(connection)
        return execute_many(
            connection, text, [{**own, **row} for row in rows] if own else rows
        )

    def all(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows: named tuples of a ``SELECT``, and tuples of ``RETURNING``."""
        return list(map(self._row, self._execute(connection, values).fetchall()))

    def one(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """Return the first row, None without a row."""
        row = self._execute(connection, values).fetchone()
        return None if row is None else self._row(row)

    def _execute(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        text, own = self._compile_for(connection)
        return execute(connection, text, {**own, **values} if own else values)

    def _compile_for(self, connection: Connection) -> tuple[str, dict[str, Any]]:
        name = connection.dialect.name
        if name not in self._compiled:
            made = self._make(connection) if callable(self._make) else self._make
            compiled: Any = made.compile(
                dialect=_SQLITE if name == "sqlite" else connection.dialect
            )
            own = {
                k: bind.value for k, bind in compiled.binds.items() if not bind.required
            }
            self._compiled[name] = str(compiled), own
        return self._compiled[name]


def constant(number: int) -> ColumnElement[int]:
    """Return ``number`` in the text of a statement that is compiled once.

    PostgreSQL plans prepared statements without their parameters: with a parameter it would
    not use a partial index, and would not know that a limit is small.
    """
    return literal_column(str(int(number)), Integer)


def execute(connection: Connection, text: str, values: Any = ()) -> Any:
    """Run SQL of the driver. Return its cursor."""
    driver = _driver(connection)
    try:
        return driver.execute(text, values)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _error(connection, text, error) from error


def execute_many(connection: Connection, text: str, rows: Sequence[Any]) -> int:
    """Run SQL of the driver for each row. Return the number of changed rows."""
    driver = _driver(connection)
    try:
        cursor = driver.cursor()
        if connection.dialect.name == "sqlite":
            cursor.executemany(text, rows)
            return int(cursor.rowcount)
        # A batch of psycopg is a pipeline. The time-outs of the server do not end it, so the
        # locks of a process that stops inside would remain.
        count = 0
        for row in rows:
            cursor.execute(text, row)
            count += cursor.rowcount
    except connection.dialect.loaded_dbapi.Error as error:
        raise _error(connection, text, error) from error
    return int(count)


def _driver(connection: Connection) -> Any:
    """Return the connection of the driver, in a transaction."""
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.driver_connection


def _error(connection: Connection, text: str, error: Any) -> BaseException:
    """Return the error of SQLAlchemy for one of the driver.

    Without the values, since operators read it. Drops an ended connection.
    """
    dialect = connection.dialect
    driver: Any = connection.connection.driver_connection
    ended = dialect.is_disconnect(error, driver, None)
    if ended:
        connection.invalidate(error)
    found: BaseException = DBAPIError.instance(
        text,
        None,
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=ended,
        dialect=dialect,
    )
    return found


class Insertion(Statement):
    """An ``INSERT`` of rows with these columns. On PostgreSQL many rows are one statement."""

    def __init__(self, table: Table, *columns: str):
        super().__init__(
            insert(table).values({name: bindparam(name) for name in columns})
        )
        self._table = table
        self._columns = columns
        self._of_many: str | None = None

    def run_many(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]]
    ) -> int:
        if len(rows) < 2 or connection.dialect.name == "sqlite":
            return super().run_many(connection, rows)
        if self._of_many is None:
            names = ", ".join(self._columns)
            given = arrays(connection, self._table, self._columns)
            # Rows keep their order, by which their ids rise.
            self._of_many = (
                f"INSERT INTO {self._table.name} ({names})"  # noqa: S608  # of names
                f" SELECT * FROM unnest({given})"
            )
        return run_together(connection, self._of_many, self._columns, rows)


def arrays(connection: Connection, table: Table, columns: Sequence[str]) -> str:
    """Return the parameters of ``unnest`` for values of columns, on PostgreSQL."""
    return ", ".join(
        # In binary form: the text of an array would double the bytes of a page.
        f"%({name})b::{table.c[name].type.compile(connection.dialect)}[]"
        for name in columns
    )


def run_together(
    connection: Connection,
    text: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> int:
    """Run SQL with :func:`arrays` for all rows at once. Return the changed rows."""
    values = {name: [row[name] for row in rows] for name in columns}
    return int(execute(connection, text, values).rowcount)


# -- what a transaction locks --------------------------------------------------------

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
    return getattr(function, "locking", Locking())


# -- the clock, and rows of jobs -----------------------------------------------------

#: Seconds. A lease, start or pause that ends later was stored before the clock was set back,
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
    return _read_locked(_LOCK, connection, job_id) or _LOST


def look_at_job(connection: Connection, job_id: str) -> LockedJob:
    """Return the facts of a job without a lock. A job without a row counts as cancelled."""
    return _read_locked(_LOOK, connection, job_id) or _LOST


def lock_job_shared(connection: Connection, job_id: str) -> LockedJob:
    """Lock the row of a job against changes by its caller, but not against commits.

    Many transactions may have this lock at a time, and one more may store pages of the job.
    """
    return _read_locked(_LOCK_SHARED, connection, job_id) or _LOST


def try_lock_job(connection: Connection, job_id: str) -> LockedJob | None:
    """Lock the row of a job without a wait. Return None if it is locked or gone."""
    return _read_locked(_TRY_LOCK, connection, job_id)


def _read_locked(
    statement: Statement, connection: Connection, job_id: str
) -> LockedJob | None:
    found = statement.one(connection, {"job_id": job_id})
    return LockedJob(JobState(found[0]), *found[1:]) if found else None


_LOST = LockedJob(JobState.CANCELLED)


def is_stored(now: float) -> ColumnElement[bool]:
    """Return the condition for jobs that have not expired. Active jobs do not expire."""
    return or_(job.c.state.in_(ACTIVE), job.c.expires_at > now)


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
        position = tuple_(inline(state), after)
        found.append(tuple_(columns.state, columns.id) > position)
    return found


#: The order for :func:`rows_in`: the oldest row first.
IN_ORDER = (frontier.c.state, frontier.c.id)


# -- rows of any table ---------------------------------------------------------------


class ListPosition(NamedTuple):
    """The position of a row in a list that is ordered by time, such as of a team's calls."""

    #: Seconds since 1970.
    at: float
    id: str


def count_fitting(sizes: Sequence[int], most: int) -> int:
    """Return how many rows have at most ``most`` bytes, but at least one if there is one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if count and total > most:
            return count
    return len(sizes)


EXPIRE_ROWS = 1000  # deleted in one transaction
VALUES_AT_ONCE = 500  # in one statement


def delete_some(
    connection: Connection,
    table: Table,
    *where: ColumnElement[bool],
    limit: int | None = None,
    skips_locked: bool = True,
) -> int:
    """Delete up to ``limit`` rows, by default :data:`EXPIRE_ROWS`. Return their number.

    ``skips_locked`` leaves out rows that another transaction has locked. Services that
    delete at the same time then never wait for each other.
    """
    which = _some(table, where, limit or EXPIRE_ROWS, skips_locked=skips_locked)
    return connection.execute(delete(table).where(which)).rowcount


def take_some(
    connection: Connection,
    table: Table,
    *where: ColumnElement[bool],
    columns: Sequence[ColumnElement[Any]],
) -> Sequence[Any]:
    """Delete some rows that nobody has locked. Return their ``columns``."""
    which = _some(table, where, EXPIRE_ROWS, skips_locked=True)
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


def find_stored(
    connection: Connection, column: ColumnElement[Any], values: Sequence[Any]
) -> set[Any]:
    """Return which of some values a column has."""
    stored: set[Any] = set()
    for first in range(0, len(values), VALUES_AT_ONCE):
        some = values[first : first + VALUES_AT_ONCE]
        stored.update(connection.scalars(select(column).where(column.in_(some))))
    return stored


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


def live_workers(now: float | BindParameter[float]) -> Select[tuple[str]]:
    """Return the ids of the processes whose leases last ``now``, for a statement."""
    return select(worker.c.id).where(worker.c.until >= now)


def is_late(connection: Connection, owner: str) -> bool:
    """Return True if a process has a row in the table of workers that has ended.

    It slept for longer than its leases. Until its next heartbeat it takes nothing, since others
    would take that over at once.
    """
    until = connection.scalar(select(worker.c.until).where(worker.c.id == owner))
    return until is not None and until < now_of(connection)
