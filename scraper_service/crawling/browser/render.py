"""Renders one page in the browser: loads it, runs its actions, reads its content."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as PlaywrightError
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError

from scraper_service.content.stored_pages import append_browser_styles
from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.actions import run_actions, screenshot
from scraper_service.crawling.browser.devtools import is_too_large
from scraper_service.crawling.browser.loading import (
    content,
    goto,
    has_moved,
    settle,
    wait_for_load,
)
from scraper_service.crawling.browser.open_page import (
    OpenPage,
    PageOrder,
    RenderedPage,
    time_zone,
)
from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.egress import ForbiddenDestination
from scraper_service.crawling.page_errors import (
    BrowserGone,
    MovedOn,
    NotAPage,
    PageTooLarge,
)
from scraper_service.items import Rendered
from scraper_service.options.formats import Branding, Screenshot
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from scraper_service.crawling.browser.running_browser import RunningBrowser

LOST = "the process of the page ended"
MAX_LOOKS = 2**20  # characters
MAX_PAGE_BYTES = 200 * 2**20  # of traffic of one page
# Headers of the transfer, which do not describe the rendered page.
NOT_OF_THE_PAGE = frozenset(
    {"content-encoding", "content-length", "location", "refresh", "set-cookie"}
)
HTML = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"


async def render(running: RunningBrowser, order: PageOrder) -> RenderedPage:
    """Return a page after its scripts have run. Removes it from the browser.

    Raises errors of downloads over HTTP and in the browser.
    """
    passage = Passage(
        order.policy,
        refusal=order.refusal,
        max_bytes=MAX_PAGE_BYTES,
        upstream=order.upstream,
        **running.passages,
    )
    async with passage:
        try:
            async with (
                asyncio.timeout(order.ends_at - time.monotonic()),
                OpenPage(running, order, passage) as opened,
            ):
                return await _render_page(opened)
        except TimeoutError:
            raise DownloadTimeoutError("the page was not ready in time") from None


async def _render_page(opened: OpenPage) -> RenderedPage:
    """Load the page, run its actions, and return the result.

    Ends at once if the page navigates to a refused URL.
    """
    work = asyncio.ensure_future(_take(opened))
    refused: asyncio.Future[Exception] = opened.moves.refused
    ends = (work, refused, opened.lost)
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if refused.done():
            raise refused.result()
        if opened.lost.done():
            raise BrowserGone(LOST)
        return await work
    except MovedOn as moved:
        moved.state = {
            "cookies": await opened.context.cookies(),
            "origins": (opened.order.state or {}).get("origins", []),
        }
        raise
    except PlaywrightError as error:
        raise browser_error(opened, error) from error
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def browser_error(opened: OpenPage, error: PlaywrightError) -> Exception:
    """Return the error of a page whose browser failed."""
    if opened.lost.done():
        return BrowserGone(LOST)
    if not opened.running.is_alive:
        return BrowserGone("the browser ended")
    if is_too_large(error):
        return PageTooLarge(opened.order.max_bytes)
    return DownloadFailedError(str(error).split("\n")[0])


async def _take(opened: OpenPage) -> RenderedPage:
    options = opened.order.options
    began = time.monotonic()
    answer = await goto(opened)
    latency_s = time.monotonic() - began
    headers, is_page = await wait_for_page(opened, answer)
    if options.wait_for_ms:
        await opened.page.wait_for_timeout(options.wait_for_ms)
        await settle(opened, anew=False, for_text=not options.actions)
    results = await run_actions(opened, options.actions)
    found = await content(opened)
    check_url(opened, found["url"])
    if found["type"] == PDF:
        raise MovedOn(found["url"])
    status = answer.status
    # Of a page that could not be parsed, the document as received has all text.
    if is_page and (opened.has_text or found["is_parsed"]):
        body = await page_html(opened, found["html"])
        if _page_of(found["url"]) != _page_of(answer.url):
            status = found["status"] or 200
        headers["content-type"] = "text/html; charset=utf-8"
    elif found["size"] > opened.order.max_bytes:
        raise PageTooLarge(opened.order.max_bytes)
    else:
        body = await answer.body()
    shot = await page_screenshot(opened)
    state = await opened.context.storage_state() if options.saves_storage else None
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
        warnings=tuple(opened.warnings.values()),
    )


async def wait_for_page(opened: OpenPage, answer: Any) -> tuple[dict[str, str], bool]:
    """Wait until the page of a response of Playwright is loaded.

    Return its headers with names in lower case, and True if it is HTML. Raises
    :exc:`NotAPage`.
    """
    headers = {k.lower(): v for k, v in (await answer.all_headers()).items()}
    mime = headers.get("content-type", "").partition(";")[0].strip().lower()
    if mime == PDF:  # shown by a viewer of the browser, without content
        raise NotAPage("the URL leads to a file")
    is_page = not mime or mime in HTML
    await wait_for_load(opened)
    if opened.order.options.block_ads and is_page and await _without_banner(opened):
        await settle(opened)
    return headers, is_page


async def page_html(opened: OpenPage, html: str) -> bytes:
    """Return the HTML of a page for its conversion. Raises :exc:`PageTooLarge`."""
    body = html.encode("utf-8", "replace")
    if len(body) > opened.order.max_bytes:
        raise PageTooLarge(opened.order.max_bytes)
    if opened.order.options.format(Branding):
        body = append_browser_styles(body, await _looks(opened))
    return body


async def _without_banner(opened: OpenPage) -> bool:
    try:
        return bool(await opened.page.evaluate(scripts.CONSENT))
    except PlaywrightError as error:
        if not has_moved(error):
            raise
        return True


async def _looks(opened: OpenPage) -> str:
    """Return CSS with the computed styles of brand elements."""
    try:
        return str(await opened.page.evaluate(scripts.LOOKS, MAX_LOOKS))
    except PlaywrightError as error:
        if not has_moved(error):
            raise
        return ""


async def page_screenshot(opened: OpenPage) -> str | None:
    """Return the URL of the screenshot among the formats, None without one."""
    wanted = opened.order.options.format(Screenshot)
    if wanted is None:
        return None
    taken = await screenshot(opened, full_page=wanted.full_page, quality=wanted.quality)
    return await opened.order.keep(taken, "png" if wanted.quality is None else "jpeg")


def check_url(opened: OpenPage, url: str) -> None:
    """Raise the failure of a page that a script navigated to."""
    if url_parts(url).scheme not in {"http", "https"}:
        raise failure_of(opened, opened.page.url)


def failure_of(opened: OpenPage, url: str) -> Exception:
    """Return why the page cannot be at ``url``, which the passage did not reach."""
    known = opened.passage.failure(url) or next(
        (
            e
            for e in opened.passage.failures.values()
            if isinstance(e, ForbiddenDestination)
        ),
        next(iter(opened.passage.failures.values()), None),
    )
    return known or DownloadFailedError("the page moved on to what is no page")


def _page_of(url: str) -> str:
    return url.partition("#")[0]
