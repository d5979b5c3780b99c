"""The bytes around the objects of a PDF file, for the benchmark and the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def pdf_file(objects: Iterable[bytes], trailer: bytes = b"") -> bytes:
    """Return a file of ``objects``, the first of which is the catalogue."""
    result = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(result))
        result += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(result)
    size = len(places) + 1
    result += b"xref\n0 %d\n0000000000 65535 f \n" % size
    result += b"".join(b"%010d 00000 n \n" % place for place in places)
    result += b"trailer << /Size %d /Root 1 0 R %s>>\n" % (size, trailer)
    result += b"startxref\n%d\n%%%%EOF\n" % start
    return bytes(result)
