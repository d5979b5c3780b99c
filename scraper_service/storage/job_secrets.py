"""What callers entrust to a job: headers, cookies, and what actions type.

It is stored apart from the options, encrypted, and deleted in the transaction that ends
the job; headers of a webhook when its last event has arrived. Functions take a connection
inside a transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, exists, insert, or_, select

from scraper_service.errors import SecretsUnreadable
from scraper_service.storage.frontier.transactions import written
from scraper_service.storage.job_records import ACTIVE, DeliveryState
from scraper_service.storage.schema import delivery, job, secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection

    from scraper_service.storage.key_secret import Box

OPTIONS: Final = "options"  # the part of the job's own options
WEBHOOK: Final = "webhook"
HIDDEN = ("headers", "actions")  # of the options of a page
KEY = "secrets"  # in options of rows of the frontier: the name of their part


def box_of(connection: Connection) -> Box:
    """Return what encrypts for the database of ``connection``."""
    box: Box = connection.get_execution_options()["box"]
    return box


def hide(options: dict[str, Any]) -> dict[str, Any]:
    """Empty what is secret in the options of a page, and return it."""
    found = {name: options[name] for name in HIDDEN if options.get(name)}
    options.update({name: [] for name in found})
    return found


def store(connection: Connection, job_id: str, part: str, found: Any) -> None:
    """Encrypt and store a part of a job's secrets, in place of what it was.

    None deletes it.
    """
    _delete(connection, secret.c.job_id == job_id, secret.c.part == part)
    if found is not None:
        body = box_of(connection).seal(found)
        row = {"job_id": job_id, "part": part, "body": body}
        connection.execute(insert(secret), row)


def read(connection: Connection, job_id: str, part: str) -> Any:
    """Return a part, None if there is none; raise :exc:`SecretsUnreadable`."""
    body = connection.scalar(
        select(secret.c.body).where(secret.c.job_id == job_id, secret.c.part == part)
    )
    return None if body is None else box_of(connection).open(body)


def whole_options(connection: Connection, job_id: str, options: str) -> str:
    """Return the options of a job with its secrets, as JSON.

    Raises :exc:`SecretsUnreadable`.
    """
    found = read(connection, job_id, OPTIONS)
    if not found:
        return options
    whole = json.loads(options)
    whole["scrape"].update(found)
    return json.dumps(whole)


def active_options(connection: Connection, team_id: str) -> dict[str, dict[str, Any]]:
    """Return the secrets of options of a team's jobs that go on, by the job's id.

    Those that cannot be read are left out.
    """
    rows = connection.execute(
        select(secret.c.job_id, secret.c.body)
        .join(job, job.c.id == secret.c.job_id)
        .where(
            job.c.team_id == team_id,
            job.c.state.in_(ACTIVE),
            secret.c.part == OPTIONS,
        )
    )
    box, found = box_of(connection), {}
    for job_id, body in rows:
        try:
            found[job_id] = box.open(body)
        except SecretsUnreadable:
            continue
    return found


def whole_rows(
    connection: Connection, job_id: str, texts: Iterable[str]
) -> dict[str, str]:
    """Return options of rows of a frontier with their secrets, by what they were.

    Raises :exc:`SecretsUnreadable`.
    """
    parts: dict[str, Any] = {}
    found = {}
    for text in texts:
        options = json.loads(text)
        if (part := options.pop(KEY, None)) is not None:
            if part not in parts:
                parts[part] = read(connection, job_id, part) or {}
            options.update(parts[part])
        found[text] = json.dumps(options)
    return found


def forget(connection: Connection, job_id: str) -> None:
    """Delete the secrets of a job that has ended.

    Headers of its webhook stay while an event has not arrived: it can be sent again.
    """
    is_waiting = exists().where(
        delivery.c.job_id == job_id,
        or_(
            delivery.c.state == written(DeliveryState.PENDING),
            delivery.c.state == written(DeliveryState.FAILED),
        ),
    )
    is_over = or_(secret.c.part != WEBHOOK, ~is_waiting)
    _delete(connection, secret.c.job_id == job_id, is_over)


def forget_all(connection: Connection, job_id: str) -> None:
    """Delete the secrets of a job that expires."""
    _delete(connection, secret.c.job_id == job_id)


def _delete(connection: Connection, *where: ColumnElement[bool]) -> None:
    """Delete secrets; SQLite overwrites them, which it does not do by itself."""
    overwrites = connection.dialect.name == "sqlite"
    if overwrites:
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    connection.execute(delete(secret).where(*where))
    if overwrites:
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")
