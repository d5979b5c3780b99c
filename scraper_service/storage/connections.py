"""How to connect to the job database: ``DATABASE_URL``, time-outs, and kinds of errors.

Texts for operators never contain the password. ``database.py`` opens the connections.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import frozen
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from scraper_service.errors import DatabaseUnusable, ServiceUnavailable
from scraper_service.storage.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sqlalchemy import Connection, Engine

POSTGRESQL = "postgresql+psycopg"
SQLITE_FILE = "jobs.sqlite"  # in DATA_DIR
DRIVERS = {
    "postgres": POSTGRESQL,
    "postgresql": POSTGRESQL,
    POSTGRESQL: POSTGRESQL,
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}
_FORM = "SCRAPER_DATABASE_URL must be postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///FILE"
_MALFORMED = (
    f"{_FORM}; it is malformed. A user or a password with special characters is"
    " percent-encoded: @ is %40, : is %3A, / is %2F, # is %23"
)
_NO_DRIVER = (
    "SCRAPER_DATABASE_URL names a PostgreSQL database, but its driver psycopg is not installed:"
    " pip install 'scraper-service[postgres]'"
)


def database_url(setting: str, data_dir: Path) -> URL:
    """Return the URL of the job database. An empty setting is SQLite in ``data_dir``.

    Raises :exc:`DatabaseUnusable` for an unsupported URL.
    """
    if not setting:
        return URL.create("sqlite", database=str(data_dir / SQLITE_FILE))
    scheme, separator, _ = setting.strip().partition("://")
    if not separator:
        raise DatabaseUnusable(_FORM)
    if scheme.lower() not in DRIVERS:
        raise DatabaseUnusable(f"{_FORM}, got the scheme {scheme[:30]!r}")
    try:
        url = make_url(setting.strip())
    except (ArgumentError, ValueError):  # the text may contain a part of the password
        raise DatabaseUnusable(_MALFORMED) from None
    url = url.set(drivername=DRIVERS[scheme.lower()])
    if "@" in (url.host or "") or (is_sqlite(url) and not url.database):
        raise DatabaseUnusable(_MALFORMED)
    return url


def is_sqlite(url: URL) -> bool:
    """Return True if ``url`` is a local SQLite file."""
    return url.get_backend_name() == "sqlite"


def make_engine(url: URL, **options: Any) -> Engine:
    """Return an engine. Raise :exc:`DatabaseUnusable` if its driver is missing."""
    try:
        # Errors would contain the parameters of their statement.
        return create_engine(url, hide_parameters=True, **options)
    except ImportError:
        raise DatabaseUnusable(_NO_DRIVER) from None


def unusable(url: URL, error: Exception) -> DatabaseUnusable:
    """Return the error for a database that could not be opened, for an operator."""
    cause: object = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError) and cause.strerror:
        cause = cause.strerror
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    reason = lines[0].strip().rstrip(".:")
    if url.password:
        reason = reason.replace(str(url.password), "***")
    return DatabaseUnusable(
        f"the job database at {place_of(url)} cannot be opened: {reason}"
    )


def place_of(url: URL) -> str:
    """Return the file of SQLite, or host and port of PostgreSQL."""
    found = url.database if is_sqlite(url) else url.host or "localhost"
    return f"{found}:{url.port}" if url.port else f"{found}"


APPLICATION = "scraper-service"  # application_name in pg_stat_activity
LOCKED = "55P03"  # SQLSTATE of lock_timeout
FULL = "53100"  # SQLSTATE of disk_full
# SQLite has codes of its own for a quota, and for the index of its log.
FULL_SQLITE = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"}
# SQLSTATEs of an ended connection: terminated, crashed, starting, idle for too long in
# all or in a transaction.
ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}
# A process that stops in the middle of a pipeline (executemany) leaves its backend
# "active" with its locks. The server's idle time-out does not apply.
HALF_SENT_S = 10
_END_HALF_SENT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :name AND usename = current_user"
    " AND datname = current_database() AND pid <> pg_backend_pid()"
    " AND state = 'active' AND wait_event = 'ClientRead'"
    " AND state_change < now() - make_interval(secs => :seconds)"
)


@transaction(apart=True)
def end_half_sent(connection: Connection) -> int:
    """End connections of stopped processes in the middle of a pipeline.

    Returns the number of ended connections, 0 on SQLite.
    """
    if connection.dialect.name != "postgresql":
        return 0
    facts = {"name": APPLICATION, "seconds": HALF_SENT_S}
    return len(connection.execute(_END_HALF_SENT, facts).all())


@frozen(kw_only=True)
class Waits:
    """Time-outs of a transaction on PostgreSQL, in seconds. 0 means no limit."""

    #: Until the next statement. The server then ends the connection, so the locks of a
    #: stopped process end.
    idle_s: float = 5.0
    #: For one lock. Longer than a stopped process keeps a lock.
    lock_s: float = 8.0
    #: For one statement.
    statement_s: float = 20.0
    #: Transaction mode after ``BEGIN``.
    mode: str = ""


ASIDE = Waits()
SHARING = Waits(lock_s=1.0)  # other functions wait in the same group
PROBING = Waits(lock_s=0.05)
# Locks no row. Building a large result may take long after the last statement.
READING = Waits(idle_s=60.0, mode="ISOLATION LEVEL REPEATABLE READ READ ONLY")
MIGRATING = Waits(idle_s=600.0, lock_s=60.0, statement_s=0)


def is_locked(error: BaseException) -> bool:
    """Return True if a statement timed out while it waited for a lock."""
    return _state(error) == LOCKED


def is_ended(error: BaseException) -> bool:
    """Return True if the connection of a statement has ended."""
    state = _state(error)
    ended = state in ENDED or state.startswith("08")
    return ended or bool(getattr(error, "connection_invalidated", False))


def is_full(error: BaseException) -> bool:
    """Return True if a disk of the database took no more data."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorname", None)
    return code in FULL_SQLITE or _state(error) == FULL


def _state(error: BaseException) -> str:
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""


T = TypeVar("T")

RETRY_S = (0.5, 1, 2, 5)  # pauses between tries; the last one repeats


class Insist(Protocol):
    """Repeats a call to the database until it responds, or gives up."""

    def __call__(self, ask: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


async def insist(ask: Callable[[], Awaitable[T]], goes_on: Callable[[], Any]) -> T:
    """Return the result of ``ask``, repeated while the database is unavailable.

    ``ask`` has to be idempotent, since a response may have been lost. Raises
    :exc:`ServiceUnavailable` once ``goes_on`` returns a false value.
    """
    waits = iter(RETRY_S)
    while True:
        try:
            return await ask()
        except ServiceUnavailable:
            if not goes_on():
                raise
            await asyncio.sleep(next(waits, RETRY_S[-1]))


def before(deadline: float) -> Insist:
    """Return a function that repeats calls until ``deadline`` (:func:`time.monotonic`)."""

    async def ask_on(ask: Callable[[], Awaitable[T]], /) -> T:
        return await insist(ask, lambda: time.monotonic() + RETRY_S[0] < deadline)

    return ask_on


async def once(ask: Callable[[], Awaitable[T]], /) -> T:
    """Call the database once."""
    return await ask()
