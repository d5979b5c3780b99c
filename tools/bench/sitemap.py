"""Measures sitemaps of a million URLs in the converter pool: time, lag and memory.

The benchmark fetches an index and 20 files of 50,000 URLs each from a local server. The
processes of the pool parse the files, and each slice of rows is decoded, as in a crawl.
Each kind of work runs in a separate process, so that its peak memory is measured alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import aiohttp
from attrs import asdict, frozen

from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.discovery.sitemap import (
    MAX_BYTES,
    MAX_URLS,
    SitemapChoice,
    SitemapContent,
    json_slices,
)
from scraper_service.items import PageSource
from scraper_service.options.spider_arguments import crawl_options
from tools.bench.memory import memory_of
from tools.bench.processes import ROOT, ServerProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.sitemap_files import INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.discovery.sitemap import ChoiceT

RESULT = "sitemap.md"
PROCESSES = os.cpu_count() or 1
MEMORY_MB = 1024  # as the setting CONVERTER_MEMORY_MB
AHEAD = 2  # files in flight for each process
TICK_S = 0.001
TIMEOUT_S = 120
WORK = {
    "xml": "XML, every entry",
    "gzip": "gzip, every entry",
    "scope": "gzip, rows of a crawl's frontier",
}
HEADINGS = (
    *("Work", "Files", "URLs", "Seconds", "URLs/s"),
    *("Step p99 CPU ms", "max ms", "Loop lag p99 ms", "max ms"),
    *("Main peak RSS MB", "Converter peak RSS MB"),
)


@frozen
class Run:
    """One run over all files; a step decodes one slice.

    The longest step includes a full garbage collection. The lag of the event loop includes
    the time in which other processes use the cores.
    """

    work: str
    files: int
    urls: int
    seconds: float
    step_p99_ms: float
    step_max_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    main_mb: float
    converter_mb: float

    def cells(self) -> tuple[str, ...]:
        return (
            WORK[self.work],
            str(self.files),
            str(self.urls),
            f"{self.seconds:.1f}",
            f"{self.urls / self.seconds:.0f}",
            f"{self.step_p99_ms:.1f}",
            f"{self.step_max_ms:.1f}",
            f"{self.lag_p99_ms:.1f}",
            f"{self.lag_max_ms:.1f}",
            f"{self.main_mb:.0f}",
            f"{self.converter_mb:.0f}",
        )


class Reader:
    """Reads an index and its files, several at once."""

    def __init__(self, work: str, site: str, pool: ConverterPool):
        self.index = site + INDEX["xml" if work == "xml" else "gzip"]
        self.pool = pool
        self.choice: ChoiceT = json_slices
        if work == "scope":
            self.choice = SitemapChoice(crawl_options({"url": site}), site)
        self.files = self.urls = 0
        self.steps_s: list[float] = []
        self.lags_s: list[float] = []

    async def read_all(self) -> float:
        """Read all files; return the seconds."""
        await self.pool.warm_up()
        ticking = asyncio.create_task(self._tick())
        begin = time.perf_counter()
        async with aiohttp.ClientSession() as session:
            index = await self._fetch(session, self.index)
            waiting = list(index.nested)
            readers = (self._read(session, waiting) for _ in range(AHEAD * PROCESSES))
            await asyncio.gather(*readers)
        seconds = time.perf_counter() - begin
        ticking.cancel()
        return seconds

    async def _read(self, session: aiohttp.ClientSession, waiting: list[str]) -> None:
        while waiting:
            content = await self._fetch(session, waiting.pop(0))
            self.files += 1
            for rows in content.rows:
                begin = time.thread_time()  # other processes share the cores
                self.urls += len(json.loads(rows))
                self.steps_s.append(time.thread_time() - begin)
                await asyncio.sleep(0)

    async def _fetch(self, session: aiohttp.ClientSession, url: str) -> SitemapContent:
        async with session.get(url) as response:
            body = await response.read()
        source = PageSource(url=url, status=200, body=body, max_bytes=MAX_BYTES)
        content = await self.pool.read_sitemap(source, TIMEOUT_S, self.choice)
        if content.error or content.warnings:
            raise SystemExit(f"{url}: {content.error} {content.warnings}")
        return content

    async def _tick(self) -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.lags_s.append(time.perf_counter() - begin - TICK_S)


def read(work: str, site: str) -> Run:
    """Read all sitemaps of ``site`` in this process."""
    pool = ConverterPool(PROCESSES, TIMEOUT_S, MEMORY_MB, tasks=1000)
    try:
        reader = Reader(work, site, pool)
        seconds = asyncio.run(reader.read_all())
        main, *children = memory_of(os.getpid())
    finally:
        pool.close()
    return Run(
        work=work,
        files=reader.files,
        urls=reader.urls,
        seconds=seconds,
        step_p99_ms=_p99_ms(reader.steps_s),
        step_max_ms=max(reader.steps_s) * 1000,
        lag_p99_ms=_p99_ms(reader.lags_s),
        lag_max_ms=max(reader.lags_s) * 1000,
        main_mb=main.peak_mb,
        converter_mb=max(x.peak_mb for x in children if x.role == "converter"),
    )


def _p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000


def measure(files: int, urls: int) -> list[Run]:
    """Run each kind of work in a separate process."""
    arguments = ("tools.bench.static", "--sitemaps", str(files), str(urls))
    runs = []
    with ServerProcess(*arguments) as server:
        site = server.line("http://")
        for work in WORK:
            command = [
                sys.executable,
                "-m",
                "tools.bench.sitemap",
                "--read",
                work,
                site,
            ]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
            run = Run(**json.loads(done.stdout))
            if run.urls != files * urls:
                raise SystemExit(f"{work}: {run.urls} URLs")
            runs.append(run)
    return runs


def markdown(runs: Iterable[Run]) -> str:
    cells = table(HEADINGS, (run.cells() for run in runs))
    return f"# Sitemap benchmark\n\n{MACHINE}; the server shares them.\n\n{cells}\n"


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.read:
        print(json.dumps(asdict(read(*options.read))))
        return 0
    text = markdown(measure(3, 2000) if options.quick else measure(20, MAX_URLS))
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
