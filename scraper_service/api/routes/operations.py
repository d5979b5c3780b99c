"""Deep research, extract and llms.txt jobs: start and status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from scraper_service.api.application import join_sentences
from scraper_service.api.errors import WORK_ERRORS
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import parse_job_id
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Success,
    Time,
    encode,
    member,
    one_of,
)
from scraper_service.api.version import Routes
from scraper_service.errors import JobNotFound
from scraper_service.options.limits import Mode
from scraper_service.options.requests.pages import ignored_names
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
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


class OperationStarted(Success):
    """The response to the start of a job."""

    id: Id
    warning: Maybe[str]


class _ExtractStarted(OperationStarted):
    url_trace: list[Any]
    invalid_urls: Maybe[list[str]] = member(key="invalidURLs")


class _Status(JsonObject):
    """The state of a job. Its result is inserted as stored."""

    success: bool = member(
        "False if the job failed.", source=lambda job: job.state is not JobState.FAILED
    )
    status: Annotated[str, one_of(*dict.fromkeys(STATUS.values()))] = member(
        source=lambda job: STATUS[job.state]
    )
    expires_at: Time
    error: Maybe[str] = member(
        source=lambda job: (
            (job.error or "The operation failed.")
            if job.state is JobState.FAILED
            else None
        )
    )


class _ExtractStatus(_Status):
    data: Any = member("The data, once completed.")
    sources: Maybe[dict[str, list[str]]]
    credits_used: Maybe[int]
    tokens_used: Maybe[int]
    warning: Maybe[str]


class _LlmsText(JsonObject):
    llmstxt: str
    llmsfulltxt: Maybe[str]


class _LlmsTextStatus(_Status):
    data: _LlmsText
    warning: Maybe[str]


class _Activity(JsonObject):
    type: str
    status: str
    message: str
    timestamp: Time
    depth: int


class _Source(JsonObject):
    url: str
    title: str
    description: str
    icon: Maybe[str]


class _Findings(JsonObject):
    activities: list[_Activity]
    sources: list[_Source]


class _Analysis(_Findings):
    final_analysis: str
    json: Maybe[Any]


class _ResearchStatus(_Status, _Findings):
    data: _Analysis
    current_depth: int
    max_depth: int
    total_urls: int
    warning: Maybe[str]


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

    @Route(
        "POST /extract",
        returns=_ExtractStarted,
        body="EXTRACT",
        example={"urls": ["https://example.com"], "prompt": "The title of the page"},
        errors=WORK_ERRORS,
    )
    async def start_extract(self, request: JsonRequest) -> bytes:
        """Start an extraction and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.EXTRACT)
        parsed = await body.read(self.api.requests.extract_request)
        found = await self.services.jobs.start(parsed.options, team, self.api.version)
        return _ExtractStarted.to_json(
            id=found.id,
            url_trace=[],
            invalid_urls=parsed.invalid_urls,
            warning=join_sentences(
                await body.warning(ignored_names({})), found.warning
            ),
        )

    @Route("GET /extract/<operation_id>", returns=_ExtractStatus, errors=(JobNotFound,))
    async def extract_status(self, request: JsonRequest, operation_id: str) -> bytes:
        """Return the state of an extraction, and its result once completed."""
        found = await self.find(request, operation_id, "extract")
        members = _Status.of(found)
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

    @Route(
        "POST /llmstxt",
        returns=OperationStarted,
        body="LLMS_TEXT",
        example={"url": "https://example.com", "maxUrls": 10},
        errors=WORK_ERRORS,
    )
    async def start_llms_text(self, request: JsonRequest) -> bytes:
        """Start an llms.txt job and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE)
        options = await body.read(self.api.requests.llms_text_options)
        found = await self.services.jobs.start(options, team, self.api.version)
        return OperationStarted.to_json(found)

    @Route(
        "GET /llmstxt/<operation_id>", returns=_LlmsTextStatus, errors=(JobNotFound,)
    )
    async def llms_text_status(self, request: JsonRequest, operation_id: str) -> bytes:
        """Return the state of an llms.txt job and the text so far."""
        found = await self.find(request, operation_id, "llmstxt")
        members = _Status.of(found)
        if found.result is None:
            return encode({**members, "data": {"llmstxt": ""}})
        return _with_result(members, found)


class DeepResearchRoutes(OperationRoutes):
    """Deep research."""

    @Route(
        "POST /deep-research",
        returns=OperationStarted,
        body="RESEARCH",
        example={"query": "How do heat pumps work in winter?"},
        errors=WORK_ERRORS,
        needs=("model",),
    )
    async def start_research(self, request: JsonRequest) -> bytes:
        """Start a deep research job and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.CRAWL)
        options = await body.read(self.api.requests.research_options)
        found = await self.services.jobs.start(options, team, self.api.version)
        return OperationStarted.to_json(found)

    @Route(
        "GET /deep-research/<operation_id>",
        returns=_ResearchStatus,
        errors=(JobNotFound,),
    )
    async def research_status(self, request: JsonRequest, operation_id: str) -> bytes:
        """Return the state of a deep research job and its findings so far."""
        found = await self.find(request, operation_id, "deep_research")
        members = _Status.of(found)
        if found.result is not None:
            return _with_result(members, found)
        nothing: dict[str, Any] = {"activities": [], "sources": []}
        members["data"] = {"finalAnalysis": "", **nothing}
        max_depth = json.loads(found.options)["max_depth"]
        counts = {"currentDepth": 0, "maxDepth": max_depth, "totalUrls": 0}
        return encode({**members, **counts, **nothing})


def _with_result(members: dict[str, Any], found: OperationRow) -> bytes:
    """Return a response with the stored members of the result."""
    assert found.result is not None
    # It may be large: one copy is enough.
    return b"".join((encode(members)[:-1], b",", memoryview(found.result)[1:]))
