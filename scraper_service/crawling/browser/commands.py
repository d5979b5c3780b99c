"""Runs the commands of :mod:`scraper_service.crawling.browser.command_lines` in a page."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from attrs import define, field
from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.browser.actions import evaluate, message_of, screenshot
from scraper_service.crawling.browser.command_lines import snapshot
from scraper_service.crawling.browser.held_page import HeldPage
from scraper_service.crawling.browser.loading import settle
from scraper_service.crawling.browser.render import check_url
from scraper_service.crawling.page_errors import ActionFailed
from scraper_service.options.urls import caller_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from scraper_service.crawling.browser.command_lines import PageCommand

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
                text = await _COMMANDS[command.name](self, *command.words)
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
        try:
            await element.wait_for(state="visible", timeout=self._patience_ms)
        except PlaywrightError as error:
            if "Timeout" not in str(error):
                raise
            raise ValueError(f"no element has the text {text!r}") from error
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
        try:
            await element.wait_for(state="visible", timeout=self._patience_ms)
        except PlaywrightError as error:
            if "Timeout" not in str(error):
                raise
            raise ValueError(f"no element matches {target!r}") from error
        return element


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) <= most):
        raise ValueError(f"must be a number from 0 to {most}, got {text!r}")
    return int(text)


_COMMANDS: Mapping[str, Callable[..., Awaitable[str | None]]] = {
    "open": CommandRun._open,
    "snapshot": CommandRun._snapshot,
    "click": CommandRun._click,
    "fill": CommandRun._fill,
    "type": CommandRun._type,
    "press": CommandRun._press,
    "scroll": CommandRun._scroll,
    "get": CommandRun._get,
    "wait": CommandRun._wait,
    "find": CommandRun._find,
    "screenshot": CommandRun._screenshot,
    "eval": CommandRun._eval,
    "back": CommandRun._back,
    "close": CommandRun._close,
}
