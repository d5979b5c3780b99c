"""What single calls cost their team: set aside before the work, charged with its end."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from scraper_service.crawling.database_retry import before
from scraper_service.errors import OutOfCredits, ServiceUnavailable
from scraper_service.storage.accounts import credits as ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from sqlalchemy import Connection

    from scraper_service.items import Snapshot
    from scraper_service.services.accounts import Team
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.database import Database

ResultT = TypeVar("ResultT")

RETRY_S = 1.0  # while the database does not answer
PATIENCE_S = 10.0  # with it, of callers whose page has been fetched

logger = logging.getLogger(__name__)


class Charges:
    """The ledger of calls outside of jobs, and their pages for a day.

    A team without a balance never waits for the database. ``owner`` is the id of this
    process in the table of workers.
    """

    def __init__(self, database: Database, owner: str):
        self._database = database
        self._owner = owner
        self._storing: dict[str, tuple[str, bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def require(self, team: Team, amount: int) -> None:
        """Raise :exc:`OutOfCredits` if a team cannot pay ``amount``."""
        if team.is_unlimited:
            return
        left = await self._database.read(ledger.balance, team.id)
        if left is not None and left < amount:
            raise OutOfCredits(amount, left)

    @asynccontextmanager
    async def call(self, call: Call, team: Team, amount: int) -> AsyncIterator[Charge]:
        """Hold ``amount`` for a call; what is not settled goes back in the end.

        Raises :exc:`OutOfCredits`.
        """
        charge = Charge(self, call, is_limited=not team.is_unlimited)
        try:
            if charge.is_limited:
                left = await self._database.write_first(
                    ledger.open_hold, team.id, call, amount, self._owner
                )
                if left is not None:
                    raise OutOfCredits(amount, left)
            yield charge
        finally:  # also where nobody knows whether there is a hold
            if charge.is_limited and not charge.is_settled:
                self._spawn(self._free(call))

    async def settle(self, charge: Charge, price: int, body: bytes | None) -> None:
        """Charge a call; for :class:`Charge`."""
        if not charge.is_limited:
            if body is not None:
                self._storing[charge.call.id] = (charge.call.team_id, body)
            self._spawn(self._record(charge.call, price, body))
            return
        call = charge.call
        left = await self._settled(
            charge,
            _patiently(
                lambda: self._database.write_first(
                    ledger.settle, call.team_id, call, price, body
                )
            ),
        )
        if left is not None:
            raise OutOfCredits(price, left)

    async def settle_tracked(
        self, charge: Charge, price: int, body: bytes | None, snapshot: Snapshot
    ) -> bool:
        """Charge a call together with a snapshot; for :class:`Charge`."""
        call = charge.call
        work = asyncio.ensure_future(
            _patiently(
                lambda: self._database.write_first(
                    ledger.settle_tracked,
                    call.team_id,
                    call,
                    price,
                    body,
                    snapshot,
                    charge.is_limited,
                )
            )
        )
        try:
            is_last, left = await self._settled(charge, work)
        except asyncio.CancelledError:
            self._spawn(self._free_unless_settled(work, charge))
            raise
        charge.is_settled = is_last
        if left is not None:
            raise OutOfCredits(price, left)
        return is_last

    async def _settled(self, charge: Charge, work: Awaitable[ResultT]) -> ResultT:
        # A caller who goes away now has been answered as far as the ledger knows.
        charge.is_settled = True
        try:
            return await asyncio.shield(asyncio.ensure_future(work))
        except ServiceUnavailable:
            charge.is_settled = False
            raise

    def stored(self, call_id: str, team_id: str) -> bytes | None:
        """Return a page that is on its way into the database."""
        found = self._storing.get(call_id)
        return found[1] if found and found[0] == team_id else None

    async def _record(self, call: Call, price: int, body: bytes | None) -> None:
        """Store what its caller has already."""
        try:
            await _patiently(
                lambda: self._database.write_later(_record, call.id, call, price, body)
            )
        except ServiceUnavailable:
            logger.warning("call %s was answered, but not stored", call.id)
        finally:
            self._storing.pop(call.id, None)

    async def _free(self, call: Call) -> None:
        while True:
            try:
                await self._database.write_first(  # behind what makes the hold
                    ledger.free_hold, call.team_id, call.id
                )
            except ServiceUnavailable:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _free_unless_settled(
        self, work: Awaitable[tuple[bool, int | None]], charge: Charge
    ) -> None:
        """Free the hold of a call whose caller went away while it was late."""
        try:
            is_last, _ = await work
        except ServiceUnavailable:
            is_last = False
        if charge.is_limited and not is_last:
            await self._free(charge.call)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _patiently(ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Store the end of a call, of which a second time does no harm."""
    return await before(time.monotonic() + PATIENCE_S)(ask)


def _record(
    connection: Connection, _: str, call: Call, price: int, body: bytes | None
) -> None:
    ledger.record(connection, call, price, body)


class Charge:
    """A call that is to be paid; made by :meth:`Charges.call`."""

    def __init__(self, charges: Charges, call: Call, *, is_limited: bool):
        self._charges = charges
        self.call = call
        self.is_limited = is_limited
        self.is_settled = False

    async def settle(self, price: int, body: bytes | None = None) -> None:
        """Charge the call, keep its page; 0 for one that failed.

        Raises :exc:`OutOfCredits` where it came to more than was held, and the team
        has too little: then it is free.
        """
        await self._charges.settle(self, price, body)

    async def settle_tracked(
        self, price: int, body: bytes | None, snapshot: Snapshot
    ) -> bool:
        """Do as :meth:`settle`, and store what to keep of the page, at once.

        False if it was compared with a snapshot that is not the last one any more: then
        nothing was done.
        """
        return await self._charges.settle_tracked(self, price, body, snapshot)
