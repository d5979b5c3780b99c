"""A page in the browser with a context of its own, its order and its result.

The page sees the device, location and language of its order. Each of its navigations is
checked before the request, and gets the caller's headers at the requested origin only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Protocol, Self

from attrs import define, field, frozen
from playwright.async_api import Error as PlaywrightError

from scraper_service.content.page_urls import AD_PATHS, is_blocked
from scraper_service.crawling.browser import scripts
from scraper_service.crawling.browser.proxy import Blocked, Passage
from scraper_service.crawling.browser.running_browser import RunningBrowser
from scraper_service.crawling.egress import EgressPolicy
from scraper_service.crawling.page_errors import (
    SITE_BLOCKED,
    BlockedSite,
    BrowserGone,
    MovedOn,
    SiteRefused,
    TooManyRedirects,
)
from scraper_service.crawling.proxies import UpstreamProxy
from scraper_service.items import Rendered
from scraper_service.options.formats import Screenshot
from scraper_service.options.limits import BlockedSites
from scraper_service.options.scrape import (
    DEFAULT_COUNTRY,
    GENERIC_COUNTRY,
    LANGUAGES,
    ScrapeOptions,
    time_zones,
)
from scraper_service.options.urls import OriginT, host_of, origin, root_url
from scraper_service.shared_objects import BackgroundTasks

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

    from scraper_service.options.scrape import Location


DESKTOP = {"width": 1280, "height": 720}
MOBILE = {"width": 412, "height": 839}
MOBILE_SCALE = 2.625
LOCALE = "en-US"

_DESKTOP_AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/{major}.0.0.0 Safari/537.36 {name}"
)
_MOBILE_AGENT = (
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/{major}.0.0.0 Mobile Safari/537.36 {name}"
)
ACTION_MS = 10_000  # for an element to appear and to accept a click
OPEN_S = 20.0  # for an empty page


class OwnHeaders:
    """The caller's headers for an origin: ``cookies`` for its host, and ``others``."""

    def __init__(self, first_origin: OriginT, given: tuple[tuple[str, str], ...]):
        self._first_origin = first_origin
        self.others = {n.lower(): (n, v) for n, v in given if n.lower() != "cookie"}
        self.cookies: list[dict[str, Any]] = [
            {"name": name, "value": value, "url": root_url(first_origin)}
            for header, text in given
            if header.lower() == "cookie"
            for name, value in _pairs(text)
        ]

    def of(self, request: dict[str, Any]) -> list[dict[str, str]]:
        """Return the headers for a request of the page.

        ``request`` is a request of the DevTools protocol.
        """
        sent = {k.lower(): (k, v) for k, v in request["headers"].items()}
        if origin(request["url"]) == self._first_origin:
            sent |= self.others
        else:
            # A redirect keeps the headers that were set for its first request.
            for name, (_, value) in self.others.items():
                if sent.get(name, ("", ""))[1] == value:
                    del sent[name]
        return [{"name": name, "value": value} for name, value in sent.values()]


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = SimpleCookie(text)
    except CookieError:
        return []
    return [(name, morsel.coded_value) for name, morsel in found.items()]


class Judge(Protocol):
    """Decides whether a page may navigate to a URL."""

    async def __call__(self, url: str, *, can_leave: bool) -> None:
        """Raise the error for the page if it may not navigate to ``url``.

        With ``can_leave`` the error may be :exc:`MovedOn`. The URL is then fetched like the
        target of a redirect.
        """
        ...


