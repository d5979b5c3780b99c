"""A team's jobs of all kinds, as a list and one by one: additions to /v2."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

from attrs import evolve

from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    CursorParameter,
    ListParameter,
    NumberParameter,
    TextParameter,
    TimeParameter,
    argument,
    parse_job_id,
)
from scraper_service.api.responses import SPELLINGS, spell_options
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Seconds,
    Shape,
    Success,
    Time,
    Url,
    json_object,
    member,
    one_of,
    success,
)
from scraper_service.errors import InvalidParameter, JobNotFound
from scraper_service.options import catalogue
from scraper_service.options import v2_requests as requests
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.page_requests import wire_names
from scraper_service.options.urls import caller_domain
from scraper_service.storage.jobs.job_history import (
    CALLS,
    JOBS,
    PAUSED,
    STATES,
    HistoryQuery,
    JobDetails,
    JobSummary,
)
from scraper_service.storage.transactions import ListPosition

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest

MAX_JOBS, USUAL_JOBS = 100, 25  # in one response
MAX_TEXT = 200  # characters of ``q``
_JOB_KINDS = tuple(JOBS.values())
KINDS = (*_JOB_KINDS, *CALLS)
STATE_NAMES = (*STATES.values(), PAUSED)

_KIND = ListParameter(
    "kind",
    f"Only these kinds, separated by commas; without it {', '.join(_JOB_KINDS)}.",
    KINDS,
)
_STATE = ListParameter("state", "Only these states, separated by commas.", STATE_NAMES)
_SITE = TextParameter("site", "Only targets on this host or its subdomains.")
_TEXT = TextParameter(
    "q",
    "Only targets with this text, in any case.",
    {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
)
_SINCE = TimeParameter("since", "Only jobs from this time on.")
_UNTIL = TimeParameter("until", "Only jobs before this time.")
_LIMIT = NumberParameter("limit", "At most N jobs.", 1, MAX_JOBS, USUAL_JOBS)
_CURSOR = CursorParameter(
    "cursor",
    "the cursor in next",
    re.compile(r"([0-9]{1,10}\.[0-9]{1,9})_([0-9a-f-]{36})_([0-9a-f]{12})"),
)
FILTERS = (_KIND, _STATE, _SITE, _TEXT, _SINCE, _UNTIL, _LIMIT)

#: Paths of the status by kind, below the version.
_PATHS = {
    "crawl": "crawl",
    "batch_scrape": "batch/scrape",
    "extract": "extract",
    "llmstxt": "llmstxt",
    "deep_research": "deep-research",
    "agent": "agent",
}
#: Keys of the options by kind and attribute.
_NAMES = {
    "crawl": wire_names(requests.CRAWL_KEYS),
    "batch_scrape": wire_names(catalogue.keys(catalogue.BATCH, "v2")),
    "extract": wire_names(catalogue.keys(catalogue.EXTRACT, "v2")),
    "agent": wire_names(catalogue.keys(catalogue.AGENT, "v2")),
    "llmstxt": wire_names(catalogue.keys(catalogue.LLMS_TEXT, "v1")),
    "deep_research": wire_names(catalogue.keys(catalogue.RESEARCH, "v1")),
}
_PAGE_NAMES = wire_names(requests.SCRAPE_KEYS)
_TARGETS = ("url", "urls", "prompt")
_COUNTS = json_object(
    **dict.fromkeys(("pending", "leased", "held", "done", "failed", "skipped"), int)
)


def _status_path(job: JobSummary) -> str:
    version = f"v{job.version}"
    if job.kind in _PATHS:
        return f"{version}/{_PATHS[job.kind]}/{job.id}"
    if job.monitor_id is not None:
        return f"{version}/monitor/{job.monitor_id}/checks/{job.id}"
    if job.has_page:
        return f"v2/scrape/{job.id}"
    return f"v2/jobs/{job.id}"


class _Job(JsonObject):
    id: Id
    kind: Annotated[str, one_of(*KINDS)]
    api_version: Literal["v1", "v2"] = member(source=lambda job: f"v{job.version}")
    state: Annotated[str, one_of(*STATE_NAMES)]
    target: str | None = member("URL, query or prompt.")
    site: str | None = member("The host of the target.")
    url: Url = member("The URL of the status.")
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    expires_at: Time
    duration: Seconds = member(
        "Seconds until the end, or until now.", source="duration_s"
    )
    counts: Maybe[Annotated[Any, _COUNTS.shape]]
    total: int
    completed: int
    credits_used: int = member(source="credits")
    limit: int | None
    stored_bytes: int = member(source="stored")
    origin: str | None
    key: str | None = member("The name of the API key.")
    source_job_id: Maybe[Id] = member("The job whose stored responses this job reads.")
    monitor_id: Maybe[Id] = member("The monitor of a check.")
    error: Maybe[str]
    warning: Maybe[str]


class _JobWithOptions(_Job):
    options: Annotated[Any, Shape(type=["object", "null"])]


class _Jobs(Success):
    jobs: list[_Job]
    next: Maybe[Url]


_READ = success(data=_JobWithOptions)


class JobHistoryRoutes(Routes):
    """Jobs of all kinds."""

    are_own = True

    @Route("GET /jobs", returns=_Jobs, parameters=(*FILTERS, _CURSOR))
    async def jobs(self, request: JsonRequest) -> bytes:
        """Return the team's jobs, the newest first."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _history_query(request)
        found, behind = await self.services.jobs.history(team, query)
        following = None
        if behind is not None:
            given = {each.name: argument(request, each.name) for each in FILTERS}
            terms = {name: text for name, text in given.items() if text is not None}
            terms["cursor"] = f"{behind.at!r}_{behind.id}_{_digest(query)}"
            following = f"{self.url_of(request)}?{urlencode(terms)}"
        jobs = [_Job.of(each, url=self._url(request, each)) for each in found]
        return _Jobs.to_json(jobs=jobs, next=following)

    @Route("GET /jobs/<job_id>", returns=_READ, errors=(JobNotFound,))
    async def job(self, request: JsonRequest, job_id: str) -> bytes:
        """Return a job of any kind with its options."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        known = parse_job_id(job_id)
        await self.services.scraping.wait_until_recorded(known)
        found = await self.services.jobs.details(known, team)
        url = self._url(request, found.summary)
        data = _JobWithOptions.of(found.summary, url=url, options=_options(found))
        return _READ.to_json(data=data)

    def _url(self, request: JsonRequest, job: JobSummary) -> str:
        return f"{self.base_url(request)}/{_status_path(job)}"

    @Route(
        "DELETE /jobs/<job_id>",
        scope=KeyScope.ADMIN,
        returns=Success,
        errors=(JobNotFound,),
    )
    async def delete_job(self, request: JsonRequest, job_id: str) -> bytes:
        """Cancel a job of any kind and delete all its data."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = parse_job_id(job_id)
        await self.services.scraping.wait_until_recorded(found)
        await self.services.jobs.delete(found, team)
        return Success.to_json()


