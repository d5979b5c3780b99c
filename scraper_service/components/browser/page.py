"""One page in the browser: opened, loaded, acted upon, taken, closed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from attrs import define, field
from playwright.async_api import Error as PlaywrightError
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError

from scraper_service.components.browser import scripts
from scraper_service.components.browser.actions import run_actions, screenshot
from scraper_service.components.browser.ads import PATHS
from scraper_service.components.browser.emulation import context_options, time_zone
from scraper_service.components.browser.errors import (
    BrowserGone,
    MovedOn,
    NotAPage,
    PageTooLarge,
)
from scraper_service.components.browser.frames import put_frames
from scraper_service.components.browser.guard import is_too_large
from scraper_service.components.browser.headers import OwnHeaders
from scraper_service.components.browser.loading import (
    MAX_MOVES,
    goto,
    has_moved,
    loaded,
    settle,
)
from scraper_service.components.browser.moves import Moves
from scraper_service.components.browser.order import PageOrder, RenderedPage
from scraper_service.components.browser.proxy import MARK, Passage
from scraper_service.components.browser.running import RunningBrowser
from scraper_service.components.egress import ForbiddenDestination
from scraper_service.formats.looks import with_looks
from scraper_service.items import Rendered
from scraper_service.options.formats import Branding, Screenshot

if TYPE_CHECKING:
    from playwright.async_api import CDPSession


ACTION_MS = 10_000  # for an element to be there, and to take a click
OPEN_S = 30.0  # for an empty page
LOST = "the process of the page ended"
MAX_LOOKS = 2**20  # characters
MAX_PAGE_BYTES = 200 * 2**20  # that one page may carry in all
# Headers of what was sent, not of what became of it.
NOT_OF_THE_PAGE = frozenset(
    {"content-encoding", "content-length", "location", "refresh", "set-cookie"}
)
HTML = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"


async def render(running: RunningBrowser, order: PageOrder) -> RenderedPage:
    """Return a page as its scripts left it; nothing of it stays in the browser.

    Raises what the downloader of plain pages raises, and the errors of this package.
    """
    passage = Passage(
        order.policy,
        refusal=order.refusal,
        max_bytes=MAX_PAGE_BYTES,
        upstream=order.upstream,
    )
    async with passage:
        try:
            async with (
                asyncio.timeout(order.ends_at - time.monotonic()),
                OpenPage(running, order, passage) as opened,
            ):
                return await opened.take()
        except TimeoutError:
            raise DownloadTimeoutError("the page was not ready in time") from None


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

    async def take(self) -> RenderedPage:
        """Load the page, do what is wanted, and return what came of it.

        Ends at once where the page moves to what it may not.
        """
        work = asyncio.ensure_future(self._take())
        refused: asyncio.Future[Exception] = self.moves.refused
        ends = (work, refused, self.lost)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                raise refused.result()
            if self.lost.done():
                raise BrowserGone(LOST)
            return await work
        except MovedOn as moved:
            moved.state = {
                "cookies": await self._context.cookies(),
                "origins": (self.order.state or {}).get("origins", []),
            }
            raise
        except PlaywrightError as error:
            if self.lost.done():
                raise BrowserGone(LOST) from error
            if not self.running.is_alive:
                raise BrowserGone("the browser ended") from error
            if is_too_large(error):
                raise PageTooLarge(self.order.max_bytes) from error
            raise DownloadFailedError(str(error).split("\n")[0]) from error
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _take(self) -> RenderedPage:
        options = self.order.options
        began = time.monotonic()
        answer = await goto(self)
        latency_s = time.monotonic() - began
        headers = {k.lower(): v for k, v in (await answer.all_headers()).items()}
        if headers.get(MARK.lower()) == self.passage.mark:
            raise self._failure(answer.url)
        mime = headers.get("content-type", "").partition(";")[0].strip().lower()
        if mime == PDF:  # of which the browser shows what is no content
            raise NotAPage("the address leads to a file")
        is_page = not mime or mime in HTML
        await loaded(self)
        if options.block_ads and is_page and await self._without_banner():
            await settle(self)
        if options.wait_for_ms:
            await self.page.wait_for_timeout(options.wait_for_ms)
            await settle(self, anew=False)
        results = await run_actions(self, options.actions)
        found = await self.content()
        self._check_place(found["url"])
        if found["type"] == PDF:
            raise MovedOn(found["url"])
        status = answer.status
        if is_page:
            body = found["html"].encode("utf-8", "replace")
            if len(body) > self.order.max_bytes:
                raise PageTooLarge(self.order.max_bytes)
            if options.format(Branding):
                body = with_looks(body, await self._looks())
            if _page_of(found["url"]) != _page_of(answer.url):
                status = found["status"] or 200
            headers["content-type"] = "text/html; charset=utf-8"
        elif found["size"] > self.order.max_bytes:
            raise PageTooLarge(self.order.max_bytes)
        else:
            body = await answer.body()
        shot = await self._screenshot()
        state = await self._context.storage_state() if options.saves_storage else None
        return RenderedPage(
            url=found["url"],
            status=status,
            headers={
                name: value
                for name, value in headers.items()
                if name not in NOT_OF_THE_PAGE
            },
            body=body,
            latency_s=latency_s,
            rendered=Rendered(
                screenshot=shot,
                actions=results.as_json() if options.actions else None,
                time_zone=time_zone(options.location),
            ),
            state=state,
            warnings=tuple(self.warnings),
        )

    async def content(self) -> dict[str, Any]:
        """Return the page as it stands: ``html``, ``type``, ``status``, ``size``, ``url``.

        ``size`` is that of the file it came from, in bytes. Raises :exc:`PageTooLarge`.
        """
        most = self.order.max_bytes  # characters; each takes a byte or more
        for _ in range(MAX_MOVES):
            try:
                remarks = await put_frames(self.page, self.passage)
                found: dict[str, Any] = await self.page.evaluate(scripts.CONTENT, most)
                self.warnings += [r for r in remarks if r not in self.warnings]
            except PlaywrightError as error:
                if not has_moved(error):
                    raise
                await loaded(self)
                continue
            if found["html"] is None:
                raise PageTooLarge(most)
            return found
        raise DownloadFailedError("the page goes on moving to others")

    async def _without_banner(self) -> bool:
        try:
            return bool(await self.page.evaluate(scripts.CONSENT))
        except PlaywrightError as error:
            if not has_moved(error):
                raise
            return True

    async def _looks(self) -> str:
        """Return CSS with the computed styles that tell of a brand."""
        try:
            return str(await self.page.evaluate(scripts.LOOKS, MAX_LOOKS))
        except PlaywrightError as error:
            if not has_moved(error):
                raise
            return ""

    async def _screenshot(self) -> str | None:
        wanted = self.order.options.format(Screenshot)
        if wanted is None:
            return None
        taken = await screenshot(
            self.page, full_page=wanted.full_page, quality=wanted.quality
        )
        return await self.order.keep(taken, "png" if wanted.quality is None else "jpeg")

    async def keep(self, data: bytes, kind: str) -> str:
        """Store a file and return its address."""
        return await self.order.keep(data, kind)

    def _check_place(self, url: str) -> None:
        """Raise what happened where a script moved on to what cannot be shown."""
        if urlsplit(url).scheme not in {"http", "https"}:
            raise self._failure(self.page.url)

    def _failure(self, url: str) -> Exception:
        known = self.passage.failure(url) or next(
            (
                e
                for e in self.passage.failures.values()
                if isinstance(e, ForbiddenDestination)
            ),
            next(iter(self.passage.failures.values()), None),
        )
        return known or DownloadFailedError("the page moved on to what is no page")

    def _crashed(self, _: object) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    async def _close_popup(self, page: Any) -> None:
        if page is not self.page:
            with contextlib.suppress(PlaywrightError):
                await page.close()


def _page_of(url: str) -> str:
    return url.partition("#")[0]
