"""Measures pages per second of a crawl, compared with stock Scrapy and crawlee.

It also measures reads of a job's status, and the memory of a crawl. The crawls run one
after another over the same linked pages of the same server, each with 16 requests in
flight. The page server runs on the same machine: nginx if it is installed, else
:mod:`tools.bench.static`. The sites are those of :mod:`tools.bench.linked`.

``--pages`` or the environment variable ``WCXB`` names a directory or archive of the WCXB
corpus. Without it, the pages are generated.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, frozen

from tools.bench import linked, nginx
from tools.bench.calls import KEY, call
from tools.bench.memory import Cpu, Memory, all_pss_mb, cpu_of
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.rivals import CONCURRENCY, HAS_CRAWLEE
from tools.bench.stored import Read, measure_memory, measure_reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULT = "crawl.md"
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_HOST_CONCURRENCY": str(CONCURRENCY),
    "SCRAPER_KEEP_SOURCES": "false",  # as the others, which keep no responses
}
SERVER = "nginx" if nginx.is_installed() else "Python"
CRAWL_TIMEOUT_S = 600
POLL_S = 0.2
MEMORY_POLL_S = 0.5
WARM_UP_PAGES = 20
NAMES = {
    "service": "this service",
    "local": "our spider, `scrapy crawl`",
    "stock": "stock Scrapy",
    "leased": "stock Scrapy, leased scheduler",
    "crawlee": "crawlee (Parsel)",
}
# The kinds of work, and the scrape options of each.
WORK = {"main": "main content", "all": "whole pages", "links": "links only"}
OPTIONS: dict[str, dict[str, Any]] = {
    "main": {"formats": ["markdown", "links"], "onlyMainContent": True},
    "all": {"formats": ["markdown", "links"], "onlyMainContent": False},
    "links": {"formats": []},
}
# The crawlers by kind of work. The rivals have no main content.
CRAWLERS = {
    "main": ("service", "local"),
    "all": ("service", "local", "stock", "crawlee"),
    "links": ("service", "local", "stock", "leased", "crawlee"),
}
# What others offer for each kind of work: Markdown of whole pages, or links.
PEERS = ("stock", "crawlee")
PEERS_ARE = (
    "The peers are stock Scrapy and crawlee, both with html2text, which converts whole"
    " pages."
)
PEER_WORK = {"main": "all", "all": "all", "links": "links"}


@frozen
class Effort:
    """The extent of a run."""

    #: Pages of each crawl.
    pages: int
    #: Crawls of each kind. The first of several measures memory, which takes time, and the
    #: others the time.
    rounds: int
    #: The kinds of sites, of :data:`tools.bench.linked.SITES`.
    sites: tuple[str, ...]
    #: Pages of the stored job whose status is read.
    stored_pages: int
    #: Maximum reads of each part of the stored job.
    reads: int
    #: Maximum seconds of reads of each part.
    read_s: float
    #: Sizes of the frontier for which memory is measured.
    frontier_rows: tuple[int, ...]
    #: Seconds between a crawl's first page and the memory measurement.
    memory_s: float


FULL = Effort(500, 6, linked.SITES, 100_000, 500, 20, (1_000, 10_000, 100_000), 8)
QUICK = Effort(40, 1, ("relinked",), 3_000, 5, 0.5, (100, 1_000), 1)


@frozen
class Run:
    """One crawl of all pages."""

    pages: int
    #: The duration of the crawl as the crawler reports it.
    seconds: float
    #: The maximum memory of all processes of the crawler; 0 if it was not measured.
    peak_mb: float
    #: The CPU time of the service during the crawl; None for other crawlers.
    cpu: Cpu | None = None

    @property
    def per_second(self) -> float:
        return self.pages / self.seconds


@frozen
class Crawls:
    """All crawls of one site by one crawler."""

    #: A key of :data:`NAMES`.
    name: str
    #: A key of :data:`WORK`.
    work: str
    runs: list[Run]

    @property
    def timed(self) -> list[Run]:
        return self.runs[1:] or self.runs

    @property
    def per_second(self) -> float:
        return statistics.median(run.per_second for run in self.timed)

    def cells(self, peer: float) -> tuple[str, ...]:
        """Return a row of the table; ``peer`` is the rate of the better peer."""
        rates = [run.per_second for run in self.timed]
        return (
            WORK[self.work],
            NAMES[self.name],
            str(self.runs[0].pages),
            f"{self.per_second:.1f}",
            f"{min(rates):.1f} to {max(rates):.1f}",
            f"{self.per_second / peer:.2f}",
            self._cpu_ms(lambda cpu: cpu.main_s),
            self._cpu_ms(lambda cpu: cpu.others_s),
            f"{self.runs[0].peak_mb:.0f}",
        )

    def _cpu_ms(self, part: Callable[[Cpu], float]) -> str:
        each = [1000 * part(run.cpu) / run.pages for run in self.timed if run.cpu]
        return f"{statistics.median(each):.1f}" if each else ""


HEADINGS = (
    *("Work", "By", "Pages", "Pages/s", "Range", "To the better peer"),
    *("CPU ms a page, main process", "converters", "Peak MB, all processes"),
)


@frozen
class Report:
    """The results of all measurements."""

    #: The number and the kind of the pages.
    source: str
    #: The crawls of each site.
    crawls: dict[str, list[Crawls]]
    #: Reads of the parts of a stored job.
    reads: list[Read]
    #: The memory of the main process, by rows of the frontier.
    memory: dict[int, Memory]

    def markdown(self) -> str:
        parts = [
            "# Crawl benchmark",
            f"{MACHINE}; {self.source}; {CONCURRENCY} requests in flight; no cache, no kept responses.",
            f"The pages are served by {SERVER}.",
            PEERS_ARE,
            *([] if HAS_CRAWLEE else ["crawlee is not installed and was left out."]),
        ]
        for site, crawls in self.crawls.items():
            parts += [f"## Site: {site}", table(HEADINGS, _crawl_rows(crawls))]
        parts += [
            "## Status of a stored job",
            table(
                ("Part", "Reads", "p50 ms", "p99 ms", "Failed"),
                [_read_cells(read) for read in self.reads],
            ),
            "## Memory of the main process while it crawls",
            table(
                ("Frontier rows", "PSS MB", "RSS MB"),
                [
                    (f"{rows}", f"{found.pss_mb:.1f}", f"{found.rss_mb:.1f}")
                    for rows, found in self.memory.items()
                ],
            ),
        ]
        return "\n\n".join(parts) + "\n"


def _crawl_rows(crawls: list[Crawls]) -> list[tuple[str, ...]]:
    peers = {
        work: max(
            own.per_second
            for own in crawls
            if own.name in PEERS and own.work == PEER_WORK[work]
        )
        for work in WORK
    }
    return [own.cells(peers[own.work]) for own in crawls]


def _read_cells(read: Read) -> tuple[str, ...]:
    load = read.load
    return (
        read.name,
        str(len(load.latencies_ms)),
        f"{load.percentile_ms(0.5):.1f}",
        f"{load.percentile_ms(0.99):.1f}",
        str(load.failed),
    )


def run(source: str, effort: Effort) -> Report:
    """Measure crawls, then reads, then memory."""
    kind = f"{effort.pages} {'pages of WCXB' if source else 'generated pages'}"
    crawls = {}
    for name in effort.sites:
        with _site(source, effort.pages, name) as static:
            url = static.line("http", timeout_s=120) + linked.path(0)
            crawls[name] = _crawls(url, effort)
    reads = measure_reads(effort.stored_pages, effort.reads, effort.read_s)
    with _site(source, effort.pages, "relinked") as static:
        site = static.line("http", timeout_s=120)
        memory = {
            rows: measure_memory(rows, site, effort.memory_s)
            for rows in effort.frontier_rows
        }
    return Report(kind, crawls, reads, memory)


def _site(source: str, pages: int, name: str) -> ServerProcess:
    arguments = ("--linked", str(pages), "--source", source, "--site", name)
    server = "tools.bench.nginx" if SERVER == "nginx" else "tools.bench.static"
    return ServerProcess(server, *arguments)


def _crawls(url: str, effort: Effort) -> list[Crawls]:
    """Crawl by all crawlers in turn, so that none has the machine's better minutes."""
    every = [
        (work, name)
        for work, names in CRAWLERS.items()
        for name in names
        if name != "crawlee" or HAS_CRAWLEE
    ]
    runs: dict[tuple[str, str], list[Run]] = {each: [] for each in every}
    for number in range(effort.rounds):
        for work, name in every:
            crawl = _serve if name == "service" else _rival
            done = crawl(name, url, work, is_watched=number == 0)
            if done.pages != effort.pages:
                raise SystemExit(f"{name}: {done.pages} of {effort.pages} pages")
            runs[work, name].append(done)
            took = f"{done.seconds:.1f} s"
            print(f"{WORK[work]}, {NAMES[name]}: {took}", file=sys.stderr)
    return [Crawls(name, work, done) for (work, name), done in runs.items()]


