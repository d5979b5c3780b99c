"""Which jobs a process may take next, of every kind.

Queued jobs, jobs whose process has ended, and jobs of spiders that are too large for the
processes that run them. So a small job has one process, however many look for work.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import (
    Integer,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    true,
)

from scraper_service.options.serialization import CRAWLED
from scraper_service.storage.job_records import ACTIVE, LOCAL_TEAM, JobState, RunState
from scraper_service.storage.jobs.runs import is_live
from scraper_service.storage.schema import job, run
from scraper_service.storage.transactions import inline, now_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import BindParameter, Connection, Select

LOST, QUEUED, LARGE = range(3)  # the order of waiting jobs

# Each process looks every two seconds and after each new job. To build these statements
# takes ten times as long as to run them.
_IN_RUNNING: BindParameter[str] = bindparam("running", expanding=True)
_KNOWN = select(job.c.id, job.c.revision).where(
    job.c.id.in_(_IN_RUNNING), job.c.state.in_(ACTIVE)
)
_HELD = select(run.c.job_id).where(
    run.c.job_id.in_(_IN_RUNNING),
    run.c.owner == bindparam("owner"),
    run.c.state < inline(RunState.ENDED),
)
_PARENT = job.alias("parent")
_ORPHANS = select(job.c.id).where(
    job.c.state.in_(ACTIVE),
    job.c.parent_id.is_not(None),
    # As a join, PostgreSQL would hash all jobs that have ended.
    select(_PARENT.c.state)
    .where(_PARENT.c.id == job.c.parent_id)
    .scalar_subquery()
    .not_in(ACTIVE),
)


@frozen
class WaitingJob:
    """An active job that needs a process."""

    id: str
    team_id: str
    #: True if no process has started it.
    is_queued: bool
    #: The number of processes that run it now.
    processes: int = 0


@frozen
class RunningJobs:
    """The jobs of a process, as the database sees them."""

    #: The revisions of those that are still active, by id.
    active: Mapping[str, int]
    #: The ids of those whose runs in this process have not ended.
    held: frozenset[str]
    #: Active steps of jobs that have ended, in any process.
    orphans: tuple[str, ...]


def running_jobs(
    connection: Connection, owner: str, running: Collection[str]
) -> RunningJobs:
    """Return what has become of the jobs ``running`` of the process ``owner``."""
    values = {"running": tuple(running), "owner": owner}
    known = connection.execute(_KNOWN, values)
    return RunningJobs(
        {row.id: row.revision for row in known},
        frozenset(connection.scalars(_HELD, values)),
        tuple(connection.scalars(_ORPHANS)),
    )


def waiting_jobs(
    connection: Connection,
    owner: str,
    kinds: Collection[str],
    running: Collection[str],
    most: int,
    at_once: int = 1,
    only: str | None = None,
    most_processes: int | None = None,
) -> list[WaitingJob]:
    """Return jobs of some kinds that need the process ``owner``, which runs ``running``.

    First those that nobody runs any more, then queued ones, then large ones; of each at most
    ``most`` per team, the oldest of each team first. A process fetches ``at_once`` URLs of a
    job at a time: jobs whose open URLs the present processes fetch at once are left out, and
    so are paused jobs. ``only`` limits the result to one job, which always needs the process.
    Without ``only``, jobs of :data:`LOCAL_TEAM` are left out, whose commands run them. On
    nodes a job has at most ``most_processes``, None for processes that are on no node.
    """
    statement = _waiting(is_one=only is not None, on_nodes=most_processes is not None)
    values = {
        "now": now_of(connection),
        "owner": owner,
        "kinds": tuple(kinds),
        "running": tuple(running),
        "most": most,
        "at_once": at_once,
        "only": only,
        "most_processes": most_processes,
    }
    return [
        WaitingJob(row.id, row.team_id, row.state == JobState.QUEUED, row.processes)
        for row in connection.execute(statement, values)
    ]


@functools.cache
def _waiting(*, is_one: bool, on_nodes: bool) -> Select[Any]:
    """Return the statement of :func:`waiting_jobs`, for one job or all."""
    live = is_live(bindparam("now"), bindparam("owner"), waits=on_nodes)
    processes = (
        select(func.count())
        .where(run.c.job_id == job.c.id, live)
        .correlate(job)
        .scalar_subquery()
    )
    active = (
        select(
            *(job.c.id, job.c.team_id, job.c.kind, job.c.state, job.c.created_at),
            (job.c.open + job.c.sitemaps).label("unfinished"),
            processes.label("processes"),
        )
        .where(
            job.c.state.in_(ACTIVE),
            job.c.kind.in_(bindparam("kinds", expanding=True)),
            job.c.paused_at.is_(None),
            job.c.id.not_in(_IN_RUNNING),
            job.c.id == bindparam("only") if is_one else job.c.team_id != LOCAL_TEAM,
        )
        .cte("active")
        .prefix_with("MATERIALIZED")  # else the processes are counted at each use
    )
    order = case(
        (active.c.processes > 0, LARGE),
        (active.c.state == JobState.QUEUED, QUEUED),
        else_=LOST,
    )
    at_once = bindparam("at_once", type_=Integer)
    is_large = active.c.unfinished > at_once * active.c.processes
    needs_more = and_(
        active.c.kind.in_(CRAWLED),
        true() if is_one else is_large,
        active.c.processes < bindparam("most_processes") if on_nodes else true(),
    )
    needs = or_(active.c.processes == 0, needs_more)
    oldest = (active.c.created_at, active.c.id)
    place = func.row_number().over(
        partition_by=(active.c.team_id, order), order_by=oldest
    )
    ranked = (
        select(active, order.label("order"), place.label("place"))
        .where(needs)
        .subquery()
    )
    return (
        select(ranked)
        .where(ranked.c.place <= bindparam("most"))
        .order_by(ranked.c.order, ranked.c.place, ranked.c.created_at)
    )


def has_untaken(connection: Connection, kinds: Collection[str]) -> bool:
    """Return True if an active job of some kinds has no run.

    Leaves out paused jobs, and jobs of :data:`LOCAL_TEAM`, whose commands run them.
    """
    is_taken = exists().where(
        run.c.job_id == job.c.id, run.c.state < inline(RunState.ENDED)
    )
    untaken = select(job.c.id).where(
        ~is_taken,
        job.c.state.in_(ACTIVE),
        job.c.kind.in_(kinds),
        job.c.paused_at.is_(None),
        job.c.team_id != LOCAL_TEAM,
    )
    return connection.execute(untaken.limit(1)).first() is not None
