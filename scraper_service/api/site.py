"""The web server's edge: one root for all versions, limits, CORS, access log."""

from __future__ import annotations

import json
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from twisted.web import http
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from scraper_service.api.body import FORM, MAX_BODY_BYTES, MAX_FORM_BYTES
from scraper_service.api.page_json import encode
from scraper_service.api.routes import error_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IAddress, IDelayedCall
    from twisted.web.iweb import IRequest

access_log = logging.getLogger("scraper_service.access")

HEADERS_S = 10  # from the first byte of a request to the end of its headers
BODY_S = 30  # from there to the end of its body
FORM_S = 300  # the same, of a form with a file
IDLE_S = 60  # between two requests on one connection
LINGER_S = 2  # for a client to read the refusal of a body it is still sending
JSON_TYPE = b"application/json; charset=utf-8"
#: Twisted knows neither 429 nor 431.
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class DeadlineChannel(http.HTTPChannel):
    """End requests that drip: an idle time-out is restarted by every byte."""

    #: Takes what comes once the connection speaks no HTTP any more.
    receive: Callable[[bytes], None] | None = None
    _deadline: IDelayedCall | None = None

    def dataReceived(self, data: bytes) -> None:
        if self.receive is not None:
            self.receive(data)
            return
        if self._deadline is None and not self._handlingRequest:
            self._arm(HEADERS_S)
        super().dataReceived(data)

    def allHeadersReceived(self) -> None:
        request: Any = self.requests[-1]
        self._arm(FORM_S if request.is_form else BODY_S)
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        self._disarm()
        super().allContentReceived()

    def connectionLost(self, reason: Any = None) -> None:
        self._disarm()
        self.factory.channel_closed()
        super().connectionLost(reason)

    def lineLengthExceeded(self, line: bytes) -> None:
        self._end(431, "The head of the request is too long.")

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Answer in JSON what is no HTTP, as all else; the base class writes no body."""
        self._end(400, "The request is not valid HTTP/1.1.")

    def _end(self, status: int, error: str) -> None:
        self.clearLineBuffer()
        self.receive = _ignore
        self._disarm()
        refuse(self, status, error)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.callLater(seconds, self._too_late)

    def _disarm(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _too_late(self) -> None:
        refuse(self, 408, "The request did not arrive in time.")


def _ignore(_: bytes) -> None:
    """Take what comes behind a request that was refused."""


def refuse(channel: http.HTTPChannel, status: int, error: str) -> None:
    """Write an error answer for a request that is not read to its end."""
    body = encode(error_body(error))
    reason = REASONS[status]
    transport: Any = channel.transport
    transport.write(
        b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n"
        b"Connection: close\r\n\r\n%s" % (status, reason, JSON_TYPE, len(body), body)
    )
    # Not closed at once: that would reset what the client has not read yet.
    channel.callLater(LINGER_S, transport.abortConnection)


class JsonRequest(Request):
    """A request with a bounded body, whose answer is JSON whatever happens."""

    defaultContentType = JSON_TYPE
    started = 0.0
    notes: dict[str, str]
    _received = 0
    _refused = False

    def gotLength(self, length: int | None) -> None:
        is_too_long = length is not None and length > self._most
        super().gotLength(0 if is_too_long else length)
        if is_too_long:
            self._refuse_body()

    @property
    def is_form(self) -> bool:
        """Whether the body is a form, which may have a file in it."""
        return (self.header("Content-Type") or "").lower().startswith(FORM)

    @property
    def _most(self) -> int:
        return MAX_FORM_BYTES if self.is_form else MAX_BODY_BYTES

    def handleContentChunk(self, data: bytes) -> None:
        self._received += len(data)
        if self._refused:
            return
        if self._received > self._most:
            self._refuse_body()
        else:
            super().handleContentChunk(data)

    def _refuse_body(self) -> None:
        self._refused = True
        refuse(self.channel, 413, f"The body is larger than {self._most} bytes.")

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        super().setResponseCode(code, message or REASONS.get(code))

    def process(self) -> None:
        """Answer what needs no route; hand on the rest with a tidy path."""
        self.started = time.monotonic()
        self.notes = {}
        if self._refused:
            self.channel.loseConnection()
            return
        self._allow_any_origin()
        if self.method == b"OPTIONS":
            self.setResponseCode(http.NO_CONTENT)
            self.finish()
            return
        if not _is_utf8(self.path):
            self.setResponseCode(http.NOT_FOUND)
            self.setHeader(b"Content-Type", JSON_TYPE)
            self.write(encode(error_body("Not found")))
            self.finish()
            return
        # Clients join a base address that ends in a slash with "/v1/...".
        self.path = b"/" + b"/".join(part for part in self.path.split(b"/") if part)
        _, question_mark, query = self.uri.partition(b"?")
        self.uri = self.path + question_mark + query
        site: JsonSite = self.channel.site  # type: ignore[attr-defined]
        site.answering += 1
        self.notifyFinish().addBoth(site.answered)
        super().process()

    def render(self, resource: Resource) -> None:
        self.responseHeaders.removeHeader(b"Server")
        super().render(resource)

    def header(self, name: str) -> str | None:
        """Return a header as text, whatever its bytes are; None if it was not sent."""
        value = self.getHeader(name.encode())
        return None if value is None else value.decode("latin-1")

    def take_over(self, answer: bytes, receive: Callable[[bytes], None]) -> None:
        """Leave HTTP with ``answer``; ``receive`` takes what comes from now on.

        Write by :meth:`send`. The end of the connection is that of the request.
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
        """Write to a connection that was taken over."""
        self.sentLength += len(data)
        self.channel.write(data)

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


