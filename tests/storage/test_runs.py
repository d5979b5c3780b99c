"""The contract of runs: what a service asks for and what processes on nodes do."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import select, update

from scraper_service.errors import JobNotFound, RunRefused
from scraper_service.options.jobs import CRAWLED
from scraper_service.options.spider_arguments import batch_options
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import LOST, JobState, RunState
from scraper_service.storage.jobs import admission, job_deletion, job_rows, runs
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.runs import MAX_LOST
from scraper_service.storage.schema import job as job_table
from scraper_service.storage.schema import run as run_table
from scraper_service.storage.schema import worker

NODE = "http://127.0.0.1:6800"
LEASE_S = 15
AT_ONCE = 2  # URLs that a process fetches


class World:
    """A job, and the transactions of those who work on it."""

    def __init__(self, database):
        self.engine = database.engine.execution_options(immediate=True)
        self.do(job_rows.make_team, "team")
        urls = ",".join(f"http://a.test/{n}" for n in range(3))
        self.job = self.do(
            admission.create_job,
            Terms(team_id="team"),
            batch_options({"urls": urls}),
            2,
        )
        self.service = self.live()

    def do(self, function, *args):
        with self.engine.begin() as connection:
            return function(connection, *args)

    def live(self):
        name = str(uuid.uuid4())
        self.do(leases.beat, name, LEASE_S)
        return name

    def die(self, name):
        dead = update(worker).where(worker.c.id == name).values(until=0)
        self.do(lambda connection: connection.execute(dead))

    def take(self, most=1):
        return self.do(runs.take, self.job.id, self.service, AT_ONCE, NODE, most)

    def ask(self, most=1):
        taken = self.take(most)
        return taken and taken.run_id

    def join(self, run_id, kind="batch"):
        return self.do(runs.join, self.job.id, kind, run_id, LEASE_S)

    def end_lost(self):
        return self.do(runs.end_lost, self.service)

    def row(self, run_id):
        query = select(run_table).where(run_table.c.id == run_id)
        return self.do(lambda connection: connection.execute(query).one())

    @property
    def look(self):
        return (self.service, CRAWLED, (), 10, 3)

    @property
    def live_runs(self):
        return self.do(runs.on_nodes)

    @property
    def state(self):
        return self.do(job_rows.get_job, self.job.id, "team").state


@pytest.fixture
def world(database):
    return World(database)


def test_a_run_goes_its_way(world):
    run_id = world.ask()
    assert [(r.id, r.state, r.is_lost) for r in world.live_runs] == [
        (run_id, RunState.REQUESTED, False)
    ]
    joined = world.join(run_id)
    assert joined.run_id == run_id
    assert world.row(run_id).state == RunState.RUNNING
    assert world.state is JobState.SCRAPING
    assert [(r.id, r.is_lost) for r in world.live_runs] == [(run_id, False)]
    world.do(runs.end, world.job.id, run_id, "shutdown", None)
    assert world.live_runs == []
    assert world.row(run_id).reason == "shutdown"
    assert world.state is JobState.SCRAPING


def test_a_run_slot_is_given_once(world):
    first = world.ask()
    assert world.ask() is None
    assert world.ask(most=2) is not None
    assert world.do(runs.end_asked, world.job.id, first, "why")
    assert world.ask() is None
    assert world.ask(most=2) is not None


def test_a_job_that_is_over_gets_no_run(world):
    world.do(outcomes.end_job, world.job.id, JobState.CANCELLED)
    assert world.ask() is None
    waiting = (world.service, CRAWLED, (), 10, AT_ONCE)
    assert world.do(runs.waiting_jobs, *waiting) == []


def test_a_run_that_was_given_up_may_not_begin(world):
    run_id = world.ask()
    assert world.do(runs.end_asked, world.job.id, run_id, "its node is gone")
    with pytest.raises(RunRefused, match="another process runs"):
        world.join(run_id)
    assert world.row(run_id).reason == "its node is gone"


def test_a_run_that_has_begun_cannot_be_taken_back(world):
    run_id = world.ask()
    world.join(run_id)
    assert not world.do(runs.end_asked, world.job.id, run_id, "too late")
    assert world.row(run_id).state == RunState.RUNNING


def test_a_run_begins_once(world):
    run_id = world.ask()
    world.join(run_id)
    with pytest.raises(RunRefused):
        world.join(run_id)


def test_anybody_may_join_by_hand(world):
    found = {world.join("by-hand").run_id for _ in range(2)}
    assert len(found) == 2
    assert "by-hand" not in found
    for run_id in found:
        standing = world.do(runs.standing, world.job.id, run_id)
        assert standing == (JobState.SCRAPING, 0, True)
    assert world.live_runs == []


def test_a_process_for_an_unknown_job_gets_an_error(world):
    with pytest.raises(JobNotFound, match="DATABASE_URL"):
        world.do(runs.join, "another", "batch", "", LEASE_S)
    with pytest.raises(RunRefused, match="is for the spider batch, not crawl"):
        world.join("", kind="crawl")


def test_a_process_without_heartbeats_loses_its_run(world):
    run_id = world.ask()
    world.join(run_id)
    assert not world.end_lost(), "it lives"
    world.die(run_id)
    assert [r.is_lost for r in world.live_runs] == [True]
    assert world.end_lost() == 1
    assert world.end_lost() == 0
    standing = world.do(runs.standing, world.job.id, run_id)
    assert standing == (JobState.SCRAPING, 0, False)
    assert world.ask() is not None


def test_a_late_process_ends_no_runs(world):
    world.join(world.ask())
    for name in (world.service, *(run.id for run in world.live_runs)):
        world.die(name)
    assert world.end_lost() == 0
    world.do(leases.beat, world.service, LEASE_S)
    assert world.end_lost() == 1


def test_a_run_waits_for_its_node_while_services_end_and_start(world):
    run_id = world.ask()
    for _ in range(MAX_LOST + 1):
        world.do(runs.end_all, world.service)
        world.do(leases.forget_worker, world.service)
        [run] = world.live_runs
        assert (run.id, run.owner, run.is_lost) == (run_id, None, False)
        assert world.end_lost() == 0
        world.service = world.live()
        assert world.ask() is None
    assert world.do(runs.waiting_jobs, *world.look, None, 1) == []
    world.join(run_id)
    assert world.row(run_id).state == RunState.RUNNING


def test_a_process_without_nodes_runs_jobs_that_wait_for_a_dead_service(world):
    run_id = world.ask()
    assert world.do(runs.waiting_jobs, *world.look) == []
    world.die(world.service)
    world.service = world.live()
    assert [job.id for job in world.do(runs.waiting_jobs, *world.look)] == [
        world.job.id
    ]
    assert world.do(runs.take, world.job.id, world.service, 3) is not None
    with pytest.raises(RunRefused):
        world.join(run_id)


def lose(world):
    run_id = world.ask()
    world.join(run_id)
    world.die(run_id)


def test_a_job_fails_whose_processes_are_lost_again_and_again(world):
    for _ in range(MAX_LOST - 1):
        lose(world)
    assert world.state is JobState.SCRAPING
    lose(world)
    assert world.take() is JobState.FAILED
    assert world.state is JobState.FAILED
    job = world.do(job_rows.get_job, world.job.id, "team")
    assert job.error == f"Its processes were lost {MAX_LOST} times and it got nowhere."


def test_other_ends_between_lost_runs_do_not_reset_the_count(world):
    for _ in range(MAX_LOST):
        run_id = world.ask()
        world.join(run_id)
        world.do(runs.end, world.job.id, run_id, "unavailable")
        lose(world)
    assert world.take() is JobState.FAILED
    assert world.state is JobState.FAILED


def test_a_job_that_gets_on_may_lose_any_number_of_processes(world):
    for number in range(2 * MAX_LOST):
        if number % (MAX_LOST - 1) == 0:
            done = update(job_table).values(done=job_table.c.done + 1)
            world.do(lambda connection, done=done: connection.execute(done))
        lose(world)
    assert world.state is JobState.SCRAPING


def test_a_process_can_fail_its_job(world):
    run_id = world.ask()
    world.join(run_id)
    world.do(runs.end, world.job.id, run_id, "memusage_exceeded", "It ended early.")
    assert world.state is JobState.FAILED
    assert world.live_runs == []


def test_a_process_that_was_taken_for_dead_cannot_fail_its_job(world):
    run_id = world.ask()
    world.join(run_id)
    world.die(run_id)
    assert world.ask() is not None
    assert not world.do(runs.end, world.job.id, run_id, "broken", "It broke.")
    assert world.state is JobState.SCRAPING
    assert world.row(run_id).reason == LOST


def test_a_job_that_waits_for_days_does_not_expire(world):
    old = update(job_table).values(expires_at=0)
    world.do(lambda connection: connection.execute(old))
    run_id = world.ask()
    assert world.join(run_id).job.id == world.job.id


def test_an_expired_job_is_deleted_with_its_runs(world):
    world.ask()
    world.do(outcomes.end_job, world.job.id, JobState.CANCELLED)
    old = update(job_table).values(expires_at=0)
    world.do(lambda connection: connection.execute(old))
    assert world.do(job_deletion.expire) == 0  # its process has to be stopped first
    old = update(job_table).values(completed_at=0)
    world.do(lambda connection: connection.execute(old))
    while world.do(job_deletion.expire):
        pass
    everything = select(run_table)
    assert world.do(lambda connection: connection.execute(everything).all()) == []
