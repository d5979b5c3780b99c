"""Scrapy components: scheduler, downloads, browser, converter pool, pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Component:
    """A component of Scrapy that is made of its crawler alone."""

    def __init__(self, crawler: Crawler):
        """Keep what the component needs of the crawler."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the component of a crawler.

        Raises :exc:`scrapy.exceptions.NotConfigured` if it stays off.
        """
        return cls(crawler)
