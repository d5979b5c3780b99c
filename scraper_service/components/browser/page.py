"""One page in the browser: opened, loaded, acted upon, taken, closed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from attrs import define, field, frozen
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)

from scraper_service.components.browser import ads, scripts
from scraper_service.components.browser.actions import run_actions, screenshot
from scraper_service.components.browser.emulation import context_options, time_zone
from scraper_service.components.browser.errors import BrowserGone, NotAPage
from scraper_service.components.browser.headers import OwnHeaders
from scraper_service.components.browser.pool import RunningBrowser
from scraper_service.components.browser.proxy import MARK, Passage
from scraper_service.components.download_errors import CertificateError
from scraper_service.components.egress import EgressPolicy, ForbiddenDestination
from scraper_service.components.proxies import UpstreamProxy
from scraper_service.items import Rendered
from scraper_service.options.formats import Screenshot
from scraper_service.options.origins import host_of
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from playwright.async_api import CDPSession


logger = logging.getLogger(__name__)

ACTION_MS = 10_000  # for an element to be there, and to take a click
LOAD_S = 15.0  # for what a page loads after its text is there
QUIET_MS = 150  # without change: then the page is there
SETTLE_MS = 4000  # at most, for one that is never quiet
MAX_MOVES = 5  # pages that a script moves on to, one after the other
MAX_FRAMES = 20
MAX_FRAME_CHARS = 500_000
MAX_PAGE_BYTES = 200 * 2**20  # that one page may carry in all
CRASH_TOLD_S = 0.2
CLOSE_S = 5.0
# Headers of what was sent, not of what became of it.
NOT_OF_THE_PAGE = frozenset(
    {"content-encoding", "content-length", "location", "refresh", "set-cookie"}
)
HTML = frozenset({"text/html", "application/xhtml+xml"})


@frozen(kw_only=True)
class PageOrder:
    """What a page is to be opened with.

    ``ends_at`` is :func:`time.monotonic`; ``keep`` stores a file, given its bytes and
    kind (``png``, ``jpeg``, ``pdf``), and returns its address. ``state`` are the cookies
    and storage to begin with, as Playwright has them. ``name`` says whose browser it is.
    """

    url: str
    options: ScrapeOptions
    load_s: float
    ends_at: float
    name: str
    policy: EgressPolicy
    blocked: frozenset[str]
    keep: Callable[[bytes, str], Awaitable[str]]
    upstream: UpstreamProxy | None = None
    state: dict[str, Any] | None = None


@frozen(kw_only=True)
class RenderedPage:
    """What became of it. ``state`` is None unless it was asked for."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    latency_s: float
    rendered: Rendered
    state: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


