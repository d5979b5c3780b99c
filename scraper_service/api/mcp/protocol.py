"""JSON-RPC 2.0 messages of the Model Context Protocol, and its revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

WITH_BATCHES = "2025-03-26"  # also the revision of requests without the header
WITHOUT_HANDSHAKE = "2026-07-28"
VERSIONS = (WITH_BATCHES, "2025-06-18", "2025-11-25", WITHOUT_HANDSHAKE)
NEWEST_WITH_HANDSHAKE = "2025-11-25"
_VERSION_META = "io.modelcontextprotocol/protocolVersion"

VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"


class RpcError(Exception):
    """An error in answer to a message."""

    def __init__(self, code: int, message: str, data: Any = None):
        self.code = code
        self.data = data
        super().__init__(message)

    @property
    def members(self) -> dict[str, Any]:
        more = {} if self.data is None else {"data": self.data}
        return {"code": self.code, "message": str(self), **more}


@frozen
class Message:
    """A request, or a notification without an id."""

    method: str
    params: dict[str, Any]
    #: None for a notification.
    id: str | int | float | None
    is_notification: bool


def as_given(value: object) -> Any:
    """Return the value of a body unchanged: each message of it is checked alone."""
    return value


def message_of(value: Any) -> Message | None:
    """Return a message; None for a response, which needs no answer.

    Raises :exc:`RpcError` for anything else.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(
            INVALID_REQUEST, 'a message must be an object with "jsonrpc": "2.0"'
        )
    if "method" not in value and ("result" in value or "error" in value):
        return None
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "method must be a string")
    if not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "params must be an object")
    given = value.get("id")
    if "id" in value and (
        isinstance(given, bool) or not isinstance(given, str | int | float)
    ):
        raise RpcError(INVALID_REQUEST, "id must be a string or a number")
    return Message(method, params, given, "id" not in value)


def response_to(message: Message, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message.id, "result": result}


def error_response(error: RpcError, request_id: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.members}


def version_of(request: JsonRequest) -> str:
    """Return the revision of the header. Raises :exc:`RpcError` for an unknown one."""
    version = request.header(VERSION_HEADER)
    if version is None:
        return WITH_BATCHES
    if version not in VERSIONS:
        text = f"{VERSION_HEADER} must be one of {', '.join(VERSIONS)}, got {version[:40]!r}"
        data = {"supported": list(VERSIONS), "requested": version[:40]}
        raise RpcError(UNSUPPORTED_VERSION, text, data)
    return version


def check_headers(request: JsonRequest, message: Message, version: str) -> None:
    """Check that headers match the body, as revision 2026-07-28 requires.

    Raises :exc:`RpcError`.
    """
    if version != WITHOUT_HANDSHAKE or message.is_notification:
        return
    meta = message.params.get("_meta")
    stated = meta.get(_VERSION_META) if isinstance(meta, dict) else None
    wanted = [(METHOD_HEADER, message.method, "method")]
    if message.method == "tools/call":
        wanted.append((NAME_HEADER, str(message.params.get("name")), "params.name"))
    for header, value, part in wanted:
        if (given := request.header(header)) != value:
            text = (
                f"the header {header} must be {part} of the body, {value[:80]!r}; got"
            )
            raise RpcError(HEADER_MISMATCH, f"{text} {given and given[:80]!r}")
    if stated != version:
        text = (
            f"params._meta must have {_VERSION_META!r} with {version!r}, got {stated!r}"
        )
        raise RpcError(HEADER_MISMATCH, text)


def complete(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a result with the members that revision 2026-07-28 requires."""
    if version != WITHOUT_HANDSHAKE:
        return result
    return {"resultType": "complete", **result}
