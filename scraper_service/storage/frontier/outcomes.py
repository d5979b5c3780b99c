"""Transactions on the URLs of a job: ends of fetches, ends of jobs, copies of other jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import asdict, define, evolve
from sqlalchemy import bindparam, insert, literal, select, update

from scraper_service.storage import job_secrets, webhooks
from scraper_service.storage.accounts import audit
from scraper_service.storage.accounts.credits import give_back
from scraper_service.storage.files.page_sources import pack_all
from scraper_service.storage.frontier.job_warnings import JobWarning
from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.job_records import (
    ACTIVE,
    Commit,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import frontier, job, page
from scraper_service.storage.transactions import (
    Statement,
    note,
    now_of,
    number_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.job_records import Outcome


SLICE_ROWS = 2000  # that one transaction copies: some 10 ms
# Claims go on meanwhile: they take pending URLs, which a commit only adds. What takes
# pending URLs away locks the whole row, as :func:`lock_job`.
_READ_JOB = Statement(
    select(job).where(job.c.id == bindparam("job_id")).with_for_update(key_share=True)
)
_READ_ENDED = (
    select(frontier.c.id, frontier.c.page_id, page.c.id.label("page"))
    .outerjoin(page, page.c.id == frontier.c.page_id)
    .where(
        frontier.c.id.in_(bindparam("ids", expanding=True)),
        frontier.c.state.in_((RowState.DONE, RowState.FAILED, RowState.SKIPPED)),
    )
)


def append(
    connection: Connection, job_id: str, outcomes: Sequence[Outcome]
) -> list[Commit]:
    """Store the ends of fetches, each completely or not at all.

    Acknowledges the leases, admits new and held URLs up to the page limit, and stores
    pages, events and credits. Completes the job with its last URL. An outcome that is
    already stored is accepted again without a change, since callers repeat a call whose
    response was lost.
    """
    stored = pack_all(outcomes)  # before the lock of the job, for which others wait
    counts = _READ_JOB.one(connection, {"job_id": job_id})
    commits: dict[int, Commit] = {}
    revision = 0 if counts is None else counts.revision
    if counts is None or counts.state not in ACTIVE:
        state = JobState(counts.state) if counts else JobState.CANCELLED
    else:
        open_job = OpenJob(connection, counts)
        for run in _runs(outcomes):
            commits |= open_job.apply(run, stored)
        state = open_job.write(JobState.SCRAPING)
    if late := [outcome for outcome in outcomes if outcome.row_id not in commits]:
        commits |= _earlier_commits(connection, late, state)
    refused = Commit(accepted=False, delivered=False, state=state)
    found = (commits.get(outcome.row_id, refused) for outcome in outcomes)
    return [evolve(each, state=state, revision=revision) for each in found]


def hold_surplus(connection: Connection, job_id: str) -> None:
    """Hold back returned URLs of a job whose page limit was lowered meanwhile."""
    row = _READ_JOB.one(connection, {"job_id": job_id})
    if row is None or row.state not in ACTIVE or row.page_limit is None:
        return
    if row.open + row.pages > row.page_limit:
        open_job = OpenJob(connection, row)
        open_job.hold_surplus()
        open_job.write(JobState(row.state))


@transaction(row="{job_id}")
def end_job(
    connection: Connection,
    job_id: str,
    state: JobState,
    error: str | None = None,
    actor: Actor | None = None,
) -> bool:
    """Cancel or fail an active job. Return True if this call ended the job.

    ``actor`` is the caller who ends it, for the audit log.
    """
    at = now_of(connection)
    ended = connection.execute(
        update(job)
        .where(job.c.id == job_id, job.c.state.in_(ACTIVE))
        .values(
            state=state,
            error=error,
            paused_at=None,
            completed_at=at,
            expires_at=at + job.c.retention_s,
        )
        .returning(job.c.team_id, job.c.reserved)
    ).one_or_none()
    if ended is None:
        return False
    if ended.reserved:
        give_back(connection, ended.team_id, ended.reserved)
        connection.execute(update(job).where(job.c.id == job_id).values(reserved=0))
    audit.record(connection, actor, f"job.{state}", job_id)
    note(connection, job_id, state.value, at)
    webhooks.tell_locked(connection, job_id, state.value, at)
    job_secrets.forget(connection, job_id)
    return True


@define
class _Position:
    """How far the pages of the source are copied."""

    #: How many pages are looked at, and how many there are.
    done: int
    count: int
    #: Pages that were deleted meanwhile.
    gone: int = 0
    #: The numbers of the pages, None for all pages from 0 on.
    numbers: list[int] | None = None


def begin_copy(
    connection: Connection, job_id: str, count: int, numbers: Sequence[int] | None
) -> None:
    """Start to copy ``count`` pages of the source of a new job, and copy a slice.

    ``numbers`` are those of the pages, None for all pages from number 0 on.
    """
    chosen = None if numbers is None else list(numbers)
    _store_position(connection, job_id, _Position(0, count, numbers=chosen))
    copy_slice(connection, job_id)


@transaction(row="{job_id}")
def copy_slice(connection: Connection, job_id: str) -> bool:
    """Copy the next slice of a job. Return True if no slice is left.

    A source may have a million pages. The first slice belongs to the transaction that creates
    the job. The position is stored with each slice, and any process may go on: that of the
    caller does so at once, and the others with each claim. Until the last slice the job does
    not complete.
    """
    row = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one_or_none()
    if row is None or row.state not in ACTIVE or row.copying is None:
        return True
    position = _Position(**json.loads(row.copying))
    end = min(position.count, position.done + SLICE_ROWS)
    if position.numbers is None:
        chosen = page.c.seq.between(position.done, end - 1)
    else:
        chosen = page.c.seq.in_(position.numbers[position.done : end])
    names = ("job_number", "kind", "key", "url", "depth", "state", "lastmod")
    rows = (
        select(
            literal(row.number),
            literal(UrlKind.PAGE.value),
            frontier.c.key,
            frontier.c.url,
            frontier.c.depth,
            literal(RowState.PENDING.value),
            frontier.c.lastmod,
        )
        .join(page, page.c.frontier_id == frontier.c.id)
        .where(page.c.job_number == number_of(row.source_job_id), chosen)
        .order_by(page.c.seq)
    )
    copy = insert(frontier).from_select(names, rows)
    added = connection.execute(
        copy, execution_options={"preserve_rowcount": True}
    ).rowcount
    position.gone += end - position.done - added
    position.done = end
    is_over = end >= position.count
    opened = OpenJob(connection, row)
    opened.open += added
    opened.hold_surplus()  # the caller may have lowered the limit meanwhile
    opened.is_copying = not is_over
    if is_over and position.gone:
        opened.warn(JobWarning.SOURCE_LOST, pages=position.gone)
    _store_position(connection, job_id, None if is_over else position)
    opened.write(JobState(row.state))
    return is_over


def _store_position(
    connection: Connection, job_id: str, position: _Position | None
) -> None:
    text = None if position is None else json.dumps(asdict(position))
    connection.execute(update(job).where(job.c.id == job_id).values(copying=text))


def _runs(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Yield groups of outcomes that the same statements can store.

    A redirected page is a group of its own: its result depends on earlier rows.
    """
    run: list[Outcome] = []
    for outcome in outcomes:
        if outcome.final is None or outcome.final[0] == outcome.key:
            run.append(outcome)
            continue
        if run:
            yield run
        yield [outcome]
        run = []
    if run:
        yield run


def _earlier_commits(
    connection: Connection, outcomes: list[Outcome], state: JobState
) -> dict[int, Commit]:
    ids = {outcome.row_id: outcome.page_id for outcome in outcomes if outcome.page_id}
    rows = connection.execute(_READ_ENDED, {"ids": tuple(ids)})
    return {
        row.id: Commit(accepted=True, delivered=row.page is not None, state=state)
        for row in rows
        if row.page_id == ids[row.id]
    }
