"""Scrape many URLs: ``scrapy crawl batch -a urls=@list.txt -O pages.jsonl``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.options.spider_arguments import batch_options
from scraper_service.spiders.base import JobSpider, options_object

if TYPE_CHECKING:
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
