"""The frontier of jobs: the URLs that are known, leased, fetched or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.storage.database import reading, writing
from scraper_service.storage.frontier import leases, outcomes

if TYPE_CHECKING:
    from scraper_service.storage.database import Database
    from scraper_service.storage.frontier.leases import Beyond
    from scraper_service.storage.job_records import Claim, Commit, Outcome


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
        await self._database.write(leases.beat, self.owner, lease_s)

    async def claim(
        self, job_id: str, count: int, beyond: Beyond | None = None
    ) -> Claim:
        """Lease up to ``count`` pending URLs of a job, see :func:`leases.claim`."""
        return await self._database.write(
            leases.claim, job_id, self.owner, count, beyond
        )

    async def store(
        self, job_id: str, outcome: Outcome, *, waits: bool = True
    ) -> Commit:
        """Store the outcome of a leased URL. One that ``waits`` does so a moment for others."""
        # Outcomes of a moment share a transaction.
        return await self._database.write_each(
            outcomes.append, job_id, outcome, waits=waits and not outcome.goes_on
        )

    release = writing(leases.release)
    jobs_with_lost_leases = reading(leases.jobs_with_lost_leases)
    return_lost = writing(leases.reap)
    forget_workers = writing(leases.forget_workers)

    async def leases(self) -> list[tuple[str, int, int]]:
        """Return the leases of this process, as (job id, row id, token)."""
        return await self._database.read(leases.leases_of, self.owner)

    async def end_leases(self) -> None:
        """End all leases of the owner of this frontier, which has ended."""
        await self._database.write(leases.forget_worker, self.owner)
