"""Routes: methods, path, and what the description of the API has of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from attrs import field, frozen
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from scraper_service.api.errors import answer_to, not_found, refuse_method, write
from scraper_service.api.schemas import ANY, shape_of
from scraper_service.options.limits import KeyScope
from scraper_service.options.parsing import Object
from scraper_service.shared_objects import BackgroundTasks

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

JSON = "application/json"
#: A variable in the path of a route, as Werkzeug writes it.
VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")


@frozen
class Parameter:
    """A parameter of a request, see :mod:`scraper_service.api.parameters`."""

    #: ``path``, ``query`` or ``header``.
    location: ClassVar[str] = "query"

    name: str
    help: str

    @property
    def schema(self) -> dict[str, Any]:
        """A JSON Schema."""
        raise NotImplementedError


@frozen(kw_only=True)
class Route:
    """A decorator that makes a method of a group of routes their handler.

    The rest describes the routes for ``GET /openapi.json``. The first line of the handler's
    docstring is the summary of the route, the rest its description. Ids in the path, keys
    and limits of rate need no description. Example::

        @Route("POST /crawl", returns=JobStarted, body="CRAWL", errors=JOB_ERRORS)
        async def start_crawl(self, request: Any) -> bytes:
    """

    #: Methods and path, a Werkzeug pattern below the version; a tuple for several paths.
    paths: str | tuple[str, ...] = field(kw_only=False)
    #: The scope of the keys that may call the route, None for a route without a key. Not
    #: given: READ for GET, SCRAPE for all other methods.
    scope: KeyScope | None = field()
    #: The response of status 200: its class or schema, or the name of one in the module
    #: ``responses`` of each version.
    returns: Any = field(default=ANY, converter=shape_of)
    #: The body of the request: its kind, or the name of one in the module ``requests``
    #: of each version. None: there is none.
    body: Object | str | None = None
    #: A body, which each version accepts.
    example: Any = None
    #: True if the body is a form: a file, and ``body`` as JSON in the part ``options``.
    takes_file: bool = False
    #: The body as JSON that may replace the form. Its ``uploadRef`` names the file.
    body_of_upload: Object | str | None = None
    #: Parameters of the query, of headers, and of the path beside ids.
    parameters: tuple[Parameter, ...] = ()
    #: Errors beside those of every route: exceptions of the table in
    #: :mod:`scraper_service.api.errors`, or statuses.
    errors: tuple[type[Exception] | int, ...] = ()
    #: The bodies of error statuses that have more than an error, and of further statuses
    #: of success.
    failures: Mapping[int, Any] = field(factory=dict)
    #: The content types of the response.
    media: tuple[str, ...] = (JSON,)
    #: True for a route that the reference API does not have.
    is_own: bool = False
    #: Names of features (``GET /v2/capabilities``); without any of them the route always
    #: returns an error. Empty: it always works.
    needs: tuple[str, ...] = ()
    #: The summary of a route without a handler of its own.
    summary: str = ""

    @scope.default
    def _scope(self) -> KeyScope:
        return KeyScope.READ if self.rows[0][0] == "GET" else KeyScope.SCRAPE

    def __call__(self, handler: HandlerT) -> HandlerT:
        handler.route = self  # type: ignore[attr-defined]  # read by its name
        return handler

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Methods, separated by spaces, and path of each route."""
        paths = (self.paths,) if isinstance(self.paths, str) else self.paths
        return [(each.rpartition(" ")[0], each.rpartition(" ")[2]) for each in paths]


def route_of(handler: Callable[..., Any]) -> Route:
    """Return the route of a handler."""
    found: Route = handler.route  # type: ignore[attr-defined]  # set by its decorator
    return found


class RootResource(Resource):
    """A resource beside ``/v1`` and ``/v2``, which needs no API key."""

    #: The routes at and below the resource.
    routes: tuple[Route, ...]


class TaskPage(RootResource):
    """A resource without children whose body a task makes. Its errors become responses."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self._tasks = BackgroundTasks()

    async def make(self, request: Any) -> bytes:
        """Set status and headers of a response; return its body."""
        raise NotImplementedError

    def render(self, request: Any) -> bytes | int:
        if request.postpath:
            return not_found(request)
        if (refusal := refuse_method(request)) is not None:
            return refusal
        return self.respond(request)

    def respond(self, request: Any) -> int:
        """Begin to make the response to a request."""
        self._tasks.spawn(self._respond(request))
        return NOT_DONE_YET

    async def _respond(self, request: Any) -> None:
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # the client went away
        try:
            body = await self.make(request)
            if body:  # a 304 has none
                request.setHeader("Content-Length", str(len(body)))
        except Exception as error:
            if gone.called:
                return
            body = write(request, answer_to(error, str))
        if not gone.called:
            request.write(body)
            request.finish()
