"""Errors as JSON: the one table from exceptions to status and body."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from scraper_service.api.page_json import iso
from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    InvalidBody,
    InvalidOptions,
    InvalidParameter,
    Issue,
    JobEnded,
    JobNotFound,
    MapTimedOut,
    OptionUnavailable,
    OutOfCredits,
    PromptUnclear,
    QueueFull,
    RateLimited,
    SearchDown,
    SearchTimedOut,
    ServiceUnavailable,
    SiteBlocked,
    Unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.items import PageError

logger = logging.getLogger(__name__)

_PATTERNS = frozenset({"includePaths", "excludePaths"})  # of a crawl

# Interface document, 1.5; a failed page whose code is not here is a 500.
FAILURE_STATUS = {
    "CONCURRENCY_QUEUE_TIMEOUT": 408,
    "SCRAPE_ACTIONS_NOT_SUPPORTED": 400,
    "SCRAPE_LOCKDOWN_CACHE_MISS": 404,
    "SCRAPE_NO_CACHED_DATA": 404,
    "SCRAPE_PROMPT_INJECTION_DETECTED": 403,
    "SCRAPE_TIMEOUT": 408,
    "UNSUPPORTED_SITE": 403,
}


# Errors whose text is the whole answer: class, status, further members.
PLAIN_ERRORS: tuple[tuple[type[Exception], int, dict[str, str]], ...] = (
    (InvalidParameter, 400, {"code": "BAD_REQUEST"}),
    (PromptUnclear, 400, {"code": "BAD_REQUEST"}),
    (JobNotFound, 404, {}),
    (JobEnded, 409, {}),
    (HeadersForgotten, 409, {}),
    (MapTimedOut, 408, {"code": "MAP_TIMEOUT"}),
    (SearchTimedOut, 408, {"code": "SCRAPE_TIMEOUT"}),
    (SearchDown, 500, {}),
    (IdempotencyKeyUsed, 409, {}),
    (OutOfCredits, 402, {}),
    (SiteBlocked, 403, {"code": "UNSUPPORTED_SITE"}),
)


@frozen
class Answer:
    """Status and JSON members of an error; ``headers`` beside them."""

    status: int
    members: dict[str, Any]
    headers: dict[str, str] = field(factory=dict)


def error_body(error: str, **members: Any) -> dict[str, Any]:
    """Return the error body of the interface document, 1.4."""
    return {"success": False, **members, "error": error}


def answer_to(error: Exception, wire_name: Callable[[str], str]) -> Answer:
    """Return what a caller gets for ``error``: the one table of errors.

    ``wire_name`` spells an attribute of the options as the version does.
    """
    match error:
        case InvalidOptions():
            heading = _pattern_fault(error.issues) or error.heading
            return _bad_request(error.issues, heading, error.code)
        case OptionUnavailable(code="BAD_REQUEST"):
            above = ("scrapeOptions",) if error.nested else ()
            path = (*above, wire_name(error.attribute))
            return _bad_request((Issue("custom", path, str(error)),))
        case OptionUnavailable():
            return Answer(400, error_body(str(error), code=error.code))
        case InvalidBody():
            members = error_body(
                "Bad request, malformed JSON",
                code="BAD_REQUEST_INVALID_JSON",
                details=[{"code": "custom", "path": [], "message": str(error)}],
            )
            return Answer(400, members)
        case Unauthorized():
            headers = {"WWW-Authenticate": "Bearer"}
            return Answer(401, error_body(str(error)), headers)
        case HTTPException():
            return _no_route(error)
        case RateLimited():
            return _rate_limited(error)
        case QueueFull():
            retry = {"Retry-After": str(error.retry_after_s)}
            return Answer(429, error_body(str(error)), retry)
        case ServiceUnavailable():
            retry = {"Retry-After": str(error.retry_after_s), "Connection": "close"}
            return Answer(503, error_body(str(error)), retry)
        case ImportError():
            logger.error("a module is missing", exc_info=error)
            text = f"A part of the service is missing: {error}. Was it reinstalled?"
            return Answer(503, error_body(f"{text} It has to be restarted."))
    for kind, status, members in PLAIN_ERRORS:
        if isinstance(error, kind):
            return Answer(status, error_body(str(error), **members))
    error_id = str(uuid.uuid4())
    logger.error("unexpected error %s", error_id, exc_info=error)
    text = f"An unexpected error occurred; its id in the log is {error_id}."
    return Answer(500, error_body(text, code="UNKNOWN_ERROR"))


def _rate_limited(error: RateLimited) -> Answer:
    wait_s = error.retry_after_s
    text = (
        f"Rate limit exceeded. Consumed (req/min): {error.used}, remaining (req/min): 0."
        f" Please retry after {wait_s}s, resets at {iso(error.resets_at)}."
    )
    return Answer(429, error_body(text), {"Retry-After": str(wait_s)})


def _no_route(error: HTTPException) -> Answer:
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        return Answer(405, error_body("Method not allowed"), {"Allow": allowed})
    if isinstance(error, NotFound):
        return Answer(404, error_body("Not found"))
    return Answer(error.code or 400, error_body(error.name))


def issue_members(issue: Issue) -> dict[str, Any]:
    """Return an issue as the interface document, 1.4, has it."""
    path, facts = list(issue.path), issue.facts
    return {"code": issue.code, "path": path, "message": issue.message, **facts}


def _pattern_fault(issues: tuple[Issue, ...]) -> str | None:
    """Return what is wrong with a pattern of a crawl; None if other things are, too.

    Such a body is answered with the reason (interface document, 1.7).
    """
    for issue in issues:
        if issue.code != "custom" or _PATTERNS.isdisjoint(issue.path):
            return None
    issue = issues[0]
    return f"{'.'.join(map(str, issue.path))}: {issue.message}"


def _bad_request(
    issues: tuple[Issue, ...],
    heading: str = InvalidOptions.heading,
    code: str | None = InvalidOptions.code,
) -> Answer:
    details = [issue_members(issue) for issue in issues]
    members = (
        {"details": details} if code is None else {"code": code, "details": details}
    )
    return Answer(400, error_body(heading, **members))


def failed_page(error: PageError, status: dict[str, int]) -> Answer:
    """Return the answer for a single page that failed, by the version's table."""
    return Answer(
        status.get(error.code, 500), error_body(error.message, code=error.code)
    )
