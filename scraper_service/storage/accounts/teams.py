"""Teams: their limits, their API keys, and the mark of the secret of the keys' hashes.

The database has the hashes of keys only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from scraper_service.options.limits import KeyScope
from scraper_service.storage.accounts import audit, disk_use
from scraper_service.storage.accounts.credits import balance, lock_team, take_back
from scraper_service.storage.schema import installation
from scraper_service.storage.schema import key as key_table
from scraper_service.storage.schema import team as team_table
from scraper_service.storage.secrets import mark_of
from scraper_service.storage.transactions import upsert

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import ColumnElement, Connection, Row

    from scraper_service.storage.accounts.audit import Actor


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
    #: Bytes that are stored.
    disk_used: int
    #: The disk quota in MiB: None is that of the settings, 0 is none.
    disk_mb: int | None


@frozen(kw_only=True)
class TeamChange:
    """Changes to a team. None changes nothing, :data:`UNLIMITED` removes a limit."""

    name: str | None = None
    #: The new balance, without the credits that running jobs have reserved.
    credits: int | None = None
    #: Credits to add to the balance.
    more_credits: int | None = None
    concurrency: int | None = None
    #: Calls per minute by mode; other modes keep their limits.
    rates: Mapping[str, int | None] = field(factory=dict)
    #: The disk quota in MiB; :data:`USUAL` is that of the settings.
    disk_mb: int | None = None


UNLIMITED = -1
USUAL = -2


def list_teams(connection: Connection) -> list[TeamRow]:
    """Return all teams, the oldest first."""
    rows = connection.execute(
        select(team_table).order_by(team_table.c.created_at, team_table.c.id)
    )
    return [team_row(connection, row) for row in rows]


def team_row(connection: Connection, row: Row[Any]) -> TeamRow:
    """Return a row of the table as a :class:`TeamRow`."""
    return TeamRow(
        id=row.id,
        name=row.name,
        credits=balance(connection, row.id),
        plan_credits=row.plan_credits,
        concurrency=row.concurrency,
        rates=json.loads(row.rates or "{}"),
        disk_used=disk_use.read_used(connection, row.id),
        disk_mb=row.disk_mb,
    )


def teams_named(connection: Connection, text: str) -> list[str]:
    """Return the ids of the teams with this id or name."""
    query = select(team_table.c.id).where(
        or_(team_table.c.id == text, team_table.c.name == text)
    )
    return list(connection.scalars(query.order_by(team_table.c.created_at)))


def change_team(
    connection: Connection,
    team_id: str,
    change: TeamChange,
    actor: Actor | None = None,
) -> None:
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
    if change.disk_mb is not None:
        chosen = {UNLIMITED: 0, USUAL: None}
        values["disk_mb"] = chosen.get(change.disk_mb, change.disk_mb)
    if change.rates:
        rates = {**json.loads(row.rates or "{}"), **change.rates}
        kept = {mode: count for mode, count in rates.items() if count is not None}
        values["rates"] = json.dumps(kept) if kept else None
    if values:
        connection.execute(
            update(team_table).where(team_table.c.id == team_id).values(values)
        )
        facts = {name: _spell_value(name, value) for name, value in values.items()}
        if change.rates:
            facts["rates"] = change.rates
        audit.record(
            connection, actor, "team.changed", team_id, team_id=team_id, **facts
        )


def _spell_value(name: str, value: Any) -> Any:
    if name == "disk_mb":
        return {0: "unlimited", None: "default"}.get(value, value)
    return "unlimited" if value is None else value


def create_team(connection: Connection, name: str) -> str:
    """Make a team; return its id."""
    team_id = str(uuid.uuid4())
    connection.execute(
        insert(team_table).values(id=team_id, name=name, created_at=datetime.now(UTC))
    )
    return team_id


# -- API keys ------------------------------------------------------------------------

PREFIX = "fc-"
KEY_BYTES = 32
MAX_LISTED = 200  # keys of one team
MARK = "secret"  # the name of the mark in the table of the installation
MISMATCH = (
    "the secret is not the one that this job database is used with, so its API keys are not"
    " valid here: set the same SCRAPER_KEY_SECRET, or the same key.secret in the data folder,"
    " for all services, nodes and commands. If that secret is lost, `scraper-service keys"
    " forget-secret` lets a service start with a new one"
)
COMMAND, SETTINGS = "command", "settings"  # where a key comes from


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
    #: None for a key that does not end by itself.
    expires_at: datetime | None
    scope: KeyScope

    @property
    def state(self) -> str:
        """``valid``, ``revoked`` or ``expired``."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= _now():
            return "expired"
        return "valid"


def key_hash(key: str, secret: bytes) -> str:
    """Return the hash of a key. The prefix of the key makes no difference."""
    text = key.removeprefix(PREFIX)
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def create_key(
    connection: Connection,
    secret: bytes,
    name: str,
    team_id: str | None = None,
    expires_in: timedelta | None = None,
    scope: KeyScope = KeyScope.ADMIN,
    actor: Actor | None = None,
) -> str:
    """Make a key and return it. Without ``team_id`` it gets a team of its own.

    The key cannot be read again later. It is valid for ``expires_in``, by default until it is
    revoked, and may do what ``scope`` says, by default all.
    """
    key = PREFIX + secrets.token_hex(KEY_BYTES)
    digest = key_hash(key, secret)
    expires_at = None if expires_in is None else _now() + expires_in
    _store_key(
        connection, digest, key[-4:], name, COMMAND, team_id, expires_at, scope, actor
    )
    return key


