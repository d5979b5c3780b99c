"""Model jobs, as a contract that every database has to keep."""

from __future__ import annotations

import json
import uuid

import pytest
from sqlalchemy import func, select, update

from scraper_service.errors import OutOfCredits, QueueFull
from scraper_service.options.jobs import (
    CRAWLED,
    MODEL_JOBS,
    LlmsTextOptions,
    kinds_of,
    options_from_json,
)
from scraper_service.options.spider_arguments import batch_options
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.teams import TeamChange, change_team
from scraper_service.storage.accounts.usage import read_queue
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import Job, JobState, Outcome
from scraper_service.storage.jobs import (
    admission,
    job_deletion,
    job_rows,
    model_jobs,
    runs,
)
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.model_jobs import step_id
from scraper_service.storage.jobs.runs import LOST, MAX_LOST
from scraper_service.storage.schema import activity, event, job, operation, run
from scraper_service.storage.schema import ledger as ledger_table
from scraper_service.storage.transactions import number_of
from tests.support.waiting import WAIT_S

TEAM, OTHER = "team", "other"
OWNER, RIVAL = "owner", "rival"
BATCH = batch_options({"urls": "http://a.example/0\nhttp://a.example/1"})


class World:
    """The database, as processes use it."""

    def __init__(self, database):
        self._database = database
        for team in (TEAM, OTHER):
            self.do(job_rows.make_team, team)
        for owner in (OWNER, RIVAL):
            self.do(leases.beat, owner, 100)

    def do(self, function, *args, **kwargs):
        work = self._database._writer.submit(lambda c: function(c, *args, **kwargs))
        return work.result(timeout=WAIT_S)

    def give(self, amount):
        self.do(change_team, TEAM, TeamChange(credits=amount))

    @property
    def balance(self):
        return self.do(ledger.balance, TEAM)

    @property
    def runs(self):
        query = select(run.c.owner, run.c.reason).order_by(run.c.created_at)
        return [tuple(row) for row in self.do(lambda c: c.execute(query).all())]

    @property
    def orphans(self):
        return self.do(runs.running_jobs, "me", ()).orphans

    @property
    def charges(self):
        query = select(ledger_table.c.page_id, ledger_table.c.credits)
        return [tuple(row) for row in self.do(lambda c: c.execute(query).all())]

    def start(self, pages=3, team=TEAM, **terms):
        asked = LlmsTextOptions(
            url="http://a.example",
            max_urls=pages,
            show_full_text=False,
            use_cache=True,
            scrape=BATCH.scrape,
        )
        given = Terms(team_id=team, **terms)
        found = self.do(admission.create_job, given, asked, 1, None, pages)
        return getattr(found, "id", found)  # or the error

    def take(self, job_id, owner=OWNER):
        return self.do(runs.take, job_id, owner)

    def read(self, job_id, team=TEAM, kind="llmstxt"):
        return self.do(model_jobs.read_model_job, job_id, team, kind)

    def waiting(self, owner=OWNER, busy=(), limit=10):
        kinds = kinds_of(MODEL_JOBS)
        found = self.do(runs.waiting_jobs, owner, kinds, busy, limit)
        return [each.id for each in found]

    def run_step(self, step, body=b"{}", price=1):
        """Deliver every page of a batch."""
        while rows := self.do(leases.claim, step, OWNER, 10).rows:
            ended = [
                Outcome(
                    row_id=row.id,
                    key=row.key,
                    token=row.token,
                    owner=OWNER,
                    page_id=str(uuid.uuid4()),
                    page=body % row.key if b"%d" in body else body,
                    credits=price,
                )
                for row in reversed(rows)
            ]
            self.do(outcomes.append, step, ended)


@pytest.fixture
def world(database):
    return World(database)


def test_a_model_job_is_run_by_one_process_at_a_time(world):
    one = world.start()
    assert world.waiting() == world.waiting(RIVAL) == [one]
    taken = world.take(one)
    found = taken.job
    assert (found.kind, found.version, found.page_limit) == ("llmstxt", 1, 3)
    assert options_from_json("llmstxt", json.loads(found.options)).max_urls == 3
    assert world.take(one, RIVAL) is None
    assert world.waiting(RIVAL) == []
    assert world.waiting(busy=[one]) == []
    world.do(leases.beat, OWNER, -1)
    assert world.waiting(RIVAL) == [one]
    second = world.take(one, RIVAL)
    assert second.run_id != taken.run_id
    assert world.runs == [(OWNER, LOST), (RIVAL, None)]


