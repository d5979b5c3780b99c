"""Conversions that wait or end their process, as a test orders.

A service uses them with :attr:`Orders.environment`. The parameter ``do`` in a page's URL
is the order, obeyed before the conversion: ``hold`` waits until :meth:`Orders.let_go`,
``die`` kills the process, ``abort`` ends the process from C. The functions below are also
tasks for a pool.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
import urllib.parse
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE = "CONVERSIONS_OF_TESTS"
HELD_AT_MOST_S = 240
POLL_S = 0.02
REMEMBERED: list[Any] = []


class PoolInLoop(NamedTuple):
    """A pool, and the function that runs coroutines in the pool's event loop."""

    pool: Any
    run: Callable[..., Any]


@contextmanager
def pool_in_loop(*args: Any, **kwargs: Any) -> Iterator[PoolInLoop]:
    """Create a pool for several calls of a test."""
    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool

    with asyncio.Runner() as runner:
        pool = ConverterPool(*args, **kwargs)
        try:
            yield PoolInLoop(pool, runner.run)
        finally:
            pool.close()


class Orders:
    """The folder through which a test controls the processes of a service."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a service that follows these orders."""
        return {
            VARIABLE: str(self.folder),
            "SCRAPER_CONVERTER": "tests.support.conversions.ObedientPool",
        }

    @property
    def held(self) -> list[int]:
        """The ids of processes that waited or wait for :meth:`let_go`, oldest first."""
        files = sorted(
            self.folder.glob("held-*"), key=lambda path: path.stat().st_mtime_ns
        )
        return [int(path.name.split("-")[1]) for path in files]

    def let_go(self) -> None:
        (self.folder / "go").touch()


class ObedientPool:
    """A value of the setting CONVERTER: the converter pool with :func:`render` of this module."""

    @classmethod
    def shared(cls, settings: Any) -> Any:
        from scraper_service.crawling.converter_pool import page_conversion as pool

        pool.render = render  # type: ignore[assignment]
        return pool.ConverterPool.shared(settings)


def render(source: Any, *args: Any) -> Any:
    """Obey the order in the URL, then convert the page."""
    from scraper_service.content import convert

    query = urllib.parse.urlsplit(source.url).query
    order = urllib.parse.parse_qs(query).get("do", [""])[0]
    if order == "hold":
        hold(os.environ[VARIABLE])
    elif order == "die":
        die()
    elif order == "abort":
        os.abort()
    return convert.render(source, *args)


def hold(folder: str, value: Any = None) -> Any:
    """Wait for :meth:`Orders.let_go`, then return ``value``."""
    mark = Path(folder, f"held-{os.getpid()}-{time.monotonic_ns()}")
    mark.touch()
    end = time.monotonic() + HELD_AT_MOST_S
    while not Path(folder, "go").exists() and time.monotonic() < end:
        time.sleep(POLL_S)
    return value


def early(value: Any, rest: Any) -> Any:
    """Return ``value`` as the early result, and ``rest`` afterwards."""
    from scraper_service.content.stored_pages import Unfinished

    return Unfinished(value, lambda: rest)


def early_failing(text: str) -> Any:
    """Return an early result, then raise :exc:`ValueError` with ``text``."""
    from scraper_service.content.stored_pages import Unfinished

    def fail() -> Any:
        raise ValueError(text)

    return Unfinished("early", fail)


def early_held(folder: str) -> Any:
    """Return an early result, then wait like :func:`hold`."""
    from scraper_service.content.stored_pages import Unfinished

    return Unfinished("early", lambda: hold(folder, "rest"))


def hold_large(folder: str, body: bytes) -> int:
    """Wait like :func:`hold`, with an input; return its length."""
    return hold(folder, len(body))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_memory() -> int:
    return len([bytes(2**20) for _ in range(2**20)])


def pid() -> int:
    return os.getpid()


def parent_pid() -> int:
    return os.getppid()


def remember(count: int) -> None:
    """Keep ``count`` more objects until the process ends, as a cache does."""
    REMEMBERED.extend([number] for number in range(count))


def make_cycles(count: int) -> None:
    """Make objects that refer to themselves, all alive until the return."""
    made: list[list[Any]] = []
    for _ in range(count):
        made.append(each := [])
        each.append(each)


def objects_to_visit() -> int:
    """Return the number of objects that the next garbage collection visits."""
    return len(gc.get_objects())


def lines(count: int) -> bytes:
    return b"x" * count


class Odd(Exception):
    """An exception that pickle cannot restore."""

    def __init__(self, one: int, two: int):
        super().__init__(f"{one} {two}")


def raise_odd() -> None:
    raise Odd(1, 2)


def unsendable() -> Any:
    return lambda: None
