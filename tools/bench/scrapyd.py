"""Pages per second of one job on one scrapyd node and on two.

The pages are on many hosts of this machine, each of which takes a second to answer: on
one host the pace, which all processes share, would hide what a second node adds. Rates
are between the first page of a job and its last; the whole time has the start of the
processes in it.
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
    """One job: ``seconds`` between its first and its last page."""

    pages: int
    seconds: float
    wall_s: float

    @property
    def per_second(self) -> float:
        return (self.pages - 1) / self.seconds


def measure(nodes: int, urls: list[str]) -> Run:
    """Scrape ``urls`` as one job with a process on each of so many nodes."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = {**EGRESS, "SCRAPER_DATA_DIR": str(folder / "data")}
        running = [
            ScrapydNode(folder / f"node{number}", **shared) for number in range(nodes)
        ]
        for node in running:
            stack.callback(node.kill)
            node.call("listspiders.json?project=scraper_service")  # it remembers them
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
    query = "SELECT max(at) - min(at) FROM event WHERE kind = 'page' AND job_id = ?"
    with contextlib.closing(sqlite3.connect(data_dir / "jobs.sqlite")) as database:
        (seconds,) = database.execute(query, (job_id,)).fetchone()
    return float(seconds)


def addresses(site: str, count: int, pages: int) -> list[str]:
    """Return ``pages`` slow pages of each of ``count`` hosts, in turn."""
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
        f" hosts answer after a second; SQLite.\n\n{cells}\n"
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    count, pages, rounds = (10, 4, 1) if options.quick else (50, 16, 2)
    runs: dict[int, list[Run]] = {1: [], 2: []}
    with ServerProcess("tools.bench.static", "--hosts", str(count)) as server:
        urls = addresses(server.line("http://"), count, pages)
        for _ in range(rounds):
            for nodes, found in runs.items():
                found.append(measure(nodes, urls))
    text = report(runs)
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
