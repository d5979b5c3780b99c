"""The start of jobs: limits of the team, credits for the pages, the first rows.

Functions run inside a transaction and return errors. Raising would end the transaction
for other functions, too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields_dict, frozen
from sqlalchemy import func, select, update

from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    InvalidOptions,
    Issue,
    JobEnded,
    JobNotFound,
    OutOfCredits,
    QueueFull,
    ServiceError,
    plural,
)
from scraper_service.options.jobs import (
    KINDS,
    MONITOR_CHECK,
    AgentOptions,
    BatchOptions,
    CrawlOptions,
    Webhook,
    unstructure,
)
from scraper_service.options.limits import DAY_S
from scraper_service.options.parsing import short
from scraper_service.storage import job_secrets, webhooks
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.accounts.audit import Actor
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.job_warnings import JobWarning, add_warning
from scraper_service.storage.frontier.links import Seed, insert_links, seed_of
from scraper_service.storage.job_records import ACTIVE, Job, JobState, Link, RowState
from scraper_service.storage.jobs import model_jobs
from scraper_service.storage.jobs.earlier_pages import find_base, find_source
from scraper_service.storage.jobs.job_rows import get_job, insert_job
from scraper_service.storage.schema import idempotency, job
from scraper_service.storage.transactions import (
    RETENTION_S,
    dialect_insert,
    now_of,
    read_number,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.options.jobs import ModelJobOptionsT


FETCHES_NOTHING = (
    "appendToId must be a batch that fetches its pages, got one that reprocesses the"
    " pages of another job"
)
PROLONGS = "retentionDays must be left out: the batch of appendToId has zeroDataRetention, got {}"


@frozen(kw_only=True)
class Terms:
    """Who starts a job, and under which limits."""

    team_id: str
    key_id: str | None = None
    #: Credits for the cheapest page of the job, None for an unlimited team.
    page_price: int | None = None
    #: The number of pages that the team has to be able to pay.
    least_pages: int = 1
    #: The largest number of active jobs of the team, None for any number.
    most_jobs: int | None = None
    #: Webhook for jobs without one of their own. ``{job_id}`` stands for the job's id.
    webhook_url: str | None = None
    #: Seconds that the results are stored after their last change.
    retention_s: float = RETENTION_S
    #: The bytes that the team may store, None for any number.
    disk_bytes: int | None = None
    #: The caller, for the audit log.
    actor: Actor | None = None


@transaction(first="{terms.team_id}")
def create_job(
    connection: Connection,
    terms: Terms,
    options: CrawlOptions | BatchOptions | ModelJobOptionsT,
    version: int,
    idempotency_key: str | None = None,
    pages: int = 0,
) -> Job | ServiceError:
    """Store a job of any kind, its first URLs, and the credits reserved for its pages.

    A model job may read ``pages`` pages; for an agent they are credits. Lowers the limit of
    all but a batch to the number of pages that the team can pay. May return
    :exc:`QueueFull`, :exc:`DiskQuotaExceeded`, :exc:`OutOfCredits` and :exc:`IdempotencyKeyUsed`. Locks the team.
    """
    columns: dict[str, Any] = {}
    if isinstance(options, CrawlOptions | BatchOptions):
        seed = seed_of(options)
    else:
        seed = Seed(options.kind, options.target, pages, ())
    is_open = seed.page_limit is not None  # the limit may be lowered
    wanted = len(seed.links) if seed.page_limit is None else seed.page_limit
    if isinstance(options, AgentOptions):
        ledger.lock_team(connection, terms.team_id)
        start = model_jobs.next_start(connection, terms.team_id, options.kind)
        columns["created_at"] = start
    if isinstance(options, CrawlOptions) and options.since is not None:
        base = find_base(connection, terms.team_id, options)
        if isinstance(base, ServiceError):
            return base
        columns["base_job_id"] = base
    return admit_job(
        connection,
        terms,
        options,
        version,
        idempotency_key,
        seed,
        wanted,
        is_open=is_open,
        **columns,
    )


@transaction(first="{terms.team_id}")
def create_job_of_sources(
    connection: Connection,
    source_id: str,
    terms: Terms,
    options: CrawlOptions | BatchOptions,
    version: int,
    numbers: Sequence[int] | None = None,
    idempotency_key: str | None = None,
) -> Job | ServiceError:
    """Store a job that makes other formats of the stored responses of ``source_id``.

    ``numbers`` are those of the pages, None for all pages. Copies the rows of the first
    pages; :func:`~scraper_service.storage.frontier.outcomes.copy_slice` copies the others. May
    return the errors of :func:`find_source` and :func:`create_job`. Locks the team.
    """
    source = find_source(connection, source_id, terms.team_id)
    if isinstance(source, ServiceError):
        return source
    count = source.pages if numbers is None else len(numbers)
    if isinstance(options, CrawlOptions):
        options = evolve(options, limit=max(1, count))
        seed = Seed("crawl", options.url, options.limit, ())
    else:
        seed = Seed("batch", options.urls[0], None, ())
    made = admit_job(
        connection,
        terms,
        options,
        version,
        idempotency_key,
        seed,
        count,
        source_job_id=source_id,
    )
    if isinstance(made, ServiceError):
        return made
    outcomes.begin_copy(connection, made.id, count, numbers)
    return get_job(connection, made.id, terms.team_id) or made


def admit_job(
    connection: Connection,
    terms: Terms,
    options: CrawlOptions | BatchOptions | ModelJobOptionsT,
    version: int,
    idempotency_key: str | None,
    seed: Seed,
    wanted: int,
    *,
    is_open: bool = False,
    **columns: Any,
) -> Job | ServiceError:
    """Store a job with the URLs of ``seed``, and credits for ``wanted`` pages.

    If ``is_open``, fewer pages are enough. ``columns`` are further ones of the job. See
    :func:`create_job` for errors.
    """
    at = now_of(connection)
    ledger.lock_team(connection, terms.team_id)
    if (most := terms.most_jobs) and _active(connection, terms.team_id) >= most:
        return QueueFull(f"This team has {plural(most, 'job')} under way already.")
    if full := disk_use.refusal(connection, terms.team_id, terms.disk_bytes):
        return full
    bill = _bill(connection, terms, wanted, is_open=is_open)
    if isinstance(bill, ServiceError):
        return bill
    if idempotency_key and not use_key(connection, terms.team_id, idempotency_key, at):
        ledger.give_back(connection, terms.team_id, bill.get("reserved", 0))
        return IdempotencyKeyUsed("Idempotency key already used")
    if (pages := bill.pop("page_limit", None)) is not None:
        seed = evolve(seed, page_limit=pages)
        is_agent = isinstance(options, AgentOptions)  # whose pages are credits
        code = JobWarning.FEW_CREDITS if is_agent else JobWarning.LIMIT_LOWERED
        bill["warning"] = add_warning(None, code, wanted=wanted, pages=pages)
    if isinstance(options, BatchOptions):
        # The frontier has all URLs. Without them each read of the job is faster.
        options = evolve(options, urls=options.urls[:1])
    kept: Any = options
    has_hook = "webhook" in fields_dict(type(options))
    if has_hook:  # it may have secret headers, which only its sender needs
        kept = evolve(kept, webhook=None)
    text = json.dumps(unstructure(kept))
    team_id = terms.team_id
    found = insert_job(
        connection,
        team_id,
        seed,
        text,
        version,
        key_id=terms.key_id,
        retention_s=terms.retention_s,
        **bill,
        **columns,
    )
    hook = options.webhook
    if hook is None and has_hook and terms.webhook_url:
        hook = Webhook(url=terms.webhook_url.replace("{job_id}", found.id))
    if hook is not None:
        webhooks.attach(connection, found.id, hook)
        webhooks.tell_locked(connection, found.id, "started", at)
    target = None if options.scrape.zero_data_retention else seed.url
    endpoint = KINDS[seed.kind].endpoint
    call = ledger.Call(found.id, team_id, terms.key_id, endpoint, version, target, at)
    ledger.note_activity(connection, call, at)
    return found


def _active(connection: Connection, team_id: str) -> int:
    query = select(func.count()).where(
        job.c.team_id == team_id,
        job.c.parent_id.is_(None),
        job.c.kind != MONITOR_CHECK,  # which come by themselves
    )
    return connection.scalar(query.where(job.c.state.in_(ACTIVE))) or 0


def _bill(
    connection: Connection, terms: Terms, wanted: int, *, is_open: bool
) -> dict[str, Any] | OutOfCredits:
    """Reserve credits for ``wanted`` pages. Return columns for the job row.

    If ``is_open``, fewer pages are enough, and the limit is lowered.
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
        bill["page_limit"] = pages
    return bill


