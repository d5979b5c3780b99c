"""Warnings of jobs: codes with data in the row of a job, and their sentences.

The column ``warning`` has a JSON list of ``[code, data]``. Sentences are made when a job is
shown, and code compares only codes. :func:`explain_result` finds why a job ended without a
page or with one page, and whether a crawl left out most links.
"""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select

from scraper_service.content.stored_pages import FIRST_ERROR
from scraper_service.discovery.canonical_urls import sitemap_key
from scraper_service.discovery.scope_rules import Reason
from scraper_service.discovery.sitemap import ABSENT, MAX_FILES
from scraper_service.errors import plural
from scraper_service.storage.frontier import refused_links
from scraper_service.storage.frontier.job_counts import count_unchanged, parse_counts
from scraper_service.storage.job_records import RowState, UrlKind
from scraper_service.storage.schema import frontier, job
from scraper_service.storage.transactions import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

MAX_WARNING = 2000  # characters of all sentences, after which no warning is added
MAX_COUNTED = 1000  # skipped URLs with counted reasons


class JobWarning(StrEnum):
    """Code of a warning. :data:`_SENTENCES` has its sentence and names its data."""

    LIMIT_LOWERED = "limit_lowered"
    FEW_CREDITS = "few_credits"
    DISK_FULL = "disk_full"
    SOURCE_LOST = "source_lost"
    #: A text about one sitemap or about robots.txt.
    SITEMAP = "sitemap"
    MANY_SITEMAPS = "many_sitemaps"
    ROBOTS = "robots"
    NO_PAGE = "no_page"
    NO_CHANGE = "no_change"
    START_FAILED = "start_failed"
    NO_SITEMAP = "no_sitemap"
    ONE_PAGE = "one_page"
    MOSTLY_OUTSIDE = "mostly_outside"


#: Warnings that explain the end of a job. A retry removes them.
OF_END = (
    *(JobWarning.NO_PAGE, JobWarning.NO_CHANGE, JobWarning.START_FAILED),
    *(JobWarning.NO_SITEMAP, JobWarning.ONE_PAGE, JobWarning.MOSTLY_OUTSIDE),
)


def add_warning(stored: str | None, code: JobWarning, **data: Any) -> str | None:
    """Return the column with a further warning, unless it has the same one.

    ``data`` are JSON values.
    """
    entries, entry = _entries(stored), [code, data]
    if entry in entries or len(warning_text(stored) or "") >= MAX_WARNING:
        return stored
    return json.dumps([*entries, entry])


def remove_warnings(stored: str | None, *codes: JobWarning) -> str | None:
    """Return the column without the warnings of ``codes``."""
    left = [entry for entry in _entries(stored) if entry[0] not in codes]
    return json.dumps(left) if left else None


def warning_text(stored: str | None) -> str | None:
    """Return the sentences of the column, None without a warning."""
    found = (sentence_of(JobWarning(code), **data) for code, data in _entries(stored))
    return " ".join(found) or None


def sentence_of(code: JobWarning, **data: Any) -> str:
    """Return the sentences of one warning."""
    return _SENTENCES[code](**data)


def _entries(stored: str | None) -> list[Any]:
    found: list[Any] = json.loads(stored or "[]")
    return found


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
_EXTERNAL = {"external": "on other sites (see allowExternalLinks)"}


def _no_page(
    reasons: dict[str, int], url: str | None = None, why: str = "", others: int = 0
) -> str:
    """Name the first failed ``url``, and count ``others`` and skipped URLs."""
    texts = ["The job ended without a page."]
    if url is not None:
        texts.append(_failure(url, why))
    if others:
        texts.append(f"{others:,} more {_urls(others)} failed or were left out.")
    if any(name in reasons for name in (*_HINTS, *_EXTERNAL)):
        texts.append(_skipped_text(reasons, {**_HINTS, **_EXTERNAL}))
    return " ".join(texts)


def _no_change(base: str, pages: int, failed: int) -> str:
    are = "1 page is as it was" if pages == 1 else f"{pages:,} pages are as they were"
    text = f"No page has changed since job {base}: {are}."
    if failed:
        verb = "is" if failed == 1 else "are"
        text += f" {failed:,} more {_urls(failed)} failed or {verb} gone."
    return text


