"""Who is calling: keys, hashed, and the teams they belong to."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen
from sqlalchemy import insert, null, select, update

from scraper_service.errors import Unauthorized
from scraper_service.storage.key_secret import key_secret as key_secret  # noqa: PLC0414  # its old place
from scraper_service.storage.schema import key as key_table
from scraper_service.storage.schema import team as team_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from scraper_service.storage.database import Database

PREFIX = "fc-"
KEY_BYTES = 32
KEY_MEMORY_S = 1.0  # a revoked key may be used for that long
MAX_REMEMBERED = 10_000  # keys
MAX_KEY_LENGTH = 512  # characters; a longer one is no key of ours
OPEN_TEAM_ID = "00000000-0000-0000-0000-000000000000"


@frozen
class Team:
    """Whom a request belongs to, and what it may do.

    ``key_id`` is that of the key that came with it. ``is_unlimited`` tells that credits
    do not count. ``concurrency`` is how many pages may be under way, None for any
    number; ``rates`` are calls per minute by mode, where the team has its own.
    """

    id: str
    key_id: str | None = None
    is_unlimited: bool = True
    concurrency: int | None = None
    rates: Mapping[str, int] = field(factory=dict)


@frozen
class KeyRow:
    """What is known of a key; ``hint`` is its last four characters."""

    id: str
    team_id: str
    name: str
    hint: str
    created_at: datetime
    revoked_at: datetime | None


class Accounts(Protocol):
    """Whatever knows teams by their keys; the setting ``ACCOUNTS`` names it."""

    async def team_of(self, authorization: str | None) -> Team:
        """Return the team for an ``Authorization`` header, None for none sent.

        Raises :exc:`~scraper_service.errors.Unauthorized` with the sentence for the
        caller.
        """
        ...


class DatabaseAccounts:
    """Keys and teams in the job database.

    ``enabled`` False lets everybody in as one team. A key that was found is good for
    :data:`KEY_MEMORY_S`, so that calls in a row need one look-up.
    """

    def __init__(self, database: Database, secret: bytes, enabled: bool = True):
        self._database = database
        self._secret = secret
        self._enabled = enabled
        self._found: dict[str, tuple[Team, float]] = {}  # by hash; until when

    async def team_of(self, authorization: str | None) -> Team:
        """See :class:`Accounts`."""
        digest = ""
        if self._enabled:
            digest = key_hash(_token(authorization), self._secret)
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
    """Return what is stored of a key; with and without its prefix is the same."""
    text = key.removeprefix(PREFIX)
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def find_team(connection: Connection, digest: str) -> Team | None:
    """Return the team of a valid key by its hash, None when there is none.

    Without a hash, the one team that everybody is where keys are not asked for.
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
    # The look-up was by hash, so its time says nothing of a key; the comparison is
    # there for databases that compare loosely.
    if found is None or not hmac.compare_digest(found[1] or "", digest):
        return None
    key_id, _, team_id, credits_left, concurrency, rates = found
    unlimited = credits_left is None
    return Team(team_id, key_id, unlimited, concurrency, json.loads(rates or "{}"))


def create_key(
    connection: Connection, secret: bytes, name: str, team_id: str | None = None
) -> str:
    """Make a key, with a team of its own unless one is given.

    Returns the key, which is shown only now.
    """
    key = PREFIX + secrets.token_hex(KEY_BYTES)
    digest = key_hash(key, secret)
    _store_key(connection, digest, key[-4:], name, "command", team_id)
    return key


def list_keys(connection: Connection) -> list[KeyRow]:
    """Return every key, the oldest first."""
    columns = [key_table.c[field] for field in KeyRow.__match_args__]
    rows = connection.execute(select(*columns).order_by(key_table.c.created_at))
    return [KeyRow(*row) for row in rows]


def revoke_key(connection: Connection, key_id: str) -> bool:
    """End a key by its id; tell whether it was valid until now."""
    changed = connection.execute(
        update(key_table)
        .where(key_table.c.id == key_id, key_table.c.revoked_at.is_(None))
        .values(revoked_at=_now())
    )
    return changed.rowcount == 1


def use_fixed_keys(connection: Connection, secret: bytes, keys: Iterable[str]) -> None:
    """Make ``keys`` the valid ones of those that come from settings."""
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
