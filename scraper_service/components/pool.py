"""The converter pool: everything that reads fetched bytes runs in its processes.

They are killable, with limits of time and memory, and spawned, not forked: a forked
reactor would share its epoll descriptor.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import logging
import multiprocessing
import os
import resource
import signal
import threading
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pebble

from scraper_service.formats.converters import MARKDOWN_CONVERTERS, NATIVE
from scraper_service.formats.render import prepare, render
from scraper_service.formats.sitemap import SitemapContent, read_sitemap
from scraper_service.formats.wire import content_from_wire
from scraper_service.items import PageContent, PageError, PageSource
from scraper_service.secrets import forget_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.formats.sitemap import ChooseT
    from scraper_service.options.scrape import ScrapeOptions

ResultT = TypeVar("ResultT")

logger = logging.getLogger(__name__)

END_S = 5  # for the processes to end
MAX_FILE_BYTES = 64 * 2**20
MAX_OPEN_FILES = 64
# A process is killed at the time-out; a PDF is told to stop this much before, so that
# it can say how far it came.
STOP_EARLY_S = 0.5
OBJECTS_A_COLLECTION = 20_000  # made and kept, until the young ones are looked through
PIPE_BYTES = 2**20  # what Linux gives to anybody; its own 64 KiB hold no page


class ConverterPool:
    """Run conversions in ``processes`` processes of ``memory_mb`` address space each.

    A process is replaced after ``tasks`` conversions, or when it was killed, alone:
    the others go on. ``markdown_converter`` is one of ``MARKDOWN_CONVERTERS``.
    """

    _shared: ClassVar[Self | None] = None

    def __init__(
        self,
        processes: int,
        timeout_s: float,
        memory_mb: int,
        tasks: int,
        markdown_converter: str = NATIVE,
    ) -> None:
        if markdown_converter not in MARKDOWN_CONVERTERS:
            known = " or ".join(MARKDOWN_CONVERTERS)
            message = f"MARKDOWN_CONVERTER must be {known}, got {markdown_converter!r}"
            raise ValueError(message)
        self._markdown_converter = markdown_converter
        self.timeout_s = timeout_s
        self._processes = processes
        self._make = partial(
            pebble.ProcessPool,
            max_workers=processes,
            max_tasks=tasks,
            initializer=_limit_process,
            initargs=(memory_mb * 2**20,),
            context=_Spawned(),
        )
        self._pool: pebble.ProcessPool = self._make()

    @classmethod
    def shared(cls, settings: BaseSettings) -> Self:
        """Return the one pool of this process, made on first use."""
        if cls._shared is None:
            forget_secrets()
            cls._shared = cls(
                settings.getint("CONVERTER_PROCESSES") or os.cpu_count() or 1,
                settings.getfloat("CONVERTER_TIMEOUT_S"),
                settings.getint("CONVERTER_MEMORY_MB"),
                settings.getint("CONVERTER_TASKS"),
                settings["MARKDOWN_CONVERTER"],
            )
        return cls._shared

    async def warm_up(self) -> None:
        """Start the processes; return when they convert."""
        await asyncio.gather(*(self.run(_ready) for _ in range(self._processes)))

    async def run(
        self, function: Callable[..., ResultT], *args: object, timeout_s: float = 60
    ) -> ResultT:
        """Return what the importable ``function`` returns in a process of the pool.

        Raises :exc:`TimeoutError` after ``timeout_s``, time in the queue included,
        :exc:`pebble.ProcessExpired` when the process died, or what it raised. The
        process is killed when the caller is cancelled.
        """
        pool = self._pool
        try:
            return await self._run(pool, function, args, timeout_s)
        except (BrokenProcessPool, RuntimeError) as error:
            # A process that is killed between two tasks takes the whole pool with it.
            if pool.active:
                raise
            logger.warning("the converter pool broke (%s) and is made anew", error)
            if pool is self._pool:
                self._pool = self._make()
                loop = asyncio.get_running_loop()
                loop.run_in_executor(None, _end, pool)
        return await self._run(self._pool, function, args, timeout_s)

    async def _run(
        self,
        pool: pebble.ProcessPool,
        function: Callable[..., ResultT],
        args: tuple[object, ...],
        timeout_s: float,
    ) -> ResultT:
        with _interrupts_held():
            future = pool.schedule(function, args=args, timeout=timeout_s)
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)

    async def convert(
        self, source: PageSource, options: ScrapeOptions, timeout_s: float
    ) -> PageContent:
        """Return the content of a page, or a content that says why there is none.

        ``timeout_s`` is the time its caller has left.
        """
        limit = min(timeout_s, self.timeout_s)
        if limit <= 0:
            return _failed("SCRAPE_TIMEOUT", "No time was left to convert the page.")
        budget = max(limit - STOP_EARLY_S, limit / 2)
        try:
            wire = await self._run_within(
                limit, render, source, options, budget, self._markdown_converter
            )
        except TimeoutError:
            return _failed(
                "SCRAPE_TIMEOUT", f"The page took longer than {limit:.1f} s to convert."
            )
        except MemoryError:
            return _failed(
                "SCRAPE_ALL_ENGINES_FAILED",
                "The page needs more memory than a conversion may take.",
            )
        return content_from_wire(*wire)

    async def read_sitemap(
        self,
        source: PageSource,
        timeout_s: float,
        choose: ChooseT | None = None,
        read: Callable[..., SitemapContent] = read_sitemap,
    ) -> SitemapContent:
        """Return what a sitemap says, or a content that says why it cannot be read.

        ``choose``, which makes rows of the entries, has to be importable; so has
        ``read``, which is called with the source and it.
        """
        limit = min(timeout_s, self.timeout_s)
        try:
            return await self._run_within(limit, read, source, choose)
        except TimeoutError:
            error = f"The sitemap took longer than {limit:.1f} s to read."
        except MemoryError:
            error = "The sitemap needs more memory than a conversion may take."
        return SitemapContent(error=error)

    async def _run_within(
        self, limit_s: float, function: Callable[..., ResultT], *args: object
    ) -> ResultT:
        """Run ``function``; a process that died, died of :exc:`MemoryError`."""
        if limit_s <= 0:
            raise TimeoutError
        try:
            return await self.run(function, *args, timeout_s=limit_s)
        except CancelledError:
            raise TimeoutError from None
        except pebble.ProcessExpired as error:
            raise MemoryError from error

    def close(self) -> None:
        """End the processes at once; conversions under way fail."""
        if type(self)._shared is self:
            type(self)._shared = None
        _end(self._pool)


class _Spawned(SpawnContext):
    """New processes, and pipes to them that a whole page goes into at once.

    Else the page would go piece by piece, and both ends wake up for each.
    """

    def Pipe(self, duplex: bool = True) -> Any:
        ends = super().Pipe(duplex)
        with contextlib.suppress(OSError):  # it is no pipe, or the user has too many
            fcntl.fcntl(ends[1].fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return ends


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Have what is started in here never be interrupted by a terminal's Ctrl-C.

    The first use of a pool starts its threads and, by them, its processes, which would
    show a traceback each while they are starting. They end with their parent.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(pool: pebble.ProcessPool) -> None:
    pool.stop()
    pool.join(timeout=END_S)


def _failed(code: str, message: str) -> PageContent:
    return PageContent(error=PageError(code, message))


def _ready() -> bool:
    return True


def _limit_process(memory_bytes: int) -> None:
    """Set the limits of a converter process and tie its life to its parent's."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN_FILES, MAX_OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()
    # A page is thousands of objects in no circles, which live as long as it: looking for
    # circles after each 700 of them, and among all that is loaded, finds nothing.
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
