"""Files other than pages and PDF files: their kinds, their parts, and the HTML made of them.

:func:`read_document` calls the reader of a kind. Archives are opened and their XML is
parsed, both with limits. Readers return a :class:`ConvertedDocument`, from whose HTML all
formats of a page follow. The reader of Markdown files keeps their text.
"""

from __future__ import annotations

import html
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote

from attrs import define, field, frozen
from lxml import etree

from scraper_service.content.decode import Unreadable, clean_text, is_rich_text
from scraper_service.content.losses import Losses
from scraper_service.items import PageError
from scraper_service.options.urls import url_parts

MAX_MEMBERS = 20_000
MAX_MEMBER_BYTES = 128 * 2**20  # per file in the archive
MAX_TOTAL_BYTES = 384 * 2**20  # of all files read from the archive
MAX_XML_BYTES = 64 * 2**20  # lxml needs several times as much memory
MAX_DEPTH = 200  # nested elements

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # the start of office files before 2007
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)")
MAX_CELLS = 100_000  # in all tables of a document; a page has at most 300,000 tags
MAX_FACT = 2000  # characters
MAX_DIGITS = 15  # Python refuses to parse numbers of some thousand digits
HIDDEN = "Hidden text of a document is left out."
MACROS = "The macros of the document were left out."
HIDDEN_ROWS = "Hidden rows of a sheet are left out."
HIDDEN_SLIDES = "Hidden slides were left out: {}."
COMMENT = "Comments of a document are no part of its text."
FILM = "Films and sounds inside a presentation are not converted."
PICTURE = "A picture of a document has no description, which would stand for it."
LINKED = ("http://", "https://", "mailto:", "#", "data:image/")
CORE = "docProps/core.xml"
_FRONT = re.compile(
    r"\A---[ \t]*\r?\n(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_FACT = re.compile(r"^([A-Za-z]\w*)[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_TITLE = re.compile(r"^#[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_KNOWN = {
    **{name: name for name in ("title", "description", "keywords", "language")},
    "tags": "keywords",
    "lang": "language",
    "date": "published_time",
}
MAX_FRONT = 20_000  # characters
CellT = tuple[str, int, int]  # the HTML of a cell, and its columns and rows
_PACKAGE = "scraper_service.content.documents"


def parse_digits(text: str, default: int = 0) -> int:
    """Return ``text`` as a number; ``default`` if it has other characters than digits.

    A number with more than :data:`MAX_DIGITS` digits becomes the largest with as many.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        return default
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS - 1


class Archive:
    """A zip archive in memory, never unpacked to a disk.

    ``kind`` names the file in messages.

    :raises Unreadable: for a damaged archive, and for an exceeded limit.
    """

    def __init__(self, body: bytes, kind: str):
        self._kind = kind
        self._left = MAX_TOTAL_BYTES
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(body))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as exc:
            raise self.unreadable("it is damaged") from exc
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise self.unreadable(f"it has over {MAX_MEMBERS} parts")
        self._infos = {info.filename: info for info in infos}

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Any:
        return iter(self._infos)

    def read(self, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
        """Return the bytes of a member, whatever size the archive claims.

        :raises Unreadable: for a missing, encrypted, damaged or too large member.
        """
        info = self._infos.get(name)
        if info is None:
            raise self.unreadable(f"its part {name[:100]!r} is missing")
        if info.flag_bits & 1:
            raise self.unreadable("it is encrypted with a password")
        limit = min(limit, self._left)
        try:
            with self._zip.open(info) as stream:
                data = stream.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError) as exc:
            raise self.unreadable("it is damaged") from exc
        except (NotImplementedError, RuntimeError, OSError) as exc:
            raise self.unreadable("it is packed in an unknown way") from exc
        if len(data) > limit:
            raise self.unreadable("it is too large when unpacked")
        self._left -= len(data)
        return data

    def check_parts(self) -> None:
        """Check the size of all parts for a library that reads without limits.

        :raises Unreadable: for a too large part, and for XML with a document type, which
            office files never have.
        """
        left = self._left
        for name in self._infos:
            if name.endswith((".xml", ".rels", ".bin")):
                data = self.read(name, MAX_XML_BYTES)
                if not name.endswith(".bin") and _DOCTYPE.search(data):
                    raise self.unreadable("it declares a document type")
        self._left = left

    def main_part(self, default: str) -> str:
        """Return the name of an OOXML file's main part."""
        parts = self.relations("").values()
        return next((t for kind, t, _ in parts if kind == "officeDocument"), default)

    def xml(self, name: str) -> Any:
        """Return the root element of an XML member."""
        root = parse_xml(self.read(name, MAX_XML_BYTES))
        if root is None:
            raise self.unreadable(f"its part {name[:100]!r} is no usable XML")
        return root

    def relations(self, name: str) -> dict[str, tuple[str, str, bool]]:
        """Return an OOXML part's relations as ``{id: (type, target, is external)}``.

        Internal targets are names of members (ECMA-376, part 2, 9.3).
        """
        folder, file = posixpath.split(name)
        path = posixpath.join(folder, "_rels", f"{file}.rels")
        if path not in self:
            return {}
        found = {}
        for relation in self.xml(path).iterfind("{*}Relationship"):
            target = relation.get("Target", "")
            external = relation.get("TargetMode") == "External"
            if not external:
                target = resolve_member(folder, target)
            kind = relation.get("Type", "").rsplit("/", 1)[-1]
            found[relation.get("Id", "")] = (kind, target, external)
        return found

    def unreadable(self, reason: str) -> Unreadable:
        """Return the error for a file that cannot be converted."""
        return unreadable(self._kind, reason)


def unreadable(kind: str, reason: str) -> Unreadable:
    """Return the error for a file of ``kind`` that cannot be converted."""
    return Unreadable(
        PageError(
            "SCRAPE_UNSUPPORTED_FILE_ERROR",
            f"The {kind} file cannot be converted: {reason}",
        )
    )


def resolve_member(folder: str, target: str) -> str:
    """Return the name of the member at ``target``, relative to ``folder``."""
    path = unquote(target.split("#", 1)[0])
    joined = path if path.startswith("/") else posixpath.join(folder, path)
    return posixpath.normpath(joined).lstrip("/")


def parse_xml(data: bytes, *, recover: bool = False) -> Any:
    """Return the root element, None for text that is no XML or nested too deeply.

    The parser fetches nothing and expands no entities. Without ``recover``, the
    document has to be well-formed, without a document type, and at most as deep as lxml
    allows.
    """
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        recover=recover,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if root is None or recover or root.getroottree().docinfo.internalDTD is None:
        return root
    return None


def local(element: Any) -> str:
    """Return an element's name without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    """Return the attribute with this name in any namespace, or None."""
    value: str | None = element.get(name)
    if value is not None:
        return value
    ending = f"}}{name}"
    return next((v for k, v in element.attrib.items() if k.endswith(ending)), None)


# -- HTML ------------------------------------------------------------------------------


@define(kw_only=True)
class ConvertedDocument:
    """A file that a reader has converted."""

    #: HTML.
    body: str = ""
    #: Metadata with a name of their own, as in
    #: :class:`~scraper_service.items.PageContent`.
    known: Mapping[str, str | list[str]] = field(factory=dict)
    #: Other metadata.
    other: Mapping[str, str | list[str]] = field(factory=dict)
    #: Warnings for the client.
    warnings: list[str] = field(factory=list)
    #: The parts of the file that the body does not contain.
    losses: Losses = field(factory=Losses)
    #: The Markdown of a file that is Markdown or has no other form. None if the Markdown
    #: follows from the body.
    text: str | None = None
    #: The value of ``rawHtml``; None if that is the body.
    raw: str | None = None

    @property
    def html(self) -> str:
        """The whole document."""
        title = self.known.get("title")
        language = self.known.get("language")
        lang = f' lang="{html.escape(str(language))}"' if language else ""
        head = f"<title>{escape(str(title))}</title>" if title else ""
        return clean_text(
            f'<!DOCTYPE html>\n<html{lang}><head><meta charset="utf-8">{head}</head>'
            f"<body>\n{self.body}\n</body></html>"
        )

    def warn(self, kind: str, reason: str, *, count: int = 1, text: str = "") -> None:
        """Warn the client of a lost part, and record it."""
        self.warnings.append(reason)
        self.losses.add(kind, reason, count=count, text=text)

    def record_cut(self, name: str, kept: int, count: int, things: str) -> None:
        """Warn of a file that is converted in part, and record it."""
        counts = f"{kept} of its {count} {things} were converted."
        self.warn("truncated", f"The {name} was truncated: {counts}")


def escape(text: str) -> str:
    """Return text as HTML."""
    return html.escape(text, quote=False)


def element(tag: str, content: str, **attributes: str) -> str:
    """Return an HTML element around ``content``, which is HTML."""
    named = "".join(f' {n}="{html.escape(v)}"' for n, v in attributes.items())
    return f"<{tag}{named}>{content}</{tag}>"


def anchor(content: str, url: str | None) -> str:
    """Return ``content`` as a link if the URL has an allowed scheme."""
    if not url or not content.strip() or not url.lower().startswith(LINKED):
        return content
    return element("a", content, href=url)


def block(tag: str, content: str) -> str:
    """Return a block on a line of its own; empty without content."""
    return f"{element(tag, content)}\n" if content.strip() else ""


def emphasis(content: str, bold: Any, italic: Any, strike: Any = False) -> str:
    """Return text in the elements of its styles, except for white space."""
    for tag, wanted in (("strong", bold), ("em", italic), ("s", strike)):
        content = element(tag, content) if wanted and content.strip() else content
    return content


def picture(description: str | None, losses: Losses, reason: str = PICTURE) -> str:
    """Return an image without a URL of its own; record one without description."""
    alt = " ".join((description or "").split())
    if not alt:
        losses.add("image", reason)
        return ""
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,">'


def table(rows: Iterable[Iterable[str | CellT]], *, headers: int) -> str:
    """Return a table, whose first rows are ``headers``."""
    written = []
    for number, row in enumerate(rows):
        tag = "th" if number < headers else "td"
        cells = []
        for cell in row:
            content, columns, lines = (cell, 1, 1) if isinstance(cell, str) else cell
            spans = {"colspan": columns, "rowspan": lines}
            named = {name: str(count) for name, count in spans.items() if count > 1}
            cells.append(element(tag, content, **named))
        written.append(f"<tr>{''.join(cells)}</tr>\n")
    return f"<table>\n{''.join(written)}</table>\n"


def tight(content: str) -> str:
    """Return the blocks of an item or a cell; one paragraph stands without its tag."""
    if content.count("<p>") == 1:
        return content.replace("<p>", "").replace("</p>\n", "")
    return content


def note_mark(number: int | str) -> str:
    """Return a link to a footnote of :func:`notes_html`."""
    return element("sup", element("a", str(number), href=f"#note-{number}"))


def notes_html(notes: Mapping[int, str]) -> str:
    """Return footnotes, by number, as a list to which their marks link."""
    items = (element("li", notes[n], id=f"note-{n}") for n in sorted(notes))
    return element("ol", "".join(items)) if notes else ""


def html_body(markup: str | bytes) -> Any:
    """Return the ``body`` element of HTML, None if there is no body."""
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True
    )
    data = markup if isinstance(markup, bytes) else markup.encode(errors="ignore")
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root.find("body") if root is not None else None


def inner_html(parent: Any) -> str:
    """Return an element's content as HTML, with all elements closed."""
    inner = (etree.tostring(each, encoding="unicode", method="html") for each in parent)
    return escape(parent.text or "") + "".join(inner)


def facts(values: Mapping[str, str | None]) -> dict[str, str]:
    """Return the metadata that have values, as single lines."""
    found = {}
    for name, value in values.items():
        text = " ".join(clean_text(value or "").split())[:MAX_FACT]
        if text:
            found[name] = text
    return found


def nested_list(items: list[tuple[int, str]], tag: str = "ul") -> str:
    """Return ``(level, HTML)`` items as nested lists; levels count from 0."""
    if not items:
        return ""
    least = min(level for level, _ in items)
    parts = []
    index = 0
    while index < len(items):
        content = items[index][1]
        index += 1
        below = []
        while index < len(items) and items[index][0] > least:
            below.append(items[index])
            index += 1
        parts.append(element("li", content + nested_list(below, tag)))
    return f"{element(tag, ''.join(parts))}\n"


def ooxml_document(archive: Archive) -> ConvertedDocument:
    """Return a document with a file's title, author and dates (ECMA-376, part 2, 11)."""
    if CORE not in archive:
        return ConvertedDocument()
    declared = {local(part): part.text for part in archive.xml(CORE)}
    names = ("title", "description", "keywords", "language")
    known = {name: declared.get(name) for name in names}
    known |= {
        "published_time": declared.get("created"),
        "modified_time": declared.get("modified"),
    }
    other = {"author": declared.get("creator")}
    others = ("subject", "category", "lastModifiedBy")
    other |= {name: declared.get(name) for name in others}
    return ConvertedDocument(known=facts(known), other=facts(other))


def read_markdown(text: str) -> ConvertedDocument:
    """Return the file unchanged, with its HTML and metadata.

    Plain ``name: value`` lines of its front matter are metadata.
    """
    front = _FRONT.match(text[:MAX_FRONT])
    source = text[front.end() :] if front else text
    declared = {
        name.lower(): value.strip("\"'")
        for name, value in _FACT.findall(front[1] if front else "")
    }
    known = {_KNOWN[name]: value for name, value in declared.items() if name in _KNOWN}
    heading = _TITLE.search(source)
    if heading:
        known.setdefault("title", heading[1])
    from markdown_it import MarkdownIt  # noqa: PLC0415  # loaded on first use

    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return ConvertedDocument(
        body=parser.render(source),
        known=facts(known),
        other=facts({"author": declared.get("author")}),
        text=source.strip("\n"),
        raw=text,
    )


# -- kinds -----------------------------------------------------------------------------


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
md files:read_markdown | md markdown mkd | text/markdown text/x-markdown
xls sheets:read_workbook | xls xlsb | application/vnd.ms-excel
doc ole:read_doc | doc dot | application/msword
ppt ole:read_ppt | ppt pps pot | application/vnd.ms-powerpoint
encrypted : | |
"""
_EXTRA = (
    "the format .{0} of before 2007 needs the extra office"
    " (pip install 'scraper-service[office]'); .{0}x needs nothing"
)
_REFUSALS = {
    "doc": ("Word", _EXTRA.format("doc")),
    "ppt": ("PowerPoint", _EXTRA.format("ppt")),
    "encrypted": ("Office", "it is encrypted with a password"),
}


def _kind(line: str) -> FileKind:
    head, *lists = line.split("|")
    name, reader = head.split()
    extensions, types = (tuple(names.split()) for names in lists)
    return FileKind(
        name, extensions, types, reader.removeprefix(":"), _REFUSALS.get(name)
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
