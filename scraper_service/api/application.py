"""What every route shares: the asyncio adapter, the order of checks."""

from __future__ import annotations

import asyncio
import logging
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError, Deferred
from twisted.web.resource import Resource
from werkzeug.exceptions import NotFound

from scraper_service.api.errors import Answer, answer_to, error_body
from scraper_service.api.page_json import encode
from scraper_service.api.request_body import (
    LARGE_BODY_BYTES,
    MAX_BODY_BYTES,
    Asked,
    asked_of,
    asked_of_text,
    check_json,
    ignored_of,
    ignored_of_text,
    load_json,
    structured,
)
from scraper_service.crawling.blocked_sites import SITE_BLOCKED
from scraper_service.errors import (
    ConverterDied,
    InvalidBody,
    InvalidOptions,
    SiteBlocked,
)
from scraper_service.services.capabilities import why_not_offered

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from klein import Klein
    from twisted.python.failure import Failure

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.routes.jobs import Addresses
    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.options.limits import BlockedSites, Mode
    from scraper_service.services.accounts import Accounts, Team
    from scraper_service.services.rate_limits import Rates

logger = logging.getLogger(__name__)


ParamT = ParamSpec("ParamT")
ApiT = TypeVar("ApiT")
OptionsT = TypeVar("OptionsT")
AnswerT = TypeVar("AnswerT", bound=bytes | Resource)


def asyncio_route(
    handler: Callable[
        Concatenate[ApiT, JsonRequest, ParamT], Coroutine[Any, Any, AnswerT]
    ],
) -> Callable[Concatenate[ApiT, JsonRequest, ParamT], Deferred[AnswerT]]:
    """Let a Klein route await asyncio; goes under ``@app.route``.

    It returns its answer, or the resource that will write it.
    A client that disconnects cancels the handler, silently.
    """

    async def run(
        api: ApiT, request: JsonRequest, *args: ParamT.args, **kwargs: ParamT.kwargs
    ) -> AnswerT:
        try:
            answer = await handler(api, request, *args, **kwargs)
            if isinstance(answer, bytes):
                request.setHeader("Content-Length", str(len(answer)))
            return answer
        except asyncio.CancelledError:
            raise CancelledError from None

    @wraps(handler)
    def route(
        api: ApiT, request: JsonRequest, *args: ParamT.args, **kwargs: ParamT.kwargs
    ) -> Deferred[AnswerT]:
        return deferred_from_coro(run(api, request, *args, **kwargs))

    return route  # type: ignore[return-value]  # Klein calls it by position


class Edge:
    """The checks that come before every operation, in the contract's order (1.3)."""

    def __init__(
        self,
        accounts: Accounts,
        pool: ConverterPool,
        addresses: Addresses,
        rates: Rates,
        sites: BlockedSites,
    ):
        self._accounts = accounts
        self._pool = pool
        self._rates = rates
        self._sites = sites
        self.addresses = addresses

    async def admit(self, request: JsonRequest, mode: Mode) -> tuple[Team, Body]:
        """Return the caller's team and the body.

        Raises :exc:`InvalidBody`, then :exc:`Unauthorized`, then :exc:`RateLimited`.
        """
        raw = request.content.read(MAX_BODY_BYTES + 1) if request.content else b""
        if len(raw) > MAX_BODY_BYTES:  # a form may be longer
            raise InvalidBody(f"the body is larger than {MAX_BODY_BYTES} bytes")
        body = Body(raw, self._pool)
        await body.check()
        team = await self.recheck(request)
        body.team_id = team.id
        note(request, team=team.id)
        await self._rates.count(team, mode)
        return team, body

    async def admit_file(self, request: JsonRequest, mode: Mode) -> Team:
        """Return the caller's team; the body is a file, and read by nobody yet.

        Raises :exc:`Unauthorized`, then :exc:`RateLimited`.
        """
        team = await self.recheck(request)
        note(request, team=team.id)
        await self._rates.count(team, mode)
        return team

    async def recheck(self, request: JsonRequest) -> Team:
        """Return the caller's team; raise :exc:`Unauthorized` if the key is not good.

        For answers that go on for long.
        """
        return await self._accounts.team_of(request.header("Authorization"))

    async def asked_pages(self, team: Team, body: Body, counted: str) -> int:
        """Return how many pages a body asks for, before anything of it is checked.

        ``counted`` is the key that says so: ``limit``, ``urls``, or empty for one page.
        Raises :exc:`SiteBlocked`. Where neither sites nor credits count, nobody looks.
        """
        if team.is_unlimited and not self._sites:
            return 1
        asked = await body.asked(counted, self._sites)
        if asked.blocked is not None:
            raise SiteBlocked(SITE_BLOCKED)
        return asked.pages


