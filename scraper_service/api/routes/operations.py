"""Deep research, extract and llms.txt jobs: start and status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scraper_service.api.application import note_caller, warned
from scraper_service.api.errors import WORK_ERRORS
from scraper_service.api.openapi.described import Described
from scraper_service.api.openapi.shapes import (
    ANY,
    BOOL,
    COUNT,
    ID,
    TEXT,
    TIME,
    ShapeT,
    array,
    mapping,
    one_of,
    said,
    shape,
    success,
)
from scraper_service.api.parameters import parse_job_id
from scraper_service.api.responses import encode, iso
from scraper_service.api.version import Routes
from scraper_service.errors import JobNotFound
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.requests.pages import ignored_names
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.operations import OperationRow

# The text of the 404, by kind of job.
NOT_FOUND = {
    "extract": "Extract job not found",
    "llmstxt": "llmsTxt generation job not found",
    "deep_research": "Deep research job not found",
}
STATUS = {
    JobState.QUEUED: "processing",
    JobState.SCRAPING: "processing",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
_STARTED: dict[str, ShapeT] = {"id": ID, "warning?": TEXT}
_STATUS: dict[str, ShapeT] = {
    "success": said(BOOL, "False if the job failed."),
    "status": one_of(*dict.fromkeys(STATUS.values())),
    "expiresAt": TIME,
    "error?": TEXT,
}
_FINDINGS: dict[str, ShapeT] = {
    "activities": array(
        shape(
            {
                "type": TEXT,
                "status": TEXT,
                "message": TEXT,
                "timestamp": TIME,
                "depth": COUNT,
            }
        )
    ),
    "sources": array(
        shape({"url": TEXT, "title": TEXT, "description": TEXT, "icon?": TEXT})
    ),
}


class OperationRoutes(Routes):
    """The base of these routes."""

    async def find(
        self, request: JsonRequest, operation_id: str, kind: str
    ) -> OperationRow:
        """Return a job of the caller's team.

        Raises :exc:`InvalidParameter` and :exc:`JobNotFound`.
        """
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        return await self.services.jobs.operation(
            parse_job_id(operation_id), team, kind, NOT_FOUND[kind]
        )


class ExtractRoutes(OperationRoutes):
    """Extractions of data from many pages."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/extract", KeyScope.SCRAPE, self.start_extract),
            ("GET", "/extract/<operation_id>", KeyScope.READ, self.extract_status),
        )

    @Described(
        returns=success(
            {
                **_STARTED,
                "urlTrace": array(ANY),
                "invalidURLs?": array(TEXT),
            }
        ),
        body="EXTRACT",
        example={"urls": ["https://example.com"], "prompt": "The title of the page"},
        errors=WORK_ERRORS,
    )
    async def start_extract(self, request: JsonRequest) -> bytes:
        """Start an extraction and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.EXTRACT)
        parsed = await body.read(self.api.requests.extract_request)
        note_caller(request, parsed.options)
        found = await self.services.jobs.start(parsed.options, team, self.api.version)
        members: dict[str, Any] = {"urlTrace": []}
        if parsed.invalid_urls is not None:
            members["invalidURLs"] = list(parsed.invalid_urls)
        warning = await body.warning(ignored_names({}))
        return started(found, warning, **members)

    @Described(
        returns=shape(
            {
                **_STATUS,
                "data": said(ANY, "The data, once completed."),
                "sources?": mapping(array(TEXT)),
                "creditsUsed?": COUNT,
                "tokensUsed?": COUNT,
                "warning?": TEXT,
            }
        ),
        errors=(JobNotFound,),
    )
    async def extract_status(self, request: JsonRequest, operation_id: str) -> bytes:
        """Return the state of an extraction, and its result once completed."""
        found = await self.find(request, operation_id, "extract")
        members = _status(found)
        if found.state is JobState.COMPLETED:
            members["creditsUsed"] = found.credits
            members["tokensUsed"] = found.tokens
            if found.tokens is None:
                rate = self.services.usage.tokens_per_credit
                members["tokensUsed"] = found.credits * rate
            return _with_result(members, found)
        return encode({**members, "data": []})


class LlmsTextRoutes(OperationRoutes):
    """The llms.txt of a site."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/llmstxt", KeyScope.SCRAPE, self.start_llms_text),
            ("GET", "/llmstxt/<operation_id>", KeyScope.READ, self.llms_text_status),
        )

    @Described(
        returns=success(_STARTED),
        body="LLMS_TEXT",
        example={"url": "https://example.com", "maxUrls": 10},
        errors=WORK_ERRORS,
    )
    async def start_llms_text(self, request: JsonRequest) -> bytes:
        """Start an llms.txt job and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE)
        options = await body.read(self.api.requests.llms_text_options)
        note_caller(request, options)
        found = await self.services.jobs.start(options, team, self.api.version)
        return started(found)

    @Described(
        returns=shape(
            {
                **_STATUS,
                "data": shape({"llmstxt": TEXT, "llmsfulltxt?": TEXT}),
                "warning?": TEXT,
            }
        ),
        errors=(JobNotFound,),
    )
    async def llms_text_status(self, request: JsonRequest, operation_id: str) -> bytes:
        """Return the state of an llms.txt job and the text so far."""
        found = await self.find(request, operation_id, "llmstxt")
        members = _status(found)
        if found.result is None:
            return encode({**members, "data": {"llmstxt": ""}})
        return _with_result(members, found)


class DeepResearchRoutes(OperationRoutes):
    """Deep research."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/deep-research", KeyScope.SCRAPE, self.start_research),
            (
                "GET",
                "/deep-research/<operation_id>",
                KeyScope.READ,
                self.research_status,
            ),
        )

    @Described(
        returns=success(_STARTED),
        body="RESEARCH",
        example={"query": "How do heat pumps work in winter?"},
        errors=WORK_ERRORS,
        needs=("model",),
    )
    async def start_research(self, request: JsonRequest) -> bytes:
        """Start a deep research job and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.CRAWL)
        options = await body.read(self.api.requests.research_options)
        note_caller(request, options)
        found = await self.services.jobs.start(options, team, self.api.version)
        return started(found)

    @Described(
        returns=shape(
            {
                **_STATUS,
                "data": shape({"finalAnalysis": TEXT, **_FINDINGS, "json?": ANY}),
                "currentDepth": COUNT,
                "maxDepth": COUNT,
                "totalUrls": COUNT,
                **_FINDINGS,
                "warning?": TEXT,
            }
        ),
        errors=(JobNotFound,),
    )
    async def research_status(self, request: JsonRequest, operation_id: str) -> bytes:
        """Return the state of a deep research job and its findings so far."""
        found = await self.find(request, operation_id, "deep_research")
        members = _status(found)
        if found.result is not None:
            return _with_result(members, found)
        nothing: dict[str, Any] = {"activities": [], "sources": []}
        members["data"] = {"finalAnalysis": "", **nothing}
        max_depth = json.loads(found.options)["max_depth"]
        counts = {"currentDepth": 0, "maxDepth": max_depth, "totalUrls": 0}
        return encode({**members, **counts, **nothing})


def started(found: Job, warning: str | None = None, **members: Any) -> bytes:
    """Return the response to the start of an operation."""
    members |= warned(warning, found.warning)
    return encode({"success": True, "id": found.id, **members})


def _status(found: OperationRow) -> dict[str, Any]:
    members: dict[str, Any] = {
        "success": found.state is not JobState.FAILED,
        "status": STATUS[found.state],
        "expiresAt": iso(found.expires_at),
    }
    if found.state is JobState.FAILED:
        members["error"] = found.error or "The operation failed."
    return members


def _with_result(members: dict[str, Any], found: OperationRow) -> bytes:
    """Return a response with the stored members of the result."""
    assert found.result is not None
    # It may be large: one copy is enough.
    return b"".join((encode(members)[:-1], b",", memoryview(found.result)[1:]))
