"""Reads form fields, notes and attachments of a PDF, which are no part of its text.

PDFium reads the values of fields whether the file has pictures of them or not.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from scraper_service.content.pdf.lines import Mark

if TYPE_CHECKING:
    from scraper_service.content.losses import Losses

MAX_ANNOTATIONS = 2000  # per page
MAX_ATTACHMENTS = 1000
MAX_OPTIONS = 1000  # of a choice field
MAX_VALUE = 2**22  # bytes of UTF-16; longer texts are ignored
PICTURE_SHARE = 0.1  # of a page; smaller pictures are decoration
SCAN_SHARE = (
    0.8  # of a page; larger pictures are backgrounds, or scans below their text
)
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


def read_annotations(page: Any, form: Any, losses: Losses) -> tuple[list[Mark], int]:
    """Return the notes and values to be placed in the text, and the number of fields.

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
        if (
            kind not in _WITHOUT_TEXT
            and not raw.FPDFAnnot_GetFlags(annotation) & _UNSEEN
        ):
            is_field = kind == raw.FPDF_ANNOT_WIDGET
            fields += is_field
            mark = (
                _field(annotation, form, losses)
                if is_field
                else _note(annotation, kind, losses)
            )
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
        name = _text(raw.FPDFAttachment_GetName, attachment) if attachment else ""
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
        value = _text(raw.FPDFAnnot_GetFormFieldExportValue, form, widget)
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
        value = _text(raw.FPDFAnnot_GetFormFieldValue, form, widget)
        if kind in _CHOICES:
            value = _chosen(widget, form) or value
        if is_secret and value:
            losses.add("formField", SIGNATURE)
            return None
    else:
        value = _text(raw.FPDFAnnot_GetStringValue, widget, b"V")
    return Mark(value, _box(widget)) if value else None


def _chosen(widget: Any, form: Any) -> str:
    """Return the labels of the chosen options."""
    count = min(raw.FPDFAnnot_GetOptionCount(form, widget), MAX_OPTIONS)
    return ", ".join(
        _text(raw.FPDFAnnot_GetOptionLabel, form, widget, n)
        for n in range(count)
        if raw.FPDFAnnot_IsOptionSelected(form, widget, n)
    )


def _note(annotation: Any, kind: int, losses: Losses) -> Mark | None:
    if kind == raw.FPDF_ANNOT_FILEATTACHMENT:
        file = raw.FPDFAnnot_GetFileAttachment(annotation)
        name = _text(raw.FPDFAttachment_GetName, file) if file else ""
        losses.add("embeddedDocument", ATTACHMENT, text=name)
        return None
    text = _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if kind == raw.FPDF_ANNOT_FREETEXT:
        if not text:
            rich = _text(raw.FPDFAnnot_GetStringValue, annotation, b"RC")
            text = " ".join(_TAG.sub(" ", rich).split())
        return Mark(text, _box(annotation)) if text else None
    if kind in _FILMS:
        losses.add("video", FILM, text=text)
    elif kind == raw.FPDF_ANNOT_SOUND:
        losses.add("audio", FILM, text=text)
    elif text:
        losses.add("annotation", NOTE, text=text)
    elif kind == raw.FPDF_ANNOT_STAMP:
        name = _text(raw.FPDFAnnot_GetStringValue, annotation, b"Name")
        losses.add("annotation", NOTE, text=name)
    return None


def _box(annotation: Any) -> tuple[float, float, float, float]:
    rect = raw.FS_RECTF()
    raw.FPDFAnnot_GetRect(annotation, rect)
    return (
        min(rect.left, rect.right),
        min(rect.bottom, rect.top),
        max(rect.left, rect.right),
        max(rect.bottom, rect.top),
    )


def _text(function: Any, *arguments: Any) -> str:
    """Return the text of a PDFium function as a single line."""
    length = function(*arguments, None, 0)
    if not 2 < length <= MAX_VALUE:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
    function(*arguments, pointer, length)
    text = buffer.raw[:length].decode("utf-16-le", "ignore")
    return " ".join(text.replace("\0", " ").split())
