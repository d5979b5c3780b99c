"""Compares pages of a check in the converter pool, and goes on without those that break it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scraper_service.content.change_tracking.monitored_pages import (
    ComparedPage,
    compare_monitored,
)
from scraper_service.errors import ConverterDied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.options.monitors.targets import CrawlTarget, ScrapeTarget
    from scraper_service.services.operations.operations import Operation

COMPARE_S = 60.0  # of pages together; one comparison has a limit of its own
BROKEN = (ConverterDied, MemoryError, TimeoutError)
NOT_COMPARED = "The page could not be compared ({})."

logger = logging.getLogger(__name__)


async def compared(
    pool: ConverterPool,
    operation: Operation,
    target: ScrapeTarget | CrawlTarget,
    pages: Sequence[bytes],
    earlier: Sequence[bytes | None],
) -> list[ComparedPage]:
    """Return the pages, compared with the last snapshots of their URLs.

    Pages that together take too much time or memory are compared in halves. A page that
    does so alone is an error.
    """
    try:
        found: list[ComparedPage] = await pool.run(
            compare_monitored,
            list(pages),
            list(earlier),
            target.mode,
            target.compare,
            timeout_s=COMPARE_S,
            team_id=operation.team_id,
            job_id=operation.id,
        )
    except BROKEN as error:
        if len(pages) > 1:
            middle = len(pages) // 2
            first = await compared(
                pool, operation, target, pages[:middle], earlier[:middle]
            )
            rest = await compared(
                pool, operation, target, pages[middle:], earlier[middle:]
            )
            return [*first, *rest]
        logger.warning("a page of check %s was not compared (%r)", operation.id, error)
        text = NOT_COMPARED.format(type(error).__name__)
        return [
            ComparedPage(
                status="error", url="", scrape_id=None, status_code=None, error=text
            )
        ]
    return found
