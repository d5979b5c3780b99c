"""API keys, the teams they belong to, and the limits of teams.

Keys are stored as hashes only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen
from sqlalchemy import insert, null, or_, select, update

from scraper_service.errors import Unauthorized
from scraper_service.storage.accounts.credits import balance, lock_team, take_back
from scraper_service.storage.accounts.rate_limits import count_call
from scraper_service.storage.schema import key as key_table
from scraper_service.storage.schema import team as team_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from scraper_service.options.limits import Mode
    from scraper_service.storage.database import Database

PREFIX = "fc-"
KEY_BYTES = 32
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


@frozen
class KeyRow:
    """A stored key."""

    id: str
    team_id: str
    name: str
    #: The last four characters of the key.
    hint: str
    created_at: datetime
    revoked_at: datetime | None


class Accounts(Protocol):
    """Finds teams by their keys."""

    async def team_of(self, authorization: str | None) -> Team:
        """Return the team for an ``Authorization`` header; None stands for no header.

        Raises :exc:`~scraper_service.errors.Unauthorized`, whose text is sent to the
        caller.
        """
        ...


class DatabaseAccounts:
    """Keys and teams in the job database.

    With ``enabled`` False every caller belongs to one team. A key that was found is
    remembered for :data:`KEY_MEMORY_S`, so that calls in a row need one query.
    """

    def __init__(self, database: Database, secret: bytes, enabled: bool = True):
        self._database = database
        self._secret = secret
        self.enabled = enabled
        self._found: dict[str, tuple[Team, float]] = {}  # by hash; until when

    async def team_of(self, authorization: str | None) -> Team:
        """Return the team of a key, see :class:`Accounts`."""
        digest = self.hash_of(authorization) if self.enabled else ""
        return await self.team_with(digest)

    def hash_of(self, authorization: str | None) -> str:
        """Return the hash of the key in a header. Raises :exc:`Unauthorized`."""
        return key_hash(_token(authorization), self._secret)

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


def key_hash(key: str, secret: bytes) -> str:
    """Return the hash of a key. The prefix of the key makes no difference."""
    text = key.removeprefix(PREFIX)
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def find_team(connection: Connection, digest: str) -> Team | None:
    """Return the team of a valid key by the key's hash; None for an unknown hash.

    An empty hash finds the one team of a service without keys.
    """
    limits = [team_table.c[name] for name in ("id", "credits", "concurrency", "rates")]
    query = select(null(), null(), *limits).where(team_table.c.id == OPEN_TEAM_ID)
    if digest:
        query = (
            select(key_table.c.id, key_table.c.hash, *limits)
            .join(team_table, team_table.c.id == key_table.c.team_id)
            .where(key_table.c.hash == digest, key_table.c.revoked_at.is_(None))
        )
    found = connection.execute(query).first()
    # The query is by hash, so its duration reveals nothing about a key. The comparison
    # guards against databases that ignore case.
    if found is None or not hmac.compare_digest(found[1] or "", digest):
        return None
    key_id, _, team_id, credits_left, concurrency, rates = found
    unlimited = credits_left is None
    return Team(team_id, key_id, unlimited, concurrency, json.loads(rates or "{}"))


def create_key(
    connection: Connection, secret: bytes, name: str, team_id: str | None = None
) -> str:
    """Make a key and return it. Without ``team_id`` it gets a team of its own.

    The key cannot be read again later.
    """
    key = PREFIX + secrets.token_hex(KEY_BYTES)
    digest = key_hash(key, secret)
    _store_key(connection, digest, key[-4:], name, "command", team_id)
    return key


def list_keys(connection: Connection) -> list[KeyRow]:
    """Return all keys, the oldest first."""
    columns = [key_table.c[field] for field in KeyRow.__match_args__]
    rows = connection.execute(select(*columns).order_by(key_table.c.created_at))
    return [KeyRow(*row) for row in rows]


def revoke_key(connection: Connection, key_id: str) -> bool:
    """Revoke a key by its id. Return True if it was valid until now."""
    changed = connection.execute(
        update(key_table)
        .where(key_table.c.id == key_id, key_table.c.revoked_at.is_(None))
        .values(revoked_at=_now())
    )
    return changed.rowcount == 1


def use_fixed_keys(connection: Connection, secret: bytes, keys: Iterable[str]) -> None:
    """Make ``keys`` the only valid keys of settings. Revoke keys of earlier settings."""
    hashes = {key_hash(key, secret): key[-4:] for key in keys}
    of_settings = key_table.c.source == "settings"
    stored = set(connection.scalars(select(key_table.c.hash)))
    connection.execute(
        update(key_table)
        .where(of_settings, key_table.c.hash.not_in(hashes))
        .values(revoked_at=_now())
    )
    connection.execute(
        update(key_table)
        .where(of_settings, key_table.c.hash.in_(hashes))
        .values(revoked_at=None)
    )
    for digest, hint in hashes.items():
        if digest not in stored:
            _store_key(connection, digest, hint, "fixed key", "settings")


def create_team(connection: Connection, name: str) -> str:
    """Make a team; return its id."""
    team_id = str(uuid.uuid4())
    connection.execute(
        insert(team_table).values(id=team_id, name=name, created_at=_now())
    )
    return team_id


def _store_key(
    connection: Connection,
    digest: str,
    hint: str,
    name: str,
    source: str,
    team_id: str | None = None,
) -> None:
    now, team_id = _now(), team_id or create_team(connection, name)
    connection.execute(
        insert(key_table).values(
            id=str(uuid.uuid4()),
            team_id=team_id,
            name=name,
            hash=digest,
            hint=hint,
            source=source,
            created_at=now,
        )
    )


def _now() -> datetime:
    return datetime.now(UTC)


@frozen(kw_only=True)
class TeamRow:
    """A stored team. None is unlimited."""

    id: str
    name: str
    #: Credits left of ``plan_credits``.
    credits: int | None
    plan_credits: int | None
    #: Pages at a time.
    concurrency: int | None
    #: Calls per minute by mode, for modes where the team has its own limit.
    rates: Mapping[str, int]


@frozen(kw_only=True)
class TeamChange:
    """Changes to a team. None changes nothing, :data:`UNLIMITED` removes a limit."""

    name: str | None = None
    #: The new balance, beside the credits that running jobs have reserved.
    credits: int | None = None
    #: Credits to add to the balance.
    more_credits: int | None = None
    concurrency: int | None = None
    #: Calls per minute by mode; other modes keep their limits.
    rates: Mapping[str, int | None] = field(factory=dict)


UNLIMITED = -1


def list_teams(connection: Connection) -> list[TeamRow]:
    """Return all teams, the oldest first."""
    rows = connection.execute(
        select(team_table).order_by(team_table.c.created_at, team_table.c.id)
    )
    return [
        TeamRow(
            id=row.id,
            name=row.name,
            credits=balance(connection, row.id),
            plan_credits=row.plan_credits,
            concurrency=row.concurrency,
            rates=json.loads(row.rates or "{}"),
        )
        for row in rows
    ]


def teams_named(connection: Connection, text: str) -> list[str]:
    """Return the ids of the teams with this id or name."""
    query = select(team_table.c.id).where(
        or_(team_table.c.id == text, team_table.c.name == text)
    )
    return list(connection.scalars(query.order_by(team_table.c.created_at)))


def change_team(connection: Connection, team_id: str, change: TeamChange) -> None:
    """Change a team.

    Raises :exc:`ValueError` for more credits to a team without a balance.
    """
    lock_team(connection, team_id)
    row = connection.execute(select(team_table).where(team_table.c.id == team_id)).one()
    values: dict[str, Any] = {}
    if change.name is not None:
        values["name"] = change.name
    if change.credits is not None:
        take_back(connection, team_id)  # otherwise it would be added later
        plan = None if change.credits == UNLIMITED else change.credits
        values["credits"] = values["plan_credits"] = plan
    if change.more_credits is not None:
        if row.credits is None:
            raise ValueError("the team has unlimited credits: set a number first")
        values["credits"] = row.credits + change.more_credits
        values["plan_credits"] = (row.plan_credits or 0) + change.more_credits
    if change.concurrency is not None:
        limit = change.concurrency
        values["concurrency"] = None if limit == UNLIMITED else limit
    if change.rates:
        rates = {**json.loads(row.rates or "{}"), **change.rates}
        kept = {mode: count for mode, count in rates.items() if count is not None}
        values["rates"] = json.dumps(kept) if kept else None
    if values:
        connection.execute(
            update(team_table).where(team_table.c.id == team_id).values(values)
        )


class Rates:
    """Rate limits per team and mode.

    ``usual`` is the limit in calls per minute by mode, for teams without limits of
    their own. 0 or a missing mode is unlimited and needs no database.
    """

    def __init__(self, database: Database, usual: Mapping[str, int]):
        self._database = database
        self._usual = usual

    async def count(self, team: Team, mode: Mode) -> None:
        """Count a call.

        Raises :exc:`~scraper_service.errors.RateLimited` above the limit.
        """
        most = team.rates.get(mode, self._usual.get(mode, 0))
        if not most:
            return
        refusal = await self._database.write_first(
            count_call, f"{team.id}/{mode}", team.id, mode, most
        )
        if refusal is not None:
            raise refusal
