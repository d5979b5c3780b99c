"""The live processes of a database: where each one runs, what it takes, if it drains.

Each process writes its own row with its heartbeats. Nobody lists processes by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import func, select, update

from scraper_service.options.serialization import JOBS, LIMITS
from scraper_service.storage.frontier import leases
from scraper_service.storage.schema import worker
from scraper_service.storage.transactions import now_of, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

HOST_LENGTH = 255  # of the column
# Kinds of processes.
SERVICE = "service"  # `scraper-service serve`
WORKER = "worker"  # `scraper-service worker`
RUN = "scrapyd"  # a process of a job on a scrapyd node
SPIDER = "spider"  # `scrapy crawl` with the id of a job, by hand
COMMAND = "command"  # a command line that runs its own job


@frozen
class WorkerState:
    """What a process writes about itself."""

    #: One of the kinds above.
    kind: str
    host: str
    pid: int
    #: Keys of :data:`~scraper_service.options.serialization.LIMITS`.
    takes: tuple[str, ...]
    #: The number of crawls and batches that it runs now.
    jobs: int
    #: True if it ends, and takes nothing more.
    drains: bool


@frozen
class LiveWorker:
    """A live process, as others see it."""

    id: str
    #: None, with ``host`` and ``pid``, for a process of a version before these columns.
    kind: str | None
    host: str | None
    pid: int | None
    takes: tuple[str, ...]
    jobs: int
    drains: bool
    #: Time of its first heartbeat, in seconds since 1970.
    started_at: float | None
    #: Seconds until its leases end without another heartbeat.
    lease_s: float

    @property
    def runs_jobs(self) -> bool:
        """Return True if it takes jobs of all teams or runs a job of its own."""
        return JOBS in self.takes or self.kind in {RUN, SPIDER, COMMAND}


@transaction(apart=True)
def beat(
    connection: Connection, owner: str, lease_s: float, state: WorkerState
) -> None:
    """Extend the leases of ``owner`` to ``lease_s`` seconds from now, with its state."""
    leases.beat(connection, owner, lease_s)
    connection.execute(
        update(worker)
        .where(worker.c.id == owner)
        .values(
            kind=state.kind,
            host=state.host[:HOST_LENGTH],
            pid=state.pid,
            takes=" ".join(state.takes),
            jobs=state.jobs,
            drains=state.drains,
            started_at=func.coalesce(worker.c.started_at, now_of(connection)),
        )
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
