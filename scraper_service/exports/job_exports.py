"""Exports of jobs: which rows they have, their names, and whether their bytes are fixed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import re
import zlib
from collections import OrderedDict
from contextlib import aclosing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve, frozen

from scraper_service.content.stored_pages import StoredResponse, archive_row, compress
from scraper_service.errors import (
    ExportUnavailable,
    JobNotFound,
    JobRunning,
    SourcesNotStored,
)
from scraper_service.exports.formats import ERRORS, FORMATS, PAGES, FileSpec
from scraper_service.exports.running_export import ExportProcess
from scraper_service.options.urls import url_parts
from scraper_service.storage.files import page_sources
from scraper_service.storage.job_records import Job
from scraper_service.storage.jobs import job_rows, job_urls
from scraper_service.storage.jobs.job_urls import Cursor, UrlQuery

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from sqlalchemy import Connection

    from scraper_service.exports.formats import ExportFormat
    from scraper_service.storage.database import Database
    from scraper_service.storage.files.page_sources import SourceFiles

    RowT = Callable[[Any], bytes]

PACKAGE = "scraper-service"
SLICE_BYTES = 2**20  # of pages that are read at once, uncompressed
SLICE_ROWS = 250
MAX_LENGTHS = 1000  # of files that are remembered
MAX_HOST = 100  # characters in a file name


@frozen(kw_only=True)
class ExportQuery:
    """What a caller asks for."""

    #: A name in :data:`FORMATS`.
    format: str
    #: ``pages``, ``errors`` or ``urls``.
    what: str = PAGES
    #: Paths of values in a row; empty for all.
    fields: tuple[str, ...] = ()
    #: Rows to leave out, and the most rows.
    skip: int = 0
    limit: int | None = None
    #: True if the caller accepts gzip.
    gzip: bool = False
    #: The URL of the service in the URLs of files.
    base: str = ""
    #: Make the JSON of an error or URL of the listings.
    row: RowT = bytes


@frozen
class Export:
    """A file of a job that can be sent now."""

    job: Job
    query: ExportQuery
    #: Number of rows of the file.
    total: int
    #: True while pages of a job that has ended are given back, which changes its URLs.
    is_settling: bool = False

    @property
    def format(self) -> ExportFormat:
        return FORMATS[self.query.format]

    @property
    def is_final(self) -> bool:
        """True if the bytes are the same each time, until the job changes."""
        return not (self.job.is_active or self.is_settling)

    @property
    def spec(self) -> FileSpec:
        ended_at = self.job.completed_at
        return FileSpec(
            format=self.query.format,
            what=self.query.what,
            fields=self.query.fields,
            at=self.job.created_at if ended_at is None else ended_at,
            gzip=self.query.gzip,
        )

    @property
    def file_name(self) -> str:
        """``HOST-ID.ENDING`` with the first eight characters of the id."""
        host = url_parts(self.job.url).hostname or ""
        host = re.sub(r"[^a-z0-9.]+", "-", host).strip("-.")[:MAX_HOST] or self.job.kind
        return f"{host}-{self.job.id[:8]}.{self.format.ending}"

    @property
    def etag(self) -> str:
        """The entity tag (RFC 9110, 8.8.3), which differs where a byte may differ."""
        job, query = self.job, self.query
        facts: list[Any] = [
            *(job.id, job.state, job.completed_at, job.pages, job.failed, job.skipped),
            *(asdict(self.spec), query.skip, query.limit, query.base),
            *(version(PACKAGE), platform.python_version(), zlib.ZLIB_RUNTIME_VERSION),
            self.format.library and version(self.format.library),
        ]
        digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16)
        return f'"{digest.hexdigest()}"'


class Exports:
    """Exports the crawls and batches of teams. ``sources`` are those in object storage."""

    def __init__(self, database: Database, sources: SourceFiles | None = None):
        self._database = database
        self._sources = sources
        self._lengths: OrderedDict[str, int] = OrderedDict()

    async def open(self, job_id: str, team_id: str, query: ExportQuery) -> Export:
        """Return an export of what a job of a team has now.

        Raises :exc:`ExportUnavailable`, :exc:`JobNotFound`, :exc:`JobRunning` for a
        format that needs a job that is paused or has ended, and :exc:`SourcesNotStored`.
        """
        format_ = FORMATS[query.format]
        if (missing := format_.missing) is not None:
            raise ExportUnavailable(query.format, missing)
        if not format_.is_text:
            query = evolve(query, gzip=False)
        found = await self._database.read(_count, job_id, team_id, query)
        if found is None:
            raise JobNotFound("Job not found")
        job, total, is_stored, is_settling = found
        if job.is_active and job.paused_at is None and not format_.takes_running:
            raise JobRunning(query.format)
        if format_.needs_sources and total and not is_stored:
            raise SourcesNotStored(f"The format {query.format}")
        total = max(0, total - query.skip)
        if query.limit is not None:
            total = min(total, query.limit)
        return Export(job, query, total, is_settling)

    async def write(self, export: Export) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an export.

        Raises :exc:`JobNotFound` if the job is deleted meanwhile, and
        :exc:`~scraper_service.exports.running_export.ExportFailed`.
        """
        length = 0
        async with (
            ExportProcess(export.spec, export.query.base) as process,
            aclosing(process.write(self._slices(export))) as parts,
        ):
            async for part in parts:
                length += len(part)
                yield part
        if export.is_final:
            self._remember(export.etag, length)

    def known_length(self, export: Export) -> int | None:
        """Return the length of a file in bytes if it was written before, else None."""
        return self._lengths.get(export.etag) if export.is_final else None

    async def length(self, export: Export) -> int:
        """Return the length of the file of a final job. Writes it to nowhere if unknown."""
        found = self.known_length(export)
        if found is None:
            found = 0
            async with aclosing(self.write(export)) as parts:
                async for part in parts:
                    found += len(part)
        return found

    def _remember(self, etag: str, length: int) -> None:
        self._lengths[etag] = length
        while len(self._lengths) > MAX_LENGTHS:
            self._lengths.popitem(last=False)

    async def _slices(self, export: Export) -> AsyncGenerator[list[bytes], None]:
        position = _Position(skip=export.query.skip)
        left = export.total
        while left > 0:
            found = await self._database.read(_read, export, position, left)
            if found is None:
                raise JobNotFound("Job not found")
            rows, end = found
            if export.query.what == PAGES:
                # Some pages have no row in an archive.
                count = end.skip - position.skip
                if not count:  # the rows of pages go with their job only
                    raise JobNotFound("Job not found")
            else:
                count = len(rows)
                if not count:  # URLs of a running job may have moved
                    return
            left, position = left - count, end
            yield (
                await self._archive_rows(rows) if export.format.needs_sources else rows
            )

    async def _archive_rows(self, rows: list[Any]) -> list[bytes]:
        """Return rows of an archive. Leaves out pages whose response is gone."""

        async def row(page: bytes, stored: StoredResponse) -> bytes | None:
            if stored.digest is not None:
                if self._sources is None:
                    return None
                try:
                    stored = await self._sources.whole(stored)
                except FileNotFoundError:
                    return None
            return archive_row(page, stored)

        found = await asyncio.gather(*(row(*each) for each in rows))
        return [each for each in found if each is not None]


