"""The pace of hosts that processes share in the job database."""

from __future__ import annotations

import asyncio
import functools

import pytest
from sqlalchemy import func, select, update

from scraper_service.crawling.politeness import shared_limit
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.shared_objects import ChangePoll
from scraper_service.storage import politeness
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.leases import beat
from scraper_service.storage.politeness import SharedHost
from scraper_service.storage.schema import host, permit

SITE = "a.example"


def work(database, function, *args):
    with database.engine.execution_options(immediate=True).begin() as connection:
        return function(connection, *args)


def test_one_process_has_the_lock_of_a_host(database):
    for owner in ("a", "b"):
        work(database, beat, owner, 60)
    take = politeness.take_turn
    assert work(database, take, SITE, "a", 0.0) == 0
    assert work(database, take, SITE, "b", 0.0) == politeness.POLL_S
    assert work(database, take, "b.example", "b", 0.0) == 0
    work(database, politeness.end_turn, SITE, "b", 100.0)  # not its own
    work(database, politeness.end_turn, SITE, "a", 50.0)
    assert 20 < work(database, take, SITE, "a", 0.0) <= 50
    assert 20 < work(database, take, SITE, "b", 0.0) <= 50


def test_the_lock_of_a_dead_process_is_free(database):
    work(database, beat, "a", -1)
    assert work(database, politeness.take_turn, SITE, "a", 0.0) == 0
    assert work(database, politeness.take_turn, SITE, "b", 0.0) == 0


def test_a_clock_that_is_set_back_ends_locks_and_pauses(database):
    work(database, beat, "a", 60)
    assert work(database, politeness.take_turn, SITE, "a", 50.0) == 0
    work(database, politeness.end_turn, SITE, "a", 50.0)
    work(database, politeness.publish, SITE, SharedHost(SITE, 600.0, 1, 5.0))
    assert work(database, politeness.reserve, SITE, 100.0) > 500
    columns = host.c
    later = {n: columns[n] + 7200 for n in ("next_at", "opens_at", "start_at")}
    work(database, lambda c: c.execute(update(host).values(later)))
    assert work(database, politeness.take_turn, SITE, "a", 0.0) == 0
    assert work(database, politeness.reserve, SITE, 1.0) == 0
    assert not work(database, politeness.read_shared, 0.0)[1]
    work(database, politeness.publish, SITE, SharedHost(SITE, 5.0, 1, 5.0))
    assert work(database, politeness.reserve, SITE, 1.0) <= 5


def test_starts_are_reserved_one_by_one(database):
    waits = [work(database, politeness.reserve, SITE, 100.0) for _ in range(3)]
    assert waits == pytest.approx([0, 100, 200], abs=30)
    work(database, politeness.publish, SITE, SharedHost(SITE, 600.0, 1, 5.0))
    waits = [work(database, politeness.reserve, SITE, 100.0) for _ in range(2)]
    assert waits == pytest.approx([600, 700], abs=30)


def test_published_pauses_are_read_by_other_processes(database):
    def shared():
        return work(database, politeness.read_shared, since)

    since = 0.0
    for owner, lease_s in (("a", 600), ("b", 600), ("gone", -1)):
        work(database, beat, owner, lease_s)
    work(database, politeness.take_turn, "turns.example", "a", 1.0)
    assert shared()[1] == []
    work(database, politeness.publish, SITE, SharedHost(SITE, 50.0, 4, 0.25))
    work(database, politeness.publish, SITE, SharedHost(SITE, 0.0, 2, 0.5))
    now, (found,) = shared()
    assert found[2:] == (2, 0.5)
    assert 20 < found.pause_s <= 50
    since = now + 1
    assert shared()[1] == []
    work(database, politeness.forget_hosts)
    since = 0.0
    assert len(shared()[1]) == 1


def test_processes_share_limits_locks_and_pauses(database):
    asyncio.run(share(database))


