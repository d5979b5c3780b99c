"""Reads the URLs of a job with their states, for listings, errors, counts and its report."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import Row, and_, cast, func, or_, select, text

from scraper_service.storage.frontier import job_counts, refused_links
from scraper_service.storage.frontier.job_counts import (
    HostCounts,
    PageCounts,
    RobotsRow,
    parse_counts,
)
from scraper_service.storage.frontier.open_job import ROBOTS
from scraper_service.storage.job_records import Job, PageErrorRow, RowState, UrlKind
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import frontier, job, job_host
from scraper_service.storage.transactions import IN_ORDER, inline, number_of, rows_in

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, TextClause

    from scraper_service.storage.frontier.refused_links import RefusedLink

EXTERNAL_HOME = "external_home"
EXTERNAL_LINK = "EXTERNAL_LINK"
STATES = {
    RowState.PENDING: "pending",
    RowState.LEASED: "leased",
    RowState.DONE: "done",
    RowState.FAILED: "failed",
    RowState.SKIPPED: "skipped",
    RowState.LISTED: "skipped",
    RowState.HELD: "held",
    RowState.ALIAS: "skipped",
}
_OWN_REASONS = {
    RowState.HELD: ("limit", "waits until the limit of the job allows it"),
    RowState.ALIAS: ("duplicate", "another page of the job was redirected here"),
}


@frozen(kw_only=True)
class JobUrl:
    """A URL of a job. ``state`` is a value of :data:`STATES`."""

    url: str
    kind: str
    state: str
    reason: str | None
    detail: str | None
    depth: int
    found_on: str | None
    page_id: str | None
    lastmod: str | None
    #: Kinds of ``metadata.losses``.
    losses: tuple[str, ...] = ()


@frozen
class Cursor:
    """The position of a listing: after the row ``row_id`` of a state.

    For :attr:`RowState.LISTED` it is the position of a refused link.
    """

    state: RowState
    row_id: int = 0


@frozen(kw_only=True)
class UrlQuery:
    """A query for URLs of a job, in the order of states and rows."""

    #: A value of :data:`STATES`, None for all.
    state: str | None = None
    #: Reason of the state, None for all.
    reason: str | None = None
    #: Only delivered pages with a loss of one of these kinds; empty for all URLs.
    losses: tuple[str, ...] = ()
    after: Cursor | None = None
    #: Number of rows to skip after ``after``.
    skip: int = 0
    limit: int


@frozen
class Listing:
    """A part of the URLs that match a query."""

    #: Number of all matching URLs.
    total: int
    urls: list[JobUrl]
    #: Position to continue from, None at the end.
    next: Cursor | None


def read_errors(
    connection: Connection,
    job_id: str,
    after: int = 0,
    skip: int = 0,
    limit: int | None = None,
) -> tuple[list[PageErrorRow], int]:
    """Return the failed pages of a job in the order of their rows, and the last row's id.

    Includes home pages of other sites, which are listed and not fetched. Begins ``skip`` errors
    after the row ``after``, whose id stands for the last one if there are no more.
    """
    columns = frontier.c
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
        .join(job, job.c.number == columns.job_number)
        .where(_is_error(job_id), columns.id > after)
        .order_by(columns.id)
        .offset(skip)
        .limit(limit)
    ).all()
    found = [
        PageErrorRow(
            id=row.page_id or str(uuid.uuid5(uuid.UUID(job_id), str(row.id))),
            url=row.url,
            code=EXTERNAL_LINK if row.code == EXTERNAL_HOME else row.code,
            error=row.error or "",
            at=row.ended_at or row.created_at,
        )
        for row in rows
    ]
    return found, rows[-1].id if rows else after


def count_errors(connection: Connection, job_id: str) -> int:
    """Return the number of the rows of :func:`read_errors`."""
    return _count(connection, [_is_error(job_id)])


def _is_error(job_id: str) -> ColumnElement[bool]:
    columns = frontier.c
    failed = and_(
        columns.state == RowState.FAILED,
        columns.kind == UrlKind.PAGE,
        columns.code.is_distinct_from(ROBOTS),
    )
    home = and_(columns.state == RowState.SKIPPED, columns.code == EXTERNAL_HOME)
    return and_(columns.job_number == number_of(job_id), or_(failed, home))


def read_current(connection: Connection, job_id: str) -> str | None:
    """Return a URL of a job that is being fetched, or None."""
    query = (
        select(frontier.c.url)
        .where(*rows_in(job_id, RowState.LEASED))
        .order_by(*IN_ORDER)
        .limit(1)
    )
    return connection.scalar(query)


def read_robots_blocked(connection: Connection, job_id: str) -> list[str]:
    """Return the URLs of a job that robots.txt refuses, the oldest first."""
    columns = frontier.c
    query = (
        select(columns.url)
        .where(
            columns.job_number == number_of(job_id),
            columns.state.in_((RowState.SKIPPED, RowState.FAILED)),
            columns.code == ROBOTS,
        )
        .order_by(columns.id)
    )
    return list(connection.scalars(query))


def read_urls(connection: Connection, job_id: str, query: UrlQuery) -> Listing:
    """Return matching URLs of a job with their states, and their total number."""
    urls, following = read_some_urls(connection, job_id, query)
    return Listing(count_urls(connection, job_id, query), urls, following)


def count_urls(connection: Connection, job_id: str, query: UrlQuery) -> int:
    """Return the number of all matching URLs, wherever the query begins."""
    if query.reason is None and not query.losses:
        return _count_all(connection, job_id, query.state)
    return sum(
        refused_links.count(connection, job_id, query.reason)
        if state is RowState.LISTED
        else _count(connection, _conditions(job_id, state, query))
        for state in _states(query)
    )


def read_some_urls(
    connection: Connection, job_id: str, query: UrlQuery
) -> tuple[list[JobUrl], Cursor | None]:
    """Return matching URLs, and the position to continue from, None at the end."""
    after, skip, limit = query.after, query.skip, query.limit
    left = _states(query)
    if after is not None:
        left = left[left.index(after.state) :] if after.state in left else []
    found: list[tuple[JobUrl, Cursor]] = []
    for current in left:
        first = after.row_id if after is not None and after.state is current else 0
        most = limit + 1 - len(found)
        if current is RowState.LISTED:
            listed, skip = refused_links.read(
                connection, job_id, query.reason, first, skip, most
            )
            found += map(_listed_url, listed)
            if len(found) > limit:
                break
            continue
        where = _conditions(job_id, current, query, first)
        if skip and (count := _count(connection, where)) <= skip:
            skip -= count
            continue
        rows = _rows(connection, where, skip, most)
        found += [(_url_of(row), Cursor(current, row.id)) for row in rows]
        skip = 0
        if len(found) > limit:
            break
    last = found[limit - 1][1] if len(found) > limit else None
    return [url for url, _ in found[:limit]], last


def _states(query: UrlQuery) -> list[RowState]:
    return [
        state
        for state, name in STATES.items()
        if query.state in {None, name}
        and query.reason in {None, _OWN_REASONS.get(state, (query.reason,))[0]}
        and (state is RowState.DONE or not query.losses)
    ]


def _conditions(
    job_id: str, state: RowState, query: UrlQuery, after: int = 0
) -> list[ColumnElement[bool]]:
    columns = frontier.c
    where = rows_in(job_id, state, after)
    if query.reason is not None and state not in _OWN_REASONS:
        where.append(columns.code == query.reason)
    if query.losses:
        kinds = (columns.losses.contains(f" {kind} ") for kind in query.losses)
        where += [columns.losses.is_not(None), or_(*kinds)]
    return where


def _count(connection: Connection, where: list[ColumnElement[bool]]) -> int:
    query = select(func.count()).select_from(frontier).where(*where)
    return connection.scalar(query) or 0


def _count_all(connection: Connection, job_id: str, state: str | None) -> int:
    """Return the number of URLs in a state, from the counts of the job if possible."""
    states = dict.fromkeys(STATES.values(), 0)
    _count_states(connection, job_id, states)
    for (row_state, _), count in _count_by(
        connection, job_id, text("kind = 1")
    ).items():
        if row_state != RowState.SKIPPED:
            states[STATES[RowState(row_state)]] += count
    skipped = STATES[RowState.SKIPPED]
    if state in {None, skipped}:
        states[skipped] += _count(connection, rows_in(job_id, RowState.SKIPPED))
        states[skipped] += refused_links.count(connection, job_id)
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
            .limit(inline(limit))
        )
    )


def _kind(row: Row[Any]) -> str:
    if row.kind == UrlKind.SITEMAP and row.depth == 0:
        return "robots"  # the robots.txt of the start URL, which may name sitemaps
    return UrlKind(row.kind).name.lower()


def _url_of(row: Row[Any]) -> JobUrl:
    reason, detail = _OWN_REASONS.get(row.state, (row.code, row.error))
    is_delivered = row.state == RowState.DONE and not row.code
    return JobUrl(
        url=row.url,
        kind=_kind(row),
        state=STATES[RowState(row.state)],
        reason=reason,
        detail=detail,
        depth=row.depth,
        found_on=row.parent_url,
        # The id of a sitemap that was read is empty.
        page_id=row.page_id or None if is_delivered else None,
        lastmod=row.lastmod,
        losses=tuple((row.losses or "").split()),
    )


def _listed_url(link: RefusedLink) -> tuple[JobUrl, Cursor]:
    found = JobUrl(
        url=link.url,
        kind=UrlKind.PAGE.name.lower(),
        state=STATES[RowState.LISTED],
        reason=link.code,
        detail=link.error,
        depth=link.depth,
        found_on=link.found_on,
        page_id=None,
        lastmod=None,
    )
    return found, Cursor(RowState.LISTED, link.position)


@frozen
class SitemapCounts:
    """Counts of the sitemap files of a job. Other files are still to be read."""

    files: int
    read: int
    failed: int
    #: Reasons of the failed files.
    reasons: Mapping[str, int]


def count_by_state(
    connection: Connection, job_id: str
) -> tuple[dict[str, int], dict[str, int], SitemapCounts]:
    """Return the numbers of URLs of a job by state and by reason.

    Every state of :data:`STATES` has a number, a reason only if it occurs. The states are
    counts of the job. Reasons are counted in a covering index: 0.1 s for a million rows.
    """
    coded = _count_by(connection, job_id, text("code IS NOT NULL"))
    files = _count_by(connection, job_id, text("kind = 1"), frontier.c.depth > 0)
    states = dict.fromkeys(STATES.values(), 0)
    reasons: Counter[str] = Counter()
    for (state, code), count in (coded - files).items():
        if state in _OWN_REASONS:
            continue  # refused before another page was redirected to it
        reasons[code] += count
        if state == RowState.SKIPPED:
            states[STATES[RowState.SKIPPED]] += count
    listed = refused_links.counts(connection, job_id)
    reasons += listed
    states[STATES[RowState.LISTED]] += listed.total()
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
    # Literals, not parameters: otherwise the partial indexes are not used.
    columns = frontier.c
    rows = connection.execute(
        select(columns.state, columns.code, func.count())
        .where(columns.job_number == number_of(job_id), *where)
        .group_by(columns.state, columns.code)
    )
    return Counter({(state, code): count for state, code, count in rows})


def _count_states(
    connection: Connection, job_id: str, states: dict[str, int]
) -> tuple[int, int]:
    """Add counts of the job row and of rare states. Return held and alias counts."""
    columns = frontier.c

    def count(state: RowState) -> int:
        is_page = columns.kind == UrlKind.PAGE
        return _count(connection, [*rows_in(job_id, state), is_page])

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


@frozen(kw_only=True)
class JobReport:
    """The report of a job at one moment."""

    job: Job
    #: Numbers of URLs by state.
    states: Mapping[str, int]
    #: Numbers of URLs by reason.
    reasons: Mapping[str, int]
    sitemaps: SitemapCounts
    #: At most :data:`job_counts.REPORTED_HOSTS`, those with the most refused URLs.
    robots: tuple[RobotsRow, ...]
    #: At most :data:`job_counts.REPORTED_HOSTS`, those with the most requests.
    hosts: Mapping[str, HostCounts]
    counts: PageCounts
    #: Sums over all hosts: ``hosts``, ``requests``, ``bytes`` and ``wait_s``.
    totals: Row[Any]
    #: Numbers of the Scrapy stats of its crawlers, by name.
    stats: Mapping[str, float]


def read_report(connection: Connection, job_id: str, team_id: str) -> JobReport | None:
    """Return the report of a job, None if the team has no such job."""
    found = job_rows.get_job(connection, job_id, team_id)
    if found is None:
        return None
    states, reasons, sitemaps = count_by_state(connection, job_id)
    return JobReport(
        job=found,
        states=states,
        reasons=reasons,
        sitemaps=sitemaps,
        robots=job_counts.read_robots(connection, job_id),
        hosts=job_counts.read_hosts(connection, job_id),
        counts=parse_counts(
            connection.scalar(select(job.c.page_counts).where(job.c.id == job_id))
        ),
        totals=_totals(connection, job_id),
        stats=job_counts.read_stats(connection, job_id),
    )


def _totals(connection: Connection, job_id: str) -> Row[Any]:
    columns = job_host.c
    sums = (
        # PostgreSQL sums large integers as decimals.
        func.coalesce(cast(func.sum(column), column.type), 0).label(column.name)
        for column in (columns.requests, columns.bytes, columns.wait_s)
    )
    query = select(func.count().label("hosts"), *sums).where(columns.job_id == job_id)
    return connection.execute(query).one()
