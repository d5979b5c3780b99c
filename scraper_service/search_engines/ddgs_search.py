"""Public search engines without a key, through the optional library ``ddgs``.

The library sends its requests in threads, with its own HTTP client and to URLs of its
choice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from scraper_service.discovery.outgoing_requests import OutgoingProxy
from scraper_service.items import Hit
from scraper_service.search_engines.json_http import is_address, number_of, text_of
from scraper_service.search_engines.search_engine import (
    EngineQuery,
    SearchFailed,
    ignored_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.options.map_search import ResultList

ANY_ENGINE = "https://duckduckgo.com/"
_UNITS = {"h": "d", "d": "d", "w": "w", "m": "m", "y": "y"}
_VERBS = {"web": "text", "news": "news", "images": "images"}


class DdgsSearch:
    """A search with ``ddgs``.

    :meth:`from_settings` raises :exc:`ValueError` if the library is not installed.
    """

    name = "ddgs"
    sources = frozenset(_VERBS)

    def __init__(
        self, timeout_s: float, make: Callable[..., Any], proxy: str | None = None
    ):
        self._proxy = proxy
        self._timeout_s = timeout_s
        self._make = make

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        try:
            from ddgs import DDGS  # noqa: PLC0415  # an extra, and slow to import
        except ImportError:
            raise ValueError(
                "SCRAPER_SEARCH_PROVIDERS names 'ddgs', which is not installed:"
                " pip install 'scraper-service[search]'"
            ) from None
        proxy = OutgoingProxy.from_settings(settings).to(ANY_ENGINE)
        return cls(settings.getfloat("SEARCH_TIMEOUT_S"), DDGS, proxy)

    async def search(self, engine_query: EngineQuery) -> list[Hit]:
        """Return the results; raise :exc:`SearchFailed` on errors."""
        try:
            async with asyncio.timeout(self._timeout_s):
                rows = await asyncio.to_thread(self._rows, engine_query)
        except TimeoutError:
            raise SearchFailed(f"{self.name} did not answer in time") from None
        except Exception as error:  # the library raises errors of its parts
            # Engines also send pages without results to suspected robots.
            text = f"{self.name} brought nothing ({str(error)[:100] or type(error).__name__})"
            raise SearchFailed(text) from error
        hits = (_hit(row, engine_query.source.kind) for row in rows)
        return [hit for hit in hits if hit is not None][: engine_query.limit]

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(source, spans="dwmy")

    async def close(self) -> None:
        """Do nothing: each call creates its own client."""

    def _rows(self, engine_query: EngineQuery) -> list[dict[str, Any]]:
        source = engine_query.source
        unit = source.when.unit if source.when else None
        client = self._make(timeout=max(1, int(self._timeout_s)), proxy=self._proxy)
        ask = getattr(client, _VERBS[source.kind])
        found = ask(
            engine_query.text,
            region=f"{source.country or 'wt'}-{source.language or 'wt'}",
            timelimit=_UNITS[unit] if unit else None,
            max_results=engine_query.limit,
        )
        return [row for row in found or () if isinstance(row, dict)]


def _hit(row: dict[str, Any], kind: str) -> Hit | None:
    url = text_of(row.get("href") or row.get("url"))
    image = text_of(row.get("image"))
    if not is_address(url) or (kind == "images" and not is_address(image)):
        return None
    return Hit(
        url=url,
        title=text_of(row.get("title")),
        description=text_of(row.get("body")),
        date=text_of(row.get("date")) or None,
        image_url=image if is_address(image) else None,
        image_width=number_of(row.get("width")),
        image_height=number_of(row.get("height")),
    )
