"""What opens the page of a scrape again in a browser session: its URL and its options.

Single scrapes keep it beside their page, with their secrets encrypted. Pages of jobs have it in
the options of the job, whose secrets are deleted when the job ends.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select

from scraper_service.errors import SecretsUnreadable
from scraper_service.storage import job_secrets
from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.schema import activity, frontier, job, page, scrape
from scraper_service.storage.transactions import now_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

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
        if secrets := job_secrets.hide(options):
            sealed = job_secrets.box_of(connection).seal(secrets)
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
            values["scrape"].update(
                job_secrets.box_of(connection).open(sealed.encode())
            )
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
            or_(job.c.state.in_(ACTIVE), job.c.expires_at > now),
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
        whole = job_secrets.whole_rows(connection, row.id, [row.own])[row.own]
    else:
        whole = job_secrets.whole_options(connection, row.id, row.options)
    found: dict[str, Any] = json.loads(whole)
    return found if row.own else dict(found["scrape"])