@frozen(kw_only=True)
class _Position:
    """Where the next slice begins."""

    #: Rows to leave out from there on.
    skip: int = 0
    #: The last row of errors or URLs that was read, None at the start.
    after: Any = None
    is_end: bool = False


def _count(
    connection: Connection, job_id: str, team_id: str, query: ExportQuery
) -> tuple[Job, int, bool, bool] | None:
    """Return a job, the number of its rows, if it has sources, and if URLs are leased.

    Returns None for an unknown job.
    """
    job = job_rows.get_job(connection, job_id, team_id)
    if job is None:
        return None
    if query.what == PAGES:
        needs = FORMATS[query.format].needs_sources
        has_sources = needs and page_sources.has_sources(connection, job_id)
        return job, job.pages, has_sources, False
    if query.what == ERRORS:
        return job, job_urls.count_errors(connection, job_id), False, False
    count = job_urls.count_urls(connection, job_id, UrlQuery(limit=1))
    is_settling = job_urls.read_current(connection, job_id) is not None
    return job, count, False, is_settling


def _read(
    connection: Connection, export: Export, position: _Position, most: int
) -> tuple[list[Any], _Position] | None:
    """Return compressed rows and the next position; None for a job that was deleted.

    Rows of archives are pages with their responses.
    """
    job_id, query = export.job.id, export.query
    if job_rows.get_job(connection, job_id, export.job.team_id) is None:
        return None
    if position.is_end:
        return [], position
    rows: list[Any]
    most = min(most, SLICE_ROWS)
    if export.format.needs_sources:
        rows, end = page_sources.read_archived(
            connection, job_id, position.skip, most, SLICE_BYTES
        )
        return rows, _Position(skip=end)
    if query.what == PAGES:
        bodies = job_rows.read_bodies(
            connection, job_id, position.skip, most, SLICE_BYTES
        )
        return bodies, _Position(skip=position.skip + len(bodies))
    if query.what == ERRORS:
        rows, last = job_urls.read_errors(
            connection, job_id, position.after or 0, position.skip, most
        )
        after: Cursor | int | None = last
    else:
        rows, after = job_urls.read_some_urls(
            connection,
            job_id,
            UrlQuery(after=position.after, skip=position.skip, limit=most),
        )
    packed = [compress(query.row(row)) for row in rows]
    return packed, _Position(after=after, is_end=after is None)
