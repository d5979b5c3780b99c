"""Loads a page, waits until it is stable, and reads its content with its frames."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)

from scraper_service.content.page_status import NO_TEXT
from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.page_errors import (
    CertificateError,
    NoCommonTls,
    NotAPage,
    PageTooLarge,
    TooManyRedirects,
)
from scraper_service.options.urls import host_of

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page

    from scraper_service.crawling.browser.open_page import OpenPage

MAX_DEPTH = 5  # of nested frames
MAX_FRAMES = 50  # of one page, as in the conversion of its HTML
MAX_CHARS = 500_000  # of one frame with its nested frames
FRAME_S = 3.0  # for one frame with its nested frames

LATE_FILES = "late files"  # the subject of a warning
SLOW = "A frame of the page did not answer in time; its text is left out."
LARGE = f"A frame of the page has more than {MAX_CHARS} characters; it is left out."
MANY = f"The page has more than {MAX_FRAMES} frames; the others are left out."


async def put_frames(page: Page, passage: Passage) -> list[str]:
    """Insert the content of each frame beside its element.

    Includes nested frames and frames of other sites. Returns warnings.
    """
    reading = _Reading(passage)
    await reading.put(page.main_frame, 1)
    return list(dict.fromkeys(reading.warnings))


@define
class _Reading:
    passage: Passage
    left: int = MAX_FRAMES
    warnings: list[str] = field(factory=list)

    async def put(self, parent: Frame, depth: int) -> None:
        """Insert the frames of ``parent``, each with a time-out of its own."""
        if depth <= MAX_DEPTH:
            await asyncio.gather(*(self._put(f, depth) for f in parent.child_frames))

    async def _put(self, frame: Frame, depth: int) -> None:
        try:
            async with asyncio.timeout(FRAME_S if depth == 1 else None):
                await self._read(frame, depth)
        except TimeoutError:
            self.warnings.append(SLOW)
        except PlaywrightError:
            pass  # a frame may disappear at any time

    async def _read(self, frame: Frame, depth: int) -> None:
        element = await frame.frame_element()
        if not await element.evaluate(scripts.IS_SEEN):
            return
        if frame.url.startswith("chrome") or self.passage.failure(frame.url):
            return
        if not self.left:
            self.warnings.append(MANY)
            return
        self.left -= 1
        await self.put(frame, depth + 1)
        html = await frame.evaluate(scripts.FRAME, MAX_CHARS)
        if html is None:
            self.warnings.append(LARGE)
        elif html:
            with contextlib.suppress(PlaywrightError):
                await element.evaluate(scripts.PUT_FRAME, html)


LOAD_S = 15.0  # for files that a page loads after its text
AGAIN_S = 1.0  # until connections are ended again, if the page still waits
NAMED_CUTS = 3  # to the hosts of parts that elements name; later cuts are to all hosts
MAX_CUTS = 5
MAX_NAMED = 3  # URLs in a warning
MAX_URL = 200  # characters
QUIET_MS = 150  # without a change, until a page counts as stable
MOMENT_MS = 30  # the same, for a page without a means to change later
SETTLE_MS = 4000  # the longest wait for a stable page
MAX_MOVES = 5  # navigations by scripts while the content is read
CRASH_TOLD_S = 0.2

# Errors of Chromium, and the errors of downloads over HTTP for them.
_TLS_FAILURES = (("ERR_CERT", CertificateError), ("ERR_SSL", NoCommonTls))
_FAILURES: tuple[tuple[tuple[str, ...], type[Exception]], ...] = (
    (("ERR_TOO_MANY_REDIRECTS",), TooManyRedirects),
    (("ERR_CONNECTION", "ERR_TUNNEL", "ERR_EMPTY"), DownloadConnectionRefusedError),
)


async def goto(opened: OpenPage) -> Any:
    """Navigate to the page. Return the response once its text is there.

    Raises errors of downloads over HTTP, :exc:`NotAPage`, failures of the page's passage, and
    errors of Playwright if the browser ended.
    """
    order = opened.order
    time_s = max(0.001, min(order.load_s, order.ends_at - time.monotonic()))
    order.has_begun = True
    try:
        async with asyncio.timeout(time_s):
            answer = await opened.page.goto(
                order.url, wait_until="commit", timeout=time_s * 1000
            )
            opened.has_text = await _wait_for_text(opened)
    except (PlaywrightTimeout, TimeoutError) as error:
        raise DownloadTimeoutError("the page did not load in time") from error
    except PlaywrightError as error:
        await asyncio.sleep(CRASH_TOLD_S)  # the end of the process is reported later
        if opened.lost.done() or not opened.running.is_alive:
            raise
        raise _failure(opened, str(error)) from error
    if answer is None:
        raise DownloadFailedError("the browser brought no page")
    return answer


async def _wait_for_text(opened: OpenPage) -> bool:
    """Wait until the document is parsed. Return False if it has arrived but is not parsed.

    Waits forever for a document that does not arrive. A script or style sheet that does not
    arrive holds up the parser. Its connection is ended after a while: the parser goes on as
    after a failed request.
    """
    wait_s = min(LOAD_S, _spare_s(opened) / 2)
    cuts = 0
    while cuts < MAX_CUTS:
        with contextlib.suppress(PlaywrightTimeout):
            await opened.page.wait_for_load_state(
                "domcontentloaded", timeout=max(1.0, wait_s * 1000)
            )
            return True
        wait_s = min(AGAIN_S, _spare_s(opened) / 4)
        pending = await _pending(opened)
        if pending is None or not pending["is_whole"]:
            continue
        _warn(opened, pending["blocking"])
        hosts = frozenset(map(host_of, pending["blocking"]))
        # One that no element names, such as an imported style sheet, may be at any host.
        known = hosts & opened.passage.connected_hosts if cuts < NAMED_CUTS else None
        opened.passage.hang_up(known or None)
        cuts += 1
    return False


async def _pending(opened: OpenPage) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = await opened.page.evaluate(scripts.PENDING)
    except PlaywrightError as error:
        if not has_moved(error):
            raise
        return None
    return found


def _warn(opened: OpenPage, urls: list[str]) -> None:
    """Add a warning that names the parts of the page that did not arrive, once."""
    hosts = opened.passage.connected_hosts
    # Those without a connection were not requested, such as advertising.
    named = list(dict.fromkeys(u for u in urls if not hosts or host_of(u) in hosts))
    names = ", ".join(url[:MAX_URL] for url in named[:MAX_NAMED]) or "one of its files"
    if len(named) > MAX_NAMED:
        names += f" and {len(named) - MAX_NAMED} others"
    text = f"The page was read without what did not load in time: {names}."
    opened.warnings.setdefault(LATE_FILES, text)


def _spare_s(opened: OpenPage) -> float:
    """Return the seconds that are left for loading, without the waits of the caller."""
    left_s = opened.order.ends_at - time.monotonic()
    return max(left_s / 4, left_s - opened.order.options.waits_ms / 1000)


def _failure(opened: OpenPage, text: str) -> Exception:
    """Return the error for a page that did not load, from Chromium's ``text``."""
    if "Download is starting" in text or "ERR_ABORTED" in text:
        return NotAPage("the URL leads to a file")
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


