"""A Scrapy extension for tests of the Crawl-delay of robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.crawling.politeness.host_pace import HostPace

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class CrawlDelay:
    """An extension that sets the Crawl-delay of a site to ``CRAWL_DELAY_S``."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> CrawlDelay:
        delay_s = crawler.settings.getfloat("CRAWL_DELAY_S")
        host = pace_key(crawler.settings["PACED_SITE"])
        HostPace.shared(crawler.settings).locks.set_crawl_delay(host, delay_s)
        return cls()