async def render(running: RunningBrowser, order: PageOrder) -> RenderedPage:
    """Return a page as its scripts left it; nothing of it stays in the browser.

    Raises what the downloader of plain pages raises, and the errors of this package.
    """
    options = order.options
    own_host = host_of(order.url)

    def allows(host: str) -> bool:
        return options.site_rules is None or options.site_rules.allows(host)

    def blocks(host: str) -> bool:
        return (
            options.block_ads
            and host != own_host
            and ads.is_blocked(host, order.blocked)
        )

    passage = Passage(
        order.policy,
        allows=allows,
        blocks=blocks,
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
    is_lost: bool = False
    page: Any = None
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
            await self._prepare()
        except PlaywrightError as error:  # nothing of the page was asked for yet
            await self._close()
            raise BrowserGone("no page could be opened") from error
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _prepare(self) -> None:
        options = self.order.options
        await self._context.add_init_script(scripts.WATCH)
        self.page = await self._context.new_page()
        self._context.on("page", self._close_popup)
        self.page.on("crash", self._crashed)
        headers = OwnHeaders(self.order.url, options.headers)
        if headers.cookies:
            await self._context.add_cookies(headers.cookies)
        if options.location and len(options.location.languages) > 1:
            await self._speak(options.location.languages)
        if headers.others:
            await headers.attach(await self.debugger())
        if options.block_ads:
            session = await self.debugger()
            await session.send("Network.enable")
            await session.send("Network.setBlockedURLs", {"urls": list(ads.PATHS)})

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
        """Load the page, do what is wanted, and return what came of it."""
        try:
            return await self._take()
        except PlaywrightError as error:
            if self.is_lost:
                raise BrowserGone("the process of the page ended") from error
            if not self.running.is_alive:
                raise BrowserGone("the browser ended") from error
            raise DownloadFailedError(str(error).split("\n")[0]) from error

    async def _take(self) -> RenderedPage:
        options = self.order.options
        began = time.monotonic()
        answer = await self._goto()
        latency_s = time.monotonic() - began
        if answer is None:
            raise DownloadFailedError("the browser brought no page")
        headers = {k.lower(): v for k, v in (await answer.all_headers()).items()}
        if headers.get(MARK.lower()) == self.passage.mark:
            raise self._failure(answer.url)
        mime = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_page = not mime or mime in HTML
        await self._loaded()
        if options.block_ads and is_page and await self._without_banner():
            await self.settle()
        if options.wait_for_ms:
            await self.page.wait_for_timeout(options.wait_for_ms)
            await self.settle(anew=False)
        results = await run_actions(self, options.actions)
        found = await self.content()
        self._check_place(found["url"])
        status = answer.status
        if is_page:
            body = found["html"].encode("utf-8", "replace")
            if _page_of(found["url"]) != _page_of(answer.url):
                status = found["status"] or 200
            headers["content-type"] = "text/html; charset=utf-8"
        else:
            body = await answer.body()
        shot = await self._screenshot()
        state = await self._context.storage_state() if options.session else None
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

    async def _goto(self) -> Any:
        url = self.order.url
        time_ms = max(
            1.0, min(self.order.load_s, self.order.ends_at - time.monotonic())
        )
        try:
            return await self.page.goto(
                url, wait_until="domcontentloaded", timeout=time_ms * 1000
            )
        except PlaywrightTimeout as error:
            raise DownloadTimeoutError("the page did not load in time") from error
        except PlaywrightError as error:
            await asyncio.sleep(CRASH_TOLD_S)  # an end of the process is told after it
            if self.is_lost or not self.running.is_alive:
                raise
            text = str(error)
            if "Download is starting" in text or "ERR_ABORTED" in text:
                raise NotAPage("the address leads to a file") from error
            if "ERR_CERT" in text or "ERR_SSL" in text:
                raise CertificateError(text.split("\n", maxsplit=1)[0]) from error
            if failures := self.passage.failures:
                raise (
                    self.passage.failure(url) or next(iter(failures.values()))
                ) from error
            if "ERR_TOO_MANY_REDIRECTS" in text:
                raise DownloadFailedError("the page redirects too often") from error
            if "ERR_CONNECTION" in text or "ERR_TUNNEL" in text or "ERR_EMPTY" in text:
                raise DownloadConnectionRefusedError(
                    text.split("\n", maxsplit=1)[0]
                ) from error
            raise

    async def _loaded(self) -> None:
        left_s = min(LOAD_S, (self.order.ends_at - time.monotonic()) / 2)
        with contextlib.suppress(PlaywrightTimeout):
            await self.page.wait_for_load_state("load", timeout=max(1, left_s * 1000))
        await self.settle(anew=False)

    async def settle(self, *, anew: bool = True) -> None:
        """Wait until the page has been quiet for a moment, also where it moves on.

        With ``anew`` the moment begins now, as something was done to the page.
        """
        left_ms = (self.order.ends_at - time.monotonic()) * 1000 / 2
        most = max(0.0, min(SETTLE_MS, left_ms))
        for _ in range(MAX_MOVES):
            try:
                await self.page.evaluate(scripts.SETTLE, [QUIET_MS, most, anew])
                return
            except PlaywrightError as error:
                if not _has_moved(error):
                    raise
            with contextlib.suppress(PlaywrightTimeout):
                await self.page.wait_for_load_state("load", timeout=max(1.0, most))

    async def content(self) -> dict[str, Any]:
        """Return the page as it stands: ``html``, ``type``, ``status``, ``url``."""
        for _ in range(MAX_MOVES):
            try:
                await self._put_frames()
                found: dict[str, Any] = await self.page.evaluate(scripts.CONTENT)
                return found
            except PlaywrightError as error:
                if not _has_moved(error):
                    raise
                await self._loaded()
        raise DownloadFailedError("the page goes on moving to others")

    async def _put_frames(self) -> None:
        """Write the content of each frame on its element, to be taken with the page."""
        main = self.page.main_frame
        frames = [f for f in self.page.frames if f.parent_frame is main]
        for frame in frames[:MAX_FRAMES]:
            with contextlib.suppress(PlaywrightError):  # it may go at any time
                element = await frame.frame_element()
                if not await element.evaluate(scripts.IS_SEEN):
                    continue
                if not frame.url.startswith(("http:", "https:", "about:")):
                    continue
                html = await frame.evaluate(scripts.FRAME, MAX_FRAME_CHARS)
                if html and self.passage.failure(frame.url) is None:
                    await element.evaluate(scripts.PUT_FRAME, html)

    async def _without_banner(self) -> bool:
        try:
            return bool(await self.page.evaluate(scripts.CONSENT))
        except PlaywrightError as error:
            if not _has_moved(error):
                raise
            return True

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
        self.is_lost = True

    async def _close_popup(self, page: Any) -> None:
        if page is not self.page:
            with contextlib.suppress(PlaywrightError):
                await page.close()

    async def _close(self) -> None:
        closing = asyncio.ensure_future(self._context.close())
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(closing)
        except PlaywrightError:
            pass  # with the browser
        except TimeoutError:
            logger.warning("a page could not be closed; the browser is ended")
            closing.add_done_callback(lambda task: task.cancelled() or task.exception())
            with contextlib.suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self.running.browser.close()


def _has_moved(error: PlaywrightError) -> bool:
    """Tell whether a page was replaced by another while it was looked at."""
    text = str(error)
    return (
        "context was destroyed" in text
        or "navigating" in text
        or "Cannot find context" in text
    )


def _page_of(url: str) -> str:
    return url.partition("#")[0]
