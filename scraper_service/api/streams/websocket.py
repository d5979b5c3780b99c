"""A job over a WebSocket: its documents as they arrive, see docs/api/events.md, WebSocket.

The library wsproto implements RFC 6455. The handshake upgrades the HTTP connection.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h11
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    TextMessage,
)
from wsproto.handshake import H11Handshake
from wsproto.utilities import ProtocolError

from scraper_service.api.errors import answer_to
from scraper_service.api.parameters import parse_job_id
from scraper_service.api.responses import JobStatusJson, job_error, job_snapshot
from scraper_service.api.schemas import encode
from scraper_service.api.streams.streaming import Stalled, Stream, TimeSlice, pieces
from scraper_service.errors import InvalidParameter, JobNotFound, Unauthorized
from scraper_service.options.limits import Mode
from scraper_service.services.job_following import SLICE_BYTES
from scraper_service.shared_objects import until_first_end
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from wsproto.events import Event

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.request_checks import RequestChecks
    from scraper_service.api.routing import Api
    from scraper_service.api.streams.streaming import OpenStreams
    from scraper_service.services.accounts import Team
    from scraper_service.storage.job_records import Job

CATCHUP_BYTES = (
    900 * 2**10
)  # of pages in the first message; docs/api/events.md, WebSocket
NONCE_BYTES = 16  # RFC 6455, 4.2.1
BEAT_S = 20.0  # between two pings of the connection to a session
MISSED_PINGS = 2  # pings without any data from the client; then the connection is cut
CLOSING_S = 5.0  # for the client to confirm the end
# Parts of a message. An empty one has no bytes that a limit could count.
MAX_PARTS = 20_000
OK, GOING_AWAY, REFUSED, TOO_BIG, INTERNAL = 1000, 1001, 1008, 1009, 1011
NO_ACCESS = 3000
TOO_MANY_PARTS = "a message has too many parts"
NOTHING = "{}"  # a public client parses the reason of a close frame as a message
DONE = '{"type":"done"}'
HEADERS = (b"connection", b"upgrade", b"sec-websocket-key", b"sec-websocket-version")


def is_wanted(request: JsonRequest) -> bool:
    """Return True if a request is a WebSocket handshake."""
    upgrade = request.header("Upgrade") or ""
    return request.method == b"GET" and upgrade.strip().lower() == "websocket"


async def watch(api: Api, request: JsonRequest, job_id: str) -> WebSocket:
    """Return the response to a handshake.

    A caller without access to the job gets the error over the WebSocket. Raises
    :exc:`InvalidParameter` for an invalid handshake, and the errors of
    :meth:`Watchers.check`.
    """
    handshake = Handshake(request)
    team, refusal = None, None
    try:
        team, _ = await api.checks.admit(request, Mode.CRAWL_STATUS)
        job_id = parse_job_id(job_id)
        await api.watchers.tails.check_event(job_id, team, 0)
    except (Unauthorized, JobNotFound, InvalidParameter) as error:
        refusal = error
    if team is not None:
        api.watchers.check(team)
    return WebSocket(api, job_id, team, refusal, handshake)


class Handshake:
    """A WebSocket handshake. The API key may be sent as its sub-protocol."""

    def __init__(self, request: JsonRequest):
        offered = request.headers_of("Sec-WebSocket-Protocol")
        entries = [entry.strip() for entry in offered.split(",") if entry.strip()]
        self._protocol = entries[0] if len(entries) == 1 else None
        if self._protocol and request.header("Authorization") is None:
            bearer = f"Bearer {self._protocol}"
            request.requestHeaders.setRawHeaders("Authorization", [bearer])
        headers = [(b"host", b"localhost")]  # the request's own may have any form
        for name in HEADERS:
            values = request.requestHeaders.getRawHeaders(name, [])
            headers += [(name, b", ".join(values))] if values else []
        if self._protocol:
            headers.append((b"sec-websocket-protocol", self._protocol.encode()))
        self._wire = H11Handshake(ConnectionType.SERVER)
        try:
            self._wire.initiate_upgrade_connection(headers, b"/")
        except (ProtocolError, h11.ProtocolError, UnicodeError) as error:
            hint = getattr(error, "event_hint", None)
            if isinstance(hint, RejectConnection) and hint.status_code == 426:
                raise InvalidParameter(
                    "Sec-WebSocket-Version must be 13, got "
                    f"{request.header('Sec-WebSocket-Version')!r:.60}"
                ) from None
            raise InvalidParameter(f"Not a WebSocket handshake: {error}") from None
        nonce = request.header("Sec-WebSocket-Key") or ""
        if not _is_nonce(nonce):
            raise InvalidParameter(
                "Not a WebSocket handshake: Sec-WebSocket-Key must be 16 bytes in"
                f" Base64, got {nonce[:60]!r}"
            )

    def accept(self) -> tuple[bytes, Any]:
        """Return the response and the WebSocket connection."""
        answer = self._wire.send(AcceptConnection(subprotocol=self._protocol))
        return answer, self._wire.connection


def _is_nonce(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) == NONCE_BYTES
    except ValueError:
        return False


class SocketStream(Stream):
    """A WebSocket: sends text messages, pings, and ends with close frames.

    A sub-class writes in :meth:`tell`, and takes the client's messages in :meth:`receive_part`.
    """

    def __init__(
        self,
        watchers: OpenStreams,
        checks: RequestChecks,
        urls: PublicUrls,
        job_id: str,
        team: Team | None,
        handshake: Handshake,
    ):
        super().__init__(watchers, checks, urls, job_id, team)
        self._handshake = handshake
        self._unanswered = 0  # pings since the last data from the client
        self._closed = asyncio.Event()
        self._is_reading_later = False
        self._parts_heard = 0  # of a message that has not ended
        self._is_refused = False  # what the client sends is discarded

    def open(self) -> None:
        answer, self._wire = self._handshake.accept()
        self.request.take_over(answer, self._receive)

    def receive_part(self, event: TextMessage | BytesMessage) -> None:
        """Take a part of a message of the client."""

    async def goodbye(self) -> None:
        if self._is_refused:
            await self.close(TOO_BIG, TOO_MANY_PARTS)
        else:
            await self.close(GOING_AWAY, NOTHING)

    async def send_text(self, parts: list[bytes]) -> None:
        """Send one message; a large one in fragments, to bound the memory."""
        decoder = getincrementaldecoder("utf-8")()
        parts = self.with_base(parts)
        left = sum(map(len, parts))
        for piece in pieces(parts):
            await self.send_buffer.wait()
            left -= len(piece)
            text = decoder.decode(piece, final=not left)
            self._write(TextMessage(text, message_finished=not left))

    def beat(self) -> None:
        if self._unanswered >= MISSED_PINGS:
            raise Stalled
        self._unanswered += 1
        self._write(Ping())

    async def until_first_end(self, *waits: Awaitable[Any]) -> list[bool]:
        """Do as :func:`until_first_end`, with pings meanwhile."""
        return (await until_first_end(self._beats(), *waits))[1:]

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    def _write(self, event: Event) -> None:
        if not self.is_gone:
            self.request.send(self._wire.send(event))

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame, and wait for the client's before closing the connection.

        Closing at once could lose data that the client has not read yet.
        """
        if self._wire.state is ConnectionState.OPEN:
            self._write(CloseConnection(code, reason))
        await self.send_buffer.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self._closed.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        if not self.is_gone:
            self.request.unregisterProducer()
            self.transport.loseConnection()
            loop = asyncio.get_running_loop()
            loop.call_later(self.watchers.stall_s, self.cut)

    def _receive(self, data: bytes) -> None:
        self._unanswered = 0
        if self._is_refused or self._wire.state is ConnectionState.CLOSED:
            return
        self._wire.receive_data(data)
        if not self._is_reading_later:
            self._read_some()

    def _read_some(self) -> None:
        """Read received data for a time slice, and the remaining data later.

        Until then no more is read from the connection.
        """
        is_late, self._is_reading_later = self._is_reading_later, False
        time_slice = TimeSlice()
        for event in self._wire.events():
            self._take(event)
            if self._is_refused:
                break
            if time_slice.is_over:
                if not is_late:
                    self.transport.pauseProducing()
                self._is_reading_later = True
                asyncio.get_running_loop().call_soon(self._read_some)
                return
        if is_late and not self.is_gone:
            self.transport.resumeProducing()

    def _take(self, event: Event) -> None:
        # No pongs are queued for a client that sends pings and reads nothing.
        if isinstance(event, Ping) and self._wire.state is ConnectionState.OPEN:
            if self.send_buffer.is_open:
                self._write(event.response())
        elif isinstance(event, TextMessage | BytesMessage):
            self._parts_heard = 0 if event.message_finished else self._parts_heard + 1
            if self._parts_heard <= MAX_PARTS:
                self.receive_part(event)
            else:
                self._is_refused = self.is_stopping = True
                self.watchers.stop(self)
        elif isinstance(event, CloseConnection):
            self._on_close(event)

    def _on_close(self, event: CloseConnection) -> None:
        self._closed.set()
        if self._wire.state is ConnectionState.CLOSED:
            return
        # Not for data that break the rules behind our own close frame.
        if self._wire.state is not ConnectionState.LOCAL_CLOSING:
            self._write(event.response())
        self.watchers.stop(self)
        self._hang_up()


