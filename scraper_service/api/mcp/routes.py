"""``POST /mcp``: Streamable HTTP of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from attrs import frozen
from klein import Klein

from scraper_service.api.application import RequestChecks, note
from scraper_service.api.connections import is_local_host
from scraper_service.api.errors import NotFoundPage, answer_to, error_body
from scraper_service.api.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    WITH_BATCHES,
    WITHOUT_HANDSHAKE,
    RpcError,
    as_given,
    check_headers,
    error_response,
    message_of,
    response_to,
    version_of,
)
from scraper_service.api.mcp.server import McpServer
from scraper_service.api.openapi.route import RootResource, Route
from scraper_service.api.schemas import encode
from scraper_service.errors import InvalidBody, Unauthorized
from scraper_service.options.limits import KeyScope
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from twisted.web.resource import Resource

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.routing import VersionApp

MAX_BATCH = 50  # messages
EVENTS = "text/event-stream"


POSTED = Route(
    "POST /mcp",
    scope=KeyScope.READ,  # each tool is checked by the scope of its route
    summary="Answer a message of the Model Context Protocol.",
    returns=dict[str, Any],
    failures={202: Any, **dict.fromkeys((400, 403, 404), dict[str, Any])},
    errors=(Unauthorized,),
    media=("application/json", EVENTS),
    is_own=True,
)


@frozen(kw_only=True)
class McpEndpoint:
    """The handler of ``POST /mcp``, and of its alias ``/v2/mcp``."""

    server: McpServer
    checks: RequestChecks
    #: Values of ``Origin`` that may call beside the service's own.
    origins: frozenset[str]
    #: False if callers need no API key.
    has_keys: bool

    @POSTED
    async def handle(self, request: JsonRequest) -> bytes:
        """Answer a message of the Model Context Protocol.

        In revision 2025-03-26 also an array of messages.
        """
        if (refused := self._origin_refusal(request)) is not None:
            request.setResponseCode(403)
            return encode(error_response(RpcError(INVALID_REQUEST, refused)))
        try:
            body = await self.checks.read_body(request)
            team = await self.checks.recheck(request)
            note(request, team=team.id)
            value: Any = await body.read(as_given)
        except InvalidBody as error:
            return _refuse(request, RpcError(PARSE_ERROR, str(error)))
        try:
            version = version_of(request)
            if isinstance(value, list):
                return await self._batch(request, value, version)
            message = message_of(value)
            if message is None or message.is_notification:
                request.setResponseCode(202)
                return b""
            check_headers(request, message, version)
        except RpcError as error:
            given = value.get("id") if isinstance(value, dict) else None
            is_id = isinstance(given, str | int | float) and not isinstance(given, bool)
            return _refuse(request, error, given if is_id else None)
        stream = _Stream.of(request, message.params)
        try:
            found = await self.server.answer(
                request, message, version, stream.report if stream else _silent
            )
            answer = response_to(message, found)
        except RpcError as error:
            answer = error_response(error, message.id)
            if version == WITHOUT_HANDSHAKE:
                request.setResponseCode(404 if error.code == METHOD_NOT_FOUND else 400)
        return stream.last(answer) if stream else encode(answer)

    async def _batch(
        self, request: JsonRequest, values: list[Any], version: str
    ) -> bytes:
        """Answer an array of messages. Raises :exc:`RpcError`."""
        if version != WITH_BATCHES or not values or len(values) > MAX_BATCH:
            text = (
                f"a body must be one message; only revision {WITH_BATCHES} has arrays"
            )
            if version == WITH_BATCHES:
                text = (
                    f"an array must have 1 to {MAX_BATCH} messages, got {len(values)}"
                )
            raise RpcError(INVALID_REQUEST, text)
        # At the same time, so that an array takes no longer than its longest call.
        found = await asyncio.gather(
            *(self._part(request, each, version) for each in values)
        )
        answers = [answer for answer in found if answer is not None]
        if not answers:
            request.setResponseCode(202)
            return b""
        return encode(answers)

    async def _part(
        self, request: JsonRequest, value: Any, version: str
    ) -> dict[str, Any] | None:
        """Return the answer of a message of an array; None if it wants none."""
        message = None
        try:
            message = message_of(value)
            if message is None or message.is_notification:
                return None
            found = await self.server.answer(request, message, version, _silent)
        except RpcError as error:
            return error_response(error, message.id if message else None)
        except Exception as error:  # a bug: the other answers are still good
            text = str(answer_to(error, str).members.get("error"))
            failed = RpcError(INTERNAL_ERROR, text)
            return error_response(failed, message.id if message else None)
        return response_to(message, found)

    def _origin_refusal(self, request: JsonRequest) -> str | None:
        origin = request.header("Origin")
        if origin is None or origin in self.origins:
            return None
        host = request.header("Host")
        # Without keys, a web page could let its own name lead here (DNS rebinding).
        parts = url_parts(origin)
        is_named = self.has_keys or is_local_host(parts.netloc)
        if host and parts.netloc == host and is_named:
            return None
        return f"the origin {origin[:100]!r} may not call (SCRAPER_MCP_ORIGINS)"


def _refuse(request: JsonRequest, error: RpcError, request_id: Any = None) -> bytes:
    request.setResponseCode(400)
    return encode(error_response(error, request_id))


def _silent(_done: int, _total: int, _text: str) -> None:
    """Report nothing: the caller asked for no progress."""


class _Stream:
    """An answer as events, with notes about the progress before it."""

    def __init__(self, request: JsonRequest, token: str | int):
        self._request = request
        self._token = token
        self._last = -1
        self._is_open = False

    @classmethod
    def of(cls, request: JsonRequest, params: dict[str, Any]) -> _Stream | None:
        """Return a stream if the caller takes events and asked for progress."""
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if isinstance(token, bool) or not isinstance(token, str | int):
            return None
        return (
            cls(request, token) if EVENTS in (request.header("Accept") or "") else None
        )

    def report(self, done: int, total: int, text: str) -> None:
        if done <= self._last:  # progress has to grow
            return
        self._last = done
        self._open()
        params = {"progressToken": self._token, "progress": done, "message": text}
        if total > 0:
            params["total"] = total
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        self._request.write(_event(note))  # type: ignore[no-untyped-call]

    def last(self, answer: dict[str, Any]) -> bytes:
        self._open()
        return _event(answer)

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        # Once the response has begun, its length cannot be set any more.
        self._request.setResponseCode(200)
        headers = {"Content-Type": EVENTS, "Cache-Control": "no-cache, no-transform"}
        for name, value in headers.items():
            self._request.setHeader(name, value)  # type: ignore[no-untyped-call]
        self._request.write(b": \n\n")  # type: ignore[no-untyped-call]


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: %s\n\n" % json.dumps(message).encode()


class McpPage(RootResource):
    """``/mcp``, the same as ``/v2/mcp``, which needs an API key."""

    routes = ()

    def __init__(self, app: VersionApp, endpoint: McpEndpoint):
        super().__init__()  # type: ignore[no-untyped-call]
        # Each call of a tool is checked by the scope of the route behind it.
        app.add("POST", "/mcp", KeyScope.READ, endpoint.handle)
        alone = Klein()
        app.handle_errors_of(alone)
        alone.route("/", methods=["POST"], strict_slashes=False)(
            app.as_deferred(endpoint.handle, "", KeyScope.READ)
        )
        self._resource = alone.resource()

    def getChildWithDefault(self, path: bytes, request: Any) -> Resource:
        return NotFoundPage()  # type: ignore[no-untyped-call]

    def render(self, request: Any) -> Any:
        if request.method != b"POST":
            request.setResponseCode(405)
            request.setHeader(b"Allow", b"POST")
            return encode(error_body("Method not allowed"))
        return self._resource.render(request)
