"""Search engines that are asked over HTTP, one page of results after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from scraper_service.json_http import JsonClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.settings import BaseSettings

    from scraper_service.search_engines.web_search import Asked, Hit


class PagedSearch:
    """The engine at ``NAME_URL``, with ``NAME_API_KEY`` where it has keys."""

    name: ClassVar[str]

    def __init__(self, url: str, key: str, client: JsonClient):
        self.url = url.rstrip("/")
        self.key = key
        self.client = client

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        timeout_s = settings.getfloat("SEARCH_TIMEOUT_S")
        client = JsonClient(cls.name, timeout_s, settings["USER_AGENT"])
        prefix = cls.name.upper()
        key = settings.get(f"{prefix}_API_KEY", "")
        return cls(settings[f"{prefix}_URL"], key, client)

    async def search(self, asked: Asked) -> list[Hit]:
        """Return results; raise :exc:`SearchFailed`."""
        found: dict[str, Hit] = {}
        async for hits in self.pages(asked):
            before = len(found)
            for hit in hits:
                if hit is not None:
                    found.setdefault(hit.image_url or hit.url, hit)
            if len(found) >= asked.limit or len(found) == before:
                break
        return list(found.values())[: asked.limit]

    def pages(self, asked: Asked) -> AsyncIterator[Iterable[Hit | None]]:
        """Yield the results of each page, None for what is none."""
        raise NotImplementedError

    async def close(self) -> None:
        await self.client.close()
