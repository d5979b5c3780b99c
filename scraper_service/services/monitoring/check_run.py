"""Checks of monitors: the schedule that starts them, and their work as jobs."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceError, ServiceUnavailable
from scraper_service.services.model_jobs.running_job import JobRunFailed, Work
from scraper_service.services.monitoring.monitors import estimate
from scraper_service.services.monitoring.target_runs import (
    CheckTools,
    RunningCheck,
    TargetProgress,
    target_run,
)
from scraper_service.shared_objects import Poller
from scraper_service.storage.files.page_sources import drop_sources
from scraper_service.storage.monitors import check_steps, checks, monitors
from scraper_service.storage.monitors.checks import STATES, CheckEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.settings import BaseSettings

    from scraper_service.llm.model import LanguageModel
    from scraper_service.search_engines.web_search import Searches
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.model_jobs.running_job import RunningJob
    from scraper_service.services.monitoring.target_runs import TargetRun
    from scraper_service.storage.accounts.credits import Prices
    from scraper_service.storage.database import Database

logger = logging.getLogger(__name__)

DUE_AT_ONCE = 100  # monitors in one look
LOST_AT_ONCE = 20  # checks
PUT_OFF_S = 3600.0  # of a monitor that cannot be read
CLOCK_STEP_S = 60.0  # back; then the next run times are computed again
GONE = "The monitor is gone."


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


class MonitorCheck(Work):
    """The work of checks, which take their credits themselves."""

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        searches: Searches,
        prices: Prices,
        model: LanguageModel | None,
        settings: BaseSettings,
    ):
        self._database = database
        self._tools = CheckTools(
            database=database,
            runner=runner,
            searches=searches,
            prices=prices,
            model=model,
            keeps_sources=settings.getbool("KEEP_SOURCES"),
        )
        self._most_s = settings.getint("MONITOR_CHECK_TIMEOUT_S")

    async def __call__(self, job: RunningJob) -> None:
        """Run a check from its last stored position to its end."""
        await job.store(check_steps.begin)
        try:
            plan = await self._database.read(check_steps.read_plan, job.id)
        except ServiceError as error:
            if isinstance(error, ServiceUnavailable):
                raise
            raise JobRunFailed(str(error)) from error
        if plan is None:
            raise JobRunFailed(GONE)
        targets, memory = plan.definition.targets, job.memory
        check = RunningCheck(
            tools=self._tools,
            job=job,
            plan=plan,
            until=time.monotonic() + self._most_s - plan.age_s,
            progress={x.id: TargetProgress(**memory.get(x.id, {})) for x in targets},
        )
        runs = [target_run(check, target) for target in targets]
        for run in runs:
            await run.begin()
        for run in runs:
            await run.follow()
        await self._finish(check, runs)

    async def _finish(self, check: RunningCheck, runs: Iterable[TargetRun]) -> None:
        """Store the end of a check."""
        plan, job = check.plan, check.job
        row = await self._database.read(checks.read_check, plan.monitor_id, job.id)
        if row is None:
            raise JobRunFailed(GONE)
        found = check.progress.values()
        status, error = self._outcome(check, row.counts)
        if status != "failed":
            await self._drop_sources(plan.last_check_id)
        price = sum(x.price + x.judge_credits for x in found)
        expected = estimate(
            plan.definition.targets,
            self._tools.prices,
            judge=plan.judge,
            crawled={
                name: each.pages
                for name, each in check.progress.items()
                if each.pages and each.error is None
            },
        )
        changed = sum(row.counts.values()) - row.counts["same"]
        end = CheckEnd(
            status=status,
            error=error,
            results=[run.result() for run in runs],
            price=price,
            credits=price + sum(x.crawl_credits for x in found),
            has_news=changed > sum(x.ignored for x in found),
            estimate=expected.credits,
        )
        await job.store(check_steps.finish, end)
        job.close(
            status, pages=row.pages, failed=row.counts["error"], credits=end.credits
        )

    async def _drop_sources(self, last_check_id: str | None) -> None:
        """Delete the responses of the last check, which this check replaces."""
        if last_check_id is None:
            return
        for step in await self._database.read(check_steps.batches_of, last_check_id):
            while await self._database.write(drop_sources, step):
                pass

    def _outcome(
        self, check: RunningCheck, counts: dict[str, int]
    ) -> tuple[str, str | None]:
        """Return the final state of a check, and its error."""
        found = check.progress.values()
        causes = [each.error for each in found if each.error is not None]
        if any(each.is_late for each in found):
            causes.append(
                f"The check took longer than {self._most_s} s, and was ended."
            )
        good = sum(counts[state] for state in STATES if state != "error")
        if not causes and not counts["error"]:
            return "completed", None
        is_searched = any(x.search and x.error is None for x in found)
        if good or is_searched:
            return "partial", " ".join(dict.fromkeys(causes)) or None
        causes = causes or ["No page could be fetched."]
        return "failed", " ".join(dict.fromkeys(causes))
