"""The pace of hosts that processes share in the job database."""

from __future__ import annotations

import asyncio

import pytest

from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.storage.frontier.leases import beat
from scraper_service.storage.politeness import hosts
from scraper_service.storage.politeness.hosts import SharedHost

SITE = "a.example"


def work(database, function, *args):
    with database.engine.execution_options(immediate=True).begin() as connection:
        return function(connection, *args)


def test_one_process_has_the_turn_of_a_host(database):
    for owner in ("a", "b"):
        work(database, beat, owner, 60)
    take = hosts.take_turn
    assert work(database, take, SITE, "a", 0.0) == 0
    assert work(database, take, SITE, "b", 0.0) == hosts.POLL_S
    assert work(database, take, "b.example", "b", 0.0) == 0
    work(database, hosts.end_turn, SITE, "b", 100.0)  # not its own
    work(database, hosts.end_turn, SITE, "a", 50.0)
    assert 20 < work(database, take, SITE, "a", 0.0) <= 50
    assert 20 < work(database, take, SITE, "b", 0.0) <= 50


def test_the_turn_of_a_process_that_is_gone_is_free(database):
    work(database, beat, "a", -1)
    assert work(database, hosts.take_turn, SITE, "a", 0.0) == 0
    assert work(database, hosts.take_turn, SITE, "b", 0.0) == 0


def test_starts_are_handed_out_one_by_one(database):
    waits = [work(database, hosts.reserve, SITE, 100.0) for _ in range(3)]
    assert waits == pytest.approx([0, 100, 200], abs=30)
    work(database, hosts.publish, SITE, SharedHost(SITE, 600.0, 1, 5.0))
    waits = [work(database, hosts.reserve, SITE, 100.0) for _ in range(2)]
    assert waits == pytest.approx([600, 700], abs=30)


def test_what_is_published_is_read_by_others(database):
    def shared():
        return work(database, hosts.read_shared, since)

    since = 0.0
    for owner, lease_s in (("a", 600), ("b", 600), ("gone", -1)):
        work(database, beat, owner, lease_s)
    work(database, hosts.take_turn, "turns.example", "a", 1.0)
    assert shared().workers == 2
    assert shared().hosts == ()
    work(database, hosts.publish, SITE, SharedHost(SITE, 50.0, 4, 0.25))
    work(database, hosts.publish, SITE, SharedHost(SITE, 0.0, 2, 0.5))
    (found,) = shared().hosts
    assert found[2:] == (2, 0.5)
    assert 20 < found.pause_s <= 50
    since = shared().now + 1
    assert shared().hosts == ()
    work(database, hosts.forget_hosts)
    since = 0.0
    assert len(shared().hosts) == 1


def test_processes_share_ceiling_turns_and_pauses(database):
    asyncio.run(share(database))


async def share(database):
    for owner in ("a", "b"):
        await database.write(beat, owner, 600)
    first, second = HostPace(8), HostPace(8)
    first.connect(database, "a")
    second.connect(database, "b")
    async with first.slot(SITE) as slot:
        slot.answered(503, 0, 0.01, 500.0)
    while not second.closed_s(SITE):  # nobody waits for it to be published
        await second.refresh()
    assert second.closed_s(SITE) > 300
    assert second.report(SITE).window == 4
    slots = [second.slot("b.example") for _ in range(5)]
    assert [second.enter(slot) for slot in slots] == [True] * 4 + [False]

    for slot in slots[:4]:
        second.leave(slot)

    turn = await first.turns.take(SITE, 0.5)
    waiting = asyncio.ensure_future(second.turns.take(SITE, 0.5))
    await asyncio.sleep(0.6)
    assert not waiting.done()
    loop = asyncio.get_running_loop()
    ended_at = loop.time()
    turn.end()
    (await waiting).end()
    assert loop.time() - ended_at >= 0.5
    await asyncio.gather(*first.turns._tasks, *second.turns._tasks)
