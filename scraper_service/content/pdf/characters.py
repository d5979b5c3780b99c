"""The characters of a PDFium text page by index: text, positions, fonts.

A page needs hundreds of PDFium calls. The functions here pass pointers as plain numbers and
keep the interpreter lock. They take a third of the time of pypdfium2's functions.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
import struct
from typing import Any

from pypdfium2 import raw

from scraper_service.content.pdf.lines import BOLD, FIXED, Box, rotate_box

MAX_SAMPLED = 40  # lines that determine the rotation of a page
FIXED_PITCH = 1  # font flag (ISO 32000-1, 9.8.2)

_LINE = re.compile("[^\r\n\ufffe]+\ufffe?")  # U+FFFE: PDFium's hyphen at a line end
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


def fast_call(function: Any, result: Any, *arguments: Any) -> Any:
    """Return a PDFium function that takes plain numbers as pointers."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address or 0)


_INT, _POINTER = ctypes.c_int, ctypes.c_void_p
_piece = fast_call(raw.FPDFText_GetTextObject, _POINTER, _POINTER, _INT)
_place = fast_call(raw.FPDFText_GetLooseCharBox, _INT, _POINTER, _INT, _POINTER)
_matrix = fast_call(raw.FPDFText_GetMatrix, _INT, _POINTER, _INT, _POINTER)
_font_size = fast_call(raw.FPDFText_GetFontSize, ctypes.c_double, _POINTER, _INT)
_font_info = fast_call(
    raw.FPDFText_GetFontInfo,
    ctypes.c_ulong,
    _POINTER,
    _INT,
    _POINTER,
    ctypes.c_ulong,
    _POINTER,
)
_angle = fast_call(raw.FPDFText_GetCharAngle, ctypes.c_float, _POINTER, _INT)
_is_guess = fast_call(raw.FPDFText_HasUnicodeMapError, _INT, _POINTER, _INT)
_unicode = fast_call(raw.FPDFText_GetUnicode, ctypes.c_uint, _POINTER, _INT)
_four = struct.Struct("4f").unpack_from
_two = struct.Struct("2f").unpack_from


