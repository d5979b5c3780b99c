"""Calls routes of the API inside this process, on behalf of the caller of a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.api.errors import answer_to
from scraper_service.api.openapi.route import VARIABLE, route_of
from scraper_service.api.schemas import encode

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.openapi.route import Parameter
    from scraper_service.api.routing import RouteT
    from scraper_service.options.limits import KeyScope

# Headers that the call of a tool shares with its request.
_SHARED = frozenset(
    {"authorization", "host"}
    | {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
)


@frozen
class Answer:
    """The response of a route: its status and body."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def members(self) -> dict[str, Any]:
        """The body as JSON values. For small bodies."""
        found: dict[str, Any] = json.loads(self.body)
        return found


class InnerRequest:
    """What handlers of routes use of a request, without a connection of its own."""

    def __init__(
        self,
        outer: JsonRequest,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: bytes,
        scope: KeyScope | None,
        parameters: tuple[Parameter, ...],
    ):
        self._outer = outer
        self.method = method.encode()
        self.path = path.encode()
        self.uri = self.path
        self.args = {k.encode(): [str(v).encode()] for k, v in query.items()}
        self.content = BytesIO(body)
        self.notes = outer.notes
        self.route = path
        self.scope = scope
        self.parameters = parameters
        self.code = 200
        self.answered: dict[str, str] = {}

    def header(self, name: str) -> str | None:
        if name.lower() == "content-type":
            return "application/json"
        return self._outer.header(name) if name.lower() in _SHARED else None

    def getHeader(self, name: bytes | str) -> bytes | None:
        text = name.decode() if isinstance(name, bytes) else name
        found = self.header(text)
        return None if found is None else found.encode("latin-1")

    def headers_of(self, name: str) -> str:
        return self._outer.headers_of(name) if name.lower() in _SHARED else ""

    def getClientAddress(self) -> Any:
        return self._outer.getClientAddress()  # type: ignore[no-untyped-call]

    def setHeader(self, name: bytes | str, value: bytes | str) -> None:
        key = name.decode() if isinstance(name, bytes) else name
        self.answered[key] = value.decode() if isinstance(value, bytes) else value

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        self.code = code

    def notifyFinish(self) -> Any:
        return self._outer.notifyFinish()


class InnerCalls:
    """The routes of a version, by method and path."""

    def __init__(self, prefix: str, routes: list[RouteT], wire_name: Any):
        self._prefix = prefix
        self._wire_name = wire_name
        self._routes = {
            (method, VARIABLE.sub(r"{}", path)): (path, scope, handler)
            for methods, path, scope, handler in routes
            for method in methods.split()
        }

    def has(self, method: str, path: str) -> bool:
        """Return True if there is a route; ``path`` has ``{}`` for each variable."""
        return (method, path) in self._routes

    async def call(
        self,
        outer: JsonRequest,
        method: str,
        path: str,
        *ids: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Call a route as the caller of ``outer``. ``ids`` are its variables in order.

        Errors of the route are answers, as over HTTP.
        """
        template, scope, handler = self._routes[method, path]
        where = f"{self._prefix}{path.format(*ids)}"
        sent = b"" if body is None else encode(dict(body))
        parameters = route_of(handler).parameters
        request = InnerRequest(
            outer, method, where, query or {}, sent, scope, parameters
        )
        values = dict(zip(VARIABLE.findall(template), ids, strict=True))
        try:
            found = await handler(request, **values)
        except Exception as error:
            refused = answer_to(error, self._wire_name)
            return Answer(refused.status, encode(refused.members), refused.headers)
        return Answer(request.code, found, request.answered)
