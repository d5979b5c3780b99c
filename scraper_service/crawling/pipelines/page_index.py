"""Adds delivered pages to the page index of their team."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, field
from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.crawling import Component
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Page, SearchPage
from scraper_service.shared_objects import Singletons
from scraper_service.storage.connections import insist
from scraper_service.storage.database import INDEX, NO_ANSWER, Database
from scraper_service.storage.pages.page_index import PageIndex

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

MAX_WAITING = 2000  # waiting pages before callers have to wait
AT_ONCE = 100  # pages in one transaction
PATIENCE_S = 60.0  # with an unavailable database, as in a restart
NO_ENTRY = "its converter has died, or failed after its response"

logger = logging.getLogger(__name__)


class SearchIndexPipeline(Component):
    """Hands delivered pages to the page index. Does not wait for the index."""

    def __init__(self, crawler: Crawler):
        if not crawler.settings.getbool("SEARCH_INDEX"):
            raise NotConfigured  # with a reason it would be a warning at each start
        self._index = SearchIndex.shared(crawler.settings)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.search is not None:
            await self._index.add(item.search)
        return item

    async def _on_close(self) -> None:
        await self._index.flush()


@define
class _Group:
    """Pages of a team that are written together. ``written`` is done after it, also in vain."""

    pages: list[SearchPage] = field(factory=list)
    written: asyncio.Future[None] = field(
        factory=lambda: asyncio.get_running_loop().create_future()
    )


class SearchIndex:
    """Writes pages into the page index in groups.

    Logs pages that could not be written for :data:`PATIENCE_S`, or at the first try during
    :meth:`close_all`. Searches do not find them.
    """

    _instances: ClassVar[Singletons[SearchIndex]] = Singletons()

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._retention_s = settings.getfloat("CACHE_RETENTION_S")
        self._waiting: dict[str, _Group] = {}
        self._count = 0
        # By team, as the entry of a page may come late.
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._is_closing = False
        self._has_given_up = False  # a write failed during close_all()

    @classmethod
    def shared(cls, settings: BaseSettings) -> SearchIndex:
        """Return the index of this process for these settings."""
        key = (settings["DATA_DIR"], settings["DATABASE_URL"])
        return cls._instances.get(key, lambda: cls(settings))

    async def add(self, page: SearchPage) -> None:
        """Add a page. Waits only if more than :data:`MAX_WAITING` pages wait."""
        team_id = page.team_id
        if (group := self._waiting.get(team_id)) is None:
            group = self._waiting[team_id] = _Group()
            # Groups are written in their order: readers wait for the last one.
            Database.shared(self._settings).expect((INDEX, team_id), group.written)
        group.pages.append(page)
        self._count += 1
        if team_id not in self._writing:
            self._writing[team_id] = asyncio.ensure_future(self._write(team_id))
        while self._count > MAX_WAITING:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until all added pages are written."""
        if self._writing:
            await asyncio.wait([*self._writing.values()])

    @classmethod
    async def close_all(cls) -> None:
        """Write waiting pages. Does not wait for an unavailable database."""
        for index in cls._instances:
            index._is_closing = True
            await index.flush()
        cls._instances.clear()

    async def _write(self, team_id: str) -> None:
        try:
            while group := self._waiting.pop(team_id, None):
                try:
                    await self._write_group(team_id, group.pages)
                finally:
                    group.written.set_result(None)
        finally:
            del self._writing[team_id]

    async def _write_group(self, team_id: str, pages: list[SearchPage]) -> None:
        for start in range(0, len(pages), AT_ONCE):
            some = pages[start : start + AT_ONCE]
            await self._write_some(team_id, some)
            self._count -= len(some)
            self._room.set()

    async def _write_some(self, team_id: str, pages: list[SearchPage]) -> None:
        index = PageIndex(Database.shared(self._settings))
        new: list[tuple[str, bytes]] = []
        for page in pages:
            if isinstance(page.entry, bytes):
                new.append((page.url, page.entry))
            elif entry := await page.entry:
                new.append((page.url, entry))
            elif entry is None:
                logger.warning("a page was not added to the search index: %s", NO_ENTRY)
        if not new:
            return
        end = time.monotonic() + PATIENCE_S
        try:
            if self._has_given_up:
                raise ServiceUnavailable(NO_ANSWER)
            await insist(
                lambda: index.add(team_id, new, self._retention_s),
                lambda: not self._is_closing and time.monotonic() < end,
            )
        except ServiceUnavailable:
            self._has_given_up = self._is_closing
            logger.warning("pages not added to the search index: %d", len(pages))
        except Exception:
            logger.exception("pages not added to the search index: %d", len(pages))
