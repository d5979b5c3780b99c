"""Waiting for the job database: a page must not fail because that is away for a while."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scraper_service.errors import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

RETRY_S = (0.5, 1, 2, 5)  # from one try to the next; the last one repeats


class Insist(Protocol):
    """Asks the database until it answers; some raise :exc:`ServiceUnavailable`."""

    def __call__(self, ask: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


async def insist(ask: Callable[[], Awaitable[T]], goes_on: Callable[[], Any]) -> T:
    """Return what ``ask`` does, called again while the database does not answer.

    What is asked has to bear it: an answer may have been lost. Raises
    :exc:`ServiceUnavailable` once ``goes_on`` returns what counts as False.
    """
    waits = iter(RETRY_S)
    while True:
        try:
            return await ask()
        except ServiceUnavailable:
            if not goes_on():
                raise
            await asyncio.sleep(next(waits, RETRY_S[-1]))


def before(deadline: float) -> Insist:
    """Return what asks until ``deadline``, a time of :func:`time.monotonic`."""

    async def ask_on(ask: Callable[[], Awaitable[T]], /) -> T:
        return await insist(ask, lambda: time.monotonic() + RETRY_S[0] < deadline)

    return ask_on


async def once(ask: Callable[[], Awaitable[T]], /) -> T:
    """Ask one time."""
    return await ask()
