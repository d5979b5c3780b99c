"""Jobs of stored sources: whose they are, and when their sources are gone."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import func, select, update

from scraper_service.content.stored_pages import unpack
from scraper_service.errors import (
    JobNotFound,
    OutOfCredits,
    SourceJobRunning,
    SourcesNotStored,
)
from scraper_service.items import KeptResponse
from scraper_service.options.v2_requests import (
    batch_options,
    crawl_options,
    crawl_reprocess,
)
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import JobState, Outcome, RowState
from scraper_service.storage.jobs import (
    admission,
    earlier_pages,
    job_deletion,
    job_rows,
)
from scraper_service.storage.jobs.admission import Terms, create_job
from scraper_service.storage.schema import frontier, job, page, team
from scraper_service.storage.transactions import number_of
from tests.storage.test_job_history import OTHER, TEAM, run, start

URL = "http://a.example/"
KEPT = KeptResponse(
    url=f"{URL}final",
    at=1.5,
    engine="http",
    head=b"HTTP/1.1 200 OK\r\n\r\n",
    body=b"<p>Text.",
)


@pytest.fixture
def stored(database):
    run(database, job_rows.make_team, TEAM)
    run(database, job_rows.make_team, OTHER)
    return database


def source(database, kept=KEPT, *, ends=True):
    """Return the id of a crawl with one page, and the key of the page."""
    job_id = start(database, URL, sitemap="skip")
    [row] = run(database, leases.claim, job_id, "owner", 1).rows
    page = Outcome(
        row_id=row.id,
        key=row.key,
        token=row.token,
        owner="owner",
        page_id=str(uuid.uuid4()),
        page=b"{}",
        kept=kept,
    )
    if ends:
        [commit] = run(database, outcomes.append, job_id, [page])
        assert commit.delivered
    return job_id, row.key


def large_source(database, count):
    """Return the id of a finished batch of ``count`` pages with sources."""
    job_id = start_batch(database, [f"{URL}{n}" for n in range(count)])
    rows = run(database, leases.claim, job_id, "owner", count).rows
    pages = [
        Outcome(
            row_id=row.id,
            key=row.key,
            token=row.token,
            owner="owner",
            page_id=str(uuid.uuid4()),
            page=b"{}",
            kept=KEPT,
        )
        for row in rows
    ]
    run(database, outcomes.append, job_id, pages)
    return job_id


def start_batch(database, urls):
    options = batch_options({"urls": urls}).options
    return run(database, create_job, Terms(team_id=TEAM), options, 2).id


def reprocess_batch(database, job_id, numbers=None, price=None):
    options = batch_options({"urls": [URL]}).options
    terms = Terms(team_id=TEAM, page_price=price)
    make = admission.create_job_of_sources
    return run(database, make, job_id, terms, options, 2, numbers)


def found_job(database, made):
    return run(database, job_rows.get_job, made.id, TEAM)


def finish_rows(database, made, rows):
    """Deliver leased rows of a job; return the state of the job."""
    ended = [
        Outcome(
            row_id=row.id,
            key=row.key,
            token=row.token,
            owner="owner",
            page_id=str(uuid.uuid4()),
            page=b"{}",
        )
        for row in rows
    ]
    return run(database, outcomes.append, made.id, ended)[-1].state


def reprocess(database, job_id, team_id=TEAM, numbers=None, price=None):
    options = crawl_reprocess({"formats": ["html"]}).options(
        crawl_options({"url": URL})
    )
    terms = Terms(team_id=team_id, page_price=price)
    make = admission.create_job_of_sources
    return run(database, make, job_id, terms, options, 2, numbers)


def test_a_job_has_the_pages_of_its_source_with_their_keys(stored):
    job_id, key = source(stored)
    made = reprocess(stored, job_id)
    assert (made.kind, made.spider, made.source_job_id) == (
        "crawl",
        "reprocess",
        job_id,
    )
    assert (made.open, made.total, made.page_limit) == (1, 1, 1)
    [row] = run(stored, leases.claim, made.id, "owner", 9).rows
    assert (row.key, row.url) == (key, URL)
    _, found = run(stored, earlier_pages.read_source, job_id, TEAM, key)
    kept = unpack(found)
    assert (kept.url, kept.body) == (KEPT.url, KEPT.body)


def test_sources_of_another_team_are_not_found(stored):
    job_id, key = source(stored)
    with pytest.raises(JobNotFound):
        reprocess(stored, job_id, OTHER)
    with pytest.raises(JobNotFound):
        run(stored, earlier_pages.find_source, job_id, OTHER)
    assert run(stored, earlier_pages.read_source, job_id, OTHER, key) is None


def test_sources_of_a_deleted_or_expired_job_are_gone_at_once(stored):
    job_id, key = source(stored)
    run(stored, job_deletion.hide, job_id)
    assert run(stored, earlier_pages.read_source, job_id, TEAM, key) is None
    job_id, key = source(stored)
    expire = update(job).where(job.c.id == job_id).values(expires_at=1.0)
    run(stored, lambda connection: connection.execute(expire).rowcount)
    assert run(stored, earlier_pages.read_source, job_id, TEAM, key) is None
    with pytest.raises(JobNotFound):
        reprocess(stored, job_id)


def test_running_jobs_and_jobs_without_sources_are_refused(stored):
    job_id, _ = source(stored, ends=False)
    with pytest.raises(SourceJobRunning):
        reprocess(stored, job_id)
    job_id, _ = source(stored, kept=None)
    with pytest.raises(SourcesNotStored):
        reprocess(stored, job_id)


def test_pages_are_found_by_their_first_and_their_final_url(stored):
    job_id, _ = source(stored)
    for url in (URL, KEPT.url):
        found = run(stored, earlier_pages.find_pages, job_id, [url])
        assert found == ([0], set())
    found = run(stored, earlier_pages.find_pages, job_id, [URL, "http://b.example/"])
    assert found == ([0], {"http://b.example/"})


def test_add_ons_that_cannot_be_paid_are_refused(stored):
    job_id, _ = source(stored)
    poor = update(team).where(team.c.id == TEAM).values(credits=3)
    run(stored, lambda connection: connection.execute(poor).rowcount)
    with pytest.raises(OutOfCredits):
        reprocess(stored, job_id, price=4)
    assert reprocess(stored, job_id, price=0).open == 1
    assert reprocess(stored, job_id, price=3).state is JobState.QUEUED


# -- slices --------------------------------------------------------------------------------


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr(outcomes, "SLICE_ROWS", 3)


@pytest.mark.parametrize("numbers", [None, [0, 1, 2, 4, 5, 6, 7]], ids=["all", "some"])
def test_rows_are_copied_in_slices_each_once(stored, narrow, numbers):
    made = reprocess_batch(stored, large_source(stored, 8), numbers, price=2)
    assert (made.open, made.state) == (3, JobState.QUEUED)
    opens = []
    while not run(stored, outcomes.copy_slice, made.id):
        opens.append(found_job(stored, made).open)
    assert opens == [6]
    assert run(stored, outcomes.copy_slice, made.id)
    keys = [row.key for row in run(stored, leases.claim, made.id, "owner", 99).rows]
    assert keys == (list(range(8)) if numbers is None else numbers)
    assert found_job(stored, made).open == len(keys)


def test_claims_copy_rows_left_by_a_dead_process(stored, narrow):
    made = reprocess_batch(stored, large_source(stored, 8))
    seen, state = [], None
    while rows := run(stored, leases.claim, made.id, "owner", 3).rows:
        assert state is not JobState.COMPLETED
        state = finish_rows(stored, made, rows)
        seen += [row.key for row in rows]
    assert seen == list(range(8))
    found = found_job(stored, made)
    assert (found.state, found.pages, found.open) == (JobState.COMPLETED, 8, 0)


def test_a_job_with_missing_rows_does_not_complete(stored, narrow):
    made = reprocess_batch(stored, large_source(stored, 4))
    of_job = frontier.c.job_number == number_of(made.id)
    with stored.engine.begin() as connection:  # a claim would copy the rest
        lease = {"state": RowState.LEASED, "owner": "owner"}
        connection.execute(update(frontier).where(of_job).values(lease))
        rows = connection.execute(select(frontier).where(of_job)).all()
    assert finish_rows(stored, made, rows) is JobState.SCRAPING
    assert run(stored, outcomes.copy_slice, made.id)
    rows = run(stored, leases.claim, made.id, "owner", 9).rows
    assert finish_rows(stored, made, rows) is JobState.COMPLETED


def test_pages_deleted_meanwhile_cause_a_warning(stored, narrow):
    source_id = large_source(stored, 8)
    made = reprocess_batch(stored, source_id)
    with stored.engine.begin() as connection:
        connection.execute(
            page.delete().where(page.c.job_number == number_of(source_id))
        )
    while not run(stored, outcomes.copy_slice, made.id):
        pass
    found = found_job(stored, made)
    assert found.open == found.total == 3
    assert "The source job lost 5 pages" in found.warning
    rows = run(stored, leases.claim, made.id, "owner", 9).rows
    assert finish_rows(stored, made, rows) is JobState.COMPLETED


def test_a_cancelled_job_gets_no_more_rows(stored, narrow):
    made = reprocess_batch(stored, large_source(stored, 8))
    assert run(stored, outcomes.end_job, made.id, JobState.CANCELLED)
    assert run(stored, outcomes.copy_slice, made.id)
    count = select(func.count()).where(frontier.c.job_number == number_of(made.id))
    assert run(stored, lambda connection: connection.scalar(count)) == 3
