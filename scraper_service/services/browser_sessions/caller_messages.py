"""The messages of a caller to the browser of a session, by the rules of the protocol."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from scraper_service.crawling.browser.devtools import Decision, decide
from scraper_service.errors import ConverterDied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scraper_service.crawling.browser.devtools import DevTools
    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )

MAX_MESSAGE: Final = 2 * 2**20  # characters from a caller
LARGE_MESSAGE: Final = 32 * 2**10  # characters; larger ones are read in the pool
OPEN_S: Final = 5.0  # for the browser to open a page


class CallerMessages:
    """The messages of one connection. Both directions pass here.

    The browser gets those that :mod:`~scraper_service.crawling.browser.devtools` allow;
    ``send`` gets the replies to the others. Large ones are read in ``pool``.
    """

    def __init__(
        self,
        session: RunningSession,
        browser: DevTools,
        pool: ConverterPool,
        send: Callable[[str], Awaitable[None]],
    ):
        self._session = session
        self._browser = browser
        self._pool = pool
        self._send = send
        #: The id of the message that opens a page, and its reply.
        self._opening: int | None = None
        self._opened = asyncio.Event()

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
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_S):
                    await self._opened.wait()
