"""The life of a process: start, signals, drain, end."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from scraper_service.content.passes import why_unfit
from scraper_service.discovery.canonical_urls import site_of
from scraper_service.shared_objects import BackgroundTasks, begin_collections

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from scrapy.crawler import Crawler

    from scraper_service.server.background import Background
    from scraper_service.services.observability.health import ServiceManager

logger = logging.getLogger("scraper_service")

RESOLVER_THREADS = 64  # a host name that does not resolve blocks a thread for seconds
# A signal to the group of make and the service reaches the service twice.
SAME_SIGNAL_S = 0.5
LEAVE_S = 10  # from the end of the parts to the end of the process
# A block of memory of this size goes back to the system when it is freed. The GNU C library
# raises the size to that of the largest freed block, and then keeps hundreds of megabytes of
# pages that are long gone.
LARGE_BLOCK_BYTES = 2**20
M_MMAP_THRESHOLD = -3  # malloc.h


class Front:
    """The network side of a process, before its background work. The base has no effect."""

    #: Crawlers that end after the last response.
    kept: Iterable[Crawler | None] = ()

    async def start(self) -> None:
        """Make what the front needs. Raises errors of the database."""

    async def warm_up(self) -> None:
        """Start what takes time, while the background work starts."""

    async def open(self) -> None:
        """Begin to accept requests, when the background work has begun.

        Raises :exc:`~twisted.internet.error.CannotListenError`.
        """

    def announce(self) -> None:
        """Print that the process is ready."""

    async def drain(self) -> None:
        """Let load balancers turn away, after the signal to end."""

    def leave(self) -> None:
        """Accept no further requests."""

    async def close(self) -> None:
        """End streams and sessions."""

    async def wait_until_answered(self) -> None:
        """Wait until all requests have their responses."""

    def give_up(self) -> None:
        """End the requests that still run, with a response."""

    async def flush(self) -> None:
        """Wait a little until the last responses are sent."""


class MainProcess:
    """Runs the background work and its front until SIGTERM or SIGINT."""

    def __init__(self, manager: ServiceManager, background: Background, front: Front):
        self._manager = manager
        self._background = background
        self._front = front
        self._signalled_at = -math.inf
        self._exit_code = 0
        self._tasks = BackgroundTasks()

    def run(self) -> int:
        """Run until the end; return the exit code."""
        from twisted.internet import reactor

        with suppress(OSError, AttributeError):  # other C libraries do not keep them
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        reactor.callWhenRunning(lambda: self._tasks.spawn(self._start()))
        self._background.process.start(
            stop_after_crawl=False, install_signal_handlers=False
        )
        return self._exit_code

    async def _start(self) -> None:
        from twisted.internet.error import CannotListenError

        from scraper_service.errors import ConvertersFailed, listen_error

        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "resolver"))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        try:
            await self._open()
        except CannotListenError as error:
            cause = error.socketError
            logger.error("%s", listen_error(error.interface, error.port, cause))
        except ConvertersFailed as error:
            logger.error("the service could not start: %s", error)
        except Exception as error:
            if self._background.is_leaving:  # the signal has closed what was to start
                logger.info("the start ended with the signal: %s", error)
                return
            logger.exception("the service could not start")
        else:
            return
        self._exit_code = 1
        await self._stop()

    async def _open(self) -> None:
        background, front = self._background, self._front
        if why_unfit:
            logger.warning(
                "the compiled extension does not fit (%s), so pages take about a third"
                " longer: install this package again",
                why_unfit,
            )
        await front.start()
        await asyncio.gather(background.start(), front.warm_up())
        if background.is_leaving:
            return
        begin_collections()
        background.open()
        await front.open()
        # Also if a signal came meanwhile: a first key is shown only once.
        front.announce()
        if background.is_leaving:
            return
        background.lag.start()
        background.webhooks.open()
        self._manager.ready()
        # Its first use reads the list of public suffixes, 50 ms: not in the event loop.
        self._tasks.spawn(asyncio.to_thread(site_of, "a.example"))

    def _on_signal(self) -> None:
        now = time.monotonic()
        if not self._background.is_leaving:
            self._background.is_leaving = True
            self._signalled_at = now
            logger.info("stopping after running work has ended")
            self._tasks.spawn(self._drain_and_stop())
        elif now - self._signalled_at > SAME_SIGNAL_S:
            logger.warning("second signal: stopping at once, running work is lost")
            _end_process()

    async def _drain_and_stop(self) -> None:
        await self._front.drain()
        await self._stop()

    async def _stop(self) -> None:
        """Close all parts in order, then leave. Continues after parts that fail."""
        background, front = self._background, self._front
        background.is_leaving = True
        self._manager.stopping()
        background.lag.stop()
        front.leave()
        for close in (
            self._finish,
            background.webhooks.close,
            background.searches.close,
            front.flush,
            *background.last_closers(),
        ):
            await _close(close)
        self._leave()

    async def _finish(self) -> None:
        """End streams and sessions, while running work ends and no other begins."""
        await asyncio.gather(_close(self._front.close), self._finish_work())

    async def _finish_work(self) -> None:
        for close in (*self._background.first_closers(), self._finish_crawls):
            await _close(close)

    async def _finish_crawls(self) -> None:
        front = self._front
        if not await self._background.finish_crawls(
            front.kept, front.wait_until_answered()
        ):
            front.give_up()

    def _leave(self) -> None:
        from twisted.internet import reactor

        # Scrapy's shutdown waits for its crawls, and the interpreter for its threads.
        end = threading.Timer(LEAVE_S, _end_process, (self._exit_code,))
        end.daemon = True
        end.start()
        self._background.release()
        reactor.stop()


async def _close(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except Exception:
        logger.exception("a part of the service could not be closed")


def _end_process(code: int = 1) -> None:
    """End as after a crash: child processes end with the connections to this one."""
    logging.shutdown()
    os._exit(code)
