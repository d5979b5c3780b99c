"""The index of the team's scraped pages, as a search engine without network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from scraper_service.errors import ServiceUnavailable
from scraper_service.search_engines.search_engine import (
    OWN,
    EngineQuery,
    SearchFailed,
    ignored_options,
)
from scraper_service.storage.database import INDEX, Database
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.page_index import PageIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.items import Hit
    from scraper_service.options.map_search import ResultList


class OwnIndexSearch:
    """A search in the page index of the job database.

    Without a team the search uses the index of the command line.
    """

    name = OWN
    sources = frozenset({"web", "news", "images"})

    def __init__(self, settings: BaseSettings):
        self._settings = settings

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls(settings)

    async def search(self, engine_query: EngineQuery) -> list[Hit]:
        """Return the results; raise :exc:`SearchFailed` on errors."""
        if engine_query.team_id is None and not self._exists():
            return []
        database = Database.shared(self._settings)
        await database.wait_for_expected((INDEX, engine_query.team_id or LOCAL_TEAM))
        try:
            return await PageIndex(database).search(
                engine_query.team_id or LOCAL_TEAM,
                engine_query.query,
                engine_query.source,
                engine_query.limit,
            )
        except ServiceUnavailable as error:
            text = "the index of scraped pages does not answer"
            raise SearchFailed(text) from error

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(source, "by_date", spans="hdwmy", dates=True)

    async def close(self) -> None:
        """Do nothing: the process owns the database."""

    def _exists(self) -> bool:
        """Return True if a database exists: a search alone does not create one."""
        url, path = self._settings["DATABASE_URL"], Path(self._settings["DATA_DIR"])
        return bool(url) or (path / "jobs.sqlite").exists()
