"""Deep research, extract, llms.txt and agent jobs: start, status, cancel, list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from scraper_service.api.errors import WORK_ERRORS
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import NumberParameter, parse_job_id
from scraper_service.api.responses import join_sentences
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    NULL,
    Id,
    JsonObject,
    Maybe,
    Success,
    Time,
    Url,
    encode,
    json_object,
    member,
    one_of,
)
from scraper_service.errors import JobEnded, JobNotFound
from scraper_service.options.limits import Mode
from scraper_service.options.page_requests import ignored_names
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.accounts import Team
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.model_jobs import ModelJobRow


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


class ModelJobStarted(Success):
    """The response to the start of a job."""

    id: Id
    warning: Maybe[str]


class _ExtractStarted(ModelJobStarted):
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
            (job.error or "The job failed.") if job.state is JobState.FAILED else None
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


class ModelJobRoutes(Routes):
    """The base of these routes."""

    async def find(self, request: JsonRequest, job_id: str, kind: str) -> ModelJobRow:
        """Return a job of the caller's team.

        Raises :exc:`InvalidParameter` and :exc:`JobNotFound`.
        """
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        return await self.services.jobs.model_job(
            parse_job_id(job_id), team, kind, NOT_FOUND[kind]
        )


class ExtractRoutes(ModelJobRoutes):
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

    @Route("GET /extract/<job_id>", returns=_ExtractStatus, errors=(JobNotFound,))
    async def extract_status(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the state of an extraction, and its result once completed."""
        found = await self.find(request, job_id, "extract")
        members = _Status.of(found)
        if found.state is JobState.COMPLETED:
            members["creditsUsed"] = found.credits
            members["tokensUsed"] = found.tokens
            if found.tokens is None:
                rate = self.services.usage.tokens_per_credit
                members["tokensUsed"] = found.credits * rate
            return _with_result(members, found)
        return encode({**members, "data": []})


class LlmsTextRoutes(ModelJobRoutes):
    """The llms.txt of a site."""

    @Route(
        "POST /llmstxt",
        returns=ModelJobStarted,
        body="LLMS_TEXT",
        example={"url": "https://example.com", "maxUrls": 10},
        errors=WORK_ERRORS,
    )
    async def start_llms_text(self, request: JsonRequest) -> bytes:
        """Start an llms.txt job and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE)
        options = await body.read(self.api.requests.llms_text_options)
        found = await self.services.jobs.start(options, team, self.api.version)
        return ModelJobStarted.to_json(found)

    @Route("GET /llmstxt/<job_id>", returns=_LlmsTextStatus, errors=(JobNotFound,))
    async def llms_text_status(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the state of an llms.txt job and the text so far."""
        found = await self.find(request, job_id, "llmstxt")
        members = _Status.of(found)
        if found.result is None:
            return encode({**members, "data": {"llmstxt": ""}})
        return _with_result(members, found)


