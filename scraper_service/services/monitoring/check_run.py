"""Runs a check of a monitor: its targets one after the other, each from its last position.

A check is an operation (:mod:`scraper_service.services.operations.operations`). The memory of the
operation has the position of each target, and is stored with the pages up to there. So
another process can continue a check after any crash, and no page is reported twice.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.change_tracking.monitored_pages import final_urls
from scraper_service.errors import QueueFull, ServiceError, ServiceUnavailable, counted
from scraper_service.options.crawl import BatchOptions
from scraper_service.options.monitors.targets import CrawlTarget, ScrapeTarget
from scraper_service.options.site_policy import under_policy
from scraper_service.services.monitoring.compared_pages import compared
from scraper_service.services.monitoring.estimates import estimate, search_price
from scraper_service.services.monitoring.judge import PRICE, ChangeJudge
from scraper_service.services.monitoring.progress import TargetProgress, page_row
from scraper_service.services.monitoring.searches import MonitoredSearch
from scraper_service.services.operations.operations import ClaimLost, OperationFailed
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs.jobs import Jobs
from scraper_service.storage.jobs.operations import step_id
from scraper_service.storage.monitors import (
    check_steps,
    checks,
    missing_pages,
    snapshots,
)
from scraper_service.storage.monitors.check_records import (
    STATES,
    CheckedPages,
    CheckEnd,
    PageRow,
)
from scraper_service.storage.monitors.snapshots import PageSnapshot, url_key
from scraper_service.storage.pages.page_sources import drop_sources

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.crawling.pricing import Prices
    from scraper_service.llm.model import LanguageModel
    from scraper_service.options.monitors.targets import TargetT
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.search_engines.searches import Searches
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.operations.operations import Operation
    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.operations import Entry
    from scraper_service.storage.monitors.check_records import CheckPlan

UNSURE = "The check did not find {}, but a failure may have hidden what is still there."
BARE = (
    "Of {} nothing is compared: includeSelectors of compare match nothing there, or"
    " excludeSelectors leave nothing."
)
ROWS = 100  # of pages without a comparison, in one transaction
NO_CREDITS = "The credits of the team do not suffice for a page of the crawl."
GONE = "The job of the target is gone."


class MonitorCheck:
    """The work of checks, see :class:`scraper_service.services.operations.operations.Work`."""

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        pool: ConverterPool,
        searches: Searches,
        prices: Prices,
        model: LanguageModel | None,
        settings: BaseSettings,
    ):
        self._database = database
        self._runner = runner
        self._pool = pool
        self._searches = MonitoredSearch(searches, database)
        self._prices = prices
        self._model = model
        self.keeps_sources = settings.getbool("KEEP_SOURCES")
        self._most_s = settings.getint("MONITOR_CHECK_TIMEOUT_S")

    def pages(self, options: Any) -> int:
        """Return 0: a check takes its credits itself."""
        return 0

    def price(self, options: Any) -> int:
        """Return 0: a check takes its credits itself."""
        return 0

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
            raise OperationFailed("The monitor is gone.")
        until = time.monotonic() + self._most_s - plan.age_s
        run = _Run(self, operation, plan, until)
        for target in plan.definition.targets:
            await run.begin(target)
        for target in plan.definition.targets:
            await run.follow(target)
        await run.finish()


class _Run:
    """One check while this process works on it."""

    def __init__(
        self, work: MonitorCheck, operation: Operation, plan: CheckPlan, until: float
    ):
        self._work = work
        self._operation = operation
        self._plan = plan
        self._until = until
        memory = operation.memory
        self._progress = {
            each.id: TargetProgress(**memory.get(each.id, {}))
            for each in plan.definition.targets
        }

    # -- start -----------------------------------------------------------------------

    async def begin(self, target: TargetT) -> None:
        """Start the job of a target, unless it runs already."""
        progress, operation = self._progress[target.id], self._operation
        if progress.is_done or not isinstance(target, ScrapeTarget | CrawlTarget):
            return
        if target.id not in operation.memory.get("steps", []):
            # Stored first: who deletes the monitor has to find the job.
            steps = [*operation.memory.get("steps", []), target.id]
            await operation.remember(steps=steps)
        try:
            if isinstance(target, ScrapeTarget):
                scrape = self._fresh(target.scrape)
                batch = BatchOptions(
                    urls=target.urls,
                    scrape=scrape,
                    max_concurrency=None,
                    webhook=None,
                    keep_sources=self._work.keeps_sources,
                )
                batch = under_policy(batch, self._plan.site_policy)
                await operation.begin(target.id, batch, self._base_of(target))
            else:
                options = evolve(target.crawl, scrape=self._fresh(target.crawl.scrape))
                await self._begin_crawl(
                    target, under_policy(options, self._plan.site_policy)
                )
        except (ClaimLost, QueueFull, ServiceUnavailable):
            raise
        except ServiceError as error:
            await self._end_target(target, error=str(error))

    async def _begin_crawl(self, target: CrawlTarget, options: Any) -> None:
        operation = self._operation
        price = self._work._prices.usual(options.scrape)
        base_id, team_id = self._base_of(target), operation.team_id
        await operation.store(
            check_steps.add_crawl, team_id, target.id, options, price, base_id
        )
        self._work._runner.wake()
        crawl = await Jobs(self._work._database).get(
            step_id(operation.id, target.id), None
        )
        if crawl is None:
            await self._end_target(target, error=NO_CREDITS)

    def _base_of(self, target: TargetT) -> str | None:
        """Return the job of a target in the last check, whose unchanged pages count."""
        last = self._plan.last_check_id
        return None if last is None else step_id(last, target.id)

    def _fresh(self, scrape: ScrapeOptions) -> ScrapeOptions:
        """Return options that accept only pages stored since the last check."""
        if not scrape.max_age_ms or self._plan.last_at is None:
            return scrape
        age_ms = round(1000 * max(0.0, time.time() - self._plan.last_at))
        return evolve(scrape, max_age_ms=min(scrape.max_age_ms, age_ms))

    # -- pages -----------------------------------------------------------------------

    async def follow(self, target: TargetT) -> None:
        """Compare the pages of a target until its job ends or the time is over."""
        if self._progress[target.id].is_done:
            return
        if not isinstance(target, ScrapeTarget | CrawlTarget):
            await self._search(target)
            return
        operation, database = self._operation, self._work._database
        step = step_id(operation.id, target.id)
        job = None
        async for job in operation.looks(step, self._until):  # noqa: B007  # the last one
            await self._compare_new(target, step)
        if job is None:
            await self._end_target(target, error=GONE)
            return
        if job.is_active:
            self._progress[target.id].is_late = True
            await Jobs(database).end(step, JobState.CANCELLED)
            await self._work._runner.cancel(step)
        await self._compare_new(target, step)
        job = await Jobs(database).get(step, None) or job
        await self._add_failures(target, step)
        ended_early = job.state is not JobState.COMPLETED
        progress = self._progress[target.id]
        error = (job.error or f"Its pages were {job.state}.") if ended_early else None
        if isinstance(target, CrawlTarget):
            progress.crawl_credits, progress.pages = job.credits, job.pages
            progress.warning = job.warning
            if not ended_early and not job.held:
                await self._add_removed(target)
        if progress.bare:
            self._warn(target, BARE.format(counted(progress.bare, "page")))
        await self._end_target(target, error=None if progress.is_late else error)

    async def _compare_new(self, target: ScrapeTarget | CrawlTarget, step: str) -> None:
        """Compare the pages of a job that were delivered since the last call."""
        async for entries in self._operation.entries(
            step, self._progress[target.id].skip
        ):
            await self._compare(target, entries)

    async def _compare(
        self, target: ScrapeTarget | CrawlTarget, entries: list[Entry]
    ) -> None:
        pool, operation = self._work._pool, self._operation
        bodies = [entry.body for entry in entries]
        own: dict[str, Any] = {"team_id": operation.team_id, "job_id": operation.id}
        if isinstance(target, ScrapeTarget):
            urls = [target.urls[entry.number] for entry in entries]
        else:
            urls = await pool.run(final_urls, bodies, **own)
        keys = [url_key(url) for url in urls]
        known = await self._work._database.read(
            snapshots.read_snapshots, self._plan.monitor_id, target.id, keys
        )
        earlier = [known[key].body if key in known else None for key in keys]
        found = await compared(pool, operation, target, bodies, earlier)
        judge = self._judge(target)
        rows, new, kept, dropped, ignored = [], [], [], [], 0
        for url, key, page in zip(urls, keys, found, strict=True):
            former = known.get(key)
            row = page_row(url, page, former)
            if page.status == "changed":
                judgment = row["judgment"] = await judge.of_change(url, page.told)
                ignored += judgment is not None and not judgment["meaningful"]
            rows.append(PageRow(row, page.diff, page.data))
            if page.body is not None:
                new.append(PageSnapshot(key, url, page.scrape_id, page.body))
            elif page.status == "removed":
                dropped.append(key)
            elif former is not None:
                is_same = page.status == "same"
                kept.append((key, page.scrape_id if is_same else None))
        progress = self._progress[target.id]
        progress.skip += len(entries)
        progress.ignored += ignored
        progress.bare += sum(page.is_bare for page in found)
        if isinstance(target, ScrapeTarget):
            progress.price += sum(page.credits for page in found)
        self._note(progress, judge)
        await self._store(
            CheckedPages(
                target_id=target.id, rows=rows, new=new, kept=kept, dropped=dropped
            )
        )

    async def _add_failures(
        self, target: ScrapeTarget | CrawlTarget, step: str
    ) -> None:
        """Add the pages that could not be fetched. Their snapshots stay."""
        progress = self._progress[target.id]
        failures = await self._operation.failures(step)
        while some := failures[progress.failures : progress.failures + ROWS]:
            keys = [url_key(failure.url) for failure in some]
            known = await self._work._database.read(
                snapshots.read_snapshots, self._plan.monitor_id, target.id, keys
            )
            rows, kept = [], []
            for failure, key in zip(some, keys, strict=True):
                former = known.get(key)
                facts = {
                    "url": failure.url,
                    "status": "error",
                    "previous": former and former.scrape_id,
                    "error": failure.error or "The page could not be fetched.",
                }
                rows.append(PageRow(facts))
                if former is not None:
                    kept.append((key, None))
            progress.failures += len(some)
            await self._store(CheckedPages(target_id=target.id, rows=rows, kept=kept))

    async def _add_removed(self, target: CrawlTarget) -> None:
        """Add the pages of earlier checks that this crawl has not found."""
        after: str | None = ""
        unsure = 0
        while after is not None:
            found = await self._work._database.read(
                missing_pages.read_missing,
                self._plan.monitor_id,
                target.id,
                self._operation.id,
                target.crawl,
                after,
                ROWS,
            )
            after, unsure = found.last, unsure + found.unsure
            rows = [
                PageRow({"url": x.url, "status": "removed", "previous": x.scrape_id})
                for x in found.removed
            ]
            if rows:
                dropped = [x.key for x in found.removed]
                await self._store(
                    CheckedPages(target_id=target.id, rows=rows, dropped=dropped)
                )
        if unsure:
            self._warn(target, UNSURE.format(counted(unsure, "page")))

    def _warn(self, target: TargetT, text: str) -> None:
        progress = self._progress[target.id]
        progress.warning = f"{progress.warning or ''} {text}".lstrip()

    async def _search(self, target: Any) -> None:
        judge = self._judge(target)
        progress = self._progress[target.id]
        try:
            found = await self._work._searches.run(
                target, self._plan, self._operation.id, judge, self._until
            )
        except (QueueFull, ServiceUnavailable):
            raise
        except ServiceError as error:
            progress.search = {"is_complete": False, "results": 0, "matches": 0}
            await self._end_target(target, error=str(error))
            return
        progress.price = search_price(target, self._work._prices)
        progress.search, progress.warning = found.facts, found.warning
        progress.is_done = True
        self._note(progress, judge)
        await self._store(found.pages)

    def _judge(self, target: TargetT) -> ChangeJudge:
        plan, operation = self._plan, self._operation
        return ChangeJudge(
            model=self._work._model if plan.judge else None,
            goal=plan.goal,
            account=plan.key_id or plan.team_id,
            job_id=operation.id,
            until=self._until,
            failure=self._progress[target.id].degraded,
        )

    def _note(self, progress: TargetProgress, judge: ChangeJudge) -> None:
        progress.judge_credits += PRICE * judge.judged
        progress.degraded = judge.failure

    async def _end_target(self, target: TargetT, error: str | None) -> None:
        progress = self._progress[target.id]
        progress.error, progress.is_done = error, True
        await self._store(CheckedPages(target_id=target.id))

    async def _store(self, pages: CheckedPages) -> None:
        """Store pages, and the positions of all targets behind them."""
        memory = self._operation.memory
        for target_id, progress in self._progress.items():
            memory[target_id] = progress.as_json()
        await self._operation.store(check_steps.add_pages, json.dumps(memory), pages)

    # -- end -------------------------------------------------------------------------

    async def finish(self) -> None:
        """Store the end of the check."""
        plan, prices = self._plan, self._work._prices
        targets = plan.definition.targets
        check = await self._work._database.read(
            checks.read_check, plan.monitor_id, self._operation.id
        )
        if check is None:
            raise OperationFailed("The monitor is gone.")
        status, error = self._outcome(check.counts)
        crawled = {
            target_id: each.pages
            for target_id, each in self._progress.items()
            if each.pages and each.error is None
        }
        if status != "failed":
            await self._drop_sources()
        price = sum(x.price + x.judge_credits for x in self._progress.values())
        crawl_credits = sum(x.crawl_credits for x in self._progress.values())
        end = CheckEnd(
            status=status,
            error=error,
            results=[self._result(each) for each in targets],
            price=price,
            credits=price + crawl_credits,
            has_news=self._has_news(check.counts),
            estimate=estimate(
                targets, prices, judge=plan.judge, crawled=crawled
            ).credits,
        )
        await self._operation.store(check_steps.finish, end)
        failed = check.counts["error"]
        self._operation.close(
            status, pages=check.pages, failed=failed, credits=end.credits
        )

    async def _drop_sources(self) -> None:
        """Delete the responses of the last check: those of this one take their place."""
        database, last = self._work._database, self._plan.last_check_id
        if last is None:
            return
        for step in await database.read(check_steps.batches_of, last):
            while await database.write(drop_sources, step):
                pass

    def _has_news(self, counts: dict[str, int]) -> bool:
        ignored = sum(each.ignored for each in self._progress.values())
        return sum(counts.values()) - counts["same"] > ignored

    def _outcome(self, counts: dict[str, int]) -> tuple[str, str | None]:
        """Return the final state of the check, and its error."""
        found = self._progress.values()
        causes = [each.error for each in found if each.error is not None]
        if any(each.is_late for each in found):
            causes.append(
                f"The check took longer than {self._work._most_s} s, and was ended."
            )
        good = sum(counts[state] for state in STATES if state != "error")
        if not causes and not counts["error"]:
            return "completed", None
        is_searched = any(x.search and x.error is None for x in found)
        if good or is_searched:
            return "partial", " ".join(dict.fromkeys(causes)) or None
        causes = causes or ["No page could be fetched."]
        return "failed", " ".join(dict.fromkeys(causes))

    def _result(self, target: TargetT) -> dict[str, Any]:
        progress = self._progress[target.id]
        found: dict[str, Any] = {
            "target_id": target.id,
            "type": target.type,
            "error": progress.error,
            "warning": progress.warning,
            "degraded": progress.degraded,
        }
        if isinstance(target, CrawlTarget):
            found["crawl_id"] = step_id(self._operation.id, target.id)
        elif not isinstance(target, ScrapeTarget):
            found |= {
                **progress.search,
                "search_credits": progress.price,
                "judge_credits": progress.judge_credits,
            }
        return found
