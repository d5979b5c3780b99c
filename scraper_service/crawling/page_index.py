"""Pages on their way into the index of their team, right behind their delivery."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.crawling.database_retry import before
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Page
from scraper_service.storage.database import INDEX, Database

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection

    from scraper_service.items import SearchPage

PAUSE_S = 0.05  # pages that come meanwhile share a transaction
MAX_WAITING = 2000  # pages, before those who bring more wait
AT_ONCE = 100  # pages in one transaction
PATIENCE_S = 60.0  # with a database that does not answer, as in a restart

logger = logging.getLogger(__name__)


class SearchIndexPipeline:
    """Hand pages that were delivered to the index; nobody waits for it."""

    def __init__(self, crawler: Crawler):
        if not crawler.settings.getbool("SEARCH_INDEX"):
            raise NotConfigured  # with a reason it would be a warning at each start
        self._index = SearchIndex.shared(crawler.settings)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.search is not None:
            await self._index.add(item.search)
        return item

    async def _closed(self) -> None:
        await self._index.flush()


class SearchIndex:
    """Writes pages into the index, and keeps the number of its parts small.

    A page that the database does not take for :data:`PATIENCE_S` is not found by
    searches; that is logged.
    """

    _shared: ClassVar[dict[tuple[str, str], SearchIndex]] = {}

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._retention_s = settings.getfloat("CACHE_RETENTION_S")
        self._waiting: dict[str, list[SearchPage]] = {}
        self._count = 0
        self._writing: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._merging: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def shared(cls, settings: BaseSettings) -> SearchIndex:
        """Return the one index of this process for these settings."""
        key = (settings["DATA_DIR"], settings["DATABASE_URL"])
        if key not in cls._shared:
            cls._shared[key] = cls(settings)
        return cls._shared[key]

    async def add(self, page: SearchPage) -> None:
        """Take a page; return at once unless very many wait."""
        self._waiting.setdefault(page.team_id, []).append(page)
        self._count += 1
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
        name = (INDEX, page.team_id)
        Database.shared(self._settings).expect(name, self._writing)
        while self._count > MAX_WAITING:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until what was taken so far is written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    @classmethod
    async def close_all(cls) -> None:
        """Write what waits; leave merges to the next start, which begins them anew."""
        for index in cls._shared.values():
            await index.flush()
            for task in index._merging.values():
                task.cancel()
        cls._shared.clear()

    async def _write(self) -> None:
        try:
            await asyncio.sleep(PAUSE_S)
            while self._waiting:
                team_id = next(iter(self._waiting))
                pages = self._waiting.pop(team_id)
                for start in range(0, len(pages), AT_ONCE):
                    some = pages[start : start + AT_ONCE]
                    await self._write_some(team_id, some)
                    self._count -= len(some)
                    self._room.set()
        finally:
            self._writing = None

    async def _write_some(self, team_id: str, pages: list[SearchPage]) -> None:
        database = Database.shared(self._settings)
        try:

            async def write() -> bool:
                rows = await _rows()

                def add(connection: Connection, _: str) -> bool:
                    new = [rows.NewPage(page.url, page.entry) for page in pages]
                    is_grown: bool = rows.add_pages(
                        connection, team_id, new, self._retention_s
                    )
                    return is_grown

                return await database.write_locking(add, rows.index_name(team_id))

            is_grown = await before(time.monotonic() + PATIENCE_S)(write)
        except ServiceUnavailable:
            logger.warning("%d pages were not added to the search index", len(pages))
            return
        except Exception:
            logger.exception("%d pages were not added to the search index", len(pages))
            return
        if is_grown and team_id not in self._merging:
            task = asyncio.ensure_future(self._merge(database, team_id))
            self._merging[team_id] = task
            task.add_done_callback(lambda _: self._merging.pop(team_id, None))

    async def _merge(self, database: Database, team_id: str) -> None:
        merging: Any = importlib.import_module(
            "scraper_service.storage.page_index.merging"
        )
        try:
            while await merging.merge_segments(database, team_id):
                pass
        except ServiceUnavailable:
            logger.warning("parts of the search index were not merged")
        except Exception:
            logger.exception("parts of the search index could not be merged")


async def _rows() -> Any:
    """Return the module that writes rows; raise :exc:`ServiceUnavailable` without it."""
    try:
        # It loads numpy, which takes a tenth of a second.
        return await asyncio.to_thread(
            importlib.import_module, "scraper_service.storage.page_index.rows"
        )
    except ImportError as error:  # the package is being reinstalled
        raise ServiceUnavailable(str(error)) from error
