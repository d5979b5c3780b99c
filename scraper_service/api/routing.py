"""Turns groups of routes into a Klein app."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from klein import Klein
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError, Deferred
from twisted.web.resource import Resource
from werkzeug.exceptions import NotFound
from werkzeug.routing import Map, Rule

from scraper_service.api.application import write
from scraper_service.api.errors import ErrorResponse, answer_to, error_body
from scraper_service.api.openapi.route import VARIABLE, route_of
from scraper_service.api.version import Api
from scraper_service.services.capabilities import why_not_offered

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from twisted.python.failure import Failure
    from werkzeug.routing import RuleFactory

    from scraper_service.api.application import RequestChecks
    from scraper_service.api.http_server import JsonRequest, JsonSite
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.streams.streaming import Watchers
    from scraper_service.api.version import PromptedT, Routes, RouteT, Services
    from scraper_service.options.limits import KeyScope

ParamT = ParamSpec("ParamT")
ResponseT = TypeVar("ResponseT", bound=bytes | Resource)


class VersionApp:
    """The Klein app of one version of the API, with ``further`` groups of routes."""

    #: What differs between versions, see :class:`Api`.
    version: int
    requests: Any
    responses: Any
    prompted: PromptedT | None = None
    groups: tuple[type[Routes], ...]

    def __init__(
        self,
        checks: RequestChecks,
        services: Services,
        watchers: Watchers,
        urls: PublicUrls,
        further: tuple[type[Routes], ...] = (),
    ):
        self.api = Api(
            version=self.version,
            requests=self.requests,
            responses=self.responses,
            checks=checks,
            services=services,
            watchers=watchers,
            urls=urls,
            prompted=self.prompted,
        )
        #: Returns the JSON key of an attribute of the options.
        self.wire_name: Callable[[str], str] = self.requests.wire_name
        #: Methods, path below the version, scope and handler.
        self.routes: list[RouteT] = []
        self.klein = Klein()
        self.klein._url_map = MatchingMap()
        self.handle_errors_of(self.klein)
        for group in (*self.groups, *further):
            for route in group(self.api).routes():
                self.add(*route)

    def add(
        self,
        methods: str,
        path: str,
        scope: KeyScope | None,
        handler: Callable[..., Coroutine[Any, Any, Any]],
    ) -> None:
        """Add a route."""
        # Unique: a handler may have several paths, each with a template.
        self.klein.route(path, methods=methods.split(), endpoint=f"{methods} {path}")(
            self.as_deferred(handler, VARIABLE.sub(r"{\1}", path), scope)
        )
        self.routes.append((methods, path, scope, handler))

    def handle_errors_of(self, klein: Klein) -> None:
        """Let :meth:`write_error` write what ``klein`` itself raises: paths without a route."""

        def write_failure(request: JsonRequest, failure: Failure) -> bytes:
            assert isinstance(failure.value, Exception)
            return self.write_error(request, failure.value)

        klein.handle_errors(Exception)(write_failure)  # type: ignore[arg-type]  # our request

    def write_error(self, request: JsonRequest, error: Exception) -> bytes:
        """Write any error as JSON, by the table of :mod:`scraper_service.api.errors`."""
        answer = answer_to(error, self.wire_name)
        if isinstance(error, NotFound):
            path = request.path.decode("latin-1")
            if reason := why_not_offered(path):
                answer = ErrorResponse(404, error_body(reason))
        return write(request, answer)

    def as_deferred(
        self,
        handler: Callable[
            Concatenate[JsonRequest, ParamT], Coroutine[Any, Any, ResponseT]
        ],
        template: str,
        scope: KeyScope | None,
    ) -> Callable[Concatenate[JsonRequest, ParamT], Deferred[ResponseT | bytes]]:
        """Return an asyncio handler as Klein calls it, for the route ``template``.

        The request learns the ``scope`` that :meth:`RequestChecks.recheck` requires, and the
        parameters that it accepts. The handler returns a body, or a resource that writes one.
        A client that disconnects cancels the handler silently. A service that stops cancels it
        with a 503.
        """

        async def run(
            request: JsonRequest, *args: ParamT.args, **kwargs: ParamT.kwargs
        ) -> ResponseT | bytes:
            site: JsonSite = request.site  # type: ignore[assignment]
            try:
                with site.running():
                    response = await handler(request, *args, **kwargs)
            except Exception as error:
                # Written here: Klein logs errors of clients that disconnect before its turn.
                return self.write_error(request, error)
            if isinstance(response, bytes):
                request.setHeader("Content-Length", str(len(response)))
            return response

        parameters = route_of(handler).parameters

        @wraps(handler)
        def route(
            request: JsonRequest, *args: ParamT.args, **kwargs: ParamT.kwargs
        ) -> Deferred[ResponseT | bytes]:
            request.route += template
            request.scope = scope
            request.parameters = parameters
            response: Deferred[ResponseT | bytes]
            response = deferred_from_coro(run(request, *args, **kwargs))
            return response.addErrback(_raise_cancelled)

        return route  # type: ignore[return-value]  # Klein calls it by position


def _raise_cancelled(failure: Failure) -> NoReturn:
    """Raise what Klein takes for the end of a request whose client has left."""
    failure.trap(asyncio.CancelledError)
    raise CancelledError


class MatchingMap(Map):
    """Rules that find the handler of a path, and build no URL.

    Werkzeug compiles two functions of each rule that build its URL, which take nine tenths of
    the time of a rule, and nothing here calls them.
    """

    def add(self, rulefactory: RuleFactory) -> None:
        """Add the rules of ``rulefactory`` without what builds their URLs."""
        for rule in rulefactory.get_rules(self):
            super().add(
                MatchingRule(rule.rule, methods=rule.methods, endpoint=rule.endpoint)
            )


class MatchingRule(Rule):
    """A rule that builds no URL."""

    def _compile_builder(
        self, append_unknown: bool = True
    ) -> Callable[..., tuple[str, str]]:
        return self._build_nothing

    @staticmethod
    def _build_nothing(*args: object) -> tuple[str, str]:
        raise NotImplementedError
