"""Teams as their operator sees them: names, credits and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from sqlalchemy import or_, select, update

from scraper_service.storage.accounts.credits import balance, lock_team, take_back
from scraper_service.storage.schema import team

if TYPE_CHECKING:
    from sqlalchemy import Connection


@frozen(kw_only=True)
class TeamRow:
    """A team; ``credits`` is what it may still spend of ``plan_credits``.

    None is unlimited. ``rates`` are calls per minute by mode, where it has its own.
    """

    id: str
    name: str
    credits: int | None
    plan_credits: int | None
    concurrency: int | None
    rates: Mapping[str, int]


@frozen(kw_only=True)
class Change:
    """What is to become of a team; None leaves as it is, :data:`UNLIMITED` lifts.

    ``credits`` is what it may spend from now on, beside what jobs under way have
    reserved; ``more_credits`` are added. ``rates`` replace those of their modes.
    """

    name: str | None = None
    credits: int | None = None
    more_credits: int | None = None
    concurrency: int | None = None
    rates: Mapping[str, int | None] = field(factory=dict)


UNLIMITED = -1


def list_teams(connection: Connection) -> list[TeamRow]:
    """Return every team, the oldest first."""
    rows = connection.execute(select(team).order_by(team.c.created_at, team.c.id))
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
    query = select(team.c.id).where(or_(team.c.id == text, team.c.name == text))
    return list(connection.scalars(query.order_by(team.c.created_at)))


def change_team(connection: Connection, team_id: str, change: Change) -> None:
    """Change a team.

    Raises :exc:`ValueError` for more credits to a team without a balance.
    """
    lock_team(connection, team_id)
    row = connection.execute(select(team).where(team.c.id == team_id)).one()
    values: dict[str, Any] = {}
    if change.name is not None:
        values["name"] = change.name
    if change.credits is not None:
        take_back(connection, team_id)  # it would come on top later
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
        connection.execute(update(team).where(team.c.id == team_id).values(values))
