"""The rows of jobs and their pages: insert, start, read. :class:`Jobs` has the order of calls."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields
from sqlalchemy import func, insert, select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.options.jobs import CRAWLED
from scraper_service.storage import job_secrets
from scraper_service.storage.frontier.job_warnings import warning_text
from scraper_service.storage.frontier.links import insert_links
from scraper_service.storage.job_records import (
    ACTIVE,
    Job,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import (
    JOB_NUMBERS,
    frontier,
    job,
    operation,
    page,
    scrape,
)
from scraper_service.storage.schema import team as team_table
from scraper_service.storage.transactions import (
    RETENTION_S,
    is_stored,
    note,
    now_of,
    number_of,
    transaction,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from scraper_service.storage.frontier.links import Seed

CHUNK_BYTES = 10 * 2**20  # of pages in one response
READ_ROWS = 250  # of pages in one statement
MAX_TARGET = 300  # characters of a URL, query or prompt in lists

COLUMNS = [job.c[fact.name] for fact in fields(Job)]
_STARTED_BY_CALLERS = (job.c.kind.in_(CRAWLED), job.c.parent_id.is_(None))


def insert_job(
    connection: Connection,
    team_id: str,
    seed: Seed,
    options: str,
    version: int,
    job_id: str | None = None,
    **bill: Any,
) -> Job:
    """Store a job with the first URLs of ``seed``.

    ``job_id`` is the id of the job, by default a new UUID. ``bill`` has further columns:
    the API key, the reserved credits, the parent of a step.
    """
    job_id = job_id or str(uuid.uuid4())
    links = [link for link in seed.links if link.kind is UrlKind.PAGE]
    sitemaps = [link for link in seed.links if link.kind is UrlKind.SITEMAP]
    most = len(links) if seed.page_limit is None else seed.page_limit
    number = queue_job(
        connection,
        job_id,
        team_id=team_id,
        kind=seed.kind,
        version=version,
        url=seed.url,
        options=options,
        page_limit=seed.page_limit,
        open=min(most, len(links)),
        held=max(0, len(links) - most),
        sitemaps=len(sitemaps),
        sitemap_files=len(sitemaps),
        **bill,
    )
    insert_links(connection, number, links[:most], RowState.PENDING)
    insert_links(connection, number, links[most:], RowState.HELD)
    insert_links(connection, number, sitemaps, RowState.PENDING)
    if seed.kind not in CRAWLED:
        connection.execute(insert(operation).values(job_id=job_id, memory="{}"))
    query = select(*COLUMNS).where(job.c.id == job_id)
    return job_of(connection.execute(query).one())


def queue_job(
    connection: Connection, job_id: str, *, options: str, **columns: Any
) -> int:
    """Store the row of a queued job, and return its number.

    Its counts are 0 unless ``columns`` has others.
    ``options`` is JSON. Its secrets are encrypted in a table of their own. A
    ``created_at`` in ``columns`` replaces the time of now, and a ``target`` the URL that
    lists show.
    """
    at = columns.pop("created_at", None) or now_of(connection)
    kept = json.loads(options)
    scrape = kept.get("scrape", {})
    names = [name for name, _ in scrape.get("headers", ())]
    entrusted = job_secrets.hide(scrape)
    is_hidden = scrape.get("zero_data_retention", False)
    shown = columns.pop("target", columns["url"])
    target = None if is_hidden else shown[:MAX_TARGET]
    counts = ("open", "done", "failed", "pages", "held", "credits")
    values = {**dict.fromkeys(counts, 0), "options": json.dumps(kept), **columns}
    number = _next_number(connection)
    connection.execute(
        insert(job).values(
            id=job_id,
            number=number,
            state=JobState.QUEUED,
            target=target,
            header_names=json.dumps(names) if names else None,
            secrets=",".join(entrusted) or None,
            created_at=at,
            expires_at=at + values.get("retention_s", RETENTION_S),
            **values,
        )
    )
    if entrusted:
        job_secrets.store(connection, job_id, job_secrets.OPTIONS, entrusted)
    note(connection, job_id, "started", at)
    return number


def _next_number(connection: Connection) -> int:
    if connection.dialect.name == "sqlite":  # which has no sequences, and one writer
        highest = connection.scalar(select(func.max(job.c.number)))
        return int(highest or 0) + 1
    return int(connection.scalar(select(JOB_NUMBERS.next_value())) or 0)


def make_team(connection: Connection, team_id: str) -> None:
    """Insert a row for a team unless it exists."""
    known = select(team_table.c.id).where(team_table.c.id == team_id)
    if connection.scalar(known) is None:
        connection.execute(
            insert(team_table).values(
                id=team_id, name=team_id, created_at=datetime.now(UTC)
            )
        )


def get_job(connection: Connection, job_id: str, team_id: str | None) -> Job | None:
    """Return a crawl or batch of a team unless it has expired.

    With None for the team, return a job of any team, and also steps of model jobs. An
    active job does not expire.
    """
    query = select(*COLUMNS).where(job.c.id == job_id, job.c.kind.in_(CRAWLED))
    if team_id is not None:
        query = query.where(job.c.team_id == team_id, *_STARTED_BY_CALLERS)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    found = job_of(row)
    if not found.is_active and found.expires_at <= now_of(connection):
        return None
    return found


def lock_own_job(connection: Connection, job_id: str, team_id: str) -> Row[Any] | None:
    """Return the locked row of a team's crawl or batch, None without one."""
    row = connection.execute(
        select(job)
        .where(job.c.id == job_id, job.c.team_id == team_id, *_STARTED_BY_CALLERS)
        .with_for_update()
    ).one_or_none()
    if row is None or (
        row.state not in ACTIVE and row.expires_at <= now_of(connection)
    ):
        return None
    return row


