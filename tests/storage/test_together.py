"""Two services on one database that look after it at the same time, without any fault."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from contextlib import closing
from pathlib import Path

import pytest
from scrapy.settings import Settings
from sqlalchemy import func, select, text

from scraper_service.content.search import parse_query, search_entry
from scraper_service.crawling.pipelines.pages import SearchIndex
from scraper_service.items import SearchPage
from scraper_service.options.map_search import ResultList
from scraper_service.services.upkeep import expire
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.job_records import Link
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.page_index import search
from scraper_service.storage.schema import delivery, frontier, job, scrape, search_page

# On SQLite, services take turns at every write.
pytestmark = [pytest.mark.full, pytest.mark.timeout(300), pytest.mark.slow_on("sqlite")]

SERVICES = 2
TIMEOUT_S = 200
TEAM = "team"
JOBS, ROWS = 8, 2500  # more rows than a slice has
ROUNDS, OF_EACH, OF_BOTH = 12, 6, 4

_FILL = """
INSERT INTO frontier (job_number, key, url, depth, state)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :rows)
  SELECT job.number, n, 'http://a.example/' || n, 1, 3 FROM job, n;
INSERT INTO delivery (job_id, seq, kind, at, state)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :rows)
  SELECT job.id, n, 'page', 1, 1 FROM job, n;
INSERT INTO scrape (id, team_id, body, expires_at)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :rows)
  SELECT 'scrape ' || n, 'team', '', 1 FROM n;
INSERT INTO search_page (team_id, key, language, date, expires_at, url, facts, text)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :rows)
  SELECT 'team', 'key ' || n, '', 1, 1, 'http://a.example/' || n, '{}', '' FROM n;
UPDATE job SET state = 'completed', expires_at = 1;
"""


class _Kept(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


def service(work, number, url, folder, start, results):
    """Be one service: wait for the others, do ``work``, tell what was logged."""
    kept = _Kept()
    logging.getLogger().addHandler(kept)
    data_dir = Path(folder) / str(number)
    settings = Settings({"DATA_DIR": str(data_dir), "DATABASE_URL": url})
    settings.setmodule("scraper_service.settings")
    settings.setdict({"DATA_DIR": str(data_dir), "DATABASE_URL": url}, "cmdline")
    try:
        with closing(Database.shared(settings)) as database:
            start.wait(TIMEOUT_S)
            asyncio.run(work(settings, database, number))
    except BaseException as error:
        kept.lines.append(repr(error))
        raise
    finally:
        results.put(kept.lines)


def run_together(work, url, folder):
    """Return what all services logged."""
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(SERVICES), spawn.Queue()
    processes = [
        spawn.Process(
            target=service, args=(work, number, url, str(folder), start, results)
        )
        for number in range(SERVICES)
    ]
    for process in processes:
        process.start()
    try:
        return [line for _ in processes for line in results.get(timeout=TIMEOUT_S)]
    finally:
        for process in processes:
            process.join(10)
            process.kill()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.sqlite'}"
    return request.getfixturevalue("postgres_tables")()


@pytest.fixture
def database(url, tmp_path):
    with closing(Database(tmp_path / "own", url)) as opened:
        opened.write_blocking(job_rows.make_team, TEAM)
        yield opened


async def expire_all(settings, database, _):
    await expire(database, settings)


@pytest.mark.slow_on("sqlite")
def test_services_that_expire_at_once_do_not_disturb_each_other(
    database, url, tmp_path
):
    seed = Seed("crawl", "http://a.example/", None, (Link(0, "http://a.example/", 0),))
    for _ in range(JOBS):
        database.write_blocking(job_rows.insert_job, TEAM, seed, "{}", 2)
    for statement in _FILL.strip().split(";\n"):
        wanted = {"rows": ROWS} if ":rows" in statement else {}
        database.write_blocking(lambda c, s=statement, w=wanted: c.execute(text(s), w))
    assert run_together(expire_all, url, tmp_path) == []
    tables = (job, frontier, delivery, scrape, search_page)
    left = {table.name: count(database, table) for table in tables}
    assert left == dict.fromkeys(left, 0)


def count(database, table):
    return database.write_blocking(
        lambda c: c.scalar(select(func.count()).select_from(table))
    )


async def index_and_expire(settings, database, number):
    """Store pages of this service and pages of both, and expire, all at once."""
    index = SearchIndex.shared(settings)
    for first in range(ROUNDS):
        own = [f"http://{number}.example/{first}/{n}" for n in range(OF_EACH)]
        both = [f"http://both.example/{first}/{n}" for n in range(OF_BOTH)]
        for page in own + both:
            entry = search_entry(page, "lorem ipsum", {"language": "en"}, {}, "html")
            await index.add(SearchPage(TEAM, page, entry.pack()))
        await index.flush()
        await expire(database, settings)


def test_services_that_index_at_once_do_not_disturb_each_other(database, url, tmp_path):
    assert run_together(index_and_expire, url, tmp_path) == []
    pages = {
        f"http://{host}.example/{first}/{n}"
        for first in range(ROUNDS)
        for host, many in (("0", OF_EACH), ("1", OF_EACH), ("both", OF_BOTH))
        for n in range(many)
    }
    hits = database.write_blocking(
        search, TEAM, parse_query("lorem"), ResultList(), 2 * len(pages)
    )
    found = [hit.url for hit in hits]
    assert sorted(found) == sorted(pages), "each page once"
    assert count(database, search_page) == len(pages)
