"""Reads pages with PDFium: fast, and with the position of every character.

One call returns the text of a page. Positions are fetched per line, and per character only
if several text objects form the line.
"""

from __future__ import annotations

import ctypes
from typing import Any, Self

import pypdfium2 as pdfium
from pypdfium2 import raw

from scraper_service.content.losses import Losses
from scraper_service.content.pdf.annotations import (
    count_pictures,
    read_annotations,
    record_attachments,
)
from scraper_service.content.pdf.lines import (
    Box,
    Cell,
    Line,
    PageText,
    RuledGrid,
    plain_letters,
    rotate_box,
    unread_share,
)
from scraper_service.content.pdf.tables import find_grids, read_rules
from scraper_service.content.pdf.words import LOOSE, PageCharacters, Speller

MAX_LINKS = 1000  # per page
MAX_OBJECTS = 500  # page objects examined for text without characters
MAX_UNREAD = 0.02  # share of unreadable characters above which pdfminer is tried
MAX_GUESSED = 0.05  # share of lines that begin with an unmapped character
PASSWORD_ERROR = raw.FPDF_ERR_PASSWORD
SECURITY_ERROR = raw.FPDF_ERR_SECURITY
_XFA = frozenset({raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND})


class PdfiumFile:
    """An open file; a context manager that frees PDFium's memory.

    :raises pypdfium2.PdfiumError: if PDFium cannot open the file.
    """

    def __init__(self, body: bytes):
        self._document = pdfium.PdfDocument(body)
        #: True for a form whose fields are in XFA, which PDFium does not read.
        self.is_xfa = self._document.get_formtype() in _XFA
        #: The parts of the pages read so far, and the attachments, that are lost.
        self.losses = Losses()
        #: The number of form fields on the pages read so far, also of empty ones.
        self.fields = 0
        # Streams are never compressed together with their dictionaries.
        self._has_pictures = b"/Image" in body
        self._form: Any = None
        self._form_info = raw.FPDF_FORMFILLINFO(version=2)
        if self._document.get_formtype() != raw.FORMTYPE_NONE:
            self._form = raw.FPDFDOC_InitFormFillEnvironment(
                self._document.raw, self._form_info
            )
        record_attachments(self._document.raw, self.losses)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._form:
            raw.FPDFDOC_ExitFormFillEnvironment(self._form)
        self._document.close()

    def __len__(self) -> int:
        return len(self._document)

    def facts(self) -> dict[str, str]:
        """Return the document information: ``Title``, ``Author``, ``Lang``, ..."""
        found: dict[str, str] = dict(self._document.get_metadata_dict(skip_empty=True))
        length = raw.FPDFCatalog_GetLanguage(self._document, None, 0)
        if 2 < length < 200:
            buffer = ctypes.create_string_buffer(length)
            pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
            raw.FPDFCatalog_GetLanguage(self._document, pointer, length)
            found["Lang"] = buffer.raw[:-2].decode("utf-16-le", "ignore").strip("\0 ")
        return found

    def page(self, index: int) -> tuple[PageText, bool]:
        """Return a page's text, and whether pdfminer may read more of it."""
        document = self._document.raw
        page = raw.FPDF_LoadPage(document, index)
        text_page = raw.FPDFText_LoadPage(page) if page else None
        try:
            if not text_page:
                raise pdfium.PdfiumError(f"Page {index + 1} cannot be loaded.")
            if self._form:
                raw.FORM_OnAfterLoadPage(page, self._form)
            text, is_doubtful = _PageReader(document, page, text_page).text()
            marks, fields = read_annotations(page, self._form, self.losses)
            self.fields += fields
            for mark in marks if text.turn else ():
                mark.box = rotate_box(mark.box, text.turn)
            text.marks = marks
            text.is_blank = not raw.FPDFPage_CountObjects(page)
            if self._has_pictures:
                text.pictures = count_pictures(page)
            return text, is_doubtful
        finally:
            if self._form and page:
                raw.FORM_OnBeforeClosePage(page, self._form)
            raw.FPDFText_ClosePage(text_page)
            raw.FPDF_ClosePage(page)

    def picture(self, index: int, dpi: int) -> bytes:
        """Return a page as a greyscale picture in PGM format."""
        page = self._document[index]
        try:
            bitmap = page.render(scale=dpi / 72, grayscale=True)
            try:
                width, height, stride = bitmap.width, bitmap.height, bitmap.stride
                rows = bytes(bitmap.buffer)
            finally:
                bitmap.close()
        finally:
            page.close()
        if stride != width:
            rows = b"".join(
                rows[n * stride : n * stride + width] for n in range(height)
            )
        return b"P5 %d %d 255\n" % (width, height) + rows


