"""No lease is left that no crawler has, whatever comes between claim and return."""

from __future__ import annotations

import asyncio
import functools
import threading
from types import SimpleNamespace

import pytest
from scrapy.settings import Settings
from sqlalchemy import select

from scraper_service.crawling.job_process import Presence
from scraper_service.crawling.scheduler import LeasedScheduler, _Page
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Lease
from scraper_service.options.spider_arguments import batch_options
from scraper_service.storage import write_queue
from scraper_service.storage.database import Database, writing
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.frontier.leases import Frontier
from scraper_service.storage.job_records import JobState, Outcome, RowState
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.jobs.admission import Terms, create_job
from scraper_service.storage.schema import frontier, job
from tests.support.page_states import page_of

TEAM, OWNER = "team", "owner"
PAGES = 8
TIMEOUT_S = 60


class FakeCrawler:
    """As much of a crawler as a scheduler knows; its pages are never fetched."""

    def __init__(self, settings, job_id):
        self.settings = settings.copy()
        self.settings.setdict({"JOB_ID": job_id, "JOB_OWNER": OWNER})
        options = batch_options({"urls": "http://a.test/"})
        pool = SimpleNamespace(is_contended=lambda team_id: False)
        self.spider = SimpleNamespace(options=options, pool=pool)
        self.signals = SimpleNamespace(connect=lambda *_: None)
        self.engine = None
        self.crawling = True


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request, tmp_path):
    found = Settings()
    found.setmodule("scraper_service.settings")
    found.set("DATA_DIR", str(tmp_path))
    found.set("JOB_CONCURRENCY", 4)
    if request.param == "postgresql":
        found.set("DATABASE_URL", request.getfixturevalue("postgres_tables")())
    yield found
    Database.shared(found).close()


@pytest.fixture
def database(settings):
    return Database.shared(settings)


async def begun(settings, database):
    """Return a scheduler of a new job, which has claimed its first rows."""
    await database.write(job_rows.make_team, TEAM)
    urls = " ".join(f"http://a.test/{number}" for number in range(PAGES))
    options = batch_options({"urls": urls})
    stored = await database.write(create_job, Terms(team_id=TEAM), options, 2)
    crawler = FakeCrawler(settings, stored.id)
    scheduler = LeasedScheduler(crawler)
    await scheduler._open(crawler.spider)
    return scheduler, crawler


def states(database):
    async def read():
        query = select(frontier.c.state).order_by(frontier.c.id)
        return await database.read(lambda c: list(c.scalars(query)))

    return read()


def run(work):
    return asyncio.run(asyncio.wait_for(work, TIMEOUT_S))


ALL_PENDING = [RowState.PENDING] * PAGES


def held_up(monkeypatch, name):
    """Have a function of leases wait in its transaction, behind all that it does."""
    began, goes_on = threading.Event(), threading.Event()
    original = getattr(leases, name)

    @functools.wraps(original)
    def slow(*args):
        found = original(*args)
        began.set()
        assert goes_on.wait(TIMEOUT_S)
        return found

    monkeypatch.setattr(leases, name, slow)
    return began, goes_on


def test_a_claim_that_is_late_is_returned_by_the_close(settings, database, monkeypatch):
    """The writer stores it, while the crawl closes: its rows were nobody's for ever."""

    async def main():
        scheduler, _ = await begun(settings, database)
        began, goes_on = held_up(monkeypatch, "claim")
        scheduler._claims._soon()
        await asyncio.to_thread(began.wait, TIMEOUT_S)
        closing = asyncio.ensure_future(scheduler._close())
        await asyncio.sleep(0.1)
        goes_on.set()
        await closing
        assert await states(database) == ALL_PENDING

    run(main())


def test_rows_that_are_late_to_be_given_back_are_so(settings, database, monkeypatch):
    async def main():
        scheduler, _ = await begun(settings, database)
        rows = [row for _, row in scheduler._queue.rows]
        began, goes_on = held_up(monkeypatch, "release")
        monkeypatch.setattr(Frontier, "release", writing(leases.release))
        scheduler._return_rows(rows)
        await asyncio.to_thread(began.wait, TIMEOUT_S)
        closing = asyncio.ensure_future(scheduler._close())
        goes_on.set()
        await closing
        assert await states(database) == ALL_PENDING

    run(main())


def failing(monkeypatch, name, times, *, stored):
    """Have a function of leases fail some times, before or behind its commit."""
    left = [times]

    def fail(original):
        async def write(self, function, *args, **kwargs):
            is_it = function.__name__ == name and left[0] > 0
            left[0] -= is_it
            if is_it and not stored:
                raise ServiceUnavailable("it does not answer")
            found = await original(self, function, *args, **kwargs)
            if is_it:
                raise ServiceUnavailable("the connection was lost behind the commit")
            return found

        return write

    monkeypatch.setattr(Database, "write", fail(Database.write))


async def looked(settings, database, times):
    """Do what a process does with each sign of life."""
    presence = Presence(settings, database, OWNER)
    await presence._beat()
    for _ in range(times):
        await presence._reap()
        await presence._return_strays()


