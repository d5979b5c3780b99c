"""Rows by which processes share the requests in flight that a host may have.

Functions run inside a transaction. :func:`ask` is for :meth:`Database.write_aside`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import delete, select, tuple_, update

from scraper_service.storage.frontier.leases import is_late
from scraper_service.storage.politeness.shares import Claimed, claimed, target
from scraper_service.storage.schema import host_share, worker
from scraper_service.storage.statements import execute
from scraper_service.storage.transactions import now_of, upsert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

# Held until the commit, and valid behind a pooler. In the order of the names, so that
# processes never wait for each other in a circle.
_LOCK = """
SELECT pg_advisory_xact_lock(hashtextextended(name, 0))
FROM unnest(%(names)s::text[]) AS name
"""


class HostShares(NamedTuple):
    """The shares of a host where this process has one."""

    #: Requests in flight that this process may have.
    mine: int
    #: True if this process is known to want more.
    waits: bool
    #: Sum over all processes.
    granted: int
    #: What the others want.
    wanted: tuple[int, ...]
    #: True if another process wants more than it has.
    others_wait: bool


class Need(NamedTuple):
    """What a process needs of a host."""

    host: str
    #: The requests in flight that all processes together may have.
    limit: int
    #: Those that this process could have in flight.
    wanted: int
    #: Those that it has in flight.
    in_use: int


class HostGrant(NamedTuple):
    """The part of a host that a process gets."""

    #: New requests may start while fewer are in flight.
    goal: int
    #: What the other processes leave to this one; above ``goal`` while it has more in flight.
    granted: int


class Others(NamedTuple):
    """What a process needs to know of the others."""

    #: Number of live processes, this one included.
    workers: int
    #: Seconds until the leases of this process end, 0 if they have ended.
    lease_s: float
    #: True if all others ask for the requests that they have in flight.
    share: bool
    #: True if the row of this process says that it asks, too.
    is_marked: bool
    #: Shares by host, where this process has one. Empty if it counts as dead.
    hosts: Mapping[str, HostShares]


def read_others(connection: Connection, owner: str) -> Others:
    """Return the other live processes, and their shares of the hosts of this one."""
    columns, now = worker.c, now_of(connection)
    alive = connection.execute(
        select(columns.id, columns.shares_hosts, columns.until).where(
            columns.until >= now
        )
    ).all()
    live: dict[str, int] = {row.id: row.shares_hosts for row in alive}
    lease_s = next((row.until - now for row in alive if row.id == owner), 0.0)
    shares = host_share.c
    named = select(shares.host).where(shares.owner == owner)
    rows = connection.execute(select(host_share).where(shares.host.in_(named)))
    by_host: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        if row.owner in live:
            by_host.setdefault(row.host, {})[row.owner] = (row.granted, row.wanted)
    return Others(
        len(live),
        lease_s,
        all(does for each, does in live.items() if each != owner),
        bool(live.get(owner)),
        {name: _of(each, owner) for name, each in by_host.items() if owner in each},
    )


def _of(shares: Mapping[str, tuple[int, int]], owner: str) -> HostShares:
    waiting = {each for each, (granted, wanted) in shares.items() if wanted > granted}
    return HostShares(
        mine=shares[owner][0],
        waits=owner in waiting,
        granted=sum(granted for granted, _ in shares.values()),
        wanted=tuple(wanted for each, (_, wanted) in shares.items() if each != owner),
        others_wait=bool(waiting - {owner}),
    )


def mark(connection: Connection, owner: str) -> None:
    """Note that a process asks for its requests from now on."""
    connection.execute(
        update(worker).where(worker.c.id == owner).values(shares_hosts=1)
    )


def ask(connection: Connection, owner: str, needs: Sequence[Need]) -> list[HostGrant]:
    """Return what a process may have in flight at some hosts, in the order of ``needs``.

    A process that is alone with a host gets twice what it needs, so that it asks less often.
    One that slept for longer than its lease gets nothing until its next heartbeat: others would
    not count what it has.
    """
    if is_late(connection, owner):
        return [HostGrant(0, 0)] * len(needs)
    names = sorted(need.host for need in needs)
    if connection.dialect.name == "postgresql":
        # One row of a table would be written again with each lock.
        execute(connection, _LOCK, {"names": names})
    now = now_of(connection)
    rows = connection.execute(
        select(host_share, worker.c.until)
        .outerjoin(worker, worker.c.id == host_share.c.owner)
        .where(host_share.c.host.in_(names))
    ).all()
    live = [row for row in rows if (row.until or 0.0) >= now]
    found = [_grant(need, owner, live, now) for need in needs]
    gone = {(row.host, row.owner) for row in rows} - {(r.host, r.owner) for r in live}
    gone |= {
        (need.host, owner)
        for need, (_, row) in zip(needs, found, strict=True)
        if row is None
    }
    if gone:
        connection.execute(
            delete(host_share).where(
                tuple_(host_share.c.host, host_share.c.owner).in_(sorted(gone))
            )
        )
    if stored := [row for _, row in found if row is not None]:
        upsert(connection, host_share, stored)
    return [grant for grant, _ in found]


def _grant(
    need: Need, owner: str, rows: Sequence[Row[Any]], now: float
) -> tuple[HostGrant, dict[str, Any] | None]:
    """Return what a process gets at a host, and its row, None without a need."""
    others, since = [], now
    for row in rows:
        if row.host != need.host:
            continue
        if row.owner == owner:
            since = row.since or now
        else:
            others.append(Claimed(row.granted, row.wanted, row.since))
    if not (need.wanted or need.in_use):
        return HostGrant(0, 0), None
    wanted = need.wanted if others else min(need.limit, 2 * need.wanted)
    goal = target(need.limit, others, wanted, need.in_use, since)
    stored = claimed(goal, wanted, need.in_use, since, now)
    values = {
        "host": need.host,
        "owner": owner,
        "in_use": need.in_use,
        **stored._asdict(),
    }
    return HostGrant(goal, stored.granted), values


def forget(connection: Connection) -> None:
    """Delete the shares of processes that are gone."""
    known = select(worker.c.id).where(worker.c.until >= now_of(connection))
    connection.execute(delete(host_share).where(host_share.c.owner.not_in(known)))