def warning_of(ignored: list[str]) -> str | None:
    """Return a sentence that names options without effect, None for none."""
    if not ignored:
        return None
    noun = "This option has" if len(ignored) == 1 else "These options have"
    return f"{noun} no effect here: {', '.join(ignored)}."


class Body:
    """A request's body; a large one is read in the converter pool.

    All bodies share one queue there until ``team_id`` is known.
    """

    def __init__(self, raw: bytes, pool: ConverterPool):
        self._raw = raw
        self._pool = pool
        self._value: Any = None
        self.team_id: str | None = None

    async def check(self) -> None:
        """Raise :exc:`InvalidBody` if it is not JSON; no body at all is fine."""
        if not self._raw.strip():
            return
        if len(self._raw) <= LARGE_BODY_BYTES:
            self._value = load_json(self._raw)
        else:
            await self._run(check_json)

    async def read(self, structure: Callable[[object], OptionsT]) -> OptionsT:
        """Return what ``structure``, an importable function, makes of the value.

        Raises :exc:`InvalidOptions`.
        """
        if len(self._raw) <= LARGE_BODY_BYTES:
            return structure(self._value)
        options: OptionsT
        options, issues = await self._run(structured, structure)
        if issues:
            raise InvalidOptions(issues)
        return options

    async def asked(self, counted: str, sites: BlockedSites) -> Asked:
        """Return what :func:`~scraper_service.api.request_body.asked_of` finds in it."""
        if len(self._raw) <= LARGE_BODY_BYTES:
            return asked_of(self._value, counted, sites)
        found: Asked = await self._run(asked_of_text, counted, sites)
        return found

    async def warning(self, names: frozenset[str]) -> str | None:
        """Return a sentence that names the options without effect, None without one.

        ``names`` are those of the route, see :func:`fields.ignored_names`. They are
        accepted so that public clients work.
        """
        if len(self._raw) <= LARGE_BODY_BYTES:
            found = ignored_of(self._value, names)
        else:
            found = await self._run(ignored_of_text, names)
        return warning_of(found)

    async def _run(self, function: Callable[..., Any], *args: object) -> Any:
        try:
            return await self._pool.run(
                function, self._raw, *args, team_id=self.team_id, may_refuse=True
            )
        except TimeoutError:
            raise InvalidBody("the body takes too long to read") from None
        except MemoryError:
            raise InvalidBody("the body takes too much memory to read") from None
        except ConverterDied:
            raise InvalidBody("the body cannot be read") from None


def note(request: JsonRequest, **facts: str | None) -> None:
    """Add facts to the line that the access log gets of ``request``."""
    request.notes.update((k, v) for k, v in facts.items() if v)


class Caller(Protocol):
    """What the bodies of all operations may say of who asks."""

    @property
    def origin(self) -> str: ...
    @property
    def integration(self) -> str | None: ...
    @property
    def audit_username(self) -> str | None: ...


def note_caller(request: JsonRequest, options: Caller) -> None:
    """Add what the caller says of itself to the access log."""
    note(
        request,
        origin=options.origin,
        integration=options.integration,
        username=options.audit_username,
    )


def write(request: JsonRequest, answer: Answer) -> bytes:
    """Set status and headers of ``answer``; return its body."""
    request.setResponseCode(answer.status)
    for name, value in answer.headers.items():
        request.setHeader(name, value)
    body = encode(answer.members)
    request.setHeader("Content-Length", str(len(body)))
    return body


def answer_errors(app: Klein, wire_name: Callable[[str], str]) -> None:
    """Make every error of ``app`` a JSON answer."""

    def answer_error(_api: object, request: JsonRequest, failure: Failure) -> bytes:
        assert isinstance(failure.value, Exception)
        answer = answer_to(failure.value, wire_name)
        if isinstance(failure.value, NotFound):
            path = request.path.decode("latin-1")
            if reason := why_not_offered(path):
                answer = Answer(404, error_body(reason))
        return write(request, answer)

    app.handle_errors(Exception)(answer_error)  # type: ignore[arg-type]  # our request
