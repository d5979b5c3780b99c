"""The ends of fetches and of jobs: transactions of fetched and returned URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve
from sqlalchemy import bindparam, select, update

from scraper_service.storage import job_secrets, webhooks
from scraper_service.storage.accounts import audit
from scraper_service.storage.accounts.credits import give_back
from scraper_service.storage.files.page_sources import pack_all
from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.job_records import ACTIVE, Commit, JobState, RowState
from scraper_service.storage.schema import frontier, job, page
from scraper_service.storage.transactions import Statement, note, now_of, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.job_records import Outcome

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
    """Hold returned URLs of a job whose page limit was lowered meanwhile."""
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
    """Return the commits of outcomes that an earlier transaction stored, by row."""
    ids = {outcome.row_id: outcome.page_id for outcome in outcomes if outcome.page_id}
    rows = connection.execute(_READ_ENDED, {"ids": tuple(ids)})
    return {
        row.id: Commit(accepted=True, delivered=row.page is not None, state=state)
        for row in rows
        if row.page_id == ids[row.id]
    }
