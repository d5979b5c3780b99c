"""The HTTP server: root of all versions, limits, CORS, metrics and access log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from prometheus_client import Counter, Histogram
from twisted.internet.tcp import Connection
from twisted.web import http
from twisted.web.server import Request, Site

from scraper_service.api.errors import (
    NO_SUCH_PATH,
    NotFoundPage,
    error_body,
    refuse_method,
)
from scraper_service.api.http_connections import (
    IDLE_S,
    JSON_TYPE,
    REASONS,
    DeadlineChannel,
    host_of,
    refuse,
)
from scraper_service.api.openapi.route import (
    RootResource,
    Route,
)
from scraper_service.api.request_body import (
    FORM,
    MAX_BODY_BYTES,
    MAX_FILE_BYTES,
    MAX_FORM_BYTES,
)
from scraper_service.api.schemas import encode, success
from scraper_service.crawling.observability import with_facts
from scraper_service.errors import ServiceUnavailable, unwritable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.trace import Span
    from twisted.internet.interfaces import IAddress
    from twisted.web.iweb import IRequest
    from twisted.web.resource import Resource

    from scraper_service.api.http_connections import Connections
    from scraper_service.api.openapi.route import Parameter
    from scraper_service.options.limits import KeyScope
    from scraper_service.services.observability.opentelemetry import Traces

access_log = logging.getLogger("scraper_service.access")

# A request with two of the same is refused: proxies and servers differ in the choice.
SINGLE_HEADERS = (
    *("Authorization", "Content-Type", "Host", "Last-Event-ID", "X-Idempotency-Key"),
    *("Sec-WebSocket-Key", "Sec-WebSocket-Version"),
)
UPLOADS = b"/uploads/"
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
MAX_METHOD = 20  # characters in the access log
NO_ROUTE = "none"
UNLOGGED = frozenset({"/health", "/metrics"})
CLIENT_LEFT = 499  # in the access log, as nginx has it: nobody gets this status
NOT_AWAITED = "The service is stopping, and does not wait longer for this request."
GREETING = encode(
    {"success": True, "message": "scraper-service: see /v1, /v2 and /health"}
)

_REQUESTS = Counter(
    "scraper_http_requests_total",
    "Requests by route, method and status.",
    ["route", "method", "status"],
)
_SECONDS = Histogram(
    "scraper_http_request_seconds",
    "Time of requests, from the end of their body to the end of their response.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)


_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
# RFC 3986, 3.2.2, with labels of at most 63 characters (RFC 1035, 2.3.4). The router raises
# errors for other names.
_LABEL = rb"[\w~!$&'()*+,;=%-]{1,63}"
_HOST = re.compile(
    rb"(?:\[[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]*(?:%%[\w.~-]+)?\]|%s(?:\.%s)*\.?)?(?::[0-9]*)?"
    % (_LABEL, _LABEL)
)


def _origin_form(target: bytes) -> tuple[bytes, bytes | None]:
    """Return path and query of a request's target, and the host of its absolute form.

    RFC 9112, 3.2.2: servers accept the absolute form, and its host overrides the header.
    """
    if (match := _ABSOLUTE.match(target)) is None:
        return target, None
    rest = target[match.end() :]
    return (rest if rest.startswith(b"/") else b"/" + rest), match[1].rpartition(b"@")[
        2
    ]


def _send_now(channel: Any) -> None:
    """Send what was written. Twisted would do so in the next loop iteration."""
    transport = getattr(channel, "transport", None)
    if isinstance(transport, Connection) and not transport.disconnecting:
        transport.doWrite()  # the event loop tries again after an error, and handles it


class JsonRequest(Request):
    """A request with a limited body. Every response is JSON."""

    defaultContentType = JSON_TYPE
    started = 0.0
    notes: dict[str, str]
    #: The route as a template, such as ``/v2/crawl/{id}``.
    route = NO_ROUTE
    #: The scope that the route needs, None if it takes no key.
    scope: KeyScope | None = None
    #: The parameters that the route takes.
    parameters: tuple[Parameter, ...] = ()
    #: The span for OpenTelemetry, None without traces.
    span: Span | None = None
    _received = 0
    _lacks_host = False  # RFC 9112, 3.2
    is_refused = False  # for a body that is too large

    def gotLength(self, length: int | None) -> None:
        is_too_long = length is not None and length > self._most
        super().gotLength(0 if is_too_long else length)
        if is_too_long:
            self._refuse_body()

    @property
    def size(self) -> int:
        """The number of received bytes of the body."""
        return self._received

    @property
    def is_form(self) -> bool:
        """True if the body is a form, which may contain a file."""
        return (self.header("Content-Type") or "").lower().startswith(FORM)

    @property
    def is_upload(self) -> bool:
        """True if the body is a file."""
        # The request itself learns its path after the body.
        channel: Any = self.channel
        return _origin_form(channel._path)[0].startswith(UPLOADS)

    @property
    def _most(self) -> int:
        if self.is_upload:
            return MAX_FILE_BYTES
        return MAX_FORM_BYTES if self.is_form else MAX_BODY_BYTES

    def handleContentChunk(self, data: bytes) -> None:
        self._received += len(data)
        if self.is_refused:
            return
        if self._received > self._most:
            self._refuse_body()
            return
        try:
            super().handleContentChunk(data)
            self.content.flush()  # type: ignore[union-attr]  # a large body is a file
        except OSError as error:
            self.is_refused = True
            refuse(self.channel, 503, str(unwritable(error)))

    def _refuse_body(self) -> None:
        self.is_refused = True
        refuse(self.channel, 413, f"The body is larger than {self._most} bytes.")

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        target, host = _origin_form(path)
        self._lacks_host = version == b"HTTP/1.1" and not self.requestHeaders.hasHeader(
            b"Host"
        )
        if host is not None and self._repeated_header() is None:
            self.requestHeaders.setRawHeaders(b"Host", [host])
        super().requestReceived(command, target, version)

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        super().setResponseCode(code, message or REASONS.get(code))

    def process(self) -> None:
        """Respond to requests that need no route; pass others on with a clean path."""
        self.started = time.monotonic()
        self.notes = {}
        if self.is_refused:
            self.channel.loseConnection()
            return
        site: JsonSite = self.channel.site  # type: ignore[attr-defined]
        self.notifyFinish().addErrback(lambda _: site.log_left(self))
        if (traces := site.traces) is None:
            self._respond(site)
            return
        names = ("traceparent", "tracestate")
        self.span = traces.begin_request(
            {each: self.headers_of(each) for each in names}
        )
        with traces.inside(self.span):
            self._respond(site)

    def _respond(self, site: JsonSite) -> None:
        self._allow_any_origin()
        if self.method == b"OPTIONS":
            self.setResponseCode(http.NO_CONTENT)
            self.finish()
            return
        if not _is_utf8(self.path):
            self._answer(404, error_body(NO_SUCH_PATH))
            return
        if (name := self._repeated_header()) is not None:
            error = f"The header {name} must be sent once, not more often."
            self._answer(400, error_body(error, code="BAD_REQUEST"))
            return
        if self._lacks_host:
            error = "The header Host is missing, which HTTP/1.1 requires."
            self._answer(400, error_body(error, code="BAD_REQUEST"))
            return
        if _HOST.fullmatch(self.getHeader(b"Host") or b"") is None:
            error = "The header Host must be the name or the IP address of a host."
            self._answer(400, error_body(error, code="BAD_REQUEST"))
            return
        # Some clients join a base URL that ends in a slash with "/v1/...".
        self.path = b"/" + b"/".join(part for part in self.path.split(b"/") if part)
        _, question_mark, query = self.uri.partition(b"?")
        self.uri = self.path + question_mark + query
        site.answering += 1
        self.notifyFinish().addBoth(site.on_answered)
        super().process()

    def render(self, resource: Resource) -> None:
        self.responseHeaders.removeHeader(b"Server")
        super().render(resource)

    def header(self, name: str) -> str | None:
        """Return a header decoded as Latin-1; None without the header."""
        value = self.getHeader(name.encode())
        return None if value is None else value.decode("latin-1")

    def headers_of(self, name: str) -> str:
        """Return all headers of a name as one list (RFC 9110, 5.3); empty without any."""
        values = self.requestHeaders.getRawHeaders(name.encode(), [])
        return b", ".join(values).decode("latin-1")

    def take_over(self, answer: bytes, receive: Callable[[bytes], None]) -> None:
        """Upgrade the connection with the response ``answer``.

        ``receive`` gets all further data; :meth:`send` writes. The request ends with
        the connection.
        """
        self.setResponseCode(101)
        channel: Any = self.channel
        channel.receive = receive
        site: JsonSite = channel.site

        def log(_: object) -> None:
            site.log(self)

        self.notifyFinish().addBoth(log)
        self.send(answer)

    def send(self, data: bytes) -> None:
        """Write to an upgraded connection."""
        self.sentLength += len(data)
        self.channel.write(data)

    def _answer(self, status: int, members: dict[str, Any]) -> None:
        self.setResponseCode(status)
        self.setHeader(b"Content-Type", JSON_TYPE)
        self.write(encode(members))
        self.finish()

    def _repeated_header(self) -> str | None:
        """Return the name of a single-valued header that was sent more than once."""
        for name in SINGLE_HEADERS:
            if len(self.requestHeaders.getRawHeaders(name.encode(), [])) > 1:
                return name
        return None

    def _allow_any_origin(self) -> None:
        self.setHeader(b"Access-Control-Allow-Origin", b"*")
        if self.method != b"OPTIONS":
            return
        wanted = self.getHeader(b"Access-Control-Request-Headers") or b""
        known = b"Authorization, Content-Type, x-idempotency-key, x-request-id"
        headers = b", ".join(filter(None, (known, wanted)))
        self.setHeader(b"Access-Control-Allow-Headers", headers)
        methods = b"GET, HEAD, POST, PUT, PATCH, DELETE"
        self.setHeader(b"Access-Control-Allow-Methods", methods)
        self.setHeader(b"Access-Control-Max-Age", b"86400")


def _is_utf8(path: bytes) -> bool:
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True


class Root(RootResource):
    """``/`` and the resources ``below`` it. Other paths are a 404 in JSON.

    ``page`` is ``/`` for browsers. Other clients get a line of JSON.
    """

    routes = (
        Route(
            "GET /",
            summary="Return where the endpoints are.",
            returns=success(message=str),
        ),
    )

    def __init__(self, below: Mapping[str, Resource], page: Resource):
        super().__init__()
        for name, resource in below.items():
            self.putChild(name.encode(), resource)
        self._page = page

    def getChildWithDefault(self, path: bytes, request: Any) -> Resource:
        if path:
            if path in self.children:
                request.route = f"/{path.decode()}"
            return super().getChildWithDefault(path, request)  # type: ignore[no-any-return]
        request.route = "/"
        request.setHeader("Vary", "Accept")
        accepts_html = "text/html" in (request.header("Accept") or "")
        return self._page if accepts_html else self

    def getChild(self, path: bytes, request: IRequest) -> Resource:
        return NotFoundPage()

    def render(self, request: Request) -> bytes:
        refusal = refuse_method(request)
        return GREETING if refusal is None else refusal


class JsonSite(Site):
    """The site, with a limit of ``connections``, metrics, ``traces`` and an access log."""

    protocol = DeadlineChannel  # type: ignore[assignment]

    def __init__(
        self, root: Root, connections: Connections, traces: Traces | None = None
    ):
        super().__init__(
            root,
            requestFactory=JsonRequest,
            timeout=IDLE_S,
            parsePOSTFormSubmission=False,
        )
        self.displayTracebacks = False
        self.connections = connections
        self.traces = traces
        self.answering = 0  # requests without a complete response
        self.is_leaving = False  # set at shutdown: responses close their connections
        self._has_given_up = False
        self._handlers: set[asyncio.Task[Any]] = set()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        if not self.connections.has_room(host_of(addr)):
            return None
        return super().buildProtocol(addr)

    def on_answered(self, _: object) -> None:
        self.answering -= 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let :meth:`give_up` end the handler inside, by :exc:`ServiceUnavailable`."""
        task = asyncio.current_task()
        assert task is not None
        if self._has_given_up:
            raise ServiceUnavailable(NOT_AWAITED)
        self._handlers.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._has_given_up:
                raise ServiceUnavailable(NOT_AWAITED) from None
            raise
        finally:
            self._handlers.discard(task)

    def give_up(self) -> None:
        """End the handlers that still run: their clients get a 503."""
        self._has_given_up = True
        for task in tuple(self._handlers):
            task.cancel()

    def log(self, request: Any) -> None:
        """Send the response, count a request, end its span, write its line in the access log.

        The line has neither its query nor tokens, which are secret. Checks of health and
        readers of metrics have no line and no span.
        """
        _send_now(request.channel)
        seconds = time.monotonic() - request.started
        method = request.method.decode("latin-1")
        known = method if method in METHODS else "other"
        _REQUESTS.labels(request.route, known, str(request.code)).inc()
        _SECONDS.labels(request.route).observe(seconds)
        if request.route in UNLOGGED:
            return
        self.end_span(request, request.code)
        if not access_log.isEnabledFor(logging.INFO):
            return
        path = request.path
        if path.startswith(UPLOADS):  # a token follows, which takes a file
            path = UPLOADS + b"..."
        facts = {
            "client": getattr(request.getClientAddress(), "host", None),
            "method": method[:MAX_METHOD],
            "path": path.decode("latin-1"),
            "status": request.code,
            "bytes": request.sentLength,
            "ms": round(seconds * 1000, 1),
            **request.notes,
        }
        access_log.info("%s", _AccessText(facts), extra=with_facts(**facts))

    def log_left(self, request: Any) -> None:
        """Log a request whose client left before the end of its response."""
        self.end_span(request, None)
        if request.code == HTTPStatus.SWITCHING_PROTOCOLS:
            return  # logs itself
        if not request.startedWriting:
            request.code = CLIENT_LEFT
        self.log(request)

    def end_span(self, request: Any, status: int | None) -> None:
        """End the span of a request, if it has one. ``status`` is None if its client is gone."""
        span, request.span = request.span, None
        if self.traces is not None and span is not None:
            method = request.method.decode("latin-1")
            known = method if method in METHODS else "other"
            route = None if request.route == NO_ROUTE else request.route
            self.traces.end_request(span, known, route, status)


class _AccessText:
    """The text of a line in the access log. Texts of callers are quoted."""

    def __init__(self, facts: Mapping[str, Any]):
        self._facts = facts

    def __str__(self) -> str:
        facts = dict(self._facts)
        client, method, path, status, size, ms = (
            facts.pop(name)
            for name in ("client", "method", "path", "status", "bytes", "ms")
        )
        more = "".join(f" {name}={json.dumps(text)}" for name, text in facts.items())
        path = json.dumps(path)
        return f"{client} {method} {path} {status} {size} bytes {ms} ms{more}"
