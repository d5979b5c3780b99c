"""The search engines: SearXNG, Brave, Serper, those of ddgs, and the index of own pages.

The operator configures the services. :class:`JsonClient` reads JSON over HTTP for all but
ddgs. The engines return pages of results.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import aiohttp
from attrs import frozen

from scraper_service.discovery.outgoing_requests import OutgoingProxy
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import Hit
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
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from scrapy.settings import BaseSettings

    from scraper_service.options.map_search import ResultList, TimeFilter

MAX_ANSWER_BYTES = 4 * 2**20
READ_BYTES = 64 * 1024
LARGE_BYTES = 256 * 1024  # larger responses are parsed in a thread
_REASONS = {
    401: "refused the key",
    402: "wants to be paid",
    403: "refused the request (status 403)",
    429: "gets too many requests (status 429)",
}


class JsonClient:
    """A client for one service.

    ``name`` stands in error messages. ``timeout_s`` limits one request with its response.
    """

    def __init__(
        self, name: str, timeout_s: float, user_agent: str, way_out: OutgoingProxy
    ):
        self._way_out = way_out
        self._name = name
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON object of a GET, or of a POST with ``body`` as JSON.

        Raises :exc:`SearchFailed`; its text never contains the key.
        """
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        method = "GET" if body is None else "POST"
        try:
            async with self._session.request(
                method,
                url,
                params=query,
                headers=headers,
                json=body,
                allow_redirects=False,
                proxy=self._way_out.to(url),
            ) as answer:
                text = await self._body(answer)
                status = answer.status
        except TimeoutError:
            raise self._failure("did not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failure(
                f"cannot be reached ({type(error).__name__})"
            ) from error
        if status != 200:
            raise self._failure(_REASONS.get(status, f"answered with status {status}"))
        return await self._read(text)

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in answer.content.iter_chunked(READ_BYTES):
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise self._failure("sent a larger response than allowed")
            parts.append(part)
        return b"".join(parts)

    async def _read(self, text: bytes) -> dict[str, Any]:
        try:
            if len(text) > LARGE_BYTES:
                found = await asyncio.to_thread(json.loads, text)
            else:
                found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._failure("sent no JSON object")
        return found

    def _failure(self, reason: str) -> SearchFailed:
        return SearchFailed(f"{self._name} {reason}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def text_of(value: object) -> str:
    """Return a stripped string; the empty string for a value of another type."""
    return value.strip() if isinstance(value, str) else ""


def number_of(value: object) -> int | None:
    """Return a positive integer below 2**31; None for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < 2**31 else None


def rows_of(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; an empty list for a value of another type."""
    if not isinstance(value, list):
        return []
    return [row for row in value if isinstance(row, dict)]


def is_web_url(url: str) -> bool:
    """Return True if a text starts like an http(s) URL."""
    return url.startswith(("http://", "https://"))


def make_hit(
    kind: str,
    url: object,
    title: object,
    description: object,
    date: object,
    image: object,
    width: object = None,
    height: object = None,
) -> Hit | None:
    """Return a result of the values that an engine gives; None for an unusable one.

    A result needs a URL, and one of the kind ``images`` needs that of its image.
    """
    page_url, image_url = text_of(url), text_of(image)
    has_image = kind != "web" and is_web_url(image_url)
    if not is_web_url(page_url) or (kind == "images" and not has_image):
        return None
    return Hit(
        url=page_url,
        title=text_of(title),
        description=text_of(description),
        date=text_of(date) or None,
        image_url=image_url if has_image else None,
        image_width=number_of(width),
        image_height=number_of(height),
    )


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


MAX_PAGES = 10  # of one search
_SEARXNG_CATEGORIES = {"web": "general", "news": "news", "images": "images"}
_SEARXNG_RANGES = {"h": "day", "d": "day", "w": "week", "m": "month", "y": "year"}
_SIZE = re.compile(r"([0-9]{1,6})\s*[x\u00d7]\s*([0-9]{1,6})")


class SearxngSearch(PagedSearch):
    """SearXNG, a self-hosted metasearch engine (https://docs.searxng.org).

    The instance at ``SEARXNG_URL`` must allow the format ``json``.
    """

    name = "SearXNG"
    sources = frozenset(_SEARXNG_CATEGORIES)

    async def pages(self, engine_query: EngineQuery) -> AsyncIterator[list[Hit | None]]:
        for number in range(1, MAX_PAGES + 1):
            query = _searxng_query(engine_query.text, engine_query.source, number)
            answer = await self.client.ask(f"{self.url}/search", query=query)
            rows = rows_of(answer.get("results"))
            hits = [_searxng_hit(row, engine_query.source.kind) for row in rows]
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


def _searxng_query(text: str, source: ResultList, number: int) -> dict[str, str]:
    language = source.language
    if source.country and language:
        language = f"{language}-{source.country.upper()}"
    query = {
        "q": text,
        "format": "json",
        "categories": _SEARXNG_CATEGORIES[source.kind],
        "language": language or "all",
        "pageno": str(number),
    }
    if source.when is not None and source.when.unit:
        query["time_range"] = _SEARXNG_RANGES[source.when.unit]
    return query


def _searxng_hit(row: dict[str, Any], kind: str) -> Hit | None:
    image, size = text_of(row.get("img_src")), None
    if kind == "images":
        image = f"https:{image}" if image.startswith("//") else image
        size = _SIZE.search(text_of(row.get("resolution")))
    else:
        image = text_of(row.get("thumbnail") or row.get("img_src"))
    title, text, date = (row.get(k) for k in ("title", "content", "publishedDate"))
    return make_hit(
        kind, row.get("url"), title, text, date, image, *size.groups() if size else ()
    )


def _silent(value: object) -> list[str]:
    """Return the names of unresponsive engines, with the reasons."""
    found = []
    for entry in value if isinstance(value, list) else ():
        parts = entry if isinstance(entry, list) else [entry]
        found.append(": ".join(part for part in parts if isinstance(part, str))[:80])
    return [text for text in found if text]


# By source: path, maximum of results per response, maximum of pages.
_BRAVE_PATHS = {
    "web": ("web/search", 20, 10),
    "news": ("news/search", 50, 10),
    "images": ("images/search", 100, 1),
}
_BRAVE_SPANS = {"h": "pd", "d": "pd", "w": "pw", "m": "pm", "y": "py"}
_BRAVE_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}
FIRST_DAY = date(1990, 1, 1)


