"""Jobs of a team: start, status, cancel, report; the list of all jobs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from scrapy.settings import BaseSettings

from scraper_service.crawling import observability
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.crawling.politeness.shared_limit import TeamPermits
from scraper_service.errors import (
    IdempotencyKeyUsed,
    InvalidOptions,
    InvalidParameter,
    Issue,
    JobEnded,
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    ServiceUnavailable,
)
from scraper_service.options.jobs import (
    AgentOptions,
    BatchOptions,
    CrawlOptions,
    fetching_all,
    options_from_json,
)
from scraper_service.options.limits import Retention, under_policy
from scraper_service.options.parsing import MAX_ISSUES, short
from scraper_service.services.accounts import DiskQuota, existing
from scraper_service.services.crawl_preview import explain
from scraper_service.services.observability.tracing import note_job
from scraper_service.services.upkeep import expire
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import admission, earlier_pages, model_jobs
from scraper_service.storage.jobs.job_urls import JobReport, read_report
from scraper_service.storage.jobs.jobs import Jobs
from scraper_service.storage.webhooks import WebhookOutbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scraper_service.crawling.robots import RobotsPolicy
    from scraper_service.discovery.crawl_prompt import PromptOptions
    from scraper_service.options.jobs import (
        ChangeRequest,
        ModelJobOptionsT,
        ReprocessRequest,
        RetryRequest,
    )
    from scraper_service.services.accounts import Team
    from scraper_service.services.capabilities import Availability
    from scraper_service.services.crawl_preview import CheckT, Explanation, Previews
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.model_jobs.running_job import Work
    from scraper_service.services.webhooks import Webhooks
    from scraper_service.storage.accounts.credits import Prices
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import (
        Delivery,
        DeliveryState,
        Job,
        PageErrorRow,
    )
    from scraper_service.storage.jobs.earlier_pages import RemovedUrls
    from scraper_service.storage.jobs.job_control import ChangedJob, RetriedJob
    from scraper_service.storage.jobs.job_history import (
        HistoryQuery,
        JobDetails,
        JobSummary,
    )
    from scraper_service.storage.jobs.job_urls import Listing, UrlQuery
    from scraper_service.storage.jobs.model_jobs import ModelJobRow
    from scraper_service.storage.transactions import ListPosition


AGENT_CREDITS = 5  # that a team must have, unless the caller set fewer: one page
NO_SOURCES = "keepSources must be false or left out with zeroDataRetention, got true"


@frozen
class CrawlReport:
    """The report of a job of this service."""

    facts: JobReport
    #: The present pace of requests, for all jobs of this process.
    pace: HostPace
    settings: BaseSettings


class TeamJobs:
    """Jobs of a team: crawls and batches, and model jobs.

    Methods with a job id raise :exc:`~scraper_service.errors.JobNotFound` for a job of
    another team or an expired job. ``kinds`` has the kinds of model jobs.
    """

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        webhooks: Webhooks,
        previews: Previews,
        robots: RobotsPolicy,
        prices: Prices,
        availability: Availability,
        kinds: Mapping[str, Work],
    ):
        self._database = database
        self._jobs = Jobs(database)
        self._outbox = WebhookOutbox(database)
        self._runner = runner
        self._webhooks = webhooks
        self._previews = previews
        self._robots = robots
        self._prices = prices
        self._availability = availability
        self._kinds = kinds
        self._tasks = BackgroundTasks()
        self._has_deleted = False  # since the rows of deleted jobs were looked for
        self._is_deleting = False
        self._permits = TeamPermits.shared()
        self._most_jobs = runner.settings.getint("MAX_ACTIVE_JOBS")
        self._retention = Retention.of(runner.settings)
        self._disk = DiskQuota(database, runner.settings.getint("TEAM_DISK_MB"))
        self._webhook_url: str | None = runner.settings["WEBHOOK_URL"] or None
        #: The name of the language model, None without a model.
        self.model_name: str | None = runner.settings["LLM_MODEL"] or None

    async def start(
        self,
        options: CrawlOptions | BatchOptions | ModelJobOptionsT,
        team: Team,
        version: int,
        idempotency_key: str | None = None,
        least_pages: int = 1,
    ) -> Job:
        """Store a job of any kind and wake the runner. The job is on disk when this returns.

        ``least_pages`` is the number of pages that the team's credits must cover.
        Raises :exc:`OptionUnavailable`, :exc:`IdempotencyKeyUsed`,
        :exc:`~scraper_service.errors.OutOfCredits` and
        :exc:`~scraper_service.errors.QueueFull`.
        """
        options = under_policy(options, team.site_policy)
        self._availability.check_open()
        self._availability.require_job(options)
        if isinstance(options, CrawlOptions) and options.since is not None:
            options = fetching_all(options)
        pages = 0
        if not isinstance(options, CrawlOptions | BatchOptions):
            pages = self._kinds[options.kind].pages(options)
        if isinstance(options, AgentOptions):
            least_pages = min(pages, AGENT_CREDITS)
        terms = self._terms(options, team, least_pages)
        job = await self._jobs.create(terms, options, version, idempotency_key, pages)
        note_job(job.id)
        self._permits.limit_to(team.id, team.concurrency)
        self._runner.wake()
        return job

    def _terms(
        self,
        options: CrawlOptions | BatchOptions | ModelJobOptionsT,
        team: Team,
        least_pages: int = 1,
    ) -> admission.Terms:
        is_zero = options.scrape.zero_data_retention
        retention_s = self._retention.seconds(options.retention_days, is_zero=is_zero)
        if not isinstance(options, CrawlOptions | BatchOptions):
            price = self._kinds[options.kind].price(options)
        elif is_zero and options.keep_sources:
            raise OptionUnavailable("keep_sources", NO_SOURCES)
        else:
            price = self._prices.usual(options.scrape)
        return admission.Terms(
            team_id=team.id,
            key_id=team.key_id,
            page_price=None if team.is_unlimited else price,
            least_pages=least_pages,
            most_jobs=self._most_jobs,
            webhook_url=self._webhook_url,
            retention_s=retention_s,
            disk_bytes=self._disk.limit(team),
            actor=team.actor,
        )

    async def check_key(self, idempotency_key: str | None, team: Team) -> None:
        """Raise :exc:`IdempotencyKeyUsed` if the team has used this key before."""
        if idempotency_key is None:
            return
        if await self._jobs.is_key_used(team.id, idempotency_key):
            raise IdempotencyKeyUsed("Idempotency key already used")

    async def add_to_batch(
        self,
        job_id: str,
        options: BatchOptions,
        team: Team,
        idempotency_key: str | None = None,
    ) -> Job:
        """Add entries with their own options to a batch. A completed batch continues.

        Raises :exc:`JobNotFound` if the team has no such batch,
        :exc:`~scraper_service.errors.JobEnded` for a cancelled or failed batch, and
        the errors of :meth:`start`.
        """
        options = under_policy(options, team.site_policy)
        self._availability.check_open()
        self._availability.require_job(options)
        terms = self._terms(options, team)
        job = await self._jobs.add_entries(job_id, terms, options, idempotency_key)
        self._runner.wake()
        return job

    async def preview(
        self, url: str, prompt: str, team: Team, check: CheckT
    ) -> PromptOptions:
        """Return the options of a crawl that a prompt asks for, without a crawl.

        ``check`` raises :exc:`~scraper_service.errors.InvalidOptions` for values that
        the API does not accept.
        """
        self._availability.check_open()
        return await self._previews.derive(url, prompt, team, check)

    async def explain(
        self, options: CrawlOptions, urls: Sequence[str], depth: int
    ) -> list[Explanation]:
        """Return for each URL whether a crawl would fetch it; see :func:`explain`."""
        self._availability.require_job(options)
        return await explain(options, urls, depth, self._robots)

    async def status(
        self, job_id: str, team: Team, skip: int, limit: int | None
    ) -> tuple[Job, list[bytes]]:
        """Return a job and some of its pages as JSON, as one snapshot."""
        return existing(await self._jobs.get_with_pages(job_id, team.id, skip, limit))

    async def cancel(self, job_id: str, team: Team) -> Job:
        """Cancel a job. Cancelling it again changes nothing.

        Raises :exc:`JobEnded` for a completed or failed job.
        """
        job = await self._job(job_id, team)
        if job.is_active:
            await self._jobs.end(job_id, JobState.CANCELLED, actor=team.actor)
            await self._runner.cancel(job_id)
            job = await self._job(job_id, team)
            observability.log_end(job)
        if job.state is not JobState.CANCELLED:
            raise JobEnded(job.kind, job.state)
        return job

    async def change(
        self, job_id: str, team: Team, request: ChangeRequest
    ) -> ChangedJob:
        """Pause, resume or change a job. The change is on disk when this returns.

        Running pages of a paused job are delivered, and no further page starts. Other
        processes notice the change within seconds. A finished job takes another retention
        only. Raises
        :exc:`~scraper_service.errors.JobFinished`,
        :exc:`~scraper_service.errors.OptionUnavailable` for an option that this kind of
        job does not have, :exc:`~scraper_service.errors.OutOfCredits`, and
        :exc:`~scraper_service.errors.DiskQuotaExceeded` for a job that would go on.
        """
        if (days := request.options.get("retention_days")) is not None:
            self._retention.seconds(days)  # raises if it is too long
        job = await self._job(job_id, team)
        if not job.is_active and not request.fits_finished:
            raise JobFinished(job.kind, job.state)
        if request.paused is False and job.paused_at is not None:
            await self._disk.require(team)
        # A client that goes away must not end it halfway.
        return await asyncio.shield(
            self._tasks.spawn(self._change(job_id, team, request))
        )

    async def _change(
        self, job_id: str, team: Team, request: ChangeRequest
    ) -> ChangedJob:
        await self._runner.hold(job_id)
        try:
            changed = await self._jobs.change(job_id, team.id, request, team.actor)
        finally:
            await self._runner.refresh(job_id)
        if request.paused is not None:
            what = "paused" if request.paused else "resumed"
            facts = observability.with_facts(
                job=job_id, event=what, **observability.counts_of(changed.job)
            )
            observability.job_logger.info("job %s is %s", job_id, what, extra=facts)
        return changed

    async def retry(
        self,
        job_id: str,
        team: Team,
        request: RetryRequest,
        idempotency_key: str | None = None,
    ) -> RetriedJob:
        """Fetch failed pages of a job again. A completed job continues.

        Raises the errors of :meth:`Jobs.retry`, and :exc:`OptionUnavailable`.
        """
        self._availability.check_open()
        job = await self._job(job_id, team)
        options: Any = options_from_json(job.kind, json.loads(job.options))
        options = evolve(options, scrape=evolve(options.scrape, **request.scrape))
        self._availability.require_job(options)
        terms = self._terms(options, team)
        retried = await self._jobs.retry(job_id, terms, request, idempotency_key)
        self._runner.wake()
        return retried

    async def reprocess(
        self,
        job_id: str,
        team: Team,
        request: ReprocessRequest,
        version: int,
        idempotency_key: str | None = None,
    ) -> Job:
        """Start a job of the same kind that makes other formats of a job's stored responses.

        Raises :exc:`JobNotFound`, :exc:`~scraper_service.errors.SourceJobRunning`,
        :exc:`~scraper_service.errors.SourcesNotStored`,
        :exc:`~scraper_service.errors.InvalidOptions` for a URL without a page, and the
        errors of :meth:`start`.
        """
        self._availability.check_open()
        job = await self._job(job_id, team)
        known: Any = options_from_json(job.kind, json.loads(job.options))
        options = request.options(known)
        self._availability.require_job(options)
        terms = self._terms(options, team)
        if terms.page_price is not None:
            price = self._prices.without_fetch(terms.page_price)
            terms = evolve(terms, page_price=price)
        numbers = None
        if request.urls:
            numbers, missing = await self._jobs.pages_of_urls(
                job_id, team.id, request.urls
            )
            if missing:
                raise InvalidOptions(list(_without_page(request.urls, missing)))
        found = await self._jobs.create_of_sources(
            job_id, terms, options, version, numbers, idempotency_key
        )
        note_job(found.id)
        self._permits.limit_to(team.id, team.concurrency)
        self._runner.wake()
        # A client that goes away must not end it halfway; a lost database does not undo it.
        await asyncio.shield(self._tasks.spawn(self._copy_rows(found.id)))
        return found

    async def _copy_rows(self, job_id: str) -> None:
        with contextlib.suppress(ServiceUnavailable):  # claims of the job go on
            await self._jobs.copy_rows(job_id)

    async def errors(
        self,
        job_id: str,
        team: Team,
        shape: Callable[[list[PageErrorRow], list[str]], bytes],
    ) -> bytes:
        """Return the result of ``shape`` for a job's failed pages and refused URLs.

        Refused URLs are those that robots.txt disallows. ``shape`` runs in a reader
        thread, since the lists may be long.
        """
        await self._job(job_id, team)
        return await self._jobs.errors(job_id, shape)

    async def urls(self, job_id: str, team: Team, query: UrlQuery) -> Listing:
        """Return URLs of a job with their states, and the cursor of the next part."""
        await self._job(job_id, team)
        return await self._jobs.urls(job_id, query)

    async def read_removed(
        self, job_id: str, team: Team, skip: int, limit: int
    ) -> RemovedUrls:
        """Return URLs of the earlier crawl that a crawl with ``since`` has not found.

        Raises :exc:`InvalidParameter` for a job without ``since``.
        """
        job = await self._job(job_id, team)
        found = await self._database.read(earlier_pages.read_removed, job, skip, limit)
        if found is None:
            raise InvalidParameter("The job has no option since: nothing is compared.")
        return found

    async def report(
        self, job_id: str, team: Team, shape: Callable[[CrawlReport], bytes]
    ) -> bytes:
        """Return the result of ``shape`` for the report of a job; it runs in a thread."""
        await self._job(job_id, team)
        await self._runner.store_counts(job_id)
        facts = existing(await self._database.read(read_report, job_id, team.id))
        settings = self._runner.settings
        report = CrawlReport(facts, HostPace.shared(settings), settings)
        return await asyncio.to_thread(shape, report)

    async def deliveries(
        self,
        job_id: str,
        team: Team,
        state: DeliveryState | None,
        after: int,
        limit: int,
    ) -> tuple[Job, list[Delivery], int | None]:
        """Return webhook deliveries of a job, and the number before the next part."""
        job = await self._job(job_id, team)
        found, behind = await self._outbox.deliveries(job_id, state, after, limit)
        return job, found, behind

    async def delivery(
        self, job_id: str, team: Team, number: int
    ) -> tuple[Job, Delivery]:
        """Return a webhook delivery with its body.

        Raises :exc:`JobNotFound` for an unknown number, too.
        """
        job = await self._job(job_id, team)
        found = existing(
            await self._webhooks.delivery(job_id, number), "Delivery not found"
        )
        return job, found

    async def replay(self, job_id: str, team: Team, number: int | None = None) -> int:
        """Send a delivery again, or all that were given up; return their number.

        Raises :exc:`JobNotFound` for an unknown number. Raises :exc:`HeadersForgotten`
        if all deliveries have arrived and the webhook had headers: these are deleted
        then.
        """
        await self._job(job_id, team)
        count = await self._outbox.replay(job_id, number)
        if number is not None and not count:
            raise JobNotFound("Delivery not found")
        self._webhooks.wake()
        return count

    async def history(
        self, team: Team, query: HistoryQuery
    ) -> tuple[list[JobSummary], ListPosition | None]:
        """Return jobs and single calls, the newest first, and the next position."""
        return await self._jobs.history(team.id, query)

    async def details(self, job_id: str, team: Team) -> JobDetails:
        """Return a job of any kind with its options, or a single call."""
        return existing(await self._jobs.details(job_id, team.id))

    async def delete(self, job_id: str, team: Team) -> None:
        """Cancel a job of any kind, or a single call, and delete all its data.

        Nothing of the job can be read when this returns. The rows are deleted in the
        background, since there may be many.
        """
        ended = existing(await self._jobs.delete(job_id, team.id, team.actor))
        for each in ended:
            facts = observability.with_facts(job=each, event="deleted")
            observability.job_logger.info("job %s is deleted", each, extra=facts)
            await self._runner.cancel(each)
        self._has_deleted = True
        if not self._is_deleting:
            self._is_deleting = True
            self._tasks.spawn(self._delete_rows())

    async def _delete_rows(self) -> None:
        """Delete the rows of deleted jobs, for all callers of this time at once."""
        try:
            while self._has_deleted:
                self._has_deleted = False
                with contextlib.suppress(ServiceUnavailable):  # a later round does it
                    await expire(self._database, self._runner.settings)
        finally:
            self._is_deleting = False

    async def model_job(
        self, job_id: str, team: Team, kind: str, not_found: str
    ) -> ModelJobRow:
        """Return a model job. Raises :exc:`JobNotFound` with the text ``not_found``."""
        return existing(
            await self._database.read(model_jobs.read_model_job, job_id, team.id, kind),
            not_found,
        )

    async def model_jobs(
        self, team: Team, kind: str, before: float | None, limit: int
    ) -> list[Job]:
        """Return the newest model jobs of a team that started before a time."""
        return await self._database.read(
            model_jobs.read_model_jobs, team.id, kind, before, limit
        )

    async def cancel_model_job(
        self, found: ModelJobRow, team: Team, error: str
    ) -> JobState:
        """Cancel a model job unless it has ended. Return its state afterwards.

        ``error`` is for its caller.
        """
        if await self._jobs.end(found.id, JobState.CANCELLED, error, team.actor):
            await self._runner.cancel(found.id)
            self._runner.wake()  # its steps end too
        after = await self._database.read(
            model_jobs.read_model_job, found.id, team.id, found.kind
        )
        return JobState.CANCELLED if after is None else after.state

    async def active_crawls(self, team: Team) -> list[Job]:
        """Return the running crawls of a team, the oldest first."""
        jobs = await self._jobs.active(team.id)
        return [job for job in jobs if job.kind == "crawl"]

    async def _job(self, job_id: str, team: Team) -> Job:
        return existing(await self._jobs.get(job_id, team.id))


def _without_page(urls: Sequence[str], missing: set[str]) -> Iterator[Issue]:
    """Yield an issue for each of the first URLs without a page."""
    at = [number for number, url in enumerate(urls) if url in missing]
    for number in at[:MAX_ISSUES]:
        text = "must be the URL of a delivered page of the job, sourceURL or url of its"
        text = f"urls.{number} {text} metadata, got {short(urls[number])}"
        yield Issue("custom", ("urls", number), text)
