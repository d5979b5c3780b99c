"""Downloader middlewares of ours in place of stock ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import IgnoreRequest

from scraper_service.options.origins import origin

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class TooManyRedirects(IgnoreRequest):
    """A chain of redirects is longer than ``REDIRECT_MAX_TIMES``."""


class SafeRedirect(RedirectMiddleware):
    """Follow redirects without a ``Referer``, and say when there were too many.

    What the caller sent along is dropped at another origin by
    :class:`~scraper_service.components.transport.RequestOptionsMiddleware`.
    """

    def _engine_started(self) -> None:
        """Look for no RefererMiddleware; it is off on purpose."""

    def handle_referer(self, request: Request, response: Response) -> None:
        request.headers.pop("Referer", None)

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        if request.meta.get("redirect_times", 0) >= self.max_redirect_times:
            raise TooManyRedirects(f"more than {self.max_redirect_times} redirects")
        return super()._redirect(redirected, request, reason)


class FreshCookies(CookiesMiddleware):
    """Keep one cookie jar per ``meta["cookiejar"]`` and drop it with its page.

    A resident crawler would otherwise keep the jar of every scrape for ever. Cookies
    of the caller never enter a jar: they go to the origin that was asked for and to no
    other, while those of a site go to all ports of its host.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = super().from_crawler(crawler)
        connect = crawler.signals.connect
        connect(middleware._page_ended, signals.item_scraped)
        connect(middleware._page_ended, signals.item_dropped)
        connect(middleware._page_ended, signals.item_error)
        connect(middleware._page_ended, signals.spider_error)
        return middleware

    def process_request(  # type: ignore[override]  # its spider is deprecated
        self, request: Request
    ) -> None:
        super().process_request(request)
        options = request.meta.get("options")
        if options is None or origin(request.url) != request.meta["asked_origin"]:
            return
        ours = [value for name, value in options.headers if name.lower() == "cookie"]
        if ours:
            jar = (request.headers.get("Cookie") or b"").decode("latin-1")
            request.headers["Cookie"] = "; ".join(filter(None, (*ours, jar)))

    def _page_ended(self, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            self.jars.pop(request.meta.get("cookiejar"), None)
