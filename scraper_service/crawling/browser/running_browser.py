"""A Chromium with its driver: starts, checks and ends its processes.

The processes of a browser are found by its directory. Works on Linux only, with ``/proc``.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import importlib
import logging
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from attrs import define, field
from scrapy.utils.misc import load_object

from scraper_service.crawling.browser import chromium
from scraper_service.crawling.browser.devtools import MAX_REPLY_BYTES, node_options
from scraper_service.crawling.browser.proxy import no_passage
from scraper_service.crawling.page_errors import BrowserGone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from scrapy.settings import BaseSettings

# Then the id of the process and the time of its start: a restarted container gives the
# same id to the next process.
HOME_PREFIX = "scraper-browser-"
KILL_S = 5.0  # for the end of killed processes
_PAUSE_S = 0.02


def make_home() -> str:
    """Create and return a directory for the files of one browser.

    The exit of this process removes the directory.
    """
    _at_exit()
    pid = os.getpid()
    return tempfile.mkdtemp(prefix=f"{HOME_PREFIX}{pid}-{_start_ticks(pid)}-")


@functools.cache
def _at_exit() -> None:
    atexit.register(_remove_own)


def _remove_own() -> None:
    pid = os.getpid()
    for home in _homes(f"{pid}-{_start_ticks(pid)}"):
        remove(str(home))


def _start_ticks(pid: int | str) -> str:
    """Return when a process started, in ticks since the boot; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _homes(owner: str = "*") -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}{owner}-*")


def processes_of(home: str) -> list[int]:
    """Return the ids of the driver and the Chromium processes of ``home``."""
    environment = f"TMPDIR={home}".encode()
    profile = f" --user-data-dir={home}/".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # Zombies have neither file. Processes of other users are not ours.
        with contextlib.suppress(OSError):
            # Chromium joins the arguments of some processes with spaces.
            command = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ")
            if profile in command:
                found.append(int(entry.name))
                continue
            if environment in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def remove(home: str) -> None:
    """Kill the processes of ``home`` and delete it. Also ends stopped processes."""
    end = time.monotonic() + KILL_S
    while pids := processes_of(home):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= end:
            break
        time.sleep(_PAUSE_S)
    shutil.rmtree(home, ignore_errors=True)


def remove_orphans() -> None:
    """Remove browsers and files of killed processes of the service."""
    for home in _homes():
        pid, started, *_ = f"{home.name.removeprefix(HOME_PREFIX)}-".split("-")
        if pid.isdigit() and _start_ticks(pid) != started:
            remove(str(home))


logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE_MODULE = "scraper_service.crawling.browser.render"
START_S = 30.0
CLOSE_S = 5.0  # for a page
END_S = 5.0  # for a responsive browser, until it is killed
PORT_FILE = "DevToolsActivePort"  # in the profile of Chromium
BEAT_S = 2.0  # between two heartbeats
SILENT_S = 15.0  # without a reply, until a browser is killed
_ASKED_TIMES = 3  # tries of a failed heartbeat, which may raise another call's error
_STEPS = 5  # of the event loop, until Playwright has copied the environment

DIED = "the browser or its driver died"
SILENT = f"the browser or its driver gave no sign of life for {SILENT_S:.0f} s"


