"""Scrapy's downloader without its queue: requests have waited in the scheduler."""

from __future__ import annotations

import inspect
import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scrapy import exceptions, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.stats import (
    DownloaderStats,
    get_header_size,
    get_status_size,
)
from scrapy.http import Request, Response
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.python import global_object_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from scrapy.crawler import Crawler


logger = logging.getLogger(__name__)
#: Raised for a component that returns what it must not.
_InvalidOutput: type[Exception] = getattr(exceptions, "_InvalidOutput", TypeError)
_WARNS = "_warn" in inspect.signature(ensure_awaitable).parameters


def has(found: object, *names: str) -> bool:
    """Return True if an object has all names: the dotted paths of attributes.

    The probe of each shortcut: without private names of Scrapy, its own way is taken.
    """
    try:
        attrgetter(*names)(found)
    except AttributeError as error:
        logger.warning("a shortcut through Scrapy is off: %s", error)
        return False
    return True


def awaitable(value: Any, method: Callable[..., Any]) -> Awaitable[Any]:
    """Return what ``method`` has returned as an awaitable. Warns of a Deferred."""
    facts = {"_warn": global_object_name(method)} if _WARNS else {}
    return ensure_awaitable(value, **facts)


class DirectDownloader(Downloader):
    """Downloads a request at once, unless settings of Scrapy delay it.

    ``HostPace`` admits requests. Scrapy's queue would cost a task for each of them.
    """

    def __init__(self, crawler: Crawler):
        super().__init__(crawler)
        #: False without the private names of Scrapy's downloader: then its queue is used.
        self.is_direct = has(super(), "_enqueue_request", "_get_slot", "_download")
        known = self.middleware.middlewares
        self.middleware = DirectMiddlewares(*known, crawler=crawler)

    async def _enqueue_request(self, request: Request) -> Response:
        if not self.is_direct:
            return await super()._enqueue_request(request)
        key, slot = self._get_slot(request)
        if slot.delay or slot.queue or slot.free_transfer_slots() <= 0:
            return await super()._enqueue_request(request)
        request.meta[self.DOWNLOAD_SLOT] = key
        slot.active.add(request)
        self.signals.send_catch_log(
            signal=signals.request_reached_downloader,
            request=request,
            spider=self.crawler.spider,
        )
        try:
            return await self._download(slot, request)
        finally:
            slot.active.remove(request)


class DirectMiddlewares(DownloaderMiddlewareManager):
    """Calls the methods of middlewares in the order of the base class.

    The base class makes a coroutine of each result, also of None and of responses. It takes its
    own way if it does not call the private methods here, or counts no methods with a spider.
    """

    async def _process_request(
        self,
        request: Request,
        download_func: Callable[[Request], Coroutine[Any, Any, Response]],
    ) -> Response | Request:
        if getattr(self, "_mw_methods_requiring_spider", True):
            return await super()._process_request(request, download_func)
        for method in self.methods["process_request"]:
            assert method is not None
            value = method(request=request)
            if value is not None:
                result = await _result(value, method)
                if result is not None:
                    return result
        return await download_func(request)

    async def _process_response(
        self, response: Response | Request, request: Request
    ) -> Response | Request:
        if getattr(self, "_mw_methods_requiring_spider", True):
            return await super()._process_response(response, request)
        for method in self.methods["process_response"]:
            if isinstance(response, Request):
                break
            assert method is not None
            value = method(request=request, response=response)
            if not isinstance(value, (Response, Request)):
                value = await _result(value, method)
                if value is None:
                    raise _InvalidOutput(f"{global_object_name(method)} returned None")
            response = value
        return response


async def _result(value: Any, method: Callable[..., Any]) -> Response | Request | None:
    """Return the response or request that ``method`` has returned or promised, or None."""
    if isinstance(value, (Response, Request)):
        return value
    found: Response | Request | None = await awaitable(value, method)
    if found is None or isinstance(found, (Response, Request)):
        return found
    raise _InvalidOutput(f"{global_object_name(method)} must not return {type(found)}")


class RequestStats(DownloaderStats):
    """Counts what Scrapy's middleware counts, without a copy of requests and headers."""

    def process_request(  # type: ignore[override]  # its spider is deprecated
        self, request: Request
    ) -> None:
        count = self.stats.inc_value
        count("downloader/request_count")
        count(f"downloader/request_method_count/{request.method}")
        count("downloader/request_bytes", _request_bytes(request))

    def process_response(  # type: ignore[override]  # its spider is deprecated
        self, request: Request, response: Response
    ) -> Response:
        count = self.stats.inc_value
        count("downloader/response_count")
        count(f"downloader/response_status_count/{response.status}")
        # A plain dictionary does not normalise the names again.
        size = len(response.body) + get_header_size(dict(response.headers))
        count("downloader/response_bytes", size + get_status_size(response.status) + 4)
        return response


def _request_bytes(request: Request) -> int:
    """Return the length of :func:`scrapy.utils.request.request_httprepr`."""
    parts = urlparse_cached(request)
    size = len(request.method) + 1 + len(parts.path or "/") + len(" HTTP/1.1\r\n")
    size += len(parts.params) + bool(parts.params)
    size += len(parts.query) + bool(parts.query)
    size += len("Host: \r\n") + len(parts.hostname or "")
    size += sum(
        len(name) + len(": ") + len(value) + len("\r\n")
        for name, values in dict.items(request.headers)
        for value in values
    )
    return size + len("\r\n") + len(request.body)
