"""Every address of a job and what became of it: errors, refusals, the whole list.

Functions take a connection inside a transaction, as those of the frontier do.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import and_, func, or_, select, text

from scraper_service.storage.frontier.outcomes import ROBOTS
from scraper_service.storage.frontier.transactions import IN_ORDER, rows_in, written
from scraper_service.storage.job_records import (
    Delivery,
    DeliveryState,
    Kind,
    PageErrorRow,
    RowState,
)
from scraper_service.storage.schema import delivery, frontier, job

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row, TextClause

EXTERNAL_HOME = "external_home"
EXTERNAL_LINK = "EXTERNAL_LINK"
STATES = {
    RowState.PENDING: "pending",
    RowState.LEASED: "leased",
    RowState.DONE: "done",
    RowState.FAILED: "failed",
    RowState.SKIPPED: "skipped",
    RowState.HELD: "held",
    RowState.ALIAS: "skipped",
}
_OWN_REASONS = {
    RowState.HELD: ("limit", "waits for room under the limit of the job"),
    RowState.ALIAS: ("duplicate", "another page of the job was redirected here"),
}


@frozen(kw_only=True)
class Address:
    """An address of a job. ``state`` is one of :data:`STATES`."""

    url: str
    kind: str
    state: str
    reason: str | None
    detail: str | None
    depth: int
    found_on: str | None
    page_id: str | None
    lastmod: str | None


@frozen
class Cursor:
    """Where a listing goes on: behind the row ``row_id`` of a state."""

    state: RowState
    row_id: int = 0


@frozen(kw_only=True)
class AddressQuery:
    """Up to ``limit`` addresses of a job, behind ``after`` and ``skip`` more, by state.

    ``state`` is one of the names in :data:`STATES`; None, as for ``reason``, is any.
    """

    state: str | None = None
    reason: str | None = None
    after: Cursor | None = None
    skip: int = 0
    limit: int


@frozen
class Listing:
    """A part of the ``total`` addresses asked for; ``behind`` is None at the end."""

    total: int
    addresses: list[Address]
    behind: Cursor | None


def read_errors(connection: Connection, job_id: str) -> list[PageErrorRow]:
    """Return the pages of a job that failed, in the order of their addresses.

    With them the home pages of other sites, which are listed and not fetched.
    """
    columns = frontier.c
    failed = and_(
        columns.state == RowState.FAILED,
        columns.kind == Kind.PAGE,
        columns.code.is_distinct_from(ROBOTS),
    )
    home = and_(columns.state == RowState.SKIPPED, columns.code == EXTERNAL_HOME)
    rows = connection.execute(
        select(
            columns.id,
            columns.page_id,
            columns.url,
            columns.code,
            columns.error,
            columns.ended_at,
            job.c.created_at,
        )
        .join(job, job.c.id == columns.job_id)
        .where(columns.job_id == job_id, or_(failed, home))
        .order_by(columns.id)
    )
    return [
        PageErrorRow(
            id=row.page_id or str(uuid.uuid5(uuid.UUID(job_id), str(row.id))),
            url=row.url,
            code=EXTERNAL_LINK if row.code == EXTERNAL_HOME else row.code,
            error=row.error or "",
            at=row.ended_at or row.created_at,
        )
        for row in rows
    ]


def read_current(connection: Connection, job_id: str) -> str | None:
    """Return an address of a job that is being fetched, None if there is none."""
    query = (
        select(frontier.c.url)
        .where(*rows_in(job_id, RowState.LEASED))
        .order_by(*IN_ORDER)
        .limit(1)
    )
    return connection.scalar(query)


def read_robots_blocked(connection: Connection, job_id: str) -> list[str]:
    """Return the addresses of a job that robots.txt refuses, the oldest first."""
    columns = frontier.c
    query = (
        select(columns.url)
        .where(
            columns.job_id == job_id,
            columns.state.in_((RowState.SKIPPED, RowState.FAILED)),
            columns.code == ROBOTS,
        )
        .order_by(columns.id)
    )
    return list(connection.scalars(query))


def read_addresses(connection: Connection, job_id: str, query: AddressQuery) -> Listing:
    """Return the addresses that are asked for, and how many there are in all."""
    after, skip, limit = query.after, query.skip, query.limit
    wanted = {
        current: _conditions(job_id, current, query.reason)
        for current, name in STATES.items()
        if query.state in {None, name} and _may_have(current, query.reason)
    }
    if query.reason is None:
        total = _count_all(connection, job_id, query.state)
    else:
        total = sum(_count(connection, where) for where in wanted.values())
    left = list(wanted)
    if after is not None:
        left = left[left.index(after.state) :] if after.state in left else []
    rows: list[Row[Any]] = []
    for current in left:
        behind = after.row_id if after is not None and after.state is current else 0
        where = _conditions(job_id, current, query.reason, behind)
        if skip and (count := _count(connection, where)) <= skip:
            skip -= count
            continue
        rows += _rows(connection, where, skip, limit + 1 - len(rows))
        skip = 0
        if len(rows) > limit:
            break
    last = rows[limit - 1] if len(rows) > limit else None
    return Listing(
        total,
        list(map(_address, rows[:limit])),
        None if last is None else Cursor(RowState(last.state), last.id),
    )


def _may_have(state: RowState, reason: str | None) -> bool:
    own = _OWN_REASONS.get(state)
    return reason is None or own is None or own[0] == reason


def _conditions(
    job_id: str, state: RowState, reason: str | None, after: int = 0
) -> list[ColumnElement[bool]]:
    columns = frontier.c
    if reason is None or state in _OWN_REASONS:
        return rows_in(job_id, state, after)
    where = [columns.job_id == job_id, columns.state == written(state)]
    return [*where, columns.code == reason, columns.id > after]


def _count(connection: Connection, where: list[ColumnElement[bool]]) -> int:
    query = select(func.count()).select_from(frontier).where(*where)
    return connection.scalar(query) or 0


def _count_all(connection: Connection, job_id: str, state: str | None) -> int:
    """Return how many addresses have a state, by what the job counts where it does."""
    states = dict.fromkeys(STATES.values(), 0)
    _count_states(connection, job_id, states)
    for (row_state, _), count in _count_by(
        connection, job_id, text("kind = 1")
    ).items():
        if row_state != RowState.SKIPPED:
            states[STATES[RowState(row_state)]] += count
    skipped = STATES[RowState.SKIPPED]
    if state in {None, skipped}:
        where = _conditions(job_id, RowState.SKIPPED, None)
        states[skipped] += _count(connection, where)
    return sum(states.values()) if state is None else states[state]


def _rows(
    connection: Connection, where: list[ColumnElement[bool]], skip: int, limit: int
) -> list[Row[Any]]:
    parent = frontier.alias("parent")
    return list(
        connection.execute(
            select(frontier, parent.c.url.label("parent_url"))
            .outerjoin(parent, parent.c.id == frontier.c.found_on)
            .where(*where)
            .order_by(*IN_ORDER)
            .offset(skip)
            .limit(written(limit))
        )
    )


def _reason(row: Row[Any]) -> tuple[str | None, str | None]:
    return _OWN_REASONS.get(row.state, (row.code, row.error))


def _address(row: Row[Any]) -> Address:
    reason, detail = _reason(row)
    return Address(
        url=row.url,
        kind=Kind(row.kind).name.lower(),
        state=STATES[RowState(row.state)],
        reason=reason,
        detail=detail,
        depth=row.depth,
        found_on=row.parent_url,
        page_id=row.page_id if row.state == RowState.DONE and not row.code else None,
        lastmod=row.lastmod,
    )


@frozen
class SitemapCounts:
    """The sitemap files of a job: all, those read, those not had or not readable.

    The rest is still to be read. ``reasons`` counts the failed ones.
    """

    files: int
    read: int
    failed: int
    reasons: Mapping[str, int]


def read_deliveries(
    connection: Connection,
    job_id: str,
    *,
    state: DeliveryState | None,
    after: int,
    limit: int,
) -> tuple[list[Delivery], int | None]:
    """Return up to ``limit`` events for a receiver behind number ``after``, in order.

    With them the number to go on behind, None at the end.
    """
    columns = delivery.c
    query = (
        select(delivery, frontier.c.url)
        .outerjoin(frontier, frontier.c.id == columns.row_id)
        .where(columns.job_id == job_id, columns.seq > after)
        .order_by(columns.seq)
        .limit(limit + 1)
    )
    if state is not None:
        query = query.where(columns.state == state)
    rows = connection.execute(query).all()
    found = [
        Delivery(
            seq=row.seq,
            kind=row.kind,
            at=row.at,
            state=DeliveryState(row.state),
            attempts=tuple(json.loads(row.log)),
            due_at=row.due_at or None,
            page_url=row.url,
        )
        for row in rows[:limit]
    ]
    return found, found[-1].seq if len(rows) > limit else None


def count_addresses(
    connection: Connection, job_id: str
) -> tuple[dict[str, int], dict[str, int], SitemapCounts]:
    """Return how many addresses of a job there are by state and by reason.

    All states of :data:`STATES`, the reasons that occur. Reads the counts of the job,
    and rows that have a reason, in an index that covers the query: 0.1 s for a million.
    """
    coded = _count_by(connection, job_id, text("code IS NOT NULL"))
    files = _count_by(connection, job_id, text("kind = 1"), frontier.c.depth > 0)
    states = dict.fromkeys(STATES.values(), 0)
    reasons: Counter[str] = Counter()
    for (state, code), count in (coded - files).items():
        if state in _OWN_REASONS:
            continue  # it was refused before another page was redirected to it
        reasons[code] += count
        if state == RowState.SKIPPED:
            states[STATES[RowState.SKIPPED]] += count
    held, aliases = _count_states(connection, job_id, states)
    for state, count in ((RowState.HELD, held), (RowState.ALIAS, aliases)):
        if count:
            reasons[_OWN_REASONS[state][0]] += count
    failed = {c: n for (s, c), n in files.items() if s == RowState.FAILED}
    read = sum(n for (s, _), n in files.items() if s == RowState.DONE)
    sitemaps = SitemapCounts(files.total(), read, sum(failed.values()), failed)
    return states, dict(reasons), sitemaps


def _count_by(
    connection: Connection, job_id: str, *where: ColumnElement[bool] | TextClause
) -> Counter[tuple[int, str]]:
    # Written out, not as parameters: else the partial indexes would not be used.
    columns = frontier.c
    rows = connection.execute(
        select(columns.state, columns.code, func.count())
        .where(columns.job_id == job_id, *where)
        .group_by(columns.state, columns.code)
    )
    return Counter({(state, code): count for state, code, count in rows})


def _count_states(
    connection: Connection, job_id: str, states: dict[str, int]
) -> tuple[int, int]:
    """Add the states that the job counts, or that are few; return held and aliases."""
    columns = frontier.c

    def count(state: RowState) -> int:
        is_page = columns.kind == Kind.PAGE
        return _count(connection, [*_conditions(job_id, state, None), is_page])

    counts = connection.execute(
        select(job.c.open, job.c.done, job.c.failed, job.c.held).where(
            job.c.id == job_id
        )
    ).one()
    leased, aliases = count(RowState.LEASED), count(RowState.ALIAS)
    for state, found in (
        (RowState.PENDING, counts.open - leased),
        (RowState.LEASED, leased),
        (RowState.DONE, counts.done),
        (RowState.FAILED, counts.failed),
        (RowState.HELD, counts.held),
        (RowState.ALIAS, aliases),
    ):
        states[STATES[state]] += found
    return counts.held, aliases