def test_writes_of_a_process_that_lost_its_lease_are_refused(world):
    one = world.start()
    late = world.take(one).run_id
    world.do(leases.beat, OWNER, -1)
    now = world.take(one, RIVAL).run_id
    for function, *args in (
        (model_jobs.remember, '{"late": 1}'),
        (model_jobs.show, b'{"late":1}'),
        (model_jobs.add_step, "pages", BATCH),
        (model_jobs.complete, b'{"late":1}', 1, 1),
        (model_jobs.fail, "late"),
    ):
        assert world.do(function, one, late, *args) is False
    world.do(runs.end, one, late, "too late")
    assert world.do(model_jobs.remember, one, now, '{"a": 1}') is True
    found = world.read(one)
    assert (found.state, found.result) == (JobState.SCRAPING, None)
    assert world.do(job_rows.get_job, step_id(one, "pages"), None) is None
    assert world.charges == []


def test_a_process_resumes_its_own_model_job(world):
    one = world.start()
    taken = world.take(one)
    world.do(model_jobs.remember, one, taken.run_id, '{"urls": ["http://b.example"]}')
    world.do(runs.end, one, taken.run_id, "shutdown")
    assert world.waiting() == [one]
    assert json.loads(world.take(one).memory) == {"urls": ["http://b.example"]}
    # A run that could not be ended is this process's to take anew.
    assert world.waiting() == [one]
    assert world.take(one) is not None
    assert [reason for _, reason in world.runs] == ["shutdown", LOST, None]


def test_a_step_begins_once_and_is_found_again(world):
    one = world.start()
    claim = world.take(one).run_id
    for _ in range(2):
        assert world.do(model_jobs.add_step, one, claim, "pages", BATCH) is True
    step = step_id(one, "pages")
    found = world.do(job_rows.get_job, step, None)
    assert isinstance(found, Job)
    assert (found.kind, found.open, found.version) == ("batch", 2, 1)
    assert options_from_json("batch", json.loads(found.options)).scrape == BATCH.scrape
    world.run_step(step, b'{"n":%d}')
    entries = world.do(model_jobs.read_entries, step, 0)
    assert [(e.number, e.body) for e in entries] == [(1, b'{"n":1}'), (0, b'{"n":0}')]
    assert [e.number for e in world.do(model_jobs.read_entries, step, 1)] == [0]
    assert world.do(model_jobs.read_entries, step, 2) == []


def test_steps_are_not_listed_as_jobs_and_cost_no_credits(world):
    world.give(10)
    one = world.start(page_price=1, most_jobs=1)
    claim = world.take(one).run_id
    world.do(model_jobs.add_step, one, claim, "pages", BATCH)
    step = step_id(one, "pages")
    assert world.do(job_rows.get_job, step, TEAM) is None
    assert world.do(job_rows.get_job, one, TEAM) is None
    assert world.do(job_rows.get_job, one, None) is None
    assert world.do(job_rows.active_jobs, TEAM) == []
    assert world.do(job_rows.all_jobs) == []
    waiting = world.do(runs.waiting_jobs, OWNER, CRAWLED, (), 10)
    assert [each.id for each in waiting] == [step]
    refused = world.do(admission.add_entries, step, Terms(team_id=TEAM), BATCH)
    assert str(refused) == "Job not found"
    assert world.do(read_queue, TEAM)[0] == 2
    world.run_step(step)
    assert (world.charges, world.balance) == ([], 7)
    assert isinstance(world.start(page_price=1, most_jobs=1), QueueFull)
    done = world.do(model_jobs.complete, one, claim, b"{}", 2, 2)
    assert done
    assert (world.charges, world.balance) == ([(one, 2)], 8)
    assert isinstance(world.start(page_price=1, most_jobs=1), str)