def list_keys(connection: Connection, team_id: str | None = None) -> list[KeyRow]:
    """Return all keys, the oldest first.

    With ``team_id`` only keys of this team, at most :data:`MAX_LISTED`.
    """
    columns = [key_table.c[field] for field in KeyRow.__match_args__]
    query = select(*columns).order_by(key_table.c.created_at)
    if team_id is not None:
        query = query.where(key_table.c.team_id == team_id).limit(MAX_LISTED)
    return [
        KeyRow(
            row.id,
            row.team_id,
            row.name,
            row.hint,
            _utc(row.created_at),
            _utc(row.revoked_at),
            _utc(row.expires_at),
            KeyScope(row.scope or KeyScope.ADMIN),
        )
        for row in connection.execute(query)
    ]


def ended_keys(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return which of the keys with these ids were revoked or have expired."""
    columns = key_table.c
    return set(
        connection.scalars(
            select(columns.id).where(
                columns.id.in_(ids),
                or_(columns.revoked_at.is_not(None), columns.expires_at <= _now()),
            )
        )
    )


def revoke_key(connection: Connection, key_id: str, actor: Actor | None = None) -> bool:
    """Revoke a key by its id. Return True if it was valid until now.

    A key of settings is none of theirs from then on, so that no start makes it valid again.
    """
    which = (key_table.c.id == key_id, key_table.c.revoked_at.is_(None))
    values = {"revoked_at": _now(), "source": COMMAND}
    return _change_keys(connection, actor, "key.revoked", which, **values) == 1


def _change_keys(
    connection: Connection,
    actor: Actor | None,
    action: str,
    which: Collection[ColumnElement[bool]],
    **values: Any,
) -> int:
    """Change keys, and write each into the audit log. Return their number."""
    columns = (key_table.c.id, key_table.c.team_id, key_table.c.name)
    change = update(key_table).where(*which).values(**values).returning(*columns)
    changed = connection.execute(change).all()
    for key_id, team_id, name in changed:
        audit.record(connection, actor, action, key_id, team_id=team_id, name=name)
    return len(changed)


def use_fixed_keys(
    connection: Connection,
    secret: bytes,
    keys: Iterable[str],
    actor: Actor | None = None,
) -> list[str]:
    """Make ``keys`` the only valid keys of settings. Revoke keys of earlier settings.

    Those that :func:`revoke_key` has revoked stay so. Returns the last characters of these.
    """
    hashes = {key_hash(key, secret): key[-4:] for key in keys}
    of_settings = key_table.c.source == SETTINGS
    stored = set(connection.scalars(select(key_table.c.hash)))
    columns = key_table.c
    old = (of_settings, columns.hash.not_in(hashes), columns.revoked_at.is_(None))
    _change_keys(connection, actor, "key.revoked", old, revoked_at=_now())
    known = (of_settings, columns.hash.in_(hashes), columns.revoked_at.is_not(None))
    _change_keys(connection, actor, "key.restored", known, revoked_at=None)
    for digest, hint in hashes.items():
        if digest not in stored:
            # Another service that starts now may store it first.
            with suppress(IntegrityError), connection.begin_nested():
                _store_key(connection, digest, hint, "fixed key", SETTINGS, actor=actor)
    refused = columns.hash.in_(hashes), columns.revoked_at.is_not(None)
    return [
        hashes[each]
        for each in connection.scalars(select(columns.hash).where(*refused))
    ]


def _store_key(
    connection: Connection,
    digest: str,
    hint: str,
    name: str,
    source: str,
    team_id: str | None = None,
    expires_at: datetime | None = None,
    scope: KeyScope = KeyScope.ADMIN,
    actor: Actor | None = None,
) -> None:
    now, team_id = _now(), team_id or create_team(connection, name)
    key_id = str(uuid.uuid4())
    connection.execute(
        insert(key_table).values(
            id=key_id,
            team_id=team_id,
            name=name,
            hash=digest,
            hint=hint,
            source=source,
            created_at=now,
            expires_at=expires_at,
            scope=scope,
        )
    )
    facts = {"name": name, "scope": scope.value, "key": f"{PREFIX}...{hint}"}
    until = expires_at and expires_at.isoformat(timespec="seconds")
    audit.record(
        connection,
        actor,
        "key.created",
        key_id,
        team_id=team_id,
        expiresAt=until,
        **facts,
    )


def _utc(at: Any) -> Any:
    """Return a stored time with its time zone, which SQLite does not keep."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _now() -> datetime:
    return datetime.now(UTC)


def is_known_secret(connection: Connection, secret: bytes) -> bool:
    """Return False if the services of this database have another secret.

    Keys and entrusted values are unreadable with another secret. Without this mark, a service
    or command with the wrong one would only find that every key is unknown.
    """
    found = connection.scalar(
        select(installation.c.value).where(installation.c.name == MARK)
    )
    return found is None or found == mark_of(secret)


def note_secret(connection: Connection, secret: bytes) -> None:
    """Store what stands for a secret that :func:`is_known_secret`."""
    # Another service may start at the same time.
    upsert(connection, installation, [{"name": MARK, "value": mark_of(secret)}])


def forget_secret(connection: Connection) -> None:
    """Let the next service of this database have any secret."""
    connection.execute(delete(installation).where(installation.c.name == MARK))
