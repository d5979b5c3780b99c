"""The download handler: aiohttp below Scrapy, every connection under the egress rule.

It subclasses Scrapy's experimental aiohttp handler, whose names are private: Scrapy is
pinned to 2.19 and the tests of the egress rule guard the seam.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import ssl
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from scrapy.core.downloader.handlers import _aiohttp
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadTimeoutError,
)
from scrapy.http import Headers
from scrapy.signals import item_scraped

from scraper_service.crawling import signals
from scraper_service.crawling.browser.errors import (
    BrowserBusy,
    BrowserGone,
    BrowserMissing,
    NotAPage,
)
from scraper_service.crawling.download.download_errors import SiteBusy
from scraper_service.crawling.download.egress import (
    EgressPolicy,
    Refusals,
)
from scraper_service.crawling.download.http_session import download_error, open_session
from scraper_service.crawling.download.proxies import Proxies, vetted
from scraper_service.crawling.download.rendering import PageRendering
from scraper_service.crawling.report_recorder import JobRecorder
from scraper_service.options.engine import BROWSER, HTTP, needs_browser
from scraper_service.options.origins import host_of, plain_address
from scraper_service.storage.politeness.hosts import BUSY, pace_key, retry_after_s
from scraper_service.storage.politeness.pace import HostBusy, HostPace
from scraper_service.storage.politeness.tally import BACKOFF, RETRY_AFTER, HostTally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scraper_service.storage.politeness.pace import Slot
    from scraper_service.storage.politeness.tally import Visit

logger = logging.getLogger(__name__)

REFUSALS = frozenset({401, 403, 429, 503})  # that another proxy may change
PATIENCE_S = 1.0  # of a page of a job, while its host is closed


@functools.cache
def _verified() -> ssl.SSLContext:
    """Return the one context that verifies: to read the certificates takes 50 ms."""
    context = ssl.create_default_context()
    # Python leaves out ciphers with SHA-1, which OpenSSL and browsers still speak.
    context.set_ciphers("DEFAULT")
    return context


class PageDownloadHandler(_aiohttp.AiohttpDownloadHandler):
    """Fetch a page over HTTP, at the pace of its host, in the time its caller has left.

    Every request of ours passes here, robots.txt and redirects too. Reads
    ``request.meta``: ``options`` (whether to verify certificates), ``deadline``
    (:func:`time.monotonic`, for all hops together), ``download_timeout`` (s, for this
    hop), ``scrape_id`` (which :data:`signals.page_abandoned` may name), ``engine``.
    Writes ``engine`` and ``proxy_used``, as they came to be, ``rendered`` and
    ``transport_warnings``.
    """

    experimental = False  # pinned and tested; the warning would greet every start
    lazy = True  # it needs a running loop, which `scrapy shell` has only later

    def __init__(self, crawler: Crawler):
        self._pace = HostPace.shared(crawler.settings)
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        self._tally = JobRecorder.tally_of(crawler)
        self._egress = EgressPolicy(crawler.settings.getlist("EGRESS_ALLOW"))
        super().__init__(crawler)
        self._verified = _verified()
        self._running: dict[str, asyncio.Task[Response]] = {}
        self._unused_session = self._session
        address = self._bind_address
        self._session = open_session(address, self._egress.open_socket)
        self._proxies = Proxies.shared(crawler.settings)
        # Proxies may stand where pages may not come from.
        self._proxied = open_session(address)
        self._rendering = PageRendering(crawler, self._egress)
        self._abandoned: set[str] = set()  # of pages that have not ended yet
        crawler.signals.connect(self._abandon, signals.page_abandoned)

    async def download_request(self, request: Request) -> Response:
        """Return the answer; raise one of Scrapy's download errors or ours."""
        key = request.meta.get("scrape_id", request.url)
        if key in self._abandoned:  # while it waited for its turn at the host
            raise DownloadCancelledError("the caller went away")
        task = asyncio.ensure_future(self._download(request))
        self._running[key] = task
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled():
                raise DownloadCancelledError("the caller went away") from None
            task.cancel()
            raise
        finally:
            self._running.pop(key, None)

    async def _download(self, request: Request) -> Response:
        owner = self._job_id or request.meta.get("team_id") or ""
        deadline = request.meta.get("deadline", math.inf)
        # Pages of jobs wait in their scheduler, where they hold up no shut-down.
        patience_s = math.inf if request.meta.get("lease") is None else PATIENCE_S
        host = pace_key(request.url)
        tally = self._tally.host(host) if self._tally else HostTally()
        slot = self._pace.slot(host, owner, deadline, patience_s)
        try:
            with tally.visit() as visit:
                async with slot:
                    visit.begin(slot.gap_s)
                    return await self._answer(request, slot, visit)
        except HostBusy as busy:
            raise SiteBusy(busy) from busy

    async def _answer(self, request: Request, slot: Slot, visit: Visit) -> Response:
        try:
            response = await self._by_proxy(request)
        except DownloadTimeoutError:
            visit.answered("timeout", backoff=slot.timed_out())
            raise
        _note(slot, visit, request, response)
        return response

    async def _by_proxy(self, request: Request) -> Response:
        """Fetch by the kind of proxy that is asked for; ``auto`` tries the better one."""
        options = request.meta.get("options")
        wanted = "basic" if options is None else options.proxy
        kind = (
            wanted if wanted == "stealth" and self._proxies.has("stealth") else "basic"
        )
        response = await self._by_engine(request, kind)
        if (
            wanted == "auto"
            and response.status in REFUSALS
            and self._proxies.has("stealth")
        ):
            response = await self._by_engine(request, "stealth")
        return response

    async def _by_engine(self, request: Request, kind: str) -> Response:
        options = request.meta.get("options")
        session = (options and options.storage) or self._job_id
        request.meta["proxy_used"] = kind
        upstream = self._proxies.choose(kind, session)
        if upstream is not None:
            host = host_of(request.url)
            logger.info("asking %s through the %s proxy %s", host, kind, upstream.url)
        meta = request.meta
        if meta.get("engine") == BROWSER and "robots_only" not in meta:
            try:
                response = await self._rendering.download(request, upstream)
                if upstream is not None:
                    upstream.worked()
                return response
            except NotAPage:
                _remark(
                    request, "The address is a file: it was fetched without browser."
                )
            except (BrowserMissing, BrowserBusy, BrowserGone) as error:
                if options is None or needs_browser(options):
                    raise
                _remark(request, f"The page was fetched without browser: {error}.")
            meta["engine"] = HTTP
        meta["upstream"] = upstream
        try:
            return await super().download_request(request)
        finally:
            del meta["upstream"]

    def _abandon(self, scrape_id: str) -> None:
        # Not before: each page would pay for it. A second time, it changes nothing.
        self.crawler.signals.connect(self._page_ended, item_scraped)
        self._abandoned.add(scrape_id)
        if task := self._running.get(scrape_id):
            task.cancel()

    def _page_ended(self, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            self._abandoned.discard(request.meta.get("scrape_id"))

    @asynccontextmanager
    async def _make_request(
        self,
        request: Request,
        timeout: float,  # noqa: ASYNC109  # the name is the base class's
    ) -> AsyncIterator[_aiohttp._ClientResponse]:
        options = request.meta.get("options")
        verify = options is not None and not options.skip_tls_verification
        if (deadline := request.meta.get("deadline")) is not None:
            timeout = min(timeout, deadline - time.monotonic())
        if timeout <= 0:
            raise DownloadTimeoutError("no time was left to fetch the page")
        upstream = request.meta.get("upstream")
        session = self._session
        way: dict[str, Any] = {}
        # Of projects with our handler; our own spiders never set it.
        if proxy := self._extract_proxy_url_with_creds(request):
            way = {"proxy": proxy}
        elif upstream is not None:
            way = upstream.for_aiohttp()
        if way:
            await vetted(self._egress, request.url)
            session = self._proxied
        with Refusals() as refusals:
            try:
                async with await session.request(
                    request.method,
                    # As Scrapy encoded it: yarl would encode once more.
                    yarl.URL(plain_address(request.url), encoded=True),
                    data=request.body or None,
                    headers=self._request_headers(request).to_tuple_list(),
                    timeout=aiohttp.ClientTimeout(total=timeout),
                    ssl=self._verified if verify else self._ssl_context,
                    allow_redirects=False,
                    **way,
                ) as response:
                    assert isinstance(response, _aiohttp._ClientResponse)
                    yield response
                    if upstream is not None:
                        upstream.worked()
            except (OSError, ValueError, aiohttp.ClientError) as error:
                if upstream is not None:
                    upstream.failed()
                if refusals.errors:
                    raise refusals.errors[0] from error
                raise download_error(error, timeout) from error

    @staticmethod
    def _extract_headers(response: _aiohttp._ClientResponse) -> Headers:
        # As they came: values are not always UTF-8.
        return Headers(response.raw_headers)

    @staticmethod
    async def _iter_body_chunks(
        response: _aiohttp._ClientResponse,
    ) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except aiohttp.ClientPayloadError:
            # What came before the fault; no public method gives it now.
            yield b"".join(response.content._buffer)
            raise

    async def close(self) -> None:
        """Close the connections; at the end of the crawl."""
        await super().close()
        await self._unused_session.close()
        await self._rendering.close()
        await self._proxied.close()


def _remark(request: Request, text: str) -> None:
    known = request.meta.get("transport_warnings", ())
    request.meta["transport_warnings"] = (*known, text)


def _note(slot: Slot, visit: Visit, request: Request, response: Response) -> None:
    """Tell the pace how a site answered, and what pause it asks for."""
    pause_s = None
    if asked := response.headers.get("Retry-After"):
        sent = (response.headers.get("Date") or b"").decode("latin-1")
        pause_s = retry_after_s(asked.decode("latin-1"), sent, time.time())
    latency_s = request.meta["download_latency"]
    status, size = response.status, len(response.body)
    backoff = slot.answered(status, size, latency_s, pause_s)
    visit.answered(str(status), size, backoff)
    if status in BUSY and pause_s is not None:
        visit.delayed(RETRY_AFTER, pause_s)
    elif status in BUSY and backoff is not None and slot.pause_s:
        visit.delayed(BACKOFF, slot.pause_s)