class WebSocket(SocketStream):
    """Text messages about one job. Messages of the client are ignored."""

    def __init__(
        self,
        api: Api,
        job_id: str,
        team: Team | None,
        refusal: Exception | None,
        handshake: Handshake,
    ):
        super().__init__(api.watchers, api.checks, api.urls, job_id, team, handshake)
        self._refusal = refusal
        self._kind: type[JobStatusJson] = api.responses.JOB_STATUS

    async def tell(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        job, pages, changed = await self._read(0, CATCHUP_BYTES)
        sent = len(pages)
        # A client stops at a final state, so all documents have to come before.
        state = None if sent == job.pages else JobState.SCRAPING
        await self._send("catchup", job_snapshot(job, pages, self._kind, state))
        while job.is_active or sent < job.pages:
            await self.rest(changed if sent == job.pages else None)
            job, pages, changed = await self._read(sent, SLICE_BYTES)
            for page in pages:
                await self._send("document", [page])
            sent += len(pages)
        if job.state is JobState.FAILED:
            await self._send_error(job_error(job) or "")
        elif job.state is JobState.CANCELLED:
            await self._send("status", job_snapshot(job, [], self._kind))
        else:
            await self._send("done", job_snapshot(job, [], JobStatusJson))
        cancelled = job.state is JobState.CANCELLED
        await self.close(OK, DONE if cancelled else NOTHING)

    async def fail(self, error: Exception) -> None:
        if isinstance(error, Unauthorized):
            code = NO_ACCESS
        elif isinstance(error, JobNotFound | InvalidParameter):
            code = REFUSED
        else:
            code = INTERNAL
        await self._send_error(answer_to(error, str).members["error"])
        await self.close(code, NOTHING)

    async def _read(
        self, sent: int, max_bytes: int
    ) -> tuple[Job, list[bytes], asyncio.Future[None]]:
        assert self.team is not None
        team = self.team
        tail = await self.patiently(
            lambda: self.tails.pages(self.job_id, team, sent, max_bytes)
        )
        return *tail.found, tail.changed

    async def _send_error(self, text: str) -> None:
        await self.send_text([b'{"type":"error","error":', encode(text), b"}"])

    async def _send(self, kind: str, data: list[bytes]) -> None:
        await self.send_text([b'{"type":"%s","data":' % kind.encode(), *data, b"}"])
