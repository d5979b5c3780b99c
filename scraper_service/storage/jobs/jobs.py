"""Jobs in the job database, from their start to their expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scraper_service.storage.frontier import copied_rows
from scraper_service.storage.jobs import (
    admission,
    deletion,
    job_control,
    job_events,
    job_history,
    job_listing,
    job_retry,
    job_store,
    reprocessing,
    turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sqlalchemy import Connection

    from scraper_service.errors import ServiceError
    from scraper_service.options.crawl import (
        BatchOptions,
        ChangeRequest,
        CrawlOptions,
        RetryRequest,
    )
    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.admission import Terms
    from scraper_service.storage.jobs.job_events import JobEvents
    from scraper_service.storage.jobs.job_history import (
        HistoryQuery,
        JobDetails,
        JobPosition,
        JobSummary,
    )
    from scraper_service.storage.jobs.job_listing import AddressQuery, Listing
    from scraper_service.storage.jobs.job_records import Job, JobState, PageErrorRow

T = TypeVar("T")


class Jobs:
    """The crawls and batches of a database.

    A job is queued, then scraping, then completed, failed or cancelled. While it is
    paused, nobody gets leases on its URLs. The order of calls:

    1. :meth:`create` stores a queued job, its first URLs and the credits reserved for
       its pages. :meth:`add_entries` adds URLs to a batch.
    2. :meth:`turns` returns the jobs that may run next. :meth:`get_whole` reads a job
       with its secrets, and :meth:`start` marks it as running.
    3. The process that runs the job works through its :class:`Frontier`, which also
       completes the job with its last URL.
    4. :meth:`change` pauses, resumes and changes an active job, and :meth:`end` cancels
       or fails it. :meth:`end_long_pauses` cancels jobs that nobody resumes.
    5. :meth:`expire` deletes the job at the end of its retention, or :meth:`delete`
       before.

    Callers read a job with :meth:`get`, :meth:`get_with_pages`, :meth:`events`,
    :meth:`errors` and :meth:`urls` at any time. Each method is one transaction. All
    methods raise :exc:`ServiceUnavailable` if the database does not respond.
    """

    def __init__(self, database: Database):
        self._database = database

    # -- begin -----------------------------------------------------------------------

    async def make_team(self, team_id: str) -> None:
        """Store a team if it is not known."""
        await self._database.write(job_store.make_team, team_id)

    async def create(
        self,
        terms: Terms,
        options: CrawlOptions | BatchOptions,
        version: int,
        idempotency_key: str | None = None,
    ) -> Job:
        """Store a job that was asked for in a version of the API.

        Raises :exc:`QueueFull`, :exc:`OutOfCredits` and :exc:`IdempotencyKeyUsed`.
        """
        return await self._database.write(
            admission.create_job,
            terms,
            options,
            version,
            idempotency_key,
        )

    async def add_entries(
        self,
        job_id: str,
        terms: Terms,
        options: BatchOptions,
        idempotency_key: str | None = None,
    ) -> Job:
        """Add URLs to a batch. A completed batch becomes active again.

        Raises :exc:`JobNotFound` and :exc:`JobEnded` beside the errors of
        :meth:`create`.
        """
        return await self._database.write(
            admission.add_entries,
            job_id,
            terms,
            options,
            idempotency_key,
        )

    async def pages_of_urls(
        self, job_id: str, team_id: str, urls: Sequence[str]
    ) -> tuple[list[int], set[str]]:
        """Return what :func:`reprocessing.find_pages` finds in a job that has sources.

        Raises :exc:`JobNotFound`, :exc:`SourceJobRunning` and :exc:`SourcesNotStored`.
        """

        def find(
            connection: Connection,
        ) -> tuple[list[int], set[str]] | ServiceError:
            problem = reprocessing.source_problem(connection, job_id, team_id)
            return problem or reprocessing.find_pages(connection, job_id, urls)

        return await self._database.read(find)

    async def create_of_sources(
        self,
        source_id: str,
        terms: Terms,
        options: CrawlOptions | BatchOptions,
        version: int,
        numbers: Sequence[int] | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Store a job that reads the stored responses of another job.

        ``numbers`` are those of the pages, None for all. Follow it with
        :meth:`copy_rows`. Raises the errors of :meth:`pages_of_urls` and of :meth:`create`.
        """
        return await self._database.write(
            reprocessing.create_job_of_sources,
            source_id,
            terms,
            options,
            version,
            numbers,
            idempotency_key,
        )

    async def copy_rows(self, job_id: str) -> None:
        """Copy the rest of the rows of a job that reads stored responses.

        Each slice is a transaction. Without this call, claims of the job do so.
        """
        while not await self._database.write(copied_rows.go_on, job_id):
            pass

    async def is_key_used(self, team_id: str, idempotency_key: str) -> bool:
        """Return True if a team used an idempotency key in the last day."""
        return await self._database.read(
            admission.is_key_used, team_id, idempotency_key
        )

    # -- run -------------------------------------------------------------------------

    async def turns(
        self,
        running: Collection[str],
        most: int,
        at_once: int = 1,
        only: str | None = None,
    ) -> turns.RunnableJobs:
        """Return the active jobs of ``running`` and others, see :func:`turns.job_turns`."""
        return await self._database.read(turns.job_turns, running, most, at_once, only)

    async def get_whole(self, job_id: str) -> Job | None:
        """Return a job with its secrets. Raises :exc:`SecretsUnreadable`."""
        return await self._database.read(job_store.get_whole_job, job_id)

    async def has_queued(self) -> bool:
        """Return True if a job waits that no process has started. Costs one statement."""
        return await self._database.read(turns.has_queued)

    async def start(self, job_id: str) -> bool:
        """Mark a queued job as running. Return True if this call did so."""
        return await self._database.write(job_store.start_job, job_id)

    async def end(
        self,
        job_id: str,
        state: JobState,
        error: str | None = None,
        actor: Actor | None = None,
    ) -> bool:
        """Cancel or fail an active job. Return True if this call ended it."""
        return await self._database.write(
            job_store.end_job, job_id, state, error, actor
        )

    async def change(
        self,
        job_id: str,
        team_id: str,
        request: ChangeRequest,
        actor: Actor | None = None,
    ) -> job_control.ChangedJob:
        """Pause or resume an active job of a team, and change its options.

        Raises :exc:`JobNotFound`,
        :exc:`JobFinished`, :exc:`OptionUnavailable` and :exc:`OutOfCredits`.
        """
        return await self._database.write(
            job_control.change_job, job_id, team_id, request, actor
        )

    async def retry(
        self,
        job_id: str,
        terms: Terms,
        request: RetryRequest,
        idempotency_key: str | None = None,
    ) -> job_retry.RetriedJob:
        """Make failed pages of a job pending again. A completed job becomes active.

        Raises :exc:`JobNotFound`, :exc:`JobFinished`, :exc:`HeadersForgotten`,
        :exc:`InvalidOptions`, :exc:`OutOfCredits` and :exc:`IdempotencyKeyUsed`.
        """
        return await self._database.write(
            job_retry.retry_pages,
            job_id,
            terms,
            request,
            idempotency_key,
        )

    async def end_long_pauses(self, most_s: float, reason: str) -> list[str]:
        """Cancel the jobs that have been paused for ``most_s`` seconds; return their ids."""
        return [
            job_id
            for job_id in await self._database.read(job_control.long_paused, most_s)
            if await self._database.write(
                job_control.end_long_pause, job_id, most_s, reason
            )
        ]

    async def delete(
        self, job_id: str, team_id: str, actor: Actor | None = None
    ) -> list[str] | None:
        """Cancel a job or a single call of a team, and hide all its data.

        Returns the ids of the ended jobs: the job and its steps. Returns None if the
        team has no such job. :meth:`expire` deletes the rows. After an error of the
        database the call may be repeated.
        """
        steps = await self._database.write(deletion.cancel, job_id, team_id)
        if steps is None:
            is_call = await self._database.write(
                deletion.delete_call, job_id, team_id, actor
            )
            return [] if is_call else None
        # The job is the last one: until then a repeated call finds its steps.
        ended = [*steps, job_id]
        for each in ended:
            await self._database.write(
                deletion.hide, each, actor if each == job_id else None
            )
        return ended

    async def expire(self) -> int:
        """Delete a slice of expired rows. Return the number of rows, 0 at the end."""
        return await self._database.write(job_store.expire)

    # -- read ------------------------------------------------------------------------

    async def get(self, job_id: str, team_id: str | None) -> Job | None:
        """Return a job of a team, or of any team for None. None if it has expired."""
        return await self._database.read(job_store.get_job, job_id, team_id)

    async def history(
        self, team_id: str, query: HistoryQuery
    ) -> tuple[list[JobSummary], JobPosition | None]:
        """Return jobs and single calls of a team, and the position behind them."""
        return await self._database.read(job_history.read_history, team_id, query)

    async def details(self, job_id: str, team_id: str) -> JobDetails | None:
        """Return a job of any kind or a single call, None if it is unknown."""
        return await self._database.read(job_history.read_details, team_id, job_id)

    async def active(self, team_id: str) -> list[Job]:
        """Return the active jobs of a team with their secrets, the oldest first."""
        return await self._database.read(job_store.active_jobs, team_id)

    async def get_with_pages(
        self,
        job_id: str,
        team_id: str,
        skip: int,
        limit: int | None = None,
        max_bytes: int = job_store.CHUNK_BYTES,
    ) -> tuple[Job, list[bytes]] | None:
        """Return a job and its pages from number ``skip``, as JSON, of one moment."""

        def read(connection: Connection) -> tuple[Job, list[bytes]] | None:
            job = job_store.get_job(connection, job_id, team_id)
            if job is None:
                return None
            pages = job_store.read_pages(connection, job_id, skip, limit, max_bytes)
            return job, pages

        return await self._database.read(read)

    async def read_scrape(self, scrape_id: str, team_id: str) -> bytes | None:
        """Return the JSON of a page by its id, of a scrape or of a job."""
        return await self._database.read(job_store.read_scrape, scrape_id, team_id)

    async def events(
        self, job_id: str, team_id: str, after: int, max_bytes: int
    ) -> JobEvents | None:
        """Return the events of a job after number ``after``, and the job."""
        return await self._database.read(
            job_events.read_events, job_id, team_id, after, max_bytes
        )

    async def has_event(self, job_id: str, team_id: str, number: int) -> bool | None:
        """Return True if a job has an event. None if the team has no such job."""

        def read(connection: Connection) -> bool | None:
            if job_store.get_job(connection, job_id, team_id) is None:
                return None
            return not number or job_events.is_event(connection, job_id, number)

        return await self._database.read(read)

    async def newest_event(self, job_id: str, team_id: str) -> int | None:
        """Return the number of a job's newest event, 0 without one.

        None if the team has no such job.
        """

        def read(connection: Connection) -> int | None:
            if job_store.get_job(connection, job_id, team_id) is None:
                return None
            return job_events.newest_event(connection, job_id)

        return await self._database.read(read)

    async def errors(
        self, job_id: str, shape: Callable[[list[PageErrorRow], list[str]], T]
    ) -> T:
        """Return ``shape`` of the failed pages and of the URLs refused by robots.txt.

        Calls ``shape`` in a reader thread, since both lists may be long.
        """

        def read(connection: Connection) -> T:
            failed = job_listing.read_errors(connection, job_id)
            return shape(failed, job_listing.read_robots_blocked(connection, job_id))

        return await self._database.read(read)

    async def urls(self, job_id: str, query: AddressQuery) -> Listing:
        """Return URLs of a job with their states."""
        return await self._database.read(job_listing.read_addresses, job_id, query)
