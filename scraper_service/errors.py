"""Errors of the service.

They carry data besides their text and have no HTTP status: ``api/errors.py`` maps each to
a response. A page that cannot be fetched or converted is data
(:class:`scraper_service.items.PageError`), not an exception.
"""

from __future__ import annotations

import errno
import unicodedata
from typing import Any

from attrs import field, frozen

#: Codes of pages of a job that failed, see docs/how-to/troubleshooting.md, Error codes.
FAILURE_CODES = (
    "CONCURRENCY_QUEUE_TIMEOUT",
    "CRAWL_DENIAL",
    "EXTERNAL_LINK",
    "INSUFFICIENT_CREDITS",
    "ROBOTS_UNREACHABLE",
    "SCRAPE_ACTIONS_NOT_SUPPORTED",
    "SCRAPE_ACTION_ERROR",
    "SCRAPE_ALL_ENGINES_FAILED",
    "SCRAPE_DNS_RESOLUTION_ERROR",
    "SCRAPE_LOCKDOWN_CACHE_MISS",
    "SCRAPE_NO_CACHED_DATA",
    "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR",
    "SCRAPE_PROMPT_INJECTION_DETECTED",
    "SCRAPE_RETRY_LIMIT",
    "SCRAPE_SITE_ERROR",
    "SCRAPE_SSL_ERROR",
    "SCRAPE_TIMEOUT",
    "SCRAPE_UNSUPPORTED_FILE_ERROR",
    "SOURCE_NOT_STORED",
    "UNKNOWN_ERROR",
    "UNSUPPORTED_SITE",
)
#: Codes of the API that no page of a job has here: a retry takes them, and finds no page.
OTHER_CODES = (
    "BAD_REQUEST",
    "BAD_REQUEST_INVALID_JSON",
    "JSON_CONTENT_TOO_LARGE",
    "MAP_FAILED",
    "MAP_TIMEOUT",
    "PARSE_UNSUPPORTED_OPTIONS",
    "SCRAPE_BRANDING_NOT_SUPPORTED",
    "SCRAPE_JOB_CANCELLED",
    "SCRAPE_PDF_ANTIBOT_ERROR",
    "SCRAPE_PDF_PREFETCH_FAILED",
    "SCRAPE_RACED_REDIRECT_ERROR",
    "SCRAPE_SITEMAP_ERROR",
    "SCRAPE_ZDR_VIOLATION_ERROR",
    "UNSUPPORTED_FILE_TYPE",
)
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories of characters


def variable(setting: str) -> str:
    """Return the environment variable of a setting, as messages name it."""
    return f"SCRAPER_{setting}"


def plural(count: int, noun: str) -> str:
    """Return a number of things as text: ``1 page``, ``2 pages``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def printable(text: str, most: int | None = None) -> str:
    """Return ``text`` on one line, without control and direction characters.

    The result has at most ``most`` characters. A text that is cut ends in three dots.
    """
    words = " ".join(text.split())
    clean = "".join(c for c in words if unicodedata.category(c) not in _HARMFUL)
    if most is not None and len(clean) > most:
        return clean[: max(most - 3, 0)] + "..."[:most]
    return clean


def prefix_name(name: str, message: str) -> str:
    """Return a message that begins with the name of an option, once."""
    begin = message.lower()
    if begin.startswith((f"{name.lower()} ", f"invalid {name.lower()}:")):
        return message
    return f"{name}: {message}"


def listen_error(host: str, port: int, error: OSError) -> str:
    """Return why an address and port cannot be listened on, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            remedy = "end what uses it, or use --port"
        case errno.EACCES:
            remedy = "use --port with a port from 1024"
        case _:  # of the address or name
            remedy = "set --host or SCRAPER_HOST to an address of this machine"
    return f"{host}:{port} cannot be listened on ({error.strerror or error}); {remedy}"


class ServiceError(Exception):
    """The base of all errors below."""


@frozen
class Issue:
    """One error in a caller's input."""

    #: ``invalid_type``, ``invalid_enum_value``, ``too_small``, ``too_big``,
    #: ``invalid_string``, ``unrecognized_keys``, ``invalid_union`` or ``custom``.
    code: str
    #: Keys and indexes from the root of the input, in the caller's spelling.
    path: tuple[str | int, ...]
    message: str
    #: Further members, such as ``expected``, ``received``, ``keys``, ``minimum``.
    facts: dict[str, Any] = field(factory=dict)


