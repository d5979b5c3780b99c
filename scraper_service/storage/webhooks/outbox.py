"""The outbox of webhook deliveries: which are due, and the results of attempts.

Functions run inside a transaction. If they write, they lock the row of the job first.
Callers use :class:`WebhookOutbox`.
"""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve
from sqlalchemy import bindparam, func, select, update

from scraper_service.errors import SecretsUnreadable
from scraper_service.options.serialization import webhook_from_json
from scraper_service.storage import job_secrets
from scraper_service.storage.database import reading, writing
from scraper_service.storage.job_records import (
    ACTIVE,
    DeliveryLease,
    DeliveryState,
    Due,
    Event,
)
from scraper_service.storage.schema import delivery, job, webhook
from scraper_service.storage.transactions import inline, lock_job, now_of, transaction
from scraper_service.storage.webhooks.deliveries import (
    read_deliveries,
    read_delivery,
    read_event,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.options.crawl import Webhook
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import DeliveryResult

logger = logging.getLogger(__name__)

T = TypeVar("T")

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
        hook = webhook_from_json(json.loads(config))
        headers = job_secrets.read(connection, job_id, job_secrets.WEBHOOK) or []
        hook = evolve(hook, headers=tuple((name, value) for name, value in headers))
    except SecretsUnreadable as error:
        return None, str(error)
    except (ValueError, TypeError):  # InvalidOptions is a ValueError
        logger.exception("the webhook of job %s cannot be read", job_id)
        return None, UNREADABLE
    return hook, None


@transaction(row="{turn.job_id}")
def record(
    connection: Connection,
    turn: DeliveryLease,
    answers: Sequence[DeliveryResult],
    retries_s: Sequence[float],
    lease_s: float | None,
) -> bool:
    """Store the results of the attempts of a lease.

    ``lease_s`` extends the lease, None returns it. ``retries_s`` are the seconds before each
    retry. Returns False and stores nothing if the lease was lost.
    """
    job_id = turn.job_id
    state = lock_job(connection, job_id).state
    at = now_of(connection)
    held = select(webhook.c.token).where(webhook.c.job_id == job_id)
    if connection.scalar(held) != turn.token:
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
    """Return the new values of a delivery after an attempt."""
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
    """Fail the waiting deliveries of a job, and write no more."""
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
