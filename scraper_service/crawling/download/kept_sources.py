"""Responses that jobs keep, in place of downloads: of a stored job, and of unchanged pages.

They are in the database or in the object storage.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from attrs import evolve
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.utils.defer import deferred_from_coro

from scraper_service.content.stored_pages import pack, unpack
from scraper_service.crawling import Component
from scraper_service.crawling.artefacts import object_store, service_secret
from scraper_service.crawling.metrics import KEPT_RESPONSES
from scraper_service.crawling.page_errors import (
    SourceMissing,
    SourceUnreadable,
)
from scraper_service.crawling.page_state import FetchKind, PageState
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.discovery.sitemap import proves_no_change
from scraper_service.errors import StoreUnavailable
from scraper_service.items import DATA_LOSS
from scraper_service.options.availability import HTTP
from scraper_service.options.serialization import scrape_options_from_json
from scraper_service.storage.files.artefacts import owner_of
from scraper_service.storage.files.page_sources import SourceFiles
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.jobs.earlier_pages import (
    base_scrape,
    read_base_page,
    read_base_sitemap,
    read_source,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred

    from scraper_service.content.stored_pages import StoredResponse
    from scraper_service.items import KeptResponse, Lease
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.storage.jobs.earlier_pages import BasePage

logger = logging.getLogger(__name__)

LEAST_BYTES = 2048  # an object for less costs more than it saves
UPLOAD_S = 5.0  # for one response; a page waits for it
PAUSE_S = 30.0  # between a failure and the next attempt
#: Request headers by the response header that has their value (RFC 9110, 13.1).
VALIDATORS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
_VALUE = re.compile(rb"[\x20-\x7e]{1,1000}")  # others are not sent back
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


class UnchangedPages(Component):
    """Finds pages and sitemap files that have not changed since the job ``BASE_JOB_ID``.

    Sends the ``ETag`` and ``Last-Modified`` of a page's last response to the URL that sent
    them. In place of a 304 the stored response is returned, and no request is made for a page
    whose sitemap proves that nothing has changed. These responses, and those with the same
    bytes, set ``unchanged`` of the state of their page.

    Only pages that were fetched over HTTP with the same options count, under the conditions
    of the page cache. Others are fetched as if there was no base.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._base_id: str = crawler.settings.get("BASE_JOB_ID") or ""
        if not self._base_id:
            raise NotConfigured  # no cost for jobs of their own
        self._sources = KeptSources(crawler.settings)
        self._trust_s = crawler.settings.getfloat("LASTMOD_TRUST_S")
        self._reading: asyncio.Future[ScrapeOptions | None] | None = None

    async def process_request(self, request: Request) -> Response | None:
        state = PageState.find(request)
        if state is None or state.lease is None:
            return None
        if state.base_page is not None:
            for name in VALIDATORS.values():  # of the URL that has redirected here
                request.headers.pop(name, None)
        if not await self._is_usual(state, state.lease):
            return None
        if not state.has_base:
            state.base_page, state.has_base = await self._read(state.lease), True
        base = state.base_page
        if base is None or base.kept is None:
            return None
        if {base.kept.engine, state.engine or HTTP} != {HTTP}:
            return None
        status, headers = read_head(base.kept.head)
        if status >= HTTPStatus.BAD_REQUEST:
            return None
        is_trusted = self._trust_s and base.age_s < self._trust_s
        if is_trusted and base.lastmod and proves_no_change(base.lastmod, base.kept.at):
            return _stored_response(request, state, base, base.kept)
        if base.kept.url == request.url:
            for name, condition in VALIDATORS.items():
                value = headers.get(name)
                if value is not None and _VALUE.fullmatch(value):
                    request.headers[condition] = value
        return None

    async def _is_usual(self, state: PageState, lease: Lease) -> bool:
        """Return True if a page may have a page in the base."""
        options = state.options
        if state.kind is FetchKind.SITEMAP_URLS:
            return False
        if not options.accepts_copies or options.max_tokens is not None:
            return False
        known = await asyncio.shield(self._known(state.team_id or LOCAL_TEAM))
        if known is not None and lease.is_sitemap:  # formats make no difference to it
            known, options = evolve(known, formats=()), evolve(options, formats=())
        return known is not None and known.as_made == options.as_made

    def _known(self, team_id: str) -> asyncio.Future[ScrapeOptions | None]:
        """Return the options of the base, which are read once."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._base_options(team_id))
        return self._reading

    async def _base_options(self, team_id: str) -> ScrapeOptions | None:
        scheduler = LeasedScheduler.of(self._crawler)
        found = await scheduler.read(base_scrape, self._base_id, team_id)
        return None if found is None else scrape_options_from_json(found)

    async def _read(self, lease: Lease) -> BasePage | None:
        scheduler = LeasedScheduler.of(self._crawler)
        if lease.is_sitemap:
            found = await scheduler.read(read_base_sitemap, self._base_id, lease.key)
        else:
            found = await scheduler.read(read_base_page, self._base_id, lease.row_id)
        if found is None or found.stored is None or found.stored.digest is None:
            return found
        try:
            kept = await self._sources.read(found.stored)
        except SourceMissing as error:
            logger.info("a page is fetched as if it was new: %s", error)
            return None
        return evolve(found, kept=kept)

    def process_response(self, request: Request, response: Response) -> Response:
        state = PageState.find(request)
        base = None if state is None else state.base_page
        if state is None or base is None or base.kept is None:
            return response
        if state.unchanged is not None:
            return response
        if base.kept.url != request.url:
            return response
        conditions = VALIDATORS.values()
        is_asked = any(name in request.headers for name in conditions)
        if response.status == HTTPStatus.NOT_MODIFIED and is_asked:
            return _stored_response(
                request, state, base, evolve(base.kept, at=time.time())
            )
        status, _ = read_head(base.kept.head)
        is_same = response.status == status and response.body == base.kept.body
        if is_same and not response.flags:
            head = state.response_head or base.kept.head
            kept = evolve(base.kept, at=time.time(), head=head)
            state.unchanged = evolve(base, kept=kept)
        return response


def _stored_response(
    request: Request, state: PageState, base: BasePage, kept: KeptResponse
) -> Response:
    """Return the stored response of a page in place of a new one."""
    state.unchanged, state.response_head = evolve(base, kept=kept), kept.head
    status, headers = read_head(kept.head)
    return Response(kept.url, status, headers=headers, body=kept.body, request=request)
