"""The text of frames, which is part of the page they stand in."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from attrs import define, field
from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.proxy import Passage

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page

MAX_DEPTH = 5  # frames within frames
MAX_FRAMES = 50  # of one page; as many as are read of its HTML
MAX_CHARS = 500_000  # of one frame, with those inside it
FRAME_S = 3.0  # for one frame of the page, with those inside it

SLOW = "A frame of the page did not answer in time; its text is left out."
LARGE = f"A frame of the page has more than {MAX_CHARS} characters; it is left out."
MANY = f"The page has more than {MAX_FRAMES} frames; the others are left out."


async def put_frames(page: Page, passage: Passage) -> list[str]:
    """Lay the content of each frame beside its element, to be taken with the page.

    Those inside others and those of other sites too. Returns what there is to remark.
    """
    reading = _Reading(passage)
    await reading.put(page.main_frame, 1)
    return list(dict.fromkeys(reading.remarks))


@define
class _Reading:
    passage: Passage
    left: int = MAX_FRAMES
    remarks: list[str] = field(factory=list)

    async def put(self, parent: Frame, depth: int) -> None:
        """Read what is in ``parent``, each frame in its own time."""
        if depth <= MAX_DEPTH:
            await asyncio.gather(*(self._put(f, depth) for f in parent.child_frames))

    async def _put(self, frame: Frame, depth: int) -> None:
        try:
            async with asyncio.timeout(FRAME_S if depth == 1 else None):
                await self._read(frame, depth)
        except TimeoutError:
            self.remarks.append(SLOW)
        except PlaywrightError:
            pass  # it may go at any time

    async def _read(self, frame: Frame, depth: int) -> None:
        element = await frame.frame_element()
        if not await element.evaluate(scripts.IS_SEEN):
            return
        if frame.url.startswith("chrome") or self.passage.failure(frame.url):
            return
        if not self.left:
            self.remarks.append(MANY)
            return
        self.left -= 1
        await self.put(frame, depth + 1)
        html = await frame.evaluate(scripts.FRAME, MAX_CHARS)
        if html is None:
            self.remarks.append(LARGE)
        elif html:
            with contextlib.suppress(PlaywrightError):
                await element.evaluate(scripts.PUT_FRAME, html)
