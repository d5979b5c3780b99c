"""The responses that jobs keep: moved to the object storage, and read in place of downloads."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from scrapy.http import Headers, Response
from scrapy.utils.defer import deferred_from_coro

from scraper_service.content.stored_pages import pack, unpack
from scraper_service.crawling.artefacts import object_store, service_secret
from scraper_service.crawling.metrics import KEPT_RESPONSES
from scraper_service.crawling.page_errors import (
    SourceMissing,
    SourceUnreadable,
)
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import StoreUnavailable
from scraper_service.items import DATA_LOSS
from scraper_service.storage.files.artefacts import owner_of
from scraper_service.storage.files.page_sources import SourceFiles
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.jobs.reprocessing import read_source

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred

    from scraper_service.content.stored_pages import StoredResponse
    from scraper_service.items import KeptResponse

logger = logging.getLogger(__name__)

LEAST_BYTES = 2048  # an object for less costs more than it saves
UPLOAD_S = 5.0  # for one response; a page waits for it
PAUSE_S = 30.0  # between a failure and the next attempt
NO_STORE = (
    "it is in an object storage, and the operator has set no SCRAPER_ARTEFACT_STORE."
)


class KeptSources:
    """Where the responses of jobs are kept: in ``ARTEFACT_STORE``, else in the database.

    While the object storage takes nothing, or takes it slowly, responses stay in the database:
    a page waits for :data:`UPLOAD_S` at most, and one page in :data:`PAUSE_S` tries again.
    """

    def __init__(self, settings: BaseSettings):
        self._files = source_files(settings)
        self._again_at = 0.0  # 0 while the last attempt went well

    async def keep(
        self, kept: KeptResponse | None, team_id: str | None
    ) -> KeptResponse | StoredResponse | None:
        """Return a response as a job stores it, with its body in the object storage if possible."""
        if kept is None or self._files is None or team_id in {None, LOCAL_TEAM}:
            return kept
        if (now := time.monotonic()) < self._again_at:
            KEPT_RESPONSES.labels("database").inc()
            return kept
        if self._again_at:
            self._again_at = now + PAUSE_S  # for the pages after this one
        packed = await asyncio.to_thread(pack, kept)
        if len(packed.body) < LEAST_BYTES:
            return packed
        try:
            async with asyncio.timeout(UPLOAD_S):
                stored = await self._files.put(packed)
        except StoreUnavailable as error:
            self._failure(str(error))
            return packed
        except TimeoutError:
            self._failure(f"the object storage took longer than {UPLOAD_S:.0f} s.")
            return packed
        self._again_at = 0.0
        KEPT_RESPONSES.labels("object_storage").inc()
        return stored

    def _failure(self, why: str) -> None:
        if not self._again_at:
            logger.warning("kept responses stay in the database for now: %s", why)
        self._again_at = time.monotonic() + PAUSE_S
        KEPT_RESPONSES.labels("database").inc()

    async def read(self, stored: StoredResponse) -> KeptResponse:
        """Return a response of the database with its body.

        Raises :exc:`SourceMissing` if the body is gone, :exc:`SourceUnreadable` if it cannot
        be read now.
        """
        if stored.digest is not None:
            if self._files is None:
                raise SourceUnreadable(NO_STORE)
            try:
                stored = await self._files.whole(stored)
            except FileNotFoundError:
                text = "the response is gone from the object storage"
                raise SourceMissing(text) from None
            except StoreUnavailable as error:
                raise SourceUnreadable(str(error)) from error
        return await asyncio.to_thread(unpack, stored)


def source_files(settings: BaseSettings) -> SourceFiles | None:
    """Return the kept responses in ``ARTEFACT_STORE``, None without one."""
    store = object_store(settings)
    if store is None:
        return None
    return SourceFiles(store, owner_of(service_secret(settings)))


class StoredSources:
    """Reads the response of each page from the job ``SOURCE_JOB_ID``.

    Has the interface of Scrapy's downloader, but can fetch nothing: no middleware, host limit
    or robots.txt applies. The response has the URL, status and headers of the time when it
    was stored. Waits while the database is unavailable; the time of the page begins
    afterwards.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._sources = KeptSources(crawler.settings)
        self._source_id: str = crawler.settings["SOURCE_JOB_ID"]
        self.active: set[Request] = set()

    def fetch(self, request: Request) -> Deferred[Response]:
        """Return the stored response; fail with :exc:`SourceMissing` without one."""
        return deferred_from_coro(self._fetch(request))

    async def _fetch(self, request: Request) -> Response:
        self.active.add(request)
        try:
            return await self._read(request)
        finally:
            self.active.discard(request)

    async def _read(self, request: Request) -> Response:
        state = PageState.of(request)
        lease = state.job_lease
        scheduler = LeasedScheduler.of(self._crawler)
        scheduler.note_request(lease.row_id)
        team_id = state.team_id or LOCAL_TEAM
        page = await scheduler.read(read_source, self._source_id, team_id, lease.key)
        if page is None:
            raise SourceMissing("the response of the page is not stored")
        state.deadline = time.monotonic() + state.time_s
        state.kept = kept = await self._sources.read(page.stored)
        state.engine, state.source_scrape_id = kept.engine, page.scrape_id
        status, headers = read_head(kept.head)
        return Response(
            kept.url,
            status,
            headers=headers,
            body=kept.body,
            flags=[DATA_LOSS] if kept.is_cut else [],
            request=request,
        )

    def needs_backout(self) -> bool:
        """Return False: the scheduler has a limit of requests."""
        return False

    def close(self) -> None:
        """Do nothing: the database is not ours."""


def read_head(head: bytes) -> tuple[int, Headers]:
    """Return the status and the fields of the stored head of a response."""
    first, *lines = head.split(b"\r\n")
    fields = [line.split(b":", 1) for line in lines if b":" in line]
    # Scrapy's headers have one entry for each name, in any case.
    headers = Headers()
    for name, value in fields:
        headers.appendlist(name.strip(), value.strip())
    return int(first.split(None, 2)[1]), headers
