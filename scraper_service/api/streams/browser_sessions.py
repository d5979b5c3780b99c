"""Connections to a browser session: its browser, pictures of its page, its page by hand.

:class:`SessionSocket` is the browser over a WebSocket, for Playwright and Puppeteer: messages of
the DevTools protocol pass in both directions, those of the caller through the rules of
:mod:`scraper_service.crawling.browser.devtools`. :class:`PictureStream` sends pictures as
``multipart/x-mixed-replace``, which a browser shows in an ``<img>``, so the view needs no script.
:class:`InputSocket` sends pictures, and takes mouse and keys.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from wsproto.events import BytesMessage, TextMessage

from scraper_service.api.streams.streaming import Stream, TimeSlice
from scraper_service.api.streams.websocket import (
    GOING_AWAY,
    INTERNAL,
    OK,
    REFUSED,
    SocketStream,
)
from scraper_service.services.browser_sessions.cdp import (
    MAX_MESSAGE,
    CallerMessages,
)

if TYPE_CHECKING:
    from scraper_service.api.routing import Api
    from scraper_service.api.streams.websocket import Handshake
    from scraper_service.crawling.browser.devtools import DevTools
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )


PIECE = 128 * 2**10  # characters written at once
MAX_QUEUED = 16 * 2**20  # characters that wait for the session


class _SessionMessages(SocketStream):
    """A WebSocket whose messages wait for a session, in a queue of bounded size."""

    max_message: ClassVar[int]  # characters
    max_waiting: ClassVar[int]  # messages

    def __init__(self, api: Api, session: RunningSession, handshake: Handshake):
        super().__init__(
            api.watchers.sessions,
            api.checks,
            api.urls,
            session.record.id,
            session.team,
            handshake,
        )
        self._session = session
        self._parts: list[str] = []
        self._size = 0  # of the parts
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued = 0
        self._is_flooded = asyncio.Event()

    def receive_part(self, event: TextMessage | BytesMessage) -> None:
        # Bytes are no message, like an empty text.
        part = event.data if isinstance(event, TextMessage) else ""
        self._size += len(event.data)
        is_full = self._queue.qsize() >= self.max_waiting
        if self._size > self.max_message or self._queued > MAX_QUEUED or is_full:
            self._parts.clear()
            self._is_flooded.set()
            return
        self._parts.append(part)
        if event.message_finished:
            text = "".join(self._parts)
            self._queued += len(text)
            self._queue.put_nowait(text)
            self._parts.clear()
            self._size = 0

    async def next_message(self) -> str:
        """Wait for a message of the client."""
        text = await self._queue.get()
        self._queued -= len(text)
        return text


class SessionSocket(_SessionMessages):
    """The connection of a caller to the browser of a session."""

    max_message = MAX_MESSAGE
    max_waiting = 50_000

    async def tell(self) -> None:
        async with self._session.devtools() as browser:
            messages = CallerMessages(
                self._session, browser, self.checks.pool, self._reply
            )
            *_, is_over, is_flooded = await self.until_first_end(
                self._upward(messages),
                self._downward(browser, messages),
                self._session.ending.wait(),
                self._is_flooded.wait(),
            )
        if is_flooded:
            await self.close(REFUSED, "a message is too large, or too many wait")
        else:
            await self.close(GOING_AWAY if is_over else OK, "the session has ended")

    async def _upward(self, messages: CallerMessages) -> None:
        time_slice = TimeSlice()
        while not self._session.ending.is_set():
            await messages.take(await self.next_message())
            await time_slice.take()

    async def _reply(self, text: str) -> None:
        await self.send_text([text.encode()])

    async def _downward(self, browser: DevTools, messages: CallerMessages) -> None:
        """Send the browser's messages to the caller, as fast as it reads them."""
        time_slice = TimeSlice()
        async for text in browser.messages():
            messages.note(text)
            for start in range(0, max(1, len(text)), PIECE):
                await self.send_buffer.wait()
                end = start + PIECE
                self._write(
                    TextMessage(text[start:end], message_finished=end >= len(text))
                )
            await time_slice.take()

    async def fail(self, error: Exception) -> None:
        code = REFUSED if isinstance(error, ValueError) else INTERNAL
        await self.close(code, "the connection to the browser failed")


BOUNDARY = "picture"
REST_S = 1.0  # between two pictures
BEAT_S = 15.0  # after which a picture is sent again
#: The view: no scripts, and nothing from elsewhere.
VIEW_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Browser session</title>'
    '<img alt="The page of the session" width="100%" src="view/pictures?token={}">'
)


