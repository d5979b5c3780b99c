"""Scrape many URLs: ``scrapy crawl batch -a urls=@list.txt -O pages.jsonl``.

Or make other formats of the stored responses of a job, which fetches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from scraper_service.crawling.page_state import PageState
from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.crawl import CHANGEABLE
from scraper_service.options.spider_arguments import batch_options
from scraper_service.spiders.base import JobSpider, options_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scraper_service.items import KeptResponse, PageContent, PageSource
    from scraper_service.options.crawl import BatchOptions


class BatchSpider(JobSpider):
    """A spider that fetches each entry of a list of URLs and follows no links.

    The arguments are those of
    :func:`scraper_service.options.spider_arguments.batch_options`.
    Alternatively, ``options`` is a
    :class:`~scraper_service.options.crawl.BatchOptions`.
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
