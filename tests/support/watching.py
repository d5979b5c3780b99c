"""Independent clients of the service's streams: WebSocket and Server-Sent Events."""

from __future__ import annotations

import http.client
import json
import os
import socket
import urllib.parse
from base64 import b64encode
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.waiting import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Service


class Watched(NamedTuple):
    """The messages of a WebSocket as texts, with its close code and reason."""

    texts: list[str]
    code: int | None
    reason: str

    @property
    def messages(self) -> list[Any]:
        return [json.loads(text) for text in self.texts]

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    @property
    def documents(self) -> list[Any]:
        """The documents of all messages, in order."""
        found = []
        for message in self.messages:
            if message["type"] == "document":
                found.append(message["data"])
            elif "data" in message:
                found += message["data"]["data"]
        return found


def open_socket(
    service: Service, path: str, key: str | None = None, **options: Any
) -> ClientConnection:
    """Open a WebSocket; ``key`` goes into the Authorization header."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    headers |= options.pop("headers", {})
    return connect(
        service.url.replace("http", "ws", 1) + path,
        additional_headers=headers,
        proxy=None,
        compression=None,
        max_size=None,
        open_timeout=WAIT_S,
        **options,
    )


def watched(
    connection: ClientConnection, then: Callable[[], object] | None = None
) -> Watched:
    """Read a WebSocket to its end; call ``then`` after the first message."""
    texts: list[str] = []
    try:
        while True:
            text = connection.recv(timeout=WAIT_S)
            assert isinstance(text, str), "a client closes on binary messages"
            texts.append(text)
            if then and len(texts) == 1:
                then()
    except ConnectionClosed as closed:
        end = closed.rcvd
        return Watched(texts, end.code if end else None, end.reason if end else "")


class StreamEvent(NamedTuple):
    """An event of a stream; ``comments`` is the number of comment lines before it."""

    id: str
    event: str
    data: Any
    comments: int


class EventClient:
    """A request for a stream of events: a context manager and an iterable of events.

    ``last`` is sent as ``Last-Event-ID``.
    """

    def __init__(
        self,
        service: Service,
        path: str,
        last: str | None = None,
        key: str | None = None,
        method: str = "GET",
    ):
        address = urllib.parse.urlsplit(service.url).netloc
        self._connection = http.client.HTTPConnection(address, timeout=WAIT_S)
        headers = {"Authorization": f"Bearer {key or service.key}"}
        if last is not None:
            headers["Last-Event-ID"] = last
        self._connection.request(method, path, headers=headers)
        self.response = self._connection.getresponse()
        self.comments = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[StreamEvent]:
        """Yield complete events until the end of the stream, parsed as in the HTML standard.

        Raises :exc:`OSError` or :exc:`http.client.HTTPException` if the connection breaks.
        """
        fields: dict[str, str] = {}
        for line in self.response:
            text = line.decode().removesuffix("\n")
            assert "\r" not in text
            if not line.endswith(b"\n"):
                return  # the start of an incomplete event
            if text.startswith(":"):
                self.comments += 1
            elif text:
                name, _, value = text.partition(": ")
                assert name not in fields, "each is one line"
                fields[name] = value
            elif "data" in fields:
                body = json.loads(fields["data"])
                yield StreamEvent(fields["id"], fields["event"], body, self.comments)
                fields = {}
            else:
                fields = {}


class RawSocket:
    """A WebSocket client that gives a test control of each frame.

    ``buffer_bytes`` limits the kernel's receive buffer; 0 for the default.
    """

    def __init__(self, service: Service, path: str, *, key: str, buffer_bytes: int = 0):
        parts = urllib.parse.urlsplit(service.url)
        self.socket = socket.socket()
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(WAIT_S)
        self.socket.connect((parts.hostname, parts.port))
        self._head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        self._head += f"Authorization: Bearer {key}\r\n"
        self._read = b""

    def shake_hands(self) -> bytes:
        """Send the handshake; return the head of the response."""
        key = b64encode(os.urandom(16)).decode()
        self.send_head(
            f"Upgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        )
        while b"\r\n\r\n" not in self._read:
            self._read += self._some()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        return head

    def send_head(self, headers: str = "") -> None:
        self.socket.sendall(f"{self._head}{headers}\r\n".encode())

    def frame(self) -> tuple[bool, int, bytes]:
        """Return the next frame: the FIN bit, the opcode and the data."""
        first, length = self._take(2)
        if length == 126:
            length = int.from_bytes(self._take(2))
        elif length == 127:
            length = int.from_bytes(self._take(8))
        assert length < 2**63
        return bool(first & 0x80), first & 0x0F, self._take(length)

    def send_frame(self, opcode: int, data: bytes = b"") -> None:
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
        self.socket.sendall(bytes([0x80 | opcode, 0x80 | len(data)]) + mask + masked)

    def rest(self) -> list[tuple[bool, int, bytes]]:
        """Return the frames until the connection ends, cleanly or not."""
        frames = []
        try:
            while True:
                frames.append(self.frame())
        except (EOFError, ConnectionResetError):
            return frames

    def drain(self) -> int:
        """Read to the end of the connection; return the number of bytes."""
        count = 0
        try:
            while True:
                count += len(self._some())
        except (EOFError, ConnectionResetError):
            return count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.socket.close()

    def _take(self, count: int) -> bytes:
        while len(self._read) < count:
            self._read += self._some()
        taken, self._read = self._read[:count], self._read[count:]
        return taken

    def _some(self) -> bytes:
        some = self.socket.recv(2**16)
        if not some:
            raise EOFError
        return some
