"""Jobs as their callers see them: start, read, cancel, expire.

Functions take a connection inside a transaction, as those of the frontier do.
"""

from __future__ import annotations

import json
import uuid
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields
from sqlalchemy import delete, insert, or_, select, update

from scraper_service.jobs import deliveries
from scraper_service.jobs.links import insert_links
from scraper_service.jobs.model import (
    ACTIVE,
    Job,
    JobState,
    Kind,
    Link,
    RowState,
)
from scraper_service.jobs.rows import RETENTION_S, dialect_insert, note, now_of
from scraper_service.jobs.seeds import Seed, seed_of
from scraper_service.jobs.tables import (
    delivery,
    event,
    frontier,
    idempotency,
    job,
    job_host,
    job_robots,
    ledger,
    page,
    page_text,
    run,
    scrape,
    source,
    webhook,
)
from scraper_service.jobs.tables import team as team_table
from scraper_service.options.job_arguments import options_to_json
from scraper_service.options.jobs import BatchOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from scraper_service.options.jobs import CrawlOptions, Webhook

CHUNK_BYTES = 10 * 2**20  # of pages in one answer (interface document, 11.6)
READ_ROWS = 250  # of pages in one statement
EXPIRE_ROWS = 1000  # deleted in one transaction

_COLUMNS = [job.c[fact.name] for fact in fields(Job)]


def create_job(
    connection: Connection,
    team_id: str,
    asked: CrawlOptions | BatchOptions,
    version: int,
    idempotency_key: str | None = None,
) -> Job | None:
    """Store a job and its first addresses; None if the idempotency key was used."""
    at = now_of(connection)
    if idempotency_key and not _use_key(connection, team_id, idempotency_key, at):
        return None
    seed = seed_of(asked)
    if isinstance(asked, BatchOptions):
        # Its addresses are in the frontier; here they would weigh on every read.
        asked = evolve(asked, urls=asked.urls[:1])
    # Its headers may be secret, and nobody but the sender needs them.
    options = json.dumps(options_to_json(evolve(asked, webhook=None)))
    return insert_job(connection, team_id, seed, options, version, asked.webhook)


def insert_job(
    connection: Connection,
    team_id: str,
    seed: Seed,
    options: str,
    version: int,
    hook: Webhook | None = None,
) -> Job | None:
    """Store a job that begins with the addresses of ``seed``."""
    at = now_of(connection)
    job_id = str(uuid.uuid4())
    links = [link for link in seed.links if link.kind is Kind.PAGE]
    sitemaps = [link for link in seed.links if link.kind is Kind.SITEMAP]
    room = len(links) if seed.page_limit is None else seed.page_limit
    connection.execute(
        insert(job).values(
            id=job_id,
            team_id=team_id,
            kind=seed.kind,
            version=version,
            state=JobState.QUEUED,
            url=seed.url,
            options=options,
            page_limit=seed.page_limit,
            open=min(room, len(links)),
            done=0,
            failed=0,
            pages=0,
            held=max(0, len(links) - room),
            sitemaps=len(sitemaps),
            sitemap_files=len(sitemaps),
            credits=0,
            created_at=at,
            expires_at=at + RETENTION_S,
        )
    )
    insert_links(connection, job_id, links[:room], RowState.PENDING)
    insert_links(connection, job_id, links[room:], RowState.HELD)
    insert_links(connection, job_id, sitemaps, RowState.PENDING)
    note(connection, job_id, "started", at)
    if hook is not None:
        deliveries.attach(connection, job_id, hook)
        deliveries.tell_one(connection, job_id, "started", at)
    return get_job(connection, job_id, team_id)


