"""Connections to PostgreSQL on which every wait has an end.

The server's time-outs come with each BEGIN, in the same message, as ``SET LOCAL``. So
they cost no round trip, and they also hold behind a PgBouncer that pools transactions:
that one refuses start-up options, and forgets what was set on a connection. The client's
own time-outs are for a server, or a network, that answers nothing any more.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import event

from scraper_service.storage.timeouts import APPLICATION, ASIDE, Waits

if TYPE_CHECKING:
    from collections.abc import Generator

    from sqlalchemy import Connection, Engine

SILENCE_S = 25.0  # of the server, in the middle of a statement: more than it may take
# The kernel finds out a peer that is gone without a word. The URL may have others.
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
    """A connection that is closed when the server is silent for too long.

    ``silence_s`` is how long, None for any time. The error is a
    :exc:`psycopg.OperationalError`.
    """

    silence_s: float | None = SILENCE_S

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Do what a generator of psycopg waits for; all its statements come here."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: Any) -> Generator[Any, Any, Any]:
        last = time.monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state  # 0 every 0.1 s, while nothing comes
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
    """Have the connections of an engine of psycopg bounded, from their first moment.

    A transaction has the execution option ``waits``, or else :data:`ASIDE`.
    """
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "begin", _begin)


def _connect(_: Any, __: Any, args: Any, parameters: dict[str, Any]) -> Any:
    """Open a connection whose transactions are begun by :func:`_begin` alone."""
    given = {**NETWORK, **parameters, "autocommit": True}
    connection = BoundedConnection.connect(*args, **given)
    # A pooler gives each transaction another backend: none knows what was prepared.
    [behind] = connection.execute("SELECT pg_backend_pid()").fetchone() or [None]
    if behind != connection.info.backend_pid:
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
