"""Warnings for jobs without a page, and for crawls with one page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select

from scraper_service.discovery import Reason, sitemap_key
from scraper_service.discovery.sitemap import ABSENT
from scraper_service.items import UNCHANGED
from scraper_service.storage.frontier import refused_links
from scraper_service.storage.jobs.job_records import RowState, UrlKind
from scraper_service.storage.schema import frontier, job
from scraper_service.storage.transactions import number_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_COUNTED = 1000  # skipped URLs with counted reasons

# Reasons of skipped URLs, with the option that a caller may change.
_HINTS = {
    "outside_path": "outside the path of the start URL (see crawlEntireDomain)",
    "subdomain": "on other subdomains (see allowSubdomains)",
    "not_included": "not matched by includePaths",
    "excluded": "matched by excludePaths",
    "discovery_depth": "below maxDiscoveryDepth",
    "path_depth": "below maxDepth",
    "robots": "refused by robots.txt",
}
NO_PAGE = "The job ended without a page."
_NO_CHANGE = "No page has changed since job "
_ONE_PAGE = "The result is one page."
_EXTERNAL = "on other sites (see allowExternalLinks)"

_OLDEST = (
    select(
        *(frontier.c.id, frontier.c.state, frontier.c.url),
        *(frontier.c.code, frontier.c.error),
    )
    .where(
        frontier.c.job_number == number_of(bindparam("job_id")),
        frontier.c.state == bindparam("state"),
        frontier.c.kind == UrlKind.PAGE,
    )
    .order_by(frontier.c.id)
    .limit(1)
)
# A sitemap that is absent was a guess, unless the crawl starts there.
_FAILED_SITEMAP = (
    select(*(frontier.c.id, frontier.c.state, frontier.c.url))
    .add_columns(frontier.c.code, frontier.c.error)
    .where(
        frontier.c.job_number == number_of(bindparam("job_id")),
        frontier.c.state == RowState.FAILED,
        frontier.c.kind == UrlKind.SITEMAP,
        (frontier.c.code != ABSENT) | (frontier.c.key == bindparam("start")),
    )
    .order_by((frontier.c.key == bindparam("start")).desc(), frontier.c.id)
    .limit(1)
)
# Reads only the index of codes, however many pages there are.
_UNCHANGED = select(func.count()).where(
    frontier.c.job_number == number_of(bindparam("job_id")),
    frontier.c.state == RowState.DONE,
    frontier.c.code == UNCHANGED,
)
_SKIPPED = (
    select(frontier.c.code)
    .where(
        frontier.c.job_number == number_of(bindparam("job_id")),
        frontier.c.state == RowState.SKIPPED,
    )
    .limit(MAX_COUNTED)
    .subquery()
)
_REASONS = select(_SKIPPED.c.code, func.count().label("urls")).group_by(_SKIPPED.c.code)


def explain_empty_result(
    connection: Connection, job_id: str, pages: int, failed: int
) -> str | None:
    """Return a ``warning`` for a job that ended with 0 or 1 ``pages``, or None.

    ``failed`` is the number of failed URLs. A job with one page gets a warning only if
    rules that the caller may change skipped links. Reads a bounded number of rows, since
    the job row is locked meanwhile; unchanged pages are counted in an index.
    """
    if not pages and (text := _unchanged_text(connection, job_id, failed)):
        return text
    rows = connection.execute(_REASONS, {"job_id": job_id})
    reasons = Counter({row.code: row.urls for row in rows})
    left = MAX_COUNTED - reasons.total()
    reasons += refused_links.first_counts(connection, job_id, left)
    oldest = None if pages else _oldest(connection, job_id)
    others = failed
    if oldest is not None and oldest.state == RowState.SKIPPED:
        reasons = +(reasons - Counter({str(Reason.ROBOTS): 1}))
    elif oldest is not None:
        others -= 1
    elif not pages:
        oldest = _failed_sitemap(connection, job_id)
    skipped = _skipped_text(reasons, with_external=not pages)
    if pages:
        return f"{_ONE_PAGE} {skipped}" if skipped else None
    texts = [NO_PAGE]
    if oldest is not None:
        texts.append(_failure_text(oldest, others))
    if skipped:
        texts.append(skipped)
    return " ".join(texts)


def without_explanation(warning: str | None) -> str | None:
    """Return the warnings of a job without the last one of its end, if any."""
    if warning is None:
        return None
    for first in (NO_PAGE, _NO_CHANGE, _ONE_PAGE):
        warning = warning.partition(first)[0].rstrip()
    return warning or None


def _unchanged_text(connection: Connection, job_id: str, failed: int) -> str | None:
    """Return the result of a crawl with ``since`` that found nothing new, or None."""
    base = connection.scalar(select(job.c.base_job_id).where(job.c.id == job_id))
    if base is None:
        return None
    count = connection.scalar(_UNCHANGED, {"job_id": job_id})
    if not count:
        return None
    pages = "1 page is as it was" if count == 1 else f"{count:,} pages are as they were"
    text = f"{_NO_CHANGE}{base}: {pages}."
    if failed:
        verb = "is" if failed == 1 else "are"
        text += f" {failed:,} more {_urls(failed)} failed or {verb} gone."
    return text


def _oldest(connection: Connection, job_id: str) -> Any:
    """Return the first page that failed, or that robots.txt refuses, such as the start URL."""
    failed, skipped = (
        connection.execute(_OLDEST, {"job_id": job_id, "state": state}).first()
        for state in (RowState.FAILED, RowState.SKIPPED)
    )
    if skipped is None or skipped.code != Reason.ROBOTS:
        return failed
    return skipped if failed is None or skipped.id < failed.id else failed


def _failed_sitemap(connection: Connection, job_id: str) -> Any:
    """Return a failed sitemap, first of all the one where the crawl starts, or None."""
    url = connection.scalar(select(job.c.url).where(job.c.id == job_id))
    assert url is not None
    values = {"job_id": job_id, "start": sitemap_key(url)}
    return connection.execute(_FAILED_SITEMAP, values).first()


def _failure_text(row: Any, others: int) -> str:
    reason = (row.error or row.code or "it could not be fetched").strip()
    if not reason.endswith("."):
        reason += "."
    if others:
        reason += f" {others:,} more {_urls(others)} failed or were left out."
    return f"{row.url}: {reason}"


def _urls(count: int) -> str:
    return "URL" if count == 1 else "URLs"


def _skipped_text(reasons: dict[str, int], *, with_external: bool) -> str:
    hints = {**_HINTS, "external": _EXTERNAL} if with_external else _HINTS
    parts = [
        f"{reasons[name]} {hint}" for name, hint in hints.items() if name in reasons
    ]
    if not parts:
        return ""
    counted = sum(reasons.values())
    first = (
        "Of the first 1,000 skipped URLs" if counted >= MAX_COUNTED else "Skipped URLs"
    )
    return f"{first}: {', '.join(parts)}."
