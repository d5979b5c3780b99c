"""``scrapy crawl`` with one-line errors for arguments and a summary at the end."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.exceptions import UsageError
from scrapy.utils.asyncio import create_looping_call

from scraper_service.cli.terminal import CRAWL_DENIAL, EXTERNAL_LINK
from scraper_service.crawling.middlewares import item_made
from scraper_service.crawling.observability import configure_logs
from scraper_service.discovery.scope_rules import Reason
from scraper_service.errors import InvalidOptions, ServiceError, plural
from scraper_service.items import Page

if TYPE_CHECKING:
    import argparse
    import asyncio

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

WRONG_USE = 2  # exit code, as for Scrapy's UsageError
# Codes of pages that a rule leaves out. They do not count as failures.
RULES = {*(reason.value for reason in Reason), CRAWL_DENIAL, EXTERNAL_LINK}
ENDS = {"finished": "finished", "shutdown": "stopped by a signal, such as Ctrl-C"}


class Command(CrawlCommand):
    """Scrapy's ``crawl`` with one-line errors instead of tracebacks, and a summary."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        if self.settings.getbool("LOG_JSON"):
            self.settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            super().run(args, opts)  # raises UsageError
            return
        assert self.settings is not None
        if self.settings.getbool("LOG_JSON"):
            configure_logs(self.settings)
        assert self.crawler_process is not None
        try:
            crawler = self._create_crawler(args[0])
        except KeyError:
            names = ", ".join(sorted(self.crawler_process.spider_loader.list()))
            text = f"there is no spider {args[0]}; there are {names}"
            raise UsageError(text) from None
        report = RunLog(crawler)
        task: asyncio.Task[None] = self.crawler_process.crawl(crawler, **opts.spargs)  # type: ignore[assignment]
        task.add_done_callback(self._on_end)
        self.crawler_process.start()
        report.close()
        if self.crawler_process.bootstrap_failed:
            self.exitcode = self.exitcode or 1

    def _on_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, InvalidOptions):
            self.exitcode = WRONG_USE
            text = "; ".join(issue.message for issue in error.issues)
        else:
            text = str(error)
        if isinstance(error, (ServiceError, ValueError, OSError)) and text:
            logger.debug("the crawl did not begin", exc_info=error)
            print(f"scrapy crawl: error: {text}", file=sys.stderr)
            assert self.settings is not None
            if self.settings["LOG_FILE"]:  # scrapyd shows this file, not standard error
                logger.error("%s", text)
        else:
            logger.error("the crawl broke", exc_info=error)


class RunLog:
    """Logs counts of pages every ``LOGSTATS_INTERVAL`` seconds and at the end.

    With an interval of 0 it logs only at the end.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._began = time.monotonic()
        self._pages = self._failed = self._left_out = self._others = 0
        self._task = create_looping_call(self._tell)
        crawler.signals.connect(self._on_item, item_made)
        crawler.signals.connect(self._on_open, signals.spider_opened)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    def close(self) -> None:
        """Stop logging."""
        if self._task.running:
            self._task.stop()

    def _on_open(self) -> None:
        self._began = time.monotonic()
        if interval := self._crawler.settings.getfloat("LOGSTATS_INTERVAL"):
            self._task.start(interval, now=False)

    def _on_item(self, item: Any) -> None:
        if not isinstance(item, Page):
            self._others += 1
        elif item.failure is None:
            self._pages += 1
        elif item.failure.code in RULES:
            self._left_out += 1
        else:
            self._failed += 1

    def _tell(self) -> None:
        logger.info("%s so far", self._counts())

    def _on_close(self, reason: str) -> None:
        self.close()
        stats = self._crawler.stats
        assert stats is not None
        over_limit = stats.get_value(f"urls/{Reason.LIMIT}")
        # A URL that a rule left out before its request has no page.
        counts = [stats.get_value(f"urls/{rule}", 0) for rule in RULES - {Reason.LIMIT}]
        self._left_out = max(self._left_out, sum(counts))
        how = ENDS.get(reason, f"ended early ({reason})")
        if reason == "finished" and over_limit:
            how = "ended at its limit"
        logger.info("%s; %s", self._counts(), how)

    def _counts(self) -> str:
        if self._others:  # the items of a map or a search
            return plural(self._others, "item")
        minutes = max(time.monotonic() - self._began, 0.001) / 60
        return (
            f"{plural(self._pages, 'page')}, {self._failed} failed,"
            f" {self._left_out} left out, {self._pages / minutes:.0f} pages per minute"
        )
