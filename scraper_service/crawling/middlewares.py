"""Downloader middlewares of ours in place of stock ones."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Self

import ada_url
from scrapy import signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware

from scraper_service.content.html.page_urls import has_place
from scraper_service.crawling.download.download_errors import SiteBusy, TooManyRedirects
from scraper_service.crawling.signals import page_ended
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.origins import origin
from scraper_service.storage.politeness.hosts import backoff_s

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


DATABASE_S = 2.0  # until a page asks a database again that did not answer
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class SafeRedirect(RedirectMiddleware):
    """Follow redirects without a ``Referer``, and say when there were too many.

    An answer that leads to no address, or to none of the web, is the page itself.

    What the caller sent along is dropped at another origin by
    :class:`~scraper_service.crawling.download.request_options.RequestOptionsMiddleware`.
    """

    def _engine_started(self) -> None:
        """Look for no RefererMiddleware; it is off on purpose."""

    def handle_referer(self, request: Request, response: Response) -> None:
        request.headers.pop("Referer", None)

    def process_response(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, response: Response
    ) -> Request | Response:
        location = response.headers.get("Location")
        if location is not None and not location.strip():
            return response
        try:
            if location is not None:
                response.headers["Location"] = _target(request.url, location)
            found: Request | Response = super().process_response(request, response)
        except ValueError:  # mailto:, http://[
            return response
        return found if has_place(found.url) else response

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        if request.meta.get("redirect_times", 0) >= self.max_redirect_times:
            raise TooManyRedirects(f"more than {self.max_redirect_times} redirects")
        return super()._redirect(redirected, request, reason)


def _target(url: str, location: bytes) -> str:
    """Return where a ``Location`` leads, in the eyes of a browser.

    Raises :exc:`ValueError` if to no address.
    """
    ascii_only = _NOT_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), location)
    target: str = ada_url.join_url(url, ascii_only.decode())
    return target


class RetryAfter(RetryMiddleware):
    """Fetch the pages of a job again that came when their site had no time for them.

    Those answered with one of ``RETRY_HTTP_CODES`` at most ``RETRY_TIMES`` times, then
    the answer is the page; those that did not get their turn in time as often as it
    takes, and so do those that need the database while it does not answer.
    ``meta["retry_at"]`` (:func:`time.monotonic`) has the scheduler hold them, and
    give them their time anew; ``meta["backoff_s"]`` is the part of it that no site asked
    for. A single scrape gets what its site answered: its caller can wait better than we.
    """

    def process_response(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, response: Response
    ) -> Request | Response:
        if request.meta.get("lease") is None:
            return response
        again: Request | Response = super().process_response(request, response)
        if again is not response:
            pause_s = backoff_s(again.meta["retry_times"])
            again.meta["backoff_s"] = pause_s
            again.meta["retry_at"] = time.monotonic() + pause_s
        return again

    def process_exception(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, exception: Exception
    ) -> Request | None:
        if request.meta.get("lease") is None:
            return None
        if isinstance(exception, SiteBusy):
            retry_at = exception.opens_at
        elif isinstance(exception, ServiceUnavailable):
            retry_at = time.monotonic() + DATABASE_S
        else:
            return None
        meta = {**request.meta, "retry_at": retry_at}
        return request.replace(meta=meta, dont_filter=True)


class FreshCookies(CookiesMiddleware):
    """Keep one cookie jar per ``meta["cookiejar"]`` and drop it with its page.

    A resident crawler would otherwise keep the jar of every scrape for ever. Pages of a
    job have none of their own: theirs lasts as long as the job's crawler. Cookies
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
        connect(middleware._forget, page_ended)
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
        jar = None if request is None else request.meta.get("cookiejar")
        if jar is not None:  # else it is that of the job, for all its pages
            self.jars.pop(jar, None)

    def _forget(self, scrape_id: str) -> None:
        self.jars.pop(scrape_id, None)
