"""Actions on a page before its content is read, and their results."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field
from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.loading import content, settle
from scraper_service.crawling.page_errors import ActionFailed
from scraper_service.options import actions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from playwright.async_api import CDPSession, Page

    from scraper_service.crawling.browser.open_page import OpenPage

MAX_VALUE = 2**20  # characters of JSON of a script's result
MAX_CLICKS = 1000  # of one action, each a few messages to the browser
MAX_HEIGHT = 16_384  # pixels of a screenshot, the limit of Chromium
SCROLL_MS = 1500
FONTS_MS = 2000  # for fonts of a screenshot, which would wait for them forever
REST_MS = 150  # between two scrolls to the end
SAME = 3  # looks at the same height until a page has no more


@define
class Results:
    """The results of a page's actions, in order. Files are URLs.

    All together have at most ``max_bytes`` in UTF-8.
    """

    max_bytes: int

    screenshots: list[str] = field(factory=list)
    scrapes: list[dict[str, str]] = field(factory=list)
    returns: list[dict[str, Any]] = field(factory=list)
    pdfs: list[str] = field(factory=list)
    _bytes: int = 0

    def take(self, text: str) -> None:
        """Count the text of a result. Raises :exc:`ValueError` if all are too large."""
        self._bytes += len(text.encode(errors="replace"))
        if self._bytes > self.max_bytes:
            raise ValueError(
                f"the results of all actions have more than {self.max_bytes:,} bytes"
            )

    def as_json(self) -> bytes:
        """Return the JSON of all four lists."""
        found = {
            "screenshots": self.screenshots,
            "scrapes": self.scrapes,
            "javascriptReturns": self.returns,
            "pdfs": self.pdfs,
        }
        return json.dumps(found, ensure_ascii=False).encode(errors="replace")


async def run_actions(opened: OpenPage, wanted: tuple[actions.Action, ...]) -> Results:
    """Run actions in order.

    Raises :exc:`ActionFailed` for the first action that fails.
    """
    results = Results(opened.order.max_bytes)
    for index, action in enumerate(wanted):
        opened.moves.begin_action()
        try:
            await _STEPS[type(action)](opened, action, results)
        except (PlaywrightError, ValueError) as error:
            if opened.lost.done():
                raise
            first, *others = action.type.split("_")
            name = first + "".join(word.capitalize() for word in others)
            text = f"Action {index} ({name}) failed: {message_of(error)}"
            raise ActionFailed(text) from error
    return results


def message_of(error: Exception) -> str:
    """Return the message of an error, without the log of Playwright."""
    first = str(error).split("\nCall log:")[0].strip().split("\n")[0]
    _, separator, rest = first.partition(": ")
    return (rest if separator and "." in _ else first)[:300]


@contextlib.contextmanager
def named_absence(text: str) -> Iterator[None]:
    """Raise :exc:`ValueError` with a text instead of a timeout of Playwright."""
    try:
        yield
    except PlaywrightError as error:
        if "Timeout" not in str(error):
            raise
        raise ValueError(text) from error


async def _wait(opened: OpenPage, action: actions.Wait, _: Results) -> None:
    if action.milliseconds is not None:
        await opened.page.wait_for_timeout(action.milliseconds)
        return
    with named_absence(_absent(action.selector)):
        await opened.page.wait_for_selector(
            _css(action.selector), state="visible", timeout=opened.patience_ms
        )


async def _click(opened: OpenPage, action: actions.Click, _: Results) -> None:
    page: Page = opened.page
    found = page.locator(_css(action.selector))
    with named_absence(_absent(action.selector)):
        await found.first.wait_for(state="attached", timeout=opened.patience_ms)
    if action.all:
        number = await found.count()
        if number > MAX_CLICKS:
            raise ValueError(
                f"{action.selector!r} matches {number:,} elements; one action clicks at"
                f" most {MAX_CLICKS:,}. Use a narrower selector"
            )
        # The current elements: a click may add or remove others.
        for element in await found.element_handles():
            await element.click(timeout=opened.patience_ms)
    else:
        await found.first.click(timeout=opened.patience_ms)
    await settle(opened)


async def _write(opened: OpenPage, action: actions.Write, _: Results) -> None:
    await opened.page.keyboard.type(action.text)


async def _press(opened: OpenPage, action: actions.Press, _: Results) -> None:
    await opened.page.keyboard.press(action.key)
    await settle(opened)


async def _scroll(opened: OpenPage, action: actions.Scroll, _: Results) -> None:
    sign = -1 if action.direction == "up" else 1
    if action.selector is None:
        await opened.page.evaluate(scripts.SCROLL, sign)
    else:
        element = await opened.page.query_selector(_css(action.selector))
        if element is None:
            raise ValueError(_absent(action.selector))
        await element.evaluate(scripts.SCROLL_ELEMENT, sign)
    await settle(opened)


async def _scroll_to_end(
    opened: OpenPage, action: actions.ScrollToEnd, _: Results
) -> None:
    """Scroll until the height stays the same for :data:`SAME` looks, or to a limit.

    Without a selector large elements that scroll follow the window. Lists that keep only
    their visible rows are scrolled again, and their rows are collected.
    """
    element = None
    if action.selector is not None:
        element = await opened.page.query_selector(_css(action.selector))
        if element is None:
            raise ValueError(_absent(action.selector))
    end = time.monotonic() + action.timeout_ms / 1000
    is_whole = True
    for number in range(await opened.page.evaluate(scripts.BEGIN_SCROLL, element)):
        is_whole &= await _scroll_one_to_end(opened, number, action.max_scrolls, end)
        left_ms = max(0.0, (end - time.monotonic()) * 1000)
        is_whole &= await opened.page.evaluate(scripts.COLLECT_ROWS, [number, left_ms])
    if not is_whole:
        limit = f"{action.max_scrolls} scrolls or {action.timeout_ms} ms"
        text = f"scrollToEnd ended at its limit ({limit}); the page may have more."
        opened.warnings[text] = text


async def _scroll_one_to_end(
    opened: OpenPage, number: int, max_scrolls: int, end: float
) -> bool:
    """Scroll one of the elements chosen at the start. Return False at a limit."""
    height, same = -1.0, 0
    for _ in range(max_scrolls):
        found = float(await opened.page.evaluate(scripts.SCROLL_TO_END, number))
        same = same + 1 if found == height else 0
        height = found
        if same == SAME:
            return True
        left_s = end - time.monotonic()
        if left_s <= 0:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                # Lists often wait a moment before they load more.
                await opened.page.wait_for_timeout(REST_MS)
                await settle(opened)
    return False


async def _screenshot(
    opened: OpenPage, action: actions.ScreenshotAction, results: Results
) -> None:
    page, before = opened.page, opened.page.viewport_size
    if action.viewport:
        await page.set_viewport_size(
            {"width": action.viewport.width, "height": action.viewport.height}
        )
    taken = await screenshot(opened, full_page=action.full_page, quality=action.quality)
    results.screenshots.append(
        await opened.order.keep(taken, "jpeg" if action.quality else "png")
    )
    if action.viewport and before:
        await page.set_viewport_size(before)


async def _scrape(opened: OpenPage, _: actions.ScrapeAction, results: Results) -> None:
    found = await content(opened)
    results.take(found["html"])
    results.scrapes.append({"url": found["url"], "html": found["html"]})


async def _pdf(opened: OpenPage, action: actions.Pdf, results: Results) -> None:
    made = await opened.page.pdf(
        format=action.format,
        landscape=action.landscape,
        scale=action.scale,
        print_background=True,
    )
    results.pdfs.append(await opened.order.keep(made, "pdf"))


async def _javascript(
    opened: OpenPage, action: actions.ExecuteJavascript, results: Results
) -> None:
    value = await evaluate(opened, action.script)
    results.take(json.dumps(value.get("value"), ensure_ascii=False))
    results.returns.append({"type": value["type"], "value": value.get("value")})


async def evaluate(opened: OpenPage, script: str) -> dict[str, Any]:
    """Return the value of a script: ``type``, and ``value`` if JSON has it.

    A script may be the body of a function. Raises :exc:`ValueError` with what it throws, or
    for more than :data:`MAX_VALUE` characters.
    """
    session = await opened.debugger()
    found = await _evaluate(session, script)
    if _is_body(found):
        found = await _evaluate(session, f"(async () => {{ {script}\n }})()")
    if problem := found.get("exceptionDetails"):
        thrown = problem.get("exception", {})
        raise ValueError(thrown.get("description") or problem["text"])
    value: dict[str, Any] = found["result"]
    if len(json.dumps(value.get("value"))) > MAX_VALUE:
        raise ValueError(f"the script returns more than {MAX_VALUE} characters")
    await settle(opened)
    return value


def _is_body(found: dict[str, Any]) -> bool:
    """Return True if a script is the body of a function, with ``return`` or ``await``."""
    thrown = str(found.get("exceptionDetails", {}).get("exception", {}))
    signs = ("Illegal return", "await is only valid", "already been declared")
    return "SyntaxError" in thrown and any(sign in thrown for sign in signs)


async def _evaluate(session: CDPSession, script: str) -> dict[str, Any]:
    result: dict[str, Any] = await session.send(
        "Runtime.evaluate",
        {
            "expression": script,
            "awaitPromise": True,
            "returnByValue": True,
            "userGesture": True,
            "allowUnsafeEvalBlockedByCSP": True,
        },
    )
    return result


async def screenshot(
    opened: OpenPage, *, full_page: bool, quality: int | None
) -> bytes:
    """Return a screenshot in CSS pixels: a JPEG with ``quality``, else a PNG.

    Fonts that do not load in time are replaced by others.
    """
    page: Page = opened.page
    facts: dict[str, Any] = {"type": "png", "scale": "css", "animations": "disabled"}
    if quality is not None:
        facts |= {"type": "jpeg", "quality": quality}
    if full_page:
        await page.evaluate(scripts.SCROLL_THROUGH, SCROLL_MS)
        height = await page.evaluate(scripts.HEIGHT)
        size = page.viewport_size
        if size and height > MAX_HEIGHT:
            facts["clip"] = {"x": 0, "y": 0, **size, "height": MAX_HEIGHT}
        facts["full_page"] = True
    if not await page.evaluate(scripts.FONTS, FONTS_MS):
        opened.passage.hang_up()
    return await page.screenshot(**facts)


def _css(selector: str | None) -> str:
    return f"css={selector}"


def _absent(selector: str | None) -> str:
    return f"no element matches {selector!r}"


_STEPS: Mapping[type, Callable[[Any, Any, Results], Awaitable[None]]] = {
    actions.Wait: _wait,
    actions.Click: _click,
    actions.ScreenshotAction: _screenshot,
    actions.Write: _write,
    actions.Press: _press,
    actions.Scroll: _scroll,
    actions.ScrollToEnd: _scroll_to_end,
    actions.ScrapeAction: _scrape,
    actions.ExecuteJavascript: _javascript,
    actions.Pdf: _pdf,
}
