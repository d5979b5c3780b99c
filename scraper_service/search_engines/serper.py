"""Serper and services with a compatible API (https://serper.dev)."""

from __future__ import annotations

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
    from datetime import date

    from scraper_service.options.map_search import ResultList, TimeFilter

MAX_PAGES = 10
MOST = 100  # results per response
# By source: path, and key of the results in the response.
_PATHS = {
    "web": ("search", "organic"),
    "news": ("news", "news"),
    "images": ("images", "images"),
}


class SerperSearch(PagedSearch):
    """A client for the API at ``SERPER_URL`` with the key ``SERPER_API_KEY``."""

    name = "Serper"
    sources = frozenset(_PATHS)

    async def pages(self, engine_query: EngineQuery) -> AsyncIterator[list[Hit | None]]:
        kind = engine_query.source.kind
        path, key = _PATHS[kind]
        body = _body(
            engine_query.text, engine_query.source, min(MOST, engine_query.limit)
        )
        for number in range(1, MAX_PAGES + 1):
            answer = await self.client.ask(
                f"{self.url}/{path}",
                headers={"X-API-KEY": self.key},
                body={**body, "page": number},
            )
            yield [_hit(row, kind) for row in rows_of(answer.get(key))]

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(
            source, "location filter by_date", spans="hdwmy", dates=True
        )


def _body(text: str, source: ResultList, count: int) -> dict[str, Any]:
    facts = {
        "q": text,
        "num": count,
        "gl": source.country,
        "hl": source.language,
        "location": source.location,
        "filter": source.filter,
        "tbs": _tbs(source.when),
    }
    return {name: value for name, value in facts.items() if value}


def _tbs(when: TimeFilter | None) -> str:
    if when is None:
        return ""
    parts = []
    if when.unit:
        parts.append(f"qdr:{when.unit}{when.count if when.count > 1 else ''}")
    if when.first or when.last:
        parts.append("cdr:1")
        parts += [f"cd_min:{_day(when.first)}"] if when.first else []
        parts += [f"cd_max:{_day(when.last)}"] if when.last else []
    if when.by_date:
        parts.append("sbd:1")
    return ",".join(parts)


def _day(day: date) -> str:
    return f"{day.month}/{day.day}/{day.year}"


def _hit(row: dict[str, Any], kind: str) -> Hit | None:
    url, image = text_of(row.get("link")), text_of(row.get("imageUrl"))
    if not is_address(url) or (kind == "images" and not is_address(image)):
        return None
    return Hit(
        url=url,
        title=text_of(row.get("title")),
        description=text_of(row.get("snippet")),
        date=text_of(row.get("date")) or None,
        image_url=image if kind != "web" and is_address(image) else None,
        image_width=number_of(row.get("imageWidth")),
        image_height=number_of(row.get("imageHeight")),
    )
