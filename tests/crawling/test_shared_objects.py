"""Background tasks live until they end; singletons until they are discarded."""

from __future__ import annotations

import asyncio
import gc

from scraper_service.shared_objects import BackgroundTasks, Singletons


def test_background_tasks_survive_garbage_collection():
    async def run() -> list[str]:
        done: list[str] = []

        async def work() -> None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.set_result, None)
            await future
            done.append("work")

        tasks = BackgroundTasks()
        tasks.spawn(work())
        gc.collect()
        assert len(tasks) == 1
        await tasks.join()
        assert len(tasks) == 0
        return done

    assert asyncio.run(run()) == ["work"]


def test_join_waits_for_tasks_spawned_meanwhile():
    async def run() -> list[str]:
        done: list[str] = []
        tasks = BackgroundTasks()

        async def inner() -> None:
            await asyncio.sleep(0)
            done.append("inner")

        async def outer() -> None:
            await asyncio.sleep(0)
            tasks.spawn(inner())

        tasks.spawn(outer())
        await tasks.join()
        return done

    assert asyncio.run(run()) == ["inner"]


def test_cancel_ends_all_tasks():
    async def run() -> list[bool]:
        tasks = BackgroundTasks()
        spawned = [tasks.spawn(asyncio.sleep(3600)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks.cancel()
        await tasks.join()
        return [task.cancelled() for task in spawned]

    assert asyncio.run(run()) == [True, True, True]


def test_singletons_are_made_once_per_key_until_discarded():
    instances: Singletons[object] = Singletons()
    first = instances.get("a", object)
    assert instances.get("a", object) is first
    other = instances.get("b", object)
    assert list(instances) == [first, other]
    instances.discard(first)
    assert instances.get("a", object) is not first
    instances.clear()
    assert list(instances) == []
