"""The responses that the pages of jobs were made of, as long as the jobs are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, func, select

from scraper_service.content.text.kept_responses import (
    StoredResponse,
    archive_row,
)
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.schema import page, page_source
from scraper_service.storage.statements import insertion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from scraper_service.items import KeptResponse

DROPPED_AT_ONCE = 200  # in one transaction
_ADD = insertion(page_source, "page_id", "job_id", "size", "facts", "head", "body")


def add_sources(
    connection: Connection,
    job_id: str,
    pages: Iterable[tuple[str, KeptResponse | None, StoredResponse | None]],
) -> None:
    """Store the responses of delivered pages, by the ids of the pages. Some have none."""
    rows = [
        {
            "page_id": page_id,
            "job_id": job_id,
            "size": len(kept.body),
            "facts": stored.facts,
            "head": stored.head,
            "body": stored.body,
        }
        for page_id, kept, stored in pages
        if kept is not None and stored is not None
    ]
    _ADD.run_many(connection, rows)


def drop_sources(connection: Connection, job_id: str) -> int:
    """Delete some responses of an ended job. Return their number, 0 at the end."""
    size = func.length(page_source.c.head) + func.length(page_source.c.body)
    rows = connection.execute(
        select(page_source.c.page_id, size.label("bytes"))
        .where(page_source.c.job_id == job_id)
        .limit(DROPPED_AT_ONCE)
    ).all()
    if rows:
        ids = [row.page_id for row in rows]
        connection.execute(delete(page_source).where(page_source.c.page_id.in_(ids)))
        disk_use.add_to_job(connection, job_id, -sum(row.bytes for row in rows))
    return len(rows)


def has_sources(connection: Connection, job_id: str) -> bool:
    """Return True if a job has kept the response of any page."""
    found = exists().where(page_source.c.job_id == job_id)
    return bool(connection.scalar(select(found)))


def read_archive_rows(
    connection: Connection, job_id: str, first: int, most: int, max_bytes: int
) -> tuple[list[bytes], int]:
    """Return rows of an archive from page number ``first``, and the number after them.

    Reads at most ``most`` pages, and at least one whatever its size. Pages without a
    response are left out. The number is ``first`` behind the last page.
    """
    of_job = [page.c.job_id == job_id, page.c.seq >= first, page.c.seq < first + most]
    joined = page.outerjoin(page_source, page_source.c.page_id == page.c.id)
    sizes = connection.execute(
        select(page.c.size, page_source.c.size.label("source"))
        .select_from(joined)
        .where(*of_job)
        .order_by(page.c.seq)
    ).all()
    behind, total = first, 0
    for row in sizes:
        total += row.size + (row.source or 0)
        if behind > first and total > max_bytes:
            break
        behind += 1
    columns = (page_source.c.facts, page_source.c.head, page_source.c.body)
    rows = connection.execute(
        select(page.c.body.label("page"), *columns)
        .join(page_source, page_source.c.page_id == page.c.id)
        .where(*of_job, page.c.seq < behind)
        .order_by(page.c.seq)
    )
    found = [
        archive_row(
            bytes(row.page), StoredResponse(row.facts, bytes(row.head), bytes(row.body))
        )
        for row in rows
    ]
    return found, behind
