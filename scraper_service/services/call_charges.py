"""Charges for single calls: credits are reserved before the work and charged after it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from attrs import define, evolve, field

from scraper_service.crawling.observability import CREDITS
from scraper_service.errors import OutOfCredits, ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.accounts.credits import Call, Credits
from scraper_service.storage.connections import before

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from scraper_service.items import PageError, Snapshot
    from scraper_service.services.accounts import DiskQuota, Team
    from scraper_service.storage.database import Database

ResultT = TypeVar("ResultT")
BodyT: TypeAlias = "Callable[[], bytes]"

RETRY_S = 1.0  # between two attempts while the database is unavailable
PATIENCE_S = 10.0  # that a fetched page waits for the database

logger = logging.getLogger(__name__)


class Charges:
    """The credits of calls outside of jobs, and their pages.

    Calls of a team without a balance never wait for the database. ``owner`` is the id
    of this process in the table of workers, ``disk`` the disk quotas of teams.
    """

    def __init__(self, database: Database, owner: str, disk: DiskQuota):
        self.disk = disk
        self._credits = Credits(database, owner)
        self._storing: dict[str, tuple[str, BodyT]] = {}
        self._recording: dict[str, asyncio.Task[None]] = {}  # by call
        self._tasks = BackgroundTasks()

    async def require(self, team: Team, amount: int) -> None:
        """Raise :exc:`OutOfCredits` if a team has fewer credits than ``amount``."""
        if team.is_unlimited:
            return
        left = await self._credits.balance(team.id)
        if left is not None and left < amount:
            raise OutOfCredits(amount, left)

    @asynccontextmanager
    async def call(self, call: Call, team: Team, amount: int) -> AsyncIterator[Charge]:
        """Reserve ``amount`` credits for a call. Release them if nothing was settled.

        Raises :exc:`OutOfCredits`.
        """
        charge = Charge(self, call, is_limited=not team.is_unlimited)
        try:
            if charge.is_limited:
                left = await self._credits.hold(call, amount)
                if left is not None:
                    raise OutOfCredits(amount, left)
            yield charge
        finally:  # also if the reservation may have failed
            if charge.is_limited and not charge.is_settled:
                self._tasks.spawn(self._free(call))

    async def settle(self, charge: Charge, price: int, body: BodyT | None) -> None:
        """Charge a call, see :meth:`Charge.settle`."""
        if not charge.is_limited:
            if body is not None:
                self._storing[charge.call.id] = (charge.call.team_id, body)
            task = self._tasks.spawn(self._record(charge.call, price, body))
            self._recording[charge.call.id] = task
            return
        call, page = charge.call, body and body()
        left = await self._settle_with(
            charge,
            _patiently(lambda: self._credits.settle(call, price, page)),
        )
        if left is not None:
            raise OutOfCredits(price, left)

    async def settle_tracked(
        self, charge: Charge, price: int, body: bytes | None, snapshot: Snapshot
    ) -> bool:
        """Charge a call together with a snapshot, see :meth:`Charge.settle_tracked`."""
        call = charge.call
        work = asyncio.ensure_future(
            _patiently(
                lambda: self._credits.settle_tracked(
                    call, price, body, snapshot, charge.is_limited
                )
            )
        )
        try:
            is_last, left = await self._settle_with(charge, work)
        except asyncio.CancelledError:
            self._tasks.spawn(self._free_unless_settled(work, charge))
            raise
        charge.is_settled = is_last
        if left is not None:
            raise OutOfCredits(price, left)
        return is_last

    async def _settle_with(self, charge: Charge, work: Awaitable[ResultT]) -> ResultT:
        # A caller that disconnects from now on is charged all the same.
        charge.is_settled = True
        try:
            return await asyncio.shield(asyncio.ensure_future(work))
        except ServiceUnavailable:
            charge.is_settled = False
            raise

    def find_pending(self, call_id: str, team_id: str) -> bytes | None:
        """Return a page that is not in the database yet; None for an unknown id."""
        found = self._storing.get(call_id)
        return found[1]() if found and found[0] == team_id else None

    async def wait_until_recorded(self, call_id: str) -> None:
        """Wait until a call of this process, whose response was sent, is stored."""
        if (task := self._recording.get(call_id)) is not None:
            await asyncio.wait((task,))

    async def _record(self, call: Call, price: int, body: BodyT | None) -> None:
        """Store a call whose response was sent already."""
        await asyncio.sleep(0)  # the response first
        try:
            page = body and body()
            await _patiently(lambda: self._credits.record(call, price, page))
        except ServiceUnavailable:
            logger.warning("call %s has its response, but is not stored", call.id)
        finally:
            self._storing.pop(call.id, None)
            self._recording.pop(call.id, None)

    async def _free(self, call: Call) -> None:
        while True:
            try:
                await self._credits.free(call)
            except ServiceUnavailable:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _free_unless_settled(
        self, work: Awaitable[tuple[bool, int | None]], charge: Charge
    ) -> None:
        """Release the credits of a call whose caller disconnected, unless settled."""
        try:
            is_last, _ = await work
        except ServiceUnavailable:
            is_last = False
        if charge.is_limited and not is_last:
            await self._free(charge.call)


async def _patiently(ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Store the end of a call; repeat it while the database is unavailable.

    Storing the end twice has no further effect.
    """
    return await before(time.monotonic() + PATIENCE_S)(ask)


@define(eq=False)
class Charge:
    """A call with reserved credits, see :meth:`Charges.call`."""

    _charges: Charges
    call: Call
    is_limited: bool = field(kw_only=True)
    is_settled: bool = field(init=False, default=False)

    def note_failure(self, failure: PageError | None) -> None:
        """Note why the call failed, before it is settled. None for a success.

        With zero data retention only the code: a text may quote the page.
        """
        if failure is not None:
            is_hidden = self.call.target is None
            text = failure.code if is_hidden else failure.message
            self.call = evolve(self.call, error=text)

    async def settle(self, price: int, body: BodyT | None = None) -> None:
        """Charge the call and store its page, which ``body`` returns as JSON.

        The price of a failed call is 0. A call of a team without a balance is stored after its
        response.

        Raises :exc:`OutOfCredits` if the price exceeds the reservation and the
        balance of the team. Then the call is free.
        """
        await self._charges.settle(self, price, body)
        CREDITS.labels(self.call.endpoint).inc(price)

    async def settle_tracked(
        self, price: int, body: bytes | None, snapshot: Snapshot
    ) -> bool:
        """Charge the call and store its page and snapshot in one transaction.

        Return False, with nothing stored, if the page was compared with a snapshot
        that is not the latest any more.
        """
        is_last = await self._charges.settle_tracked(self, price, body, snapshot)
        if is_last:
            CREDITS.labels(self.call.endpoint).inc(price)
        return is_last
