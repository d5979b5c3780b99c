"""Measures pages per second of a crawl, compared with stock Scrapy and crawlee.

It also measures reads of a job's status, and the memory of a crawl. The crawls run one
after another over the same linked pages of the same server, each with 16 requests in
flight. The page server runs on the same machine.

``--pages`` or the environment variable ``WCXB`` names a directory or archive of the WCXB
corpus. Without it, the pages are generated.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from tools.bench import linked
from tools.bench.calls import KEY, call
from tools.bench.memory import Memory
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.rivals import CONCURRENCY, HAS_CRAWLEE
from tools.bench.stored import Read, measure_memory, measure_reads

RESULT = "crawl.md"
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_HOST_CONCURRENCY": str(CONCURRENCY),
}
CRAWL_TIMEOUT_S = 600
POLL_S = 0.2
WARM_UP_PAGES = 20
NAMES = {
    "service": "this service",
    "local": "our spider, `scrapy crawl`",
    "stock": "stock Scrapy",
    "leased": "stock Scrapy, leased scheduler",
    "crawlee": "crawlee (Parsel)",
}
# The crawlers by kind of work: False with conversion, True with links only.
WORK = {
    False: ("service", "local", "stock", "crawlee"),
    True: ("service", "local", "stock", "leased", "crawlee"),
}


@frozen
class Effort:
    """The extent of a run."""

    #: Pages of each crawl.
    pages: int
    #: Crawls of each kind.
    rounds: int
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


FULL = Effort(500, 2, 100_000, 500, 20, (1_000, 10_000, 100_000), 8)
QUICK = Effort(40, 1, 3_000, 5, 0.5, (100, 1_000), 1)


@frozen
class Run:
    """One crawl of all pages."""

    pages: int
    #: The duration of the crawl as the crawler reports it.
    seconds: float
    #: The time from the request to the end, as the client sees it.
    wall_s: float

    @property
    def per_second(self) -> float:
        return self.pages / self.seconds


@frozen
class Crawls:
    """All crawls of one kind by one crawler."""

    #: The crawler, a key of :data:`NAMES`.
    name: str
    #: True for crawls that only follow links.
    plain: bool
    runs: list[Run]

    @property
    def per_second(self) -> float:
        return statistics.median(run.per_second for run in self.runs)

    def cells(self, stock: Crawls) -> tuple[str, ...]:
        rates = [run.per_second for run in self.runs]
        return (
            "links only" if self.plain else "Markdown, links, metadata",
            NAMES[self.name],
            str(self.runs[0].pages),
            f"{self.per_second:.1f}",
            f"{min(rates):.1f} to {max(rates):.1f}",
            f"{statistics.median(run.wall_s for run in self.runs):.1f}",
            f"{self.per_second / stock.per_second:.2f}",
        )


HEADINGS = (
    *("Work", "By", "Pages", "Pages/s"),
    *("Range", "Wall s", "To stock Scrapy"),
)


@frozen
class Report:
    """The results of all measurements."""

    #: The number and the kind of the pages.
    source: str
    crawls: list[Crawls]
    #: Reads of the parts of a stored job.
    reads: list[Read]
    #: The memory of the main process, by rows of the frontier.
    memory: dict[int, Memory]

    def markdown(self) -> str:
        parts = [
            "# Crawl benchmark",
            f"{MACHINE}; {self.source}; {CONCURRENCY} requests in flight; no cache.",
            table(HEADINGS, self._crawl_rows()),
            *([] if HAS_CRAWLEE else ["crawlee is not installed and was left out."]),
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

    def _crawl_rows(self) -> list[tuple[str, ...]]:
        stock = {x.plain: x for x in self.crawls if x.name == "stock"}
        return [crawls.cells(stock[crawls.plain]) for crawls in self.crawls]


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
    arguments = ("--linked", str(effort.pages), "--source", source)
    with ServerProcess("tools.bench.static", *arguments) as static:
        site = static.line("http", timeout_s=120)
        crawls = _crawls(site + linked.path(0), effort)
        reads = measure_reads(effort.stored_pages, effort.reads, effort.read_s)
        memory = {
            rows: measure_memory(rows, site, effort.memory_s)
            for rows in effort.frontier_rows
        }
    return Report(kind, crawls, reads, memory)


def _crawls(url: str, effort: Effort) -> list[Crawls]:
    found = []
    for plain, names in WORK.items():
        present = [name for name in names if name != "crawlee" or HAS_CRAWLEE]
        runs: dict[str, list[Run]] = {name: [] for name in present}
        for _ in range(effort.rounds):
            for name in present:
                done = (_serve if name == "service" else _rival)(name, url, plain)
                if done.pages != effort.pages:
                    raise SystemExit(f"{name}: {done.pages} of {effort.pages} pages")
                runs[name].append(done)
                print(f"{NAMES[name]}: {done.seconds:.1f} s", file=sys.stderr)
        found += [Crawls(name, plain, done) for name, done in runs.items()]
    return found


def _rival(name: str, url: str, plain: bool) -> Run:
    inherited = {k: v for k, v in os.environ.items() if not k.lower().endswith("proxy")}
    arguments = (name, url, *(["--plain"] if plain else []))
    begin = time.perf_counter()
    with ServerProcess(
        "tools.bench.rivals", *arguments, environment={**inherited, **ENVIRONMENT}
    ) as rival:
        done = json.loads(rival.line("{", CRAWL_TIMEOUT_S))
        return Run(done["pages"], done["seconds"], time.perf_counter() - begin)


def _serve(_name: str, url: str, plain: bool) -> Run:
    """Crawl through the service after a warm-up crawl of a few pages."""
    with (
        tempfile.TemporaryDirectory() as data_dir,
        ServiceProcess(Path(data_dir), ENVIRONMENT) as service,
    ):
        _crawl(service.url, url, plain, limit=WARM_UP_PAGES)
        return _crawl(service.url, url, plain, limit=10_000)


def _crawl(service: str, url: str, plain: bool, limit: int) -> Run:
    scrape = {
        "formats": [] if plain else ["markdown", "links"],
        "onlyMainContent": False,
        "maxAge": 0,
        "storeInCache": False,
    }
    body = {"url": url, "limit": limit, "sitemap": "skip", "scrapeOptions": scrape}
    begin = time.perf_counter()
    started = call(f"{service}/v2/crawl", body)
    end = begin + CRAWL_TIMEOUT_S
    while time.perf_counter() < end:
        status = call(f"{service}/v2/crawl/{started['id']}?limit=1")
        if status["status"] == "completed":
            wall_s = time.perf_counter() - begin
            _check(status, plain)
            return Run(status["completed"], _seconds(status), wall_s)
        time.sleep(POLL_S)
    raise SystemExit(f"the crawl did not end: {status}"[:500])


def _check(status: dict[str, Any], plain: bool) -> None:
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
    parser.add_argument("--rounds", type=int, help="crawls of each kind")
    options = parser.parse_args()
    if not options.pages:
        print("no --pages and no WCXB: crawling generated pages", file=sys.stderr)
    effort = QUICK if options.quick else FULL
    if options.rounds:
        effort = evolve(effort, rounds=options.rounds)
    text = run(options.pages, effort).markdown()
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
