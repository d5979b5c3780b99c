"""An event loop whose clock jumps from timer to timer, for code that only waits."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import pytest


class VirtualTime:
    """Runs coroutines without waiting; :func:`time.monotonic` returns virtual time meanwhile.

    Only timers move the clock, not threads or sockets.
    """

    def __init__(self, patch: pytest.MonkeyPatch):
        self._now = time.monotonic()
        self._patch = patch

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        with self._patch.context() as patch:
            patch.setattr(time, "monotonic", lambda: self._now)
            with asyncio.Runner(loop_factory=self._loop) as runner:
                runner.run(coroutine)

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(_Jumping(self))

    def jump(self, seconds: float) -> None:
        self._now += seconds


class _Jumping(selectors.DefaultSelector):
    """A selector that moves the clock by its timeout instead of waiting."""

    def __init__(self, clock: VirtualTime):
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        if found := super().select(0):
            return found
        assert timeout is not None, "nothing would ever happen"
        self._clock.jump(timeout)
        return []
