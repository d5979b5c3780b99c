"""Uploaded files: multipart bodies, parsed in a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import multipart
from attrs import frozen

from scraper_service.api.request_body import (
    FORM,
    JSON,
    MAX_FILE_BYTES,
)
from scraper_service.errors import InvalidOptions, Issue
from scraper_service.items import MAX_FILE_NAME, SHOWN, Upload, upload_of

if TYPE_CHECKING:
    from typing import BinaryIO

    from scraper_service.api.http_server import JsonRequest

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
