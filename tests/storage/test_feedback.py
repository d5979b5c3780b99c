"""Feedback on calls, as every database has to store it."""

from __future__ import annotations

import concurrent.futures
import uuid

import pytest
from attrs import evolve
from sqlalchemy import update

from scraper_service.errors import CallFailed, JobNotFound
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import feedback
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.accounts.feedback import KEPT_S, Feedback
from scraper_service.storage.accounts.usage import CallPosition
from scraper_service.storage.database import Database
from scraper_service.storage.jobs import job_store
from scraper_service.storage.schema import feedback as feedback_table
from scraper_service.storage.transactions import now_of

TEAM, OTHER = "team", "other"
GIVEN = Feedback("map", "", "bad", {"note": "short", "pageNumbers": [1]})


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request, tmp_path):
    """Two processes' views of one database."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")()
    both = [Database(tmp_path, url) for _ in range(2)]
    for name in (TEAM, OTHER):
        both[0].write_at_once(job_store.make_team, name)
    yield both
    for each in both:
        each.close()


def make_call(database, error=None, endpoint="map", team=TEAM):
    """Store a call; return its id."""
    now = database.write_at_once(now_of)
    call = Call(str(uuid.uuid4()), team, None, endpoint, 2, None, now, error=error)
    database.write_at_once(ledger.record, call, 0)
    return call.id


def give(database, job_id, team=TEAM, given=GIVEN):
    given = evolve(given, job_id=job_id)
    return database.write_at_once(feedback.store_feedback, job_id, team, given)


def listed(database, *args):
    return database.write_at_once(feedback.list_feedback, TEAM, *args)


def test_one_of_many_at_a_time_is_stored(databases):
    calls = [make_call(databases[0]) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(give, db, c) for c in calls for db in databases * 2]
        found = [each.result() for each in futures]
    for first in range(0, len(found), 4):
        same = found[first : first + 4]
        assert len({feedback_id for feedback_id, _ in same}) == 1
        assert sorted(is_known for _, is_known in same) == [False, True, True, True]
    rows = listed(databases[0], None, None, 100)
    assert {row.given.job_id for row in rows} == set(calls)


def test_calls_that_failed_or_are_not_the_teams_take_none(databases):
    database = databases[0]
    with pytest.raises(CallFailed):
        give(database, make_call(database, error="it timed out"))
    for job_id in (
        make_call(database, team=OTHER),
        make_call(database, endpoint="search"),
        str(uuid.uuid4()),
    ):
        with pytest.raises(JobNotFound):
            give(database, job_id)
    assert listed(database, None, None, 10) == []


def test_lists_are_cut_into_parts_and_old_entries_are_deleted(databases):
    database = databases[0]
    ids = [give(database, make_call(database))[0] for _ in range(3)]
    first = listed(database, "map", None, 2)
    assert [row.id for row in first] == ids[::-1]  # one more than the limit
    assert first[0].given.facts == GIVEN.facts
    after = CallPosition(first[1].at, first[1].id)
    assert [row.id for row in listed(database, None, after, 2)] == ids[:1]
    assert listed(database, "scrape", None, 2) == []

    def age(connection):
        old = now_of(connection) - KEPT_S - 1
        which = feedback_table.c.id == ids[0]
        connection.execute(update(feedback_table).where(which).values(at=old))

    database.write_at_once(age)
    assert database.write_at_once(feedback.expire) == 1
    assert database.write_at_once(feedback.expire) == 0
    assert [row.id for row in listed(database, None, None, 9)] == ids[:0:-1]
