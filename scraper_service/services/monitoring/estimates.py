"""Prices of checks before they run, see docs/how-to/monitors.md, Credits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.options.monitors import SearchTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scraper_service.crawling.pricing import Prices
    from scraper_service.options.monitors import TargetT

DAYS = 30  # of an estimate of a month


@frozen
class Estimate:
    """The expected credits of a check."""

    #: All of them.
    credits: int
    #: Those that are taken before the check starts; a crawl takes its own.
    reserve: int


def estimate(
    targets: Iterable[TargetT],
    prices: Prices,
    *,
    judge: bool,
    crawled: Mapping[str, int] | None = None,
) -> Estimate:
    """Return the expected credits of a check.

    ``crawled`` are the pages of the last complete check by crawl target. Without them the
    limit of the crawl counts.
    """
    total = reserve = 0
    for target in targets:
        count = (crawled or {}).get(target.id) or target.max_pages
        price = (
            search_price(target, prices)
            if isinstance(target, SearchTarget)
            else count * prices.usual(target.scrape)
        )
        reserve += 0 if target.charges_itself else price
        total += price + (count if judge else 0)
    return Estimate(total, reserve)


def search_price(target: SearchTarget, prices: Prices) -> int:
    """Return the price of the searches of a target."""
    return prices.search(target.max_results) * len(target.queries)