def job_of(row: Row[Any]) -> Job:
    """Return the job of a row with :data:`COLUMNS`."""
    values = {column.name: row._mapping[column.name] for column in COLUMNS}
    if values["warning"] is not None:
        values["warning"] = warning_text(values["warning"])
    return Job(**{**values, "state": JobState(values["state"])})


def active_jobs(connection: Connection, team_id: str) -> list[Job]:
    """Return the active crawls and batches of a team, the oldest first.

    Their options contain their secrets.
    """
    query = select(*COLUMNS).where(
        job.c.state.in_(ACTIVE), job.c.team_id == team_id, *_STARTED_BY_CALLERS
    )
    # Sorted here: the databases would find them in the order of all jobs of the team.
    rows = sorted(connection.execute(query), key=lambda row: row.created_at)
    entrusted = job_secrets.active_options(connection, team_id)
    found = []
    for each in map(job_of, rows):
        whole = each
        if each.id in entrusted:
            options = json.loads(each.options)
            options["scrape"].update(entrusted[each.id])
            whole = evolve(each, options=json.dumps(options))
        found.append(whole)
    return found


def all_jobs(connection: Connection) -> list[Job]:
    """Return the crawls and batches of all teams that have not expired, newest first."""
    lasting = (is_stored(now_of(connection)), *_STARTED_BY_CALLERS)
    query = select(*COLUMNS).where(*lasting).order_by(job.c.created_at.desc())
    return [job_of(row) for row in connection.execute(query)]


@transaction(row="{job_id}")
def start_job(connection: Connection, job_id: str) -> bool:
    """Mark a queued job as running. Return True if this call did so.

    Leave a locked row as it is. The first page of the job marks the job too, so this call never waits for a lock.
    """
    queued = (
        select(job.c.id)
        .where(job.c.id == job_id, job.c.state == JobState.QUEUED)
        .with_for_update(skip_locked=True)
    )
    started = connection.execute(
        update(job)
        .where(job.c.id.in_(queued.scalar_subquery()))
        .values(state=JobState.SCRAPING, started_at=now_of(connection))
    )
    return started.rowcount == 1


def read_pages(
    connection: Connection,
    job_id: str,
    skip: int,
    limit: int | None = None,
    max_bytes: int = CHUNK_BYTES,
) -> list[bytes]:
    """Return the JSON of pages from number ``skip``, limited by count and bytes.

    Returns at least one page if there is one. Reads no page beyond the limits, since
    pages may be large.
    """
    bodies = read_bodies(connection, job_id, skip, limit, max_bytes)
    return list(map(decompress, bodies))


def read_job_with_pages(
    connection: Connection,
    job_id: str,
    team_id: str,
    skip: int,
    limit: int | None = None,
    max_bytes: int = CHUNK_BYTES,
) -> tuple[Job, list[bytes]] | None:
    """Return a job and its pages, see :func:`get_job` and :func:`read_pages`."""
    if (found := get_job(connection, job_id, team_id)) is None:
        return None
    return found, read_pages(connection, job_id, skip, limit, max_bytes)


def read_bodies(
    connection: Connection,
    job_id: str,
    skip: int,
    limit: int | None = None,
    max_bytes: int = CHUNK_BYTES,
) -> list[bytes]:
    """Return the same pages as :func:`read_pages`, as they are stored: compressed."""
    chunk: list[bytes] = []
    size = 0
    of_job = page.c.job_number == number_of(job_id)
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
        chunk += map(bytes, bodies)
        if fitting < wanted:
            break
    return chunk


def read_scrape(connection: Connection, scrape_id: str, team_id: str) -> bytes | None:
    """Return the JSON of a page by its id, from a single scrape or a job.

    Pages with zero data retention are only readable through their job.
    """
    now = now_of(connection)
    body = connection.scalar(
        select(scrape.c.body).where(
            scrape.c.id == scrape_id,
            scrape.c.team_id == team_id,
            scrape.c.expires_at > now,
        )
    ) or _page_of_job(connection, scrape_id, team_id, now)
    return None if body is None else decompress(body)


def _page_of_job(
    connection: Connection, scrape_id: str, team_id: str, now: float
) -> bytes | None:
    row = connection.execute(
        select(
            func.coalesce(page.c.whole, page.c.body).label("body"),
            job.c.options,
            frontier.c.options.label("own"),
        )
        .join(job, job.c.number == page.c.job_number)
        .outerjoin(frontier, frontier.c.id == page.c.frontier_id)
        .where(
            page.c.id == scrape_id,
            job.c.team_id == team_id,
            is_stored(now),
        )
    ).first()
    if row is None:
        return None
    own = json.loads(row.own) if row.own else json.loads(row.options)["scrape"]
    return None if own["zero_data_retention"] else bytes(row.body)
