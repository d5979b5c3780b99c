"""Which files besides pages and PDF files are read, how they are told, and by what."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from attrs import frozen

from scraper_service.content.documents.legacy import OLE, stream_kind

if TYPE_CHECKING:
    from scraper_service.content.documents.markup import Draft

_OOXML = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
_PACKAGE = "scraper_service.content.documents"


@frozen
class Kind:
    """One kind of file. ``reader`` is ``module:function``, imported on first use.

    ``takes`` says what the reader is called with: the ``bytes``, or the ``text`` of
    them.
    """

    name: str
    extensions: tuple[str, ...]
    mime_types: tuple[str, ...]
    reader: str
    takes: str = "bytes"


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "docx",
            ("docx", "docm", "dotx", "dotm"),
            (f"{_OOXML}wordprocessingml.document",),
            "docx:read_docx",
        ),
        Kind(
            "xlsx",
            ("xlsx", "xlsm", "xltx", "xltm"),
            (f"{_OOXML}spreadsheetml.sheet",),
            "xlsx:read_xlsx",
        ),
        Kind(
            "pptx",
            ("pptx", "pptm", "ppsx", "potx"),
            (f"{_OOXML}presentationml.presentation",),
            "pptx:read_pptx",
        ),
        Kind("odt", ("odt", "ott"), (f"{_ODF}text",), "odf:read_odf"),
        Kind("ods", ("ods", "ots"), (f"{_ODF}spreadsheet",), "odf:read_odf"),
        Kind("odp", ("odp", "otp"), (f"{_ODF}presentation",), "odf:read_odf"),
        Kind("epub", ("epub",), ("application/epub+zip",), "epub:read_epub"),
        Kind(
            "rtf",
            ("rtf",),
            ("application/rtf", "text/rtf", "text/richtext"),
            "rtf:read_rtf",
        ),
        Kind(
            "csv",
            ("csv",),
            ("text/csv", "application/csv", "text/comma-separated-values"),
            "delimited:read_delimited",
            "text",
        ),
        Kind(
            "tsv",
            ("tsv", "tab"),
            ("text/tab-separated-values", "text/tsv"),
            "delimited:read_delimited",
            "text",
        ),
        Kind(
            "feed",
            ("rss", "atom"),
            ("application/rss+xml", "application/atom+xml"),
            "feeds:read_feed",
            "text",
        ),
        Kind(
            "md",
            ("md", "markdown", "mkd"),
            ("text/markdown", "text/x-markdown"),
            "markdown_source:read_markdown",
            "text",
        ),
        Kind("xls", ("xls", "xlsb"), ("application/vnd.ms-excel",), "legacy:read_xls"),
        Kind("doc", ("doc",), ("application/msword",), "legacy:read_doc"),
        Kind("ppt", ("ppt",), ("application/vnd.ms-powerpoint",), "legacy:read_ppt"),
        Kind("encrypted", (), (), "legacy:read_encrypted"),
    )
}

# Types that say nothing, so that the address may tell more.
_VAGUE = frozenset(
    {"", "text/plain", "application/octet-stream", "binary/octet-stream"}
    | {"application/download", "application/force-download", "application/x-download"}
)
_BY_SIGNATURE = frozenset({"csv", "tsv", "feed", "md"})  # of which there is none
_BY_MIME = {mime: k for k in KINDS.values() for mime in k.mime_types}
_BY_EXTENSION = {extension: k for k in KINDS.values() for extension in k.extensions}
_FEED_ROOT = re.compile(
    r"\A\s*(?:<\?[^>]*\?>|<!--.*?-->|<!DOCTYPE[^>]*>|\s)*<(?:\w+:)?(?:rss|RDF|feed)[\s>]",
    re.DOTALL,
)


def archive_kind(body: bytes) -> str | None:
    """Return the kind of a file that begins as a zip archive or an OLE file does."""
    if body.startswith(OLE):
        return stream_kind(body)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _zip_kind(archive)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return None


def text_kind(text: str, kind: str, mime: str, url: str) -> str | None:
    """Return the kind of a file that is text; ``kind`` is what it was sniffed as."""
    if is_rich_text(text[:100].lstrip("\ufeff").encode()):
        return "rtf"
    if kind == "xml":
        return "feed" if _FEED_ROOT.match(text[:20_000]) else None
    if kind != "text":
        return None
    found = _BY_MIME.get(mime)
    if found is None and mime in _VAGUE:
        found = _BY_EXTENSION.get(extension_of(url))
    if found is not None and found.name == "xls":  # text that is sent as a workbook
        return "csv"
    return found.name if found is not None and found.name in _BY_SIGNATURE else None


def is_rich_text(body: bytes) -> bool:
    """Tell whether a file begins as rich text does, whatever it is sent as."""
    return body[:100].lstrip().startswith(b"{\\rtf")


def extension_of(url: str) -> str:
    """Return the ending of the file name in an address, in lower case."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return posixpath.splitext(unquote(path))[1].removeprefix(".").lower()


def reader_of(kind: str) -> object:
    """Return the function that reads ``kind``."""
    module, _, name = KINDS[kind].reader.partition(":")
    return getattr(import_module(f"{_PACKAGE}.{module}"), name)


def read_document(
    kind: str, body: bytes, text: str, url: str, *, embed_images: bool
) -> Draft | None:
    """Convert a file; None for text that turns out not to be of its kind.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    read: object = reader_of(kind)
    assert callable(read)
    arguments: dict[str, object] = {}
    if kind == "docx":
        arguments["embed_images"] = embed_images
    elif kind == "tsv":
        arguments["tabs"] = True
    elif kind == "feed":
        arguments["url"] = url
    given = text if KINDS[kind].takes == "text" else body
    draft: Draft | None = read(given, **arguments)
    return draft


def _zip_kind(archive: zipfile.ZipFile) -> str | None:
    names = set(archive.namelist())
    if "mimetype" in names:
        info = archive.getinfo("mimetype")
        if info.file_size < 200 and info.compress_type == zipfile.ZIP_STORED:
            mime = archive.read(info).decode("ascii", "replace").strip()
            found = _BY_MIME.get(mime.removesuffix("-template"))
            return found.name if found else None
    if "META-INF/container.xml" in names:
        return "epub"
    if "xl/workbook.bin" in names:
        return "xls"
    for folder, kind in (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx")):
        if any(name.startswith(folder) for name in names):
            return kind
    return None
