"""Takes the place of the downloader in jobs that read the responses of another job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy.http import Headers, Response
from scrapy.utils.defer import deferred_from_coro

from scraper_service.crawling.download.download_errors import SourceMissing
from scraper_service.crawling.download.kept_sources import KeptSources
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.items import DATA_LOSS
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.jobs.reprocessing import read_source

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred


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
        scheduler.requested(lease.row_id)
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
