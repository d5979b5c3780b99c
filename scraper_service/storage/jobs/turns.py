"""Which jobs a process may run next.

Queued jobs, jobs whose process has ended, and jobs that are too large for the processes that
run them. So a small job has one process, however many look for work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import and_, func, select

from scraper_service.storage.job_records import (
    ACTIVE,
    CRAWLED,
    LOCAL_TEAM,
    JobState,
    RowState,
)
from scraper_service.storage.schema import frontier, job, worker
from scraper_service.storage.transactions import now_of, written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import ColumnElement, Connection

STARTING_S = 2.0  # from the start of a job until its first process has leases


@frozen
class WaitingJob:
    """An active job that this process does not run."""

    id: str
    team_id: str
    #: True if no process has started it.
    is_queued: bool
    #: The number of processes that run it now.
    processes: int = 0


@frozen
class RunnableJobs:
    """Jobs that may run now, as a process sees them."""

    #: The revisions of running jobs that are still active, by id.
    active: Mapping[str, int]
    #: Others that need this process and are not paused: first those that nobody runs any
    #: more, then queued ones, the oldest job of each team first, then large ones.
    waiting: tuple[WaitingJob, ...]


def job_turns(
    connection: Connection,
    running: Collection[str],
    most: int,
    at_once: int = 1,
    only: str | None = None,
) -> RunnableJobs:
    """Return the active jobs of ``running``, and others that need this process.

    At most ``most`` queued jobs per team. A process fetches ``at_once`` URLs of a job at a
    time: jobs whose open URLs the present processes fetch at once are left out, and so are
    paused jobs. ``only`` limits the result to one job. Without ``only``, jobs of
    :data:`LOCAL_TEAM` are left out.
    """
    is_ours = job.c.team_id != LOCAL_TEAM if only is None else job.c.id == only
    is_crawled = and_(job.c.kind.in_(CRAWLED), is_ours)
    known = select(job.c.id, job.c.revision).where(
        job.c.id.in_(running), job.c.state.in_(ACTIVE), is_crawled
    )
    revisions = {row.id: row.revision for row in connection.execute(known)}
    others = and_(is_crawled, job.c.paused_at.is_(None), job.c.id.not_in(running))
    queued = tuple(_queued(connection, others, most))
    if only is not None:
        at_once = 0
    lost: list[WaitingJob] = []
    large: list[WaitingJob] = []
    for each in _started(connection, others, at_once):
        (large if each.processes else lost).append(each)
    return RunnableJobs(revisions, (*lost, *queued, *large))


def _queued(
    connection: Connection, others: ColumnElement[bool], most: int
) -> Iterator[WaitingJob]:
    place = func.row_number().over(
        partition_by=job.c.team_id, order_by=(job.c.created_at, job.c.id)
    )
    ranked = (
        select(job.c.id, job.c.team_id, job.c.created_at, place.label("place"))
        .where(others, job.c.state == JobState.QUEUED)
        .subquery()
    )
    query = (
        select(ranked.c.id, ranked.c.team_id)
        .where(ranked.c.place <= most)
        .order_by(ranked.c.place, ranked.c.created_at)
    )
    for row in connection.execute(query):
        yield WaitingJob(row.id, row.team_id, is_queued=True)


def _started(
    connection: Connection, others: ColumnElement[bool], at_once: int
) -> Iterator[WaitingJob]:
    """Yield running jobs with more open URLs than their processes fetch at once.

    These are the processes that live and hold leases on the job. A job without leases, as
    after the death of its process, has none, unless it has just started.
    """
    now = now_of(connection)
    live = select(worker.c.id).where(worker.c.until >= now)
    holders = (
        select(func.count(frontier.c.owner.distinct()))
        .where(
            frontier.c.job_number == job.c.number,
            frontier.c.state == written(RowState.LEASED),
            frontier.c.owner.in_(live),
        )
        .correlate(job)
        .scalar_subquery()
    )
    query = (
        select(
            *(job.c.id, job.c.team_id, holders.label("holders")),
            (job.c.open + job.c.sitemaps).label("unfinished"),
            (func.coalesce(job.c.started_at, 0) > now - STARTING_S).label("starts"),
        )
        .where(others, job.c.state == JobState.SCRAPING)
        .order_by(job.c.created_at, job.c.id)
    )
    for row in connection.execute(query):
        processes = max(row.holders, int(row.starts))
        if not processes or row.unfinished > at_once * processes or not at_once:
            yield WaitingJob(row.id, row.team_id, False, processes)


def has_queued(connection: Connection) -> bool:
    """Return True if a crawl or batch waits that no process has started.

    Leaves out paused jobs, and jobs of :data:`LOCAL_TEAM`, whose commands run them.
    """
    queued = select(job.c.id).where(
        job.c.state == JobState.QUEUED,
        job.c.kind.in_(CRAWLED),
        job.c.paused_at.is_(None),
        job.c.team_id != LOCAL_TEAM,
    )
    return connection.execute(queued.limit(1)).first() is not None
