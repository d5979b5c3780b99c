"""Token limits of language models, per key, team and day.

Tokens are taken before a model is asked, and corrected by the usage that the model
reports. So neither parallel calls nor a crash exceed a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import and_, func, select, update

from scraper_service.options.limits import DAY_S
from scraper_service.storage.schema import job, model_use
from scraper_service.storage.transactions import (
    delete_some,
    dialect_insert,
    now_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

KEEP_S = 8 * DAY_S  # longer than the life of any job
EXPIRE_ROWS = 1000  # deleted in one transaction


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
    delete_some(connection, model_use, is_old, limit=EXPIRE_ROWS, skips_locked=True)


def account_of(connection: Connection, job_id: str) -> str:
    """Return the account of a job: its API key, else its team."""
    query = select(func.coalesce(job.c.key_id, job.c.team_id)).where(job.c.id == job_id)
    return connection.scalar(query) or ""


def read_used(connection: Connection, cap: Cap) -> int:
    """Return the tokens that are taken from a limit."""
    query = select(model_use.c.tokens).where(_row(cap, now_of(connection)))
    return connection.scalar(query) or 0


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
