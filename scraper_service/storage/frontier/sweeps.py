"""The sweep over the URLs of a crawl after a change of its paths or its depth.

It goes through the rows that the change may move, in slices: a crawl may have a million of
them. The first slice belongs to the transaction of the change. Until the last slice, the job
gives no leases and does not complete, so nobody works by the former rules. The position is
stored with each slice, and any process may go on: the one of the caller does so at once, and
the others with each claim. Functions run inside a transaction that has locked the job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, define
from sqlalchemy import bindparam, case, or_, select, update

from scraper_service.discovery import Reason
from scraper_service.storage.frontier.changed_rules import changed_rules, reason_of
from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.jobs.job_records import (
    ACTIVE,
    Effect,
    JobChange,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import frontier, job
from scraper_service.storage.transactions import IN_ORDER, number_of, rows_in, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.discovery import Refusal

SLICE_ROWS = 1000  # in one transaction: about 50 ms
OVER: Final = ""  # the stored position at the end
# The rows of each phase: their state, and the reason of skipped rows.
PHASES: tuple[tuple[RowState, Reason | None], ...] = (
    (RowState.PENDING, None),
    (RowState.HELD, None),
    (RowState.SKIPPED, Reason.EXCLUDED),
    (RowState.SKIPPED, Reason.NOT_INCLUDED),
    (RowState.SKIPPED, Reason.DISCOVERY_DEPTH),
)

_MOVE = (
    update(frontier)
    .where(frontier.c.id == bindparam("row_id"))
    .values({name: bindparam(name) for name in ("state", "code", "error")})
)


@define
class _Sweep:
    """The position of a sweep, and what it has moved so far."""

    #: Index in :data:`PHASES`.
    phase: int = 0
    #: The last row of the phase.
    after: int = 0
    admitted: int = 0
    dropped: int = 0
    restored: int = 0

    @property
    def effect(self) -> Effect:
        return Effect(self.admitted, self.dropped, self.restored)


def begin(connection: Connection, changed: OpenJob) -> Effect:
    """Start the sweep of a job whose options were changed, and go through a slice.

    Returns the effect so far.
    """
    changed.sweep = json.dumps(asdict(_Sweep()))
    return advance(connection, changed)


def supersede(changed: OpenJob, options: Mapping[str, Any]) -> None:
    """End a sweep where it is, since another change starts from the first row again.

    Its event has ``options``, those in force until now, and the effect so far.
    """
    if not changed.sweep:
        return
    effect = _Sweep(**json.loads(changed.sweep)).effect
    changed.note("updated", json.dumps(asdict(JobChange(options, effect))))
    changed.sweep = OVER


def go_on(connection: Connection, job_id: str) -> bool:
    """Go through the next slice of a job. Return True if no slice is left."""
    row = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one_or_none()
    if row is None or row.state not in ACTIVE or not row.sweep:
        return True
    changed = OpenJob(connection, row)
    advance(connection, changed)
    changed.write(JobState(row.state))
    return not changed.sweep


def advance(connection: Connection, changed: OpenJob) -> Effect:
    """Go through a slice, and store the position, and the event of the end.

    Returns the effect so far.
    """
    assert changed.sweep
    sweep, rows = _Sweep(**json.loads(changed.sweep)), SLICE_ROWS
    while rows > 0 and sweep.phase < len(PHASES):
        found = _read(connection, changed.job_id, sweep, rows)
        _move(connection, changed, sweep, found)
        if len(found) == rows:
            sweep.after = found[-1].id
        else:
            if PHASES[sweep.phase][0] is RowState.HELD:
                sweep.admitted += changed.let_in()
            sweep.phase, sweep.after = sweep.phase + 1, 0
        rows -= len(found) or 1
    effect = sweep.effect
    if sweep.phase < len(PHASES):
        changed.sweep = json.dumps(asdict(sweep))
    else:
        changed.sweep = OVER
        changed.note("updated", changed.detail(effect))
    connection.execute(
        update(job).where(job.c.id == changed.job_id).values(sweep=changed.sweep)
    )
    return effect


def _read(
    connection: Connection, job_id: str, sweep: _Sweep, limit: int
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return the next pages of the phase. Start URLs are left out: each is fetched."""
    state, reason = PHASES[sweep.phase]
    columns, parent = frontier.c, frontier.alias("parent")
    # The scope takes None for sitemaps, and for the start page, which may have moved.
    has_no_page = or_(
        parent.c.kind == UrlKind.SITEMAP.value, parent.c.found_on.is_(None)
    )
    parent_url = case((has_no_page, None), else_=parent.c.url).label("parent_url")
    query = (
        select(columns.id, columns.url, columns.depth, parent_url)
        .outerjoin(parent, parent.c.id == columns.found_on)
        .where(columns.kind == UrlKind.PAGE, columns.found_on.is_not(None))
        .limit(written(limit))
    )
    if reason is None:
        query = query.where(*rows_in(job_id, state, sweep.after)).order_by(*IN_ORDER)
    else:
        query = query.where(
            columns.job_number == number_of(job_id),
            columns.state == written(state),
            columns.code == reason,
            columns.id > sweep.after,
        ).order_by(columns.id)
    return connection.execute(query).all()


def _move(
    connection: Connection, changed: OpenJob, sweep: _Sweep, rows: Sequence[Any]
) -> None:
    state, reason = PHASES[sweep.phase]
    rules = changed_rules(changed.options, changed.base)
    moves = []
    for row in rows:
        if reason is None:
            if refusal := rules.refusal(row.url, row.depth):
                moves.append(_skipped(row.id, refusal))
                sweep.dropped += 1
            continue
        refusal = rules.refusal_of_skipped(row.url, row.depth, row.parent_url)
        if refusal is not None:
            moves.append(_skipped(row.id, refusal))  # perhaps for another reason now
            continue
        enters = changed.room is None or changed.room > 0
        to = RowState.PENDING if enters else RowState.HELD
        moves.append({"row_id": row.id, "state": to, "code": None, "error": None})
        changed.open += enters
        changed.held += not enters
        changed.skipped -= 1
        sweep.restored += 1
    if reason is None:
        _count_skipped(changed, state, len(moves))
    if moves:
        connection.execute(_MOVE, moves)


def _skipped(row_id: int, refusal: Refusal) -> dict[str, Any]:
    code, error = reason_of(refusal)
    return {
        "row_id": row_id,
        "state": RowState.SKIPPED,
        "code": code,
        "error": error,
    }


def _count_skipped(changed: OpenJob, state: RowState, count: int) -> None:
    changed.skipped += count
    if state is RowState.PENDING:
        changed.open -= count
    else:
        changed.held -= count


def drop_refused(connection: Connection, job_id: str, count: int) -> None:
    """Skip those of the ``count`` oldest pending URLs that the present rules refuse.

    URLs return to the frontier that were leased during the sweep.
    """
    row = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one()
    changed = OpenJob(connection, row)
    rules = changed_rules(changed.options, changed.base)
    dropped = 0
    while True:
        oldest = _read(connection, job_id, _Sweep(), count)
        refusals = ((each.id, rules.refusal(each.url, each.depth)) for each in oldest)
        moves = [_skipped(row_id, found) for row_id, found in refusals if found]
        if not moves:
            break
        connection.execute(_MOVE, moves)
        dropped += len(moves)
    if dropped:
        _count_skipped(changed, RowState.PENDING, dropped)
        changed.let_in()
        changed.write(JobState(row.state))
