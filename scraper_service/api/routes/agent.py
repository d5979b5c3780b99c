"""Agents: start, status, cancel, list."""

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
    URL,
    array,
    one_of,
    own,
    said,
    shape,
    success,
)
from scraper_service.api.parameters import NumberParameter, parse_job_id
from scraper_service.api.responses import encode, iso
from scraper_service.api.routes.operations import started
from scraper_service.api.version import Routes
from scraper_service.errors import JobEnded, JobNotFound
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.requests.pages import ignored_names
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.services.accounts import Team
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.operations import OperationRow

KIND = "agent"
NOT_FOUND = "Agent job not found"
CANCELLED = "Agent run was cancelled"
AGENTS = 20  # in one response
MAX_HINT = 80  # characters of a prompt
MAX_MS = 10**14
# Public clients know no fourth value.
STATUS = {
    JobState.QUEUED: "processing",
    JobState.SCRAPING: "processing",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "failed",
}
_STATUS = one_of(*dict.fromkeys(STATUS.values()))
_PARTIAL = ("partial", "partialSchemaValid", "stopReason")
_STOP_REASONS = ("credit_limit_reached", "timeout", "cancelled", "error")
_BEFORE = NumberParameter(
    "before", "Only runs before this time, in milliseconds since 1970.", 0, MAX_MS
)
_RUN = shape(
    {
        "success": {"const": True},
        "status": _STATUS,
        "data?": said(ANY, "Once completed: by the schema, or answer and sources."),
        "error?": TEXT,
        "partial?": said(ANY, "What a failed run has found."),
        "partialSchemaValid?": BOOL,
        "stopReason?": one_of(*_STOP_REASONS),
        "model": TEXT,
        "effort?": TEXT,
        "expiresAt": TIME,
        "creditsUsed": COUNT,
        "sources": own(
            array(
                shape(
                    {
                        "url": TEXT,
                        "title?": TEXT,
                        "scrapeId?": ID,
                        "fields?": said(array(TEXT), "Fields whose value it has."),
                    }
                )
            )
        ),
        "progress": own(
            shape({"rounds": COUNT, "pages": COUNT, "searches": COUNT, "message": TEXT})
        ),
        "warning?": TEXT,
    }
)
_ITEM = shape(
    {
        "id": ID,
        "createdAt": TIME,
        "targetHint": TEXT,
        "origin": TEXT,
        "integration?": TEXT,
        "settings": shape({"hidden": BOOL, "starred": BOOL}),
        "status": _STATUS,
        "options": shape(
            {
                "urls?": array(TEXT),
                "prompt": TEXT,
                "schema?": ANY,
                "model": TEXT,
                "effort?": TEXT,
            }
        ),
    }
)
_NO_PROGRESS = {
    "rounds": 0,
    "pages": 0,
    "searches": 0,
    "message": "The run waits for its start.",
}


class AgentRoutes(Routes):
    """Requests in words, for which a language model searches and reads pages."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/agent", KeyScope.SCRAPE, self.start_agent),
            ("GET", "/agent", KeyScope.READ, self.agents),
            ("GET", "/agent/<run_id>", KeyScope.READ, self.agent_status),
            ("DELETE", "/agent/<run_id>", KeyScope.SCRAPE, self.cancel_agent),
        )

    @Described(
        returns=success({"id": ID, "warning?": TEXT}),
        body="AGENT",
        example={"prompt": "Who founded Example, and when?", "effort": "low"},
        errors=WORK_ERRORS,
        needs=("model",),
    )
    async def start_agent(self, request: JsonRequest) -> bytes:
        """Start an agent and return its id."""
        team, body, _ = await self.checks.admit_work(request, Mode.EXTRACT)
        options = await body.read(self.api.requests.agent_options)
        note_caller(request, options)
        found = await self.services.jobs.start(options, team, self.api.version)
        warning = await body.warning(ignored_names(self.api.requests.AGENT.fields))
        return started(found, warning)

    @Described(returns=_RUN, errors=(JobNotFound,))
    async def agent_status(self, request: JsonRequest, run_id: str) -> bytes:
        """Return the state of a run, and its answer once completed."""
        _, found = await self._find(request, run_id)
        return encode(self._members(found))

    @Described(returns=success({}), errors=(JobNotFound, JobEnded))
    async def cancel_agent(self, request: JsonRequest, run_id: str) -> bytes:
        """Cancel a run."""
        team, found = await self._find(request, run_id)
        state = await self.services.jobs.cancel_operation(found, team, CANCELLED)
        if state is not JobState.CANCELLED:
            raise JobEnded("agent run", state)
        return encode({"success": True})

    @Described(
        returns=success({"agents": array(_ITEM), "next?": URL}), parameters=(_BEFORE,)
    )
    async def agents(self, request: JsonRequest) -> bytes:
        """Return the team's runs, the newest first."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        before = _BEFORE.given(request)
        found = await self.services.jobs.operations(
            team, KIND, None if before is None else before / 1000, AGENTS + 1
        )
        listed = found[:AGENTS]
        members: dict[str, Any] = {
            "success": True,
            "agents": [self._item(each) for each in listed],
        }
        if len(found) > AGENTS:
            last_ms = round(listed[-1].created_at * 1000)
            members["next"] = f"{self.url_of(request)}?before={last_ms}"
        return encode(members)

    async def _find(
        self, request: JsonRequest, run_id: str
    ) -> tuple[Team, OperationRow]:
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        found = await self.services.jobs.operation(
            parse_job_id(run_id), team, KIND, NOT_FOUND
        )
        return team, found

    def _model(self, options: Mapping[str, Any]) -> str:
        """Return the name that the caller has given, else that of the operator."""
        return options["model"] or self.services.jobs.model_name or ""

    def _members(self, found: OperationRow) -> dict[str, Any]:
        """Return the members of the status of a run."""
        stored = {} if found.result is None else json.loads(found.result)
        options, state = json.loads(found.options), found.state
        members: dict[str, Any] = {"success": True, "status": STATUS[state]}
        used = stored.get("creditsUsed", 0)
        if state is JobState.COMPLETED:
            members["data"] = stored["data"]
            used = found.credits
        elif STATUS[state] == "failed":
            members["error"] = found.error or "The run failed."
            members |= {name: stored[name] for name in _PARTIAL if name in stored}
            if state is JobState.CANCELLED:
                members["stopReason"] = "cancelled"
            members.setdefault("stopReason", "error")
            used = 0  # failed runs are free
        members["model"] = self._model(options)
        if options["effort"] is not None:
            members["effort"] = options["effort"]
        members |= {
            "expiresAt": iso(found.expires_at),
            "creditsUsed": used,
            "sources": stored.get("sources", []),
            "progress": stored.get("progress", _NO_PROGRESS),
        }
        return members | warned(stored.get("warning"))

    def _item(self, entry: Job) -> dict[str, Any]:
        """Return a run as it is listed."""
        options = json.loads(entry.options)
        urls, prompt = options["urls"], options["prompt"]
        asked = {
            "urls": urls or None,
            "prompt": prompt,
            "schema": options["schema"],
            "model": self._model(options),
            "effort": options["effort"],
        }
        members = {
            "id": entry.id,
            "createdAt": iso(entry.created_at),
            "targetHint": urls[0] if urls else prompt[:MAX_HINT],
            "origin": options["origin"],
            "integration": options["integration"],
            "settings": {"hidden": False, "starred": False},
            "status": STATUS[entry.state],
            "options": {k: v for k, v in asked.items() if v is not None},
        }
        return {k: v for k, v in members.items() if v is not None}
