"""The leases of a process on the URLs of one job: claims, outcomes, returns."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from attrs import evolve

from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.accounts.credits import Credits
from scraper_service.storage.frontier.leases import Frontier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.storage.connections import Insist
    from scraper_service.storage.database import Database
    from scraper_service.storage.frontier.leases import Beyond
    from scraper_service.storage.job_records import Claim, Commit, Outcome

logger = logging.getLogger(__name__)


class JobLeases:
    """The leases of a process on the URLs of one job, with the token of each.

    :meth:`claim` adds leases. Each one ends with :meth:`end` after its last :meth:`store`, with
    :meth:`release`, or with :meth:`close`. ``insist`` repeats a call while the database is
    unavailable, and raises :exc:`ServiceUnavailable` once the crawl closes.
    """

    _live: ClassVar[WeakSet[JobLeases]] = WeakSet()

    def __init__(self, database: Database, job_id: str, owner: str, insist: Insist):
        self.job_id = job_id
        self.owner = owner
        #: The team of the job, None for a job in memory.
        self.team_id: str | None = None
        self._frontier = Frontier(database, owner)
        self._credits = Credits(database, owner)
        self._insist = insist
        self._tokens: dict[int, int] = {}  # by row id
        self._claiming = 0  # claims that are running
        self._page_price: int | None = None  # reserved per page, None for no limit
        type(self)._live.add(self)

    @classmethod
    def unknown(
        cls, owner: str, leases: Iterable[tuple[str, int, int]]
    ) -> set[tuple[str, int, int]]:
        """Return the leases that no crawler of ``owner`` holds, as (job id, row id, token).

        Jobs with a running claim are left out: its rows are not known yet.
        """
        by_job: dict[str, list[JobLeases]] = {}
        for each in cls._live:
            if each.owner == owner:
                by_job.setdefault(each.job_id, []).append(each)
        return {
            (job_id, row_id, token)
            for job_id, row_id, token in leases
            if not any(
                each._claiming or each._tokens.get(row_id) == token
                for each in by_job.get(job_id, ())
            )
        }

    def __contains__(self, row_id: int) -> bool:
        return row_id in self._tokens

    async def claim(self, count: int, beyond: Beyond | None) -> Claim:
        """Lease URLs once, see :meth:`Frontier.claim`. Return the claim with the new rows.

        A claim may return a row whose page is still in work here, as its lease had ended. That
        page goes on with the new token.
        """
        self._claiming += 1
        try:
            claim = await self._frontier.claim(self.job_id, count, beyond)
        finally:
            self._claiming -= 1
        self._page_price = claim.page_price
        new = tuple(row for row in claim.rows if row.id not in self._tokens)
        self._tokens.update((row.id, row.token) for row in claim.rows)
        return evolve(claim, rows=new)

    async def store(self, outcome: Outcome, *, waits: bool) -> Commit:
        """Store an outcome, see :meth:`Frontier.store`."""
        while True:
            sent = self._with_token(outcome)
            commit = await self._insist(
                partial(self._frontier.store, self.job_id, sent, waits=waits)
            )
            # Again if the lease was lost, and this crawl has claimed the URL since.
            if commit.accepted or self._with_token(sent) is sent:
                return commit

    def _with_token(self, outcome: Outcome) -> Outcome:
        token = self._tokens.get(outcome.row_id, outcome.token)
        return outcome if token == outcome.token else evolve(outcome, token=token)

    async def pay_extra(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or a failure if the team cannot pay for the page.

        The usual price is reserved. A PDF file may cost more.
        """
        if self._page_price is None or self.team_id is None:
            return outcome
        team_id, extra = self.team_id, outcome.credits - self._page_price
        if extra <= 0 or await self._insist(
            lambda: self._credits.top_up(
                team_id, self.job_id, outcome.row_id, outcome.page_id, extra
            )
        ):
            return outcome
        text = f"Insufficient credits: the page costs {outcome.credits}."
        return evolve(
            outcome,
            page=None,
            credits=0,
            code="INSUFFICIENT_CREDITS",
            error=text,
            snapshot=None,
        )

    def end(self, row_id: int) -> None:
        """Forget a lease whose last outcome is stored."""
        self._tokens.pop(row_id, None)

    async def release(self, leases: Iterable[tuple[int, int]]) -> None:
        """Return leases, as (row id, token) of the claim, of URLs that were not fetched."""
        # Forgotten first: they may be claimed again before the response.
        held = {row_id: self._tokens.pop(row_id, token) for row_id, token in leases}
        try:
            await self._insist(
                partial(self._frontier.release, self.job_id, list(held.items()))
            )
        except ServiceUnavailable:
            self._tokens = held | self._tokens  # close() returns them
            raise

    async def close(self) -> None:
        """Return all leases. If the database is unavailable, another process does it later."""
        held = tuple(self._tokens.items())
        try:
            if held:
                await self._frontier.release(self.job_id, held)
        except ServiceUnavailable:
            logger.warning("%d leases are given back by a later look", len(held))
        finally:
            self._tokens.clear()
            type(self)._live.discard(self)
