"""Secrets of jobs: headers, cookies, and text that actions type.

They are stored apart from the options, encrypted, and deleted in the transaction that
ends the job. Headers of a webhook are deleted after its last delivery. Functions run
inside a transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, exists, insert, or_, select

from scraper_service.errors import SecretsUnreadable
from scraper_service.storage.job_records import ACTIVE, DeliveryState
from scraper_service.storage.schema import delivery, job, secret
from scraper_service.storage.transactions import inline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import ColumnElement, Connection

    from scraper_service.storage.secrets import Box

OPTIONS: Final = "options"  # the part with secrets of the job's options
WEBHOOK: Final = "webhook"
HIDDEN = ("headers", "actions")  # secret options of a page
KEY = "secrets"  # in options of frontier rows: the name of their part


def box_of(connection: Connection) -> Box:
    """Return the box that encrypts for the database of ``connection``."""
    box: Box = connection.get_execution_options()["box"]
    return box


def hide(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the secrets from options of a page, and return them."""
    found = {name: options[name] for name in HIDDEN if options.get(name)}
    options.update({name: [] for name in found})
    return found


def store(connection: Connection, job_id: str, part: str, found: Any) -> None:
    """Encrypt and store a part of a job's secrets. None deletes the part."""
    _delete(connection, secret.c.job_id == job_id, secret.c.part == part)
    if found is not None:
        body = box_of(connection).seal(found)
        row = {"job_id": job_id, "part": part, "body": body}
        connection.execute(insert(secret), row)


def read(connection: Connection, job_id: str, part: str) -> Any:
    """Return a part, None if it is missing. Raise :exc:`SecretsUnreadable`."""
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
    """Return the secrets of the options of a team's active jobs, by job id.

    Leaves out secrets that cannot be decrypted.
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
    """Return options of frontier rows with their secrets, by their stored text.

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
    """Delete the secrets of an ended job.

    Headers of its webhook stay while deliveries are pending or failed, for another attempt.
    """
    is_waiting = exists().where(
        delivery.c.job_id == job_id,
        or_(
            delivery.c.state == inline(DeliveryState.PENDING),
            delivery.c.state == inline(DeliveryState.FAILED),
        ),
    )
    is_over = or_(secret.c.part != WEBHOOK, ~is_waiting)
    _delete(connection, secret.c.job_id == job_id, is_over)


def forget_all(connection: Connection, job_id: str) -> None:
    """Delete all secrets of an expired job."""
    _delete(connection, secret.c.job_id == job_id)


def _delete(connection: Connection, *where: ColumnElement[bool]) -> None:
    """Delete secrets. SQLite overwrites them only with this pragma."""
    overwrites = connection.dialect.name == "sqlite"
    if overwrites:
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    connection.execute(delete(secret).where(*where))
    if overwrites:
        connection.exec_driver_sql("PRAGMA secure_delete = OFF")
