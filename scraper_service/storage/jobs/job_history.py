"""The list of a team's jobs and single calls, the newest first.

Jobs are rows of their own, single calls are rows of the activity. A list is read in two
steps: the ids of a part in the order of an index, then the facts of these ids. So a part
costs the same however many jobs there are. Filters that no index has read at most
:data:`MAX_SCANNED` rows of each table, and the part may then be short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen
from sqlalchemy import Column, ColumnElement, desc, func, select, tuple_, union_all

from scraper_service.discovery.canonical_urls import parse_uncached
from scraper_service.options.jobs import CRAWLED, KINDS, MONITOR_CHECK
from scraper_service.storage.frontier.job_warnings import warning_text
from scraper_service.storage.job_records import (
    ACTIVE,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.jobs.job_rows import MAX_TARGET
from scraper_service.storage.schema import activity, frontier, job, key, ledger, webhook
from scraper_service.storage.transactions import ListPosition, inline, now_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Row, Select

MAX_SCANNED = 10_000  # rows of each table in one call
SCAN_ROWS = 1000  # in one statement

#: Kinds of jobs by their kind in the database.
JOBS: Final = {name: kind.listed for name, kind in KINDS.items()}
#: Kinds of single calls, which are endpoints of the activity.
CALLS: Final = ("scrape", "map", "search", "parse")
INTERACT: Final = "interact"  # the endpoint of browser sessions, which no list has
#: Names of states. An active job that waits for its caller has another one.
PAUSED: Final = "paused"
STATES: Final = {
    JobState.QUEUED: "queued",
    JobState.SCRAPING: "running",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}


@frozen(kw_only=True)
class HistoryQuery:
    """A query for jobs of a team. None stands for any value."""

    #: Values of :data:`JOBS` and :data:`CALLS`. Other kinds match nothing.
    kinds: frozenset[str]
    #: Values of :data:`STATES`, and :data:`PAUSED`.
    states: frozenset[str] | None = None
    #: A host, which also stands for its subdomains.
    site: str | None = None
    #: A part of the target, in any case.
    text: str | None = None
    #: The first time of the call, in seconds since 1970.
    since: float | None = None
    #: The time of the call is before this one.
    until: float | None = None
    after: ListPosition | None = None
    limit: int


@frozen(kw_only=True)
class JobDetails:
    """A job with its options, or a single call, whose options are not stored."""

    summary: JobSummary
    #: JSON values without secrets, None for a single call.
    options: dict[str, Any] | None = None
    #: Names of the headers in the options.
    header_names: tuple[str, ...] = ()
    #: JSON values of the webhook, whose headers have no values. None without a webhook.
    webhook: dict[str, Any] | None = None


@frozen(kw_only=True)
class JobSummary:
    """A job or a single call in a list. Times are seconds since 1970."""

    id: str
    kind: str
    #: Version of the API.
    version: int
    state: str
    #: URL, query or prompt, None with zero data retention.
    target: str | None
    created_at: float
    started_at: float | None
    completed_at: float | None
    expires_at: float
    #: Time of this summary, by the clock of the database.
    now: float
    #: Numbers of URLs by state, for crawls and batches.
    counts: Mapping[str, int] | None = None
    total: int
    completed: int
    credits: int
    limit: int | None = None
    #: Bytes that count for the disk quota, 0 for single calls.
    stored: int = 0
    #: Name of the client.
    origin: str | None
    #: Name of the API key.
    key: str | None
    error: str | None
    warning: str | None = None
    #: See :attr:`~scraper_service.storage.job_records.Job.source_job_id`.
    source_job_id: str | None = None
    #: True if ``GET /scrape/{id}`` returns the page of a single call.
    has_page: bool = False
    #: The monitor of a check, None for other jobs.
    monitor_id: str | None = None

    @property
    def site(self) -> str | None:
        """The host of the target, None if the target is no URL."""
        return None if self.target is None else host_of_target(self.target)

    @property
    def duration_s(self) -> float:
        """The seconds from the call to the end, or to now."""
        end = self.now if self.completed_at is None else self.completed_at
        return max(0.0, end - self.created_at)


def host_of_target(target: str) -> str | None:
    """Return the host of a target without its port, None if it is no URL."""
    if not target.startswith(("http://", "https://")):
        return None
    parsed = parse_uncached(target)
    if parsed is None or not parsed.host:
        return None
    host, colon, port = parsed.host.rpartition(":")
    return host if colon and port.isdigit() else parsed.host


def read_history(
    connection: Connection, team_id: str, query: HistoryQuery
) -> tuple[list[JobSummary], ListPosition | None]:
    """Return jobs and single calls of a team, and the position after them.

    There may be fewer than the limit, and none, before the end. The position is None at
    the end.
    """
    now = now_of(connection)
    sources = [
        _Source(job, job.c.created_at, _jobs_wanted(team_id, query, now), None),
        _Source(
            activity,
            activity.c.at,
            _calls_wanted(team_id, query, now),
            _call_states(query),
        ),
    ]
    found: list[ListPosition] = []
    ends: list[ListPosition] = []  # of sources with further rows
    calls: set[str] = set()
    for source in sources:
        rows, end = source.read(connection, query)
        found += rows
        if source.table is activity:
            calls.update(row.id for row in rows)
        if end is not None:
            ends.append(end)
    # Below the first of these ends, a source may have rows that were not read.
    horizon = max(ends, default=None)
    found = sorted((x for x in found if horizon is None or x >= horizon), reverse=True)
    after = horizon
    if len(found) > query.limit:
        found = found[: query.limit]
        after = found[-1]
    ids = [each.id for each in found]
    known = {
        **_read_jobs(connection, team_id, [x for x in ids if x not in calls], now),
        **_read_calls(connection, team_id, [x for x in ids if x in calls], now),
    }
    return [known[each] for each in ids if each in known], after


def read_details(
    connection: Connection, job_id: str, team_id: str
) -> JobDetails | None:
    """Return a job or single call of a team, None if it is unknown or has expired."""
    summary = _read_summary(connection, team_id, job_id)
    if summary is None:
        return None
    if summary.kind in CALLS:
        return JobDetails(summary=summary)
    row = connection.execute(
        select(job.c.options, job.c.header_names, webhook.c.config)
        .outerjoin(webhook, webhook.c.job_id == job.c.id)
        .where(job.c.id == job_id)
    ).one()
    return JobDetails(
        summary=summary,
        options=json.loads(row.options),
        header_names=tuple(json.loads(row.header_names or "[]")),
        webhook=row.config and json.loads(row.config),
    )


def _read_summary(
    connection: Connection, team_id: str, job_id: str
) -> JobSummary | None:
    now = now_of(connection)
    for read in (_read_jobs, _read_calls):
        found = read(connection, team_id, [job_id], now).get(job_id)
        if found is not None:
            is_active = found.completed_at is None
            return found if is_active or found.expires_at > now else None
    return None


# -- positions -----------------------------------------------------------------------


def _jobs_wanted(
    team_id: str, query: HistoryQuery, now: float
) -> list[list[ColumnElement[bool]]]:
    columns = job.c
    return [
        [
            columns.parent_id.is_(None),
            columns.team_id == team_id,
            columns.kind == kind,
            columns.state == state,
            *conditions,
        ]
        for kind, name in JOBS.items()
        if name in query.kinds
        for state in STATES
        if (conditions := _within(state, query.states, now)) is not None
    ]


def _within(
    state: JobState, names: frozenset[str] | None, now: float
) -> list[ColumnElement[bool]] | None:
    """Return conditions for rows of a state, None if no row has one of ``names``."""
    has_name = names is None or STATES[state] in names
    if state not in ACTIVE:
        return [job.c.expires_at > now] if has_name else None
    has_paused = names is None or PAUSED in names
    if has_name and has_paused:
        return []
    if has_name:
        return [job.c.paused_at.is_(None)]
    return [job.c.paused_at.is_not(None)] if has_paused else None


def _calls_wanted(
    team_id: str, query: HistoryQuery, now: float
) -> list[list[ColumnElement[bool]]]:
    columns = activity.c
    return [
        [
            columns.team_id == team_id,
            columns.endpoint == kind,
            columns.expires_at > now,
        ]
        for kind in CALLS
        if kind in query.kinds
    ]


def _call_states(query: HistoryQuery) -> frozenset[str] | None:
    if query.states is None or query.states >= {"completed", "failed"}:
        return None
    return query.states


@frozen
class _Source:
    """A table with jobs. Each of ``wanted`` selects rows in the order of an index."""

    table: Any
    at: Column[float]
    wanted: list[list[ColumnElement[bool]]]
    #: States to look for in rows with a column ``error``, None for any.
    states: frozenset[str] | None

    def read(
        self, connection: Connection, query: HistoryQuery
    ) -> tuple[list[ListPosition], ListPosition | None]:
        """Return matching rows, and the last one that was read unless it was the end."""
        if not self.wanted:
            return [], None
        keeps = self._filter(query)
        size = query.limit + 1 if keeps is None else SCAN_ROWS
        found: list[ListPosition] = []
        after, scanned = query.after, 0
        while True:
            rows = connection.execute(self._newest(query, after, size)).all()
            for row in rows:
                after = ListPosition(row.at, row.id)
                if keeps is None or keeps(row):
                    found.append(after)
                if len(found) > query.limit:
                    return found, after
            scanned += len(rows)
            if len(rows) < size:
                return found, None
            if scanned >= MAX_SCANNED:
                return found, after

    def _filter(self, query: HistoryQuery) -> Callable[[Row[Any]], bool] | None:
        """Return the filters that no index has, None without any."""
        site, text, states = query.site, query.text, self.states
        if site is None and text is None and states is None:
            return None
        part = None if text is None else text.casefold()

        def keeps(row: Row[Any]) -> bool:
            if states is not None and _call_state(row) not in states:
                return False
            target = row.target
            if target is None:
                return site is None and part is None
            if part is not None and part not in target[:MAX_TARGET].casefold():
                return False
            host = None if site is None else host_of_target(target)
            return site is None or (
                host is not None and (host == site or host.endswith(f".{site}"))
            )

        return keeps

    def _newest(
        self, query: HistoryQuery, after: ListPosition | None, size: int
    ) -> Select[Any]:
        columns = self.table.c
        bounds: list[ColumnElement[bool]] = []
        if query.since is not None:
            bounds.append(self.at >= query.since)
        if query.until is not None:
            bounds.append(self.at < query.until)
        if after is not None:
            bounds.append(tuple_(self.at, columns.id) < tuple_(*after))
        facts = [columns.id, self.at.label("at"), columns.target, columns.error]
        parts = [
            select(*facts)
            .where(*wanted, *bounds)
            .order_by(self.at.desc(), columns.id.desc())
            .limit(inline(size))
            .subquery()
            for wanted in self.wanted
        ]
        every = union_all(*(select(part) for part in parts)).subquery()
        return (
            select(every)
            .order_by(desc(every.c.at), desc(every.c.id))
            .limit(inline(size))
        )


# -- facts ---------------------------------------------------------------------------


def _read_jobs(
    connection: Connection, team_id: str, ids: list[str], now: float
) -> dict[str, JobSummary]:
    if not ids:
        return {}
    # More conditions would lead SQLite to another index than that of the ids.
    found = connection.execute(
        select(job, key.c.name.label("key_name"))
        .outerjoin(key, key.c.id == job.c.key_id)
        .where(job.c.id.in_(ids))
    )
    rows = [
        row
        for row in found
        if row.team_id == team_id and row.parent_id is None and row.kind in JOBS
    ]
    leased = _count_leased(
        connection, [x.id for x in rows if x.kind in CRAWLED and x.state in ACTIVE]
    )
    return {row.id: _job(row, leased.get(row.id, 0), now) for row in rows}


def _count_leased(connection: Connection, ids: list[str]) -> dict[str, int]:
    if not ids:
        return {}
    columns, leased = frontier.c, inline(RowState.LEASED)
    rows = connection.execute(
        select(job.c.id, func.count())
        .join(job, job.c.number == columns.job_number)
        .where(
            columns.job_number.in_(select(job.c.number).where(job.c.id.in_(ids))),
            columns.state.between(leased, leased),
            columns.kind == UrlKind.PAGE,
        )
        .group_by(job.c.id)
    )
    return {row[0]: row[1] for row in rows}


def _state(row: Row[Any]) -> str:
    is_paused = row.paused_at is not None and row.state in ACTIVE
    return PAUSED if is_paused else STATES[JobState(row.state)]


def _job(row: Row[Any], leased: int, now: float) -> JobSummary:
    is_crawled = row.kind in CRAWLED
    total = row.open + row.done + row.failed
    summary = JobSummary(
        id=row.id,
        kind=JOBS[row.kind],
        version=row.version,
        state=_state(row),
        target=row.target,
        created_at=row.created_at,
        started_at=row.started_at,
        completed_at=row.completed_at,
        expires_at=row.expires_at,
        now=now,
        total=total if is_crawled else row.pages,
        completed=row.pages,
        credits=row.credits,
        limit=row.page_limit,
        stored=row.stored,
        origin=json.loads(row.options).get("origin"),
        key=row.key_name,
        error=row.error,
        warning=warning_text(row.warning),
        source_job_id=row.source_job_id,
    )
    if row.kind == MONITOR_CHECK:
        return evolve(summary, monitor_id=row.url)
    if not is_crawled:
        return summary
    # The rows of an ended job keep their states: nobody fetches its leased URLs.
    counts = {
        "pending": row.open - leased,
        "leased": leased,
        "held": row.held,
        "done": row.done,
        "failed": row.failed,
        "skipped": row.skipped,
    }
    return evolve(summary, counts=counts)


def _read_calls(
    connection: Connection, team_id: str, ids: list[str], now: float
) -> dict[str, JobSummary]:
    if not ids:
        return {}
    rows = connection.execute(
        select(
            activity,
            ledger.c.credits,
            ledger.c.at.label("ended_at"),
            key.c.name.label("key_name"),
        )
        .outerjoin(ledger, ledger.c.page_id == activity.c.id)
        .outerjoin(key, key.c.id == ledger.c.key_id)
        .where(activity.c.id.in_(ids))
    )
    return {
        row.id: _call(row, now)
        for row in rows
        if row.team_id == team_id and row.endpoint in CALLS
    }


def _call_state(row: Row[Any]) -> str:
    return "completed" if row.error is None else "failed"


def _call(row: Row[Any], now: float) -> JobSummary:
    is_done = row.error is None
    return JobSummary(
        id=row.id,
        kind=row.endpoint,
        version=row.version,
        state=_call_state(row),
        target=None if row.target is None else row.target[:MAX_TARGET],
        created_at=row.at,
        started_at=row.at,
        # The clocks of this machine and of the database may differ.
        completed_at=max(row.at, row.ended_at or row.at),
        expires_at=row.expires_at,
        now=now,
        total=1,
        completed=int(is_done),
        credits=row.credits or 0,
        origin=row.origin,
        key=row.key_name,
        error=row.error,
        has_page=is_done
        and row.endpoint in {"scrape", "parse"}
        and row.target is not None,
    )
