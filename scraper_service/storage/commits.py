"""Futures of the next commit, for who waits to read what is new."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Commits:
    """Tells who waits that something was committed under a name, in the event loop.

    Only commits of this process are known; for those of others there is a time.
    """

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, asyncio.Future[None]] = (
            WeakValueDictionary()
        )

    def next(self, name: str, within_s: float) -> asyncio.Future[None]:
        """Return what is done with the next commit, or ``within_s`` after the first ask.

        All who ask before that share it: wait for it with :func:`asyncio.shield`. Ask
        before a read, so that no commit falls between the two.
        """
        future = self._next.get(name)
        if future is None or future.done():
            loop = asyncio.get_running_loop()
            future = self._next[name] = loop.create_future()
            loop.call_later(within_s, _finish, future)
        return future

    def note(self, name: str) -> None:
        """Wake who waits for ``name``."""
        if (future := self._next.pop(name, None)) is not None:
            _finish(future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