class BraveSearch(PagedSearch):
    """Brave Search (https://api.search.brave.com), and services with a compatible API.

    The API is at ``BRAVE_URL``, with the key ``BRAVE_API_KEY``.
    """

    name = "Brave"
    sources = frozenset(_BRAVE_PATHS)

    async def pages(self, engine_query: EngineQuery) -> AsyncIterator[list[Hit | None]]:
        kind = engine_query.source.kind
        path, most, pages = _BRAVE_PATHS[kind]
        count = min(most, engine_query.limit)
        for number in range(pages):
            answer = await self.client.ask(
                f"{self.url}/{path}",
                query=_brave_query(
                    engine_query.text, engine_query.source, count, number
                ),
                headers={"X-Subscription-Token": self.key},
            )
            inner = answer.get("web") if kind == "web" else answer
            rows = rows_of(inner.get("results") if isinstance(inner, dict) else None)
            yield [_brave_hit(row, kind) for row in rows]
            if len(rows) < count:
                break

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(source, spans="dwmy", dates=True)


def _brave_query(
    text: str, source: ResultList, count: int, number: int
) -> dict[str, str]:
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
    if when.unit and when.unit in _BRAVE_DAYS and when.count > 1:
        first = today - timedelta(days=_BRAVE_DAYS[when.unit] * when.count)
        return f"{max(first, FIRST_DAY)}to{today}"
    if when.unit:
        return _BRAVE_SPANS[when.unit]
    if when.first or when.last:
        return f"{when.first or FIRST_DAY}to{when.last or today}"
    return None


