"""Downloader middlewares: options, the engine of a page, uploads, blocked sites, redirects, retries.

Also defines signals beside those of Scrapy, sent through ``crawler.signals``.
"""

from __future__ import annotations

import functools
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ada_url
from attrs import define
from scrapy import signals
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from scraper_service.content.page_urls import has_host, is_route
from scraper_service.crawling import Component
from scraper_service.crawling.browser import chromium
from scraper_service.crawling.page_errors import (
    SITE_BLOCKED,
    BlockedSite,
    HostBusy,
    TooManyRedirects,
    check_site,
)
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.discovery.outgoing_requests import BUSY, MAX_BACKOFF_S, backoff_s
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import TakenPage
from scraper_service.options.limits import (
    BROWSER,
    HTTP,
    PROFILE,
    is_elsewhere,
    needs_browser,
    parse_sites,
    prefers_browser,
    why_not_rendered,
)
from scraper_service.options.scrape import accept_language
from scraper_service.options.urls import origin
from scraper_service.shared_objects import Singletons

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.options.scrape import ScrapeOptions


#: The client of ``scrape_id`` is gone. The download of its page may be cancelled.
page_abandoned = object()

#: The job of the crawler was changed. Pages whose first request has not started yet return to
#: the scheduler, with :data:`~scraper_service.crawling.page_state.PUT_OFF` as their
#: ``retry_at``.
job_changed = object()

#: An ``item`` is complete: a page, a link of a map, a search result. Sent before pipelines
#: and feeds of the user, which may drop the item.
item_made = object()

#: The page of ``scrape_id`` has ended without an item.
page_ended = object()


