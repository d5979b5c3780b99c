"""The pace of all hosts, for all jobs and scrapes, shared with other processes."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Self

from scraper_service.crawling.observability import (
    ADAPTIVE,
    BACKOFF,
    RETRY_AFTER,
    JobTally,
)
from scraper_service.crawling.page_errors import HostBusy
from scraper_service.crawling.politeness.host_limits import Host, HostLocks
from scraper_service.crawling.politeness.shared_limit import (
    CallLaterT,
    SharedLimit,
    call_later,
)
from scraper_service.discovery.outgoing_requests import BUSY
from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks, Singletons
from scraper_service.storage import politeness
from scraper_service.storage.politeness import SharedHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from scraper_service.storage.database import Database

REFRESH_S = 2.0  # between two reads of the paces of other processes
MAX_HOSTS = 10_000  # hosts that are remembered in their default state
ANY_NUMBER = 1_000_000
QUEUED_S = 10.0  # of requests of one job that wait for the gap of their host


class HostPace:
    """Admits requests by host: limits requests in flight and the gap between starts.

    Each request takes a :meth:`slot` of its host, at once and without a database if the host is
    idle. Owners alternate. A page that needs a pause between pages takes one of ``locks``
    first. A host starts with ``ceiling`` requests in flight and slows down by its responses, see
    :class:`Host`. With ``ramps`` an unknown host starts with one request. Processes that
    :meth:`connect` share the ceiling by ``shared_limit``, the starts of a host with a gap
    one by one, and their learnt paces every :data:`REFRESH_S`.
    """

    _instances: ClassVar[Singletons[HostPace]] = Singletons()

    def __init__(
        self,
        ceiling: int,
        clock: Callable[[], float] = time.monotonic,
        call_later: CallLaterT = call_later,
        *,
        ramps: bool = False,
    ):
        self.clock = clock
        self.locks = HostLocks(self._host, clock, call_later)
        self._ceiling = ceiling
        self._ramps = ramps
        self._call_later = call_later
        self._hosts: dict[str, Host] = {}
        self.shared_limit = SharedLimit(
            politeness.HOST, self._hosts, self._host, self._dispatch, clock
        )
        self._sweep_at = MAX_HOSTS
        self._database: Database | None = None
        self._since = 0.0  # time of the database
        self._tasks = BackgroundTasks()

    @classmethod
    def shared(cls, settings: BaseSettings) -> HostPace:
        """Return the pace of this process, created by the first call."""
        return cls._instances.get(
            cls, lambda: cls(settings.getint("HOST_CONCURRENCY"), ramps=True)
        )

    def connect(self, database: Database, owner: str) -> None:
        """Share the pace with the other processes of ``database``.

        ``owner`` is the id of this process in the table of workers.
        """
        self.locks.connect(database, owner)
        self.shared_limit.connect(database, owner)
        self._database = database

    # -- requests --------------------------------------------------------------------

    def slot(
        self,
        name: str,
        owner: str = "",
        deadline: float = math.inf,
        patience_s: float = math.inf,
        tally: JobTally | None = None,
    ) -> Slot:
        """Return the slot of one request at a host, an asynchronous context manager.

        ``name`` is a :func:`~scraper_service.crawling.politeness.host_limits.pace_key`. Owners take
        turns. Entering raises :exc:`HostBusy` as soon as the request cannot start before
        ``deadline``, or if a pause is longer than ``patience_s``. ``tally`` counts the request.
        """
        tally = tally or JobTally()
        return Slot(self, self._host(name), owner, deadline, patience_s, tally)

    def job_limit(self, name: str) -> int:
        """Return the number of requests that one job may have in flight at a host."""
        host = self._host(name)
        if host.opens_at > self.clock():
            return 0
        if not host.gap_s:
            is_wide = host.window >= self._ceiling
            return ANY_NUMBER if is_wide else 1 + self.shared_limit.may_have(host)
        # A request that waits too long would miss its deadline.
        return 1 + min(self.shared_limit.may_have(host), int(QUEUED_S / host.gap_s))

    def pause_s(self, name: str) -> float:
        """Return the seconds until the end of a host's pause, 0 for none."""
        return max(0.0, self._host(name).opens_at - self.clock())

    def may_be_one_page(self, name: str) -> bool:
        """Return True if the trouble of a host may come from one broken page."""
        return self._host(name).may_be_one_page

    def note_lost_page(self, name: str) -> None:
        """Note a page of a host that was busy at its last try."""
        self._host(name).note_lost_page(self.clock())

    def refuses_all(self, name: str) -> bool:
        """Return True if a host is busy for all pages, so that another try is in vain."""
        return self._host(name).refuses_all(self.clock())

    def report(self, name: str) -> Host:
        """Return the present pace of a host, also in another thread."""
        return self._hosts.get(name) or Host(self._ceiling)

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            now = self.clock()
            if len(self._hosts) >= self._sweep_at:
                self._sweep(now)
            host = Host(self._ceiling, self._ramps, name=name, used_at=now)
            self._hosts[name] = host
        return host

    def _sweep(self, now: float) -> None:
        for host in tuple(self._hosts.values()):
            if host.is_plain(now):
                del self._hosts[host.name]
        self._sweep_at = max(MAX_HOSTS, 2 * len(self._hosts))

    def _may_start(self, host: Host, now: float) -> bool:
        if host.opens_in(now) > 0:
            return False
        if host.in_flight >= host.limit and host.ramps_in(now) <= 0:
            host.ramp_up(now)
            return self._may_start(host, now)
        if host.in_flight >= self.shared_limit.may_have(host):
            return False
        return host.has_start or not host.gap_s or self._database is None

    def enter(self, slot: Slot) -> bool:
        """Start a request if its host is free. For :class:`Slot`."""
        now, host = self.clock(), slot.host
        if host.waiting or not self._may_start(host, now):
            return False
        slot.start(now)
        return True

    async def wait(self, slot: Slot) -> None:
        """Wait until a request may start. For :class:`Slot`."""
        host, now = slot.host, self.clock()
        ahead_s = host.waiting.ahead_of(slot.owner) * host.gap_s
        likely_at = max(now, now + host.opens_in(now)) + ahead_s
        if likely_at > slot.deadline or host.opens_at > now + slot.patience_s:
            raise HostBusy(host.name, likely_at)
        slot.granted = asyncio.get_running_loop().create_future()
        host.waiting.add(slot.owner, slot)
        self._dispatch(host)
        timer = None
        if slot.deadline < math.inf:
            timer = self._call_later(
                slot.deadline - now, lambda: slot.refuse(slot.deadline)
            )
        try:
            await slot.granted
        except asyncio.CancelledError:
            host.waiting.remove(slot.owner, slot)
            if slot.started_at is not None:
                self.leave(slot)  # return the granted slot unused
            elif not slot.granted.cancelled():
                slot.granted.exception()  # read, so that asyncio does not log it
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _dispatch(self, host: Host) -> None:
        """Start requests that are next, and call this again when the host opens."""
        if not host.waiting:  # so it is with most of ten thousand hosts
            return
        now = self.clock()
        while host.waiting and self._may_start(host, now):
            slot: Slot = host.waiting.pop()
            assert slot.granted is not None
            if not slot.granted.done():  # else the waiting task was cancelled
                slot.start(now)
                slot.granted.set_result(None)
        if not host.waiting:
            return
        self.shared_limit.want(host)
        if host.gap_s and not host.has_start and self._database is not None:
            if not host.is_reserving:
                host.is_reserving = True
                self._tasks.spawn(self._reserve(self._database, host))
            return
        wait_s = max(host.opens_in(now), 0.0) or host.ramps_in(now)
        if host.timer is None and 0 < wait_s < math.inf:
            host.timer = self._call_later(wait_s, lambda: self._wake(host))

    def _wake(self, host: Host) -> None:
        host.timer = None
        self._dispatch(host)

    def leave(self, slot: Slot) -> None:
        """Free a slot for the next request. For :class:`Slot`."""
        slot.host.in_flight -= 1
        self.shared_limit.note_end(slot.host)
        self._dispatch(slot.host)

    def note(self, host: Host) -> None:
        """Apply the slower pace of a host, and share it with other processes."""
        now = self.clock()
        host.has_start = False  # the reserved start is before the pause
        for slot in host.waiting:
            if host.opens_at > min(slot.deadline, now + slot.patience_s):
                slot.refuse(host.opens_at)
        if self._database is not None:
            pause_s = max(0.0, host.opens_at - now)
            shared = SharedHost(host.name, pause_s, host.window, host.gap_s)
            self._tasks.spawn(self._publish(self._database, shared))

    # -- other processes ---------------------------------------------------------------

    async def refresh(self) -> None:
        """Apply the paces of other processes. Called every :data:`REFRESH_S`.

        Raises :exc:`ServiceUnavailable`.
        """
        assert self._database is not None
        now, changed = await self._database.read(politeness.read_shared, self._since)
        # A transaction may have an earlier time, and commit after this read.
        self._since = now - REFRESH_S
        for shared in changed:
            host = self._host(shared.name)
            host.has_start &= host.opens_at >= self.clock() + shared.pause_s
            host.adopt(shared, self.clock())
        for host in self._hosts.values():
            self._dispatch(host)

    async def _reserve(self, database: Database, host: Host) -> None:
        gap_s = host.gap_s
        try:
            wait_s = await database.write(politeness.reserve, host.name, gap_s)
        except ServiceUnavailable:
            wait_s = gap_s * self.shared_limit.workers
        finally:
            host.is_reserving = False
        host.has_start = True
        host.next_at = self.clock() + wait_s
        self._dispatch(host)

    async def _publish(self, database: Database, shared: SharedHost) -> None:
        with suppress(ServiceUnavailable):
            await database.write(politeness.publish, shared.name, shared)