async def paces(database, names="ab"):
    found = []
    for owner in names:
        await database.write(beat, owner, 600)
        found.append(HostPace(8))
        found[-1].connect(database, owner)
    for _ in range(2):  # a process of SQLite waits until the others share
        for pace in found:
            await pace.shared_limit.look()
    return found


async def share(database):
    first, second = await paces(database)
    async with first.slot(SITE) as slot:
        slot.note_response(503, 0, 0.01, 500.0, page="/")
    while not second.pause_s(SITE):  # nobody waits for it to be published
        await second.refresh()
    assert second.pause_s(SITE) > 300
    assert second.report(SITE).window == 4
    lock = await first.locks.take(SITE, 0.5)
    waiting = asyncio.ensure_future(second.locks.take(SITE, 0.5))
    await asyncio.sleep(0.6)
    assert not waiting.done()
    loop = asyncio.get_running_loop()
    ended_at = loop.time()
    lock.end()
    (await waiting).end()
    assert loop.time() - ended_at >= 0.5
    await asyncio.gather(*first.locks._tasks, *second.locks._tasks)


class Crowd:
    """Requests of one process at a host, each of which waits to be let go."""

    def __init__(self, pace, name="b.example"):
        self.pace, self.name = pace, name
        self.running = 0
        self._tasks = []
        self._gates = []

    def add(self, count):
        for _ in range(count):
            gate = asyncio.Event()
            self._gates.append(gate)
            self._tasks.append(asyncio.ensure_future(self._fetch(gate)))

    async def _fetch(self, gate):
        async with self.pace.slot(self.name):
            self.running += 1
            try:
                await gate.wait()
            finally:
                self.running -= 1

    def end(self, count):
        for gate in [g for g in self._gates if not g.is_set()][:count]:
            gate.set()

    async def close(self):
        self.end(len(self._gates))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def settled(*crowds, want, most=8):
    """Look until the crowds have so many requests in flight, never more than ``most``.

    Meanwhile requests of those that have more end.
    """
    end = asyncio.get_running_loop().time() + 20
    while [crowd.running for crowd in crowds] != want:
        assert sum(crowd.running for crowd in crowds) <= most
        assert asyncio.get_running_loop().time() < end, [c.running for c in crowds]
        for crowd in crowds:
            await crowd.pace.shared_limit.look()
        for crowd, wanted in zip(crowds, want, strict=True):
            crowd.end(int(crowd.running > wanted))
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert [crowd.running for crowd in crowds] == want


def test_a_process_alone_with_a_host_gets_all_permits(database):
    async def alone():
        first, second = map(Crowd, await paces(database))
        first.add(12)
        await settled(first, second, want=[8, 0])
        await first.close()
        # What another process leaves is free at once, not only when it is idle for long.
        second.add(12)
        await settled(first, second, want=[0, 8])
        await second.close()

    asyncio.run(alone())


def test_processes_divide_the_permits_of_a_host(database, monkeypatch):
    async def divide():
        crowds = first, second, third = [
            Crowd(pace) for pace in await paces(database, "abc")
        ]
        first.add(40)
        await settled(*crowds, want=[8, 0, 0])
        asked = []
        ask = politeness.ask_for_permits

        @functools.wraps(ask)  # with what it declares to lock
        def counted(*args):
            asked.append(args)
            return ask(*args)

        monkeypatch.setattr(politeness, "ask_for_permits", counted)
        second.add(40)
        await asyncio.sleep(0.1)
        assert second.running == 0  # until a request of the first ends
        assert len(asked) <= 2  # it does not ask again and again
        await settled(*crowds, want=[4, 4, 0])
        # A process that needs less leaves the rest to the others.
        third.add(2)
        await settled(*crowds, want=[3, 3, 2])
        for crowd in crowds:
            await crowd.close()

    asyncio.run(divide())


