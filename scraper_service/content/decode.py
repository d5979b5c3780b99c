"""From the bytes of an answer to text: content encodings, then the character set.

Character sets follow the WHATWG Encoding and HTML standards, as browsers do.
"""

from __future__ import annotations

import re
import sys
import zlib
from typing import TYPE_CHECKING

import brotli
import webencodings
from chardetng_py import EncodingDetector

from scraper_service.content.passes import compiled
from scraper_service.errors import ServiceError
from scraper_service.items import PageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_ENCODINGS = 3
CHUNK_BYTES = 64 * 2**10
PRESCAN_BYTES = 4096  # the standard wants 1024; large sites need more
ZSTD_WINDOW_LOG = 23  # 8 MiB, RFC 9659

# What is said instead of nothing at all; character sets are, too.
_NO_CODINGS = {"", "identity", "none", "null", "binary", "7bit", "8bit", "aws-chunked"}
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xff\xfe", "utf-16-le"),
)
_CODECS = {
    "gbk": "gb18030",
    "iso-8859-8-i": "iso8859-8",
    "replacement": "utf-8",
    "x-user-defined": "cp1252",  # HTML standard, 13.2.3.2
}
# XML 1.0, appendix F: a declaration in UTF-16 without a byte order mark.
_XML_UTF_16 = ((b"<\0?\0", "utf-16-le"), (b"\0<\0?", "utf-16-be"))
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(
    rb"<meta[\s/][^>]*?charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE
)
_XML = re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]+)", re.IGNORECASE)
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)


class Unreadable(ServiceError, ValueError):
    """A document that cannot be converted; ``error`` is what the caller gets."""

    def __init__(self, error: PageError):
        self.error = error
        super().__init__(error.message)


def decode_body(
    body: bytes, encodings: tuple[str, ...], max_bytes: int
) -> tuple[bytes, str | None]:
    """Undo ``encodings`` (outermost last) as browsers do, giving at most ``max_bytes``.

    Of a stream that is damaged or truncated that is what comes before the fault, which
    is the second value, as in :func:`decode_start`.

    A text whose encodings are unknown is as it came.

    :raises Unreadable: for an unknown encoding, more than :data:`MAX_ENCODINGS`, a
        stream without a beginning, and a result over the limit.
    """
    is_known = all(name in _STREAMS or _is_no_coding(name) for name in encodings)
    if not is_known and b"\0" not in body:
        encodings = ()
    found, fault = decode_start(body, encodings, max_bytes)
    if fault and not 0 < len(found) < max_bytes:
        raise Unreadable(PageError("SCRAPE_ALL_ENGINES_FAILED", f"The page {fault}"))
    return found, fault


def decode_start(
    body: bytes, encodings: tuple[str, ...], max_bytes: int
) -> tuple[bytes, str | None]:
    """Undo ``encodings`` as far as possible; the second value says why no further.

    It continues a sentence (``is not valid gzip``); None when all is there.
    """
    names = [name for name in encodings if not _is_no_coding(name)]
    if len(names) > MAX_ENCODINGS:
        return b"", f"has {len(names)} content encodings, 3 are allowed"
    fault = None
    for name in reversed(names):
        if name not in _STREAMS:
            return b"", f"has an unknown content encoding: {name[:40]!r}"
        if body:
            body, new_fault = _unpacked(body, name, max_bytes)
            fault = fault or new_fault
    if len(body) > max_bytes:
        return body[:max_bytes], fault or f"is larger than {max_bytes} bytes"
    return body, fault


def _is_no_coding(name: str) -> bool:
    """Tell whether servers say ``name`` of a body that is as it is."""
    return name in _NO_CODINGS or webencodings.lookup(name) is not None


def text_of(body: bytes, content_type: str, *, xml: bool = False) -> str:
    """Return ``body`` as text without byte order mark, NUL and lone surrogates."""
    codec, start = codec_of(body, content_type, xml=xml)
    return clean_text(body[start:].decode(codec, "replace"))


def utf8_of(body: bytes, content_type: str) -> bytes:
    """Return :func:`text_of` in UTF-8: the body itself, if it is that already."""
    codec, start = codec_of(body, content_type)
    body = body[start:]
    if codec == "utf-8" and b"\0" not in body and _is_utf8(body):
        return body
    return clean_text(body.decode(codec, "replace")).encode()


