"""SearXNG, a self-hosted metasearch engine (https://docs.searxng.org)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.items import Hit
from scraper_service.search_engines.json_http import (
    PagedSearch,
    is_address,
    number_of,
    rows_of,
    text_of,
)
from scraper_service.search_engines.search_engine import (
    EngineQuery,
    SearchFailed,
    ignored_options,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scraper_service.options.map_search import ResultList

MAX_PAGES = 10  # of about 10 to 30 results each
_CATEGORIES = {"web": "general", "news": "news", "images": "images"}
_RANGES = {"h": "day", "d": "day", "w": "week", "m": "month", "y": "year"}
_SIZE = re.compile(r"([0-9]{1,6})\s*[x\u00d7]\s*([0-9]{1,6})")


class SearxngSearch(PagedSearch):
    """A client for the instance at ``SEARXNG_URL``, which must allow the format ``json``."""

    name = "SearXNG"
    sources = frozenset(_CATEGORIES)

    async def pages(self, engine_query: EngineQuery) -> AsyncIterator[list[Hit | None]]:
        for number in range(1, MAX_PAGES + 1):
            query = _query(engine_query.text, engine_query.source, number)
            answer = await self.client.ask(f"{self.url}/search", query=query)
            rows = rows_of(answer.get("results"))
            hits = [_hit(row, engine_query.source.kind) for row in rows]
            silent = _silent(answer.get("unresponsive_engines"))
            if number == 1 and silent and not any(hits):
                names = ", ".join(dict.fromkeys(silent))
                raise SearchFailed(
                    f"{self.name} had no results of its engines ({names})"
                )
            yield hits

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(source, spans="dwmy")


def _query(text: str, source: ResultList, number: int) -> dict[str, str]:
    language = source.language
    if source.country and language:
        language = f"{language}-{source.country.upper()}"
    query = {
        "q": text,
        "format": "json",
        "categories": _CATEGORIES[source.kind],
        "language": language or "all",
        "pageno": str(number),
    }
    if source.when is not None and source.when.unit:
        query["time_range"] = _RANGES[source.when.unit]
    return query


def _hit(row: dict[str, Any], kind: str) -> Hit | None:
    url, image = text_of(row.get("url")), None
    width = height = None
    if kind == "images":
        image = text_of(row.get("img_src"))
        image = f"https:{image}" if image.startswith("//") else image
        if not is_address(image):
            return None
        size = _SIZE.search(text_of(row.get("resolution")))
        if size is not None:
            width, height = number_of(size[1]), number_of(size[2])
    if not is_address(url):
        return None
    thumbnail = text_of(row.get("thumbnail") or row.get("img_src"))
    if kind == "news" and is_address(thumbnail):
        image = thumbnail
    return Hit(
        url=url,
        title=text_of(row.get("title")),
        description=text_of(row.get("content")),
        date=text_of(row.get("publishedDate")) or None,
        image_url=image,
        image_width=width,
        image_height=height,
    )


def _silent(value: object) -> list[str]:
    """Return the names of unresponsive engines, with the reasons."""
    found = []
    for entry in value if isinstance(value, list) else ():
        parts = entry if isinstance(entry, list) else [entry]
        found.append(": ".join(part for part in parts if isinstance(part, str))[:80])
    return [text for text in found if text]
