"""Which page of a job comes next while hosts are shut."""

from __future__ import annotations

import asyncio
import time

import pytest

from scraper_service.crawling.download.event_loop import EventLoop
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.crawling.politeness.host_queue import HostQueue
from scraper_service.items import Lease
from scraper_service.storage.job_records import ClaimedRow
from tests.support.page_states import page_of
from tests.support.virtual_time import VirtualTime


def rows(*names):
    """Return a row for each name, which is a host with a number behind."""
    return [
        ClaimedRow(
            id=place,
            kind=0,
            key=0,
            url=f"http://{name[:-1]}.example/{name[-1]}",
            depth=0,
            token=1,
        )
        for place, name in enumerate(names)
    ]


def request(row, retry_at=None, **meta):
    lease = Lease(row.id, row.key, row.token, row.depth)
    state = {"lease": lease, "time_s": 30, "deadline": 0, "retry_at": retry_at}
    return page_of(row.url, state, **meta)


def names(queue, count=10):
    """Take rows while there are any; return their names."""
    taken = []
    while len(taken) < count and (row := queue.next_row()) is not None:
        taken.append(row.url[7] + row.url[-1])
    return taken


async def close_host(pace, name, pause_s):
    async with pace.slot(f"{name}.example") as slot:
        slot.note_response(503, 0, 0.01, pause_s, page="/")


@pytest.fixture
def run(monkeypatch):
    """Run an asynchronous test with a queue, its pace and a list of nudges."""

    def run(test, ceiling=8):
        async def body():
            nudges = []
            pace = HostPace(ceiling, time.monotonic)
            queue = HostQueue(pace, lambda: nudges.append(time.monotonic()))
            await test(queue, pace, nudges)
            queue.close()

        VirtualTime(monkeypatch).run(body())

    return run


def test_rows_come_in_their_order(run):
    async def test(queue, pace, nudges):
        queue.add(rows("a1", "b1", "a2", "c1"))
        assert names(queue) == ["a1", "b1", "a2", "c1"]

    run(test)


def test_rows_of_other_hosts_pass_rows_of_a_paused_host(run):
    async def test(queue, pace, nudges):
        await close_host(pace, "a", 0.2)
        queue.add(rows("a1", "b1", "a2", "b2"))
        assert names(queue) == ["b1", "b2"]
        assert queue.shut_hosts == 1
        await asyncio.sleep(0.25)
        assert len(nudges) == 1
        assert names(queue) == ["a1", "a2"]
        assert queue.shut_hosts == 0

    run(test)


def test_a_host_in_trouble_gets_a_few_at_a_time(run):
    async def test(queue, pace, nudges):
        await close_host(pace, "a", 0.01)
        await asyncio.sleep(0.02)
        queue.add(rows(*(f"a{n}" for n in range(9))))
        assert names(queue) == [f"a{n}" for n in range(5)]  # half of 8, and one
        queue.end_page(0)
        assert names(queue) == ["a5"]

    run(test)


def test_a_held_request_comes_first_with_its_full_timeout(run):
    async def test(queue, pace, nudges):
        first, *others = rows("a1", "a2", "b1")
        queue.add([first, *others])
        assert queue.next_row() == first
        again = request(first, retry_at=time.monotonic() + 0.2)
        assert queue.hold(again)
        assert queue.next_held() is None
        await asyncio.sleep(0.25)
        assert len(nudges) == 1
        assert queue.next_held() is again
        deadline = PageState.of(again).deadline
        assert deadline == pytest.approx(time.monotonic() + 30)
        assert not queue.held

    run(test)


def test_a_retry_of_a_single_page_lets_rows_of_its_host_pass(run):
    async def test(queue, pace, nudges):
        first, *others = rows("a1", "b1", "a2")
        queue.add([first, *others])
        assert queue.next_row() == first
        await close_host(pace, "a", 0.2)
        again = request(first, retry_at=time.monotonic() + 0.2, retry_times=1)
        assert queue.hold(again)
        await asyncio.sleep(0.25)
        assert queue.next_held() is None
        assert names(queue) == ["b1", "a2"]
        assert queue.next_held() is again  # no other row is left

    run(test)


def test_a_retry_is_first_once_several_pages_of_its_host_are_busy(run):
    async def test(queue, pace, nudges):
        first, *others = rows("a1", "a2")
        queue.add([first, *others])
        assert queue.next_row() == first
        for _ in range(3):
            await close_host(pace, "a", 0.2)
            await asyncio.sleep(0.25)
        again = request(first, retry_at=time.monotonic(), retry_times=1)
        assert queue.hold(again)
        await asyncio.sleep(0.25)
        assert queue.next_held() is again

    run(test)


def test_a_redirect_does_not_wait_unless_its_host_wants_a_pause(run):
    async def test(queue, pace, nudges):
        first, second = rows("a1", "b1")
        queue.add([first, second])
        assert len(names(queue)) == 2
        pace.locks.set_crawl_delay("b.example", 0.1)
        assert not queue.hold(request(first))
        assert queue.hold(request(second))

    run(test)


def test_pages_of_a_job_with_a_delay_start_one_after_another(run):
    async def test(queue, pace, nudges):
        queue.delay_s = 0.1
        other = await pace.locks.take("a.example", 0.1)
        queue.add(rows("a1", "b1"))
        assert names(queue) == []
        assert queue.shut_hosts == 0  # to look further is of no use
        other.end()
        await asyncio.sleep(0.15)
        assert len(nudges) == 1
        assert names(queue, 1) == ["a1"]
        queue.end_page(0)
        assert names(queue) == []
        await asyncio.sleep(0.15)
        assert names(queue) == []  # now it wants the turn of the other host
        await asyncio.sleep(0.01)
        assert names(queue) == ["b1"]

    run(test)


def test_closing_a_queue_returns_all_host_locks(run):
    async def test(queue, pace, nudges):
        pace.locks.set_crawl_delay("a.example", 0.01)
        pace.locks.set_crawl_delay("b.example", 0.01)
        queue.add(rows("a1", "b1"))
        assert names(queue) == []
        await asyncio.sleep(0.05)
        assert names(queue, 1) == ["a1"]  # b's was granted and is not used
        queue.close()
        for name in ("a.example", "b.example"):
            await asyncio.wait_for(pace.locks.take(name, 0), 1)

    run(test)


def test_a_page_that_is_being_stored_leaves_its_host_to_the_next_page(run):
    async def test(queue, pace, nudges):
        await close_host(pace, "a", 0.05)  # then it is asked for few pages at a time
        await asyncio.sleep(pace.pause_s("a.example") + 0.01)
        queue.add(rows(*(f"a{number}" for number in range(9))))
        few = names(queue)
        assert 0 < len(few) < 8
        queue.leave(0)
        assert len(names(queue)) == 1
        queue.end_page(0)  # which makes no second place of one
        assert names(queue) == []

    run(test)


def test_a_wait_that_is_over_may_be_replaced():
    async def test():
        nudged = asyncio.Event()
        queue = HostQueue(HostPace(8, time.monotonic), nudged.set)
        queue._nudge_in(0.0)
        queue._nudge_in(-0.1)
        await asyncio.wait_for(nudged.wait(), 30)
        queue.close()

    with asyncio.Runner(loop_factory=EventLoop) as runner:  # its timers differ
        runner.run(test())
