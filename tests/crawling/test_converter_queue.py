"""The order of the queue in front of the converters, and its limits."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.crawling.converter_pool.converter_queue import (
    LARGE_BYTES,
    LEAST_BYTES,
    ConverterQueue,
    Task,
)

MIB = 2**20


def task(team="a", job="", size=0):
    return Task(
        len,
        lambda _limit_s: (),
        team,
        job,
        size,
        limit_s=60,
        counts_waiting=True,
        packs_slowly=False,
        future=None,
    )


@pytest.fixture
def queue():
    return ConverterQueue(64 * MIB)


def run_all(queue, seconds_of, until_s=1e9):
    """Run what waits in one converter; return the tasks in their order."""
    now, order = 0.0, []
    while now < until_s and (found := queue.next(now)) is not None:
        order.append(found)
        now += seconds_of(found)
        queue.end(found, now)
    return order


def test_teams_share_converter_time_equally(queue):
    for _ in range(1000):
        queue.add(task("slow"))
        queue.add(task("fast"))
    order = run_all(queue, lambda t: 1.0 if t.team_id == "slow" else 0.02, until_s=20)
    counts = Counter(each.team_id for each in order)
    assert 8 <= counts["slow"] <= 12
    assert counts["fast"] > 300


def test_a_team_with_more_processes_gets_a_smaller_share_of_each_process():
    """Its share of all processes is that of a team in a single one."""
    queue = ConverterQueue(64 * MIB, {"many": 3, "one": 1}.__getitem__)
    for _ in range(100):
        queue.add(task("many"))
        queue.add(task("one"))
    order = run_all(queue, lambda _: 1.0, until_s=80)
    counts = Counter(each.team_id for each in order)
    assert 19 <= counts["many"] <= 21, counts


def test_time_that_a_team_used_alone_does_not_reduce_its_share(queue):
    for _ in range(100):
        queue.add(task("first"))
    now = 0.0
    for _ in range(50):
        found = queue.next(now)
        now += 1
        queue.end(found, now)
    for _ in range(50):
        queue.add(task("second"))
    begun = []
    for _ in range(20):
        found = queue.next(now)
        begun.append(found.team_id)
        now += 1
        queue.end(found, now)
    assert 9 <= begun.count("first") <= 11


def test_running_tasks_count_from_their_start(queue):
    for _ in range(3):
        queue.add(task("a"))
    assert queue.next(0.0).team_id == "a"
    queue.add(task("b"))
    assert queue.next(5.0).team_id == "b"


def test_the_jobs_of_a_team_alternate(queue):
    for job in "x" * 4 + "y" * 4:
        queue.add(task(job=job))
    jobs = "".join(each.job_id for each in run_all(queue, lambda _: 1.0))
    assert jobs == "xyxyxyxy"


def test_a_job_keeps_its_order_and_returned_tasks_come_first(queue):
    tasks = [task(size=size) for size in (1, 2 * LARGE_BYTES, 1, 1)]
    for each in tasks:
        queue.add(each)
    first = queue.next(0.0)
    assert first is tasks[0]
    queue.put_back(first, 1.0)
    assert queue.next(1.0) is first
    assert queue.next(1.0, small_only=True) is tasks[2]
    assert queue.next(1.0) is tasks[1]
    queue.remove(tasks[3])
    assert queue.next(1.0) is None


def test_a_team_may_queue_as_many_bytes_as_are_left_for_others(queue):
    while queue.has_capacity("a", MIB):
        queue.add(task("a", size=MIB))
    assert queue.waiting == 32
    while queue.has_capacity("b", MIB):
        queue.add(task("b", size=MIB))
    assert queue.waiting == 48
    for _ in range(100):  # of jobs, which are not refused
        queue.add(task("a", size=MIB))
    assert queue.has_capacity("c", 5 * MIB)
    queue.add(task("c", size=MIB))
    assert queue.has_capacity("c", 3 * MIB)
    assert not queue.has_capacity("c", 4 * MIB)


def test_the_number_of_small_tasks_is_limited_too(queue):
    while queue.has_capacity("a", 1):
        queue.add(task("a", size=1))
    assert queue.waiting == 32 * MIB // LEAST_BYTES


@given(st.lists(st.sampled_from(["add", "next", "end", "back", "remove"])), st.data())
def test_counts_are_right_whatever_happens(steps, data):
    queue = ConverterQueue(64 * MIB)
    waiting, running, now = [], [], 0.0
    for step in steps:
        now += 1
        if step == "add":
            team = data.draw(st.sampled_from("abc"))
            size = data.draw(st.sampled_from([1, 2 * LARGE_BYTES]))
            waiting.append(task(team, data.draw(st.sampled_from("xy")), size))
            queue.add(waiting[-1])
        elif step == "next" and (found := queue.next(now)):
            waiting.remove(found)
            running.append(found)
        elif step == "end" and running:
            queue.end(running.pop(), now)
        elif step == "back" and running:
            found = running.pop()
            found.is_large = True
            queue.put_back(found, now)
            waiting.append(found)
        elif step == "remove" and waiting:
            queue.remove(waiting.pop())
        assert queue.waiting == len(waiting)
        assert queue.waiting_small == sum(not each.is_large for each in waiting)
    while waiting:
        found = queue.next(now)
        waiting.remove(found)
        running.append(found)
    for each in running:
        queue.end(each, now)
    assert not queue._teams
    assert queue._bytes == 0
