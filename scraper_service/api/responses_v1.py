"""Results of the service to the JSON of /v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from scraper_service.api import responses
from scraper_service.api.errors import FAILURE_STATUS
from scraper_service.api.requests import v1 as requests
from scraper_service.api.responses import (
    JobStarted,
    JobStatusJson,
    Scraped,
    SpellingsT,
    balance,
    failed_search_item,
    has_content,
    json_array,
    search_item,
    with_page,
)
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Success,
    encode,
)
from scraper_service.discovery.map_results import address_row
from scraper_service.options.page_requests import wire_names

if TYPE_CHECKING:
    from scraper_service.services.map_search import Map, Result, SearchAnswer


class _Hit(JsonObject):
    url: str
    title: str
    description: str


class _Mapped(Success):
    links: list[str]
    warning: Maybe[str]


class _Searched(Success):
    data: list[Annotated[Any, with_page(_Hit)]]
    id: Id
    credits_used: int
    warning: Maybe[str]


SCRAPED, MAPPED, SEARCHED = Scraped, _Mapped, _Searched
STARTED, JOB_STATUS = JobStarted, JobStatusJson
CREDITS, TOKENS = balance("credits", str), balance("tokens", str)

CRAWL_NAMES = wire_names(requests.CRAWL_KEYS) | {
    "crawl_entire_domain": "allowBackwardLinks"
}
PAGE_NAMES = wire_names(requests.SCRAPE_KEYS)
SPELLINGS: SpellingsT = {
    **responses.SPELLINGS,
    "parsers": bool,
    "sitemap": lambda mode: mode == "skip",
}
MAP_SHAPE = address_row
BAD_SEARCH = "Bad Request", "BAD_REQUEST"
STATUS = FAILURE_STATUS
NO_RESULTS = "No search results found"
NO_CONTENT = "No content found in search results"


def map_response(found: Map) -> bytes:
    """Return the response to a map: its URLs."""
    return responses.map_response(found, {})


def search_response(found: SearchAnswer) -> bytes:
    """Return the response to a search: one list.

    Results without content are left out, unless all results are without content.
    """
    results = found.groups.get("web", ())
    warnings = list(found.warnings)
    if not found.is_scraped:
        items = [search_item(_facts_of(result)) for result in results]
    else:
        kept = [result for result in results if has_content(result)]
        items = [search_item(_facts_of(result), result.page) for result in kept]
        if results and not kept:
            warnings.insert(0, NO_CONTENT)
            items = [
                failed_search_item(_facts_of(x), x.page) for x in results if x.page
            ]
    if not results:
        warnings.insert(0, NO_RESULTS)
    if len(warnings) > 1 and warnings[0] in {NO_RESULTS, NO_CONTENT}:
        warnings[0] += "."
    more: dict[str, Any] = {"id": found.id, "creditsUsed": found.credits_used}
    if warnings:
        more["warning"] = " ".join(warnings)
    return b'{"success":true,"data":%s,%s' % (json_array(items), encode(more)[1:])


def _facts_of(result: Result) -> dict[str, Any]:
    hit = result.hit
    return {"url": hit.url, "title": hit.title, "description": hit.description}
