"""robots.txt before a page of a crawl is fetched, redirects included."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import CannotResolveHostError, IgnoreRequest
from scrapy.http import Response

from scraper_service.crawling.report_recorder import JobRecorder
from scraper_service.crawling.robots import RobotsPolicy
from scraper_service.options.origins import origin
from scraper_service.storage.politeness.hosts import pace_key
from scraper_service.storage.politeness.pace import HostPace

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.crawling.robots_fetch import RobotsAnswer


class RobotsRefused(IgnoreRequest):
    """The robots.txt of the site keeps us from a page; the text says which line."""


class RobotsUnreachable(IgnoreRequest):
    """Nobody knows what the robots.txt of the site says; the text says why."""


class RobotsMiddleware:
    """Refuse what ``meta["robots_agents"]``, a tuple of names, may not fetch.

    With ``meta["robots_only"]`` the answer is a JSON list of the sitemaps that the
    site's robots.txt names, and nothing else is fetched.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._policy = RobotsPolicy.shared(crawler.settings)
        self._pace = HostPace.shared(crawler.settings)
        self._recorder = JobRecorder.find(crawler)
        self._noted: tuple[object, ...] = ()  # what the recorder was told last

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> Response | None:
        agents: tuple[str, ...] | None = request.meta.get("robots_agents")
        if request.meta.get("robots_only"):
            answer = await self._rules(request.url, agents or ())
            declared = json.dumps(list(answer.sitemaps)).encode()
            return Response(request.url, body=declared, request=request)
        if agents:
            await self.check(request.url, agents)
        return None

    def is_known(self, url: str) -> bool:
        """Tell whether :meth:`check` of an address needs no request."""
        return self._policy.known(url) is not None

    async def check(self, url: str, agents: tuple[str, ...]) -> None:
        """Raise :exc:`RobotsRefused` or :exc:`RobotsUnreachable` if one applies.

        A site whose name does not resolve has no page either:
        :exc:`CannotResolveHostError`.
        """
        answer = await self._rules(url, agents)
        if answer.unresolved:
            raise CannotResolveHostError(answer.detail)
        if delay_s := answer.group(agents).crawl_delay_s:
            self._pace.turns.set_crawl_delay(pace_key(url), delay_s)
        if refusal := answer.refusal(url, agents):
            is_read = answer.state == "ok"
            raise (RobotsRefused if is_read else RobotsUnreachable)(refusal)

    async def _rules(self, url: str, agents: tuple[str, ...]) -> RobotsAnswer:
        answer = await self._policy.rules(self._crawler, url)
        if self._recorder is not None:
            news = (origin(url), answer, agents)
            if news != self._noted:
                self._noted = news
                self._recorder.note_robots(url, answer, agents)
        return answer
