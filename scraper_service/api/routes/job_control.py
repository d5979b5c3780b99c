"""Changes of running jobs, retries, other formats of stored pages: additions to /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.errors import WORK_ERRORS
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    IDEMPOTENCY_KEY,
    idempotency_key,
    parse_job_id,
)
from scraper_service.api.responses import (
    JobChanged,
    JobReprocessed,
    JobRetried,
    job_url,
)
from scraper_service.api.version import Routes
from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    OutOfCredits,
    SourceJobRunning,
    SourcesNotStored,
)
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.options.crawl import ReprocessRequest
    from scraper_service.options.requests.job_control import JobChangeRequest


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
