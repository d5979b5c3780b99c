"""Measures pages per second of one job on one and on two scrapyd nodes.

The pages are on many local hosts that respond after a second. On a single host, the shared
limit per host would hide the gain of a second node. Rates count from the first to the last
page of a job. The time of the whole job includes the start of the processes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from attrs import frozen

from tools.bench.calls import KEY, call
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.scrapyd_node import ScrapydNode
from tools.bench.static import hosts

RESULT = "scrapyd.md"
EGRESS = {"SCRAPER_EGRESS_ALLOW": "127.0.1.0/24"}
TIMEOUT_S = 300
HEADINGS = ("Nodes", "Pages", "Pages/s", "Range", "Whole job s", "To one node")


@frozen
class Run:
    """The result of one job."""

    pages: int
    #: The time from the first page to the last page.
    seconds: float
    #: The time from the request to the end of the job.
    wall_s: float

    @property
    def per_second(self) -> float:
        return (self.pages - 1) / self.seconds


def measure(nodes: int, urls: list[str]) -> Run:
    """Scrape ``urls`` as one job with a process on each of ``nodes`` nodes."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = {**EGRESS, "SCRAPER_DATA_DIR": str(folder / "data")}
        running = [
            ScrapydNode(folder / f"node{number}", **shared) for number in range(nodes)
        ]
        for node in running:
            stack.callback(node.kill)
            # scrapyd caches the list of spiders.
            node.call("listspiders.json?project=scraper_service")
        environment = {
            "SCRAPER_API_KEYS": KEY,
            "SCRAPER_JOB_RUNNER": "scraper_service.services.scrapyd.runner.ScrapydRunner",
            "SCRAPER_SCRAPYD_NODES": ",".join(node.address for node in running),
            "SCRAPER_SCRAPYD_PROCESSES_PER_JOB": str(nodes),
            **EGRESS,
        }
        service = stack.enter_context(ServiceProcess(folder / "data", environment))
        begin = time.perf_counter()
        started = call(f"{service.url}/v2/batch/scrape", {"urls": urls, "maxAge": 0})
        path = f"{service.url}/v2/batch/scrape/{started['id']}?limit=1"
        while (status := call(path))["status"] == "scraping":
            if time.perf_counter() > begin + TIMEOUT_S:
                raise SystemExit(f"the job did not end: {status}"[:500])
            time.sleep(0.1)
        wall_s = time.perf_counter() - begin
        if status["completed"] != len(urls):
            raise SystemExit(f"not all pages: {status}"[:500])
        return Run(len(urls), _seconds(folder / "data", started["id"]), wall_s)


def _seconds(data_dir: Path, job_id: str) -> float:
    query = (
        "SELECT max(at) - min(at) FROM event WHERE kind = 'page'"
        " AND job_number = (SELECT number FROM job WHERE id = ?)"
    )
    with contextlib.closing(sqlite3.connect(data_dir / "jobs.sqlite")) as database:
        (seconds,) = database.execute(query, (job_id,)).fetchone()
    return float(seconds)


def slow_urls(site: str, count: int, pages: int) -> list[str]:
    """Return the URLs of ``pages`` slow pages on each of ``count`` hosts, in turn."""
    port = urlsplit(site).port
    names = hosts(count)
    return [f"http://{name}:{port}/slow/{n}" for n in range(pages) for name in names]


def report(runs: dict[int, list[Run]]) -> str:
    rates = {
        nodes: statistics.median(run.per_second for run in found)
        for nodes, found in runs.items()
    }
    rows = []
    for nodes, found in runs.items():
        each = [run.per_second for run in found]
        rows.append(
            (
                *(str(nodes), str(found[0].pages), f"{rates[nodes]:.1f}"),
                f"{min(each):.1f} to {max(each):.1f}",
                f"{statistics.median(run.wall_s for run in found):.1f}",
                f"{rates[nodes] / rates[1]:.2f}",
            )
        )
    cells = table(HEADINGS, rows)
    return (
        f"# Benchmark of scrapyd nodes\n\n{MACHINE}, shared by nodes, service and site;"
        f" hosts respond after a second; SQLite.\n\n{cells}\n"
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    count, pages, rounds = (10, 4, 1) if options.quick else (50, 16, 2)
    runs: dict[int, list[Run]] = {1: [], 2: []}
    with ServerProcess("tools.bench.static", "--hosts", str(count)) as server:
        urls = slow_urls(server.line("http://"), count, pages)
        for _ in range(rounds):
            for nodes, found in runs.items():
                found.append(measure(nodes, urls))
    text = report(runs)
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
