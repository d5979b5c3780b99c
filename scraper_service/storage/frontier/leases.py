"""Leases on URLs of a frontier, and the live processes that have them.

:class:`Frontier` has the steps of a process in their order. Functions that change rows of a
job lock the job row first. Each process writes its own row with its heartbeats, so nobody
lists processes by hand.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import asdict, evolve, frozen
from sqlalchemy import and_, bindparam, func, insert, not_, or_, select, update

from scraper_service.errors import SecretsUnreadable
from scraper_service.options.jobs import JOBS, LIMITS
from scraper_service.options.limits import DAY_S
from scraper_service.storage import job_secrets
from scraper_service.storage.database import reading, writing
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import (
    ACTIVE,
    LOST,
    Claim,
    ClaimedRow,
    JobState,
    Outcome,
    RowState,
    RunState,
    UrlKind,
)
from scraper_service.storage.schema import frontier, job, run, worker
from scraper_service.storage.transactions import (
    FARTHEST_S,
    IN_ORDER,
    Statement,
    arrays,
    constant,
    inline,
    is_late,
    lock_job,
    lock_job_shared,
    look_at_job,
    now_of,
    rows_in,
    run_together,
    transaction,
    try_lock_job,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection, Select
    from sqlalchemy.sql.dml import ReturningUpdate

    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Commit

# Leases of one URL that ended with a dead process. Converters run in processes of their
# own, so a page rarely ends this process. Several restarts must not fail a page.
MAX_ATTEMPTS = 10
CLAIM_SIZES = 32  # whose statements are kept
LOOK_ROWS = 5000  # in a look for URLs of other sites
# Kinds of processes.
SERVICE = "service"  # `scraper-service serve`
WORKER = "worker"  # `scraper-service worker`
RUN = "scrapyd"  # a process of a job on a scrapyd node
SPIDER = "spider"  # `scrapy crawl` with the id of a job, by hand
COMMAND = "command"  # a command line that runs its own job


@frozen(kw_only=True)
class WorkerState:
    """What a process writes about itself."""

    #: One of the kinds above; None, with ``host`` and ``pid``, before it has written any.
    kind: str | None
    host: str | None
    pid: int | None
    #: Keys of :data:`~scraper_service.options.jobs.LIMITS`.
    takes: tuple[str, ...]
    #: The number of crawls and batches that it runs now.
    jobs: int
    #: True if it ends, and takes nothing more.
    drains: bool


@frozen(kw_only=True)
class LiveWorker(WorkerState):
    """A live process, as others see it."""

    id: str
    #: Time of its first heartbeat, in seconds since 1970.
    started_at: float | None
    #: Seconds until its leases end without another heartbeat.
    lease_s: float

    @property
    def runs_jobs(self) -> bool:
        """Return True if it takes jobs of all teams or runs a job of its own."""
        return JOBS in self.takes or self.kind in {RUN, SPIDER, COMMAND}


class Beyond(NamedTuple):
    """Where to look for URLs of other sites than those that cannot be fetched now."""

    #: The last row of the look before, 0 for the first look.
    row_id: int
    #: What the URLs of the sites begin with.
    sites: tuple[str, ...]


@transaction(first="claim {job_id}", apart=True)
def claim(
    connection: Connection,
    job_id: str,
    owner: str,
    count: int,
    beyond: Beyond | None = None,
) -> Claim:
    """Lease up to ``count`` pending URLs, the oldest first, or those ``beyond`` some.

    Leases none of a paused job. Copies further rows of a source job before. Waits for no
    commit of pages, and delays none.

    Fails the job if this process cannot decrypt the secrets of the job.
    """
    locked = look_at_job(connection, job_id)
    is_simple = locked.copying is None
    if locked.state in ACTIVE:
        locked = (lock_job_shared if is_simple else lock_job)(connection, job_id)
    found = Claim(
        (), locked.state, locked.base, locked.page_price, revision=locked.revision
    )
    if locked.state not in ACTIVE or locked.paused_at is not None:
        return found
    if is_simple and locked.copying is not None:
        return found  # it was changed in between: the next claim has the right lock
    if is_late(connection, owner):
        return found
    if locked.copying is not None:
        outcomes.copy_slice(connection, job_id)
    if beyond is None:
        values = {"job_number": locked.number, "lessee": owner}
        rows = _claiming(count).all(connection, values)
    else:
        rows, last = _claim_beyond(connection, job_id, owner, count, beyond)
        found = evolve(found, last=last)
    # RETURNING has no order.
    leased = sorted((ClaimedRow(*row) for row in rows), key=attrgetter("id"))
    try:
        return evolve(found, rows=tuple(_whole(connection, job_id, leased)))
    except SecretsUnreadable as error:
        outcomes.end_job(connection, job_id, JobState.FAILED, str(error))
        return Claim((), JobState.FAILED)


@lru_cache(CLAIM_SIZES)
def _claiming(count: int) -> Statement:
    columns = frontier.c
    oldest = (
        select(columns.id)
        .where(
            columns.job_number == bindparam("job_number"),
            # As in :func:`rows_in`.
            columns.state.between(
                constant(RowState.PENDING), constant(RowState.PENDING)
            ),
        )
        .order_by(*IN_ORDER)
        .limit(constant(count))
        .with_for_update(skip_locked=True)
    )
    return Statement(_leasing(oldest))


def _claim_beyond(
    connection: Connection, job_id: str, owner: str, count: int, beyond: Beyond
) -> tuple[list[Any], int | None]:
    """Lease pending URLs whose site is not in ``beyond.sites``.

    Scans at most :data:`LOOK_ROWS` rows after ``beyond.row_id``. Returns the rows, and the id
    to continue from, None after the last row.
    """
    columns = frontier.c
    looked_at = (
        select(columns.id, columns.url)
        .where(*rows_in(job_id, RowState.PENDING, beyond.row_id))
        .order_by(*IN_ORDER)
        .limit(inline(LOOK_ROWS))
        .subquery()
    )
    others = select(looked_at.c.id).where(
        *(
            not_(looked_at.c.url.startswith(each, autoescape=True))
            for each in beyond.sites
        )
    )
    ids = list(connection.scalars(others.order_by(looked_at.c.id).limit(inline(count))))
    if len(ids) == count:
        last: int | None = ids[-1]
    else:
        end = connection.execute(
            select(func.count(), func.max(looked_at.c.id)).select_from(looked_at)
        ).one()
        last = end[1] if end[0] == LOOK_ROWS else None
    if not ids:
        return [], last
    free = (
        select(columns.id)
        .where(columns.id.in_(ids), columns.state == RowState.PENDING)
        .with_for_update(skip_locked=True)
    )
    rows = connection.execute(_leasing(free), {"lessee": owner}).all()
    return list(rows), last


def _leasing(chosen: Select[*tuple[Any, ...]]) -> ReturningUpdate[*tuple[Any, ...]]:
    columns = frontier.c
    return (
        update(frontier)
        .where(columns.id.in_(chosen.scalar_subquery()))
        .values(
            state=RowState.LEASED,
            owner=bindparam("lessee"),
            token=columns.token + 1,
            attempts=columns.attempts + 1,
        )
        .returning(*(columns[name] for name in ClaimedRow.__match_args__))
    )


def _whole(
    connection: Connection, job_id: str, rows: list[ClaimedRow]
) -> list[ClaimedRow]:
    texts = {row.options for row in rows if row.options is not None}
    if not texts:
        return rows
    whole = job_secrets.whole_rows(connection, job_id, texts)
    return [
        row if row.options is None else evolve(row, options=whole[row.options])
        for row in rows
    ]


_RELEASE = Statement(
    update(frontier)
    .where(
        frontier.c.id == bindparam("id"),
        frontier.c.token == bindparam("token"),
        frontier.c.state == constant(RowState.LEASED),
    )
    .values(
        state=constant(RowState.PENDING),
        owner=None,
        attempts=frontier.c.attempts - constant(1),
    )
)
_RELEASE_TOGETHER = f"""
UPDATE frontier SET state = {RowState.PENDING:d}, owner = NULL, attempts = attempts - 1
FROM unnest({{given}}) AS returned (id, token)
WHERE frontier.id = returned.id AND frontier.token = returned.token
  AND state = {RowState.LEASED:d}
