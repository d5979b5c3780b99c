"""A page that stays open between the steps of its caller, in a browser of its own.

Each page has a browser of its own, which pages of other callers cannot reach or end. The end of
the session ends all its processes. :class:`CommandRun` runs the commands of
:mod:`scraper_service.crawling.browser.command_lines` in it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, evolve, field
from playwright.async_api import Error as PlaywrightError
from scrapy.exceptions import DownloadFailedError

from scraper_service.crawling.browser.actions import (
    evaluate,
    message_of,
    named_absence,
    run_actions,
    screenshot,
)
from scraper_service.crawling.browser.command_lines import snapshot
from scraper_service.crawling.browser.loading import content, goto, settle
from scraper_service.crawling.browser.open_page import OpenPage, time_zone
from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.browser.render import (
    PDF,
    browser_error,
    check_url,
    page_html,
    page_screenshot,
    wait_for_page,
)
from scraper_service.crawling.browser.running_browser import RunningBrowser, start
from scraper_service.crawling.page_errors import (
    ActionFailed,
    BrowserGone,
    NotAPage,
    SessionOver,
)
from scraper_service.items import Rendered, TakenPage
from scraper_service.options.urls import caller_url

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.browser.actions import Results
    from scraper_service.crawling.browser.command_lines import PageCommand
    from scraper_service.crawling.browser.open_page import PageOrder
    from scraper_service.options.actions import Action
    from scraper_service.options.scrape import ScrapeOptions

T = TypeVar("T")

MAX_TRAFFIC = 2**30  # bytes of one session
BLANK = "about:blank"
CLOSED = "the page of the session was closed by code or by cdpUrl: open another session"
QUALITY = 50  # of pictures for a view
STOP_S = 1.0  # to stop what a page does after the time of a step


class NoPage(DownloadFailedError):
    """Raised for a step that needs a page while none is open."""

    def __init__(self, text: str = "no page is open: open a URL first") -> None:
        super().__init__(text)


@define(eq=False)
class HeldPage:
    """A page with its browser. Call :meth:`open` first and :meth:`close` once.

    Steps run one at a time, each in :meth:`run`. The egress rule holds because the
    browser reaches the network only through the passage of the page.
    """

    running: RunningBrowser
    opened: OpenPage
    passage: Passage
    _stack: contextlib.AsyncExitStack = field(factory=contextlib.AsyncExitStack)

    @classmethod
    async def open(
        cls, settings: BaseSettings, order: PageOrder, *, has_port: bool = False
    ) -> HeldPage:
        """Start a browser with an empty page. Raises any error.

        With ``has_port`` callers can connect to the browser themselves.
        """
        async with contextlib.AsyncExitStack() as stack:
            running = await start(settings, has_port=has_port)
            stack.push_async_callback(running.end)
            passage = await stack.enter_async_context(
                Passage(
                    order.policy,
                    refusal=order.refusal,
                    max_bytes=MAX_TRAFFIC,
                    upstream=order.upstream,
                )
            )
            opened = await stack.enter_async_context(OpenPage(running, order, passage))
            return cls(running, opened, passage, stack.pop_all())

    async def close(self) -> None:
        """End the browser with all its processes and files."""
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The URL of the page; empty while none is open."""
        url = str(self.opened.page.url)
        return "" if url == BLANK else url

    @property
    def is_alive(self) -> bool:
        """Return True unless browser or page are known to have ended."""
        return self.running.is_alive and not self.opened.lost.done()

    async def run(
        self,
        work: Coroutine[Any, Any, T],
        seconds: float,
        *,
        ending: asyncio.Event | None = None,
        sees_refusals: bool = False,
    ) -> T:
        """Return the result of a step within ``seconds``, unless its session is ``ending``.

        Raises :exc:`TimeoutError`, :exc:`BrowserGone`, :exc:`SessionOver`, errors of the step,
        and the refusal of a navigation, unless the work itself sees that as a failed request.
        """
        opened, moves = self.opened, self.opened.moves
        opened.order.ends_at = time.monotonic() + seconds
        opened.warnings.clear()
        self.passage.failures.clear()
        moves.begin_step()
        task = asyncio.ensure_future(work)
        refused = () if sees_refusals else (moves.refused,)
        over = None if ending is None else asyncio.ensure_future(ending.wait())
        others = () if over is None else (over,)
        ends = (task, *refused, *others, opened.lost, self.running.ended)
        try:
            await asyncio.wait(
                ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not self.is_alive:
                raise BrowserGone("the browser ended")
            for refusal in refused:
                if refusal.done():
                    raise refusal.result()
            if not task.done() and over is not None and over.done():
                raise SessionOver
            if not task.done():
                await self._stop()
                raise TimeoutError
            return await task
        except PlaywrightError as error:
            found = browser_error(opened, error)
            if type(found) is DownloadFailedError and opened.page.is_closed():
                found = NoPage(CLOSED)
            raise found from error
        finally:
            for each in (task, *others):
                each.cancel()
            await asyncio.gather(task, *others, return_exceptions=True)
            if self.is_alive and not self._is_page:
                await self._leave()

    @property
    def _is_page(self) -> bool:
        """Return False for the browser's own page about an error."""
        return not str(self.opened.page.url).startswith("chrome")

    async def _leave(self) -> None:
        """Show a blank page, so that the next step does not take an error for a page."""
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self.opened.page.goto(BLANK)

    async def _stop(self) -> None:
        """Stop scripts and loading, so that the next step finds a page that responds."""
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                session = await self.opened.debugger()
                await session.send("Runtime.terminateExecution")
                await session.send("Page.stopLoading")

    # -- steps ---------------------------------------------------------------------------

    async def go(self, url: str, load_s: float) -> None:
        """Open an http(s) URL. Raises errors of downloads."""
        opened = self.opened
        opened.order.url, opened.order.load_s = url, load_s
        await wait_for_page(opened, await goto(opened))

    async def replay(self, url: str, options: ScrapeOptions, load_s: float) -> None:
        """Open a page as a scrape did: with its wait and its actions."""
        await self.go(url, load_s)
        if options.wait_for_ms:
            await self.opened.page.wait_for_timeout(options.wait_for_ms)
            await settle(self.opened, anew=False)
        await self.act(options.actions)

    async def act(self, actions: tuple[Action, ...]) -> Results:
        """Run actions. Raises :exc:`ActionFailed`, and :exc:`NoPage`."""
        if actions and not self.url:
            raise NoPage
        results = await run_actions(self.opened, actions)
        if actions:
            check_url(self.opened, self.opened.page.url)
        return results

    async def take(self, options: ScrapeOptions, results: Results | None) -> TakenPage:
        """Return the page for the formats of ``options``. Raises :exc:`NoPage`."""
        opened = self.opened
        if not self.url:
            raise NoPage
        formats: dict[str, Any] = {"formats": options.formats}
        opened.order.options = evolve(opened.order.options, **formats)
        found = await content(opened)
        check_url(opened, found["url"])
        if found["type"] == PDF:
            raise NotAPage("the page is a PDF file")
        return TakenPage(
            url=found["url"],
            status=found["status"] or 200,
            body=await page_html(opened, found["html"]),
            rendered=Rendered(
                screenshot=await page_screenshot(opened),
                actions=None if results is None else results.as_json(),
                time_zone=time_zone(opened.order.options.location),
            ),
            warnings=tuple(opened.warnings.values()),
        )

    async def picture(self, seconds: float) -> bytes:
        """Return the visible part of the page as a JPEG; empty if it takes longer."""
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(seconds):
                session = await self.opened.debugger()
                facts = {"format": "jpeg", "quality": QUALITY, "optimizeForSpeed": True}
                found = await session.send("Page.captureScreenshot", facts)
                return base64.b64decode(found["data"])
        return b""

    async def target(self) -> dict[str, Any]:
        """Return the page as the DevTools protocol knows it.

        ``targetId`` is its id, ``browserContextId`` that of its context.
        """
        session = await self.opened.debugger()
        found: dict[str, Any] = await session.send("Target.getTargetInfo")
        target: dict[str, Any] = found["targetInfo"]
        return target

    async def count_pages(self, context_id: str) -> int:
        """Return the number of pages of a context in the DevTools protocol."""
        found = await self.running.session.send("Target.getTargets")
        return sum(
            target["type"] == "page" and target.get("browserContextId") == context_id
            for target in found["targetInfos"]
        )

    async def storage(self) -> dict[str, Any]:
        """Return the cookies and the local storage, as Playwright's storage state."""
        state: dict[str, Any] = await self.opened.context.storage_state()
        return state


LOAD_S = 60.0
WAIT_MS = 60_000  # the longest fixed wait
SCROLL_PIXELS = 300
MAX_PIXELS = 100_000
MAX_TEXT = 2**20  # characters of one command
STATES = ("load", "domcontentloaded", "networkidle")
_REFERENCE = re.compile(r"@([a-z]*\d*e\d+)")


@define
class CommandRun:
    """The commands of one step and what they print."""

    page: HeldPage
    #: The output of each command that was done.
    printed: list[str] = field(factory=list)
    #: True if the session shall end.
    closes: bool = False

    async def run(self, commands: Sequence[PageCommand]) -> None:
        """Run commands in order. Raises :exc:`ActionFailed` for the first that fails."""
        for command in commands:
            self.page.opened.moves.begin_action()
            try:
                # The methods have the names of ``command_lines.COMMANDS``.
                do = getattr(self, f"_{command.name}")
                text = await do(*command.words)
            except (PlaywrightError, ValueError) as error:
                if self.page.opened.lost.done():
                    raise
                raise ActionFailed(f"{command}: {message_of(error)}") from error
            self.printed.append((text or "")[:MAX_TEXT])
            if self.page.url and command.name != "close":
                check_url(self.page.opened, self.page.url)

    async def _open(self, text: str) -> None:
        await self.page.go(caller_url(text), LOAD_S)

    async def _snapshot(self, option: str = "") -> str:
        if option not in {"", "-i"}:
            raise ValueError(f"the only option is -i, got {option!r}")
        opened = self.page.opened
        return await snapshot(
            opened.page, only_interactive=bool(option), timeout_ms=opened.patience_ms
        )

    async def _click(self, target: str) -> None:
        await (await self._element(target)).click(timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _fill(self, target: str, text: str) -> None:
        await (await self._element(target)).fill(text, timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _type(self, target: str, text: str) -> None:
        element = await self._element(target)
        await element.press_sequentially(text, timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _press(self, key: str) -> None:
        await self.page.opened.page.keyboard.press(key)
        await settle(self.page.opened)

    async def _scroll(self, direction: str, pixels: str = "") -> None:
        if direction not in {"up", "down"}:
            raise ValueError(f"the direction must be up or down, got {direction!r}")
        far = _number(pixels, MAX_PIXELS) if pixels else SCROLL_PIXELS
        script = "(y) => window.scrollBy({ top: y, behavior: 'instant' })"
        far = -far if direction == "up" else far
        await self.page.opened.page.evaluate(script, far)
        await settle(self.page.opened)

    async def _get(self, what: str, target: str = "") -> str:
        page = self.page.opened.page
        if what == "url":
            return self.page.url
        if what == "title":
            # title() of Playwright says "Loading" and the URL while a navigation waits.
            return str(await page.evaluate("document.title"))
        if what not in {"text", "html"}:
            raise ValueError(f"get takes text, html, url or title, got {what!r}")
        element = await self._element(target)
        ms = self._patience_ms
        if what == "text":
            return str(await element.inner_text(timeout=ms))
        return str(await element.inner_html(timeout=ms))

    async def _wait(self, what: str, state: str = "") -> None:
        page = self.page.opened.page
        if what == "--load":
            if (state or "load") not in STATES:
                raise ValueError(f"--load takes {', '.join(STATES)}, got {state!r}")
            await page.wait_for_load_state(state or "load", timeout=self._patience_ms)
        elif state:
            raise ValueError(f"only --load takes a further word, got {state!r}")
        elif what.isdigit():
            await page.wait_for_timeout(_number(what, WAIT_MS))
        else:
            await self._element(what)

    async def _find(self, by: str, text: str, act: str) -> None:
        if by != "text" or act != "click":
            raise ValueError("find takes text, the text, and click")
        element = self.page.opened.page.get_by_text(text).first
        with named_absence(f"no element has the text {text!r}"):
            await element.wait_for(state="visible", timeout=self._patience_ms)
        await element.click(timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _screenshot(self) -> str:
        taken = await screenshot(self.page.opened, full_page=False, quality=None)
        return await self.page.opened.order.keep(taken, "png")

    async def _eval(self, script: str) -> str:
        value = (await evaluate(self.page.opened, script)).get("value")
        if value is None or isinstance(value, str):
            return value or ""
        return json.dumps(value, ensure_ascii=False)

    async def _back(self) -> None:
        await self.page.opened.page.go_back(timeout=self._patience_ms)
        await settle(self.page.opened, anew=False)

    async def _close(self) -> None:
        self.closes = True

    @property
    def _patience_ms(self) -> float:
        return self.page.opened.patience_ms

    async def _element(self, target: str) -> Any:
        """Return the first element of a reference or CSS selector, once it is visible."""
        page = self.page.opened.page
        if target.startswith("@"):
            found = _REFERENCE.fullmatch(target)
            if found is None:
                raise ValueError(f"{target!r} is no id of a snapshot, such as @e1")
            element = page.locator(f"aria-ref={found[1]}")
            if not await element.count():
                raise ValueError(
                    f"the last snapshot has no element {target}, or it is gone: take"
                    " another one"
                )
            return element
        element = page.locator(f"css={target}").first
        with named_absence(f"no element matches {target!r}"):
            await element.wait_for(state="visible", timeout=self._patience_ms)
        return element


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) <= most):
        raise ValueError(f"must be a number from 0 to {most}, got {text!r}")
    return int(text)
