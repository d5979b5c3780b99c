"""Results of the service to the JSON of /v2."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from scraper_service.api import responses
from scraper_service.api.errors import (
    FAILURE_STATUS,
)
from scraper_service.api.responses import (
    JobStarted,
    JobStatusJson,
    Scraped,
    balance,
    json_array,
    search_item,
    warning_of,
    with_page,
)
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Seconds,
    Shape,
    Success,
    Time,
    camel,
    encode,
    member,
    ref,
)
from scraper_service.discovery.map_results import object_row
from scraper_service.options import v2_requests as requests
from scraper_service.options.page_requests import wire_names

if TYPE_CHECKING:
    from scraper_service.services.map_search import Map, SearchAnswer
    from scraper_service.storage.job_records import Job


class _Link(JsonObject):
    url: str
    title: Maybe[str]
    description: Maybe[str]


class _Mapped(Success):
    links: list[_Link]
    id: Id
    warning: Maybe[str]


class _WebHit(JsonObject):
    url: str = member(source="hit.url")
    title: str = member(source="hit.title")
    description: str = member(source="hit.description")
    position: int
    category: Maybe[str]


class _NewsHit(JsonObject):
    title: str = member(source="hit.title")
    url: str = member(source="hit.url")
    snippet: str = member(source="hit.description")
    date: str = member(source=lambda result: result.hit.date or "")
    image_url: Maybe[str] = member(source="hit.image_url")
    position: int
    category: Maybe[str]


class _ImageHit(JsonObject):
    title: str = member(source="hit.title")
    image_url: str = member(source="hit.image_url")
    image_width: Maybe[int] = member(source="hit.image_width")
    image_height: Maybe[int] = member(source="hit.image_height")
    url: str = member(source="hit.url")
    position: int


_HITS: dict[str, type[JsonObject]] = {
    "web": _WebHit,
    "news": _NewsHit,
    "images": _ImageHit,
}


class _Groups(JsonObject):
    web: Maybe[list[Annotated[Any, with_page(_WebHit)]]]
    news: Maybe[list[Annotated[Any, with_page(_NewsHit)]]]
    images: Maybe[list[_ImageHit]]


class _ScrapeIds(JsonObject):
    web: Maybe[list[Id]]
    news: Maybe[list[Id]]


class _Searched(Success):
    data: _Groups
    id: Id
    credits_used: int
    scrape_ids: Maybe[_ScrapeIds]
    warning: Maybe[str]


class _Started(JobStarted):
    prompt_generated_options: Maybe[dict[str, Any]]
    final_crawler_options: Maybe[dict[str, Any]]


def _duration(job: Job) -> float:
    ended_at = job.completed_at if job.completed_at is not None else time.time()
    # The clock of a remote database may be ahead of this one.
    return max(0.0, ended_at - job.created_at)


class _Status(JobStatusJson):
    created_at: Time
    completed_at: Maybe[Time]
    duration: Seconds = member("Seconds.", source=_duration)
    warning: Maybe[str]


# A host name that does not resolve is an error with status 200.
SCRAPED = Shape(anyOf=[Scraped.shape, ref("Error")])
MAPPED = Shape(anyOf=[_Mapped.shape, ref("Error")])
SEARCHED, STARTED, JOB_STATUS = _Searched, _Started, _Status
CREDITS, TOKENS = balance("credits", camel), balance("tokens", camel)

CRAWL_NAMES = wire_names(requests.CRAWL_KEYS)
PAGE_NAMES = wire_names(requests.SCRAPE_KEYS)
SPELLINGS = responses.SPELLINGS
MAP_SHAPE = object_row
BAD_SEARCH = "Invalid request body", None

# A host that does not resolve is a response with success false and status 200.
STATUS = {**FAILURE_STATUS, "SCRAPE_DNS_RESOLUTION_ERROR": 200}


def map_response(found: Map) -> bytes:
    """Return the response to a map: its URLs and warnings."""
    return responses.map_response(
        found, {"id": found.id, **warning_of(*found.warnings)}
    )


def search_response(found: SearchAnswer) -> bytes:
    """Return the response to a search: its results by kind of source."""
    groups = [
        encode(kind)
        + b":"
        + json_array([search_item(_HITS[kind].of(x), x.page) for x in results])
        for kind, results in found.groups.items()
    ]
    more: dict[str, Any] = {"id": found.id, "creditsUsed": found.credits_used}
    if found.scrape_ids is not None:
        more["scrapeIds"] = found.scrape_ids
    if found.warnings:
        more["warning"] = " ".join(found.warnings)
    data = b"{%s}" % b",".join(groups)
    return b'{"success":true,"data":%s,%s' % (data, encode(more)[1:])
