"""Scrape one URL, or a list: ``scrapy crawl scrape -a url=https://example.org -O page.json``.

``scrapy crawl batch -a urls=@list.txt`` scrapes many. The spider ``reprocess`` makes other formats of
the stored responses of a job, which fetches nothing.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import quote

from scraper_service.crawling.page_state import PageState
from scraper_service.errors import InvalidOptions, Issue
from scraper_service.items import UPLOADED
from scraper_service.options.jobs import CHANGEABLE
from scraper_service.options.limits import (
    BROWSER,
    missing_model,
    require_available,
)
from scraper_service.options.spider_arguments import batch_options, page_options
from scraper_service.spiders.base import JobSpider, PageSpider, options_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scraper_service.items import (
        KeptResponse,
        PageContent,
        PageSource,
        TakenPage,
        Upload,
    )
    from scraper_service.options.jobs import BatchOptions, PageOptions
    from scraper_service.options.scrape import ScrapeOptions


class ScrapeSpider(PageSpider):
    """A spider that scrapes one page.

    The arguments are those of :mod:`scraper_service.options.spider_arguments`.
    Alternatively, ``page`` is a
    :class:`~scraper_service.options.jobs.PageOptions`. ``upload``, a file, replaces the
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


class BatchSpider(JobSpider):
    """A spider that fetches each entry of a list of URLs and follows no links.

    The arguments are those of
    :func:`scraper_service.options.spider_arguments.batch_options`.
    Alternatively, ``options`` is a
    :class:`~scraper_service.options.jobs.BatchOptions`.
    """

    name = "batch"

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args)
        self.options: BatchOptions = options_object(kwargs) or batch_options(kwargs)
        self.find_blocks = self.options.dedupe_boilerplate


class ReprocessSpider(JobSpider):
    """A spider whose pages are those of another job.

    Follows no links, redirects or refreshes: the source job has done so. Runs stored jobs
    only, with the argument ``job_id`` or by a runner.
    """

    name = "reprocess"
    changeable: ClassVar[tuple[str, ...]] = CHANGEABLE["batch"]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args)
        found = options_object(kwargs)
        if found is None:
            text = "job_id must be a job that reprocesses another one, got none"
            raise InvalidOptions([Issue("custom", ("job_id",), text)])
        self.options = found

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Read responses from the database instead of fetching pages."""
        super().update_settings(settings)
        reader = "scraper_service.crawling.download.stored_responses.StoredSources"
        settings.set("DOWNLOADER", reader, priority="spider")

    async def parse(self, response: Response) -> AsyncIterator[PageContent | Request]:
        """Yield the content of a page."""
        yield await self.convert(response)

    def source_facts(self, response: Response) -> dict[str, Any]:
        """Return facts of a page that is known: it is compressed, and indexed or not."""
        return {"find_shell": False, "find_search": False, "pack_body": False}

    def kept_response(
        self, response: Response, source: PageSource, packed: bytes
    ) -> KeptResponse:
        kept = PageState.of(response).kept
        assert kept is not None
        return kept
