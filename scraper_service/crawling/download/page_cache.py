"""The page cache: stored responses in place of downloads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from attrs import evolve
from scrapy.http import Response

from scraper_service.crawling import Component
from scraper_service.crawling.artefacts import hold_artefact, shared_artefacts
from scraper_service.crawling.download.engines import Engines
from scraper_service.crawling.metrics import CACHE_LOOKUPS
from scraper_service.crawling.page_errors import (
    SITE_BLOCKED,
    BlockedSite,
    LockdownMiss,
    NoCachedData,
    check_site,
)
from scraper_service.crawling.page_state import FetchKind, PageState
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import DATA_LOSS, Rendered
from scraper_service.options.availability import (
    BROWSER,
    HTTP,
    needs_browser,
    prefers_browser,
)
from scraper_service.options.formats import Screenshot
from scraper_service.options.limits import parse_sites
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import name_in
from scraper_service.storage.pages.page_cache import (
    StoredSource,
    find_source,
    source_key,
    store_source,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.options.scrape import ScrapeOptions

logger = logging.getLogger(__name__)

PDF_START = b"%PDF-"


class PageCache(Component):
    """Responds to page requests from the team's cache, and stores new responses.

    Sitemap files pass unchanged, and so do pages without a team, as in local runs. Nothing is
    stored while the database is unavailable. A page that may only come from the cache then
    raises :exc:`ServiceUnavailable`. Sites that the caller or operator blocks are refused as
    in a fetch, also at the end of stored redirects.
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
                return _response(found, request.url)
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
                self._store(key, state.team_id, _source(state, response))
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


def _source(state: PageState, response: Response) -> StoredSource:
    """Return what is stored of a response."""
    rendered = state.rendered
    return StoredSource(
        url=response.url,
        status=response.status,
        content_type=_header(response, "Content-Type"),
        content_encoding=_header(response, "Content-Encoding"),
        refresh=_header(response, "Refresh"),
        robots_tag=_header(response, "X-Robots-Tag"),
        last_modified=_header(response, "Last-Modified"),
        etag=_header(response, "ETag"),
        engine=state.engine or HTTP,
        screenshot=name_in(rendered.screenshot or "") if rendered else None,
        body=response.body,
    )


def may_store(options: ScrapeOptions, response: Response) -> bool:
    """Return True if a response may serve later scrapes of the team."""
    raw_pdf = options.pdf_parser is None and response.body.startswith(PDF_START)
    is_whole = DATA_LOSS not in response.flags
    return options.is_shared and not raw_pdf and is_whole


def _header(response: Response, name: str) -> str:
    return b",".join(response.headers.getlist(name)).decode("latin-1")


def _response(found: StoredSource, url: str) -> Response:
    """Return a stored response for ``url``, with its fragment unless redirected."""
    if found.url.partition("#")[0] == url.partition("#")[0]:
        found = evolve(found, url=url)
    headers = {
        "Content-Type": found.content_type,
        "Content-Encoding": found.content_encoding,
        "Refresh": found.refresh,
        "X-Robots-Tag": found.robots_tag,
        "Last-Modified": found.last_modified,
        "ETag": found.etag,
    }
    sent = {name: value for name, value in headers.items() if value}
    return Response(found.url, found.status, headers=sent, body=found.body)