def issue_text(issue: Issue) -> str:
    """Return the message of an issue with its path, which many messages begin with."""
    path = ".".join(map(str, issue.path))
    if path and issue.message.startswith(path):
        return issue.message
    return f"{path}: {issue.message}"


class InvalidOptions(ServiceError, ValueError):
    """Raised when a caller's options break a rule.

    ``issues`` are all errors, in the order of the input. ``heading`` and ``code`` are the
    error text and code of the response; with None the response has no code.
    """

    heading = "Bad Request"
    code: str | None = "BAD_REQUEST"

    def __init__(self, issues: list[Issue]):
        self.issues = tuple(issues)
        super().__init__("; ".join(map(issue_text, issues)))


class ConversionFailed(ServiceError, ValueError):
    """Raised by :func:`scraper_service.convert` for a document that cannot be read.

    ``code`` is the error code of a failed page, see docs/api/README.md, Errors.
    """

    def __init__(self, code: str, message: str):
        self.code = code
        super().__init__(message)


class OptionUnavailable(ServiceError, ValueError):
    """Raised when this installation lacks a part that a valid option needs.

    ``attribute`` is the field of the options class. ``code`` is the error code of the
    response, ``BAD_REQUEST`` without a special one.
    """

    nested = False  # True for a page option inside the options of a job
    above: tuple[str | int, ...] = ()  # the path of the options in the request

    def __init__(self, attribute: str, message: str, code: str = "BAD_REQUEST"):
        self.attribute = attribute
        self.code = code
        super().__init__(message)


class SchemaRefused(ServiceError, ValueError):
    """Raised when a caller's JSON Schema is not supported.

    ``pointer`` is the JSON Pointer of the unsupported part, empty for the whole schema.
    ``reason`` is a sentence without a full stop.
    """

    def __init__(self, reason: str, pointer: str = ""):
        self.reason = reason
        self.pointer = pointer
        super().__init__(f"{reason} (at {pointer})" if pointer else reason)


class InvalidBody(ServiceError, ValueError):
    """Raised when a request body is not valid JSON."""


class Unauthorized(ServiceError, PermissionError):
    """Raised when a request has no valid API key."""


class ScopeMissing(Unauthorized):
    """Raised when a route needs a scope that the API key does not have.

    ``scope`` is the scope that ``route``, a method and a path, needs.
    """

    def __init__(self, route: str, scope: str, own: str):
        self.scope = scope
        super().__init__(
            f"Unauthorized: {route} needs an API key with the scope {scope!r}, this key"
            f" has the scope {own!r}."
        )


class InvalidParameter(ServiceError, ValueError):
    """Raised when a part of a request's path or query is invalid."""


class PromptUnclear(ServiceError, ValueError):
    """Raised when a prompt yields no options of a crawl."""

    def __init__(self, reason: str):
        super().__init__(f"Failed to process natural language prompt: {reason}")


class JobNotFound(ServiceError, LookupError):
    """Raised when a team has no such job, or the job has expired."""


class JobEnded(ServiceError, ValueError):
    """Raised when a job that has ended would change. ``state`` is its final state."""

    def __init__(self, kind: str, state: str):
        self.state = state
        super().__init__(f"{kind.capitalize()} is already {state}")


class MonitorLimit(ServiceError, ValueError):
    """Raised when a team has as many monitors as it may have."""

    def __init__(self, most: int):
        super().__init__(f"Monitor limit reached: a team may have {most} monitors.")


class CheckRunning(ServiceError, ValueError):
    """Raised when a monitor would be run while one of its checks is running."""

    def __init__(self) -> None:
        super().__init__("A monitor check is already running")


class CallFailed(ServiceError, ValueError):
    """Raised for feedback on a call that has failed. ``endpoint`` is that of the call."""

    def __init__(self, endpoint: str):
        super().__init__(f"This {endpoint} has failed: it takes no feedback.")


class JobFinished(JobEnded):
    """Raised when a caller controls a job that has ended: pause, change, retry."""


class ExportUnavailable(ServiceError, ValueError):
    """Raised for an export in a format whose library is not installed."""

    def __init__(self, name: str, reason: str):
        super().__init__(f"The format {name} is not available: {reason}.")


class JobRunning(ServiceError, ValueError):
    """Raised for an export that needs a job that is paused or has ended."""

    def __init__(self, name: str):
        super().__init__(
            f"The format {name} has the pages of a job that is paused or has ended;"
            " jsonl, csv and md take a running job too."
        )


