"""Decodes the body of a response: content encodings, kind, then the character set.

Kinds come from the Content-Type header and the first bytes. Character sets follow the
WHATWG Encoding and HTML standards, as in browsers.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from html import escape
from typing import TYPE_CHECKING, Literal

import brotli
import webencodings

from scraper_service.errors import ServiceError
from scraper_service.items import PageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

try:
    import chardetng_py
except ImportError:  # ``setup.cfg`` names the platforms without a wheel
    chardetng_py = None

MAX_ENCODINGS = 3
CHUNK_BYTES = 64 * 2**10
PRESCAN_BYTES = 4096  # 1024 in the standard; large sites need more
DETECTED_BYTES = 256 * 2**10
HEAD_BYTES = 128 * 2**10  # of a longer ``head``, which browsers read to its end
ZSTD_WINDOW_LOG = 23  # 8 MiB, RFC 9659

# Servers name these, or a character set, for a body without content encoding.
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
# The codecs between which charset-normalizer chooses: those of most undeclared pages.
_LEGACY = (
    "big5 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 euc_jp"
    " euc_kr gb18030 iso2022_jp iso8859_2 iso8859_7 koi8_r shift_jis"
).split()
# XML declarations in UTF-16 without byte order mark (XML 1.0, appendix F).
_XML_UTF_16 = ((b"<\0?\0", "utf-16-le"), (b"\0<\0?", "utf-16-be"))
_XML = re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]+)", re.IGNORECASE)
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
# Markup as the prescan of the HTML standard reads it. Possessive, so that it is linear.
_TAG = re.compile(rb"<(?:(!--)|[!?]|(/?)([a-z][^\s/>]*+)|/)", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    rb"[\s/]*+([^\s/>][^\s/>=]*+)"
    rb"(?:\s*+=\s*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^\s>\"'][^\s>]*+|)))?+"
)
_CONTENT_CHARSET = re.compile(
    r"charset\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s;\"'][^\s;]*+))", re.IGNORECASE
)
_RAW_TEXTS = frozenset(
    {b"script", b"style", b"title", b"textarea", b"xmp", b"iframe", b"noembed"}
)
_RAW_END = re.compile(rb"</(%s)" % b"|".join(sorted(_RAW_TEXTS)), re.IGNORECASE)
_IN_HEAD = frozenset(
    b"html head script noscript style link meta object title base template".split()
)


class Unreadable(ServiceError, ValueError):
    """Raised when a document cannot be converted; ``error`` is for the caller."""

    def __init__(self, error: PageError):
        self.error = error
        super().__init__(error.message)


def decode_body(
    body: bytes, encodings: tuple[str, ...], max_bytes: int
) -> tuple[bytes, str | None]:
    """Undo ``encodings`` (outermost last) as browsers do, up to ``max_bytes``.

    A damaged or truncated stream gives the bytes before the error; the second value is
    the error, as in :func:`decode_start`. A body without NUL bytes stays as it is if
    an encoding is unknown.

    :raises Unreadable: for an unknown encoding, more than :data:`MAX_ENCODINGS`, a
        stream that gives no bytes, and a result over the limit.
    """
    is_known = all(name in _STREAMS or _is_no_coding(name) for name in encodings)
    if not is_known and b"\0" not in body:
        encodings = ()
    found, error = decode_start(body, encodings, max_bytes)
    if error and not 0 < len(found) < max_bytes:
        raise Unreadable(PageError("SCRAPE_ALL_ENGINES_FAILED", f"The page {error}"))
    return found, error


def encoding_names(headers: Iterable[bytes]) -> tuple[str, ...]:
    """Return the names in headers ``Content-Encoding`` in lower case, outermost last."""
    names = b",".join(headers).decode("latin-1").lower().split(",")
    return tuple(name.strip() for name in names if name.strip())


def decode_start(
    body: bytes, encodings: tuple[str, ...], max_bytes: int
) -> tuple[bytes, str | None]:
    """Undo ``encodings`` as far as possible, up to ``max_bytes``.

    The second value is the error that stopped decoding, as the end of a sentence
    (``is not valid gzip``). It is None for a complete body.
    """
    names = [name for name in encodings if not _is_no_coding(name)]
    if len(names) > MAX_ENCODINGS:
        text = f"has {len(names)} content encodings, {MAX_ENCODINGS} are allowed"
        return b"", text
    error = None
    for name in reversed(names):
        if name not in _STREAMS:
            return b"", f"has an unknown content encoding: {name[:40]!r}"
        if body:
            body, new_error = _decompress(body, name, max_bytes)
            error = error or new_error
    if len(body) > max_bytes:
        return body[:max_bytes], error or f"is larger than {max_bytes} bytes"
    return body, error


def _is_no_coding(name: str) -> bool:
    """Return True if servers name ``name`` for a body without content encoding."""
    return name in _NO_CODINGS or webencodings.lookup(name) is not None


def text_of(body: bytes, content_type: str, kind: Kind = "html") -> str:
    """Return ``body`` as text without byte order mark, NUL and lone surrogates."""
    codec, start = codec_of(body, content_type, kind)
    return clean_text(body[start:].decode(codec, "replace"))


def utf8_of(body: bytes, content_type: str) -> bytes:
    """Return :func:`text_of` in UTF-8; a clean UTF-8 body is not copied."""
    codec, start = codec_of(body, content_type)
    body = body[start:]
    if codec == "utf-8" and b"\0" not in body and _is_utf8(body):
        return body
    return clean_text(body.decode(codec, "replace")).encode()


def escape_sections(xhtml: bytes) -> bytes:
    """Return XHTML with the text of its CDATA sections, which parsers of HTML drop.

    Those of scripts and styles stay.
    """

    def escape_section(match: re.Match[bytes]) -> bytes:
        text = match[2]
        return match[0] if text is None else escape(text.decode()).encode()

    return _SECTION.sub(escape_section, xhtml)


def codec_of(body: bytes, content_type: str, kind: Kind = "html") -> tuple[str, int]:
    """Return Python's codec for ``body`` and the length of its byte order mark.

    Only HTML and XML declare a character set in their text.
    """
    for bom, codec in _BOMS:
        if body.startswith(bom):
            return codec, len(bom)
    for start, codec in _XML_UTF_16 if kind in {"html", "xml"} else ():
        if body.startswith(start):
            return codec, 0
    return _declared_codec(body, content_type, kind) or _detect_codec(body), 0


def clean_text(text: str) -> str:
    """Remove NUL and lone surrogates, which JSON readers and databases reject."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode(errors="ignore").decode()
    return text.replace("\0", "")


