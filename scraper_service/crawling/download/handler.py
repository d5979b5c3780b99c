"""The download handler: aiohttp below Scrapy, with the egress rule for all connections."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import ssl
import time
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp
import yarl
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadTimeoutError,
)
from scrapy.signals import item_scraped

from scraper_service.crawling import middlewares
from scraper_service.crawling.browser import chromium
from scraper_service.crawling.browser.running_browser import load_modules
from scraper_service.crawling.converter_pool.converter_queue import LARGE_BYTES
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.crawling.download.http_session import (
    download_error,
    open_session,
)
from scraper_service.crawling.egress import (
    EgressPolicy,
    Refusals,
)
from scraper_service.crawling.middlewares import has_route
from scraper_service.crawling.observability import (
    FETCH_SECONDS,
    FETCHED_BYTES,
    SITE_RESPONSES,
    JobRecorder,
)
from scraper_service.crawling.page_errors import (
    BrowserBusy,
    BrowserGone,
    BrowserMissing,
    ConvertersBusy,
    HostBusy,
    NotAPage,
)
from scraper_service.crawling.page_state import (
    PUT_OFF,
    FetchKind,
    FetchLimits,
    PageState,
)
from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.crawling.proxies import Proxies, UpstreamProxy, resolve
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.crawling.scrapy_shortcuts import (
    PageResponse,
    StreamingHandler,
)
from scraper_service.discovery.outgoing_requests import retry_after_s
from scraper_service.options.limits import BROWSER, HTTP, needs_browser
from scraper_service.options.urls import host_of, plain_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

    from scraper_service.crawling.browser.render import PageRendering
    from scraper_service.crawling.politeness.host_pace import Slot

logger = logging.getLogger(__name__)

WITHOUT_ROUTE = (
    "The page is a route behind the # of its URL, which only a browser shows; it was"
    " fetched without a browser."
)
REFUSALS = frozenset({401, 403, 429, 503})  # statuses that another proxy may change
_CLASSES = {number: f"{number}xx" for number in range(1, 6)}
EARLY_S = 0.25  # before the caller's own time-out, which knows no reason
PATIENCE_S = 1.0  # of a page of a job, while its host pauses
#: The proxy of the running request: Scrapy's handler has no argument for it.
_upstream: ContextVar[UpstreamProxy | None] = ContextVar("upstream", default=None)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Return the shared context with certificates, which take 50 ms to load."""
    context = ssl.create_default_context()
    # Python excludes ciphers with SHA-1, which OpenSSL and browsers still support.
    context.set_ciphers("DEFAULT")
    return context


