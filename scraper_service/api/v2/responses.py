"""From the service's results to the JSON of /v2."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scraper_service.api import map_json
from scraper_service.api.application import write
from scraper_service.api.errors import FAILURE_STATUS, Answer, error_body, failed_page
from scraper_service.api.fields.common import wire_names
from scraper_service.api.fields.jobs import CRAWL_FIELDS
from scraper_service.api.page_json import encode, iso, page_json
from scraper_service.api.routes import jobs
from scraper_service.api.search_json import item, joined
from scraper_service.api.v2 import requests
from scraper_service.discovery.map_results import object_row

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.items import Page
    from scraper_service.options.jobs import PageOptions
    from scraper_service.services.mapping import Map
    from scraper_service.services.searching import Result, SearchAnswer
    from scraper_service.storage.job_records import Job, JobState

_CRAWL_NAMES = wire_names({**CRAWL_FIELDS, **requests.CRAWL_FIELDS})
_PAGE_NAMES = wire_names(requests.SCRAPE_FIELDS)
MAP_SHAPE = object_row
BAD_SEARCH = "Invalid request body", None  # interface document, 1.4

# A name that does not resolve is an answer here, with success false (1.5).
STATUS = {**FAILURE_STATUS, "SCRAPE_DNS_RESOLUTION_ERROR": 200}


def scraped(request: JsonRequest, page: Page, options: PageOptions) -> bytes:
    """Answer a scrape: the page, or the error that it failed with."""
    if page.failure:
        return write(request, failed_page(page.failure, STATUS))
    members = [b'"success":true', b'"data":' + page_json(page)]
    if "website" in options.origin:
        members.append(b'"scrape_id":' + encode(page.metadata.scrape_id))
    return b"{%s}" % b",".join(members)


def parsed(request: JsonRequest, page: Page, options: PageOptions) -> bytes:
    """Answer with the page of an uploaded file, as a scrape."""
    if page.failure and page.failure.code == "SCRAPE_UNSUPPORTED_FILE_ERROR":
        answer = error_body(page.failure.message, code="UNSUPPORTED_FILE_TYPE")
        return write(request, Answer(400, answer))
    return scraped(request, page, options)


def mapped(request: JsonRequest, found: Map) -> bytes:
    """Answer a map: its addresses, and what to know of it."""
    if found.failure:
        return write(request, failed_page(found.failure, STATUS))
    return map_json.answer(found, found.warnings)


def searched(found: SearchAnswer) -> bytes:
    """Answer a search: its results by kind of source."""
    groups = [
        encode(kind)
        + b":"
        + joined([item(_facts_of(x, kind), x.page) for x in results])
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
    job: Job, pages: list[bytes], asked: tuple[int | None, int | None], path: str
) -> bytes:
    """Answer the status of a crawl or batch; ``path`` is its absolute address."""
    return jobs.status(job, pages, asked, path, _facts(job))


def snapshot(
    job: Job, pages: list[bytes], state: JobState | None = None
) -> list[bytes]:
    """Return the status of a job for who watches it; see :func:`jobs.snapshot`."""
    return jobs.snapshot(job, pages, _facts(job), state)


def _facts(job: Job) -> dict[str, Any]:
    ended_at = job.completed_at if job.completed_at is not None else time.time()
    facts: dict[str, Any] = {
        "createdAt": iso(job.created_at),
        # Seconds; the clock of a database elsewhere may be ahead of this one.
        "duration": round(max(0.0, ended_at - job.created_at), 3),
    }
    if job.completed_at is not None:
        facts["completedAt"] = iso(job.completed_at)
    if job.warning is not None:
        facts["warning"] = job.warning
    return facts


def active(crawls: list[Job]) -> bytes:
    """Answer the crawls that go on, their options in this version's spelling."""
    return jobs.active(crawls, _CRAWL_NAMES, _PAGE_NAMES)
