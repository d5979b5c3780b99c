"""Which jobs a process takes beside others, and what it sees of them."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from scraper_service.options.jobs import CRAWLED, JOBS, LIMITS
from scraper_service.options.spider_arguments import batch_options
from scraper_service.storage.frontier import leases
from scraper_service.storage.frontier.leases import WorkerState
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.jobs import admission, job_rows, runs
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.schema import job as job_table
from scraper_service.storage.schema import worker

AT_ONCE = 4
ME = "me"


class World:
    """Jobs of a database, and the transactions of the processes that look for them."""

    def __init__(self, database):
        self.engine = database.engine.execution_options(immediate=True)
        for team in ("one", "two", LOCAL_TEAM):
            self.do(job_rows.make_team, team)

    def do(self, function, *args):
        with self.engine.begin() as connection:
            return function(connection, *args)

    def job(self, urls=1, team="one"):
        text = ",".join(f"http://a.test/{n}" for n in range(urls))
        options = batch_options({"urls": text})
        return self.do(admission.create_job, Terms(team_id=team), options, 2).id

    def beat(self, name, *, takes=tuple(LIMITS), drains=False, jobs=0):
        state = WorkerState(
            kind=leases.WORKER,
            host="a machine",
            pid=7,
            takes=takes,
            jobs=jobs,
            drains=drains,
        )
        self.do(leases.beat, name, 15, state)

    def run(self, job_id, name):
        """Have a process take a job."""
        assert self.do(runs.take, job_id, name, AT_ONCE) is not None

    def die(self, name):
        dead = update(worker).where(worker.c.id == name).values(until=0)
        self.do(lambda connection: connection.execute(dead))

    def waiting(self, running=(), most=10, only=None, processes=None):
        asked = (ME, CRAWLED, running, most, AT_ONCE, only, processes)
        return [each.id for each in self.do(runs.waiting_jobs, *asked)]

    @property
    def has_untaken(self):
        return self.do(runs.has_untaken, CRAWLED)


@pytest.fixture
def world(database):
    return World(database)


def test_the_process_that_starts_a_job_is_its_first_process(world):
    job_id = world.job()
    assert world.has_untaken
    assert world.waiting() == [job_id]
    for name in ("first", "second"):
        world.beat(name)
    assert world.do(runs.take, job_id, "first", AT_ONCE) is not None
    assert world.do(runs.take, job_id, "second", AT_ONCE) is None
    assert not world.has_untaken


def test_a_job_that_has_just_started_needs_no_second_process(world):
    job_id = world.job()
    world.beat("first")
    world.run(job_id, "first")
    assert world.waiting() == []
    assert world.waiting(only=job_id) == [job_id]


def test_a_large_job_needs_more_than_one_process(world):
    small, large = world.job(urls=AT_ONCE), world.job(urls=AT_ONCE + 1)
    world.beat("first")
    world.run(small, "first")
    world.run(large, "first")
    assert world.waiting() == [large]
    world.beat("second")
    world.run(large, "second")
    assert world.waiting() == []


def test_jobs_of_dead_processes_come_before_queued_jobs_and_large_jobs(
    world,
):
    lost, large = world.job(), world.job(urls=AT_ONCE + 1)
    queued = world.job(team="two")
    for name in ("dead", "alive"):
        world.beat(name)
    world.run(lost, "dead")
    world.run(large, "alive")
    world.die("dead")
    assert world.waiting() == [lost, queued, large]


def test_running_jobs_of_other_processes_do_not_hide_queued_jobs(world):
    served = [world.job() for _ in range(5)]
    queued = world.job()
    world.beat("other")
    for each in served:
        world.run(each, "other")
    assert world.waiting(most=2) == [queued]


def test_large_jobs_with_all_their_processes_do_not_hide_others(world):
    jobs = [world.job(urls=AT_ONCE + 1) for _ in range(3)]
    world.beat("service")
    for job_id in jobs:
        taken = (job_id, "service", AT_ONCE, "node", 2)
        assert world.do(runs.take, *taken) is not None
    for job_id in jobs[:2]:
        # More URLs than both processes fetch.
        more = update(job_table).where(job_table.c.id == job_id).values(open=99)
        world.do(lambda connection, more=more: connection.execute(more))
        assert world.do(runs.take, job_id, "service", AT_ONCE, "node", 2) is not None
    assert world.waiting(most=2, processes=2) == [jobs[2]]


def test_queued_jobs_alternate_between_teams(world):
    first = [world.job() for _ in range(3)]
    second = world.job(team="two")
    assert world.waiting(most=2) == [first[0], second, first[1]]


def test_a_job_whose_run_has_ended_is_queued_again(world):
    job_id = world.job()
    world.beat("first")
    world.run(job_id, "first")
    assert not world.has_untaken
    world.do(runs.end_all, "first")
    assert world.has_untaken


def test_a_process_sees_which_of_its_runs_have_ended(world):
    kept, lost = world.job(), world.job()
    world.beat(ME)
    for job_id in (kept, lost):
        world.run(job_id, ME)
    world.die(ME)
    world.beat("other")
    world.run(lost, "other")
    found = world.do(runs.running_jobs, ME, [kept, lost])
    assert found.active.keys() == {kept, lost}
    assert found.held == {kept}


def test_a_dead_process_does_not_outlive_a_clock_that_is_set_back(world):
    job_id = world.job()
    world.beat("dead")
    world.run(job_id, "dead")
    later = update(worker).values(until=worker.c.until + 7200)
    world.do(lambda connection: connection.execute(later))
    assert world.waiting() == []
    world.beat(ME)
    assert world.waiting() == [job_id]
    assert world.do(runs.end_lost, ME) == 1


def test_jobs_of_commands_are_left_to_them(world):
    job_id = world.job(team=LOCAL_TEAM)
    assert not world.has_untaken
    assert world.waiting() == []
    assert world.waiting(only=job_id) == [job_id]


def test_heartbeats_name_host_pid_and_kinds_of_each_process(world):
    world.beat("first", jobs=3)
    world.beat("second", takes=(), drains=True)
    world.do(leases.beat, "of an earlier version", 15)
    world.beat("dead")
    world.die("dead")
    found = {each.id: each for each in world.do(leases.live_workers)}
    assert found.keys() == {"first", "second", "of an earlier version"}
    first = found["first"]
    assert (first.kind, first.host, first.pid, first.jobs) == (
        *(leases.WORKER, "a machine", 7),
        3,
    )
    assert 10 < first.lease_s <= 15
    assert leases.takers(found.values(), JOBS) == 2
    second = found["second"]
    assert (second.takes, second.drains, second.runs_jobs) == ((), True, False)
    assert found["of an earlier version"].takes == tuple(LIMITS)
    started_at = first.started_at
    world.beat("first")
    again = {each.id: each for each in world.do(leases.live_workers)}["first"]
    assert again.started_at == started_at
