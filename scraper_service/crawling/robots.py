"""The robots.txt of every site that is crawled: fetched once, kept, forgotten in time.

RFC 9309, section 2.4.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attrs import evolve, frozen

from scraper_service.crawling.robots_fetch import (
    RobotsAnswer,
    fetch_robots,
    reason_of,
    unreachable,
)
from scraper_service.options.origins import origin, robots_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.options.origins import OriginT

STALE_S = 30 * 86_400  # rules of a site that went away (RFC 9309, 2.3.1.4)
ENTRY_BYTES = 2000  # of a kept answer besides its rules
MAX_DOUBLINGS = 20
REFERENCE_AGENT = "FirecrawlAgent"  # interface document, 11.4 rule 7; in any case

_COMPATIBLE = re.compile(r"compatible;\s*([A-Za-z_-]+)", re.IGNORECASE)
_PRODUCT = re.compile(r"([A-Za-z_-]+)")


@frozen
class _Kept:
    """An answer and its times: fetched again from ``until`` on, ``read_at`` its age.

    ``failures`` are those in a row.
    """

    answer: RobotsAnswer
    read_at: float
    until: float
    failures: int

    @property
    def size(self) -> int:
        return ENTRY_BYTES + self.answer.rules.size


class RobotsPolicy:
    """The answers of a process, the latest used up to ``ROBOTS_CACHE_MB``.

    One is kept for ``ROBOTS_MAX_AGE_S``; where the site failed for ``ROBOTS_RETRY_S``,
    twice as long with each further failure, beside the rules it had before. ``clock``
    gives seconds. Stats, of the crawler that fetched: ``robots/<state>``.
    """

    _shared: ClassVar[Self | None] = None

    def __init__(
        self, settings: BaseSettings, clock: Callable[[], float] = time.monotonic
    ):
        self._clock = clock
        self._timeout_s = settings.getfloat("ROBOTS_TIMEOUT_S")
        self._max_age_s = settings.getfloat("ROBOTS_MAX_AGE_S")
        self._retry_s = settings.getfloat("ROBOTS_RETRY_S")
        self._max_bytes = settings.getint("ROBOTS_CACHE_MB") * 2**20
        self._agents = (product_token(settings), REFERENCE_AGENT)
        self._kept: OrderedDict[OriginT, _Kept] = OrderedDict()
        self._bytes = 0
        self._fetching: dict[OriginT, asyncio.Task[RobotsAnswer | None]] = {}

    @classmethod
    def shared(cls, settings: BaseSettings) -> Self:
        """Return the one policy of this process, made on first use."""
        if cls._shared is None:
            cls._shared = cls(settings)
        return cls._shared

    def agents(self, robots_user_agent: str | None = None) -> tuple[str, ...]:
        """Return whose group counts, best first: the caller's agent, or else ours."""
        return (robots_user_agent,) if robots_user_agent else self._agents

    def known(self, url: str) -> RobotsAnswer | None:
        """Return the answer of the site of ``url``; None if it has to be fetched."""
        key = origin(url)
        kept = self._kept.get(key)
        if kept is None or kept.until <= self._clock():
            return None
        self._kept.move_to_end(key)
        return kept.answer

    async def rules(self, crawler: Crawler, url: str) -> RobotsAnswer:
        """Return the answer of the site of ``url``, fetched if need be; never raises.

        All who ask meanwhile get what the first one fetches.
        """
        key = origin(url)
        while (answer := self.known(url)) is None:
            task = self._fetching.get(key)
            is_ours = task is None
            if task is None:
                task = asyncio.ensure_future(self._fetch(crawler, key))
                self._fetching[key] = task
            # Shielded: who goes away must not take it from the others.
            if (answer := await asyncio.shield(task)) is not None:
                break
            if is_ours:
                return unreachable("the crawl was ending")
        return answer

    async def _fetch(self, crawler: Crawler, key: OriginT) -> RobotsAnswer | None:
        """Return and keep the answer; None if ``crawler`` ended before there was one."""
        try:
            answer = await fetch_robots(crawler, robots_url(key), self._timeout_s)
        except Exception as error:
            if not _is_open(crawler):
                return None
            answer = unreachable(reason_of(error))
        finally:
            self._fetching.pop(key, None)
        if crawler.stats is not None:
            crawler.stats.inc_value(f"robots/{answer.state}")
        return self._keep(key, answer)

    def _keep(self, key: OriginT, answer: RobotsAnswer) -> RobotsAnswer:
        """Keep ``answer``, or what came before it if that is better; return the kept."""
        now = read_at = self._clock()
        before = self._kept.pop(key, None)
        self._bytes -= before.size if before else 0
        failures, wait_s = 0, self._max_age_s
        if answer.passing:
            failures = before.failures + 1 if before else 1
            doublings = min(failures - 1, MAX_DOUBLINGS)
            wait_s = min(wait_s, self._retry_s * 2**doublings)
            if (
                before
                and before.answer.state == "ok"
                and now - before.read_at < STALE_S
            ):
                answer = evolve(before.answer, detail=answer.detail)
                read_at = before.read_at
        kept = _Kept(answer, read_at, now + wait_s, failures)
        self._kept[key] = kept
        self._bytes += kept.size
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].size
        return answer


def product_token(settings: BaseSettings) -> str:
    """Return by what name a robots.txt may address us (RFC 9309, 2.2.1)."""
    if token := settings["ROBOTS_AGENT"]:
        return str(token)
    user_agent = str(settings["USER_AGENT"])
    found = _COMPATIBLE.search(user_agent) or _PRODUCT.match(user_agent)
    return found[1] if found else ""


def _is_open(crawler: Crawler) -> bool:
    engine: Any = crawler.engine if crawler.crawling else None
    return engine is not None and engine.running and engine.spider is not None
