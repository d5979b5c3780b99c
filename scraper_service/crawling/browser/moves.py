"""Where a page moves to, by redirects, scripts and clicks: judged before it is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.download.download_errors import TooManyRedirects

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

    from scraper_service.crawling.browser.headers import OwnHeaders


class Judge(Protocol):
    """Says whether a page may move to an address."""

    async def __call__(self, url: str, *, can_leave: bool) -> None:
        """Raise what is to become of the page, if it may not.

        With ``can_leave`` that may be :exc:`MovedOn`: the address is then asked for
        as any other is that a site redirects to.
        """
        ...


class Moves:
    """Looks at every address that a page is about to move to, each hop of a redirect.

    At most ``most`` hops follow each other. The first address is the one that was asked
    for, and is not judged. What is refused is not asked, and :attr:`refused` says why.
    ``headers`` go with those requests of the page that they are meant for.
    """

    def __init__(self, headers: OwnHeaders, judge: Judge, most: int):
        self._headers = headers
        self._judge = judge
        self._most = most
        self._hops = -1
        self._is_acting = False
        self._frame_id = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused: asyncio.Future[Exception] = asyncio.Future()

    async def attach(self, session: CDPSession) -> None:
        """Begin, with a page that is still empty."""
        tree = await session.send("Page.getFrameTree")
        self._frame_id = tree["frameTree"]["frame"]["id"]
        pattern = {"urlPattern": "*"}
        if not self._headers.others:
            pattern["resourceType"] = "Document"
        session.on("Fetch.requestPaused", lambda e: self._paused(session, e))
        await session.send("Fetch.enable", {"patterns": [pattern]})

    def begin_action(self) -> None:
        """Take note that what follows is the doing of the caller."""
        self._is_acting = True
        self._hops = -1

    def _paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._go_on(session, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go_on(self, session: CDPSession, event: dict[str, Any]) -> None:
        facts: dict[str, Any] = {"requestId": event["requestId"]}
        request = event["request"]
        is_move = event["frameId"] == self._frame_id
        try:
            if is_move and event["resourceType"] == "Document":
                await self._check(request)
                if self.refused.done():
                    facts["errorReason"] = "Aborted"
                    await session.send("Fetch.failRequest", facts)
                    return
            if self._headers.others:
                facts["headers"] = self._headers.of(request)
            await session.send("Fetch.continueRequest", facts)
        except PlaywrightError:
            return  # the page has gone on, or has ended

    async def _check(self, request: dict[str, Any]) -> None:
        self._hops += 1
        if self.refused.done() or (not self._hops and not self._is_acting):
            return
        can_leave = request["method"] == "GET" and not self._is_acting
        try:
            if self._hops > self._most:
                raise TooManyRedirects(f"more than {self._most} moves")
            await self._judge(request["url"], can_leave=can_leave)
        except Exception as error:  # whatever it is, the page must not hang
            if not self.refused.done():
                self.refused.set_result(error)
