"""The URLs of a job, its report and its events: additions to /v2.

Every number is of this job, over all processes and restarts. Times are in seconds, sizes
in bytes as they were sent. Counts of another process may be a second old.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from attrs import asdict

from scraper_service.api.openapi.described import Described
from scraper_service.api.parameters import (
    ChoiceParameter,
    ChoicesParameter,
    CursorParameter,
    NumberParameter,
    parse_job_id,
)
from scraper_service.api.responses import job_state
from scraper_service.api.schemas import (
    ANY,
    BOOL,
    COUNT,
    ID,
    NUMBER,
    TEXT,
    URL,
    array,
    encode,
    mapping,
    old_shape,
    old_success,
    one_of,
    said,
)
from scraper_service.api.streams import server_sent_events
from scraper_service.api.version import Routes
from scraper_service.api.webhook_payloads import SENT_EVENT
from scraper_service.content.text.w3c_times import utc_time
from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.crawling.politeness.host_turns import MAX_CRAWL_DELAY_S
from scraper_service.discovery.retry_after import MAX_PAUSE_S
from scraper_service.discovery.scope_rules import Reason
from scraper_service.discovery.sitemap import ABSENT, UNREADABLE
from scraper_service.errors import FAILURE_CODES, JobNotFound, QueueFull, SchemaRefused
from scraper_service.items import LOSS_KINDS, REMOVED, UNCHANGED
from scraper_service.options.formats import Json
from scraper_service.options.json_schema import field_of
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.requests import body_v2 as requests
from scraper_service.options.requests.pages import wire_names
from scraper_service.options.serialization import options_from_json
from scraper_service.storage.frontier.page_counts import with_empty_fields
from scraper_service.storage.job_records import RowState
from scraper_service.storage.jobs.job_listing import STATES, Cursor, UrlQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.streams.server_sent_events import EventStream
    from scraper_service.api.version import RouteT
    from scraper_service.crawling.politeness.host_limits import Host
    from scraper_service.options.json_schema import Field
    from scraper_service.services.jobs import CrawlReport
    from scraper_service.storage.jobs.job_listing import JobUrl, Listing
    from scraper_service.storage.politeness.crawl_reports import JobReport
    from scraper_service.storage.politeness.request_counts import HostCounts, RobotsRow

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


_LISTED = old_success(
    {
        "total": said(COUNT, "All URLs of the query."),
        "urls": array(
            old_shape(
                {
                    "url": TEXT,
                    "kind": one_of("page", "sitemap", "robots"),
                    "state": one_of(*_STATES),
                    "reason?": TEXT,
                    "detail?": TEXT,
                    "depth": COUNT,
                    "foundOn?": TEXT,
                    "scrapeId?": ID,
                    "lastModified?": TEXT,
                    "losses?": said(array(one_of(*LOSS_KINDS)), "Kinds of its losses."),
                }
            )
        ),
        "next?": URL,
    }
)
_COUNTS = mapping(COUNT)
_REPORTED = old_success(
    {
        "id": ID,
        "status": one_of("scraping", "completed", "failed", "cancelled"),
        "addresses": _COUNTS,
        "reasons": _COUNTS,
        "sitemaps": old_shape(
            {"files": COUNT, "read": COUNT, "failed": COUNT, "reasons": _COUNTS}
        ),
        "robots": array(
            old_shape(
                {
                    "url": TEXT,
                    "host": TEXT,
                    "state?": one_of("ok", "absent", "unreadable", "unreachable"),
                    "detail?": TEXT,
                    "agent?": TEXT,
                    "crawlDelay?": NUMBER,
                    "crawlDelayApplied?": NUMBER,
                    "refused": COUNT,
                }
            )
        ),
        "hosts": array(
            old_shape(
                {
                    "host": TEXT,
                    "requests": COUNT,
                    "bytes": COUNT,
                    "peakRate": COUNT,
                    "peakInFlight": COUNT,
                    "waitSeconds": NUMBER,
                    "answers": _COUNTS,
                    "backoffs": _COUNTS,
                    "delays": array(
                        old_shape(
                            {"source": TEXT, "seconds": NUMBER, "requests": COUNT}
                        )
                    ),
                    "window": NUMBER,
                    "gapSeconds": NUMBER,
                }
            )
        ),
        "quality": old_shape(
            {
                "pages": said(COUNT, "The delivered pages that were counted."),
                "statuses": said(_COUNTS, "By the status of the site."),
                "depths": said(_COUNTS, "By the number of links from the start."),
                "verdicts": said(_COUNTS, "By metadata.verdict."),
                "duplicates": said(COUNT, "URLs that are the same page as another."),
                "data?": old_shape(
                    {
                        "pages": said(COUNT, "Pages with data by a schema or prompt."),
                        "fields": said(
                            _COUNTS, "How many of these have a value, by field."
                        ),
                    }
                ),
            }
        ),
        "losses?": said(
            mapping(old_shape({"pages": COUNT, "count": COUNT})),
            "By kind: pages with such a loss, and the sum of their counts.",
        ),
        "totals": old_shape(
            {"hosts": COUNT, "requests": COUNT, "bytes": COUNT, "waitSeconds": NUMBER}
        ),
        "stats": said(mapping(NUMBER), "Scrapy's stats, summed over its crawlers."),
        "options": said(mapping(ANY), "Those of the job about scope and pace."),
        "limits": old_shape(
            {
                "hostConcurrency": COUNT,
                "jobConcurrency": COUNT,
                "maxCrawlDelaySeconds": NUMBER,
                "maxPauseSeconds": NUMBER,
                "userAgent": TEXT,
            }
        ),
    }
)


_REMOVED = old_success(
    {
        "sinceJobId": said(ID, "The earlier crawl."),
        "isComplete": said(
            BOOL, "False while the crawl runs, and if it did not end by itself."
        ),
        "unchanged": said(COUNT, "Pages that are the same as before."),
        "total": COUNT,
        "urls": array(URL),
    }
)


class CrawlReportRoutes(Routes):
    """What a crawl or batch did with each URL and each host."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/crawl/<job_id>/urls", KeyScope.READ, self.urls),
            ("GET", "/batch/scrape/<job_id>/urls", KeyScope.READ, self.urls),
            ("GET", "/crawl/<job_id>/removed", KeyScope.READ, self.removed),
            ("GET", "/crawl/<job_id>/report", KeyScope.READ, self.report),
            ("GET", "/batch/scrape/<job_id>/report", KeyScope.READ, self.report),
            ("GET", "/crawl/<job_id>/events", KeyScope.READ, self.events),
            ("GET", "/batch/scrape/<job_id>/events", KeyScope.READ, self.events),
        )

    @Described(
        returns=_LISTED,
        parameters=(_STATE, _REASON, _LOSS, _SKIP, _LIMIT, _AFTER),
        errors=(JobNotFound,),
        is_own=True,
    )
    async def urls(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the URLs of a job, and why each was fetched or not."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _url_query(request)
        found = await self.services.jobs.urls(parse_job_id(job_id), team, query)
        return _listed(found, query, self.url_of(request))

    @Described(
        returns=_REMOVED,
        parameters=(_SKIP, _LIMIT),
        errors=(JobNotFound,),
        is_own=True,
    )
    async def removed(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the URLs that a crawl with the option since has not found any more."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = await self.services.jobs.removed(
            parse_job_id(job_id), team, _SKIP.read(request), _LIMIT.read(request)
        )
        return encode(
            {
                "success": True,
                "sinceJobId": found.since,
                "isComplete": found.is_whole,
                "unchanged": found.unchanged,
                "total": found.total,
                "urls": list(found.urls),
            }
        )

    @Described(returns=_REPORTED, errors=(JobNotFound,), is_own=True)
    async def report(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the politeness and scope report of a job."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = parse_job_id(job_id)
        return await self.services.jobs.report(found, team, reported)

    @Described(
        returns=said(SENT_EVENT, "Each event of the stream."),
        parameters=(server_sent_events.LAST_EVENT, server_sent_events.LAST_EVENT_ID),
        errors=(JobNotFound, QueueFull),
        media=("text/event-stream",),
        is_own=True,
    )
    async def events(self, request: JsonRequest, job_id: str) -> EventStream:
        """Follow the events of a job."""
        return await server_sent_events.follow(self.api, request, job_id)


def _url_query(request: JsonRequest) -> UrlQuery:
    """Return the filters and paging of a query. Raises :exc:`InvalidParameter`."""
    place = _AFTER.read(request)
    return UrlQuery(
        state=_STATE.read(request),
        reason=_REASON.read(request),
        losses=_LOSS.read_all(request),
        after=place and Cursor(RowState(int(place[1])), int(place[2])),
        skip=_SKIP.read(request),
        limit=_LIMIT.read(request),
    )


def _listed(found: Listing, query: UrlQuery, path: str) -> bytes:
    """Return a part of the list. ``path`` is the absolute URL of the list."""
    members: dict[str, Any] = {
        "success": True,
        "total": found.total,
        "urls": [url_members(url) for url in found.urls],
    }
    if (after := found.next) is not None:
        facts = (
            ("state", query.state),
            ("reason", query.reason),
            *(("loss", kind) for kind in query.losses),
            ("limit", query.limit),
            ("after", f"{after.state:d}.{after.row_id}"),
        )
        terms = (f"{k}={quote(str(v))}" for k, v in facts if v is not None)
        members["next"] = f"{path}?{'&'.join(terms)}"
    return encode(members)


def url_members(address: JobUrl) -> dict[str, Any]:
    """Return a URL of a job as the list has it."""
    facts = {
        "url": address.url,
        "kind": address.kind,
        "state": address.state,
        "reason": address.reason,
        "detail": address.detail,
        "depth": address.depth,
        "foundOn": address.found_on,
        "scrapeId": address.page_id,
        "lastModified": address.lastmod and utc_time(address.lastmod),
        "losses": list(address.losses) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def reported(report: CrawlReport) -> bytes:
    """Return the report as JSON.

    ``addresses`` counts all URLs by state, ``reasons`` those with a reason, as in
    ``/urls``. ``sitemaps`` has ``files``, how many were ``read`` and ``failed``, and
    ``reasons`` of failures. ``totals`` are sums over all hosts. ``robots`` and ``hosts``
    are lists, see :func:`_robots` and :func:`_host`, each with at most 1000 elements:
    those with most refused URLs or requests. ``quality`` is of the delivered pages, see
    :func:`_quality`. ``losses`` counts, by kind, pages with a loss and the parts lost.
    ``options`` are the job's, ``limits`` the
    service's.
    """
    facts = report.facts
    options = json.loads(facts.job.options)
    totals = facts.totals._asdict()
    totals["waitSeconds"] = round(totals.pop("wait_s"), 3)
    return encode(
        {
            "success": True,
            "id": facts.job.id,
            "status": job_state(facts.job.state),
            "addresses": facts.states,
            "reasons": facts.reasons,
            "sitemaps": asdict(facts.sitemaps),
            "robots": [_robots(row) for row in facts.robots],
            "hosts": [
                _host(name, counts, report.pace.report(name))
                for name, counts in facts.hosts.items()
            ],
            "quality": _quality(facts, options),
            **({"losses": facts.counts.losses} if facts.counts.losses else {}),
            "totals": totals,
            "stats": facts.stats,
            "options": {_OPTIONS[k]: v for k, v in options.items() if k in _OPTIONS},
            "limits": {
                "hostConcurrency": report.settings.getint("HOST_CONCURRENCY"),
                "jobConcurrency": report.settings.getint("JOB_CONCURRENCY"),
                "maxCrawlDelaySeconds": MAX_CRAWL_DELAY_S,
                "maxPauseSeconds": MAX_PAUSE_S,
                "userAgent": str(report.settings["USER_AGENT"]),
            },
        }
    )


def _quality(facts: JobReport, options: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of delivered pages.

    ``duplicates`` counts URLs that were the same page as another one. ``data`` is there
    if the pages have data: ``pages`` with data, and in ``fields`` how many of them have
    a value. All fields of the schema are listed, ``offer.price`` for nested ones.
    """
    counts = facts.counts
    members: dict[str, Any] = {
        "pages": counts.pages,
        "statuses": counts.statuses,
        "depths": counts.depths,
        "verdicts": counts.verdicts,
        "duplicates": facts.reasons.get("duplicate", 0),
    }
    schema = _schema(facts.job.kind, options)
    if counts.with_data or schema is not None:
        fields = with_empty_fields(counts, schema)
        members["data"] = {"pages": counts.with_data, "fields": fields}
    return members


def _schema(kind: str, options: dict[str, Any]) -> Field | None:
    """Return the fields of the schema of a job, None without one."""
    asked = options_from_json(kind, options).scrape.format(Json)
    if asked is None or asked.schema is None:
        return None
    try:
        return field_of(asked.schema)
    except SchemaRefused:  # rules of a later version
        return None


def _robots(row: RobotsRow) -> dict[str, Any]:
    """Return the facts of a robots.txt.

    ``state`` is ``ok``, ``absent`` or ``unreadable`` (all URLs are allowed), or
    ``unreachable`` (all are refused), and ``detail`` is the reason. ``agent`` is the matching group; it is
    missing without a match or if robots.txt is ignored. ``crawlDelay`` is the value in
    the file, ``crawlDelayApplied`` the delay in use. ``refused`` counts URLs of the job.
    """
    facts: dict[str, Any] = {"url": row.url, "host": pace_key(row.url)}
    if row.seen is not None:
        facts |= {"state": row.seen.state, "detail": row.seen.detail or None}
        facts |= {"agent": row.seen.agent}
        if delay_s := row.seen.crawl_delay_s:
            facts["crawlDelay"] = delay_s
            facts["crawlDelayApplied"] = min(delay_s, MAX_CRAWL_DELAY_S)
    facts["refused"] = row.refused
    return {name: value for name, value in facts.items() if value is not None}


def _host(name: str, counts: HostCounts, now: Host) -> dict[str, Any]:
    """Return the counts of a host. Scheme and ``www.`` do not make another host.

    ``peakRate`` is the most requests started in a second, ``peakInFlight`` the most at a
    time. ``waitSeconds`` is the sum over requests. ``answers`` counts responses by
    status, ``timeout`` and ``failed``. ``backoffs`` counts slowdowns by status,
    ``timeout`` or ``latency``. ``delays`` are by source: ``delay`` (the option),
    ``crawlDelay`` (robots.txt), ``retryAfter``, ``backoff`` (a 429 or 503 without
    Retry-After), ``adaptive`` (the service's own gap); ``seconds`` is the longest.
    ``window`` (requests at a time) and ``gapSeconds`` are present values for all jobs.
    """
    return {
        "host": name,
        "requests": counts.requests,
        "bytes": counts.bytes,
        "peakRate": counts.peak_rate,
        "peakInFlight": counts.peak_in_flight,
        "waitSeconds": round(counts.wait_s, 3),
        "answers": counts.answers,
        "backoffs": counts.backoffs,
        "delays": [
            {"source": source, "seconds": round(longest_s, 3), "requests": times}
            for source, (times, longest_s) in counts.delays.items()
        ],
        "window": now.window,
        "gapSeconds": round(now.gap_s, 3),
    }