class DeepResearchRoutes(ModelJobRoutes):
    """Deep research."""

    @Route(
        "POST /deep-research",
        returns=ModelJobStarted,
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
        return ModelJobStarted.to_json(found)

    @Route(
        "GET /deep-research/<job_id>",
        returns=_ResearchStatus,
        errors=(JobNotFound,),
    )
    async def research_status(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the state of a deep research job and its findings so far."""
        found = await self.find(request, job_id, "deep_research")
        members = _Status.of(found)
        if found.result is not None:
            return _with_result(members, found)
        nothing: dict[str, Any] = {"activities": [], "sources": []}
        members["data"] = {"finalAnalysis": "", **nothing}
        max_depth = json.loads(found.options)["max_depth"]
        counts = {"currentDepth": 0, "maxDepth": max_depth, "totalUrls": 0}
        return encode({**members, **counts, **nothing})


def _with_result(members: dict[str, Any], found: ModelJobRow) -> bytes:
    """Return a response with the stored members of the result."""
    assert found.result is not None
    # It may be large: one copy is enough.
    return b"".join((encode(members)[:-1], b",", memoryview(found.result)[1:]))


AGENT = "agent"
AGENT_NOT_FOUND = "Agent job not found"
AGENT_CANCELLED = "Agent run was cancelled"
AGENTS = 20  # in one response
MAX_HINT = 80  # characters of a prompt
MAX_MS = 10**14
# Public clients know no fourth value.
AGENT_STATUS = {
    JobState.QUEUED: "processing",
    JobState.SCRAPING: "processing",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "failed",
}
_AgentStatus: TypeAlias = Annotated[
    str, one_of(*dict.fromkeys(AGENT_STATUS.values())), AGENT_STATUS.__getitem__
]
_BEFORE = NumberParameter(
    "before", "Only runs before this time, in milliseconds since 1970.", 0, MAX_MS
)
_NO_PROGRESS = {
    "rounds": 0,
    "pages": 0,
    "searches": 0,
    "message": "The run waits for its start.",
}


class _AgentSource(JsonObject):
    url: str
    title: Maybe[str]
    scrape_id: Maybe[Id]
    fields: Maybe[list[str]] = member("Fields whose value it has.")


_PROGRESS = json_object(rounds=int, pages=int, searches=int, message=str)


class _AgentRun(Success):
    status: _AgentStatus = member(source="state")
    data: Maybe[Any] = member("Once completed: by the schema, or answer and sources.")
    error: Maybe[str]
    partial: Maybe[Any] = member("What a failed run has found.")
    partial_schema_valid: Maybe[bool]
    stop_reason: Maybe[Literal["credit_limit_reached", "timeout", "cancelled", "error"]]
    model: str
    effort: Maybe[str]
    expires_at: Time
    credits_used: int
    sources: list[Annotated[Any, _AgentSource.shape]] = member(own=True)
    progress: Annotated[Any, _PROGRESS.shape] = member(own=True)
    warning: Maybe[str]


class _AgentOptions(JsonObject):
    urls: Maybe[list[str]]
    prompt: str
    schema: Maybe[Any]
    model: str
    effort: Maybe[str]


class _ListedAgent(JsonObject):
    id: Id
    created_at: Time
    target_hint: str
    origin: str
    integration: Maybe[str]
    settings: Annotated[Any, json_object(hidden=bool, starred=bool)]
    status: _AgentStatus = member(source="state")
    options: _AgentOptions


class _Agents(Success):
    agents: list[_ListedAgent]
    next: Maybe[Url]


class AgentRoutes(Routes):
    """Requests in words, for which a language model searches and reads pages."""

    @Route(
        "POST /agent",
        returns=ModelJobStarted,
        body="AGENT",
        example={"prompt": "Who founded Example, and when?", "effort": "low"},
        errors=WORK_ERRORS,
        needs=("model",),
    )
    async def start_agent(self, request: JsonRequest) -> bytes:
        """Start an agent and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.EXTRACT)
        options = await body.read(self.api.requests.agent_options)
        found = await self.services.jobs.start(options, team, self.api.version)
        warning = await body.warning(ignored_names(self.api.requests.AGENT.fields))
        warning = join_sentences(warning, found.warning)
        return ModelJobStarted.to_json(id=found.id, warning=warning)

    @Route("GET /agent/<run_id>", returns=_AgentRun, errors=(JobNotFound,))
    async def agent_status(self, request: JsonRequest, run_id: str) -> bytes:
        """Return the state of a run, and its answer once completed."""
        _, found = await self._find(request, run_id)
        return self._run(found)

    @Route("DELETE /agent/<run_id>", returns=Success, errors=(JobNotFound, JobEnded))
    async def cancel_agent(self, request: JsonRequest, run_id: str) -> bytes:
        """Cancel a run."""
        team, found = await self._find(request, run_id)
        state = await self.services.jobs.cancel_model_job(found, team, AGENT_CANCELLED)
        if state is not JobState.CANCELLED:
            raise JobEnded("agent run", state)
        return Success.to_json()

    @Route("GET /agent", returns=_Agents, parameters=(_BEFORE,))
    async def agents(self, request: JsonRequest) -> bytes:
        """Return the team's runs, the newest first."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        before = _BEFORE.find(request)
        found = await self.services.jobs.model_jobs(
            team, AGENT, None if before is None else before / 1000, AGENTS + 1
        )
        listed = found[:AGENTS]
        following = None
        if len(found) > AGENTS:
            last_ms = round(listed[-1].created_at * 1000)
            following = f"{self.url_of(request)}?before={last_ms}"
        agents = [self._item(each) for each in listed]
        return _Agents.to_json(agents=agents, next=following)

    async def _find(
        self, request: JsonRequest, run_id: str
    ) -> tuple[Team, ModelJobRow]:
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        found = await self.services.jobs.model_job(
            parse_job_id(run_id), team, AGENT, AGENT_NOT_FOUND
        )
        return team, found

    def _model(self, options: Mapping[str, Any]) -> str:
        """Return the name that the caller has given, else that of the operator."""
        return options["model"] or self.services.jobs.model_name or ""

    def _run(self, found: ModelJobRow) -> bytes:
        """Return the status of a run."""
        stored = {} if found.result is None else json.loads(found.result)
        options, state = json.loads(found.options), found.state
        facts: dict[str, Any] = {"credits_used": stored.get("creditsUsed", 0)}
        if state is JobState.COMPLETED:
            facts = {"credits_used": found.credits, "data": _stored(stored, "data")}
        elif AGENT_STATUS[state] == "failed":
            reason = stored.get("stopReason", "error")
            facts = {
                "credits_used": 0,  # failed runs are free
                "error": found.error or "The run failed.",
                "partial": _stored(stored, "partial"),
                "partial_schema_valid": stored.get("partialSchemaValid"),
                "stop_reason": "cancelled" if state is JobState.CANCELLED else reason,
            }
        return _AgentRun.to_json(
            status=state,
            model=self._model(options),
            effort=options["effort"],
            expires_at=found.expires_at,
            sources=stored.get("sources", []),
            progress=stored.get("progress", _NO_PROGRESS),
            warning=stored.get("warning"),
            **facts,
        )

    def _item(self, entry: Job) -> dict[str, Any]:
        """Return a run as it is listed."""
        options = json.loads(entry.options)
        urls, prompt = options["urls"], options["prompt"]
        return _ListedAgent.of(
            entry,
            target_hint=urls[0] if urls else prompt[:MAX_HINT],
            origin=options["origin"],
            integration=options["integration"],
            settings={"hidden": False, "starred": False},
            options=_AgentOptions.of(
                options, urls=urls or None, model=self._model(options)
            ),
        )


def _stored(result: Mapping[str, Any], name: str) -> Any:
    """Return a value of a result; :data:`NULL` for null, None if it is missing."""
    return NULL if name in result and result[name] is None else result.get(name)