def _rival(name: str, url: str, work: str, *, is_watched: bool) -> Run:
    inherited = {k: v for k, v in os.environ.items() if not k.lower().endswith("proxy")}
    arguments = ("tools.bench.rivals", name, url, "--work", work)
    environment = {**inherited, **ENVIRONMENT}
    with (
        ServerProcess(*arguments, environment=environment) as rival,
        _peak_memory(rival.pid, is_watched=is_watched) as peak,
    ):
        done = json.loads(rival.line("{", CRAWL_TIMEOUT_S))
    return Run(done["pages"], done["seconds"], peak.mb)


def _serve(_name: str, url: str, work: str, *, is_watched: bool) -> Run:
    """Crawl through the service after a warm-up crawl of a few pages."""
    with (
        tempfile.TemporaryDirectory() as data_dir,
        ServiceProcess(Path(data_dir), ENVIRONMENT) as service,
    ):
        _crawl(service.url, url, work, limit=WARM_UP_PAGES)
        before = cpu_of(service.pid)
        with _peak_memory(service.pid, is_watched=is_watched) as peak:
            status = _crawl(service.url, url, work, limit=10_000)
        cpu = cpu_of(service.pid) - before
    return Run(status["completed"], _seconds(status), peak.mb, cpu)


@define
class _Peak:
    mb: float = 0.0


