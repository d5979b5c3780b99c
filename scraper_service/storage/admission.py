"""How jobs begin: whether the team may, the credits for their pages, the first rows.

Functions take a connection inside a transaction. What speaks against a job is returned,
not raised: others share the transaction, and an error would end it for them.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from sqlalchemy import func, select, update

from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    JobEnded,
    JobNotFound,
    OutOfCredits,
    QueueFull,
    ServiceError,
)
from scraper_service.options.job_arguments import options_to_json
from scraper_service.options.jobs import BatchOptions, Webhook
from scraper_service.options.operations import ExtractOptions, operation_to_json
from scraper_service.storage import job_secrets, operations, webhook_outbox
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.frontier.links import insert_links
from scraper_service.storage.frontier.seeds import seed_of
from scraper_service.storage.frontier.transactions import (
    RETENTION_S,
    dialect_insert,
    now_of,
)
from scraper_service.storage.job_records import ACTIVE, Job, JobState, Link, RowState
from scraper_service.storage.jobs import get_job, insert_job
from scraper_service.storage.schema import idempotency, job

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.options.operations import OperationOptionsT

ENDPOINTS = {"crawl": "crawl", "batch": "batch_scrape"}


@frozen(kw_only=True)
class Terms:
    """Who starts a job, and on what terms.

    ``page_price`` is what its cheapest page costs, in credits, None where the team is
    unlimited; it has to be able to pay ``least_pages``. At most ``most_jobs`` of it go
    on at a time, None for any number. Events of a job without a webhook are sent to
    ``webhook_url``, where ``{job_id}`` stands for its id.
    """

    team_id: str
    key_id: str | None = None
    page_price: int | None = None
    least_pages: int = 1
    most_jobs: int | None = None
    webhook_url: str | None = None


def create_job(
    connection: Connection,
    terms: Terms,
    asked: CrawlOptions | BatchOptions,
    version: int,
    idempotency_key: str | None = None,
) -> Job | ServiceError:
    """Store a job, its first addresses, and the credits reserved for its pages.

    A crawl whose team can pay fewer pages than its limit gets that as its limit. May
    return :exc:`QueueFull`, :exc:`OutOfCredits` and :exc:`IdempotencyKeyUsed`. Locks
    the team.
    """
    at = now_of(connection)
    ledger.lock_team(connection, terms.team_id)
    if (most := terms.most_jobs) and _active(connection, terms.team_id) >= most:
        return QueueFull(f"{most} jobs of this team are under way already.")
    seed = seed_of(asked)
    is_open = seed.page_limit is not None  # whether it may have fewer pages
    wanted = len(seed.links) if seed.page_limit is None else seed.page_limit
    bill = _bill(connection, terms, wanted, is_open=is_open)
    if isinstance(bill, ServiceError):
        return bill
    if idempotency_key and not _use_key(connection, terms.team_id, idempotency_key, at):
        ledger.give_back(connection, terms.team_id, bill.get("reserved", 0))
        return IdempotencyKeyUsed("Idempotency key already used")
    seed = evolve(seed, page_limit=bill.pop("page_limit", seed.page_limit))
    if isinstance(asked, BatchOptions):
        # Its addresses are in the frontier; here they would weigh on every read.
        asked = evolve(asked, urls=asked.urls[:1])
    # Its headers may be secret, and nobody but the sender needs them.
    options = json.dumps(options_to_json(evolve(asked, webhook=None)))
    team_id = terms.team_id
    found = insert_job(
        connection, team_id, seed, options, version, key_id=terms.key_id, **bill
    )
    if hook := asked.webhook or _common_hook(terms.webhook_url, found.id):
        webhook_outbox.attach(connection, found.id, hook)
        webhook_outbox.tell_one(connection, found.id, "started", at)
    target = None if asked.scrape.zero_data_retention else seed.url
    endpoint = ENDPOINTS[seed.kind]
    call = ledger.Call(found.id, team_id, terms.key_id, endpoint, version, target, at)
    ledger.note_activity(connection, call)
    return found


def _common_hook(url: str | None, job_id: str) -> Webhook | None:
    return Webhook(url=url.replace("{job_id}", job_id)) if url else None


def create_operation(
    connection: Connection,
    terms: Terms,
    asked: OperationOptionsT,
    version: int,
    pages: int,
) -> str | ServiceError:
    """Store an operation that may read ``pages`` pages; return its id.

    The credits for as many as the team can pay are reserved, and no more are read. May
    return :exc:`QueueFull` and :exc:`OutOfCredits`. Locks the team.
    """
    at, team_id, job_id = now_of(connection), terms.team_id, str(uuid.uuid4())
    ledger.lock_team(connection, team_id)
    if (most := terms.most_jobs) and _active(connection, team_id) >= most:
        return QueueFull(f"{most} jobs of this team are under way already.")
    bill = _bill(connection, terms, pages, is_open=True)
    if isinstance(bill, ServiceError):
        return bill
    hook, kept = None, asked
    if isinstance(asked, ExtractOptions):  # the others have no events
        hook = asked.webhook or _common_hook(terms.webhook_url, job_id)
        kept = evolve(asked, webhook=None)
    options = json.dumps(operation_to_json(kept))
    bill = {"page_limit": pages, "key_id": terms.key_id, **bill}
    operations.insert_operation(
        connection, job_id, team_id, asked, options, version, **bill
    )
    if hook:
        webhook_outbox.attach(connection, job_id, hook)
        webhook_outbox.tell_one(connection, job_id, "started", at)
    call = ledger.Call(
        job_id, team_id, terms.key_id, asked.kind, version, asked.target, at
    )
    ledger.note_activity(connection, call)
    return job_id


def _active(connection: Connection, team_id: str) -> int:
    query = select(func.count()).where(
        job.c.team_id == team_id, job.c.parent_id.is_(None)
    )
    return connection.scalar(query.where(job.c.state.in_(ACTIVE))) or 0


def _bill(
    connection: Connection, terms: Terms, wanted: int, *, is_open: bool
) -> dict[str, Any] | OutOfCredits:
    """Reserve credits for ``wanted`` pages; return what the row of the job says of them.

    Of a job that ``is_open`` for as many as can be paid.
    """
    price = terms.page_price
    if price is None:
        return {}
    least = terms.least_pages if is_open else wanted
    pages, left = ledger.take_up_to(connection, terms.team_id, price, wanted, least)
    if pages < least:
        return OutOfCredits(price * least, left)
    bill: dict[str, Any] = {"page_price": price, "reserved": price * pages}
    if is_open and pages < wanted:
        text = f"The limit was lowered from {wanted} to {pages} pages: more cannot be"
        bill |= {"page_limit": pages, "warning": f"{text} paid with what remains."}
    return bill


def _use_key(connection: Connection, team_id: str, key: str, at: float) -> bool:
    # One statement: of equal keys sent at once, one wins.
    used = connection.execute(
        dialect_insert(connection, idempotency)
        .values(team_id=team_id, key=key, expires_at=at + RETENTION_S)
        .on_conflict_do_update(
            index_elements=("team_id", "key"),
            set_={"expires_at": at + RETENTION_S},
            where=idempotency.c.expires_at <= at,
        )
        .returning(idempotency.c.key)
    )
    return used.first() is not None


def is_key_used(connection: Connection, team_id: str, key: str) -> bool:
    """Tell whether an idempotency key of a team was used in the last day."""
    until = connection.scalar(
        select(idempotency.c.expires_at).where(
            idempotency.c.team_id == team_id, idempotency.c.key == key
        )
    )
    return until is not None and until > now_of(connection)


def add_entries(
    connection: Connection,
    job_id: str,
    terms: Terms,
    asked: BatchOptions,
    idempotency_key: str | None = None,
) -> Job | ServiceError:
    """Add entries to a batch, which goes on if it was completed.

    With options of their own; its webhook takes the place of the batch's. May return
    :exc:`JobNotFound`, :exc:`JobEnded`, :exc:`HeadersForgotten`, :exc:`OutOfCredits`
    and :exc:`IdempotencyKeyUsed`. In a transaction of its own
    (:meth:`Database.write_aside`): it locks the team, then the job.
    """
    team_id, urls = terms.team_id, asked.urls
    ledger.lock_team(connection, team_id)
    found = connection.execute(
        select(job)
        .where(job.c.id == job_id, job.c.team_id == team_id, job.c.parent_id.is_(None))
        .with_for_update()
    ).one_or_none()
    at = now_of(connection)
    if found is None or found.kind != "batch":
        return JobNotFound("Job not found")
    if found.state not in ACTIVE and found.expires_at <= at:
        return JobNotFound("Job not found")  # part of it may be deleted already
    if found.state not in {*ACTIVE, JobState.COMPLETED}:
        return JobEnded("batch", found.state)
    if asked.webhook is None and webhook_outbox.lacks_headers(connection, job_id):
        return HeadersForgotten("send the webhook again, with these entries.")
    bill = _further_bill(connection, terms, found, len(urls))
    if isinstance(bill, ServiceError):
        return bill
    if idempotency_key and not _use_key(connection, team_id, idempotency_key, at):
        reserved = bill.get("reserved", found.reserved) - found.reserved
        ledger.give_back(connection, team_id, reserved)
        return IdempotencyKeyUsed("Idempotency key already used")
    first = found.open + found.done + found.failed
    scrape = options_to_json(asked)["scrape"]
    if entrusted := job_secrets.hide(scrape):
        scrape[job_secrets.KEY] = part = f"entries {first}"
        job_secrets.store(connection, job_id, part, entrusted)
    options = json.dumps(scrape)
    links = [Link(first + n, url, 0, options) for n, url in enumerate(urls)]
    insert_links(connection, job_id, links, RowState.PENDING)
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            open=found.open + len(urls),
            state=JobState.SCRAPING,
            completed_at=None,
            expires_at=at + RETENTION_S,
            **bill,
        )
    )
    if asked.webhook is not None:
        webhook_outbox.attach(connection, job_id, asked.webhook)
    return get_job(connection, job_id, team_id) or JobNotFound("Job not found")


def _further_bill(
    connection: Connection, terms: Terms, found: Row[Any], count: int
) -> dict[str, Any] | OutOfCredits:
    """Reserve credits for ``count`` more pages of a job; return as :func:`_bill`."""
    if terms.page_price is None:
        return {}
    price = max(terms.page_price, found.page_price or 0)
    missing = max(0, price * (found.open + count) - found.reserved)
    left = ledger.take(connection, terms.team_id, missing)
    if left is not None:
        return OutOfCredits(missing, left)
    return {"page_price": price, "reserved": found.reserved + missing}
