"""A site in a thread that sends the bytes of a test unchanged."""

from __future__ import annotations

import contextlib
import socketserver
import time
from typing import TYPE_CHECKING, TypeAlias

from tests.support.mockserver import SITE_HOST
from tests.support.servers import InThread

if TYPE_CHECKING:
    from collections.abc import Mapping

TLS_RECORD = b"\x16"  # the first byte of a TLS handshake

# The pieces of a response; numbers are pauses in seconds.
PiecesT: TypeAlias = "tuple[bytes | float, ...]"


class RawSite(InThread):
    """A site on 127.0.0.2, a context manager.

    ``answers`` has the bytes of each path's response, or their pieces. A test may change
    ``answers`` at any time. ``known`` has the responses to clients with a cookie. The
    connection stays open after :data:`PLAIN` and closes after other responses. ``asked``
    has the requested paths in order.
    """

    def __init__(self, answers: Mapping[str, bytes | PiecesT] | None = None) -> None:
        super().__init__((SITE_HOST, 0), _Connection)
        self.answers = dict(answers or {})
        self.known: dict[str, bytes | PiecesT] = {}
        self.asked: list[str] = []
        self.connections = 0


def page(
    body: bytes = b"<title>Odd</title><p>All is well.</p>", *lines: bytes
) -> bytes:
    """Return a response with further header lines."""
    length = b"Content-Length: %d" % len(body)
    return head(length, *lines) + body


def head(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK") -> bytes:
    """Return the head of an HTML response."""
    return b"\r\n".join([first, b"Content-Type: text/html", *lines, b"", b""])


PLAIN = page()


class _Connection(socketserver.StreamRequestHandler):
    server: RawSite

    def handle(self) -> None:
        self.server.connections += 1
        with contextlib.suppress(OSError):
            while self._answer():
                pass

    def _answer(self) -> bool:
        if self.rfile.peek(1)[:1] == TLS_RECORD:
            self.wfile.write(head(first=b"HTTP/1.1 400 Bad Request"))
            return False
        request = self.rfile.readline()
        fields = b"".join(iter(lambda: self.rfile.readline().strip(), b"")).lower()
        if not request:
            return False
        path = request.split()[1].decode()
        self.server.asked.append(path)
        found = self.server.answers.get(path, PLAIN)
        if b"cookie: " in fields:
            found = self.server.known.get(path, found)
        for piece in found if isinstance(found, tuple) else (found,):
            if isinstance(piece, bytes):
                self.wfile.write(piece)
            else:
                time.sleep(piece)
        return found == PLAIN
