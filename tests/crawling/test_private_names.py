"""Names of other libraries that are not public, and for which there is no public way."""

from __future__ import annotations

import asyncio
import inspect

import aiohttp
from pydispatch import dispatcher
from scrapy import exceptions
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.engine import ExecutionEngine, _Slot
from scrapy.core.scraper import Scraper
from scrapy.middleware import MiddlewareManager
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.reactor import CallLaterOnce

from scraper_service.crawling.download.http_session import (
    LenientProtocol,
    open_session,
)


def test_scrapys_engine_has_a_call_for_the_next_request():
    """``nudge`` makes the engine call ``next_request`` through these."""
    assert "self._slot" in inspect.getsource(ExecutionEngine.__init__)
    assert "self.slot" in inspect.getsource(Scraper.__init__)
    parameters = inspect.signature(_Slot.__init__).parameters
    assert "nextcall" in parameters
    assert "self.closing" in inspect.getsource(_Slot.__init__)
    assert callable(CallLaterOnce.schedule)


def test_the_scrapy_downloader_calls_the_methods_we_override():
    """``DirectDownloader`` replaces the queue and the calls of middlewares."""
    fetch = inspect.getsource(Downloader.fetch)
    assert "self.middleware.download_async(self._enqueue_request" in fetch
    queued = inspect.getsource(Downloader._enqueue_request)
    for name in ("_get_slot(request)", "slot.active", "request_reached_downloader"):
        assert name in queued
    download = inspect.getsource(DownloaderMiddlewareManager.download_async)
    assert "self._process_request" in download
    assert "self._process_response" in download


def test_the_scrapy_scraper_calls_the_methods_we_replace():
    """``DirectItems`` replaces these methods of the engine's scraper."""
    scrape = inspect.getsource(Scraper._scrape)
    assert "self.spidermw.scrape_response_async(" in scrape
    assert "await self.handle_spider_output_async(output, request, result)" in scrape
    output = inspect.getsource(Scraper.handle_spider_output_async)
    assert "self._process_spidermw_output_async" in output
    assert "self.concurrent_items" in output


def test_the_engine_of_scrapy_still_calls_the_private_names_we_replace():
    """``DirectItems`` replaces ``_start_scheduled_request``, with all that it calls."""
    started = inspect.getsource(ExecutionEngine._start_scheduled_requests)
    assert "self._start_scheduled_request()" in started
    start = inspect.getsource(ExecutionEngine._start_scheduled_request)
    for name in (
        *("scheduler.next_request()", "scheduler_empty", "self._download(request)"),
        *("self._handle_downloader_output", "self._remove_request", "nextcall"),
    ):
        assert name in start
    fetch = inspect.getsource(ExecutionEngine._download)
    for name in ("add_request", "logformatter.crawled", "signals.response_received"):
        assert name in fetch
    scrape = inspect.getsource(Scraper.enqueue_scrape)
    for name in ("add_response_request", "finish_response", "_check_if_closing"):
        assert name in scrape
    processed = inspect.getsource(Scraper._wait_for_processing)
    assert "await self._scrape(result, request)" in processed


def test_scrapy_components_have_the_attributes_that_probes_check():
    """Without these names, Scrapy's own way is taken."""
    assert "_mw_methods_requiring_spider" in inspect.getsource(MiddlewareManager)
    assert "_warn" in inspect.signature(ensure_awaitable).parameters
    assert issubclass(exceptions._InvalidOutput, TypeError)


def test_signals_without_receivers_are_not_sent():
    """``DirectItems`` looks for receivers in the table of the dispatcher."""
    manager = SignalManager(sender := object())
    received = []
    assert id(sender) not in dispatcher.connections
    manager.connect(received.append, "changed", weak=False)
    assert "changed" in dispatcher.connections[id(sender)]
    find = inspect.getsource(dispatcher.getAllReceivers)
    assert find.count(" getReceivers(") == 4
    assert "sender" in inspect.getsource(SignalManager.send_catch_log)
    manager.disconnect(received.append, "changed", weak=False)


def test_aiohttps_connector_takes_another_protocol():
    """``open_session`` sets the factory for the protocol of new connections."""

    async def main():
        async with aiohttp.TCPConnector() as plain:
            assert plain._factory is not None
        async with open_session(None) as session:
            return session.connector._factory()

    assert isinstance(asyncio.run(main()), LenientProtocol)


def test_the_aiohttp_reader_keeps_bytes_received_before_an_error():
    """The download handler reads the rest of a body that ended early."""

    async def main():
        protocol = aiohttp.client_proto.ResponseHandler(asyncio.get_running_loop())
        reader = aiohttp.StreamReader(protocol, 2**16)
        reader.feed_data(b"came before")
        reader.set_exception(aiohttp.ClientPayloadError())
        return b"".join(reader._buffer)

    assert asyncio.run(main()) == b"came before"


def test_playwrights_driver_has_a_future_of_its_end():
    """``running_browser`` reads it, so that asyncio logs no unread exception."""
    from playwright._impl import out_of_process, transport  # slow
    from playwright.async_api import async_playwright  # slow

    assert "_client" in vars(async_playwright())
    assert "self._transport" in inspect.getsource(out_of_process.PlaywrightClient)
    assert "self.on_error_future" in inspect.getsource(transport)