class PageDownloadHandler(StreamingHandler):
    """Fetches a page over HTTP, at the pace of its host, before its deadline.

    Handles all requests, including robots.txt and redirects.
    :class:`~scraper_service.crawling.page_state.PageState` lists the fields it writes.
    ``download_timeout`` limits one request; the deadline of a page covers all its redirects.
    The signal :data:`~scraper_service.crawling.middlewares.page_abandoned` cancels the request
    of a page.
    """

    def __init__(self, crawler: Crawler):
        self._pace = HostPace.shared(crawler.settings)
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        self._tally = JobRecorder.tally_of(crawler)
        self._egress = EgressPolicy(crawler.settings.getlist("EGRESS_ALLOW"))
        super().__init__(crawler)
        self._running: dict[str, asyncio.Task[Any]] = {}  # downloads, by page
        self._cancelled: set[str] = set()  # keys of downloads that were cancelled
        self._direct = open_session(self.bind_address, self._egress.open_socket)
        self._pool = ConverterPool.shared(crawler.settings)
        self._proxies = Proxies.shared(crawler.settings)
        # Proxies may be in networks that pages must not reach.
        self._proxied = open_session(self.bind_address)
        self._rendering: PageRendering | None = None  # until a page needs the browser
        self._abandoned: set[str] = set()  # ids of pages that have not ended yet
        self._first: WeakSet[Slot] = WeakSet()  # slots of the first requests of pages
        crawler.signals.connect(self._abandon, middlewares.page_abandoned)
        crawler.signals.connect(self._put_off, middlewares.job_changed)

    async def download_request(self, request: Request) -> Response:
        """Return the response. Raise Scrapy's download errors or ours."""
        state = PageState.find(request)
        key = request.url if state is None else state.scrape_id
        if key in self._abandoned or self._has_ended(state):  # while it waited
            raise DownloadCancelledError("the caller went away")
        task = asyncio.current_task()
        assert task is not None
        self._running[key] = task
        try:
            return await self._download(request, state)
        except asyncio.CancelledError:
            if key not in self._cancelled:
                raise
            task.uncancel()
            raise DownloadCancelledError("the caller went away") from None
        finally:
            self._running.pop(key, None)
            self._cancelled.discard(key)

    def _has_ended(self, state: PageState | None) -> bool:
        """Return True for a page of a cancelled job.

        The first request creates a handler: it has missed signals for earlier pages.
        """
        scheduler = self._scheduler_of(state)
        return scheduler is not None and scheduler.has_ended

    def _scheduler_of(self, state: PageState | None) -> LeasedScheduler | None:
        if state is None or not state.is_of_job:
            return None
        return LeasedScheduler.find(self.crawler)

    def _put_off(self) -> None:
        for slot in self._first:
            slot.refuse(PUT_OFF)

    async def _download(self, request: Request, state: PageState | None) -> Response:
        owner = self._job_id or (state.team_id if state is not None else None) or ""
        lease = None if state is None else state.lease
        # Pages of jobs wait in their scheduler, where they do not delay a shutdown.
        patience_s = math.inf if lease is None else PATIENCE_S
        host, deadline = pace_key(request.url), FetchLimits.of(request).deadline
        slot = self._pace.slot(host, owner, deadline, patience_s, self._tally)
        scheduler = self._scheduler_of(state)
        if scheduler is not None and state is not None and state.began_at is None:
            if scheduler.is_paused:
                raise HostBusy(host, PUT_OFF)
            self._first.add(slot)
        async with slot:
            if scheduler is not None and lease is not None:
                scheduler.note_request(lease.row_id)
            began = time.monotonic()
            if state is not None and state.began_at is None:
                state.began_at = began
            try:
                response = await self._by_proxy(request, state)
            except DownloadTimeoutError:
                slot.note_timeout()
                raise
            pause_s = _report(slot, request, response)
            if state is not None:
                state.retry_after_s = pause_s or 0.0
            engine = (state and state.engine) or HTTP
            _measure(engine, response, time.monotonic() - began)
            return response

    async def _by_proxy(self, request: Request, state: PageState | None) -> Response:
        """Fetch through the requested kind of proxy. ``auto`` tries the better kind last."""
        wanted = "basic" if state is None else state.options.proxy
        kind = (
            wanted if wanted == "stealth" and self._proxies.has("stealth") else "basic"
        )
        response = await self._by_engine(request, state, kind)
        if (
            wanted == "auto"
            and response.status in REFUSALS
            and self._proxies.has("stealth")
        ):
            response = await self._by_engine(request, state, "stealth")
        return response

    async def _by_engine(
        self, request: Request, state: PageState | None, kind: str
    ) -> Response:
        session = (state and state.options.storage) or self._job_id
        upstream = self._proxies.choose(kind, session)
        if upstream is None:
            upstream = self._proxies.outgoing(request.url)
        if upstream is not None:
            host = host_of(request.url)
            logger.info("asking %s through the %s proxy %s", host, kind, upstream.url)
        if state is not None:
            state.proxy = kind
            if state.engine == BROWSER and state.kind is FetchKind.PAGE:
                try:
                    rendering = await self._open_rendering()
                    response = await rendering.download(request, upstream)
                    if upstream is not None:
                        upstream.note_success()
                    return response
                except NotAPage:
                    state.warn("The URL is a file: it was fetched without a browser.")
                except (BrowserMissing, BrowserBusy, BrowserGone) as error:
                    if needs_browser(state.options):
                        raise
                    state.warn(f"The page was fetched without browser: {error}.")
                state.engine = HTTP
            if has_route(request.url):
                state.warn(WITHOUT_ROUTE)
        token = _upstream.set(upstream)
        try:
            return await super().download_request(request)
        finally:
            _upstream.reset(token)

    async def _open_rendering(self) -> PageRendering:
        """Return what renders pages, once its modules are imported."""
        if missing := chromium.why_missing(self.crawler.settings):
            raise BrowserMissing(missing)
        render = await load_modules()
        if self._rendering is None:
            self._rendering = render.PageRendering(self.crawler, self._egress)
        return self._rendering

    def _abandon(self, scrape_id: str) -> None:
        # Connected on first use, since each page pays for it. Connecting twice changes nothing.
        self.crawler.signals.connect(self._page_ended, item_scraped)
        self._abandoned.add(scrape_id)
        if task := self._running.get(scrape_id):
            self._cancelled.add(scrape_id)
            task.cancel()

    def _page_ended(self, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None and (state := PageState.find(request)) is not None:
            self._abandoned.discard(state.scrape_id)

    @asynccontextmanager
    async def open_response(
        self, request: Request, timeout_s: float
    ) -> AsyncIterator[PageResponse]:
        """Open a connection, or take an open one, and yield the response.

        Raises Scrapy's download errors or ours.
        """
        state, limits = PageState.find(request), FetchLimits.of(request)
        verify = state is not None and not state.options.skip_tls_verification
        timeout_s = min(timeout_s, limits.deadline - time.monotonic())
        if timeout_s <= 0:
            raise DownloadTimeoutError("no time was left to fetch the page")
        upstream = _upstream.get()
        session = self._direct
        way: dict[str, Any] = {}
        # From projects with our handler. Our own spiders never set it.
        if proxy := self.proxy_of(request):
            way = {"proxy": proxy}
        elif upstream is not None:
            way = upstream.for_aiohttp()
        if way:
            await resolve(self._egress, request.url, upstream)
            session = self._proxied
        # The first page over TLS loads the certificates.
        needs_tls = bool(way) or request.url[:5].lower() != "http:"
        async with AsyncExitStack() as held:
            refusals = held.enter_context(Refusals())
            try:
                async with await session.request(
                    request.method,
                    # As Scrapy encoded it: yarl would encode it again.
                    yarl.URL(plain_address(request.url), encoded=True),
                    data=request.body or None,
                    headers=_sent_headers(request.headers),
                    timeout=aiohttp.ClientTimeout(total=timeout_s),
                    ssl=_tls_context() if needs_tls and verify else self.unverified,
                    allow_redirects=False,
                    **way,
                ) as response:
                    assert isinstance(response, PageResponse)
                    response.cut_bytes = limits.cut_bytes
                    if state is not None:
                        response.large_bytes = LARGE_BYTES
                        response.before_large = functools.partial(
                            self._count_large, held, request, response, state
                        )
                        if state.is_of_job:
                            state.response_head = _head(response)
                    yield response
                    if upstream is not None:
                        upstream.note_success()
            except (OSError, ValueError, aiohttp.ClientError) as error:
                if upstream is not None:
                    upstream.note_failure()
                if refusals.errors:
                    raise refusals.errors[0] from error
                raise download_error(error, timeout_s) from error

    async def _count_large(
        self,
        held: AsyncExitStack,
        request: Request,
        response: PageResponse,
        state: PageState,
    ) -> None:
        """Count a large body in the queue of the converters before its rest is read.

        So large bodies have one bound, and one share for each team, on their whole way.
        """
        most = request.meta.get("download_maxsize", self._default_maxsize)
        size = response.content_length or most
        try:
            async with asyncio.timeout(state.deadline - time.monotonic() - EARLY_S):
                await held.enter_async_context(
                    self._pool.queue.reading(state.team_id, size)
                )
        except TimeoutError:
            text = "the page is large, and waited too long until it could be read"
            raise ConvertersBusy(text) from None

    async def close(self) -> None:
        """Close the connections at the end of the crawl."""
        await super().close()
        if self._rendering is not None:
            await self._rendering.close()
        await self._direct.close()
        await self._proxied.close()


def _head(response: PageResponse) -> bytes:
    version = response.version
    number = f"{version.major}.{version.minor}" if version else "1.1"
    first = f"HTTP/{number} {response.status} {response.reason or ''}"
    fields = (b"%s: %s" % field for field in response.raw_headers)
    first_line = first.strip().encode("latin-1", "replace")
    return b"\r\n".join((first_line, *fields, b"", b""))


def _sent_headers(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers of a request without ``Proxy-Authorization``."""
    return [
        (name.decode(), value.decode())
        for name, values in dict.items(headers)
        if name != b"Proxy-Authorization"
        for value in values
    ]


def _report(slot: Slot, request: Request, response: Response) -> float | None:
    """Report a response to the pace of the host. Return the pause that it asks for."""
    pause_s = None
    if value := response.headers.get("Retry-After"):
        sent = (response.headers.get("Date") or b"").decode("latin-1")
        pause_s = retry_after_s(value.decode("latin-1"), sent, time.time())
    latency_s = request.meta["download_latency"]
    size = len(response.body)
    slot.note_response(response.status, size, latency_s, pause_s, page=request.url)
    return pause_s


def _measure(engine: str, response: Response, seconds: float) -> None:
    fetches, received = _counters(engine)
    fetches.observe(seconds)
    received.inc(len(response.body))
    _responses(_CLASSES.get(response.status // 100, "other")).inc()


_responses = functools.cache(SITE_RESPONSES.labels)


@functools.cache
def _counters(engine: str) -> tuple[Any, Any]:
    """Return the metrics of an engine, which are slow to find."""
    return FETCH_SECONDS.labels(engine), FETCHED_BYTES.labels(engine)
