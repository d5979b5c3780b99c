"""Parameters of requests: ids in paths, the query, headers, and the caller's host."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import Factory, field, frozen

from scraper_service.api.http_connections import TrustedProxies
from scraper_service.api.openapi.route import Parameter
from scraper_service.errors import IdempotencyKeyInvalid, InvalidParameter
from scraper_service.options.jobs import iso_seconds

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest

MAX_PAGES = 1000  # in one response
MAX_SKIP = 2**31 - 1
MAX_DIGITS = 18
_PAGING = frozenset({"skip", "limit"})


@frozen
class PublicUrls:
    """The URLs of this service in responses."""

    #: Scheme, host and port. Empty: those of the request.
    public_url: str = ""
    #: Their X-Forwarded-Host and X-Forwarded-Proto override the request's own.
    proxies: TrustedProxies = field(factory=TrustedProxies)

    def base(self, request: JsonRequest) -> str:
        """Return scheme, host and port, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = request.header("Host") or "localhost"
        scheme = "http"
        if getattr(request.getClientAddress(), "host", "") in self.proxies:
            host = _first(request, "X-Forwarded-Host") or host
            scheme = _first(request, "X-Forwarded-Proto") or scheme
        return f"{'https' if scheme == 'https' else 'http'}://{host}"


@frozen
class TextParameter(Parameter):
    """A text of the query."""

    #: A JSON Schema.
    schema: dict[str, Any] = field(factory=lambda: {"type": "string"})

    def read(self, request: JsonRequest) -> str | None:
        """Return the text, None if it is missing. Raises :exc:`InvalidParameter`."""
        return argument(request, self.name)


@frozen
class PathParameter(TextParameter):
    """A part of the path that is not an id."""

    location = "path"


@frozen
class HeaderParameter(TextParameter):
    """A header of the request."""

    location = "header"


@frozen
class NumberParameter(Parameter):
    """An integer of the query."""

    minimum: int
    maximum: int
    #: What a request without the parameter means; None for something else.
    default: int | None = None

    @property
    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        default = {} if self.default is None else {"default": self.default}
        return {"type": "integer", **bounds, **default}

    def find(self, request: JsonRequest) -> int | None:
        """Return the number, None if it is missing. Raises :exc:`InvalidParameter`."""
        return number(request, self.name, self.minimum, self.maximum)

    def read(self, request: JsonRequest) -> int:
        """Return the number or the default. Raises :exc:`InvalidParameter`."""
        found = self.find(request)
        assert self.default is not None
        return self.default if found is None else found


@frozen
class ChoiceParameter(Parameter):
    """One of some words in the query."""

    allowed: tuple[str, ...]
    #: The word of a request without the parameter; None if there is none.
    default: str | None = None

    @property
    def schema(self) -> dict[str, Any]:
        default = {} if self.default is None else {"default": self.default}
        return {"type": "string", "enum": list(self.allowed), **default}

    def read(self, request: JsonRequest) -> str | None:
        """Return the word or the default. Raises :exc:`InvalidParameter`."""
        text = argument(request, self.name)
        return self.default if text is None else self._check(text)

    def _check(self, text: str) -> str:
        if text not in self.allowed:
            raise InvalidParameter(
                f"Invalid {self.name}: must be one of {', '.join(self.allowed)},"
                f" got {text[:60]!r}"
            )
        return text


