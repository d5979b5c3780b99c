"""Jobs that make other formats of the stored responses of another job.

The rows of such a job are copies of the rows with a page of its source, and have the same
keys. So the key of a row leads to the page, and to its response.

Functions run inside a transaction. :func:`create_job_of_sources` returns errors, since
raising would end the transaction for other functions, too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import evolve, frozen
from sqlalchemy import select

from scraper_service.content.stored_pages import StoredResponse
from scraper_service.errors import (
    JobNotFound,
    ServiceError,
    SourceJobRunning,
    SourcesNotStored,
)
from scraper_service.options.crawl import BatchOptions, CrawlOptions
from scraper_service.storage.files.page_sources import (
    RESPONSE,
    has_sources,
    stored_response,
)
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.job_records import ACTIVE, Job
from scraper_service.storage.jobs.admission import Terms, admit_job
from scraper_service.storage.jobs.job_store import get_job
from scraper_service.storage.schema import frontier, job, page, page_source
from scraper_service.storage.transactions import now_of, number_of, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection


WHAT = "A job of stored sources"
PAGES_AT_ONCE = 1000  # that are looked through in one statement


@frozen
class SourcePage:
    """A page of another job, with its response."""

    scrape_id: str
    stored: StoredResponse


def source_problem(
    connection: Connection, job_id: str, team_id: str
) -> ServiceError | None:
    """Return why a job cannot be reprocessed, or None.

    May return :exc:`JobNotFound`, :exc:`SourceJobRunning` and :exc:`SourcesNotStored`.
    """
    found = get_job(connection, job_id, team_id)
    if found is None:
        return JobNotFound("Job not found")
    if found.is_active and found.paused_at is None:
        return SourceJobRunning()
    if not has_sources(connection, job_id):
        return SourcesNotStored(WHAT, is_empty=not found.pages)
    return None


def pages_of_urls(
    connection: Connection, job_id: str, team_id: str, urls: Iterable[str]
) -> tuple[list[int], set[str]] | ServiceError:
    """Do as :func:`find_pages` in a job that can be reprocessed.

    May return the errors of :func:`source_problem`.
    """
    problem = source_problem(connection, job_id, team_id)
    return problem or find_pages(connection, job_id, urls)


def find_pages(
    connection: Connection, job_id: str, urls: Iterable[str]
) -> tuple[list[int], set[str]]:
    """Return the numbers of the pages with some URLs, and the URLs without a page.

    A URL is that of the job or the final one, behind redirects. Looks through all pages
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
    """Store a job that reads the responses of pages of ``source_id``.

    ``numbers`` are those of the pages, None for all pages. Copies the rows of the first
    pages; :func:`~scraper_service.storage.frontier.outcomes.copy_slice` copies the others. May
    return the errors of :func:`source_problem` and of
    :func:`~scraper_service.storage.jobs.admission.create_job`. Locks the team.
    """
    if problem := source_problem(connection, source_id, terms.team_id):
        return problem
    source = get_job(connection, source_id, terms.team_id)
    assert source is not None
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


def read_source(
    connection: Connection, source_id: str, team_id: str, key: int
) -> SourcePage | None:
    """Return the page with a key in a job, with its response, or None.

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
            job.c.state.in_(ACTIVE) | (job.c.expires_at > now_of(connection)),
        )
    ).one_or_none()
    if row is None:
        return None
    return SourcePage(row.id, stored_response(row))
