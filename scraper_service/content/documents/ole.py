"""Converts Word and PowerPoint files of before 2007 (.doc, .ppt), with anydoc.

anydoc reads the text. Its model has neither metadata nor what it leaves out: both are
read here from the streams of the file, by [MS-DOC] 2.5 and [MS-PPT] 2.13.24.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import anydoc
import olefile

from scraper_service.content.documents.drawings_and_formulas import OBJECT
from scraper_service.content.documents.files import (
    FILM,
    MACROS,
    MAX_FACT,
    ConvertedDocument,
    anchor,
    block,
    element,
    emphasis,
    escape,
    facts,
    note_mark,
    notes_html,
    picture,
    table,
    tight,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.content.decode import Unreadable

MAX_PROPERTIES = 100
_TEXT, _TIME = 30, 64  # types of properties
_EPOCH = datetime(1601, 1, 1)  # of Windows; without a zone, as the codes are UTC
COMMENT = "Comments of .doc and .ppt files are no part of their text."
PICTURE = "Pictures and drawings of .doc and .ppt files are not converted."
TEXT_BOX = "Text boxes of .doc files are not converted; those of .docx files are."
FORMULA = "Formulas of .doc files are not converted; those of .docx files are."
TABLE = (
    "A table of a .ppt file is text without rows and columns; in .pptx it is a table."
)
UNSEEN = "Hidden or deleted text of the .doc file is part of its text."
HIDDEN_SLIDES = "Hidden slides of the .ppt file are part of its text: {}."
LINKS = "Links of .ppt files are converted without their URLs: {}."

# Properties of characters: sprmCFVanish, and author and date of a tracked deletion
# (sprmCIbstRMarkDel, sprmCDttmRMarkDel).
_UNSEEN = re.compile(rb"\x3c\x08\x01|\x63\x48..\x64\x68", re.DOTALL)
# The FIB of a .doc file: offset of the length of a PLC, size of its elements.
_COMMENTS = (0xBE, 30)
_SHAPES = (0x1DE, 26)
_TEXT_BOXES = (0x25E, 22)
_LISTS = 0x2EA  # offset of the offset of PlfLfo in the table stream
# Types of records of a .ppt file, and what their loss is.
_RECORDS = {
    0x2EE0: ("annotation", COMMENT),
    0x0FCC: ("embeddedDocument", OBJECT),
    0x1005: ("video", FILM),
    0x100D: ("audio", FILM),
    0x100E: ("audio", FILM),
    0x100F: ("audio", FILM),
    0x1010: ("audio", FILM),
}
_HYPERLINK = 0x0FD7
_SLIDE_INFO = 0x03F9
_HIDDEN = 4  # a flag of _SLIDE_INFO
_DRAWING_OPTIONS = 0xF122
_TABLE_OPTION = b"\x9f\x03"


def read_doc(body: bytes) -> ConvertedDocument:
    """Convert a Word file.

    :raises Unreadable: for a damaged or encrypted file.
    """
    return _Reader(body, "Word", "doc").document("WordDocument")


def read_ppt(body: bytes) -> ConvertedDocument:
    """Convert a presentation; its slides follow each other without their numbers.

    :raises Unreadable: for a damaged or encrypted file.
    """
    return _Reader(body, "PowerPoint", "ppt").document("PowerPoint Document")


class _Reader:
    """Writes the blocks of a file as HTML, and collects its notes for the end."""

    def __init__(self, body: bytes, program: str, kind: Literal["doc", "ppt"]):
        self._program = program
        self._kind = kind
        self._document = ConvertedDocument()
        self._losses = self._document.losses
        self._notes: dict[str, int] = {}
        try:
            self._ole = olefile.OleFileIO(io.BytesIO(body))
            sizes = [self._ole.get_size(name) for name in self._ole.listdir()]
        except Exception as exc:  # olefile checks little of what it reads
            raise self._damage_error() from exc
        if sum(sizes) > len(body) or (kind == "doc" and not self._has_sane_lists()):
            raise self._damage_error()
        try:
            self._model = anydoc.to_document(body, kind)
        except anydoc.EncryptedError as exc:
            raise unreadable(program, "it is encrypted with a password") from exc
        except anydoc.ResourceLimitError as exc:
            raise unreadable(program, "it is too large or nested too deeply") from exc
        except anydoc.ConvertError as exc:
            raise self._damage_error() from exc

    def _damage_error(self) -> Unreadable:
        return unreadable(self._program, "it is damaged")

    def _has_sane_lists(self) -> bool:
        """Return False if the file claims more lists than it has bytes for.

        anydoc 0.2.4 allocates them all at once, and its failure ends the process.
        """
        try:
            fib = self._ole.openstream("WordDocument").read()
            if fib[11] & 1:  # encrypted, which anydoc says
                return True
            names = ["0Table", "1Table"][:: -1 if fib[11] & 2 else 1]
            name = next(filter(self._ole.exists, names))
            table = self._ole.openstream(name).read()
        except Exception:  # as above
            return False
        at = _number(fib, _LISTS)
        lists = table[at : at + _number(fib, _LISTS + 4)]
        return _number(lists, 0) * 16 <= len(lists)

    def document(self, stream: str) -> ConvertedDocument:
        try:
            data = self._ole.openstream(stream).read()
            self._read_metadata()
        except Exception as exc:  # as above
            raise self._damage_error() from exc
        document = self._document
        document.body = self._blocks(self._model.blocks) + self._notes_html()
        if self._kind == "doc":
            self._record_doc(data)
        else:
            self._record_ppt(data)
        if self._ole.exists("Macros"):
            document.warnings.append(MACROS)
        return document

    def _read_metadata(self) -> None:
        name = "\x05SummaryInformation"
        if not self._ole.exists(name):
            return
        found = _properties(self._ole.openstream(name).read())
        known = {
            "title": found.get(2),
            "description": found.get(6),
            "keywords": found.get(5),
            "published_time": found.get(12),
            "modified_time": found.get(13),
        }
        self._document.known = facts(known)
        other = {"author": found.get(4), "subject": found.get(3)}
        self._document.other = facts(other)

    # -- What is left out ----------------------------------------------------------------

    def _lose(self, kind: str, reason: str, count: int) -> None:
        if count > 0:
            self._losses.add(kind, reason, count=count)

    def _record_doc(self, data: bytes) -> None:
        boxes = _plc_length(data, *_TEXT_BOXES) - 1  # the last one is a sentinel
        self._lose("annotation", COMMENT, _plc_length(data, *_COMMENTS))
        self._lose("unreadableText", TEXT_BOX, boxes)
        self._lose("image", PICTURE, _plc_length(data, *_SHAPES) - max(boxes, 0))
        pool = {
            tuple(path[:2]): any(
                p[:2] == path[:2] and p[-1] == "Equation Native" for p in paths
            )
            for paths in [self._ole.listdir()]
            for path in paths
            if path[0] == "ObjectPool" and len(path) > 2
        }
        self._lose("formula", FORMULA, sum(pool.values()))
        self._lose("embeddedDocument", OBJECT, len(pool) - sum(pool.values()))
        if _UNSEEN.search(data):
            self._document.warnings.append(UNSEEN)

    def _record_ppt(self, data: bytes) -> None:
        counts: Counter[int] = Counter()
        hidden = tables = 0
        for kind, content in _records(data):
            counts[kind] += 1
            hidden += kind == _SLIDE_INFO and bool(_number(content, 10, 1) & _HIDDEN)
            tables += kind == _DRAWING_OPTIONS and _TABLE_OPTION in content
        for kind, (loss, reason) in _RECORDS.items():
            self._lose(loss, reason, counts[kind])
        self._lose("table", TABLE, tables)
        self._lose("image", PICTURE, len(self._model.assets))
        if hidden:
            self._document.warnings.append(HIDDEN_SLIDES.format(hidden))
        if counts[_HYPERLINK]:
            self._document.warnings.append(LINKS.format(counts[_HYPERLINK]))

    # -- Blocks --------------------------------------------------------------------------

    def _blocks(self, blocks: Iterable[Any]) -> str:
        return "".join(map(self._block, blocks))

    def _block(self, part: Any) -> str:
        if part.kind == "list":
            tag = "ul" if part.list.marker == "bullet" else "ol"
            items = (element("li", self._tight(i.blocks)) for i in part.list.items)
            return f"{element(tag, ''.join(items))}\n"
        if part.kind == "table":
            return self._table(part.table)
        if part.kind == "block_quote":
            quoted = self._blocks(part.blocks)
            label = "<p>Notes:</p>" if self._kind == "ppt" else ""
            return f"{element('blockquote', label + quoted)}\n"
        tag = f"h{part.level}" if part.kind == "heading" else "p"
        return block(tag, self._inline(part.content or ()) or escape(part.text or ""))

    def _tight(self, blocks: Any) -> str:
        return tight(self._blocks(blocks))

    def _table(self, found: Any) -> str:
        rows = (
            [
                (self._tight(cell.blocks), cell.col_span, cell.row_span)
                for cell in (slot.cell for slot in row)
                if cell is not None
            ]
            for row in found.grid
        )
        # Few documents mark a header.
        return table(rows, headers=max(found.header_rows, int(len(found.grid) > 1)))

    def _inline(self, items: Iterable[Any]) -> str:
        return "".join(map(self._span, items))

    def _span(self, item: Any) -> str:
        if item.kind == "line_break":
            return "<br>"
        if item.kind == "link":
            url = item.target.value
            content = self._inline(item.content)
            return anchor(content, f"#{url}" if item.target.kind == "anchor" else url)
        if item.kind == "note_ref":
            return note_mark(self._number_of(item.note_id))
        if item.kind == "image":
            return picture(item.alt, self._losses, PICTURE)
        content, style = escape(item.text or ""), item.style
        if style is None:
            return content
        return emphasis(content, style.bold, style.italic, style.strike)

    def _number_of(self, note: str) -> int:
        return self._notes.setdefault(note, len(self._notes) + 1)

    def _notes_html(self) -> str:
        found = {}
        for note in self._model.notes:
            number = self._number_of(note.id)
            found[number] = self._tight(note.blocks).strip()
        return notes_html(found)


def _plc_length(data: bytes, offset: int, size: int) -> int:
    """Return the number of elements of a PLC, whose length the FIB has at ``offset``."""
    length = _number(data, offset)
    return (length - 4) // (size + 4) if 4 < length < 2**28 else 0


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and content of all records; containers have no content."""
    at = 0
    while at + 8 <= len(data):
        is_container = data[at] & 0xF == 0xF
        kind = _number(data, at + 2, 2)
        length = 0 if is_container else _number(data, at + 4)
        yield kind, data[at + 8 : at + 8 + length]
        at += 8 + length


