"""Scrape one address: ``scrapy crawl scrape -a url=https://example.org -O page.json``."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Self

from scraper_service.options.arguments import page_options
from scraper_service.options.available import require_available
from spiders.base import PageSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.options.jobs import PageOptions


class ScrapeSpider(PageSpider):
    """One page per request.

    Arguments are those of :mod:`scraper_service.options.arguments`, or ``page``, a
    :class:`~scraper_service.options.jobs.PageOptions`. With the argument ``resident``
    it starts with no page and is given them one by one.
    """

    name = "scrape"

    def __init__(
        self,
        *args: Any,
        resident: bool = False,
        page: PageOptions | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args)
        self.page = None if resident else page or page_options(kwargs)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.page is not None:
            require_available(spider.page.scrape, spider.engines.missing)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Yield the request for the page, none when resident."""
        if self.page is None:
            return
        options = self.page.scrape
        deadline = time.monotonic() + options.deadline_ms / 1000
        yield self.page_request(self.page.url, options, str(uuid.uuid4()), deadline)
