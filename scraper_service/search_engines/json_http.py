"""A client for JSON over HTTP, and the base class of search engines that use it.

The operator configures the services. The engines return pages of results.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, ClassVar, Self

import aiohttp

from scraper_service.discovery.outgoing_requests import OutgoingProxy
from scraper_service.items import Hit
from scraper_service.search_engines.search_engine import EngineQuery, SearchFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from scrapy.settings import BaseSettings

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


def is_address(url: str) -> bool:
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
    has_image = kind != "web" and is_address(image_url)
    if not is_address(page_url) or (kind == "images" and not has_image):
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
