"""The browser of a session over a WebSocket, for Playwright and Puppeteer.

Messages of the DevTools protocol pass in both directions, those of the caller through the
rules of :mod:`scraper_service.crawling.browser.devtools`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wsproto.events import BytesMessage, TextMessage

from scraper_service.api.streams.streaming import FairTurns
from scraper_service.api.streams.websocket import (
    GOING_AWAY,
    INTERNAL,
    OK,
    REFUSED,
    SocketStream,
)
from scraper_service.services.browser_sessions.caller_messages import (
    MAX_MESSAGE,
    CallerMessages,
)

if TYPE_CHECKING:
    from scraper_service.api.streams.websocket import Handshake
    from scraper_service.api.version import Api
    from scraper_service.crawling.browser.devtools import DevTools
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )

PIECE = 128 * 2**10  # characters written at once
MAX_QUEUED = 16 * 2**20  # characters that wait for the browser
MAX_WAITING = 50_000  # messages that wait for the browser


class SessionSocket(SocketStream):
    """The connection of a caller to the browser of a session."""

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
        # Bytes are no message of the protocol, like an empty text.
        part = event.data if isinstance(event, TextMessage) else ""
        self._size += len(event.data)
        is_full = self._queue.qsize() >= MAX_WAITING
        if self._size > MAX_MESSAGE or self._queued > MAX_QUEUED or is_full:
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
        """Send the caller's messages to the browser."""
        turns = FairTurns()
        while not self._session.ending.is_set():
            text = await self._queue.get()
            self._queued -= len(text)
            await messages.take(text)
            await turns.take()

    async def _reply(self, text: str) -> None:
        await self.send_text([text.encode()])

    async def _downward(self, browser: DevTools, messages: CallerMessages) -> None:
        """Send the browser's messages to the caller, as fast as it reads them."""
        turns = FairTurns()
        async for text in browser.messages():
            messages.note(text)
            for start in range(0, max(1, len(text)), PIECE):
                await self.valve.wait()
                end = start + PIECE
                self._write(
                    TextMessage(text[start:end], message_finished=end >= len(text))
                )
            await turns.take()

    async def fail(self, error: Exception) -> None:
        code = REFUSED if isinstance(error, ValueError) else INTERNAL
        await self.close(code, "the connection to the browser failed")
