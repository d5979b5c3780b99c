"""The description of the API as an OpenAPI 3.1 document.

It is made from the validators of requests and the declarations of routes, so it contains
new routes and options without further work.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from attrs import evolve
from twisted.web import http
from werkzeug.http import parse_etags

from scraper_service.api.errors import FAILURE_STATUS, PAGE_STATUSES, STATUSES
from scraper_service.api.events import EventJson
from scraper_service.api.http_server import Root
from scraper_service.api.openapi.kinds import KindSchemas
from scraper_service.api.openapi.route import (
    JSON,
    VARIABLE,
    RootResource,
    Route,
    TaskPage,
    route_of,
)
from scraper_service.api.request_body import FORM
from scraper_service.api.responses import PAGE, Metadata
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    ID,
    TEXT,
    ErrorJson,
    IssueJson,
    JsonObject,
    ShapeT,
    camel,
    encode,
    ref,
    shape_of,
)
from scraper_service.errors import (
    InvalidBody,
    InvalidParameter,
    RateLimited,
    ServiceUnavailable,
    Unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.openapi.route import Parameter
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.routing import Api, VersionApp
    from scraper_service.options.limits import KeyScope
    from scraper_service.options.parsing import Object


ABOUT = """\
Scrape any web page as Markdown, HTML, links, images and metadata. docs/api/README.md explains \
each endpoint. In request bodies null counts as absent. Client libraries of Firecrawl \
work with both versions; `x-scope` is the scope that an API key needs, `x-own` marks what only this service has, `x-available: false` \
routes that always return an error in this installation."""

#: The errors of every route of a version.
_COMMON = (InvalidBody, InvalidParameter, Unauthorized, RateLimited, ServiceUnavailable)
_WITH_BODY = (400, 408, 413)  # the body arrives late, or is too large
_UNEXPECTED = 500
_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
_FURTHER = {
    404: ("The path is unknown.",),
    408: ("The request does not arrive in time.",),
    413: ("The body is too large.",),
    500: ("UNKNOWN_ERROR: an unexpected error, whose id the log has too.",),
}

_DELIVERY = {
    "operationId": "webhook_event",
    "summary": "Receive an event of a job with a webhook.",
    "security": [],
    "requestBody": {"required": True, "content": {JSON: {"schema": EventJson.shape}}},
    "responses": {"2XX": {"description": "The event has arrived."}},
}


def build(
    versions: Iterable[VersionApp],
    resources: Iterable[RootResource],
    capabilities: dict[str, Any],
    most_days: float,
) -> dict[str, Any]:
    """Return the document, without ``servers``.

    ``capabilities`` is the content of ``GET /v2/capabilities``, ``most_days`` the
    setting ``MAX_RETENTION_DAYS``.
    """
    document = _Document(capabilities, most_days)
    for resource in resources:
        for route in resource.routes:
            for methods, path in route.rows:
                document.add(methods, path, _Facts(route, route.summary))
    for version in versions:
        document.add_version(version)
    return document.as_json()


class _Facts:
    def __init__(
        self,
        route: Route,
        text: str,
        api: Api | None = None,
        scope: KeyScope | None = None,
    ):
        self.route = route
        self.scope = scope
        self.summary, _, self.description = text.partition("\n\n")
        self.api = api
        self.group: type | None = None

    @classmethod
    def of_handler(
        cls, handler: Callable[..., Any], api: Api, scope: KeyScope | None
    ) -> _Facts:
        route = route_of(handler)
        group = type(handler.__self__)  # type: ignore[attr-defined]  # a method
        if issubclass(group, Routes):
            route = evolve(
                route,
                errors=(*route.errors, *group.common_errors),
                is_own=route.is_own or group.are_own,
            )
        facts = cls(route, inspect.getdoc(handler) or "", api, scope)
        facts.group = group
        return facts

    @property
    def statuses(self) -> list[int]:
        """The statuses of its errors."""
        found: set[type[Exception] | int] = {*self.route.errors}
        if self.api is not None:
            found |= {*_COMMON, _UNEXPECTED}
        if self.route.body is not None:
            found |= {*_WITH_BODY}
        return sorted(
            {STATUSES[each] if isinstance(each, type) else each for each in found}
        )


class _Document:
    def __init__(self, capabilities: dict[str, Any], most_days: float):
        self._most_days = most_days
        self._version: str = capabilities["version"]
        self._works = {
            each["name"]: each["available"] for each in capabilities["features"]
        }
        self._missing = frozenset(
            camel(each["name"])
            for each in capabilities["formats"]
            if not each["available"]
        )
        self._paths: dict[str, dict[str, Any]] = {}
        self._tags: dict[str, str] = {}
        self._schemas: dict[str, ShapeT] = {
            "Error": ErrorJson.shape,
            "Issue": IssueJson.shape,
            "Page": PAGE,
            "Metadata": Metadata.shape,
        }
        self._kinds: dict[int, KindSchemas] = {}

    def add_version(self, app: VersionApp) -> None:
        """Add all routes of a version."""
        api = app.api
        self._kinds[api.version] = KindSchemas(
            f"V{api.version}",
            self._schemas,
            api.requests.CRAWL,
            self._missing,
            self._most_days,
        )
        for methods, path, scope, handler in app.routes:
            facts = _Facts.of_handler(handler, api, scope)
            self.add(methods, f"/v{api.version}{path}", facts)

    def add(self, methods: str, path: str, facts: _Facts) -> None:
        """Add the operations of a path, a Werkzeug pattern."""
        variables = VARIABLE.findall(path)
        path = VARIABLE.sub(lambda found: f"{{{_public(found[1], variables)}}}", path)
        item = self._paths.setdefault(path, {})
        for method in methods.split():
            item[method.lower()] = self._operation(method, path, variables, facts)

    def as_json(self) -> dict[str, Any]:
        """Return the whole document."""
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "scraper-service",
                "version": self._version,
                "description": ABOUT,
                "license": {
                    "name": "GPL-3.0-or-later",
                    "identifier": "GPL-3.0-or-later",
                },
            },
            "security": [{"bearerAuth": []}] if self._works["authentication"] else [],
            "tags": [{"name": k, "description": v} for k, v in self._tags.items()],
            "paths": self._paths,
            "webhooks": {"event": {"post": _DELIVERY}},
            "components": {
                "securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer"}},
                "schemas": dict(sorted(self._schemas.items())),
                "responses": {
                    f"Error{status}": _error(status)
                    for status in sorted(
                        {*STATUSES.values(), *PAGE_STATUSES, *_FURTHER}
                    )
                },
            },
        }

    def _operation(
        self, method: str, path: str, variables: list[str], facts: _Facts
    ) -> dict[str, Any]:
        route = facts.route
        words = re.findall(r"\w+", path)
        operation: dict[str, Any] = {
            "operationId": "_".join([method.lower(), *words]),
            "summary": facts.summary.replace("\n", " "),
            "tags": [self._tag(facts.group)],
            "parameters": [
                *(
                    _id_parameter(name, variables)
                    for name in variables
                    if name.endswith("_id")
                ),
                *map(_parameter, route.parameters),
            ],
            "responses": {
                "200": self._success(facts),
                **{
                    str(status): {"$ref": f"#/components/responses/Error{status}"}
                    for status in facts.statuses
                },
                **{
                    str(status): _response(
                        HTTPStatus(status).phrase,
                        shape_of(shape),
                        route.media if status < 300 else (JSON,),
                    )
                    for status, shape in route.failures.items()
                },
            },
        }
        if facts.description:
            operation["description"] = facts.description
        if route.body is not None:
            operation["requestBody"] = self._body(facts)
        if facts.api is None:
            operation["security"] = []
        if facts.scope is not None:
            operation["x-scope"] = facts.scope.value
        if route.is_own:
            operation["x-own"] = True
        if route.needs and not any(self._works[name] for name in route.needs):
            operation["x-available"] = False
        return operation

    def _tag(self, group: type | None) -> str:
        if group is None:
            name, text = "Service", "The service itself, without an API key."
        else:
            words = group.__name__.removesuffix("Routes")
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).capitalize()
            text = (inspect.getdoc(group) or "").partition("\n")[0]
        self._tags.setdefault(name, text)
        return name

    def _success(self, facts: _Facts) -> dict[str, Any]:
        returns = facts.route.returns
        if isinstance(returns, str):
            assert facts.api is not None
            returns = shape_of(getattr(facts.api.responses, returns))
        return _response("Success.", returns, facts.route.media)

    def _body(self, facts: _Facts) -> dict[str, Any]:
        assert facts.api is not None
        route = facts.route
        schema = self._schema_of(facts.api, route.body)
        if not route.takes_file:
            media = {"schema": schema, "example": route.example}
            return {"required": True, "content": {JSON: media}}
        file = {"type": "string", "contentMediaType": "application/octet-stream"}
        form = {
            "type": "object",
            "properties": {
                "file": {**file, "description": "The file."},
                "options": {
                    **schema,
                    "description": "How to read the file.",
                    "examples": [route.example],
                },
            },
            "required": ["file"],
            "additionalProperties": False,
        }
        encoding = {"options": {"contentType": JSON}}
        content: dict[str, Any] = {FORM: {"schema": form, "encoding": encoding}}
        if route.body_of_upload is not None:
            found = self._schema_of(facts.api, route.body_of_upload)
            content[JSON] = {"schema": found}
        return {"required": True, "content": content}

    def _schema_of(self, api: Api, kind: Object | str | None) -> ShapeT:
        kind = getattr(api.requests, kind) if isinstance(kind, str) else kind
        return self._kinds[api.version].schema(kind)


def _response(
    text: str, shape: ShapeT, media: tuple[str, ...] = (JSON,)
) -> dict[str, Any]:
    content = {each: {"schema": shape} for each in media}
    return {"description": text, "content": content}


def _public(variable: str, variables: list[str]) -> str:
    """Return the name of a variable of a path: ``id`` for the first id."""
    if not variable.endswith("_id"):
        return variable
    is_first = variable == next(x for x in variables if x.endswith("_id"))
    return "id" if is_first else f"{variable.removesuffix('_id')}Id"


def _id_parameter(name: str, variables: list[str]) -> dict[str, Any]:
    text = f"The id of the {name.removesuffix('_id')}."
    facts = {"in": "path", "required": True, "schema": ID, "description": text}
    return {"name": _public(name, variables), **facts}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.location,
        "description": parameter.help,
        "schema": parameter.schema,
    }
    return {**facts, "required": True} if parameter.location == "path" else facts


def _error(status: int) -> dict[str, Any]:
    """Return the response of an error status, with all that the table has of it."""
    reasons = [
        *(_meaning(kind) for kind, found in STATUSES.items() if found == status),
        *_FURTHER.get(status, ()),
    ]
    codes = [code for code, found in FAILURE_STATUS.items() if found == status]
    if status == _UNEXPECTED:
        reasons.append("Or the page failed, see code.")
    if codes:
        reasons.append(f"Or the page failed: {', '.join(codes)}.")
    found = _response(" ".join(reasons), ref("Error"))
    if status in _HEADERS:
        found["headers"] = {_HEADERS[status]: {"schema": TEXT}}
    return found


def _meaning(error: type[Exception]) -> str:
    """Return when an error is raised: the first sentence of its docstring."""
    text, _, _ = (inspect.getdoc(error) or "").partition(".")
    text = text.removeprefix("Raised ").replace("\n", " ")
    return f"{text[:1].upper()}{text[1:]}."


class _DocumentJson(JsonObject, further=Any):
    openapi: str
    paths: dict[str, Any]


class OpenApiPage(TaskPage):
    """The document of all routes, made at the first request for it."""

    routes = (
        Route(
            "GET /openapi.json",
            summary="Return this document.",
            returns=_DocumentJson,
            is_own=True,
        ),
    )

    def __init__(
        self,
        versions: Iterable[VersionApp],
        beside: Mapping[str, RootResource],
        urls: PublicUrls,
        capabilities: Callable[[], dict[str, Any]],
        most_days: float,
    ):
        super().__init__()
        self._versions = versions
        self._beside = beside
        self._urls = urls
        self._capabilities = capabilities
        self._most_days = most_days
        self._made: asyncio.Future[tuple[bytes, str]] | None = None

    async def make(self, request: JsonRequest) -> bytes:
        if self._made is None:
            # In a thread, because it takes more than 5 ms. All requests share the work.
            self._made = self._tasks.spawn(self._make())
        try:
            found = await self._made
        except Exception:
            self._made = None
            raise
        return self._body(request, *found)

    async def _make(self) -> tuple[bytes, str]:
        """Return the document without ``servers``, and its hash."""
        resources = [Root, *self._beside.values()]
        facts = (self._capabilities(), self._most_days)
        return await asyncio.to_thread(
            _encode_document, self._versions, resources, *facts
        )

    def _body(self, request: JsonRequest, document: bytes, digest: str) -> bytes:
        base = self._urls.base(request)
        etag = hashlib.sha256(f"{digest} {base}".encode()).hexdigest()[:32]
        request.setHeader("ETag", f'"{etag}"')
        request.setHeader("Cache-Control", "no-cache")
        if parse_etags(request.headers_of("If-None-Match")).contains_weak(etag):
            request.setResponseCode(http.NOT_MODIFIED)
            return b""
        return b'{"servers":%s,%s' % (encode([{"url": base}]), document[1:])


def _encode_document(*parts: Any) -> tuple[bytes, str]:
    text = encode(build(*parts))
    return text, hashlib.sha256(text).hexdigest()
