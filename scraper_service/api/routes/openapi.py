"""``GET /openapi.json``: the description of the API, without an API key."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from twisted.web import http
from werkzeug.http import parse_etags

from scraper_service.api.application import TaskPage
from scraper_service.api.http_server import Root
from scraper_service.api.openapi.document import build
from scraper_service.api.openapi.route import RootResource, Route
from scraper_service.api.schemas import JsonObject, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.routing import VersionApp


class _Document(JsonObject, further=Any):
    openapi: str
    paths: dict[str, Any]


class OpenApiPage(TaskPage):
    """The document of all routes, made at the first request for it."""

    routes = (
        Route(
            "GET /openapi.json",
            summary="Return this document.",
            returns=_Document,
            is_own=True,
        ),
    )

    def __init__(
        self,
        versions: Iterable[VersionApp],
        beside: Mapping[str, RootResource],
        urls: PublicUrls,
        capabilities: Callable[[], dict[str, Any]],
        most_days: float,
    ):
        super().__init__()
        self._versions = versions
        self._beside = beside
        self._urls = urls
        self._capabilities = capabilities
        self._most_days = most_days
        self._made: asyncio.Future[tuple[bytes, str]] | None = None

    async def make(self, request: JsonRequest) -> bytes:
        if self._made is None:
            # In a thread, because it takes more than 5 ms. All requests share the work.
            self._made = self._tasks.spawn(self._make())
        try:
            found = await self._made
        except Exception:
            self._made = None
            raise
        return self._body(request, *found)

    async def _make(self) -> tuple[bytes, str]:
        """Return the document without ``servers``, and its hash."""
        resources = [Root, *self._beside.values()]
        facts = (self._capabilities(), self._most_days)
        return await asyncio.to_thread(_encode, self._versions, resources, *facts)

    def _body(self, request: JsonRequest, document: bytes, digest: str) -> bytes:
        """Set the headers of a response; return its body, which may be empty."""
        base = self._urls.base(request)
        etag = hashlib.sha256(f"{digest} {base}".encode()).hexdigest()[:32]
        request.setHeader("ETag", f'"{etag}"')
        request.setHeader("Cache-Control", "no-cache")
        if parse_etags(request.headers_of("If-None-Match")).contains_weak(etag):
            request.setResponseCode(http.NOT_MODIFIED)
            return b""
        return b'{"servers":%s,%s' % (encode([{"url": base}]), document[1:])


def _encode(*parts: Any) -> tuple[bytes, str]:
    text = encode(build(*parts))
    return text, hashlib.sha256(text).hexdigest()
