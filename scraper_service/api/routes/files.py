"""Files: uploads, in one call as a form or in two steps, and what pages leave as files."""

from __future__ import annotations

import asyncio
import functools
import mimetypes
import os
import posixpath
from typing import TYPE_CHECKING, Any, Literal

import multipart
from attrs import evolve, frozen
from twisted.web.server import NOT_DONE_YET

from scraper_service.api.errors import (
    PAGE_STATUSES,
    WORK_ERRORS,
    ErrorResponse,
    answer_to,
    error_body,
    not_found,
    refuse_method,
    write,
)
from scraper_service.api.openapi.route import RootResource, Route, TaskPage
from scraper_service.api.parameters import PathParameter, TextParameter
from scraper_service.api.request_body import (
    FORM,
    JSON,
    MAX_FILE_BYTES,
)
from scraper_service.api.requests.uploads import UPLOAD, upload_request
from scraper_service.api.responses import (
    Scraped,
    join_sentences,
    scrape_response,
    with_base,
)
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    TEXT,
    Id,
    JsonObject,
    Success,
    Time,
    Url,
    encode,
    json_object,
    success,
)
from scraper_service.api.streams.streaming import SendBuffer, Stalled
from scraper_service.content.documents.files import KINDS
from scraper_service.errors import (
    DiskQuotaExceeded,
    FileTooLarge,
    InvalidBody,
    InvalidOptions,
    Issue,
    QueueFull,
    ServiceUnavailable,
    UnsupportedFileType,
    UploadMissing,
    UploadNotFound,
    UploadUsed,
)
from scraper_service.items import MAX_FILE_NAME, SHOWN, Upload, content_type, upload_of
from scraper_service.options.limits import Mode, can_recognise_text
from scraper_service.options.page_requests import ignored_names
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.files import artefacts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import BinaryIO

    from twisted.internet.defer import Deferred
    from twisted.web.server import Request

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.options.jobs import PageOptions
    from scraper_service.services.accounts import Team
    from scraper_service.storage.database import Database
    from scraper_service.storage.files.artefacts import Artefacts
    from scraper_service.storage.files.uploads import Uploads


# Headers of a part. Much longer than a name may be, so that the error for a long name
# is about the name.
MAX_HEADER_BYTES = 32 * 2**10
MAX_OPTIONS_BYTES = 256 * 2**10


@frozen
class UploadForm:
    """The parts of a multipart body."""

    file: Upload
    #: The JSON of the part ``options``.
    options: bytes


async def read_form(request: JsonRequest) -> UploadForm:
    """Return the file and the options of a multipart body.

    Raises :exc:`InvalidOptions` for another type of body, and for missing, repeated or
    large parts.
    """
    kind, values = multipart.parse_options_header(request.header("Content-Type") or "")
    if kind != FORM or not values.get("boundary"):
        message = (
            f"a file is expected as {FORM}, or uploadRef as {JSON}, got"
            f" {kind[:100] or 'no type'!r}"
        )
        raise _refusal("file", message)
    assert request.content is not None
    # Twisted keeps a body of this size in a file, so it is read in a thread.
    boundary = values["boundary"].encode("latin-1")
    return await asyncio.to_thread(_form, request.content, boundary)


def _form(body: BinaryIO, boundary: bytes) -> UploadForm:
    parts: dict[str, tuple[multipart.MultipartSegment, bytearray]] = {}
    content = bytearray()
    try:
        parser = multipart.PushMultipartParser(
            boundary,
            max_header_size=MAX_HEADER_BYTES,
            header_charset="latin-1",  # every byte is one character, see _decoded
        )
        for event in parser.parse_blocking(body.read):
            if isinstance(event, multipart.MultipartSegment):
                name = _decode_utf8(event.name or "", "name of a part", "file")
                if name not in {"file", "options"}:
                    known = "file and options"
                    raise _refusal(name, f"the parts of the form are {known}")
                if name in parts:
                    raise _refusal(name, f"the form has more than one part {name!r}")
                content = bytearray()
                parts[name] = event, content
            elif event:
                content += event
                if len(content) > MAX_FILE_BYTES:
                    message = f"a file has at most {MAX_FILE_BYTES} bytes"
                    raise _refusal("file", message)
    except multipart.ParserLimitReached as error:
        raise _refusal(
            "file",
            f"a header of a part has at most {MAX_HEADER_BYTES} bytes, a file name at"
            f" most {MAX_FILE_NAME} characters ({error})",
        ) from None
    except multipart.MultipartError as error:
        raise _refusal("file", f"the form cannot be read: {error}") from None
    if "file" not in parts:
        raise _refusal("file", "the form has no file")
    part, content = parts["file"]
    return UploadForm(_upload(part, bytes(content)), _options(parts))


