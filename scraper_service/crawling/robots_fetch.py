"""Fetch and read one robots.txt (RFC 9309, section 2.3).

Through the asking crawler's engine, so the same handler, egress rule and
``User-Agent`` serve it as any page; read in the converter pool.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen
from scrapy import Request, signals
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.http.request import NO_CALLBACK

from scraper_service.crawling.converter_pool.pool import ConverterPool
from scraper_service.crawling.download.download_errors import CertificateError, SiteBusy
from scraper_service.crawling.download.egress import ForbiddenDestination, ForbiddenPort
from scraper_service.discovery.robots import MAX_BYTES, read_robots
from scraper_service.discovery.robots_rules import REFUSE_ALL, RobotsRules
from scraper_service.errors import ConverterDied
from scraper_service.options.origins import origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scraper_service.discovery.robots_rules import RobotsGroup

logger = logging.getLogger(__name__)

MAX_REDIRECTS = 5  # RFC 9309, 2.3.1.2
PASSING = frozenset({408, 425, 429})  # "not now" instead of "none": asked again soon
PATIENCE_S = 900  # for a site whose pace has no room, as its pages wait too
READERS = "robots.txt"  # in place of a team: its converter time is its own
PAUSE_S = 0.1  # at least between two requests for room

# The first class that fits counts. Said of the robots.txt, to callers.
FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (ForbiddenPort, "no page comes from its port"),
    (ForbiddenDestination, "it leads to a network that is not fetched from"),
    (SiteBusy, "the site asks for a pause that is too long to wait"),
    (DownloadTimeoutError, "no complete answer came in time"),
    (CannotResolveHostError, "the host name does not resolve"),
    (CertificateError, "the secure connection failed"),
    (DownloadConnectionRefusedError, "the site refuses connections"),
    (ResponseDataLossError, "the site broke off in the middle of its answer"),
    (DownloadFailedError, "the site closed the connection or did not speak HTTP"),
    (TimeoutError, "it took too long to read"),
    (ConverterDied, "reading it ended the process that read it"),
    (MemoryError, "it took too much memory to read"),
)


@frozen
class RobotsAnswer:
    """What a site's robots.txt came to.

    ``state`` is ``ok`` (read), ``absent`` (everything is allowed) or ``unreachable``
    (everything is refused); ``detail`` says why in a sentence, empty if all is well.
    ``passing``: it may be another one soon. ``unresolved``: unreachable, as the site
    itself has no address.
    """

    state: str
    detail: str = ""
    rules: RobotsRules = field(factory=RobotsRules)
    passing: bool = False
    unresolved: bool = False

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The addresses of its ``Sitemap`` lines, absolute."""
        return self.rules.sitemaps

    def group(self, agents: Sequence[str]) -> RobotsGroup:
        """Return the rules for the first of ``agents`` that has any, else for ``*``."""
        if self.state == "unreachable":
            return REFUSE_ALL
        return self.rules.group(agents)

    def agent(self, agents: Sequence[str]) -> str | None:
        """Return the name of that group, None if there is none."""
        return self.rules.agent(agents)

    def refusal(self, url: str, agents: Sequence[str]) -> str | None:
        """Return the sentence why a link is not followed, None if it may be."""
        verdict = self.group(agents).link_verdict(url)
        if verdict.allowed:
            return None
        if verdict.rule is None:
            return self.detail or "robots.txt has more rules than are read."
        return f"robots.txt refuses it in line {verdict.line}: {verdict.rule}"


def unreachable(why: str) -> RobotsAnswer:
    """Return the answer for a robots.txt that may exist and was not had."""
    detail = f"robots.txt could not be fetched: {why}."
    return RobotsAnswer("unreachable", detail, passing=True)


