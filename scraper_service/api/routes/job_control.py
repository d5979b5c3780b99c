"""Changes of running jobs: pause, limit, pace. An addition to /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.application import note_caller
from scraper_service.api.openapi.described import Described
from scraper_service.api.parameters import parse_job_id
from scraper_service.api.responses import JOB_CHANGED, job_changed
from scraper_service.api.version import Routes
from scraper_service.errors import (
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    OutOfCredits,
)
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.requests.job_control import JobChangeRequest
    from scraper_service.api.version import RouteT


_ERRORS = (OptionUnavailable, OutOfCredits, JobNotFound, JobFinished)


class JobControlRoutes(Routes):
    """Changes of crawls and batches that are under way."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("PATCH", "/crawl/<job_id>", self.change_crawl),
            ("PATCH", "/batch/scrape/<job_id>", self.change_batch),
        )

    @Described(
        returns=JOB_CHANGED,
        body="CHANGED_CRAWL",
        example={"paused": True, "limit": 500},
        errors=_ERRORS,
        is_own=True,
    )
    async def change_crawl(self, request: JsonRequest, job_id: str) -> bytes:
        """Pause, resume or change a crawl."""
        return await self._change(request, job_id, self.api.requests.crawl_change)

    @Described(
        returns=JOB_CHANGED,
        body="CHANGED_BATCH",
        example={"delay": 2.5},
        errors=_ERRORS,
        is_own=True,
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
        note_caller(request, wanted)
        changed = await self.services.jobs.change(found, team, wanted.change)
        return job_changed(changed)
