"""Exports: the pages, errors or URLs of a job as one file, whole or a range of it."""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.web import http

from scraper_service.api.errors import answer_to, write
from scraper_service.api.openapi.route import Parameter, Route
from scraper_service.api.parameters import (
    SKIP,
    ChoiceParameter,
    HeaderParameter,
    NumberParameter,
    argument,
    parse_job_id,
)
from scraper_service.api.responses import RESULT_MEMBERS, Metadata, PageErrorJson
from scraper_service.api.routes.crawl_report import JobUrlJson
from scraper_service.api.routing import Routes
from scraper_service.api.streams.streaming import Stream
from scraper_service.errors import (
    ExportUnavailable,
    InvalidParameter,
    JobNotFound,
    JobRunning,
    QueueFull,
    RangeInvalid,
    SourcesNotStored,
)
from scraper_service.exports.formats import ERRORS, FORMATS, PAGES, URLS, WHAT
from scraper_service.exports.job_exports import ExportQuery
from scraper_service.exports.tables import COLUMNS
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.routing import Api
    from scraper_service.exports.job_exports import Export
    from scraper_service.services.accounts import Team


# One range (RFC 9110, 14.1.2). Of several ranges the whole file is a valid response.
_ONE_RANGE = re.compile(
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
    found = _ONE_RANGE.fullmatch(text.strip())
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
        await self.send_buffer.wait()
        self.request.unregisterProducer()
        self.request.finish()

    async def _range(self) -> ByteRange | None:
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
            _ONE_RANGE.fullmatch((self.request.header("Range") or "").strip())
            is not None
        )

    async def _send(self, data: bytes) -> None:
        await self.rest(None)
        await self.send_buffer.wait()
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
        """Write nothing: a file has no field for it."""


MAX_FIELDS = 100
MAX_FIELD = 200  # characters
MAX_ROWS = 2**31 - 1

_FORMAT = ChoiceParameter("format", "The format of the file.", (*FORMATS,), "jsonl")
_WHAT = ChoiceParameter("what", "What the file has a row for.", WHAT, PAGES)
_LIMIT = NumberParameter("limit", "Have at most N rows.", 1, MAX_ROWS)
_RANGE = HeaderParameter(
    "Range",
    "One range of bytes of the file of a job that has ended, with status 206.",
    {"type": "string", "examples": ["bytes=0-1023"]},
)
_IF_RANGE = HeaderParameter(
    "If-Range", "The ETag of the file that the range continues.", {"type": "string"}
)
# Keys of a page and of its metadata, which paths begin with.
_KEYS = {
    PAGES: frozenset((*RESULT_MEMBERS, *Metadata.shape["properties"])),
    ERRORS: frozenset(COLUMNS[ERRORS]),
    URLS: frozenset(COLUMNS[URLS]),
}
_ROWS: dict[str, Callable[[Any], bytes]] = {
    PAGES: bytes,
    ERRORS: PageErrorJson.to_json,
    URLS: JobUrlJson.to_json,
}
_SEGMENT = re.compile(r"[^\s.,]+")


@frozen
class _FieldsParameter(Parameter):
    """The parameter ``fields``: paths of values, separated by commas."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "examples": ["url,metadata.title"]}

    def read(self, request: JsonRequest, what: str) -> tuple[str, ...]:
        """Return the paths, none if the parameter is missing.

        Raises :exc:`InvalidParameter`.
        """
        text = argument(request, self.name)
        if text is None:
            return ()
        paths = tuple(each.strip() for each in text.split(","))
        if len(paths) > MAX_FIELDS:
            raise InvalidParameter(
                f"Invalid fields: must be at most {MAX_FIELDS} paths, got {len(paths)}"
            )
        for number, path in enumerate(paths):
            if path in paths[:number]:
                raise InvalidParameter(
                    f"Invalid fields: each path must be given once, got {path[:60]!r} twice"
                )
        for path in paths:
            self._check(path, _KEYS[what])
        return paths

    def _check(self, path: str, keys: frozenset[str]) -> None:
        parts = path.split(".")
        is_path = len(path) <= MAX_FIELD and all(map(_SEGMENT.fullmatch, parts))
        if not is_path or parts[0] not in keys:
            text = (
                f"Invalid fields: a path must begin with one of {', '.join(sorted(keys))},"
                f" got {path[:60]!r}"
            )
            if is_path and "metadata" in keys:
                text += f"; another key of the metadata is metadata.{path[:60]}"
            raise InvalidParameter(text)


_FIELDS = _FieldsParameter(
    "fields",
    "Have these values alone, such as `url,metadata.title`: columns, or keys of each line.",
)
_PARAMETERS = (_FORMAT, _WHAT, _FIELDS, SKIP, _LIMIT, _RANGE, _IF_RANGE)


class ExportRoutes(Routes):
    """Files with the pages, errors or URLs of a crawl or batch."""

    @Route(
        ("GET /crawl/<job_id>/export", "GET /batch/scrape/<job_id>/export"),
        returns={},
        parameters=_PARAMETERS,
        errors=(
            *(JobNotFound, ExportUnavailable, JobRunning, SourcesNotStored),
            *(QueueFull, RangeInvalid),
        ),
        failures={206: {}},
        media=tuple(dict.fromkeys(each.content_type for each in FORMATS.values())),
        is_own=True,
    )
    async def export(self, request: JsonRequest, job_id: str) -> ExportStream:
        """Return the pages of a job as a file.

        The header `X-Total-Pages` has the number of rows, `X-Job-Status` the status of the
        job. The file of a job that has ended has an `ETag` and can be read in ranges.
        """
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = self._query(request)
        export = await self.services.exports.open(parse_job_id(job_id), team.id, query)
        if request.method != b"HEAD":
            self.api.watchers.exports.check(team)
        return ExportStream(self.api, export, team)

    def _query(self, request: JsonRequest) -> ExportQuery:
        name, what = _FORMAT.read(request), _WHAT.read(request)
        assert name is not None
        assert what is not None
        found = FORMATS[name]
        fields = _FIELDS.read(request, what)
        if what not in found.rows:
            can = ", ".join(each for each in FORMATS if what in FORMATS[each].rows)
            raise InvalidParameter(
                f"Invalid what: {what} can be exported as {can}, got format {name}"
            )
        if fields and not found.takes_fields:
            can = ", ".join(each for each in FORMATS if FORMATS[each].takes_fields)
            raise InvalidParameter(
                f"Invalid fields: only {can} take fields, got format {name}"
            )
        return ExportQuery(
            format=name,
            what=what,
            fields=fields,
            skip=SKIP.read(request),
            limit=_LIMIT.find(request),
            gzip=_accepts_gzip(request.headers_of("Accept-Encoding")),
            base=self.base_url(request),
            row=_ROWS[what],
        )


def _accepts_gzip(header: str) -> bool:
    """Return True if a header ``Accept-Encoding`` names gzip (RFC 9110, 12.5.3)."""
    for each in header.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in {"gzip", "x-gzip"}:
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight)
    return False
