"""Brave Search and services with a compatible API (https://api.search.brave.com)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scraper_service.items import Hit
from scraper_service.search_engines.json_http import (
    PagedSearch,
    is_address,
    number_of,
    rows_of,
    text_of,
)
from scraper_service.search_engines.search_engine import EngineQuery, ignored_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scraper_service.options.map_search import ResultList, TimeFilter

# By source: path, maximum of results per response, maximum of pages.
_PATHS = {
    "web": ("web/search", 20, 10),
    "news": ("news/search", 50, 10),
    "images": ("images/search", 100, 1),
}
_SPANS = {"h": "pd", "d": "pd", "w": "pw", "m": "pm", "y": "py"}
_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}
FIRST_DAY = date(1990, 1, 1)


class BraveSearch(PagedSearch):
    """A client for the API at ``BRAVE_URL`` with the key ``BRAVE_API_KEY``."""

    name = "Brave"
    sources = frozenset(_PATHS)

    async def pages(self, engine_query: EngineQuery) -> AsyncIterator[list[Hit | None]]:
        kind = engine_query.source.kind
        path, most, pages = _PATHS[kind]
        count = min(most, engine_query.limit)
        for number in range(pages):
            answer = await self.client.ask(
                f"{self.url}/{path}",
                query=_query(engine_query.text, engine_query.source, count, number),
                headers={"X-Subscription-Token": self.key},
            )
            inner = answer.get("web") if kind == "web" else answer
            rows = rows_of(inner.get("results") if isinstance(inner, dict) else None)
            yield [_hit(row, kind) for row in rows]
            if len(rows) < count:
                break

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(source, spans="dwmy", dates=True)


def _query(text: str, source: ResultList, count: int, number: int) -> dict[str, str]:
    query = {"q": text, "count": str(count)}
    if source.country:
        query["country"] = source.country.upper()
    if source.language:
        query["search_lang"] = source.language
    if number:
        query["offset"] = str(number)
    if source.kind != "images" and (fresh := _freshness(source.when)):
        query["freshness"] = fresh
    return query


def _freshness(when: TimeFilter | None) -> str | None:
    if when is None:
        return None
    today = datetime.now(UTC).date()
    if when.unit and when.unit in _DAYS and when.count > 1:
        first = today - timedelta(days=_DAYS[when.unit] * when.count)
        return f"{max(first, FIRST_DAY)}to{today}"
    if when.unit:
        return _SPANS[when.unit]
    if when.first or when.last:
        return f"{when.first or FIRST_DAY}to{when.last or today}"
    return None


def _hit(row: dict[str, Any], kind: str) -> Hit | None:
    url = text_of(row.get("url"))
    if not is_address(url):
        return None
    properties, thumbnail = row.get("properties"), row.get("thumbnail")
    image = properties if kind == "images" else None
    image = image if isinstance(image, dict) else {}
    small = thumbnail if isinstance(thumbnail, dict) else {}
    address = text_of(image.get("url") or small.get("src"))
    if kind == "images" and not is_address(address):
        return None
    return Hit(
        url=url,
        title=_plain(row.get("title")),
        description=_plain(row.get("description")),
        date=text_of(row.get("age") or row.get("page_age")) or None,
        image_url=address if kind != "web" and is_address(address) else None,
        image_width=number_of(image.get("width")),
        image_height=number_of(image.get("height")),
    )


def _plain(value: object) -> str:
    """Return a text without the ``<strong>`` tags around words of the query."""
    return text_of(value).replace("<strong>", "").replace("</strong>", "")