async def fetch_robots(crawler: Crawler, url: str, timeout_s: float) -> RobotsAnswer:
    """Return what is at ``url``, the address of a robots.txt.

    ``timeout_s`` is for all hops together, without pauses that the site asked for
    before. Raises whatever kept it from being had;
    :func:`reason_of` has the sentence.
    """
    try:
        response = await _response(crawler, url, timeout_s)
    except _Unresolved as error:
        return evolve(unreachable(reason_of(error)), unresolved=True)
    except IgnoreRequest:
        # As section 2.3.1.2 permits and Google does: such sites send visitors without
        # a cookie in circles, and have no robots.txt to find at the end.
        detail = f"robots.txt redirects more than {MAX_REDIRECTS} times."
        return RobotsAnswer("absent", detail)
    status = response.status
    if status >= 500:
        return unreachable(f"the site answered {status}")
    if status >= 300:
        detail = f"The site answered {status} for its robots.txt."
        return RobotsAnswer("absent", detail, passing=status in PASSING)
    if not response.body:
        return RobotsAnswer("ok")
    header = b",".join(response.headers.getlist("Content-Encoding"))
    names = header.decode("latin-1").lower().split(",")
    rules = await ConverterPool.shared(crawler.settings).run(
        read_robots,
        response.body,
        response.url,
        tuple(name.strip() for name in names if name.strip()),
        team_id=READERS,
    )
    if rules.fault:
        return unreachable(f"it {rules.fault}")
    return RobotsAnswer("ok", rules=rules)


def reason_of(error: Exception) -> str:
    """Return why a robots.txt was not had; an unknown cause is logged."""
    for kind, why in FAILURES:
        if isinstance(error, kind):
            logger.debug("robots.txt: %s", error)
            return why
    logger.error("a robots.txt failed in an unforeseen way", exc_info=error)
    return "it failed in an unforeseen way"


async def _response(crawler: Crawler, url: str, timeout_s: float) -> Response:
    """Return the answer, as soon as the pace of the site admits the request."""
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await _download(crawler, url, timeout_s)
        except SiteBusy as busy:
            if busy.opens_at > give_up_at:
                raise
            await asyncio.sleep(max(PAUSE_S, busy.opens_at - time.monotonic()))


async def _download(crawler: Crawler, url: str, timeout_s: float) -> Response:
    """Return the answer, cut after 500 KiB of its body."""
    assert crawler.engine is not None
    request = Request(
        url,
        callback=NO_CALLBACK,
        dont_filter=True,
        meta={
            "deadline": time.monotonic() + timeout_s,
            "dont_merge_cookies": True,
            "download_maxsize": 0,  # larger ones are cut, not refused
            "download_timeout": timeout_s,
            "redirect_ttl": MAX_REDIRECTS,
            "robots": url,
        },
    )
    cut = _Cut(url)
    crawler.signals.connect(cut.count, signals.bytes_received)
    crawler.signals.connect(cut.follow, signals.request_reached_downloader)
    try:
        return await crawler.engine.download_async(request)
    except CannotResolveHostError as error:
        if cut.hop and origin(cut.hop) != origin(url):
            raise
        raise _Unresolved(str(error)) from error
    finally:
        crawler.signals.disconnect(cut.count, signals.bytes_received)
        crawler.signals.disconnect(cut.follow, signals.request_reached_downloader)


class _Unresolved(CannotResolveHostError):
    """The name of the site itself does not resolve, not that of a redirect."""


class _Cut:
    """Ends the download of one robots.txt when enough of it is there.

    ``hop`` is the address that was asked for last.
    """

    def __init__(self, url: str):
        self._url = url
        self._request: Request | None = None
        self._left = 0
        self.hop = ""

    def follow(self, request: Request) -> None:
        """Take note of a hop; connected to ``request_reached_downloader``."""
        if request.meta.get("robots") == self._url:
            self.hop = request.url

    def count(self, data: bytes, request: Request) -> None:
        """Take note of ``data``; connected to ``bytes_received`` of all requests."""
        if request.meta.get("robots") != self._url:
            return
        if request is not self._request:  # another hop of the redirects
            self._request, self._left = request, MAX_BYTES
        self._left -= len(data)
        if self._left < 0:
            raise StopDownload(fail=False)
