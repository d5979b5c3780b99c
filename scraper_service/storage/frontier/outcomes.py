"""The transactions of fetched and of returned URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve
from sqlalchemy import bindparam, select

from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.frontier.packed_pages import pack_all
from scraper_service.storage.jobs.job_records import (
    ACTIVE,
    Commit,
    JobState,
    RowState,
)
from scraper_service.storage.schema import frontier, job, page
from scraper_service.storage.statements import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.jobs.job_records import Outcome

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
        commits |= _stored_before(connection, late, state)
    refused = Commit(accepted=False, delivered=False, state=state)
    found = (commits.get(outcome.row_id, refused) for outcome in outcomes)
    return [evolve(each, state=state, revision=revision) for each in found]


def hold_surplus(connection: Connection, job_id: str) -> None:
    """Hold returned URLs of a job whose page limit was lowered meanwhile."""
    row = _READ_JOB.one(connection, {"job_id": job_id})
    if row is None or row.state not in ACTIVE or row.page_limit is None:
        return
    if row.open + row.pages > row.page_limit:
        open_job = OpenJob(connection, row)
        open_job.hold_surplus()
        open_job.write(JobState(row.state))


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


def _stored_before(
    connection: Connection, outcomes: list[Outcome], state: JobState
) -> dict[int, Commit]:
    """Return the commits of outcomes that an earlier transaction stored, by row."""
    ids = {outcome.row_id: outcome.page_id for outcome in outcomes if outcome.page_id}
    rows = connection.execute(_READ_ENDED, {"ids": tuple(ids)})
    return {
        row.id: Commit(accepted=True, delivered=row.page is not None, state=state)
        for row in rows
        if row.page_id == ids[row.id]
    }
