"""Pages read by PDFium: fast, native, and with the place of every letter.

Its text comes in one call for a page; places are asked for line by line, and letter by
letter only where a line is made of several pieces.
"""

from __future__ import annotations

import ctypes
from typing import Any, Self

import pypdfium2 as pdfium
from pypdfium2 import raw

from scraper_service.content.pdf.lines import (
    Box,
    Cell,
    Line,
    PageText,
    shown,
    turned,
    unread_share,
)
from scraper_service.content.pdf.signs import Signs
from scraper_service.content.pdf.spelling import LOOSE, Speller

MAX_LINKS = 1000  # of one page
MAX_OBJECTS = 500  # looked at for text that has no letters
MAX_UNREAD = 0.02  # share of unreadable signs; beyond it another reader may do better
MAX_GUESSED = 0.05  # share of lines that begin with a sign of unknown meaning
PASSWORD_ERROR = raw.FPDF_ERR_PASSWORD
SECURITY_ERROR = raw.FPDF_ERR_SECURITY


class PdfiumFile:
    """An open file; a context manager, as its memory is not Python's.

    :raises pypdfium2.PdfiumError: for a file that PDFium cannot open.
    """

    def __init__(self, body: bytes):
        self._document = pdfium.PdfDocument(body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._document.close()

    def __len__(self) -> int:
        return len(self._document)

    def facts(self) -> dict[str, str]:
        """Return what the file says of itself: ``Title``, ``Author``, ``Lang``, ..."""
        found: dict[str, str] = dict(self._document.get_metadata_dict(skip_empty=True))
        length = raw.FPDFCatalog_GetLanguage(self._document, None, 0)
        if 2 < length < 200:
            buffer = ctypes.create_string_buffer(length)
            pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
            raw.FPDFCatalog_GetLanguage(self._document, pointer, length)
            found["Lang"] = buffer.raw[:-2].decode("utf-16-le", "ignore").strip("\0 ")
        return found

    def page(self, index: int) -> tuple[PageText, bool]:
        """Return a page's text, and whether another reader may read more of it."""
        document = self._document.raw
        page = raw.FPDF_LoadPage(document, index)
        text_page = raw.FPDFText_LoadPage(page) if page else None
        try:
            if not text_page:
                raise pdfium.PdfiumError(f"Page {index + 1} cannot be loaded.")
            return _PageReader(document, page, text_page).text()
        finally:
            raw.FPDFText_ClosePage(text_page)
            raw.FPDF_ClosePage(page)

    def picture(self, index: int, dpi: int) -> bytes:
        """Return a page as a grey picture, a PGM file."""
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
    """The text of one page on its way to lines."""

    def __init__(self, document: Any, page: Any, text_page: Any):
        self._page = page
        self._signs = Signs(text_page)
        self._guessed = 0  # lines in a font that does not say what its signs mean
        self._links = list(_links(document, page))

    def text(self) -> tuple[PageText, bool]:
        """Return the text, and whether letters are missing or not what they seem."""
        signs = self._signs
        spans = signs.lines()
        addresses = [address for _, address in self._links]
        if signs.turn:
            self._links = [(turned(box, signs.turn), to) for box, to in self._links]
        lines: list[Line] = []
        for start, end in spans:
            self._add_line(start, end, lines)
        is_doubtful = (
            unread_share(signs.text) > MAX_UNREAD
            or self._guessed > MAX_GUESSED * len(lines)
            or (not lines and self._has_text_objects())
        )
        if signs.turn:
            lines = _by_rows(lines)
        return PageText(lines, addresses, signs.turn), is_doubtful

    def _add_line(self, start: int, end: int, lines: list[Line]) -> None:
        signs = self._signs
        first, last = signs.box(start), signs.box(end - 1)
        y0, y1 = min(first[1], last[1]), max(first[3], last[3])
        x0, x1 = min(first[0], last[0]), max(first[2], last[2])
        self._guessed += signs.is_guessed(start)
        is_piece = signs.piece(start) == signs.piece(end - 1)
        size = signs.size(start) if is_piece else self._line_size(start, end)
        line = Line("", size or y1 - y0, x0, y0, x1, y1)
        line.is_bold, line.is_fixed = self._style(start, end, is_piece=is_piece)
        line.turned = signs.is_askew(start, end)
        touched = self._links and self._touched(line)
        is_tight = line.is_fixed or x1 - x0 < LOOSE * line.size * (end - start)
        is_reversed = signs.is_reversed(start, end)
        if line.turned or (is_piece and is_tight and not (touched or is_reversed)):
            line.text = shown(signs.text[start:end])
            line.cells = [Cell(line.text, x0, x1)]
            lines.append(line)
            return
        speller = Speller(line, signs, touched)
        speller.is_reversed = is_reversed
        rest = speller.spell(signs.text, start, end)
        if line.text:
            lines.append(line)
        if rest is not None:
            self._add_line(rest, end, lines)

    def _touched(self, line: Line) -> list[tuple[Box, str]]:
        """Return the links that a line is part of, or has a part of."""
        middle = (line.y0 + line.y1) / 2
        return [
            link
            for link in self._links
            if link[0][1] < middle < link[0][3]
            and link[0][0] < line.x1
            and line.x0 < link[0][2]
        ]

    def _line_size(self, start: int, end: int) -> float:
        """Return the size of the letters, not that of a bullet or a small capital."""
        signs = self._signs
        size = signs.size((start + end) // 2)
        return max(size, signs.size(start)) if signs.text[start].isalnum() else size

    def _style(self, start: int, end: int, *, is_piece: bool) -> tuple[bool, bool]:
        """Tell whether a line is bold, and in letters of one width, by three of them."""
        bold, fixed = True, True
        places = (start,) if is_piece else (start, (start + end) // 2, end - 1)
        for index in places:
            style = self._signs.style(index)
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
    """Sort the lines of a turned page, which PDFium takes in the order of an upright."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: -line.y0):
        if not rows or rows[-1][0].y0 - line.y0 > 0.3 * line.size:
            rows.append([])
        rows[-1].append(line)
    return [line for row in rows for line in sorted(row, key=lambda line: line.x0)]


def _links(document: Any, page: Any) -> Any:
    """Yield (box, address) of the links of a page."""
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
        address = buffer.value.decode("utf-8", "replace").strip()
        if not address.startswith(("http://", "https://", "mailto:")):
            continue
        rect = raw.FS_RECTF()
        raw.FPDFLink_GetAnnotRect(link, rect)
        yield (rect.left, rect.bottom, rect.right, rect.top), address
