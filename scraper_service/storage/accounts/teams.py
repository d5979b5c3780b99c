"""The limits of teams: credits, calls, pages at a time, room on the disk."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from sqlalchemy import insert, or_, select, update

from scraper_service.storage.accounts import audit, disk_use
from scraper_service.storage.accounts.credits import balance, lock_team, take_back
from scraper_service.storage.schema import team as team_table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

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
    #: The new balance, beside the credits that running jobs have reserved.
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
    """Return a value of a team as operators write it."""
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
