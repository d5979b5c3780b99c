"""Messages about checks to channels. Functions run inside a transaction.

A message has a time in ``due_at`` until it was sent or given up. An attempt moves it, so that
one process at a time sends, and another one tries again after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select, update

from scraper_service.storage.monitors.mails import ATTEMPT_S, Mail, read_mail
from scraper_service.storage.schema import monitor_message as table
from scraper_service.storage.transactions import now_of, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection

LISTED = 20  # pages in a message
GAP_S = 5.0  # between two messages of a channel


def add_messages(
    connection: Connection, check_id: str, channels: Iterable[str], at: float
) -> None:
    """Plan a message about a check to each channel."""
    rows = [{"job_id": check_id, "channel": name, "due_at": at} for name in channels]
    if rows:
        connection.execute(insert(table), rows)


def due_messages(connection: Connection, limit: int) -> list[tuple[str, str]]:
    """Return messages that are due as (check, channel), the first of each channel."""
    place = func.row_number().over(
        partition_by=table.c.channel, order_by=(table.c.due_at, table.c.job_id)
    )
    ranked = (
        select(table.c.job_id, table.c.channel, table.c.due_at, place.label("place"))
        .where(table.c.due_at <= now_of(connection))
        .subquery()
    )
    rows = connection.execute(
        select(ranked.c.job_id, ranked.c.channel)
        .where(ranked.c.place == 1)
        .order_by(ranked.c.due_at)
        .limit(limit)
    )
    return [(row.job_id, row.channel) for row in rows]


@transaction(first="{channel}", apart=True)
def take_message(connection: Connection, channel: str, check_id: str) -> Mail | None:
    """Take a due message for an attempt.

    None if another process has it, if none is due, or for :data:`GAP_S` after another message
    of the channel.
    """
    at = now_of(connection)
    latest = connection.scalar(
        select(func.max(table.c.tried_at)).where(table.c.channel == channel)
    )
    if latest is not None and at - latest < GAP_S:
        return None
    taken = connection.execute(
        update(table)
        .where(_is(check_id, channel), table.c.due_at <= at)
        .values(due_at=at + ATTEMPT_S, tried_at=at, tries=table.c.tries + 1)
    )
    if not taken.rowcount:
        return None
    found = read_mail(connection, check_id, LISTED)
    if found is None or found.is_muted:  # deleted or muted since
        connection.execute(delete(table).where(_is(check_id, channel)))
        return None
    return found


def note_sent(connection: Connection, check_id: str, channel: str) -> None:
    """Note that a message was sent."""
    connection.execute(update(table).where(_is(check_id, channel)).values(due_at=None))


def put_off(
    connection: Connection, check_id: str, channel: str, retries_s: tuple[float, ...]
) -> bool:
    """Plan another attempt after a failure. Return False after the last one."""
    tries = connection.scalar(select(table.c.tries).where(_is(check_id, channel)))
    goes_on = tries is not None and tries <= len(retries_s)
    at = now_of(connection) + retries_s[tries - 1] if goes_on and tries else None
    connection.execute(
        update(table)
        .where(_is(check_id, channel))
        .values(due_at=at, failed=int(not goes_on))
    )
    return goes_on


def open_messages(connection: Connection, check_id: str) -> tuple[int, int] | None:
    """Return the numbers of messages that wait and were given up; None without any."""
    row = connection.execute(
        select(
            func.count(),
            func.count(table.c.due_at),
            func.sum(table.c.failed),
        ).where(table.c.job_id == check_id)
    ).one()
    return (row[1], int(row[2])) if row[0] else None


def _is(check_id: str, channel: str) -> ColumnElement[bool]:
    return (table.c.job_id == check_id) & (table.c.channel == channel)
