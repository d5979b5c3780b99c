"""How long jobs and single calls are stored."""

from __future__ import annotations

import time
import uuid

import pytest
from attrs import evolve
from sqlalchemy import select

from scraper_service.options.jobs import LlmsTextOptions
from scraper_service.options.spider_arguments import batch_options, crawl_options
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.files import artefacts
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import admission, job_rows, model_jobs, runs
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.schema import activity, artefact, job, scrape
from scraper_service.storage.transactions import now_of
from tests.storage.test_job_deletion import expire, outcome, rows_of
from tests.storage.test_job_history import TEAM, listed, run

HOUR_S, WEEK_S = 3600.0, 7 * 86_400.0


@pytest.fixture
def stored(database):
    run(database, job_rows.make_team, TEAM)
    return database


def create(database, retention_s, options=None):
    options = options or crawl_options({"url": "http://a.example/"})
    terms = Terms(team_id=TEAM, retention_s=retention_s)
    return run(database, admission.create_job, terms, options, 2).id


def row_of(database, job_id):
    query = select(job).where(job.c.id == job_id)
    return run(database, lambda c: c.execute(query).one())


def test_the_end_of_a_job_begins_its_retention(stored):
    for retention_s in (HOUR_S, WEEK_S):
        job_id = create(stored, retention_s)
        row = row_of(stored, job_id)
        assert row.expires_at == pytest.approx(row.created_at + retention_s)
        run(stored, outcomes.end_job, job_id, JobState.CANCELLED)
        row = row_of(stored, job_id)
        assert row.expires_at == pytest.approx(row.completed_at + retention_s)


def test_the_last_page_begins_the_retention(stored):
    job_id = create(stored, WEEK_S, batch_options({"urls": "http://a.example/"}))
    [row] = run(stored, leases.claim, job_id, "owner", 1).rows
    run(stored, outcomes.append, job_id, [outcome(row)])
    row = row_of(stored, job_id)
    assert row.state == JobState.COMPLETED
    assert row.expires_at == pytest.approx(row.completed_at + WEEK_S)


def test_a_batch_keeps_its_retention_unless_entries_bring_another(stored):
    batch = batch_options({"urls": "http://a.example/"})
    job_id = create(stored, WEEK_S, batch)
    terms = Terms(team_id=TEAM, retention_s=HOUR_S)
    run(stored, admission.add_entries, job_id, terms, batch)
    assert row_of(stored, job_id).retention_s == WEEK_S
    run(stored, admission.add_entries, job_id, terms, evolve(batch, retention_days=1.0))
    assert row_of(stored, job_id).retention_s == HOUR_S


def test_an_expired_job_leaves_no_row(stored):
    job_id = create(stored, HOUR_S)
    run(stored, outcomes.end_job, job_id, JobState.FAILED)
    expire(stored)
    assert listed(stored) == [job_id]
    past(stored, job, job.c.expires_at, HOUR_S)
    assert run(stored, job_rows.get_job, job_id, TEAM) is None
    assert listed(stored) == []
    expire(stored)
    assert rows_of(stored, job_id) == {}


def past(database, table, column, seconds):
    """Let the rows of a table expire this much earlier."""
    change = table.update().values({column: column - seconds - 1})
    run(database, lambda c: c.execute(change))


def test_a_single_call_is_stored_with_its_page_and_files(stored):
    for retention_s in (HOUR_S, WEEK_S):
        call_id = scraped(stored, retention_s)
        for table, column in (
            (activity, activity.c.id),
            (scrape, scrape.c.id),
            (artefact, artefact.c.holder),
        ):
            query = select(table.c.expires_at).where(column == call_id)
            left_s = run(stored, lambda c, q=query: c.scalar(q)) - run(stored, now_of)
            assert left_s == pytest.approx(retention_s, abs=60)


def scraped(database, retention_s):
    call_id, at = str(uuid.uuid4()), time.time()
    made = Call(call_id, TEAM, None, "scrape", 2, "http://a.example/", at)
    run(database, artefacts.hold, f"{call_id}.png", call_id)
    run(database, ledger.record, evolve(made, retention_s=retention_s), 1, b"{}")
    return call_id


def test_a_step_is_stored_as_long_as_its_model_job(stored):
    options = LlmsTextOptions(
        url="http://a.example/",
        max_urls=1,
        show_full_text=False,
        use_cache=True,
        scrape=crawl_options({"url": "http://a.example/"}).scrape,
    )
    terms = Terms(team_id=TEAM, retention_s=WEEK_S)
    parent = run(stored, admission.create_job, terms, options, 1, None, 1).id
    taken = run(stored, runs.take, parent, "owner")
    batch = batch_options({"urls": "http://a.example/"})
    assert run(stored, model_jobs.add_step, parent, taken.run_id, "step", batch)
    step = model_jobs.step_id(parent, "step")
    assert row_of(stored, step).retention_s == WEEK_S
    assert run(stored, model_jobs.complete, parent, taken.run_id, b"{}", 1, 0)
    row = row_of(stored, parent)
    assert row.expires_at == pytest.approx(row.completed_at + WEEK_S)
