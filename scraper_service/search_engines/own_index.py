"""The pages that the team has scraped, as a search engine that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from scraper_service.errors import ServiceUnavailable
from scraper_service.search_engines.web_search import (
    OWN,
    Asked,
    Hit,
    SearchFailed,
    unheeded,
)
from scraper_service.storage.database import INDEX, Database
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.page_index import searching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.options.search import Source


class OwnIndexSearch:
    """The index in the job database. Without a service, that of the command line."""

    name = OWN
    sources = frozenset({"web", "news", "images"})

    def __init__(self, settings: BaseSettings):
        self._settings = settings

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls(settings)

    async def search(self, asked: Asked) -> list[Hit]:
        """Return results; raise :exc:`SearchFailed`."""
        if asked.team_id is None and not self._exists():
            return []
        database = Database.shared(self._settings)
        await database.expected((INDEX, asked.team_id or LOCAL_TEAM))
        try:
            found = await database.read(
                searching.search,
                asked.team_id or LOCAL_TEAM,
                asked.query,
                asked.source,
                asked.limit,
            )
        except ServiceUnavailable as error:
            text = "the index of scraped pages does not answer"
            raise SearchFailed(text) from error
        return [
            Hit(
                url=each.url,
                title=each.title,
                description=each.snippet,
                date=each.date,
                image_url=each.image_url,
                image_width=each.image_width,
                image_height=each.image_height,
            )
            for each in found
        ]

    def unheeded(self, source: Source) -> Iterator[str]:
        """Yield the names of options that have no effect."""
        yield from unheeded(source, "by_date", spans="hdwmy", dates=True)

    async def close(self) -> None:
        """Do nothing: the database is the process's own."""

    def _exists(self) -> bool:
        """Tell whether there is a database: a run by hand makes none."""
        url, path = self._settings["DATABASE_URL"], Path(self._settings["DATA_DIR"])
        return bool(url) or (path / "jobs.sqlite").exists()
