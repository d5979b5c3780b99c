"""What any frontier must promise, by the steps of its protocol alone."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import contextmanager

import pytest

from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.frontier.leases import Frontier
from scraper_service.storage.job_records import JobState, Link, Outcome
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.jobs import Jobs

TEAM = "team"
LEASE_S = 60.0


class Fleet:
    """Frontiers of several processes on one database. Further backends add a class like it."""

    def __init__(self, database):
        self.database = database
        self.jobs = Jobs(database)

    async def process(self) -> Frontier:
        found = Frontier(self.database, str(uuid.uuid4()))
        await found.beat(LEASE_S)
        return found

    async def start(self, limit=100):
        await self.jobs.make_team(TEAM)
        options = crawl_options(
            {"url": "http://a.example/", "limit": str(limit), "sitemap": "skip"}
        )
        return (await self.jobs.create(Terms(team_id=TEAM), options, 2)).id

    async def counts(self, job_id):
        return await self.jobs.get(job_id, TEAM)


@pytest.fixture
def fleet(database):
    return Fleet(database)


@contextmanager
def runner():
    with asyncio.Runner() as found:
        yield found.run


def links(*numbers):
    return tuple(Link(n, f"http://a.example/{n}", 1) for n in numbers)


def outcome(frontier, row, **facts):
    return Outcome(
        row_id=row.id,
        key=row.key,
        token=row.token,
        owner=frontier.owner,
        page_id=str(uuid.uuid4()),
        **({"page": b"{}", "credits": 1} | facts),
    )


async def spread(fleet, job_id, *numbers):
    """Store the first page, with links."""
    frontier = await fleet.process()
    [first] = (await frontier.claim(job_id, 1)).rows
    await frontier.store(job_id, outcome(frontier, first, links=links(*numbers)))
    return frontier


def test_urls_are_leased_oldest_first_each_to_one_process(fleet):
    async def work():
        job_id = await fleet.start()
        one = await spread(fleet, job_id, *range(1, 11))
        two = await fleet.process()
        found = [
            row.key
            for each in (one, two, one, two)
            for row in (await each.claim(job_id, 3)).rows
        ]
        assert found == list(range(1, 11))
        assert {x[0] for x in await one.leases()} == {job_id}
        assert len(await one.leases()) == 6

    with runner() as run:
        run(work())


def test_links_count_once_and_the_last_url_ends_the_job(fleet):
    async def work():
        job_id = await fleet.start()
        frontier = await spread(fleet, job_id, 1, 2, 2)
        one, two = (await frontier.claim(job_id, 9)).rows
        commit = await frontier.store(job_id, outcome(frontier, one, links=links(1, 2)))
        assert (commit.accepted, commit.new_links) == (True, 0)
        failed = outcome(frontier, two, page=None, code="X", error="x")
        assert (await frontier.store(job_id, failed)).state is JobState.COMPLETED
        found = await fleet.counts(job_id)
        assert (found.pages, found.done, found.failed, found.open) == (2, 2, 1, 0)
        assert found.credits == 2

    with runner() as run:
        run(work())


def test_an_outcome_counts_once_and_only_with_its_lease(fleet):
    async def work():
        job_id = await fleet.start()
        frontier = await spread(fleet, job_id, 1, 2)
        one, _ = (await frontier.claim(job_id, 9)).rows
        ended = outcome(frontier, one)
        assert [(await frontier.store(job_id, ended)).accepted for _ in range(2)] == [
            True,
            True,
        ]
        other = outcome(frontier, one)  # another page by the same lease
        assert not (await frontier.store(job_id, other)).accepted
        assert (await fleet.counts(job_id)).pages == 2

    with runner() as run:
        run(work())


def test_returned_urls_are_pending_again(fleet):
    async def work():
        job_id = await fleet.start()
        frontier = await spread(fleet, job_id, 1, 2)
        rows = (await frontier.claim(job_id, 9)).rows
        await frontier.release(job_id, [(row.id, row.token) for row in rows])
        assert await frontier.leases() == []
        late = await frontier.store(job_id, outcome(frontier, rows[0]))
        assert not late.accepted
        again = (await frontier.claim(job_id, 9)).rows
        assert [row.key for row in again] == [1, 2]
        assert all(a.token > b.token for a, b in zip(again, rows, strict=True))
        await frontier.release(job_id, [(row.id, row.token) for row in rows])
        assert len(await frontier.leases()) == 2

    with runner() as run:
        run(work())


def test_leases_of_a_dead_process_return(fleet):
    async def work():
        job_id = await fleet.start()
        dead = await spread(fleet, job_id, 1, 2)
        rows = (await dead.claim(job_id, 9)).rows
        other = await fleet.process()
        assert await other.jobs_with_lost_leases() == []
        assert await other.return_lost(job_id) == 0
        await dead.end_leases()
        assert await other.jobs_with_lost_leases() == [job_id]
        assert await other.return_lost(job_id) == 2
        again = (await other.claim(job_id, 9)).rows
        assert [row.id for row in again] == [row.id for row in rows]
        late = await dead.store(job_id, outcome(dead, rows[0]))
        assert not late.accepted
        await other.store(job_id, outcome(other, again[0]))
        assert (await fleet.counts(job_id)).pages == 2

    with runner() as run:
        run(work())


def test_the_limit_applies_across_all_processes(fleet):
    async def work():
        job_id = await fleet.start(limit=4)
        frontiers = [await spread(fleet, job_id, *range(1, 9)), await fleet.process()]
        state = JobState.SCRAPING
        while state is not JobState.COMPLETED:
            leased = [
                (each, row)
                for each in frontiers
                for row in (await each.claim(job_id, 2)).rows
            ]
            for each, row in leased:
                state = (await each.store(job_id, outcome(each, row))).state
        found = await fleet.counts(job_id)
        assert (found.pages, found.open, found.held) == (4, 0, 5)

    with runner() as run:
        run(work())
