"""The log of a job, and the counts for readers of metrics, on each kind of database."""

from __future__ import annotations

import pytest

from scraper_service.options.jobs import ChangeRequest
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import job_control, job_log, job_rows, runs
from scraper_service.storage.jobs.metrics import read_counts
from tests.storage.test_job_history import TEAM, run, start

MOST = runs.MOST_RUNS


@pytest.fixture
def stored(database):
    run(database, job_rows.make_team, TEAM)
    run(database, leases.beat, "a", 100)
    return database


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("count", [MOST - 1, MOST, MOST + 20])
def test_the_runs_of_a_job_have_a_bound(stored, count):
    job_id, other = start(stored), start(stored)
    run(stored, runs.take, other, "a")
    for number in range(count):
        taken = run(stored, runs.take, job_id, "a")
        assert taken.is_first == (number == 0)
        run(stored, runs.end, job_id, taken.run_id, str(number))
    found = run(stored, job_log.read_log, job_id).entries
    kept = [entry.facts["reason"] for entry in found if entry.kind == job_log.LEFT]
    assert kept == [str(number) for number in range(count)][-MOST:]
    assert job_log.BEGAN in [
        e.kind for e in run(stored, job_log.read_log, other).entries
    ]


def test_an_unknown_job_has_no_entry(stored):
    assert run(stored, runs.take, "no-such-job", "a") is None
    assert run(stored, job_log.read_log, "no-such-job").entries == ()


def test_events_and_runs_are_in_the_order_of_time(stored):
    job_id = start(stored)
    run(stored, runs.take, job_id, "a")
    run(stored, outcomes.end_job, job_id, JobState.FAILED, "It broke.")
    found = run(stored, job_log.read_log, job_id).entries
    assert [entry.kind for entry in found] == ["started", job_log.BEGAN, "failed"]
    assert found[1].facts == {"process": "a"}


def test_the_urls_of_a_dead_process_are_counted_in_its_run(stored):
    job_id = start(stored)
    run(stored, runs.take, job_id, "a")
    [_] = run(stored, leases.claim, job_id, "a", 1).rows
    run(stored, leases.beat, "a", -1)
    assert run(stored, runs.end_lost, "me") == 1
    assert run(stored, leases.reap, job_id) == 1
    last = run(stored, job_log.read_log, job_id).entries[-1]
    assert (last.kind, last.facts) == ("taken over", {"process": "a", "urls": 1})


def test_jobs_and_urls_are_counted_by_state(stored):
    empty = run(stored, read_counts)
    assert (empty.jobs, empty.queue_age_s) == ({}, 0)
    assert dict(empty.urls) == {"pending": 0, "leased": 0, "held": 0}
    running, paused, ended = (start(stored) for _ in range(3))
    assert run(stored, read_counts).queue_age_s > 0
    [_] = run(stored, leases.claim, running, "owner", 1).rows
    run(stored, job_rows.start_job, running)
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