def test_more_processes_than_permits_alternate(database):
    async def turns():
        crowds = [Crowd(pace, "one.example") for pace in await paces(database, "abc")]
        for crowd in crowds:
            crowd.pace._host("one.example").window = 1
            crowd.add(3)
        order = []
        for _ in range(9):
            while not any(crowd.running for crowd in crowds):
                for crowd in crowds:
                    await crowd.pace.shared_limit.look()
                await asyncio.sleep(0.01)
            for crowd in crowds:  # so that it is known who waits
                await crowd.pace.shared_limit.look()
            await asyncio.sleep(0.02)
            assert sum(crowd.running for crowd in crowds) == 1
            (running,) = [n for n, crowd in enumerate(crowds) if crowd.running]
            order.append(running)
            crowds[running].end(1)
            await asyncio.sleep(0.02)
        assert sorted(order) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert set(order[:5]) == {0, 1, 2}, order  # nobody waits until others are done
        for crowd in crowds:
            await crowd.close()

    asyncio.run(turns())


def test_the_requests_of_a_process_that_is_gone_are_free(database):
    async def gone():
        first, second = map(Crowd, await paces(database))
        first.add(8)
        await settled(first, second, want=[8, 0])
        await database.write(beat, "a", -1)
        second.add(8)
        await settled(first, second, want=[8, 8], most=16)
        # It was only stopped, and starts nothing before it knows what is left.
        first.end(8)
        await asyncio.sleep(0.01)
        first.add(8)
        await settled(first, second, want=[0, 8])
        for crowd in (first, second):
            await crowd.close()

    asyncio.run(gone())


def test_a_process_gets_no_permits_before_its_next_heartbeat(database):
    asked = politeness.HOST, "a", [politeness.Need("b.example", 8, 4, 0)]
    work(database, beat, "a", -1)
    assert work(database, politeness.ask_for_permits, *asked) == [(0, 0)]
    work(database, beat, "a", 600)
    assert work(database, politeness.ask_for_permits, *asked) == [(8, 8)]


def test_a_process_that_slept_through_its_lease_starts_no_request(database):
    async def slept():
        now = 1000.0
        await database.write(beat, "a", 15)
        await database.write(beat, "b", 600)
        pace = HostPace(8, lambda: now)
        pace.connect(database, "a")
        other = HostPace(8)
        other.connect(database, "b")
        for each in (pace, other, pace):
            await each.shared_limit.look()
        crowd = Crowd(pace)
        crowd.add(1)
        await settled(crowd, want=[1])
        now += 16
        crowd.add(1)
        await asyncio.sleep(0.05)
        assert crowd.running == 1
        await settled(crowd, want=[2])
        # Its lease lasts from its heartbeat, not from its last look at the others.
        await database.write(beat, "a", 5)
        await pace.shared_limit.look()
        now += 6
        crowd.add(1)
        await asyncio.sleep(0.05)
        assert crowd.running == 2
        await crowd.close()

    asyncio.run(slept())


class LateGrants:
    """A database that stores what is asked for at once, and responds when it ``arrives``."""

    def __init__(self, database):
        self._database = database
        self.is_stored, self.arrives = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._database, name)

    async def write(self, function, *arguments):
        found = await self._database.write(function, *arguments)
        if function is not politeness.ask_for_permits:
            return found
        self.is_stored.set()
        await self.arrives.wait()
        return found


def test_permits_that_arrive_after_the_lease_start_no_request(database):
    async def slept():
        now = 1000.0
        await database.write(beat, "a", 15)
        late = LateGrants(database)
        pace = HostPace(8, lambda: now)
        pace.connect(late, "a")
        first = Crowd(pace)
        await pace.shared_limit.look()
        (second,) = map(Crowd, await paces(database, "b"))
        for crowd in (first, second, first):
            await crowd.pace.shared_limit.look()
        first.add(8)
        await late.is_stored.wait()
        await database.write(beat, "a", -1)
        now += 16
        second.add(8)
        await settled(second, want=[8])
        await database.write(beat, "a", 15)
        await pace.shared_limit.look()
        late.arrives.set()
        await asyncio.gather(*pace.shared_limit._tasks)
        await settled(first, second, want=[0, 8])
        for crowd in (first, second):
            await crowd.close()

    asyncio.run(slept())


