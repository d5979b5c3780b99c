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
from scraper_service.content.documents.markup import OLE, ConvertedDocument, unreadable
from scraper_service.options.urls import url_parts

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
    #: The reader, imported on first use; empty for files that are never read.
    reader: str
    #: The program, and why its files are refused; None for files that are always read.
    refusal: tuple[str, str] | None

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


# A line for each kind: its name, its reader as ``module:function``, extensions, MIME types.
_TABLE = """
docx docx:read_docx | docx docm dotx dotm | application/vnd.openxmlformats-officedocument.wordprocessingml.document
xlsx sheets:read_workbook | xlsx xlsm xltx xltm | application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
pptx pptx:read_pptx | pptx pptm ppsx potx | application/vnd.openxmlformats-officedocument.presentationml.presentation
odt odf:read_odf | odt ott | application/vnd.oasis.opendocument.text
ods odf:read_odf | ods ots | application/vnd.oasis.opendocument.spreadsheet
odp odf:read_odf | odp otp | application/vnd.oasis.opendocument.presentation
epub epub_and_feeds:read_epub | epub | application/epub+zip
rtf rtf:read_rtf | rtf | application/rtf text/rtf text/richtext
csv sheets:read_delimited | csv | text/csv application/csv text/comma-separated-values
tsv sheets:read_delimited | tsv tab | text/tab-separated-values text/tsv
feed epub_and_feeds:read_feed | rss atom | application/rss+xml application/atom+xml
md markup:read_markdown | md markdown mkd | text/markdown text/x-markdown
xls sheets:read_workbook | xls xlsb | application/vnd.ms-excel
doc ole:read_doc | doc dot | application/msword
ppt ole:read_ppt | ppt pps pot | application/vnd.ms-powerpoint
encrypted : | |
"""
_REFUSALS = {
    "doc": ("Word", _needs_extra("doc")),
    "ppt": ("PowerPoint", _needs_extra("ppt")),
    "encrypted": ("Office", "it is encrypted with a password"),
}


def _kind(line: str) -> FileKind:
    head, extensions, types = line.split("|")
    name, reader = head.split()
    refusal = _REFUSALS.get(name)
    reader = reader.removeprefix(":")
    return FileKind(
        name, tuple(extensions.split()), tuple(types.split()), reader, refusal
    )


KINDS = {kind.name: kind for kind in map(_kind, _TABLE.strip().split("\n"))}

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
    given = text if kind in _TEXT_KINDS else body
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
