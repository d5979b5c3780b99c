"""Orders for pages of sessions: the settings and rules that every such page obeys."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scraper_service.crawling.artefacts import keeper
from scraper_service.crawling.browser.rendering import MAX_BYTES, product_tokens
from scraper_service.crawling.browser.running_browser import load_modules
from scraper_service.crawling.browser.shared_browser import SharedBrowser
from scraper_service.crawling.network.egress import EgressPolicy, ForbiddenDestination
from scraper_service.crawling.network.proxies import Proxies, resolve
from scraper_service.crawling.page_state import PageState
from scraper_service.options.limits import parse_sites
from scraper_service.options.urls import host_of, origin, url_parts

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.browser.open_page import PageOrder
    from scraper_service.options.scrape import ScrapeOptions

ANYWHERE = "https://example.com/"  # for the outgoing proxy of a page without a URL
NOWHERE = "http://no-page.invalid/"  # the origin that gets the headers of a blank page


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
