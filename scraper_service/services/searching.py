"""Search results and their pages, which are scraped like any other page."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from attrs import evolve, field, frozen

from scraper_service.content.search.query import category_of
from scraper_service.errors import (
    DiskQuotaExceeded,
    OutOfCredits,
    QueueFull,
    ServiceUnavailable,
)
from scraper_service.items import Hit, Page
from scraper_service.options.crawl import PageOptions
from scraper_service.options.urls import caller_url
from scraper_service.services.resident_crawler import failed_page
from scraper_service.shared_objects import BackgroundTasks

if TYPE_CHECKING:
    from scraper_service.options.map_search import SearchOptions
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.search_engines.web_search import SearchOutcome
    from scraper_service.services.accounts import Team

PAGES_AT_ONCE = 16  # of one search
IMAGES = "images"  # results of this kind are never scraped

ScrapeT: TypeAlias = "Callable[[PageOptions, Team, int, str], Awaitable[Page]]"

logger = logging.getLogger(__name__)


@frozen
class Result:
    """A search result."""

    hit: Hit
    #: The rank of the result, from 1.
    position: int
    category: str | None = None
    #: None if only the list of results was requested.
    page: Page | None = None


@frozen
class SearchAnswer:
    """The results of a search."""

    id: str
    #: Results by kind of source.
    groups: Mapping[str, tuple[Result, ...]]
    warnings: tuple[str, ...]
    #: Credits for the search and its pages.
    credits_used: int
    #: Ids of pages that are scraped in the background, by kind; else None.
    scrape_ids: Mapping[str, tuple[str, ...]] | None = None
    #: True if the pages were scraped.
    is_scraped: bool = field(default=False)


class ResultPages:
    """Scrapes the results of one search, until its deadline."""

    _in_background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(
        self,
        scrape: ScrapeT,
        options: SearchOptions,
        team: Team,
        version: int,
        deadline: float,
    ):
        self._scrape = scrape
        self._options = options
        self._team = team
        self._version = version
        self._deadline = deadline
        self._turns = asyncio.Semaphore(PAGES_AT_ONCE)

    async def answer(
        self, search_id: str, found: SearchOutcome, price: int
    ) -> SearchAnswer:
        """Return the results, with their pages if the options ask for them."""
        groups = {
            kind: tuple(
                Result(hit, n, category_of(hit.url, self._options.categories))
                for n, hit in enumerate(hits, 1)
            )
            for kind, hits in found.groups.items()
        }
        answer = SearchAnswer(search_id, groups, found.warnings, price)
        scrape = self._options.scrape
        if scrape is None or not scrape.formats:
            return answer
        if self._options.in_background:
            return evolve(answer, scrape_ids=self._begin(groups, scrape))
        kinds = [kind for kind in groups if kind != IMAGES]
        scraped = await asyncio.gather(
            *(self._scrape_results(groups[kind], scrape) for kind in kinds)
        )
        groups |= zip(kinds, scraped, strict=True)
        pages = [each.page for results in groups.values() for each in results]
        total = price + sum(page.metadata.credits_used for page in pages if page)
        return evolve(answer, groups=groups, credits_used=total, is_scraped=True)

    async def _scrape_results(
        self, results: tuple[Result, ...], scrape: ScrapeOptions
    ) -> tuple[Result, ...]:
        ids = [str(uuid.uuid4()) for _ in results]
        pages = await asyncio.gather(
            *(
                self._page(result.hit.url, scrape, scrape_id, self._deadline)
                for result, scrape_id in zip(results, ids, strict=True)
            )
        )
        return tuple(
            evolve(result, page=page)
            for result, page in zip(results, pages, strict=True)
        )

    def _begin(
        self, groups: Mapping[str, tuple[Result, ...]], scrape: ScrapeOptions
    ) -> dict[str, tuple[str, ...]]:
        """Scrape the pages in the background; return their ids."""
        ids = {}
        for kind, results in groups.items():
            if kind == IMAGES:
                continue
            ids[kind] = tuple(str(uuid.uuid4()) for _ in results)
            for result, scrape_id in zip(results, ids[kind], strict=True):
                self._in_background.spawn(
                    self._in_own_time(result.hit.url, scrape, scrape_id)
                )
        return ids

    async def _in_own_time(
        self, url: str, scrape: ScrapeOptions, scrape_id: str
    ) -> None:
        deadline = time.monotonic() + scrape.deadline_ms / 1000
        page = await self._page(url, scrape, scrape_id, deadline)
        if page.failure is not None:
            logger.info("a result of a search failed: %s", page.failure.message)

    async def _page(
        self, url: str, scrape: ScrapeOptions, scrape_id: str, deadline: float
    ) -> Page:
        """Return the page of a result; a failed page if it cannot be fetched."""
        options = PageOptions(
            url=url,
            scrape=scrape,
            origin=self._options.origin,
            integration=self._options.integration,
            audit_username=self._options.audit_username,
        )
        try:
            options = evolve(options, url=caller_url(url))
            async with self._turns, asyncio.timeout(deadline - time.monotonic()):
                return await self._scrape(options, self._team, self._version, scrape_id)
        except TimeoutError:
            text = "The page was not ready within the timeout of the search."
            return failed_page(options, scrape_id, "SCRAPE_TIMEOUT", text)
        except OutOfCredits as error:
            code, text = "INSUFFICIENT_CREDITS", str(error)
        except DiskQuotaExceeded as error:
            code, text = "DISK_QUOTA_EXCEEDED", str(error)
        except QueueFull as error:
            code, text = "CONCURRENCY_QUEUE_TIMEOUT", str(error)
        except (ValueError, ServiceUnavailable) as error:
            code, text = "BAD_REQUEST", str(error)
        return failed_page(options, scrape_id, code, text)
