"""Connections to PostgreSQL with a time-out for each wait.

The time-outs of the server are part of each BEGIN message, as ``SET LOCAL``. They need
no round trip, and also work through PgBouncer with pooled transactions, which refuses
start-up options and forgets session settings. The time-outs of the client are for a
server or network that does not respond.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import event

from scraper_service.storage.connections import APPLICATION, ASIDE, Waits

if TYPE_CHECKING:
    from collections.abc import Generator

    from sqlalchemy import Connection, Engine

SILENCE_S = 25.0  # of the server during a statement; longer than the longest statement
# The kernel detects dead peers. The URL may have other values.
NETWORK = {
    "application_name": APPLICATION,
    "connect_timeout": 5,  # s
    "keepalives": 1,
    "keepalives_idle": 5,  # s
    "keepalives_interval": 2,  # s
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # ms
}


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that closes when the server is silent for ``silence_s``.

    None means no limit. Raises :exc:`psycopg.OperationalError`.
    """

    silence_s: float | None = SILENCE_S

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a generator of psycopg with the time-out. All statements use this method."""
        return super().wait(self._bound_wait(gen), *args, **kwargs)

    def _bound_wait(self, gen: Any) -> Generator[Any, Any, Any]:
        last = time.monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state  # 0 every 0.1 s without data
                now = time.monotonic()
                if ready:
                    last = now
                elif self.silence_s is not None and now - last > self.silence_s:
                    self.pgconn.finish()
                    text = f"the server answered nothing for {self.silence_s:g} s"
                    raise psycopg.OperationalError(text)
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


def prepare_engine(engine: Engine) -> None:
    """Add the time-outs to the connections of an engine.

    The execution option ``waits`` of a transaction has its time-outs, by default
    :data:`ASIDE`.
    """
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "begin", _begin)


def _connect(_: Any, __: Any, args: Any, parameters: dict[str, Any]) -> Any:
    """Open a connection whose transactions :func:`_begin` begins."""
    given = {**NETWORK, **parameters, "autocommit": True}
    connection = BoundedConnection.connect(*args, **given)
    # With a pooler each transaction has another backend, without prepared statements.
    [backend] = connection.execute("SELECT pg_backend_pid()").fetchone() or [None]
    if backend != connection.info.backend_pid:
        connection.prepare_threshold = None
    return connection


def _begin(connection: Connection) -> None:
    waits: Waits = connection.get_execution_options().get("waits", ASIDE)
    driver: Any = connection.connection.driver_connection
    driver.silence_s = SILENCE_S if waits.statement_s else None
    connection.exec_driver_sql(_beginning(waits))


@cache
def _beginning(waits: Waits) -> str:
    times = {
        "idle_in_transaction_session_timeout": waits.idle_s,
        "lock_timeout": waits.lock_s,
        "statement_timeout": waits.statement_s,
    }
    settings = (f"SET LOCAL {k} = {round(v * 1000)}" for k, v in times.items())
    return "; ".join((f"BEGIN {waits.mode}".rstrip(), *settings))