DATABASE_S = 2.0  # until a page without a response of the database is tried again
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class SafeRedirect(RedirectMiddleware):
    """Follows redirects without a ``Referer``, and fails after too many.

    A response that redirects to no URL, or to no web URL, is itself the page.
    :class:`RequestOptionsMiddleware` drops the caller's headers at another origin.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # Scrapy's way looks for the RefererMiddleware, which is off.
        middleware = cls(crawler.settings)
        middleware.crawler = crawler
        return middleware

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
        except IgnoreRequest:
            text = f"more than {self.max_redirect_times} redirects"
            raise TooManyRedirects(text) from None
        return found if has_host(found.url) else response


def _target(url: str, location: bytes) -> str:
    """Return the target of a ``Location``, as a browser resolves it.

    Raises :exc:`ValueError` for an invalid URL.
    """
    ascii_only = _NOT_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), location)
    target: str = ada_url.join_url(url, ascii_only.decode())
    return target


class RetryAfter(RetryMiddleware):
    """Retries pages of a job whose site was busy.

    A page with a status of ``RETRY_HTTP_CODES`` is retried at most ``RETRY_TIMES`` times, and
    not at all if its host refuses all pages, or if it alone asks for more than
    ``MAX_BACKOFF_S``. Then the response is the page. Pages that their host admitted too late, or
    that need a database without a response, are retried without a limit. The scheduler holds a
    retry until ``retry_at`` of its state, and restarts its time. A single scrape is not
    retried, since its caller can decide about a retry.
    """

    def process_response(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, response: Response
    ) -> Request | Response:
        state = PageState.find(request)
        if state is None or not state.is_of_job:
            return response
        is_busy = response.status in BUSY
        again: Request | Response = response
        if not is_busy or self._is_worth_a_retry(request, state.retry_after_s):
            again = super().process_response(request, response)
        if again is not response:
            state.backoff_s = pause_s = backoff_s(again.meta["retry_times"])
            state.retry_at = time.monotonic() + max(pause_s, state.retry_after_s)
        elif is_busy and self.max_retry_times:
            self._pace.note_lost_page(pace_key(request.url))
        return again

    @property
    def _pace(self) -> HostPace:
        return HostPace.shared(self.crawler.settings)

    def _is_worth_a_retry(self, request: Request, asked_s: float) -> bool:
        """Return False if a host refuses all pages, or only this one for a long time."""
        host = pace_key(request.url)
        # The host goes on without this page, and the end of the job would wait for it.
        is_broken = asked_s > MAX_BACKOFF_S and self._pace.pause_s(host) < asked_s / 2
        return not (is_broken or self._pace.refuses_all(host))

    def process_exception(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, exception: Exception
    ) -> Request | None:
        state = PageState.find(request)
        if state is None or not state.is_of_job:
            return None
        if isinstance(exception, HostBusy):
            state.retry_at = exception.opens_at
        elif isinstance(exception, ServiceUnavailable):
            state.retry_at = time.monotonic() + DATABASE_S
        else:
            return None
        return request.replace(dont_filter=True)


class FreshCookies(CookiesMiddleware):
    """Keeps a cookie jar per ``meta["cookiejar"]``, and drops it when its page ends.

    Otherwise a resident crawler would keep the jar of each scrape. Pages of a job share one
    jar. Cookies of the caller are never stored in a jar: they go to the requested origin
    only, while cookies of a site go to all ports of its host.
    """

    _has_jars_of_pages = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = super().from_crawler(crawler)
        connect = crawler.signals.connect
        connect(middleware._page_ended, signals.item_dropped)
        connect(middleware._page_ended, signals.item_error)
        connect(middleware._page_ended, signals.spider_error)
        connect(middleware._forget, page_ended)
        return middleware

    def process_request(  # type: ignore[override]  # its spider is deprecated
        self, request: Request
    ) -> None:
        jar = request.meta.get("cookiejar")
        if jar is not None and not self._has_jars_of_pages:
            # Each item pays for a receiver of its signal; pages of jobs need none.
            self._has_jars_of_pages = True
            self.crawler.signals.connect(self._page_ended, signals.item_scraped)
        if request.cookies or jar in self.jars or "Cookie" in request.headers:
            super().process_request(request)
        state = PageState.find(request)
        if state is None or origin(request.url) != state.first_origin:
            return
        headers = state.options.headers
        ours = [value for name, value in headers if name.lower() == "cookie"]
        if ours:
            stored = (request.headers.get("Cookie") or b"").decode("latin-1")
            request.headers["Cookie"] = "; ".join(filter(None, (*ours, stored)))

    def process_response(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, response: Response
    ) -> Response:
        if "Set-Cookie" in response.headers:
            super().process_response(request, response)
        return response

    def _page_ended(self, response: Any) -> None:
        request = getattr(response, "request", None)
        jar = None if request is None else request.meta.get("cookiejar")
        if jar is not None:  # else the jar of the job, for all its pages
            self.jars.pop(jar, None)

    def _forget(self, scrape_id: str) -> None:
        self.jars.pop(scrape_id, None)


class BlockedSitesMiddleware(Component):
    """Refuses requests to ``BLOCKED_SITES`` and to sites that the caller excludes.

    Applies to redirects, too, and before the robots.txt of a site is fetched.
    """

    def __init__(self, crawler: Crawler):
        self._sites = parse_sites(crawler.settings.getlist("BLOCKED_SITES"))

    def process_request(self, request: Request) -> None:
        if self._sites.covers(request.url):
            raise BlockedSite(SITE_BLOCKED)
        if (state := PageState.find(request)) is not None:
            check_site(request.url, state.options)


class UploadedFiles:
    """Responds to a request with its uploaded file.

    Or with the page of a session of the browser. The first of the downloader middlewares, so
    neither needs the network.
    """

    def process_request(self, request: Request) -> Response | None:
        state = PageState.find(request)
        given = None if state is None else state.given
        if isinstance(given, TakenPage):
            return Response(
                given.url,
                given.status,
                headers={"Content-Type": "text/html; charset=utf-8"},
                body=given.body,
                request=request,
                flags=["browser"],
            )
        if given is None:
            return None
        return Response(
            request.url,
            headers={"Content-Type": given.content_type},
            body=given.body,
            request=request,
        )


class RequestOptionsMiddleware(Component):
    """Applies the options of a page to its request, and again at each redirect.

    The caller's headers and cookies go to the requested origin only. A redirect to another
    scheme, host or port loses them.
    """

    def __init__(self, crawler: Crawler):
        self._engines = Engines.shared(crawler.settings)

    def process_request(self, request: Request) -> None:
        state = PageState.find(request)
        if state is None:
            return
        options = state.options
        if state.engine is None:
            state.engine = self._engines.choose(request.url, options)
        request.meta["download_timeout"] = options.load_timeout_ms / 1000
        if state.first_origin is None:
            state.first_origin = origin(request.url)
        for name, value in options.headers:
            if origin(request.url) != state.first_origin:
                request.headers.pop(name, None)
            elif (
                name.lower() != "cookie"
            ):  # FreshCookies adds it to cookies of the site
                request.headers[name] = value
        languages = options.location.languages if options.location else ()
        if language := accept_language(languages):
            request.headers.setdefault("Accept-Language", language)


SHELLS = 3  # in a row, until all pages of their site are taken for empty shells
REMEMBER_S = 3600.0  # that they are
MAX_SITES = 10_000


class Engines:
    """Chooses by the setting ``RENDER``, the options of the page, and its site."""

    _instances: ClassVar[Singletons[Engines]] = Singletons()

    def __init__(self, settings: BaseSettings):
        self._mode: str = settings["RENDER"]
        self._settings = settings
        self._sites: OrderedDict[object, _Site] = OrderedDict()

    @classmethod
    def shared(cls, settings: BaseSettings) -> Engines:
        """Return the engines of this process. Crawlers share the known state of sites."""
        names = ("RENDER", "CHROMIUM_PATH", "BROWSER_SANDBOX")
        key = tuple(str(settings[name]) for name in names)
        return cls._instances.get(key, lambda: cls(settings))

    @functools.cached_property
    def missing(self) -> str | None:
        """The reason why there is no browser, None if there is one."""
        return chromium.why_missing(self._settings)

    def choose(self, url: str, options: ScrapeOptions) -> str:
        """Return ``http`` or ``browser`` for the first fetch of a page."""
        needed = needs_browser(options)
        if needed not in {None, PROFILE}:
            return BROWSER
        wanted = (
            needed
            or self._mode == "always"
            or is_elsewhere(options)
            or prefers_browser(options)
            # The site sends its shell only: the browser keeps the route to itself.
            or (not options.fast_mode and (has_route(url) or self._has_shells(url)))
        )
        return BROWSER if wanted and self.missing is None else HTTP

    def looks_for_shells(self, options: ScrapeOptions) -> bool:
        """Return True if a page fetched over HTTP may be fetched again by the browser."""
        return why_not_rendered(options, self.missing) is None

    def _has_shells(self, url: str) -> bool:
        site = self._sites.get(origin(url))
        return site is not None and site.until > time.monotonic()

    def note_page(self, url: str, *, is_shell: bool) -> None:
        """Note if a page that came over HTTP is empty before its scripts run.

        After :data:`SHELLS` such pages in a row all pages of the site are rendered.
        """
        key = origin(url)
        if not is_shell:
            self._sites.pop(key, None)
            return
        site = self._sites.setdefault(key, _Site())
        site.shells += 1
        if site.shells >= SHELLS:
            site.until = time.monotonic() + REMEMBER_S
        self._sites.move_to_end(key)
        while len(self._sites) > MAX_SITES:
            self._sites.popitem(last=False)


def has_route(url: str) -> bool:
    """Return True if the page of a URL exists in a browser only, behind a ``#``."""
    return is_route(url.partition("#")[2])


@define
class _Site:
    """A site whose last page that came over HTTP was empty before its scripts run."""

    #: Such pages in a row.
    shells: int = 0
    #: All pages are rendered until then, by :func:`time.monotonic`.
    until: float = 0.0
