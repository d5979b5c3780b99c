"""What teams have used: credits by time, pages that wait, calls of the last day.

Functions take a connection inside a transaction; they only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from attrs import frozen
from sqlalchemy import and_, func, or_, select

from scraper_service.storage.accounts.credits import DAY_S, Call, balance
from scraper_service.storage.frontier.transactions import RETENTION_S, now_of
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.schema import activity, job, key, ledger, team

if TYPE_CHECKING:
    from sqlalchemy import Connection

HISTORY_DAYS = 366


@frozen
class Balance:
    """What a team may still spend, and of how much; None is any amount."""

    remaining: int | None
    plan: int | None


class Used(NamedTuple):
    """Credits charged on a ``day`` (since 1970) to calls with a key.

    ``key_name`` is empty where no key came with them.
    """

    day: int
    key_id: str | None
    key_name: str
    credits: int


@frozen
class Queue:
    """Pages of the jobs of a team that have not ended, and when one last came.

    ``succeeded_at`` are seconds since 1970, None before the first page.
    """

    pages: int
    succeeded_at: float | None


@frozen
class Place:
    """Behind which call a list goes on."""

    at: float
    id: str


def read_balance(connection: Connection, team_id: str) -> Balance:
    plan = connection.scalar(select(team.c.plan_credits).where(team.c.id == team_id))
    return Balance(balance(connection, team_id), plan)


def read_used(connection: Connection, team_id: str) -> list[Used]:
    """Return what a team has used in :data:`HISTORY_DAYS`, by day and key."""
    today = int(now_of(connection) // DAY_S)
    rows = connection.execute(
        select(
            ledger.c.day,
            ledger.c.key_id,
            func.coalesce(key.c.name, ""),
            func.coalesce(key.c.hint, ""),
            func.sum(ledger.c.credits),
        )
        .outerjoin(key, key.c.id == ledger.c.key_id)
        .where(
            ledger.c.team_id == team_id,
            ledger.c.at >= (today - HISTORY_DAYS) * DAY_S,
        )
        .group_by(ledger.c.day, ledger.c.key_id, key.c.name, key.c.hint)
        .order_by(ledger.c.day)
    )
    return [
        Used(day, key_id, name or (f"...{hint}" if hint else ""), int(credits_used))
        for day, key_id, name, hint, credits_used in rows
    ]


def read_queue(connection: Connection, team_id: str) -> Queue:
    pages = connection.scalar(
        select(func.sum(job.c.open)).where(
            job.c.team_id == team_id, job.c.state.in_(ACTIVE)
        )
    )
    last = connection.scalar(
        select(ledger.c.at)
        .where(ledger.c.team_id == team_id, ledger.c.credits > 0)
        .order_by(ledger.c.at.desc())
        .limit(1)
    )
    return Queue(int(pages or 0), last)


def read_activity(
    connection: Connection,
    team_id: str,
    endpoint: str | None,
    after: Place | None,
    limit: int,
) -> list[Call]:
    """Return calls of the last day, the latest first; one more if there are more."""
    columns = activity.c
    where = [
        columns.team_id == team_id,
        columns.at > now_of(connection) - RETENTION_S,
    ]
    if endpoint is not None:
        where.append(columns.endpoint == endpoint)
    if after is not None:
        same = and_(columns.at == after.at, columns.id < after.id)
        where.append(or_(columns.at < after.at, same))
    rows = connection.execute(
        select(activity)
        .where(*where)
        .order_by(columns.at.desc(), columns.id.desc())
        .limit(limit + 1)
    )
    return [
        Call(row.id, row.team_id, None, row.endpoint, row.version, row.target, row.at)
        for row in rows
    ]