def _upload(part: multipart.MultipartSegment, body: bytes) -> Upload:
    sent = _decode_utf8(part.filename or "", "file name", "file")
    return upload_of(sent, part.header("Content-Type") or "", body)


def _decode_utf8(text: str, what: str, path: str) -> str:
    """Decode UTF-8 (RFC 7578, 5.1) that was read as Latin-1."""
    raw = text.encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        shown = raw.decode("utf-8", "backslashreplace")[:SHOWN]
        raise _refusal(path, f"the {what} must be UTF-8, got '{shown}'") from None


def _options(parts: dict[str, Any]) -> bytes:
    text = bytes(parts["options"][1]) if "options" in parts else b""
    if len(text) > MAX_OPTIONS_BYTES:
        message = f"the options have at most {MAX_OPTIONS_BYTES} bytes"
        raise _refusal("options", message)
    return text if text.strip() else b"{}"


def _refusal(name: str, message: str) -> InvalidOptions:
    return InvalidOptions([Issue("custom", (name,), message)])


_PLAIN: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("html", ("html", "htm", "xhtml"), ("text/html", "application/xhtml+xml")),
    ("pdf", ("pdf",), ("application/pdf",)),
    ("json", ("json",), ("application/json",)),
    ("xml", ("xml",), ("application/xml", "text/xml")),
    ("txt", ("txt", "text", "log"), ("text/plain",)),
)
_PICTURES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("png", ("png",), ("image/png",)),
    ("jpeg", ("jpg", "jpeg"), ("image/jpeg",)),
    ("tiff", ("tif", "tiff"), ("image/tiff",)),
    ("bmp", ("bmp",), ("image/bmp",)),
    ("gif", ("gif",), ("image/gif",)),
)


class _FileFormat(JsonObject):
    format: str
    kind: Literal["document", "image"]
    extensions: list[str]
    mime_types: list[str]
    available: bool


class _Upload(JsonObject):
    upload_ref: Id
    upload_url: Url
    method: Literal["PUT"]
    headers: dict[str, str]
    expires_at: Time
    max_size_bytes: int


_FORMATS = success(data=json_object(formats=list[_FileFormat]))
_OPENED = success(data=_Upload)
FORMS = 2  # of up to 50 MB that are read at a time; most that wait are then refused
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream"})


