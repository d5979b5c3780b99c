"""Mail that checks of monitors wait to send. Functions run inside a transaction.

A check that has something to tell has a time in ``mail_at``. An attempt moves it, so that
one process at a time sends, and another one tries again after a crash. So mail is sent at
least once; its Message-ID is that of the check.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.storage.job_records import PageRow
from scraper_service.storage.schema import monitor, monitor_check, monitor_page
from scraper_service.storage.transactions import now_of, transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

LISTED = 50  # pages in a mail
ATTEMPT_S = 120.0  # after which another process may try


@frozen(kw_only=True)
class Mail:
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


def due_mails(connection: Connection, limit: int) -> list[str]:
    """Return the checks whose mail is due."""
    query = select(monitor_check.c.job_id).where(
        monitor_check.c.mail_at <= now_of(connection)
    )
    return list(
        connection.scalars(query.order_by(monitor_check.c.mail_at).limit(limit))
    )


@transaction(row="{check_id}")
def take_mail(connection: Connection, check_id: str) -> Mail | None:
    """Take a due mail for an attempt. None if another process has it, or none is due."""
    columns = monitor_check.c
    at = now_of(connection)
    taken = connection.execute(
        update(monitor_check)
        .where(columns.job_id == check_id, columns.mail_at <= at)
        .values(mail_at=at + ATTEMPT_S, mail_tries=columns.mail_tries + 1)
    )
    if not taken.rowcount:
        return None
    found = read_mail(connection, check_id, LISTED)
    if found is None or not found.recipients or found.is_muted:
        forget_mail(connection, check_id)  # changed, muted or deleted since
        return None
    return found


def read_mail(connection: Connection, check_id: str, listed: int) -> Mail | None:
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
    return Mail(
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


@transaction(row="{check_id}")
def forget_mail(connection: Connection, check_id: str) -> None:
    """Note that the mail of a check was sent, or is not wanted any more."""
    connection.execute(
        update(monitor_check)
        .where(monitor_check.c.job_id == check_id)
        .values(mail_at=None)
    )


@transaction(row="{check_id}")
def put_off_mail(
    connection: Connection, check_id: str, retries_s: tuple[float, ...]
) -> bool:
    """Plan another attempt after a failure. Return False after the last one."""
    columns = monitor_check.c
    tries = connection.scalar(
        select(columns.mail_tries).where(columns.job_id == check_id)
    )
    if tries is None or tries > len(retries_s):
        forget_mail(connection, check_id)
        return False
    at = now_of(connection) + retries_s[tries - 1]
    connection.execute(
        update(monitor_check).where(columns.job_id == check_id).values(mail_at=at)
    )
    return True