@define(eq=False)
class RunningBrowser:
    """A Chromium with its driver, a Node process. Both use the directory ``home``.

    ``ended`` gets a reason as soon as the browser is known to be dead or hung. Playwright's
    ``is_connected()`` stays true if the driver dies.
    """

    browser: Any
    home: str
    #: Closes what was opened for the browser.
    stack: contextlib.AsyncExitStack
    #: A session of the DevTools protocol for heartbeats.
    session: Any
    ended: asyncio.Future[str] = field(factory=asyncio.Future)
    #: :func:`time.monotonic` of the start.
    born: float = field(factory=time.monotonic)
    #: Open pages.
    pages: int = 0
    #: Pages opened so far.
    served: int = 0
    #: True if no more pages may be opened.
    is_worn: bool = False
    is_leaving: bool = False
    _watching: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Return True unless the browser is known to have ended."""
        return not self.ended.done() and bool(self.browser.is_connected())

    def fail(self, reason: str) -> None:
        """Mark the browser as dead or hung."""
        if not self.ended.done() and not self.is_leaving:
            self.ended.set_result(reason)

    def devtools_url(self) -> str:
        """Return the URL of the browser's own DevTools socket on this machine.

        Only for a browser that was started with a port. Raises :exc:`OSError`.
        """
        # Chromium writes the file when it listens: the port, and the secret path.
        [file] = Path(self.home).glob(f"*/{PORT_FILE}")
        port, path = file.read_text().split()
        return f"ws://127.0.0.1:{port}{path}"

    def watch(self) -> None:
        """Start heartbeats."""
        self._watching = asyncio.ensure_future(self._watch())

    async def answers(self) -> bool:
        """Return True if driver and Chromium respond. Otherwise mark them as failed.

        The process of a page is not involved: an endless script is no failure of the browser.
        """
        for _ in range(_ASKED_TIMES):
            if not self.is_alive:
                break
            reply = asyncio.ensure_future(self.session.send("Browser.getVersion"))
            try:
                # The second wait is for a service that was itself stopped in the first one.
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
        """Return the result of ``work`` on a page.

        Raises :exc:`BrowserGone` instead of its error if the browser ended.
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
        """Close the context of a page. If that hangs, the browser gets no more pages."""
        from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415  # slow

        closing = asyncio.ensure_future(context.close())
        # Reads its error, also when the page was cancelled and nobody waits any more.
        closing.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(closing)
        except PlaywrightError:
            pass  # the browser has ended
        except TimeoutError:
            logger.warning("a page could not be closed; its browser gets no others")
            self.is_worn = True

    async def end(self) -> None:
        """End driver and Chromium, and delete their files. Call it once.

        A failed browser is killed. Others are closed within :data:`END_S`, then killed.
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


async def load_modules() -> Any:
    """Import what pages need in a thread: 0.5 s, which would block the reactor.

    Returns the module :mod:`scraper_service.crawling.browser.render`.
    """
    await asyncio.to_thread(importlib.import_module, "scrapy_playwright.provider")
    return await asyncio.to_thread(importlib.import_module, PAGE_MODULE)


async def start(settings: BaseSettings, *, has_port: bool = False) -> RunningBrowser:
    """Start a Chromium with its own driver. Raises any error.

    ``has_port`` is for :meth:`RunningBrowser.devtools_url`.
    """
    home = make_home()
    stack = contextlib.AsyncExitStack()
    trusting = asyncio.ensure_future(
        asyncio.to_thread(chromium.trust_authorities, home, Path(settings["DATA_DIR"]))
    )
    try:
        await asyncio.shield(trusting)
        async with asyncio.timeout(START_S):
            await load_modules()
            proxy = await stack.enter_async_context(no_passage())
            browser = await _launch(stack, settings, proxy, home, has_port=has_port)
            session = await browser.new_browser_cdp_session()
    except BaseException:
        # A cancelled thread runs on, and would make the home again after its removal.
        await asyncio.wait([trusting])
        await shut(stack, home, is_dead=True)
        raise
    running = RunningBrowser(browser, home, stack, session)
    # Earlier than the next heartbeat. Not called when the driver dies.
    browser.on("disconnected", lambda _: running.fail(DIED))
    running.watch()
    logger.info("started Chromium %s", browser.version)
    return running


async def _launch(
    stack: contextlib.AsyncExitStack,
    settings: BaseSettings,
    proxy: str,
    home: str,
    *,
    has_port: bool,
) -> Any:
    from scrapy_playwright.handler import Config  # noqa: PLC0415  # slow

    config = Config.from_settings(settings)
    config.launch_options = chromium.launch_options(
        settings, proxy, home, has_port=has_port
    )
    provider = load_object(settings["PLAYWRIGHT_BROWSER_PROVIDER"])(config)
    await _start_driver(stack, settings, provider, home)
    browser = await provider.launch_browser()
    stack.push_async_callback(browser.close)
    return browser


async def _start_driver(
    stack: contextlib.AsyncExitStack, settings: BaseSettings, provider: Any, home: str
) -> None:
    most = settings.getint("DOWNLOAD_MAXSIZE")
    async with _environment(home, 6 * most if most else MAX_REPLY_BYTES):
        starting = asyncio.ensure_future(provider.start())
        for _ in range(_STEPS):
            await asyncio.sleep(0)
    await starting
    _quieten(provider)
    stack.push_async_callback(provider.close)


def _quieten(provider: Any) -> None:
    """Keep asyncio from logging the unread result of the driver's exit."""
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
    """Set the environment of a driver in this process.

    Drivers start one after the other, so that each restores the original environment.
    """
    async with _changing.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        before = {name: os.environ.get(name) for name in ("TMPDIR", "NODE_OPTIONS")}
        # The driver creates Chromium's profile in its temporary directory.
        os.environ["TMPDIR"] = home
        os.environ["NODE_OPTIONS"] = node_options(home, max_bytes)
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
    """Close the objects of a browser, kill its processes, and delete ``home``."""
    closing = asyncio.ensure_future(stack.aclose())
    if not is_dead:
        await asyncio.wait((closing,), timeout=END_S)
    await asyncio.to_thread(remove, home)
    # Playwright detects the end of its driver.
    await asyncio.wait((closing,), timeout=END_S)
    if not closing.done():
        logger.warning("the connection to a browser could not be closed")
        closing.cancel()
    elif not closing.cancelled() and (error := closing.exception()):
        logger.debug("the browser ended badly: %s", error)