def make_team(connection: Connection, team_id: str) -> None:
    """Make sure that a team has a row."""
    known = select(team_table.c.id).where(team_table.c.id == team_id)
    if connection.scalar(known) is None:
        connection.execute(
            insert(team_table).values(
                id=team_id, name=team_id, created_at=datetime.now(UTC)
            )
        )


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
    team_id: str,
    urls: Sequence[str],
    options: str | None = None,
    idempotency_key: str | None = None,
    hook: Webhook | None = None,
) -> Job | bool:
    """Add entries to a batch, which goes on if it was completed.

    ``options`` are those of their pages, as JSON; ``hook`` takes the place of the
    batch's own. Returns False when the team has no such batch, True when the
    idempotency key was used; a cancelled or failed batch is returned as it is.
    """
    found = connection.execute(
        select(job).where(*_of_team(job_id, team_id)).with_for_update()
    ).one_or_none()
    if found is None or found.kind != "batch":
        return False
    if found.state in {*ACTIVE, JobState.COMPLETED}:
        at = now_of(connection)
        if idempotency_key and not _use_key(connection, team_id, idempotency_key, at):
            return True
        first = found.open + found.done + found.failed
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
            )
        )
        if hook is not None:
            deliveries.attach(connection, job_id, hook)
    return get_job(connection, job_id, team_id) or False


def _of_team(job_id: str, team_id: str) -> tuple[Any, ...]:
    return (job.c.id == job_id, job.c.team_id == team_id)


def get_job(connection: Connection, job_id: str, team_id: str | None) -> Job | None:
    """Return a job of a team that has not expired; of any team if that is None.

    One that goes on does not expire, however long nobody has worked on it.
    """
    where = (job.c.id == job_id,) if team_id is None else _of_team(job_id, team_id)
    row = connection.execute(select(*_COLUMNS).where(*where)).one_or_none()
    if row is None:
        return None
    found = _job(row)
    if not found.is_active and found.expires_at <= now_of(connection):
        return None
    return found


def _job(row: Row[Any]) -> Job:
    values = dict(row._mapping)
    return Job(**{**values, "state": JobState(values["state"])})


def active_jobs(connection: Connection, team_id: str | None = None) -> list[Job]:
    """Return the jobs that go on, of a team or of all, the oldest first."""
    query = select(*_COLUMNS).where(job.c.state.in_(ACTIVE))
    if team_id is not None:
        query = query.where(job.c.team_id == team_id)
    return [_job(row) for row in connection.execute(query.order_by(job.c.created_at))]


def all_jobs(connection: Connection) -> list[Job]:
    """Return the jobs of all teams that have not expired, the newest first."""
    lasting = or_(job.c.state.in_(ACTIVE), job.c.expires_at > now_of(connection))
    query = select(*_COLUMNS).where(lasting).order_by(job.c.created_at.desc())
    return [_job(row) for row in connection.execute(query)]


def start_job(connection: Connection, job_id: str) -> None:
    """Mark a queued job as being worked on."""
    connection.execute(
        update(job)
        .where(job.c.id == job_id, job.c.state == JobState.QUEUED)
        .values(state=JobState.SCRAPING)
    )


def end_job(
    connection: Connection, job_id: str, state: JobState, error: str | None = None
) -> bool:
    """Cancel or fail a job if it goes on; tell whether this call ended it."""
    at = now_of(connection)
    changed = connection.execute(
        update(job)
        .where(job.c.id == job_id, job.c.state.in_(ACTIVE))
        .values(state=state, error=error, completed_at=at, expires_at=at + RETENTION_S)
    )
    if changed.rowcount:
        note(connection, job_id, state.value, at)
        deliveries.tell_one(connection, job_id, state.value, at)
    return changed.rowcount == 1


