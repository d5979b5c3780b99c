"""``scrapy crawl pages -a url=URL -O pages.jsonl``: each page of a site as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import TextResponse
from scrapy.linkextractors import LinkExtractor

from scraper_service.addon import convert_response
from scraper_service.errors import ConversionFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class PagesSpider(scrapy.Spider):
    """Follows the links of one host, also to PDFs and other documents."""

    name = "pages"
    links = LinkExtractor(deny_extensions=())

    def __init__(self, url: str, **arguments: Any):
        super().__init__(start_urls=[url], **arguments)
        self.allowed_domains = [urlsplit(url).hostname]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        try:
            page = await convert_response(response, self.crawler, formats=["markdown"])
        except ConversionFailed as error:  # such as for a picture
            self.logger.warning("%s: %s", response.url, error)
            return
        yield {
            "url": response.url,
            "title": page.metadata.get("title"),
            "markdown": page.markdown,
        }
        if isinstance(response, TextResponse):  # a PDF has no links of this kind
            for request in response.follow_all(self.links.extract_links(response)):
                yield request
