"""Runs: the leases of processes on jobs, of every kind, and which jobs wait for one.

A process takes a job, works on it, and ends its run; a run never goes back. Any number of
processes may run a job of a spider, whose URLs have leases of their own. One process at a
time runs another job: its writes name the run, and are refused once the run has ended. Runs
of dead processes end as :data:`LOST`.

A process of a scrapyd node does not take a job itself. A service takes it for the node, and
the process joins. Until then the run waits in the queue of the node, also while no service
lives.

Waiting are queued jobs, jobs whose process has ended, and jobs of spiders that are too large
for the processes that run them. So a small job has one process, however many look for work.
Functions run inside a transaction.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from attrs import evolve, frozen
from sqlalchemy import (
    Integer,
    and_,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from scraper_service.errors import JobNotFound, RunRefused, SecretsUnreadable
from scraper_service.options.jobs import CRAWLED
from scraper_service.storage import job_secrets
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import (
    ACTIVE,
    LOCAL_TEAM,
    LOST,
    Job,
    JobState,
    RunState,
)
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import job, operation, run, worker
from scraper_service.storage.transactions import (
    inline,
    is_late,
    live_workers,
    lock_job,
    now_of,
    transaction,
    try_lock_job,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import BindParameter, ColumnElement, Connection, Row, Select


FIRST_BEAT_S = 60.0  # the shortest first lease: the process has yet to open its crawler
SHUTDOWN = "shutdown"
# Runs of a job that are lost without progress, before the job fails.
MAX_LOST = 10
MOST_RUNS = 200  # of a job; the oldest ones are deleted

LEFT, QUEUED, LARGE = range(3)  # the order of waiting jobs

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


@frozen(kw_only=True)
class Taken:
    """A job that a process runs, and its run."""

    #: With the secrets in its options, unless the run is that of a node.
    job: Job
    run_id: str
    #: Seconds since the start of the job; 0 for a process that joins.
    age_s: float
    #: JSON with the findings of the steps so far; None for the job of a spider.
    memory: str | None = None
    #: False if it has had another run.
    is_first: bool


def is_live(
    now: float | BindParameter[float],
    owner: str | BindParameter[str] | None = None,
    *,
    waits: bool = True,
) -> ColumnElement[bool]:
    """Return the condition for runs that have not ended, of processes that live ``now``.

    ``now`` is the time of the database. Leaves out the runs in the process ``owner``, which
    knows what it runs. With ``waits``, runs in the queue of a node count, too, even if the
    service that requested the run is dead.
    """
    live = live_workers(now)
    lives = or_(
        run.c.owner.in_(live),
        run.c.state == inline(RunState.REQUESTED) if waits else false(),
    )
    found = and_(run.c.state < inline(RunState.ENDED), lives)
    if owner is None:
        return found
    return and_(found, or_(run.c.owner != owner, run.c.node.is_not(None)))


@transaction(row="{job_id}")
def take(
    connection: Connection,
    job_id: str,
    owner: str,
    at_once: int = 0,
    node: str | None = None,
    most: int | None = None,
) -> Taken | Literal[JobState.FAILED] | None:
    """Take a job for a process that does not run it. Return None if it needs no more.

    Also returns None for a job whose row is locked: the next look comes soon.
    The job of a spider needs a further process if it has more open URLs than its processes
    fetch ``at_once``, 0 for any number. With ``node`` the run is one of at most ``most`` on
    scrapyd nodes, for which the process has to :func:`join`.

    Returns ``FAILED`` after failing the job: if its runs were lost :data:`MAX_LOST` times,
    unless the URLs count how often they ended a process, and if this process cannot decrypt
    its secrets.
    """
    locked = try_lock_job(connection, job_id)
    if locked is None or locked.state not in ACTIVE or locked.paused_at is not None:
        return None
    if is_late(connection, owner):
        return None
    live = is_live(now_of(connection), owner, waits=node is not None)
    others = connection.scalars(
        select(run.c.node).where(run.c.job_id == job_id, live)
    ).all()
    columns: Sequence[Any] = (*job_rows.COLUMNS, operation.c.memory, operation.c.steps)
    row = connection.execute(
        select(*columns)
        .outerjoin(operation, operation.c.job_id == job.c.id)
        .where(job.c.id == job_id)
    ).one()
    found = job_rows.job_of(row)
    is_crawled = found.kind in CRAWLED
    if others and (
        not is_crawled
        or found.open + found.sitemaps <= at_once * len(others)
        or (most is not None and sum(each is not None for each in others) >= most)
    ):
        return None
    _end(connection, LOST, run.c.job_id == job_id, ~live)
    progress = _progress(row)
    counts = not is_crawled or node is not None
    if counts and _is_stuck(connection, job_id, progress):
        error = _ERRORS[is_crawled].format(MAX_LOST)
        outcomes.end_job(connection, job_id, JobState.FAILED, error)
        return JobState.FAILED
    if node is None:
        whole = _decrypt_or_fail(connection, found)
        if isinstance(whole, SecretsUnreadable):
            return JobState.FAILED
        found = whole
        job_rows.start_job(connection, job_id)
    state = RunState.RUNNING if node is None else RunState.REQUESTED
    is_first = _is_first(connection, job_id)
    run_id = _begin(connection, job_id, owner, state, progress, node=node)
    return Taken(
        job=found,
        run_id=run_id,
        age_s=max(0.0, now_of(connection) - found.created_at),
        memory=row.memory,
        is_first=is_first,
    )


def _decrypt_or_fail(connection: Connection, found: Job) -> Job | SecretsUnreadable:
    """Return a job with the secrets in its options. Fail it if they cannot be decrypted."""
    try:
        options = job_secrets.whole_options(connection, found.id, found.options)
    except SecretsUnreadable as error:
        outcomes.end_job(connection, found.id, JobState.FAILED, str(error))
        return error
    return evolve(found, options=options)


_ERRORS = {
    True: "Its processes were lost {} times and it got nowhere.",
    False: "The process ended {} times in the same step.",
}


def holds(connection: Connection, job_id: str, run_id: str) -> bool:
    """Lock a job. Return True if it is active and the run has not ended."""
    if lock_job(connection, job_id).state not in ACTIVE:
        return False
    state = select(run.c.state).where(run.c.id == run_id, run.c.job_id == job_id)
    return connection.scalar(state) == RunState.RUNNING


@transaction(row="{job_id}")
def end(
    connection: Connection,
    job_id: str,
    run_id: str,
    reason: str | None,
    error: str | None = None,
) -> bool:
    """End a run. Fail its job if there is an ``error``; return True if this call did so.

    Changes nothing if the run has ended, such as by the death of its process.
    """
    if error is not None:
        lock_job(connection, job_id)
    if not _end(connection, reason, run.c.id == run_id) or error is None:
        return False
    return outcomes.end_job(connection, job_id, JobState.FAILED, error)


@transaction(apart=True)
def end_all(connection: Connection, owner: str) -> None:
    """End the runs in a process that stops. Other processes take its jobs at once."""
    _end(connection, SHUTDOWN, run.c.owner == owner, run.c.node.is_(None))


@transaction(apart=True)
def end_lost(connection: Connection, owner: str) -> int:
    """End the runs of dead processes, and return their number.

    Not those that wait in the queue of a node: services with that node judge them. Does
    nothing for a process ``owner`` that is late itself, and would end its own runs.
    """
    if is_late(connection, owner):
        return 0
    lost = select(run.c.id).where(
        run.c.state < inline(RunState.ENDED), ~is_live(now_of(connection))
    )
    some = lost.with_for_update(skip_locked=True)  # others look for them too
    return _end(connection, LOST, run.c.id.in_(some.scalar_subquery()))


def _is_stuck(connection: Connection, job_id: str, progress: int) -> bool:
    lost = select(func.count()).where(
        run.c.job_id == job_id, run.c.reason == LOST, run.c.progress == progress
    )
    return (connection.scalar(lost) or 0) >= MAX_LOST


def _progress(row: Row[Any]) -> int:
    """Return a number that rises with each step, ended URL and read sitemap of a job."""
    read = row.sitemap_files - row.sitemaps
    done = row.done + row.failed + row.skipped
    return int(done + read + (row.steps or 0))


def _is_first(connection: Connection, job_id: str, run_id: str = "") -> bool:
    others = select(run.c.id).where(run.c.job_id == job_id, run.c.id != run_id)
    return connection.execute(others.limit(1)).first() is None


def _begin(
    connection: Connection,
    job_id: str,
    owner: str | None,
    state: RunState,
    progress: int,
    node: str | None = None,
) -> str:
    run_id = str(uuid.uuid4())
    old = (
        select(run.c.id)
        .where(run.c.job_id == job_id, run.c.state == RunState.ENDED)
        .order_by(run.c.created_at.desc())
        .offset(MOST_RUNS - 1)
    )
    connection.execute(delete(run).where(run.c.id.in_(old.scalar_subquery())))
    connection.execute(
        insert(run).values(
            id=run_id,
            job_id=job_id,
            owner=owner or run_id,
            node=node,
            state=state,
            progress=progress,
            created_at=now_of(connection),
        )
    )
    return run_id


def _end(
    connection: Connection, reason: str | None, *where: ColumnElement[bool]
) -> int:
    ended = (
        update(run)
        .where(run.c.state < inline(RunState.ENDED), *where)
        .values(state=RunState.ENDED, reason=reason, ended_at=now_of(connection))
    )
    return connection.execute(ended).rowcount


# -- for processes of their own ------------------------------------------------------


class NodeRun(NamedTuple):
    """A run on a scrapyd node that has not ended."""

    id: str
    job_id: str
    team_id: str
    node: str
    #: Before its start the service that requested the run, None if it is dead.
    owner: str | None
    state: RunState
    #: True if its process is dead.
    is_lost: bool
    #: Seconds since the end of the job, None for an active job.
    ended_s: float | None


def on_nodes(connection: Connection) -> list[NodeRun]:
    """Return the runs on nodes that have not ended, the oldest first."""
    now = now_of(connection)
    query = (
        select(
            *(run.c.id, run.c.job_id, job.c.team_id, run.c.node, run.c.owner),
            *(run.c.state, (func.coalesce(worker.c.until, 0) < now).label("is_dead")),
            *(job.c.state.label("of_job"), job.c.completed_at),
        )
        .join(job, job.c.id == run.c.job_id)
        .outerjoin(worker, worker.c.id == run.c.owner)
        .where(run.c.state < inline(RunState.ENDED), run.c.node.is_not(None))
        .order_by(run.c.created_at)
    )
    return [
        NodeRun(
            id=row.id,
            job_id=row.job_id,
            team_id=row.team_id,
            node=row.node or "",
            owner=None if row.is_dead else row.owner,
            state=RunState(row.state),
            is_lost=row.is_dead and row.state == RunState.RUNNING,
            ended_s=None if row.of_job in ACTIVE else now - (row.completed_at or now),
        )
        for row in connection.execute(query)
    ]


@transaction(row="{job_id}")
def end_asked(connection: Connection, job_id: str, run_id: str, reason: str) -> bool:
    """End a run whose process has not joined. The process can no longer join."""
    lock_job(connection, job_id)
    unstarted = (run.c.id == run_id, run.c.state == RunState.REQUESTED)
    return _end(connection, reason, *unstarted) == 1


@transaction(row="{job_id}")
def join(
    connection: Connection, job_id: str, spider: str, run_id: str, lease_s: float
) -> Taken | SecretsUnreadable:
    """Join a job as the run ``run_id``, with the spider of a name.

    The run is also the id of this process in the table of workers. A process that is no run
    of the job was started by hand, and gets a run. Raises :exc:`JobNotFound`, and
    :exc:`RunRefused` if this run has begun or ended, or the job is for another spider.
    Returns :exc:`SecretsUnreadable` after failing the job.
    """
    lock_job(connection, job_id)
    found = job_rows.get_job(connection, job_id, None)
    if found is None:
        raise JobNotFound(
            f"no job {job_id} is in this database: SCRAPER_DATABASE_URL"
            " (or SCRAPER_DATA_DIR) has to be"
            " that of the service"
        )
    if found.spider != spider:
        raise RunRefused(f"job {job_id} is for the spider {found.spider}, not {spider}")
    of_job = (run.c.id == run_id, run.c.job_id == job_id)
    state = connection.scalar(select(run.c.state).where(*of_job))
    if state not in {None, RunState.REQUESTED}:
        raise RunRefused(f"another process runs {run_id} already")
    whole = _decrypt_or_fail(connection, found)
    if isinstance(whole, SecretsUnreadable):
        return whole
    is_first = _is_first(connection, job_id, run_id)
    if state is None:
        run_id = _begin(connection, job_id, None, RunState.RUNNING, 0)
    else:
        connection.execute(
            update(run).where(*of_job).values(state=RunState.RUNNING, owner=run_id)
        )
    job_rows.start_job(connection, job_id)
    leases.beat(connection, run_id, max(lease_s, FIRST_BEAT_S))
    return Taken(job=whole, run_id=run_id, age_s=0.0, is_first=is_first)


class Standing(NamedTuple):
    """What a process needs to know of its job."""

    state: JobState
    #: The ``revision`` of the job.
    revision: int
    #: False if another process has replaced this run.
    is_running: bool


def standing(connection: Connection, job_id: str, run_id: str) -> Standing:
    """Return the state of a job for the process of a run."""
    found = connection.execute(
        select(job.c.state, job.c.revision).where(job.c.id == job_id)
    ).one_or_none()
    state = JobState.CANCELLED if found is None else JobState(found.state)
    revision = 0 if found is None else found.revision
    here = connection.scalar(select(run.c.state).where(run.c.id == run_id))
    return Standing(state, revision, here == RunState.RUNNING)


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
        else_=LEFT,
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
    rank = func.row_number().over(
        partition_by=(active.c.team_id, order), order_by=oldest
    )
    ranked = (
        select(active, order.label("order"), rank.label("rank")).where(needs).subquery()
    )
    return (
        select(ranked)
        .where(ranked.c.rank <= bindparam("most"))
        .order_by(ranked.c.order, ranked.c.rank, ranked.c.created_at)
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
