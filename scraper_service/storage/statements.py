"""Statements that are compiled once and run by the driver: those of each page.

SQLAlchemy takes 20 µs or more for each call of a statement, and SQLite one or two. The
other statements of the package need no such care.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, bindparam, insert, literal_column
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import ClauseElement, ColumnElement, Connection, Table

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
