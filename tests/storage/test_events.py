"""The log of a job's events, as a contract that every database has to keep."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import job_log
from scraper_service.storage.schema import event
from scraper_service.storage.transactions import number_of
from tests.storage.test_frontier import TEAM, Harness

PLENTY = 2**20
THREADS = 4
ROUNDS = 25


@pytest.fixture
def harness(database):
    return Harness(database)


def events_of(harness, job_id, after=0, max_bytes=PLENTY):
    return harness.run(job_log.read_events, job_id, TEAM, after, max_bytes).events


def test_events_of_pages_are_in_the_order_of_their_ends(harness):
    job_id = harness.start()
    [row] = harness.claim(job_id)
    harness.deliver(job_id, row, links=[1, 2])
    one, two = harness.claim(job_id)
    ended = [
        harness.outcome(two, code="SCRAPE_SITE_ERROR", error="it broke"),
        harness.outcome(one, page=b'{"n":1}'),
    ]
    harness.append_all(job_id, ended)
    found = events_of(harness, job_id)
    assert [(e.kind, e.page, e.error) for e in found] == [
        ("started", None, None),
        ("page", b'{"n":0}', None),
        ("page", None, "it broke"),
        ("page", b'{"n":1}', None),
        ("completed", None, None),
    ]
    numbers = [e.seq for e in found]
    assert numbers == sorted(set(numbers))
    for behind, number in enumerate(numbers, 1):
        assert events_of(harness, job_id, number) == found[behind:]


def test_a_read_returns_the_events_that_fit_and_at_least_one(harness):
    job_id = harness.start()
    [row] = harness.claim(job_id)
    harness.deliver(job_id, row, links=[1, 2])
    for row in harness.claim(job_id):
        harness.deliver(job_id, row, page=b"x" * 100)
    found = events_of(harness, job_id)
    after, parts = 0, []
    while part := events_of(harness, job_id, after, max_bytes=107):
        parts.append([e.kind for e in part])
        after = part[-1].seq
    assert parts == [["started", "page", "page"], ["page", "completed"]]
    after, parts = 0, []
    while part := events_of(harness, job_id, after, max_bytes=1):
        parts += part
        after = part[-1].seq
    assert parts == list(found)


def test_a_job_of_another_team_has_no_events(harness):
    job_id = harness.start()
    assert harness.run(job_log.read_events, job_id, "other", 0, PLENTY) is None


def test_an_event_number_belongs_to_one_job(harness):
    first, second = harness.start(), harness.start()
    [number] = [e.seq for e in events_of(harness, first)]
    assert harness.run(job_log.has_event, first, TEAM, number)
    assert not harness.run(job_log.has_event, second, TEAM, number)


def read_events(engine, job_id, after=0):
    query = select(event.c.id, event.c.kind).where(
        event.c.job_number == number_of(job_id), event.c.id > after
    )
    with engine.begin() as connection:
        return connection.execute(query.order_by(event.c.id)).all()


def read_to_the_end(engine, job_id, writers):
    """Read the events of a job, the new ones again and again, until all are written."""
    seen = []
    while not all(writer.done() for writer in writers):
        seen += read_events(engine, job_id, seen[-1].id if seen else 0)
        time.sleep(0.001)  # a reader that never rests would starve the writers
    return seen + read_events(engine, job_id, seen[-1].id if seen else 0)


def test_a_reader_never_finds_an_earlier_event_later(database):
    """Two transactions that write events of one job overlap, on several connections.

    Were numbers drawn without the lock of the job, the later one could be seen first.
    """
    harness = Harness(database)
    engine = database.engine
    if database._readers is None:
        pytest.skip("a database in memory has one connection")
    job_id = harness.start(range(THREADS * ROUNDS))
    rows = harness.claim(job_id, THREADS * ROUNDS)
    writing = engine.execution_options(immediate=True)

    def work(mine):
        for row in mine:
            ended = harness.outcome(row, page=b"{}")
            with writing.begin() as connection:
                outcomes.append(connection, job_id, [ended])

    with ThreadPoolExecutor(THREADS) as threads:
        writers = [threads.submit(work, rows[n::THREADS]) for n in range(THREADS)]
        seen = read_to_the_end(engine, job_id, writers)
    for writer in writers:
        writer.result()

    assert seen == read_events(engine, job_id)
    assert len(seen) == THREADS * ROUNDS + 2


def test_the_last_event_of_a_cancelled_job_is_cancelled(harness):
    job_id = harness.start()
    harness.run(outcomes.end_job, job_id, JobState.CANCELLED)
    *_, last = events_of(harness, job_id)
    assert (last.kind, last.error) == ("cancelled", "The job was cancelled.")
