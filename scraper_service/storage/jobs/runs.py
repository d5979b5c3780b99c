"""Runs: processes on scrapyd nodes that work on a job.

A run is asked for, waits in the queue of its node, runs, and ends. Its state never goes
back. Each step is a conditional update, so several services and late processes agree.
Functions run inside a transaction.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from attrs import frozen
from sqlalchemy import case, delete, select, update

from scraper_service.errors import JobNotFound, RunRefused
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import (
    ACTIVE,
    CRAWLED,
    LOCAL_TEAM,
    REPROCESS,
    Job,
    JobState,
    RunState,
)
from scraper_service.storage.jobs import job_store
from scraper_service.storage.schema import job, run, worker
from scraper_service.storage.transactions import (
    dialect_insert,
    lock_job,
    now_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

FIRST_BEAT_S = 60.0  # the shortest first lease: the process has yet to open its crawler
LOST = "lost"
# Runs of a job that are lost in a row without progress, before the job fails.
MAX_LOST = 10


@frozen
class Run:
    """A run that has not ended."""

    id: str
    job_id: str
    slot: int
    node: str
    state: RunState
    #: Id of the service that asked for the run.
    asked_by: str
    #: True if the process of the run, or before its start the asking service, is dead.
    is_lost: bool
    #: Seconds since the end of the job, None for an active job.
    ended_s: float | None


class Demand(NamedTuple):
    """An active job with ``open`` URLs that are pending or leased."""

    id: str
    #: The name of the spider that runs it.
    spider: str
    open: int


def demands(connection: Connection) -> tuple[list[Demand], list[Run]]:
    """Return the active jobs, the oldest first, and the runs that have not ended.

    Leaves out paused jobs, and jobs of :data:`LOCAL_TEAM`, which the commands of their users run.
    """
    now = now_of(connection)
    spider = case((job.c.source_job_id.is_(None), job.c.kind), else_=REPROCESS)
    wanted = (
        select(job.c.id, spider, job.c.open + job.c.sitemaps)
        .where(
            job.c.state.in_(ACTIVE),
            job.c.paused_at.is_(None),
            job.c.kind.in_(CRAWLED),
            job.c.team_id != LOCAL_TEAM,
        )
        .order_by(job.c.created_at)
    )
    columns = (run.c[name] for name in ("id", "job_id", "slot", "node", "state"))
    live = select(worker.c.id).where(worker.c.until >= now)
    found = (
        select(
            *columns,
            run.c.asked_by,
            run.c.id.in_(live).label("is_alive"),
            run.c.asked_by.in_(live).label("has_asker"),
            job.c.state.label("job_state"),
            job.c.completed_at,
        )
        .join(job, job.c.id == run.c.job_id)
        .where(run.c.state < RunState.ENDED)
        .order_by(run.c.created_at)
    )
    runs = [
        Run(
            row.id,
            row.job_id,
            row.slot,
            row.node,
            RunState(row.state),
            row.asked_by,
            not (row.is_alive if row.state == RunState.RUNNING else row.has_asker),
            None if row.job_state in ACTIVE else now - (row.completed_at or now),
        )
        for row in connection.execute(found)
    ]
    return [Demand(*row) for row in connection.execute(wanted)], runs


@transaction(row="{job_id}")
def ask(
    connection: Connection, job_id: str, run_id: str, slot: int, node: str, asker: str
) -> bool:
    """Store a run before it is asked for. Return False if its slot is taken."""
    state = lock_job(connection, job_id).state
    if state not in ACTIVE:
        return False
    inserted = connection.execute(
        dialect_insert(connection, run)
        .values(
            id=run_id,
            job_id=job_id,
            slot=slot,
            node=node,
            state=RunState.ASKED,
            asked_by=asker,
            progress=_progress(connection, job_id),
            created_at=now_of(connection),
        )
        .on_conflict_do_nothing()
        .returning(run.c.id)
    )
    return inserted.first() is not None


@transaction(row="{job_id}")
def accept(connection: Connection, job_id: str, run_id: str) -> None:
    """Mark a run as accepted by its node, unless its process has already joined."""
    _change(connection, run_id, [RunState.ASKED], RunState.WAITING)


@transaction(row="{job_id}")
def end_unstarted(
    connection: Connection, job_id: str, run_id: str, reason: str
) -> bool:
    """End a run whose process has not joined. The process can no longer join."""
    begun = [RunState.ASKED, RunState.WAITING]
    return _end(connection, run_id, begun, reason)


@transaction(row="{job_id}")
def end_lost(connection: Connection, job_id: str, run_id: str) -> bool:
    """End a run whose process is dead. Return False if the process is alive.

    Fails the job after :data:`MAX_LOST` lost runs without progress.
    """
    state = lock_job(connection, job_id).state
    until = connection.scalar(select(worker.c.until).where(worker.c.id == run_id))
    if until is not None and until >= now_of(connection):
        return False
    if not _end(connection, run_id, [RunState.RUNNING], LOST):
        return False
    last = connection.execute(
        select(run.c.reason, run.c.progress)
        .where(run.c.job_id == job_id, run.c.state == RunState.ENDED)
        .order_by(run.c.created_at.desc())
        .limit(MAX_LOST)
    ).all()
    if (
        state in ACTIVE
        and len(last) == MAX_LOST
        and all(row.reason == LOST for row in last)
        and last[-1].progress == _progress(connection, job_id)
    ):
        error = f"Its processes were lost {MAX_LOST} times and it got nowhere."
        outcomes.end_job(connection, job_id, JobState.FAILED, error)
    return True


def runs_of(connection: Connection, job_id: str) -> list[tuple[str, str]]:
    """Return the runs of a job that have not ended, as (id, node)."""
    query = select(run.c.id, run.c.node).where(
        run.c.job_id == job_id, run.c.state < RunState.ENDED
    )
    return [(row.id, row.node) for row in connection.execute(query)]


# -- for the process of a run --------------------------------------------------------


@frozen
class Joined:
    """A job that this process works on."""

    job: Job
    #: Id of this process in the table of workers.
    owner: str
    #: True if the process is a run, False if it was started by hand.
    is_run: bool


@transaction(row="{job_id}")
def join(
    connection: Connection, job_id: str, spider: str, run_id: str, lease_s: float
) -> Joined:
    """Join a job as the run ``run_id``, with the spider of a name.

    A process that is no run of the job was started by hand and may join. Raises
    :exc:`JobNotFound`, and :exc:`RunRefused` if another process has the slot of this run or
    the job is for another spider.
    """
    lock_job(connection, job_id)
    found = job_store.get_job(connection, job_id, None)
    if found is None:
        raise JobNotFound(
            f"no job {job_id} is in this database: SCRAPER_DATABASE_URL"
            " (or SCRAPER_DATA_DIR) has to be"
            " that of the service"
        )
    if found.spider != spider:
        raise RunRefused(f"job {job_id} is for the spider {found.spider}, not {spider}")
    state = connection.scalar(
        select(run.c.state).where(run.c.id == run_id, run.c.job_id == job_id)
    )
    owner = str(uuid.uuid4()) if state is None else run_id
    begun = [RunState.ASKED, RunState.WAITING]
    if state is not None and not _change(connection, run_id, begun, RunState.RUNNING):
        raise RunRefused(f"another process has the place of run {run_id}")
    job_store.start_job(connection, job_id)
    leases.beat(connection, owner, max(lease_s, FIRST_BEAT_S))
    return Joined(found, owner, state is not None)


class Standing(NamedTuple):
    """What a process needs to know of its job."""

    state: JobState
    #: The ``revision`` of the job.
    revision: int
    #: False if another process has taken the slot of this run.
    has_slot: bool


def standing(connection: Connection, job_id: str, run_id: str | None) -> Standing:
    """Return the state of a job for a process that is the run ``run_id``, or no run."""
    found = connection.execute(
        select(job.c.state, job.c.revision).where(job.c.id == job_id)
    ).one_or_none()
    state = JobState.CANCELLED if found is None else JobState(found.state)
    revision = 0 if found is None else found.revision
    if run_id is None:
        return Standing(state, revision, True)
    here = connection.scalar(select(run.c.state).where(run.c.id == run_id))
    return Standing(state, revision, here == RunState.RUNNING)


@transaction(row="{job_id}")
def leave(
    connection: Connection, job_id: str, owner: str, reason: str, error: str | None
) -> None:
    """End the work of a process on a job. Fail the job if there is an ``error``."""
    lock_job(connection, job_id)
    if error is not None:
        outcomes.end_job(connection, job_id, JobState.FAILED, error)
    _end(connection, owner, [RunState.RUNNING], reason)
    connection.execute(delete(worker).where(worker.c.id == owner))


# -- rows ----------------------------------------------------------------------------


def _progress(connection: Connection, job_id: str) -> int:
    """Return a number that rises with each ended URL and each read sitemap."""
    columns = job.c
    done = columns.done + columns.failed + columns.skipped
    read = columns.sitemap_files - columns.sitemaps
    return connection.scalar(select(done + read).where(columns.id == job_id)) or 0


def _end(
    connection: Connection, run_id: str, states: Collection[RunState], reason: str
) -> bool:
    ended = _change(connection, run_id, states, RunState.ENDED)
    if ended:
        connection.execute(
            update(run)
            .where(run.c.id == run_id)
            .values(reason=reason, ended_at=now_of(connection))
        )
    return ended


def _change(
    connection: Connection, run_id: str, states: Collection[RunState], state: RunState
) -> bool:
    changed = connection.execute(
        update(run)
        .where(run.c.id == run_id, run.c.state.in_(states))
        .values(state=state)
    )
    return changed.rowcount == 1
