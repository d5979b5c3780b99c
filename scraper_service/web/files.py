"""The files of the web page: HTML, scripts, styles and libraries, all from this package."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.web.resource import Resource

from scraper_service.api.errors import NotFoundPage, not_found, refuse_method
from scraper_service.api.openapi.route import RootResource, Route
from scraper_service.api.schemas import TEXT

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest

STATIC = Path(__file__).with_name("static")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
#: Own files only, and no inline script or style.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-cache",  # revalidated each time, with a 304 in response
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept, Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}


@frozen
class StaticFile:
    """A file of the page, read at its first request, and then kept in memory."""

    path: Path

    @property
    def content_type(self) -> str:
        return TYPES[self.path.suffix]

    @cached_property
    def body(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def gzipped(self) -> bytes:
        return gzip.compress(self.body, mtime=0)

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:20]}"'


@cache
def static_files() -> dict[str, StaticFile]:
    """Return all files of the page by their path below ``/web``.

    Requests only look names up here, so no name reaches the file system.
    """
    return {
        path.relative_to(STATIC).as_posix(): StaticFile(path)
        for path in STATIC.rglob("*")
        if path.suffix in TYPES
    }


def write_file(request: JsonRequest, file: StaticFile) -> bytes:
    """Set the headers of a file; return what to send of it."""
    if (refusal := refuse_method(request)) is not None:
        return refusal
    for name, value in HEADERS.items():
        request.setHeader(name, value)
    request.setHeader("Content-Type", file.content_type)
    request.setHeader("ETag", file.etag)
    if file.etag in (request.header("If-None-Match") or ""):
        request.setResponseCode(304)
        return b""
    body = file.body
    if "gzip" in (request.header("Accept-Encoding") or ""):
        request.setHeader("Content-Encoding", "gzip")
        body = file.gzipped
    request.setHeader("Content-Length", str(len(body)))
    return body


class StartPage(RootResource):
    """``/`` for browsers, and ``/docs``."""

    isLeaf = True
    routes = (
        Route(
            "GET /docs",
            summary="Return the web page, at the reference of the API.",
            returns=TEXT,
            media=("text/html",),
            is_own=True,
        ),
    )

    def render(self, request: Any) -> bytes:
        return write_file(request, static_files()["index.html"])


class WebFiles(Resource):
    """``/web/NAME``, and ``/web/api`` for the calls of the page."""

    def __init__(self, api: Resource):
        super().__init__()
        self.putChild(b"api", api)

    def render(self, request: Any) -> bytes:
        return not_found(request)

    def getChildWithDefault(self, path: bytes, request: Any) -> Resource:
        # Pages of other sites may not read what a session is for, and no cache keeps it.
        request.responseHeaders.removeHeader(b"Access-Control-Allow-Origin")
        if path == b"api":  # frames of previews, of an origin of their own, load styles
            request.setHeader("Cross-Origin-Resource-Policy", "same-origin")
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("X-Content-Type-Options", "nosniff")
        return super().getChildWithDefault(path, request)  # type: ignore[no-any-return]

    def getChild(self, path: bytes, request: Any) -> Resource:
        name = b"/".join((path, *request.postpath)).decode("utf-8", "replace")
        file = static_files().get(name)
        return NotFoundPage() if file is None else FilePage(file)


class FilePage(Resource):
    """A file, whatever stands behind it in the path."""

    isLeaf = True

    def __init__(self, file: StaticFile):
        super().__init__()
        self._file = file

    def render(self, request: Any) -> bytes:
        return write_file(request, self._file)
