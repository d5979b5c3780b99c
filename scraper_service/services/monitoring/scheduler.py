"""Starts the checks of monitors when they are due, together with other processes.

A due monitor is a row whose ``next_at`` is over. The transaction that makes its check
moves that time, under a lock of the row. So each due time makes one check, however many
processes look; and after a downtime one check stands for all times that were missed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import Poller
from scraper_service.storage.monitors import check_steps, checks, monitors

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

DUE_AT_ONCE = 100  # monitors in one look
LOST_AT_ONCE = 20  # checks
PUT_OFF_S = 3600.0  # of a monitor that cannot be read
CLOCK_STEP_S = 60.0  # back; then the next run times are computed again


class MonitorScheduler(Poller):
    """Looks for due monitors.

    ``wake`` is called when there are new checks. ``clock`` returns the time in seconds
    since 1970; None is the clock of the database, which all processes share.
    ``usual_disk_mb`` is the quota in MiB of teams without one of their own, 0 for none.
    """

    failure = "the due monitors could not be started"

    def __init__(
        self,
        database: Database,
        wake: Callable[[], None],
        clock: Callable[[], float] | None = None,
        usual_disk_mb: int = 0,
    ):
        self._database = database
        self._wake = wake
        self._clock = clock
        self._usual_disk_mb = usual_disk_mb
        self._looked_at: float | None = None

    async def do_due(self) -> int:
        """Start the checks that are due, and return their number.

        Also ends checks that were lost with their job.
        """
        at, due = await self._database.read(
            checks.due_monitors,
            None if self._clock is None else self._clock(),
            DUE_AT_ONCE,
        )
        await self._follow_clock(at)
        started = 0
        for monitor_id, team_id in due:
            try:
                found = await self._database.write(
                    checks.start_check,
                    team_id,
                    monitor_id,
                    "scheduled",
                    at,
                    usual_disk_mb=self._usual_disk_mb,
                )
            except ServiceUnavailable:
                raise
            except Exception:
                # Unreadable secrets, a time zone that is gone: it must not stop the others.
                logger.exception("monitor %s could not be checked", monitor_id)
                await self._database.write(
                    checks.put_off, team_id, monitor_id, at + PUT_OFF_S
                )
                continue
            started += found is not None
        if started:
            self._wake()
        for check_id in await self._database.read(
            check_steps.lost_checks, LOST_AT_ONCE
        ):
            try:
                await self._database.write(check_steps.settle_lost, check_id)
            except ServiceUnavailable:
                raise
            except Exception:
                logger.exception("check %s could not be ended", check_id)
        return started

    async def _follow_clock(self, at: float) -> None:
        """Compute the next run times again after a step of the clock back.

        They were computed by a clock that was ahead, so they may lie far in the future.
        """
        before, self._looked_at = self._looked_at, at
        if before is None or at > before - CLOCK_STEP_S:
            return
        logger.warning("the clock went back by %.0f s", before - at)
        waiting = await self._database.read(monitors.waiting_monitors, at)
        for first in range(0, len(waiting), DUE_AT_ONCE):
            await self._database.write(
                monitors.set_next_runs,
                at,
                waiting[first : first + DUE_AT_ONCE],
            )