@contextmanager
def _peak_memory(pid: int, *, is_watched: bool) -> Iterator[_Peak]:
    """Look at the memory of a process and its descendants until the block ends.

    A look stops each process for some milliseconds.
    """
    peak, is_over = _Peak(), threading.Event()
    if not is_watched:
        yield peak
        return

    def watch() -> None:
        while not is_over.wait(MEMORY_POLL_S):
            peak.mb = max(peak.mb, all_pss_mb(pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        is_over.set()
        watcher.join()


def _crawl(service: str, url: str, work: str, limit: int) -> dict[str, Any]:
    """Crawl to the end; return the status with one page."""
    scrape = {**OPTIONS[work], "maxAge": 0, "storeInCache": False}
    body = {"url": url, "limit": limit, "sitemap": "skip", "scrapeOptions": scrape}
    started = call(f"{service}/v2/crawl", body)
    end = time.perf_counter() + CRAWL_TIMEOUT_S
    while time.perf_counter() < end:
        status: dict[str, Any] = call(f"{service}/v2/crawl/{started['id']}?limit=1")
        if status["status"] == "completed":
            _check(status, plain=work == "links")
            return status
        time.sleep(POLL_S)
    raise SystemExit(f"the crawl did not end: {status}"[:500])


def _check(status: dict[str, Any], *, plain: bool) -> None:
    """Exit if the page lacks the requested formats, or has formats in a plain crawl."""
    (page,) = status["data"]
    if bool(page.get("markdown") and page.get("links")) == plain:
        raise SystemExit(f"not a good page: {page}"[:500])


def _seconds(status: dict[str, Any]) -> float:
    created, completed = (
        datetime.fromisoformat(status[name]) for name in ("createdAt", "completedAt")
    )
    return (completed - created).total_seconds()


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument(
        "--pages", default=os.environ.get("WCXB", ""), help="directory or archive"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help="crawls of each kind; the first of several measures memory alone",
    )
    parser.add_argument("--sites", help=f"some of {','.join(linked.SITES)}")
    options = parser.parse_args()
    if not options.pages:
        print("no --pages and no WCXB: crawling generated pages", file=sys.stderr)
    effort = QUICK if options.quick else FULL
    if options.rounds:
        effort = evolve(effort, rounds=options.rounds)
    if options.sites:
        effort = evolve(effort, sites=tuple(options.sites.split(",")))
    text = run(options.pages, effort).markdown()
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
