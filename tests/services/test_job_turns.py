"""Which of the waiting jobs a process takes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from scrapy.settings import Settings

from scraper_service.options.jobs import CHECKS, JOBS, MODEL_JOBS
from scraper_service.services.job_runner import LocalRunner, StartedJob
from scraper_service.services.scrapyd.runner import WAITING_AHEAD, ScrapydRunner
from scraper_service.storage.frontier.leases import LiveWorker
from scraper_service.storage.job_records import JobState, RunState
from scraper_service.storage.jobs.runs import NodeRun, RunningJobs, WaitingJob


def runner_of(*running):
    """Return a runner with running jobs, as (work, team)."""
    settings = Settings({"MAX_RUNNING_JOBS": 9, "MAX_RUNNING_OPERATIONS": 9})
    database = SimpleNamespace(version=lambda: None)
    runner = LocalRunner(SimpleNamespace(settings=settings), database)
    for number, (work, team) in enumerate(running):
        job = SimpleNamespace(
            id=str(number),
            team_id=team,
            spider="crawl",
            source_job_id=None,
            base_job_id=None,
        )
        runner._running[job.id] = StartedJob(
            SimpleNamespace(job=job, run_id="", is_first=True), work
        )
    return runner


def waiting(*teams, processes=0):
    return [WaitingJob(f"{team} waits", team, True, processes) for team in teams]


def test_a_team_with_fewer_running_jobs_of_the_same_work_is_next():
    runner = runner_of((MODEL_JOBS, "a"), (JOBS, "b"), (JOBS, "b"))
    for work, team in ((MODEL_JOBS, "b"), (JOBS, "a"), (CHECKS, "a")):
        assert runner._next(work, waiting("a", "b")).team_id == team


def test_a_job_without_a_process_comes_before_a_large_job():
    large, small = waiting("a", processes=1), waiting("a")
    assert runner_of()._next(JOBS, large + small) == small[0]


def test_equal_teams_are_served_in_the_order_of_their_last_start():
    runner = runner_of()
    runner._last_starts = {(JOBS, "a"): 2, (JOBS, "b"): 1, (MODEL_JOBS, "a"): 0}
    assert runner._next(JOBS, waiting("a", "b")).team_id == "b"
    assert runner._next(MODEL_JOBS, waiting("b", "a")).team_id == "b"


def test_a_process_takes_its_part_of_the_queued_jobs():
    runner = runner_of()
    runner._presence.live = [
        LiveWorker(
            id=name,
            kind=None,
            host=None,
            pid=None,
            takes=(JOBS,),
            jobs=0,
            drains=False,
            started_at=None,
            lease_s=15.0,
        )
        for name in "12"
    ]
    lost = WaitingJob("lost", "a", is_queued=False)
    found = [*runner._share(JOBS, [lost, *waiting("a", "b", "c")])]
    assert found == [lost, *waiting("a", "b")]


class FakeCrawler:
    """An open crawler, which counts how often it was stopped."""

    def __init__(self, engine=None):
        self.crawling = False
        self.engine = engine
        self.stops = 0

    async def stop_async(self):
        self.stops += 1


def test_a_crawl_that_lost_its_run_stops_and_frees_its_slot():
    async def look(runner):
        for each in runner._running.values():
            each.crawler = FakeCrawler()
        for _ in range(2):
            runner._notice(RunningJobs({"0": 0, "1": 0}, frozenset("1"), ()))
            await asyncio.gather(*runner._tasks)

    runner = runner_of((JOBS, "a"), (JOBS, "b"))
    asyncio.run(look(runner))
    assert [each.crawler.stops for each in runner._running.values()] == [1, 0]
    assert runner._teams(JOBS) == {"b": 1}


class Broken:
    """Methods that break."""

    def __getattr__(self, name):
        raise OSError(name)


def test_a_job_whose_crawler_cannot_be_created_fails_and_frees_its_slot():
    async def follow(runner, each):
        runner._jobs = SimpleNamespace(end_run=ended)
        await runner._follow(each)

    async def ended(job_id, run_id, reason, error):
        ends.append((reason, error))

    ends = []
    runner = runner_of((JOBS, "a"))
    runner._process = Broken()
    asyncio.run(follow(runner, runner._running["0"]))
    assert ends == [("broken", "The job could not be run: OSError.")]
    assert runner.running == 0


def test_a_job_that_cannot_be_taken_neither_blocks_others_nor_counts_as_a_start():
    async def take(job_id, *_):
        tried.append(job_id)
        if job_id == "a waits":
            raise OSError(job_id)

    async def found(*_):
        return waiting("a", "b")

    tried = []
    runner = runner_of()
    runner._jobs = SimpleNamespace(take=take, waiting=found)
    asyncio.run(runner._take_some(JOBS))
    assert tried == ["a waits", "b waits"]
    assert runner._last_starts == {}


def test_a_run_that_was_taken_during_the_shutdown_ends_with_the_process():
    async def leave():
        return None

    async def end_all(owner):
        ends.append(owner)

    ends = []
    runner = runner_of()
    runner._jobs = SimpleNamespace(end_all_runs=end_all)
    runner._presence = SimpleNamespace(drain=lambda: None, leave=leave)
    asyncio.run(runner.close())
    ends.clear()
    asyncio.run(runner.leave())
    assert ends == [runner.owner]


def test_jobs_are_looked_for_while_a_node_takes_runs():
    async def has_untaken(kinds):
        looks.append(kinds)
        return False

    looks = []
    settings = Settings({"SCRAPYD_NODES": "http://a", "MAX_RUNNING_OPERATIONS": 0})
    database = SimpleNamespace(version=lambda: None)
    runner = ScrapydRunner(SimpleNamespace(settings=settings), database)
    runner._jobs = SimpleNamespace(has_untaken=has_untaken)
    runner._presence.is_alone = False
    asyncio.run(runner._look())
    assert looks == [], "no node has responded"
    [node] = runner._nodes.values()
    node._note(None)
    run = NodeRun("", "", "", node.name, "", RunState.RUNNING, False, None)
    runner._on_nodes = [run] * (WAITING_AHEAD + 1)
    asyncio.run(runner._look())
    assert looks != [], "running processes leave its queue free"


def test_a_crawler_that_could_not_be_closed_is_closed_again():
    class Engine:
        running = True
        closes = 0

        async def close_spider_async(self, reason):
            self.closes += 1
            raise OSError(reason)

    async def cancel(runner, each):
        for _ in range(2):
            await runner.cancel("0")
            await runner.cancel("0")
            await each.closing

    runner = runner_of((JOBS, "a"))
    each = runner._running["0"]
    each.crawler = FakeCrawler(Engine())
    asyncio.run(cancel(runner, each))
    assert each.crawler.engine.closes == 2


def test_the_end_of_a_job_that_fails_when_it_is_taken_is_logged(caplog):
    async def take(*_):
        return JobState.FAILED

    async def get(job_id, team_id):
        return None if team_id else failed

    counts = dict.fromkeys(("pages", "failed", "skipped", "open", "credits"), 0)
    failed = SimpleNamespace(
        id="a",
        kind="crawl",
        state=JobState.FAILED,
        error="It broke.",
        created_at=0,
        completed_at=1,
        **counts,
    )
    runner = runner_of()
    runner._jobs = SimpleNamespace(take=take, get=get)
    [each] = waiting("a")
    assert not asyncio.run(runner._take(JOBS, each))
    assert "job a failed after 1.0 s" in caplog.text
