"""Measures the milliseconds of a search over HTTP in the index of scraped pages.

The functions of the service fill the index with generated pages. The frequencies of their
words follow Zipf's law. No search engine is queried.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scraper_service.content.search import search_entry
from scraper_service.services.accounts import OPEN_TEAM_ID
from scraper_service.storage.database import Database
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.page_index import PageIndex
from tools.bench.calls import fetch
from tools.bench.postgres import Postgres, PostgresMissing
from tools.bench.processes import ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULT = "search.md"
WORDS = 50_000  # size of the vocabulary
LENGTH = 250  # words per page
GROUP = 64  # pages per transaction
SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo zu sha tre ply kno wer".split()
HEADINGS = (
    "Database",
    "Pages",
    "Queries",
    "Searches",
    "p50 ms",
    "p99 ms",
    "Slowest ms",
)


def vocabulary() -> list[str]:
    """Return the words, the most frequent first."""
    chance = random.Random(1)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(chance.choices(SYLLABLES, k=chance.randint(1, 5)))] = None
    return list(words)


def entries(count: int) -> Iterator[list[tuple[str, bytes]]]:
    """Yield pages in groups; every run yields the same pages."""
    chance = random.Random(2)
    words = vocabulary()
    # Zipf's law: the n-th word has 1/n of the frequency of the first.
    weights = list(accumulate(1 / n for n in range(1, WORDS + 1)))
    group = []
    for number in range(count):
        url = f"https://site{number % 500}.example/{number}"
        text = " ".join(chance.choices(words, cum_weights=weights, k=LENGTH))
        facts = {"title": text[:60], "language": "en"}
        entry = search_entry(url, text, facts, {}, "html")
        assert entry is not None
        group.append((url, entry.pack()))
        if len(group) == GROUP:
            yield group
            group = []
    if group:
        yield group


async def fill(database: Database, count: int) -> float:
    """Add pages to the index; return the seconds spent in the database."""
    await database.write(job_rows.make_team, OPEN_TEAM_ID)
    seconds = 0.0
    for group in entries(count):
        begin = time.perf_counter()
        await PageIndex(database).add(OPEN_TEAM_ID, group, 86_400)
        seconds += time.perf_counter() - begin
    return seconds


def queries(count: int) -> dict[str, list[str]]:
    """Return ``count`` queries of each kind."""
    chance = random.Random(3)
    words = vocabulary()

    def some(first: int, last: int, number: int) -> str:
        return " ".join(chance.choices(words[first:last], k=number))

    return {
        "one rare word": [some(5000, WORDS, 1) for _ in range(count)],
        "three words": [some(50, 5000, 3) for _ in range(count)],
        "five words": [some(20, 10_000, 5) for _ in range(count)],
        "the commonest words": [some(0, 20, 2) for _ in range(count)],
        "a phrase of common words": [f'"{some(0, 50, 2)}"' for _ in range(count)],
        "a word of one site": [
            f"{some(0, 500, 1)} site:site{chance.randrange(500)}.example"
            for _ in range(count)
        ],
    }


def time_search(service: str, query: str) -> float:
    """Search; return the milliseconds."""
    begin = time.perf_counter()
    fetch(f"{service}/v2/search", {"query": query, "limit": 10})
    return (time.perf_counter() - begin) * 1000


def measure(
    name: str, url: str, pages: int, searches: int
) -> tuple[list[tuple[str, ...]], str]:
    """Return a row for each kind of query and for all, and a sentence about filling."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder), url)
        seconds = asyncio.run(fill(database, pages))
        database.close()
        size = sum(f.stat().st_size for f in Path(folder).iterdir() if f.is_file())
        environment = {
            "SCRAPER_AUTH_ENABLED": "false",
            "SCRAPER_DATABASE_URL": url,
            "SCRAPER_SEARCH_PROVIDERS": "own",
        }
        with ServiceProcess(Path(folder), environment) as service:
            by_kind = queries(searches)
            for some in by_kind.values():
                time_search(service.url, some[0])
            found = {
                kind: [time_search(service.url, query) for query in some]
                for kind, some in by_kind.items()
            }
    found["all together"] = [each for some in found.values() for each in some]
    rows = [
        (name, str(pages), kind, str(len(some)), *cells(some))
        for kind, some in found.items()
    ]
    room = "" if url else f", {size / pages / 1000:.1f} kB of disk a page"
    filled = f"{name}: {seconds * 1000 / pages:.2f} ms to write a page{room}."
    return rows, filled


def cells(milliseconds: list[float]) -> tuple[str, str, str]:
    """Return the median, the 99th percentile and the maximum."""
    centiles = statistics.quantiles(milliseconds, n=100)
    return (
        f"{statistics.median(milliseconds):.1f}",
        f"{centiles[98]:.1f}",
        f"{max(milliseconds):.1f}",
    )


def databases(stack: ExitStack) -> dict[str, str]:
    """Return database URLs by name: SQLite, and PostgreSQL if it is installed."""
    found = {"SQLite": ""}
    try:
        server: Any = stack.enter_context(Postgres())
    except PostgresMissing as error:
        print(f"without PostgreSQL: {error}", file=sys.stderr)
    else:
        found["PostgreSQL"] = server()
    return found


def main() -> int:
    parser = arguments(__doc__, RESULT)
    options = parser.parse_args()
    pages, searches = (500, 5) if options.quick else (100_000, 300)
    with ExitStack() as stack:
        measured = [
            measure(name, url, pages, searches)
            for name, url in databases(stack).items()
        ]
    cells = table(HEADINGS, (row for rows, _ in measured for row in rows))
    filled = " ".join(text for _, text in measured)
    text = f"# Search benchmark\n\n{MACHINE}. {filled}\n\n{cells}\n"
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
