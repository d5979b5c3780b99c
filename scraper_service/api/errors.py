"""Error responses: the one table from exceptions to status and JSON body."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from twisted.web.resource import Resource
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from scraper_service import errors
from scraper_service.api.schemas import encode, iso
from scraper_service.errors import (
    IdempotencyKeyInvalid,
    IdempotencyKeyUsed,
    InvalidBody,
    InvalidOptions,
    Issue,
    OptionUnavailable,
    QueueFull,
    RangeInvalid,
    RateLimited,
    ScopeMissing,
    ServiceUnavailable,
    Unauthorized,
    issue_text,
)
from scraper_service.options import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.web.server import Request

    from scraper_service.items import PageError

logger = logging.getLogger(__name__)

#: The error of every path without a route.
NO_SUCH_PATH = "Not found: no such path. GET /openapi.json lists the paths."
_PATTERNS = frozenset(
    catalogue.keys(
        catalogue.select(catalogue.CRAWL, "include_paths", "exclude_paths"), "v2"
    )
)

# See docs/api/README.md, Errors. A failed page with any other code is a 500.
FAILURE_STATUS = {
    "CONCURRENCY_QUEUE_TIMEOUT": 408,
    "SCRAPE_ACTIONS_NOT_SUPPORTED": 400,
    "SCRAPE_LOCKDOWN_CACHE_MISS": 404,
    "SCRAPE_NO_CACHED_DATA": 404,
    "SCRAPE_PROMPT_INJECTION_DETECTED": 403,
    "SCRAPE_TIMEOUT": 408,
    "UNSUPPORTED_SITE": 403,
}


# Errors whose text is the whole response: class, status, further members. The first
# matching class counts, so subclasses come first.
PLAIN_ERRORS: tuple[tuple[type[Exception], int, dict[str, str]], ...] = (
    (errors.InvalidParameter, 400, {"code": "BAD_REQUEST"}),
    (errors.PromptUnclear, 400, {"code": "BAD_REQUEST"}),
    (errors.UploadMissing, 400, {"code": "BAD_REQUEST"}),
    (errors.ExportUnavailable, 400, {"code": "EXPORT_UNAVAILABLE"}),
    (errors.UnsupportedFileType, 400, {"code": "UNSUPPORTED_FILE_TYPE"}),
    (errors.JobNotFound, 404, {}),
    (errors.UploadNotFound, 404, {}),
    (errors.SessionNotFound, 404, {}),
    (errors.SessionDestroyed, 410, {}),
    (errors.SessionElsewhere, 409, {}),
    (errors.ReplayUnavailable, 409, {}),
    (errors.ProfileInUse, 409, {}),
    (errors.JobFinished, 409, {"code": "JOB_FINISHED"}),
    (errors.JobEnded, 409, {}),
    (errors.JobRunning, 409, {}),
    (errors.SourceJobRunning, 409, {}),
    (errors.SourcesNotStored, 409, {"code": "SOURCES_NOT_STORED"}),
    (errors.CallFailed, 409, {}),
    (errors.MonitorLimit, 409, {}),
    (errors.CheckRunning, 409, {}),
    (errors.UploadUsed, 409, {}),
    (errors.FileTooLarge, 413, {}),
    (RangeInvalid, 416, {}),
    (errors.HeadersForgotten, 409, {}),
    (errors.MapTimedOut, 408, {"code": "MAP_TIMEOUT"}),
    (errors.SearchTimedOut, 408, {"code": "SCRAPE_TIMEOUT"}),
    (errors.SearchDown, 500, {}),
    (IdempotencyKeyUsed, 409, {}),
    (errors.OutOfCredits, 402, {}),
    # As for credits: what the team has of it is used up. Clients wait after a 429, and
    # some repeat a call for ever after a 5xx.
    (errors.DiskQuotaExceeded, 402, {"code": "DISK_QUOTA_EXCEEDED"}),
    (errors.SiteBlocked, 403, {"code": "UNSUPPORTED_SITE"}),
)

#: The statuses of pages that fail; 500 is that of all other codes.
PAGE_STATUSES = (*sorted(set(FAILURE_STATUS.values())), 500)
#: The status of every error that the service expects.
STATUSES: dict[type[Exception], int] = {
    InvalidOptions: 400,
    OptionUnavailable: 400,
    InvalidBody: 400,
    Unauthorized: 401,
    # Not 403: clients take each 403 for a site that may not be fetched. RFC 9110 has 401
    # also for credentials that do not suffice.
    ScopeMissing: 401,
    RateLimited: 429,
    QueueFull: 429,
    ServiceUnavailable: 503,
    **{kind: status for kind, status, _ in PLAIN_ERRORS},
}
#: The errors of a call that costs credits, beside those of its body.
WORK_ERRORS = (
    OptionUnavailable,
    errors.SiteBlocked,
    errors.OutOfCredits,
    errors.DiskQuotaExceeded,
    QueueFull,
)


@frozen
class ErrorResponse:
    """An error response."""

    status: int
    #: The JSON body.
    members: dict[str, Any]
    headers: dict[str, str] = field(factory=dict)


def error_body(error: str, **members: Any) -> dict[str, Any]:
    """Return the body of an error response, see docs/api/README.md, Errors."""
    return {"success": False, **members, "error": error}


def answer_to(error: Exception, wire_name: Callable[[str], str]) -> ErrorResponse:
    """Return the response for ``error``.

    ``wire_name`` returns the JSON key of an attribute of the options.
    """
    match error:
        case InvalidOptions():
            heading = _pattern_fault(error.issues) or error.heading
            return _bad_request(error.issues, heading, error.code)
        case OptionUnavailable():
            return _unavailable(error, wire_name)
        case InvalidBody():
            members = error_body(
                "Bad request, malformed JSON",
                code="BAD_REQUEST_INVALID_JSON",
                details=[{"code": "custom", "path": [], "message": str(error)}],
            )
            return ErrorResponse(STATUSES[InvalidBody], members)
        case IdempotencyKeyInvalid():
            issue = {"code": "custom", "path": [], "message": error.reason}
            members = error_body(str(error), details=[issue])
            return ErrorResponse(STATUSES[IdempotencyKeyUsed], members)
        case Unauthorized():
            return _unauthorized_response(error)
        case HTTPException():
            return _no_route(error)
        case RateLimited():
            return _rate_limited(error)
        case QueueFull():
            retry = {"Retry-After": str(error.retry_after_s)}
            return ErrorResponse(STATUSES[QueueFull], error_body(str(error)), retry)
        case ServiceUnavailable():
            retry = {"Retry-After": str(error.retry_after_s), "Connection": "close"}
            members = error_body(str(error))
            return ErrorResponse(STATUSES[ServiceUnavailable], members, retry)
        case ImportError():
            logger.error("a module is missing", exc_info=error)
            text = f"A part of the service is missing: {error}."
            advice = "Was the service reinstalled? Its operator has to restart it."
            return ErrorResponse(503, error_body(f"{text} {advice}"))
    for kind, status, members in PLAIN_ERRORS:
        if isinstance(error, kind):
            headers = (
                {"Content-Range": f"bytes */{error.length}"}
                if isinstance(error, RangeInvalid)
                else {}
            )
            return ErrorResponse(status, error_body(str(error), **members), headers)
    error_id = str(uuid.uuid4())
    logger.error("unexpected error %s", error_id, exc_info=error)
    text = f"An unexpected error occurred; its id in the log is {error_id}."
    return ErrorResponse(500, error_body(text, code="UNKNOWN_ERROR"))


def _unauthorized_response(error: Unauthorized) -> ErrorResponse:
    if not isinstance(error, ScopeMissing):
        headers = {"WWW-Authenticate": "Bearer"}
        return ErrorResponse(STATUSES[Unauthorized], error_body(str(error)), headers)
    # The parameters are those of RFC 6750, 3.
    needed = f'Bearer error="insufficient_scope", scope="{error.scope}"'
    members = error_body(str(error), code="MISSING_SCOPE")
    return ErrorResponse(STATUSES[ScopeMissing], members, {"WWW-Authenticate": needed})


def _unavailable(
    error: OptionUnavailable, wire_name: Callable[[str], str]
) -> ErrorResponse:
    nested = ("scrapeOptions",) if error.nested else ()
    path = (*(error.above or nested), wire_name(error.attribute))
    issues = (Issue("custom", path, str(error)),)
    if error.code == "BAD_REQUEST":
        return _bad_request(issues)
    if error.code == "LANGUAGE_MODEL_REQUIRED" and error.attribute == "judge_enabled":
        return _bad_request(issues, str(error), error.code)
    members = error_body(str(error), code=error.code)
    return ErrorResponse(STATUSES[OptionUnavailable], members)


def _rate_limited(error: RateLimited) -> ErrorResponse:
    wait_s = error.retry_after_s
    text = (
        f"Rate limit exceeded. Consumed (req/min): {error.used}, remaining (req/min): 0."
        f" Please retry after {wait_s}s, resets at {iso(error.resets_at)}."
    )
    retry = {"Retry-After": str(wait_s)}
    return ErrorResponse(STATUSES[RateLimited], error_body(text), retry)


def _no_route(error: HTTPException) -> ErrorResponse:
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        return ErrorResponse(405, error_body("Method not allowed"), {"Allow": allowed})
    if isinstance(error, NotFound):
        return ErrorResponse(404, error_body(NO_SUCH_PATH))
    return ErrorResponse(error.code or 400, error_body(error.name))


def issue_members(issue: Issue) -> dict[str, Any]:
    """Return an issue as it is listed in ``details``."""
    path, facts = list(issue.path), issue.facts
    return {"code": issue.code, "path": path, "message": issue.message, **facts}


def _pattern_fault(issues: tuple[Issue, ...]) -> str | None:
    """Return the error of an invalid URL pattern, None if there are other errors too.

    This error is then the text of the response, see docs/api/crawls.md, Crawls.
    """
    for issue in issues:
        if issue.code != "custom" or _PATTERNS.isdisjoint(issue.path):
            return None
    return issue_text(issues[0])


def _bad_request(
    issues: tuple[Issue, ...],
    heading: str = InvalidOptions.heading,
    code: str | None = InvalidOptions.code,
) -> ErrorResponse:
    details = [issue_members(issue) for issue in issues]
    members = (
        {"details": details} if code is None else {"code": code, "details": details}
    )
    return ErrorResponse(STATUSES[InvalidOptions], error_body(heading, **members))


def failed_page(error: PageError, status: dict[str, int]) -> ErrorResponse:
    """Return the response for a failed page, by the version's table of statuses."""
    return ErrorResponse(
        status.get(error.code, 500), error_body(error.message, code=error.code)
    )


def write(request: Request, answer: ErrorResponse) -> bytes:
    """Set status and headers of an error response; return its body."""
    request.setResponseCode(answer.status)
    for name, value in answer.headers.items():
        request.setHeader(name, value)
    body = encode(answer.members)
    request.setHeader("Content-Length", str(len(body)))
    return body


class NotFoundPage(Resource):
    """A 404 in JSON, for everything below."""

    isLeaf = True

    def render(self, request: Request) -> bytes:
        return not_found(request)


def not_found(request: Request) -> bytes:
    """Return the body of a 404."""
    request.setResponseCode(404)
    return encode(error_body(NO_SUCH_PATH))


def refuse_method(request: Request) -> bytes | None:
    """Return the body of a 405; None for the methods GET and HEAD."""
    if request.method in {b"GET", b"HEAD"}:
        return None
    request.setResponseCode(405)
    request.setHeader(b"Allow", b"GET, HEAD")
    return encode(error_body("Method not allowed"))
