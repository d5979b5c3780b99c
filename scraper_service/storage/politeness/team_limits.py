"""Rows by which processes share the page limit of a team.

Functions run inside a transaction. Functions that write are for
:meth:`Database.write_first`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, func, select

from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.frontier.leases import is_late
from scraper_service.storage.politeness.shares import Claimed, claimed, target
from scraper_service.storage.schema import share, team, worker
from scraper_service.storage.transactions import now_of, upsert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection


class Grant(NamedTuple):
    """The part of a team's limit that a process gets."""

    #: Limit of the team over all processes, None without a limit.
    limit: int | None
    #: New pages may start while fewer than this are in flight.
    target: int
    #: Pages that the other processes leave to this process.
    granted: int


class Limits(NamedTuple):
    """The limits of all teams."""

    by_team: Mapping[str, int]
    #: Number of live processes.
    workers: int
    #: Seconds until the leases of this process end, 0 if they have ended.
    lease_s: float
    #: Number of live processes with pages of a team in flight, by team.
    processes: Mapping[str, int]


def read_limits(connection: Connection, owner: str) -> Limits:
    """Return the limits of all teams, and the live processes for the process ``owner``."""
    rows = connection.execute(
        select(team.c.id, team.c.concurrency).where(team.c.concurrency.is_not(None))
    )
    by_team = {team_id: count for team_id, count in rows if count}
    now = now_of(connection)
    live = select(worker.c.id, worker.c.until).where(worker.c.until >= now)
    ends = {row.id: row.until for row in connection.execute(live)}
    in_flight = (
        select(share.c.team_id, func.count().label("processes"))
        .where(share.c.in_use > 0, share.c.owner.in_(ends))
        .group_by(share.c.team_id)
    )
    processes = {row.team_id: row.processes for row in connection.execute(in_flight)}
    return Limits(by_team, len(ends), ends.get(owner, now) - now, processes)


def ask(
    connection: Connection, team_id: str, owner: str, wanted: int, in_use: int
) -> Grant:
    """Return the number of a team's pages that a process may have in flight.

    The process has ``in_use`` pages in flight, and could have up to ``wanted``. Without a
    limit only ``in_use`` is stored, for :func:`in_use_elsewhere`. A process that slept for longer
    than its lease gets nothing until its next heartbeat: others would not count what it has.
    """
    lock_team(connection, team_id)
    limit = connection.scalar(select(team.c.concurrency).where(team.c.id == team_id))
    if is_late(connection, owner):
        return Grant(limit, 0, 0)
    now = now_of(connection)
    live = select(worker.c.id).where(worker.c.until >= now)
    of_team = share.c.team_id == team_id
    connection.execute(delete(share).where(of_team, share.c.owner.not_in(live)))
    rows = connection.execute(select(share).where(of_team)).all()
    if not (wanted or in_use):
        connection.execute(delete(share).where(of_team, share.c.owner == owner))
        return Grant(limit, 0, 0)
    others = [
        Claimed(row.granted, row.wanted, row.since)
        for row in rows
        if row.owner != owner
    ]
    mine = next((row for row in rows if row.owner == owner), None)
    since = (mine.since if mine else None) or now
    goal = in_use if limit is None else target(limit, others, wanted, in_use, since)
    stored = claimed(goal, wanted, in_use, since, now)
    row = {"team_id": team_id, "owner": owner, "in_use": in_use, **stored._asdict()}
    upsert(connection, share, [row])
    return Grant(limit, goal, stored.granted)


def in_use_elsewhere(connection: Connection, team_id: str, owner: str) -> int:
    """Return the team's pages in flight in other processes."""
    live = select(worker.c.id).where(worker.c.until >= now_of(connection))
    query = select(func.sum(share.c.in_use)).where(
        share.c.team_id == team_id, share.c.owner != owner, share.c.owner.in_(live)
    )
    return int(connection.scalar(query) or 0)
