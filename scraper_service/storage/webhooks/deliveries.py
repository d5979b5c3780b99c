"""Webhooks of jobs, and the deliveries for their events: written, read and replayed.

Deliveries are written in the transaction of their event. Functions run inside a
transaction. Those that write deliveries lock the row of the job first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from attrs import evolve
from sqlalchemy import bindparam, func, insert, or_, select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.errors import HeadersForgotten
from scraper_service.options.serialization import (
    MONITOR_CHECK,
    webhook_from_json,
    webhook_to_json,
)
from scraper_service.options.urls import origin
from scraper_service.storage import job_secrets
from scraper_service.storage.job_records import (
    Delivery,
    DeliveryState,
    Event,
    JobState,
    PageRow,
    event_error,
    failure_of,
)
from scraper_service.storage.schema import (
    delivery,
    frontier,
    job,
    monitor_check,
    monitor_page,
    operation,
    page,
    secret,
    webhook,
)
from scraper_service.storage.transactions import lock_job, now_of, transaction, upsert

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.errors import ServiceError
    from scraper_service.options.crawl import Webhook

#: Returns the body of an event for a webhook.
ShapeT: TypeAlias = "Callable[[Event, Webhook], bytes]"

HeadersT: TypeAlias = tuple[tuple[str, str], ...]

WAKE = (
    update(webhook)
    .where(
        webhook.c.job_id == bindparam("hooked"),
        or_(webhook.c.due_at.is_(None), webhook.c.due_at > bindparam("now")),
    )
    .values(due_at=bindparam("now"))
)


def read_event(connection: Connection, job_id: str, seq: int) -> Event | None:
    """Return an event with its page, None if the job or the page has expired."""
    columns = delivery.c
    row = connection.execute(
        select(
            columns.kind,
            columns.detail,
            job.c.kind.label("job_kind"),
            job.c.error.label("job_error"),
            job.c.pages,
            operation.c.result,
            frontier.c.error.label("page_error"),
            page.c.body,
        )
        .join(job, job.c.id == columns.job_id)
        .outerjoin(frontier, frontier.c.id == columns.row_id)
        .outerjoin(page, page.c.frontier_id == columns.row_id)
        .outerjoin(operation, operation.c.job_id == columns.job_id)
        .where(columns.job_id == job_id, columns.seq == seq, job.c.expires_at > 0)
    ).one_or_none()
    if row is None:
        return None
    if row.job_kind == MONITOR_CHECK:
        return _check_event(connection, job_id, seq, row)  # type: ignore[arg-type]  # a row of columns
    result = row.result if row.kind == JobState.COMPLETED else None
    failure = failure_of(row.kind, row.detail)
    body = None if failure else row.body
    return Event(
        job_id=job_id,
        job_kind=row.job_kind,
        seq=seq,
        kind=row.kind,
        page=None if body is None else decompress(body),
        error=failure
        or event_error(row.kind, body is not None, row.page_error, row.job_error),
        result=None if result is None else decompress(result),
        pages=row.pages,
        detail=None if row.kind == "page" else row.detail,
    )


def _check_event(
    connection: Connection, job_id: str, seq: int, row: Row[Any]
) -> Event | None:
    """Return an event of a check of a monitor, with the facts of the check or page."""
    columns = monitor_check.c
    check = connection.execute(
        select(columns.monitor_id, columns.status, columns.counts, columns.error).where(
            columns.job_id == job_id
        )
    ).one_or_none()
    if check is None:
        return None
    error, facts = None, {"monitor_id": check.monitor_id, "status": check.status}
    if row.detail is None:
        facts["counts"] = json.loads(check.counts)
        if check.status != JobState.COMPLETED:
            error = check.error or f"The check is {check.status}."
    else:
        body = connection.scalar(
            select(monitor_page.c.body).where(
                monitor_page.c.job_id == job_id, monitor_page.c.seq == int(row.detail)
            )
        )
        if body is None:
            return None
        found = PageRow.read(decompress(body))
        facts["page"] = found.facts
        for name, text in (("diff", found.diff), ("data", found.data)):
            if text is not None:
                facts["page"][name] = json.loads(text)
        if found.facts["status"] == "error":
            error = found.facts["error"] or "The page could not be fetched."
    return Event(
        job_id=job_id,
        job_kind=row.job_kind,
        seq=seq,
        kind=row.kind,
        page=None,
        error=error,
        detail=json.dumps(facts),
    )


@transaction(first="{job_id}", apart=True)
def replay(connection: Connection, job_id: str, seq: int | None) -> int | ServiceError:
    """Make one delivery due again, or all failed deliveries. Return their number.

    May return :exc:`HeadersForgotten`.
    """
    lock_job(connection, job_id)
    if lacks_headers(connection, job_id):
        return HeadersForgotten("none is sent again.")
    which = (
        delivery.c.state == DeliveryState.FAILED
        if seq is None
        else delivery.c.seq == seq
    )
    changed = connection.execute(
        update(delivery)
        .where(delivery.c.job_id == job_id, which)
        .values(state=DeliveryState.PENDING, due_at=0, failures=0)
    ).rowcount
    if changed:
        connection.execute(WAKE, {"hooked": job_id, "now": now_of(connection)})
    return changed


def read_deliveries(
    connection: Connection,
    job_id: str,
    state: DeliveryState | None,
    after: int,
    limit: int,
) -> tuple[list[Delivery], int | None]:
    """Return up to ``limit`` deliveries of a job after number ``after``, in order.

    Returns the last number as well, None at the end.
    """
    columns = delivery.c
    query = (
        select(delivery, frontier.c.url)
        .outerjoin(frontier, frontier.c.id == columns.row_id)
        .where(columns.job_id == job_id, columns.seq > after)
        .order_by(columns.seq)
        .limit(limit + 1)
    )
    if state is not None:
        query = query.where(columns.state == state)
    rows = connection.execute(query).all()
    found = [_delivery(row) for row in rows[:limit]]
    return found, found[-1].seq if len(rows) > limit else None


def read_delivery(
    connection: Connection, job_id: str, seq: int, shape: ShapeT
) -> Delivery | None:
    """Return a delivery with its body, None for an unknown number.

    The body is made as for the receiver, of the page that is stored.
    """
    row = connection.execute(
        select(delivery, frontier.c.url, webhook.c.config)
        .join(webhook, webhook.c.job_id == delivery.c.job_id)
        .outerjoin(frontier, frontier.c.id == delivery.c.row_id)
        .where(delivery.c.job_id == job_id, delivery.c.seq == seq)
    ).one_or_none()
    if row is None:
        return None
    event = read_event(connection, job_id, seq)
    hook = webhook_from_json(json.loads(row.config))
    return evolve(_delivery(row), body=None if event is None else shape(event, hook))


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        seq=row.seq,
        kind=row.kind,
        at=row.at,
        state=DeliveryState(row.state),
        attempts=tuple(json.loads(row.log)),
        due_at=row.due_at or None,
        page_url=row.url,
        response=row.response,
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
