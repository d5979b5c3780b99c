"""Counts the modules of the package that a request runs through.

``python -m tools.walks`` starts the service and prints for each walk how many modules had a
function called: from a crawl request to the stored job, from there to the stored page, in
the service and in the process that converts it, for a read of the status, and for a check
of a monitor. Each walk is repeated, and only the modules of every repetition count:
background work of the service falls into some of them. ``--list`` prints the modules, too.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.calls import KEY, call
from tools.bench.processes import ROOT, ServerProcess, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "scraper_service"
REPETITIONS = 4
IDLE_S = 6.0
ADMITTED_S = 1.0
PAGE_S = 4.0  # for the crawl of one page
CHECK_S = 8.0
FRESH = {"scrapeOptions": {"maxAge": 0}}
# Notes files from one SIGUSR1 to the next, and writes them into a file for the process.
NOTING = """
import os, signal, sys, threading
seen, noting = set(), False
def note(frame, event, argument):
    if noting and event == "call":
        seen.add(frame.f_code.co_filename)
def toggle(*_):
    global noting
    noting = not noting
    if not noting:
        path = os.path.join(os.environ["WALKS"], str(os.getpid()))
        with open(path, "w") as file:
            file.write("\\n".join(seen))
        seen.clear()
signal.signal(signal.SIGUSR1, toggle)
sys.setprofile(note)
threading.setprofile(note)
"""


class Walks:
    """A service whose processes note what they run."""

    def __init__(self, folder: Path, **settings: str):
        self._notes = folder / "notes"
        self._notes.mkdir(parents=True)
        (folder / "sitecustomize.py").write_text(NOTING)
        environment = {
            "PYTHONPATH": f"{folder}:{ROOT}",
            "WALKS": str(self._notes),
            "SCRAPER_API_KEYS": KEY,
            "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
            "SCRAPER_RENDER": "never",
            **settings,
        }
        self.service = ServiceProcess(folder / "data", environment)
        self.url = self.service.url

    def run(self, work: Callable[[], object], wait_s: float) -> list[set[str]]:
        """Return the modules that ran: in the service, and in its other processes."""
        self._toggle()
        work()
        time.sleep(wait_s)
        self._toggle()
        found: list[set[str]] = [set(), set()]
        for path in self._notes.iterdir():
            modules = {
                name.partition(f"/{PACKAGE}/")[2]
                for name in path.read_text().splitlines()
                if f"/{PACKAGE}/" in name and "site-packages" not in name
            }
            found[path.name != str(self.service.pid)] |= modules
            path.unlink()
        return found

    def common(self, work: Callable[[], object], wait_s: float) -> list[set[str]]:
        """Return the modules that ran in every repetition of ``work``, as :meth:`run`."""
        runs = [self.run(work, wait_s) for _ in range(REPETITIONS)]
        return [set.intersection(*part) for part in zip(*runs, strict=True)]

    def _toggle(self) -> None:
        os.killpg(self.service.pid, signal.SIGUSR1)
        time.sleep(0.5)


def count(folder: Path, origin: str) -> dict[str, set[str]]:
    """Return the modules of each walk."""
    body = {"url": f"{origin}/article", "limit": 1, "sitemap": "skip", **FRESH}
    waiting = Walks(folder / "waiting", SCRAPER_MAX_RUNNING_JOBS="0")
    try:
        jobs: list[str] = []
        start = lambda: jobs.append(call(f"{waiting.url}/v2/crawl", body)["id"])  # noqa: E731
        idle = waiting.run(lambda: None, IDLE_S)[0]
        admitted = waiting.common(start, ADMITTED_S)[0] - idle
        path = f"{waiting.url}/v2/crawl/{jobs[0]}"
        read = waiting.common(lambda: call(path), ADMITTED_S)[0] - idle
    finally:
        waiting.service.kill()
    running = Walks(folder / "running", SCRAPER_CONVERTER_PROCESSES="1")
    try:
        call(f"{running.url}/v2/scrape", {"url": f"{origin}/article"})
        idle = running.run(lambda: None, IDLE_S)[0]
        crawl = lambda: call(f"{running.url}/v2/crawl", body)  # noqa: E731
        service, converter = running.common(crawl, PAGE_S)
        monitor = {
            "name": "walk",
            "schedule": {"cron": "0 0 1 1 *"},
            "targets": [
                {"type": "crawl", "url": body["url"], "crawlOptions": {"limit": 1}}
            ],
        }
        made = call(f"{running.url}/v2/monitor", monitor)["data"]["id"]
        run = f"{running.url}/v2/monitor/{made}/run"
        check = running.common(lambda: call(run, {}), CHECK_S)[0]
    finally:
        running.service.kill()
    return {
        "a crawl request to the stored job": admitted,
        "from there to the stored page, service": service - idle - admitted,
        "from there to the stored page, converter": converter,
        "a status read": read,
        "a check of a monitor, beside its crawl": check - idle - admitted - service,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the modules, too")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess("tools.bench.static") as site,
    ):
        for walk, modules in count(Path(folder), site.line("http")).items():
            print(f"{len(modules):4d} modules: {walk}")
            if options.list:
                print("".join(f"      {name}\n" for name in sorted(modules)), end="")


if __name__ == "__main__":
    main()
