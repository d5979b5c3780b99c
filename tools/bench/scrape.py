"""Measures rate and latency of ``POST /v2/scrape``, compared with plain GET requests.

Scrapes and GET requests take turns. Both fetch the same pages from the same server with
the same number of callers. Service, load generator and page server share the machine.
Every scrape fetches (``maxAge`` 0). ``HOST_CONCURRENCY`` is 64, because all pages are on
one host.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
from attrs import frozen

from tools.bench import pages
from tools.bench.calls import HEADERS, KEY
from tools.bench.load import Call, Load, measure
from tools.bench.memory import Memory, memory_of
from tools.bench.processes import ServerProcess, ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table

RESULT = "scrape.md"
PAGES = {"17 kB": "/article", "200 kB": "/big"}
CALLERS = (1, 16, 64)
REQUEST_TIMEOUT_S = 30  # with FULL, the whole run stays below 3 minutes
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_HOST_CONCURRENCY": "64",
}


@frozen
class Effort:
    """The extent of a run: seconds per cell of the table, and the maximum of requests."""

    plain_s: float
    scrape_s: float
    warm_up_s: float
    max_count: int = 50_000


FULL = Effort(plain_s=5, scrape_s=15, warm_up_s=3)
QUICK = Effort(plain_s=0.4, scrape_s=1, warm_up_s=0.5)


@frozen
class Row:
    """The loads of GET requests and scrapes, for a page and a number of callers."""

    page: str
    callers: int
    plain: Load
    scrape: Load

    def cells(self) -> tuple[str, ...]:
        plain_p50, scrape_p50 = (
            x.percentile_ms(0.5) for x in (self.plain, self.scrape)
        )
        return (
            self.page,
            str(self.callers),
            f"{plain_p50:.1f}",
            f"{self.plain.percentile_ms(0.99):.1f}",
            f"{self.plain.per_second:.0f}",
            f"{scrape_p50:.1f}",
            f"{self.scrape.percentile_ms(0.99):.1f}",
            f"{self.scrape.per_second:.1f}",
            f"{self.scrape.per_second / self.plain.per_second:.3f}",
            f"{scrape_p50 - plain_p50:+.1f}",
            str(self.plain.failed + self.scrape.failed),
        )


HEADINGS = (
    *("Page", "Callers", "GET p50 ms", "GET p99 ms", "GET/s"),
    *("Scrape p50 ms", "Scrape p99 ms", "Scrapes/s"),
    *("Scrapes per GET", "Added p50 ms", "Failed"),
)


@frozen
class Report:
    """The results of all measurements."""

    rows: list[Row]
    #: The event-loop lag after the run with most callers, by page.
    lag_p99_ms: dict[str, float | None]
    #: The memory of the service's processes before the load.
    idle: list[Memory]
    #: The memory of the service's processes after the load.
    loaded: list[Memory]

    @property
    def failed(self) -> int:
        return sum(row.plain.failed + row.scrape.failed for row in self.rows)

    def markdown(self) -> str:
        lags = [
            (page, "not exposed" if lag is None else f"{lag:.1f}")
            for page, lag in self.lag_p99_ms.items()
        ]
        parts = [
            "# Scrape benchmark",
            f"{MACHINE}; `markdown`, `links`, main content only; no cache.",
            table(HEADINGS, [row.cells() for row in self.rows]),
            f"## Event-loop lag with {CALLERS[-1]} callers",
            table(("Page", "p99 ms"), lags),
            "## Memory",
            table(
                (
                    "Process",
                    "Idle PSS MB",
                    "Idle RSS MB",
                    "PSS MB after",
                    "RSS MB after",
                ),
                self._memory_rows(),
            ),
        ]
        return "\n\n".join(parts) + "\n"

    def _memory_rows(self) -> list[tuple[str, ...]]:
        idle, loaded = ({m.pid: m for m in found} for found in (self.idle, self.loaded))
        return [
            (
                f"{(idle.get(pid) or loaded[pid]).role} {pid}",
                *_megabytes(idle.get(pid)),
                *_megabytes(loaded.get(pid)),
            )
            for pid in idle | loaded
        ]


def _megabytes(memory: Memory | None) -> tuple[str, str]:
    if memory is None:
        return "-", "-"
    return f"{memory.pss_mb:.1f}", f"{memory.rss_mb:.1f}"


async def run(service: ServiceProcess, site: str, effort: Effort) -> Report:
    """Measure every page with every number of callers."""
    rows = []
    lags: dict[str, float | None] = {}
    idle = memory_of(service.pid)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
    ) as session:
        for page, path in PAGES.items():
            plain = Call("GET", site + path)
            scrape = _scrape_call(service.url, site + path)
            await _check(session, scrape)
            await measure(
                session,
                scrape,
                callers=16,
                seconds=effort.warm_up_s,
                max_count=effort.max_count,
            )
            for callers in CALLERS:
                counts: dict[str, Any] = {
                    "callers": callers,
                    "max_count": effort.max_count,
                }
                got = await measure(session, plain, seconds=effort.plain_s, **counts)
                done = await measure(session, scrape, seconds=effort.scrape_s, **counts)
                rows.append(Row(page, callers, got, done))
            lags[page] = await _lag_p99_ms(session, service.url)
    return Report(rows, lags, idle, memory_of(service.pid))


def _scrape_call(service: str, url: str) -> Call:
    body = {"url": url, "formats": ["markdown", "links"], "maxAge": 0}
    data = json.dumps(body).encode()
    return Call("POST", f"{service}/v2/scrape", {"data": data, "headers": HEADERS})


async def _check(session: aiohttp.ClientSession, call: Call) -> None:
    """Exit if a scrape lacks the end of the page, or its links."""
    async with session.request(call.method, call.url, **call.options) as response:
        text = await response.text()
    data = json.loads(text).get("data", {}) if response.status == 200 else {}
    if pages.LAST_SENTENCE not in data.get("markdown", "") or not data.get("links"):
        raise SystemExit(f"not a good scrape: status {response.status}, {text[:500]}")


async def _lag_p99_ms(session: aiohttp.ClientSession, service: str) -> float | None:
    async with session.get(f"{service}/health") as response:
        health = await response.json()
    nested = health.get("eventLoop") or {}
    lag = health.get("loopLagP99Ms", nested.get("lagP99Ms"))
    return None if lag is None else float(lag)


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as data_dir,
        ServerProcess("tools.bench.static") as static,
        ServiceProcess(Path(data_dir), ENVIRONMENT) as service,
    ):
        site = static.line("http")
        report = asyncio.run(run(service, site, QUICK if options.quick else FULL))
    text = report.markdown()
    publish(text, RESULT, save=options.save)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
