"""Measures events per second for many watchers of a job, by WebSocket and event stream.

All watchers follow a crawl from its start, and again after its end. They run in one
process, which only counts events. The process shares the cores with the service, its
converters and the site.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from attrs import frozen

from tools.bench import linked
from tools.bench.calls import HEADERS, KEY
from tools.bench.memory import memory_of
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

RESULT = "watch.md"
WATCHERS = 50
PAGES = 2000
TIMEOUT_S = 600
READ_BYTES = 2**16
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_HOST_CONCURRENCY": "64",
    "SCRAPER_JOB_CONCURRENCY": "64",
}
HEADINGS = (
    *("Watched by", "Job", "Watchers", "Pages", "Seconds", "Events/s"),
    *("MB/s", "Service RSS MB before", "peak"),
)


@frozen
class Run:
    """The totals of all watchers of a job."""

    #: WebSocket or event stream.
    kind: str
    #: True if the job ended before the watchers connected.
    is_stored: bool
    watchers: int
    pages: int
    #: The events of all watchers: pages, and the end of the job.
    events: int
    #: The bytes that all watchers received.
    size: int
    seconds: float
    #: The resident memory of the service before the run.
    before_mb: float
    #: The peak of the service's resident memory.
    peak_mb: float

    def cells(self) -> tuple[str, ...]:
        return (
            self.kind,
            "ended" if self.is_stored else "running",
            str(self.watchers),
            str(self.pages),
            f"{self.seconds:.1f}",
            f"{self.events / self.seconds:.0f}",
            f"{self.size / self.seconds / 1e6:.1f}",
            f"{self.before_mb:.0f}",
            f"{self.peak_mb:.0f}",
        )


async def _by_socket(session: aiohttp.ClientSession, url: str) -> tuple[int, int]:
    """Return the number of documents received, and their size."""
    events = size = 0
    async with session.ws_connect(url, headers=HEADERS, max_msg_size=0) as socket:
        async for message in socket:
            size += len(message.data)
            # The first message contains several documents.
            events += message.data.count('"scrapeId"')
    return events, size


async def _by_stream(session: aiohttp.ClientSession, url: str) -> tuple[int, int]:
    """Return the number of page events received, and the bytes of the stream."""
    events = size = 0
    rest = b""
    async with session.get(f"{url}/events", headers=HEADERS) as response:
        async for some in response.content.iter_chunked(READ_BYTES):
            size += len(some)
            *lines, rest = (rest + some).split(b"\n")
            events += lines.count(b"event: crawl.page")
    return events, size


READERS: dict[
    str, Callable[[aiohttp.ClientSession, str], Coroutine[None, None, tuple[int, int]]]
] = {"WebSocket": _by_socket, "event stream": _by_stream}


async def run(service: ServiceProcess, site: str, watchers: int) -> list[Run]:
    """Measure both kinds, each with a separate crawl."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    found = []
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        for kind in READERS:
            body = {
                "url": site + linked.path(0),
                "limit": PAGES,
                "sitemap": "skip",
                "crawlEntireDomain": True,
                "scrapeOptions": {"maxAge": 0},
            }
            crawl = f"{service.url}/v2/crawl"
            async with session.post(crawl, json=body, headers=HEADERS) as response:
                job = f"{crawl}/{(await response.json())['id']}"
            found += [
                await _watch(session, service, job, kind, is_stored, watchers)
                for is_stored in (False, True)
            ]
    return found


async def _watch(
    session: aiohttp.ClientSession,
    service: ServiceProcess,
    job: str,
    kind: str,
    is_stored: bool,
    watchers: int,
) -> Run:
    before = memory_of(service.pid)[0].rss_mb
    begin = time.perf_counter()
    parts = await asyncio.gather(
        *(READERS[kind](session, job) for _ in range(watchers))
    )
    seconds = time.perf_counter() - begin
    async with session.get(f"{job}?limit=1", headers=HEADERS) as response:
        pages = (await response.json())["completed"]
    counts = {events for events, _ in parts}
    if counts != {pages}:
        raise SystemExit(f"{pages} pages, but watchers got {sorted(counts)} of them")
    return Run(
        kind=kind,
        is_stored=is_stored,
        watchers=watchers,
        pages=pages,
        events=sum(events for events, _ in parts) + watchers,
        size=sum(size for _, size in parts),
        seconds=seconds,
        before_mb=before,
        peak_mb=memory_of(service.pid)[0].peak_mb,
    )


def report(runs: list[Run]) -> str:
    cells = table(HEADINGS, (each.cells() for each in runs))
    return (
        f"# Watchers benchmark\n\n{MACHINE}, SQLite; the crawl limits the speed of a"
        f" running job.\n\n{cells}\n"
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("--watchers", type=int, default=WATCHERS)
    options = parser.parse_args()
    pages = 60 if options.quick else PAGES
    watchers = 5 if options.quick else options.watchers
    with (
        tempfile.TemporaryDirectory() as data_dir,
        ServerProcess("tools.bench.static", "--linked", str(pages)) as static,
        ServiceProcess(Path(data_dir), ENVIRONMENT) as service,
    ):
        text = report(asyncio.run(run(service, static.line("http"), watchers)))
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
