"""All that touches private names of Scrapy, each shortcut with a probe for them.

Scrapy runs seven tasks, as many deferreds and ten asynchronous generators for each page, so
that items of a response can be processed at the same time, and spider middlewares can change
them. A page takes one task here. Without a name, Scrapy's own way is taken, which is slower.

The download handler alone has no other way: Scrapy's own has no egress rule, so without its
private names no page is fetched.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from abc import abstractmethod
from collections.abc import AsyncIterator
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import aiohttp
from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import exceptions, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers import _aiohttp
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.stats import (
    DownloaderStats,
    get_header_size,
    get_status_size,
)
from scrapy.http import Headers, Request, Response
from scrapy.logformatter import LogFormatter
from scrapy.pipelines import ItemPipelineManager
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.defer import ensure_awaitable, iter_errback
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.python import global_object_name
from twisted.python.failure import Failure

from scraper_service.crawling import Component
from scraper_service.shared_objects import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from contextlib import AbstractAsyncContextManager

    from scrapy.core.engine import ExecutionEngine
    from scrapy.core.scraper import Scraper
    from scrapy.crawler import Crawler
    from scrapy.signalmanager import SignalManager

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


_of_engine = logging.getLogger("scrapy.core.engine")
_of_scraper = logging.getLogger("scrapy.core.scraper")


_OF_SCRAPER = (
    *("handle_spider_output_async", "handle_spider_error"),
    "_process_spidermw_output_async",
)
_OF_SPIDERS = ("spidermw.scrape_response_async",)
_OF_ENGINE = (
    *("_start_scheduled_request", "logformatter.crawled"),
    *("_slot.scheduler", "_slot.nextcall.schedule"),
    *("_slot.add_request", "_slot.remove_request"),
    *("scraper._scrape", "scraper._check_if_closing", "scraper.slot.finish_response"),
    *("scraper.slot.add_response_request", "downloader.middleware.download_async"),
    "scraper.slot.next_response_request_deferred",
)


def nudge(engine: ExecutionEngine | None) -> None:
    """Make the engine ask its scheduler for the next request.

    Otherwise the engine asks only after a response, or every 5 s. Has no effect while the
    engine is opening: it then asks the scheduler by itself.
    """
    slot = getattr(engine, "_slot", None)
    nextcall = getattr(slot, "nextcall", None)
    if nextcall is None or engine is None or engine.scraper.slot is None:
        return
    if getattr(slot, "closing", None) is None:
        nextcall.schedule()


class DirectItems(Component):
    """Passes the items of a response to the pipelines one by one.

    Only with a ``CONCURRENT_ITEMS`` of 1. Without spider middlewares, passes responses directly
    to the spider. With our downloader, does all work on a page in one task. Signals without
    receivers are not sent. No setting of Scrapy replaces its engine and its scraper, so their
    methods are replaced, as long as they have the names that the replacements need.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._is_direct = False  # a page takes one task
        self._pages = BackgroundTasks()
        manager: Any = crawler.signals
        if has(manager, "sender") and has(dispatcher, "connections"):
            manager.send_catch_log = partial(_send, manager, manager.send_catch_log)
            manager.send_catch_log_async = partial(
                _send_async, manager, manager.send_catch_log_async
            )
        crawler.signals.connect(self._on_opened, signals.spider_opened)

    def _on_opened(self) -> None:
        assert self._crawler.engine is not None
        engine: Any = self._crawler.engine
        scraper = engine.scraper
        if scraper.concurrent_items == 1 and has(scraper, *_OF_SCRAPER):
            scraper.handle_spider_output_async = partial(_process, scraper)
        if not scraper.spidermw.middlewares and has(scraper, *_OF_SPIDERS):
            scraper.spidermw.scrape_response_async = _call_spider
        downloader = engine.downloader
        is_ours = isinstance(downloader, DirectDownloader) and downloader.is_direct
        if is_ours and has(engine, *_OF_ENGINE):
            self._is_direct = True
            engine._start_scheduled_request = partial(self._start, engine)

    def _start(self, engine: Any) -> bool:
        request = engine._slot.scheduler.next_request()
        if request is None:
            engine.signals.send_catch_log(signals.scheduler_empty)
            return False
        self._begin(engine, request)
        return True

    def start_now(self, request: Request) -> None:
        """Start a request without the scheduler, for a crawler without limits."""
        engine: Any = self._crawler.engine
        if not self._is_direct:
            engine.crawl(request)
            return
        engine.signals.send_catch_log(
            signals.request_scheduled, request=request, spider=engine.spider
        )
        self._begin(engine, request)

    def _begin(self, engine: Any, request: Request) -> None:
        engine._slot.add_request(request)
        engine.downloader.active.add(request)
        self._pages.spawn(_serve(engine, engine._slot, request))


async def _serve(engine: Any, slot: Any, request: Request) -> None:
    """Do all work on a request, until its items have passed the pipelines."""
    try:
        try:
            result = await _fetch(engine, request)
        finally:
            engine.downloader.active.remove(request)
            slot.nextcall.schedule()
        if isinstance(result, Request):  # such as a redirect
            engine.crawl(result)
        else:
            await _scrape(engine.scraper, result, request)
    except Exception:
        logger.exception("a request could not be processed: %s", request)
    finally:
        slot.remove_request(request)
        slot.nextcall.schedule()


