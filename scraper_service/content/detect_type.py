"""What an answer is, by its header and its first bytes."""

from __future__ import annotations

import json
import re
from typing import Literal

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
_TEXT_LIKE = frozenset({b"BM", b"MZ", b"ID3", b"BZh", b"RIFF"})  # prose may start so
_END_OF_TYPE = re.compile("[;,]")  # a comma where servers sent two of them as one
_BINARY_BYTE = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_HTML_START = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|script|iframe|h1|div|font|table|a|style|title|"
    rb"b|br|p|meta)[\s>]",
    re.IGNORECASE,
)
_HTML_ROOT = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_BOMS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")


def sniff(body: bytes, content_type: str) -> tuple[Kind, str]:
    """Return the kind of ``body`` and the media type to name in a message."""
    mime = _END_OF_TYPE.split(content_type, maxsplit=1)[0].strip().lower()
    if not body or body.isspace():
        return "empty", mime
    head = body[:SNIFFED_BYTES]
    if b"%PDF-" in head[:32] or (mime == "application/pdf" and b"%PDF-" in head):
        return "pdf", "application/pdf"
    magic = _magic(head)
    if magic:
        return "binary", magic
    if not head.startswith(_BOMS) and "utf-16" not in content_type.lower():
        share = len(_BINARY_BYTE.findall(head)) / len(head)
        if share > (0.1 if "html" in mime else 0.0) and not _HTML_ROOT.search(head):
            return "binary", mime or "application/octet-stream"
    return _text_kind(body, head, mime), mime


def _text_kind(body: bytes, head: bytes, mime: str) -> Kind:
    if mime in {"text/html", "application/xhtml+xml"}:
        return "html"
    if mime == "application/json" or mime.endswith(("+json", "/json")):
        return "json"
    if mime.endswith(("/xml", "+xml")):
        return "html" if _HTML_ROOT.search(head) else "xml"
    start = head.removeprefix(_BOMS[0]).lstrip()
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
