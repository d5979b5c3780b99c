"""JSON over HTTP from services that the operator has chosen; no page is fetched here.

Their addresses are often local, so the rule for the addresses of pages is not theirs.
Redirects are not followed, and answers are bounded in size and time.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp

from scraper_service.search_engines.web_search import SearchFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ANSWER_BYTES = 4 * 2**20
READ_BYTES = 64 * 1024
LARGE_BYTES = 256 * 1024  # read in a thread from there on


class JsonClient:
    """Asks one service; ``name`` stands in the errors, ``timeout_s`` is for one answer."""

    def __init__(self, name: str, timeout_s: float, user_agent: str):
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
        """Return the object of a GET, or of a POST with ``body`` as JSON.

        Raises :exc:`SearchFailed`, which never names a key.
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
            ) as answer:
                text = await self._body(answer)
                status = answer.status
        except TimeoutError:
            raise self._failed("did not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failed(f"cannot be reached ({type(error).__name__})") from error
        if status != 200:
            raise self._failed(_REASONS.get(status, f"answered with status {status}"))
        return await self._read(text)

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in answer.content.iter_chunked(READ_BYTES):
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise self._failed("sent more than an answer may have")
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
            raise self._failed("sent no JSON object")
        return found

    def _failed(self, reason: str) -> SearchFailed:
        return SearchFailed(f"{self._name} {reason}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


_REASONS = {
    401: "refused the key",
    402: "wants to be paid",
    403: "refused the request (status 403)",
    429: "is asked too often (status 429)",
}


def text_of(value: object) -> str:
    """Return a text of an answer, empty for anything else."""
    return value.strip() if isinstance(value, str) else ""


def number_of(value: object) -> int | None:
    """Return a positive number of an answer, None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < 2**31 else None


def rows_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list of an answer; what is none is left out."""
    if not isinstance(value, list):
        return []
    return [row for row in value if isinstance(row, dict)]


def is_address(url: str) -> bool:
    """Tell whether a result leads to a page of the web."""
    return url.startswith(("http://", "https://"))
