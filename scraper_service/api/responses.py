"""Responses as JSON, as far as both versions share them: pages, maps, searches, jobs.

Page values come as JSON text from the converter pool and are only joined here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from attrs import asdict, evolve

from scraper_service.api.openapi.page_shapes import METADATA
from scraper_service.api.schemas import (
    ANY,
    BOOL,
    COUNT,
    ID,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    URL,
    ShapeT,
    array,
    camel,
    encode,
    iso,
    mapping,
    old_shape,
    old_success,
    one_of,
    or_null,
    own,
    ref,
    said,
)
from scraper_service.discovery.map_results import BETWEEN
from scraper_service.options import catalogue
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scraper_service.items import Page, PageMetadata
    from scraper_service.services.mapping import Map
    from scraper_service.services.searching import Result
    from scraper_service.storage.job_records import Job, PageErrorRow
    from scraper_service.storage.jobs.job_control import ChangedJob
    from scraper_service.storage.jobs.job_retry import RetriedJob

# Keys of the service's own facts: a <meta> of the page never replaces them.
RESERVED = frozenset(
    METADATA["properties"].keys() - {"description", "language", "title"}
    | set(
        "canonicalUrl feeds headline postprocessorsUsed readingTime wordCount".split()
    )
)
# A public client renames these keys (``num_pages``) and checks their types. A <meta> of
# such a name would make all pages of a job unreadable for this client.
_RENAMED = frozenset(name.lower() for name in RESERVED)


def _is_reserved(name: str) -> bool:
    return name in RESERVED or (
        "_" in name and name.replace("_", "").lower() in _RENAMED
    )


def page_json(page: Page) -> bytes:
    """Return the page object: requested formats, ``metadata`` and ``warning``."""
    values = dict(page.values)
    if (part := values.pop("part", None)) is not None:
        values["markdown"] = part
    members = [(camel(name), value) for name, value in values.items()]
    members.append(("metadata", encode(page_metadata(page.metadata))))
    if page.warning:
        members.append(("warning", encode(page.warning)))
    joined = b",".join(b'"%s":%s' % (name.encode(), value) for name, value in members)
    return b"{%s}" % joined


def page_metadata(facts: PageMetadata) -> dict[str, Any]:
    """Return the metadata object without unknown facts."""
    result: dict[str, Any] = {
        name: value for name, value in facts.other.items() if not _is_reserved(name)
    }
    result.update((camel(name), value) for name, value in facts.known.items())
    ours = {
        "sourceURL": facts.source_url,
        "url": facts.url,
        "statusCode": facts.status_code,
        "scrapeId": facts.scrape_id,
        "sourceScrapeId": facts.source_scrape_id,
        "contentType": facts.content_type,
        "xRobotsTag": facts.robots_tag,
        "sitemapLastmod": facts.sitemap_lastmod,
        "proxyUsed": facts.proxy_used,
        "engine": facts.engine,
        "timezone": facts.time_zone,
        "cacheState": facts.cache_state,
        "cachedAt": None if facts.cached_at is None else iso(facts.cached_at),
        "unchanged": facts.is_unchanged or None,
        "changeStatus": facts.change,
        "creditsUsed": facts.credits_used,
        "answeredBy": facts.answered_by,
        "tokensUsed": facts.tokens_used,
        "numPages": facts.num_pages,
        "totalPages": facts.total_pages,
        "tokenCount": facts.token_count,
        "chunk": facts.chunk,
        "redacted": facts.redacted,
        "losses": facts.losses or None,
        "embeddedUrl": facts.embedded_url,
        "error": facts.error,
        "duplicateOf": facts.duplicate_of,
        "concurrencyLimited": None if facts.queued_ms is None else True,
        "concurrencyQueueDurationMs": facts.queued_ms,
    }
    result.update((name, value) for name, value in ours.items() if value is not None)
    return result


def map_response(found: Map, facts: Mapping[str, Any]) -> bytes:
    """Return the response of a map with the members ``facts``.

    The JSON of its URLs is only joined.
    """
    end = b"," + encode(facts)[1:] if facts else b"}"
    return b'{"success":true,"links":[%s]%s' % (BETWEEN.join(found.slices), end)


_EMPTY = frozenset({b"", b"null", b'""', b"[]", b"{}"})


def search_item(facts: Mapping[str, Any], page: Page | None = None) -> bytes:
    """Return a search result with its page, or with the error of a failed page.

    Keys with None are left out: clients treat a key with null differently.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    if page is None:
        return encode(known)
    if page.failure is not None:
        return encode({**known, "metadata": _failure(page)})
    return encode(known)[:-1] + b"," + page_json(page)[1:]


def has_content(result: Result) -> bool:
    """Return True if a result's page has any requested format."""
    page = result.page
    if page is None or page.failure is not None:
        return False
    return any(value.strip() not in _EMPTY for value in page.values.values())


def failed_search_item(facts: Mapping[str, Any], page: Page) -> bytes:
    """Return a search result whose page has no content."""
    known = {name: value for name, value in facts.items() if value is not None}
    return encode({**known, "metadata": _failure(page)})