def _number(data: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _properties(data: bytes) -> dict[int, str]:
    """Return the texts and times of a property set by their ids ([MS-OLEPS] 2.20)."""
    start = _number(data, 44)
    texts: dict[int, bytes] = {}
    found: dict[int, str] = {}
    codepage = 1252
    for n in range(min(_number(data, start + 4), MAX_PROPERTIES)):
        name = _number(data, start + 8 + 8 * n)
        at = start + _number(data, start + 12 + 8 * n)
        kind = _number(data, at)
        if name == 1:
            codepage = _number(data, at + 4, 2)
        elif kind == _TEXT:
            texts[name] = data[at + 8 : at + 8 + min(_number(data, at + 4), MAX_FACT)]
        elif kind == _TIME:
            with suppress(OverflowError):
                time = _EPOCH + timedelta(microseconds=_number(data, at + 4, 8) // 10)
                if time.year > 1980:  # not set: 1601
                    found[name] = f"{time.isoformat(timespec='seconds')}Z"
    codec = {65001: "utf-8", 1200: "utf-16-le"}.get(codepage, f"cp{codepage}")
    for name, text in texts.items():
        try:
            found[name] = text.decode(codec, "replace").rstrip("\0")
        except LookupError:
            found[name] = text.decode("cp1252", "replace").rstrip("\0")
    return found