def test_a_process_that_slept_alone_waits_for_those_that_came(database):
    async def slept():
        now = 1000.0
        await database.write(beat, "a", 15)
        pace = HostPace(8, lambda: now)
        pace.connect(database, "a")
        await pace.shared_limit.look()
        now += 16
        await database.write(beat, "a", -1)
        (second,) = map(Crowd, await paces(database, "b"))
        second.add(8)
        await settled(second, want=[8])
        await database.write(beat, "a", 15)
        await pace.shared_limit.look()
        first = Crowd(pace)
        first.add(8)
        await settled(first, second, want=[4, 4])
        for crowd in (first, second):
            await crowd.close()

    asyncio.run(slept())


def test_a_process_that_joins_starts_what_others_leave(database):
    async def joins():
        await database.write(beat, "a", 600)
        alone = HostPace(8)
        alone.connect(database, "a")
        await alone.shared_limit.look()
        first = Crowd(alone)
        first.add(16)
        await settled(first, want=[8])
        await database.write(beat, "b", 600)
        joining = HostPace(8)
        joining.connect(database, "b")
        second = Crowd(joining)
        second.add(8)  # it waits before the first look
        await settled(second, first, want=[4, 4])
        for crowd in (first, second):
            await crowd.close()

    asyncio.run(joins())


def test_a_process_that_joins_waits_until_all_others_share(database):
    async def joins():
        await database.write(beat, "a", 600)
        alone = HostPace(8)
        alone.connect(database, "a")
        await alone.shared_limit.look()
        first = Crowd(alone)
        first.add(8)
        await settled(first, want=[8])
        (second,) = map(Crowd, await paces(database, "b"))
        second.add(8)
        await asyncio.sleep(0.1)
        assert second.running == 0
        first.end(8)
        await settled(first, second, want=[0, 8])
        for crowd in (first, second):
            await crowd.close()

    asyncio.run(joins())


def test_a_look_whose_time_has_not_come_misses_no_commit(tmp_path, monkeypatch):
    """The next look finds what was committed meanwhile, such as another process."""

    async def looks_of_one():
        database = Database(tmp_path)
        await database.write(beat, "a", 600)
        pace = HostPace(8)
        pace.connect(database, "a")
        looks = ChangePoll(lambda: 1)
        waiting = [
            pace.shared_limit.is_look_due(looks),
            pace.shared_limit.is_look_due(looks),
        ]
        monkeypatch.setattr(shared_limit, "ALONE_LOOK_S", 600)
        await pace.shared_limit.look()
        early = pace.shared_limit.is_look_due(looks)
        monkeypatch.setattr(shared_limit, "ALONE_LOOK_S", 0)
        await pace.shared_limit.look()
        due = [
            pace.shared_limit.is_look_due(looks),
            pace.shared_limit.is_look_due(looks),
        ]
        database.close()
        return waiting, early, due

    assert asyncio.run(looks_of_one()) == ([True, True], False, [True, False])


def test_idle_hosts_are_given_back(database, monkeypatch):
    async def idle():
        monkeypatch.setattr(shared_limit, "IDLE_S", 0.0)
        first, _ = await paces(database)
        for name in ("a.example", "b.example"):
            async with first.slot(name):
                pass
        assert await database.read(rows_of, "a") == 2
        await first.shared_limit.look()
        await asyncio.gather(*first.shared_limit._tasks)
        assert await database.read(rows_of, "a") == 0
        async with first.slot("a.example"):
            assert await database.read(rows_of, "a") == 1

    asyncio.run(idle())


def rows_of(connection, owner):
    query = select(func.count()).where(permit.c.owner == owner, permit.c.name != "*")
    return connection.scalar(query)
