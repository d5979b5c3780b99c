"""Crawls a site without the service: ``python -m tools.bench.rivals NAME URL``.

Prints a line of JSON with ``pages``, and ``seconds`` from the first request to the end.
``--work`` is a kind of work of :mod:`tools.bench.crawl`: ``main`` for Markdown of the main
content, ``all`` for Markdown of the whole page, ``links`` to follow links only. The others
know no main content: they convert the whole page for both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import html2text
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.discovery.canonical_urls import page_key
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.spiders.crawl import CrawlSpider
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import Link, Outcome
from scraper_service.storage.jobs import admission, job_rows
from scraper_service.storage.jobs.admission import Terms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from parsel import Selector
    from scrapy.crawler import Crawler

CONCURRENCY = 16
TEAM = "bench"
HAS_CRAWLEE = find_spec("crawlee") is not None


def content(
    url: str, text: str, selector: Selector, links: list[str]
) -> dict[str, Any]:
    """Return a page's Markdown, links and metadata, as a typical callback does."""
    named = selector.xpath("//meta[@content and (@name or @property)]")
    return {
        "url": url,
        "markdown": html2text.html2text(text, baseurl=url),
        "links": list(dict.fromkeys(links)),
        "metadata": {
            "title": selector.css("title::text").get(),
            "language": selector.xpath("/html/@lang").get(),
            **{
                tag.xpath("@name | @property").get(): tag.attrib["content"]
                for tag in named
            },
        },
    }


class StockSpider(scrapy.Spider):
    """A typical Scrapy spider: converts in the callback, follows links in scope."""

    name = "stock"

    def __init__(self, url: str, plain: bool):
        super().__init__()
        self.start_urls = [url]
        self.plain = plain

    async def start(self) -> AsyncIterator[Any]:
        # The default start request skips the duplicate filter: the page would come twice.
        yield scrapy.Request(self.start_urls[0])

    def parse(self, response: Any) -> Iterator[Any]:
        links = self.links(response)
        yield self.item(response, links)
        for link in links:
            if link.startswith(self.start_urls[0]):
                yield scrapy.Request(link)

    def links(self, response: Any) -> list[str]:
        found = []
        for href in response.css("a::attr(href)").getall():
            with contextlib.suppress(ValueError):  # an invalid URL
                found.append(response.urljoin(href.strip()))
        return found

    def item(self, response: Any, links: list[str]) -> dict[str, Any]:
        if self.plain:
            return {"url": response.url}
        return content(response.url, response.text, response.selector, links)


class AnyRoom:
    """A pool that always has room: the stock spider converts nothing."""

    def has_capacity(self, _team: str | None, _tell: Any) -> bool:
        return True


