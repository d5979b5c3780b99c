"""The requests in flight that this process may have at each host, of those of all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.politeness import host_permits
from scraper_service.storage.politeness.host_permits import Need
from scraper_service.storage.politeness.shares import equal_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from scraper_service.crawling.politeness.host_limits import Host
    from scraper_service.shared_objects import Looks
    from scraper_service.storage.database import Database
    from scraper_service.storage.politeness.host_permits import HostShares

LOOK_S = 0.5  # between two looks at the shares of other processes
ALONE_LOOK_S = 2.0  # the same, while no other process shares the database file
IDLE_S = 5.0  # without a request, before a process gives its share of a host back
MOST_AT_ONCE = 500  # hosts in one transaction
ASKING = "hosts"  # the name of these transactions


class HostPermits:
    """Divides the requests in flight at a host among the processes of a database.

    A process that is alone with a host gets up to all of them. As soon as another process
    wants some, each gets equal parts, or as much as it needs. The parts never sum to more than
    the limit. A dead process loses its part together with its leases, so a process that was
    stopped for longer than its lease starts nothing before it has looked again.

    On PostgreSQL each process asks from its start. On SQLite a process asks from the moment
    it sees another one, and a new process starts nothing until all others do.

    ``host`` returns a host by its name, and ``hosts`` all. ``dispatch`` is called when a host
    may have more requests.
    """

    def __init__(
        self,
        host: Callable[[str], Host],
        hosts: Callable[[], Collection[Host]],
        dispatch: Callable[[Host], None],
        clock: Callable[[], float],
    ) -> None:
        self._host = host
        self._hosts = hosts
        self._dispatch = dispatch
        self._clock = clock
        self._database: Database | None = None
        self._owner = ""
        self._shares = False
        self._is_ready = True
        self._valid_until = 0.0
        self._next_look = 0.0
        self.workers = 1  # live processes, with this one
        self._asked: list[Host] = []
        self._asking: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()

    def connect(self, database: Database, owner: str) -> None:
        """Share with the other processes of ``database``.

        ``owner`` is the id of this process in the table of workers. No request starts until
        the first :meth:`look`.
        """
        self._database, self._owner = database, owner
        self._shares = database.engine.dialect.name != "sqlite"
        self._is_ready = False

    def limit(self, host: Host) -> int:
        """Return the limit of a host in this process."""
        if self._database is None:
            return host.limit
        if not self._is_ready:
            return 0
        if not self._shares:
            return host.limit
        if self._clock() > self._valid_until:
            return 0
        return min(host.limit, host.permits)

    def want(self, host: Host) -> None:
        """Ask for more of a host with waiting requests, unless that was in vain."""
        is_full = host.in_flight >= host.permits < host.window
        if self._shares and is_full and host.may_ask:
            self._ask(host)

    def left(self, host: Host) -> None:
        """Note the end of a request. Other processes may wait for its place."""
        if host.granted > max(host.permits, host.in_flight):
            self._ask(host)

    def _ask(self, host: Host) -> None:
        """Ask for what a host needs, together with other hosts of this moment."""
        if self._database is None or host.is_asking:
            return
        host.is_asking = True
        self._asked.append(host)
        if self._asking is None:
            self._asking = self._tasks.spawn(self._ask_all(self._database))

    async def _ask_all(self, database: Database) -> None:
        await asyncio.sleep(0)  # further hosts of this moment
        try:
            while hosts := self._asked[:MOST_AT_ONCE]:
                del self._asked[:MOST_AT_ONCE]
                with suppress(ServiceUnavailable):  # the next look asks again
                    await self._ask_for(database, hosts)
        finally:
            self._asking = None

    async def _ask_for(self, database: Database, hosts: Sequence[Host]) -> None:
        needs = []
        for host in hosts:
            # Until the database responds, no request starts beyond those in flight.
            host.permits = min(host.permits, host.in_flight)
            needs.append(Need(host.name, host.window, needed(host), host.in_flight))
        try:
            grants = await database.write_aside(
                host_permits.ask, ASKING, self._owner, needs
            )
        finally:
            for host in hosts:
                host.is_asking = False
        for host, grant, need in zip(hosts, grants, needs, strict=True):
            host.permits, host.granted = grant.goal, grant.granted
            host.may_ask = grant.goal >= need.wanted
            self._dispatch(host)

    def is_look_due(self, looks: Looks) -> bool:
        """Return True if a look at the other processes may find something new.

        A process that waits for the others has to see at once that they are ready.
        """
        if not self._is_ready:
            return True
        is_time = self._shares or self._clock() >= self._next_look
        return is_time and looks.is_due()

    async def look(self) -> None:
        """Look at the other processes. Called every :data:`LOOK_S`.

        Raises :exc:`ServiceUnavailable`.
        """
        if (database := self._database) is None:
            return
        looked_at = self._clock()
        self._next_look = looked_at + ALONE_LOOK_S
        others = await database.read(host_permits.read_others, self._owner)
        self.workers = max(1, others.workers)
        if self.workers > 1 and not self._shares:
            self._shares = True
            for host in self._hosts():
                if host.in_flight or host.waiting:
                    self._ask(host)
            if self._asking is not None:
                await self._asking
            others = await database.read(host_permits.read_others, self._owner)
        if self._shares and not others.is_marked:
            await database.write(host_permits.mark, self._owner)
        self._is_ready = self._is_ready or others.share or not self._shares
        if self._shares:
            # Not longer than others count what it has: the heartbeat was earlier.
            self._valid_until = looked_at + others.lease_s
            for name in others.hosts:
                self._host(name)  # if it was forgotten, its share is given back later
            for host in self._hosts():
                self._compare(host, others.hosts.get(host.name))
        for host in self._hosts():
            self._dispatch(host)

    def _compare(self, host: Host, shares: HostShares | None) -> None:
        """Ask again for the share of a host, if that would change it."""
        if host.is_asking:
            return
        if shares is None:
            host.permits = host.granted = 0
            host.may_ask = True
            if host.in_flight or host.waiting:
                self._ask(host)
            return
        host.granted = max(host.granted, shares.mine)  # a response may be lost
        need = needed(host)
        fair, rest = equal_parts(host.window, [need, *shares.wanted])
        most = fair + (rest > 0) if fair else 0  # below one each, they take turns
        has_free = shares.granted < host.window
        lacks = need > shares.mine and (has_free or not shares.waits)
        others_lack = shares.others_wait and shares.mine > min(need, most)
        is_wide = shares.granted > host.window and shares.mine > host.in_flight
        is_idle = not need and self._clock() - host.used_at > IDLE_S
        if lacks or others_lack or is_wide or is_idle:
            self._ask(host)


def needed(host: Host) -> int:
    """Return the requests that this process could have in flight at a host."""
    return min(host.window, host.in_flight + len(host.waiting))
