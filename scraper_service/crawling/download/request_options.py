"""From a page's options to the request that is sent: engine, headers, time, sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import IgnoreRequest

from scraper_service.crawling.download.engines import Engines
from scraper_service.options.countries import accept_language
from scraper_service.options.origins import host_of, origin

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.options.scrape import ScrapeOptions


class SiteRefused(IgnoreRequest):
    """The caller's own rules keep this scrape away from the site."""


def check_site(url: str, options: ScrapeOptions) -> None:
    """Raise :exc:`SiteRefused` if the rules of the caller keep away from ``url``."""
    if options.site_rules and not options.site_rules.allows(host_of(url)):
        raise SiteRefused("the site is excluded by threatProtection")


class RequestOptionsMiddleware:
    """Put ``meta["options"]`` on the request, anew for each hop of a redirect.

    The caller's headers and cookies go to the origin that was asked for and to no
    other: a redirect that changes scheme, host or port loses them all.
    """

    def __init__(self, crawler: Crawler):
        self._engines = Engines.shared(crawler.settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        options: ScrapeOptions | None = request.meta.get("options")
        if options is None:
            return
        check_site(request.url, options)
        if "engine" not in request.meta:
            request.meta["engine"] = self._engines.choose(request.url, options)
        request.meta["download_timeout"] = options.load_timeout_ms / 1000
        asked = request.meta.setdefault("asked_origin", origin(request.url))
        for name, value in options.headers:
            if origin(request.url) != asked:
                request.headers.pop(name, None)
            elif name.lower() != "cookie":  # FreshCookies joins it with the site's own
                request.headers[name] = value
        languages = options.location.languages if options.location else ()
        if language := accept_language(languages):
            request.headers.setdefault("Accept-Language", language)
