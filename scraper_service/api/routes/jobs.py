"""Crawls and batches: their preview, start, status and end, alike for both but the body."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from scraper_service.api.errors import (
    WORK_ERRORS,
    ErrorResponse,
    error_body,
    issue_members,
    write,
)
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    IDEMPOTENCY_KEY,
    LIMIT,
    SKIP,
    idempotency_key,
    paging,
    parse_job_id,
)
from scraper_service.api.responses import (
    ActiveCrawls,
    BatchStarted,
    JobCancelled,
    JobChanged,
    JobErrors,
    JobReprocessed,
    JobRetried,
    active_crawls,
    job_status,
    job_url,
    join_sentences,
    with_base,
)
from scraper_service.api.routes.pages import TOKENS, fit_pages
from scraper_service.api.routing import Routes, of_jobs
from scraper_service.api.schemas import (
    JsonObject,
    Maybe,
    Success,
    member,
    one_of,
    success,
)
from scraper_service.api.streams import websocket
from scraper_service.discovery.crawl_prompt import MAX_PAGES
from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    InvalidOptions,
    Issue,
    JobEnded,
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    OutOfCredits,
    PromptUnclear,
    SourceJobRunning,
    SourcesNotStored,
)
from scraper_service.options import catalogue
from scraper_service.options import v2_requests as requests
from scraper_service.options.jobs import SITEMAP_MODES, unstructure
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.page_requests import ignored_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.request_body import Body
    from scraper_service.api.streams.websocket import WebSocket
    from scraper_service.discovery.crawl_prompt import PromptOptions
    from scraper_service.options.job_requests import JobChangeRequest
    from scraper_service.options.jobs import CrawlOptions, ReprocessRequest
    from scraper_service.services.accounts import Team
    from scraper_service.services.jobs import TeamJobs


# Options that hold for all pages of a batch, also for those that are added.
_OF_WHOLE_BATCH = frozenset(
    catalogue.keys(
        catalogue.select(catalogue.BATCH, "max_concurrency", "dedupe_boilerplate"), "v2"
    )
)


class JobRoutes(Routes):
    """Crawls and batches of pages."""

    @Route(
        "POST /crawl",
        returns="STARTED",
        body="CRAWL",
        example={"url": "https://example.com", "limit": 100},
        parameters=(IDEMPOTENCY_KEY,),
        errors=(*WORK_ERRORS, IdempotencyKeyUsed, PromptUnclear),
    )
    async def start_crawl(self, request: JsonRequest) -> bytes:
        """Start a crawl and return its id."""
        team, body, pages = await self.checks.admit_work(request, Mode.CRAWL, "limit")
        key = idempotency_key(request)
        await self.services.jobs.check_key(key, team)
        options = await body.read(self.api.requests.crawl_options)
        options, facts = await apply_prompt(self.services.jobs, body, options, team)
        ignored = ignored_names(self.api.requests.PAGE.fields)
        warning = await body.warning(ignored)
        job = await self.services.jobs.start(
            options, team, self.api.version, key, pages
        )
        answer: bytes = self.api.responses.STARTED.to_json(
            id=job.id,
            url=job_url(job, self.base_url(request), self.api.version),
            warning=join_sentences(facts.pop("warning", None), warning, job.warning),
            **facts,
        )
        return answer

    @Route(
        "POST /batch/scrape",
        returns=BatchStarted,
        body="BATCH",
        example={"urls": ["https://example.com", "https://example.org"]},
        parameters=(IDEMPOTENCY_KEY,),
        errors=(*WORK_ERRORS, IdempotencyKeyUsed, JobNotFound, JobEnded),
    )
    async def start_batch(self, request: JsonRequest) -> bytes:
        """Start a batch, or add pages to one, and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE, "urls")
        key = idempotency_key(request)
        await self.services.jobs.check_key(key, team)
        batch = await body.read(self.api.requests.batch_options)
        ignored = ignored_names(self.api.requests.PAGE.fields)
        if batch.append_to:
            ignored |= _OF_WHOLE_BATCH
            job = await self.services.jobs.add_to_batch(
                batch.append_to, batch.options, team, key
            )
        else:
            job = await self.services.jobs.start(
                batch.options, team, self.api.version, key
            )
        return BatchStarted.to_json(
            id=job.id,
            url=job_url(job, self.base_url(request), self.api.version),
            warning=await body.warning(ignored),
            invalid_urls=batch.invalid_urls,
        )

    @Route(("GET /crawl/active", "GET /crawl/ongoing"), returns=ActiveCrawls)
    async def active_crawls(self, request: JsonRequest) -> bytes:
        """Return the team's running crawls."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = await self.services.jobs.active_crawls(team)
        kinds = self.api.responses
        return active_crawls(
            found, kinds.CRAWL_NAMES, kinds.PAGE_NAMES, kinds.SPELLINGS
        )

    @Route(
        of_jobs("GET"),
        returns="JOB_STATUS",
        parameters=(SKIP, LIMIT, TOKENS),
        errors=(JobNotFound,),
    )
    async def status(self, request: JsonRequest, job_id: str) -> bytes | WebSocket:
        """Return the status of a job with some of its pages, or follow it."""
        if websocket.is_wanted(request):
            return await websocket.watch(self.api, request, job_id)
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        skip, limit = paging(request)
        bounds: tuple[int | None, ...] = (skip, limit)
        max_tokens = TOKENS.find(request)
        job, pages = await self.services.jobs.status(
            parse_job_id(job_id), team, skip or 0, limit
        )
        if max_tokens is not None:
            pages = await fit_pages(self.checks.pool, pages, max_tokens, team.id)
            bounds = (*bounds, max_tokens)
        kind = self.api.responses.JOB_STATUS
        answer = job_status(job, pages, bounds, self.url_of(request), kind)
        return with_base(answer, self.base_url(request))

    @Route(of_jobs("DELETE"), returns=JobCancelled, errors=(JobNotFound, JobEnded))
    async def cancel(self, request: JsonRequest, job_id: str) -> bytes:
        """Cancel a job."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        await self.services.jobs.cancel(parse_job_id(job_id), team)
        return JobCancelled.to_json()

    @Route(
        of_jobs("GET DELETE", "/errors"),
        scope=KeyScope.READ,
        returns=JobErrors,
        errors=(JobNotFound,),
    )
    async def errors(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the pages of a job that failed, and those that robots.txt refuses."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return await self.services.jobs.errors(
            parse_job_id(job_id),
            team,
            lambda errors, blocked: JobErrors.to_json(
                errors=errors, robots_blocked=blocked
            ),
        )


