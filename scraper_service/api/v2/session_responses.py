"""Bodies of the responses to calls of browser sessions, and their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from scraper_service.api.openapi.page_shapes import PageJson
from scraper_service.api.responses import page_json
from scraper_service.api.schemas import (
    Id,
    Integer,
    JsonObject,
    Maybe,
    Shape,
    Success,
    Time,
    encode,
    member,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.services.browser_sessions.steps import StepResult

MAX_TEXT = 2**20  # bytes of each of stdout and stderr
ACTIVE, DESTROYED = "active", "destroyed"
#: URLs of a session, which not all sessions and keys have.
URLS = ("cdp_url", "live_view_url", "interactive_live_view_url")


class SessionOpened(Success):
    """The response to the start of a session."""

    id: Id
    cdp_url: Maybe[str]
    live_view_url: Maybe[str]
    interactive_live_view_url: Maybe[str]
    expires_at: Time


class SessionJson(JsonObject):
    """A session of the list."""

    id: Id
    status: Literal["active", "destroyed"] = member(
        source=lambda record: ACTIVE if record.is_active else DESTROYED
    )
    cdp_url: str = member("Empty where it is not offered, and for keys that only read.")
    live_view_url: str = member("Empty where it is not offered.")
    interactive_live_view_url: Maybe[str]
    stream_web_view: bool = member(source="has_view")
    created_at: Time
    last_activity: Time = member(source="last_at")


class SessionEnded(Success):
    """The response to the end of a session."""

    status: Literal["destroyed"]
    session_duration_ms: int = member(source="duration_ms")
    credits_billed: int = member(source=lambda record: record.credits or 0)


class StepDone(JsonObject):
    """The response to a step."""

    success: bool = member(
        "False if the step failed; error has the reason.",
        source=lambda found: found.error is None,
    )
    output: Maybe[str] = member("The answer to a prompt.")
    result: Maybe[str] = member("The value of the last expression, as text or JSON.")
    stdout: str
    stderr: str
    truncated: Maybe[bool] = member(
        "True if stdout or stderr was cut at 1 MiB.", own=True
    )
    exit_code: Integer = member(
        "0; 1 after a failure, 124 after the timeout, 127 for a shell."
    )
    killed: bool = member("True after the timeout.", source="is_killed")
    url: str = member("The URL of the page after the step.", own=True)
    cdp_url: Maybe[str]
    live_view_url: Maybe[str]
    interactive_live_view_url: Maybe[str]
    actions: Maybe[dict[str, list[str | Annotated[Any, Shape(type="object")]]]] = (
        member(own=True)
    )
    data: Maybe[PageJson] = member(own=True)
    error: Maybe[str]


def step_json(found: StepResult, urls: Mapping[str, str | None]) -> bytes:
    """Return the response to a step, with the URLs of its session."""
    stdout, stderr = _cut(found.stdout), _cut(found.stderr)
    is_cut = found.is_cut or (stdout, stderr) != (found.stdout, found.stderr)
    facts = StepDone.of(
        found,
        stdout=stdout,
        stderr=stderr,
        truncated=True if is_cut else None,
        actions=None,
        data=None,
        **urls,
    )
    members = [encode(facts)[1:-1]]
    if found.actions is not None:
        members.append(b'"actions":' + found.actions)
    if found.page is not None:
        members.append(b'"data":' + page_json(found.page))
    return b"{%s}" % b",".join(members)


def _cut(text: str) -> str:
    """Return at most :data:`MAX_TEXT` bytes of a text."""
    if len(text) * 4 <= MAX_TEXT:
        return text
    return text.encode("utf-8", "replace")[:MAX_TEXT].decode("utf-8", "ignore")
