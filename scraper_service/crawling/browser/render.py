"""Renders pages in the browser, for the download handler: load, actions, content.

Sessions have their pages in :mod:`~scraper_service.crawling.browser.held_page`, by orders that
are made here.

Playwright takes 0.3 s to import: load this module by :func:`load_modules` first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as PlaywrightError
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError
from scrapy.http import Response

from scraper_service.content.stored_pages import append_browser_styles
from scraper_service.crawling.artefacts import keeper, service_secret
from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.actions import run_actions, screenshot
from scraper_service.crawling.browser.devtools import is_too_large
from scraper_service.crawling.browser.loading import (
    content,
    goto,
    has_moved,
    settle,
    wait_for_load,
)
from scraper_service.crawling.browser.open_page import (
    OpenPage,
    PageOrder,
    RenderedPage,
    time_zone,
)
from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.browser.shared_browser import SharedBrowser
from scraper_service.crawling.egress import EgressPolicy, ForbiddenDestination
from scraper_service.crawling.page_errors import (
    BrowserGone,
    MovedOn,
    NotAPage,
    PageTooLarge,
    check_site,
)
from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.proxies import Proxies, resolve
from scraper_service.crawling.robots import RobotsMiddleware
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Rendered
from scraper_service.options.formats import Branding, Screenshot
from scraper_service.options.limits import parse_sites
from scraper_service.options.urls import host_of, origin, url_parts
from scraper_service.storage.accounts.sessions import (
    SessionBox,
    read_session,
    save_session,
)
from scraper_service.storage.connections import before
from scraper_service.storage.database import Database

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.browser.open_page import Judge
    from scraper_service.crawling.browser.running_browser import RunningBrowser
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
                        save_session,
                        team_id,
                        name,
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
    and checked by the egress rule before its request, so a refused navigation leaves the
    page unchanged. The passage of the page checks all requests again.
    """
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


LOST = "the process of the page ended"
MAX_LOOKS = 2**20  # characters
MAX_PAGE_BYTES = 200 * 2**20  # of traffic of one page
# Headers of the transfer, which do not describe the rendered page.
NOT_OF_THE_PAGE = frozenset(
    {"content-encoding", "content-length", "location", "refresh", "set-cookie"}
)
HTML = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"


async def render(running: RunningBrowser, order: PageOrder) -> RenderedPage:
    """Return a page after its scripts have run. Removes it from the browser.

    Raises errors of downloads over HTTP and in the browser.
    """
    passage = Passage(
        order.policy,
        refusal=order.refusal,
        max_bytes=MAX_PAGE_BYTES,
        upstream=order.upstream,
    )
    async with passage:
        try:
            async with (
                asyncio.timeout(order.ends_at - time.monotonic()),
                OpenPage(running, order, passage) as opened,
            ):
                return await _render_page(opened)
        except TimeoutError:
            raise DownloadTimeoutError("the page was not ready in time") from None


async def _render_page(opened: OpenPage) -> RenderedPage:
    """Load the page, run its actions, and return the result.

    Ends at once if the page navigates to a refused URL.
    """
    work = asyncio.ensure_future(_take(opened))
    refused: asyncio.Future[Exception] = opened.moves.refused
    ends = (work, refused, opened.lost)
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if refused.done():
            raise refused.result()
        if opened.lost.done():
            raise BrowserGone(LOST)
        return await work
    except MovedOn as moved:
        moved.state = {
            "cookies": await opened.context.cookies(),
            "origins": (opened.order.state or {}).get("origins", []),
        }
        raise
    except PlaywrightError as error:
        raise browser_error(opened, error) from error
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def browser_error(opened: OpenPage, error: PlaywrightError) -> Exception:
    """Return the error of a page whose browser failed."""
    if opened.lost.done():
        return BrowserGone(LOST)
    if not opened.running.is_alive:
        return BrowserGone("the browser ended")
    if is_too_large(error):
        return PageTooLarge(opened.order.max_bytes)
    return DownloadFailedError(str(error).split("\n")[0])


