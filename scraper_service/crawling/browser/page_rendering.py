"""Orders for pages in the browser: of the download handler, and of sessions."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from scrapy.http import Response

from scraper_service.crawling.artefacts import keeper, service_secret
from scraper_service.crawling.browser.running_browser import load_modules
from scraper_service.crawling.browser.shared_browser import SharedBrowser
from scraper_service.crawling.egress import EgressPolicy, ForbiddenDestination
from scraper_service.crawling.page_errors import (
    BrowserGone,
    MovedOn,
    check_site,
)
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.proxies import Proxies, resolve
from scraper_service.crawling.robots import RobotsMiddleware
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.limits import parse_sites
from scraper_service.options.urls import host_of, origin, url_parts
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
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.browser.open_page import (
        Judge,
        PageOrder,
        RenderedPage,
    )
    from scraper_service.crawling.proxies import UpstreamProxy
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.storage.accounts.sessions import StateT

logger = logging.getLogger(__name__)

MOST_LONE_ENDS = 2  # of browsers with a single page, until that page is the cause
MOST_ENDS = 5  # of all browsers, including ends before the page was opened
MAX_BYTES = 200 * 2**20  # of a page if DOWNLOAD_MAXSIZE sets no limit
ANYWHERE = "https://example.com/"  # for the outgoing proxy of a page without a URL
NOWHERE = "http://no-page.invalid/"  # the origin that gets the headers of a blank page
CONVERT_S = 0.5  # reserved for the conversion
EMPTY: StateT = {"cookies": [], "origins": []}


class PageRendering:
    """Opens pages of one crawler in the shared browser.

    Writes ``rendered`` and ``warnings`` of the state of a page, and its ``browser_state`` for a
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

        Raises the errors of :mod:`scraper_service.crawling.page_errors` and of downloads
        over HTTP.
        """
        state = PageState.of(request)
        session = await self._session(state)
        begin = session if state.browser_state is None else state.browser_state
        began = time.monotonic()
        host = host_of(request.url)
        alone = self._browser.is_dangerous(host)
        ends = lone_ends = 0
        while True:
            try:
                page = await self._open(request, upstream, begin, alone=alone)
                break
            except MovedOn as moved:
                state.browser_state = moved.state
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
            await self._save(state, session or EMPTY, page.state)
        state.rendered = page.rendered
        state.warnings = (*state.warnings, *page.warnings)
        request.meta["download_latency"] = page.latency_s
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
        upstream: UpstreamProxy | None,
        begin: StateT | None,
        *,
        alone: bool,
    ) -> RenderedPage:
        state, asked_at = PageState.of(request), time.monotonic()
        async with self._browser.lend(patient=state.is_of_job, alone=alone) as running:
            if state.is_of_job:  # no client waits: the queue does not use up its time
                state.deadline += time.monotonic() - asked_at
            # Playwright takes 0.3 s to import, which lend() has done in a thread.
            from scraper_service.crawling.browser.open_page import PageOrder  # noqa: PLC0415
            from scraper_service.crawling.browser.render import (  # noqa: PLC0415
                render,
            )

            options = state.options
            ends_at = time.monotonic() + options.deadline_ms / 1000
            assert state.first_origin is not None
            order = PageOrder(
                url=request.url,
                first_origin=state.first_origin,
                options=options,
                load_s=request.meta["download_timeout"],
                ends_at=min(ends_at, state.deadline) - CONVERT_S,
                max_bytes=self._max_bytes(request),
                name=self._name,
                policy=self._policy,
                sites=self._sites,
                ads=await self._browser.blocked_hosts(),
                judge=self._judge(state),
                max_moves=self._max_moves - request.meta.get("redirect_times", 0),
                keep=keeper(self._settings, state),
                upstream=upstream,
                state=begin,
            )
            try:
                return await running.run(render(running, order))
            except BrowserGone as gone:
                gone.had_begun = order.has_begun
                raise

    def _max_bytes(self, request: Request) -> int:
        default = self._settings.getint("DOWNLOAD_MAXSIZE")
        return int(request.meta.get("download_maxsize", default)) or MAX_BYTES

    def _judge(self, state: PageState) -> Judge:
        """Return a judge of navigations: by the sites of the options, and robots.txt.

        The page of a crawl obeys robots.txt.
        """
        agents = state.robots_agents
        robots = self._crawler.get_downloader_middleware(RobotsMiddleware)

        async def judge(url: str, *, can_leave: bool) -> None:
            check_site(url, state.options)
            if not agents or robots is None:
                return
            # Fetching a robots.txt here could block forever: it may need the slot at the host
            # that this page holds.
            if can_leave and not robots.is_known(url):
                raise MovedOn(url)
            await robots.check(url, agents)

        return judge

    async def _session(self, state: PageState) -> StateT | None:
        """Return the cookies and storage of the named session of a page, None for none."""
        if state.options.storage is None or not state.team_id:
            return None
        return await Database.shared(self._settings).read(
            read_session, state.team_id, state.options.storage, self._box()
        )

    async def _save(self, state: PageState, earlier: StateT, after: StateT) -> None:
        name, team_id = state.options.storage, state.team_id
        assert name is not None
        if not team_id:
            warning = "The session was not kept: only the service keeps sessions."
        else:
            ask_on = before(state.deadline)
            database = Database.shared(self._settings)
            try:
                await ask_on(
                    lambda: database.write(
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
        state.warnings = (warning,)

    def _box(self) -> SessionBox:
        return SessionBox(service_secret(self._settings))


def product_tokens(user_agent: str) -> str:
    """Return the product tokens of ``USER_AGENT``, which name the operator."""
    inside = user_agent.partition("(compatible;")[2].partition(")")[0].split(";")
    return (inside[0] or user_agent).strip()


async def session_order(
    settings: BaseSettings,
    session_id: str,
    team_id: str,
    options: ScrapeOptions,
    url: str | None,
    state: dict[str, Any] | None,
) -> PageOrder:
    """Return the order for the page of a session.

    ``state`` are the cookies and storage that it begins with. Each navigation is resolved
    and checked by the egress rule before its request, so that a refused one leaves the page
    as it is; the passage of the page checks all requests again.
    """
    await load_modules()
    from scraper_service.crawling.browser.open_page import PageOrder  # noqa: PLC0415

    proxies = Proxies.shared(settings)
    upstream = proxies.choose("basic", session_id) or proxies.outgoing(url or ANYWHERE)
    policy = EgressPolicy(settings.getlist("EGRESS_ALLOW"))

    async def judge(url: str, *, can_leave: bool) -> None:
        if url_parts(url).scheme not in {"http", "https"}:
            raise ForbiddenDestination("no http(s) URL")
        if (refusal := order.refusal(host_of(url))) is not None:
            raise refusal
        await resolve(policy, url, upstream)

    async def keep(data: bytes, kind: str) -> str:
        page = PageState(
            options=options,
            scrape_id=session_id,
            source_url=order.url,
            team_id=team_id,
            deadline=order.ends_at,
        )
        return await keeper(settings, page)(data, kind)

    order = PageOrder(
        url=url or NOWHERE,
        first_origin=origin(url or NOWHERE),
        options=options,
        load_s=0.0,
        ends_at=time.monotonic(),
        max_bytes=settings.getint("DOWNLOAD_MAXSIZE") or MAX_BYTES,
        name=product_tokens(settings["USER_AGENT"]),
        policy=policy,
        sites=parse_sites(settings.getlist("BLOCKED_SITES")),
        ads=await SharedBrowser.shared(settings).blocked_hosts(),
        judge=judge,
        max_moves=settings.getint("REDIRECT_MAX_TIMES"),
        keep=keep,
        upstream=upstream,
        state=state,
    )
    return order
