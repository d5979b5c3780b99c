"""A connection to the DevTools port of a session's browser, on this machine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
from attrs import define

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_MESSAGE = 64 * 2**20  # bytes from the browser: a screenshot of a long page
CONNECT_S = 10.0


@define
class DevTools:
    """Messages to and from a browser as text."""

    _socket: aiohttp.ClientWebSocketResponse

    async def send(self, text: str) -> None:
        """Send a message. Raises :exc:`ConnectionError` if the browser has ended."""
        await self._socket.send_str(text)

    async def messages(self) -> AsyncIterator[str]:
        """Yield the messages of the browser until its end."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                yield message.data

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[DevTools]:
        """Yield a connection to the URL of a browser's own socket.

        Raises :exc:`aiohttp.ClientError` and :exc:`TimeoutError`.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.ws_connect(url, max_msg_size=MAX_MESSAGE, compress=0) as socket,
        ):
            yield cls(socket)
