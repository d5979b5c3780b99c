"""Messages about a check that wait to be sent: mails, and messages to channels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import delete, func, insert, select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.storage.job_records import PageRow
from scraper_service.storage.schema import monitor, monitor_check, monitor_page
from scraper_service.storage.schema import monitor_message as table
from scraper_service.storage.transactions import now_of, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection

#: The channel of mail. Names of other channels have no such character.
MAIL = "@mail"
LISTED_PAGES = 50  # pages in a mail
ATTEMPT_S = 120.0  # after which another process may try
LISTED = 20  # pages in another message
GAP_S = 5.0  # between two messages of a channel, not of mail


@frozen(kw_only=True)
class CheckMessage:
    """What a mail or another message about a check has to say."""

    check_id: str
    monitor_id: str
    #: The name of the monitor.
    name: str
    recipients: tuple[str, ...]
    has_diffs: bool
    status: str
    error: str | None
    counts: dict[str, int]
    #: True if the monitor was muted since.
    is_muted: bool = False
    #: The first pages that are not the same.
    pages: tuple[PageRow, ...]


def read_message(
    connection: Connection, check_id: str, listed: int
) -> CheckMessage | None:
    """Return what there is to say about a check, with its first ``listed`` pages.

    None if its monitor is gone.
    """
    columns = monitor_check.c
    row = connection.execute(
        select(
            columns.monitor_id,
            columns.status,
            columns.error,
            columns.counts,
            monitor.c.name,
            monitor.c.notification,
            monitor.c.muted_until,
        )
        .join(monitor, monitor.c.id == columns.monitor_id)
        .where(columns.job_id == check_id)
    ).one_or_none()
    if row is None:
        return None
    email: dict[str, Any] = json.loads(row.notification or "{}").get("email") or {}
    bodies = connection.scalars(
        select(monitor_page.c.body)
        .where(monitor_page.c.job_id == check_id, monitor_page.c.status != "same")
        .order_by(monitor_page.c.seq)
        .limit(listed)
    )
    return CheckMessage(
        check_id=check_id,
        monitor_id=row.monitor_id,
        name=row.name,
        recipients=tuple(email.get("recipients") or ()) if email.get("enabled") else (),
        has_diffs=bool(email.get("includeDiffs")),
        status=row.status,
        error=row.error,
        counts=json.loads(row.counts),
        is_muted=(row.muted_until or 0) > now_of(connection),
        pages=tuple(PageRow.read(decompress(body)) for body in bodies),
    )


def add_messages(
    connection: Connection, check_id: str, channels: Iterable[str], at: float
) -> None:
    """Plan a message about a check to each channel."""
    rows = [{"job_id": check_id, "channel": name, "due_at": at} for name in channels]
    if rows:
        connection.execute(insert(table), rows)


def due_messages(
    connection: Connection, limit: int, *, is_mail: bool = False
) -> list[tuple[str, str]]:
    """Return messages that are due as (check, channel): mail, or the first of each channel."""
    to_mail = table.c.channel == MAIL
    rank = func.row_number().over(
        partition_by=table.c.channel, order_by=(table.c.due_at, table.c.job_id)
    )
    ranked = (
        select(table.c.job_id, table.c.channel, table.c.due_at, rank.label("rank"))
        .where(table.c.due_at <= now_of(connection), to_mail if is_mail else ~to_mail)
        .subquery()
    )
    rows = connection.execute(
        select(ranked.c.job_id, ranked.c.channel)
        .where(ranked.c.rank <= (limit if is_mail else 1))
        .order_by(ranked.c.due_at)
        .limit(limit)
    )
    return [(row.job_id, row.channel) for row in rows]


@transaction(first="{channel}", apart=True)
def take_message(
    connection: Connection, channel: str, check_id: str
) -> CheckMessage | None:
    """Take a due message for an attempt.

    None if another process has it, if none is due, or for :data:`GAP_S` after another message
    of the channel.
    """
    at, is_mail = now_of(connection), channel == MAIL
    if not is_mail:
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
    found = read_message(connection, check_id, LISTED_PAGES if is_mail else LISTED)
    if found is None or found.is_muted or (is_mail and not found.recipients):
        # Changed, muted or deleted since.
        connection.execute(delete(table).where(_is(check_id, channel)))
        return None
    return found


def end_attempt(
    connection: Connection,
    check_id: str,
    channel: str,
    retries_s: tuple[float, ...],
    *,
    is_sent: bool = False,
) -> bool:
    """Plan another attempt unless the message ``is_sent``. Return False after the last one."""
    tries = connection.scalar(select(table.c.tries).where(_is(check_id, channel)))
    goes_on = not is_sent and tries is not None and tries <= len(retries_s)
    at = now_of(connection) + retries_s[tries - 1] if goes_on and tries else None
    connection.execute(
        update(table)
        .where(_is(check_id, channel))
        .values(due_at=at, failed=int(not (goes_on or is_sent)))
    )
    return goes_on


def open_messages(connection: Connection, check_id: str) -> tuple[int, int] | None:
    """Return the numbers of messages that wait and were given up; None without any.

    Mail does not count.
    """
    row = connection.execute(
        select(
            func.count(),
            func.count(table.c.due_at),
            func.sum(table.c.failed),
        ).where(table.c.job_id == check_id, table.c.channel != MAIL)
    ).one()
    return (row[1], int(row[2])) if row[0] else None


def _is(check_id: str, channel: str) -> ColumnElement[bool]:
    return (table.c.job_id == check_id) & (table.c.channel == channel)