def _headers(policy: str) -> dict[str, str]:
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"default-src 'none'; {policy}; frame-ancestors *",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


VIEW_HEADERS = _headers("img-src 'self'")


class PictureStream(Stream):
    """The pictures of a session, until it ends."""

    def __init__(self, api: Api, session: RunningSession):
        super().__init__(
            api.watchers.sessions,
            api.checks,
            api.urls,
            session.record.id,
            session.team,
        )
        self._session = session
        self._last = b""

    def render(self, request: Any) -> Any:
        kind = f"multipart/x-mixed-replace; boundary={BOUNDARY}"
        request.setHeader("Content-Type", kind)
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("X-Accel-Buffering", "no")  # off in nginx
        return b"" if request.method == b"HEAD" else super().render(request)

    def open(self) -> None:
        self.request.write(b"--%s\r\n" % BOUNDARY.encode())

    async def tell(self) -> None:
        rests = 0.0
        while not self._session.ending.is_set():
            picture = await self._session.picture()
            if picture and (picture != self._last or rests >= BEAT_S):
                self._last, rests = picture, 0.0
                await self.send_buffer.wait()
                self.beat()
            rests += REST_S
            await asyncio.sleep(REST_S)
        await self.goodbye()

    async def fail(self, error: Exception) -> None:
        await self.goodbye()

    async def goodbye(self) -> None:
        await self.send_buffer.wait()
        self.request.unregisterProducer()
        self.request.finish()

    def beat(self) -> None:
        """Write the last picture."""
        head = f"Content-Type: image/jpeg\r\nContent-Length: {len(self._last)}\r\n\r\n"
        self.request.write(head.encode() + self._last)
        self.request.write(b"\r\n--%s\r\n" % BOUNDARY.encode())


IDLE_REST_S = 1.0  # between two pictures of a page that nobody touches
BUSY_REST_S = 0.2  # between two pictures after an input
BUSY_S = 3.0  # after an input
MAX_ERRORS = 200  # of one connection

CONTROL_SCRIPT = (
    files("scraper_service.services.browser_sessions") / "control_page.js"
).read_text(encoding="utf-8")
_HASH = b64encode(sha256(CONTROL_SCRIPT.encode()).digest()).decode()
CONTROL_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Browser session</title>'
    '<p role="status">Click into the page to use mouse and keys; Shift+Escape leaves it.</p>'
    '<img alt="The page of the session, which takes mouse and keys" width="100%"'
    f' tabindex="0" draggable="false"><script>{CONTROL_SCRIPT}</script>'
)
CONTROL_HEADERS = _headers(
    f"script-src 'sha256-{_HASH}'; img-src blob:; connect-src 'self'"
)


class InputSocket(_SessionMessages):
    """The connection of a person to the page of a session.

    Pictures are JPEG in binary messages. Inputs are JSON, see
    :func:`~scraper_service.services.browser_sessions.session_requests.parse_input`; other
    messages get ``{"error"}``.
    """

    max_message = 20_000
    max_waiting = 500

    def __init__(self, api: Api, session: RunningSession, handshake: Handshake):
        super().__init__(api, session, handshake)
        self._touched = asyncio.Event()
        self._touched_at = 0.0

    async def tell(self) -> None:
        *_, is_flooded = await self.until_first_end(
            self._show(),
            self._obey(),
            self._session.ending.wait(),
            self._is_flooded.wait(),
        )
        if is_flooded:
            await self.close(
                REFUSED, "a message is too large, or too many wait or fail"
            )
        else:
            await self.close(GOING_AWAY, "the session has ended")

    async def _obey(self) -> None:
        time_slice, errors = TimeSlice(), 0
        while True:
            text = await self.next_message()
            if (error := await self._session.give_input(text)) is not None:
                errors += 1
                if errors > MAX_ERRORS:
                    self._is_flooded.set()
                    return
                await self.send_text([json.dumps({"error": error}).encode()])
            await time_slice.take()
            self._touched_at = time.monotonic()
            self._touched.set()

    async def _show(self) -> None:
        last = b""
        while True:
            picture = await self._session.picture()
            if picture and picture != last:
                last = picture
                await self.send_buffer.wait()
                self._write(BytesMessage(picture))
            is_busy = time.monotonic() < self._touched_at + BUSY_S
            self._touched.clear()
            if is_busy:
                await asyncio.sleep(BUSY_REST_S)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_REST_S):
                        await self._touched.wait()

    async def fail(self, error: Exception) -> None:
        await self.close(INTERNAL, "the page of the session failed")
