"""Reads form fields, notes and attachments of a PDF, and inserts them among its lines.

They are no part of the text of a page. PDFium reads the values of fields whether the file
has pictures of them or not.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

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
SIZE = 10.0  # font size in points of a text without lines around it
FAR = 60.0  # points between a field and its label, beyond which a label above is nearer
_FILL = re.compile(r"_{3,}|\.{5,}")  # where a value is to be written


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
    """Return the labels of the chosen options."""
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
    """Move the marks of a page into its lines, each after its label.

    ``is_drawn`` is True for lines without positions, as recognised in a picture that
    shows most values.
    """
    marks, page.marks = page.marks, []
    if is_drawn or len(marks) * len(page.lines) > MAX_WORK:
        known = _letters("".join(line.text for line in page.lines))
        for mark in marks:
            if mark.is_tick or _letters(mark.text) not in known:
                text = f"{mark.text} {mark.label}".strip()
                page.lines.append(_line(mark, text, SIZE))
        return
    for mark in sorted(marks, key=lambda mark: (-mark.box[3], mark.box[0])):
        _insert_mark(mark, page.lines)


def _insert_mark(mark: Mark, lines: list[Line]) -> None:
    left, bottom, right, top = mark.box
    middle = (bottom + top) / 2
    row = [line for line in lines if _is_beside(line, bottom, top, middle)]
    if not mark.is_tick:
        inside = (
            line.text
            for line in lines
            if line.x0 < right
            and left < line.x1
            and bottom - 1 <= (line.y0 + line.y1) / 2 <= top + 1
        )
        if _letters(mark.text) in _letters("".join(inside)):
            return  # the page shows the value itself
    before = max(
        (line for line in row if line.x0 <= left + 1),
        key=lambda line: (line.x0, line.y1),
        default=None,
    )
    above = _above(mark, lines)
    if before is not None and (
        above is None or mark.is_tick or _gap(before, left) < FAR
    ):
        _insert(before, mark)
        return
    after = min(
        (line for line in row if line.x0 > left), key=lambda line: line.x0, default=None
    )
    if mark.is_tick and after is not None:
        _insert(after, mark)
        return
    text = f"{mark.text} {mark.label}".strip()
    size = above.size if above is not None else SIZE
    found = _line(mark, text, size)
    anchor = before or above
    if anchor is None:
        higher = (n for n, line in enumerate(lines, 1) if line.y0 >= found.y1 - 1)
        index = max(higher, default=0)
    else:
        index = next(n for n, line in enumerate(lines, 1) if line is anchor)
        while index < len(lines) and _is_level(lines[index], lines[index - 1]):
            index += 1
    lines.insert(index, found)


def _is_beside(line: Line, bottom: float, top: float, middle: float) -> bool:
    if line.is_rotated or not line.cells:
        return False
    return line.y0 <= middle <= line.y1 or bottom <= (line.y0 + line.y1) / 2 <= top


def _is_level(line: Line, last: Line) -> bool:
    """Return True if a line continues the row of the last one."""
    return line.x0 > last.x0 and abs(line.y0 - last.y0) < 0.35 * last.size


def _above(mark: Mark, lines: list[Line]) -> Line | None:
    """Return the line right above a mark, which may be its label."""
    left, _, right, top = mark.box
    near = [
        line
        for line in lines
        if not line.is_rotated
        and line.x0 < right
        and left < line.x1
        and -0.3 * line.size <= line.y0 - top < 1.5 * line.size
    ]
    return min(near, key=lambda line: (line.y0, abs(line.x0 - left)), default=None)


def _gap(line: Line, x: float) -> float:
    """Return the distance from the last cell that ends before ``x``; 0 inside a cell."""
    ends = [cell.x1 for cell in line.cells if cell.x0 <= x]
    return max(x - max(ends, default=x), 0.0)


def _line(mark: Mark, text: str, size: float) -> Line:
    left, _, right, top = mark.box
    low = min((mark.box[1] + top) / 2, top - size / 2) - size / 2
    return Line(text, size, left, low, right, low + size, [Cell(text, left, right)])


def _insert(line: Line, mark: Mark) -> None:
    """Insert a mark into a line, at its position from left to right."""
    left, _, right, _ = mark.box
    cells = line.cells
    index = max((n for n, cell in enumerate(cells) if cell.x0 <= left), default=0)
    cell = cells[index]
    start = sum(len(cell.text) + 1 for cell in cells[:index])
    if left < cell.x0:
        _write(line, index, 0, 0, start, f"{mark.text} ")
        line.x0 = cell.x0 = left
        return
    following = cells[index + 1] if index + 1 < len(cells) else None
    if left < cell.x1 - 1:
        at, end = _between_words(cell.text, (left - cell.x0) / (cell.x1 - cell.x0))
        gap = " " if cell.text[end : end + 1].strip() else ""
        _write(line, index, at, end, start, f" {mark.text}{gap}")
    elif mark.is_tick and following and following.x0 - right < left - cell.x1:
        _write(line, index + 1, 0, 0, start + len(cell.text) + 1, f"{mark.text} ")
        following.x0 = left
    elif mark.is_tick or cell.text.rstrip().endswith(":"):
        _write(line, index, len(cell.text), len(cell.text), start, f" {mark.text}")
        cell.x1 = max(cell.x1, min(right, following.x0 if following else right))
    else:
        cells.insert(index + 1, Cell("", left, right))
        _write(line, index, len(cell.text), len(cell.text), start, f" {mark.text}")
        cell.text = cell.text.removesuffix(f" {mark.text}")
        cells[index + 1].text = mark.text
    line.x1 = max(line.x1, right)


def _between_words(text: str, share: float) -> tuple[int, int]:
    """Return the part of ``text`` that a mark replaces, at a share of its width."""
    goal = round(share * len(text))
    for match in _FILL.finditer(text):
        if match.start() - 2 <= goal <= match.end():
            return len(text[: match.start()].rstrip()), match.end()
    gaps = [n for n, letter in enumerate(text) if letter == " "]
    at = min((*gaps, len(text)), key=lambda n: abs(n - goal))
    return at, at


def _write(line: Line, index: int, at: int, end: int, start: int, text: str) -> None:
    """Replace a part of a cell, which begins at ``start`` of the line."""
    cell = line.cells[index]
    cell.text = cell.text[:at] + text + cell.text[end:]
    at, end = at + start, end + start
    line.text = line.text[:at] + text + line.text[end:]
    shift = len(text) - (end - at)
    line.links = [
        (a + shift if a >= at else a, b + shift if b > at else b, to)
        for a, b, to in line.links
    ]


def _letters(text: str) -> str:
    return "".join(text.split()).casefold()
