"""Dropping what repeats over the pages of a job, if its options ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from attrs import evolve

from scraper_service.content.text.markdown_blocks import without_blocks
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.items import Page
from scraper_service.storage.frontier.duplicates import (
    READ_ROWS,
    PageText,
    Repeats,
    texts_after,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

MAX_HOST = 260  # characters


class RepeatsPipeline:
    """Leave the frame of the site out of a page's Markdown; name the page it repeats.

    Both rest on pages that were delivered before. What two processes deliver at one
    moment, neither knows of.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._repeats = Repeats()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.lease is None or item.failure:
            return item
        options = getattr(self._crawler.spider, "options", None)
        if not getattr(options, "dedupe_boilerplate", False):
            return item
        await self._look()
        return self._changed(item)

    async def _look(self) -> None:
        scheduler = LeasedScheduler.of(self._crawler)
        while True:
            last = self._repeats.last
            texts = await scheduler.read(texts_after, scheduler.job_id, last)
            self._repeats.add(texts)
            if len(texts) < READ_ROWS:
                return

    def _changed(self, page: Page) -> Page:
        repeats, url = self._repeats, page.metadata.url
        host = (urlsplit(url).hostname or "")[:MAX_HOST]
        original = repeats.original(page.text_print)
        hashes = tuple(block[0] for block in page.blocks)
        text = PageText(
            host, url, page.text_print, hashes if repeats.learns(host) else ()
        )
        return evolve(
            page,
            values=self._cut(page, repeats.repeated(host, hashes)),
            metadata=evolve(page.metadata, duplicate_of=original),
            text=None if repeats.is_full else text,
        )

    @staticmethod
    def _cut(page: Page, repeated: set[int]) -> Any:
        """Return the values without the blocks, unless nothing would be left."""
        spans = [(start, end) for block, start, end in page.blocks if block in repeated]
        if not spans or len(spans) == len(page.blocks):
            return page.values
        markdown = without_blocks(page.values["markdown"], spans)
        return {**page.values, "markdown": markdown}
