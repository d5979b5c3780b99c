"""Pages of the download handler that the browser fetches."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from scrapy.http import Response

from scraper_service.crawling.artefacts import keeper, service_secret
from scraper_service.crawling.browser.shared_browser import SharedBrowser
from scraper_service.crawling.download.download_errors import (
    BrowserGone,
    MovedOn,
    check_site,
)
from scraper_service.crawling.robots import RobotsMiddleware
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.limits import parse_sites
from scraper_service.options.urls import host_of
from scraper_service.storage.accounts.sessions import (
    SessionBox,
    read_session,
    save_named_session,
)
from scraper_service.storage.connections import before
from scraper_service.storage.database import Database

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.crawling.browser.navigation import Judge
    from scraper_service.crawling.browser.open_page import RenderedPage
    from scraper_service.crawling.download.egress import EgressPolicy
    from scraper_service.crawling.download.proxies import UpstreamProxy
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.storage.accounts.sessions import StateT

logger = logging.getLogger(__name__)

MOST_LONE_ENDS = 2  # of browsers with a single page, until that page is the cause
MOST_ENDS = 5  # of all browsers, including ends before the page was opened
MAX_BYTES = 200 * 2**20  # of a page if DOWNLOAD_MAXSIZE sets no limit
CONVERT_S = 0.5  # reserved for the conversion
EMPTY: StateT = {"cookies": [], "origins": []}


class PageRendering:
    """Opens pages of one crawler in the shared browser.

    Uses ``request.meta`` as
    :class:`~scraper_service.crawling.download.handler.PageDownloadHandler` does. ``rendered`` has
    the results of the browser beside the HTML, ``browser_state`` the cookies and storage for a
    redirect.
    """

    def __init__(self, crawler: Crawler, policy: EgressPolicy):
        self._crawler = crawler
        self._settings = crawler.settings
        self._policy = policy
        self._name = product_tokens(crawler.settings["USER_AGENT"])
        self._sites = parse_sites(crawler.settings.getlist("BLOCKED_SITES"))
        self._max_moves = crawler.settings.getint("REDIRECT_MAX_TIMES")
        self._browser = SharedBrowser.shared(crawler.settings)
        self._browser.enter()

    async def close(self) -> None:
        """Note the end of the crawler."""
        await self._browser.leave()

    async def download(
        self, request: Request, upstream: UpstreamProxy | None
    ) -> Response:
        """Return the page after its scripts have run, or the redirect that it led to.

        Raises the errors of :mod:`scraper_service.crawling.download.download_errors` and of downloads
        over HTTP.
        """
        options: ScrapeOptions = request.meta["options"]
        earlier = await self._state(request, options)
        state = request.meta.get("browser_state", earlier)
        began = time.monotonic()
        host = host_of(request.url)
        alone = self._browser.is_dangerous(host)
        ends = lone_ends = 0
        while True:
            try:
                page = await self._open(request, options, upstream, state, alone=alone)
                break
            except MovedOn as moved:
                request.meta["browser_state"] = moved.state
                request.meta["download_latency"] = time.monotonic() - began
                headers = {"Location": moved.url}
                return Response(request.url, 302, headers=headers, request=request)
            except BrowserGone as gone:
                # Any of the open pages may have ended the browser.
                ends += 1
                lone_ends += alone and gone.had_begun
                if lone_ends == MOST_LONE_ENDS:
                    self._browser.note_dangerous(host)
                    raise
                if ends == MOST_ENDS:
                    raise
                logger.info("a browser ended while a page was open; trying it alone")
                alone = True
        if page.state is not None:
            await self._save(request, options, earlier or EMPTY, page.state)
        request.meta["rendered"] = page.rendered
        request.meta["download_latency"] = page.latency_s
        request.meta["transport_warnings"] = (
            *request.meta.get("transport_warnings", ()),
            *page.warnings,
        )
        return Response(
            page.url,
            page.status,
            headers=page.headers,
            body=page.body,
            request=request,
            flags=["browser"],
        )

    async def _open(
        self,
        request: Request,
        options: ScrapeOptions,
        upstream: UpstreamProxy | None,
        state: StateT | None,
        *,
        alone: bool,
    ) -> RenderedPage:
        is_of_job = request.meta.get("lease") is not None
        asked_at = time.monotonic()
        async with self._browser.lend(patient=is_of_job, alone=alone) as running:
            if is_of_job:  # no client waits: the queue does not use up its time
                request.meta["deadline"] += time.monotonic() - asked_at
            # Playwright takes 0.3 s to import, which lend() has done in a thread.
            from scraper_service.crawling.browser.open_page import PageOrder  # noqa: PLC0415
            from scraper_service.crawling.browser.render import (  # noqa: PLC0415
                render,
            )

            ends_at = request.meta.get("deadline", math.inf)
            ends_at = min(ends_at, time.monotonic() + options.deadline_ms / 1000)
            order = PageOrder(
                url=request.url,
                first_origin=request.meta["first_origin"],
                options=options,
                load_s=request.meta["download_timeout"],
                ends_at=ends_at - CONVERT_S,
                max_bytes=self._max_bytes(request),
                name=self._name,
                policy=self._policy,
                sites=self._sites,
                ads=await self._browser.blocked_hosts(),
                judge=self._judge(request),
                max_moves=self._max_moves - request.meta.get("redirect_times", 0),
                keep=keeper(self._settings, request, options),
                upstream=upstream,
                state=state,
            )
            try:
                return await running.run(render(running, order))
            except BrowserGone as gone:
                gone.had_begun = order.has_begun
                raise

    def _max_bytes(self, request: Request) -> int:
        default = self._settings.getint("DOWNLOAD_MAXSIZE")
        return int(request.meta.get("download_maxsize", default)) or MAX_BYTES

    def _judge(self, request: Request) -> Judge:
        """Return a judge of navigations: by the sites of the options, and robots.txt.

        The page of a crawl obeys robots.txt.
        """
        agents: tuple[str, ...] = request.meta.get("robots_agents") or ()
        robots = self._crawler.get_downloader_middleware(RobotsMiddleware)

        options: ScrapeOptions = request.meta["options"]

        async def judge(url: str, *, can_leave: bool) -> None:
            check_site(url, options)
            if not agents or robots is None:
                return
            # Fetching a robots.txt here could block forever: it may need the slot at the host
            # that this page holds.
            if can_leave and not robots.is_known(url):
                raise MovedOn(url)
            await robots.check(url, agents)

        return judge

    async def _state(self, request: Request, options: ScrapeOptions) -> StateT | None:
        if options.storage is None or not request.meta.get("team_id"):
            return None
        return await Database.shared(self._settings).read(
            read_session, request.meta["team_id"], options.storage, self._box()
        )

    async def _save(
        self, request: Request, options: ScrapeOptions, earlier: StateT, after: StateT
    ) -> None:
        assert options.storage is not None
        if not (team_id := request.meta.get("team_id")):
            warning = "The session was not kept: only the service keeps sessions."
        else:
            name = options.storage
            ask_on = before(request.meta.get("deadline", 0.0))
            database = Database.shared(self._settings)
            try:
                await ask_on(
                    lambda: database.write_locking(
                        save_named_session,
                        name,
                        team_id,
                        self._box(),
                        earlier,
                        after,
                    )
                )
                return
            except (ValueError, ServiceUnavailable) as error:
                warning = f"The session was not kept: {error}."
        request.meta["transport_warnings"] = (warning,)

    def _box(self) -> SessionBox:
        return SessionBox(service_secret(self._settings))


def product_tokens(user_agent: str) -> str:
    """Return the product tokens of ``USER_AGENT``, which name the operator."""
    inside = user_agent.partition("(compatible;")[2].partition(")")[0].split(";")
    return (inside[0] or user_agent).strip()
