"""Jobs in the job database, from their start to their expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scraper_service.storage.database import reading, writing
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.jobs import (
    admission,
    earlier_pages,
    job_control,
    job_deletion,
    job_history,
    job_log,
    job_rows,
    job_urls,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import PageErrorRow

T = TypeVar("T")


class Jobs:
    """The crawls and batches of a database.

    A job is queued, then scraping, then completed, failed or cancelled. While it is
    paused, nobody gets leases on its URLs. The order of calls:

    1. :meth:`create` stores a queued job, its first URLs and the credits reserved for
       its pages. :meth:`add_entries` adds URLs to a batch.
    2. :meth:`waiting` returns the jobs that need a process, and :meth:`take` gives one of
       them to a process: it has a run then, and the secrets of the job.
    3. The process that runs the job works through its :class:`Frontier`, which also
       completes the job with its last URL, and ends its run with :meth:`end_run`.
    4. :meth:`change` pauses, resumes and changes an active job, and :meth:`end` cancels
       or fails it. :meth:`end_long_pauses` cancels jobs that nobody resumes.
    5. :meth:`expire` deletes the job at the end of its retention, or :meth:`delete`
       before.

    Callers read a job with :meth:`get`, :meth:`get_with_pages`, :meth:`events`,
    :meth:`errors` and :meth:`urls` at any time. Each method is one transaction, unless its
    documentation says more. The functions document arguments, results and errors. All
    methods raise :exc:`ServiceUnavailable` if the database does not respond.
    """

    def __init__(self, database: Database):
        self._database = database

    # -- begin -----------------------------------------------------------------------

    make_team = writing(job_rows.make_team)
    create = writing(admission.create_job)
    add_entries = writing(admission.add_entries)
    pages_of_urls = reading(earlier_pages.pages_of_urls)
    create_of_sources = writing(admission.create_job_of_sources)
    is_key_used = reading(admission.is_key_used)

    async def copy_rows(self, job_id: str) -> None:
        """Copy the remaining rows of a job that reads stored responses.

        Each slice is a transaction. Without this call, claims of the job do so.
        """
        while not await self._database.write(outcomes.copy_slice, job_id):
            pass

    # -- run -------------------------------------------------------------------------

    has_untaken = reading(runs.has_untaken)
    waiting = reading(runs.waiting_jobs)
    running = reading(runs.running_jobs)
    take = writing(runs.take)
    end_run = writing(runs.end)
    end_all_runs = writing(runs.end_all)
    end = writing(outcomes.end_job)
    change = writing(job_control.change_job)
    retry = writing(job_control.retry_pages)
    expire = writing(job_deletion.expire)

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
        steps = await self._database.write(job_deletion.cancel, job_id, team_id)
        if steps is None:
            is_call = await self._database.write(
                job_deletion.delete_call_or_session, job_id, team_id, actor
            )
            return [] if is_call else None
        # The job is the last one: until then a repeated call finds its steps.
        ended = [*steps, job_id]
        for each in ended:
            await self._database.write(
                job_deletion.hide, each, actor if each == job_id else None
            )
        return ended

    # -- read ------------------------------------------------------------------------

    get = reading(job_rows.get_job)
    history = reading(job_history.read_history)
    details = reading(job_history.read_details)
    active = reading(job_rows.active_jobs)
    get_with_pages = reading(job_rows.read_job_with_pages)
    read_scrape = reading(job_rows.read_scrape)
    events = reading(job_log.read_events)
    has_event = reading(job_log.has_event)
    newest_event = reading(job_log.newest_event)

    async def errors(
        self, job_id: str, shape: Callable[[list[PageErrorRow], list[str]], T]
    ) -> T:
        """Return ``shape`` of the failed pages and of the URLs refused by robots.txt.

        Calls ``shape`` in a reader thread, since both lists may be long.
        """

        def read(connection: Connection) -> T:
            failed, _ = job_urls.read_errors(connection, job_id)
            return shape(failed, job_urls.read_robots_blocked(connection, job_id))

        return await self._database.read(read)

    urls = reading(job_urls.read_urls)
