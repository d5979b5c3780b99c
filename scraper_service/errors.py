"""Errors of the service, grouped by who raises them.

They carry data, not only text, and know no HTTP status: the API keeps one table from
error to answer. A page that cannot be fetched or converted is *data*
(:class:`scraper_service.items.PageError`), never one of these.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen


def variable(setting: str) -> str:
    """Return the environment variable that sets ``setting``, as messages name it."""
    return f"SCRAPER_{setting}"


class ServiceError(Exception):
    """Root of all errors below."""


@frozen
class Issue:
    """One thing wrong with a caller's input.

    ``code`` is one of ``invalid_type``, ``invalid_enum_value``, ``too_small``,
    ``too_big``, ``invalid_string``, ``unrecognized_keys``, ``invalid_union``,
    ``custom``. ``path`` holds the keys and indexes from the root of the input, in the
    caller's spelling. ``facts`` are further keys such as ``expected``, ``received``,
    ``keys``, ``minimum``, ``maximum``.
    """

    code: str
    path: tuple[str | int, ...]
    message: str
    facts: dict[str, Any] = field(factory=dict)


class InvalidOptions(ServiceError, ValueError):
    """A caller's options break a rule; raised while options are structured.

    ``issues`` names every fault found, in the order of the input. ``heading`` is what
    the answer calls them; ``code`` is left out of it where it is None.
    """

    heading = "Bad Request"
    code: str | None = "BAD_REQUEST"

    def __init__(self, issues: list[Issue]):
        self.issues = tuple(issues)
        super().__init__(
            "; ".join(f"{'.'.join(map(str, i.path))}: {i.message}" for i in issues)
        )


class ConversionFailed(ServiceError, ValueError):
    """Raised by :func:`scraper_service.convert` for a document that cannot be read.

    ``code`` is an error code of the interface, as that of a page that failed.
    """

    def __init__(self, code: str, message: str):
        self.code = code
        super().__init__(message)


class OptionUnavailable(ServiceError, ValueError):
    """A valid option asks for what this installation cannot do.

    Raised by :mod:`scraper_service.options.available`. ``attribute`` is the name of
    the field of the options class; ``code`` is an error code of the interface,
    ``BAD_REQUEST`` where it has no special one.
    """

    nested = False  # whether it is one of a page's options inside a crawl's

    def __init__(self, attribute: str, message: str, code: str = "BAD_REQUEST"):
        self.attribute = attribute
        self.code = code
        super().__init__(message)


class SchemaRefused(ServiceError, ValueError):
    """A caller's JSON schema cannot be worked with.

    Raised by :func:`scraper_service.options.schemas.field_of`. ``pointer`` is the place
    in the schema as a JSON pointer, empty for all of it; ``reason`` a sentence without
    a full stop.
    """

    def __init__(self, reason: str, pointer: str = ""):
        self.reason = reason
        self.pointer = pointer
        super().__init__(f"{reason} (at {pointer})" if pointer else reason)


class InvalidBody(ServiceError, ValueError):
    """A request body is not the JSON it has to be; raised by the API."""


class Unauthorized(ServiceError, PermissionError):
    """No valid key came with a request; raised by accounts."""


class InvalidParameter(ServiceError, ValueError):
    """A part of a path or query breaks its rule; raised by the API."""


class PromptUnclear(ServiceError, ValueError):
    """Nothing of a prompt could be turned into options of a crawl."""

    def __init__(self, reason: str):
        super().__init__(f"Failed to process natural language prompt: {reason}")


class JobNotFound(ServiceError, LookupError):
    """A team has no such job, or it has expired."""


class JobEnded(ServiceError, ValueError):
    """A job that has ended cannot be changed; ``state`` is how it ended."""

    def __init__(self, kind: str, state: str):
        self.state = state
        super().__init__(f"{kind.capitalize()} is already {state}")


class HeadersForgotten(ServiceError, ValueError):
    """Events cannot be sent: headers of their webhook were deleted as all had arrived."""

    def __init__(self, advice: str):
        super().__init__(
            "The headers of the webhook were deleted when all its events had arrived:"
            f" {advice}"
        )


class SecretsUnreadable(ServiceError, RuntimeError):
    """Headers and actions of a job were encrypted with another secret than ours."""

    def __init__(self) -> None:
        super().__init__(
            "The headers or actions of this job cannot be decrypted: SCRAPER_KEY_SECRET"
            " (or the file key.secret in SCRAPER_DATA_DIR) is not the same in all"
            " processes that share the job database."
        )


class RunRefused(ServiceError, RuntimeError):
    """A process may not work on the job that it was started for."""


class IdempotencyKeyUsed(ServiceError, ValueError):
    """A request carries an idempotency key that was used before, or no UUID."""


class MapTimedOut(ServiceError, TimeoutError):
    """A map was not ready within its time-out; raised by the spider."""

    def __init__(self) -> None:
        super().__init__("Map timed out")  # the text is the contract's


class SearchTimedOut(ServiceError, TimeoutError):
    """A search was not ready within its time-out."""

    def __init__(self) -> None:
        super().__init__("The search was not ready within its timeout.")


class SearchDown(ServiceError, RuntimeError):
    """Every search engine failed, and nothing that was scraped before is a result.

    ``failures`` say of each engine why.
    """

    def __init__(self, failures: list[str]):
        self.failures = tuple(failures)
        super().__init__(f"No search engine answered: {'; '.join(failures)}.")


class QueueFull(ServiceError, RuntimeError):
    """As much work is under way as the service takes at a time."""

    retry_after_s = 5


class NoConverter(ServiceError, TimeoutError):
    """The time of a task ended before a converter process was free for it."""


class ConverterDied(ServiceError, RuntimeError):
    """A task ended its converter process twice, alone in it each time.

    ``how`` says how the process ended, such as ``signal 9``.
    """

    def __init__(self, how: str):
        self.how = how
        super().__init__(f"ended its converter twice ({how})")


class ConvertersFailed(ServiceError, RuntimeError):
    """Converter processes cannot be started; raised while the service starts.

    ``reason`` is what kept the last one from starting.
    """

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            f"The converter processes cannot be started: {reason}."
            " SCRAPER_CONVERTER_MEMORY_MB may be too small."
        )


class OutOfCredits(ServiceError, RuntimeError):
    """A team has fewer credits than a call needs; nothing was done, nothing charged."""

    def __init__(self, needed: int, remaining: int):
        self.needed = needed
        self.remaining = remaining
        super().__init__(
            "Insufficient credits to perform this request:"
            f" it needs {needed}, and {remaining} remain."
        )


class RateLimited(ServiceError, RuntimeError):
    """A team has made as many calls of a mode as it may in a minute.

    ``retry_after_s`` are whole seconds, ``resets_at`` seconds since 1970.
    """

    def __init__(self, used: int, retry_after_s: int, resets_at: float):
        self.used = used
        self.retry_after_s = retry_after_s
        self.resets_at = resets_at
        super().__init__("Rate limit exceeded")


class SiteBlocked(ServiceError, PermissionError):
    """The operator keeps the service away from a site."""


class DatabaseUnusable(ServiceError, RuntimeError):
    """The job database cannot be opened; the text tells an operator why."""


class ServiceUnavailable(ServiceError, RuntimeError):
    """The service as a whole cannot work now: starting, stopping, or no database.

    ``retry_after_s`` is the hint for the caller, in seconds.
    """

    def __init__(self, message: str, retry_after_s: int = 5):
        self.retry_after_s = retry_after_s
        super().__init__(message)
