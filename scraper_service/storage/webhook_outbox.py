"""The outbox: events of jobs on their way to who asked for them.

They are written in the transaction of what happened. One process at a time has the
lease on the events of a job, so that their first attempts keep their order. Functions
take a connection inside a transaction of :meth:`Database.write_locking`, unless they only
read; those that write lock the job's row first.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve
from sqlalchemy import bindparam, func, insert, or_, select, update

from scraper_service.errors import HeadersForgotten, SecretsUnreadable
from scraper_service.options.job_arguments import webhook_from_json, webhook_to_json
from scraper_service.options.origins import origin, plain_address
from scraper_service.storage import job_secrets
from scraper_service.storage.frontier.transactions import (
    dialect_insert,
    lock_job,
    now_of,
    written,
)
from scraper_service.storage.job_records import (
    ACTIVE,
    DeliveryState,
    Due,
    Event,
    JobState,
    Turn,
    event_error,
)
from scraper_service.storage.schema import (
    delivery,
    frontier,
    job,
    operation,
    page,
    secret,
    webhook,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.options.jobs import Webhook
    from scraper_service.storage.job_records import Answer

HeadersT: TypeAlias = tuple[tuple[str, str], ...]

FIRST_ROWS = 50  # first attempts in one turn
RETRY_ROWS = 10  # further ones
MAX_LOG = 50  # attempts that are remembered of one delivery
GONE = 410  # the answer of a receiver that wants no more events

_WAKE = (
    update(webhook)
    .where(
        webhook.c.job_id == bindparam("hooked"),
        or_(webhook.c.due_at.is_(None), webhook.c.due_at > bindparam("now")),
    )
    .values(due_at=bindparam("now"))
)
_SETTLE = (
    update(delivery)
    .where(delivery.c.job_id == bindparam("hooked"), delivery.c.seq == bindparam("nth"))
    .values(
        {
            name: bindparam(name)
            for name in ("state", "due_at", "attempts", "failures", "log")
        }
    )
)


def attach(connection: Connection, job_id: str, hook: Webhook) -> None:
    """Send the events of a job to ``hook`` from now on, those that wait too."""
    config = webhook_to_json(evolve(hook, headers=_emptied(hook.headers)))
    values = {"receiver": _receiver(hook.url), "config": json.dumps(config)}
    job_secrets.store(connection, job_id, job_secrets.WEBHOOK, hook.headers or None)
    connection.execute(
        dialect_insert(connection, webhook)
        .values(job_id=job_id, **values)
        .on_conflict_do_update(index_elements=("job_id",), set_=values)
    )
    connection.execute(
        update(job).where(job.c.id == job_id).values(hook_events=",".join(hook.events))
    )


def _emptied(headers: HeadersT) -> HeadersT:
    return tuple((name, "") for name, _ in headers)


def lacks_headers(connection: Connection, job_id: str) -> bool:
    """Return True if a job's webhook had headers, and their values were deleted."""
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
    """Return whom an address belongs to, as HOST:PORT."""
    _, host, port = origin(plain_address(url))
    return f"{host}:{port}"


def tell(
    connection: Connection,
    job_id: str,
    asked: str | None,
    told: int,
    news: Sequence[tuple[str, int | None]],
    at: float,
) -> int:
    """Write what happened, as (kind, row of the address), into the outbox.

    ``asked`` and ``told`` are the job's ``hook_events`` and ``deliveries``, whose new
    value is returned; storing it is left to the caller.
    """
    kinds = set(asked.split(",")) if asked else set()
    rows = [
        {
            "job_id": job_id,
            "seq": told + number,
            "kind": kind,
            "row_id": row_id,
            "at": at,
            "state": DeliveryState.PENDING,
        }
        for number, (kind, row_id) in enumerate(
            (each for each in news if each[0] in kinds), 1
        )
    ]
    if rows:
        connection.execute(insert(delivery), rows)
        connection.execute(_WAKE, {"hooked": job_id, "now": at})
    return told + len(rows)


def tell_one(connection: Connection, job_id: str, kind: str, at: float) -> None:
    """Write one event of a job that is locked, and count it."""
    columns = (job.c.hook_events, job.c.deliveries)
    asked, told = connection.execute(select(*columns).where(job.c.id == job_id)).one()
    now_told = tell(connection, job_id, asked, told, [(kind, None)], at)
    if now_told != told:
        connection.execute(
            update(job).where(job.c.id == job_id).values(deliveries=now_told)
        )


