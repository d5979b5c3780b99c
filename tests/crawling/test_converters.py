"""The converter pool with real processes that die, stop, hang and are kept busy."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scraper_service.crawling.converter_pool import converter as fork_server
from scraper_service.crawling.converter_pool import page_conversion as pool_module
from scraper_service.crawling.converter_pool import process_pool
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.errors import (
    ConverterDied,
    ConvertersFailed,
    NoConverter,
    QueueFull,
)
from scraper_service.items import PageSource
from tests.content.pages import options
from tests.support import conversions
from tests.support.conversions import Orders

PATIENCE_S = 90  # on a busy machine, where a process needs seconds to start
LARGE = b"x" * (2 * 2**20)


@asynccontextmanager
async def pool_of(
    processes=1, *, timeout_s=PATIENCE_S, memory_mb=640, tasks=1000, **how
):
    pool = ConverterPool(processes, timeout_s, memory_mb, tasks, **how)
    try:
        async with asyncio.timeout(3 * PATIENCE_S):
            yield pool
    finally:
        pool.close()


@pytest.fixture
def orders(tmp_path):
    return Orders(tmp_path / "orders")


async def until(condition):
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)
    return found


def source(body, query=""):
    return PageSource(url=f"http://a.example/{query}", status=200, body=body)


def is_gone(pid):
    """Return True if there is no such process, not even one that nobody waited for."""
    return not Path(f"/proc/{pid}").exists()


async def in_turn(count, awaitable_of):
    return await asyncio.gather(*(awaitable_of(n) for n in range(count)))


# -- number 2: processes that die --------------------------------------------------------


def test_a_task_whose_process_is_killed_runs_again(orders):
    async def main():
        async with pool_of() as pool:
            running = asyncio.ensure_future(
                pool.run(conversions.hold, orders.folder, 5)
            )
            [first] = await until(lambda: orders.held)
            waiting = [asyncio.ensure_future(pool.run(len, b"x")) for _ in range(20)]
            os.kill(first, signal.SIGKILL)
            await until(lambda: len(orders.held) == 2)
            orders.let_go()
            assert await running == 5
            assert await asyncio.gather(*waiting) == [1] * 20
            assert is_gone(first)

    asyncio.run(main())


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_ends_its_process_twice_is_guilty_alone(processes):
    async def main():
        async with pool_of(processes) as pool:
            guilty = asyncio.ensure_future(pool.run(conversions.die))
            good = await in_turn(30, lambda n: pool.run(len, b"x" * n))
            assert good == list(range(30))
            with pytest.raises(ConverterDied, match=r"twice \(signal 9\)"):
                await guilty

    asyncio.run(main())


@pytest.mark.full
def test_the_error_of_a_page_or_sitemap_names_how_its_process_ended(monkeypatch):
    monkeypatch.setattr(pool_module, "render", conversions.render)

    async def main():
        async with pool_of() as pool:
            for order, number in (("die", 9), ("abort", 6)):
                page = source(b"<p>x", f"?do={order}")
                content = await pool.convert(page, options("markdown"), PATIENCE_S)
                text = f"The page ended its converter twice (signal {number})."
                assert content.error.message == text
            sitemap = await pool.read_sitemap(page, PATIENCE_S, die_reading)
            text = "The sitemap ended its converter twice (signal 9)."
            assert sitemap.error.message == text

    asyncio.run(main())


def die_reading(_entries: object) -> None:
    conversions.die()


@pytest.mark.full
def test_only_the_limit_of_memory_is_called_so():
    async def main():
        async with pool_of(memory_mb=400) as pool:
            with pytest.raises(MemoryError):
                await pool.run(conversions.fill_memory)
            assert await pool.run(len, b"xyz") == 3

    asyncio.run(main())


@pytest.mark.full
def test_large_pages_leave_no_memory_to_those_after_them():
    page = source(b"<p title='%s'>" % (b"x" * (10 * 2**20)) + b"y " * 2**20)

    async def main():
        async with pool_of() as pool:
            for _ in range(12):
                asked = options("markdown", "html", "raw_html", "links")
                content = await pool.convert(page, asked, PATIENCE_S)
                assert content.error is None

    asyncio.run(main())


@pytest.mark.full
def test_caches_of_a_process_do_not_slow_down_its_garbage_collections():
    async def main():
        async with pool_of() as pool:
            before = await pool.run(conversions.objects_to_visit)
            await pool.run(conversions.remember, 50_000)
            assert await pool.run(conversions.objects_to_visit) < before + 1_000

    asyncio.run(main())


@pytest.mark.full
def test_reference_cycles_of_a_large_page_are_freed():
    async def main():
        async with pool_of() as pool:
            before = await pool.run(gc.get_freeze_count)
            await pool.run(conversions.make_cycles, 500_000)  # many collections
            assert await pool.run(gc.get_freeze_count) < before + 10_000

    asyncio.run(main())


@pytest.mark.full
def test_time_without_processes_does_not_count_towards_the_timeout_of_a_task(
    orders, monkeypatch
):
    monkeypatch.setattr(process_pool, "PAUSE_S", 6.0)

    async def main():
        async with pool_of() as pool:
            await pool.run(len, b"")
            assert (await until(lambda: pool.working)) == 1
            [pid] = [each.pid for each in pool._converters]
            pool._start_at = asyncio.get_running_loop().time() + 5  # after a failure
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not pool.working)
            late = pool.run(len, b"x", timeout_s=3, team_id="a", job_id="job")
            with pytest.raises(NoConverter):
                await pool.run(len, b"x", timeout_s=0.1, team_id="a")
            assert await late == 1

    asyncio.run(main())


def test_conversions_give_way_to_the_service():
    async def main():
        async with pool_of() as pool:
            assert await pool.run(os.nice, 0) > os.nice(0)

    asyncio.run(main())


def test_a_process_is_replaced_after_its_tasks_without_a_gap():
    async def main():
        async with pool_of(tasks=5) as pool:
            pids = set()
            while len(pids) < 4:
                pids.add(await pool.run(conversions.pid))
            await until(lambda: sum(map(is_gone, pids)) >= 2)

    asyncio.run(main())


def test_an_unpicklable_task_is_an_error_and_ends_no_process(orders):
    async def main():
        async with pool_of() as pool:
            pid = await pool.run(conversions.pid)
            with pytest.raises(RuntimeError, match="cannot be sent"):
                await pool.run(conversions.unsendable)
            with pytest.raises(RuntimeError, match="cannot be read"):
                await pool.run(conversions.raise_odd)
            with pytest.raises((AttributeError, TypeError), match="pickle"):
                await pool.run(lambda: None)
            with pytest.raises(ZeroDivisionError) as caught:
                await pool.run(divmod, 1, 0)
            assert "In a converter process" in caught.value.__notes__[0]
            assert await pool.run(conversions.pid) == pid

    asyncio.run(main())


def test_large_inputs_and_results_arrive_whole():
    async def main():
        async with pool_of() as pool:
            body = os.urandom(20 * 2**20)
            assert await pool.run(bytes.count, body, b"x") == body.count(b"x")
            assert await pool.run(b"".join, [body[:50], body]) == body[:50] + body
            assert await pool.run(conversions.lines, 30 * 2**20) == b"x" * 30 * 2**20

    asyncio.run(main())


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("size", [10, 3 * 2**20], ids=["small", "large"])
def test_early_results_come_before_final_results_and_do_not_mix(size):
    async def main():
        async with pool_of() as pool:
            found = await in_turn(
                20, lambda n: pool.run(conversions.early, b"%d" % (n % 10) * size, n)
            )
            assert [each.result[:1] for each in found] == [
                b"%d" % (n % 10) for n in range(20)
            ]
            rests = [await each.rest for each in found]
            assert rests == list(range(20))

    asyncio.run(main())


def test_a_dead_process_loses_the_final_result_of_its_task_only(orders):
    async def main():
        async with pool_of() as pool:
            held = await pool.run(conversions.early_held, orders.folder)
            assert held.result == "early"
            waiting = asyncio.ensure_future(pool.run(len, b"x"))
            [process] = await until(lambda: orders.held)
            assert not waiting.done()
            os.kill(process, signal.SIGKILL)
            assert await held.rest is None
            assert await waiting == 1
            assert orders.held == [process]  # not begun again

    asyncio.run(main())


def test_an_error_after_the_early_result_is_logged(caplog):
    async def main():
        async with pool_of() as pool:
            failing = await pool.run(conversions.early_failing, "of the rest")
            assert failing.result == "early"
            assert await failing.rest is None
            assert await pool.run(len, b"x") == 1

    asyncio.run(main())
    (record,) = [r for r in caplog.records if "early result" in r.message]
    assert "of the rest" in str(record.exc_info[1])


def test_the_final_result_of_a_page_is_bounded_by_its_timeout(orders):
    async def main():
        async with pool_of() as pool:
            await pool.run(conversions.early, 1, 2)  # imports what it needs
            held = await pool.run(conversions.early_held, orders.folder, timeout_s=4)
            assert await held.rest is None
            assert await pool.run(len, b"x") == 1

    asyncio.run(main())


# -- number 4: processes that are stopped, or cannot start -------------------------------


def test_an_idle_stopped_process_is_replaced():
    async def main():
        async with pool_of(2) as pool:
            await pool.warm_up()
            assert (pool.working, pool.failure) == (2, None)
            stopped = [each.pid for each in pool._converters]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            assert await until(lambda: pool.failure)
            await until(lambda: pool.working == 2)
            assert pool.failure is None
            assert await pool.run(len, b"xy") == 2
            # The others are ready sooner than the end of the killed ones is known.
            await until(lambda: all(map(is_gone, stopped)))
            await until(
                lambda: set(stopped).isdisjoint(each.pid for each in pool._converters)
            )

    asyncio.run(main())


@pytest.mark.full
def test_a_busy_stopped_process_is_replaced_and_its_task_runs_again(orders):
    async def main():
        async with pool_of() as pool:
            running = asyncio.ensure_future(
                pool.run(conversions.hold, orders.folder, 5)
            )
            for count in (1, 2, 3):  # more often than a task may end its process
                held = await until(
                    lambda c=count: len(orders.held) == c and orders.held
                )
                os.kill(held[-1], signal.SIGSTOP)
            await until(lambda: len(orders.held) == 4)
            orders.let_go()
            assert await running == 5

    asyncio.run(main())


def test_an_idle_process_that_does_not_respond_is_replaced(monkeypatch):
    monkeypatch.setattr(fork_server, "PING_S", 0.1)
    monkeypatch.setattr(fork_server, "STOPS", 1_000_000)

    async def main():
        async with pool_of() as pool:
            await pool.warm_up()
            [pid] = [each.pid for each in pool._converters]
            await asyncio.sleep(1.5)  # pings are answered
            assert pid == await pool.run(conversions.pid)
            monkeypatch.setattr(fork_server, "PONG_S", 1.0)
            os.kill(pid, signal.SIGSTOP)
            await until(lambda: is_gone(pid))
            assert await pool.run(conversions.pid) != pid

    asyncio.run(main())


def test_a_task_without_end_is_killed_with_its_process_alone(orders):
    async def main():
        async with pool_of(2) as pool:
            await pool.warm_up()
            other = asyncio.ensure_future(pool.run(conversions.hold, orders.folder, 7))
            await until(lambda: orders.held)
            timeout_s = 1
            while (
                len(orders.held) == 1
            ):  # a busy machine did not begin the task in time
                with pytest.raises(TimeoutError):
                    await pool.run(conversions.hold, orders.folder, timeout_s=timeout_s)
                timeout_s *= 2
            assert not other.done()
            orders.let_go()
            assert await other == 7
            await until(lambda: sum(map(is_gone, orders.held)) == 1)

    asyncio.run(main())


def test_the_task_of_a_caller_that_left_ends_soon(orders, monkeypatch):
    monkeypatch.setattr(process_pool, "ABANDONED_S", 0.2)

    async def main():
        async with pool_of() as pool:
            left = asyncio.ensure_future(pool.run(conversions.hold, orders.folder))
            [pid] = await until(lambda: orders.held)
            left.cancel()
            assert await pool.run(conversions.pid) != pid
            assert is_gone(pid)

    asyncio.run(main())


def test_a_task_may_be_cancelled_in_the_iteration_in_which_it_times_out(orders):
    async def main():
        async with pool_of() as pool:
            held = asyncio.ensure_future(pool.run(conversions.hold, orders.folder))
            await until(lambda: orders.held)
            waiting = asyncio.ensure_future(pool.run(len, b"x"))
            await asyncio.sleep(0)
            [task] = pool.queue._teams[""].all_waiting()
            pool._expire(task)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            held.cancel()
            assert await pool.run(len, b"x") == 1

    asyncio.run(main())


def test_processes_that_cannot_start_are_an_error_soon(monkeypatch, tmp_path):
    log = tmp_path / "started"
    command = f"open({str(log)!r}, 'a').write('x'); exit(3)"
    monkeypatch.setattr(fork_server, "CODE", command)

    async def main():
        async with pool_of(2) as pool:
            with pytest.raises(ConvertersFailed, match="exit code 3"):
                await pool.warm_up()
            assert "exit code 3" in pool.failure
            with pytest.raises(NoConverter):
                await pool.run(len, b"x", timeout_s=3)
            # Two at a time, with pauses of 0.5, 1, 2 s and so on between them.
            assert len(log.read_text()) <= 16

    asyncio.run(main())


@pytest.mark.full
def test_processes_outlive_their_fork_server_for_a_moment_only(orders):
    async def main():
        async with pool_of() as pool:
            await pool.warm_up()
            running = asyncio.ensure_future(
                pool.run(conversions.hold, orders.folder, 5)
            )
            [first] = await until(lambda: orders.held)
            os.kill(await pool.run(conversions.parent_pid), signal.SIGKILL)
            await until(lambda: len(orders.held) == 2)
            orders.let_go()
            assert await running == 5
            await until(lambda: is_gone(first))

    asyncio.run(main())


@pytest.mark.full
def test_too_little_memory_is_an_error_that_names_the_setting():
    async def main():
        async with pool_of(memory_mb=64) as pool:
            with pytest.raises(ConvertersFailed, match="CONVERTER_MEMORY_MB"):
                await pool.warm_up()

    asyncio.run(main())


def test_the_end_waits_for_no_stopped_process(orders):
    async def main():
        async with pool_of(2) as pool:
            await pool.warm_up()
            waiting = asyncio.ensure_future(pool.run(conversions.hold, orders.folder))
            await until(lambda: orders.held)
            pids = [each.pid for each in pool._converters]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            started = time.monotonic()
            pool.close()
            assert time.monotonic() - started < 5
            assert all(map(is_gone, pids))
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())


# -- number 3: fair turns ----------------------------------------------------------------


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("body", [LARGE, b"small"], ids=["large", "small"])
@pytest.mark.slow_on("small-2", "large-1")
def test_slow_tasks_of_a_team_do_not_delay_small_tasks(orders, processes, body):
    async def main():
        async with pool_of(processes) as pool:
            await pool.warm_up()
            slow = [
                asyncio.ensure_future(
                    pool.run(
                        conversions.hold_large, str(orders.folder), body, team_id="a"
                    )
                )
                for _ in range(12)
            ]
            await until(lambda: len(orders.held) >= processes)
            for _ in range(3):
                found = await in_turn(
                    10, lambda n: pool.run(len, b"x" * n, team_id="b")
                )
                assert found == list(range(10))
            assert await pool.run(len, b"xy", team_id="b", job_id="crawl") == 2
            if body is LARGE:  # those of the same team do not wait, either
                assert await pool.run(len, b"xyz", team_id="a") == 3
            assert not any(task.done() for task in slow)
            assert len(pool._converters) <= processes + 2  # one of them ends
            orders.let_go()
            assert await asyncio.gather(*slow) == [len(body)] * 12

    asyncio.run(main())


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("processes", [1, 2])
def test_slow_tasks_of_a_team_leave_a_process_to_large_tasks_of_another_team(
    orders, monkeypatch, processes
):
    monkeypatch.setattr(process_pool, "TURN_S", 0.5)

    async def main():
        async with pool_of(processes) as pool:
            await pool.warm_up()
            slow = [
                asyncio.ensure_future(
                    pool.run(
                        conversions.hold_large, str(orders.folder), LARGE, team_id="a"
                    )
                )
                for _ in range(4)
            ]
            await until(lambda: len(orders.held) >= processes)
            assert await pool.run(len, LARGE, team_id="b") == len(LARGE)
            assert not any(task.done() for task in slow)
            orders.let_go()
            assert await asyncio.gather(*slow) == [len(LARGE)] * 4

    asyncio.run(main())


def test_the_spare_process_ends_when_it_is_not_needed(orders, monkeypatch):
    monkeypatch.setattr(process_pool, "SPARE_IDLE_S", 0.2)

    async def main():
        async with pool_of() as pool:
            await pool.warm_up()
            slow = pool.run(conversions.hold_large, str(orders.folder), LARGE)
            slow = asyncio.ensure_future(slow)
            await until(lambda: orders.held)
            spare = await pool.run(conversions.pid)
            assert spare not in orders.held
            orders.let_go()
            await slow
            await until(lambda: len(pool._converters) == 1)
            assert await pool.run(len, b"x") == 1

    asyncio.run(main())


def test_a_team_that_queues_too_many_bytes_is_refused_alone(orders):
    async def main():
        async with pool_of(queue_mb=8) as pool:
            slow = [
                asyncio.ensure_future(
                    pool.run(
                        conversions.hold_large, str(orders.folder), LARGE, team_id="a"
                    )
                )
                for _ in range(3)
            ]
            await until(lambda: orders.held)
            woken = []
            assert not pool.has_capacity("a", lambda: woken.append(1))
            with pytest.raises(QueueFull):
                await pool.run(len, LARGE, team_id="a", may_refuse=True)
            assert pool.has_capacity("b")
            assert await pool.run(len, b"x", team_id="b", may_refuse=True) == 1
            page = source(b"")
            content = await pool.convert(page, options("markdown"), 60, "a")
            assert content.error.code == "QUEUE_FULL"
            assert not woken or not pool.has_capacity("a")
            orders.let_go()
            await asyncio.gather(*slow)
            assert woken
            assert pool.has_capacity("a")

    asyncio.run(main())


def test_a_job_queues_few_pages_while_other_teams_wait(orders, monkeypatch):
    monkeypatch.setattr(process_pool, "WAITING_AHEAD", 2)

    async def main():
        async with pool_of() as pool:
            held = pool.run(conversions.hold, str(orders.folder), team_id="a")
            tasks = [asyncio.ensure_future(held)]
            await until(lambda: orders.held)
            tasks += [
                asyncio.ensure_future(pool.run(len, b"x", team_id="a"))
                for _ in range(2)
            ]
            await asyncio.sleep(0)
            woken = []
            wake = lambda: woken.append(1)  # noqa: E731
            assert not pool.is_contended("a")
            assert pool.has_capacity("a", wake)
            tasks.append(asyncio.ensure_future(pool.run(len, b"x", team_id="b")))
            await asyncio.sleep(0)
            assert pool.is_contended("a")
            assert not pool.has_capacity("a", wake)
            assert pool.has_capacity("a"), "single scrapes are not refused"
            assert pool.has_capacity("b", wake)
            assert not woken
            orders.let_go()
            await asyncio.gather(*tasks)
            assert woken
            assert pool.has_capacity("a", wake)

    asyncio.run(main())
