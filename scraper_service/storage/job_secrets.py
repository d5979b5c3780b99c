"""Secrets of jobs and scrapes: headers, cookies, and text that actions type.

They are stored apart from the options, encrypted, and deleted in the transaction that
ends the job. Headers of a webhook are deleted after its last delivery. A replay opens the page
of a scrape again in a browser session. Single scrapes keep it with their page, with its
secrets encrypted; pages of jobs have it in the options of the job. Functions run inside a
transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, exists, insert, or_, select

from scraper_service.errors import SecretsUnreadable
from scraper_service.storage.job_records import ACTIVE, DeliveryState, JobState
from scraper_service.storage.schema import (
    activity,
    delivery,
    frontier,
    job,
    page,
    scrape,
    secret,
)
from scraper_service.storage.transactions import inline, is_stored, now_of

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


# -- replays of scrapes --------------------------------------------------------------

#: The replay of a scrape that is known, but cannot be opened again.
UNAVAILABLE: Final = {"url": ""}
_SEALED = "sealed"


def pack_replay(connection: Connection, replay: dict[str, Any]) -> bytes:
    """Return a replay as it is stored: ``url``, and ``scrape`` with options.

    Without ``scrape`` the page had no options that matter.
    """
    values = dict(replay)
    if (options := values.get("scrape")) is not None:
        values["scrape"] = options = dict(options)
        if secrets := hide(options):
            sealed = box_of(connection).seal(secrets)
            values[_SEALED] = sealed.decode()
    return json.dumps(values).encode()


def read_replay(
    connection: Connection, scrape_id: str, team_id: str
) -> dict[str, Any] | None:
    """Return the replay of a scrape, None if the team has no such scrape.

    :data:`UNAVAILABLE` stands for one that has expired, had zero retention, was an uploaded
    file, or whose secrets are deleted.
    """
    now = now_of(connection)
    known = select(activity.c.id).where(
        activity.c.id == scrape_id,
        activity.c.team_id == team_id,
        activity.c.endpoint.in_(("scrape", "parse")),
    )
    row = connection.execute(
        select(scrape.c.replay).where(
            scrape.c.id == scrape_id,
            scrape.c.team_id == team_id,
            scrape.c.expires_at > now,
        )
    ).first()
    if row is not None:
        return UNAVAILABLE if row.replay is None else _open(connection, row.replay)
    if connection.scalar(known) is not None:
        return UNAVAILABLE
    return _of_job(connection, scrape_id, team_id, now)


def _open(connection: Connection, packed: bytes) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(packed)
    if (sealed := values.pop(_SEALED, None)) is not None:
        try:
            values["scrape"].update(box_of(connection).open(sealed.encode()))
        except SecretsUnreadable:
            return UNAVAILABLE
    return values


def _of_job(
    connection: Connection, scrape_id: str, team_id: str, now: float
) -> dict[str, Any] | None:
    row = connection.execute(
        select(
            job.c.id,
            job.c.state,
            job.c.secrets,
            job.c.options,
            frontier.c.options.label("own"),
            frontier.c.url,
        )
        .join(page, page.c.job_number == job.c.number)
        .outerjoin(frontier, frontier.c.id == page.c.frontier_id)
        .where(
            page.c.id == scrape_id,
            job.c.team_id == team_id,
            is_stored(now),
        )
    ).first()
    if row is None:
        return None
    if row.url is None or (row.secrets and JobState(row.state) not in ACTIVE):
        return UNAVAILABLE
    try:
        options = _options(connection, row)
    except SecretsUnreadable:
        return UNAVAILABLE
    if options["zero_data_retention"]:
        return UNAVAILABLE
    return {"url": row.url, "scrape": options}


def _options(connection: Connection, row: Any) -> dict[str, Any]:
    if row.own:
        whole = whole_rows(connection, row.id, [row.own])[row.own]
    else:
        whole = whole_options(connection, row.id, row.options)
    found: dict[str, Any] = json.loads(whole)
    return found if row.own else dict(found["scrape"])