class SourcesNotStored(ServiceError, ValueError):
    """Raised for what needs the responses of pages of a job that has not kept them.

    ``what`` is the start of the sentence. A job that ``is_empty`` has no page at all.
    """

    def __init__(self, what: str, *, is_empty: bool = False):
        why = (
            "has no page."
            if is_empty
            else "has not kept them: keepSources (SCRAPER_KEEP_SOURCES) or"
            " zeroDataRetention of its start decide."
        )
        super().__init__(f"{what} needs the responses of the pages, and this job {why}")


class SourceJobRunning(ServiceError, ValueError):
    """Raised when a job is reprocessed that is neither paused nor finished."""

    def __init__(self) -> None:
        super().__init__(
            "The job is still running; reprocess it when it is paused or has ended."
        )


class RangeInvalid(ServiceError, ValueError):
    """Raised for a range of bytes after the end of a file. ``length`` is that of the file."""

    def __init__(self, length: int):
        self.length = length
        super().__init__(
            f"The file has {plural(length, 'byte')}: the range begins after them."
        )


class UploadNotFound(ServiceError, LookupError):
    """Raised for an upload that is unknown, has expired, or was parsed."""

    def __init__(self) -> None:
        super().__init__("Upload not found")


class UploadMissing(ServiceError, ValueError):
    """Raised when a file would be parsed whose bytes were not sent yet."""

    def __init__(self) -> None:
        super().__init__("The bytes of this upload were not sent: PUT them first.")


class UploadUsed(ServiceError, ValueError):
    """Raised when the bytes of an upload are sent a second time."""

    def __init__(self) -> None:
        super().__init__("The bytes of this upload were sent already.")


class FileTooLarge(ServiceError, ValueError):
    """Raised for a file that is larger than any that can be parsed."""


class UnsupportedFileType(ServiceError, ValueError):
    """Raised for a file of a kind that this installation does not read."""


class HeadersForgotten(ServiceError, ValueError):
    """Raised when an ended job would go on without headers that were deleted.

    Headers of a webhook are deleted when all deliveries have arrived, those of pages when
    the job ends.
    """

    def __init__(
        self,
        advice: str,
        what: str = "The headers of the webhook were deleted when all its events had"
        " arrived",
    ):
        super().__init__(f"{what}: {advice}")


class SecretsUnreadable(ServiceError, RuntimeError):
    """Raised when stored headers or actions were encrypted with another secret."""

    def __init__(self) -> None:
        super().__init__(
            "The headers or actions of this job cannot be decrypted: SCRAPER_KEY_SECRET"
            " (or the file key.secret in SCRAPER_DATA_DIR) is not the same in all"
            " processes that share the job database."
        )


class RunRefused(ServiceError, RuntimeError):
    """Raised when a process may not run the job that it was started for."""


class IdempotencyKeyUsed(ServiceError, ValueError):
    """Raised when an idempotency key was used before or is not a UUID."""


class IdempotencyKeyInvalid(IdempotencyKeyUsed):
    """Raised when an idempotency key is not a UUID."""

    def __init__(self, key: str):
        super().__init__(
            "Idempotency key already used"
        )  # docs/api/README.md fixes this text
        #: A sentence for the caller.
        self.reason = f"x-idempotency-key must be a UUID, got {key[:60]!r}"


class MapTimedOut(ServiceError, TimeoutError):
    """Raised when a map exceeds its timeout."""

    def __init__(self) -> None:
        super().__init__("Map timed out")  # docs/api/README.md fixes this text


class SearchTimedOut(ServiceError, TimeoutError):
    """Raised when a search exceeds its timeout."""

    def __init__(self) -> None:
        super().__init__("The search was not ready within its timeout.")


class SearchDown(ServiceError, RuntimeError):
    """Raised when every search engine fails and the team's own pages have no result.

    ``failures`` has a reason per engine.
    """

    def __init__(self, failures: list[str]):
        self.failures = tuple(failures)
        super().__init__(f"No search engine answered: {'; '.join(failures)}.")


class QueueFull(ServiceError, RuntimeError):
    """Raised when the service or a team is at its limit of work at a time."""

    retry_after_s = 5


class SessionNotFound(ServiceError, LookupError):
    """Raised for a session of the browser that a team does not have."""

    def __init__(self) -> None:
        super().__init__("Browser session not found.")