def _no_sitemap(url: str | None = None, why: str = "") -> str:
    if url is None:
        return "No sitemap was found."
    return f"No sitemap could be read. {_failure(url, why)}"


def _failure(url: str, why: str) -> str:
    return f"{url}: {why}" if why.endswith(".") else f"{url}: {why}."


def _urls(count: int) -> str:
    return "URL" if count == 1 else "URLs"


def _skipped_text(reasons: dict[str, int], hints: dict[str, str]) -> str:
    parts = [
        f"{reasons[name]} {hint}" for name, hint in hints.items() if name in reasons
    ]
    is_part = sum(reasons.values()) >= MAX_COUNTED
    first = "Of the first 1,000 skipped URLs" if is_part else "Skipped URLs"
    return f"{first}: {', '.join(parts)}."


_SENTENCES: Mapping[JobWarning, Callable[..., str]] = {
    JobWarning.LIMIT_LOWERED: lambda wanted, pages: (
        f"The limit was lowered from {wanted} to {plural(pages, 'page')}: more cannot be"
        " paid with what remains."
    ),
    JobWarning.FEW_CREDITS: lambda wanted, pages: (
        f"The run may cost {plural(pages, 'credit')}: the team has no more of them."
    ),
    JobWarning.DISK_FULL: lambda quota_mib: (
        f"The job was paused because the disk quota of the team, {quota_mib} MiB, is used"
        " up. Delete other jobs or raise the quota, then let it go on with PATCH and"
        " paused: false."
    ),
    JobWarning.SOURCE_LOST: lambda pages: (
        f"The source job lost {plural(pages, 'page')} before this job had read all."
    ),
    JobWarning.SITEMAP: lambda text: text,
    JobWarning.MANY_SITEMAPS: lambda: (
        f"The site has over {MAX_FILES} sitemap files; some are left."
    ),
    JobWarning.ROBOTS: lambda: (
        "robots.txt refuses some URLs of this crawl: robotsBlocked in its errors lists"
        " them."
    ),
    JobWarning.NO_PAGE: _no_page,
    JobWarning.NO_CHANGE: _no_change,
    JobWarning.START_FAILED: lambda status: (
        f"The start page answered with HTTP status {status}."
    ),
    JobWarning.NO_SITEMAP: _no_sitemap,
    JobWarning.ONE_PAGE: lambda reasons: (
        f"The result is one page. {_skipped_text(reasons, _HINTS)}"
    ),
    JobWarning.MOSTLY_OUTSIDE: lambda reasons: (
        f"More URLs were skipped than fetched. {_skipped_text(reasons, _HINTS)}"
    ),
}


_JOB = select(
    *(job.c.id, job.c.number, job.c.kind, job.c.url, job.c.options, job.c.base_job_id)
).where(job.c.id == bindparam("job_id"))
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


def explain_result(
    connection: Connection,
    job_id: str,
    pages: int,
    failed: int,
    *,
    limit: int | None = None,
    page_counts: str | None = None,
) -> list[tuple[JobWarning, dict[str, Any]]]:
    """Return the warnings of a job that ended, with their data.

    ``failed`` is the number of failed URLs, ``limit`` the limit of pages, ``page_counts`` the
    column of the job. A job without a page gets one warning. A crawl with one page gets up to
    three: its start page is an error page; it reads only sitemaps, and there are none; rules
    that the caller may change skipped links. A larger crawl gets one if it skipped more URLs
    outside the path of its start URL than it has pages. A crawl that reached its limit does
    not. The job row is locked meanwhile, so the number of rows read has a bound.
    """
    row = connection.execute(_JOB, {"job_id": job_id}).one()
    if not pages:
        return [_end_without_page(connection, row, failed)]
    if pages > 1:
        return list(_end_with_pages(connection, row, pages, limit))
    return list(_end_with_one_page(connection, row, limit, page_counts))


def _end_without_page(
    connection: Connection, row: Any, failed: int
) -> tuple[JobWarning, dict[str, Any]]:
    if row.base_job_id is not None and (
        unchanged := count_unchanged(connection, row.id)
    ):
        data = {"base": row.base_job_id, "pages": unchanged, "failed": failed}
        return JobWarning.NO_CHANGE, data
    reasons = _reasons(connection, row.id)
    oldest = _oldest_refused(connection, row)
    others = failed
    if oldest is None:
        oldest = _failed_sitemap(connection, row)
    elif oldest.state == RowState.SKIPPED:
        reasons = +(reasons - Counter({str(Reason.ROBOTS): 1}))
    else:
        others -= 1
    failure = {} if oldest is None else {**_failure_data(oldest), "others": others}
    return JobWarning.NO_PAGE, {"reasons": reasons, **failure}


