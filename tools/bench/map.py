"""Seconds that a caller waits for the map of a site with large sitemaps.

The service is asked over HTTP; the site's server shares the machine. Every map is made
anew: nothing of the site is stored.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.bench.calls import KEY, answer
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table

RESULT = "map.md"
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
}
SEARCHES = {"none": "", "three words": "usual address 77"}
HEADINGS = (
    *("Sitemaps", "Addresses", "Maps", "Search"),
    *("Median s", "Slowest s", "Answer MB"),
)


def ask(service: str, body: dict[str, Any]) -> tuple[float, int, int]:
    """Return the seconds, addresses and bytes of one map."""
    begin = time.perf_counter()
    text = answer(f"{service}/v2/map", body, timeout_s=120)
    seconds = time.perf_counter() - begin
    return seconds, len(json.loads(text)["links"]), len(text)


def measure(files: int, addresses: int, maps: int) -> list[tuple[str, ...]]:
    """Return a row for each search: ``maps`` maps after one that is not counted."""
    arguments = ("tools.bench.static", "--sitemaps", str(files), str(addresses))
    with (
        ServerProcess(*arguments) as server,
        tempfile.TemporaryDirectory() as data_dir,
        ServiceProcess(Path(data_dir), ENVIRONMENT) as service,
    ):
        site = server.line("http://")
        total = files * addresses
        return [
            (str(files), str(total), str(maps), name, *cells(service.url, body, maps))
            for name, search in SEARCHES.items()
            for body in [{"url": f"{site}/", "limit": total, "search": search or None}]
        ]


def cells(service: str, body: dict[str, Any], maps: int) -> tuple[str, str, str]:
    """Return median, slowest, and size of ``maps`` maps after the first."""
    found = [ask(service, body) for _ in range(maps + 1)][1:]
    for _, count, _ in found:
        if count != body["limit"]:
            raise SystemExit(f"{count} addresses of {body['limit']}")
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