async def _take(opened: OpenPage) -> RenderedPage:
    options = opened.order.options
    began = time.monotonic()
    answer = await goto(opened)
    latency_s = time.monotonic() - began
    headers, is_page = await wait_for_page(opened, answer)
    if options.wait_for_ms:
        await opened.page.wait_for_timeout(options.wait_for_ms)
        await settle(opened, anew=False, for_text=not options.actions)
    results = await run_actions(opened, options.actions)
    found = await content(opened)
    check_url(opened, found["url"])
    if found["type"] == PDF:
        raise MovedOn(found["url"])
    status = answer.status
    # Of a page that could not be parsed, the document as received has all text.
    if is_page and (opened.has_text or found["is_parsed"]):
        body = await page_html(opened, found["html"])
        if _page_of(found["url"]) != _page_of(answer.url):
            status = found["status"] or 200
        headers["content-type"] = "text/html; charset=utf-8"
    elif found["size"] > opened.order.max_bytes:
        raise PageTooLarge(opened.order.max_bytes)
    else:
        body = await answer.body()
    shot = await page_screenshot(opened)
    state = await opened.context.storage_state() if options.saves_storage else None
    return RenderedPage(
        url=found["url"],
        status=status,
        headers={
            name: value
            for name, value in headers.items()
            if name not in NOT_OF_THE_PAGE
        },
        body=body,
        latency_s=latency_s,
        rendered=Rendered(
            screenshot=shot,
            actions=results.as_json() if options.actions else None,
            time_zone=time_zone(options.location),
        ),
        state=state,
        warnings=tuple(opened.warnings.values()),
    )


async def wait_for_page(opened: OpenPage, answer: Any) -> tuple[dict[str, str], bool]:
    """Wait until the page of a response of Playwright is loaded.

    Return its headers with names in lower case, and True if it is HTML. Raises
    :exc:`NotAPage`.
    """
    headers = {k.lower(): v for k, v in (await answer.all_headers()).items()}
    mime = headers.get("content-type", "").partition(";")[0].strip().lower()
    if mime == PDF:  # shown by a viewer of the browser, without content
        raise NotAPage("the URL leads to a file")
    is_page = not mime or mime in HTML
    await wait_for_load(opened)
    if opened.order.options.block_ads and is_page and await _without_banner(opened):
        await settle(opened)
    return headers, is_page


async def page_html(opened: OpenPage, html: str) -> bytes:
    """Return the HTML of a page for its conversion. Raises :exc:`PageTooLarge`."""
    body = html.encode("utf-8", "replace")
    if len(body) > opened.order.max_bytes:
        raise PageTooLarge(opened.order.max_bytes)
    if opened.order.options.format(Branding):
        body = append_browser_styles(body, await _looks(opened))
    return body


async def _without_banner(opened: OpenPage) -> bool:
    try:
        return bool(await opened.page.evaluate(scripts.CONSENT))
    except PlaywrightError as error:
        if not has_moved(error):
            raise
        return True


async def _looks(opened: OpenPage) -> str:
    """Return CSS with the computed styles of brand elements."""
    try:
        return str(await opened.page.evaluate(scripts.LOOKS, MAX_LOOKS))
    except PlaywrightError as error:
        if not has_moved(error):
            raise
        return ""


async def page_screenshot(opened: OpenPage) -> str | None:
    """Return the URL of the screenshot among the formats, None without one."""
    wanted = opened.order.options.format(Screenshot)
    if wanted is None:
        return None
    taken = await screenshot(opened, full_page=wanted.full_page, quality=wanted.quality)
    return await opened.order.keep(taken, "png" if wanted.quality is None else "jpeg")


def check_url(opened: OpenPage, url: str) -> None:
    """Raise the failure of a page that a script navigated to."""
    if url_parts(url).scheme not in {"http", "https"}:
        raise failure_of(opened, opened.page.url)


def failure_of(opened: OpenPage, url: str) -> Exception:
    """Return why the page cannot be at ``url``, which the passage did not reach."""
    known = opened.passage.failure(url) or next(
        (
            e
            for e in opened.passage.failures.values()
            if isinstance(e, ForbiddenDestination)
        ),
        next(iter(opened.passage.failures.values()), None),
    )
    return known or DownloadFailedError("the page moved on to what is no page")


def _page_of(url: str) -> str:
    return url.partition("#")[0]
