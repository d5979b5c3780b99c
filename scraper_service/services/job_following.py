"""Reads of a running job by any number of streams, whichever process runs the job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import frozen

from scraper_service.errors import InvalidParameter
from scraper_service.services.accounts import existing
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scraper_service.services.accounts import Team
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.job_log import JobEvents

ResultT = TypeVar("ResultT")

POLL_S = 1.0  # for commits of other processes; own commits wake readers at once
SLICE_BYTES = 256 * 2**10  # of pages in one read: a slow client keeps them in memory


@frozen(eq=False)
class Tail(Generic[ResultT]):
    """The result of a read, and a future for the next read."""

    found: ResultT
    #: Done as soon as there may be more. Await it with :func:`asyncio.shield`.
    changed: asyncio.Future[None]


class JobTails:
    """Reads the pages or the events of a job behind a position.

    Callers with the same arguments share one read. All methods raise
    :exc:`~scraper_service.errors.JobNotFound` for a job of another team or an expired
    job, and :exc:`~scraper_service.errors.ServiceUnavailable`.
    """

    def __init__(self, database: Database):
        self._database = database
        self._jobs = Jobs(database)
        self._reads: dict[tuple[Any, ...], asyncio.Task[Any]] = {}

    async def pages(
        self, job_id: str, team: Team, after: int, max_bytes: int = SLICE_BYTES
    ) -> Tail[tuple[Job, list[bytes]]]:
        """Return the job and its pages from number ``after``, as one snapshot.

        A page larger than ``max_bytes`` is returned alone.
        """
        return await self._read_shared(
            self._jobs.get_with_pages, job_id, team.id, after, None, max_bytes
        )

    async def events(self, job_id: str, team: Team, after: int) -> Tail[JobEvents]:
        """Return the events after number ``after`` and the job, as one snapshot."""
        return await self._read_shared(
            self._jobs.events, job_id, team.id, after, SLICE_BYTES
        )

    async def check_event(self, job_id: str, team: Team, number: int) -> None:
        """Raise :exc:`InvalidParameter` if the job has no event ``number``, not 0."""
        known = existing(await self._jobs.has_event(job_id, team.id, number))
        if not known:
            raise InvalidParameter(
                "Invalid Last-Event-ID: must be the number of an event of this job, or"
                f" 0 for all events, got {number}"
            )

    async def newest_event(self, job_id: str, team: Team) -> int:
        """Return the number of the job's newest event, 0 without one."""
        return existing(await self._jobs.newest_event(job_id, team.id))

    async def _read_shared(
        self, read: Callable[..., Awaitable[ResultT | None]], job_id: str, *args: Any
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
        self, read: Callable[..., Awaitable[ResultT | None]], job_id: str, *args: Any
    ) -> Tail[ResultT]:
        # Made before the read, so that a commit in between is noticed.
        changed = self._database.next_commit(job_id, POLL_S)
        found = existing(await read(job_id, *args))
        return Tail(found, changed)

    def _forget(self, key: tuple[Any, ...], done: asyncio.Task[Any]) -> None:
        del self._reads[key]
        if not done.cancelled():
            done.exception()  # marks it as retrieved if no caller waits any more
