"""The teams of callers by their API keys, their limits, and the charges of single calls.

Keys are stored as hashes only. Credits of a call are reserved before its work and charged
afterwards.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen
from sqlalchemy import null, or_, select, update

from scraper_service.crawling.observability import CREDITS
from scraper_service.errors import (
    JobNotFound,
    OutOfCredits,
    ServiceUnavailable,
    Unauthorized,
)
from scraper_service.options.limits import (
    KeyScope,
    Mode,
    SitePolicy,
    policy_from_json,
    policy_to_json,
)
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.accounts import audit, disk_use, teams
from scraper_service.storage.accounts.audit import Actor
from scraper_service.storage.accounts.credits import Call, Credits
from scraper_service.storage.accounts.usage import count_call
from scraper_service.storage.connections import before
from scraper_service.storage.database import Database
from scraper_service.storage.schema import key as key_table
from scraper_service.storage.schema import team as team_table
from scraper_service.storage.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sqlalchemy import Connection

    from scraper_service.items import PageError, Snapshot
    from scraper_service.storage.accounts.teams import KeyRow, TeamRow

T = TypeVar("T")
_OF_KEY = ("id", "hash", "scope", "name")
KEY_MEMORY_S = 1.0  # a revoked key works for so long at most
MAX_REMEMBERED = 10_000  # keys
MAX_KEY_LENGTH = 512  # characters; longer keys are invalid
OPEN_TEAM_ID = "00000000-0000-0000-0000-000000000000"


@frozen
class Team:
    """The team that a request belongs to, and its limits."""

    id: str
    #: The key of the request.
    key_id: str | None = None
    #: True if the team has no balance of credits.
    is_unlimited: bool = True
    #: Pages at a time; None is unlimited.
    concurrency: int | None = None
    #: Calls per minute by mode, for modes where the team has its own limit.
    rates: Mapping[str, int] = field(factory=dict)
    #: None lets requests fetch all sites.
    site_policy: SitePolicy | None = None
    #: The disk quota in MiB: None is that of the settings, 0 is none.
    disk_mb: int | None = None
    #: What the key of the request may do.
    scope: KeyScope = KeyScope.ADMIN
    #: The name of the key of the request.
    key_name: str | None = None
    #: Who calls, for the audit log. None if the log is off.
    actor: Actor | None = None


class Accounts:
    """Finds teams by their keys, in the job database.

    With ``enabled`` False every caller belongs to one team. A key that was found is
    remembered for :data:`KEY_MEMORY_S`, so that calls in a row need one query.
    """

    def __init__(self, database: Database, secret: bytes, enabled: bool = True):
        self._database = database
        self._secret = secret
        self.enabled = enabled
        self._found: dict[str, tuple[Team, float]] = {}  # by hash; until when

    async def team_of(self, authorization: str | None) -> Team:
        """Return the team for an ``Authorization`` header; None stands for no header.

        Raises :exc:`~scraper_service.errors.Unauthorized`, whose text is sent to the
        caller.
        """
        digest = self.hash_of(authorization) if self.enabled else ""
        return await self.team_with(digest)

    def hash_of(self, authorization: str | None) -> str:
        """Return the hash of the key in a header. Raises :exc:`Unauthorized`."""
        return teams.key_hash(_token(authorization), self._secret)

    async def team_with(self, digest: str) -> Team:
        """Return the team of the key with this hash. Raises :exc:`Unauthorized`."""
        team, until = self._found.get(digest, (None, 0.0))
        if team is not None and time.monotonic() < until:
            return team
        team = await self._database.read(find_team, digest)
        if team is None:
            self._found.pop(digest, None)
            raise Unauthorized("Unauthorized: Invalid token")
        if len(self._found) >= MAX_REMEMBERED:
            self._found.clear()
        self._found[digest] = (team, time.monotonic() + KEY_MEMORY_S)
        return team

    async def set_site_policy(self, team: Team, policy: SitePolicy) -> None:
        """Replace the sites that the requests of a team may fetch. Other processes take a second to notice it."""
        await self._database.write(store_site_policy, team.id, policy, team.actor)
        self._found.clear()

    async def account(self, team: Team) -> tuple[TeamRow, list[KeyRow]]:
        """Return the team with its name, and its keys."""
        return await self._database.read(read_account, team.id)


def _token(authorization: str | None) -> str:
    if authorization is None:
        raise Unauthorized("Unauthorized")
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("Unauthorized: Token missing")
    if len(token) > MAX_KEY_LENGTH:
        raise Unauthorized("Unauthorized: Invalid token")
    return token


def find_team(connection: Connection, digest: str) -> Team | None:
    """Return the team of a valid key by the key's hash; None for an unknown hash.

    An empty hash finds the one team of a service without keys.
    """
    names = ("id", "credits", "concurrency", "rates", "site_policy", "disk_mb")
    limits = [team_table.c[name] for name in names]
    query = select(null(), null(), null(), null(), *limits).where(
        team_table.c.id == OPEN_TEAM_ID
    )
    if digest:
        query = (
            select(*(key_table.c[name] for name in _OF_KEY), *limits)
            .join(team_table, team_table.c.id == key_table.c.team_id)
            .where(
                key_table.c.hash == digest,
                key_table.c.revoked_at.is_(None),
                or_(
                    key_table.c.expires_at.is_(None),
                    key_table.c.expires_at > datetime.now(UTC),
                ),
            )
        )
    found = connection.execute(query).first()
    # The query is by hash, so its duration reveals nothing about a key. The comparison
    # guards against databases that ignore case.
    if found is None or not hmac.compare_digest(found[1] or "", digest):
        return None
    key_id, _, scope, key_name, *of_team = found
    team_id, credits_left, concurrency, rates, policy, disk_mb = of_team
    return Team(
        team_id,
        key_id,
        credits_left is None,
        concurrency,
        json.loads(rates or "{}"),
        policy_from_json(policy),
        disk_mb,
        KeyScope(scope or KeyScope.ADMIN),
        key_name,
    )


@transaction(first="{team_id}")
def store_site_policy(
    connection: Connection,
    team_id: str,
    policy: SitePolicy,
    actor: Actor | None = None,
) -> None:
    """Store the policy of a team, as JSON."""
    text = policy_to_json(policy)
    connection.execute(
        update(team_table).where(team_table.c.id == team_id).values(site_policy=text)
    )
    counts = {
        "blacklist": len(policy.rules.blacklist),
        "whitelist": len(policy.rules.whitelist),
        "blockedTlds": len(policy.rules.blocked_tlds),
    }
    action = "team.threat-protection"
    facts: dict[str, Any] = {"mode": policy.mode, **counts}
    audit.record(connection, actor, action, team_id, team_id=team_id, **facts)


def read_account(connection: Connection, team_id: str) -> tuple[TeamRow, list[KeyRow]]:
    """Return a team and its keys."""
    row = connection.execute(select(team_table).where(team_table.c.id == team_id)).one()
    return teams.team_row(connection, row), teams.list_keys(connection, team_id)


def existing(found: T | None, text: str = "Job not found") -> T:
    """Return what a team has; raise :exc:`JobNotFound` for None."""
    if found is None:
        raise JobNotFound(text)
    return found


@frozen(eq=False)
class Rates:
    """Rate limits per team and mode.

    ``usual`` is the limit in calls per minute by mode, for teams without limits of
    their own. 0 or a missing mode is unlimited and needs no database.
    """

    _database: Database
    _usual: Mapping[str, int]

    def limit(self, team: Team, mode: Mode) -> int:
        """Return the calls per minute of a mode, 0 for any number."""
        return team.rates.get(mode, self._usual.get(mode, 0))

    async def count(self, team: Team, mode: Mode) -> None:
        """Count a call.

        Raises :exc:`~scraper_service.errors.RateLimited` above the limit.
        """
        most = self.limit(team, mode)
        if not most:
            return
        await self._database.write(count_call, team.id, mode, most)


@frozen(eq=False)
class DiskQuota:
    """The bytes that teams may store. ``usual_mb`` is the quota in MiB, 0 for none."""

    _database: Database
    _usual_mb: int

    def limit(self, team: Team) -> int | None:
        """Return the quota of a team in bytes, None without one."""
        most = self._usual_mb if team.disk_mb is None else team.disk_mb
        return most * disk_use.MIB if most else None

    async def read_used(self, team: Team) -> int:
        """Return the bytes that a team has stored."""
        return await self._database.read(disk_use.read_used, team.id)

    async def require(self, team: Team) -> None:
        """Raise :exc:`DiskQuotaExceeded` if a team is at its disk quota."""
        if (limit := self.limit(team)) is None:
            return
        await self._database.read(disk_use.refusal, team.id, limit)


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
