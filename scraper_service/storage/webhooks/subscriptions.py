"""Webhooks of jobs, and the deliveries for their events.

Deliveries are written in the transaction of their event. Functions that write lock the
row of the job first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from attrs import evolve
from sqlalchemy import bindparam, func, insert, or_, select, update

from scraper_service.options.serialization import webhook_to_json
from scraper_service.options.urls import origin
from scraper_service.storage import job_secrets
from scraper_service.storage.job_records import DeliveryState
from scraper_service.storage.schema import delivery, job, secret, webhook
from scraper_service.storage.transactions import upsert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from scraper_service.options.crawl import Webhook

HeadersT: TypeAlias = tuple[tuple[str, str], ...]

WAKE = (
    update(webhook)
    .where(
        webhook.c.job_id == bindparam("hooked"),
        or_(webhook.c.due_at.is_(None), webhook.c.due_at > bindparam("now")),
    )
    .values(due_at=bindparam("now"))
)


def attach(connection: Connection, job_id: str, hook: Webhook) -> None:
    """Set the webhook of a job. Waiting deliveries go to it, too."""
    config = webhook_to_json(evolve(hook, headers=_empty_values(hook.headers)))
    job_secrets.store(connection, job_id, job_secrets.WEBHOOK, hook.headers or None)
    row = {
        "job_id": job_id,
        "receiver": _receiver(hook.url),
        "config": json.dumps(config),
    }
    upsert(connection, webhook, [row])
    connection.execute(
        update(job).where(job.c.id == job_id).values(hook_events=",".join(hook.events))
    )


def _empty_values(headers: HeadersT) -> HeadersT:
    return tuple((name, "") for name, _ in headers)


def lacks_headers(connection: Connection, job_id: str) -> bool:
    """Return True if the header values of a job's webhook were deleted."""
    config = connection.scalar(
        select(webhook.c.config).where(webhook.c.job_id == job_id)
    )
    if config is None or not json.loads(config)["headers"]:
        return False
    kept = select(secret.c.part).where(
        secret.c.job_id == job_id, secret.c.part == job_secrets.WEBHOOK
    )
    return connection.scalar(kept) is None


def _receiver(url: str) -> str:
    """Return the receiver of a URL as HOST:PORT."""
    _, host, port = origin(url)
    return f"{host}:{port}"


def tell(
    connection: Connection,
    job_id: str,
    asked: str | None,
    told: int,
    news: Sequence[tuple[str, int | None, str | None]],
    at: float,
) -> int:
    """Insert a delivery for each event whose kind the webhook has subscribed to.

    ``news`` has the events as (kind, row of the URL, detail as JSON). ``asked`` and ``told``
    are the job's ``hook_events`` and ``deliveries``. Returns the new number of
    ``deliveries``, which the caller stores.
    """
    kinds = set(asked.split(",")) if asked else set()
    rows = [
        {
            "job_id": job_id,
            "seq": number,
            "kind": kind,
            "row_id": row_id,
            "at": at,
            "state": DeliveryState.PENDING,
            "detail": detail,
        }
        for number, (kind, row_id, detail) in enumerate(
            (each for each in news if each[0] in kinds), told + 1
        )
    ]
    if rows:
        connection.execute(insert(delivery), rows)
        connection.execute(WAKE, {"hooked": job_id, "now": at})
    return told + len(rows)


def tell_locked(
    connection: Connection,
    job_id: str,
    kind: str,
    at: float,
    details: Sequence[str | None] = (None,),
) -> None:
    """Insert a delivery for each event of a locked job, and count them.

    The events are of one ``kind``. ``details`` has the JSON of each.
    """
    columns = (job.c.hook_events, job.c.deliveries)
    asked, told = connection.execute(select(*columns).where(job.c.id == job_id)).one()
    news = [(kind, None, detail) for detail in details]
    now_told = tell(connection, job_id, asked, told, news, at)
    if now_told != told:
        connection.execute(
            update(job).where(job.c.id == job_id).values(deliveries=now_told)
        )


class OpenDeliveries(NamedTuple):
    """The numbers of deliveries of a job."""

    waiting: int
    #: Those that were given up.
    failed: int
    #: False if nothing was to be delivered so far.
    has_any: bool


def open_deliveries(connection: Connection, job_id: str) -> OpenDeliveries | None:
    """Return which deliveries of a job are open. None without a webhook."""
    hooked = select(webhook.c.job_id).where(webhook.c.job_id == job_id)
    if connection.scalar(hooked) is None:
        return None
    rows = connection.execute(
        select(delivery.c.state, func.count())
        .where(
            delivery.c.job_id == job_id,
            delivery.c.state.in_((DeliveryState.PENDING, DeliveryState.FAILED)),
        )
        .group_by(delivery.c.state)
    )
    found = {row[0]: row[1] for row in rows}
    first = select(delivery.c.seq).where(delivery.c.job_id == job_id).limit(1)
    return OpenDeliveries(
        found.get(DeliveryState.PENDING, 0),
        found.get(DeliveryState.FAILED, 0),
        connection.scalar(first) is not None,
    )
