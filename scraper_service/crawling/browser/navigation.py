"""Checks each navigation of a page before its request, and adds the caller's headers.

The headers go to the requested origin only.
"""

from __future__ import annotations

import asyncio
import contextlib
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Protocol

from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.network.proxies import resolve
from scraper_service.crawling.page_errors import MovedOn, TooManyRedirects
from scraper_service.options.urls import origin, root_url, url_parts
from scraper_service.shared_objects import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import CDPSession, Route

    from scraper_service.crawling.network.egress import EgressPolicy
    from scraper_service.options.urls import OriginT


class OwnHeaders:
    """The caller's headers for an origin: ``cookies`` for its host, and ``others``."""

    def __init__(self, first_origin: OriginT, given: tuple[tuple[str, str], ...]):
        self._first_origin = first_origin
        self.others = {n.lower(): (n, v) for n, v in given if n.lower() != "cookie"}
        self.cookies: list[dict[str, Any]] = [
            {"name": name, "value": value, "url": root_url(first_origin)}
            for header, text in given
            if header.lower() == "cookie"
            for name, value in _pairs(text)
        ]

    def of(self, request: dict[str, Any]) -> list[dict[str, str]]:
        """Return the headers for a request of the page.

        ``request`` is a request of the DevTools protocol.
        """
        sent = {k.lower(): (k, v) for k, v in request["headers"].items()}
        if origin(request["url"]) == self._first_origin:
            sent |= self.others
        else:
            # A redirect keeps the headers that were set for its first request.
            for name, (_, value) in self.others.items():
                if sent.get(name, ("", ""))[1] == value:
                    del sent[name]
        return [{"name": name, "value": value} for name, value in sent.values()]


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = SimpleCookie(text)
    except CookieError:
        return []
    return [(name, morsel.coded_value) for name, morsel in found.items()]


class Judge(Protocol):
    """Decides whether a page may navigate to a URL."""

    async def __call__(self, url: str, *, can_leave: bool) -> None:
        """Raise the error for the page if it may not navigate to ``url``.

        With ``can_leave`` the error may be :exc:`MovedOn`. The URL is then fetched like the
        target of a redirect.
        """
        ...


class Moves:
    """Checks each navigation of a page, and each redirect.

    At most ``most`` redirects may follow each other. The first URL is the requested URL, which is
    not checked. A refused URL is not requested, and :attr:`refused` has the error. ``headers``
    are added to matching requests. ``check`` raises the error for a URL that the network of
    the browser would reach although it may not; it is for each document, also the first.
    """

    def __init__(
        self,
        headers: OwnHeaders,
        judge: Judge,
        most: int,
        check: Callable[[str], Awaitable[None]] | None = None,
    ):
        self._check_network = check
        self._headers = headers
        self._judge = judge
        self._most = most
        self._hops = -1
        self._is_acting = False
        self._frame_id = ""
        self._last_url = ""
        self._tasks = BackgroundTasks()
        self.refused: asyncio.Future[Exception] = asyncio.Future()

    async def attach(self, session: CDPSession) -> None:
        """Start with an empty page."""
        tree = await session.send("Page.getFrameTree")
        self._frame_id = tree["frameTree"]["frame"]["id"]
        pattern = {"urlPattern": "*"}
        if not self._headers.others:
            pattern["resourceType"] = "Document"
        session.on("Fetch.requestPaused", lambda e: self._on_paused(session, e))
        await session.send("Fetch.enable", {"patterns": [pattern]})

    def begin_action(self) -> None:
        """Note that the caller's actions cause the next navigations."""
        self._is_acting = True
        self._hops = -1

    def begin_step(self) -> None:
        """Forget a refused URL: the next step of a page that stays open begins."""
        self.refused = asyncio.Future()
        self.begin_action()

    def go_on(self) -> None:
        """Note that a caller acts outside of steps: nothing refused earlier holds it up."""
        if self.refused.done():
            self.refused = asyncio.Future()
        self.begin_action()

    def take_file(self, url: str, name: str, *, is_loading: bool) -> None:
        """Leave the page if a script has moved it to a file, as a redirect would.

        A page that has loaded stays, unless the file is a PDF: some Chromium show those in
        place of the page, and others download them. Actions of the caller lead to no file.
        """
        is_move = url == self._last_url and self._hops > 0 and not self._is_acting
        leaves = is_loading or name.lower().endswith(".pdf")
        if is_move and leaves and not self.refused.done():
            self.refused.set_result(MovedOn(url))

    def _on_paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        self._tasks.spawn(self._go_on(session, event))

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
            return  # the page has navigated, or has ended

    async def _check(self, request: dict[str, Any]) -> None:
        self._hops += 1
        self._last_url = request["url"]
        if self.refused.done():
            return
        is_first = not self._hops and not self._is_acting
        can_leave = request["method"] == "GET" and not self._is_acting
        try:
            if self._check_network is not None:
                await self._check_network(request["url"])
            if is_first:
                return
            if self._hops > self._most:
                raise TooManyRedirects(f"more than {self._most} moves")
            await self._judge(request["url"], can_leave=can_leave)
        except Exception as error:  # any error, since the page must not hang
            if not self.refused.done():
                self.refused.set_result(error)


class DirectRules:
    """The rules of a page whose browser has its own way to the network.

    The names of its requests are resolved here, and refused before the browser connects. The
    browser resolves them again, and requests of redirects and workers are not seen: its own
    network has to be one from which nothing private is reached.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        refusal: Callable[[str], Exception | None],
        fail: Callable[[str, Exception], None],
    ):
        self._policy = policy
        self._refuse = refusal
        self._fail = fail
        self._known: dict[tuple[str, int | None], Exception | None] = {}

    async def check(self, url: str) -> None:
        """Raise the refusal of a URL."""
        parts = url_parts(url)
        if parts.scheme not in {"", "http", "https", "ws", "wss"}:
            return
        key = (parts.hostname or "", parts.port)
        if key not in self._known:
            self._known[key] = await self._refusal(url, key[0])
        if (error := self._known[key]) is not None:
            raise error

    async def _refusal(self, url: str, host: str) -> Exception | None:
        try:
            if (error := self._refuse(host)) is not None:
                raise error
            await resolve(self._policy, url)
        except Exception as error:  # any error, since the request must not hang
            self._fail(host, error)
            return error
        return None

    async def route(self, route: Route) -> None:
        """Let a request of the page go on, or abort it."""
        with contextlib.suppress(PlaywrightError):  # the page has ended
            try:
                await self.check(route.request.url)
            except Exception:
                await route.abort("blockedbyclient")
            else:
                await route.continue_()
