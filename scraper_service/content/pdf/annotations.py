"""Reads form fields, notes and attachments of a PDF, and inserts them among its lines.

They are no part of the text of a page. PDFium reads the values of fields whether the file
has pictures of them or not.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

from attrs import evolve
from pypdfium2 import raw

from scraper_service.content.pdf.lines import Cell, Line, Mark

if TYPE_CHECKING:
    from scraper_service.content.losses import Losses
    from scraper_service.content.pdf.lines import PageText

MAX_ANNOTATIONS = 2000  # per page
MAX_ATTACHMENTS = 1000
MAX_OPTIONS = 1000  # of a choice field
MAX_VALUE = 2**22  # bytes of UTF-16; longer texts are ignored
PICTURE_SHARE = 0.1  # of a page; smaller pictures are decoration
SCAN_SHARE = 0.8  # of a page; larger ones are backgrounds, or scans below their text
MAX_OBJECTS = 500  # page objects among which pictures are searched

_UNSEEN = (
    raw.FPDF_ANNOT_FLAG_INVISIBLE
    | raw.FPDF_ANNOT_FLAG_HIDDEN
    | raw.FPDF_ANNOT_FLAG_NOVIEW
)
_WITHOUT_TEXT = frozenset({raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP})
_FILMS = frozenset(
    {raw.FPDF_ANNOT_MOVIE, raw.FPDF_ANNOT_SCREEN, raw.FPDF_ANNOT_RICHMEDIA}
)
_TICKS = frozenset({raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON})
_CHOICES = frozenset({raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX})
_TAG = re.compile(r"<[^<>]*>")

NOTE = "The formats have the text of a PDF, without the notes on it."
ATTACHMENT = "Files inside a PDF are not converted."
FILM = "Films and sounds inside a PDF are not converted."
SIGNATURE = "Signatures and passwords in a PDF are not converted."
PICTURE = (
    "Pictures in a PDF are not converted; the mode ocr of the parser pdf reads the text "
    "in them."
)
MAX_WORK = 500_000  # lines compared with marks; more marks come after the text
_BLANK = re.compile(r"_{3,}|\.{5,}")  # where a value is to be written
SIZE = 10.0  # font size in points of a text without lines around it


def read_annotations(page: Any, form: Any, losses: Losses) -> tuple[list[Mark], int]:
    """Return the notes and values to insert into the text, and the number of fields.

    Other annotations are recorded. ``form`` is PDFium's form environment; None for a
    file without fields.
    """
    count = raw.FPDFPage_GetAnnotCount(page)
    if count > MAX_ANNOTATIONS:
        losses.add(
            "truncated",
            f"At most {MAX_ANNOTATIONS} of the {count} annotations of a PDF page are read.",
        )
    marks: list[Mark] = []
    fields = 0
    for index in range(min(count, MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        is_unseen = raw.FPDFAnnot_GetFlags(annotation) & _UNSEEN
        if kind not in _WITHOUT_TEXT and not is_unseen:
            is_field = kind == raw.FPDF_ANNOT_WIDGET
            fields += is_field
            if is_field:
                mark = _field(annotation, form, losses)
            else:
                mark = _note(annotation, kind, losses)
            if mark is not None:
                marks.append(mark)
        raw.FPDFPage_CloseAnnot(annotation)
    return marks, fields


def record_attachments(document: Any, losses: Losses) -> None:
    """Record the files that are attached to a PDF, with their names."""
    count = raw.FPDFDoc_GetAttachmentCount(document)
    if count > MAX_ATTACHMENTS:
        reason = f"Names of {MAX_ATTACHMENTS} of the {count} attachments are read."
        losses.add("truncated", reason)
    for index in range(min(count, MAX_ATTACHMENTS)):
        attachment = raw.FPDFDoc_GetAttachment(document, index)
        name = text_of(raw.FPDFAttachment_GetName, attachment) if attachment else ""
        losses.add("embeddedDocument", ATTACHMENT, text=name)


def count_pictures(page: Any) -> int:
    """Return how many pictures of a page are figures by their size."""
    whole = raw.FPDF_GetPageWidthF(page) * raw.FPDF_GetPageHeightF(page)
    sides = [ctypes.c_float() for _ in range(4)]
    left, bottom, right, top = sides
    found = 0
    for index in range(min(raw.FPDFPage_CountObjects(page), MAX_OBJECTS)):
        item = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(item) != raw.FPDF_PAGEOBJ_IMAGE:
            continue
        if raw.FPDFPageObj_GetBounds(item, *sides):
            area = (right.value - left.value) * (top.value - bottom.value)
            found += PICTURE_SHARE * whole < area < SCAN_SHARE * whole
    return found


def _field(widget: Any, form: Any, losses: Losses) -> Mark | None:
    kind = raw.FPDFAnnot_GetFormFieldType(form, widget) if form else -1
    if kind in _TICKS:
        sign = "[x]" if raw.FPDFAnnot_IsChecked(form, widget) else "[ ]"
        value = text_of(raw.FPDFAnnot_GetFormFieldExportValue, form, widget)
        return Mark(sign, _box(widget), is_tick=True, label=value)
    if kind == raw.FPDF_FORMFIELD_PUSHBUTTON:
        return None
    if kind == raw.FPDF_FORMFIELD_SIGNATURE:
        if raw.FPDFAnnot_HasKey(widget, b"V"):
            losses.add("formField", SIGNATURE)
        return None
    if kind > 0:
        is_secret = (
            kind == raw.FPDF_FORMFIELD_TEXTFIELD
            and raw.FPDFAnnot_GetFormFieldFlags(form, widget)
            & raw.FPDF_FORMFLAG_TEXT_PASSWORD
        )
        value = text_of(raw.FPDFAnnot_GetFormFieldValue, form, widget)
        if kind in _CHOICES:
            value = _chosen_labels(widget, form) or value
        if is_secret and value:
            losses.add("formField", SIGNATURE)
            return None
    else:
        value = text_of(raw.FPDFAnnot_GetStringValue, widget, b"V")
    return Mark(value, _box(widget)) if value else None


def _chosen_labels(widget: Any, form: Any) -> str:
    count = min(raw.FPDFAnnot_GetOptionCount(form, widget), MAX_OPTIONS)
    return ", ".join(
        text_of(raw.FPDFAnnot_GetOptionLabel, form, widget, n)
        for n in range(count)
        if raw.FPDFAnnot_IsOptionSelected(form, widget, n)
    )


def _note(annotation: Any, kind: int, losses: Losses) -> Mark | None:
    if kind == raw.FPDF_ANNOT_FILEATTACHMENT:
        file = raw.FPDFAnnot_GetFileAttachment(annotation)
        name = text_of(raw.FPDFAttachment_GetName, file) if file else ""
        losses.add("embeddedDocument", ATTACHMENT, text=name)
        return None
    text = text_of(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if kind == raw.FPDF_ANNOT_FREETEXT:
        if not text:
            rich = text_of(raw.FPDFAnnot_GetStringValue, annotation, b"RC")
            text = " ".join(_TAG.sub(" ", rich).split())
        return Mark(text, _box(annotation)) if text else None
    if kind in _FILMS:
        losses.add("video", FILM, text=text)
    elif kind == raw.FPDF_ANNOT_SOUND:
        losses.add("audio", FILM, text=text)
    elif text:
        losses.add("annotation", NOTE, text=text)
    elif kind == raw.FPDF_ANNOT_STAMP:
        name = text_of(raw.FPDFAnnot_GetStringValue, annotation, b"Name")
        losses.add("annotation", NOTE, text=name)
    return None


def _box(annotation: Any) -> tuple[float, float, float, float]:
    rect = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, rect)
    left, right = sorted((rect.left, rect.right))
    bottom, top = sorted((rect.bottom, rect.top))
    return left, bottom, right, top


def text_of(function: Any, *arguments: Any) -> str:
    """Return the text of a PDFium function as a single line."""
    length = function(*arguments, None, 0)
    if not 2 < length <= MAX_VALUE:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
    function(*arguments, pointer, length)
    text = buffer.raw[:length].decode("utf-16-le", "ignore")
    return " ".join(text.replace("\0", " ").split())


def insert_marks(page: PageText, *, is_drawn: bool = False) -> None:
    """Move the marks of a page among its lines, each at its position in a row.

    ``is_drawn`` is True for lines without positions, as recognised in a picture that
    shows most values.
    """
    marks, page.marks = page.marks, []
    if is_drawn or len(marks) * len(page.lines) > MAX_WORK:
        known = _letters("".join(line.text for line in page.lines))
        for mark in marks:
            if mark.is_tick or _letters(mark.text) not in known:
                page.lines.append(_lone_line(mark))
        return
    for mark in sorted(marks, key=lambda mark: (-mark.box[3], mark.box[0])):
        if mark.is_tick or not _is_shown(mark, page.lines):
            _insert_mark(mark, page.lines)


def _is_shown(mark: Mark, lines: list[Line]) -> bool:
    """Return True if the page itself shows the value of a field in its box."""
    left, bottom, right, top = mark.box
    inside = (
        line.text
        for line in lines
        if line.x0 < right
        and left < line.x1
        and bottom - 1 <= (line.y0 + line.y1) / 2 <= top + 1
    )
    return _letters(mark.text) in _letters("".join(inside))


def _insert_mark(mark: Mark, lines: list[Line]) -> None:
    """Insert a mark as a line, which the layout of the page joins with its row."""
    left, _, right, _ = mark.box
    row = [n for n, line in enumerate(lines) if _is_beside(line, mark)]
    before = [n for n in row if lines[n].x0 <= left + 1]
    if before:
        at = max(before, key=lambda n: lines[n].x0)
        if not mark.is_tick and _fill_in(mark.text, left, lines[at]):
            return
        first, *others = _split_at(lines[at], left)
        start = first.x1 if first.text.endswith(":") else max(left, first.x1)
        end = max(start, min(right, others[0].x0)) if others else max(start, right)
        lines[at : at + 1] = [first, _line(mark.text, first, start, end), *others]
    elif row:
        after = lines[row[0]]
        lines.insert(row[0], _line(mark.text, after, left, min(right, after.x0)))
    else:
        found = _lone_line(mark)
        higher = [n for n, line in enumerate(lines) if line.y0 >= found.y1 - 1]
        above = [n for n in higher if lines[n].x0 < right and left < lines[n].x1]
        at = max(above or higher, default=-1) + 1
        while 0 < at < len(lines) and abs(lines[at].y0 - lines[at - 1].y0) < 1:
            at += 1
        lines.insert(at, found)


def _fill_in(text: str, x: float, line: Line) -> bool:
    """Write a text instead of the underscores of a line nearest to ``x``."""
    for cell in line.cells if not line.links else ():
        goal = (x - cell.x0) / max(cell.x1 - cell.x0, 1) * len(cell.text)
        blanks = [m for m in _BLANK.finditer(cell.text) if m.start() - 3 <= goal]
        if blanks and goal <= blanks[-1].end():
            start, end = blanks[-1].span()
            cell.text = f"{cell.text[:start]}{text}{cell.text[end:]}"
            line.text = " ".join(each.text for each in line.cells)
            return True
    return False


def _is_beside(line: Line, mark: Mark) -> bool:
    if line.is_rotated or not line.cells:
        return False
    _, bottom, _, top = mark.box
    is_around = line.y0 <= (bottom + top) / 2 <= line.y1
    return is_around or bottom <= (line.y0 + line.y1) / 2 <= top


def _split_at(line: Line, x: float) -> list[Line]:
    """Return a line as two if it has cells on both sides of ``x``."""
    count = max(1, sum(cell.x0 <= x for cell in line.cells))
    cells, others = line.cells[:count], line.cells[count:]
    if not others:
        return [line]
    start = sum(len(cell.text) + 1 for cell in cells)
    links = [(a - start, b - start, to) for a, b, to in line.links if a >= start]
    first = evolve(
        line,
        text=line.text[: start - 1],
        x1=cells[-1].x1,
        cells=cells,
        links=[link for link in line.links if link[0] < start],
    )
    text = line.text[start:]
    return [first, evolve(line, text=text, x0=others[0].x0, cells=others, links=links)]


def _line(text: str, like: Line, x0: float, x1: float) -> Line:
    size, y0, y1 = like.size, like.y0, like.y1
    return Line(text, size, x0, y0, x1, y1, [Cell(text, x0, x1)])


def _lone_line(mark: Mark) -> Line:
    """Return a mark with its label, in a row of its own."""
    left, bottom, right, top = mark.box
    text = f"{mark.text} {mark.label}".strip()
    low = min((bottom + top) / 2, top - SIZE / 2) - SIZE / 2
    return Line(text, SIZE, left, low, right, low + SIZE, [Cell(text, left, right)])


def _letters(text: str) -> str:
    return "".join(text.split()).casefold()