def read_pages(
    connection: Connection,
    job_id: str,
    skip: int,
    limit: int | None = None,
    max_bytes: int = CHUNK_BYTES,
) -> list[bytes]:
    """Return the JSON of pages from number ``skip``: at most ``limit`` and a chunk.

    At least one, if there is one, however large. No more than them is read: pages may
    be large.
    """
    chunk: list[bytes] = []
    size = 0
    of_job = page.c.job_id == job_id
    while limit is None or len(chunk) < limit:
        wanted = READ_ROWS if limit is None else min(READ_ROWS, limit - len(chunk))
        first = skip + len(chunk)
        sizes = connection.scalars(
            select(page.c.size)
            .where(of_job, page.c.seq >= first, page.c.seq < first + wanted)
            .order_by(page.c.seq)
        ).all()
        fitting = 0
        for each in sizes:
            size += each
            if (chunk or fitting) and size > max_bytes:
                break
            fitting += 1
        bodies = connection.scalars(
            select(page.c.body)
            .where(of_job, page.c.seq >= first, page.c.seq < first + fitting)
            .order_by(page.c.seq)
        )
        chunk += [zlib.decompress(body) for body in bodies]
        if fitting < wanted:
            break
    return chunk


def store_scrape(
    connection: Connection, scrape_id: str, team_id: str, body: bytes
) -> None:
    """Keep the page of a single scrape for a day."""
    connection.execute(
        insert(scrape).values(
            id=scrape_id,
            team_id=team_id,
            body=zlib.compress(body, 1),
            expires_at=now_of(connection) + RETENTION_S,
        )
    )


def charge(
    connection: Connection, call_id: str, team_id: str, credits_used: int
) -> None:
    """Charge a team for a call that has no job."""
    connection.execute(
        insert(ledger).values(
            page_id=call_id,
            team_id=team_id,
            credits=credits_used,
            at=now_of(connection),
        )
    )


def read_scrape(connection: Connection, scrape_id: str, team_id: str) -> bytes | None:
    """Return the JSON of a page by its id, of a single scrape or of a job."""
    now = now_of(connection)
    body = connection.scalar(
        select(scrape.c.body).where(
            scrape.c.id == scrape_id,
            scrape.c.team_id == team_id,
            scrape.c.expires_at > now,
        )
    ) or connection.scalar(
        select(page.c.body)
        .join(job, job.c.id == page.c.job_id)
        .where(page.c.id == scrape_id, job.c.team_id == team_id, job.c.expires_at > now)
    )
    return None if body is None else zlib.decompress(body)


def expire(connection: Connection) -> int:
    """Delete a slice of what has expired; return how many rows, 0 at the end."""
    now = now_of(connection)
    removed = 0
    for table, key in (
        (scrape, scrape.c.id),
        (source, source.c.key),
        (idempotency, idempotency.c.key),
    ):
        old = select(key).where(table.c.expires_at <= now).limit(EXPIRE_ROWS)
        removed += connection.execute(
            delete(table).where(key.in_(old), table.c.expires_at <= now)
        ).rowcount
    job_id = connection.scalar(
        select(job.c.id)
        .where(job.c.expires_at <= now, job.c.state.not_in(ACTIVE))
        .limit(1)
    )
    if job_id is None:
        return removed
    for table, key in (
        (page, page.c.id),
        (event, event.c.id),
        (frontier, frontier.c.id),
        (job_host, job_host.c.host),
        (job_robots, job_robots.c.url),
        (run, run.c.id),
        (page_text, page_text.c.id),
    ):
        old = select(key).where(table.c.job_id == job_id).limit(EXPIRE_ROWS)
        found = connection.execute(
            delete(table).where(key.in_(old), table.c.job_id == job_id)
        ).rowcount
        removed += found
        if found == EXPIRE_ROWS:
            return removed
    old = select(delivery.c.seq).where(delivery.c.job_id == job_id).limit(EXPIRE_ROWS)
    found = connection.execute(
        delete(delivery).where(delivery.c.job_id == job_id, delivery.c.seq.in_(old))
    ).rowcount
    removed += found
    if found == EXPIRE_ROWS:
        return removed
    connection.execute(delete(webhook).where(webhook.c.job_id == job_id))
    connection.execute(delete(job).where(job.c.id == job_id))
    return removed + 1
