"""When periodic work looks at the database again."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest
import uvloop

from scraper_service import shared_objects
from scraper_service.errors import DatabaseUnusable
from scraper_service.shared_objects import ChangePoll, next_turn, repeat
from scraper_service.storage.database import Database
from scraper_service.storage.jobs.metrics import read_counts
from scraper_service.storage.schema import team


def add_team(connection, name):
    at = datetime.now(UTC)
    connection.execute(team.insert().values(id=name, name=name, created_at=at))


@pytest.fixture
def opened(tmp_path):
    found = Database(tmp_path)
    yield found
    found.close()


def test_a_commit_changes_the_version_and_a_read_does_not(opened, tmp_path):
    async def run():
        versions = [opened.version(), opened.version()]
        await opened.read(read_counts)
        versions.append(opened.version())
        await opened.write(add_team, "ours")
        versions.append(opened.version())
        other = Database(tmp_path)
        versions.append(opened.version())
        await other.write(add_team, "theirs")
        other.close()
        versions.append(opened.version())
        return versions

    first, *same, second, third, fourth = asyncio.run(run())
    assert same == [first, first]
    assert len({first, second, fourth}) == 3
    assert third in {second, fourth}


def test_a_database_in_memory_has_no_version():
    database = Database.in_memory()
    assert database.version() is None
    assert ChangePoll(database.version).is_due()
    assert ChangePoll(database.version).is_due()
    database.close()


def test_the_version_of_a_database_file_named_by_a_uri_is_read(tmp_path):
    path = tmp_path / "jobs.sqlite"

    async def run():
        opened = Database(tmp_path, f"sqlite:///file:{path}?uri=true")
        other = Database(tmp_path, f"sqlite:///{path}")
        before = opened.version()
        await other.write(add_team, "theirs")
        after = opened.version()
        opened.close()
        other.close()
        return before, after

    before, after = asyncio.run(run())
    assert before is not None
    assert after not in {before, None}


def test_a_database_file_that_cannot_be_opened_is_an_error_and_leaves_no_thread(
    tmp_path,
):
    threads = threading.active_count()
    url = f"sqlite:///file:{tmp_path}/missing/jobs.sqlite?uri=true"
    with pytest.raises(DatabaseUnusable, match="cannot be opened"):
        Database(tmp_path, url)
    assert threading.active_count() == threads


class Work:
    """Periodic work that is counted, of a database with the version ``version``."""

    def __init__(self):
        self.version = 1
        self.times = 0
        self.fails = False

    async def __call__(self):
        self.times += 1
        if self.fails:
            raise RuntimeError("it fails")


async def repeated(work, wanted):
    looks = ChangePoll(lambda: work.version)
    turns = repeat(0.01, work, "it has failed", wanted=wanted, is_due=looks.is_due)
    task = asyncio.ensure_future(turns)
    await asyncio.sleep(0.2)
    return task


def test_polls_are_skipped_while_the_database_is_unchanged(monkeypatch):
    monkeypatch.setattr(shared_objects, "MOST_PASSED_S", 1e9)

    async def run():
        work, wanted = Work(), asyncio.Event()
        task = await repeated(work, wanted)
        seen = [work.times]  # the first turn, and the first look at the version
        work.version = 2
        await asyncio.sleep(0.2)
        seen.append(work.times)
        wanted.set()
        await asyncio.sleep(0.2)
        seen.append(work.times)
        task.cancel()
        return seen

    assert asyncio.run(run()) == [2, 3, 4]


def test_failed_polls_are_retried_and_polls_run_after_the_longest_pause(monkeypatch):
    async def run():
        work, wanted = Work(), asyncio.Event()
        monkeypatch.setattr(shared_objects, "MOST_PASSED_S", 1e9)
        work.fails = True
        task = await repeated(work, wanted)
        assert work.times > 2
        work.fails = False
        await asyncio.sleep(0.1)
        before = work.times
        await asyncio.sleep(0.2)
        assert work.times == before
        task.cancel()
        monkeypatch.setattr(shared_objects, "MOST_PASSED_S", 0.02)
        work = Work()
        task = await repeated(work, wanted)
        assert work.times > 2
        task.cancel()

    asyncio.run(run())


def test_each_poll_runs_once_with_timers_that_end_early():
    """The time of uvloop has whole milliseconds: a timer may end before its time."""
    every_s, turns = 0.02, 25

    async def run():
        loop = asyncio.get_running_loop()
        times = []
        enough = asyncio.Event()

        def is_due():
            times.append(loop.time())
            if len(times) == turns:
                enough.set()
            return False

        async def work():
            pass

        turning = asyncio.ensure_future(repeat(every_s, work, "", is_due=is_due))
        await enough.wait()
        turning.cancel()
        return [next_turn(every_s, time) for time in times[:turns]]

    following = uvloop.run(run())
    assert len({round(time, 3) for time in following}) == turns
    turn = next_turn(every_s, 100.0)
    assert next_turn(every_s, turn - 0.001) > turn + every_s / 2
