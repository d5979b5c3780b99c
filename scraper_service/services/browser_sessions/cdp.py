"""Callers and the browser of a session, in its DevTools protocol (CDP).

A program in the sandbox connects by a WebSocket on a UNIX socket. Its messages obey the same
rules as those of the ``cdpUrl`` of the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import WSMsgType, web
from attrs import define, field

from scraper_service.crawling.browser.devtools import Decision, DevTools, decide
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.errors import ConverterDied, QueueFull
from scraper_service.services.browser_sessions.running_session import RunningSession
from scraper_service.shared_objects import until_first_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


MAX_MESSAGE: Final = 2 * 2**20  # characters from a caller
LARGE_MESSAGE: Final = 32 * 2**10  # characters; larger ones are read in the pool
OPEN_S: Final = 5.0  # for the browser to open a page


@define(eq=False)
class CallerMessages:
    """The messages of one connection. Both directions pass here.

    The browser gets those that :mod:`~scraper_service.crawling.browser.devtools` allow;
    ``send`` gets the replies to the others. Large ones are read in ``pool``.
    """

    _session: RunningSession
    _browser: DevTools
    _pool: ConverterPool
    _send: Callable[[str], Awaitable[None]]
    _opening: int | None = field(init=False, default=None)
    _opened: asyncio.Event = field(init=False, factory=asyncio.Event)

    async def take(self, text: str) -> None:
        """Take a message of the caller, which counts as a call.

        ``Browser.close`` ends the session. Raises :exc:`ConnectionError`, and
        :exc:`ValueError` for a message that cannot be read.
        """
        self._session.note_message()
        decision = await self._decide(text)
        if decision.reply:
            await self._send(decision.reply)
        elif decision.opening is not None:
            await self._open_page(decision, decision.opening)
        else:
            await self._browser.send(decision.sent)
        if decision.is_end:
            self._session.ending.set()

    def note(self, text: str) -> None:
        """Note a message of the browser, which may be a reply that is waited for."""
        if self._opening is not None and text.startswith(f'{{"id":{self._opening},'):
            self._opening = None
            self._opened.set()

    async def _decide(self, text: str) -> Decision:
        context_id = self._session.context_id
        if len(text) <= LARGE_MESSAGE:
            return decide(text, context_id)
        try:
            found: Decision = await self._pool.run(
                decide, text, context_id, team_id=self._session.team.id
            )
        except (TimeoutError, MemoryError, ConverterDied):
            raise ValueError("a message could not be read") from None
        return found

    async def _open_page(self, decision: Decision, number: int) -> None:
        """Send a message that opens a page, unless the session has enough."""
        async with self._session.opening:
            if full := await self._session.full_reply(number):
                await self._send(full)
                return
            self._opening = number
            self._opened.clear()
            await self._browser.send(decision.sent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPEN_S):
                    await self._opened.wait()


# -- programs in the sandbox -----------------------------------------------------------

SOCKET_NAME: Final = "code.sock"
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
    path = Path(folder, SOCKET_NAME)

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
        await asyncio.sleep(0)  # lets other tasks run


async def _downward(
    socket: web.WebSocketResponse, browser: DevTools, messages: CallerMessages
) -> None:
    async for text in browser.messages():
        messages.note(text)
        await socket.send_str(text)
        await asyncio.sleep(0)  # lets other tasks run
