"""HTTP connections for pages, tolerant of malformed response heads as browsers are.

Not a parser: each head is normalised, then aiohttp parses head and body.
"""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)

from scraper_service.crawling.page_errors import (
    CertificateError,
    NoCommonTls,
    ProxyFailed,
)
from scraper_service.crawling.scrapy_shortcuts import PageResponse

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from aiohttp.streams import StreamReader

HEAD_BYTES = 256 * 1024  # of all heads of one response, as in Chromium
MAX_FIELDS = 1000  # of one head

_END = re.compile(rb"\n\r?\r?\n")
_STATUS = re.compile(
    rb"HTTP(/1\.[01])?[^ \t]*[ \t]+(\d{3})(?!\d)(.*)", re.DOTALL | re.IGNORECASE
)
_INFORMATIONAL = re.compile(rb"HTTP/1\.\d 1(?!01)")  # no response follows a 101
_FOLD = re.compile(rb"\n[ \t]+")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:(.*)", re.DOTALL)
_LENGTH = re.compile(rb"[0-9]{1,18}")
# Heads that need no correction, as most are.
_TIDY = re.compile(
    rb"HTTP/1\.[01] [0-9]{3} [!-~](?:[ -~]*[!-~])?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?\r\n)*"
    rb"\r\n"
)
_BODY_FIELD = re.compile(rb"\n(?:content-length|transfer-encoding):", re.IGNORECASE)
_CLEAR_FIELD = re.compile(
    rb"\n(?:content-length: [0-9]{1,18}|transfer-encoding: chunked)\r", re.IGNORECASE
)


class LenientProtocol(ResponseHandler):
    """Passes each normalised head to aiohttp separately.

    So data after a response cannot damage the response. A connection with such data, or with a
    head that does not clearly give the end of the body, is not used again.
    """

    _head: bytearray | None = None  # received part of the head; None once complete
    _head_bytes = 0  # of earlier informational heads

    def set_response_params(self, **params: Any) -> None:
        """Begin a response. Called before each request."""
        self._head = bytearray()
        self._head_bytes = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Handle received data. aiohttp passes ``b""`` when it resumes after a pause."""
        while self._head is not None and self._parser is not None:
            head, data = self._cut(data)
            if head is None:
                return
            tidy, is_clear = tidy_head(head)
            self._head = bytearray() if _INFORMATIONAL.match(tidy) else None
            super().data_received(tidy)
            if not is_clear:
                self.force_close()
            if not data:
                return
        payload = self._payload
        is_whole = payload is None or payload.is_eof()
        if data and is_whole and self._parser is not None:
            self._refuse("more came than the response")
            return
        super().data_received(data)
        if self._exception is not None and payload is not None:
            _end(payload, self._exception)

    def _cut(self, data: bytes) -> tuple[bytes | None, bytes]:
        """Return the head and the data after it. The head is None until it is complete."""
        assert self._head is not None
        if self._head:
            searched = max(0, len(self._head) - 3)
            self._head += data
            received: bytes | bytearray = self._head
        else:
            searched, received = 0, data.lstrip(b"\r\n")
        end = _END.search(received, searched)
        size = end.end() if end else len(received)
        if self._head_bytes + size > HEAD_BYTES:
            self._refuse("the head of the response is too long")
            return None, b""
        if end is None:
            if not self._head:
                self._head = bytearray(received)
            return None, b""
        head, data = bytes(received[:size]), bytes(received[size:])
        self._head_bytes += size
        return head, data

    def _refuse(self, why: str) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()
        self.set_exception(HttpProcessingError(code=400, message=why))


def tidy_head(head: bytes) -> tuple[bytes, bool]:
    """Return a normalised head, and True if it clearly gives the end of the body.

    Corrects the first line, unfolds folded lines (RFC 9112, 5.2), and removes lines that are
    no fields. For the length of the body keeps what has precedence (6.3): chunks, else one
    length, else the end of the connection. Keeps different lengths, which aiohttp refuses.
    """
    if _TIDY.fullmatch(head):
        fields_of_body = len(_BODY_FIELD.findall(head))
        if fields_of_body <= 1 and len(_CLEAR_FIELD.findall(head)) == fields_of_body:
            return head, True
    first, *lines = [
        line.rstrip(b"\r").replace(b"\r", b" ")
        for line in _FOLD.sub(b" ", head).split(b"\n")
    ]
    found = [_FIELD.fullmatch(line) for line in lines]
    fields = [(match[1], match[2].strip()) for match in found if match]
    lengths = _members(fields, b"content-length")
    codings = [coding.lower() for coding in _members(fields, b"transfer-encoding")]
    if b"chunked" in codings:
        fields = _without(fields, b"content-length")
    else:
        fields = _without(fields, b"transfer-encoding")
        if len(set(lengths)) == 1:
            fields = _without(fields, b"content-length")
            if _LENGTH.fullmatch(lengths[0]):
                fields.append((b"Content-Length", lengths[0]))
    if (status := _STATUS.fullmatch(first)) is not None:
        first = b"HTTP%s %s %s" % (status[1] or b"/1.1", status[2], status[3].strip())
    rows = [first, *(b": ".join(field) for field in fields), b"", b""]
    return b"\r\n".join(rows), len(lengths) + len(codings) < 2


def _members(fields: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the members of all lists of a field. ``name`` is in lower case."""
    values = [value for known, value in fields if known.lower() == name]
    return [member.strip() for value in values for member in value.split(b",")]


