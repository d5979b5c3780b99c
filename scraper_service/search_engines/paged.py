"""The base class of search engines with an HTTP API that returns pages of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from scraper_service.discovery.outgoing_proxy import OutgoingProxy
from scraper_service.search_engines.json_http import JsonClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.settings import BaseSettings

    from scraper_service.items import Hit
    from scraper_service.search_engines.search_engine import EngineQuery


class PagedSearch:
    """An engine with its URL in ``NAME_URL`` and its key, if any, in ``NAME_API_KEY``.

    ``NAME`` stands for the name of the engine in capitals.
    """

    name: ClassVar[str]

    def __init__(self, url: str, key: str, client: JsonClient):
        self.url = url.rstrip("/")
        self.key = key
        self.client = client

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        timeout_s = settings.getfloat("SEARCH_TIMEOUT_S")
        way_out = OutgoingProxy.from_settings(settings)
        client = JsonClient(cls.name, timeout_s, settings["USER_AGENT"], way_out)
        prefix = cls.name.upper()
        key = settings.get(f"{prefix}_API_KEY", "")
        return cls(settings[f"{prefix}_URL"], key, client)

    async def search(self, engine_query: EngineQuery) -> list[Hit]:
        """Return the results, without duplicates; raise :exc:`SearchFailed` on errors.

        The search ends at the limit or at a page without new results.
        """
        found: dict[str, Hit] = {}
        async for hits in self.pages(engine_query):
            before = len(found)
            for hit in hits:
                if hit is not None:
                    found.setdefault(hit.image_url or hit.url, hit)
            if len(found) >= engine_query.limit or len(found) == before:
                break
        return list(found.values())[: engine_query.limit]

    def pages(self, engine_query: EngineQuery) -> AsyncIterator[Iterable[Hit | None]]:
        """Yield the results of each page, with None for unusable entries."""
        raise NotImplementedError

    async def close(self) -> None:
        await self.client.close()
