"""Results of the service to the JSON of /v2."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scraper_service.api import responses
from scraper_service.api.application import warned, write
from scraper_service.api.errors import (
    FAILURE_STATUS,
    ErrorResponse,
    error_body,
    failed_page,
)
from scraper_service.api.openapi.page_shapes import RESULT_MEMBERS
from scraper_service.api.responses import (
    active_crawls,
    job_snapshot,
    job_status,
    json_array,
    page_json,
    search_item,
)
from scraper_service.api.schemas import (
    ANY,
    COUNT,
    ID,
    NUMBER,
    TEXT,
    TIME,
    array,
    camel,
    either,
    encode,
    iso,
    mapping,
    old_shape,
    old_success,
    ref,
    said,
)
from scraper_service.discovery.map_results import object_row
from scraper_service.options.requests import body_v2 as requests
from scraper_service.options.requests.pages import wire_names

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.items import Page
    from scraper_service.options.crawl import PageOptions
    from scraper_service.services.mapping import Map
    from scraper_service.services.searching import Result, SearchAnswer
    from scraper_service.storage.job_records import Job, JobState

SCRAPED = either(
    old_success({"data": ref("Page"), "scrape_id?": ID}),
    # The host name does not resolve.
    ref("Error"),
)
MAPPED = either(
    old_success(
        {
            "links": array(
                old_shape({"url": TEXT, "title?": TEXT, "description?": TEXT})
            ),
            "id": ID,
            "warning?": TEXT,
        }
    ),
    ref("Error"),
)
_WEB = {"url": TEXT, "title": TEXT, "description": TEXT, "position": COUNT}
_NEWS = {
    "url": TEXT,
    "title": TEXT,
    "snippet": TEXT,
    "date": TEXT,
    "imageUrl?": TEXT,
    "position": COUNT,
}
_IMAGE = {
    "title": TEXT,
    "imageUrl": TEXT,
    "imageWidth?": COUNT,
    "imageHeight?": COUNT,
    "url": TEXT,
    "position": COUNT,
}
SEARCHED = old_success(
    {
        "data": old_shape(
            {
                "web?": array(old_shape({**RESULT_MEMBERS, **_WEB, "category?": TEXT})),
                "news?": array(
                    old_shape({**RESULT_MEMBERS, **_NEWS, "category?": TEXT})
                ),
                "images?": array(old_shape(_IMAGE)),
            }
        ),
        "id": ID,
        "creditsUsed": COUNT,
        "scrapeIds?": old_shape({"web?": array(ID), "news?": array(ID)}),
        "warning?": TEXT,
    }
)
STARTED = old_success(
    {
        **responses.JOB_STARTED,
        "promptGeneratedOptions?": mapping(ANY),
        "finalCrawlerOptions?": mapping(ANY),
    }
)
JOB_STATUS = old_success(
    {
        **responses.JOB_STATUS,
        "createdAt": TIME,
        "completedAt?": TIME,
        "duration": said(NUMBER, "Seconds."),
        "warning?": TEXT,
    }
)
CREDITS, TOKENS = (
    old_success(
        {
            "data": old_shape(
                {camel(k): v for k, v in responses.balance_members(unit).items()}
            )
        }
    )
    for unit in ("credits", "tokens")
)

_CRAWL_NAMES = wire_names(requests.CRAWL_KEYS)
_PAGE_NAMES = wire_names(requests.SCRAPE_KEYS)
MAP_SHAPE = object_row
BAD_SEARCH = "Invalid request body", None

# A host that does not resolve is a response with success false and status 200.
STATUS = {**FAILURE_STATUS, "SCRAPE_DNS_RESOLUTION_ERROR": 200}


def scraped(request: JsonRequest, page: Page, options: PageOptions) -> bytes:
    """Return the response to a scrape: the page, or its error."""
    if page.failure:
        return write(request, failed_page(page.failure, STATUS))
    members = [b'"success":true', b'"data":' + page_json(page)]
    if "website" in options.origin:
        members.append(b'"scrape_id":' + encode(page.metadata.scrape_id))
    return b"{%s}" % b",".join(members)


def parsed(request: JsonRequest, page: Page, options: PageOptions) -> bytes:
    """Return the response to an uploaded file: that of a scrape."""
    if page.failure and page.failure.code == "SCRAPE_UNSUPPORTED_FILE_ERROR":
        answer = error_body(page.failure.message, code="UNSUPPORTED_FILE_TYPE")
        return write(request, ErrorResponse(400, answer))
    return scraped(request, page, options)


def mapped(request: JsonRequest, found: Map) -> bytes:
    """Return the response to a map: its URLs and warnings."""
    if found.failure:
        return write(request, failed_page(found.failure, STATUS))
    return responses.map_response(found, {"id": found.id, **warned(*found.warnings)})


def searched(found: SearchAnswer) -> bytes:
    """Return the response to a search: its results by kind of source."""
    groups = [
        encode(kind)
        + b":"
        + json_array([search_item(_facts_of(x, kind), x.page) for x in results])
        for kind, results in found.groups.items()
    ]
    more: dict[str, Any] = {"id": found.id, "creditsUsed": found.credits_used}
    if found.scrape_ids is not None:
        more["scrapeIds"] = found.scrape_ids
    if found.warnings:
        more["warning"] = " ".join(found.warnings)
    data = b"{%s}" % b",".join(groups)
    return b'{"success":true,"data":%s,%s' % (data, encode(more)[1:])


def _facts_of(result: Result, kind: str) -> dict[str, Any]:
    hit, position = result.hit, result.position
    if kind == "images":
        return {
            "title": hit.title,
            "imageUrl": hit.image_url,
            "imageWidth": hit.image_width,
            "imageHeight": hit.image_height,
            "url": hit.url,
            "position": position,
        }
    if kind == "news":
        return {
            "title": hit.title,
            "url": hit.url,
            "snippet": hit.description,
            "date": hit.date or "",
            "imageUrl": hit.image_url,
            "position": position,
            "category": result.category,
        }
    return {
        "url": hit.url,
        "title": hit.title,
        "description": hit.description,
        "position": position,
        "category": result.category,
    }


def status(
    job: Job, pages: list[bytes], bounds: tuple[int | None, ...], path: str
) -> bytes:
    """Return the status of a crawl or batch; ``path`` is its absolute URL."""
    return job_status(job, pages, bounds, path, _facts(job))


def snapshot(
    job: Job, pages: list[bytes], state: JobState | None = None
) -> list[bytes]:
    """Return the status of a job for streams.

    See :func:`~scraper_service.api.responses.job_snapshot`.
    """
    return job_snapshot(job, pages, _facts(job), state)


def _facts(job: Job) -> dict[str, Any]:
    ended_at = job.completed_at if job.completed_at is not None else time.time()
    facts: dict[str, Any] = {
        "createdAt": iso(job.created_at),
        # Seconds. The clock of a remote database may be ahead of this one.
        "duration": round(max(0.0, ended_at - job.created_at), 3),
    }
    if job.completed_at is not None:
        facts["completedAt"] = iso(job.completed_at)
    if job.warning is not None:
        facts["warning"] = job.warning
    return facts


def active(crawls: list[Job]) -> bytes:
    """Return the active crawls with the names of their options in this version."""
    return active_crawls(crawls, _CRAWL_NAMES, _PAGE_NAMES)
