"""The targets of a running check: one class for each kind, with the same methods."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, evolve, field, frozen

from scraper_service.content.formats.change_tracking import (
    ComparedPage,
    compare_monitored,
    final_urls,
)
from scraper_service.errors import (
    ConverterDied,
    QueueFull,
    ServiceError,
    ServiceUnavailable,
    plural,
)
from scraper_service.llm.model import LanguageModel
from scraper_service.options.limits import under_policy
from scraper_service.options.monitors import CrawlTarget, ScrapeTarget, SearchTarget
from scraper_service.search_engines.web_search import Searches
from scraper_service.services.job_runner import JobRunner
from scraper_service.services.model_jobs.running_job import RunLost, RunningJob
from scraper_service.services.monitoring.judge import PRICE, ChangeJudge
from scraper_service.services.monitoring.monitors import search_price
from scraper_service.services.monitoring.searches import search_target
from scraper_service.storage.accounts.credits import Prices
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import JobState, PageRow
from scraper_service.storage.jobs.jobs import Jobs
from scraper_service.storage.jobs.model_jobs import step_id
from scraper_service.storage.monitors import check_steps, snapshots
from scraper_service.storage.monitors.checks import CheckedPages, CheckPlan
from scraper_service.storage.monitors.snapshots import PageSnapshot, url_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.options.monitors import TargetT
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.model_jobs import Entry


UNSURE = "The check did not find {}, but a failure may have hidden what is still there."
ROWS = 100  # of pages without a comparison, in one transaction
NO_CREDITS = "The credits of the team do not suffice for a page of the crawl."
GONE = "The job of the target is gone."
COMPARE_S = 60.0  # of pages together; one comparison has a limit of its own
BROKEN = (ConverterDied, MemoryError, TimeoutError)
NOT_COMPARED = "The page could not be compared ({})."

logger = logging.getLogger(__name__)


@define
class TargetProgress:
    """The position of one target, stored in the memory of the job."""

    #: Pages of its job that were compared.
    skip: int = 0
    #: Pages that could not be fetched and were added.
    failures: int = 0
    is_done: bool = False
    #: Why the target failed.
    error: str | None = None
    warning: str | None = None
    #: True if the time of the check was over.
    is_late: bool = False
    #: Credits of its pages or searches, which the check charges.
    price: int = 0
    #: Credits of its crawl, which charges itself.
    crawl_credits: int = 0
    #: Credits of judgments.
    judge_credits: int = 0
    #: Changes that were judged not meaningful.
    ignored: int = 0
    degraded: str | None = None
    #: Facts of a search.
    search: dict[str, Any] = field(factory=dict)
    #: Pages that its crawl delivered.
    pages: int = 0


@frozen(kw_only=True)
class CheckTools:
    """What a check works with."""

    database: Database
    runner: JobRunner
    searches: Searches
    prices: Prices
    model: LanguageModel | None
    keeps_sources: bool


@frozen(kw_only=True)
class RunningCheck:
    """A check while this process works on it."""

    tools: CheckTools
    job: RunningJob
    plan: CheckPlan
    #: When its time is over (:func:`time.monotonic`).
    until: float
    #: The positions, by id of target.
    progress: Mapping[str, TargetProgress]

    async def store(self, pages: CheckedPages) -> None:
        """Store pages, and the positions of all targets behind them."""
        memory = self.job.memory
        memory |= {name: asdict(each) for name, each in self.progress.items()}
        await self.job.store(check_steps.add_pages, json.dumps(memory), pages)


class TargetRun:
    """Works on one target of a check: :meth:`begin`, then :meth:`follow`."""

    def __init__(self, check: RunningCheck, target: Any):
        self._check, self._target = check, target
        self._tools, self._running_job = check.tools, check.job
        self._plan = check.plan
        self._progress = check.progress[target.id]

    async def begin(self) -> None:
        """Start what works beside the check, unless it runs already."""

    async def follow(self) -> None:
        """Work on the target until it has ended or the time is over."""
        raise NotImplementedError

    def result(self) -> dict[str, Any]:
        """Return the result of the target as JSON values."""
        progress = self._progress
        return {
            "target_id": self._target.id,
            "type": self._target.type,
            "error": progress.error,
            "warning": progress.warning,
            "degraded": progress.degraded,
        }

    async def end(self, error: str | None) -> None:
        """Store that the target has ended, and why it failed."""
        self._progress.error, self._progress.is_done = error, True
        await self._store()

    def _judge(self) -> ChangeJudge:
        plan = self._plan
        return ChangeJudge(
            model=self._tools.model if plan.judge else None,
            goal=plan.goal,
            account=plan.key_id or plan.team_id,
            job_id=self._running_job.id,
            until=self._check.until,
            failure=self._progress.degraded,
        )

    def _note(self, judge: ChangeJudge) -> None:
        self._progress.judge_credits += PRICE * judge.judged
        self._progress.degraded = judge.failure

    async def _read_snapshots(self, keys: Sequence[str]) -> dict[str, PageSnapshot]:
        """Return the last snapshots of pages, by their keys."""
        return await self._tools.database.read(
            snapshots.read_snapshots, self._plan.monitor_id, self._target.id, keys
        )

    async def _store(self, **pages: Any) -> None:
        await self._check.store(CheckedPages(target_id=self._target.id, **pages))


class PageTargetRun(TargetRun):
    """Works on a target whose pages a job fetches."""

    def __init__(self, check: RunningCheck, target: Any):
        super().__init__(check, target)
        self._step = step_id(self._running_job.id, target.id)
        last = self._plan.last_check_id
        #: The job of the target in the last check, whose unchanged pages count.
        self._base = None if last is None else step_id(last, target.id)

    async def begin(self) -> None:
        if self._progress.is_done:
            return
        job, target_id = self._running_job, self._target.id
        if target_id not in job.memory.get("steps", []):
            # Stored first: who deletes the monitor has to find the job.
            steps = [*job.memory.get("steps", []), target_id]
            await job.remember(steps=steps)
        try:
            await self._begin()
        except (QueueFull, RunLost, ServiceUnavailable):
            raise
        except ServiceError as error:
            await self.end(str(error))

    async def _begin(self) -> None:
        """Start the job of the target."""
        raise NotImplementedError

    def _job(self, **changes: Any) -> Any:
        """Return the options of the job, which accept only pages since the last check."""
        options = self._target.job()
        fresh = self._fresh(options.scrape)
        return under_policy(
            evolve(options, scrape=fresh, **changes), self._plan.site_policy
        )

    def _fresh(self, scrape: ScrapeOptions) -> ScrapeOptions:
        if not scrape.max_age_ms or self._plan.last_at is None:
            return scrape
        age_ms = round(1000 * max(0.0, time.time() - self._plan.last_at))
        return evolve(scrape, max_age_ms=min(scrape.max_age_ms, age_ms))

    async def follow(self) -> None:
        """Compare the pages of the target until its job ends or the time is over."""
        progress, jobs = self._progress, Jobs(self._tools.database)
        if progress.is_done:
            return
        job = None
        async for job in self._running_job.looks(self._step, self._check.until):  # noqa: B007  # the last one
            await self._compare_new()
        if job is None:
            await self.end(GONE)
            return
        if job.is_active:
            progress.is_late = True
            await jobs.end(self._step, JobState.CANCELLED)
            await self._tools.runner.cancel(self._step)
        await self._compare_new()
        job = await jobs.get(self._step, None) or job
        await self._add_failures()
        await self._finish(job)
        ended_early = job.state is not JobState.COMPLETED and not progress.is_late
        await self.end(
            (job.error or f"Its pages were {job.state}.") if ended_early else None
        )

    async def _finish(self, job: Job) -> None:
        """Take over what an ended job tells beside its pages."""

    async def _urls(self, entries: list[Entry]) -> list[str]:
        """Return the URLs by which pages are compared with the last check."""
        raise NotImplementedError

    async def _compare_new(self) -> None:
        """Compare the pages of the job that were delivered since the last call."""
        async for entries in self._running_job.entries(self._step, self._progress.skip):
            await self._compare(entries)

    async def _compare(self, entries: list[Entry]) -> None:
        progress, bodies = self._progress, [entry.body for entry in entries]
        urls = await self._urls(entries)
        keys = [url_key(url) for url in urls]
        known = await self._read_snapshots(keys)
        earlier = [known[key].body if key in known else None for key in keys]
        found = await compare_pages(self._running_job, self._target, bodies, earlier)
        judge = self._judge()
        rows, new, kept, dropped, ignored = [], [], [], [], 0
        for url, key, page in zip(urls, keys, found, strict=True):
            former = known.get(key)
            row = _page_row(url, page, former)
            if page.status == "changed":
                judgment = row["judgment"] = await judge.of_change(url, page.excerpt)
                ignored += judgment is not None and not judgment["meaningful"]
            rows.append(PageRow(row, page.diff, page.data))
            if page.body is not None:
                new.append(PageSnapshot(key, url, page.scrape_id, page.body))
            elif page.status == "removed":
                dropped.append(key)
            elif former is not None:
                is_same = page.status == "same"
                kept.append((key, page.scrape_id if is_same else None))
        progress.skip += len(entries)
        progress.ignored += ignored
        if not self._target.charges_itself:
            progress.price += sum(page.credits for page in found)
        self._note(judge)
        await self._store(rows=rows, new=new, kept=kept, dropped=dropped)

    async def _add_failures(self) -> None:
        """Add the pages that could not be fetched. Their snapshots stay."""
        progress = self._progress
        failures = await self._running_job.failures(self._step)
        while some := failures[progress.failures : progress.failures + ROWS]:
            keys = [url_key(failure.url) for failure in some]
            known = await self._read_snapshots(keys)
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
            await self._store(rows=rows, kept=kept)

    def _warn(self, text: str) -> None:
        self._progress.warning = f"{self._progress.warning or ''} {text}".lstrip()


class ScrapeRun(PageTargetRun):
    """Works on a target of fixed URLs: a batch, which the check charges."""

    _target: ScrapeTarget

    async def _begin(self) -> None:
        batch = self._job(keep_sources=self._tools.keeps_sources)
        await self._running_job.begin(self._target.id, batch, self._base)

    async def _urls(self, entries: list[Entry]) -> list[str]:
        return [self._target.urls[entry.number] for entry in entries]


class CrawlRun(PageTargetRun):
    """Works on a target that is crawled: a job of the team, which charges itself."""

    _target: CrawlTarget

    async def _begin(self) -> None:
        options = self._job()
        await self._running_job.store(
            check_steps.add_crawl,
            self._running_job.team_id,
            self._target.id,
            options,
            self._tools.prices.usual(options.scrape),
            self._base,
        )
        self._tools.runner.wake()
        if await Jobs(self._tools.database).get(self._step, None) is None:
            await self.end(NO_CREDITS)

    async def _urls(self, entries: list[Entry]) -> list[str]:
        return await self._running_job.in_pool(
            final_urls, [entry.body for entry in entries]
        )

    async def _finish(self, job: Job) -> None:
        progress = self._progress
        progress.crawl_credits, progress.pages = job.credits, job.pages
        progress.warning = job.warning
        if job.state is JobState.COMPLETED and not job.held:
            await self._add_removed()

    async def _add_removed(self) -> None:
        """Add the pages of earlier checks that this crawl has not found."""
        after: str | None = ""
        unsure = 0
        while after is not None:
            found = await self._tools.database.read(
                snapshots.read_missing,
                self._plan.monitor_id,
                self._target.id,
                self._running_job.id,
                self._target.crawl,
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
                await self._store(rows=rows, dropped=dropped)
        if unsure:
            self._warn(UNSURE.format(plural(unsure, "page")))

    def result(self) -> dict[str, Any]:
        return {**super().result(), "crawl_id": self._step}


class SearchRun(TargetRun):
    """Works on a target that searches, all within :meth:`follow`."""

    _target: SearchTarget

    async def follow(self) -> None:
        progress, judge = self._progress, self._judge()
        if progress.is_done:
            return
        try:
            found = await search_target(
                self._tools.searches,
                self._tools.database,
                self._target,
                self._plan,
                judge,
                self._check.until,
            )
        except (QueueFull, ServiceUnavailable):
            raise
        except ServiceError as error:
            progress.search = {"is_complete": False, "results": 0, "matches": 0}
            await self.end(str(error))
            return
        progress.price = search_price(self._target, self._tools.prices)
        progress.search, progress.warning = found.facts, found.warning
        progress.is_done = True
        self._note(judge)
        await self._check.store(found.pages)

    def result(self) -> dict[str, Any]:
        progress = self._progress
        return {
            **super().result(),
            **progress.search,
            "search_credits": progress.price,
            "judge_credits": progress.judge_credits,
        }


_RUNS: dict[str, type[TargetRun]] = {
    ScrapeTarget.type: ScrapeRun,
    CrawlTarget.type: CrawlRun,
    SearchTarget.type: SearchRun,
}


def target_run(check: RunningCheck, target: TargetT) -> TargetRun:
    """Return what works on a target of a check."""
    return _RUNS[target.type](check, target)


def _page_row(
    url: str, page: ComparedPage, former: PageSnapshot | None
) -> dict[str, Any]:
    """Return a page of a check as JSON values, by the names inside of the service."""
    return {
        "url": url,
        "status": page.status,
        "previous": former and former.scrape_id,
        "current": page.scrape_id,
        "status_code": page.status_code,
        "error": page.error,
        "title": page.title,
        "credits": page.credits,
        "verdict": page.verdict,
    }


async def compare_pages(
    job: RunningJob,
    target: ScrapeTarget | CrawlTarget,
    pages: Sequence[bytes],
    earlier: Sequence[bytes | None],
) -> list[ComparedPage]:
    """Return the pages, compared with the last snapshots of their URLs.

    Pages that together take too much time or memory are compared in halves. A page that
    does so alone is an error.
    """
    try:
        return await job.in_pool(
            compare_monitored,
            list(pages),
            list(earlier),
            target.mode,
            target.compare,
            timeout_s=COMPARE_S,
        )
    except BROKEN as error:
        if len(pages) > 1:
            middle = len(pages) // 2
            first = await compare_pages(job, target, pages[:middle], earlier[:middle])
            rest = await compare_pages(job, target, pages[middle:], earlier[middle:])
            return [*first, *rest]
        logger.warning("a page of check %s was not compared (%r)", job.id, error)
        text = NOT_COMPARED.format(type(error).__name__)
        return [
            ComparedPage(
                status="error", url="", scrape_id=None, status_code=None, error=text
            )
        ]
