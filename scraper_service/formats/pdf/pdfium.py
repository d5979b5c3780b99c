"""Pages read by PDFium: fast, native, and with the place of every letter.

Its text comes in one call for a page; places are asked for line by line, and letter by
letter only where a line is made of several pieces.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
from typing import Any, Self

import pypdfium2 as pdfium
from pypdfium2 import raw

from scraper_service.formats.pdf.lines import (
    BOLD,
    FIXED,
    Cell,
    Line,
    PageText,
    shown,
    unread_share,
)
from scraper_service.formats.pdf.spelling import Box, Speller, piece_of

MAX_LINKS = 1000  # of one page
MAX_OBJECTS = 500  # looked at for text that has no letters
MAX_UNREAD = 0.02  # share of unreadable signs; beyond it another reader may do better
MAX_GUESSED = 0.05  # share of lines that begin with a sign of unknown meaning
LOOSE = 0.65  # width of a letter in a line that may have gaps, in sizes of the letters
PASSWORD_ERROR = raw.FPDF_ERR_PASSWORD
SECURITY_ERROR = raw.FPDF_ERR_SECURITY

_LINE = re.compile("[^\r\n\ufffe]+\ufffe?")  # U+FFFE is PDFium's hyphen at a line's end
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


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
        page = self._document[index]
        try:
            text_page = page.get_textpage()
            try:
                reader = _PageReader(page, text_page)
                lines = reader.lines()
                result = PageText(lines, reader.addresses, page.get_height())
                return result, reader.is_doubtful(lines)
            finally:
                text_page.close()
        finally:
            page.close()

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

    def __init__(self, page: Any, text_page: Any):
        self._page = page
        self.handle = text_page.raw
        self._rect = raw.FS_RECTF()
        self._matrix = raw.FS_MATRIX()
        self._font = ctypes.create_string_buffer(64)
        self._flags = ctypes.c_int()
        self._guessed = 0  # lines in a font that does not say what its signs mean
        self._text = self._whole_text()
        self._links = list(_links(page))

    @property
    def addresses(self) -> list[str]:
        return [address for _, address in self._links]

    def lines(self) -> list[Line]:
        found: list[Line] = []
        for match in _LINE.finditer(self._text):
            piece = match[0]
            start = match.start() + len(piece) - len(piece.lstrip())
            end = match.start() + len(piece.rstrip())
            if start < end:
                self._add_line(start, end, found)
        return found

    def is_doubtful(self, lines: list[Line]) -> bool:
        """Tell whether letters are missing, or are not what they seem."""
        if unread_share(self._text) > MAX_UNREAD or self._guessed > MAX_GUESSED * len(
            lines
        ):
            return True
        return not lines and self._has_text_objects()

    def _whole_text(self) -> str:
        count = raw.FPDFText_CountChars(self.handle)
        if count <= 0:
            return ""
        buffer = (ctypes.c_ushort * (count + 1))()
        length = raw.FPDFText_GetText(self.handle, 0, count, buffer) - 1
        text = bytes(buffer)[: 2 * length].decode("utf-16-le", "replace")
        if len(text) == count:
            return text
        # Signs that the text leaves out, or writes as two: places go by single signs.
        signs = (raw.FPDFText_GetUnicode(self.handle, n) for n in range(count))
        return "".join(chr(sign) if sign < 0x110000 else "\ufffd" for sign in signs)

    def box(self, index: int) -> Box:
        """Return where a sign is."""
        rect = self._rect
        raw.FPDFText_GetLooseCharBox(self.handle, index, rect)
        return rect.left, rect.bottom, rect.right, rect.top

    def piece(self, index: int) -> int | None:
        """Return what is the same for all signs that were written in one go."""
        found: int | None = piece_of(self.handle, index)
        return found

    def _add_line(self, start: int, end: int, lines: list[Line]) -> None:
        first, last = self.box(start), self.box(end - 1)
        y0, y1 = min(first[1], last[1]), max(first[3], last[3])
        x0, x1 = min(first[0], last[0]), max(first[2], last[2])
        middle = (y0 + y1) / 2
        touched = [
            link
            for link in self._links
            if link[0][1] < middle < link[0][3] and link[0][0] < x1 and x0 < link[0][2]
        ]
        self._guessed += raw.FPDFText_HasUnicodeMapError(self.handle, start) > 0
        is_piece = self.piece(start) == self.piece(end - 1)
        size = self._size(start) if is_piece else self._line_size(start, end)
        line = Line("", size or y1 - y0, x0, y0, x1, y1)
        line.is_bold, line.is_fixed = self._style(start, end)
        if abs(last[1] - first[1]) > abs(last[0] - first[0]) and end - start > 2:
            angle = raw.FPDFText_GetCharAngle(self.handle, start)
            line.turned = abs(math.sin(angle)) > 0.3
        is_tight = line.is_fixed or x1 - x0 < LOOSE * line.size * (end - start)
        is_reversed = bool(_RIGHT_TO_LEFT.search(self._text, start, end))
        if line.turned or (is_piece and is_tight and not (touched or is_reversed)):
            line.text = shown(self._text[start:end])
            line.cells = [Cell(line.text, x0, x1)]
            lines.append(line)
            return
        speller = Speller(line, self, touched, loose=not is_tight)
        speller.is_reversed = is_reversed
        rest = speller.spell(self._text, start, end)
        if line.text:
            lines.append(line)
        if rest is not None:
            self._add_line(rest, end, lines)

    def _line_size(self, start: int, end: int) -> float:
        """Return the size of the letters, not that of a bullet or a small capital."""
        size = self._size((start + end) // 2)
        return max(size, self._size(start)) if self._text[start].isalnum() else size

    def _size(self, index: int) -> float:
        matrix = self._matrix
        if not raw.FPDFText_GetMatrix(self.handle, index, matrix):
            return 0.0
        scale = math.hypot(matrix.c, matrix.d)
        size = abs(raw.FPDFText_GetFontSize(self.handle, index)) * scale
        return float(round(2 * size) / 2)

    def _style(self, start: int, end: int) -> tuple[bool, bool]:
        """Tell whether a line is bold, and in letters of one width, by three of them."""
        bold, fixed = True, True
        for index in {start, (start + end) // 2, end - 1}:
            length = raw.FPDFText_GetFontInfo(
                self.handle, index, self._font, 64, self._flags
            )
            if not length:
                continue
            bold_, fixed_ = _font_style(self._font.value)
            bold, fixed = bold and bold_, fixed and fixed_
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


@functools.lru_cache(maxsize=256)
def _font_style(name: bytes) -> tuple[bool, bool]:
    text = name.decode("latin-1")
    return bool(BOLD.search(text)), bool(FIXED.search(text))


def _links(page: Any) -> Any:
    """Yield (box, address) of the links of a page."""
    position = ctypes.c_int(0)
    link = raw.FPDF_LINK()
    document = page.pdf.raw
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