def json_array(items: list[bytes]) -> bytes:
    return b"[%s]" % b",".join(items)


def _failure(page: Page) -> dict[str, Any]:
    facts = page.metadata
    error = page.failure.message if page.failure else facts.error
    return {
        # The Python and JS clients accept any number; 0 stands for no response.
        "statusCode": facts.status_code or 0,
        "error": error or "No content found.",
        "proxyUsed": facts.proxy_used,
        "scrapeId": facts.scrape_id,
        "sourceURL": facts.source_url,
    }


# -- jobs --------------------------------------------------------------------------------


def job_state(state: JobState) -> str:
    """Return the name of a state; a queued job is shown as scraping."""
    return "scraping" if state is JobState.QUEUED else state.value


JobStatus: TypeAlias = Annotated[
    str, one_of("scraping", "completed", "failed", "cancelled"), job_state
]
JOB_STARTED: dict[str, ShapeT] = {
    "id": ID,
    "url": said(URL, "The URL of the status."),
    "warning?": TEXT,
}
BATCH_STARTED = old_success(
    {
        **JOB_STARTED,
        "invalidURLs?": said(array(TEXT), "The URLs that were left out."),
    }
)
JOB_STATUS: dict[str, ShapeT] = {
    "status": one_of("scraping", "completed", "failed", "cancelled"),
    "total": said(COUNT, "Pages accepted so far, failed ones too."),
    "completed": said(COUNT, "Pages in data, over all chunks."),
    "creditsUsed": COUNT,
    "expiresAt": TIME,
    "paused?": own(said({"const": True}, "Only while the job is paused.")),
    "pausedAt?": own(TIME),
    "sourceJobId?": own(said(ID, "The job whose stored responses this job reads.")),
    "sinceJobId?": own(said(ID, "The earlier crawl that pages are compared with.")),
    "error?": said(TEXT, "Why the job failed."),
    "next?": said(URL, "The URL of the next chunk."),
    "data": array(ref("Page")),
}
JOB_ERRORS = old_success(
    {
        "errors": array(
            old_shape(
                {"id": ID, "timestamp": TIME, "url": TEXT, "code": TEXT, "error": TEXT}
            )
        ),
        "robotsBlocked": array(TEXT),
    }
)
JOB_CANCELLED = old_success({"status": one_of("cancelled")})
JOB_CHANGED = old_success(
    {
        "id": ID,
        "status": JOB_STATUS["status"],
        "paused": BOOL,
        "options": said(
            old_shape(
                {
                    "limit?": COUNT,
                    "delay": or_null(NUMBER),
                    "maxConcurrency": or_null(COUNT),
                }
            ),
            "The options in force that a change may set.",
        ),
        "effect": said(
            old_shape({"admitted": said(COUNT, "From held to pending.")}),
            "The number of URLs that the change has moved.",
        ),
    }
)
ACTIVE_CRAWLS = old_success(
    {
        "crawls": array(
            old_shape(
                {
                    "id": ID,
                    "teamId": TEXT,
                    "url": TEXT,
                    "created_at": TIME,
                    "options": mapping(ANY),
                }
            )
        )
    }
)

PATHS = {"crawl": "crawl", "batch": "batch/scrape"}


def balance_members(unit: str) -> dict[str, ShapeT]:
    """Return the members of a balance in ``credits`` or ``tokens``, in snake case."""
    return {
        f"remaining_{unit}": INTEGER,
        f"plan_{unit}": INTEGER,
        "billing_period_start": TIME,
        "billing_period_end": TIME,
    }