class LeasedSpider(StockSpider):
    """The stock spider with requests leased from a job database."""

    name = "leased"
    custom_settings = {  # noqa: RUF012  # as in every spider
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
        "SCHEDULER": "scraper_service.crawling.scheduler.LeasedScheduler",
    }

    def __init__(self, url: str, plain: bool):
        super().__init__(url, plain)
        self.options = crawl_options({"url": url})
        self.pool = AnyRoom()

    async def start(self) -> AsyncIterator[scrapy.Request]:
        return
        yield

    def page_request(
        self, url: str, _o: Any, page_id: str, _d: float, lease: Any, _t: str | None
    ) -> scrapy.Request:
        meta = {"scrape_id": page_id, "lease": lease}
        return scrapy.Request(url, meta=meta, dont_filter=True)

    async def parse(self, response: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        links = self.links(response)
        item = self.item(response, links)
        lease = response.meta["lease"]
        inside = dict.fromkeys(x for x in links if x.startswith(self.start_urls[0]))
        scheduler = LeasedScheduler.of(self.crawler)
        outcome = Outcome(
            row_id=lease.row_id,
            key=lease.key,
            token=lease.token,
            owner=scheduler.owner,
            page_id=response.meta["scrape_id"],
            page=json.dumps(item).encode(),
            links=tuple(Link(page_key(x), x, lease.depth + 1) for x in inside),
        )
        await scheduler.settle(outcome)
        yield item


def run_scrapy(crawler: Crawler, process: Any, *args: Any, **kwargs: Any) -> None:
    """Run a crawl and print the result."""
    times: dict[Any, float] = {}
    signals = scrapy.signals
    for signal in (signals.spider_opened, signals.spider_closed):

        def note(signal: Any = signal, **_: Any) -> None:
            times[signal] = time.perf_counter()

        crawler.signals.connect(note, signal, weak=False)
    process.crawl(crawler, *args, **kwargs)
    process.start()
    assert crawler.stats is not None
    seconds = times[signals.spider_closed] - times[signals.spider_opened]
    _print(crawler.stats.get_value("item_scraped_count", 0), seconds)


def stock(url: str, work: str, spider: type[StockSpider] = StockSpider) -> None:
    """Run a spider with Scrapy's defaults, except for the requests per host."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            {
                "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
                "FEEDS": {f"{folder}/pages.jsonl": {"format": "jsonlines"}},
                "LOG_LEVEL": "ERROR",
                "TELNETCONSOLE_ENABLED": False,
            }
        )
        if spider is LeasedSpider:
            settings.update({"DATA_DIR": folder, "DATABASE_URL": ""})
            settings.update({"JOB_CONCURRENCY": CONCURRENCY})
            settings.set("JOB_ID", asyncio.run(_job(Path(folder), url)))
        process = AsyncCrawlerProcess(settings)
        run_scrapy(
            process.create_crawler(spider), process, url=url, plain=work == "links"
        )


def leased(url: str, work: str) -> None:
    """Run the stock spider with a job database as its queue."""
    stock(url, work, LeasedSpider)


async def _job(data_dir: Path, url: str) -> str:
    options = crawl_options({"url": url, "sitemap": "skip"})
    database = Database(data_dir)
    await database.write(job_rows.make_team, TEAM)
    job = await database.write(admission.create_job, Terms(team_id=TEAM), options, 2)
    database.close()
    assert job is not None
    return job.id


def local(url: str, work: str) -> None:
    """Run the project's spider as ``scrapy crawl`` does, without the service."""
    formats = "" if work == "links" else "markdown,links"
    only_main = "true" if work == "main" else "false"
    arguments = {"url": url, "formats": formats, "only_main_content": only_main}
    with tempfile.TemporaryDirectory() as folder:
        settings = get_project_settings()
        settings.set("FEEDS", {f"{folder}/pages.jsonl": {"format": "jsonlines"}})
        settings.set("LOG_LEVEL", "ERROR")
        process = AsyncCrawlerProcess(settings)
        run_scrapy(process.create_crawler(CrawlSpider), process, **arguments)


def crawlee(url: str, work: str) -> None:
    """Run crawlee's Parsel crawler with the same handler."""
    asyncio.run(_crawlee(url, plain=work == "links"))


async def _crawlee(url: str, *, plain: bool) -> None:
    from crawlee import ConcurrencySettings  # noqa: PLC0415  # may not be installed
    from crawlee.crawlers import ParselCrawler, ParselCrawlingContext  # noqa: PLC0415
    from crawlee.storage_clients import MemoryStorageClient  # noqa: PLC0415

    pages = 0
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            max_concurrency=CONCURRENCY, desired_concurrency=CONCURRENCY
        ),
        configure_logging=False,
        storage_client=MemoryStorageClient(),
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        nonlocal pages
        selector = context.selector
        item: dict[str, Any] = {"url": context.request.url}
        if not plain:
            text = (await context.http_response.read()).decode("utf-8", "replace")
            links = selector.css("a::attr(href)").getall()
            item = content(context.request.url, text, selector, links)
        await context.push_data(item)
        await context.enqueue_links(include=[re.compile(re.escape(url))])
        pages += 1

    start = time.perf_counter()
    await crawler.run([url])
    _print(pages, time.perf_counter() - start)


def _print(pages: int, seconds: float) -> None:
    print(json.dumps({"pages": pages, "seconds": seconds}), flush=True)


RIVALS = {"stock": stock, "leased": leased, "local": local, "crawlee": crawlee}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RIVALS)
    parser.add_argument("url")
    parser.add_argument("--work", choices=("main", "all", "links"), default="main")
    options = parser.parse_args()
    RIVALS[options.name](options.url, options.work)


if __name__ == "__main__":
    main()
