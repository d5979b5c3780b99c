"""Shortens the way of a response through Scrapy to the pipelines.

Scrapy runs four tasks and ten asynchronous generators for each response, so that items of a
response can be processed at the same time, and spider middlewares can change them.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.defer import aiter_errback, iter_errback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.core.scraper import Scraper
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure


class DirectItems:
    """Passes the items of a response to the pipelines one by one.

    Only with a ``CONCURRENT_ITEMS`` of 1. Without spider middlewares, passes responses directly
    to the spider.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        crawler.signals.connect(self._opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _opened(self) -> None:
        assert self._crawler.engine is not None
        # No setting of Scrapy replaces its scraper; a test fails if these names go.
        scraper: Any = self._crawler.engine.scraper
        if scraper.concurrent_items == 1:
            scraper.handle_spider_output_async = partial(_process, scraper)
        if not scraper.spidermw.middlewares:
            scraper.spidermw.scrape_response_async = _call_spider


async def _process(
    scraper: Scraper,
    output: Iterable[Any] | AsyncIterator[Any],
    request: Request,
    response: Response | Failure,
) -> None:
    """Process the output of a callback in order."""
    on_error = scraper.handle_spider_error
    if isinstance(output, AsyncIterator):
        async for each in aiter_errback(output, on_error, request, response):
            await scraper._process_spidermw_output_async(each, response)
        return
    for each in iter_errback(output, on_error, request, response):
        await scraper._process_spidermw_output_async(each, response)


async def _call_spider(scrape: Any, response: Response, request: Request) -> Any:
    """Return the output of the callback."""
    return await scrape(response, request)


class DirectPipelines(ItemPipelineManager):
    """Calls the pipelines; awaits only coroutines and the like."""

    async def process_item_async(self, item: Any) -> Any:
        if self._mw_methods_requiring_spider:
            return await super().process_item_async(item)
        for method in self.methods["process_item"]:
            assert method is not None
            item = method(item)
            if inspect.isawaitable(item):
                item = await item
        return item
