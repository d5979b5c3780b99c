"""Bodies of the responses to calls of browser sessions, and their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.responses import page_json
from scraper_service.api.schemas import (
    BOOL,
    COUNT,
    ID,
    INTEGER,
    TEXT,
    TIME,
    array,
    either,
    encode,
    iso,
    mapping,
    old_shape,
    old_success,
    one_of,
    own,
    ref,
    said,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.services.browser_sessions.steps import StepResult
    from scraper_service.storage.accounts.browser_sessions import SessionRecord

MAX_TEXT = 2**20  # bytes of each of stdout and stderr
ACTIVE, DESTROYED = "active", "destroyed"
OPENED = old_success(
    {
        "id": ID,
        "cdpUrl?": TEXT,
        "liveViewUrl?": TEXT,
        "interactiveLiveViewUrl?": TEXT,
        "expiresAt": TIME,
    }
)
LISTED = old_success(
    {
        "sessions": array(
            old_shape(
                {
                    "id": ID,
                    "status": one_of(ACTIVE, DESTROYED),
                    "cdpUrl": said(
                        TEXT,
                        "Empty where it is not offered, and for keys that only read.",
                    ),
                    "liveViewUrl": said(TEXT, "Empty where it is not offered."),
                    "interactiveLiveViewUrl?": TEXT,
                    "streamWebView": BOOL,
                    "createdAt": TIME,
                    "lastActivity": TIME,
                }
            )
        )
    }
)
ENDED = old_success(
    {"status": one_of(DESTROYED), "sessionDurationMs": COUNT, "creditsBilled": COUNT}
)
DONE = old_shape(
    {
        "success": said(BOOL, "False if the step failed; error has the reason."),
        "output?": said(TEXT, "The answer to a prompt."),
        "result?": said(TEXT, "The value of the last expression, as text or JSON."),
        "stdout": TEXT,
        "stderr": TEXT,
        "truncated?": own(said(BOOL, "True if stdout or stderr was cut at 1 MiB.")),
        "exitCode": said(
            INTEGER, "0; 1 after a failure, 124 after the timeout, 127 for a shell."
        ),
        "killed": said(BOOL, "True after the timeout."),
        "url": own(said(TEXT, "The URL of the page after the step.")),
        "cdpUrl?": TEXT,
        "liveViewUrl?": TEXT,
        "interactiveLiveViewUrl?": TEXT,
        "actions?": own(mapping(array(either(TEXT, {"type": "object"})))),
        "data?": own(ref("Page")),
        "error?": TEXT,
    }
)


def listed_json(record: SessionRecord) -> dict[str, Any]:
    """Return a session of the list, without its URLs."""
    return {
        "id": record.id,
        "status": ACTIVE if record.is_active else DESTROYED,
        "cdpUrl": "",
        "liveViewUrl": "",
        "streamWebView": record.has_view,
        "createdAt": iso(record.created_at),
        "lastActivity": iso(record.last_at),
    }


def ended_json(record: SessionRecord) -> bytes:
    """Return the response to the end of a session."""
    return encode(
        {
            "success": True,
            "status": DESTROYED,
            "sessionDurationMs": record.duration_ms,
            "creditsBilled": record.credits or 0,
        }
    )


def step_json(found: StepResult, urls: Mapping[str, str]) -> bytes:
    """Return the response to a step, with the URLs of its session."""
    stdout, stderr = _cut(found.stdout), _cut(found.stderr)
    is_cut = found.is_cut or (stdout, stderr) != (found.stdout, found.stderr)
    facts = {
        "success": found.error is None,
        "output": found.output,
        "result": found.result,
        "stdout": stdout,
        "stderr": stderr,
        "truncated": True if is_cut else None,
        "exitCode": found.exit_code,
        "killed": found.is_killed,
        "url": found.url,
        "error": found.error,
        **urls,
    }
    members = [encode({k: v for k, v in facts.items() if v is not None})[1:-1]]
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
