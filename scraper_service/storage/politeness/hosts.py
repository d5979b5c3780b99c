"""Rows of hosts, by which processes share the pace of a host.

Functions run inside a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, delete, or_, select, update

from scraper_service.storage.schema import host, worker
from scraper_service.storage.transactions import (
    FARTHEST_S,
    dialect_insert,
    now_of,
    transaction,
    upsert,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection


class SharedHost(NamedTuple):
    """The slowed pace of a host, as processes share it."""

    name: str
    #: Seconds until the next request may start.
    pause_s: float
    #: The largest number of requests in flight.
    window: int
    #: Seconds between the starts of two requests.
    gap_s: float


POLL_S = 0.25  # while another process has a page of the host in flight
LEAST_S = 0.001  # the shortest wait, since the clocks of processes differ
KEPT_S = 86_400  # rows of hosts without requests


class Shared(NamedTuple):
    """The shared state of all hosts."""

    #: Time of the database.
    now: float
    #: Hosts that changed since the last read.
    hosts: tuple[SharedHost, ...]


@transaction(row="{name}")
def take_turn(connection: Connection, name: str, owner: str, delay_s: float) -> float:
    """Take the turn of a host with one page at a time. Return 0 if it was free.

    Otherwise return the seconds until the next try. The turn is free once the ``delay_s`` of
    the last page is over, and its process gave the turn back or is dead.
    """
    now = now_of(connection)
    values = {"next_at": now + delay_s, "held_by": owner}
    columns = host.c
    live = select(worker.c.id).where(worker.c.until >= now)
    taken = connection.execute(
        dialect_insert(connection, host)
        .values(host=name, updated_at=now, **values)
        .on_conflict_do_update(
            index_elements=["host"],
            set_=values,
            where=and_(
                or_(columns.next_at <= now, columns.next_at > now + FARTHEST_S),
                or_(
                    columns.held_by.is_(None),
                    columns.held_by == owner,
                    columns.held_by.not_in(live),
                ),
            ),
        )
        .returning(columns.host)
    )
    if taken.first() is not None:
        return 0.0
    query = select(columns.next_at, columns.held_by).where(columns.host == name)
    row = connection.execute(query).one()
    least_s = POLL_S if row.held_by else LEAST_S
    return max(float(row.next_at) - now, least_s)


@transaction(row="{name}")
def end_turn(connection: Connection, name: str, owner: str, delay_s: float) -> None:
    """Give a turn back. The next turn begins ``delay_s`` later."""
    now = now_of(connection)
    connection.execute(
        update(host)
        .where(host.c.host == name, host.c.held_by == owner)
        .values(next_at=now + delay_s, held_by=None)
    )


@transaction(row="{name}")
def reserve(connection: Connection, name: str, gap_s: float) -> float:
    """Reserve the next start of a host. Return the seconds until then."""
    now = now_of(connection)
    found = connection.execute(
        select(host.c.start_at, host.c.opens_at)
        .where(host.c.host == name)
        .with_for_update()
    ).one_or_none()
    times = () if found is None else map(float, found)
    start_at = max([now, *(each for each in times if each <= now + FARTHEST_S)])
    connection.execute(
        dialect_insert(connection, host)
        .values(host=name, start_at=start_at + gap_s, updated_at=now)
        .on_conflict_do_update(
            index_elements=["host"], set_={"start_at": start_at + gap_s}
        )
    )
    return start_at - now


@transaction(row="{name}")
def publish(connection: Connection, name: str, shared: SharedHost) -> None:
    """Share the pace of a host with other processes. A longer stored pause stays."""
    now = now_of(connection)
    opens_at = now + shared.pause_s
    known = connection.scalar(
        select(host.c.opens_at).where(host.c.host == name).with_for_update()
    )
    if known is not None and known <= now + FARTHEST_S:
        opens_at = max(opens_at, known)
    row = {
        "host": name,
        "opens_at": opens_at,
        "at_once": shared.window,
        "gap_s": shared.gap_s,
        "updated_at": now,
    }
    upsert(connection, host, [row])


def read_shared(connection: Connection, since: float) -> Shared:
    """Return the hosts that changed from ``since`` (database time) on."""
    now = now_of(connection)
    columns = host.c
    rows = connection.execute(
        select(columns.host, columns.opens_at, columns.at_once, columns.gap_s).where(
            columns.updated_at >= since, columns.at_once.is_not(None)
        )
    )
    hosts = (
        SharedHost(row.host, max(0.0, row.opens_at - now), row.at_once, row.gap_s)
        for row in rows
        if row.opens_at <= now + FARTHEST_S
    )
    return Shared(now, tuple(hosts))


def forget_hosts(connection: Connection) -> None:
    """Delete the rows of hosts without recent requests."""
    before = now_of(connection) - KEPT_S
    free = (
        select(host.c.host)
        .where(host.c.updated_at < before, host.c.next_at < before)
        .with_for_update(skip_locked=True)
    )
    connection.execute(delete(host).where(host.c.host.in_(free)))