_RETRIED: dict[str, Any] = {
    "returns": JobRetried,
    "body": "RETRY",
    "example": {"codes": ["SCRAPE_TIMEOUT"], "scrapeOptions": {"timeout": 120_000}},
    "parameters": (IDEMPOTENCY_KEY,),
    "errors": (*WORK_ERRORS, JobFinished, HeadersForgotten, IdempotencyKeyUsed),
}
_REPROCESSED: dict[str, Any] = {
    "parameters": (IDEMPOTENCY_KEY,),
    "errors": (*WORK_ERRORS, SourceJobRunning, SourcesNotStored, IdempotencyKeyUsed),
}
_ERRORS = (OptionUnavailable, OutOfCredits, JobFinished)


class JobControlRoutes(Routes):
    """Changes of crawls and batches that are under way."""

    common_errors = (JobNotFound,)
    are_own = True

    @Route(
        "PATCH /crawl/<job_id>",
        returns=JobChanged,
        body="CHANGED_CRAWL",
        example={"paused": True, "limit": 500},
        errors=_ERRORS,
    )
    async def change_crawl(self, request: JsonRequest, job_id: str) -> bytes:
        """Pause, resume or change a crawl."""
        return await self._change(request, job_id, self.api.requests.crawl_change)

    @Route(
        "PATCH /batch/scrape/<job_id>",
        returns=JobChanged,
        body="CHANGED_BATCH",
        example={"delay": 2.5},
        errors=_ERRORS,
    )
    async def change_batch(self, request: JsonRequest, job_id: str) -> bytes:
        """Pause, resume or change a batch."""
        return await self._change(request, job_id, self.api.requests.batch_change)

    async def _change(
        self,
        request: JsonRequest,
        job_id: str,
        structure: Callable[[object], JobChangeRequest],
    ) -> bytes:
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        found = parse_job_id(job_id)
        wanted = await body.read(structure)
        changed = await self.services.jobs.change(found, team, wanted.change)
        job = changed.job
        return JobChanged.to_json(
            changed.change,
            id=job.id,
            status=job.state,
            paused=job.paused_at is not None,
        )

    @Route("POST /crawl/<job_id>/retry", **_RETRIED)
    async def retry_crawl(self, request: JsonRequest, job_id: str) -> bytes:
        """Fetch pages of a crawl again that failed."""
        return await self._retry(request, job_id, Mode.CRAWL)

    @Route("POST /batch/scrape/<job_id>/retry", **_RETRIED)
    async def retry_batch(self, request: JsonRequest, job_id: str) -> bytes:
        """Fetch pages of a batch again that failed."""
        return await self._retry(request, job_id, Mode.SCRAPE)

    async def _retry(self, request: JsonRequest, job_id: str, mode: Mode) -> bytes:
        team, body, _ = await self.checks.admit_work(request, mode)
        found, key = parse_job_id(job_id), idempotency_key(request)
        await self.services.jobs.check_key(key, team)
        wanted = await body.read(self.api.requests.job_retry)
        return JobRetried.to_json(
            await self.services.jobs.retry(found, team, wanted.retry, key)
        )

    @Route(
        "POST /crawl/<job_id>/reprocess",
        returns=JobReprocessed,
        body="REPROCESSED_CRAWL",
        example={"formats": ["html", "links"], "onlyMainContent": False},
        **_REPROCESSED,
    )
    async def reprocess_crawl(self, request: JsonRequest, job_id: str) -> bytes:
        """Make other formats of the stored responses of a crawl, without a fetch."""
        structure = self.api.requests.crawl_reprocess
        return await self._reprocess(request, job_id, Mode.CRAWL, structure)

    @Route(
        "POST /batch/scrape/<job_id>/reprocess",
        returns=JobReprocessed,
        body="REPROCESSED_BATCH",
        example={"formats": ["markdown"], "includeTags": ["main"]},
        **_REPROCESSED,
    )
    async def reprocess_batch(self, request: JsonRequest, job_id: str) -> bytes:
        """Make other formats of the stored responses of a batch, without a fetch."""
        structure = self.api.requests.batch_reprocess
        return await self._reprocess(request, job_id, Mode.SCRAPE, structure)

    async def _reprocess(
        self,
        request: JsonRequest,
        job_id: str,
        mode: Mode,
        structure: Callable[[object], ReprocessRequest],
    ) -> bytes:
        team, body, _ = await self.checks.admit_work(request, mode)
        found, key = parse_job_id(job_id), idempotency_key(request)
        await self.services.jobs.check_key(key, team)
        wanted = await body.read(structure)
        version = self.api.version
        job = await self.services.jobs.reprocess(found, team, wanted, version, key)
        return JobReprocessed.to_json(
            id=job.id,
            url=job_url(job, self.base_url(request), version),
            source_job_id=found,
        )