class Slot:
    """The permit of one request at its host, from :meth:`HostPace.slot`.

    Counts the request in the tally of its job.
    """

    def __init__(
        self,
        pace: HostPace,
        host: Host,
        owner: str,
        deadline: float,
        patience_s: float,
        tally: JobTally,
    ):
        self._pace = pace
        self._tally = tally
        self._is_answered = False
        self.host = host
        self.owner = owner
        self.deadline = deadline
        self.patience_s = patience_s
        self.started_at: float | None = None
        self.granted: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        asked_at = self._pace.clock()
        try:
            if not self._pace.enter(self):
                await self._pace.wait(self)
        finally:
            self._tally.add_wait(self.host.name, self._pace.clock() - asked_at)
        self._tally.begin(self.host.name)
        if self.host.gap_s:
            self._tally.add_delay(self.host.name, ADAPTIVE, self.host.gap_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_answered:
            self._tally.count_response(self.host.name, "failed", 0, None)
        self._tally.end(self.host.name)
        self._pace.leave(self)

    def start(self, now: float) -> None:
        """Start the request. For :class:`HostPace`."""
        self.started_at = now
        self.host.has_start = False
        self.host.start(now)

    def refuse(self, opens_at: float) -> None:
        """End the wait of a request that would miss its deadline. For :class:`HostPace`."""
        if self.granted is not None and not self.granted.done():
            self.host.waiting.remove(self.owner, self)
            self.granted.set_exception(HostBusy(self.host.name, opens_at))

    def note_response(
        self,
        status: int,
        size: int,
        latency_s: float,
        pause_s: float | None = None,
        *,
        page: str,
    ) -> None:
        """Note the response of the host: ``size`` in bytes, latency to the first byte.

        ``pause_s`` is its Retry-After, and ``page`` its URL.
        """
        assert self.started_at is not None
        now, host = self._pace.clock(), self.host
        before = host.backoffs.total()
        if status in BUSY:
            is_slower = host.busy(status, pause_s, self.started_at, now, page)
        else:
            is_slower = host.good(self.started_at, now, latency_s)
        if is_slower:
            self._pace.note(host)
        reason = str(status) if status in BUSY else "latency"
        is_backoff = host.backoffs.total() > before
        self._count(str(status), size, reason if is_backoff else None)
        if status in BUSY and pause_s is not None:
            self._tally.add_delay(host.name, RETRY_AFTER, pause_s)
        elif status in BUSY and is_backoff and host.opens_at > now:
            self._tally.add_delay(host.name, BACKOFF, host.opens_at - now)

    def note_timeout(self) -> None:
        """Note that the host did not respond in time."""
        assert self.started_at is not None
        is_slower = self.host.note_timeout(self.started_at, self._pace.clock())
        if is_slower:
            self._pace.note(self.host)
        self._count("timeout", 0, "timeout" if is_slower else None)

    def _count(self, answer: str, size: int, backoff: str | None) -> None:
        self._is_answered = True
        self._tally.count_response(self.host.name, answer, size, backoff)
