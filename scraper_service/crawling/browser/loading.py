"""Loading a page, and waiting until it stands still."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)

from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.errors import NotAPage, PageTooLarge
from scraper_service.crawling.browser.frames import put_frames
from scraper_service.crawling.download.download_errors import (
    CertificateError,
    NoCommonTls,
    TooManyRedirects,
)

if TYPE_CHECKING:
    from scraper_service.crawling.browser.open_page import OpenPage

LOAD_S = 15.0  # for what a page loads after its text is there
QUIET_MS = 150  # without change: then the page is there
MOMENT_MS = 30  # the same, for a page that has no means to change later
SETTLE_MS = 4000  # at most, for one that is never quiet
MAX_MOVES = 5  # pages that a script moves on to, while one is looked at
CRASH_TOLD_S = 0.2

# What Chromium says, and what the downloader of plain pages raises for it.
_TLS_FAILURES = (("ERR_CERT", CertificateError), ("ERR_SSL", NoCommonTls))
_FAILURES: tuple[tuple[tuple[str, ...], type[Exception]], ...] = (
    (("ERR_TOO_MANY_REDIRECTS",), TooManyRedirects),
    (("ERR_CONNECTION", "ERR_TUNNEL", "ERR_EMPTY"), DownloadConnectionRefusedError),
)


async def goto(opened: OpenPage) -> Any:
    """Ask for the page and return the answer, when its text is there.

    Raises what the downloader of plain pages raises, :exc:`NotAPage`, what the page's
    passage says, and Playwright's errors where the browser ended.
    """
    order = opened.order
    time_s = max(0.001, min(order.load_s, order.ends_at - time.monotonic()))
    order.has_begun = True
    try:
        answer = await opened.page.goto(
            order.url, wait_until="domcontentloaded", timeout=time_s * 1000
        )
    except PlaywrightTimeout as error:
        raise DownloadTimeoutError("the page did not load in time") from error
    except PlaywrightError as error:
        await asyncio.sleep(CRASH_TOLD_S)  # an end of the process is told after it
        if opened.lost.done() or not opened.running.is_alive:
            raise
        raise _failure(opened, str(error)) from error
    if answer is None:
        raise DownloadFailedError("the browser brought no page")
    return answer


def _failure(opened: OpenPage, text: str) -> Exception:
    """Return why a page did not load, of which the browser says ``text``."""
    if "Download is starting" in text or "ERR_ABORTED" in text:
        return NotAPage("the address leads to a file")
    reason = text.split("\n", maxsplit=1)[0]
    for sign, failure in _TLS_FAILURES:
        if sign in text:
            return failure(reason)
    if failures := opened.passage.failures:
        return opened.passage.failure(opened.order.url) or next(iter(failures.values()))
    for signs, kind in _FAILURES:
        if any(sign in text for sign in signs):
            return kind(reason)
    return DownloadFailedError(reason)


async def loaded(opened: OpenPage) -> None:
    """Wait until the page has all that it wants at first, but not for ever."""
    left_s = min(LOAD_S, (opened.order.ends_at - time.monotonic()) / 2)
    with contextlib.suppress(PlaywrightTimeout):
        await opened.page.wait_for_load_state("load", timeout=max(1, left_s * 1000))
    await settle(opened, anew=False)


async def settle(opened: OpenPage, *, anew: bool = True) -> None:
    """Wait until the page has been quiet for a moment, also where it moves on.

    With ``anew`` the moment begins now, as something was done to the page.
    """
    left_ms = (opened.order.ends_at - time.monotonic()) * 1000 / 2
    most = max(0.0, min(SETTLE_MS, left_ms))
    for _ in range(MAX_MOVES):
        try:
            await opened.page.evaluate(
                scripts.SETTLE, [QUIET_MS, MOMENT_MS, most, anew]
            )
            return
        except PlaywrightError as error:
            if not has_moved(error):
                raise
        with contextlib.suppress(PlaywrightTimeout):
            await opened.page.wait_for_load_state("load", timeout=max(1.0, most))


def has_moved(error: PlaywrightError) -> bool:
    """Tell whether a page was replaced by another while it was looked at."""
    text = str(error)
    return (
        "context was destroyed" in text
        or "navigating" in text
        or "Cannot find context" in text
    )


async def content(opened: OpenPage) -> dict[str, Any]:
    """Return the page as it stands: ``html``, ``type``, ``status``, ``size``, ``url``.

    ``size`` is that of the file it came from, in bytes. Raises :exc:`PageTooLarge`.
    """
    most = opened.order.max_bytes  # characters; each takes a byte or more
    for _ in range(MAX_MOVES):
        try:
            remarks = await put_frames(opened.page, opened.passage)
            found: dict[str, Any] = await opened.page.evaluate(scripts.CONTENT, most)
            opened.warnings += [r for r in remarks if r not in opened.warnings]
        except PlaywrightError as error:
            if not has_moved(error):
                raise
            await loaded(opened)
            continue
        if found["html"] is None:
            raise PageTooLarge(most)
        return found
    raise DownloadFailedError("the page goes on moving to others")
