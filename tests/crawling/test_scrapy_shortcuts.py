"""Without a private name of Scrapy, each shortcut gives way to Scrapy's own way."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.test import get_crawler

from scraper_service.crawling import scrapy_shortcuts
from scraper_service.crawling.scrapy_shortcuts import (
    DirectDownloader,
    DirectItems,
    DirectMiddlewares,
    DirectPipelines,
    has,
    nudge,
)

STARTED = "_start_scheduled_request"
PROCESSED = "scraper.handle_spider_output_async"
SPIDERS = "scraper.spidermw.scrape_response_async"
#: The names that each replacement of a method needs, as paths from the engine.
NEEDED = {
    STARTED: scrapy_shortcuts._OF_ENGINE,
    PROCESSED: [f"scraper.{name}" for name in scrapy_shortcuts._OF_SCRAPER],
    SPIDERS: [f"scraper.{name}" for name in scrapy_shortcuts._OF_SPIDERS],
}
CASES = [
    (method, name)
    for method, names in NEEDED.items()
    for name in names
    if name != method  # else there is nothing to replace
]


def crawler_of():
    crawler = get_crawler(Spider)
    crawler.spider = crawler._create_spider("a")
    return crawler


def opened(without=None):
    """Return an engine without a name, after its spider was opened.

    Each other name leads to a text, the name itself.
    """
    crawler = crawler_of()
    found = crawler.engine = SimpleNamespace(downloader=DirectDownloader(crawler))
    if without == "downloader.middleware.download_async":
        found.downloader.middleware = None
    for path in {path for names in NEEDED.values() for path in names} - {without}:
        *folders, last = path.split(".")
        at = found
        for folder in folders:
            at = vars(at).setdefault(folder, SimpleNamespace())
        if isinstance(at, SimpleNamespace):  # else it is the real downloader
            setattr(at, last, path)
    found.scraper.concurrent_items = 1
    vars(found.scraper).setdefault("spidermw", SimpleNamespace()).middlewares = ()
    DirectItems(crawler)._on_opened()
    return found


@pytest.mark.parametrize("method", NEEDED)
def test_shortcuts_are_used_if_all_private_names_exist(method):
    assert callable(attrgetter(method)(opened()))


@pytest.mark.parametrize(("method", "name"), CASES)
def test_the_engine_keeps_its_method_if_a_private_name_is_missing(method, name):
    assert attrgetter(method)(opened(without=name)) == method


@pytest.mark.parametrize("name", ["_get_slot", "_download"])
def test_the_downloader_of_scrapy_is_used_if_a_private_name_is_missing(
    monkeypatch, name
):
    async def queued(self, request):
        return "through the queue"

    monkeypatch.setattr(Downloader, "_enqueue_request", queued)
    assert DirectDownloader(crawler_of()).is_direct
    monkeypatch.delattr(Downloader, name)
    downloader = DirectDownloader(crawler_of())
    assert not downloader.is_direct
    sent = downloader._enqueue_request(Request("http://a.example/"))
    assert asyncio.run(sent) == "through the queue"
    # The engine starts its requests itself then, too.
    crawler = crawler_of()
    scraper = SimpleNamespace(
        concurrent_items=2, spidermw=SimpleNamespace(middlewares=(1,))
    )
    crawler.engine = SimpleNamespace(downloader=downloader, scraper=scraper)
    DirectItems(crawler)._on_opened()
    assert STARTED not in vars(crawler.engine)


def test_a_single_page_without_the_shortcut_goes_through_the_scheduler():
    crawler, sent = crawler_of(), []
    crawler.engine = SimpleNamespace(crawl=sent.append)
    request = Request("http://a.example/")
    DirectItems(crawler).start_now(request)
    assert sent == [request]


@pytest.mark.parametrize(
    "found",
    [
        None,
        SimpleNamespace(scraper=SimpleNamespace(slot=1)),
        SimpleNamespace(_slot=None, scraper=SimpleNamespace(slot=1)),
        SimpleNamespace(_slot=SimpleNamespace(), scraper=SimpleNamespace(slot=1)),
    ],
)
def test_an_engine_without_the_names_is_not_nudged(found):
    nudge(found)


def test_an_open_engine_is_nudged_until_it_closes():
    calls = []
    nextcall = SimpleNamespace(schedule=lambda: calls.append("nudged"))
    slot = SimpleNamespace(nextcall=nextcall, closing=None)
    found = SimpleNamespace(_slot=slot, scraper=SimpleNamespace(slot=1))
    nudge(found)
    slot.closing = object()
    nudge(found)
    assert calls == ["nudged"]


@pytest.mark.parametrize(
    ("ours", "theirs", "method", "arguments"),
    [
        (DirectPipelines, ItemPipelineManager, "process_item_async", 1),
        (DirectMiddlewares, DownloaderMiddlewareManager, "_process_request", 2),
        (DirectMiddlewares, DownloaderMiddlewareManager, "_process_response", 2),
    ],
)
def test_components_are_called_in_scrapys_way(
    monkeypatch, ours, theirs, method, arguments
):
    async def call(self, *arguments):
        return "in Scrapy's way"

    monkeypatch.setattr(theirs, method, call)
    manager = ours(crawler=crawler_of())
    del manager._mw_methods_requiring_spider
    called = getattr(manager, method)(*[None] * arguments)
    assert asyncio.run(called) == "in Scrapy's way"


def test_signals_are_sent_by_scrapy_if_a_private_name_is_missing(monkeypatch):
    crawler = crawler_of()
    DirectItems(crawler)
    assert "send_catch_log" in vars(crawler.signals)
    monkeypatch.setattr(scrapy_shortcuts, "dispatcher", SimpleNamespace())
    other = crawler_of()
    DirectItems(other)
    assert "send_catch_log" not in vars(other.signals)


def test_a_probe_logs_missing_names(caplog):
    found = SimpleNamespace(a=SimpleNamespace(b=1))
    assert has(found, "a.b", "a")
    assert not caplog.text
    assert not has(found, "a", "a._b")
    assert "a shortcut through Scrapy is off" in caplog.text
    assert "'_b'" in caplog.text