class _PageReader:
    """Splits the text of one page into lines with positions, styles and links."""

    def __init__(self, document: Any, page: Any, text_page: Any):
        self._page = page
        self._characters = PageCharacters(text_page)
        self._guessed = 0  # lines in a font without a map to Unicode
        self._links = list(_links(document, page))
        self._grids: list[RuledGrid] = []

    def text(self) -> tuple[PageText, bool]:
        """Return the text, and whether characters are missing or unreliable."""
        characters = self._characters
        spans = characters.lines()
        urls = [url for _, url in self._links]
        if characters.turn:
            self._links = [
                (rotate_box(box, characters.turn), to) for box, to in self._links
            ]
        self._grids = find_grids(
            [rotate_box(rule, characters.turn) for rule in read_rules(self._page)]
        )
        lines: list[Line] = []
        for start, end in spans:
            self._add_line(start, end, lines)
        is_doubtful = (
            unread_share(characters.text) > MAX_UNREAD
            or self._guessed > MAX_GUESSED * len(lines)
            or (not lines and self._has_text_objects())
        )
        if characters.turn:
            lines = _by_rows(lines)
        return PageText(lines, urls, characters.turn, grids=self._grids), is_doubtful

    def _add_line(self, start: int, end: int, lines: list[Line]) -> None:
        characters = self._characters
        first, last = characters.box(start), characters.box(end - 1)
        y0, y1 = min(first[1], last[1]), max(first[3], last[3])
        x0, x1 = min(first[0], last[0]), max(first[2], last[2])
        self._guessed += characters.is_guessed(start)
        is_piece = characters.piece(start) == characters.piece(end - 1)
        size = characters.size(start) if is_piece else self._line_size(start, end)
        line = Line("", size or y1 - y0, x0, y0, x1, y1)
        line.is_bold, line.is_fixed = self._style(start, end, is_piece=is_piece)
        line.is_rotated = characters.is_askew(start, end)
        touched = self._links and self._links_touching(line)
        middle = (y0 + y1) / 2
        borders = [
            x
            for g in self._grids
            if g.upright and g.ys[-1] < middle < g.ys[0]
            for x in g.xs
            if x0 < x < x1
        ]
        is_tight = line.is_fixed or x1 - x0 < LOOSE * line.size * (end - start)
        is_reversed = characters.is_reversed(start, end)
        if line.is_rotated or (
            is_piece and is_tight and not (touched or borders or is_reversed)
        ):
            line.text = plain_letters(characters.text[start:end])
            line.cells = [Cell(line.text, x0, x1)]
            lines.append(line)
            return
        speller = Speller(line, characters, touched, borders)
        speller.is_reversed = is_reversed
        rest = speller.spell(characters.text, start, end)
        if line.text:
            lines.append(line)
        if rest is not None:
            self._add_line(rest, end, lines)

    def _links_touching(self, line: Line) -> list[tuple[Box, str]]:
        """Return the links that overlap a line."""
        middle = (line.y0 + line.y1) / 2
        return [
            link
            for link in self._links
            if link[0][1] < middle < link[0][3]
            and link[0][0] < line.x1
            and line.x0 < link[0][2]
        ]

    def _line_size(self, start: int, end: int) -> float:
        """Return the font size of the line, ignoring bullets and small capitals."""
        characters = self._characters
        size = characters.size((start + end) // 2)
        return (
            max(size, characters.size(start))
            if characters.text[start].isalnum()
            else size
        )

    def _style(self, start: int, end: int, *, is_piece: bool) -> tuple[bool, bool]:
        """Return whether a line is bold and fixed-width, from up to three characters."""
        bold, fixed = True, True
        places = (start,) if is_piece else (start, (start + end) // 2, end - 1)
        for index in places:
            style = self._characters.style(index)
            if style is None:
                continue
            bold, fixed = bold and style[0], fixed and style[1]
            if not (bold or fixed):
                break
        return bold, fixed

    def _has_text_objects(self) -> bool:
        count = min(raw.FPDFPage_CountObjects(self._page), MAX_OBJECTS)
        kinds = (
            raw.FPDFPageObj_GetType(raw.FPDFPage_GetObject(self._page, n))
            for n in range(count)
        )
        wanted = {raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_FORM}
        return any(kind in wanted for kind in kinds)


def _by_rows(lines: list[Line]) -> list[Line]:
    """Sort the lines of a rotated page; PDFium orders them as on an upright page."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: -line.y0):
        if not rows or rows[-1][0].y0 - line.y0 > 0.3 * line.size:
            rows.append([])
        rows[-1].append(line)
    return [line for row in rows for line in sorted(row, key=lambda line: line.x0)]


def _links(document: Any, page: Any) -> Any:
    """Yield (box, URL) of the links of a page."""
    position = ctypes.c_int(0)
    link = raw.FPDF_LINK()
    for _ in range(MAX_LINKS):
        if not raw.FPDFLink_Enumerate(page, position, link):
            return
        action = raw.FPDFLink_GetAction(link)
        length = raw.FPDFAction_GetURIPath(document, action, None, 0) if action else 0
        if not 1 < length < 4000:
            continue
        buffer = ctypes.create_string_buffer(length)
        raw.FPDFAction_GetURIPath(document, action, buffer, length)
        url = buffer.value.decode("utf-8", "replace").strip()
        if not url.startswith(("http://", "https://", "mailto:")):
            continue
        rect = raw.FS_RECTF()
        raw.FPDFLink_GetAnnotRect(link, rect)
        yield (rect.left, rect.bottom, rect.right, rect.top), url
