"""Measures exports of a large stored job: time, memory, and what others notice of them.

The job is written directly to the job database. While a file is received, another client
calls ``GET /health/live`` without a pause: the longest response shows for how long the
event loop was busy at most.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from attrs import frozen
from sqlalchemy import insert, update

from scraper_service.content.stored_pages import compress, pack
from scraper_service.exports.formats import FORMATS
from scraper_service.items import KeptResponse
from scraper_service.services.accounts import OPEN_TEAM_ID
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import JobState, RowState
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import frontier, job, page, page_source
from scraper_service.storage.transactions import now_of, read_number
from tools.bench.memory import memory_of
from tools.bench.pages import SENTENCES
from tools.bench.processes import ServiceProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.stored import make_job

if TYPE_CHECKING:
    from sqlalchemy import Connection

RESULT = "exports.md"
PAGES = 10_000
WORDS = 120  # sentences in a page, about 10 kB
TIMEOUT_S = 600
READ_BYTES = 2**18
LOOK_S = 0.2
ENVIRONMENT = {"SCRAPER_AUTH_ENABLED": "false"}
HEADINGS = (
    *("Format", "MB", "Seconds", "Pages/s", "Export process MB", "Service MB before"),
    *("peak", "Longest other response ms", "99 %"),
)


@frozen
class Exported:
    """The measurement of one file."""

    format: str
    size: int
    seconds: float
    #: The largest resident set of the export process.
    process_mb: float
    #: The resident set of the service before, and its maximum meanwhile.
    before_mb: float
    peak_mb: float
    #: The times of other responses in ms.
    others_ms: list[float]


def fill(connection: Connection, count: int) -> str:
    """Insert a completed crawl with pages and their responses; return its id."""
    url = "http://127.0.0.2/"
    job_id = make_job(connection, url, count)
    job_number = read_number(connection, job_id)
    rng = random.Random(count)  # seeded: equal bytes on every run
    for first in range(0, count, 1000):
        rows, pages, sources = [], [], []
        for number in range(first, min(count, first + 1000)):
            page_id = str(uuid.UUID(int=rng.getrandbits(128)))
            text = " ".join(rng.choices(SENTENCES, k=WORDS))
            where = f"{url}section-{number % 97}/page-{number}"
            facts = {"title": f"Page {number}", "url": where, "sourceURL": where}
            metadata = {**facts, "statusCode": 200, "scrapeId": page_id}
            body = json.dumps({"markdown": text, "metadata": metadata}).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
            html = f"<title>Page {number}</title><p>{text}".encode()
            kept = pack(
                KeptResponse(
                    url=where,
                    at=1_790_000_000.0 + number,
                    engine="http",
                    head=head,
                    body=html,
                    content_type="text/html; charset=utf-8",
                )
            )
            shared = {"job_number": job_number}
            rows.append(
                {
                    **shared,
                    "id": number + 1,
                    "key": number,
                    "url": where,
                    "depth": 1,
                    "state": RowState.DONE,
                    "page_id": page_id,
                }
            )
            pages.append(
                {
                    **shared,
                    "id": page_id,
                    "seq": number,
                    "size": len(body),
                    "frontier_id": number + 1,
                    "body": compress(body),
                }
            )
            sources.append(
                {
                    **shared,
                    "page_id": page_id,
                    "size": len(html),
                    "facts": kept.facts,
                    "head": kept.head,
                    "body": kept.body,
                }
            )
        connection.execute(insert(frontier), rows)
        connection.execute(insert(page), pages)
        connection.execute(insert(page_source), sources)
    values = {"open": 0, "done": count, "pages": count, "state": JobState.COMPLETED}
    ended = {"completed_at": now_of(connection)}
    connection.execute(update(job).where(job.c.id == job_id).values(**values, **ended))
    return job_id


async def prepare(folder: Path, count: int) -> str:
    """Make the database of the job in ``folder``; return the id of the job."""
    database = Database(folder)
    await database.write(job_rows.make_team, OPEN_TEAM_ID)
    job_id: str = await database.write(fill, count)
    database.close()
    return job_id


async def measure(
    service: ServiceProcess, job_id: str, name: str, to: Path | None
) -> Exported:
    """Receive a file; with ``to``, also write it into this folder."""
    url = f"{service.url}/v2/crawl/{job_id}/export?format={name}"
    before_mb = memory_of(service.pid)[0].rss_mb
    others_ms: list[float] = []
    seen = {"process": 0.0, "service": before_mb}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        calling = asyncio.ensure_future(_call_others(session, service, others_ms))
        # In a thread: a look at all processes takes a while.
        is_over = threading.Event()
        looking = asyncio.ensure_future(
            asyncio.to_thread(_look, service, seen, is_over)
        )
        began, size = time.monotonic(), 0
        path = to and to / f"pages.{FORMATS[name].ending}"
        with (path or Path("/dev/null")).open("wb") as file:
            async with session.get(url) as response:
                response.raise_for_status()
                async for part in response.content.iter_chunked(READ_BYTES):
                    size += len(part)
                    file.write(part)
        seconds = time.monotonic() - began
        calling.cancel()
        is_over.set()
        await asyncio.wait([calling, looking])
    return Exported(
        name, size, seconds, seen["process"], before_mb, seen["service"], others_ms
    )


async def _call_others(
    session: aiohttp.ClientSession, service: ServiceProcess, times_ms: list[float]
) -> None:
    while True:
        began = time.monotonic()
        async with session.get(f"{service.url}/health/live") as response:
            await response.read()
        times_ms.append((time.monotonic() - began) * 1000)
        await asyncio.sleep(0.001)


def _look(
    service: ServiceProcess, seen: dict[str, float], is_over: threading.Event
) -> None:
    while not is_over.wait(LOOK_S):
        with suppress(FileNotFoundError, ProcessLookupError, LookupError):
            main, *others = memory_of(service.pid)
            seen["service"] = max(seen["service"], main.rss_mb)
            own = [each.peak_mb for each in others if each.role.startswith("python")]
            seen["process"] = max(seen["process"], *own, 0.0)


def report(found: list[Exported], pages: int) -> str:
    """Return the result as Markdown."""
    rows = []
    for each in found:
        times = sorted(each.others_ms)
        rows.append(
            (
                each.format,
                f"{each.size / 1e6:.1f}",
                f"{each.seconds:.1f}",
                f"{pages / each.seconds:,.0f}",
                f"{each.process_mb:.0f}",
                f"{each.before_mb:.0f}",
                f"{each.peak_mb:.0f}",
                f"{times[-1]:.1f}",
                f"{times[int(len(times) * 0.99)]:.1f}",
            )
        )
    head = f"# Exports of {pages:,} pages of 10 kB\n\n{MACHINE}\n\n"
    return f"{head}{table(HEADINGS, rows)}\n"


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--to", type=Path, help="keep the files in this folder")
    options = parser.parse_args()
    pages = 50 if options.quick else options.pages
    with tempfile.TemporaryDirectory() as folder:
        job_id = asyncio.run(prepare(Path(folder), pages))
        with ServiceProcess(Path(folder), ENVIRONMENT) as service:
            found = [
                asyncio.run(measure(service, job_id, name, options.to))
                for name in FORMATS
            ]
    publish(report(found, pages), RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
