"""How fluid the long lists of the web page are: ``python -m tools.bench.web_lists``.

Stores 1,000 jobs, one of them with 100,000 URLs, in a new database. Scrolls both lists in
Chromium, through all that they read, and prints the times between frames and those of the
reads in ms, as JSON. A display shows a frame each 16.7 ms.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from scraper_service.storage.job_records import RowState
from tools.bench.calls import KEY, call
from tools.bench.processes import ServerProcess, ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playwright.sync_api import Page, Request

ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_RENDER": "never",
}
#: Scrolls a list by ``step`` pixels with each frame, until ``seconds`` are over or the end
#: of ``rows`` is reached; returns the times between frames.
SCROLL = """async ({ label, step, seconds, rows, height }) => {
  const list = document.querySelector(`.rows[aria-label="${label}"]`);
  const times = [];
  const stop = performance.now() + seconds * 1000;
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let last = await frame();
  while (last < stop && list.scrollTop < rows * height - 600) {
    list.scrollTop += step;
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return { times, top: list.scrollTop, nodes: list.querySelectorAll("*").length };
}"""


def fill(database: Path, job_id: str, jobs: int, urls: int) -> None:
    """Copy a job ``jobs`` times, and give it ``urls`` skipped URLs."""
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    job = dict(
        connection.execute("SELECT * FROM job WHERE id = ?", [job_id]).fetchone()
    )
    names = ", ".join(job)
    marks = ", ".join(f":{name}" for name in job)
    copies = [
        job
        | {
            "id": str(uuid.uuid4()),
            "number": job["number"] + 1 + n,
            "created_at": job["created_at"] - n,
            "target": f"http://site-{n}.example/",
        }
        for n in range(jobs)
    ]
    connection.executemany(
        f"INSERT INTO job ({names}) VALUES ({marks})",  # of columns
        copies,
    )
    rows = (
        (job["number"], 10 + n, f"http://site.example/path/{n}/of-a-usual-length")
        for n in range(urls)
    )
    connection.executemany(
        "INSERT INTO frontier (job_number, key, url, depth, state, code)"
        f" VALUES (?, ?, ?, 3, {RowState.SKIPPED:d}, 'external')",
        rows,
    )
    connection.execute("UPDATE job SET skipped = ? WHERE id = ?", [urls, job_id])
    connection.commit()
    connection.close()


def scrolled(
    shown: Page, label: str, rows: int, height: int, step: int
) -> dict[str, Any]:
    """Scroll a list to its end; return figures of its frames."""
    began = time.monotonic()
    times: list[float] = []
    facts: dict[str, Any] = {}
    bottom = -1.0
    while time.monotonic() < began + 300:
        facts = shown.evaluate(
            SCROLL,
            {
                "label": label,
                "step": step,
                "seconds": 10,
                "rows": rows,
                "height": height,
            },
        )
        times += facts["times"]
        if facts["top"] >= rows * height - 600 or facts["top"] == bottom:
            break
        bottom = facts["top"]
    times.sort()
    return {
        "rows": round(facts["top"] / height),
        "elements": facts["nodes"],
        "frames": len(times),
        "median": round(times[len(times) // 2], 1),
        "p95": round(times[int(len(times) * 0.95)], 1),
        "p99": round(times[int(len(times) * 0.99)], 1),
        "longest": round(times[-1], 1),
        "over_50_ms": sum(each > 50 for each in times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--urls", type=int, default=100_000)
    parser.add_argument("--step", type=int, default=1200, help="pixels with each frame")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess("tools.bench.static") as site,
        ServiceProcess(Path(folder), ENVIRONMENT) as service,
    ):
        crawl = f"{service.url}/v2/crawl"
        job = call(crawl, {"url": f"{site.line()}/article", "limit": 1})["id"]
        while call(f"{crawl}/{job}")["status"] != "completed":
            time.sleep(0.05)
        fill(Path(folder) / "jobs.sqlite", job, args.jobs, args.urls)
        print(json.dumps(figures(service, job, args), indent=2))


def figures(
    service: ServiceProcess, job: str, args: argparse.Namespace
) -> dict[str, Any]:
    """Return the figures of both lists."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium")
            or shutil.which("chromium-headless-shell"),
            args=["--no-sandbox"],
        )
        shown = browser.new_page(viewport={"width": 1440, "height": 900})
        reads: list[tuple[str, float]] = []
        shown.on("requestfinished", lambda request: reads.append(_read(request)))
        shown.goto(service.url)
        shown.get_by_label("API key").fill(KEY)
        shown.keyboard.press("Enter")
        shown.get_by_role("tab", name="scrape").wait_for()
        shown.goto(f"{service.url}/#/jobs")
        shown.get_by_role("list", name="Jobs").wait_for()
        jobs = scrolled(shown, "Jobs", args.jobs, 46, args.step // 10)
        shown.goto(f"{service.url}/#/jobs/{job}?kind=crawl&tab=urls")
        shown.get_by_role("list", name="URLs").wait_for()
        urls = scrolled(shown, "URLs", args.urls, 34, args.step)
        began = time.monotonic()
        call(f"{service.url}/v2/crawl/{job}/report")
        report_ms = (time.monotonic() - began) * 1000
        browser.close()
    return {
        "jobs": jobs | {"reads": spread(t for path, t in reads if "jobs?" in path)},
        "urls": urls | {"reads": spread(t for path, t in reads if "/urls?" in path)},
        "report_ms": round(report_ms, 1),
    }


def _read(request: Request) -> tuple[str, float]:
    """Return the URL of a read and its time in ms."""
    timing = request.timing
    return request.url, timing["responseEnd"] - timing["requestStart"]


def spread(found: Iterable[float]) -> dict[str, float]:
    """Return how times are spread."""
    times = sorted(found)
    return {
        "count": len(times),
        "median": round(times[len(times) // 2], 1),
        "p99": round(times[int(len(times) * 0.99)], 1),
        "longest": round(times[-1], 1),
    }


if __name__ == "__main__":
    main()
