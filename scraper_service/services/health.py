"""Health: whether the parts that every request needs work, and why one does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from attrs import define, field, frozen

WAIT_S = 2.0  # that one report waits for checks under way

CheckT = Callable[[], Awaitable[None]]


class Unhealthy(Exception):
    """Raised by a check; the text is the reason, a sentence without its full stop."""


@define(eq=False)
class Check:
    """One check with its latest result, for all who ask.

    ``run`` raises :exc:`Unhealthy`. It has failed if it takes over ``limit_s``, and is
    started at most once in ``every_s`` (seconds). One is under way at a time.
    """

    name: str
    run: CheckT
    limit_s: float = WAIT_S
    every_s: float = 1.0
    _task: asyncio.Task[None] | None = None
    _started_at: float = float("-inf")
    _reason: str | None = "it has not run yet"

    async def reason(self) -> str | None:
        """Return why the check fails, None if it passes.

        The answer is at most ``every_s`` old, or that of the run before while the next
        one is within its limit.
        """
        now = time.monotonic()
        if self._task is None and now - self._started_at >= self.every_s:
            self._started_at = now
            self._task = asyncio.ensure_future(self._run())
        if self._task is not None:
            wait_s = min(WAIT_S, self._started_at + self.limit_s - now)
            if wait_s > 0:
                await asyncio.wait({self._task}, timeout=wait_s)
        late_s = time.monotonic() - self._started_at
        if self._task is not None and late_s >= self.limit_s:
            return f"no answer for {late_s:.0f} s"
        return self._reason

    async def _run(self) -> None:
        try:
            await self.run()
        except Unhealthy as error:
            self._reason = str(error)
        except Exception as error:
            self._reason = f"the check failed ({type(error).__name__}: {error})"
        else:
            self._reason = None
        finally:
            self._task = None


@frozen
class Report:
    """The result of all checks: by name the reason why one fails, else None."""

    checks: dict[str, str | None] = field(factory=dict)
    is_stopping: bool = False

    @property
    def is_ready(self) -> bool:
        """Return True if requests can be answered."""
        return not self.is_stopping and not any(self.checks.values())

    def members(self) -> dict[str, Any]:
        """Return what HTTP tells of it."""
        if self.is_ready:
            return {"success": True, "status": "ok", "checks": self._told()}
        status = "stopping" if self.is_stopping else "failing"
        reasons = [
            f"{name}: {reason}" for name, reason in self.checks.items() if reason
        ]
        if self.is_stopping:
            reasons.insert(0, "the service is shutting down")
        error = f"The service is not ready ({'; '.join(reasons)})."
        told = {"status": status, "checks": self._told(), "error": error}
        return {"success": False, **told}

    def _told(self) -> dict[str, str]:
        return {name: reason or "ok" for name, reason in self.checks.items()}


class Health:
    """Runs the checks of a process; a flood of reports costs as much as one."""

    def __init__(self, checks: Iterable[Check], is_stopping: Callable[[], bool]):
        self._checks = tuple(checks)
        self._is_stopping = is_stopping

    async def report(self) -> Report:
        """Return the state of every part, after :data:`WAIT_S` at the latest."""
        if self._is_stopping():
            return Report(is_stopping=True)
        reasons = await asyncio.gather(*(check.reason() for check in self._checks))
        names = (check.name for check in self._checks)
        return Report(dict(zip(names, reasons, strict=True)))
