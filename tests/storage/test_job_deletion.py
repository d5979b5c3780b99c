"""The deletion of jobs and single calls: what is left, and when."""

from __future__ import annotations

import json
import uuid

import pytest
from sqlalchemy import func, select, update

from scraper_service.options.jobs import Webhook
from scraper_service.storage import webhooks
from scraper_service.storage.files import artefacts
from scraper_service.storage.frontier import job_counts, leases, outcomes
from scraper_service.storage.frontier.job_counts import HostCounts, Tallied
from scraper_service.storage.job_records import JobState, Outcome
from scraper_service.storage.jobs import job_deletion, job_history, job_rows, runs
from scraper_service.storage.schema import (
    activity,
    artefact,
    job,
    ledger,
    metadata,
    scrape,
)
from tests.storage.test_job_history import OTHER, TEAM, call, listed, run, start

HOOK = Webhook(url="http://b.example/", headers=(("X-Key", "secret"),))


@pytest.fixture
def stored(database):
    run(database, job_rows.make_team, TEAM)
    run(database, job_rows.make_team, OTHER)
    return database


def outcome(row):
    page_id = str(uuid.uuid4())
    facts = {"row_id": row.id, "key": row.key, "token": row.token, "owner": "owner"}
    return Outcome(**facts, page_id=page_id, page=b"{}", credits=1)


def worked(database, job_id):
    """Deliver the first page of a job and add what belongs to a job."""
    [row] = run(database, leases.claim, job_id, "owner", 1).rows
    run(database, webhooks.attach, job_id, HOOK)
    [commit] = run(database, outcomes.append, job_id, [outcome(row)])
    assert commit.delivered
    counts = Tallied({"http://a.example": HostCounts()}, {}, {"a": 1})
    run(database, job_counts.add_requests, job_id, counts)
    run(database, artefacts.hold, "name.png", job_id, job_id)
    assert run(database, runs.take, job_id, "owner") is not None


def rows_of(database, job_id):
    """Return the tables that have rows of a job or call, with their number."""
    found = {}
    for table in metadata.sorted_tables:
        key, number = table.c.get("job_id"), table.c.get("job_number")
        if number is not None:
            jobs = select(job.c.number).where(job.c.id != job_id)
            is_of_job = number.not_in(jobs)  # of no job, too
        elif key is not None and table is not ledger:
            is_of_job = key == job_id
        elif table in {job, activity, scrape}:
            is_of_job = table.c.id == job_id
        else:
            continue
        query = select(func.count()).select_from(table).where(is_of_job)
        if count := run(database, lambda c, q=query: c.scalar(q)):
            found[table.name] = count
    return found


def delete(database, job_id, team=TEAM):
    steps = run(database, job_deletion.cancel, job_id, team)
    for each in [*(steps or []), job_id]:
        run(database, job_deletion.hide, each)
    return steps


def expire(database):
    while run(database, job_deletion.expire):
        pass
    while run(database, artefacts.expire):
        pass


def test_all_rows_of_a_job_go(stored):
    other, job_id = start(stored), start(stored)
    worked(stored, job_id)
    tables = {"job", "page", "event", "frontier", "webhook", "secret", "activity"}
    assert rows_of(stored, job_id).keys() >= tables | {"delivery", "artefact"}
    assert delete(stored, job_id) == []
    assert listed(stored) == [other]
    assert "secret" not in rows_of(stored, job_id)
    expire(stored)
    assert rows_of(stored, job_id) == {}
    assert listed(stored) == [other]
    charged = select(func.sum(ledger.c.credits)).where(ledger.c.job_id == job_id)
    assert run(stored, lambda c: c.scalar(charged)) == 1


def test_a_hidden_job_cannot_be_read(stored):
    job_id = start(stored)
    [row] = run(stored, leases.claim, job_id, "owner", 1).rows
    page = outcome(row)
    run(stored, outcomes.append, job_id, [page])
    run(stored, artefacts.hold, "name.png", job_id, job_id)
    assert run(stored, job_rows.read_scrape, page.page_id, TEAM) == b"{}"
    assert run(stored, artefacts.is_readable, "name.png")
    delete(stored, job_id)
    assert run(stored, job_rows.read_scrape, page.page_id, TEAM) is None
    assert run(stored, job_rows.get_job, job_id, TEAM) is None
    assert run(stored, job_history.read_details, job_id, TEAM) is None
    assert not run(stored, artefacts.is_readable, "name.png")


def test_a_file_of_another_job_can_be_read(stored):
    jobs = [start(stored) for _ in range(2)]
    for each in jobs:
        run(stored, artefacts.hold, "name.png", each, each)
    run(stored, artefacts.hold, "name.png", f"{artefacts.CACHED}key")
    delete(stored, jobs[0])
    assert run(stored, artefacts.is_readable, "name.png")
    delete(stored, jobs[1])
    # The page cache has it for later calls only.
    assert not run(stored, artefacts.is_readable, "name.png")


def test_a_process_cannot_write_after_the_deletion(stored):
    job_id = start(stored)
    [row] = run(stored, leases.claim, job_id, "owner", 1).rows
    delete(stored, job_id)

    def work():
        [commit] = run(stored, outcomes.append, job_id, [outcome(row)])
        assert (commit.accepted, commit.state) == (False, JobState.CANCELLED)
        assert run(stored, leases.claim, job_id, "owner", 1).rows == ()
        run(stored, leases.release, job_id, [(row.id, row.token)])
        run(stored, job_rows.start_job, job_id)
        assert not run(stored, outcomes.end_job, job_id, JobState.FAILED)

    work()
    expire(stored)
    work()
    run(stored, job_counts.add_requests, job_id, Tallied({"h": HostCounts()}, {}, {}))
    assert rows_of(stored, job_id) == {}


def test_deleting_a_model_job_deletes_its_steps(stored):
    parent, step = start(stored), start(stored)
    change = update(job).where(job.c.id == step).values(parent_id=parent)
    run(stored, lambda c: c.execute(change))
    assert run(stored, job_deletion.cancel, step, TEAM) is None
    assert delete(stored, parent) == [step]
    expire(stored)
    assert rows_of(stored, parent) == rows_of(stored, step) == {}


def test_only_the_team_of_a_job_deletes_it(stored):
    job_id, call_id = start(stored), call(stored)
    assert run(stored, job_deletion.cancel, job_id, OTHER) is None
    assert not run(stored, job_deletion.delete_call_or_session, call_id, OTHER)
    assert not run(stored, job_deletion.delete_call_or_session, job_id, TEAM)
    assert listed(stored) == [call_id, job_id]


def test_a_single_call_goes_with_its_page_and_files(stored):
    call_id = call(stored)
    body = {"id": call_id, "team_id": TEAM, "body": b"", "expires_at": 10.0**10}
    run(stored, lambda c: c.execute(scrape.insert().values(body)))
    run(stored, artefacts.hold, "name.png", call_id)
    assert run(stored, job_deletion.delete_call_or_session, call_id, TEAM)
    assert rows_of(stored, call_id) == {}
    assert run(stored, lambda c: c.scalar(select(artefact.c.name))) is None
    assert not run(stored, job_deletion.delete_call_or_session, call_id, TEAM)


def test_names_of_headers_are_kept_and_values_are_not(stored):
    job_id = start(stored, headers=json.dumps({"X-Key": "secret"}))
    found = run(stored, job_history.read_details, job_id, TEAM)
    assert found.header_names == ("X-Key",)
    assert "secret" not in str(found.options)
