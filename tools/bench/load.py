"""A light load generator: N callers in one event loop, each with one request at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from attrs import field, frozen


@frozen
class Call:
    """A request to repeat; ``options`` go to :meth:`aiohttp.ClientSession.request`."""

    method: str
    url: str
    options: dict[str, Any] = field(factory=dict)


@frozen
class Load:
    """The result of a run: sorted latencies of successes, failures, duration."""

    latencies_ms: tuple[float, ...]
    failed: int
    elapsed_s: float

    @property
    def per_second(self) -> float:
        return len(self.latencies_ms) / self.elapsed_s

    def percentile_ms(self, share: float) -> float:
        """Return the latency at the quantile ``share`` (0 to 1); NaN without successes."""
        if not self.latencies_ms:
            return float("nan")
        last = len(self.latencies_ms) - 1
        return self.latencies_ms[min(last, int(share * len(self.latencies_ms)))]


async def measure(
    session: aiohttp.ClientSession,
    call: Call,
    *,
    callers: int,
    seconds: float,
    max_count: int,
) -> Load:
    """Repeat ``call`` until the time is over or ``max_count`` requests are sent.

    A response with status 200 is a success; its body is read but not checked.
    """
    latencies: list[float] = []
    failed = 0
    left = max_count
    start = time.perf_counter()
    end = start + seconds

    async def caller() -> None:
        nonlocal failed, left
        while left > 0 and (begin := time.perf_counter()) < end:
            left -= 1
            if await _succeeds(session, call):
                latencies.append((time.perf_counter() - begin) * 1000)
            else:
                failed += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return Load(tuple(sorted(latencies)), failed, time.perf_counter() - start)


async def _succeeds(session: aiohttp.ClientSession, call: Call) -> bool:
    try:
        async with session.request(call.method, call.url, **call.options) as response:
            await response.read()
    except (aiohttp.ClientError, TimeoutError):
        return False
    return response.status == 200
