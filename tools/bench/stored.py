"""Measures the service with large stored jobs, written directly to the job database."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from attrs import evolve, frozen
from sqlalchemy import insert, update

from scraper_service.content.stored_pages import compress
from scraper_service.options.jobs import unstructure
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.services.accounts import OPEN_TEAM_ID
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.links import seed_of
from scraper_service.storage.job_records import JobState, RowState
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import frontier, job, page
from scraper_service.storage.transactions import now_of, read_number
from tools.bench.load import Call, Load, measure
from tools.bench.memory import Memory, memory_of
from tools.bench.pages import SENTENCES
from tools.bench.processes import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

PAGE_BYTES = 5_000
BODIES = 64  # distinct page bodies
BATCH_ROWS = 5_000  # per statement
READ_LIMIT = 100  # pages
REQUEST_TIMEOUT_S = 60
SLOW_CONCURRENCY = 4  # requests in flight; each slow page takes a second
ENVIRONMENT = {"SCRAPER_AUTH_ENABLED": "false", "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32"}


@frozen
class Read:
    """The load of reads of one part of a job's pages."""

    name: str
    load: Load


def measure_reads(pages: int, count: int, seconds: float) -> list[Read]:
    """Measure status reads of a job of ``pages``: up to ``count`` reads of each part."""
    with tempfile.TemporaryDirectory() as folder:
        job_id = asyncio.run(prepare(Path(folder), fill_pages, pages))
        with ServiceProcess(Path(folder), ENVIRONMENT) as service:
            url = f"{service.url}/v2/crawl/{job_id}"
            parts = {
                f"limit={READ_LIMIT}, skip={skip}": f"?skip={skip}&limit={READ_LIMIT}"
                for skip in (0, pages // 2, pages - 10)
            }
            parts["one chunk of 10 MB"] = ""
            return asyncio.run(_reads(url, parts, count, seconds))


async def _reads(
    url: str, parts: dict[str, str], count: int, seconds: float
) -> list[Read]:
    """Measure reads of each part; ``parts`` maps names to query strings."""
    found = []
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for name, query in parts.items():
            call = Call("GET", url + query)
            await _check(session, call)
            load = await measure(
                session, call, callers=1, seconds=seconds, max_count=count
            )
            found.append(Read(name, load))
    return found


async def _check(session: aiohttp.ClientSession, call: Call) -> None:
    async with session.get(call.url) as response:
        found = await response.json()
    if not found.get("data"):
        raise SystemExit(f"no pages at {call.url}: {found}")


def measure_memory(rows: int, site: str, seconds: float) -> Memory:
    """Return the main process's memory ``seconds`` into a crawl of ``rows`` URLs."""
    with tempfile.TemporaryDirectory() as folder:
        start = f"{site}/slow/"
        job_id = asyncio.run(prepare(Path(folder), fill_frontier, rows, start))
        with ServiceProcess(Path(folder), ENVIRONMENT) as service:
            asyncio.run(_first_page(f"{service.url}/v2/crawl/{job_id}"))
            time.sleep(seconds)
            return memory_of(service.pid)[0]


async def _first_page(url: str) -> None:
    """Wait until a crawl has its first page."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(REQUEST_TIMEOUT_S):
        while True:
            async with session.get(url) as response:
                if (await response.json())["completed"]:
                    return
            await asyncio.sleep(0.1)


async def prepare(folder: Path, fill: Any, *args: Any) -> str:
    """Store a job in ``folder`` by ``fill``, and return its id."""
    database = Database(folder)
    await database.write(job_rows.make_team, OPEN_TEAM_ID)
    job_id: str = await database.write(fill, *args)
    database.close()
    return job_id


def fill_pages(connection: Connection, count: int) -> str:
    """Insert a completed crawl with ``count`` pages; return its id."""
    job_id = make_job(connection, "http://127.0.0.2/", count)
    job_number = read_number(connection, job_id)
    bodies = [compress(text) for text in _bodies()]
    for numbers in _batches(count):
        rows = [_frontier_row(job_number, n, RowState.DONE) for n in numbers]
        connection.execute(insert(frontier), rows)
        connection.execute(
            insert(page),
            [
                {
                    "id": str(uuid.uuid4()),
                    "job_number": job_number,
                    "seq": n,
                    "size": PAGE_BYTES,
                    "frontier_id": n + 1,
                    "body": bodies[n % BODIES],
                }
                for n in numbers
            ],
        )
    facts = {"open": 0, "done": count, "pages": count}
    ended = {"state": JobState.COMPLETED, "completed_at": now_of(connection)}
    connection.execute(update(job).where(job.c.id == job_id).values(**facts, **ended))
    return job_id


def fill_frontier(connection: Connection, count: int, start: str) -> str:
    """Insert a crawl with ``count`` pending URLs below ``start``; return its id."""
    job_id = make_job(connection, start, count)
    job_number = read_number(connection, job_id)
    for numbers in _batches(count):
        rows = [_frontier_row(job_number, n, RowState.PENDING, start) for n in numbers]
        connection.execute(insert(frontier), rows)
    connection.execute(update(job).where(job.c.id == job_id).values(open=count))
    return job_id


def make_job(connection: Connection, url: str, count: int) -> str:
    """Insert a queued crawl of ``count`` URLs without any URL; return its id."""
    arguments = {"url": url, "limit": str(count)}
    options = crawl_options({**arguments, "max_concurrency": str(SLOW_CONCURRENCY)})
    seed = evolve(seed_of(options), links=())
    asked = json.dumps(unstructure(options))
    made = job_rows.insert_job(connection, OPEN_TEAM_ID, seed, asked, 2)
    assert made is not None
    return made.id


def _frontier_row(
    job_number: int, number: int, state: RowState, start: str = "http://127.0.0.2/"
) -> dict[str, Any]:
    url = f"{start}section-{number % 97}/a-page-with-a-usual-address-{number}"
    return {
        "id": number + 1,
        "job_number": job_number,
        "key": number,
        "url": url,
        "depth": 1,
        "state": state,
    }


def _bodies() -> Iterator[bytes]:
    """Yield JSON pages of exactly :data:`PAGE_BYTES`."""
    rng = random.Random(BODIES)  # seeded: equal bytes on every run
    metadata = {"title": "A page", "statusCode": 200, "sourceURL": "http://127.0.0.2/"}
    frame = len(json.dumps({"markdown": "", "metadata": metadata}))
    for _ in range(BODIES):
        text = " ".join(rng.choices(SENTENCES, k=PAGE_BYTES // 40))
        text = text[: PAGE_BYTES - frame]
        yield json.dumps({"markdown": text, "metadata": metadata}).encode()


def _batches(count: int) -> Iterator[range]:
    for first in range(0, count, BATCH_ROWS):
        yield range(first, min(count, first + BATCH_ROWS))
