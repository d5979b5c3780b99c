"""One browser for all crawlers of the process: started on need, replaced, ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from scraper_service.crawling.browser import ads, chromium, processes
from scraper_service.crawling.browser.capacity import pages_at_once
from scraper_service.crawling.browser.errors import BrowserBusy, BrowserMissing
from scraper_service.crawling.browser.running import END_S, RunningBrowser, start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

STARTS = 3  # at once after each other, where they fail
RETRY_S = 10.0  # after starts that failed, until the next one
PATIENCE_S = 60.0  # for which pages of jobs wait while no browser can be started
PAGES_PER_LONE = (
    4  # that a browser shows at once, for each one that shows a single page
)
DANGEROUS_S = 600.0  # for which a host is remembered whose page ended a browser alone
MAX_DANGEROUS = 1000
NOT_STARTED = "the browser could not be started; its operator finds why in the log"

OK = "ok"
STARTING = "starting"
RESTARTING = "restarting"


class SharedBrowser:
    """Lends a Chromium to every crawler of the process.

    At most ``BROWSER_CONCURRENCY`` pages are open in it at a time, ``BROWSER_QUEUE``
    wait. It starts with the first page, is replaced after ``BROWSER_PAGES`` pages or
    ``BROWSER_AGE_S``, and ends when it was idle for ``BROWSER_IDLE_S``. It is replaced
    at once when it or its driver dies or hangs. Crawlers say :meth:`enter` and
    :meth:`leave`: with the last one it ends at once.

    Pages that may have ended a browser are lent one of their own, a quarter as many at
    a time: so they end no pages of others.
    """

    _shared: ClassVar[dict[int, SharedBrowser]] = {}

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
        self._ends: set[asyncio.Task[None]] = set()
        self._starts: set[asyncio.Task[RunningBrowser]] = set()
        self._users = 0
        self._blocked: frozenset[str] | None = None
        self._state = OK
        self._failed_at = -RETRY_S
        self._failing_since: float | None = None

    @classmethod
    def shared(cls, settings: BaseSettings) -> SharedBrowser:
        """Return the one of this process for settings that want the same browser."""
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
        if key not in cls._shared:
            cls._shared[key] = cls(settings)
        return cls._shared[key]

    @classmethod
    def states(cls) -> list[str]:
        """Return :attr:`state` of each shared browser of this process, for readiness.

        Empty in a process without crawlers.
        """
        return [shared.state for shared in cls._shared.values()]

    @property
    def state(self) -> str:
        """Return whether pages can be rendered now; nothing is asked or started.

        ``ok`` also where no browser runs because no page needed one; ``starting`` while
        a first one starts; ``restarting`` from the moment a dead or hung one is noticed
        until its successor runs, or until its remains are gone if no page needs a
        successor. Else a sentence: why no browser could be started, as long as pages
        are refused for it (:data:`RETRY_S`).
        """
        if self._is_refusing:
            return NOT_STARTED
        return self._state

    @property
    def missing(self) -> str | None:
        """Why there is no browser, None if there is one."""
        return chromium.why_missing(self._settings)

    def enter(self) -> None:
        """Note a crawler that may want pages."""
        self._users += 1

    async def leave(self) -> None:
        """Note that a crawler has ended; the last one takes the browser with it."""
        self._users -= 1
        if not self._users:
            await self.close()

    @contextlib.asynccontextmanager
    async def lend(
        self, *, patient: bool = False, alone: bool = False
    ) -> AsyncIterator[RunningBrowser]:
        """Give a browser for one page, when there is room.

        A ``patient`` one waits however many do, and for :data:`PATIENCE_S` where no
        browser can be started. One that is to be ``alone`` gets a browser that shows no
        other page at the same time; it waits for no room beside the others. Raises
        :exc:`BrowserMissing` and :exc:`BrowserBusy`.
        """
        if missing := self.missing:
            raise BrowserMissing(missing)
        if not self._users:
            raise BrowserMissing("the service is shutting down")
        lender = self._lone if alone else self._common
        async with lender(patient=patient) as running:
            running.pages += 1
            running.served += 1
            try:
                yield running
            finally:
                running.pages -= 1

    def is_dangerous(self, host: str) -> bool:
        """Return True if a page of ``host`` ended a browser of its own not long ago."""
        return self._dangerous.get(host, 0.0) > time.monotonic()

    def note_dangerous(self, host: str) -> None:
        """Note that a page of ``host`` ended a browser that showed no other page."""
        self._dangerous.pop(host, None)
        self._dangerous[host] = time.monotonic() + DANGEROUS_S
        if len(self._dangerous) > MAX_DANGEROUS:
            del self._dangerous[next(iter(self._dangerous))]

    async def blocked_hosts(self) -> frozenset[str]:
        """Return the hosts that ``blockAds`` keeps pages from."""
        if self._blocked is None:
            folder = Path(self._settings["DATA_DIR"])
            self._blocked = await asyncio.to_thread(ads.load_hosts, folder)
        return self._blocked

    async def close(self) -> None:
        """End the browser; pages under way fail. It takes :data:`END_S` and a moment."""
        if self._idle is not None:
            self._idle.cancel()
        self._now = None
        for starting in self._starts:
            starting.cancel()
        for running in tuple(self._all):
            self._end(running)
        if tasks := (*self._starts, *self._ends):
            await asyncio.wait(tasks, timeout=3 * END_S)

    # -- the browser for all pages -------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _common(self, *, patient: bool) -> AsyncIterator[RunningBrowser]:
        if self._waiting >= self._queue and not patient:
            raise BrowserBusy(f"{self._queue} pages wait for the browser already")
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
                await self._started(self._start_common, patient=patient)
                continue
            if self._idle is not None:
                self._idle.cancel()
            # Beside open pages there are heartbeats enough.
            is_fit = not self._is_used_up(now) and (
                now.is_alive if now.pages else await now.answers()
            )
            if now is self._now:  # still
                if is_fit:
                    return now
                self._now = None
                self._retire(now)

    async def _start_common(self) -> None:
        """Start the browser for all pages, or wait until it is started."""
        if self._starting is None:
            self._starting = self._spawn_start()
            self._starting.add_done_callback(self._common_started)
            if self._state == OK:
                self._state = STARTING
        # Whoever asked first may go away; the others want it all the same.
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
        """End a browser that serves no more pages, or watch one that may."""
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

    # -- a browser for one page ----------------------------------------------------------

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
                    # The next one may have it: no two pages are open in it at a time.
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
            if await running.answers():
                return running
        return await self._started(self._spawn_start, patient=patient)

    # -- start and end -------------------------------------------------------------------

    async def _started(self, start: Callable[[], Awaitable[T]], *, patient: bool) -> T:
        """Return what ``start`` returns; a patient one waits where that fails."""
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
        task = asyncio.ensure_future(self._start())
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)
        return task

    async def _start(self) -> RunningBrowser:
        await asyncio.to_thread(processes.remove_orphans)
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
        running.ended.add_done_callback(lambda _: self._failed(running))
        return running

    def _failed(self, running: RunningBrowser) -> None:
        """Begin to replace a browser that is dead or hung."""
        logger.warning("a browser is replaced: %s", running.ended.result())
        if running is self._now:
            self._state = RESTARTING
        self._end(running)

    def _end(self, running: RunningBrowser) -> None:
        if running is self._now:
            self._now = None
        if running.is_leaving:
            return
        running.is_leaving = True
        task = asyncio.ensure_future(self._shut(running))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _shut(self, running: RunningBrowser) -> None:
        try:
            await running.end()
        finally:
            self._all.discard(running)
            if self._starting is None:
                self._state = OK