"""  # noqa: S608  # of constants


@transaction(row="{job_id}")
def release(
    connection: Connection, job_id: str, leased: Sequence[tuple[int, int]]
) -> None:
    """Return unused leases of a job, as (id, token). The attempt does not count."""
    lock_job(connection, job_id)
    rows = [{"id": row_id, "token": token} for row_id, token in leased]
    if len(rows) < 2 or connection.dialect.name == "sqlite":
        _RELEASE.run_many(connection, rows)
    else:
        # Others wait for the job, so a distant database gets one statement.
        columns = ("id", "token")
        given = arrays(connection, frontier, columns)
        text = _RELEASE_TOGETHER.format(given=given)
        run_together(connection, text, columns, rows)
    outcomes.hold_surplus(connection, job_id)


def leases_of(connection: Connection, owner: str) -> list[tuple[str, int, int]]:
    """Return the leases of a process, as (job id, row id, token)."""
    columns = (job.c.id, frontier.c.id, frontier.c.token)
    query = (
        select(*columns)
        .join(job, job.c.number == frontier.c.job_number)
        .where(
            frontier.c.state == inline(RowState.LEASED),  # as in the partial index
            frontier.c.owner == owner,
        )
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


@transaction(apart=True)
def beat(
    connection: Connection,
    owner: str,
    lease_s: float,
    state: WorkerState | None = None,
) -> None:
    """Extend the leases of ``owner`` to ``lease_s`` seconds from now, with its state."""
    now = now_of(connection)
    until = now + lease_s
    farthest = until + FARTHEST_S
    connection.execute(
        update(worker).where(worker.c.until > farthest).values(until=now - 1)
    )
    values: dict[str, Any] = {"until": until}
    if state is not None:
        values |= {**asdict(state), "takes": " ".join(state.takes)}
    changed = connection.execute(
        update(worker).where(worker.c.id == owner).values(values)
    )
    if not changed.rowcount:
        connection.execute(insert(worker).values(id=owner, started_at=now, **values))


def forget_worker(connection: Connection, owner: str) -> None:
    """Delete the row of a dead process. Its leases end now."""
    connection.execute(worker.delete().where(worker.c.id == owner))


def forget_workers(connection: Connection) -> None:
    """Delete the rows of processes that have been dead for long."""
    connection.execute(
        worker.delete().where(worker.c.until < now_of(connection) - DAY_S)
    )


def live_workers(connection: Connection) -> list[LiveWorker]:
    """Return the processes whose leases have not ended, the oldest first."""
    now = now_of(connection)
    query = (
        select(worker)
        .where(worker.c.until >= now)
        .order_by(worker.c.started_at, worker.c.id)
    )
    return [
        LiveWorker(
            id=row.id,
            kind=row.kind,
            host=row.host,
            pid=row.pid,
            takes=tuple(LIMITS) if row.takes is None else tuple(row.takes.split()),
            jobs=row.jobs or 0,
            drains=bool(row.drains),
            started_at=row.started_at,
            lease_s=row.until - now,
        )
        for row in connection.execute(query)
    ]


def takers(found: Iterable[LiveWorker], what: str) -> int:
    """Return how many processes take a kind of work and do not end."""
    return sum(what in each.takes and not each.drains for each in found)


def _is_lost(connection: Connection) -> ColumnElement[bool]:
    live = select(worker.c.id).where(worker.c.until >= now_of(connection))
    return and_(
        frontier.c.state == inline(RowState.LEASED),  # as in the partial index
        frontier.c.owner.is_not(None),
        frontier.c.owner.not_in(live),
    )


def jobs_with_lost_leases(connection: Connection) -> list[str]:
    """Return the ids of jobs with leases of dead processes."""
    numbers = select(frontier.c.job_number).where(_is_lost(connection))
    return list(connection.scalars(select(job.c.id).where(job.c.number.in_(numbers))))


@transaction(row="{job_id}")
def reap(connection: Connection, job_id: str) -> int:
    """Make leases of dead processes pending again. Return the number of URLs.

    Counts them in the runs of these processes.
    Skips a job whose row is locked: the next call comes soon. A URL that ended
    :data:`MAX_ATTEMPTS` processes fails.
    """
    locked = try_lock_job(connection, job_id)
    if locked is None:
        return 0
    columns = frontier.c
    lost = and_(columns.job_number == locked.number, _is_lost(connection))
    counts = connection.execute(
        select(columns.owner, func.count()).where(lost).group_by(columns.owner)
    ).all()
    poison = connection.execute(
        select(columns.id, columns.key, columns.kind, columns.token, columns.owner)
        .where(lost, columns.attempts >= MAX_ATTEMPTS)
        .order_by(columns.id)
    ).all()
    ended = [
        Outcome(
            row_id=row.id,
            key=row.key,
            kind=UrlKind(row.kind),
            token=row.token,
            owner=row.owner,
            page_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row.id}/{row.token}")),
            code="SCRAPE_RETRY_LIMIT",
            error=f"The process ended {MAX_ATTEMPTS} times while it fetched this page.",
        )
        for row in poison
    ]
    if ended:
        outcomes.append(connection, job_id, ended)
    returned = connection.execute(
        update(frontier).where(lost).values(state=RowState.PENDING, owner=None)
    )
    outcomes.hold_surplus(connection, job_id)
    is_lost = or_(run.c.state < inline(RunState.ENDED), run.c.reason == LOST)
    for owner, count in counts:
        connection.execute(
            update(run)
            .where(run.c.job_id == job_id, run.c.owner == owner, is_lost)
            .values(urls=func.coalesce(run.c.urls, 0) + count)
        )
    return returned.rowcount + len(poison)


class Frontier:
    """The steps by which a process works on the URLs of a job.

    ``tests/storage/test_frontier_contract.py`` has what any backend must promise. A URL of a job
    is in exactly one :class:`RowState` at any time. The order of calls:

    1. :meth:`Jobs.create` stores a job and its first URLs, which are pending.
    2. :meth:`beat` extends all leases of this process. Call it well before ``lease_s``
       ends, and before the first claim.
    3. :meth:`claim` leases pending URLs of a job, the oldest first. Each lease has a
       fencing token. A paused job gives no leases.
    4. :meth:`store` stores the outcome of a fetch in one transaction: the page, the
       acknowledgement, new links, credits and events. It completes the job with the
       last URL. An outcome with ``goes_on`` keeps its lease.
    5. :meth:`release` returns leases whose URLs were not fetched. The URLs are pending
       again, and this attempt does not count.
    6. :meth:`return_lost` makes the leases of dead processes pending again, for each
       job of :meth:`jobs_with_lost_leases`. Any process may do so.

    An outcome with a token that is no longer valid changes nothing. Storing the same
    outcome twice changes nothing, so callers repeat a call without a response. The counts
    of a job are those of its row. All methods raise :exc:`ServiceUnavailable` if the
    database does not respond.
    """

    def __init__(self, database: Database, owner: str):
        self._database = database
        #: The id of this process in the table of workers.
        self.owner = owner

    async def beat(self, lease_s: float) -> None:
        """Extend the leases of this process to ``lease_s`` seconds from now."""
        await self._database.write(beat, self.owner, lease_s)

    async def claim(
        self, job_id: str, count: int, beyond: Beyond | None = None
    ) -> Claim:
        """Lease up to ``count`` pending URLs of a job, see :func:`claim`."""
        return await self._database.write(claim, job_id, self.owner, count, beyond)

    async def store(
        self, job_id: str, outcome: Outcome, *, waits: bool = True
    ) -> Commit:
        """Store the outcome of a leased URL. One that ``waits`` does so a moment for others."""
        # Outcomes of a moment share a transaction.
        return await self._database.write_each(
            outcomes.append, job_id, outcome, waits=waits and not outcome.goes_on
        )

    release = writing(release)
    jobs_with_lost_leases = reading(jobs_with_lost_leases)
    return_lost = writing(reap)
    forget_workers = writing(forget_workers)

    async def leases(self) -> list[tuple[str, int, int]]:
        """Return the leases of this process, as (job id, row id, token)."""
        return await self._database.read(leases_of, self.owner)

    async def end_leases(self) -> None:
        """End all leases of the owner of this frontier, which has ended."""
        await self._database.write(forget_worker, self.owner)
