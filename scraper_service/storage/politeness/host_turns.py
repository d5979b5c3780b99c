"""Turns at a host whose pages are fetched one by one, with a pause in between.

A host, not a job, is what the pause is for: all jobs and processes share its turns.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, TypeAlias

from attrs import define, field

from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.politeness import host_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.storage.database import Database

MAX_CRAWL_DELAY_S = 10.0  # interface document, 11.5
RETRY_S = 1.0  # while the database does not answer
MAX_LANES = 10_000  # that are remembered without need

logger = logging.getLogger(__name__)


class Timer(Protocol):
    """What ``call_later`` of an event loop returns."""

    def cancel(self) -> None: ...


CallLaterT: TypeAlias = "Callable[[float, Callable[[], object]], Timer]"


def call_later(seconds: float, function: Callable[[], object]) -> Timer:
    """Call ``function`` in the running event loop."""
    return asyncio.get_running_loop().call_later(seconds, function)


class Turns:
    """Gives one page of a host at a time to who asks for it, in the order of asking.

    The next turn begins when the pause of the one before is over, which is counted
    from its end. Connected to a database this holds over its processes, by a row that
    is taken in one statement; a process that is gone loses its turn with its leases.
    """

    def __init__(self, clock: Callable[[], float], call_later: CallLaterT):
        self._clock = clock
        self._call_later = call_later
        self._lanes: dict[str, _Lane] = {}
        self._database: Database | None = None
        self._owner = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, database: Database, owner: str) -> None:
        """Share the turns; see :meth:`HostPace.connect`."""
        self._database, self._owner = database, owner

    def set_crawl_delay(self, name: str, delay_s: float) -> None:
        """Note what the robots.txt of a host asks for; more than 10 s is not kept."""
        self._lane(name).crawl_delay_s = max(0.0, min(delay_s, MAX_CRAWL_DELAY_S))

    def crawl_delay_s(self, name: str) -> float:
        """Return the pause between pages that a host asks for, 0 for none."""
        lane = self._lanes.get(name)
        return lane.crawl_delay_s if lane else 0.0

    async def take(self, name: str, delay_s: float) -> Turn:
        """Wait for the right to fetch one page of a host.

        It has to be given back with :meth:`Turn.end`; the turn after it begins
        ``delay_s`` later.
        """
        lane = self._lane(name)
        lane.wanted += 1
        try:
            await lane.lock.acquire()
        except BaseException:
            lane.wanted -= 1
            raise
        turn = Turn(self, lane, delay_s)
        try:
            while (wait_s := await self._try(lane, delay_s)) > 0:
                await self._sleep(wait_s)
        except BaseException:
            self.end(lane, 0.0)
            raise
        return turn

    def _lane(self, name: str) -> _Lane:
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                now = self._clock()
                self._lanes = {
                    name: lane
                    for name, lane in self._lanes.items()
                    if lane.wanted or lane.opens_at > now
                }
            lane = self._lanes[name] = _Lane(name)
        return lane

    async def _try(self, lane: _Lane, delay_s: float) -> float:
        """Return 0 if the turn was free, else the seconds until the next try."""
        if self._database is None:
            return lane.opens_at - self._clock()
        try:
            return await self._database.write_locking(
                host_rows.take_turn, lane.name, self._owner, delay_s
            )
        except ServiceUnavailable:
            return RETRY_S

    async def _sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self._call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def end(self, lane: _Lane, delay_s: float) -> None:
        """Let the next one have its turn; for :class:`Turn`."""
        lane.wanted -= 1
        lane.opens_at = max(lane.opens_at, self._clock() + delay_s)
        if self._database is None:
            lane.lock.release()
            return
        task = asyncio.ensure_future(self._give_back(self._database, lane, delay_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_back(self, database: Database, lane: _Lane, delay_s: float) -> None:
        try:
            await database.write_locking(
                host_rows.end_turn, lane.name, self._owner, delay_s
            )
        except ServiceUnavailable:
            logger.warning("the turn at %s was not given back", lane.name)
        finally:
            lane.lock.release()


class Turn:
    """The right to fetch one page of a host; made by :meth:`Turns.take`."""

    def __init__(self, turns: Turns, lane: _Lane, delay_s: float):
        self._turns = turns
        self._lane = lane
        self._delay_s = delay_s
        self._has_ended = False

    def end(self) -> None:
        """Tell that the page has ended; again is harmless."""
        if not self._has_ended:
            self._has_ended = True
            self._turns.end(self._lane, self._delay_s)


@define(eq=False)
class _Lane:
    """One host. ``opens_at`` counts where there is no database."""

    name: str
    crawl_delay_s: float = 0.0
    wanted: int = 0
    opens_at: float = 0.0
    lock: asyncio.Lock = field(factory=asyncio.Lock)  # first come, first served
