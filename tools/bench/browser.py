"""Measures rendered pages per second and memory per page, compared with plain Playwright.

The service and Playwright take turns. Both open the same pages of the same server with the
same Chromium and the same concurrency. Playwright creates a context, loads the page and
reads its HTML. The service also applies the egress rule in a proxy, waits for network idle,
writes Markdown and stores the page. Every page is rendered (``RENDER`` always) and fetched
(``maxAge`` 0).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from attrs import frozen
from playwright.async_api import async_playwright
from scrapy.settings import Settings

from scraper_service.crawling.browser.chromium import find_chromium
from tools.bench.calls import HEADERS, KEY
from tools.bench.memory import memory_of
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

RESULT = "browser.md"
PAGES = {"17 kB": "/article", "200 kB": "/big"}
TIMEOUT_S = 120
SAMPLE_S = 0.2
SANDBOX = os.geteuid() != 0  # Chromium refuses its sandbox as root
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_BROWSER_SANDBOX": str(SANDBOX).lower(),
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_HOST_CONCURRENCY": "64",
    "SCRAPER_RENDER": "always",
}


@frozen
class Effort:
    """The extent of a run; the result is the median of the rounds."""

    pages: int
    rounds: int


FULL = Effort(pages=24, rounds=3)
QUICK = Effort(pages=4, rounds=1)


@frozen
class Row:
    """The rates (pages/s) and the memory per open page (MB) for one page."""

    page: str
    direct: float
    service: float
    direct_mb: float
    service_mb: float

    def cells(self) -> tuple[str, ...]:
        return (
            self.page,
            f"{self.direct:.2f}",
            f"{self.service:.2f}",
            f"{self.service / self.direct:.2f}",
            f"{self.direct_mb:.0f}",
            f"{self.service_mb:.0f}",
        )


HEADINGS = (
    "Page",
    "Playwright pages/s",
    "Service pages/s",
    "Service per Playwright",
    "Playwright MB per page",
    "Service MB per page",
)


async def rate(
    open_page: Callable[[], Awaitable[None]], count: int, wide: int
) -> float:
    """Open ``count`` pages, ``wide`` at a time; return pages/s."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await open_page()

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(wide)))
    return count / (time.perf_counter() - start)


@contextlib.asynccontextmanager
async def sample_memory(pid: int) -> AsyncIterator[list[float]]:
    """Collect the PSS in MB of all Chromium processes below ``pid``."""
    found = [chromium_mb(pid)]

    async def sample() -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            found.append(await asyncio.to_thread(chromium_mb, pid))

    task = asyncio.ensure_future(sample())
    try:
        yield found
    finally:
        task.cancel()


def chromium_mb(pid: int) -> float:
    with contextlib.suppress(OSError):  # a process has just ended
        return sum(m.pss_mb for m in memory_of(pid) if "chrom" in m.role)
    return 0.0


async def run(
    service: ServiceProcess, site: str, effort: Effort, wide: int
) -> list[Row]:
    """Measure every page; in each round, Playwright and the service take turns."""
    rows = []
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with (
        aiohttp.ClientSession(headers=HEADERS, timeout=timeout) as session,
        async_playwright() as playwright,
    ):
        path = find_chromium(Settings({"CHROMIUM_PATH": ""}))
        browser = await playwright.chromium.launch(
            executable_path=path, chromium_sandbox=SANDBOX
        )
        for page, place in PAGES.items():
            url = site + place

            async def direct(url: str = url) -> None:
                context = await browser.new_context()
                try:
                    opened = await context.new_page()
                    await opened.goto(url, wait_until="load")
                    assert await opened.content()
                finally:
                    await context.close()

            async def scraped(url: str = url) -> None:
                body: dict[str, Any] = {"url": url, "maxAge": 0}
                async with session.post(
                    f"{service.url}/v2/scrape", json=body
                ) as response:
                    found = await response.json()
                assert (
                    found.get("data", {}).get("metadata", {}).get("engine") == "browser"
                ), found

            ways = {"direct": (direct, os.getpid()), "service": (scraped, service.pid)}
            for way, _ in ways.values():
                await rate(way, wide, wide)  # warm-up
            rates: dict[str, list[float]] = {name: [] for name in ways}
            adds: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(effort.rounds):
                for name, (way, pid) in ways.items():
                    async with sample_memory(pid) as memory:
                        rates[name].append(await rate(way, effort.pages, wide))
                    adds[name].append((max(memory) - memory[0]) / wide)
            medians = [statistics.median(rates[name]) for name in ways]
            added = [statistics.median(adds[name]) for name in ways]
            rows.append(Row(page, *medians, *added))
        await browser.close()
    return rows


def markdown(rows: list[Row], wide: int) -> str:
    cells = table(HEADINGS, (row.cells() for row in rows))
    return f"# Browser benchmark\n\n{MACHINE}; {wide} pages at a time.\n\n{cells}\n"


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("--pages", type=int, default=2, help="pages at a time")
    options = parser.parse_args()
    environment = {**ENVIRONMENT, "SCRAPER_BROWSER_CONCURRENCY": str(options.pages)}
    with (
        tempfile.TemporaryDirectory() as data_dir,
        ServerProcess("tools.bench.static") as static,
        ServiceProcess(Path(data_dir), environment) as service,
    ):
        effort = QUICK if options.quick else FULL
        site = static.line("http")
        rows = asyncio.run(run(service, site, effort, options.pages))
    text = markdown(rows, options.pages)
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
