"""Measures the seconds of a map request for a site with large sitemaps.

The requests go over HTTP; the site's server runs on the same machine. The service stores
nothing of the site: every map fetches the sitemaps again.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.bench.calls import KEY, fetch
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table

RESULT = "map.md"
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
}
SEARCHES = {"none": "", "three words": "usual address 77"}
HEADINGS = (
    *("Sitemaps", "URLs", "Maps", "Search"),
    *("Median s", "Slowest s", "Response MB"),
)


def request_map(service: str, body: dict[str, Any]) -> tuple[float, int, int]:
    """Request one map; return its seconds, URLs and bytes."""
    begin = time.perf_counter()
    text = fetch(f"{service}/v2/map", body, timeout_s=120)
    seconds = time.perf_counter() - begin
    return seconds, len(json.loads(text)["links"]), len(text)


def measure(files: int, urls: int, maps: int) -> list[tuple[str, ...]]:
    """Return a row for each search: ``maps`` maps after a warm-up map."""
    arguments = ("tools.bench.static", "--sitemaps", str(files), str(urls))
    with (
        ServerProcess(*arguments) as server,
        tempfile.TemporaryDirectory() as data_dir,
        ServiceProcess(Path(data_dir), ENVIRONMENT) as service,
    ):
        site = server.line("http://")
        total = files * urls
        return [
            (str(files), str(total), str(maps), name, *cells(service.url, body, maps))
            for name, search in SEARCHES.items()
            for body in [{"url": f"{site}/", "limit": total, "search": search or None}]
        ]


def cells(service: str, body: dict[str, Any], maps: int) -> tuple[str, str, str]:
    """Return median, slowest and size of ``maps`` maps after the first."""
    found = [request_map(service, body) for _ in range(maps + 1)][1:]
    for _, count, _ in found:
        if count != body["limit"]:
            raise SystemExit(f"{count} URLs of {body['limit']}")
    seconds = [each[0] for each in found]
    return (
        f"{statistics.median(seconds):.2f}",
        f"{max(seconds):.2f}",
        f"{found[0][2] / 1e6:.1f}",
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    rows = measure(2, 2000, 2) if options.quick else measure(2, 50_000, 5)
    cells = table(HEADINGS, rows)
    text = f"# Map benchmark\n\n{MACHINE}; the site's server shares them.\n\n{cells}\n"
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
