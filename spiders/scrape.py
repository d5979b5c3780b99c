"""Scrape one URL: ``scrapy crawl scrape -a url=https://example.org -O page.json``."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from scraper_service.crawling.page_state import PageState
from scraper_service.items import UPLOADED
from scraper_service.options.availability import (
    BROWSER,
    missing_model,
    require_available,
)
from scraper_service.options.spider_arguments import page_options
from scraper_service.spiders.base import PageSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.items import TakenPage, Upload
    from scraper_service.options.crawl import PageOptions
    from scraper_service.options.scrape import ScrapeOptions


class ScrapeSpider(PageSpider):
    """A spider that scrapes one page.

    The arguments are those of :mod:`scraper_service.options.spider_arguments`.
    Alternatively, ``page`` is a
    :class:`~scraper_service.options.crawl.PageOptions`. ``upload``, a file, replaces the
    page. A ``resident`` spider starts without a page and receives pages one by one.
    """

    name = "scrape"

    def __init__(
        self,
        *args: Any,
        resident: bool = False,
        page: PageOptions | None = None,
        upload: Upload | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args)
        self.page = None if resident else page or page_options(kwargs)
        self.upload = upload

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.page is not None:
            no_model = missing_model(crawler.settings)
            require_available(spider.page.scrape, spider.engines.missing, no_model)
        return spider

    def upload_request(
        self,
        upload: Upload,
        options: ScrapeOptions,
        scrape_id: str,
        deadline: float,
        team_id: str | None = None,
    ) -> Request:
        """Return the request for an uploaded file, which needs no fetch."""
        request = self.page_request(
            UPLOADED + quote(upload.name), options, scrape_id, deadline, team_id=team_id
        )
        state = PageState.of(request)
        state.source_url, state.given = upload.name, upload
        request.meta["dont_merge_cookies"] = True
        return request

    def taken_request(
        self,
        taken: TakenPage,
        options: ScrapeOptions,
        scrape_id: str,
        deadline: float,
        team_id: str,
    ) -> Request:
        """Return the request for a page that a session of the browser shows."""
        request = self.page_request(
            taken.url, options, scrape_id, deadline, team_id=team_id
        )
        state = PageState.of(request)
        state.given, state.engine = taken, BROWSER
        state.rendered, state.warnings = taken.rendered, taken.warnings
        request.meta.update(dont_merge_cookies=True, dont_redirect=True)
        return request

    async def start(self) -> AsyncIterator[Request]:
        """Yield the request for the page; nothing if the spider is resident."""
        if self.page is None:
            return
        options = self.page.scrape
        deadline = time.monotonic() + options.deadline_ms / 1000
        scrape_id = str(uuid.uuid4())
        if self.upload is not None:
            yield self.upload_request(self.upload, options, scrape_id, deadline)
        else:
            yield self.page_request(self.page.url, options, scrape_id, deadline)
