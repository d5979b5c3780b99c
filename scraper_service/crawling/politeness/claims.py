"""When a job claims further URLs, and how many at a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.options.urls import url_parts
from scraper_service.storage.frontier.leases import Beyond

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scraper_service.crawling.politeness.host_queue import HostQueue
    from scraper_service.shared_objects import BackgroundTasks
    from scraper_service.storage.job_records import Claim, ClaimedRow

# Times as many rows, if the first rows wait for their hosts, or are fetched faster than
# further rows are claimed.
LOOK_AHEAD = 4
SHORT_CLAIMS = 2  # in a row that last longer than the rows, until a claim doubles
LOOK_EVERY_S = 5.0  # after a look-ahead found no other host
BEYOND_S = 0.5  # between two looks for other sites, each at some thousand URLs
MOST_EVERY_S = 60.0  # the same, after further looks for other sites in vain
FEW_HOSTS = 4  # with fewer, a job looks for URLs of other sites
POLL_S = 1.0  # for rows of other processes
FEW_ROWS = 4  # of a claim while teams compete for converters


class Claims:
    """Claims URLs of one job ahead of their fetch, in batches, one claim at a time.

    ``claim`` leases up to so many URLs, or those beyond some sites; it raises
    :exc:`ServiceUnavailable`. ``take`` gets each result. ``queue`` holds the rows that were
    claimed, and ``slots`` is the number of pages that the job may have in flight. Nothing is
    claimed after ``has_ended``. While ``is_contended``, because other teams wait for converters,
    no row is claimed ahead: other processes may have a converter for it. ``wake`` is called when a page may be ready, or another claim may
    find rows. ``tasks`` run the claims.
    """

    def __init__(
        self,
        claim: Callable[[int, Beyond | None], Awaitable[Claim]],
        take: Callable[[Claim], Awaitable[None]],
        queue: HostQueue,
        slots: int,
        has_ended: Callable[[], bool],
        is_contended: Callable[[], bool],
        wake: Callable[[], None],
        tasks: BackgroundTasks,
    ):
        self._ask = claim
        self._take = take
        self._queue = queue
        self._slots = slots
        self._has_ended = has_ended
        self._is_contended = is_contended
        self._wake = wake
        self._tasks = tasks
        #: Seconds after a claim without a row until the next one.
        self.poll_s = POLL_S
        self.is_running = False
        #: True if the last claim found no row.
        self.is_dry = False
        self._has_news = False  # since the last claim began
        self._polls = False  # since a claim without a row, until there is news
        self._batch = slots  # rows of a claim
        self._short_claims = 0  # in a row
        self._ran_out = False  # of rows, during the running claim
        self._look_at = 0.0
        self._beyond = 0  # the last row of a look for other sites
        self._beyond_at = 0.0
        self._beyond_every_s = LOOK_EVERY_S

    @property
    def is_looking_beyond(self) -> bool:
        """True if a look for other sites has not seen all URLs of the job."""
        return self._beyond > 0

    @property
    def may_bring_rows(self) -> bool:
        """True if a claim is running, unless it only repeats one that found no row."""
        return self.is_running and not self._polls

    def expect_rows(self) -> None:
        """Note that the next claim may find rows, also if one is running."""
        self._polls = False
        self._end_rest()

    def refill(self) -> None:
        """Claim rows if few are left: a claim takes a transaction."""
        if not self._queue.rows or (
            len(self._queue.rows) <= self._batch and not self._is_contended()
        ):
            self._soon()

    def ran_out(self) -> None:
        """Note that no row was left for the next page."""
        self._ran_out = self.is_running

    def look_ahead(self) -> list[ClaimedRow]:
        """Claim more rows if the first ones wait. Return the surplus of a single host."""
        hosts, rows = self._queue.shut_hosts, self._queue.rows
        if not hosts or time.monotonic() < self._look_at:
            return []
        if not self.is_dry and len(rows) < LOOK_AHEAD * self._slots:
            self._soon()
        elif hosts == 1:
            self._look_at = time.monotonic() + LOOK_EVERY_S
            surplus = [rows.pop()[1] for _ in range(len(rows) - self._batch)]
            return surplus[::-1]
        return []

    def look_beyond(self) -> None:
        """Look for URLs of other sites, if a few sites have all slots of the job."""
        if self._queue.delay_s or self.is_running or self._has_ended():
            return
        if time.monotonic() < self._beyond_at:
            return
        hosts = self._queue.hosts
        if len(hosts) >= FEW_HOSTS or len(self._queue.rows) < self._slots:
            return
        sites = {_site(row.url) for _, row in self._queue.rows}
        self.is_running = True
        beyond = Beyond(self._beyond, tuple(sorted(sites)))
        self._tasks.spawn(self.claim(beyond))

    async def claim(self, beyond: Beyond | None = None) -> None:
        """Claim rows now, of any site or ``beyond`` some."""
        if self._has_ended():
            self.is_running = False
            return
        self.is_running = True
        self._has_news = False
        count = min(FEW_ROWS, self._batch) if self._is_contended() else self._batch
        try:
            claim = await self._ask(count, beyond)
        except ServiceUnavailable:
            self._rest()
            return
        finally:
            self.is_running = False
        if beyond is None:
            self._note_size(len(claim.rows))
        else:
            self._looked_beyond(claim)
        await self._take(claim)
        if claim.rows:
            self._polls = False
        elif not (self._has_news or beyond):
            self._rest()
        self._wake()

    def _soon(self) -> None:
        if not (self.is_running or self._has_ended() or self.is_dry):
            self.is_running = True
            self._tasks.spawn(self.claim())

    def _rest(self) -> None:
        """Claim nothing for a while, unless there is news."""
        self.is_dry = self._polls = True
        asyncio.get_running_loop().call_later(self.poll_s, self._look_again)

    def _look_again(self) -> None:
        self._end_rest()
        self._wake()

    def _end_rest(self) -> None:
        self.is_dry = False
        self._has_news = True

    def _note_size(self, count: int) -> None:
        """Claim more rows from now on if a fast crawl has waited for its last claims."""
        is_short = self._ran_out and count == self._batch
        self._short_claims = self._short_claims + 1 if is_short else 0
        self._ran_out = False
        if self._short_claims == SHORT_CLAIMS:
            self._short_claims = 0
            self._batch = min(2 * self._batch, LOOK_AHEAD * self._slots)

    def _looked_beyond(self, claim: Claim) -> None:
        """Note how far a look for other sites went. Without any, the next ones are rarer."""
        self._beyond = claim.last or 0
        if claim.rows:
            self._beyond_every_s = LOOK_EVERY_S
        elif claim.last is None:
            self._beyond_every_s = min(2 * self._beyond_every_s, MOST_EVERY_S)
        wait_s = BEYOND_S if claim.last else self._beyond_every_s
        self._beyond_at = time.monotonic() + wait_s


def _site(url: str) -> str:
    """Return what all URLs of the same site begin with."""
    parts = url_parts(url)
    return f"{parts.scheme}://{parts.netloc}/"
