"""Removes repeated blocks and marks duplicate pages, if the options of a job say so."""

from __future__ import annotations

import json
from asyncio import to_thread
from typing import TYPE_CHECKING, Any, Self

from attrs import evolve

from scraper_service.content.formats.tokens import count_and_cut
from scraper_service.content.search.duplicates import without_blocks
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.items import Page
from scraper_service.options.urls import url_parts
from scraper_service.storage.frontier.duplicates import (
    READ_ROWS,
    DeliveredText,
    Repeats,
    texts_after,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scraper_service.options.scrape import ScrapeOptions

MAX_HOST = 260  # characters


def _recount_tokens(page: Page, options: ScrapeOptions) -> Page:
    """Return ``page`` with the tokens and the part of its Markdown, which has changed."""
    count, part = count_and_cut(json.loads(page.values["markdown"]), options)
    page = evolve(page, metadata=evolve(page.metadata, token_count=count))
    if part is None:
        return page
    values = {**page.values, "part": part.as_json}
    return evolve(page, values=values, metadata=evolve(page.metadata, chunk=part.chunk))


class RepeatsPipeline:
    """Removes blocks that a site repeats from Markdown, and names the page of a duplicate.

    Compares with pages that were delivered before. Two processes that deliver at the same
    moment do not see each other's pages.
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
        options: Any = getattr(self._crawler.spider, "options", None)
        if not getattr(options, "dedupe_boilerplate", False):
            return item
        await self._look()
        page = self._mark_repeats(item)
        if page.values is not item.values:
            page = await to_thread(_recount_tokens, page, options.scrape)
        return page

    async def _look(self) -> None:
        scheduler = LeasedScheduler.of(self._crawler)
        while True:
            last = self._repeats.last
            texts = await scheduler.read(texts_after, scheduler.job_id, last)
            self._repeats.add(texts)
            if len(texts) < READ_ROWS:
                return

    def _mark_repeats(self, page: Page) -> Page:
        repeats, url = self._repeats, page.metadata.url
        host = (url_parts(url).hostname or "")[:MAX_HOST]
        original = repeats.original(page.text_print)
        hashes = tuple(block[0] for block in page.blocks)
        text = DeliveredText(
            host, url, page.text_print, hashes if repeats.learns(host) else ()
        )
        return evolve(
            page,
            values=self._cut(page, repeats.repeated_blocks(host, hashes)),
            metadata=evolve(page.metadata, duplicate_of=original),
            text=None if repeats.is_full else text,
        )

    @staticmethod
    def _cut(page: Page, repeated: set[int]) -> Any:
        """Return the values without the blocks, unless nothing would remain."""
        spans = [(start, end) for block, start, end in page.blocks if block in repeated]
        if not spans or len(spans) == len(page.blocks):
            return page.values
        markdown = without_blocks(page.values["markdown"], spans)
        return {**page.values, "markdown": markdown}
