"""Stored responses instead of downloads: the page cache, and what jobs keep.

:class:`PageCache` has the responses of a team. Jobs keep theirs in the database or in the object
storage: :class:`StoredSources` reads those of another job, and :class:`UnchangedPages` finds
pages that are as they were.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.utils.defer import deferred_from_coro

from scraper_service.content.stored_pages import pack, unpack
from scraper_service.crawling import Component
from scraper_service.crawling.artefacts import (
    hold_artefact,
    object_store,
    service_secret,
    shared_artefacts,
)
from scraper_service.crawling.middlewares import Engines
from scraper_service.crawling.observability import CACHE_LOOKUPS, KEPT_RESPONSES
from scraper_service.crawling.page_errors import (
    SITE_BLOCKED,
    BlockedSite,
    LockdownMiss,
    NoCachedData,
    SourceMissing,
    SourceUnreadable,
    check_site,
)
from scraper_service.crawling.page_state import FetchKind, PageState
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.discovery.sitemap import proves_no_change
from scraper_service.errors import ServiceUnavailable, StoreUnavailable
from scraper_service.items import DATA_LOSS, Rendered
from scraper_service.options.formats import Screenshot
from scraper_service.options.jobs import structure
from scraper_service.options.limits import (
    BROWSER,
    HTTP,
    needs_browser,
    parse_sites,
    prefers_browser,
)
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import name_in, owner_of
from scraper_service.storage.files.page_sources import SourceFiles
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.jobs.earlier_pages import (
    base_scrape,
    read_base_page,
    read_base_sitemap,
    read_source,
)
from scraper_service.storage.page_cache import (
    StoredSource,
    find_source,
    source_key,
    store_source,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred

    from scraper_service.content.stored_pages import StoredResponse
    from scraper_service.items import KeptResponse, Lease
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

    Has the interface of Scrapy's downloader, but never fetches: no middleware, host limit or
    robots.txt applies. The response has the URL, status and headers of the time when it was
    stored. Waits while the database is unavailable; the time of the page begins afterwards.
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
        source_scrape_id, stored = page
        state.deadline = time.monotonic() + state.time_s
        state.kept = kept = await self._sources.read(stored)
        state.engine, state.source_scrape_id = kept.engine, source_scrape_id
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
    them. Instead of a 304 the stored response is returned, and no request is made for a page
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
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._base_options(team_id))
        return self._reading

    async def _base_options(self, team_id: str) -> ScrapeOptions | None:
        scheduler = LeasedScheduler.of(self._crawler)
        found = await scheduler.read(base_scrape, self._base_id, team_id)
        return None if found is None else structure(found, ScrapeOptions)

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
    state.unchanged, state.response_head = evolve(base, kept=kept), kept.head
    status, headers = read_head(kept.head)
    return Response(kept.url, status, headers=headers, body=kept.body, request=request)


PDF_START = b"%PDF-"
# By the attributes of a stored source.
_STORED_HEADERS = {
    "content_type": "Content-Type",
    "content_encoding": "Content-Encoding",
    "refresh": "Refresh",
    "robots_tag": "X-Robots-Tag",
    "last_modified": "Last-Modified",
    "etag": "ETag",
}


class PageCache(Component):
    """Responds to page requests from the team's cache, and stores new responses.

    Sitemap files pass unchanged, and so do pages without a team, as in local runs. Responses
    are not stored while the database is unavailable. A page that may only come from the cache
    then raises :exc:`ServiceUnavailable`. Sites that the caller or operator blocks are refused
    as in a fetch, also at the end of stored redirects.
    """

    def __init__(self, crawler: Crawler):
        self._settings = crawler.settings
        self._sites = parse_sites(crawler.settings.getlist("BLOCKED_SITES"))
        self._retention_s = crawler.settings.getfloat("CACHE_RETENTION_S")
        self._storing = BackgroundTasks()

    async def process_request(self, request: Request) -> Response | None:
        state = PageState.find(request)
        if state is None or not state.team_id or state.kind is not FetchKind.PAGE:
            return None
        if "redirect_times" in request.meta or state.engine is not None:
            return None  # the page was looked up before
        options = state.options
        only_stored = options.lockdown or options.min_age_ms is not None
        if options.accepts_copies and (options.max_age_ms > 0 or only_stored):
            state.cache_state = "miss"
            try:
                found = await self._find(state, state.team_id)
                if found is not None:
                    check_site(found.url, options)
                    if self._sites.covers(found.url):
                        raise BlockedSite(SITE_BLOCKED)
                    await self._hold(state, found)
            except ServiceUnavailable:
                if only_stored:
                    raise  # the page may be in the cache
                found = None
            CACHE_LOOKUPS.labels("miss" if found is None else "hit").inc()
            if found is not None:
                state.cache_state, state.cached_at = "hit", found.fetched_at
                state.engine = found.engine
                return _cached_response(found, request.url)
        if options.lockdown:
            raise LockdownMiss
        if options.min_age_ms is not None:
            raise NoCachedData
        return None

    async def _find(self, state: PageState, team_id: str) -> StoredSource | None:
        options = state.options
        oldest = options.max_age_ms / 1000 if options.max_age_ms else None
        newest = None if options.min_age_ms is None else options.min_age_ms / 1000
        key = source_key(state.source_url, options)
        database = Database.shared(self._settings)
        await database.wait_for_expected((team_id, key))
        found = await database.read(find_source, team_id, key, oldest, newest)
        if found and options.pdf_parser is None and found.body.startswith(PDF_START):
            return None
        # The page as a browser would render it was not stored.
        if found and needs_browser(options) and found.engine != BROWSER:
            return None
        if found and found.engine != BROWSER and self._has_better(options):
            return None
        if found and options.format(Screenshot) and not found.screenshot:
            return None
        return found

    def _has_better(self, options: ScrapeOptions) -> bool:
        """Return True if a browser would see more than the stored HTTP response."""
        if not prefers_browser(options) or options.lockdown:
            return False
        return Engines.shared(self._settings).missing is None

    async def _hold(self, state: PageState, found: StoredSource) -> None:
        """Keep the stored screenshot of a page for as long as the page."""
        if not found.screenshot:
            return
        files = shared_artefacts(self._settings)
        size = await files.size(found.screenshot)
        await hold_artefact(self._settings, found.screenshot, state, size)
        state.rendered = Rendered(screenshot=files.address(found.screenshot))

    async def process_response(self, request: Request, response: Response) -> Response:
        state = PageState.find(request)
        if (
            state is not None
            and state.team_id
            and state.kind is FetchKind.PAGE
            and state.cache_state != "hit"
            and state.unchanged is None  # it may not have been fetched
            and response.status < 400
            and may_store(state.options, response)
        ):
            key = source_key(state.source_url, state.options)
            # In the background: a response that is not stored is fetched again.
            task = self._storing.spawn(
                self._store(key, state.team_id, _stored_source(state, response))
            )
            Database.shared(self._settings).expect((state.team_id, key), task)
        return response

    async def _store(self, key: str, team_id: str, found: StoredSource) -> None:
        try:
            database = Database.shared(self._settings)
            if found.screenshot:
                holder = f"{artefacts.CACHED}{key}"
                keep_s = self._retention_s
                await database.write(
                    artefacts.hold, found.screenshot, holder, None, keep_s
                )
            await database.write_later(
                store_source, key, team_id, found, self._retention_s
            )
        except ServiceUnavailable:
            logger.warning("a response was not stored in the page cache")


def _stored_source(state: PageState, response: Response) -> StoredSource:
    rendered = state.rendered
    headers: dict[str, Any] = {
        name: b",".join(response.headers.getlist(header)).decode("latin-1")
        for name, header in _STORED_HEADERS.items()
    }
    return StoredSource(
        url=response.url,
        status=response.status,
        **headers,
        engine=state.engine or HTTP,
        screenshot=name_in(rendered.screenshot or "") if rendered else None,
        body=response.body,
    )


def may_store(options: ScrapeOptions, response: Response) -> bool:
    """Return True if a response may serve later scrapes of the team."""
    raw_pdf = options.pdf_parser is None and response.body.startswith(PDF_START)
    is_whole = DATA_LOSS not in response.flags
    return options.is_shared and not raw_pdf and is_whole


def _cached_response(found: StoredSource, url: str) -> Response:
    """Return a stored response for ``url``, with its fragment unless redirected."""
    if found.url.partition("#")[0] == url.partition("#")[0]:
        found = evolve(found, url=url)
    headers = {
        header: value
        for name, header in _STORED_HEADERS.items()
        if (value := getattr(found, name))
    }
    return Response(found.url, found.status, headers=headers, body=found.body)
