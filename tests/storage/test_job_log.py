"""The log of a job, and the counts for readers of metrics, on each kind of database."""

from __future__ import annotations

import pytest

from scraper_service.options.crawl import ChangeRequest
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import job_control, job_log, job_store
from scraper_service.storage.jobs.metrics import read_counts
from tests.storage.test_job_history import TEAM, run, start

MOST = job_log.MOST_ENTRIES


@pytest.fixture
def stored(database):
    run(database, job_store.make_team, TEAM)
    return database


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("count", [MOST - 1, MOST, MOST + 20])
def test_the_entries_of_a_job_have_a_bound(stored, count):
    job_id, other = start(stored), start(stored)
    run(stored, job_log.record, other, job_log.BEGAN, {"process": "a"})
    earlier = [
        run(stored, job_log.record, job_id, job_log.TAKEN_OVER, {"urls": number})
        for number in range(count)
    ]
    assert earlier[:3] == [0, 1, 2]
    found = run(stored, job_log.read_log, job_id).entries
    kept = [entry.facts["urls"] for entry in found if entry.kind == job_log.TAKEN_OVER]
    assert kept == list(range(count))[-MOST:]
    assert job_log.BEGAN in [
        e.kind for e in run(stored, job_log.read_log, other).entries
    ]


def test_an_unknown_job_gets_no_entry(stored):
    assert run(stored, job_log.record, "no-such-job", job_log.LEFT, {}) == 0
    assert run(stored, job_log.read_log, "no-such-job").entries == ()


def test_events_and_entries_are_in_the_order_of_time(stored):
    job_id = start(stored)
    run(stored, job_log.record, job_id, job_log.BEGAN, {"process": "a"})
    run(stored, outcomes.end_job, job_id, JobState.FAILED, "It broke.")
    found = run(stored, job_log.read_log, job_id).entries
    assert [entry.kind for entry in found] == ["started", job_log.BEGAN, "failed"]
    assert found[1].facts == {"process": "a"}


def test_jobs_and_urls_are_counted_by_state(stored):
    empty = run(stored, read_counts)
    assert (empty.jobs, empty.queue_age_s) == ({}, 0)
    assert dict(empty.urls) == {"pending": 0, "leased": 0, "held": 0}
    running, paused, ended = (start(stored) for _ in range(3))
    assert run(stored, read_counts).queue_age_s > 0
    [_] = run(stored, leases.claim, running, "owner", 1).rows
    run(stored, job_store.start_job, running)
    request = ChangeRequest(paused=True)
    run(stored, job_control.change_job, paused, TEAM, request)
    run(stored, outcomes.end_job, ended, JobState.CANCELLED)
    found = run(stored, read_counts)
    assert dict(found.jobs) == {
        ("crawl", "scraping"): 1,
        ("crawl", "paused"): 1,
        ("crawl", "cancelled"): 1,
    }
    assert dict(found.urls) == {"pending": 1, "leased": 1, "held": 0}
    assert found.webhooks_pending == 0
