"""What a page is to be opened with, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, frozen

from scraper_service.crawling.blocked_sites import SITE_BLOCKED, BlockedSite
from scraper_service.crawling.browser.ads import is_blocked
from scraper_service.crawling.browser.moves import Judge
from scraper_service.crawling.browser.proxy import Blocked
from scraper_service.crawling.download.egress import EgressPolicy
from scraper_service.crawling.download.proxies import UpstreamProxy
from scraper_service.crawling.download.request_options import SiteRefused
from scraper_service.items import Rendered
from scraper_service.options.limits import BlockedSites
from scraper_service.options.origins import OriginT, host_of
from scraper_service.options.scrape import ScrapeOptions


@define(kw_only=True)
class PageOrder:
    """What a page is to be opened with.

    ``asked`` is the origin that the caller asked for, which alone gets the headers of
    ``options``. ``ends_at`` is :func:`time.monotonic`. ``max_bytes`` is the size of its
    HTML or file, from which on it is refused. ``name`` says whose browser it
    is. ``sites`` and, with ``block_ads``, ``ads`` are hosts that the page does not
    reach. ``judge`` says where it may move to, at most ``max_moves`` times in a row.
    ``keep`` stores a file, given its bytes and kind (``png``, ``jpeg``, ``pdf``), and
    returns its address. ``state`` are the cookies and storage to begin with, as
    Playwright has them. ``has_begun`` becomes True when the page is asked for.
    """

    url: str
    asked: OriginT
    options: ScrapeOptions
    load_s: float
    ends_at: float
    max_bytes: int
    name: str
    policy: EgressPolicy
    sites: BlockedSites
    ads: frozenset[str]
    judge: Judge
    max_moves: int
    keep: Callable[[bytes, str], Awaitable[str]]
    upstream: UpstreamProxy | None = None
    state: dict[str, Any] | None = None
    has_begun: bool = False

    def refusal(self, host: str) -> Exception | None:
        """Return why the page does not reach a host, None if it may."""
        if self.sites.covers_host(host):
            return BlockedSite(SITE_BLOCKED)
        rules = self.options.site_rules
        if rules is not None and not rules.allows(host):
            return SiteRefused("the site is excluded by threatProtection")
        if not self.options.block_ads or host == host_of(self.url):
            return None
        return Blocked(host) if is_blocked(host, self.ads) else None


@frozen(kw_only=True)
class RenderedPage:
    """What became of it. ``state`` is None unless it was asked for."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    latency_s: float
    rendered: Rendered
    state: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
