"""Runs a check of a monitor: its targets one after the other, each from its last position.

A check is an operation (:mod:`scraper_service.services.kinds.operations`). The memory of the
operation has the position of each target, and is stored with the pages up to there. So
another process can continue a check after any crash, and no page is reported twice.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceError, ServiceUnavailable
from scraper_service.services.kinds.operations import OperationFailed, Work
from scraper_service.services.monitoring.estimates import estimate
from scraper_service.services.monitoring.searches import MonitoredSearch
from scraper_service.services.monitoring.target_runs import (
    CheckTools,
    RunningCheck,
    TargetProgress,
    target_run,
)
from scraper_service.storage.files.page_sources import drop_sources
from scraper_service.storage.monitors import check_steps, checks
from scraper_service.storage.monitors.check_records import STATES, CheckEnd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.pricing import Prices
    from scraper_service.llm.model import LanguageModel
    from scraper_service.search_engines.searches import Searches
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.kinds.operations import Operation
    from scraper_service.services.monitoring.target_runs import TargetRun
    from scraper_service.storage.database import Database

GONE = "The monitor is gone."


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
            searches=MonitoredSearch(searches, database),
            prices=prices,
            model=model,
            keeps_sources=settings.getbool("KEEP_SOURCES"),
        )
        self._most_s = settings.getint("MONITOR_CHECK_TIMEOUT_S")

    async def __call__(self, operation: Operation) -> None:
        """Run a check from its last stored position to its end."""
        await operation.store(check_steps.begin)
        try:
            plan = await self._database.read(check_steps.read_plan, operation.id)
        except ServiceError as error:
            if isinstance(error, ServiceUnavailable):
                raise
            raise OperationFailed(str(error)) from error
        if plan is None:
            raise OperationFailed(GONE)
        targets, memory = plan.definition.targets, operation.memory
        check = RunningCheck(
            tools=self._tools,
            operation=operation,
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
        plan, operation = check.plan, check.operation
        row = await self._database.read(
            checks.read_check, plan.monitor_id, operation.id
        )
        if row is None:
            raise OperationFailed(GONE)
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
        await operation.store(check_steps.finish, end)
        operation.close(
            status, pages=row.pages, failed=row.counts["error"], credits=end.credits
        )

    async def _drop_sources(self, last_check_id: str | None) -> None:
        """Delete the responses of the last check: those of this one take their place."""
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
