"""Wait for a condition, with a time-out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Seconds until a test fails; far more than any step takes on a busy machine.
WAIT_S = 200
MOST_EVERY_S = 0.25


def wait_until(
    condition: Callable[[], T], seconds: float = WAIT_S, every_s: float = 0.05
) -> T:
    """Return the first true value of ``condition``, called every ``every_s`` seconds.

    Long waits are looked at more rarely, since each look may be a call of a busy service.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(every_s)
        every_s = max(every_s, min(1.1 * every_s, MOST_EVERY_S))
    return found