async def wait_for_load(opened: OpenPage) -> None:
    """Wait until the page has loaded its files, at most :data:`LOAD_S`.

    A warning names the files that did not arrive.
    """
    left_s = min(LOAD_S, _spare_s(opened) / 2) if opened.has_text else 0.0
    try:
        await opened.page.wait_for_load_state("load", timeout=max(1, left_s * 1000))
    except PlaywrightTimeout:
        if pending := await _pending(opened):
            _warn(opened, pending["blocking"] + pending["others"])
    # A caller that waits knows how long.
    await settle(opened, anew=False, for_text=not opened.order.options.waits_ms)


async def settle(
    opened: OpenPage, *, anew: bool = True, for_text: bool = False
) -> None:
    """Wait until the page is stable, also after navigations.

    With ``anew`` the wait starts now, for example after an action. With ``for_text`` an
    empty shell is not stable while its scripts may fill it.
    """
    left_ms = (opened.order.ends_at - time.monotonic()) * 1000 / 2
    most = max(0.0, min(SETTLE_MS, left_ms))
    few = NO_TEXT if for_text else 0
    for _ in range(MAX_MOVES):
        try:
            await opened.page.evaluate(
                scripts.SETTLE, [QUIET_MS, MOMENT_MS, most, anew, few]
            )
            return
        except PlaywrightError as error:
            if not has_moved(error):
                raise
        with contextlib.suppress(PlaywrightTimeout):
            await opened.page.wait_for_load_state("load", timeout=max(1.0, most))


def has_moved(error: PlaywrightError) -> bool:
    """Return True if another page has replaced the page meanwhile."""
    text = str(error)
    return (
        "context was destroyed" in text
        or "navigating" in text
        or "Cannot find context" in text
    )


async def content(opened: OpenPage) -> dict[str, Any]:
    """Return the content of the page: ``html``, ``type``, ``status``, ``size``, ``url``.

    ``size`` is the size of its file in bytes, ``is_parsed`` is True unless a script holds
    up the parser. Raises :exc:`PageTooLarge`.
    """
    most = opened.order.max_bytes  # characters; each has at least one byte
    for _ in range(MAX_MOVES):
        try:
            warnings = await put_frames(opened.page, opened.passage)
            found: dict[str, Any] = await opened.page.evaluate(scripts.CONTENT, most)
            opened.warnings |= dict(zip(warnings, warnings, strict=True))
        except PlaywrightError as error:
            if not has_moved(error):
                raise
            await wait_for_load(opened)
            continue
        if found["html"] is None:
            raise PageTooLarge(most)
        return found
    raise DownloadFailedError("the page goes on moving to others")
