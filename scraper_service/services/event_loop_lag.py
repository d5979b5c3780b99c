"""How late the event loop is: the first thing that suffers when something blocks it."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from statistics import median

PERIOD_S = 0.05
SAMPLES = 1200  # one minute
RECENT = 20  # one second


class LoopLag:
    """Measure the loop's lateness all the time, over the last minute."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._schedule(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def p99_ms(self) -> float:
        """Return the lateness in ms that 99 of 100 samples stay below."""
        ordered = sorted(self._samples)
        return round(ordered[int(len(ordered) * 0.99)] * 1000, 2) if ordered else 0.0

    def recent_ms(self) -> float:
        """Return the median lateness in ms of the last :data:`RECENT` samples."""
        recent = list(islice(reversed(self._samples), RECENT))
        return median(recent) * 1000 if recent else 0.0

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + PERIOD_S

        def note() -> None:
            self._samples.append(max(0.0, loop.time() - due))
            self._schedule(loop)

        self._handle = loop.call_at(due, note)
