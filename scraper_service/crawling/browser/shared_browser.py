"""The shared browser of a process: started on demand, replaced and ended.

The number of pages follows from the processors and memory of the machine, or of its control
group (version 2 of Linux), which containers and services set.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from scraper_service.content.page_urls import load_hosts
from scraper_service.crawling.browser import chromium
from scraper_service.crawling.browser.running_browser import (
    END_S,
    RunningBrowser,
    remove_orphans,
    start,
)
from scraper_service.crawling.observability import BROWSER_PAGES, BROWSER_RESTARTS
from scraper_service.crawling.page_errors import (
    BrowserBusy,
    BrowserMissing,
)
from scraper_service.errors import plural
from scraper_service.shared_objects import BackgroundTasks, Singletons

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from scrapy.settings import BaseSettings

PAGE_MB = 300  # memory of a page of a large site
PAGES_PER_CORE = 2  # a page waits for its site half of the time

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def pages_at_once(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int:
    """Return the number of pages for the processors and half of the memory, at least 1."""
    groups = list(_groups(membership, mount))
    memory_mb = min(_memory_bytes(groups)) // 2**20
    cores = min(_cores(groups))
    return max(1, min(math.ceil(PAGES_PER_CORE * cores), memory_mb // 2 // PAGE_MB))


def pages_in_memory(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int:
    """Return the number of pages for half of the memory, at least 1."""
    memory_mb = min(_memory_bytes(list(_groups(membership, mount)))) // 2**20
    return max(1, memory_mb // 2 // PAGE_MB)


def _groups(membership: Path, mount: Path) -> Iterator[Path]:
    """Yield the directories of this process's control group and its parents."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for path in (line[3:] for line in lines if line.startswith("0::")):
        inner = Path(path.lstrip("/"))
        yield from (mount / group for group in (inner, *inner.parents))


def _memory_bytes(groups: list[Path]) -> Iterator[int]:
    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in groups:
        yield from _numbers(group / "memory.max")


def _cores(groups: list[Path]) -> Iterator[float]:
    yield len(os.sched_getaffinity(0))
    for group in groups:
        match list(_numbers(group / "cpu.max")):
            case [quota_us, period_us]:
                yield quota_us / period_us


def _numbers(path: Path) -> Iterator[int]:
    """Yield the numbers in a file, none for ``max`` or a missing file."""
    try:
        words = path.read_text().split()
    except OSError:
        return
    yield from (int(word) for word in words if word.isdigit())


logger = logging.getLogger(__name__)

T = TypeVar("T")

STARTS = 3  # tries in a row
RETRY_S = 10.0  # after failed tries, until the next start
PATIENCE_S = 60.0  # of pages of jobs while no browser can be started
PAGES_PER_LONE = 4  # pages of the shared browser for each browser with a single page
DANGEROUS_S = 600.0  # for which a host is remembered whose page ended a browser
MAX_DANGEROUS = 1000
NOT_STARTED = "the browser could not be started; its operator finds why in the log"

OK = "ok"
STARTING = "starting"
RESTARTING = "restarting"


