"""What a team may know of its stored jobs, and do with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scraper_service.errors import HeadersForgotten, JobEnded, JobNotFound
from scraper_service.services.crawl_report import Report
from scraper_service.storage import job_listing
from scraper_service.storage import jobs as store
from scraper_service.storage import webhook_outbox as deliveries
from scraper_service.storage.job_records import JobState
from scraper_service.storage.politeness.crawl_reports import read_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from scraper_service.services.accounts import Team
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.webhooks import Webhooks
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_listing import AddressQuery, Listing
    from scraper_service.storage.job_records import (
        Delivery,
        DeliveryState,
        Job,
        PageErrorRow,
    )


class Jobs:
    """Jobs that have been started, for a team at a time.

    One that is not the team's, or has expired, is a
    :exc:`~scraper_service.errors.JobNotFound`.
    """

    def __init__(self, database: Database, runner: JobRunner, webhooks: Webhooks):
        self._database = database
        self._runner = runner
        self._webhooks = webhooks

    async def status(
        self, job_id: str, team: Team, skip: int, limit: int | None
    ) -> tuple[Job, list[bytes]]:
        """Return a job and a chunk of its pages, as JSON, of one moment."""

        def read(connection: Connection) -> tuple[Job, list[bytes]] | None:
            job = store.get_job(connection, job_id, team.id)
            if job is None:
                return None
            return job, store.read_pages(connection, job_id, skip, limit)

        found = await self._database.read(read)
        if found is None:
            raise JobNotFound("Job not found")
        return found

    async def cancel(self, job_id: str, team: Team) -> Job:
        """Cancel a job that goes on; a cancelled one stays so.

        Raises :exc:`JobEnded` for one that is completed or has failed.
        """
        job = await self._job(job_id, team)
        if job.is_active:
            await self._database.write_locking(
                store.end_job, job_id, JobState.CANCELLED
            )
            await self._runner.cancel(job_id)
            job = await self._job(job_id, team)
        if job.state is not JobState.CANCELLED:
            raise JobEnded(job.kind, job.state)
        return job

    async def errors(
        self,
        job_id: str,
        team: Team,
        shape: Callable[[list[PageErrorRow], list[str]], bytes],
    ) -> bytes:
        """Return what ``shape`` makes of the pages of a job that failed.

        And of the addresses that robots.txt refused; it runs in a reader thread, as
        they may be many.
        """

        def read(connection: Connection) -> bytes:
            failed = job_listing.read_errors(connection, job_id)
            return shape(failed, job_listing.read_robots_blocked(connection, job_id))

        await self._job(job_id, team)
        return await self._database.read(read)

    async def addresses(self, job_id: str, team: Team, query: AddressQuery) -> Listing:
        """Return addresses of a job, with what became of them; and where to go on."""
        await self._job(job_id, team)
        return await self._database.read(job_listing.read_addresses, job_id, query)

    async def report(
        self, job_id: str, team: Team, shape: Callable[[Report], bytes]
    ) -> bytes:
        """Return what ``shape`` makes of the report of a job; it runs in a thread."""
        await self._job(job_id, team)
        await self._runner.store_counts(job_id)
        facts = await self._database.read(read_report, job_id, team.id)
        if facts is None:
            raise JobNotFound("Job not found")
        report = Report.within(self._runner.settings, facts)
        return await asyncio.to_thread(shape, report)

    async def deliveries(
        self,
        job_id: str,
        team: Team,
        state: DeliveryState | None,
        after: int,
        limit: int,
    ) -> tuple[Job, list[Delivery], int | None]:
        """Return events for the webhook of a job, and the number to go on behind."""
        job = await self._job(job_id, team)
        found, behind = await self._database.read(
            job_listing.read_deliveries, job_id, state=state, after=after, limit=limit
        )
        return job, found, behind

    async def replay(self, job_id: str, team: Team, number: int | None = None) -> int:
        """Send an event of a job again, or all that were given up; tell how many.

        Raises :exc:`JobNotFound` for a number that no event has, and
        :exc:`HeadersForgotten` where all have arrived and the receiver wants headers.
        """
        await self._job(job_id, team)
        count = await self._database.write_locking(deliveries.replay, job_id, number)
        if isinstance(count, HeadersForgotten):
            raise count
        if number is not None and not count:
            raise JobNotFound("Delivery not found")
        self._webhooks.wake()
        return count

    async def active_crawls(self, team: Team) -> list[Job]:
        """Return the crawls of a team that go on, the oldest first."""
        jobs = await self._database.read(store.active_jobs, team.id)
        return [job for job in jobs if job.kind == "crawl"]

    async def _job(self, job_id: str, team: Team) -> Job:
        job = await self._database.read(store.get_job, job_id, team.id)
        if job is None:
            raise JobNotFound("Job not found")
        return job
