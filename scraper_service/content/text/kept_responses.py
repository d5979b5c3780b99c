"""Responses that jobs keep for their pages: how they are stored, and rows of archives."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from scraper_service.content.text.compression import compress, decompress
from scraper_service.items import KeptResponse

if TYPE_CHECKING:
    from scraper_service.items import PageSource

_LENGTHS = struct.Struct("<III")
_BESIDE = {"head", "body", "packed"}  # fields of a response that are not in its facts


@frozen
class StoredResponse:
    """A :class:`KeptResponse` as the database has it."""

    #: JSON of the other fields.
    facts: str
    head: bytes
    #: Empty if it is in object storage.
    body: bytes
    #: The bytes of the body as received, 0 in what was read.
    size: int = 0
    #: The hash of a body in object storage.
    digest: bytes | None = None
    #: The bytes of that body.
    length: int = 0

    @property
    def stored_size(self) -> int:
        """The bytes that it takes."""
        return len(self.head) + len(self.body) + self.length


def pack(kept: KeptResponse) -> StoredResponse:
    """Return a response for the database.

    A body with a content encoding stays as it is: compressing it again saves nothing.
    """
    is_packed = b"\ncontent-encoding:" not in kept.head.lower()
    facts = asdict(kept, filter=lambda each, _: each.name not in _BESIDE)
    body = kept.packed or compress(kept.body) if is_packed else kept.body
    return StoredResponse(
        json.dumps({**facts, "packed": is_packed}),
        compress(kept.head),
        body,
        size=len(kept.body),
    )


def pack_body(source: PageSource) -> bytes:
    """Return the compressed body of a response, empty for a body that stays as it is.

    Called in a converter process, which spares the service the time.
    """
    return b"" if source.content_encodings else compress(source.body)


def archive_row(page: bytes, found: StoredResponse) -> bytes:
    """Return a compressed page with its response as one row of an archive."""
    facts = found.facts.encode()
    lengths = _LENGTHS.pack(len(page), len(facts), len(found.head))
    return b"".join((lengths, page, facts, found.head, found.body))


def read_archive_row(row: bytes) -> tuple[dict[str, Any], KeptResponse]:
    """Return the page object and the response of a row of :func:`archive_row`."""
    start, parts = _LENGTHS.size, []
    for length in _LENGTHS.unpack_from(row):
        parts.append(row[start : start + length])
        start += length
    page, facts, head = parts
    kept = unpack(StoredResponse(facts.decode(), head, row[start:]))
    return json.loads(decompress(page)), kept


def unpack(stored: StoredResponse) -> KeptResponse:
    """Return a response of the database. It keeps the compressed body, too.

    A body in object storage is empty.
    """
    values = json.loads(stored.facts)
    is_packed = values.pop("packed") and stored.digest is None
    return KeptResponse(
        head=decompress(stored.head),
        body=decompress(stored.body) if is_packed else stored.body,
        packed=stored.body if is_packed else b"",
        **values,
    )
