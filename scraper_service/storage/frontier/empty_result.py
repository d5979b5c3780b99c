"""Warnings for jobs without a page, and for crawls that left most links out."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select

from scraper_service.content.stored_pages import FIRST_ERROR
from scraper_service.discovery import Reason, sitemap_key
from scraper_service.discovery.sitemap import ABSENT
from scraper_service.items import UNCHANGED
from scraper_service.storage.frontier import refused_links
from scraper_service.storage.frontier.page_counts import parse_counts
from scraper_service.storage.job_records import RowState, UrlKind
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
    "nofollow": "on pages marked nofollow (see obeyNofollow)",
    "robots": "refused by robots.txt",
}
NO_PAGE = "The job ended without a page."
_NO_CHANGE = "No page has changed since job "
_ONE_PAGE = "The result is one page."
_MOSTLY_OUTSIDE = "More URLs were skipped than fetched."
_START = "The start page answered with HTTP status"
_NO_SITEMAP = "No sitemap"
_EXTERNAL = "on other sites (see allowExternalLinks)"

_OLDEST = (
    select(
        *(frontier.c.id, frontier.c.state, frontier.c.url),
        *(frontier.c.code, frontier.c.error, frontier.c.found_on),
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
# Depth 0 is robots.txt, which names sitemaps.
_READ_SITEMAPS = (
    select(frontier.c.id)
    .where(
        frontier.c.job_number == number_of(bindparam("job_id")),
        frontier.c.state == RowState.DONE,
        frontier.c.kind == UrlKind.SITEMAP,
        frontier.c.depth > 0,
    )
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
    connection: Connection,
    job_id: str,
    pages: int,
    failed: int,
    *,
    limit: int | None = None,
    page_counts: str | None = None,
) -> str | None:
    """Return a ``warning`` for a job that ended, or None.

    ``failed`` is the number of failed URLs, ``limit`` that of the pages of the job, and
    ``page_counts`` the column of its row. A crawl with one page gets a warning if the start
    page is an error page, if it should read sitemaps only and there are none, or if rules
    that the caller may change skipped links. A crawl with more pages gets one if more URLs
    were outside of the path of its start URL, and its limit did not end it. Reads a bounded number of rows, since
    the job row is locked meanwhile; unchanged pages are counted in an index.
    """
    if pages > 1:
        return _mostly_outside_text(connection, job_id, pages, limit)
    if pages:
        texts = [_start_text(connection, job_id, page_counts)]
        if limit != 1:
            reasons = _reasons(connection, job_id)
            skipped = _skipped_text(reasons, with_external=False)
            texts.append(_no_sitemap_text(connection, job_id))
            texts.append(f"{_ONE_PAGE} {skipped}" if skipped else "")
        return " ".join(filter(None, texts)) or None
    return _unchanged_text(connection, job_id, failed) or _no_page_text(
        connection, job_id, failed
    )


def _mostly_outside_text(
    connection: Connection, job_id: str, pages: int, limit: int | None
) -> str | None:
    if pages >= MAX_COUNTED or (limit is not None and pages >= limit):
        return None
    reasons = _reasons(connection, job_id)
    if reasons[Reason.OUTSIDE_PATH] <= pages:
        return None
    return f"{_MOSTLY_OUTSIDE} {_skipped_text(reasons, with_external=False)}"


def _no_page_text(connection: Connection, job_id: str, failed: int) -> str:
    reasons = _reasons(connection, job_id)
    oldest = _oldest(connection, job_id)
    others = failed
    if oldest is None:
        oldest = _failed_sitemap(connection, job_id)
    elif oldest.state == RowState.SKIPPED:
        reasons = +(reasons - Counter({str(Reason.ROBOTS): 1}))
    else:
        others -= 1
    texts = [NO_PAGE]
    if oldest is not None:
        texts.append(_failure_text(oldest, others))
    texts.append(_skipped_text(reasons, with_external=True))
    return " ".join(filter(None, texts))


def _reasons(connection: Connection, job_id: str) -> Counter[str]:
    """Return the reasons of up to :data:`MAX_COUNTED` skipped URLs."""
    rows = connection.execute(_REASONS, {"job_id": job_id})
    reasons = Counter({row.code: row.urls for row in rows})
    left = MAX_COUNTED - reasons.total()
    return reasons + refused_links.first_counts(connection, job_id, left)


def without_explanation(warning: str | None) -> str | None:
    """Return the warnings of a job without the last one of its end, if any."""
    if warning is None:
        return None
    for first in (NO_PAGE, _NO_CHANGE, _START, _NO_SITEMAP, _ONE_PAGE, _MOSTLY_OUTSIDE):
        warning = warning.partition(first)[0].rstrip()
    return warning or None


def _start_text(connection: Connection, job_id: str, page_counts: str | None) -> str:
    """Return the status of the start page if it is the only page, and an error page."""
    # Other pages of a crawl are found on one, and batches have no start page.
    kind = connection.scalar(select(job.c.kind).where(job.c.id == job_id))
    values = {"job_id": job_id, "state": RowState.DONE}
    first = connection.execute(_OLDEST, values).first()
    if kind != "crawl" or first is None or first.code or first.found_on is not None:
        return ""
    statuses = [int(name) for name in parse_counts(page_counts).statuses]
    if len(statuses) != 1 or statuses[0] < FIRST_ERROR:
        return ""
    return f"{_START} {statuses[0]}."


def _no_sitemap_text(connection: Connection, job_id: str) -> str:
    """Return that a crawl of sitemaps only has not read any, or why."""
    options = connection.scalar(select(job.c.options).where(job.c.id == job_id))
    if json.loads(options or "{}").get("sitemap") != "only":
        return ""
    if connection.execute(_READ_SITEMAPS, {"job_id": job_id}).first() is not None:
        return ""
    failed = _failed_sitemap(connection, job_id)
    if failed is None:
        return f"{_NO_SITEMAP} was found."
    return f"{_NO_SITEMAP} could be read. {_failure_text(failed, 0)}"


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
