"""Usage of teams: credits by day, open pages, calls of the last day.

Functions run inside a transaction that only reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from attrs import frozen
from sqlalchemy import and_, func, or_, select

from scraper_service.errors import CallFailed, JobNotFound
from scraper_service.options.limits import DAY_S
from scraper_service.storage.accounts.credits import Call, balance
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.schema import activity, job, key, ledger, page, team
from scraper_service.storage.transactions import now_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

HISTORY_DAYS = 366


@frozen
class Balance:
    """The credits that a team may spend, and those of its plan. None is unlimited."""

    remaining: int | None
    plan: int | None


class Used(NamedTuple):
    """Credits that were charged to a key on a day."""

    #: Days since 1970-01-01.
    day: int
    key_id: str | None
    #: Empty for calls without a key.
    key_name: str
    credits: int


@frozen
class Queue:
    """Open pages of a team's active jobs."""

    pages: int
    #: Time of the last charged page in seconds since 1970, or None.
    succeeded_at: float | None


@frozen
class CallPosition:
    """The position of a list of calls: after this call."""

    at: float
    id: str


def read_balance(connection: Connection, team_id: str) -> Balance:
    plan = connection.scalar(select(team.c.plan_credits).where(team.c.id == team_id))
    return Balance(balance(connection, team_id), plan)


def read_used(connection: Connection, team_id: str) -> list[Used]:
    """Return the credits used in :data:`HISTORY_DAYS`, by day and key."""
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
    after: CallPosition | None,
    limit: int,
) -> list[Call]:
    """Return calls of the last day, latest first. One more than ``limit`` if there are more."""
    columns, now = activity.c, now_of(connection)
    where = [
        columns.team_id == team_id,
        columns.at > now - DAY_S,
        columns.expires_at > now,
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


def check_finished(
    connection: Connection, call_id: str, team_id: str, endpoint: str
) -> None:
    """Check that a team's call of an endpoint is on record and has not failed.

    A page of a job counts as a scrape. Raises :exc:`JobNotFound` for a call that is unknown,
    has expired, or is one of another endpoint, and :exc:`CallFailed`.
    """
    row = connection.execute(
        select(activity.c.error).where(
            activity.c.id == call_id,
            activity.c.team_id == team_id,
            activity.c.endpoint == endpoint,
            activity.c.expires_at > now_of(connection),
        )
    ).one_or_none()
    if row is not None and row.error is not None:
        raise CallFailed(endpoint)
    if row is None and not (
        endpoint == "scrape" and _is_page(connection, call_id, team_id)
    ):
        raise JobNotFound("Job not found.")


def _is_page(connection: Connection, scrape_id: str, team_id: str) -> bool:
    """Return True for a page of a job. Its ``scrapeId`` is one like that of a scrape."""
    found = (
        select(page.c.id)
        .join(job, job.c.number == page.c.job_number)
        .where(
            page.c.id == scrape_id,
            job.c.team_id == team_id,
            or_(job.c.state.in_(ACTIVE), job.c.expires_at > now_of(connection)),
        )
    )
    return connection.scalar(found) is not None
