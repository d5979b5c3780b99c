"""How long transactions wait, and what it means when they give up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import text

if TYPE_CHECKING:
    from sqlalchemy import Connection

APPLICATION = "scraper-service"  # the name of our connections in pg_stat_activity
LOCKED = "55P03"  # SQLSTATE of lock_timeout
# SQLSTATEs that come with the end of a connection: told to end, crashed, starting,
# idle for too long in all or in a transaction.
ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}
# A process that stops in the middle of a pipeline of statements (executemany) leaves its
# backend "active": the server's idle time-out is not for it, and its locks stay.
HALF_SENT_S = 10
_END_HALF_SENT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :name AND usename = current_user"
    " AND datname = current_database() AND pid <> pg_backend_pid()"
    " AND state = 'active' AND wait_event = 'ClientRead'"
    " AND state_change < now() - make_interval(secs => :seconds)"
)


def end_half_sent(connection: Connection) -> int:
    """End connections of ours whose process stopped amid its statements.

    Returns their number; on SQLite there are none.
    """
    if connection.dialect.name != "postgresql":
        return 0
    facts = {"name": APPLICATION, "seconds": HALF_SENT_S}
    return len(connection.execute(_END_HALF_SENT, facts).all())


@frozen(kw_only=True)
class Waits:
    """What a transaction on PostgreSQL may wait for, in seconds; 0 for any time.

    ``idle_s`` is for the client's next statement: then the server ends the connection,
    and with it the locks of a process that was stopped. ``lock_s`` is for one lock,
    ``statement_s`` for one statement. ``mode`` follows BEGIN.
    """

    idle_s: float = 5.0
    lock_s: float = 8.0  # longer than a stopped process keeps a lock
    statement_s: float = 20.0
    mode: str = ""


ASIDE = Waits()
SHARING = Waits(lock_s=1.0)  # others wait, too
PROBING = Waits(lock_s=0.05)
# No row is locked. A large answer may be worked on for long after its last statement.
READING = Waits(idle_s=60.0, mode="ISOLATION LEVEL REPEATABLE READ READ ONLY")
MIGRATING = Waits(idle_s=600.0, lock_s=60.0, statement_s=0)


def is_locked(error: BaseException) -> bool:
    """Return True if a statement gave up its wait for a lock."""
    return _state(error) == LOCKED


def is_ended(error: BaseException) -> bool:
    """Return True if the connection of a statement has ended."""
    state = _state(error)
    ended = state in ENDED or state.startswith("08")
    return ended or bool(getattr(error, "connection_invalidated", False))


def _state(error: BaseException) -> str:
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""