# Options that a prompt may set, by their internal names.
DERIVED = (
    *("include_paths", "exclude_paths", "max_discovery_depth", "crawl_entire_domain"),
    *("allow_external_links", "allow_subdomains", "sitemap", "delay_s", "limit"),
    *("ignore_query_parameters", "deduplicate_similar_urls"),
)
NOTHING = "The prompt sets no option of a crawl: the options are those without it."


class _Preview(JsonObject, spelled=requests.wire_name):
    url: str
    include_paths: Maybe[list[str]]
    exclude_paths: Maybe[list[str]]
    max_discovery_depth: Maybe[int]
    crawl_entire_domain: Maybe[bool]
    allow_external_links: Maybe[bool]
    allow_subdomains: Maybe[bool]
    sitemap: Maybe[Annotated[str, one_of(*SITEMAP_MODES)]]
    ignore_query_parameters: Maybe[bool]
    deduplicate_similar_urls: Maybe[bool]
    delay: Maybe[float]
    limit: Maybe[int]


class _Previewed(Success):
    data: Annotated[Any, _Preview.shape]
    warning: Maybe[str]


class _Explained(JsonObject):
    url: str
    allowed: bool = member(source=lambda found: found.refusal is None)
    reason: Maybe[str] = member(
        "The rule that refuses the URL.", source="refusal.reason.value"
    )
    detail: Maybe[str] = member(
        "The pattern or limit of that rule.", source="refusal.rule"
    )
    robots: Maybe[Literal["allowed", "refused", "unknown"]]


