"""Crawls and batches: start, status, cancel, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.application import join_sentences, with_base
from scraper_service.api.errors import WORK_ERRORS
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
)
from scraper_service.api.routes.crawl_preview import apply_prompt
from scraper_service.api.routes.pages import TOKENS, fit_pages
from scraper_service.api.routing import Routes, of_jobs
from scraper_service.api.streams import websocket
from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
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
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.page_requests import ignored_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.streams.websocket import WebSocket
    from scraper_service.options.job_requests import JobChangeRequest
    from scraper_service.options.jobs import ReprocessRequest


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