def _brave_hit(row: dict[str, Any], kind: str) -> Hit | None:
    properties, thumbnail = row.get("properties"), row.get("thumbnail")
    image = properties if kind == "images" else None
    image = image if isinstance(image, dict) else {}
    small = thumbnail if isinstance(thumbnail, dict) else {}
    return make_hit(
        kind,
        row.get("url"),
        _plain(row.get("title")),
        _plain(row.get("description")),
        row.get("age") or row.get("page_age"),
        image.get("url") or small.get("src"),
        image.get("width"),
        image.get("height"),
    )


def _plain(value: object) -> str:
    """Return a text without the ``<strong>`` tags around words of the query."""
    return text_of(value).replace("<strong>", "").replace("</strong>", "")


SERPER_MOST = 100  # results per response
# By source: path, and key of the results in the response.
_SERPER_PATHS = {
    "web": ("search", "organic"),
    "news": ("news", "news"),
    "images": ("images", "images"),
}


class SerperSearch(PagedSearch):
    """Serper (https://serper.dev), and services with a compatible API.

    The API is at ``SERPER_URL``, with the key ``SERPER_API_KEY``.
    """

    name = "Serper"
    sources = frozenset(_SERPER_PATHS)

    async def pages(self, engine_query: EngineQuery) -> AsyncIterator[list[Hit | None]]:
        kind = engine_query.source.kind
        path, key = _SERPER_PATHS[kind]
        body = _serper_body(
            engine_query.text, engine_query.source, min(SERPER_MOST, engine_query.limit)
        )
        for number in range(1, MAX_PAGES + 1):
            answer = await self.client.ask(
                f"{self.url}/{path}",
                headers={"X-API-KEY": self.key},
                body={**body, "page": number},
            )
            yield [_serper_hit(row, kind) for row in rows_of(answer.get(key))]

    def ignored_options(self, source: ResultList) -> Iterator[str]:
        """Yield the names of options without effect."""
        yield from ignored_options(
            source, "location filter by_date", spans="hdwmy", dates=True
        )


def _serper_body(text: str, source: ResultList, count: int) -> dict[str, Any]:
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
        parts += [f"cd_min:{_serper_day(when.first)}"] if when.first else []
        parts += [f"cd_max:{_serper_day(when.last)}"] if when.last else []
    if when.by_date:
        parts.append("sbd:1")
    return ",".join(parts)


def _serper_day(day: date) -> str:
    return f"{day.month}/{day.day}/{day.year}"


def _serper_hit(row: dict[str, Any], kind: str) -> Hit | None:
    keys = ("title", "snippet", "date", "imageUrl", "imageWidth", "imageHeight")
    return make_hit(kind, row.get("link"), *map(row.get, keys))


ANY_ENGINE = "https://duckduckgo.com/"
_DDGS_UNITS = {"h": "d", "d": "d", "w": "w", "m": "m", "y": "y"}
_DDGS_VERBS = {"web": "text", "news": "news", "images": "images"}


@frozen(eq=False)
class DdgsSearch:
    """Public search engines without a key, through the optional library ``ddgs``.

    The library sends its requests in threads, with its own HTTP client and to URLs of its
    choice. :meth:`from_settings` raises :exc:`ValueError` if the library is not installed.
    """

    name = "ddgs"
    sources = frozenset(_DDGS_VERBS)

    _timeout_s: float
    _make: Callable[..., Any]
    _proxy: str | None = None

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
        hits = (_ddgs_hit(row, engine_query.source.kind) for row in rows)
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
        ask = getattr(client, _DDGS_VERBS[source.kind])
        found = ask(
            engine_query.text,
            region=f"{source.country or 'wt'}-{source.language or 'wt'}",
            timelimit=_DDGS_UNITS[unit] if unit else None,
            max_results=engine_query.limit,
        )
        return [row for row in found or () if isinstance(row, dict)]


def _ddgs_hit(row: dict[str, Any], kind: str) -> Hit | None:
    keys = ("title", "body", "date", "image", "width", "height")
    return make_hit(kind, row.get("href") or row.get("url"), *map(row.get, keys))


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