def _declared_codec(body: bytes, content_type: str, kind: Kind) -> str | None:
    header = _HEADER.search(content_type)
    codec = _codec(header[1]) if header else None
    if codec:
        return codec
    if kind == "html":
        codec = _meta_codec(body[:HEAD_BYTES])
    if not codec and kind in {"html", "xml"}:
        match = _XML.search(body[:PRESCAN_BYTES])
        codec = _codec(match[1].decode("latin-1")) if match else None
    # A declaration readable as ASCII cannot stand in UTF-16 text.
    return "utf-8" if codec and codec.startswith("utf-16") else codec


def _meta_codec(head: bytes) -> str | None:
    """Return the codec that a ``meta`` element declares, or None.

    This is the prescan of the HTML standard, 13.2.3.2. As in browsers, texts of scripts
    and titles do not count, and a longer ``head`` is read to its end.
    """
    at, is_in_head = 0, True
    # Most pages declare it early; the whole head costs over a hundredth of a page's time.
    if (
        b"charset" not in head[:PRESCAN_BYTES].lower()
        and b"charset" not in head.lower()
    ):
        return None
    while match := _TAG.search(head, at):
        if match.start() >= PRESCAN_BYTES and not is_in_head:
            return None
        comment, slash, name = match[1], match[2], (match[3] or b"").lower()
        if comment:  # the dashes of "<!-->" start and end the comment
            at = head.find(b"-->", match.end() - 2) + 3
            if at < 3:
                return None
            continue
        if not name:
            at = head.find(b">", match.end()) + 1
            if not at:
                return None
            continue
        is_in_head &= name in _IN_HEAD and match[0].lower() != b"</head"
        attributes, at = _attributes(head, match.end())
        if name == b"meta" and not slash and (codec := _codec_of_meta(attributes)):
            return codec
        if name in _RAW_TEXTS and not slash:
            end = _RAW_END.search(head, at)
            while end is not None and end[1].lower() != name:
                end = _RAW_END.search(head, end.end())
            at = -1 if end is None else end.start()
            if at < 0:
                return None
    return None


