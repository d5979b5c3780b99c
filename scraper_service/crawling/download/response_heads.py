"""Heads of answers that browsers bear and aiohttp's parser refuses.

No parser: each head is tidied up, then aiohttp reads it, and the body, as always.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

if TYPE_CHECKING:
    from aiohttp.streams import StreamReader

HEAD_BYTES = 256 * 1024  # of all heads of one answer, as in Chromium
MAX_FIELDS = 1000  # that a head may have

_END = re.compile(rb"\n\r?\r?\n")
_STATUS = re.compile(
    rb"HTTP(/1\.[01])?[^ \t]*[ \t]+(\d{3})(?!\d)(.*)", re.DOTALL | re.IGNORECASE
)
_INFORMATIONAL = re.compile(rb"HTTP/1\.\d 1(?!01)")  # 101 is not followed by another
_FOLD = re.compile(rb"\n[ \t]+")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:(.*)", re.DOTALL)
_LENGTH = re.compile(rb"[0-9]{1,18}")


class LenientProtocol(ResponseHandler):
    """Hands each head to aiohttp by itself, tidied up.

    So what follows an answer cannot spoil it; a connection on which something does, or
    whose head was not clear on where the answer ends, is not used again.
    """

    _head: bytearray | None = None  # what is there of it; None once it is complete
    _head_bytes = 0  # of the heads before it, informational ones

    def set_response_params(self, **params: Any) -> None:
        """Begin an answer; called before each request."""
        self._head = bytearray()
        self._head_bytes = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Take what came; called with ``b""`` where aiohttp goes on after a pause."""
        while self._head is not None and self._parser is not None:
            head, data = self._cut(data)
            if head is None:
                return
            tidy, is_clear = tidied(head)
            self._head = bytearray() if _INFORMATIONAL.match(tidy) else None
            super().data_received(tidy)
            if not is_clear:
                self.force_close()
            if not data:
                return
        payload = self._payload
        is_whole = payload is None or payload.is_eof()
        if data and is_whole and self._parser is not None:
            self._refuse("more came than the answer")
            return
        super().data_received(data)
        if self._exception is not None and payload is not None:
            _end(payload, self._exception)

    def _cut(self, data: bytes) -> tuple[bytes | None, bytes]:
        """Return the head, None while it is not complete, and what follows it."""
        assert self._head is not None
        searched = max(0, len(self._head) - 3)
        self._head += data if self._head else data.lstrip(b"\r\n")
        end = _END.search(self._head, searched)
        size = end.end() if end else len(self._head)
        if self._head_bytes + size > HEAD_BYTES:
            self._refuse("the head of the answer is too long")
            return None, b""
        if end is None:
            return None, b""
        head, data = bytes(self._head[:size]), bytes(self._head[size:])
        self._head_bytes += size
        return head, data

    def _refuse(self, why: str) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()
        self.set_exception(HttpProcessingError(code=400, message=why))


def tidied(head: bytes) -> tuple[bytes, bool]:
    """Return a head as aiohttp takes it, and whether it says clearly where it ends.

    Its first line is set right, folded lines are unfolded (RFC 9112, 5.2), those that are
    no fields left out. Of what is said on the length of the body stays what counts (6.3):
    chunks, else one length, else its end is that of the connection. Different lengths
    stay, and are refused.
    """
    first, *lines = [
        line.rstrip(b"\r").replace(b"\r", b" ")
        for line in _FOLD.sub(b" ", head).split(b"\n")
    ]
    found = [_FIELD.fullmatch(line) for line in lines]
    fields = [(match[1], match[2].strip()) for match in found if match]
    lengths = _members(fields, b"content-length")
    codings = [coding.lower() for coding in _members(fields, b"transfer-encoding")]
    if b"chunked" in codings:
        fields = _without(fields, b"content-length")
    else:
        fields = _without(fields, b"transfer-encoding")
        if len(set(lengths)) == 1:
            fields = _without(fields, b"content-length")
            if _LENGTH.fullmatch(lengths[0]):
                fields.append((b"Content-Length", lengths[0]))
    if (status := _STATUS.fullmatch(first)) is not None:
        first = b"HTTP%s %s %s" % (status[1] or b"/1.1", status[2], status[3].strip())
    rows = [first, *(b": ".join(field) for field in fields), b"", b""]
    return b"\r\n".join(rows), len(lengths) + len(codings) < 2


def _members(fields: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the members of all lists of a name, which is given in lower case."""
    values = [value for known, value in fields if known.lower() == name]
    return [member.strip() for value in values for member in value.split(b",")]


def _without(
    fields: list[tuple[bytes, bytes]], name: bytes
) -> list[tuple[bytes, bytes]]:
    return [field for field in fields if field[0].lower() != name]


def _end(payload: StreamReader, error: BaseException) -> None:
    """Tell who reads a body that it goes no further; aiohttp would have them wait."""
    if not payload.is_eof() and payload.exception() is None:
        payload.set_exception(ClientPayloadError(str(error)))