def _without(
    fields: list[tuple[bytes, bytes]], name: bytes
) -> list[tuple[bytes, bytes]]:
    return [field for field in fields if field[0].lower() != name]


def _end(payload: StreamReader, error: BaseException) -> None:
    """End a body for its readers. Otherwise aiohttp would let them wait."""
    if not payload.is_eof() and payload.exception() is None:
        payload.set_exception(ClientPayloadError(str(error)))


CONNECTIONS = 256  # open at the same time; HostPace limits hosts
# Bytes of a body that wait for their reader, half of those that pause the connection.
# asyncio receives as many at a time.
BUFFER_BYTES = 256 * 1024
KEEPALIVE_S = 15


def open_session(
    local_address: tuple[str, int] | None,
    open_socket: Callable[[Any], socket.socket] | None = None,
) -> aiohttp.ClientSession:
    """Return a session without cookies and default headers.

    ``open_socket`` makes the socket of each connection from its address.
    """
    connector = aiohttp.TCPConnector(
        limit=CONNECTIONS,
        limit_per_host=0,
        local_addr=local_address,
        keepalive_timeout=KEEPALIVE_S,
        socket_factory=open_socket,
    )
    # aiohttp has no option for this; a test fails if the protocol is not used.
    loop = asyncio.get_running_loop()
    connector._factory = functools.partial(  # type: ignore[assignment]  # a subclass
        LenientProtocol, loop=loop
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=BUFFER_BYTES,
        response_class=PageResponse,
        skip_auto_headers=(
            "Accept",
            "Accept-Encoding",
            "Content-Type",
            "User-Agent",
        ),
        max_line_size=HEAD_BYTES,
        max_field_size=HEAD_BYTES,
        max_headers=MAX_FIELDS,
    )


def download_error(error: Exception, timeout: float) -> Exception:
    """Return the matching error of Scrapy or of this service."""
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"no complete response within {timeout:.1f} s")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return UnsupportedURLSchemeError(str(error))
    if isinstance(
        error, (aiohttp.ClientConnectorCertificateError, ssl.CertificateError)
    ):
        return CertificateError(str(error))
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return NoCommonTls(str(error))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return CannotResolveHostError(str(error))
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return ProxyFailed(str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return DownloadConnectionRefusedError(str(error))
    if isinstance(error, ValueError):
        return DownloadFailedError(f"the URL cannot be fetched: {error}")
    return DownloadFailedError(str(error) or type(error).__name__)
