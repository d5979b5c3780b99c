"""Request bodies that announce a file, see docs/api/scrape.md, Uploads."""

from __future__ import annotations

import re

from attrs import frozen

from scraper_service.items import MAX_FILE_NAME, file_name
from scraper_service.options.jobs import Caller
from scraper_service.options.page_requests import CALLER_KEYS, whole_body
from scraper_service.options.parsing import (
    BodyReader,
    Key,
    Text,
    Then,
    build,
    integer,
    need,
    short,
)

MAX_TYPE = 255  # characters of a content type
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?: *; *[\w.+-]+=[\w.+\"-]+)*", re.ASCII)


@frozen
class UploadRequest(Caller):
    """A body of ``POST /v2/parse/upload-url``."""

    name: str
    #: The content type.
    kind: str
    #: In bytes, 0 if the caller does not know.
    size: int = 0


def _content_type(text: str) -> str:
    if not _TYPE.fullmatch(text):
        raise ValueError(
            f"contentType must be a type such as application/pdf, got {short(text)}"
        )
    return text


UPLOAD = whole_body(
    {
        "filename": need(
            Then(Text(MAX_FILE_NAME, minimum=1), file_name),
            "name",
            "The name of the file, which helps to detect its kind.",
        ),
        "contentType": need(
            Then(Text(MAX_TYPE), _content_type), "kind", "The type of the file."
        ),
        "declaredSizeBytes": Key(
            integer(0), "size", help="The size of the file, for an early refusal."
        ),
        **CALLER_KEYS,
    },
    build(UploadRequest),
)


upload_request = BodyReader[UploadRequest](__name__, "upload_request", UPLOAD)
