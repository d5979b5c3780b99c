"""The pages of an earlier job that a job reads again: those of its base, or of its source.

A job repeats the unchanged pages of its base, ``job.base_job_id``. They are found by the keys
of their URLs, and count as long as the base is stored. A job that reprocesses makes other
formats of the responses of its source, ``job.source_job_id``. Its rows are copies of the rows
with a page of the source, and have the same keys. Functions run inside a transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import func, select

from scraper_service.content.stored_pages import StoredResponse, unpack
from scraper_service.errors import (
    InvalidOptions,
    Issue,
    JobNotFound,
    ServiceError,
    SourceJobRunning,
    SourcesNotStored,
)
from scraper_service.items import REMOVED, UNCHANGED, KeptResponse
from scraper_service.options.jobs import CrawlOptions, parse_since, structure
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.storage.files.page_sources import (
    RESPONSE,
    has_sources,
    sitemap_source,
    stored_response,
)
from scraper_service.storage.frontier.job_counts import count_unchanged
from scraper_service.storage.job_records import ACTIVE, JobState, RowState, UrlKind
from scraper_service.storage.jobs.job_rows import get_job
from scraper_service.storage.schema import frontier, job, page, page_source, refused_key
from scraper_service.storage.transactions import is_stored, now_of, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection, Row, Select

    from scraper_service.storage.job_records import Job


@frozen
class BasePage:
    """A page of the base with its response."""

    #: The compressed JSON of the page. Empty for a sitemap file, and if only the hashes of
    #: the texts are left.
    body: bytes = b""
    #: None if the response is not stored any more, as ``kept``.
    stored: StoredResponse | None = None
    #: The response without the body, before that is read.
    kept: KeptResponse | None = None
    #: The age of the response in seconds.
    age_s: float = 0.0
    #: ``<lastmod>`` of its sitemap, if that is the same for both jobs.
    lastmod: str | None = None
    #: The hashes of the texts of the page as JSON.
    text_hashes: str | None = None


def base_scrape(connection: Connection, job_id: str, team_id: str) -> Any:
    """Return how the pages of a base were scraped: JSON values of ``ScrapeOptions``.

    None without pages to repeat: the job is gone, belongs to another team, or had secret
    options, which are not stored any more.
    """
    text = connection.scalar(
        select(job.c.options).where(
            job.c.id == job_id,
            job.c.team_id == team_id,
            job.c.state.not_in(ACTIVE),
            job.c.expires_at > now_of(connection),
            job.c.secrets.is_(None),
        )
    )
    return None if text is None else json.loads(text)["scrape"]


def read_base_page(
    connection: Connection, base_id: str, row_id: int
) -> BasePage | None:
    """Return the page of the base for the URL of a row, None without one.

    A base that was a crawl with ``since`` has no page of a URL that had not changed: then the
    page of its own base counts, and the same for a URL that had failed. If that is not stored
    any more, the hashes count that the base has of its texts. Pages without a response, and
    those that were cut or delivered in parts, do not count.
    """
    row = connection.execute(
        select(frontier.c.key, frontier.c.url, frontier.c.lastmod).where(
            frontier.c.id == row_id
        )
    ).one_or_none()
    if row is None:
        return None
    at, lastmod, next_id = now_of(connection), row.lastmod, base_id
    hashes: str | None = None
    while next_id is not None:
        found = connection.execute(
            _page_of(next_id, row.key, row.url).where(job.c.expires_at > at)
        ).one_or_none()
        if found is None:
            break
        if lastmod != found.lastmod:
            lastmod = None
        is_unchanged = found.code == UNCHANGED
        if found.page is not None or (is_unchanged and found.facts is not None):
            if found.facts is None or found.whole is not None:
                return None
            if found.options is not None:  # its own ones
                return None
            body, hashes = bytes(found.page or b""), found.text_hashes
            return _base_page(found, at, body=body, lastmod=lastmod, text_hashes=hashes)
        is_passed_on = is_unchanged or found.state == RowState.FAILED
        if found.code == REMOVED or not is_passed_on:
            return None
        hashes = hashes or found.text_hashes
        next_id = found.base_job_id
    return None if hashes is None else BasePage(text_hashes=hashes)


def read_base_sitemap(
    connection: Connection, base_id: str, key: int
) -> BasePage | None:
    """Return a sitemap file of the base by the key of its URL, None without one."""
    at = now_of(connection)
    found = connection.execute(
        select(*RESPONSE)
        .join(job, job.c.number == page_source.c.job_number)
        .where(page_source.c.page_id == sitemap_source(base_id, key))
        .where(job.c.expires_at > at)
    ).one_or_none()
    if found is None:
        return None
    return _base_page(found, at)


def _page_of(job_id: str, key: int, url: str) -> Select[Any]:
    return (
        select(
            page.c.body.label("page"),
            page.c.whole,
            *(frontier.c.lastmod, frontier.c.code, frontier.c.state),
            *(frontier.c.options, frontier.c.text_hashes),
            job.c.base_job_id,
            *RESPONSE,
        )
        .select_from(frontier)
        .join(job, job.c.number == frontier.c.job_number)
        .outerjoin(page, page.c.frontier_id == frontier.c.id)
        .outerjoin(page_source, page_source.c.page_id == frontier.c.page_id)
        .where(
            frontier.c.job_number == number_of(job_id),
            frontier.c.key == key,
            # Keys of batches are numbers, which depend on the other URLs.
            (job.c.kind == "crawl") | (frontier.c.url == url),
        )
    )


def _base_page(found: Row[Any], at: float, **facts: Any) -> BasePage | None:
    stored = stored_response(found)
    kept = unpack(stored)
    if kept.is_cut:
        return None
    age_s = max(0.0, at - kept.at)
    return BasePage(stored=stored, kept=kept, age_s=age_s, **facts)


# -- crawls with ``since`` -----------------------------------------------------------------


def find_base(
    connection: Connection, team_id: str, options: CrawlOptions
) -> str | InvalidOptions:
    """Return the crawl that the option ``since`` stands for, or an error.

    A time stands for the last complete crawl of the same URL that had ended by then. An id may
    be that of a cancelled crawl: only the pages that it delivered can be unchanged.
    """
    assert options.since is not None
    since = parse_since(options.since)
    query = select(job.c.id, job.c.options).where(
        job.c.team_id == team_id,
        job.c.kind == "crawl",
        job.c.parent_id.is_(None),
        job.c.source_job_id.is_(None),
        job.c.secrets.is_(None),
        job.c.expires_at > now_of(connection),
    )
    if isinstance(since, str):
        ended = job.c.state.in_((JobState.COMPLETED, JobState.CANCELLED))
        row = connection.execute(query.where(job.c.id == since, ended)).one_or_none()
        lack = f"{since} is no completed or cancelled crawl of this team that is stored"
    else:
        query = query.where(
            job.c.url == options.url,
            job.c.state == JobState.COMPLETED,
            job.c.completed_at <= since,
        )
        row = connection.execute(
            query.order_by(job.c.completed_at.desc(), job.c.id).limit(1)
        ).one_or_none()
        lack = f"no complete crawl of {options.url} had ended by {options.since}"
    if row is None:
        return _refusal(lack)
    if not has_sources(connection, row.id) and not _has_base(connection, row.id):
        return _refusal(f"the crawl {row.id} has kept no responses (keepSources)")
    known = structure(json.loads(row.options)["scrape"], ScrapeOptions)
    if known.as_made != options.scrape.as_made:
        return _refusal(f"the crawl {row.id} had other scrapeOptions")
    return str(row.id)


def _refusal(reason: str) -> InvalidOptions:
    text = f"since must be a crawl that can be compared with: {reason}"
    return InvalidOptions([Issue("custom", ("since",), text)])


def _has_base(connection: Connection, job_id: str) -> bool:
    base = select(job.c.base_job_id).where(job.c.id == job_id)
    return connection.scalar(base) is not None


@frozen
class RemovedUrls:
    """What a crawl with ``since`` has not found any more."""

    #: The earlier crawl.
    since: str
    #: False while the crawl runs, if it did not end by itself, and if the earlier crawl is
    #: not stored any more: then no URL is removed.
    is_whole: bool
    #: The number of pages that are the same as before.
    unchanged: int
    #: The number of URLs.
    total: int = 0
    #: Some of them.
    urls: tuple[str, ...] = ()


def read_removed(
    connection: Connection, crawl: Job, skip: int, limit: int
) -> RemovedUrls | None:
    """Return URLs with a page in the base that a crawl has not found, or that are gone.

    None for a job without ``since``.
    """
    if (since := crawl.since) is None:
        return None
    unchanged = count_unchanged(connection, crawl.id)
    stored = select(job.c.id).where(
        job.c.id == since, job.c.expires_at > now_of(connection)
    )
    has_ended = crawl.state is JobState.COMPLETED and not crawl.held
    if not has_ended or connection.scalar(stored) is None:
        return RemovedUrls(since, is_whole=False, unchanged=unchanged)
    base, own = frontier.alias("base"), frontier.alias("own")
    is_found = (
        select(own.c.id)
        .where(own.c.job_number == number_of(crawl.id), own.c.key == base.c.key)
        .where(own.c.code.is_(None) | (own.c.code != REMOVED))
        .exists()
    )
    is_refused = (
        select(refused_key.c.key)
        .where(refused_key.c.job_number == number_of(crawl.id))
        .where(refused_key.c.key == base.c.key)
        .exists()
    )
    query = (
        select(base.c.url)
        .where(
            base.c.job_number == number_of(since),
            base.c.kind == UrlKind.PAGE,
            base.c.state == RowState.DONE,
            base.c.code.is_(None) | (base.c.code == UNCHANGED),
            ~is_found,
            ~is_refused,
        )
        .order_by(base.c.id)
    )
    total = connection.scalar(select(func.count()).select_from(query.subquery())) or 0
    urls = tuple(connection.scalars(query.offset(skip).limit(limit)))
    return RemovedUrls(since, True, unchanged, total, urls)


# -- jobs of stored responses --------------------------------------------------------

WHAT = "A job of stored sources"
PAGES_AT_ONCE = 1000  # that are looked through in one statement


def find_source(
    connection: Connection, job_id: str, team_id: str
) -> Job | ServiceError:
    """Return a job that can be reprocessed, or why it cannot.

    May return :exc:`JobNotFound`, :exc:`SourceJobRunning` and :exc:`SourcesNotStored`.
    """
    found = get_job(connection, job_id, team_id)
    if found is None:
        return JobNotFound("Job not found")
    if found.is_active and found.paused_at is None:
        return SourceJobRunning()
    if not has_sources(connection, job_id):
        return SourcesNotStored(WHAT, is_empty=not found.pages)
    return found


def pages_of_urls(
    connection: Connection, job_id: str, team_id: str, urls: Iterable[str]
) -> tuple[list[int], set[str]] | ServiceError:
    """Do as :func:`find_pages` in a job that can be reprocessed.

    May return the errors of :func:`find_source`.
    """
    found = find_source(connection, job_id, team_id)
    if isinstance(found, ServiceError):
        return found
    return find_pages(connection, job_id, urls)


def find_pages(
    connection: Connection, job_id: str, urls: Iterable[str]
) -> tuple[list[int], set[str]]:
    """Return the numbers of the pages with some URLs, and the URLs without a page.

    A URL is that of the job or the final one, after redirects. Looks through all pages
    of the job.
    """
    wanted, missing = set(urls), set(urls)
    numbers: list[int] = []
    first = 0
    while True:
        query = (
            select(page.c.seq, frontier.c.url, page_source.c.facts)
            .join(frontier, frontier.c.id == page.c.frontier_id)
            .outerjoin(page_source, page_source.c.page_id == page.c.id)
            .where(page.c.job_number == number_of(job_id), page.c.seq >= first)
            .order_by(page.c.seq)
            .limit(PAGES_AT_ONCE)
        )
        rows = connection.execute(query).all()
        for seq, url, facts in rows:
            named = {url} if facts is None else {url, json.loads(facts)["url"]}
            if found := named & wanted:
                numbers.append(seq)
                missing -= found
            first = seq + 1
        if len(rows) < PAGES_AT_ONCE:
            return numbers, missing


def read_source(
    connection: Connection, source_id: str, team_id: str, key: int
) -> tuple[str, StoredResponse] | None:
    """Return the id of the page with a key in a job, and its response, or None.

    Nothing of a job that is deleted or has expired is returned.
    """
    row = connection.execute(
        select(page.c.id, *RESPONSE)
        .join(page_source, page_source.c.page_id == page.c.id)
        .join(frontier, frontier.c.id == page.c.frontier_id)
        .join(job, job.c.number == page.c.job_number)
        .where(
            frontier.c.job_number == number_of(source_id),
            frontier.c.key == key,
            job.c.team_id == team_id,
            is_stored(now_of(connection)),
        )
    ).one_or_none()
    if row is None:
        return None
    return row.id, stored_response(row)
