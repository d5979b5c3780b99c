"""The rows by which processes share the places of a team.

Functions take a connection inside a transaction; those that write are for
:meth:`Database.write_first`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import delete, func, select

from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.frontier.transactions import dialect_insert, now_of
from scraper_service.storage.schema import share, team, worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection


class Grant(NamedTuple):
    """The ``limit`` of a team, None for none; new pages may start below ``target``.

    ``granted`` is what the other processes leave to this one.
    """

    limit: int | None
    target: int
    granted: int


class Limits(NamedTuple):
    """The teams that have a limit, and the number of processes that live."""

    by_team: Mapping[str, int]
    workers: int


def read_limits(connection: Connection) -> Limits:
    """Return what processes have to know of all teams."""
    rows = connection.execute(
        select(team.c.id, team.c.concurrency).where(team.c.concurrency.is_not(None))
    )
    live = select(func.count()).where(worker.c.until >= now_of(connection))
    by_team = {team_id: count for team_id, count in rows if count}
    return Limits(by_team, connection.scalar(live) or 0)


def ask(
    connection: Connection, team_id: str, owner: str, wanted: int, in_use: int
) -> Grant:
    """Return how many pages of a team a process may have under way.

    It has ``in_use`` and would like to have ``wanted``. Where others want more than
    they got, each may have an equal part; with fewer places than processes, who has one
    gives it to who waits for longest.
    """
    lock_team(connection, team_id)
    now = now_of(connection)
    limit = connection.scalar(select(team.c.concurrency).where(team.c.id == team_id))
    live = select(worker.c.id).where(worker.c.until >= now)
    of_team = share.c.team_id == team_id
    connection.execute(delete(share).where(of_team, share.c.owner.not_in(live)))
    rows = connection.execute(select(share).where(of_team)).all()
    mine = next((row for row in rows if row.owner == owner), None)
    others = [row for row in rows if row.owner != owner]
    since = (mine.since if mine else None) or now
    if limit is None or not (wanted or in_use):
        connection.execute(delete(share).where(of_team, share.c.owner == owner))
        return Grant(limit, 0, 0)
    target = _target(limit, wanted, in_use, since, others)
    granted = max(target, in_use)
    values = {
        "granted": granted,
        "wanted": wanted,
        "in_use": in_use,
        "since": since if wanted > granted else None,
    }
    connection.execute(
        dialect_insert(connection, share)
        .values(team_id=team_id, owner=owner, **values)
        .on_conflict_do_update(index_elements=("team_id", "owner"), set_=values)
    )
    return Grant(limit, target, granted)


def _target(
    limit: int,
    wanted: int,
    in_use: int,
    since: float,
    others: Sequence[Any],
) -> int:
    free = limit - sum(int(row.granted) for row in others)
    target: int = min(wanted, max(0, free))
    short = [row for row in others if row.wanted > row.granted]
    if not short:
        return target
    claimants = 1 + sum(row.wanted > 0 for row in others)
    fair: int = limit // claimants
    if fair:
        return min(target, fair)
    waits_longest = all(since <= (row.since or since) for row in short)
    return target if waits_longest and not in_use else 0


def publish(connection: Connection, owner: str, in_use: Mapping[str, int]) -> None:
    """Let other processes know of pages of teams that have no limit."""
    for team_id, count in sorted(in_use.items()):
        key = (share.c.team_id == team_id, share.c.owner == owner)
        if not count:
            connection.execute(delete(share).where(*key))
            continue
        values = {"granted": 0, "wanted": 0, "in_use": count, "since": None}
        connection.execute(
            dialect_insert(connection, share)
            .values(team_id=team_id, owner=owner, **values)
            .on_conflict_do_update(index_elements=("team_id", "owner"), set_=values)
        )


def in_use_elsewhere(connection: Connection, team_id: str, owner: str) -> int:
    """Return the pages of a team that other processes have under way."""
    live = select(worker.c.id).where(worker.c.until >= now_of(connection))
    query = select(func.sum(share.c.in_use)).where(
        share.c.team_id == team_id, share.c.owner != owner, share.c.owner.in_(live)
    )
    return int(connection.scalar(query) or 0)
