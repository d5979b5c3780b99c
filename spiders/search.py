"""Search the web: ``scrapy crawl search -a query="hay for rabbits" -O results.jsonl``."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Self

from scraper_service.errors import SearchDown, SearchTimedOut
from scraper_service.items import SearchResult
from scraper_service.options.limits import require_available
from scraper_service.options.spider_arguments import search_options
from scraper_service.options.urls import caller_url
from scraper_service.search_engines.web_search import Searches, is_valid
from scraper_service.spiders.base import PageSpider, options_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.items import Hit
    from scraper_service.options.map_search import SearchOptions
    from scraper_service.search_engines.web_search import SearchOutcome


class SearchSpider(PageSpider):
    """A spider that yields search results, or with formats their pages.

    The arguments are those of
    :func:`scraper_service.options.spider_arguments.search_options`.
    Alternatively, ``options`` is a
    :class:`~scraper_service.options.map_search.SearchOptions`. The engines are those of
    ``SEARCH_PROVIDERS``. Results of the source ``images`` have no pages.
    """

    name = "search"
    #: The outcome of the search; None until the search ends, and after a failure.
    found: SearchOutcome | None = None
    #: The reason of a failed search.
    failure: str | None = None
    searches: Searches

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args)
        self.options: SearchOptions = options_object(kwargs) or search_options(kwargs)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.options.scrape is not None:
            require_available(spider.options.scrape, spider.engines.missing)
        spider.searches = Searches(crawler.settings)
        return spider

    async def start(self) -> AsyncIterator[SearchResult | Request]:
        """Yield the results, or the requests for their pages."""
        try:
            self.found = await self.searches.find(self.options)
        except (SearchDown, SearchTimedOut) as error:
            self.failure = str(error)
            self.logger.error("%s", error)
            return
        finally:
            await self.searches.close()
        for warning in self.found.warnings:
            self.logger.warning("%s", warning)
        for kind, hits in self.found.groups.items():
            for number, hit in enumerate(hits, 1):
                yield self._item(kind, number, hit)

    def _item(self, kind: str, number: int, hit: Hit) -> SearchResult | Request:
        options = self.options.scrape
        if options is None or not options.formats or kind == "images":
            return SearchResult(
                source=kind,
                position=number,
                url=hit.url,
                title=hit.title,
                description=hit.description,
                date=hit.date,
                image_url=hit.image_url,
            )
        url = caller_url(hit.url) if is_valid(hit.url) else hit.url
        deadline = time.monotonic() + options.deadline_ms / 1000
        return self.page_request(url, options, str(uuid.uuid4()), deadline)
