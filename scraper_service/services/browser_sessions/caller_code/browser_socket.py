"""The browser of a session for a program in the sandbox: a WebSocket on a UNIX socket.

It takes the same messages as the ``cdpUrl`` of the session, by the same rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import WSMsgType, web

from scraper_service.errors import QueueFull
from scraper_service.services.browser_sessions.caller_messages import (
    MAX_MESSAGE,
    CallerMessages,
)
from scraper_service.shared_objects import until_first_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scraper_service.crawling.browser.devtools import DevTools
    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )

NAME: Final = "code.sock"
MOST_CONNECTIONS: Final = 10  # those that wait for their handshake, too
CLOSE_S: Final = 1.0

#: For what a program sends that is no HTTP: it would write the log of the service.
_silence = logging.getLogger(f"{__name__}.requests")
_silence.setLevel(logging.CRITICAL + 1)


class _Closed(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@contextlib.asynccontextmanager
async def browser_socket(
    session: RunningSession, pool: ConverterPool, folder: str
) -> AsyncIterator[Path]:
    """Listen in a private folder for a program, and yield the path of the socket.

    At the end connections are closed.
    """
    path = Path(folder, NAME)

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        return await _serve(request, session, pool)

    server = web.Server(serve, access_log=None, logger=_silence)

    def accept() -> asyncio.Protocol:
        is_full = len(server.connections) >= MOST_CONNECTIONS
        return _Closed() if is_full else server()

    listener = await asyncio.get_running_loop().create_unix_server(accept, str(path))
    try:
        yield path
    finally:
        listener.close()
        await server.shutdown(CLOSE_S)


async def _serve(
    request: web.BaseRequest, session: RunningSession, pool: ConverterPool
) -> web.StreamResponse:
    socket = web.WebSocketResponse(max_msg_size=MAX_MESSAGE, compress=False)
    if not socket.can_prepare(request):
        return _refusal(web.HTTPUpgradeRequired.status_code)
    try:
        async with session.devtools() as browser:
            await socket.prepare(request)
            messages = CallerMessages(session, browser, pool, socket.send_str)
            await until_first_end(
                _upward(socket, messages),
                _downward(socket, browser, messages),
                session.ending.wait(),
            )
    except QueueFull:
        return _refusal(web.HTTPTooManyRequests.status_code)
    except (ConnectionError, OSError, ValueError):
        pass  # one of both sides has ended, or the caller's message cannot be read
    return socket


def _refusal(status: int) -> web.Response:
    """Return a refusal, the last response of its connection: requests would pile up."""
    response = web.Response(status=status)
    response.force_close()
    return response


async def _upward(socket: web.WebSocketResponse, messages: CallerMessages) -> None:
    async for message in socket:
        # Bytes are no message of the protocol, like an empty text.
        text = message.data if message.type is WSMsgType.TEXT else ""
        await messages.take(text)
        await asyncio.sleep(0)  # the turn of others


async def _downward(
    socket: web.WebSocketResponse, browser: DevTools, messages: CallerMessages
) -> None:
    async for text in browser.messages():
        messages.note(text)
        await socket.send_str(text)
        await asyncio.sleep(0)  # the turn of others