async def _fetch(engine: ExecutionEngine, request: Request) -> Any:
    """Return the response, the next request, or the failure of a request."""
    downloader: Any = engine.downloader
    try:
        result = await downloader.middleware.download_async(
            downloader._enqueue_request, request
        )
        if isinstance(result, Response):
            if result.request is None:
                result.request = request
            assert engine.spider is not None
            entry = engine.logformatter.crawled(result.request, result, engine.spider)
            if entry is not None:
                extra = {"spider": engine.spider}
                _of_engine.log(*logformatter_adapter(entry), extra=extra)
            engine.signals.send_catch_log(
                signal=signals.response_received,
                response=result,
                request=result.request,
                spider=engine.spider,
            )
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Failure()  # type: ignore[no-untyped-call]  # of what a middleware waited for
    except Exception:
        return Failure()  # type: ignore[no-untyped-call]
    return result


async def _scrape(scraper: Any, result: Response | Failure, request: Request) -> None:
    """Pass a response or failure to the spider, and the items to the pipelines."""
    slot = scraper.slot
    slot.add_response_request(result, request)
    slot.next_response_request_deferred()  # the same: nothing else is in this queue
    try:
        await scraper._scrape(result, request)
    finally:
        slot.finish_response(result, request)
        scraper._check_if_closing()


async def _process(
    scraper: Scraper,
    output: Iterable[Any] | AsyncIterator[Any],
    request: Request,
    response: Response | Failure,
) -> None:
    on_error = scraper.handle_spider_error
    if not isinstance(output, AsyncIterator):
        for each in iter_errback(output, on_error, request, response):
            await scraper._process_spidermw_output_async(each, response)
        return
    while True:
        try:
            each = await anext(output)
        except StopAsyncIteration:
            return
        except Exception:
            on_error(Failure(), request, response)  # type: ignore[no-untyped-call]
        else:
            await scraper._process_spidermw_output_async(each, response)


async def _call_spider(scrape: Any, response: Response, request: Request) -> Any:
    """Return the output of the callback.

    Scrapy would wait for two loop iterations, so that other connections are served.
    Other connections are served while pages are converted.
    """
    assert response.request is not None
    callback: Any = response.request.callback
    if inspect.isasyncgenfunction(callback):
        return callback(response, **response.request.cb_kwargs)
    return await scrape(response, request)


def _has_receivers(manager: SignalManager, signal: Any, facts: dict[str, Any]) -> bool:
    for sender in (facts.get("sender", manager.sender), dispatcher.Any):
        known = dispatcher.connections.get(id(sender))
        if known and (signal in known or dispatcher.Any in known):
            return True
    return False


def _send(manager: SignalManager, send: Any, /, signal: Any, **facts: Any) -> Any:
    """Send a signal if it has receivers. Return their results."""
    return send(signal, **facts) if _has_receivers(manager, signal, facts) else []


async def _send_async(
    manager: SignalManager, send: Any, /, signal: Any, **facts: Any
) -> Any:
    return await send(signal, **facts) if _has_receivers(manager, signal, facts) else []


class DirectPipelines(ItemPipelineManager):
    """Calls the pipelines; awaits only coroutines and the like."""

    async def process_item_async(self, item: Any) -> Any:
        if getattr(self, "_mw_methods_requiring_spider", True):
            return await super().process_item_async(item)
        for method in self.methods["process_item"]:
            assert method is not None
            item = method(item)
            if inspect.isawaitable(item):
                item = await awaitable(item, method)
        return item


class DirectStats(MemoryStatsCollector):
    """Scrapy's stats without a look at each call for a deprecated argument."""

    __getattribute__ = object.__getattribute__


class DirectLog(LogFormatter):
    """Makes no entries of pages and items for a log without them."""

    def crawled(self, *args: Any, **kwargs: Any) -> Any:
        if not _of_engine.isEnabledFor(logging.DEBUG):
            return None
        return super().crawled(*args, **kwargs)

    def scraped(self, *args: Any, **kwargs: Any) -> Any:
        if not _of_scraper.isEnabledFor(logging.DEBUG):
            return None
        return super().scraped(*args, **kwargs)


class PageResponse(_aiohttp._ClientResponse):
    """A response whose body is read up to ``cut_bytes``, and not much beyond.

    After ``large_bytes`` the body waits for ``before_large``.
    """

    cut_bytes = math.inf
    large_bytes = math.inf
    before_large: Callable[[], Awaitable[None]]


class StreamingHandler(_aiohttp.AiohttpDownloadHandler):
    """Reads responses as they come, through the sessions of :meth:`open_response`."""

    experimental = False  # pinned and tested; avoids the warning at each start
    lazy = True  # needs a running loop, which `scrapy shell` starts later

    def __init__(self, crawler: Crawler):
        super().__init__(crawler)
        #: The local address of connections, None for any.
        self.bind_address = self._bind_address
        #: TLS without a look at certificates.
        self.unverified = self._ssl_context

    @abstractmethod
    def open_response(
        self, request: Request, timeout_s: float
    ) -> AbstractAsyncContextManager[PageResponse]:
        """Return the context of a response whose head has come."""

    def proxy_of(self, request: Request) -> str | None:
        """Return the proxy that ``meta`` of a request names, with its credentials."""
        return self._extract_proxy_url_with_creds(request)

    def _make_request(self, request: Request, timeout: float) -> Any:
        return self.open_response(request, timeout)

    @staticmethod
    def _extract_headers(response: _aiohttp._ClientResponse) -> Headers:
        # Raw bytes: values are not always UTF-8.
        return Headers(response.raw_headers)

    @staticmethod
    async def _iter_body_chunks(
        response: _aiohttp._ClientResponse,
    ) -> AsyncIterator[bytes]:
        assert isinstance(response, PageResponse)
        received, large_bytes = 0, response.large_bytes
        try:
            async for chunk in response.content.iter_any():
                yield chunk
                received += len(chunk)
                if received >= response.cut_bytes:
                    return
                if received > large_bytes:
                    large_bytes = math.inf
                    await response.before_large()
        except aiohttp.ClientPayloadError:
            # Received before the error; no public method returns it then.
            yield b"".join(response.content._buffer)
            raise