def job_started(
    job: Job,
    base: str,
    version: str,
    invalid_urls: Iterable[str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the response to the start of a job. ``facts`` are further members."""
    members: dict[str, Any] = {
        "success": True,
        "id": job.id,
        "url": f"{base}/{version}/{PATHS[job.kind]}/{job.id}",
    }
    if invalid_urls is not None:
        members["invalidURLs"] = list(invalid_urls)
    return encode({**members, **(facts or {})})


def job_status(
    job: Job,
    pages: list[bytes],
    bounds: tuple[int | None, ...],
    path: str,
    facts: dict[str, Any],
) -> bytes:
    """Return the status of a job with some of its pages.

    ``bounds`` are ``skip``, ``limit`` and, if it was given, ``maxTokens`` of the request.
    ``path`` is the absolute URL of the status. ``facts`` are members that only the
    version has.
    """
    skip, limit, *tokens = bounds
    members = _job_members(job, facts)
    after = (skip or 0) + len(pages)
    # An empty part after ``skip`` has no ``next``: some clients would follow it in a
    # busy loop while the job runs.
    if job.pages > after or (job.is_active and (pages or skip is None)):
        more = f"&limit={limit}" if limit is not None else ""
        more += "".join(f"&maxTokens={most}" for most in tokens)
        members["next"] = f"{path}?skip={after}{more}"
    return b'%s,"data":[%s]}' % (encode(members)[:-1], b",".join(pages))


def job_snapshot(
    job: Job,
    pages: list[bytes],
    facts: dict[str, Any],
    state: JobState | None = None,
) -> list[bytes]:
    """Return the status of a job without ``next``, in parts to be joined.

    ``state`` replaces the job's own state.
    """
    members = _job_members(job if state is None else evolve(job, state=state), facts)
    with_commas = [part for page in pages for part in (b",", page)][1:]
    return [encode(members)[:-1], b',"data":[', *with_commas, b"]}"]


def _job_members(job: Job, facts: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {
        "success": True,
        "status": job_state(job.state),
        "total": job.total,
        "completed": job.pages,
        "creditsUsed": job.credits,
        "expiresAt": iso(job.expires_at),
        **facts,
    }
    if job.source_job_id is not None:
        members["sourceJobId"] = job.source_job_id
    if (since := job.since) is not None:
        members["sinceJobId"] = since
    if job.paused_at is not None:
        members |= {"paused": True, "pausedAt": iso(job.paused_at)}
    if job.state is JobState.FAILED:
        members["error"] = job_error(job)
    return members


def job_error(job: Job) -> str:
    """Return why a job failed."""
    return job.error or "The job failed."


def job_errors(rows: list[PageErrorRow], robots_blocked: list[str]) -> bytes:
    """Return the failed pages of a job and the URLs that robots.txt disallows."""
    found = list(map(error_members, rows))
    return encode({"success": True, "errors": found, "robotsBlocked": robots_blocked})


def error_members(row: PageErrorRow) -> dict[str, Any]:
    """Return a failed page as :func:`job_errors` lists it."""
    return {
        "id": row.id,
        "timestamp": iso(row.at),
        "url": row.url,
        "code": row.code,
        "error": row.error,
    }


def job_cancelled() -> bytes:
    """Return the response to a cancel."""
    return encode({"success": True, "status": "cancelled"})


JOB_REPROCESSED = old_success(
    {**JOB_STARTED, "sourceJobId": said(ID, "The job whose responses are read.")}
)
JOB_RETRIED = old_success(
    {
        "id": ID,
        "status": JOB_STATUS["status"],
        "retried": said(COUNT, "Pages that are fetched again."),
        "warning?": TEXT,
    }
)


def job_retried(retried: RetriedJob) -> bytes:
    """Return the response to a retry."""
    job = retried.job
    members = {
        "success": True,
        "id": job.id,
        "status": job_state(job.state),
        "retried": retried.retried,
    }
    if retried.warning is not None:
        members["warning"] = retried.warning
    return encode(members)


def job_changed(changed: ChangedJob) -> bytes:
    """Return the response to a change of a job."""
    job = changed.job
    members = {
        "success": True,
        "id": job.id,
        "status": job_state(job.state),
        "paused": job.paused_at is not None,
    }
    return encode({**members, **change_members(asdict(changed.change))})


# The options that callers may change, by attribute.
_CHANGEABLE = {
    option.attribute: option.name("v2")
    for table in (catalogue.CRAWL, catalogue.BATCH)
    for option in table
}


def change_members(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members ``options`` and ``effect`` of a change.

    ``change`` has the fields of a
    :class:`~scraper_service.storage.job_records.JobChange`.
    """
    options = {_CHANGEABLE[name]: value for name, value in change["options"].items()}
    return {"options": options, "effect": change["effect"]}


def active_crawls(
    jobs: list[Job], crawl_names: dict[str, str], page_names: dict[str, str]
) -> bytes:
    """Return the running crawls.

    The names are the version's keys for options of a crawl and of a page. Options
    without a key are left out.
    """
    crawls = []
    for job in jobs:
        options = json.loads(job.options)
        scrape, _ = options.pop("scrape"), options.pop("url")
        spelled = spelled_options(options, crawl_names)
        spelled["scrapeOptions"] = spelled_options(scrape, page_names)
        crawls.append(
            {
                "id": job.id,
                "teamId": job.team_id,
                "url": job.url,
                "created_at": iso(job.created_at),
                "options": spelled,
            }
        )
    return encode({"success": True, "crawls": crawls})


def spelled_options(options: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return stored options as a request spells them.

    ``names`` are the keys of a request by attribute. Options without a key are left out.
    """
    result = {}
    for name, value in options.items():
        key = names.get(name)
        if key is not None and value not in (None, []):
            result[key] = _SPELLINGS.get(key, _as_it_is)(value)
    return result


def _as_it_is(value: Any) -> Any:
    return value


def _typed(values: list[dict[str, Any] | str]) -> list[Any]:
    """Return formats and the like; the name alone for a format without options."""
    spelled: list[Any] = []
    for value in values:
        if isinstance(value, str):
            spelled.append(value)
            continue
        item = {camel(k): v for k, v in value.items() if v is not None and v != ""}
        item["type"] = camel(item["type"])
        spelled.append(item if len(item) > 1 else item["type"])
    return spelled


# Values with another form in bodies than in the options, by key.
_SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "actions": _typed,
    "formats": _typed,
    "headers": dict,
    "ignoreSitemap": lambda sitemap: sitemap == "skip",
    "parsePDF": bool,
    "parsers": _typed,
    "threatProtection": lambda rules: {camel(k): v for k, v in rules.items()},
}