class SharedBrowser:
    """Lends one Chromium to all crawlers of the process.

    At most ``BROWSER_CONCURRENCY`` pages are open at the same time, and ``BROWSER_QUEUE`` wait.
    The browser starts with the first page. It is replaced after ``BROWSER_PAGES`` pages or
    ``BROWSER_AGE_S``, and at once if it or its driver dies or hangs. It ends after
    ``BROWSER_IDLE_S`` without a page, and when the last crawler calls :meth:`leave`.

    Pages that may have ended a browser get a browser of their own, so that they end no other
    pages. There are a quarter as many of these.
    """

    _instances: ClassVar[Singletons[SharedBrowser]] = Singletons()

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._most = settings.getint("BROWSER_CONCURRENCY") or pages_at_once()
        self._queue = settings.getint("BROWSER_QUEUE")
        self._max_pages = settings.getint("BROWSER_PAGES")
        self._max_age_s = settings.getfloat("BROWSER_AGE_S")
        self._idle_s = settings.getfloat("BROWSER_IDLE_S")
        self._room = asyncio.Semaphore(self._most)
        self._waiting = 0
        self._lone_room = asyncio.Semaphore(-(-self._most // PAGES_PER_LONE))
        self._lone_waiting = 0
        self._lone_free: list[RunningBrowser] = []
        self._dangerous: dict[str, float] = {}
        self._starting: asyncio.Task[RunningBrowser] | None = None
        self._now: RunningBrowser | None = None
        self._all: set[RunningBrowser] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._ends = BackgroundTasks()
        self._starts = BackgroundTasks()
        self._users = 0
        self._blocked: frozenset[str] | None = None
        self._state = OK
        self._failed_at = -RETRY_S
        self._failing_since: float | None = None

    @classmethod
    def shared(cls, settings: BaseSettings) -> SharedBrowser:
        """Return the browser of this process for settings with the same browser options."""
        names = (
            *("BROWSER_", "CHROMIUM_PATH", "DATA_DIR", "DOWNLOAD_MAXSIZE"),
            *("PLAYWRIGHT_", "RENDER"),
        )
        key = hash(
            tuple(
                (name, str(settings[name]))
                for name in sorted(settings)
                if name.startswith(names)
            )
        )
        return cls._instances.get(key, lambda: cls(settings))

    @classmethod
    def states(cls) -> list[str]:
        """Return :attr:`state` of each shared browser of this process, for readiness.

        Empty without crawlers.
        """
        return [shared.state for shared in cls._instances]

    @property
    def state(self) -> str:
        """The state of the browser, without a request to it.

        ``ok`` also means that no page needed a browser yet. ``starting`` is the first start,
        ``restarting`` the time from the end of a browser to its successor, or to the end of its
        processes if no page waits. Any other text is the reason why no browser could be
        started, while pages are refused (:data:`RETRY_S`).
        """
        if self._is_refusing:
            return NOT_STARTED
        return self._state

    def enter(self) -> None:
        """Count a crawler that may need pages."""
        self._users += 1

    async def leave(self) -> None:
        """Count the end of a crawler. The last one ends the browser."""
        self._users -= 1
        if not self._users:
            await self.close()

    @contextlib.asynccontextmanager
    async def lend(
        self, *, patient: bool = False, alone: bool = False
    ) -> AsyncIterator[RunningBrowser]:
        """Yield a browser for one page once a slot is free.

        A ``patient`` page waits behind any number of others, and up to :data:`PATIENCE_S` while no
        browser can be started. With ``alone`` the browser shows no other page at the same time.
        Raises :exc:`BrowserMissing` and :exc:`BrowserBusy`.
        """
        if missing := chromium.why_missing(self._settings):
            raise BrowserMissing(missing)
        if not self._users:
            raise BrowserMissing("the service is shutting down")
        lender = self._lone if alone else self._common
        async with lender(patient=patient) as running:
            running.pages += 1
            running.served += 1
            try:
                with BROWSER_PAGES.track_inprogress():
                    yield running
            finally:
                running.pages -= 1

    def is_dangerous(self, host: str) -> bool:
        """Return True if a page of ``host`` recently ended a browser of its own."""
        return self._dangerous.get(host, 0.0) > time.monotonic()

    def note_dangerous(self, host: str) -> None:
        """Note that a page of ``host`` ended a browser without other pages."""
        self._dangerous.pop(host, None)
        self._dangerous[host] = time.monotonic() + DANGEROUS_S
        if len(self._dangerous) > MAX_DANGEROUS:
            del self._dangerous[next(iter(self._dangerous))]

    async def blocked_hosts(self) -> frozenset[str]:
        """Return the hosts that ``blockAds`` blocks."""
        if self._blocked is None:
            folder = Path(self._settings["DATA_DIR"])
            self._blocked = await asyncio.to_thread(load_hosts, folder)
        return self._blocked

    async def close(self) -> None:
        """End the browser and fail its pages. Takes little more than :data:`END_S`."""
        if self._idle is not None:
            self._idle.cancel()
        self._now = None
        self._starts.cancel()
        for running in tuple(self._all):
            self._end(running)
        if tasks := (*self._starts, *self._ends):
            await asyncio.wait(tasks, timeout=3 * END_S)

    # -- the browser of all pages --------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _common(self, *, patient: bool) -> AsyncIterator[RunningBrowser]:
        if self._waiting >= self._queue and not patient:
            raise BrowserBusy(
                f"already waiting for the browser: {plural(self._queue, 'page')}"
            )
        self._waiting += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting -= 1
        try:
            running = await self._running(patient=patient)
            try:
                yield running
            finally:
                self._retire(running)
        finally:
            self._room.release()

    async def _running(self, *, patient: bool) -> RunningBrowser:
        while True:
            if (now := self._now) is None:
                await self._start_patiently(self._start_common, patient=patient)
                continue
            if self._idle is not None:
                self._idle.cancel()
            # With open pages, heartbeats are enough.
            try:
                is_fit = not self._is_used_up(now) and (
                    now.is_alive if now.pages else await now.answers()
                )
            except BaseException:  # a cancelled page leaves it as idle as before
                self._retire(now)
                raise
            if now is self._now:  # not replaced meanwhile
                if is_fit:
                    return now
                self._now = None
                self._retire(now)

    async def _start_common(self) -> None:
        if self._starting is None:
            self._starting = self._starts.spawn(self._start())
            self._starting.add_done_callback(self._common_started)
            if self._state == OK:
                self._state = STARTING
        # Shielded: one cancelled caller must not cancel the start for the others.
        await asyncio.shield(self._starting)

    def _common_started(self, task: asyncio.Task[RunningBrowser]) -> None:
        self._starting = None
        self._state = OK
        if not task.cancelled() and task.exception() is None:
            self._now = task.result()
            self._retire(self._now)

    def _is_used_up(self, running: RunningBrowser) -> bool:
        age_s = time.monotonic() - running.born
        return (
            running.is_worn
            or running.served >= self._max_pages
            or age_s >= self._max_age_s
        )

    def _retire(self, running: RunningBrowser) -> None:
        """End a browser that gets no more pages, or set its idle time."""
        if running.pages:
            return
        if running is not self._now or not running.is_alive:
            self._end(running)
        else:
            loop = asyncio.get_running_loop()
            if self._idle is not None:
                self._idle.cancel()
            self._idle = loop.call_later(self._idle_s, self._end_idle, running)

    def _end_idle(self, running: RunningBrowser) -> None:
        if not running.pages:
            self._end(running)

    # -- browsers of single pages --------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _lone(self, *, patient: bool) -> AsyncIterator[RunningBrowser]:
        try:
            self._lone_waiting += 1
            try:
                await self._lone_room.acquire()
            finally:
                self._lone_waiting -= 1
            try:
                running = await self._alone(patient=patient)
                try:
                    yield running
                finally:
                    # The next page may use it: two pages are never open at the same time.
                    if self._lone_waiting and running.is_alive and not running.is_worn:
                        self._lone_free.append(running)
                    else:
                        self._end(running)
            finally:
                self._lone_room.release()
        finally:
            while self._lone_free and not self._lone_waiting:
                self._end(self._lone_free.pop())

    async def _alone(self, *, patient: bool) -> RunningBrowser:
        while self._lone_free:
            running = self._lone_free.pop()
            try:
                is_fit = await running.answers()
            except BaseException:  # no other page has the browser of a cancelled one
                self._end(running)
                raise
            if is_fit:
                return running
        return await self._start_patiently(self._spawn_start, patient=patient)

    # -- start and end -------------------------------------------------------------------

    async def _start_patiently(
        self, start: Callable[[], Awaitable[T]], *, patient: bool
    ) -> T:
        """Return the result of ``start``. A patient page waits after a failure."""
        while True:
            try:
                if self._is_refusing:
                    raise BrowserMissing(NOT_STARTED)
                return await start()
            except BrowserMissing:
                since = self._failing_since or -PATIENCE_S
                if not patient or time.monotonic() > since + PATIENCE_S:
                    raise
                await asyncio.sleep(RETRY_S)

    @property
    def _is_refusing(self) -> bool:
        return time.monotonic() < self._failed_at + RETRY_S

    def _spawn_start(self) -> asyncio.Task[RunningBrowser]:
        return self._starts.spawn(self._start())

    async def _start(self) -> RunningBrowser:
        await asyncio.to_thread(remove_orphans)
        for tries_left in reversed(range(STARTS)):
            try:
                running = await start(self._settings)
                break
            except Exception as error:
                logger.warning("a browser could not be started: %s", error)
                if not tries_left:
                    self._failed_at = time.monotonic()
                    self._failing_since = self._failing_since or self._failed_at
                    logger.error("%s: %s", NOT_STARTED, error)
                    raise BrowserMissing(NOT_STARTED) from error
        self._failing_since = None
        self._all.add(running)
        running.ended.add_done_callback(lambda _: self._replace(running))
        return running

    def _replace(self, running: RunningBrowser) -> None:
        logger.warning("a browser is replaced: %s", running.ended.result())
        BROWSER_RESTARTS.inc()
        if running is self._now:
            self._state = RESTARTING
        self._end(running)

    def _end(self, running: RunningBrowser) -> None:
        if running is self._now:
            self._now = None
        if running.is_leaving:
            return
        running.is_leaving = True
        self._ends.spawn(self._shut(running))

    async def _shut(self, running: RunningBrowser) -> None:
        try:
            await running.end()
        finally:
            self._all.discard(running)
            if self._starting is None:
                self._state = OK