class Moves:
    """Checks each navigation of a page, and each redirect.

    At most ``most`` redirects may follow each other. The first URL is the requested URL, which is
    not checked. A refused URL is not requested, and :attr:`refused` has the error. ``headers``
    are added to matching requests.
    """

    def __init__(self, headers: OwnHeaders, judge: Judge, most: int):
        self._headers = headers
        self._judge = judge
        self._most = most
        self._hops = -1
        self._is_acting = False
        self._frame_id = ""
        self._last_url = ""
        self._tasks = BackgroundTasks()
        self.refused: asyncio.Future[Exception] = asyncio.Future()

    async def attach(self, session: CDPSession) -> None:
        """Start with an empty page."""
        tree = await session.send("Page.getFrameTree")
        self._frame_id = tree["frameTree"]["frame"]["id"]
        pattern = {"urlPattern": "*"}
        if not self._headers.others:
            pattern["resourceType"] = "Document"
        spawn = self._tasks.spawn
        session.on("Fetch.requestPaused", lambda e: spawn(self._go_on(session, e)))
        await session.send("Fetch.enable", {"patterns": [pattern]})

    def begin_action(self) -> None:
        """Note that the caller's actions cause the next navigations."""
        self._is_acting = True
        self._hops = -1

    def begin_step(self) -> None:
        """Forget a refused URL: the next step of a page that stays open begins."""
        self.refused = asyncio.Future()
        self.begin_action()

    def go_on(self) -> None:
        """Note that a caller acts outside of steps: earlier refusals do not delay it."""
        if self.refused.done():
            self.refused = asyncio.Future()
        self.begin_action()

    def take_file(self, url: str, name: str, *, is_loading: bool) -> None:
        """Leave the page if a script has moved it to a file, as a redirect would.

        A page that has loaded stays, unless the file is a PDF: some Chromium show those
        instead of the page, and others download them. Actions of the caller lead to no file.
        """
        is_move = url == self._last_url and self._hops > 0 and not self._is_acting
        leaves = is_loading or name.lower().endswith(".pdf")
        if is_move and leaves and not self.refused.done():
            self.refused.set_result(MovedOn(url))

    async def _go_on(self, session: CDPSession, event: dict[str, Any]) -> None:
        facts: dict[str, Any] = {"requestId": event["requestId"]}
        request = event["request"]
        is_move = event["frameId"] == self._frame_id
        try:
            if is_move and event["resourceType"] == "Document":
                await self._check(request)
                if self.refused.done():
                    facts["errorReason"] = "Aborted"
                    await session.send("Fetch.failRequest", facts)
                    return
            if self._headers.others:
                facts["headers"] = self._headers.of(request)
            await session.send("Fetch.continueRequest", facts)
        except PlaywrightError:
            return  # the page has navigated, or has ended

    async def _check(self, request: dict[str, Any]) -> None:
        self._hops += 1
        self._last_url = request["url"]
        if self.refused.done():
            return
        if not self._hops and not self._is_acting:
            return  # the requested URL
        can_leave = request["method"] == "GET" and not self._is_acting
        try:
            if self._hops > self._most:
                raise TooManyRedirects(f"more than {self._most} moves")
            await self._judge(request["url"], can_leave=can_leave)
        except Exception as error:  # any error, since the page must not hang
            if not self.refused.done():
                self.refused.set_result(error)


def user_agent(browser_version: str, name: str, *, mobile: bool) -> str:
    """Return the User-Agent of the browser. ``name`` has the operator's product tokens."""
    text = _MOBILE_AGENT if mobile else _DESKTOP_AGENT
    return text.format(major=browser_version.partition(".")[0], name=name)


def time_zone(location: Location | None) -> str | None:
    """Return the time zone of a location, None for the zone of the service."""
    if location is None or location.country == GENERIC_COUNTRY:
        return None
    return time_zones().get(location.country)


def languages(location: Location | None) -> tuple[str, ...]:
    """Return the languages of a location, best first."""
    if location is None:
        return (LOCALE, "en")
    if location.languages:
        return tuple(tag for tag in location.languages if tag != "*") or (LOCALE,)
    if location.country in {DEFAULT_COUNTRY, GENERIC_COUNTRY}:
        return (LOCALE, "en")
    language = LANGUAGES[location.country]
    return (f"{language}-{location.country}", language, "en")


def context_options(options: ScrapeOptions, version: str, name: str) -> dict[str, Any]:
    """Return the arguments of Playwright's ``new_context`` for a page."""
    shot = options.format(Screenshot)
    viewport = MOBILE if options.mobile else DESKTOP
    if shot and shot.viewport:
        viewport = {"width": shot.viewport.width, "height": shot.viewport.height}
    tags = languages(options.location)
    result: dict[str, Any] = {
        "accept_downloads": False,
        "has_touch": options.mobile,
        "ignore_https_errors": options.skip_tls_verification,
        "is_mobile": options.mobile,
        "locale": tags[0].replace("_", "-"),
        "permissions": [],
        "service_workers": "block",
        "user_agent": user_agent(version, name, mobile=options.mobile),
        "viewport": viewport,
    }
    if options.mobile:
        result["device_scale_factor"] = MOBILE_SCALE
    if zone := time_zone(options.location):
        result["timezone_id"] = zone
    return result


@define(kw_only=True)
class PageOrder:
    """The order for a rendered page."""

    url: str
    #: The origin that the caller requested. Only it gets the headers of ``options``.
    first_origin: OriginT
    options: ScrapeOptions
    #: Seconds for the first load.
    load_s: float
    #: Deadline, a time of :func:`time.monotonic`.
    ends_at: float
    #: The largest size of the HTML or file.
    max_bytes: int
    #: Product tokens of the operator.
    name: str
    policy: EgressPolicy
    #: Sites that the page must not reach.
    sites: BlockedSites
    #: Hosts that the page must not reach with ``block_ads``.
    ads: frozenset[str]
    #: Decides about navigations.
    judge: Judge
    #: The largest number of redirects in a row.
    max_moves: int
    #: Stores a file, given its bytes and kind (``png``, ``jpeg``, ``pdf``). Returns its URL.
    keep: Callable[[bytes, str], Awaitable[str]]
    upstream: UpstreamProxy | None = None
    #: Cookies and storage to begin with, as Playwright's storage state.
    state: dict[str, Any] | None = None
    #: The most pages of its context. Further ones, such as pop-ups, are closed.
    most_pages: int = 1
    #: True once the page was requested.
    has_begun: bool = False

    def refusal(self, host: str) -> Exception | None:
        """Return the error for a host that the page must not reach, None if it may."""
        if self.sites.covers_host(host):
            return BlockedSite(SITE_BLOCKED)
        rules = self.options.site_rules
        if rules is not None and not rules.allows_part(host):
            return SiteRefused("the site is excluded by threatProtection")
        if not self.options.block_ads or host == host_of(self.url):
            return None
        return Blocked(host) if is_blocked(host, self.ads) else None


