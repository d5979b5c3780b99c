"""The routes of operations of several steps (interface document, parts 15 and 16)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scraper_service.api.application import asyncio_route, note_caller
from scraper_service.api.fields.common import ignored_names
from scraper_service.api.page_json import encode, iso
from scraper_service.api.routes import jobs
from scraper_service.api.routes.common import admit_work, warned
from scraper_service.options.limits import Mode
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from klein import Klein

    from scraper_service.api.fields.operations import ExtractRequest
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import Api
    from scraper_service.options.operations import LlmsTextOptions, ResearchOptions
    from scraper_service.storage.operations import OperationRow

# What the routes of each kind say where a team has no such operation.
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


def add_extract_routes(
    app: Klein, version: int, read_body: Callable[[object], ExtractRequest]
) -> None:
    """Give ``app`` the routes of extract; ``read_body`` is that of its version."""

    @app.route("/extract", methods=["POST"])
    @asyncio_route
    async def start_extract(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.EXTRACT)
        asked = await body.read(read_body)
        note_caller(request, asked.options)
        operation_id = await api.operations.start(asked.options, team, version)
        members: dict[str, Any] = {"urlTrace": []}
        if asked.invalid_urls is not None:
            members["invalidURLs"] = list(asked.invalid_urls)
        members |= warned(await body.warning(ignored_names({})))
        return _started(operation_id, **members)

    @app.route("/extract/<operation_id>", methods=["GET"])
    @asyncio_route
    async def extract_status(
        api: Api, request: JsonRequest, operation_id: str
    ) -> bytes:
        found = await _found(api, request, operation_id, "extract")
        members = _status(found)
        if found.state is JobState.COMPLETED:
            members["creditsUsed"] = found.credits
            members["tokensUsed"] = found.tokens
            if found.tokens is None:
                rate = api.usage.tokens_per_credit
                members["tokensUsed"] = found.credits * rate
            return _with_result(members, found)
        return encode({**members, "data": []})


def add_text_routes(
    app: Klein, version: int, read_body: Callable[[object], LlmsTextOptions]
) -> None:
    """Give ``app`` the routes of llms.txt; ``read_body`` is that of its version."""

    @app.route("/llmstxt", methods=["POST"])
    @asyncio_route
    async def start_llms_text(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.SCRAPE)
        options = await body.read(read_body)
        note_caller(request, options)
        return _started(await api.operations.start(options, team, version))

    @app.route("/llmstxt/<operation_id>", methods=["GET"])
    @asyncio_route
    async def llms_text_status(
        api: Api, request: JsonRequest, operation_id: str
    ) -> bytes:
        found = await _found(api, request, operation_id, "llmstxt")
        members = _status(found)
        if found.result is None:
            return encode({**members, "data": {"llmstxt": ""}})
        return _with_result(members, found)


def add_research_routes(
    app: Klein, version: int, read_body: Callable[[object], ResearchOptions]
) -> None:
    """Give ``app`` the routes of research; ``read_body`` is that of its version."""

    @app.route("/deep-research", methods=["POST"])
    @asyncio_route
    async def start_research(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.CRAWL)
        options = await body.read(read_body)
        note_caller(request, options)
        return _started(await api.operations.start(options, team, version))

    @app.route("/deep-research/<operation_id>", methods=["GET"])
    @asyncio_route
    async def research_status(
        api: Api, request: JsonRequest, operation_id: str
    ) -> bytes:
        found = await _found(api, request, operation_id, "deep_research")
        members = _status(found)
        if found.result is not None:
            return _with_result(members, found)
        nothing: dict[str, Any] = {"activities": [], "sources": []}
        members["data"] = {"finalAnalysis": "", **nothing}
        max_depth = json.loads(found.options)["max_depth"]
        counts = {"currentDepth": 0, "maxDepth": max_depth, "totalUrls": 0}
        return encode({**members, **counts, **nothing})


def _started(operation_id: str, **members: Any) -> bytes:
    return encode({"success": True, "id": operation_id, **members})


async def _found(
    api: Api, request: JsonRequest, operation_id: str, kind: str
) -> OperationRow:
    team, _ = await api.edge.admit(request, Mode.EXTRACT_STATUS)
    return await api.operations.read(
        jobs.job_id(operation_id), team, kind, NOT_FOUND[kind]
    )


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
    """Return an answer with the members of the result, which is put in as stored."""
    assert found.result is not None
    # It may be large: one copy is enough.
    return b"".join((encode(members)[:-1], b",", memoryview(found.result)[1:]))
