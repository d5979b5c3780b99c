"""The browser of a session over a WebSocket, for Playwright and Puppeteer.

Messages of the DevTools protocol pass in both directions, those of the caller through the
rules of :mod:`scraper_service.crawling.browser.devtools_rules`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from wsproto.events import TextMessage

from scraper_service.api.streams.websocket import (
    GOING_AWAY,
    INTERNAL,
    OK,
    REFUSED,
    SocketStream,
)
from scraper_service.crawling.browser.devtools_rules import MethodRefused

if TYPE_CHECKING:
    from scraper_service.api.streams.websocket import Handshake
    from scraper_service.api.version import Api
    from scraper_service.crawling.browser.devtools import DevTools
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )

MAX_MESSAGE = 2 * 2**20  # characters from a caller; reading it must not hold up others
PIECE = 128 * 2**10  # characters written at once
MAX_QUEUED = 16 * 2**20  # characters that wait for the browser
BEAT_S = 20.0  # between two pings


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
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued = 0
        self._is_flooded = asyncio.Event()

    def heard(self, event: TextMessage) -> None:
        self._parts.append(event.data)
        self._queued += len(event.data)
        if self._queued > MAX_QUEUED or sum(map(len, self._parts)) > MAX_MESSAGE:
            self._parts.clear()
            self._is_flooded.set()
        elif event.message_finished:
            self._queue.put_nowait("".join(self._parts))
            self._parts.clear()

    async def tell(self) -> None:
        async with self._session.devtools() as browser:
            waits = (
                self._upward(browser),
                self._downward(browser),
                self._beats(),
                self._session.ending.wait(),
                self._is_flooded.wait(),
            )
            tasks = [asyncio.ensure_future(each) for each in waits]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                is_over, is_flooded = (task.done() for task in tasks[-2:])
                for task in tasks[:3]:
                    if task.done():
                        task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if is_flooded:
            await self.close(REFUSED, "a message is too large, or too many wait")
        else:
            await self.close(GOING_AWAY if is_over else OK, "the session has ended")

    async def _upward(self, browser: DevTools) -> None:
        """Send the caller's messages to the browser."""
        while True:
            text = await self._queue.get()
            self._queued -= len(text)
            try:
                allowed = self._session.permit(text)
            except MethodRefused as refused:
                await self.send_text([refused.reply.encode()])
                continue
            if allowed is None:  # the caller ends the session
                await self.send_text([b'{"id":%d,"result":{}}' % _id_of(text)])
                self._session.ending.set()
                return
            await browser.send(allowed)

    async def _downward(self, browser: DevTools) -> None:
        """Send the browser's messages to the caller, as fast as it reads them."""
        async for text in browser.messages():
            for start in range(0, max(1, len(text)), PIECE):
                await self.valve.wait()
                end = start + PIECE
                self._write(
                    TextMessage(text[start:end], message_finished=end >= len(text))
                )

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    async def fail(self, error: Exception) -> None:
        code = REFUSED if isinstance(error, ValueError) else INTERNAL
        await self.close(code, "no message of the DevTools protocol")


def _id_of(text: str) -> int:
    found = json.loads(text).get("id")
    return found if isinstance(found, int) else 0
