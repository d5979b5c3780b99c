"""The signs of a page as PDFium knows them, by their index: text, places, fonts.

Its functions are called with plain numbers for pointers, and without giving up the
interpreter's lock, which takes a third of the time that pypdfium2's own take: there are
hundreds of calls for a page.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
import struct
from typing import Any

from pypdfium2 import raw

from scraper_service.content.pdf.lines import BOLD, FIXED, Box, turned

MAX_SAMPLED = 40  # lines that say which way the text of a page runs
FIXED_PITCH = 1  # the flag of such a font (ISO 32000-1, 9.8.2)

_LINE = re.compile("[^\r\n\ufffe]+\ufffe?")  # U+FFFE is PDFium's hyphen at a line's end
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


def _call(function: Any, result: Any, *arguments: Any) -> Any:
    address = ctypes.cast(function, ctypes.c_void_p).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address or 0)


_INT, _POINTER = ctypes.c_int, ctypes.c_void_p
_piece = _call(raw.FPDFText_GetTextObject, _POINTER, _POINTER, _INT)
_place = _call(raw.FPDFText_GetLooseCharBox, _INT, _POINTER, _INT, _POINTER)
_matrix = _call(raw.FPDFText_GetMatrix, _INT, _POINTER, _INT, _POINTER)
_font_size = _call(raw.FPDFText_GetFontSize, ctypes.c_double, _POINTER, _INT)
_font_info = _call(
    raw.FPDFText_GetFontInfo,
    ctypes.c_ulong,
    _POINTER,
    _INT,
    _POINTER,
    ctypes.c_ulong,
    _POINTER,
)
_angle = _call(raw.FPDFText_GetCharAngle, ctypes.c_float, _POINTER, _INT)
_is_guess = _call(raw.FPDFText_HasUnicodeMapError, _INT, _POINTER, _INT)
_unicode = _call(raw.FPDFText_GetUnicode, ctypes.c_uint, _POINTER, _INT)
_four = struct.Struct("4f").unpack_from
_two = struct.Struct("2f").unpack_from


class Signs:
    """The signs of one open text page.

    Places are those of the page turned by ``turn`` quarters of a circle against the
    clock, after which its text runs from left to right.
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
        """Return where the lines of text are, and turn the page as they run."""
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
        """Return the quarters by which to turn a line."""
        if end - start < 3 or self.is_reversed(start, end):
            return 0
        first, last = self.box(start), self.box(end - 1)
        right, up = last[0] - first[0], last[1] - first[1]
        if abs(up) > abs(right):
            return (3 if up > 0 else 1) if self.is_upright(start) else 0
        return 2 if right < 0 and math.cos(_angle(self._handle, start)) < 0 else 0

    def is_askew(self, start: int, end: int) -> bool:
        """Tell whether a line does not run from left to right."""
        if end - start < 3:
            return False
        first, last = self.box(start), self.box(end - 1)
        if abs(last[1] - first[1]) <= abs(last[0] - first[0]):
            return False
        return self.is_upright(start) != (self.turn % 2 == 1)

    def is_upright(self, index: int) -> bool:
        """Tell whether the text at a sign runs up or down the page as it is."""
        return abs(math.sin(_angle(self._handle, index))) > 0.3

    def box(self, index: int) -> Box:
        """Return where a sign is."""
        found = self._boxes.get(index)
        if found is None:
            _place(self._handle, index, self._at)
            left, top, right, bottom = _four(self._buffer)
            found = left, bottom, right, top
            if self.turn:
                found = turned(found, self.turn)
            self._boxes[index] = found
        return found

    def piece(self, index: int) -> int | None:
        """Return what is the same for all signs that were written in one go."""
        found: int | None = _piece(self._handle, index)
        return found

    def runs(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a line that were written in one go, without white space
        around them. The line begins and ends with a letter, and has few parts.
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
        """Return the size of a letter in points, by halves; 0 where there is none."""
        if not _matrix(self._handle, index, self._at):
            return 0.0
        scale = math.hypot(*_two(self._buffer, 8))
        size: float = abs(_font_size(self._handle, index)) * scale
        return round(2 * size) / 2

    def style(self, index: int) -> tuple[bool, bool] | None:
        """Tell whether a letter is bold, and one of those that have one width."""
        if not _font_info(self._handle, index, self._at, 64, self._flags_at):
            return None
        return _font_style(self._buffer.value, self._flags.value & FIXED_PITCH)

    def is_fixed(self, index: int) -> bool:
        """Tell whether a letter is one of those that have one width."""
        style = self.style(index)
        return style is not None and style[1]

    def is_guessed(self, index: int) -> bool:
        """Tell whether the font of a sign does not say what its signs mean."""
        return bool(_is_guess(self._handle, index) > 0)

    def is_reversed(self, start: int, end: int) -> bool:
        """Tell whether there are letters of scripts that run from right to left."""
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
        # Signs that the text leaves out, or writes as two: places go by single signs.
        signs = (_unicode(self._handle, n) for n in range(count))
        return "".join(chr(sign) if sign < 0x110000 else "\ufffd" for sign in signs)


def _letter_between(text: str, low: int, high: int) -> int:
    """Return the place of a letter between two others, ``high`` where there is none."""
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
