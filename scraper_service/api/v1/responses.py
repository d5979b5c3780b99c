"""From the service's results to the JSON of /v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api import map_json
from scraper_service.api.application import write
from scraper_service.api.errors import FAILURE_STATUS, failed_page
from scraper_service.api.fields.common import wire_names
from scraper_service.api.fields.jobs import CRAWL_FIELDS
from scraper_service.api.page_json import encode, page_json
from scraper_service.api.routes import jobs
from scraper_service.api.search_json import failed_item, has_content, item, joined
from scraper_service.api.v1 import requests
from scraper_service.discovery.map_results import address_row

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.items import Page
    from scraper_service.options.jobs import PageOptions
    from scraper_service.services.mapping import Map
    from scraper_service.services.searching import Result, SearchAnswer
    from scraper_service.storage.job_records import Job, JobState

_CRAWL_NAMES = wire_names({**CRAWL_FIELDS, **requests.CRAWL_FIELDS}) | {
    "crawl_entire_domain": "allowBackwardLinks"
}
_PAGE_NAMES = wire_names(requests.SCRAPE_FIELDS)
MAP_SHAPE = address_row
BAD_SEARCH = "Bad Request", "BAD_REQUEST"
NO_RESULTS = "No search results found"  # interface document, 14.3
NO_CONTENT = "No content found in search results"


def scraped(request: JsonRequest, page: Page, options: PageOptions) -> bytes:
    """Answer a scrape: the page, or the error that it failed with."""
    if page.failure:
        return write(request, failed_page(page.failure, FAILURE_STATUS))
    members = [b'"success":true', b'"data":' + page_json(page)]
    if "website" in options.origin:
        members.append(b'"scrape_id":' + encode(page.metadata.scrape_id))
    return b"{%s}" % b",".join(members)


def mapped(request: JsonRequest, found: Map) -> bytes:
    """Answer a map: its addresses."""
    if found.failure:
        return write(request, failed_page(found.failure, FAILURE_STATUS))
    return map_json.answer(found)


def searched(found: SearchAnswer) -> bytes:
    """Answer a search: one list. Results whose pages have nothing to show are left out.

    Unless that would be all of them.
    """
    results = found.groups.get("web", ())
    warnings = list(found.warnings)
    if not found.is_scraped:
        items = [item(_facts_of(result)) for result in results]
    else:
        kept = [result for result in results if has_content(result)]
        items = [item(_facts_of(result), result.page) for result in kept]
        if results and not kept:
            warnings.insert(0, NO_CONTENT)
            items = [failed_item(_facts_of(x), x.page) for x in results if x.page]
    if not results:
        warnings.insert(0, NO_RESULTS)
    if len(warnings) > 1 and warnings[0] in {NO_RESULTS, NO_CONTENT}:
        warnings[0] += "."
    more: dict[str, Any] = {"id": found.id, "creditsUsed": found.credits_used}
    if warnings:
        more["warning"] = " ".join(warnings)
    return b'{"success":true,"data":%s,%s' % (joined(items), encode(more)[1:])


def _facts_of(result: Result) -> dict[str, Any]:
    hit = result.hit
    return {"url": hit.url, "title": hit.title, "description": hit.description}


def status(
    job: Job, pages: list[bytes], asked: tuple[int | None, int | None], path: str
) -> bytes:
    """Answer the status of a crawl or batch; ``path`` is its absolute address."""
    return jobs.status(job, pages, asked, path, {})


def snapshot(
    job: Job, pages: list[bytes], state: JobState | None = None
) -> list[bytes]:
    """Return the status of a job for who watches it; see :func:`jobs.snapshot`."""
    return jobs.snapshot(job, pages, {}, state)


def active(crawls: list[Job]) -> bytes:
    """Answer the crawls that go on, their options in this version's spelling."""
    return jobs.active(crawls, _CRAWL_NAMES, _PAGE_NAMES)
