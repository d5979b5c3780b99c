"""Measures how long the frontier takes to admit new and known links.

Links arrive in transactions: the links of a page, or a slice of a sitemap. The figures are
those of the database writer. A separate row measures scope and keys, which the spider or
the converter pool computes.
"""

from __future__ import annotations

import platform
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.discovery.canonical_urls import crawl_key, normalize_url
from scraper_service.discovery.scope_rules import CrawlScope
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import leases as frontier
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.job_records import Link, Outcome
from scraper_service.storage.jobs import job_rows
from tools.bench.memory import memory_of
from tools.bench.report import arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULT = "frontier.md"
TEAM = "bench"
OWNER = "bench"
START = "http://a.example/"
PAGE_LINKS = 50  # on one page
SLICE_LINKS = 1000  # of one sitemap


@frozen
class Admission:
    """One measurement; ``known`` links were already in the frontier."""

    name: str
    links: int
    known: int
    seconds: float
    peak_mb: float

    def cells(self) -> tuple[str, ...]:
        return (
            self.name,
            f"{self.links:,}",
            f"{self.known:,}",
            f"{self.seconds:.1f}",
            f"{self.seconds / self.links * 1e6:.1f}",
            f"{self.peak_mb:.0f}",
        )


HEADINGS = ("Links come", "Links", "Known", "Seconds", "µs per link", "Peak RSS MB")


class Frontier:
    """A job in a separate database, with one lease that reports all links."""

    def __init__(self, folder: Path, url: str):
        self.database = Database(folder, url)
        self._run(job_rows.make_team, TEAM)
        seed = Seed("crawl", START, None, (Link(-1, START, 0),))
        job = self._run(job_rows.insert_job, TEAM, seed, "{}", 2)
        self.job_id = job.id
        (self.row,) = self._run(frontier.claim, self.job_id, OWNER, 1).rows

    def _run(self, function: Any, *args: Any) -> Any:
        work = self.database._writer.submit(lambda c: function(c, *args))
        return work.result()

    def admit(self, numbers: list[int]) -> None:
        links = tuple(Link(n, _url(n), 1) for n in numbers)
        self._run(
            outcomes.append,
            self.job_id,
            [
                Outcome(
                    row_id=self.row.id,
                    key=self.row.key,
                    token=self.row.token,
                    owner=OWNER,
                    page_id=str(uuid.uuid4()),
                    links=links,
                    goes_on=True,
                )
            ],
        )


def _url(number: int) -> str:
    return f"{START}section-{number % 97}/a-page-with-a-usual-address-{number}"


def _numbers(count: int, each: int, known: float) -> Iterator[list[int]]:
    """Yield keys in groups; a part of them was in a group before."""
    rng = random.Random(each)  # the same on every run
    new = 0
    for _ in range(count // each):
        group = []
        for _ in range(each):
            if new and rng.random() < known:
                group.append(rng.randrange(new))
            else:
                group.append(new)
                new += 1
        yield group


def measure(name: str, count: int, each: int, known: float, url: str) -> Admission:
    """Admit ``count`` links, ``each`` in a transaction."""
    with tempfile.TemporaryDirectory() as folder:
        job = Frontier(Path(folder), url)
        groups = list(_numbers(count, each, known))
        begin = time.perf_counter()
        for group in groups:
            job.admit(group)
        seconds = time.perf_counter() - begin
        links = sum(map(len, groups))
        known_links = links - len({n for group in groups for n in group})
        job.database.close()
    (peak,) = (m.peak_mb for m in memory_of(_own_pid()) if m.role == "main")
    return Admission(name, links, known_links, seconds, peak)


def _own_pid() -> int:
    return int(Path("/proc/self").resolve().name)


def measure_rules(count: int) -> Admission:
    """Compute scope and key of ``count`` URLs, as spider and pool do."""
    options = crawl_options({"url": START, "exclude_paths": "/private,/cart"})
    scope = CrawlScope(options)
    begin = time.perf_counter()
    for number in range(count):
        url = normalize_url(_url(number))
        if scope.refusal(url, 1) is None:
            crawl_key(options, url)
    seconds = time.perf_counter() - begin
    (peak,) = (m.peak_mb for m in memory_of(_own_pid()) if m.role == "main")
    return Admission("URL, scope and key alone", count, 0, seconds, peak)


def run(count: int, url: str) -> str:
    found = [
        measure(f"{SLICE_LINKS} of a sitemap", count, SLICE_LINKS, 0.0, url),
        measure(f"{PAGE_LINKS} on a page, all new", count, PAGE_LINKS, 0.0, url),
        measure(f"{PAGE_LINKS} on a page, 9 of 10 known", count, PAGE_LINKS, 0.9, url),
        measure_rules(min(count, 200_000)),
    ]
    cells = table(HEADINGS, (each.cells() for each in found))
    kind = "PostgreSQL" if url else "SQLite"
    return (
        f"# Frontier benchmark\n\nPython {platform.python_version()}, {kind}, one"
        f" transaction for each page or slice.\n\n{cells}\n"
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--database-url", default="", help="of an empty database")
    options = parser.parse_args()
    text = run(5_000 if options.quick else options.links, options.database_url)
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