def _is_utf8(body: bytes) -> bool:
    if compiled is not None:
        return compiled.is_utf8(body)  # type: ignore[no-any-return]
    try:
        return body.isascii() or bool(body.decode())
    except UnicodeDecodeError:
        return False


def codec_of(body: bytes, content_type: str, *, xml: bool = False) -> tuple[str, int]:
    """Return Python's codec for ``body``, and the length of its byte order mark."""
    for bom, codec in _BOMS:
        if body.startswith(bom):
            return codec, len(bom)
    for start, codec in _XML_UTF_16 if xml else ():
        if body.startswith(start):
            return codec, 0
    return _declared(body, content_type, xml=xml) or _detected(body), 0


def clean_text(text: str) -> str:
    """Drop what neither JSON readers nor databases accept: NUL, lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode(errors="ignore").decode()
    return text.replace("\0", "")


def _declared(body: bytes, content_type: str, *, xml: bool) -> str | None:
    header = _HEADER.search(content_type)
    codec = _codec(header[1]) if header else None
    if codec:
        return codec
    head = body[:PRESCAN_BYTES]
    if match := _XML.search(head):
        codec = _codec(match[1].decode("latin-1"))
    if not codec and not xml:
        match = _META.search(_COMMENT.sub(b"", head))
        codec = _codec(match[1].decode("latin-1")) if match else None
    # A declaration readable as ASCII cannot stand in UTF-16 text.
    return "utf-8" if codec and codec.startswith("utf-16") else codec


def _codec(label: str) -> str | None:
    """Return Python's codec for a WHATWG label, None for an unknown label."""
    found = webencodings.lookup(label)
    if found is None:
        return None
    name: str = _CODECS.get(found.name, found.codec_info.name)
    return name


def _detected(body: bytes) -> str:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    detector = EncodingDetector()
    detector.feed(body[: 256 * 2**10], last=True)
    return _codec(detector.guess(tld=None, allow_utf8=True)) or "cp1252"


def _unpacked(body: bytes, name: str, max_bytes: int) -> tuple[bytes, str | None]:
    result = bytearray()
    try:
        for chunk in _STREAMS[name](body):
            result += chunk
            if len(result) > max_bytes:
                fault = f"is larger than {max_bytes} bytes decoded"
                return bytes(result[:max_bytes]), fault
    except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as exc:
        return bytes(result), f"is not valid {name}: {exc}"
    return bytes(result), None


def _gzip(body: bytes) -> Iterator[bytes]:
    while body:
        stream = zlib.decompressobj(31)
        yield from _inflate(stream, body)
        body = stream.unused_data.lstrip(b"\0")
        if not body.startswith(b"\x1f\x8b"):
            return  # browsers ignore what follows the last member


def _deflate(body: bytes) -> Iterator[bytes]:
    zlib_header = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    yield from _inflate(zlib.decompressobj(15 if zlib_header else -15), body)


def _inflate(stream: zlib._Decompress, body: bytes) -> Iterator[bytes]:
    while not stream.eof:
        chunk = stream.decompress(body, CHUNK_BYTES)
        body = stream.unconsumed_tail
        if not chunk and not stream.eof:
            raise EOFError("the stream is truncated")
        yield chunk


def _br(body: bytes) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    data = body
    while not stream.is_finished():
        chunk = stream.process(data, output_buffer_limit=CHUNK_BYTES)
        data = b""
        if not chunk and not stream.is_finished() and stream.can_accept_more_data():
            raise EOFError("the stream is truncated")
        yield chunk


def _zstd(body: bytes) -> Iterator[bytes]:
    limits: dict[int, int] = {
        zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG
    }
    while body:
        stream = zstd.ZstdDecompressor(options=limits)
        data = body
        while not stream.eof:
            chunk = stream.decompress(data, CHUNK_BYTES)
            data = b""
            if not chunk and stream.needs_input and not stream.eof:
                raise EOFError("the stream is truncated")
            yield chunk
        body = stream.unused_data


_STREAMS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _br,
    "zstd": _zstd,
}
