"""Routes: the base class of their groups, and the Klein app of a version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    NoReturn,
    ParamSpec,
    TypeAlias,
    TypeVar,
)

from attrs import frozen
from klein import Klein
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError, Deferred
from twisted.web.resource import Resource

from scraper_service.api.errors import answer_to, failed_page, write
from scraper_service.api.openapi.route import VARIABLE, Route, route_of
from scraper_service.api.parameters import PublicUrls
from scraper_service.api.request_checks import RequestChecks
from scraper_service.api.responses import PATHS
from scraper_service.api.streams.streaming import Watchers
from scraper_service.exports.job_exports import Exports
from scraper_service.services.browser_sessions.sessions import BrowserSessions
from scraper_service.services.jobs import TeamJobs
from scraper_service.services.monitoring.monitors import TeamMonitors
from scraper_service.services.scraping import Scraping, Usage
from scraper_service.storage.files.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from twisted.python.failure import Failure

    from scraper_service.api.http_server import JsonRequest, JsonSite
    from scraper_service.items import PageError
    from scraper_service.options.limits import KeyScope


#: Methods, path, scope and handler. Several methods are separated by spaces. The scope is
#: that of the keys that may call the route, None for a route without a key.
RouteT: TypeAlias = (
    "tuple[str, str, KeyScope | None, Callable[..., Coroutine[Any, Any, Any]]]"
)


def of_jobs(methods: str, end: str = "") -> tuple[str, ...]:
    """Return routes of crawls and of batches. ``end`` follows the path of a job."""
    return tuple(f"{methods} /{path}/<job_id>{end}" for path in PATHS.values())


@frozen(kw_only=True)
class Services:
    """The services that routes call."""

    scraping: Scraping
    jobs: TeamJobs
    browser_sessions: BrowserSessions
    exports: Exports
    usage: Usage
    monitors: TeamMonitors
    #: Files that wait to be parsed.
    uploads: Uploads
    #: Returns what this installation can do, as JSON values.
    capabilities: Callable[[], dict[str, Any]]


@frozen(kw_only=True)
class Api:
    """One version of the API: how it spells requests and responses."""

    #: 1 or 2.
    version: int
    #: The version's module ``requests``: from bodies to options.
    requests: Any
    #: The version's module ``responses``: from results to JSON.
    responses: Any
    checks: RequestChecks
    services: Services
    #: The open streams.
    watchers: Watchers
    #: The URL of this service in responses.
    urls: PublicUrls


class Routes:
    """A group of routes: each is a method with the decorator :class:`Route`."""

    #: Errors of all routes of the group, as :class:`Route` has those of one.
    common_errors: ClassVar[tuple[type[Exception] | int, ...]] = ()
    #: True if the reference API has none of the routes.
    are_own: ClassVar[bool] = False

    def __init__(self, api: Api):
        self.api = api
        self.checks = api.checks
        self.services = api.services

    def routes(self) -> Iterable[RouteT]:
        """Yield the routes of this group: its methods with the decorator :class:`Route`."""
        for kind in reversed(type(self).__mro__):
            for name, method in vars(kind).items():
                if isinstance(route := getattr(method, "route", None), Route):
                    for methods, path in route.rows:
                        yield methods, path, route.scope, getattr(self, name)

    def base_url(self, request: JsonRequest) -> str:
        """Return the URL of this service as the caller reaches it."""
        return self.api.urls.base(request)

    def write_failure(self, request: JsonRequest, failure: PageError) -> bytes:
        """Set the status of a failed page; return the body of its error."""
        return write(request, failed_page(failure, self.api.responses.STATUS))

    def url_of(self, request: JsonRequest) -> str:
        """Return the absolute URL of a request, without its query."""
        return self.base_url(request) + request.path.decode("latin-1")


ParamT = ParamSpec("ParamT")
ResponseT = TypeVar("ResponseT", bound=bytes | Resource)


class VersionApp:
    """The Klein app of one version of the API, with ``further`` groups of routes."""

    #: What differs between versions, see :class:`Api`.
    version: int
    requests: Any
    responses: Any
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
        )
        #: Returns the JSON key of an attribute of the options.
        self.wire_name: Callable[[str], str] = self.requests.wire_name
        #: Methods, path below the version, scope and handler.
        self.routes: list[RouteT] = []
        self.klein = Klein()
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
        return write(request, answer_to(error, self.wire_name))

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
                # Written here: Klein logs errors of clients that have disconnected.
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
