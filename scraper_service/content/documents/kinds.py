"""The kinds of files that are read besides pages and PDF files.

The module detects a file's kind and calls its reader.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from importlib import import_module
from importlib.util import find_spec
from urllib.parse import unquote

from attrs import frozen

from scraper_service.content.decode import is_rich_text
from scraper_service.content.documents.feeds import may_be_json_feed
from scraper_service.content.documents.markup import OLE, ConvertedDocument, unreadable
from scraper_service.options.urls import url_parts

_OOXML = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
_PACKAGE = "scraper_service.content.documents"


@frozen
class FileKind:
    """A kind of file, and how to read it."""

    #: The name of the kind.
    name: str
    #: Extensions of file names, in lower case.
    extensions: tuple[str, ...]
    #: MIME types.
    mime_types: tuple[str, ...]
    #: The reader as ``module:function``, imported on first use.
    reader: str = ""
    #: The reader's argument: ``bytes``, or ``text`` for the decoded bytes.
    takes: str = "bytes"
    #: The program, and why its files are refused; None for files that are always read.
    refusal: tuple[str, str] | None = None

    @property
    def is_available(self) -> bool:
        """Return True if this installation reads the files."""
        if self.refusal is None:
            return True
        return bool(self.reader) and all(map(find_spec, ("anydoc", "olefile")))


def _needs_extra(extension: str) -> str:
    return (
        f"the format .{extension} of before 2007 needs the extra office"
        f" (pip install 'scraper-service[office]'); .{extension}x needs nothing"
    )


KINDS = {
    kind.name: kind
    for kind in (
        FileKind(
            "docx",
            ("docx", "docm", "dotx", "dotm"),
            (f"{_OOXML}wordprocessingml.document",),
            "docx:read_docx",
        ),
        FileKind(
            "xlsx",
            ("xlsx", "xlsm", "xltx", "xltm"),
            (f"{_OOXML}spreadsheetml.sheet",),
            "workbooks:read_workbook",
        ),
        FileKind(
            "pptx",
            ("pptx", "pptm", "ppsx", "potx"),
            (f"{_OOXML}presentationml.presentation",),
            "pptx:read_pptx",
        ),
        FileKind("odt", ("odt", "ott"), (f"{_ODF}text",), "odf:read_odf"),
        FileKind("ods", ("ods", "ots"), (f"{_ODF}spreadsheet",), "odf:read_odf"),
        FileKind("odp", ("odp", "otp"), (f"{_ODF}presentation",), "odf:read_odf"),
        FileKind("epub", ("epub",), ("application/epub+zip",), "epub:read_epub"),
        FileKind(
            "rtf",
            ("rtf",),
            ("application/rtf", "text/rtf", "text/richtext"),
            "rtf:read_rtf",
        ),
        FileKind(
            "csv",
            ("csv",),
            ("text/csv", "application/csv", "text/comma-separated-values"),
            "sheets:read_delimited",
            "text",
        ),
        FileKind(
            "tsv",
            ("tsv", "tab"),
            ("text/tab-separated-values", "text/tsv"),
            "sheets:read_delimited",
            "text",
        ),
        FileKind(
            "feed",
            ("rss", "atom"),
            ("application/rss+xml", "application/atom+xml", "application/feed+json"),
            "feeds:read_feed",
            "text",
        ),
        FileKind(
            "md",
            ("md", "markdown", "mkd"),
            ("text/markdown", "text/x-markdown"),
            "markup:read_markdown",
            "text",
        ),
        FileKind(
            "xls",
            ("xls", "xlsb"),
            ("application/vnd.ms-excel",),
            "workbooks:read_workbook",
        ),
        FileKind(
            "doc",
            ("doc", "dot"),
            ("application/msword",),
            "ole:read_doc",
            refusal=("Word", _needs_extra("doc")),
        ),
        FileKind(
            "ppt",
            ("ppt", "pps", "pot"),
            ("application/vnd.ms-powerpoint",),
            "ole:read_ppt",
            refusal=("PowerPoint", _needs_extra("ppt")),
        ),
        FileKind(
            "encrypted",
            (),
            (),
            refusal=("Office", "it is encrypted with a password"),
        ),
    )
}

# Names of streams in OLE files, as they end, and the kinds of files that have them.
_STREAMS = {
    "EncryptedPackage": "encrypted",
    "WordDocument\0": "doc",
    "Workbook\0": "xls",
    "Book\0": "xls",
    "PowerPoint Document\0": "ppt",
}

# General types: the URL's extension may be more specific.
_GENERAL_TYPES = frozenset(
    {"", "text/plain", "application/octet-stream", "binary/octet-stream"}
    | {"application/download", "application/force-download", "application/x-download"}
)
_TEXT_KINDS = frozenset({"csv", "tsv", "feed", "md"})  # text kinds, without signature
_BY_MIME = {mime: k for k in KINDS.values() for mime in k.mime_types}
_BY_EXTENSION = {extension: k for k in KINDS.values() for extension in k.extensions}
# Possessive: comments could be split in as many ways as there are sums of their number.
_FEED_ROOT = re.compile(
    r"(?:<\?[^>]*\?>|<!--.*?-->|<!DOCTYPE[^>]*>|\s)*+<(?:\w+:)?(?:rss|RDF|feed)[\s>]",
    re.DOTALL,
)


def archive_kind(body: bytes) -> str | None:
    """Return the kind of a zip archive or an OLE file, or None."""
    if body.startswith(OLE):
        streams = _STREAMS.items()
        return next((k for n, k in streams if n.encode("utf-16-le") in body), None)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _zip_kind(archive)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return None


def text_kind(text: str, kind: str, mime: str, url: str) -> str | None:
    """Return the kind of a text file, or None; ``kind`` is the sniffed type."""
    if is_rich_text(text[:100].lstrip("\ufeff").encode()):
        return "rtf"
    if kind == "xml":
        return "feed" if _FEED_ROOT.match(text[:20_000]) else None
    if kind == "json":
        return "feed" if may_be_json_feed(text) else None
    if kind != "text":
        return None
    found = _BY_MIME.get(mime)
    if found is None and mime in _GENERAL_TYPES:
        found = _BY_EXTENSION.get(extension_of(url))
    if found is not None and found.name == "xls":  # text declared as a workbook
        return "csv"
    return found.name if found is not None and found.name in _TEXT_KINDS else None


def extension_of(url: str) -> str:
    """Return the extension of the file name in a URL, in lower case."""
    path = unquote(url_parts(url).path)
    return posixpath.splitext(path)[1].removeprefix(".").lower()


def read_document(
    kind: str, body: bytes, text: str, url: str, *, embed_images: bool
) -> ConvertedDocument | None:
    """Convert a file; return None for text that is not of its kind.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    found = KINDS[kind]
    if found.refusal and not found.is_available:
        raise unreadable(*found.refusal)
    module, _, name = found.reader.partition(":")
    read = getattr(import_module(f"{_PACKAGE}.{module}"), name)
    arguments: dict[str, object] = {}
    if kind == "docx":
        arguments["embed_images"] = embed_images
    elif kind == "tsv":
        arguments["tabs"] = True
    elif kind == "feed":
        arguments["url"] = url
    given = text if found.takes == "text" else body
    document: ConvertedDocument | None = read(given, **arguments)
    return document


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