def use_key(connection: Connection, team_id: str, key: str, at: float) -> bool:
    """Store an idempotency key. Return False if the team has used it in the last day."""
    # One statement, so that one of two equal keys wins.
    used = connection.execute(
        dialect_insert(connection, idempotency)
        .values(team_id=team_id, key=key, expires_at=at + DAY_S)
        .on_conflict_do_update(
            index_elements=("team_id", "key"),
            set_={"expires_at": at + DAY_S},
            where=idempotency.c.expires_at <= at,
        )
        .returning(idempotency.c.key)
    )
    return used.first() is not None


def is_key_used(connection: Connection, team_id: str, key: str) -> bool:
    """Return True if an idempotency key of a team was used in the last day."""
    until = connection.scalar(
        select(idempotency.c.expires_at).where(
            idempotency.c.team_id == team_id, idempotency.c.key == key
        )
    )
    return until is not None and until > now_of(connection)


@transaction(first="{terms.team_id}", apart=True)
def add_entries(
    connection: Connection,
    job_id: str,
    terms: Terms,
    batch: BatchOptions,
    idempotency_key: str | None = None,
) -> Job | ServiceError:
    """Add entries with their own options to a batch. A completed batch becomes active.

    A webhook in the options replaces the webhook of the batch. May return
    :exc:`JobNotFound`, :exc:`JobEnded`, :exc:`HeadersForgotten`,
    :exc:`DiskQuotaExceeded`, :exc:`OutOfCredits` and :exc:`IdempotencyKeyUsed`.
    """
    team_id, urls = terms.team_id, batch.urls
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
        return JobNotFound("Job not found")  # parts of it may be deleted already
    if found.state not in {*ACTIVE, JobState.COMPLETED}:
        return JobEnded("batch", found.state)
    if found.source_job_id is not None:
        return InvalidOptions([Issue("custom", ("appendToId",), FETCHES_NOTHING)])
    days = batch.retention_days
    if days is not None and json.loads(found.options)["scrape"]["zero_data_retention"]:
        text = PROLONGS.format(short(days))
        return InvalidOptions([Issue("custom", ("retentionDays",), text)])
    if batch.webhook is None and webhooks.lacks_headers(connection, job_id):
        return HeadersForgotten("send the webhook again, with these entries.")
    if full := disk_use.refusal(connection, team_id, terms.disk_bytes):
        return full
    bill = _further_bill(connection, terms, found, len(urls))
    if isinstance(bill, ServiceError):
        return bill
    if idempotency_key and not use_key(connection, team_id, idempotency_key, at):
        reserved = bill.get("reserved", found.reserved) - found.reserved
        ledger.give_back(connection, team_id, reserved)
        return IdempotencyKeyUsed("Idempotency key already used")
    first = found.open + found.done + found.failed
    scrape = unstructure(batch)["scrape"]
    if entrusted := job_secrets.hide(scrape):
        scrape[job_secrets.KEY] = part = f"entries {first}"
        job_secrets.store(connection, job_id, part, entrusted)
    options = json.dumps(scrape)
    links = [Link(first + n, url, 0, options) for n, url in enumerate(urls)]
    insert_links(connection, read_number(connection, job_id), links, RowState.PENDING)
    is_queued = found.state == JobState.QUEUED
    is_chosen = batch.retention_days is not None
    retention_s = terms.retention_s if is_chosen else found.retention_s
    secrets = set((found.secrets or "").split(",")) - {""} | entrusted.keys()
    connection.execute(
        update(job)
        .where(job.c.id == job_id)
        .values(
            open=found.open + len(urls),
            state=JobState.QUEUED if is_queued else JobState.SCRAPING,
            secrets=",".join(sorted(secrets)) or None,
            completed_at=None,
            retention_s=retention_s,
            expires_at=at + retention_s,
            **bill,
        )
    )
    if batch.webhook is not None:
        webhooks.attach(connection, job_id, batch.webhook)
    return get_job(connection, job_id, team_id) or JobNotFound("Job not found")


def _further_bill(
    connection: Connection, terms: Terms, found: Row[Any], count: int
) -> dict[str, Any] | OutOfCredits:
    if terms.page_price is None:
        return {}
    price = max(terms.page_price, found.page_price or 0)
    missing = max(0, price * (found.open + count) - found.reserved)
    left = ledger.take(connection, terms.team_id, missing)
    if left is not None:
        return OutOfCredits(missing, left)
    return {"page_price": price, "reserved": found.reserved + missing}