class SessionDestroyed(ServiceError, LookupError):
    """Raised for a step in a session of the browser that has ended."""

    def __init__(self) -> None:
        super().__init__("Browser session has been destroyed.")


class SessionElsewhere(ServiceError, RuntimeError):
    """Raised for a step in a session whose browser another process has."""

    def __init__(self) -> None:
        super().__init__(
            "The browser of this session belongs to another process of the service: send"
            " all calls of a session to the process that has opened it."
        )


class ProfileInUse(ServiceError, RuntimeError):
    """Raised when a second session would write a profile."""

    def __init__(self, name: str):
        super().__init__(
            f"The profile {name!r} is open for writing in another session: end that"
            " session, or open the profile with saveChanges: false."
        )


class ReplayUnavailable(ServiceError, LookupError):
    """Raised for a browser session after a scrape whose options are not stored."""

    def __init__(self) -> None:
        super().__init__(
            "Replay context is unavailable for this scrape job. Please rerun the scrape."
        )


class SessionLimit(QueueFull):
    """Raised when a team has as many sessions of the browser as it may have."""

    retry_after_s = 30

    def __init__(self) -> None:
        super().__init__(
            "You have reached the maximum number of active browser sessions."
        )


class NoConverter(ServiceError, TimeoutError):
    """Raised when a task times out before a converter process is free."""


class ConverterDied(ServiceError, RuntimeError):
    """Raised when a task has ended its converter process twice.

    No other task ran in the process. ``how`` is the end of the process, for example
    ``signal 9``.
    """

    def __init__(self, how: str):
        self.how = how
        super().__init__(f"ended its converter twice ({how})")


class ConvertersFailed(ServiceError, RuntimeError):
    """Raised at the start of the service when no converter process can start.

    ``reason`` is the error of the last attempt.
    """

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            f"The converter processes cannot be started: {reason}."
            " SCRAPER_CONVERTER_MEMORY_MB may be too small."
        )


class OutOfCredits(ServiceError, RuntimeError):
    """Raised when a call needs more credits than a team has. Nothing is charged."""

    def __init__(self, needed: int, remaining: int):
        self.needed = needed
        self.remaining = remaining
        super().__init__(
            "Insufficient credits to perform this request:"
            f" it needs {needed}, and {remaining} remain."
        )


class DiskQuotaExceeded(ServiceError, RuntimeError):
    """Raised when a team has stored as many bytes as it may. Nothing is charged."""

    def __init__(self, used: int, limit: int):
        self.used = used
        self.limit = limit
        super().__init__(
            f"The disk quota of the team is used up: {used / 2**20:.1f} of"
            f" {limit / 2**20:.1f} MiB are stored. Delete jobs with DELETE"
            " /v2/jobs/{id}, wait until some expire, or ask the operator for more."
        )


class RateLimited(ServiceError, RuntimeError):
    """Raised when a team exceeds its rate limit for a mode.

    ``retry_after_s`` is in whole seconds, ``resets_at`` in seconds since 1970.
    """

    def __init__(self, used: int, retry_after_s: int, resets_at: float):
        self.used = used
        self.retry_after_s = retry_after_s
        self.resets_at = resets_at
        super().__init__("Rate limit exceeded")


class SiteBlocked(ServiceError, PermissionError):
    """Raised when the operator has blocked a site."""


class DatabaseUnusable(ServiceError, RuntimeError):
    """Raised when the job database cannot be opened. The text is for the operator."""


class BackupFailed(ServiceError, RuntimeError):
    """Raised when a backup is not made or not restored. The text is for the operator."""


class ServiceUnavailable(ServiceError, RuntimeError):
    """Raised during start and shutdown, and while the database is unavailable.

    ``retry_after_s`` is the value of ``Retry-After`` in seconds.
    """

    retry_after_s = 5


class StoreUnavailable(ServiceUnavailable):
    """Raised while the store of files does not respond, or refuses a call."""


class DiskFull(ServiceUnavailable):
    """Raised while a disk of the service or of its database takes no more data."""

    retry_after_s = 30

    def __init__(self) -> None:
        super().__init__(
            "The disk of the service is full. Nothing can be stored until its operator"
            " frees space."
        )


def unwritable(error: OSError) -> ServiceUnavailable:
    """Return the error for a file that could not be written."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return DiskFull()
    return StoreUnavailable(f"The file cannot be stored ({error.strerror}).")
