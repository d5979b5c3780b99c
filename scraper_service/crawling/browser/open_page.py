"""One page in the browser, in a context of its own: opened and closed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Self

from attrs import define, field
from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.ads import PATHS
from scraper_service.crawling.browser.emulation import context_options
from scraper_service.crawling.browser.errors import BrowserGone
from scraper_service.crawling.browser.headers import OwnHeaders
from scraper_service.crawling.browser.moves import Moves
from scraper_service.crawling.browser.order import PageOrder
from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.browser.running import RunningBrowser

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

ACTION_MS = 10_000  # for an element to be there, and to take a click
OPEN_S = 20.0  # for an empty page


# Playwright keeps notes on the objects whose methods it is given.
@define(eq=False, slots=False)
class OpenPage:
    """A page in a context of its own; use as an async context manager."""

    running: RunningBrowser
    order: PageOrder
    passage: Passage
    #: Done when the process of the page has ended.
    lost: asyncio.Future[None] = field(factory=asyncio.Future)
    page: Any = None
    moves: Any = None
    warnings: list[str] = field(factory=list)
    _context: Any = None
    _debugger: Any = None

    async def __aenter__(self) -> Self:
        order, browser = self.order, self.running.browser
        facts = context_options(order.options, browser.version, order.name)
        if order.state:
            facts["storage_state"] = order.state
        # Without the rule Chromium would go to addresses of this machine directly.
        facts["proxy"] = {"server": self.passage.address, "bypass": "<-loopback>"}
        self._context = await browser.new_context(**facts)
        try:
            # Playwright waits for ever for a page whose process dies at its birth.
            async with asyncio.timeout(OPEN_S):
                await self._prepare()
        except (PlaywrightError, TimeoutError) as error:
            # Nothing of the page was asked for yet.
            await self.running.close_context(self._context)
            raise BrowserGone("no page could be opened") from error
        except BaseException:
            await self.running.close_context(self._context)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.running.close_context(self._context)

    async def _prepare(self) -> None:
        options = self.order.options
        await self._context.add_init_script(scripts.WATCH)
        self.page = await self._context.new_page()
        self._context.on("page", self._close_popup)
        self.page.on("crash", self._crashed)
        headers = OwnHeaders(self.order.asked, options.headers)
        if headers.cookies:
            await self._context.add_cookies(headers.cookies)
        if options.location and len(options.location.languages) > 1:
            await self._speak(options.location.languages)
        self.moves = Moves(headers, self.order.judge, self.order.max_moves)
        await self.moves.attach(await self.debugger())
        if options.block_ads:
            session = await self.debugger()
            await session.send("Network.enable")
            await session.send("Network.setBlockedURLs", {"urls": list(PATHS)})

    async def _speak(self, tags: tuple[str, ...]) -> None:
        """Have the page see several languages; Playwright knows one."""
        session = await self.debugger()
        agent = await self.page.evaluate("navigator.userAgent")
        facts = {"userAgent": agent, "acceptLanguage": ",".join(tags)}
        await session.send("Network.setUserAgentOverride", facts)

    @property
    def patience_ms(self) -> float:
        """For how long an action may wait for its element."""
        left_ms = (self.order.ends_at - time.monotonic()) * 1000
        return max(1.0, min(ACTION_MS, left_ms / 2))

    async def debugger(self) -> CDPSession:
        """Return a session of the browser's own protocol for the page."""
        if self._debugger is None:
            self._debugger = await self._context.new_cdp_session(self.page)
        return self._debugger  # type: ignore[no-any-return]

    async def keep(self, data: bytes, kind: str) -> str:
        """Store a file and return its address."""
        return await self.order.keep(data, kind)

    def _crashed(self, _: object) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    async def _close_popup(self, page: Any) -> None:
        if page is not self.page:
            with contextlib.suppress(PlaywrightError):
                await page.close()

    @property
    def context(self) -> Any:
        """Playwright's context of the page."""
        return self._context
