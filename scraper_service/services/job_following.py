"""Reading a job as it grows, for any number who watch it, of any process's jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import frozen

from scraper_service.errors import InvalidParameter, JobNotFound
from scraper_service.storage import job_events as events
from scraper_service.storage import jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from scraper_service.services.accounts import Team
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_events import Told
    from scraper_service.storage.job_records import Job

ResultT = TypeVar("ResultT")

POLL_S = 1.0  # for what other processes commit; commits of this one wake at once
SLICE_BYTES = 256 * 2**10  # of pages in one read: a reader that is slow keeps it


@frozen(eq=False)
class Tail(Generic[ResultT]):
    """What was read, and what is done as soon as there may be more.

    Wait for ``changed`` with :func:`asyncio.shield`.
    """

    found: ResultT
    changed: asyncio.Future[None]


class JobTails:
    """Reads the pages or the events of a job behind a position.

    Those who ask for the same share one read. All raise
    :exc:`~scraper_service.errors.JobNotFound` for a job that is not the team's or has
    expired, and :exc:`~scraper_service.errors.ServiceUnavailable`.
    """

    def __init__(self, database: Database):
        self._database = database
        self._reads: dict[tuple[Any, ...], asyncio.Task[Any]] = {}

    async def pages(
        self, job_id: str, team: Team, after: int, max_bytes: int = SLICE_BYTES
    ) -> Tail[tuple[Job, list[bytes]]]:
        """Return the job and its pages from number ``after``, of one moment.

        At least one page, if there is one.
        """
        return await self._shared(_read_pages, job_id, team.id, after, max_bytes)

    async def events(self, job_id: str, team: Team, after: int) -> Tail[Told]:
        """Return the events behind number ``after``, and the job, of one moment."""
        return await self._shared(
            events.read_events, job_id, team.id, after, SLICE_BYTES
        )

    async def check_event(self, job_id: str, team: Team, number: int) -> None:
        """Raise :exc:`InvalidParameter` if the job has no event ``number``, not 0."""

        def read(connection: Connection) -> bool | None:
            if jobs.get_job(connection, job_id, team.id) is None:
                return None
            return not number or events.is_event(connection, job_id, number)

        known = await self._database.read(read)
        if known is None:
            raise JobNotFound("Job not found")
        if not known:
            raise InvalidParameter(
                "Invalid Last-Event-ID: must be the number of an event of this job, or"
                f" 0 for all events, got {number}"
            )

    async def _shared(
        self, read: Callable[..., ResultT | None], job_id: str, *args: Any
    ) -> Tail[ResultT]:
        key = (read, job_id, *args)
        task = self._reads.get(key)
        if task is None:
            task = asyncio.ensure_future(self._read(read, job_id, *args))
            self._reads[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        tail: Tail[ResultT] = await asyncio.shield(task)
        return tail

    async def _read(
        self, read: Callable[..., ResultT | None], job_id: str, *args: Any
    ) -> Tail[ResultT]:
        # Before the read: a commit in between must not go unnoticed.
        changed = self._database.changed(job_id, POLL_S)
        found = await self._database.read(read, job_id, *args)
        if found is None:
            raise JobNotFound("Job not found")
        return Tail(found, changed)

    def _forget(self, key: tuple[Any, ...], done: asyncio.Task[Any]) -> None:
        del self._reads[key]
        if not done.cancelled():
            done.exception()  # whoever waited has it; perhaps nobody waits any more


def _read_pages(
    connection: Connection, job_id: str, team_id: str, after: int, max_bytes: int
) -> tuple[Job, list[bytes]] | None:
    job = jobs.get_job(connection, job_id, team_id)
    if job is None:
        return None
    return job, jobs.read_pages(connection, job_id, after, max_bytes=max_bytes)
