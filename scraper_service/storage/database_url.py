"""``DATABASE_URL``: what it may be, and the engine that it names.

Errors are sentences for an operator, without the password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from scraper_service.errors import DatabaseUnusable

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

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
    """Return the URL of the job database; an empty setting is SQLite in ``data_dir``.

    Raises :exc:`DatabaseUnusable` for a URL that names no database we work with.
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
    except (ArgumentError, ValueError):  # their texts may have a part of the password
        raise DatabaseUnusable(_MALFORMED) from None
    url = url.set(drivername=DRIVERS[scheme.lower()])
    if "@" in (url.host or "") or (is_sqlite(url) and not url.database):
        raise DatabaseUnusable(_MALFORMED)
    return url


def is_sqlite(url: URL) -> bool:
    """Return True if ``url`` names a file of this machine."""
    return url.get_backend_name() == "sqlite"


def make_engine(url: URL, **options: Any) -> Engine:
    """Return an engine; raise :exc:`DatabaseUnusable` if its driver is missing."""
    try:
        # The parameters of a statement would stand in the text of its error.
        return create_engine(url, hide_parameters=True, **options)
    except ImportError:
        raise DatabaseUnusable(_NO_DRIVER) from None


def unusable(url: URL, error: Exception) -> DatabaseUnusable:
    """Return what an operator has to know of a database that could not be opened."""
    cause: object = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError) and cause.strerror:
        cause = cause.strerror
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    reason = lines[0].strip().rstrip(".:")
    if url.password:
        reason = reason.replace(str(url.password), "***")
    place = url.database if is_sqlite(url) else f"{url.host or 'localhost'}"
    if url.port:
        place = f"{place}:{url.port}"
    return DatabaseUnusable(f"the job database at {place} cannot be opened: {reason}")
