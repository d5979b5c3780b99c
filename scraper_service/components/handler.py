"""The download handler: aiohttp below Scrapy, every connection under the egress rule.

It subclasses Scrapy's experimental aiohttp handler, whose names are private: Scrapy is
pinned to 2.19 and the tests of the egress rule guard the seam.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from scrapy.core.downloader.handlers import _aiohttp
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)
from scrapy.signals import item_scraped

from scraper_service.components import signals
from scraper_service.components.egress import (
    EgressPolicy,
    ForbiddenDestination,
    Refusals,
)
from scraper_service.components.recorder import JobRecorder
from scraper_service.jobs.hosts import BUSY, pace_key, retry_after_s
from scraper_service.jobs.pace import HostBusy, HostPace
from scraper_service.jobs.tally import BACKOFF, RETRY_AFTER, HostTally
from scraper_service.options.origins import plain_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scraper_service.jobs.pace import Slot
    from scraper_service.jobs.tally import Visit

CONNECTIONS = 256  # open at a time; HostPace holds the hosts
HEADER_BYTES = 64 * 1024  # one line; real sites exceed aiohttp's 8 KiB
KEEPALIVE_S = 15
PATIENCE_S = 1.0  # of a page of a job, while its host is closed


class CertificateError(DownloadFailedError):
    """The site's certificate, or its TLS, did not stand the check."""


class SiteBusy(DownloadTimeoutError):
    """The pace of the site leaves no time for the request before its deadline.

    ``opens_at`` (:func:`time.monotonic`) is when it is worth to ask again.
    """

    def __init__(self, busy: HostBusy):
        super().__init__(str(busy))
        self.opens_at = busy.opens_at


class PageDownloadHandler(_aiohttp.AiohttpDownloadHandler):
    """Fetch a page over HTTP, at the pace of its host, in the time its caller has left.

    Every request of ours passes here, robots.txt and redirects too. Reads ``request.meta``: ``options`` (whether to verify certificates), ``deadline``
    (:func:`time.monotonic`, for all hops together), ``download_timeout`` (s, for this
    hop), ``scrape_id`` (which :data:`signals.page_abandoned` may name).
    """

    experimental = False  # pinned and tested; the warning would greet every start

    def __init__(self, crawler: Crawler):
        self._pace = HostPace.shared(crawler.settings)
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        self._tally = JobRecorder.tally_of(crawler)
        self._egress = EgressPolicy(crawler.settings.getlist("EGRESS_ALLOW"))
        super().__init__(crawler)
        self._verified = ssl.create_default_context()
        self._running: dict[str, asyncio.Task[Response]] = {}
        self._unused_session = self._session
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS,
                limit_per_host=0,
                local_addr=self._bind_address,
                keepalive_timeout=KEEPALIVE_S,
                socket_factory=self._egress.open_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            response_class=_aiohttp._ClientResponse,
            skip_auto_headers=(
                "Accept",
                "Accept-Encoding",
                "Content-Type",
                "User-Agent",
            ),
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
        )
        self._abandoned: set[str] = set()  # of pages that have not ended yet
        crawler.signals.connect(self._abandon, signals.page_abandoned)
        crawler.signals.connect(self._page_ended, item_scraped)

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
            response = await super().download_request(request)
        except DownloadTimeoutError:
            visit.answered("timeout", backoff=slot.timed_out())
            raise
        _note(slot, visit, request, response)
        return response

    def _abandon(self, scrape_id: str) -> None:
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
        with Refusals() as refusals:
            try:
                async with await self._session.request(
                    request.method,
                    # As Scrapy encoded it: yarl would encode once more.
                    yarl.URL(plain_address(request.url), encoded=True),
                    data=request.body or None,
                    headers=self._request_headers(request).to_tuple_list(),
                    timeout=aiohttp.ClientTimeout(total=timeout),
                    ssl=self._verified if verify else self._ssl_context,
                    allow_redirects=False,
                ) as response:
                    assert isinstance(response, _aiohttp._ClientResponse)
                    yield response
            except (OSError, ValueError, aiohttp.ClientError) as error:
                if refusals.reasons:
                    raise ForbiddenDestination(refusals.reasons[0]) from error
                raise _download_error(error, timeout) from error

    async def close(self) -> None:
        """Close the connections; at the end of the crawl."""
        await super().close()
        await self._unused_session.close()


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


def _download_error(error: Exception, timeout: float) -> Exception:
    """Return the error of Scrapy, or ours, that says what happened."""
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"no complete answer within {timeout:.1f} s")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return UnsupportedURLSchemeError(str(error))
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, ssl.SSLError)):
        return CertificateError(str(error))
    if isinstance(error, aiohttp.ClientSSLError):
        return CertificateError(str(error))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return CannotResolveHostError(str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return DownloadConnectionRefusedError(str(error))
    if isinstance(error, ValueError):
        return DownloadFailedError(f"the address cannot be fetched: {error}")
    return DownloadFailedError(str(error) or type(error).__name__)
