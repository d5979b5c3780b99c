"""The operator's list of sites that nothing is fetched from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import IgnoreRequest

from scraper_service.options.limits import parse_sites

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

SITE_BLOCKED = "The operator of this service does not allow this site."


class BlockedSite(IgnoreRequest):
    """A request would go to one of ``BLOCKED_SITES``."""


class BlockedSitesMiddleware:
    """Refuse what goes to one of ``BLOCKED_SITES``, redirects and robots.txt too."""

    def __init__(self, crawler: Crawler):
        self._sites = parse_sites(crawler.settings.getlist("BLOCKED_SITES"))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        if self._sites.covers(request.url):
            raise BlockedSite(SITE_BLOCKED)
