"""A Chromium with its driver: started, watched, ended."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from attrs import define, field
from scrapy.utils.misc import load_object

from scraper_service.crawling.browser import (
    authorities,
    chromium,
    guard,
    processes,
)
from scraper_service.crawling.browser.errors import BrowserGone
from scraper_service.crawling.browser.proxy import no_passage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE_MODULE = "scraper_service.crawling.browser.render"
START_S = 30.0
CLOSE_S = 5.0  # for a page
END_S = 5.0  # for a browser that answers; then it is killed
BEAT_S = 2.0  # between two heartbeats
SILENT_S = 15.0  # without a reply to a heartbeat, after which a browser is killed
_ASKED_TIMES = 3  # of a heartbeat that fails, as another call's error may be raised
_STEPS = 5  # of the event loop, within which Playwright copies the environment

DIED = "the browser or its driver died"
SILENT = f"the browser or its driver gave no sign of life for {SILENT_S:.0f} s"


@define(eq=False)
class RunningBrowser:
    """A Chromium with its driver, a Node process; both live in ``home``.

    ``ended`` has a result, the reason, as soon as the browser is known to be dead or
    hung. Playwright's own ``is_connected()`` stays true when the driver dies.
    """

    browser: Any
    home: str
    #: Closes what was opened for the browser.
    stack: contextlib.AsyncExitStack
    #: A session of the browser's own protocol, for heartbeats.
    session: Any
    ended: asyncio.Future[str] = field(factory=asyncio.Future)
    #: :func:`time.monotonic` of the start.
    born: float = field(factory=time.monotonic)
    #: Pages that are open.
    pages: int = 0
    #: Pages that were opened so far.
    served: int = 0
    #: No further page may be opened.
    is_worn: bool = False
    is_leaving: bool = False
    _watching: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Return True unless the browser is known to have ended."""
        return not self.ended.done() and bool(self.browser.is_connected())

    def fail(self, reason: str) -> None:
        """Note that the browser is dead or hung."""
        if not self.ended.done() and not self.is_leaving:
            self.ended.set_result(reason)

    def watch(self) -> None:
        """Begin to send heartbeats."""
        self._watching = asyncio.ensure_future(self._watch())

    async def answers(self) -> bool:
        """Return True if driver and Chromium answer; False marks them as failed.

        The page's own process does not take part: a script without end is no failure of
        the browser.
        """
        for _ in range(_ASKED_TIMES):
            if not self.is_alive:
                break
            reply = asyncio.ensure_future(self.session.send("Browser.getVersion"))
            try:
                # The second wait is for a service that was itself stopped in the first.
                for _ in range(2):
                    await asyncio.wait((reply,), timeout=SILENT_S / 2)
                if not reply.done():
                    self.fail(SILENT)
                    return False
                if reply.exception() is None:
                    return True
            finally:
                reply.cancel()
        self.fail(DIED)
        return False

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` with a page returns.

        Raises :exc:`BrowserGone` in place of its error if the browser ended.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self.ended), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise BrowserGone(self.ended.result())
            try:
                return task.result()
            except Exception as error:
                if await self.answers():
                    raise
                raise BrowserGone(DIED) from error
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    async def close_context(self, context: Any) -> None:
        """Close the context of a page; where that hangs, no further page is opened."""
        from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415  # slow

        closing = asyncio.ensure_future(context.close())
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(closing)
        except PlaywrightError:
            pass  # with the browser
        except TimeoutError:
            logger.warning("a page could not be closed; its browser gets no others")
            closing.add_done_callback(lambda task: task.cancelled() or task.exception())
            self.is_worn = True

    async def end(self) -> None:
        """End driver and Chromium and delete their files; call it once.

        A browser that has failed is killed. Others are closed within :data:`END_S`, and
        killed after that.
        """
        self.is_leaving = True
        if self._watching is not None:
            self._watching.cancel()
        await shut(self.stack, self.home, is_dead=self.ended.done())

    async def _watch(self) -> None:
        is_there = True
        while is_there:
            is_there = await self.answers()
            await asyncio.sleep(BEAT_S)


async def start(settings: BaseSettings) -> RunningBrowser:
    """Start a Chromium with a driver of its own; raises whatever fails."""
    home = processes.make_home()
    stack = contextlib.AsyncExitStack()
    try:
        data_dir = Path(settings["DATA_DIR"])
        await asyncio.to_thread(authorities.trust_authorities, home, data_dir)
        async with asyncio.timeout(START_S):
            # 0.5 s of imports, which would hold up the reactor.
            for name in ("scrapy_playwright.provider", PAGE_MODULE):
                await asyncio.to_thread(importlib.import_module, name)
            proxy = await stack.enter_async_context(no_passage())
            browser = await _launch(stack, settings, proxy, home)
            session = await browser.new_browser_cdp_session()
    except BaseException:
        await shut(stack, home, is_dead=True)
        raise
    running = RunningBrowser(browser, home, stack, session)
    # Sooner than the next heartbeat; it is not told when the driver dies.
    browser.on("disconnected", lambda _: running.fail(DIED))
    running.watch()
    logger.info("started Chromium %s", browser.version)
    return running


async def _launch(
    stack: contextlib.AsyncExitStack, settings: BaseSettings, proxy: str, home: str
) -> Any:
    from scrapy_playwright.handler import Config  # noqa: PLC0415  # slow

    config = Config.from_settings(settings)
    config.launch_options = chromium.launch_options(settings, proxy, home)
    provider = load_object(settings["PLAYWRIGHT_BROWSER_PROVIDER"])(config)
    most = settings.getint("DOWNLOAD_MAXSIZE")
    async with _environment(home, 6 * most if most else guard.MAX_REPLY_BYTES):
        starting = asyncio.ensure_future(provider.start())
        for _ in range(_STEPS):
            await asyncio.sleep(0)
    await starting
    _quieten(provider)
    stack.push_async_callback(provider.close)
    browser = await provider.launch_browser()
    stack.push_async_callback(browser.close)
    return browser


def _quieten(provider: Any) -> None:
    """Keep asyncio from logging that nobody asked how the driver ended."""
    with contextlib.suppress(
        AttributeError
    ):  # private names, but nothing depends on it
        manager = provider.playwright_context_manager
        ended = manager._client._transport.on_error_future
        ended.add_done_callback(lambda future: future.cancelled() or future.exception())


_changing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
_changing = WeakKeyDictionary()


@contextlib.asynccontextmanager
async def _environment(home: str, max_bytes: int) -> AsyncIterator[None]:
    """Give this process the environment of a driver.

    Drivers that start at the same time take turns: the environment of one must not be
    what another one restores.
    """
    async with _changing.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        before = {name: os.environ.get(name) for name in ("TMPDIR", "NODE_OPTIONS")}
        # The driver keeps Chromium's profile in its own temporary directory.
        os.environ["TMPDIR"] = home
        os.environ["NODE_OPTIONS"] = guard.node_options(home, max_bytes)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


async def shut(
    stack: contextlib.AsyncExitStack, home: str, *, is_dead: bool = False
) -> None:
    """Close what belongs to a browser, kill what is left, and delete ``home``."""
    closing = asyncio.ensure_future(stack.aclose())
    if not is_dead:
        await asyncio.wait((closing,), timeout=END_S)
    await asyncio.to_thread(processes.remove, home)
    # Playwright notices the death of its driver.
    await asyncio.wait((closing,), timeout=END_S)
    if not closing.done():
        logger.warning("the connection to a browser could not be closed")
        closing.cancel()
    elif not closing.cancelled() and (error := closing.exception()):
        logger.debug("the browser ended badly: %s", error)
