"""The tools: names and arguments of firecrawl-mcp, and the calls of routes behind them."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field, frozen

from scraper_service.api.http_server import JsonRequest
from scraper_service.api.mcp.inner_calls import InnerCalls
from scraper_service.api.mcp.protocol import INVALID_PARAMS, RpcError
from scraper_service.api.parameters import MAX_SKIP
from scraper_service.errors import plural

if TYPE_CHECKING:
    from scraper_service.api.mcp.inner_calls import Answer

ArgumentsT: TypeAlias = dict[str, Any]
ReportT: TypeAlias = Callable[[int, int, str], None]

POLL_S = 1.0
WAIT_S, MOST_WAIT_S = 20, 50
PAGES_A_CALL = 50  # of a job, before the budget cuts them
MOST_ITEMS = 100  # of a list

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
FLAG = {"type": "boolean"}
OBJECT = {"type": "object"}
TEXTS = {"type": "array", "items": TEXT}
OBJECTS = {"type": "array", "items": OBJECT}


def one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def doc(kind: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    return {**kind, "description": sentence}


@frozen(kw_only=True)
class ToolAnswer:
    """What a tool answers with, before it is cut to the budget."""

    #: The response of a route, a JSON object.
    body: bytes
    #: See :class:`~scraper_service.api.mcp.budget.AnswerPart`.
    shape: str = "bare"
    key: str | None = None
    first: int = 0
    slim: bool = False
    #: What a cursor has to name to get here again; None if the answer is not stored.
    source: dict[str, Any] | None = None
    #: True if a cursor names the page itself, which is stored.
    is_page: bool = False
    #: False if nothing of the answer may be stored.
    may_keep: bool = True
    #: True if the work goes on after this answer.
    is_running: bool = False
    #: See :class:`~scraper_service.api.mcp.budget.AnswerPart`.
    errors: bytes = b""


@define
class ToolCall:
    """One call of a tool."""

    outer: JsonRequest
    calls: InnerCalls
    #: Tells the caller how far the work is.
    report: ReportT
    #: Where a cursor of an earlier answer points; None for a first call.
    cursor: dict[str, Any] | None = None
    #: The number of the next item.
    index: int = 0
    #: Time at which the tool stops waiting.
    until: float = field(factory=time.monotonic)

    async def get(self, path: str, *ids: str, **query: Any) -> Answer:
        known = {name: value for name, value in query.items() if value is not None}
        return await self._call_api("GET", path, ids, query=known)

    async def post(self, path: str, body: Mapping[str, Any], *ids: str) -> Answer:
        return await self._call_api("POST", path, ids, body=body)

    async def send(
        self,
        method: str,
        path: str,
        *ids: str,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        return await self._call_api(method, path, ids, body=body)

    async def _call_api(
        self, method: str, path: str, ids: tuple[str, ...], **options: Any
    ) -> Answer:
        answer = await self.calls.call(self.outer, method, path, *ids, **options)
        if answer.status >= 400:
            raise CallRefused(answer)
        if answer.status == 200 and answer.body.startswith(b'{"success":false'):
            raise CallRefused(answer)
        return answer


class CallRefused(Exception):
    """Raised if a route refuses or fails."""

    def __init__(self, answer: Answer):
        self.answer = answer
        super().__init__(answer.status)


RunT: TypeAlias = Callable[[ToolCall, ArgumentsT], Awaitable[ToolAnswer]]


@frozen(kw_only=True)
class Tool:
    """One tool."""

    name: str
    title: str
    description: str
    #: The JSON Schemas of its arguments by name.
    arguments: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    #: Routes that it cannot do without.
    routes: tuple[tuple[str, str], ...]
    reads_only: bool = False
    is_open_world: bool = True
    is_destructive: bool = False
    needs_browser: bool = False
    needs_model: bool = False
    run: RunT

    def list_entry(self, most_tokens: int) -> dict[str, Any]:
        """Return the tool as ``tools/list`` shows it."""
        budget = {
            "maxTokens": doc(
                {**NUMBER, "minimum": 200, "maximum": 100_000, "default": most_tokens},
                "Size of the answer.",
            ),
            "cursor": doc(TEXT, "nextCursor of an earlier answer: its next part."),
        }
        schema = {
            "type": "object",
            "properties": {**self.arguments, **budget},
            "required": list(self.required),
            "additionalProperties": False,
        }
        if not self.required:
            del schema["required"]
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema,
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.reads_only,
                "openWorldHint": self.is_open_world,
                "destructiveHint": self.is_destructive,
            },
        }


# -- pages ------------------------------------------------------------------------------


def _scrape_body(given: ArgumentsT) -> ArgumentsT:
    body = dict(given)
    formats: list[Any] = list(body.pop("formats", []) or [])
    options = {
        "json": body.pop("jsonOptions", None),
        "query": body.pop("queryOptions", None),
        "screenshot": body.pop("screenshotOptions", None),
    }
    for name, chosen in options.items():
        if chosen is None:
            continue
        if not isinstance(chosen, dict):
            raise RpcError(INVALID_PARAMS, f"{name}Options must be an object")
        formats = [each for each in formats if each != name]
        formats.append({"type": name, **chosen})
    if formats:
        body["formats"] = formats
    pdf = body.pop("pdfOptions", None)
    if pdf is not None:
        if not isinstance(pdf, dict):
            raise RpcError(INVALID_PARAMS, "pdfOptions must be an object")
        body["parsers"] = [{"type": "pdf", **pdf}]
    return body


async def run_scrape(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    if call.cursor is not None:
        return await _stored_page(call, call.cursor)
    body = _scrape_body(given)
    return _of_page(await call.post("/scrape", body), body)


def _of_page(answer: Answer, body: ArgumentsT) -> ToolAnswer:
    is_kept = not body.get("zeroDataRetention")
    return ToolAnswer(
        body=answer.body,
        shape="page",
        slim="formats" not in body,
        is_page=is_kept,
        may_keep=is_kept,
    )


async def _stored_page(call: ToolCall, cursor: dict[str, Any]) -> ToolAnswer:
    answer = await call.get("/scrape/{}", _text(cursor, "id"))
    slim = cursor.get("slim") is True
    return ToolAnswer(body=answer.body, shape="page", slim=slim, source=cursor)


async def run_parse(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    if call.cursor is not None:
        return await _stored_page(call, call.cursor)
    path, size = given.pop("filePath", None), given.pop("declaredSizeBytes", None)
    # With this type the name of the file decides.
    kind = given.pop("contentType", "application/octet-stream")
    if (path is None) == ("uploadRef" not in given):
        raise RpcError(
            INVALID_PARAMS,
            "exactly one of filePath (step 1) and uploadRef (step 2) must be given",
        )
    if path is None:
        body = _scrape_body(given)
        return _of_page(await call.post("/parse", body), body)
    name = str(path).replace("\\", "/").rsplit("/", 1)[-1]
    wanted = {"filename": name, "contentType": kind, "declaredSizeBytes": size}
    sent = {key: value for key, value in wanted.items() if value is not None}
    data = (await call.post("/parse/upload-url", sent)).members["data"]
    headers = [f"-H {shlex.quote(f'{k}: {v}')}" for k, v in data["headers"].items()]
    command = (
        f"curl -sS -X PUT {' '.join(headers)} --data-binary"
        f" {shlex.quote(f'@{path}')} {shlex.quote(data['uploadUrl'])}"
    )
    following = {
        "name": "firecrawl_parse",
        "arguments": {**given, "uploadRef": data["uploadRef"]},
    }
    answer = {
        "uploadCommand": command,
        "nextToolCall": following,
        "expiresAt": data["expiresAt"],
    }
    return ToolAnswer(body=_json(answer))


# -- lists ------------------------------------------------------------------------------


async def run_map(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    return ToolAnswer(body=(await call.post("/map", given)).body, key="links")


async def run_search(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    body = (await call.post("/search", given)).body
    return ToolAnswer(body=body, shape="results", key="results", slim=True)


# -- jobs -------------------------------------------------------------------------------


async def run_crawl(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    headers = given.pop("webhookHeaders", None)
    if headers is not None:
        if not isinstance(given.get("webhook"), str):
            raise RpcError(INVALID_PARAMS, "webhookHeaders needs webhook as a URL")
        given["webhook"] = {"url": given["webhook"], "headers": headers}
    started = (await call.post("/crawl", given)).members
    while True:
        answer = await call.get("/crawl/{}", started["id"], skip=MAX_SKIP)
        status = answer.members
        facts: ArgumentsT = {
            "id": started["id"],
            **{key: status[key] for key in ("status", "completed", "total")},
            **{key: status[key] for key in ("warning", "error") if key in status},
            "pages": "firecrawl_check_crawl_status with this id returns them",
        }
        if status["status"] != "scraping" or not await _pause(call, status):
            return ToolAnswer(body=_json(facts))


async def run_crawl_status(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    job_id = _text(call.cursor or given, "id")
    answer = await call.get("/crawl/{}", job_id, skip=call.index, limit=PAGES_A_CALL)
    return ToolAnswer(
        body=answer.body,
        key="data",
        first=call.index,
        source={"id": job_id},
        slim=True,
        # Not with a cursor: each part would read all errors again.
        errors=b"" if call.cursor else await _errors(call, job_id, answer.body),
    )


async def _errors(call: ToolCall, job_id: str, body: bytes) -> bytes:
    """Return the errors of a crawl that has ended, empty if it has none."""
    end = body.index(b',"data":[')  # the pages are many bytes, and not needed
    status = json.loads(body[:end] + b"}")
    # Failed pages are in the total. URLs that robots.txt refuses are not; a warning tells.
    may_have = status["completed"] < status["total"] or "warning" in status
    if status["status"] == "scraping" or not may_have:
        return b""
    try:
        return (await call.get("/crawl/{}/errors", job_id)).body
    except CallRefused:  # such as a rate limit; the pages are there
        return b""


async def run_agent(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    started = (await call.post("/agent", given)).members
    facts = {
        **_bare(started),
        "answer": "firecrawl_agent_status with this id returns it",
    }
    return ToolAnswer(body=_json(facts))


async def run_agent_status(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    run_id = _text(call.cursor or given, "id")
    answer = await call.get("/agent/{}", run_id)
    is_running = b'"status":"processing"' in answer.body[:100]
    return ToolAnswer(body=answer.body, source={"id": run_id}, is_running=is_running)


async def run_extract(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    if call.cursor is not None:
        job_id = _text(call.cursor, "id")
    else:
        job_id = str((await call.post("/extract", given)).members["id"])
    while True:
        answer = await call.get("/extract/{}", job_id)
        is_running = b'"status":"processing"' in answer.body[:500]
        if not is_running or not await _pause(call, {"completed": 0, "total": 1}):
            break
    return ToolAnswer(body=answer.body, source={"id": job_id}, is_running=is_running)


async def _pause(call: ToolCall, status: Mapping[str, Any]) -> bool:
    """Wait a moment. Return False if the time of the tool is over."""
    completed, total = int(status["completed"]), int(status["total"])
    call.report(completed, total, f"{completed} of {plural(total, 'page')}")
    left = call.until - time.monotonic()
    if left <= 0:
        return False
    await asyncio.sleep(min(POLL_S, left))
    return True


# -- sessions of a browser --------------------------------------------------------------


async def run_interact(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    scrape_id, url = given.pop("scrapeId", None), given.pop("url", None)
    options = given.pop("scrapeOptions", None)
    if (scrape_id is None) == (url is None):
        text = "exactly one of scrapeId and url must be given"
        raise RpcError(INVALID_PARAMS, text)
    if scrape_id is None:
        body = {**(options or {}), "url": url, "formats": []}
        page = (await call.post("/scrape", body)).members["data"]
        scrape_id = page["metadata"]["scrapeId"]
    found = (await call.post("/scrape/{}/interact", given, str(scrape_id))).members
    return ToolAnswer(body=_json({"scrapeId": scrape_id, **found}))


async def run_interact_stop(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    scrape_id = _text(given, "scrapeId")
    found = await call.send("DELETE", "/scrape/{}/interact", scrape_id)
    return ToolAnswer(body=_json(_bare(found.members)))


# -- monitors ---------------------------------------------------------------------------


async def run_monitor_create(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    body = given.pop("body", None)
    if body is None:
        body = _monitor_body(given)
    elif given:
        names = ", ".join(sorted(given))
        raise RpcError(INVALID_PARAMS, f"body excludes other arguments, got {names}")
    return ToolAnswer(body=(await call.post("/monitor", body)).body)


def _monitor_body(given: ArgumentsT) -> ArgumentsT:
    pages = list(given.pop("pages", None) or [])
    if (page := given.pop("page", None)) is not None:
        pages.append(page)
    queries = given.pop("queries", None)
    targets: list[ArgumentsT] = []
    if pages:
        targets.append({"type": "scrape", "urls": pages})
    names = ("searchWindow", "maxResults", "includeDomains", "excludeDomains")
    own = {name: given.pop(name) for name in names if name in given}
    if own and not queries:
        raise RpcError(INVALID_PARAMS, f"{', '.join(own)} need queries beside them")
    if queries:
        targets.append({"type": "search", "queries": queries, **own})
    if not targets:
        raise RpcError(
            INVALID_PARAMS, "one of body, page, pages and queries is required"
        )
    what = ", ".join(map(str, (*pages, *(queries or ()))))
    schedule = {"text": given.pop("scheduleText", "every 30 minutes")}
    if (zone := given.pop("timezone", None)) is not None:
        schedule["timezone"] = zone
    body: ArgumentsT = {
        "name": (given.pop("name", None) or given.get("goal") or what)[:100],
        "schedule": schedule,
        "targets": targets,
    }
    if (goal := given.pop("goal", None)) is not None:
        body["goal"] = goal
    if (url := given.pop("webhookUrl", None)) is not None:
        body["webhook"] = {"url": url}
    email, diffs = given.pop("email", None), given.pop("includeDiffs", None)
    if email is not None:
        mail: ArgumentsT = {"enabled": True, "recipients": [email]}
        if diffs is not None:
            mail["includeDiffs"] = diffs
        body["notification"] = {"email": mail}
    elif diffs is not None:
        raise RpcError(INVALID_PARAMS, "includeDiffs needs email beside it")
    return body


def listing(path: str, count: str, key: str) -> RunT:
    """Return a tool that reads a list; ``count`` is the parameter of its first row."""

    async def run(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
        wanted = call.cursor if call.cursor is not None else given
        names = [name for name in ("id", "checkId") if name in wanted]
        ids = [_text(wanted, name) for name in names]
        first = call.index or int(wanted.get(count) or 0)
        most = wanted.get("limit")
        filters = {k: wanted[k] for k in ("status", "pageStatus") if wanted.get(k)}
        query: dict[str, Any] = {count: first, "limit": most or MOST_ITEMS}
        query["status"] = next(iter(filters.values()), None)
        answer = await call.get(path, *ids, **query)
        source = {k: wanted[k] for k in (*names, *filters)}
        return ToolAnswer(
            body=answer.body,
            shape="bare" if key == "data" else "check",
            key=key,
            first=first,
            source=source,
        )

    return run


def of_monitor(method: str, path: str) -> RunT:
    """Return a tool that calls a route of one monitor."""

    async def run(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
        monitor_id = _text(given, "id")
        body = given.get("body")
        if method == "POST":
            body = {}
        found = await call.send(method, path, monitor_id, body=body)
        return ToolAnswer(body=_json(_bare(found.members)))

    return run


# -- the account ------------------------------------------------------------------------


async def run_feedback(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    return ToolAnswer(body=(await call.post("/feedback", given)).body)


async def run_search_feedback(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    search_id = _text(given, "searchId")
    given.pop("searchId")
    answer = await call.post("/search/{}/feedback", given, search_id)
    return ToolAnswer(body=answer.body)


async def run_credit_usage(call: ToolCall, given: ArgumentsT) -> ToolAnswer:
    view = given.get("view") or "current"
    if view not in {"current", "historical"}:
        text = f"view must be 'current' or 'historical', got {view!r}"
        raise RpcError(INVALID_PARAMS, text)
    if view == "current":
        return ToolAnswer(body=(await call.get("/team/credit-usage")).body)
    by_key = "true" if given.get("byApiKey") else None
    answer = await call.get("/team/credit-usage/historical", byApiKey=by_key)
    return ToolAnswer(body=answer.body)


# -- parts of answers -------------------------------------------------------------------


def _bare(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "success"}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value or "/" in value:
        raise RpcError(INVALID_PARAMS, f"{name} must be a text, got {value!r:.100}")
    return value
