"""Snapshots of tracked pages, as a contract that every database has to keep."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections import Counter

import pytest
from attrs import evolve
from sqlalchemy import insert, select, update

from scraper_service.items import Snapshot
from scraper_service.services.accounts import Charges, DiskQuota, Team
from scraper_service.storage import page_cache
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import job_deletion, job_rows
from scraper_service.storage.schema import ledger as ledger_table
from scraper_service.storage.schema import snapshot as table
from scraper_service.storage.schema import team, worker
from tests.storage.test_frontier import TEAM, Harness

KEY = page_cache.snapshot_key("http://a.example/", None)


def after(version, key=KEY, body=b"x", keep_s=100):
    return Snapshot(team_id=TEAM, key=key, version=version, body=body, keep_s=keep_s)


def call():
    return Call(str(uuid.uuid4()), TEAM, None, "scrape", 2, "http://a.example/", 1.0)


def last(harness, key=KEY):
    return harness.run(page_cache.read_earlier, TEAM, key)


def settle(harness, snapshot, price=1, *, is_limited=False, owner="owner"):
    made = call()
    if is_limited:
        harness.run(ledger.open_hold, made, 1, owner)
    return harness.run(ledger.settle_tracked, made, price, b"{}", snapshot, is_limited)


def charges(harness):
    return len(harness.rows(select(ledger_table.c.page_id)))


def test_a_page_is_stored_only_with_its_snapshot_being_the_next(database):
    harness = Harness(database)
    assert last(harness) == page_cache.Earlier()
    assert settle(harness, after(0, body=b"1")) == (True, None)
    assert settle(harness, after(0, body=b"2")) == (False, None)
    assert settle(harness, after(1, body=b"3")) == (True, None)
    found = last(harness)
    assert (found.version, found.body) == (2, b"3")
    assert charges(harness) == 2


def test_a_scrape_that_cannot_be_paid_leaves_no_snapshot(database):
    harness = Harness(database)
    harness.run(lambda c: c.execute(update(team).values(credits=3)))
    assert settle(harness, after(0), price=5, is_limited=True) == (True, 3)
    assert last(harness).version == 0
    assert settle(harness, after(0), price=2, is_limited=True) == (True, None)
    assert last(harness).version == 1
    assert settle(harness, after(0), price=1, is_limited=True) == (False, None)


def test_outcomes_of_one_url_in_a_group_are_stored_one_after_another(database):
    harness = Harness(database)
    job_id = harness.start([0, 1, 2], kind="batch")
    ended = [
        harness.outcome(row, page=b"{}", credits=1, snapshot=after(0))
        for row in harness.claim(job_id)
    ]
    commits = harness.append_all(job_id, ended)
    assert [c.is_stale for c in commits] == [False, True, True]
    assert [c.accepted for c in commits] == [True, False, False]
    harness.check(job_id)
    again = [evolve(each, snapshot=after(1)) for each in ended[1:]]
    commits = harness.append_all(job_id, again)
    assert [c.is_stale for c in commits] == [False, True]
    [commit] = harness.append_all(job_id, [evolve(ended[2], snapshot=after(2))])
    assert commit.delivered
    harness.check(job_id)
    assert last(harness).version == 3


def test_a_page_that_is_not_delivered_leaves_no_snapshot(database):
    harness = Harness(database)
    job_id = harness.start([0, 1])
    first, second = harness.claim(job_id)
    harness.deliver(job_id, first)
    commit = harness.deliver(job_id, second, final_key=0, snapshot=after(0))
    assert (commit.accepted, commit.delivered) == (True, False)
    assert last(harness).version == 0
    ended = harness.start([0])
    [row] = harness.claim(ended)
    harness.run(outcomes.end_job, ended, JobState.CANCELLED)
    commit = harness.deliver(ended, row, snapshot=after(0))
    assert (commit.accepted, commit.is_stale) == (False, False)
    assert last(harness).version == 0


def test_snapshots_expire(database):
    harness = Harness(database)
    settle(harness, after(0, keep_s=-1))
    settle(harness, after(0, key="other"))
    while harness.run(job_deletion.expire):
        pass
    assert [row.key for row in harness.rows(select(table.c.key))] == ["other"]
    assert settle(harness, after(1)) == (False, None)
    assert settle(harness, after(0)) == (True, None)


@pytest.mark.parametrize(
    ("url", "tag", "is_same"),
    [
        ("HTTP://A.example:80", None, True),
        ("http://a.example/#part", None, True),
        ("http://a.example/", "", False),
        ("http://a.example/", "a", False),
        ("https://a.example/", None, False),
        ("http://a.example/?b", None, False),
        ("http://a.example/A", None, False),
    ],
)
def test_equal_urls_and_tags_share_a_history(url, tag, is_same):
    assert (page_cache.snapshot_key(url, tag) == KEY) == is_same


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_processes_that_store_the_same_pages_do_not_overwrite_each_other(
    kind, tmp_path, request
):
    """Each counts up two pages in another order, and compares again when it is late."""
    url = request.getfixturevalue("postgres_tables")() if kind == "postgresql" else ""
    databases = [Database(tmp_path, url) for _ in range(3)]
    harnesses = [Harness(each) for each in databases]
    seen: list[tuple[str, int]] = []

    def work(harness, keys):
        for _ in range(10):
            for key in keys:
                while True:
                    version = last(harness, key).version
                    if settle(harness, after(version, key))[0]:
                        seen.append((key, version))
                        break

    threads = [
        threading.Thread(target=work, args=(harness, keys))
        for harness, keys in zip(
            harnesses, (["a", "b"], ["b", "a"], ["a", "b"]), strict=True
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(seen) == Counter((key, n) for key in "ab" for n in range(30))
    for each in databases:
        each.close()


def test_a_late_call_reserves_its_credits_until_its_end(tmp_path):
    async def run():
        database = Database(tmp_path)
        await database.write(job_rows.make_team, TEAM)
        await database.write(lambda c: c.execute(update(team).values(credits=9)))
        alive = insert(worker).values(id="owner", until=1e12)
        await database.write(lambda c: c.execute(alive))
        caller = Team(id=TEAM, key_id=None, is_unlimited=False)
        charges = Charges(database, "owner", DiskQuota(database, 0))

        async def left():
            return await database.read(ledger.balance, TEAM)

        async with charges.call(call(), caller, 5) as charge:
            assert await charge.settle_tracked(5, b"{}", after(3)) is False
            assert await left() == 4
            assert await charge.settle_tracked(2, b"{}", after(0)) is True
        assert await left() == 7
        async with charges.call(call(), caller, 5) as charge:
            work = asyncio.ensure_future(charge.settle_tracked(5, b"{}", after(3)))
            await asyncio.sleep(0)
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
        await asyncio.gather(*charges._tasks)
        assert await left() == 7
        database.close()

    asyncio.run(run())
