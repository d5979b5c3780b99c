"""Scrapy crawlers that stay open for single scrapes and maps.

A crawler per page would take four times the CPU time and reuse no connections.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import DontCloseSpider

from scraper_service.crawling.middlewares import item_made, page_abandoned
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.scrapy_shortcuts import DirectItems
from scraper_service.errors import QueueFull, ServiceUnavailable, plural
from scraper_service.items import QUEUE_FULL, Page, PageError, PageMetadata

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import AsyncCrawlerProcess, Crawler

    from scraper_service.items import TakenPage, Upload
    from scraper_service.options.jobs import PageOptions


READY_POLL_S = 0.01


class Resident:
    """A crawler of the spider ``name`` that stays open until its process ends."""

    def __init__(self, process: AsyncCrawlerProcess, name: str):
        self.crawler: Crawler = process.create_crawler(name)
        self._process = process
        # The converter pool limits the bytes of each team. This limit is shared: a
        # single team could block all others.
        self.crawler.settings.set(
            "SCRAPER_SLOT_MAX_ACTIVE_SIZE", sys.maxsize, priority="cmdline"
        )

    async def start(self) -> None:
        """Open the crawler and wait until it accepts requests.

        Raises the error that kept it from opening.
        """
        self.crawler.signals.connect(self._stay_open, signals.spider_idle)
        ended = self._process.crawl(self.crawler, resident=True)
        while not self.is_open:
            if ended.done():
                ended.result()
                raise RuntimeError("the resident crawler ended while it was starting")
            await asyncio.sleep(READY_POLL_S)

    @property
    def is_open(self) -> bool:
        engine = self.crawler.engine if self.crawler.crawling else None
        return engine is not None and engine.running

    def _stay_open(self) -> None:
        raise DontCloseSpider


class ResidentCrawler(Resident):
    """Fetches single pages through spider, middlewares and pipelines.

    At most ``MAX_PENDING_SCRAPES`` at a time.
    """

    def __init__(self, process: AsyncCrawlerProcess):
        super().__init__(process, "scrape")
        self._limit = process.settings.getint("MAX_PENDING_SCRAPES")
        self._waiting: dict[str, asyncio.Future[Page]] = {}
        connect = self.crawler.signals.connect
        connect(self._page_made, item_made)
        connect(self._page_lost, signals.item_dropped)
        connect(self._page_lost, signals.item_error)
        connect(self._page_lost, signals.spider_error)

    @property
    def pending(self) -> int:
        """The number of running scrapes."""
        return len(self._waiting)

    @functools.cached_property
    def _direct(self) -> DirectItems:
        found = self.crawler.get_extension(DirectItems)
        assert found is not None
        return found

    async def fetch(
        self,
        options: PageOptions,
        team_id: str,
        scrape_id: str,
        deadline: float,
        queued_s: float | None = None,
        account: str = "",
        upload: Upload | None = None,
        taken: TakenPage | None = None,
    ) -> Page:
        """Return the page, fetched or failed, by ``deadline`` (:func:`time.monotonic`).

        With ``upload`` it is the page of a file, and its URL is the name of the file.
        With ``taken`` it is the page of a session of the browser. Neither is fetched.
        ``queued_s`` is the time that the page waited for a permit. ``account`` is the
        id of the caller's key or team. Cancelling the caller ends the download.

        Raises :exc:`ServiceUnavailable` during start and shutdown. Raises
        :exc:`QueueFull` at ``MAX_PENDING_SCRAPES``, and if too many bytes of the team
        wait for their conversion.
        """
        if not self.is_open:
            raise ServiceUnavailable("The service is starting or stopping.")
        if len(self._waiting) >= self._limit:
            raise QueueFull(f"Already under way: {plural(self._limit, 'scrape')}.")
        spider: Any = self.crawler.spider
        spider.pool.queue.require_capacity(team_id)
        if taken is not None:
            request = spider.taken_request(
                taken, options.scrape, scrape_id, deadline, team_id
            )
        elif upload is None:
            request = spider.page_request(
                options.url, options.scrape, scrape_id, deadline, team_id=team_id
            )
        else:
            request = spider.upload_request(
                upload, options.scrape, scrape_id, deadline, team_id
            )
        state = PageState.of(request)
        state.account, state.queued_s = account, queued_s
        page: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
        self._waiting[scrape_id] = page
        self._direct.start_now(request)
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await page
        except TimeoutError:
            self._abandon(scrape_id)
            message = (
                f"The page was not ready within {options.scrape.deadline_ms} ms."
                " A longer timeout may help."
            )
            return failed_page(options, scrape_id, "SCRAPE_TIMEOUT", message)
        except asyncio.CancelledError:
            self._abandon(scrape_id)
            raise
        finally:
            self._waiting.pop(scrape_id, None)

    def _abandon(self, scrape_id: str) -> None:
        self.crawler.signals.send_catch_log(page_abandoned, scrape_id=scrape_id)

    def _page_made(self, item: Page) -> None:
        waiting = self._waiting.get(item.metadata.scrape_id)
        if waiting is None or waiting.done():
            return
        if item.failure is not None and item.failure.code == QUEUE_FULL:
            waiting.set_exception(QueueFull(item.failure.message))
        else:
            waiting.set_result(item)

    def _page_lost(self, response: Any, failure: Any = None) -> None:
        """Raise an error in the caller of a page that a bug has dropped."""
        request: Request | None = getattr(response, "request", None)
        scrape_id = PageState.of(request).scrape_id if request else ""
        waiting = self._waiting.get(scrape_id)
        if waiting is not None and not waiting.done():
            cause = getattr(failure, "value", None)
            waiting.set_exception(cause or RuntimeError("the page was dropped"))


def failed_page(options: PageOptions, scrape_id: str, code: str, message: str) -> Page:
    """Return the page of a failed scrape."""
    return Page(
        failure=PageError(code, message),
        metadata=PageMetadata(
            source_url=options.url,
            scrape_id=scrape_id,
            url=options.url,
            error=message,
        ),
    )