def _options(job: JobDetails) -> dict[str, Any] | None:
    """Return the options of a job as a request spells them, None for a single call.

    Values of headers are secret, and so are actions.
    """
    if job.options is None:
        return None
    kind, options = job.summary.kind, dict(job.options)
    if job.summary.monitor_id is not None:
        return options  # the monitor has them
    scrape = options.pop("scrape")
    page = spell_options(scrape, _PAGE_NAMES, SPELLINGS)
    if kind == "batch_scrape":
        options.pop("urls", None)  # the first one only: there may be many
    if job.summary.target is None:
        options = {k: v for k, v in options.items() if k not in _TARGETS}
    found = spell_options(options, _NAMES[kind], SPELLINGS)
    if job.header_names:
        page["headers"] = list(job.header_names)
    if job.webhook is not None:
        names = [name for name, _ in job.webhook["headers"]]
        found["webhook"] = {**job.webhook, "headers": names}
    if kind in {"crawl", "batch_scrape"}:
        name = "zero_data_retention"
        found[requests.wire_name(name)] = scrape[name]
    if kind == "batch_scrape":
        return {**page, **found}
    if kind in {"crawl", "extract"}:
        found["scrapeOptions"] = page
    return found


# -- query ---------------------------------------------------------------------------


def _history_query(request: JsonRequest) -> HistoryQuery:
    """Return the filters and the position of a query.

    Raises :exc:`InvalidParameter` for a bad value, and for a cursor of other filters.
    """
    kinds = _KIND.read(request)
    query = HistoryQuery(
        kinds=frozenset(_JOB_KINDS) if kinds is None else kinds,
        states=_STATE.read(request),
        site=_site(request),
        text=_text(request),
        since=_SINCE.read(request),
        until=_UNTIL.read(request),
        after=None,
        limit=_LIMIT.read(request),
    )
    return _at_cursor(request, query)


def _site(request: JsonRequest) -> str | None:
    text = _SITE.read(request)
    if text is None:
        return None
    try:
        return caller_domain(text)
    except ValueError:
        raise InvalidParameter(
            f"Invalid site: must be a host such as docs.example.com, got {text[:60]!r}"
        ) from None


def _text(request: JsonRequest) -> str | None:
    text = _TEXT.read(request)
    if text is not None and not 1 <= len(text) <= MAX_TEXT:
        raise InvalidParameter(
            f"Invalid q: must have 1 to {MAX_TEXT} characters, got {len(text)}:"
            f" {text[:60]!r}"
        )
    return text


def _at_cursor(request: JsonRequest, query: HistoryQuery) -> HistoryQuery:
    found = _CURSOR.read(request)
    if found is None:
        return query
    if found[3] != _digest(query):
        raise InvalidParameter(
            "Invalid cursor: must be used with the filters of its list (kind, state,"
            f" site, q, since, until), got {found[0]!r} with others"
        )
    return evolve(query, after=ListPosition(float(found[1]), found[2]))


def _digest(query: HistoryQuery) -> str:
    filters = [
        sorted(query.kinds),
        None if query.states is None else sorted(query.states),
        *(query.site, query.text, query.since, query.until),
    ]
    return hashlib.sha256(json.dumps(filters).encode()).hexdigest()[:12]
