"""A worker of the scale benchmark: frontier, pace and storage of the service, no network.

``python -m tools.bench.scale_worker DATABASE_URL FOLDER JOBS LATENCY_S KEPT URLS``, where JOBS are
ids of jobs with commas. KEPT is where responses are kept: ``database``, or ``objects`` for an
object storage, to which nothing is sent. The model of the web has URLS pages for each job, or
no end with 0. Each page is answered after a wait. Begins at the first line of input, and ends with the
jobs or at the second. Prints a line of JSON then: CPU seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import resource
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.content.stored_pages import StoredResponse, pack
from scraper_service.crawling.politeness.host_limits import pace_key
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.crawling.politeness.shared_limit import LOOK_S
from scraper_service.items import KeptResponse
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.leases import Frontier
from scraper_service.storage.job_records import ACTIVE, Link, Outcome

if TYPE_CHECKING:
    from scraper_service.storage.job_records import ClaimedRow

SLOTS = 16  # pages in flight of a job, as JOB_CONCURRENCY
EMPTY_S = 0.1  # after a claim that found nothing
STORING = 32  # further pages of a job that are being stored, as in the scheduler
LEASE_S = 15.0
HOST_CONCURRENCY = 8
FAILURES = 0.02  # part of the pages
OUTSIDE = 40  # links of a page that are only listed
INSIDE = 12  # links of a page to others of the crawl
HOSTS = 1000
BODY = 14_000  # bytes of a page as JSON
SOURCE = 16_000  # bytes of a response, compressed
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"

_RANDOM = random.Random(7)
_NOISE = _RANDOM.randbytes(1 << 20)
_WORDS = [f"{_RANDOM.randrange(10**5):x}" for _ in range(5000)]
_STEPS = (7919, 104_729, 1_299_709, 15_485_863, 32_452_843, 49_979_687)
_TEXT = " ".join(_RANDOM.choice(_WORDS) for _ in range(40_000)).encode()


def url_of(number: int) -> str:
    """Return the URL of a page of the model. Hosts have a power law."""
    host = int(HOSTS ** random.Random(number).random())
    return f"http://host-{host}.example/section/a-usual-address-{number}"


def number_of(url: str) -> int:
    """Return the number of a page of the model, 0 for the start page."""
    last = url.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def links_of(number: int, row_id: int, urls: int) -> list[Link]:
    """Return the links of a page: others of the crawl, many of them known, and links to other sites.

    ``urls`` is the size of the web; 0 for one without an end.
    """
    near = [number * 3 + 7 * n + 1 for n in range(INSIDE)]  # three of four are known
    if urls:
        choose = random.Random(-number).randrange
        near = [choose(urls) for _ in range(INSIDE)]
    links = [Link(each, url_of(each), 1, found_on=row_id) for each in near]
    for n in range(OUTSIDE):
        key = -(number * OUTSIDE + n) - 1
        # Words that compress as those of usual URLs.
        words = [_WORDS[(-key * step) % len(_WORDS)] for step in _STEPS]
        host = f"www.{words[0]}{words[1]}.example"
        url = f"https://{host}/{words[2]}/{words[3]}-{words[4]}-{words[5]}-{-key}"
        error = f"{host} is not of host-1.example"
        links.append(Link(key, url, 1, code="external", error=error, found_on=row_id))
    return links


def in_objects(kept: KeptResponse) -> StoredResponse:
    """Return a response as it is stored when its body is in an object storage."""
    packed = pack(kept)
    digest = hashlib.sha256(packed.body).digest()
    return evolve(packed, body=b"", digest=digest, length=len(packed.body))


class Worker:
    """Works on jobs of a database until all have ended."""

    def __init__(self, database: Database, latency_s: float, kept: str, urls: int):
        self._kept = kept
        self._urls = urls
        self._database = database
        self._latency_s = latency_s
        self._frontier = Frontier(database, str(uuid.uuid4()))
        self._pace = HostPace(HOST_CONCURRENCY)
        self._random = random.Random()
        self.pages = 0

    async def run(self, jobs: list[str]) -> None:
        await self._frontier.beat(LEASE_S)
        self._pace.connect(self._database, self._frontier.owner)
        looking = asyncio.ensure_future(self._look())
        await asyncio.gather(*(self._work_on(job_id) for job_id in jobs))
        looking.cancel()

    async def _look(self) -> None:
        turn = 0
        await asyncio.sleep(LOOK_S * self._random.random())  # not all at once
        while True:
            await self._pace.shared_limit.look()
            turn += 1
            if turn % 10 == 0:
                await self._frontier.beat(LEASE_S)
            await asyncio.sleep(LOOK_S)

    async def _work_on(self, job_id: str) -> None:
        running: set[asyncio.Task[bool]] = set()
        slots = asyncio.Semaphore(SLOTS)
        rows: list[ClaimedRow] = []
        goes_on = True
        again_at = 0.0
        while goes_on or running:
            if goes_on and len(rows) <= SLOTS // 2 and time.monotonic() > again_at:
                claim = await self._frontier.claim(job_id, SLOTS)
                goes_on = claim.state in ACTIVE
                rows += claim.rows
                if not claim.rows:
                    again_at = time.monotonic() + EMPTY_S
            if goes_on and not (rows or running):
                await asyncio.sleep(EMPTY_S)
            while rows and len(running) < SLOTS + STORING:
                page = self._page(job_id, rows.pop(0), slots)
                running.add(asyncio.ensure_future(page))
            if running:
                done, running = await asyncio.wait(
                    running, return_when=asyncio.FIRST_COMPLETED
                )
                goes_on = goes_on and all(task.result() for task in done)
        if rows:
            held = [(row.id, row.token) for row in rows]
            await self._frontier.release(job_id, held)

    async def _page(
        self, job_id: str, row: ClaimedRow, slots: asyncio.Semaphore
    ) -> bool:
        async with self._pace.slot(pace_key(row.url)) as slot, slots:
            wait_s = self._random.expovariate(1 / self._latency_s)
            await asyncio.sleep(wait_s)
            slot.note_response(200, BODY, wait_s)
        page_id = str(uuid.uuid4())
        failed = self._random.random() < FAILURES
        at = self._random.randrange(len(_NOISE) - SOURCE)
        text_at = self._random.randrange(len(_TEXT) - BODY)
        kept = KeptResponse(
            url=row.url,
            at=time.time(),
            engine="http",
            head=HEAD,
            body=b"",
            packed=_NOISE[at : at + SOURCE],
        )
        response = in_objects(kept) if self._kept == "objects" else kept
        outcome = Outcome(
            row_id=row.id,
            key=row.key,
            token=row.token,
            owner=self._frontier.owner,
            page_id=page_id,
            page=None if failed else _TEXT[text_at : text_at + BODY],
            code="SCRAPE_SITE_ERROR" if failed else None,
            error="The site failed." if failed else None,
            credits=1,
            links=() if failed else links_of(number_of(row.url), row.id, self._urls),
            kept=None if failed else response,
        )
        commit = await self._frontier.store(job_id, outcome)
        self.pages += commit.accepted
        return commit.state in ACTIVE


async def main() -> None:
    url, folder, jobs, latency_s, kept, urls = sys.argv[1:]
    database = Database(Path(folder), url, "bench")
    worker = Worker(database, float(latency_s), kept, int(urls))
    print("ready", flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    work = asyncio.ensure_future(worker.run(jobs.split(",")))
    asyncio.get_running_loop().add_reader(0, work.cancel)  # at the next line
    with contextlib.suppress(asyncio.CancelledError):
        await work
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu_s": cpu_s}), flush=True)
    database.close()


if __name__ == "__main__":
    asyncio.run(main())
