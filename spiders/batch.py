"""Scrape many addresses: ``scrapy crawl batch -a urls=@list.txt -O pages.jsonl``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.options.job_arguments import batch_options
from spiders.base import JobSpider, given

if TYPE_CHECKING:
    from scraper_service.options.jobs import BatchOptions


class BatchSpider(JobSpider):
    """Fetch the addresses given, each once per entry; follow no links.

    Arguments are those of
    :func:`scraper_service.options.job_arguments.batch_options`, or ``options``, a
    :class:`~scraper_service.options.jobs.BatchOptions`.
    """

    name = "batch"

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args)
        self.options: BatchOptions = given(kwargs) or batch_options(kwargs)
        self.find_blocks = self.options.dedupe_boilerplate
