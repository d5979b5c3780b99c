"""Webhooks of jobs, and the outbox of their deliveries: written, sent and replayed.

Deliveries are written in the transaction of their event. Functions run inside a
transaction. Those that write lock the row of the job first. The sender of deliveries uses
:class:`WebhookOutbox`.
"""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from attrs import evolve
from sqlalchemy import bindparam, func, insert, or_, select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.errors import HeadersForgotten, SecretsUnreadable
from scraper_service.options.jobs import MONITOR_CHECK, Webhook, structure, unstructure
from scraper_service.options.urls import origin
from scraper_service.storage import job_secrets
from scraper_service.storage.database import reading, writing
from scraper_service.storage.job_records import (
    ACTIVE,
    Delivery,
    DeliveryLease,
    DeliveryState,
    Due,
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
from scraper_service.storage.transactions import (
    inline,
    lock_job,
    now_of,
    transaction,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.errors import ServiceError
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import DeliveryResult


#: Returns the body of an event for a webhook.
ShapeT: TypeAlias = "Callable[[Event, Webhook], bytes]"

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
    hook = structure(json.loads(row.config), Webhook)
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
    names = tuple((name, "") for name, _ in hook.headers)
    config = unstructure(evolve(hook, headers=names))
    job_secrets.store(connection, job_id, job_secrets.WEBHOOK, hook.headers or None)
    _, host, port = origin(hook.url)
    receiver = f"{host}:{port}"
    row = {"job_id": job_id, "receiver": receiver, "config": json.dumps(config)}
    upsert(connection, webhook, [row])
    connection.execute(
        update(job).where(job.c.id == job_id).values(hook_events=",".join(hook.events))
    )


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


def tell(
    connection: Connection,
    job_id: str,
    hook_events: str | None,
    deliveries: int,
    news: Sequence[tuple[str, int | None, str | None]],
    at: float,
) -> int:
    """Insert a delivery for each event whose kind the webhook has subscribed to.

    ``news`` has the events as (kind, row of the URL, detail as JSON). ``hook_events`` and
    ``deliveries`` are columns of the job. Returns the new number of deliveries, which the
    caller stores.
    """
    kinds = set(hook_events.split(",")) if hook_events else set()
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
            (each for each in news if each[0] in kinds), deliveries + 1
        )
    ]
    if rows:
        connection.execute(insert(delivery), rows)
        connection.execute(WAKE, {"hooked": job_id, "now": at})
    return deliveries + len(rows)


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
    kinds, before = connection.execute(select(*columns).where(job.c.id == job_id)).one()
    news = [(kind, None, detail) for detail in details]
    after = tell(connection, job_id, kinds, before, news, at)
    if after != before:
        connection.execute(
            update(job).where(job.c.id == job_id).values(deliveries=after)
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


logger = logging.getLogger(__name__)

T = TypeVar("T")

# -- the outbox ----------------------------------------------------------------------

FIRST_ROWS = 50  # first attempts per lease
RETRY_ROWS = 10  # retries per lease
MAX_LOG = 50  # logged attempts of one delivery
UNREADABLE = (
    "The webhook of this job cannot be read: it is damaged, or another version of the"
    " service stored it."
)
GONE = 410  # the status of a receiver that accepts no more deliveries

_SETTLE = (
    update(delivery)
    .where(delivery.c.job_id == bindparam("hooked"), delivery.c.seq == bindparam("nth"))
    .values(
        {
            name: bindparam(name)
            for name in ("state", "due_at", "attempts", "failures", "log", "response")
        }
    )
)


def due_jobs(
    connection: Connection, busy: Sequence[str], limit: int
) -> tuple[list[tuple[str, str]], float]:
    """Return jobs with due deliveries and no lease, as (job id, receiver).

    The longest wait comes first. Leaves out receivers that are ``busy``. Also returns the
    seconds until the next delivery is due that is not due now, infinite without one.
    """
    now = now_of(connection)
    query = (
        select(webhook.c.job_id, webhook.c.receiver)
        .where(
            webhook.c.due_at <= now,
            webhook.c.until <= now,
            webhook.c.receiver.not_in(busy),
        )
        .order_by(webhook.c.due_at)
        .limit(limit)
    )
    due = [(row.job_id, row.receiver) for row in connection.execute(query)]
    later = select(func.min(webhook.c.due_at)).where(webhook.c.due_at > now)
    next_at = connection.scalar(later)
    return due, math.inf if next_at is None else next_at - now


@transaction(row="{job_id}")
def take(connection: Connection, job_id: str, lease_s: float) -> DeliveryLease | None:
    """Lease the due deliveries of a job. Return None if another process was faster."""
    lock_job(connection, job_id)
    at = now_of(connection)
    row = connection.execute(
        select(webhook, job.c.kind, job.c.team_id)
        .join(job, job.c.id == webhook.c.job_id)
        .where(webhook.c.job_id == job_id)
    ).one_or_none()
    if row is None or row.due_at is None or row.due_at > at or row.until > at:
        return None
    token = row.token + 1
    connection.execute(
        update(webhook)
        .where(webhook.c.job_id == job_id)
        .values(until=at + lease_s, token=token)
    )
    waiting = select(delivery.c.seq, delivery.c.kind, delivery.c.attempts).where(
        delivery.c.job_id == job_id,
        delivery.c.state == inline(DeliveryState.PENDING),
    )
    # Also by time: the primary key has only the order of numbers, and includes earlier
    # deliveries.
    first = waiting.where(delivery.c.due_at <= inline(0)).order_by(
        delivery.c.due_at, delivery.c.seq
    )
    again = waiting.where(delivery.c.due_at > 0, delivery.c.due_at <= at)
    found = [
        *connection.execute(first.limit(inline(FIRST_ROWS))),
        *connection.execute(
            again.order_by(delivery.c.due_at).limit(inline(RETRY_ROWS))
        ),
    ]
    hook, trouble = _hook(connection, job_id, row.config)
    return DeliveryLease(
        job_id=job_id,
        job_kind=row.kind,
        team_id=row.team_id,
        receiver=row.receiver,
        token=token,
        hook=hook,
        trouble=trouble,
        due=tuple(Due(each.seq, each.kind, each.attempts + 1) for each in found),
    )


def _hook(
    connection: Connection, job_id: str, config: str
) -> tuple[Webhook | None, str | None]:
    """Return the webhook of a job with its headers, or None and why it is unreadable."""
    try:
        hook = structure(json.loads(config), Webhook)
        headers = job_secrets.read(connection, job_id, job_secrets.WEBHOOK) or []
        hook = evolve(hook, headers=tuple((name, value) for name, value in headers))
    except SecretsUnreadable as error:
        return None, str(error)
    except (ValueError, TypeError):  # InvalidOptions is a ValueError
        logger.exception("the webhook of job %s cannot be read", job_id)
        return None, UNREADABLE
    return hook, None


@transaction(row="{lease.job_id}")
def record(
    connection: Connection,
    lease: DeliveryLease,
    answers: Sequence[DeliveryResult],
    retries_s: Sequence[float],
    lease_s: float | None,
) -> bool:
    """Store the results of the attempts of a lease.

    ``lease_s`` extends the lease, None returns it. ``retries_s`` are the seconds before each
    retry. Returns False and stores nothing if the lease was lost.
    """
    job_id = lease.job_id
    state = lock_job(connection, job_id).state
    at = now_of(connection)
    stored_token = select(webhook.c.token).where(webhook.c.job_id == job_id)
    if connection.scalar(stored_token) != lease.token:
        return False
    if answers:
        _settle(connection, job_id, answers, retries_s, at)
    if any(answer.status == GONE for answer in answers):
        _give_up(connection, job_id)
    values: dict[str, Any] = {"until": at + (lease_s or 0)}
    if lease_s is None:
        values["due_at"] = _next_due(connection, job_id, at)
    connection.execute(update(webhook).where(webhook.c.job_id == job_id).values(values))
    if lease_s is None and state not in ACTIVE:
        job_secrets.forget(connection, job_id)
    return True


def _settle(
    connection: Connection,
    job_id: str,
    answers: Sequence[DeliveryResult],
    retries_s: Sequence[float],
    at: float,
) -> None:
    by_seq = {answer.seq: answer for answer in answers}
    rows = connection.execute(
        select(delivery).where(
            delivery.c.job_id == job_id, delivery.c.seq.in_(by_seq.keys())
        )
    )
    changes = [
        {"hooked": job_id, "nth": row.seq}
        | _settled_values(row, by_seq[row.seq], retries_s, at)
        for row in rows
    ]
    if changes:
        connection.execute(_SETTLE, changes)


def _settled_values(
    row: Row[Any], answer: DeliveryResult, retries_s: Sequence[float], at: float
) -> dict[str, Any]:
    failures = row.failures + (not answer.is_ok)
    state, due_at = DeliveryState.FAILED, 0.0
    if answer.is_ok:
        state = DeliveryState.DELIVERED
    elif not answer.is_final and failures <= len(retries_s):
        state, due_at = DeliveryState.PENDING, at + retries_s[failures - 1]
    log = [*json.loads(row.log), answer.as_json(row.attempts + 1)]
    return {
        "state": state,
        "due_at": due_at,
        "attempts": row.attempts + 1,
        "failures": failures,
        "log": json.dumps(log[-MAX_LOG:]),
        "response": row.response if answer.response is None else answer.response,
    }


def _give_up(connection: Connection, job_id: str) -> None:
    connection.execute(update(job).where(job.c.id == job_id).values(hook_events=""))
    connection.execute(
        update(delivery)
        .where(delivery.c.job_id == job_id, delivery.c.state == DeliveryState.PENDING)
        .values(state=DeliveryState.FAILED, due_at=0)
    )


def _next_due(connection: Connection, job_id: str, at: float) -> float | None:
    due_at = connection.scalar(
        select(func.min(delivery.c.due_at)).where(
            delivery.c.job_id == job_id, delivery.c.state == DeliveryState.PENDING
        )
    )
    # A delivery that is due at once comes after the waiting deliveries of other jobs.
    return None if due_at is None else due_at or at


class WebhookOutbox:
    """The webhook deliveries of all jobs in a database.

    The stores of jobs write each event of a job with a webhook into the outbox, in the
    transaction of the event itself. The order of calls for the sender:

    1. :meth:`due_jobs` returns jobs with deliveries that are due.
    2. :meth:`lease` leases the due deliveries of a job. One process at a time has the
       lease, so first attempts keep their order.
    3. :meth:`read_event` reads the body of each delivery.
    4. :meth:`record` stores the results. It keeps the lease or returns it. Failed
       deliveries become due again, until their retries are used up.

    :meth:`deliveries` lists the deliveries of a job, :meth:`delivery` reads one with its
    body, and :meth:`replay` makes them due again. All methods raise
    :exc:`ServiceUnavailable` if the database does not respond.
    """

    def __init__(self, database: Database):
        self._database = database

    due_jobs = reading(due_jobs)
    lease = writing(take)

    async def read_event(
        self, job_id: str, seq: int, shape: Callable[[Event], T]
    ) -> T | None:
        """Return ``shape`` of an event, called in a reader thread.

        None if the job has expired, or what the event reports is gone.
        """

        def read(connection: Connection) -> T | None:
            event = read_event(connection, job_id, seq)
            return None if event is None else shape(event)

        return await self._database.read(read)

    record = writing(record)
    deliveries = reading(read_deliveries)
    delivery = reading(read_delivery)
    replay = writing(replay)
