"""The URLs of a job, its report and its events: additions to /v2.

Every number is of this job, over all processes and restarts. Times are in seconds, sizes
in bytes as they were sent. Counts of another process may be a second old.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

from scraper_service.api.events import LAST_EVENT, LAST_EVENT_ID, SentEvent, follow
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    ChoiceParameter,
    ChoicesParameter,
    CursorParameter,
    NumberParameter,
    parse_job_id,
)
from scraper_service.api.responses import JobStatus
from scraper_service.api.routing import Routes, of_jobs
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Seconds,
    Success,
    Url,
    json_object,
    member,
    one_of,
)
from scraper_service.content.metadata.dates import utc_time
from scraper_service.crawling.politeness.host_limits import MAX_CRAWL_DELAY_S, pace_key
from scraper_service.discovery.outgoing_requests import MAX_PAUSE_S
from scraper_service.discovery.scope_rules import Reason
from scraper_service.discovery.sitemap import ABSENT, UNREADABLE
from scraper_service.errors import FAILURE_CODES, JobNotFound, QueueFull, SchemaRefused
from scraper_service.items import LOSS_KINDS, REMOVED, UNCHANGED
from scraper_service.options import v2_requests as requests
from scraper_service.options.formats import Json
from scraper_service.options.jobs import options_from_json
from scraper_service.options.json_schema import field_of
from scraper_service.options.limits import Mode
from scraper_service.options.page_requests import wire_names
from scraper_service.storage.frontier.job_counts import with_empty_fields
from scraper_service.storage.job_records import RowState
from scraper_service.storage.jobs.job_urls import STATES, Cursor, UrlQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.api.events import EventStream
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.options.json_schema import Field
    from scraper_service.services.jobs import CrawlReport
    from scraper_service.storage.frontier.job_counts import RobotsRow
    from scraper_service.storage.jobs.job_urls import Listing

MAX_ADDRESSES = 1000  # in one response
DEFAULT_ADDRESSES = 100
MAX_SKIPPED = 10**9

_STATES = tuple(dict.fromkeys(STATES.values()))
_STATE = ChoiceParameter("state", "Only URLs in this state.", _STATES)
_REASON = ChoiceParameter(
    "reason",
    "Only URLs that were refused or failed for this.",
    (*Reason, UNCHANGED, REMOVED, *FAILURE_CODES, ABSENT, UNREADABLE),
)
_LOSS = ChoicesParameter(
    "loss", "Only pages that lost a part of this kind; may be repeated.", (*LOSS_KINDS,)
)
_SKIP = NumberParameter("skip", "Leave out the first N URLs.", 0, MAX_SKIPPED, 0)
_LIMIT = NumberParameter(
    "limit", "At most N URLs.", 1, MAX_ADDRESSES, DEFAULT_ADDRESSES
)
_AFTER = CursorParameter(
    "after", "the value in next", re.compile(r"([0-7])\.([0-9]{1,18})")
)

# Options of politeness and scope. A batch has few of them.
OPTIONS = (
    *("delay_s", "max_concurrency", "limit", "sitemap"),
    *("ignore_robots_txt", "robots_user_agent", "obey_nofollow"),
    *("max_discovery_depth", "crawl_entire_domain"),
    *("allow_subdomains", "allow_external_links", "include_paths", "exclude_paths"),
    *("regex_on_full_url", "deduplicate_similar_urls", "ignore_query_parameters"),
)
_names = wire_names(requests.CRAWL_KEYS)
_OPTIONS = {name: _names[name] for name in OPTIONS}


_Counts: TypeAlias = dict[str, int]


class JobUrlJson(JsonObject):
    """A URL of a job."""

    url: str
    kind: Literal["page", "sitemap", "robots"]
    state: Annotated[str, one_of(*_STATES)]
    reason: Maybe[str]
    detail: Maybe[str]
    depth: int
    found_on: Maybe[str]
    scrape_id: Maybe[Id] = member(source="page_id")
    last_modified: Maybe[str] = member(
        source=lambda url: url.lastmod and utc_time(url.lastmod)
    )
    losses: Maybe[list[Annotated[str, one_of(*LOSS_KINDS)]]] = member(
        "Kinds of its losses.", source=lambda url: url.losses or None
    )


class _Urls(Success):
    total: int = member("All URLs of the query.")
    urls: list[JobUrlJson]
    next: Maybe[Url]


class _Removed(Success):
    since_job_id: Id = member("The earlier crawl.", source="since")
    is_complete: bool = member(
        "False while the crawl runs, and if it did not end by itself.",
        source="is_whole",
    )
    unchanged: int = member("Pages that are the same as before.")
    total: int
    urls: list[Url]


def _crawl_delay(row: RobotsRow) -> float | None:
    return (row.seen and row.seen.crawl_delay_s) or None


def _applied_delay(row: RobotsRow) -> float | None:
    delay_s = _crawl_delay(row)
    return delay_s and min(delay_s, MAX_CRAWL_DELAY_S)


class _Robots(JsonObject):
    """A robots.txt.

    ``state`` is ``ok``, ``absent`` or ``unreadable`` (all URLs are allowed), or
    ``unreachable`` (all are refused), and ``detail`` is the reason. ``agent`` is the
    matching group; it is missing without a match or if robots.txt is ignored.
    ``crawl_delay`` is the value in the file, ``crawl_delay_applied`` the delay in use.
    ``refused`` counts URLs of the job.
    """

    url: str
    host: str = member(source=lambda row: pace_key(row.url))
    state: Maybe[Literal["ok", "absent", "unreadable", "unreachable"]] = member(
        source="seen.state"
    )
    detail: Maybe[str] = member(
        source=lambda row: (row.seen and row.seen.detail) or None
    )
    agent: Maybe[str] = member(source="seen.agent")
    crawl_delay: Maybe[float] = member(source=_crawl_delay)
    crawl_delay_applied: Maybe[float] = member(source=_applied_delay)
    refused: int


class _Delay(JsonObject):
    source: str
    seconds: Seconds
    requests: int


class _Host(JsonObject):
    """The counts of a host. Scheme and ``www.`` do not make another host.

    ``peak_rate`` is the most requests started in a second, ``peak_in_flight`` the most at
    a time. ``wait_seconds`` is the sum over requests. ``answers`` counts responses by
    status, ``timeout`` and ``failed``. ``backoffs`` counts slowdowns by status,
    ``timeout`` or ``latency``. ``delays`` are by source: ``delay`` (the option),
    ``crawlDelay`` (robots.txt), ``retryAfter``, ``backoff`` (a 429 or 503 without
    Retry-After), ``adaptive`` (the service's own gap); ``seconds`` is the longest.
    ``window`` (requests at a time) and ``gap_seconds`` are present values for all jobs.
    """

    host: str
    requests: int
    bytes: int
    peak_rate: int
    peak_in_flight: int
    wait_seconds: Seconds = member(source="wait_s")
    answers: _Counts
    backoffs: _Counts
    delays: list[_Delay] = member(
        source=lambda counts: [
            {"source": source, "seconds": longest_s, "requests": times}
            for source, (times, longest_s) in counts.delays.items()
        ]
    )
    window: float
    gap_seconds: Seconds


def _hosts(report: CrawlReport) -> Iterator[dict[str, Any]]:
    for name, counts in report.facts.hosts.items():
        now = report.pace.report(name)
        yield _Host.of(counts, host=name, window=now.window, gap_seconds=now.gap_s)


class _Data(JsonObject):
    pages: int = member("Pages with data by a schema or prompt.", source="with_data")
    fields: _Counts = member("How many of these have a value, by field.")


class _Quality(JsonObject):
    """The counts of delivered pages.

    ``duplicates`` counts URLs that were the same page as another one. ``data`` is there
    if the pages have data: ``pages`` with data, and in ``fields`` how many of them have
    a value. All fields of the schema are listed, ``offer.price`` for nested ones.
    """

    pages: int = member("The delivered pages that were counted.")
    statuses: _Counts = member("By the status of the site.")
    depths: _Counts = member("By the number of links from the start.")
    verdicts: _Counts = member("By metadata.verdict.")
    duplicates: int = member("URLs that are the same page as another.")
    data: Maybe[_Data]


_Loss: TypeAlias = Annotated[Any, json_object(pages=int, count=int)]


class _Totals(JsonObject):
    hosts: int
    requests: int
    bytes: int
    wait_seconds: Seconds = member(source="wait_s")


class _Limits(JsonObject):
    host_concurrency: int = member(
        source=lambda found: found.getint("HOST_CONCURRENCY")
    )
    job_concurrency: int = member(source=lambda found: found.getint("JOB_CONCURRENCY"))
    max_crawl_delay_seconds: float = member(source=lambda _: MAX_CRAWL_DELAY_S)
    max_pause_seconds: float = member(source=lambda _: MAX_PAUSE_S)
    user_agent: str = member(source=lambda found: str(found["USER_AGENT"]))


class _Report(Success):
    """The report of a job.

    ``addresses`` counts all URLs by state, ``reasons`` those with a reason, as in
    ``/urls``. ``sitemaps`` has ``files``, how many were ``read`` and ``failed``, and
    ``reasons`` of failures. ``totals`` are sums over all hosts. ``robots`` and ``hosts``
    are lists, each with at most 1000 elements: those with most refused URLs or requests.
    """

    id: Id = member(source="facts.job.id")
    status: JobStatus = member(source="facts.job.state")
    addresses: _Counts = member(source="facts.states")
    reasons: _Counts = member(source="facts.reasons")
    sitemaps: Annotated[
        Any, json_object(files=int, read=int, failed=int, reasons=_Counts)
    ] = member(source="facts.sitemaps")
    robots: list[_Robots] = member(source="facts.robots")
    hosts: list[_Host] = member(source=_hosts)
    quality: _Quality
    losses: Maybe[dict[str, _Loss]] = member(
        "By kind: pages with such a loss, and the sum of their counts.",
        source=lambda report: report.facts.counts.losses or None,
    )
    totals: _Totals = member(source="facts.totals")
    stats: dict[str, float] = member(
        "Scrapy's stats, summed over its crawlers.", source="facts.stats"
    )
    options: dict[str, Any] = member("Those of the job about scope and pace.")
    limits: _Limits = member(source="settings")


class CrawlReportRoutes(Routes):
    """What a crawl or batch did with each URL and each host."""

    common_errors = (JobNotFound,)
    are_own = True

    @Route(
        of_jobs("GET", "/urls"),
        returns=_Urls,
        parameters=(_STATE, _REASON, _LOSS, _SKIP, _LIMIT, _AFTER),
    )
    async def urls(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the URLs of a job, and why each was fetched or not."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _url_query(request)
        found = await self.services.jobs.urls(parse_job_id(job_id), team, query)
        return _list_response(found, query, self.url_of(request))

    @Route("GET /crawl/<job_id>/removed", returns=_Removed, parameters=(_SKIP, _LIMIT))
    async def removed_urls(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the URLs that a crawl with the option since has not found any more."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = await self.services.jobs.read_removed(
            parse_job_id(job_id), team, _SKIP.read(request), _LIMIT.read(request)
        )
        return _Removed.to_json(found)

    @Route(of_jobs("GET", "/report"), returns=_Report)
    async def report(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the politeness and scope report of a job."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = parse_job_id(job_id)
        return await self.services.jobs.report(found, team, report_response)

    @Route(
        of_jobs("GET", "/events"),
        returns={**SentEvent.shape, "description": "Each event of the stream."},
        parameters=(LAST_EVENT, LAST_EVENT_ID),
        errors=(QueueFull,),
        media=("text/event-stream",),
    )
    async def events(self, request: JsonRequest, job_id: str) -> EventStream:
        """Follow the events of a job."""
        return await follow(self.api, request, job_id)


def _url_query(request: JsonRequest) -> UrlQuery:
    """Return the filters and paging of a query. Raises :exc:`InvalidParameter`."""
    after = _AFTER.read(request)
    return UrlQuery(
        state=_STATE.read(request),
        reason=_REASON.read(request),
        losses=_LOSS.read_all(request),
        after=after and Cursor(RowState(int(after[1])), int(after[2])),
        skip=_SKIP.read(request),
        limit=_LIMIT.read(request),
    )


def _list_response(found: Listing, query: UrlQuery, path: str) -> bytes:
    """Return a part of the list. ``path`` is the absolute URL of the list."""
    following = None
    if (after := found.next) is not None:
        facts = (
            ("state", query.state),
            ("reason", query.reason),
            *(("loss", kind) for kind in query.losses),
            ("limit", query.limit),
            ("after", f"{after.state:d}.{after.row_id}"),
        )
        terms = (f"{k}={quote(str(v))}" for k, v in facts if v is not None)
        following = f"{path}?{'&'.join(terms)}"
    return _Urls.to_json(found, next=following)


def report_response(report: CrawlReport) -> bytes:
    """Return the report as JSON."""
    facts = report.facts
    options = json.loads(facts.job.options)
    data, schema = None, _schema(facts.job.kind, options)
    if facts.counts.with_data or schema is not None:
        fields = with_empty_fields(facts.counts, schema)
        data = _Data.of(facts.counts, fields=fields)
    duplicates = facts.reasons.get("duplicate", 0)
    return _Report.to_json(
        report,
        quality=_Quality.of(facts.counts, duplicates=duplicates, data=data),
        options={_OPTIONS[k]: v for k, v in options.items() if k in _OPTIONS},
    )


def _schema(kind: str, options: dict[str, Any]) -> Field | None:
    """Return the fields of the schema of a job, None without one."""
    wanted = options_from_json(kind, options).scrape.format(Json)
    if wanted is None or wanted.schema is None:
        return None
    try:
        return field_of(wanted.schema)
    except SchemaRefused:  # rules of a later version
        return None
