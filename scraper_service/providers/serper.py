"""Serper, and what answers like it (https://serper.dev)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scraper_service.providers.http import (
    JsonClient,
    is_address,
    number_of,
    rows_of,
    text_of,
)
from scraper_service.providers.web_search import Asked, Hit, unheeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from scrapy.settings import BaseSettings

    from scraper_service.options.search import Source, TimeFilter

MAX_PAGES = 10
MOST = 100  # results in one answer
# By source: path, and where the results stand in the answer.
_PATHS = {
    "web": ("search", "organic"),
    "news": ("news", "news"),
    "images": ("images", "images"),
}


class SerperSearch:
    """The API at ``SERPER_URL``, with ``SERPER_API_KEY``."""

    name = "Serper"
    sources = frozenset(_PATHS)

    def __init__(self, url: str, key: str, client: JsonClient):
        self._url = url.rstrip("/")
        self._headers = {"X-API-KEY": key}
        self._client = client

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        timeout_s = settings.getfloat("SEARCH_TIMEOUT_S")
        client = JsonClient(cls.name, timeout_s, settings["USER_AGENT"])
        return cls(settings["SERPER_URL"], settings["SERPER_API_KEY"], client)

    async def search(self, asked: Asked) -> list[Hit]:
        """Return results; raise :exc:`SearchFailed`."""
        path, key = _PATHS[asked.source.kind]
        body = _body(asked.text, asked.source, min(MOST, asked.limit))
        found: dict[str, Hit] = {}
        for number in range(1, MAX_PAGES + 1):
            answer = await self._client.ask(
                f"{self._url}/{path}",
                headers=self._headers,
                body={**body, "page": number},
            )
            before = len(found)
            for row in rows_of(answer.get(key)):
                if (hit := _hit(row, asked.source.kind)) is not None:
                    found.setdefault(hit.image_url or hit.url, hit)
            if len(found) >= asked.limit or len(found) == before:
                break
        return list(found.values())[: asked.limit]

    def unheeded(self, source: Source) -> Iterator[str]:
        """Yield the names of options that have no effect."""
        yield from unheeded(
            source, "location filter by_date", spans="hdwmy", dates=True
        )

    async def close(self) -> None:
        await self._client.close()


def _body(text: str, source: Source, count: int) -> dict[str, Any]:
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
