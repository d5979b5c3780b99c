"""Engines of the open web without a key, by the library ``ddgs`` where it is installed.

It asks with a client of its own, in threads, and addresses of its choice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from scraper_service.json_http import is_address, number_of, text_of
from scraper_service.search_engines.web_search import Asked, Hit, SearchFailed, unheeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.options.search import Source

_UNITS = {"h": "d", "d": "d", "w": "w", "m": "m", "y": "y"}
_VERBS = {"web": "text", "news": "news", "images": "images"}


class DdgsSearch:
    """Results of ``ddgs``; raises :exc:`ValueError` where it is not installed."""

    name = "ddgs"
    sources = frozenset(_VERBS)

    def __init__(self, timeout_s: float, make: Callable[..., Any]):
        self._timeout_s = timeout_s
        self._make = make

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        try:
            from ddgs import DDGS  # noqa: PLC0415  # an extra, and slow to import
        except ImportError:
            raise ValueError(
                "SCRAPER_SEARCH_PROVIDERS names 'ddgs', which is not installed:"
                " pip install scraper-service[search]"
            ) from None
        return cls(settings.getfloat("SEARCH_TIMEOUT_S"), DDGS)

    async def search(self, asked: Asked) -> list[Hit]:
        """Return results; raise :exc:`SearchFailed`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                rows = await asyncio.to_thread(self._rows, asked)
        except TimeoutError:
            raise SearchFailed(f"{self.name} did not answer in time") from None
        except Exception as error:  # the library raises what its parts raise
            # Also where engines send pages without results to whom they take for a robot.
            text = f"{self.name} brought nothing ({str(error)[:100] or type(error).__name__})"
            raise SearchFailed(text) from error
        hits = (_hit(row, asked.source.kind) for row in rows)
        return [hit for hit in hits if hit is not None][: asked.limit]

    def unheeded(self, source: Source) -> Iterator[str]:
        """Yield the names of options that have no effect."""
        yield from unheeded(source, spans="dwmy")

    async def close(self) -> None:
        """Do nothing: each call has a client of its own."""

    def _rows(self, asked: Asked) -> list[dict[str, Any]]:
        source = asked.source
        unit = source.when.unit if source.when else None
        client = self._make(timeout=max(1, int(self._timeout_s)))
        ask = getattr(client, _VERBS[source.kind])
        found = ask(
            asked.text,
            region=f"{source.country or 'wt'}-{source.language or 'wt'}",
            timelimit=_UNITS[unit] if unit else None,
            max_results=asked.limit,
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