@frozen
class ChoicesParameter(ChoiceParameter):
    """Some words in the query, each in a parameter of its own."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": super().schema}

    def read_all(self, request: JsonRequest) -> tuple[str, ...]:
        """Return the distinct words. Raises :exc:`InvalidParameter`."""
        return tuple(dict.fromkeys(map(self._check, arguments(request, self.name))))


@frozen
class ListParameter(Parameter):
    """Some of a set of words in the query, separated by commas."""

    allowed: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        word = "|".join(self.allowed)
        return {"type": "string", "pattern": f"^({word})(,({word}))*$"}

    def read(self, request: JsonRequest) -> frozenset[str] | None:
        """Return the words, None if they are missing. Raises :exc:`InvalidParameter`."""
        text = argument(request, self.name)
        if text is None:
            return None
        chosen = frozenset(each.strip() for each in text.split(","))
        if not chosen <= set(self.allowed):
            raise InvalidParameter(
                f"Invalid {self.name}: must be a list of {', '.join(self.allowed)},"
                f" separated by commas, got {text[:60]!r}"
            )
        return chosen


@frozen
class TimeParameter(Parameter):
    """A time of the query in ISO 8601. Without a time zone it is in UTC."""

    schema: ClassVar[dict[str, Any]] = {"type": "string", "format": "date-time"}

    def read(self, request: JsonRequest) -> float | None:
        """Return the seconds since 1970, None if the time is missing.

        Raises :exc:`InvalidParameter`.
        """
        text = argument(request, self.name)
        if text is None:
            return None
        # An unescaped + in a query stands for a space.
        escaped = text.replace(" ", "+") if "T" in text else text
        try:
            return iso_seconds(escaped)
        except ValueError:
            raise InvalidParameter(
                f"Invalid {self.name}: must be a time in ISO 8601 such as"
                f" 2026-01-31T12:00:00Z, got {text[:60]!r}"
            ) from None


@frozen
class CursorParameter(Parameter):
    """The position in a list where a response begins."""

    #: Where a caller finds the value, such as ``the value in next``.
    source: str
    pattern: re.Pattern[str]
    help: str = field(
        init=False,
        default=Factory(
            lambda self: f"Begin after this position: {self.source}.", takes_self=True
        ),
    )

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self.pattern.pattern}$"}

    def read(self, request: JsonRequest) -> re.Match[str] | None:
        """Return the parts of the cursor, None if it is missing.

        Raises :exc:`InvalidParameter`.
        """
        text = argument(request, self.name)
        found = None if text is None else self.pattern.fullmatch(text)
        if text is not None and found is None:
            raise InvalidParameter(
                f"Invalid {self.name}: must be {self.source}, got {text[:60]!r}"
            )
        return found


IDEMPOTENCY_KEY = HeaderParameter(
    "x-idempotency-key",
    "A UUID; a second call with the same key starts nothing and is a 409.",
    {"type": "string", "format": "uuid"},
)
SKIP = NumberParameter("skip", "Leave out the first N pages.", 0, MAX_SKIP, 0)
LIMIT = NumberParameter(
    "limit", "Return at most N pages. Without it at most 10 MiB.", 1, MAX_PAGES
)


def _first(request: JsonRequest, name: str) -> str:
    """Return the first value of a header, which the outermost proxy has set."""
    return request.headers_of(name).partition(",")[0].strip()


def parse_job_id(text: str, name: str = "job", what: str = "") -> str:
    """Return the id in a path. Raises :exc:`InvalidParameter` unless it is a UUID.

    The message names ``name``, and ``what`` is the part of it whose id this is.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidParameter(
            f"Invalid {name} ID format: {what}must be a UUID, got {text[:60]!r}"
        ) from None


def idempotency_key(request: JsonRequest) -> str | None:
    """Return the idempotency key of a request, None without one.

    Raises :exc:`IdempotencyKeyInvalid` unless it is a UUID.
    """
    text = request.header(IDEMPOTENCY_KEY.name)
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise IdempotencyKeyInvalid(text) from None


def paging(request: JsonRequest) -> tuple[int | None, int | None]:
    """Return ``skip`` and ``limit`` of the query, None for each that is missing.

    Raises :exc:`InvalidParameter`.
    """
    return SKIP.find(request), LIMIT.find(request)


def argument(request: JsonRequest, name: str) -> str | None:
    """Return a parameter of the query, None if it is missing.

    Raises :exc:`InvalidParameter` for a repeated parameter, and for NUL.
    """
    values = arguments(request, name)
    if len(values) > 1:
        kind = "pagination" if name in _PAGING else name
        raise InvalidParameter(
            f"Invalid {kind}: {name} must be given once, got {len(values)} of it"
        )
    return values[0] if values else None


def arguments(request: JsonRequest, name: str) -> list[str]:
    """Return all values of a parameter of the query.

    Raises :exc:`InvalidParameter` for NUL, which PostgreSQL refuses.
    """
    given = (request.args or {}).get(name.encode()) or []
    texts = [value.decode("utf-8", "replace") for value in given]
    if any("\0" in text for text in texts):
        raise InvalidParameter(f"Invalid {name}: must not contain NUL")
    return texts


def check_names(request: JsonRequest) -> None:
    """Raise :exc:`InvalidParameter` if the query has a name that the route does not have."""
    names = [each.name for each in request.parameters if each.location == "query"]
    for given in request.args or {}:
        name = given.decode("utf-8", "replace")
        if name not in names:
            allowed = f"the parameters are {', '.join(names)}"
            if not names:
                allowed = "the path has no parameters"
            raise InvalidParameter(f"Invalid {name[:60]!r} in the query: {allowed}")


def number(request: JsonRequest, name: str, low: int, high: int) -> int | None:
    """Return a number of the query, None if it is missing.

    Raises :exc:`InvalidParameter`.
    """
    text = argument(request, name)
    if text is None:
        return None
    if not is_number(text, low, high):
        raise InvalidParameter(
            f"Invalid pagination: {name} must be an integer from {low} to {high},"
            f" got {text[:60]!r}"
        )
    return int(text)


def is_number(text: str, low: int, high: int) -> bool:
    """Return True for at most 18 ASCII digits from ``low`` to ``high``."""
    # Python refuses to parse thousands of digits.
    is_short = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return is_short and low <= int(text) <= high