def test_a_claim_whose_result_was_lost_is_returned(settings, database, monkeypatch):
    async def main():
        scheduler, _ = await begun(settings, database)
        failing(monkeypatch, "claim", 1, stored=True)
        await scheduler._claims.claim()
        assert await states(database) == [RowState.LEASED] * PAGES
        await looked(settings, database, 1)
        assert await states(database) == [RowState.LEASED] * PAGES
        await looked(settings, database, 2)
        found = await states(database)
        assert found == [RowState.LEASED] * 4 + [RowState.PENDING] * 4
        await scheduler._close()
        assert await states(database) == ALL_PENDING

    run(main())


def test_leases_that_a_close_could_not_return_are_returned_later(
    settings, database, monkeypatch
):
    async def main():
        scheduler, _ = await begun(settings, database)
        failing(monkeypatch, "release", 1, stored=False)
        await scheduler._close()
        await looked(settings, database, 2)
        assert await states(database) == ALL_PENDING

    run(main())


def test_a_claim_under_way_is_no_stray(settings, database, monkeypatch):
    async def main():
        scheduler, _ = await begun(settings, database)
        began, goes_on = held_up(monkeypatch, "claim")
        scheduler._claims._soon()
        presence = Presence(settings, database, OWNER)
        await asyncio.to_thread(began.wait, TIMEOUT_S)
        for _ in range(3):
            await presence._return_strays()
        goes_on.set()
        await asyncio.wait(scheduler._tasks)
        for _ in range(3):
            await presence._return_strays()
        assert await states(database) == [RowState.LEASED] * PAGES
        await scheduler._close()

    run(main())


def test_a_page_that_needs_the_database_is_given_back(settings, database):
    """It has not failed: it is fetched again."""

    async def main():
        scheduler, _ = await begun(settings, database)
        [_, row] = scheduler._queue.rows.popleft()
        scheduler._pages[row.id] = _Page("page")
        lease = Lease(row.id, row.key, row.token, row.depth, False)
        request = page_of(row.url, {"lease": lease})
        error = ServiceUnavailable("it does not answer")
        scheduler._page_lost(
            SimpleNamespace(request=request), SimpleNamespace(value=error)
        )
        await scheduler._tasks.join()
        found = await states(database)
        assert found == [RowState.PENDING] + [RowState.LEASED] * 3 + ALL_PENDING[4:]
        assert scheduler._pages == {}
        await scheduler._close()
        assert await states(database) == ALL_PENDING

    run(main())


def test_a_page_whose_storing_was_not_heard_of_counts_once(settings, database):
    """The connection was lost behind COMMIT: asked again, the same page is accepted."""

    async def main():
        scheduler, _ = await begun(settings, database)
        row = scheduler._queue.rows[0][1]
        outcome = Outcome(
            row_id=row.id,
            key=row.key,
            token=row.token,
            owner=OWNER,
            page_id="page",
            page=b"{}",
            credits=1,
        )
        found = [
            await database.write_each(outcomes.append, scheduler.job_id, outcome)
            for _ in range(2)
        ]
        assert [(each.accepted, each.delivered) for each in found] == [(True, True)] * 2
        columns = select(job.c.done, job.c.pages, job.c.credits, job.c.open)
        counts = await database.read(lambda c: tuple(c.execute(columns).one()))
        assert counts == (1, 1, 1, PAGES - 1)
        await scheduler._close()

    run(main())


def test_pages_wait_for_no_others_where_no_url_is_left(settings, database, monkeypatch):
    """The job waits for their commit: its end, or new links, depend on it."""
    monkeypatch.setattr(write_queue, "ITEMS_EVERY_S", 10 * TIMEOUT_S)

    async def main():
        scheduler, _ = await begun(settings, database)
        for _ in range(2):  # the other half of the URLs, then none
            await scheduler._claims.claim()
        pages = [
            Outcome(
                row_id=row.id,
                key=row.key,
                token=row.token,
                owner=OWNER,
                page_id=f"page {row.id}",
                page=b"{}",
            )
            for _, row in scheduler._queue.rows
        ]
        found = [await scheduler.settle(each) for each in pages]
        assert [each.delivered for each in found] == [True] * PAGES
        assert found[-1].state is JobState.COMPLETED
        await scheduler._close()

    run(main())


def test_claims_grow_where_the_urls_run_out_twice_in_a_row(settings, database):
    """Each claim takes a transaction, which a fast crawl would wait for."""

    async def main():
        scheduler, _ = await begun(settings, database)
        claims, batches = scheduler._claims, []
        for ran_out in (True, False, True, True, False):
            claims._ran_out = ran_out
            claims._note_size(claims._batch)
            batches.append(claims._batch)
        assert batches == [4, 4, 4, 8, 8]
        for _ in range(20):
            claims._ran_out = True
            claims._note_size(claims._batch)
        assert claims._batch == 16
        await scheduler._claims.claim()
        assert await states(database) == [RowState.LEASED] * PAGES
        await scheduler._close()
        assert await states(database) == ALL_PENDING

    run(main())