_EXPLAINED = success(results=list[_Explained])


class CrawlPreviewRoutes(Routes):
    """What a crawl would do, without a crawl."""

    @Route(
        "POST /crawl/params-preview",
        returns=_Previewed,
        body="PREVIEW",
        example={
            "url": "https://docs.example.com",
            "prompt": "Only the guide, 50 pages",
        },
        errors=(*WORK_ERRORS, PromptUnclear),
    )
    async def preview(self, request: JsonRequest) -> bytes:
        """Return the options of a crawl that a prompt asks for."""
        team, body, _ = await self.checks.admit_work(request, Mode.CRAWL)
        try:
            parsed = await body.read(requests.preview_request)
        except InvalidOptions as error:
            return write(request, _invalid_body_response(error))
        found = await self.services.jobs.preview(parsed.url, parsed.prompt, team, check)
        return _preview_response(parsed.url, found)

    @Route(
        "POST /crawl/explain",
        returns=_EXPLAINED,
        body="EXPLAIN",
        example={"url": "https://example.com", "urls": ["https://example.com/a"]},
        errors=(PromptUnclear,),
        is_own=True,
    )
    async def explain(self, request: JsonRequest) -> bytes:
        """Return which URLs a crawl would fetch, and why not the others."""
        team, body = await self.checks.admit(request, Mode.CRAWL)
        parsed = await body.read(requests.explain_request)
        options, _ = await apply_prompt(self.services.jobs, body, parsed.options, team)
        found = await self.services.jobs.explain(options, parsed.urls, parsed.depth)
        return _EXPLAINED.to_json(results=found)


def _invalid_body_response(error: InvalidOptions) -> ErrorResponse:
    problems = "; ".join(issue.message for issue in error.issues)
    members = error_body(
        f"Invalid request parameters: {problems}",
        code="BAD_REQUEST",
        details=[issue_members(issue) for issue in error.issues],
    )
    return ErrorResponse(400, members)


def _preview_response(url: str, found: PromptOptions) -> bytes:
    """Return the options that a prompt asks for.

    Raises :exc:`PromptUnclear` without any option.
    """
    if not found.values:
        raise _unclear(found)
    data = {"url": url, **requests.crawl_body(found.values)}
    return _Previewed.to_json(data=data, warning=join_sentences(*found.warnings))


def _unclear(found: PromptOptions) -> PromptUnclear:
    return PromptUnclear(" ".join(found.warnings) or "it sets no option of a crawl.")


def check(values: Mapping[str, Any]) -> None:
    """Raise :exc:`InvalidOptions` for values that neither body nor prompt may have."""
    if (limit := values.get("limit", 1)) > MAX_PAGES:
        message = f"limit must be <= {MAX_PAGES}, got {limit}"
        raise InvalidOptions([Issue("too_big", ("limit",), message)])
    requests.crawl_options({"url": "http://localhost/", **requests.crawl_body(values)})


async def apply_prompt(
    service: TeamJobs, body: Body, options: CrawlOptions, team: Team
) -> tuple[CrawlOptions, dict[str, Any]]:
    """Return the options of a crawl completed by its prompt, and members about this.

    Without a prompt return the options unchanged.
    """
    if options.prompt is None:
        return options, {}
    found = await service.preview(options.url, options.prompt, team, check)
    if found.is_refused and not found.values:
        raise _unclear(found)
    final = await body.read(partial(requests.fill, dict(found.values)))
    values = unstructure(final)
    facts: dict[str, Any] = {
        "prompt_generated_options": requests.crawl_body(found.values),
        "final_crawler_options": requests.crawl_body(
            {k: values[k] for k in DERIVED if values[k] is not None}
        ),
    }
    warnings = [*found.warnings, *([] if found.values else [NOTHING])]
    if warnings:
        facts["warning"] = " ".join(warnings)
    return final, facts