class JsonAnswer(Resource):
    """A leaf that always gives the same kind of answer.

    ``value`` is called for each request.
    """

    isLeaf = True

    def __init__(self, value: Callable[[], dict[str, Any]], status: int = 200):
        super().__init__()
        self._value = value
        self._status = status

    def render(self, request: IRequest) -> bytes:
        if self._status == 200 and request.method not in {b"GET", b"HEAD"}:
            request.setResponseCode(405)
            request.setHeader(b"Allow", b"GET, HEAD")
            return encode(error_body("Method not allowed"))
        request.setResponseCode(self._status)
        return encode(self._value())


class Root(Resource):
    """``/``, ``/health`` and the versions; everything else is a 404 in JSON."""

    def __init__(
        self, versions: dict[str, Resource], health: Callable[[], dict[str, Any]]
    ):
        super().__init__()
        for name, resource in versions.items():
            self.putChild(name.encode(), resource)
        self.putChild(b"health", JsonAnswer(health))
        self.putChild(b"", JsonAnswer(_greeting))

    def getChild(self, path: bytes, request: IRequest) -> Resource:
        return JsonAnswer(lambda: error_body("Not found"), 404)


def _greeting() -> dict[str, Any]:
    return {"success": True, "message": "scraper-service: see /v1, /v2 and /health"}


class JsonSite(Site):
    """A site with at most ``max_connections`` open, which logs in JSON."""

    protocol = DeadlineChannel  # type: ignore[assignment]

    def __init__(self, root: Root, max_connections: int):
        super().__init__(
            root,
            requestFactory=JsonRequest,
            timeout=IDLE_S,
            parsePOSTFormSubmission=False,
        )
        self.displayTracebacks = False
        self._open = 0
        self._max = max_connections
        self.answering = 0  # requests read and not yet answered

    def buildProtocol(self, addr: IAddress | None) -> Any:
        if self._open >= self._max:
            return None
        self._open += 1
        return super().buildProtocol(addr)

    def channel_closed(self) -> None:
        self._open -= 1

    def answered(self, _: object) -> None:
        self.answering -= 1

    def log(self, request: Any) -> None:
        """Write one line per answered request; without query, which may hold secrets."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": getattr(request.getClientAddress(), "host", None),
            "method": request.method.decode("latin-1"),
            "path": request.path.decode("latin-1"),
            "status": request.code,
            "bytes": request.sentLength,
            "ms": round((time.monotonic() - request.started) * 1000, 1),
            **request.notes,
        }
        access_log.info("%s", json.dumps(line))