def test_the_result_is_stored_with_the_end_and_charged_once(world):
    world.give(100)
    one = world.start(page_price=5)
    assert world.balance == 85
    claim = world.take(one).run_id
    assert world.do(model_jobs.show, one, claim, b'{"data":"part"}') is True
    assert world.read(one).result == b'{"data":"part"}'
    assert world.do(model_jobs.complete, one, claim, b'{"data":1}', 2, 10, 70) is True
    assert world.do(model_jobs.complete, one, claim, b'{"data":2}', 3, 15) is False
    assert world.do(model_jobs.fail, one, claim, "late") is False
    found = world.read(one)
    assert (found.state, found.result) == (JobState.COMPLETED, b'{"data":1}')
    assert (found.credits, found.tokens) == (10, 70)
    assert (world.balance, world.charges) == (90, [(one, 10)])
    kinds = (
        select(event.c.kind)
        .where(event.c.job_number == number_of(one))
        .order_by(event.c.id)
    )
    assert world.do(lambda c: c.scalars(kinds).all()) == ["started", "completed"]
    assert world.waiting() == []
    assert world.take(one) is None


def test_a_failed_model_job_costs_no_credits(world):
    world.give(20)
    one = world.start(page_price=5)
    claim = world.take(one).run_id
    assert world.do(model_jobs.fail, one, claim, "There is nothing.") is True
    found = world.read(one)
    assert (found.state, found.error) == (JobState.FAILED, "There is nothing.")
    assert (world.balance, world.charges) == (20, [])


def test_no_more_pages_are_read_than_can_be_paid(world):
    world.give(12)
    one = world.start(pages=50, page_price=5)
    taken = world.take(one)
    assert taken.job.page_limit == 2
    assert "from 50 to 2 pages" in taken.job.warning
    assert world.balance == 2
    refused = world.start(pages=50, page_price=5)
    assert isinstance(refused, OutOfCredits)
    assert (refused.needed, refused.remaining) == (5, 2)
    assert world.balance == 2


def test_other_teams_and_kinds_do_not_see_a_model_job(world):
    one = world.start()
    assert world.read(one, OTHER) is None
    assert world.read(one, kind="extract") is None
    calls = select(activity.c.endpoint, activity.c.target, activity.c.team_id)
    row = world.do(lambda c: c.execute(calls).one())
    assert tuple(row) == ("llmstxt", "http://a.example", TEAM)


def test_model_jobs_alternate_between_teams(world):
    first = [world.start() for _ in range(3)]
    other = world.start(team=OTHER)
    assert world.waiting() == [first[0], other, first[1], first[2]]
    assert world.waiting(limit=2) == [first[0], other, first[1]]
    busy = [first[0], first[1]]
    assert sorted(world.waiting(busy=busy)) == sorted([other, first[2]])


def test_a_model_job_that_keeps_ending_its_process_fails(world):
    world.give(5)
    one = world.start(page_price=1)
    for number in range(MAX_LOST):
        world.do(leases.beat, "dies", 100)
        assert world.take(one, "dies") is not None, number
        world.do(leases.beat, "dies", -1)
    assert world.take(one) is JobState.FAILED
    found = world.read(one)
    assert found.state is JobState.FAILED
    assert f"{MAX_LOST} times" in found.error
    assert world.balance == 5


def test_a_step_that_was_stored_makes_up_for_lost_processes(world):
    one = world.start()
    for _ in range(MAX_LOST + 2):
        claim = world.take(one).run_id
        world.do(model_jobs.remember, one, claim, "{}")
    assert world.read(one).state is JobState.SCRAPING


def test_steps_of_ended_model_jobs_are_ended(world):
    one = world.start()
    claim = world.take(one).run_id
    world.do(model_jobs.add_step, one, claim, "pages", BATCH)
    assert world.orphans == ()
    world.do(model_jobs.complete, one, claim, b"{}", 0, 0)
    step = step_id(one, "pages")
    assert world.orphans == (step,)
    world.do(outcomes.end_job, step, JobState.CANCELLED)
    assert world.orphans == ()


def test_a_model_job_is_deleted_after_a_day(world):
    one = world.start()
    claim = world.take(one).run_id
    world.do(model_jobs.add_step, one, claim, "pages", BATCH)
    world.run_step(step_id(one, "pages"))
    world.do(model_jobs.complete, one, claim, b"{}", 2, 2)
    assert world.read(one) is not None
    world.do(lambda c: c.execute(update(job).values(expires_at=1.0)))
    assert world.read(one) is None
    while world.do(job_deletion.expire):
        pass
    for table in (job, operation):
        assert (
            world.do(lambda c, t=table: c.scalar(select(func.count()).select_from(t)))
            == 0
        )
