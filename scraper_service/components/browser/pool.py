"""One browser for all crawlers of the process: started on need, replaced, ended."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, field
from scrapy.utils.misc import load_object

from scraper_service.components.browser import ads, chromium
from scraper_service.components.browser.capacity import pages_at_once
from scraper_service.components.browser.errors import (
    BrowserBusy,
    BrowserGone,
    BrowserMissing,
)
from scraper_service.components.browser.proxy import no_passage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

HOME_PREFIX = "scraper-browser-"
START_S = 60.0
CLOSE_S = 5.0  # for a page
END_S = 10.0
RETRY_S = 10.0  # after a start that failed, until the next one
NOT_STARTED = "the browser could not be started; its operator finds why in the log"


@define(eq=False)
class RunningBrowser:
    """A Chromium with its driver. ``pages`` are under way, ``served`` were begun."""

    browser: Any
    home: str
    stack: contextlib.AsyncExitStack
    born: float = field(factory=time.monotonic)
    pages: int = 0
    served: int = 0
    is_leaving: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether pages can be opened."""
        return bool(self.browser.is_connected())

    async def close_context(self, context: Any) -> None:
        """Close the context of a page; where that hangs, end the browser."""
        from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415  # slow

        closing = asyncio.ensure_future(context.close())
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(closing)
        except PlaywrightError:
            pass  # with the browser
        except TimeoutError:
            logger.warning("a page could not be closed; the browser is ended")
            closing.add_done_callback(lambda task: task.cancelled() or task.exception())
            with contextlib.suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self.browser.close()


class SharedBrowser:
    """Lends a Chromium to every crawler of the process.

    At most ``BROWSER_CONCURRENCY`` pages are open at a time, ``BROWSER_QUEUE`` wait. It
    starts with the first page, is replaced after ``BROWSER_PAGES`` pages or
    ``BROWSER_AGE_S``, and ends when it was idle for ``BROWSER_IDLE_S``. Crawlers say
    :meth:`enter` and :meth:`leave`: with the last one it ends at once.
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
        self._lock = asyncio.Lock()
        self._now: RunningBrowser | None = None
        self._all: set[RunningBrowser] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._users = 0
        self._blocked: frozenset[str] | None = None
        self._failed_at = -RETRY_S

    @classmethod
    def shared(cls, settings: BaseSettings) -> SharedBrowser:
        """Return the one of this process for settings that want the same browser."""
        names = ("BROWSER_", "CHROMIUM_PATH", "DATA_DIR", "PLAYWRIGHT_", "RENDER")
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
    async def lend(self, *, patient: bool = False) -> AsyncIterator[RunningBrowser]:
        """Give a browser for one page, when there is room.

        A ``patient`` one waits however many do. Raises :exc:`BrowserMissing`,
        :exc:`BrowserBusy` and, from the block, a :exc:`BrowserGone` in place of what
        Playwright says when the browser ended.
        """
        if missing := self.missing:
            raise BrowserMissing(missing)
        if self._waiting >= self._queue and not patient:
            raise BrowserBusy(f"{self._queue} pages wait for the browser already")
        self._waiting += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting -= 1
        try:
            running = await self._running()
            running.pages += 1
            running.served += 1
            try:
                yield running
            except Exception as error:
                if running.is_alive:
                    raise
                raise BrowserGone("the browser ended") from error
            finally:
                running.pages -= 1
                self._retire(running)
        finally:
            self._room.release()

    async def blocked_hosts(self) -> frozenset[str]:
        """Return the hosts that ``blockAds`` keeps pages from."""
        if self._blocked is None:
            folder = Path(self._settings["DATA_DIR"])
            self._blocked = await asyncio.to_thread(ads.load_hosts, folder)
        return self._blocked

    async def close(self) -> None:
        """End the browser; pages under way fail."""
        if self._idle is not None:
            self._idle.cancel()
        self._now = None
        await asyncio.gather(*(self._end(running) for running in tuple(self._all)))
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=END_S)

    async def _running(self) -> RunningBrowser:
        async with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            now = self._now
            if now is not None and now.is_alive and not self._is_used_up(now):
                return now
            self._now = None
            if now is not None:
                self._retire(now)
            # Whoever asked first may go away; the others want it all the same.
            self._now = await asyncio.shield(asyncio.ensure_future(self._start()))
            return self._now

    def _is_used_up(self, running: RunningBrowser) -> bool:
        age_s = time.monotonic() - running.born
        return running.served >= self._max_pages or age_s >= self._max_age_s

    def _retire(self, running: RunningBrowser) -> None:
        """End a browser that serves no more pages, or watch one that may."""
        if running.pages:
            return
        if running is not self._now or not running.is_alive:
            self._spawn_end(running)
        else:
            loop = asyncio.get_running_loop()
            if self._idle is not None:
                self._idle.cancel()
            self._idle = loop.call_later(self._idle_s, self._spawn_end, running)

    def _spawn_end(self, running: RunningBrowser) -> None:
        if running.is_leaving or running.pages:
            return
        if running is self._now:
            self._now = None
        task = asyncio.ensure_future(self._end(running))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> RunningBrowser:
        await asyncio.to_thread(_remove_orphans)
        if time.monotonic() < self._failed_at + RETRY_S:
            raise BrowserMissing(NOT_STARTED)
        home = tempfile.mkdtemp(prefix=f"{HOME_PREFIX}{os.getpid()}-")
        stack = contextlib.AsyncExitStack()
        try:
            async with asyncio.timeout(START_S):
                # 0.5 s of imports, which would hold up the reactor.
                await asyncio.to_thread(
                    importlib.import_module, "scrapy_playwright.provider"
                )
                proxy = await stack.enter_async_context(no_passage())
                browser = await self._launch(stack, proxy, home)
        except Exception as error:
            await self._shut(stack, home)
            self._failed_at = time.monotonic()
            logger.error("%s: %s", NOT_STARTED, error)
            raise BrowserMissing(NOT_STARTED) from error
        running = RunningBrowser(browser, home, stack)
        self._all.add(running)
        logger.info("started Chromium %s", browser.version)
        return running

    async def _launch(
        self, stack: contextlib.AsyncExitStack, proxy: str, home: str
    ) -> Any:
        from scrapy_playwright.handler import Config  # noqa: PLC0415  # slow

        config = Config.from_settings(self._settings)
        config.launch_options = chromium.launch_options(self._settings, proxy, home)
        provider = load_object(self._settings["PLAYWRIGHT_BROWSER_PROVIDER"])(config)
        # The driver keeps Chromium's profile in its own temporary directory.
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = home
        try:
            starting = asyncio.ensure_future(provider.start())
            await asyncio.sleep(0)  # it has copied the environment by then
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before
        await starting
        stack.push_async_callback(provider.close)
        browser = await provider.launch_browser()
        stack.push_async_callback(browser.close)
        return browser

    async def _end(self, running: RunningBrowser) -> None:
        if running.is_leaving:
            return
        running.is_leaving = True
        if running is self._now:
            self._now = None
        await self._shut(running.stack, running.home)
        self._all.discard(running)

    async def _shut(self, stack: contextlib.AsyncExitStack, home: str) -> None:
        try:
            async with asyncio.timeout(END_S):
                await stack.aclose()
        except Exception as error:  # it may be dead already, or hang
            logger.debug("the browser ended badly: %s", error)
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _remove_orphans() -> None:
    """Delete what the browsers of processes left that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}*-*"):
        pid = home.name.removeprefix(HOME_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(home, ignore_errors=True)
