"""The browser of a session over a WebSocket, for Playwright and Puppeteer.

Messages of the DevTools protocol pass in both directions, those of the caller through the
rules of :mod:`scraper_service.crawling.browser.devtools_rules`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
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
from scraper_service.crawling.browser.devtools_rules import Decision, decide
from scraper_service.errors import ConverterDied

if TYPE_CHECKING:
    from scraper_service.api.streams.websocket import Handshake
    from scraper_service.api.version import Api
    from scraper_service.crawling.browser.devtools import DevTools
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )

MAX_MESSAGE = 2 * 2**20  # characters from a caller
LARGE_MESSAGE = 32 * 2**10  # characters; larger ones are read in the converter pool
PIECE = 128 * 2**10  # characters written at once
MAX_QUEUED = 16 * 2**20  # characters that wait for the browser
MAX_WAITING = 50_000  # messages that wait for the browser
OPEN_S = 5.0  # for the browser to open a page


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
        #: The id of the message that opens a page, and its reply.
        self._opening: int | None = None
        self._opened = asyncio.Event()

    def heard(self, event: TextMessage | BytesMessage) -> None:
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
            *_, is_over, is_flooded = await self.until_first_end(
                self._upward(browser),
                self._downward(browser),
                self._session.ending.wait(),
                self._is_flooded.wait(),
            )
        if is_flooded:
            await self.close(REFUSED, "a message is too large, or too many wait")
        else:
            await self.close(GOING_AWAY if is_over else OK, "the session has ended")

    async def _upward(self, browser: DevTools) -> None:
        """Send the caller's messages to the browser."""
        turns = FairTurns()
        while True:
            text = await self._queue.get()
            self._queued -= len(text)
            self._session.note_message()
            decision = await self._decided(text)
            if decision.reply:
                await self.send_text([decision.reply.encode()])
            elif decision.opening is not None:
                await self._open_page(browser, decision)
            else:
                await browser.send(decision.sent)
            if decision.is_end:
                self._session.ending.set()
                return
            await turns.take()

    async def _decided(self, text: str) -> Decision:
        context_id = self._session.context_id
        if len(text) <= LARGE_MESSAGE:
            return decide(text, context_id)
        try:
            found: Decision = await self.checks.pool.run(
                decide, text, context_id, team_id=self._session.team.id
            )
        except (TimeoutError, MemoryError, ConverterDied):
            raise ValueError("a message could not be read") from None
        return found

    async def _open_page(self, browser: DevTools, decision: Decision) -> None:
        """Send a message that opens a page, unless the session has enough."""
        assert decision.opening is not None
        async with self._session.opening:
            if full := await self._session.full_reply(decision.opening):
                await self.send_text([full.encode()])
                return
            self._opening = decision.opening
            self._opened.clear()
            await browser.send(decision.sent)
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_S):
                    await self._opened.wait()

    async def _downward(self, browser: DevTools) -> None:
        """Send the browser's messages to the caller, as fast as it reads them."""
        turns = FairTurns()
        async for text in browser.messages():
            if self._opening is not None and _is_reply(text, self._opening):
                self._opening = None
                self._opened.set()
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


def _is_reply(text: str, message_id: int) -> bool:
    """Return True if a message of Chromium is its reply to a message."""
    return text.startswith(f'{{"id":{message_id},')
