"""A million addresses of sitemaps through the converter pool: time, lag, memory.

An index of 20 files of 50,000 addresses each is fetched from a local server, read by the
processes of the pool, and every slice of rows is decoded, as a crawl does that stores
them. Each kind of work has a process of its own, so that its peak of memory is its own.
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

from scraper_service.crawling.converter_pool.pool import ConverterPool
from scraper_service.discovery import SitemapChoice
from scraper_service.discovery.sitemap import (
    MAX_BYTES,
    MAX_URLS,
    SitemapContent,
)
from scraper_service.items import PageSource
from scraper_service.options.job_arguments import crawl_options
from tools.bench.memory import memory_of
from tools.bench.processes import ROOT, ServerProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.sitemap_files import INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    *("Work", "Files", "Addresses", "Seconds", "Addresses/s"),
    *("Step p99 CPU ms", "max ms", "Loop lag p99 ms", "max ms"),
    *("Main peak RSS MB", "Converter peak RSS MB"),
)


@frozen
class Run:
    """One reading of all files; a step is the decoding of one slice.

    The longest step has a full garbage collection in it. The lag of the loop includes
    what other processes take of the cores.
    """

    work: str
    files: int
    addresses: int
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
            str(self.addresses),
            f"{self.seconds:.1f}",
            f"{self.addresses / self.seconds:.0f}",
            f"{self.step_p99_ms:.1f}",
            f"{self.step_max_ms:.1f}",
            f"{self.lag_p99_ms:.1f}",
            f"{self.lag_max_ms:.1f}",
            f"{self.main_mb:.0f}",
            f"{self.converter_mb:.0f}",
        )


class Reader:
    """Reads an index and its files, some at a time."""

    def __init__(self, work: str, site: str, pool: ConverterPool):
        self.index = site + INDEX["xml" if work == "xml" else "gzip"]
        self.pool = pool
        self.choose: SitemapChoice | None = None
        if work == "scope":
            self.choose = SitemapChoice(crawl_options({"url": site}), site)
        self.files = self.addresses = 0
        self.steps_s: list[float] = []
        self.lags_s: list[float] = []

    async def read_all(self) -> float:
        """Return the seconds it took."""
        await self.pool.warm_up()
        ticking = asyncio.create_task(self._tick())
        begin = time.perf_counter()
        async with aiohttp.ClientSession() as session:
            index = await self._fetched(session, self.index)
            waiting = [url for url, _ in index.nested]
            readers = (self._read(session, waiting) for _ in range(AHEAD * PROCESSES))
            await asyncio.gather(*readers)
        seconds = time.perf_counter() - begin
        ticking.cancel()
        return seconds

    async def _read(self, session: aiohttp.ClientSession, waiting: list[str]) -> None:
        while waiting:
            content = await self._fetched(session, waiting.pop(0))
            self.files += 1
            for rows in content.slices:
                begin = time.thread_time()  # other processes want these cores, too
                self.addresses += len(json.loads(rows))
                self.steps_s.append(time.thread_time() - begin)
                await asyncio.sleep(0)

    async def _fetched(
        self, session: aiohttp.ClientSession, url: str
    ) -> SitemapContent:
        async with session.get(url) as answer:
            body = await answer.read()
        source = PageSource(url=url, status=200, body=body, max_bytes=MAX_BYTES)
        content = await self.pool.read_sitemap(source, TIMEOUT_S, self.choose)
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
        addresses=reader.addresses,
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


def measure(files: int, addresses: int) -> list[Run]:
    """Do each kind of work in a process of its own."""
    arguments = ("tools.bench.static", "--sitemaps", str(files), str(addresses))
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
            if run.addresses != files * addresses:
                raise SystemExit(f"{work}: {run.addresses} addresses")
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