def _attributes(head: bytes, at: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, in lower case, and where its tag ends."""
    found: dict[str, str] = {}
    while match := _ATTRIBUTE.match(head, at):
        at = match.end()
        name = match[1].decode("latin-1").lower()
        value = match[2] or match[3] or match[4] or b""
        found.setdefault(name, value.decode("latin-1").lower())
    return found, at


def _codec_of_meta(attributes: dict[str, str]) -> str | None:
    if label := attributes.get("charset"):
        return _codec(label)
    if attributes.get("http-equiv", "").strip() != "content-type":
        return None
    match = _CONTENT_CHARSET.search(attributes.get("content", ""))
    return _codec(match[1] or match[2] or match[3] or "") if match else None


def _codec(label: str) -> str | None:
    """Return Python's codec for a WHATWG label; None for an unknown label."""
    found = webencodings.lookup(label)
    if found is None:
        return None
    name: str = _CODECS.get(found.name, found.codec_info.name)
    return name


def _is_utf8(body: bytes) -> bool:
    try:
        return body.isascii() or bool(body.decode())
    except UnicodeDecodeError:
        return False


def _detect_codec(body: bytes) -> str:
    if _is_utf8(body):
        return "utf-8"
    body = body[:DETECTED_BYTES]
    if chardetng_py is None:
        from charset_normalizer import from_bytes  # noqa: PLC0415  # few processes need it

        found = from_bytes(body, cp_isolation=_LEGACY, enable_fallback=False).best()
        return found.encoding if found else "cp1252"
    detector = chardetng_py.EncodingDetector()
    detector.feed(body, last=True)
    return _codec(detector.guess(tld=None, allow_utf8=True)) or "cp1252"


def _decompress(body: bytes, name: str, max_bytes: int) -> tuple[bytes, str | None]:
    result = bytearray()
    try:
        for chunk in _STREAMS[name](body):
            result += chunk
            if len(result) > max_bytes:
                error = f"is larger than {max_bytes} bytes decoded"
                return bytes(result[:max_bytes]), error
    except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as exc:
        return bytes(result), f"is not valid {name}: {exc}"
    return bytes(result), None


def _gzip(body: bytes) -> Iterator[bytes]:
    while body:
        stream = zlib.decompressobj(31)
        yield from _inflate(stream, body)
        body = stream.unused_data.lstrip(b"\0")
        if not body.startswith(b"\x1f\x8b"):
            return  # browsers ignore bytes after the last member


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


Kind = Literal["empty", "html", "json", "text", "xml", "pdf", "binary"]

SNIFFED_BYTES = 1024

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"PK\3\4", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-msdownload"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"OggS", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"RIFF", "application/x-riff"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\0asm", "application/wasm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)
# Plain text may start with these too.
_TEXT_LIKE = frozenset({b"BM", b"MZ", b"ID3", b"BZh", b"RIFF"})
_JSON_ENDINGS = ("+json", "/json", "ndjson", "/jsonl", "jsonlines", "json-lines")
_END_OF_TYPE = re.compile("[;,]")  # a comma: two headers joined
_BINARY_BYTE = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_HTML_START = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|script|iframe|h1|div|font|table|a|style|title|"
    rb"b|br|p|meta)[\s>]",
    re.IGNORECASE,
)
_SECTION = re.compile(
    rb"<(script|style)\b[^<>]*(?<!/)>.*?(?:</\1|\Z)|<!--.*?(?:-->|\Z)"
    rb"|<!\[CDATA\[(.*?)(?:\]\]>|\Z)",
    re.DOTALL,
)
_HTML_ROOT = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_MARKS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")


def sniff(body: bytes, content_type: str) -> tuple[Kind, str]:
    """Return the kind of ``body`` and its media type for messages."""
    mime = _END_OF_TYPE.split(content_type, maxsplit=1)[0].strip().lower()
    if not body or body.isspace():
        return "empty", mime
    head = body[:SNIFFED_BYTES]
    if b"%PDF-" in head[:32] or (mime == "application/pdf" and b"%PDF-" in head):
        return "pdf", "application/pdf"
    magic = _magic(head)
    if magic:
        return "binary", magic
    if not head.startswith(_MARKS) and "utf-16" not in content_type.lower():
        share = len(_BINARY_BYTE.findall(head)) / len(head)
        if share > (0.1 if "html" in mime else 0.0) and not _HTML_ROOT.search(head):
            return "binary", mime or "application/octet-stream"
    return _text_kind(body, head, mime), mime


def is_rich_text(body: bytes) -> bool:
    """Return True if a file begins as rich text does, whatever its declared type."""
    return body[:100].lstrip().startswith(b"{\\rtf")


def _text_kind(body: bytes, head: bytes, mime: str) -> Kind:
    if mime in {"text/html", "application/xhtml+xml"}:
        return "html"
    if mime.endswith(_JSON_ENDINGS):
        return "json"
    if mime.endswith(("/xml", "+xml")):
        return "html" if _HTML_ROOT.search(head) else "xml"
    start = head.removeprefix(_MARKS[0]).lstrip()
    if mime.startswith("text/"):
        return "text"
    if mime.startswith(("image/", "audio/", "video/", "font/")):
        return "binary"
    if start.startswith(b"<?xml"):
        return "html" if _HTML_ROOT.search(head) else "xml"
    if _HTML_START.match(start) or start.startswith(b"<!--"):
        return "html"
    if start[:1] in {b"{", b"["} and _is_json(body):
        return "json"
    return "text"


def _magic(head: bytes) -> str | None:
    if head[4:8] == b"ftyp":
        return "video/mp4"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            if magic in _TEXT_LIKE and not _BINARY_BYTE.search(head):
                return None
            return name
    return None


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
