"""The file of an export as the body of a response, whole or a range of it."""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.web import http

from scraper_service.api.application import write
from scraper_service.api.errors import answer_to
from scraper_service.api.streams.streaming import Stream
from scraper_service.errors import RangeInvalid

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.routing import Api
    from scraper_service.exports.job_exports import Export
    from scraper_service.services.accounts import Team

# One range (RFC 9110, 14.1.2). Of several ranges the whole file is a valid response.
_RANGE = re.compile(
    r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.IGNORECASE
)

# Headers that scripts of other origins may read.
EXPOSED = "Content-Disposition, Content-Range, ETag, X-Job-Status, X-Total-Pages"


@frozen
class ByteRange:
    """A part of a file: from byte ``first`` to byte ``last``, both included."""

    first: int
    last: int


def byte_range(text: str, length: int) -> ByteRange | None:
    """Return the part that a header ``Range`` names, None for the whole file.

    Raises :exc:`RangeInvalid` for a part behind the end.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        if not int(suffix) or not length:
            raise RangeInvalid(length)
        return ByteRange(max(0, length - int(suffix)), length - 1)
    if last and int(last) < int(first):
        return None  # invalid, so it is ignored
    if int(first) >= length:
        raise RangeInvalid(length)
    return ByteRange(int(first), min(int(last or length), length - 1))


class ExportStream(Stream):
    """Sends an export as it is written, as fast as the client reads.

    An error before the first byte is an error response. After it, the connection is cut
    without the end of the body.
    """

    def __init__(self, api: Api, export: Export, team: Team):
        super().__init__(
            api.watchers.exports, api.checks, api.urls, export.job.id, team
        )
        self._exports = api.services.exports
        self._wire_name = api.requests.wire_name
        self._export = export
        self._is_begun = False

    def render(self, request: JsonRequest) -> Any:
        self._set_headers(request)
        if self._export.is_final and request.setETag(self._export.etag.encode()):
            return b""  # the client has it; the status is set
        if request.method == b"HEAD":
            if (length := self._exports.known_length(self._export)) is not None:
                request.setHeader("Content-Length", str(length))
            return b""
        return super().render(request)

    def _set_headers(self, request: JsonRequest) -> None:
        export = self._export
        request.setHeader("Content-Type", export.format.content_type)
        name = f'attachment; filename="{export.file_name}"'
        request.setHeader("Content-Disposition", name)
        request.setHeader("X-Job-Status", self._status)
        request.setHeader("X-Total-Pages", str(export.total))
        request.setHeader("Access-Control-Expose-Headers", EXPOSED)
        request.setHeader("Cache-Control", "private, no-cache")
        request.setHeader("X-Accel-Buffering", "no")  # off in nginx
        request.setHeader("Accept-Ranges", "bytes" if export.is_final else "none")
        if export.format.is_text:
            request.setHeader("Vary", "Accept-Encoding")
        if export.query.gzip:
            request.setHeader("Content-Encoding", "gzip")

    @property
    def _status(self) -> str:
        job = self._export.job
        return "scraping" if job.is_active else job.state.value

    def open(self) -> None:
        """Write nothing yet: an error before the first byte is an error response."""

    async def tell(self) -> None:
        part = await self._range()
        first = 0 if part is None else part.first
        left = None if part is None else part.last - part.first + 1
        position = 0
        async with aclosing(self._exports.write(self._export)) as file:
            async for data in file:
                start = max(0, first - position)
                position += len(data)
                piece = data[start:] if left is None else data[start : start + left]
                if piece:
                    await self._send(piece)
                if left is not None:
                    left -= len(piece)
                    if not left:
                        break
        await self.valve.wait()
        self.request.unregisterProducer()
        self.request.finish()

    async def _range(self) -> ByteRange | None:
        """Return the part to send, after setting the headers that depend on it."""
        request, export = self.request, self._export
        length = self._exports.known_length(export)
        part = None
        if export.is_final and self._wants_range():
            length = await self._exports.length(export)
            part = byte_range(request.header("Range") or "", length)
        if part is not None:
            request.setResponseCode(http.PARTIAL_CONTENT)
            request.setHeader(
                "Content-Range", f"bytes {part.first}-{part.last}/{length}"
            )
            length = part.last - part.first + 1
        if length is not None:
            request.setHeader("Content-Length", str(length))
        return part

    def _wants_range(self) -> bool:
        """Return True for a range of the file that the client knows (RFC 9110, 13.1.5)."""
        known = self.request.header("If-Range")
        if known is not None and known.strip() != self._export.etag:
            return False
        return (
            _RANGE.fullmatch((self.request.header("Range") or "").strip()) is not None
        )

    async def _send(self, data: bytes) -> None:
        await self.rest(None)
        await self.valve.wait()
        self._is_begun = True
        self.request.write(data)

    async def fail(self, error: Exception) -> None:
        if self._is_begun:
            self.cut()
            return
        self.request.etag = None
        for name in ("Content-Disposition", "Content-Encoding", "Accept-Ranges"):
            self.request.responseHeaders.removeHeader(name.encode())
        self.request.setHeader("Content-Type", "application/json; charset=utf-8")
        body = write(self.request, answer_to(error, self._wire_name))
        self.request.unregisterProducer()
        self.request.write(body)
        self.request.finish()

    async def goodbye(self) -> None:
        self.cut()

    def beat(self) -> None:
        """Write nothing: a file has no place for it."""
