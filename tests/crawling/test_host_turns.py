"""Locks of a host that processes share by their database."""

from __future__ import annotations

import asyncio
import time

from scraper_service.crawling.politeness.host_limits import Host, HostLocks
from scraper_service.crawling.politeness.shared_limit import call_later
from scraper_service.errors import ServiceUnavailable
from scraper_service.storage import connections, politeness
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.leases import Frontier


def test_a_host_lock_is_returned_after_an_outage(tmp_path, monkeypatch):
    """Else other processes would wait as long as this one lives."""
    monkeypatch.setattr(connections, "RETRY_S", (0.05,))

    def turns_of(database, owner):
        known = {}
        turns = HostLocks(
            lambda name: known.setdefault(name, Host(8, name=name)),
            time.monotonic,
            call_later,
        )
        turns.connect(database, owner)
        return turns

    async def main(database):
        for owner in "ab":
            await Frontier(database, owner).beat(3600)
        turn = await turns_of(database, "a").take("host", 0.01)
        write, outage = database.write, [1, 2, 3]

        async def fail(function, *args):
            if function is politeness.end_turn and outage:
                raise ServiceUnavailable(f"outage {outage.pop()}")
            return await write(function, *args)

        database.write = fail
        turn.end()
        async with asyncio.timeout(100):
            await turns_of(database, "b").take("host", 0.01)
        assert not outage

    database = Database(tmp_path)
    try:
        asyncio.run(main(database))
    finally:
        database.close()