class PageCharacters:
    """The characters of one open text page.

    Positions refer to the page after ``turn`` counterclockwise quarter turns. The text of
    the rotated page runs from left to right.
    """

    def __init__(self, text_page: Any):
        self._handle = ctypes.cast(text_page, ctypes.c_void_p).value
        self._buffer = ctypes.create_string_buffer(64)
        self._flags = ctypes.c_int()
        self._flags_at = ctypes.addressof(self._flags)
        self._at = ctypes.addressof(self._buffer)
        self.text = self._whole_text(text_page)
        self.turn = 0
        self._boxes: dict[int, Box] = {}

    def lines(self) -> list[tuple[int, int]]:
        """Return (start, end) of the lines of text, and determine the rotation."""
        found = []
        for match in _LINE.finditer(self.text):
            line = match[0]
            start = match.start() + len(line) - len(line.lstrip())
            end = match.start() + len(line.rstrip())
            if start < end:
                found.append((start, end))
        longest = max(found, key=_length, default=(0, 0))
        if self._direction(*longest):
            letters = [0, 0, 0, 0]
            for line_ in found[:MAX_SAMPLED]:
                letters[self._direction(*line_)] += _length(line_)
            self.turn = max(range(4), key=letters.__getitem__)
            self._boxes.clear()
        return found

    def _direction(self, start: int, end: int) -> int:
        """Return the quarter turns after which a line runs from left to right."""
        if end - start < 3 or self.is_reversed(start, end):
            return 0
        first, last = self.box(start), self.box(end - 1)
        right, up = last[0] - first[0], last[1] - first[1]
        if abs(up) > abs(right):
            return (3 if up > 0 else 1) if self.is_upright(start) else 0
        return 2 if right < 0 and math.cos(_angle(self._handle, start)) < 0 else 0

    def is_askew(self, start: int, end: int) -> bool:
        """Return True if a line runs in another direction than left to right."""
        if end - start < 3:
            return False
        first, last = self.box(start), self.box(end - 1)
        if abs(last[1] - first[1]) <= abs(last[0] - first[0]):
            return False
        return self.is_upright(start) != (self.turn % 2 == 1)

    def is_upright(self, index: int) -> bool:
        """Return True if the text at a character runs up or down the unrotated page."""
        return abs(math.sin(_angle(self._handle, index))) > 0.3

    def box(self, index: int) -> Box:
        """Return the position of a character."""
        found = self._boxes.get(index)
        if found is None:
            _place(self._handle, index, self._at)
            left, top, right, bottom = _four(self._buffer)
            found = left, bottom, right, top
            if self.turn:
                found = rotate_box(found, self.turn)
            self._boxes[index] = found
        return found

    def piece(self, index: int) -> int | None:
        """Return the text object of a character, as an opaque number."""
        found: int | None = _piece(self._handle, index)
        return found

    def runs(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (start, end) of the text objects in a line, without outer white space.

        The line must begin and end with a letter, and consists of few text objects.
        """
        text, handle = self.text, self._handle
        edges = [end]
        spans = [(start, _piece(handle, start), end - 1, _piece(handle, end - 1))]
        while spans:
            low, piece, high, other = spans.pop()
            if piece == other:
                continue
            middle = (low + high) // 2
            if middle == low or text[middle].isspace():
                middle = _letter_between(text, low, high)
                if middle == high:
                    edges.append(high)
                    continue
            found = _piece(handle, middle)
            spans.append((low, piece, middle, found))
            spans.append((middle, found, high, other))
        edges.sort()
        runs = []
        for edge in edges:
            runs.append((start, start + len(text[start:edge].rstrip())))
            start = edge
        return runs

    def size(self, index: int) -> float:
        """Return the font size in points, rounded to halves; 0 if unknown."""
        if not _matrix(self._handle, index, self._at):
            return 0.0
        scale = math.hypot(*_two(self._buffer, 8))
        size: float = abs(_font_size(self._handle, index)) * scale
        return round(2 * size) / 2

    def style(self, index: int) -> tuple[bool, bool] | None:
        """Return whether a character is bold and fixed-width; None without a font."""
        if not _font_info(self._handle, index, self._at, 64, self._flags_at):
            return None
        return _font_style(self._buffer.value, self._flags.value & FIXED_PITCH)

    def is_fixed(self, index: int) -> bool:
        """Return True if a character has a fixed-width font."""
        style = self.style(index)
        return style is not None and style[1]

    def is_guessed(self, index: int) -> bool:
        """Return True if the font of a character has no map to Unicode."""
        return bool(_is_guess(self._handle, index) > 0)

    def is_reversed(self, start: int, end: int) -> bool:
        """Return True if the range contains a script that runs from right to left."""
        text = self.text
        return not text.isascii() and bool(_RIGHT_TO_LEFT.search(text, start, end))

    def _whole_text(self, handle: Any) -> str:
        count = raw.FPDFText_CountChars(handle)
        if count <= 0:
            return ""
        buffer = (ctypes.c_ushort * (count + 1))()
        length = raw.FPDFText_GetText(handle, 0, count, buffer) - 1
        text = bytes(buffer)[: 2 * length].decode("utf-16-le", "replace")
        if len(text) == count:
            return text
        # The text omits some characters or writes them as two. Positions refer to single
        # characters, so fetch each character.
        codes = (_unicode(self._handle, n) for n in range(count))
        return "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)


def _letter_between(text: str, low: int, high: int) -> int:
    """Return the index of a letter between two indexes; ``high`` if there is no letter."""
    middle = (low + high) // 2
    for place in range(middle, low, -1):
        if not text[place].isspace():
            return place
    for place in range(middle + 1, high):
        if not text[place].isspace():
            return place
    return high


def _length(line: tuple[int, int]) -> int:
    return line[1] - line[0]


@functools.lru_cache(maxsize=256)
def _font_style(name: bytes, fixed: int) -> tuple[bool, bool]:
    text = name.decode("latin-1")
    return bool(BOLD.search(text)), bool(fixed or FIXED.search(text))
