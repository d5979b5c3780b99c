"""The caller's headers: sent to the origin that was asked for, and to no other."""

from __future__ import annotations

import asyncio
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as PlaywrightError

from scraper_service.options.origins import origin

if TYPE_CHECKING:
    from playwright.async_api import CDPSession


class OwnHeaders:
    """What a caller gave for ``url``: ``cookies`` for its host, and ``others``."""

    def __init__(self, url: str, given: tuple[tuple[str, str], ...]):
        self._origin = origin(url)
        self._tasks: set[asyncio.Task[None]] = set()
        self.others = {n.lower(): (n, v) for n, v in given if n.lower() != "cookie"}
        self.cookies: list[dict[str, Any]] = [
            {"name": name, "value": value, "url": url}
            for header, text in given
            if header.lower() == "cookie"
            for name, value in _pairs(text)
        ]

    async def attach(self, session: CDPSession) -> None:
        """Look at every request of a page, each hop of a redirect too."""
        session.on("Fetch.requestPaused", lambda e: self._paused(session, e))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def _paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._go_on(session, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go_on(self, session: CDPSession, event: dict[str, Any]) -> None:
        request = event["request"]
        sent = {k.lower(): (k, v) for k, v in request["headers"].items()}
        if origin(request["url"]) == self._origin:
            sent |= self.others
        else:
            # A redirect takes along what was set for the request before.
            for name, (_, value) in self.others.items():
                if sent.get(name, ("", ""))[1] == value:
                    del sent[name]
        headers = [{"name": name, "value": value} for name, value in sent.values()]
        facts = {"requestId": event["requestId"], "headers": headers}
        try:
            await session.send("Fetch.continueRequest", facts)
        except PlaywrightError:
            return  # the page has gone on, or has ended


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = SimpleCookie(text)
    except CookieError:
        return []
    return [(name, morsel.coded_value) for name, morsel in found.items()]
