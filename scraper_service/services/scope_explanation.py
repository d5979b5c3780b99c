"""Whether a crawl would fetch an address, told without fetching any."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from scraper_service.discovery import Reason, Refusal, followed
from scraper_service.discovery.sitemap_locations import first_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.crawling.robots import RobotsPolicy
    from scraper_service.options.jobs import CrawlOptions


@frozen
class Explanation:
    """Whether a crawl would fetch ``url``; ``refusal`` is None if it would.

    ``robots`` is ``allowed``, ``refused``, ``unknown`` or None where nobody asks.
    """

    url: str
    refusal: Refusal | None = None
    robots: str | None = None


async def explain(
    options: CrawlOptions, urls: Sequence[str], depth: int, robots: RobotsPolicy
) -> list[Explanation]:
    """Tell of addresses whether a crawl would fetch them.

    ``depth`` is the number of links that each is away from the start. Only those
    robots.txt are looked at that are known already.
    """
    found = await asyncio.to_thread(_by_rules, options, urls, depth)
    if options.ignore_robots_txt:
        return found
    return [_with_robots(each, options, robots) for each in found]


def _by_rules(
    options: CrawlOptions, urls: Sequence[str], depth: int
) -> list[Explanation]:
    """Apply the rules of a crawl that need nothing but the address."""
    scope = first_scope(options)
    found = []
    for url in urls:
        address = followed(url)
        found.append(Explanation(address, scope.refusal(address, depth)))
    return found


def _with_robots(
    found: Explanation, options: CrawlOptions, robots: RobotsPolicy
) -> Explanation:
    if found.refusal is not None:
        return found
    if (rules := robots.known(found.url)) is None:
        return evolve(found, robots="unknown")
    agents = robots.agents(options.robots_user_agent)
    if rule := rules.refusal(found.url, agents):
        return evolve(found, robots="refused", refusal=Refusal(Reason.ROBOTS, rule))
    return evolve(found, robots="allowed")