@frozen(kw_only=True)
class RenderedPage:
    """A rendered page."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    latency_s: float
    rendered: Rendered
    #: Cookies and storage, None unless requested.
    state: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


# Not slots: Playwright sets attributes on the owners of handlers.
@define(eq=False, slots=False)
class OpenPage:
    """A page in a context of its own, an asynchronous context manager."""

    running: RunningBrowser
    order: PageOrder
    passage: Passage
    #: Done when the process of the page has ended.
    lost: asyncio.Future[None] = field(factory=asyncio.Future)
    page: Any = None
    moves: Any = None
    #: Texts by their subject, which has one at most.
    warnings: dict[str, str] = field(factory=dict)
    #: True once the document is parsed. False while a script holds up the parser.
    has_text: bool = False
    #: Playwright's context of the page.
    context: Any = None
    _debugger: Any = None
    _tasks: BackgroundTasks = field(factory=BackgroundTasks)

    async def __aenter__(self) -> Self:
        order, browser = self.order, self.running.browser
        facts = context_options(order.options, browser.version, order.name)
        if order.state:
            facts["storage_state"] = order.state
        # Without this rule Chromium connects to addresses of its machine directly.
        facts["proxy"] = {"server": self.passage.address, "bypass": "<-loopback>"}
        try:
            async with asyncio.timeout(OPEN_S):  # a browser that hangs never replies
                self.context = await browser.new_context(**facts)
        except TimeoutError as error:
            self.running.is_worn = True
            raise BrowserGone("no page could be opened") from error
        try:
            # Playwright waits forever for a page whose process dies at its start.
            async with asyncio.timeout(OPEN_S):
                await self._prepare()
        except (PlaywrightError, TimeoutError) as error:
            # Nothing of the page was requested yet.
            await self.running.close_context(self.context)
            raise BrowserGone("no page could be opened") from error
        except BaseException:
            await self.running.close_context(self.context)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.running.close_context(self.context)

    async def _prepare(self) -> None:
        options = self.order.options
        await self.context.add_init_script(scripts.WATCH)
        self.page = await self.context.new_page()
        self.context.on("page", self._close_popup)
        self.page.on("crash", self._on_crash)
        self.page.on("download", self._on_download)
        headers = OwnHeaders(self.order.first_origin, options.headers)
        if headers.cookies:
            await self.context.add_cookies(headers.cookies)
        if options.location and len(options.location.languages) > 1:
            await self._speak(options.location.languages)
        self.moves = Moves(headers, self.order.judge, self.order.max_moves)
        await self.moves.attach(await self.debugger())
        if options.block_ads:
            session = await self.debugger()
            await session.send("Network.enable")
            await session.send("Network.setBlockedURLs", {"urls": list(AD_PATHS)})

    async def _speak(self, tags: tuple[str, ...]) -> None:
        """Set several languages for the page. Playwright supports one."""
        session = await self.debugger()
        agent = await self.page.evaluate("navigator.userAgent")
        facts = {"userAgent": agent, "acceptLanguage": ",".join(tags)}
        await session.send("Network.setUserAgentOverride", facts)

    @property
    def patience_ms(self) -> float:
        """The time for an action to find its element."""
        left_ms = (self.order.ends_at - time.monotonic()) * 1000
        return max(1.0, min(ACTION_MS, left_ms / 2))

    async def debugger(self) -> CDPSession:
        """Return a session of the DevTools protocol for the page."""
        if self._debugger is None:
            self._debugger = await self.context.new_cdp_session(self.page)
        return self._debugger  # type: ignore[no-any-return]

    def _on_crash(self, _: object) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def _on_download(self, file: Any) -> None:
        loading = not self.has_text
        self.moves.take_file(file.url, file.suggested_filename, is_loading=loading)

    async def _close_popup(self, page: Any) -> None:
        if page is self.page:
            return
        with contextlib.suppress(PlaywrightError):
            if len(self.context.pages) > self.order.most_pages:
                await page.close()
            else:
                await self._guard(page)

    async def _guard(self, page: Any) -> None:
        """Refuse documents of another page that are not from the web, such as files."""
        session = await self.context.new_cdp_session(page)

        async def check(event: dict[str, Any]) -> None:
            facts: dict[str, Any] = {"requestId": event["requestId"]}
            with contextlib.suppress(PlaywrightError):
                if event["request"]["url"].startswith(("http://", "https://")):
                    await session.send("Fetch.continueRequest", facts)
                else:
                    facts["errorReason"] = "Aborted"
                    await session.send("Fetch.failRequest", facts)

        session.on("Fetch.requestPaused", lambda e: self._tasks.spawn(check(e)))
        patterns = [{"urlPattern": "*", "resourceType": "Document"}]
        await session.send("Fetch.enable", {"patterns": patterns})