def _end_with_one_page(
    connection: Connection, row: Any, limit: int | None, page_counts: str | None
) -> Iterator[tuple[JobWarning, dict[str, Any]]]:
    if status := _start_status(connection, row, page_counts):
        yield JobWarning.START_FAILED, {"status": status}
    if limit == 1:
        return
    if json.loads(row.options).get("sitemap") == "only" and not _has_sitemap(
        connection, row
    ):
        failed = _failed_sitemap(connection, row)
        yield JobWarning.NO_SITEMAP, {} if failed is None else _failure_data(failed)
    reasons = _reasons(connection, row.id)
    if any(name in _HINTS for name in reasons):
        yield JobWarning.ONE_PAGE, {"reasons": reasons}


def _end_with_pages(
    connection: Connection, row: Any, pages: int, limit: int | None
) -> Iterator[tuple[JobWarning, dict[str, Any]]]:
    is_whole = limit is None or pages < limit
    if row.kind == "crawl" and is_whole and pages < MAX_COUNTED:
        reasons = _reasons(connection, row.id)
        if reasons[Reason.OUTSIDE_PATH] > pages:
            yield JobWarning.MOSTLY_OUTSIDE, {"reasons": reasons}


def _reasons(connection: Connection, job_id: str) -> Counter[str]:
    rows = connection.execute(_REASONS, {"job_id": job_id})
    reasons = Counter({row.code: row.urls for row in rows})
    left = MAX_COUNTED - reasons.total()
    return reasons + refused_links.first_counts(connection, job_id, left)


def _start_status(connection: Connection, row: Any, page_counts: str | None) -> int:
    """Return the status of the start page if it is the only page, and an error page, or 0."""
    # Other pages of a crawl are found on one, and batches have no start page.
    first = _oldest(connection, row, RowState.DONE)
    if row.kind != "crawl" or first is None or first.code or first.found_on is not None:
        return 0
    statuses = [int(name) for name in parse_counts(page_counts).statuses]
    return statuses[0] if len(statuses) == 1 and statuses[0] >= FIRST_ERROR else 0


def _oldest(
    connection: Connection,
    row: Any,
    state: RowState,
    kind: UrlKind = UrlKind.PAGE,
    *where: ColumnElement[bool],
    first: Sequence[ColumnElement[Any]] = (),
) -> Any:
    columns = frontier.c
    query = select(
        *(columns.id, columns.state, columns.url),
        *(columns.code, columns.error, columns.found_on),
    ).where(
        columns.job_number == row.number,
        columns.state == state,
        columns.kind == kind,
        *where,
    )
    return connection.execute(query.order_by(*first, columns.id).limit(1)).first()


def _oldest_refused(connection: Connection, row: Any) -> Any:
    failed = _oldest(connection, row, RowState.FAILED)
    skipped = _oldest(connection, row, RowState.SKIPPED)
    if skipped is None or skipped.code != Reason.ROBOTS:
        return failed
    return skipped if failed is None or skipped.id < failed.id else failed


def _has_sitemap(connection: Connection, row: Any) -> bool:
    """Return True if a sitemap was read. Depth 0 is robots.txt, which names sitemaps."""
    below = frontier.c.depth > 0
    return bool(_oldest(connection, row, RowState.DONE, UrlKind.SITEMAP, below))


def _failed_sitemap(connection: Connection, row: Any) -> Any:
    """Return the failed sitemap where the crawl starts, else another one, else None.

    Other sitemaps that are absent do not count: their URLs were guesses.
    """
    is_start = frontier.c.key == sitemap_key(row.url)
    counts, first = (frontier.c.code != ABSENT) | is_start, (is_start.desc(),)
    kind = UrlKind.SITEMAP
    return _oldest(connection, row, RowState.FAILED, kind, counts, first=first)


def _failure_data(row: Any) -> dict[str, str]:
    why = row.error or row.code or "it could not be fetched"
    return {"url": row.url, "why": why.strip()}
