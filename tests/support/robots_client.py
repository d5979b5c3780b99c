"""A process that calls :class:`RobotsPolicy`, with the settings of the service.

``python -m tests.support.robots_client`` opens a crawler and prints ``{}``. Each line of its
standard input is a JSON object with a ``verb`` and its arguments; its result is one line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.support.forked_start import ForkedProcess, Program, may_fork
from tests.support.lines import answer_lines
from tests.support.mockserver import SITE_HOST
from tools.bench.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = Program("tests.support.robots_client:main", "robots_client", ())


class Client:
    """The verbs as methods; ``later`` moves the clock."""

    def __init__(self, process: Any):
        from scraper_service.crawling.robots import RobotsPolicy

        self.process = process
        self.later_s = 0.0
        self.policy = RobotsPolicy(
            process.settings, lambda: time.monotonic() + self.later_s
        )
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        from scrapy import signals

        self.crawler = self.process.create_crawler("scrape")
        self.started = asyncio.Event()
        self.crawler.signals.connect(self.started.set, signals.engine_started)
        self.crawler.signals.connect(self.stay_open, signals.spider_idle)
        crawl = self.process.crawl(self.crawler, resident=True)
        await self.started.wait()
        await answer_lines("{}", self.on_line)
        await self.crawler.engine.close_spider_async(reason="finished")
        await crawl

    def stay_open(self) -> None:
        from scrapy.exceptions import DontCloseSpider

        raise DontCloseSpider

    def on_line(self, line: str) -> None:
        task = asyncio.ensure_future(self.answer(json.loads(line)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def answer(self, asked: dict[str, Any]) -> None:
        found = await getattr(self, asked.pop("verb"))(**asked)
        print(json.dumps(found), flush=True)

    async def rules(self, url: str) -> dict[str, Any]:
        found = await self.policy.rules(self.crawler, url)
        paths = ("/", "/private/x")
        agents = self.policy.agents()
        return {
            "state": found.state,
            "detail": found.detail,
            "sitemaps": found.rules.sitemaps,
            "refused": [p for p in paths if found.refusal(url.rstrip("/") + p, agents)],
        }

    async def known(self, url: str) -> dict[str, Any]:
        found = self.policy.find_cached(url)
        return {"state": found and found.state}

    async def together(self, url: str) -> dict[str, Any]:
        """Call ``rules`` ten times at once and cancel the first call."""
        tasks = [asyncio.ensure_future(self.rules(url)) for _ in range(10)]
        await asyncio.sleep(0.05)
        tasks[0].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return {
            "gone": isinstance(found[0], asyncio.CancelledError),
            "states": [answer["state"] for answer in found[1:]],
        }

    async def closed(self, url: str) -> dict[str, Any]:
        """Call ``rules`` with a crawler that does not run and a running crawler, at once."""
        ending = self.process.create_crawler("scrape")
        both = [self.policy.rules(c, url) for c in (ending, self.crawler)]
        return {"states": [answer.state for answer in await asyncio.gather(*both)]}

    async def later(self, seconds: float) -> dict[str, Any]:
        self.later_s += seconds
        return {}

    async def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(name)


def main() -> None:
    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.settings import Settings

    settings = Settings()
    settings.setmodule("scraper_service.settings", priority="project")
    process = AsyncCrawlerProcess(settings)
    from twisted.internet import reactor

    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool

    client = Client(process)

    async def run() -> None:
        try:
            await client.run()
        finally:
            ConverterPool.shared(settings).close()
            reactor.stop()

    tasks = []
    reactor.callWhenRunning(lambda: tasks.append(asyncio.ensure_future(run())))
    process.start(stop_after_crawl=False, install_signal_handlers=False)


class RobotsClient(ServerProcess):
    """The process with its verbs, a context manager."""

    def __init__(self, **settings: str):
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SCRAPER_") and not name.lower().endswith("_proxy")
        }
        ours = {
            "CONVERTER_PROCESSES": "1",
            "EGRESS_ALLOW": f"{SITE_HOST}/32",
            "LOG_LEVEL": "ERROR",
            "RETRY_TIMES": "0",
        }
        sent = {
            f"SCRAPER_{name}": value for name, value in {**ours, **settings}.items()
        }
        super().__init__(
            "tests.support.robots_client", environment={**inherited, **sent}
        )
        self.line("{")

    def _launch(self, environment: Mapping[str, str] | None, cwd: Path) -> Any:
        if environment is None or not may_fork(environment):
            return super()._launch(environment, cwd)
        return ForkedProcess((), environment, self._errors.fileno(), PROGRAM)

    def ask(self, verb: str, **what: Any) -> Any:
        self.write(json.dumps({"verb": verb, **what}))
        return json.loads(self.line())


if __name__ == "__main__":
    sys.exit(main())
