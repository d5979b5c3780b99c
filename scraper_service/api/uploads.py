"""Files of callers: multipart bodies, read beside the reactor."""

from __future__ import annotations

import asyncio
import mimetypes
from typing import TYPE_CHECKING, Any

import multipart
from attrs import field, frozen

from scraper_service.api.body import FORM, LARGE_BODY_BYTES, MAX_FILE_BYTES, load_json
from scraper_service.errors import InvalidOptions, Issue
from scraper_service.items import Upload

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from scraper_service.api.site import JsonRequest

MAX_NAME = 255  # characters of a file name
MAX_PARTS = 10


@frozen
class Form:
    """What a caller sent: the file, and the JSON value of the field ``options``."""

    file: Upload
    options: Any = field(factory=dict)


async def read_form(request: JsonRequest) -> Form:
    """Return the file and the options of a multipart body.

    Raises :exc:`InvalidOptions` for another body, and for parts that are missing,
    doubled or too large; :exc:`InvalidBody` for options that are not JSON.
    """
    kind, values = multipart.parse_options_header(request.header("Content-Type") or "")
    if kind != FORM or not values.get("boundary"):
        message = f"a file is expected as {FORM}, got {kind[:100] or 'no type'!r}"
        raise _refused("file", message)
    assert request.content is not None
    # A body this large lies in a file: no thread of the reactor reads it.
    return await asyncio.to_thread(_form, request.content, values["boundary"])


def _form(body: BinaryIO, boundary: str) -> Form:
    parts: dict[str, tuple[multipart.MultipartSegment, bytearray]] = {}
    taken: Callable[[bytes], None] | None = None
    try:
        parser = multipart.PushMultipartParser(
            boundary, max_segment_size=MAX_FILE_BYTES, max_segment_count=MAX_PARTS
        )
        for event in parser.parse_blocking(body.read):
            if isinstance(event, multipart.MultipartSegment):
                name = event.name or ""
                if name not in {"file", "options"}:
                    known = "file and options"
                    raise _refused(name, f"the parts of the form are {known}")
                if name in parts:
                    raise _refused(name, f"the form has more than one part {name!r}")
                content = bytearray()
                parts[name] = event, content
                taken = content.extend
            elif event and taken is not None:
                taken(bytes(event))
    except multipart.ParserLimitReached as error:
        message = f"a file has at most {MAX_FILE_BYTES} bytes ({error})"
        raise _refused("file", message) from None
    except multipart.MultipartError as error:
        raise _refused("file", f"the form cannot be read: {error}") from None
    if "file" not in parts:
        raise _refused("file", "the form has no file")
    part, content = parts["file"]
    return Form(_upload(part, bytes(content)), _options(parts))


def _upload(part: multipart.MultipartSegment, body: bytes) -> Upload:
    name = (part.filename or "").replace("\\", "/").rpartition("/")[2].strip()
    name = "".join(c for c in name if c.isprintable())
    if not name:
        raise _refused("file", "the file has no name")
    if len(name) > MAX_NAME:
        raise _refused("file", f"a file name has at most {MAX_NAME} characters")
    if not body:
        raise _refused("file", f"the file {name!r} is empty")
    kind = part.header("Content-Type") or ""
    if kind.lower() in {"", "application/octet-stream"}:
        kind = mimetypes.guess_type(name)[0] or ""
    return Upload(name, kind, body)


def _options(parts: dict[str, Any]) -> Any:
    if "options" not in parts:
        return {}
    text = bytes(parts["options"][1])
    if len(text) > LARGE_BODY_BYTES:
        message = f"the options have at most {LARGE_BODY_BYTES} bytes"
        raise _refused("options", message)
    return load_json(text) if text.strip() else {}


def _refused(name: str, message: str) -> InvalidOptions:
    return InvalidOptions([Issue("custom", (name,), message)])
