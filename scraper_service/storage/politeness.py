"""What processes share of a host or team: permits, and the pace of a host.

A permit allows a request at a host, or a page of a team. Each process gets as many as it needs.
Those who want more get equal parts if there are too few. Functions run inside a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import and_, bindparam, delete, func, or_, select, tuple_, update

from scraper_service.storage.schema import host, permit, team, worker
from scraper_service.storage.transactions import (
    FARTHEST_S,
    dialect_insert,
    execute,
    is_late,
    live_workers,
    now_of,
    transaction,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection


HOST, TEAM = "host", "team"  # kinds of limits
_MARK = "*"  # the name in the row of a process that asks for all it has in flight

# Held until the commit, and valid through a pooler; a row of a table would be written again
# with each lock. In the order of the names, so that processes never wait in a circle.
_LOCK = """
SELECT pg_advisory_xact_lock(hashtextextended(%(kind)s::text || ' ' || name, 0))
FROM unnest(%(names)s::text[]) AS name
"""


class Need(NamedTuple):
    """What a process needs of the limit of a host or team."""

    name: str
    #: What all processes together may have in flight.
    limit: int
    #: What this process could have in flight.
    wanted: int
    #: What it has in flight.
    in_use: int


class Grant(NamedTuple):
    """The part of a limit that a process gets."""

    #: New requests or pages may start while fewer are in flight.
    target: int
    #: What the others leave to it; above ``target`` while it has more in flight.
    granted: int


class Claimed(NamedTuple):
    """What a process has and wants of a limit: columns of its row."""

    #: What the others leave to it, at least what it has in flight.
    granted: int
    wanted: int
    in_use: int
    #: Since when it waits for its first, by the clock of the database; None if it does not.
    since: float | None

    @property
    def waits(self) -> bool:
        """True if the process wants more than it has."""
        return self.wanted > self.granted


_ROW = (permit.c.name, permit.c.owner, *(permit.c[each] for each in Claimed._fields))
_OF_KIND = permit.c.kind == bindparam("kind")
# Each process reads them every two seconds: to build them takes longer than to run them.
_LIVE = select(worker.c.id, worker.c.until).where(worker.c.until >= bindparam("now"))
_CLAIMS = select(*_ROW).where(
    _OF_KIND,
    or_(
        permit.c.name == _MARK,
        permit.c.name.in_(
            select(permit.c.name).where(_OF_KIND, permit.c.owner == bindparam("owner"))
        ),
    ),
)


class Processes(NamedTuple):
    """What a process needs to know of the others."""

    #: Number of live processes, this one included.
    workers: int
    #: Seconds until the leases of this process end, 0 if they have ended.
    lease_s: float
    #: True if all others ask for what they have in flight.
    others_ask: bool
    #: True if that is known of this process.
    is_marked: bool
    #: Claims of all live processes by their owner, by the name of a host or team of which
    #: this process has a part.
    claims: Mapping[str, Mapping[str, Claimed]]


def read_processes(connection: Connection, kind: str, owner: str) -> Processes:
    """Return what the process ``owner`` needs to know of the others."""
    now = now_of(connection)
    live = connection.execute(_LIVE, {"now": now})
    ends = {row.id: row.until for row in live}
    claims: dict[str, dict[str, Claimed]] = {}
    rows = connection.execute(_CLAIMS, {"kind": kind, "owner": owner})
    for name, each, *claim in rows:
        if each in ends:
            claims.setdefault(name, {})[each] = Claimed(*claim)
    marked = claims.pop(_MARK, {}).keys()
    return Processes(
        len(ends),
        ends.get(owner, now) - now,
        ends.keys() - {owner} <= marked,
        owner in marked,
        {name: each for name, each in claims.items() if owner in each},
    )


def mark_asking(connection: Connection, kind: str, owner: str) -> None:
    """Note that a process asks for all that it has in flight from now on."""
    nothing = Claimed(granted=0, wanted=0, in_use=0, since=None)
    row = {"kind": kind, "name": _MARK, "owner": owner, **nothing._asdict()}
    upsert(connection, permit, [row])


@transaction(first="{kind}", apart=True)
def ask_for_permits(
    connection: Connection, kind: str, owner: str, needs: Sequence[Need]
) -> list[Grant]:
    """Return what a process may have in flight, in the order of ``needs``.

    A process that is alone with a host or team gets twice what it needs, so that it asks less
    often. One that slept for longer than its lease gets nothing until its next heartbeat:
    others would not count what it has.
    """
    if is_late(connection, owner):
        return [Grant(0, 0)] * len(needs)
    names = sorted(need.name for need in needs)
    if connection.dialect.name == "postgresql":
        execute(connection, _LOCK, {"kind": kind, "names": names})
    now = now_of(connection)
    rows = connection.execute(
        select(worker.c.until, *_ROW)
        .select_from(permit)
        .outerjoin(worker, worker.c.id == permit.c.owner)
        .where(permit.c.kind == kind, permit.c.name.in_(names))
    )
    live: dict[str, dict[str, Claimed]] = {name: {} for name in names}
    ended, grants, stored = [], [], []
    for until, name, each, *claim in rows:
        if (until or 0.0) >= now:
            live[name][each] = Claimed(*claim)
        else:
            ended.append((name, each))
    for need in needs:
        others = live[need.name]
        mine = others.pop(owner, None)
        if not (need.wanted or need.in_use):
            ended.append((need.name, owner))
            grants.append(Grant(0, 0))
            continue
        since = (mine.since if mine else None) or now
        goal, claimed = _divide(need, tuple(others.values()), since, now)
        grants.append(Grant(goal, claimed.granted))
        key = {"kind": kind, "name": need.name, "owner": owner}
        stored.append({**key, **claimed._asdict()})
    if ended:
        key_of = tuple_(permit.c.name, permit.c.owner)
        connection.execute(
            delete(permit).where(permit.c.kind == kind, key_of.in_(sorted(ended)))
        )
    if stored:
        upsert(connection, permit, stored)
    return grants


def _divide(
    need: Need, others: Sequence[Claimed], since: float, now: float
) -> tuple[int, Claimed]:
    """Return the target of a process, and what is stored of it."""
    wanted = need.wanted if others else min(need.limit, 2 * need.wanted)
    goal = target_of(need.limit, others, wanted, need.in_use, since)
    granted = max(goal, need.in_use)
    waits_since = (now if granted else since) if wanted > granted else None
    return goal, Claimed(granted, wanted, need.in_use, waits_since)


def target_of(
    limit: int, others: Sequence[Claimed], wanted: int, in_use: int, since: float
) -> int:
    """Return how much a process may have of a limit, before it starts further work.

    It has ``in_use`` in flight, and could have up to ``wanted``. If others got less than they
    wanted, those who want more get equal parts. If the limit is below the number of
    processes, a process gives its part to the one that has waited longest: ``since``.
    """
    free = limit - sum(each.granted for each in others)
    found = min(wanted, max(0, free))
    short = [each for each in others if each.waits]
    if not short:
        return found
    fair, extra = equal_parts(limit, [wanted, *(each.wanted for each in others)])
    if fair:
        # What does not divide goes to those who ask first.
        above = sum(each.granted > fair for each in others)
        return min(found, fair + int(above < extra))
    waits_longest = all(since <= (each.since or since) for each in short)
    return found if waits_longest and not in_use else 0


def equal_parts(limit: int, wanted: Sequence[int]) -> tuple[int, int]:
    """Return the equal part of those who want more than it, and what does not divide.

    ``wanted`` is what each of them wants of ``limit``.
    """
    count = len(wanted)
    for want in sorted(wanted):
        if want > limit // count:
            break
        limit -= want
        count -= 1
    return divmod(limit, count) if count else (max(wanted), 0)


def forget_permits(connection: Connection) -> None:
    """Delete the rows of processes that are gone."""
    live = live_workers(now_of(connection))
    connection.execute(delete(permit).where(permit.c.owner.not_in(live)))


class Elsewhere(NamedTuple):
    """The pages of a team that are in flight in other processes."""

    processes: int
    pages: int


def read_teams(
    connection: Connection, owner: str
) -> tuple[dict[str, int], dict[str, Elsewhere]]:
    """Return the limits of teams, and their pages in other processes than ``owner``."""
    limits = select(team.c.id, team.c.concurrency).where(team.c.concurrency > 0)
    in_flight = (
        select(permit.c.name, func.count(), func.sum(permit.c.in_use))
        .join(worker, worker.c.id == permit.c.owner)
        .where(permit.c.kind == TEAM, permit.c.in_use > 0, permit.c.owner != owner)
        .where(worker.c.until >= now_of(connection))
        .group_by(permit.c.name)
    )
    return (
        {row.id: row.concurrency for row in connection.execute(limits)},
        {name: Elsewhere(*row) for name, *row in connection.execute(in_flight)},
    )


# -- the pace of hosts ---------------------------------------------------------------


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


@transaction(row="{name}")
def take_turn(connection: Connection, name: str, owner: str, delay_s: float) -> float:
    """Take the next start on a host with one page at a time. Return 0 if it was free.

    Otherwise return the seconds until the next try. The host is free once the ``delay_s`` of
    the last page is over, and its process has ended the page or is dead.
    """
    now = now_of(connection)
    values = {"next_at": now + delay_s, "held_by": owner}
    columns = host.c
    live = live_workers(now)
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
    """End a page of a host. The next start follows ``delay_s`` later."""
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


def read_shared(connection: Connection, since: float) -> tuple[float, list[SharedHost]]:
    """Return the time of the database, and the hosts that changed from ``since`` on."""
    now = now_of(connection)
    columns = host.c
    rows = connection.execute(
        select(columns.host, columns.opens_at, columns.at_once, columns.gap_s).where(
            columns.updated_at >= since, columns.at_once.is_not(None)
        )
    )
    return now, [
        SharedHost(row.host, max(0.0, row.opens_at - now), row.at_once, row.gap_s)
        for row in rows
        if row.opens_at <= now + FARTHEST_S
    ]


def forget_hosts(connection: Connection) -> None:
    """Delete the rows of hosts without recent requests."""
    before = now_of(connection) - KEPT_S
    free = (
        select(host.c.host)
        .where(host.c.updated_at < before, host.c.next_at < before)
        .with_for_update(skip_locked=True)
    )
    connection.execute(delete(host).where(host.c.host.in_(free)))