class FileRoutes(Routes):
    """Uploaded files, see docs/api/scrape.md, Uploads."""

    @functools.cached_property
    def _forms(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(FORMS)

    @Route(
        "POST /parse",
        returns=Scraped,
        body="PARSE",
        body_of_upload="UPLOADED_FILE",
        takes_file=True,
        example={"formats": ["markdown"]},
        errors=(*WORK_ERRORS, *PAGE_STATUSES, UploadMissing, UploadNotFound),
    )
    async def parse(self, request: JsonRequest) -> bytes:
        """Convert an uploaded file and return its formats."""
        if (request.header("Content-Type") or "").lower().startswith(JSON):
            return await self._parse_upload(request)
        team = await self.checks.admit_file(request, Mode.SCRAPE)
        await self.checks.charges.require(team, self.checks.prices.page)
        async with self._forms:  # each one holds its file
            self.checks.pool.queue.require_capacity(team.id, request.size)
            form = await read_form(request)
        try:
            body = await self.checks.body_of(request, form.options, team)
        except InvalidBody as error:
            raise InvalidBody(f"in the part `options`: {error}") from None
        options = await body.read(self.api.requests.parse_options)
        warning = await body.warning(ignored_names(self.api.requests.PARSE.fields))
        return await self._parse_file(request, form.file, options, team, warning)

    async def _parse_upload(self, request: JsonRequest) -> bytes:
        team, body = await self.checks.admit(request, Mode.SCRAPE)
        await self.checks.charges.require(team, self.checks.prices.page)
        found = await body.read(self.api.requests.parse_upload)
        warning = await body.warning(ignored_names(self.api.requests.PARSE.fields))
        self.services.scraping.check_parse(found.options)
        file = await self.services.uploads.take(found.ref, team.id)
        return await self._parse_file(request, file, found.options, team, warning)

    async def _parse_file(
        self,
        request: JsonRequest,
        file: Upload,
        options: PageOptions,
        team: Team,
        warning: str | None,
    ) -> bytes:
        options = evolve(options, url=file.name)
        page = await self.services.scraping.parse(file, options, team, self.api.version)
        page = evolve(page, warning=join_sentences(page.warning, warning))
        if page.failure and page.failure.code == "SCRAPE_UNSUPPORTED_FILE_ERROR":
            members = error_body(page.failure.message, code="UNSUPPORTED_FILE_TYPE")
            return write(request, ErrorResponse(400, members))
        if page.failure:
            return self.write_failure(request, page.failure)
        return with_base(scrape_response(page, options), self.base_url(request))

    @Route(
        "POST /parse/upload-url",
        returns=_OPENED,
        body=UPLOAD,
        example={"filename": "report.pdf", "contentType": "application/pdf"},
        errors=(FileTooLarge, UnsupportedFileType, DiskQuotaExceeded, QueueFull),
    )
    async def open_upload(self, request: JsonRequest) -> bytes:
        """Return a URL that takes the bytes of a file, for 15 minutes.

        The response of a PUT to this URL is 200. Then ``POST /v2/parse`` with
        ``uploadRef`` converts the file.
        """
        team, body = await self.checks.admit(request, Mode.SCRAPE)
        given = await body.read(upload_request)
        if given.size > MAX_FILE_BYTES:
            raise FileTooLarge(
                f"declaredSizeBytes must be <= {MAX_FILE_BYTES}, got {given.size}"
            )
        if not is_readable(given.name, given.kind):
            raise UnsupportedFileType(
                f"Files such as {given.name!r} of the type {given.kind!r} cannot be"
                " read here; GET /v2/parse/formats lists those that can."
            )
        await self.checks.charges.disk.require(team)
        kind = content_type(given.name, given.kind)
        opened = await self.services.uploads.open(team.id, given.name, kind)
        upload = _Upload.of(
            upload_ref=opened.ref,
            upload_url=f"{self.base_url(request)}/uploads/{opened.token}",
            headers={"Content-Type": given.kind},
            expires_at=opened.expires_at,
            max_size_bytes=MAX_FILE_BYTES,
        )
        return _OPENED.to_json(data=upload)

    @Route("GET /parse/formats", returns=_FORMATS)
    async def formats(self, request: JsonRequest) -> bytes:
        """Return the kinds of files that can be uploaded."""
        await self.checks.admit(request, Mode.CRAWL_STATUS)
        return _FORMATS.to_json(data={"formats": file_formats()})


def file_formats() -> list[dict[str, Any]]:
    """Return the kinds of files that can be sent, and whether each works here."""
    rows = [(*each, "document", True) for each in _PLAIN]
    for kind in KINDS.values():
        if kind.reader:
            names = (kind.name, kind.extensions, kind.mime_types)
            rows.append((*names, "document", kind.is_available))
    rows += [(*each, "image", can_recognise_text()) for each in _PICTURES]
    keys = ("format", "extensions", "mime_types", "kind", "available")
    return [_FileFormat.of(dict(zip(keys, row, strict=True))) for row in rows]


def is_readable(name: str, kind: str) -> bool:
    """Return False if neither name nor content type of a file has a readable kind.

    A file without a type and with an unknown name may be readable: its content decides.
    """
    kind = kind.partition(";")[0].strip().lower()
    extension = posixpath.splitext(name)[1].lower().removeprefix(".")
    formats = [each for each in file_formats() if each["available"]]
    if kind.startswith("text/") or any(kind in each["mimeTypes"] for each in formats):
        return True
    if any(extension in each["extensions"] for each in formats):
        return True
    return kind in _UNKNOWN_TYPES and mimetypes.guess_type(name)[0] is None


class UploadPages(TaskPage):
    """``/uploads/TOKEN``, which takes the bytes of a file once, without an API key."""

    routes = (
        Route(
            "PUT /uploads/<token>",
            summary="Take the bytes of a file that POST /v2/parse converts then.",
            returns=Success,
            parameters=(PathParameter("token", "From uploadUrl.", TEXT),),
            errors=(
                InvalidOptions,
                UploadNotFound,
                UploadUsed,
                DiskQuotaExceeded,
                *(408, 413, 503),
            ),
        ),
    )

    def __init__(self, uploads: Uploads):
        super().__init__()
        self._uploads = uploads

    def render(self, request: JsonRequest) -> bytes | int:
        if request.method != b"PUT":
            request.setHeader("Allow", "PUT")
            return write(request, ErrorResponse(405, error_body("Method not allowed")))
        return self.respond(request)

    async def make(self, request: JsonRequest) -> bytes:
        token = b"/".join(request.postpath or ()).decode("latin-1")
        content = request.content
        if content is None or not content.seek(0, os.SEEK_END):
            raise InvalidOptions([Issue("custom", (), "the file is empty")])
        await self._uploads.store(token, content)
        return Success.to_json()


HEADERS = {
    "Cache-Control": "private, max-age=3600",
    # A browser never runs a file as content of this origin.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class ArtefactFiles(RootResource):
    """``/artefacts/NAME?expires=...&signature=...``."""

    isLeaf = True
    routes = (
        Route(
            "GET /artefacts/<name>",
            summary="Return a file of a page, such as a screenshot.",
            returns={},
            media=tuple(artefacts.KINDS.values()),
            parameters=(
                PathParameter("name", "The name of the file.", TEXT),
                TextParameter("expires", "From the URL of the file."),
                TextParameter("signature", "From the URL of the file."),
            ),
            errors=(404, 503),
            is_own=True,
        ),
    )

    def __init__(self, files: Artefacts, database: Database, stall_s: float):
        super().__init__()
        self._files = files
        self._database = database
        self._stall_s = stall_s
        self._tasks = BackgroundTasks()

    def render(self, request: Request) -> bytes | int:
        if (refusal := refuse_method(request)) is not None:
            return refusal
        name = b"/".join(request.postpath or ()).decode("latin-1")
        query = request.uri.partition(b"?")[2].decode("latin-1")
        # The same response for unknown, expired and unsigned URLs.
        if not self._files.allows(name, query):
            return not_found(request)
        self._tasks.spawn(self._answer(request, name))
        return NOT_DONE_YET

    async def _answer(self, request: Request, name: str) -> None:
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # the client went away
        try:
            # The file may outlive its page, for example in the page cache.
            is_readable = await self._database.read(artefacts.is_readable, name)
            found = await self._files.get(name) if is_readable else None
        except OSError:
            found = None
        except ServiceUnavailable as error:
            if not gone.called:
                answer = answer_to(error, str)
                request.setResponseCode(answer.status)
                request.write(encode(answer.members))
                request.finish()
            return
        if gone.called:
            return
        if found is None:
            request.write(not_found(request))
            request.finish()
            return
        size, chunks = found
        request.setHeader(
            b"Content-Type", artefacts.KINDS[name.rpartition(".")[2]].encode()
        )
        request.setHeader(b"Content-Length", b"%d" % size)
        for key, value in HEADERS.items():
            request.setHeader(key.encode(), value.encode())
        if request.method != b"GET" or await self._send(request, chunks, gone):
            request.finish()

    async def _send(
        self, request: Request, chunks: AsyncIterator[bytes], gone: Deferred[None]
    ) -> bool:
        """Write a file as fast as the client reads. Return False for a cut connection."""
        send_buffer = SendBuffer(self._stall_s)
        request.registerProducer(send_buffer, True)  # Twisted's own signature
        try:
            async for data in chunks:
                if gone.called:
                    return False
                request.write(data)
                await send_buffer.wait()
        except (ServiceUnavailable, Stalled):
            # The client has the status: only an incomplete body says that it failed.
            if not gone.called:
                transport: Any = request.transport
                transport.abortConnection()
            return False
        finally:
            if not gone.called:
                request.unregisterProducer()
        return not gone.called
