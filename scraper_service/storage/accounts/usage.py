"""What a team has used: calls of its rate limits, tokens of the language model, credits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from attrs import frozen
from sqlalchemy import and_, case, func, or_, select, tuple_, update

from scraper_service.errors import CallFailed, JobNotFound, RateLimited
from scraper_service.options.limits import DAY_S
from scraper_service.storage.accounts.credits import Call, balance
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.schema import (
    activity,
    job,
    key,
    ledger,
    model_use,
    page,
    rate,
    team,
)
from scraper_service.storage.transactions import (
    ListPosition,
    delete_some,
    dialect_insert,
    is_stored,
    now_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

    from scraper_service.errors import ServiceError

WINDOW_S = 60
KEEP_S = 8 * DAY_S  # longer than the life of any job
HISTORY_DAYS = 366


@transaction(first="{team_id}/{mode}")
def count_call(
    connection: Connection, team_id: str, mode: str, most: int
) -> ServiceError | None:
    """Count a call if fewer than ``most`` calls were made in this window.

    Otherwise return the error with the end of the window.
    """
    now = now_of(connection)
    # A window that ends much later began before the clock was set back; that of a call which
    # passed while this one waited for its row ends a little later.
    is_over = or_(rate.c.until <= now, rate.c.until > now + 2 * WINDOW_S)
    counted = connection.execute(
        dialect_insert(connection, rate)
        .values(team_id=team_id, mode=mode, used=1, until=now + WINDOW_S)
        .on_conflict_do_update(
            index_elements=("team_id", "mode"),
            set_={
                "used": case((is_over, 1), else_=rate.c.used + 1),
                "until": case((is_over, now + WINDOW_S), else_=rate.c.until),
            },
            where=or_(is_over, rate.c.used < most),
        )
        .returning(rate.c.used)
    )
    if counted.first() is not None:
        return None
    query = select(rate.c.used, rate.c.until).where(
        rate.c.team_id == team_id, rate.c.mode == mode
    )
    used, until = connection.execute(query).one()
    return RateLimited(used, max(1, math.ceil(until - now)), until)


@frozen
class Cap:
    """A limit of tokens for an account."""

    account: str
    #: The largest number of tokens.
    most: int
    #: True for a limit per day (UTC), False for all days together.
    daily: bool = False


@transaction(first="{caps[0].account}")
def take(connection: Connection, caps: Sequence[Cap], tokens: int) -> Cap | None:
    """Take ``tokens`` from all limits. Return a limit with too few tokens, or None.

    If a limit has too few tokens, none are taken.
    """
    now = now_of(connection)
    taken: list[Cap] = []
    for cap in caps:
        if not _take(connection, cap, tokens, now):
            for other in taken:
                _add(connection, other, -tokens, now)
            return cap
        taken.append(cap)
    return None


@transaction(first="{caps[0].account}")
def correct(connection: Connection, caps: Sequence[Cap], tokens: int) -> None:
    """Add ``tokens``, which may be negative, to the usage of each limit."""
    now = now_of(connection)
    for cap in caps:
        _add(connection, cap, tokens, now)


def forget(connection: Connection) -> None:
    """Delete a slice of old usage."""
    old = now_of(connection) - KEEP_S
    is_old = model_use.c.updated_at < old
    delete_some(connection, model_use, is_old)


def account_of(connection: Connection, job_id: str) -> str:
    """Return the account of a job: its API key, else its team."""
    query = select(func.coalesce(job.c.key_id, job.c.team_id)).where(job.c.id == job_id)
    return connection.scalar(query) or ""


def _take(connection: Connection, cap: Cap, tokens: int, now: float) -> bool:
    if tokens > cap.most:
        return False
    taken = connection.execute(
        dialect_insert(connection, model_use)
        .values(account=cap.account, day=_day(cap, now), tokens=tokens, updated_at=now)
        .on_conflict_do_update(
            index_elements=("account", "day"),
            set_={"tokens": model_use.c.tokens + tokens, "updated_at": now},
            where=model_use.c.tokens + tokens <= cap.most,
        )
        .returning(model_use.c.tokens)
    )
    return taken.first() is not None


def _add(connection: Connection, cap: Cap, tokens: int, now: float) -> None:
    more = model_use.c.tokens + tokens
    connection.execute(update(model_use).where(_row(cap, now)).values(tokens=more))


def _row(cap: Cap, now: float) -> ColumnElement[bool]:
    return and_(model_use.c.account == cap.account, model_use.c.day == _day(cap, now))


def _day(cap: Cap, now: float) -> int:
    return int(now // DAY_S) if cap.daily else 0


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


def read_queue(connection: Connection, team_id: str) -> tuple[int, float | None]:
    """Return the open pages of a team's active jobs, and the time of its last charge."""
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
    return int(pages or 0), last


def read_activity(
    connection: Connection,
    team_id: str,
    endpoint: str | None,
    after: ListPosition | None,
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
        where.append(tuple_(columns.at, columns.id) < tuple_(*after))
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
            is_stored(now_of(connection)),
        )
    )
    return connection.scalar(found) is not None