def due_jobs(
    connection: Connection, busy: Sequence[str], limit: int
) -> list[tuple[str, str]]:
    """Return jobs with something to send that nobody sends, with their receivers.

    Those that wait longest come first; not those of receivers that are ``busy``.
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
    return [(row[0], row[1]) for row in connection.execute(query)]


def take(connection: Connection, job_id: str, lease_s: float) -> Turn | None:
    """Lease the events of a job that are due; None if another process was faster."""
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
        delivery.c.state == written(DeliveryState.PENDING),
    )
    # By the time, too: the primary key has the order of the numbers alone, and those
    # that were delivered before.
    first = waiting.where(delivery.c.due_at <= written(0)).order_by(
        delivery.c.due_at, delivery.c.seq
    )
    again = waiting.where(delivery.c.due_at > 0, delivery.c.due_at <= at)
    found = [
        *connection.execute(first.limit(written(FIRST_ROWS))),
        *connection.execute(
            again.order_by(delivery.c.due_at).limit(written(RETRY_ROWS))
        ),
    ]
    hook, trouble = webhook_from_json(json.loads(row.config)), None
    try:
        headers = job_secrets.read(connection, job_id, job_secrets.WEBHOOK) or []
        hook = evolve(hook, headers=tuple((name, value) for name, value in headers))
    except SecretsUnreadable as error:
        trouble = str(error)
    return Turn(
        job_id=job_id,
        job_kind=row.kind,
        team_id=row.team_id,
        receiver=row.receiver,
        token=token,
        hook=hook,
        trouble=trouble,
        due=tuple(Due(each.seq, each.kind, each.attempts + 1) for each in found),
    )


def record(
    connection: Connection,
    job_id: str,
    token: int,
    answers: Sequence[Answer],
    retries_s: Sequence[float],
    lease_s: float | None,
) -> bool:
    """Store what came of attempts; keep the lease for ``lease_s``, None gives it back.

    ``retries_s`` are the seconds before each further attempt. Returns False, and stores
    nothing, when the lease was lost.
    """
    state = lock_job(connection, job_id).state
    at = now_of(connection)
    held = select(webhook.c.token).where(webhook.c.job_id == job_id)
    if connection.scalar(held) != token:
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
    answers: Sequence[Answer],
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
        | _settled(row, by_seq[row.seq], retries_s, at)
        for row in rows
    ]
    if changes:
        connection.execute(_SETTLE, changes)


def _settled(
    row: Row[Any], answer: Answer, retries_s: Sequence[float], at: float
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
    }


def _give_up(connection: Connection, job_id: str) -> None:
    """Send a receiver that is gone nothing more of a job."""
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
    # What is due at once goes behind what other jobs have waited with.
    return None if due_at is None else due_at or at


def read_event(connection: Connection, job_id: str, seq: int) -> Event | None:
    """Return an event as it is sent, with its page; None if the job has expired."""
    body, columns = page.c.body.label("body"), delivery.c
    row = connection.execute(
        select(
            columns.kind,
            job.c.kind.label("job_kind"),
            job.c.error.label("job_error"),
            job.c.pages,
            operation.c.result,
            frontier.c.error.label("page_error"),
            body,
        )
        .join(job, job.c.id == columns.job_id)
        .outerjoin(frontier, frontier.c.id == columns.row_id)
        .outerjoin(page, page.c.frontier_id == columns.row_id)
        .outerjoin(operation, operation.c.job_id == columns.job_id)
        .where(columns.job_id == job_id, columns.seq == seq)
    ).one_or_none()
    if row is None:
        return None
    result = row.result if row.kind == JobState.COMPLETED else None
    return Event(
        job_id=job_id,
        job_kind=row.job_kind,
        seq=seq,
        kind=row.kind,
        page=None if row.body is None else zlib.decompress(row.body),
        error=event_error(
            row.kind, row.body is not None, row.page_error, row.job_error
        ),
        result=None if result is None else zlib.decompress(result),
        pages=row.pages,
    )


def replay(
    connection: Connection, job_id: str, seq: int | None
) -> int | HeadersForgotten:
    """Send one event of a job again, or all that were given up; return how many.

    May return :exc:`HeadersForgotten`: others share the transaction.
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
        connection.execute(_WAKE, {"hooked": job_id, "now": now_of(connection)})
    return changed
