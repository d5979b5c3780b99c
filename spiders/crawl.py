"""Crawl a site: ``scrapy crawl crawl -a url=https://example.org -O pages.jsonl``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.items import PageContent
from scraper_service.options.job_arguments import crawl_options
from scraper_service.scope import CrawlScope, followed, page_key
from spiders.base import JobSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy import Request
    from scrapy.http import Response

    from scraper_service.options.jobs import CrawlOptions


class CrawlSpider(JobSpider):
    """Follow links from one address, within its scope.

    Arguments are those of
    :func:`scraper_service.options.job_arguments.crawl_options`, or ``options``, a
    :class:`~scraper_service.options.jobs.CrawlOptions`.
    """

    name = "crawl"
    find_links = True

    def __init__(self, *args: Any, options: CrawlOptions | None = None, **kwargs: Any):
        super().__init__(*args)
        self.options = options or crawl_options(kwargs)
        self.scope = CrawlScope(self.options)

    async def parse(self, response: Response) -> AsyncIterator[PageContent | Request]:
        """Yield what a page came to, with the links of it that are to be fetched."""
        depth = response.meta["lease"].depth + 1
        async for item in super().parse(response):
            if isinstance(item, PageContent):
                inside = self._inside(item.found, depth, response.url)
                yield evolve(item, follow=tuple(inside))
            else:
                yield item

    def _inside(
        self, found: tuple[str, ...], depth: int, found_on: str
    ) -> Iterator[str]:
        """Yield the links that are new and inside the scope."""
        deepest = self.options.max_discovery_depth
        if not self.scope.follows_links or (deepest is not None and depth > deepest):
            return
        for link in found:
            url = followed(link)
            if hash(url) in self.known:
                continue
            refusal = self.scope.refusal(url, depth, found_on)
            if refusal is None:
                yield url
            elif refusal.reason.is_lasting:
                self.known.add(hash(url))

    def key_of(self, url: str) -> int | None:
        """Return the key under which this crawl knows an address."""
        return page_key(
            url,
            similar=self.options.deduplicate_similar_urls,
            ignore_query=self.options.ignore_query_parameters,
        )
