"""Reads pages with PDFium: fast, and with the position of every character.

One call returns the text of a page. A page still needs hundreds of calls for positions and
fonts: they are fetched per line, and per word or character only if several text objects form
the line, or if it has links. The calls pass pointers as plain numbers and keep the
interpreter lock, which takes a third of the time of pypdfium2's functions.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import re
import struct
import unicodedata
from typing import Any

from pypdfium2 import raw

from scraper_service.content.pdf.layout import fast_call, find_grids, read_rules
from scraper_service.content.pdf.lines import (
    BOLD,
    FIXED,
    WIDE_GAP,
    Box,
    Cell,
    Line,
    PageText,
    RuledGrid,
    plain_letters,
    rotate_box,
    rows_of,
    unread_share,
)

MAX_LINKS = 1000  # per page
MAX_OBJECTS = 500  # page objects examined for text without characters
MAX_UNREAD = 0.02  # share of unreadable characters above which pdfminer is tried
MAX_GUESSED = 0.05  # share of lines that begin with an unmapped character
MAX_SAMPLED = 40  # lines that determine the rotation of a page
FIXED_PITCH = 1  # font flag (ISO 32000-1, 9.8.2)

_LINE = re.compile("[^\r\n\ufffe]+\ufffe?")  # U+FFFE: PDFium's hyphen at a line end
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_four = struct.Struct("4f").unpack_from
_two = struct.Struct("2f").unpack_from
# Gaps and widths are relative to the font size.
WORD_GAP = 0.11  # a gap this much wider than between letters is a missing space
LOOSE = 0.6  # mean character width above which a run may contain gaps
NARROW = 0.5  # mean character width up to which no run, even fixed-width, has gaps
SLACK = 2.0  # points by which a link may be narrower than its text
_WORD = re.compile(r"\S+")
_CLOSING = frozenset(",.;:!?)]}\u201d\u2019%'\"-")


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


class PageCharacters:
    """The characters of one open text page.

    Positions refer to the page after ``angle`` counterclockwise quarter turns. The text of
    the rotated page runs from left to right.
    """

    def __init__(self, text_page: Any):
        self._handle = ctypes.cast(text_page, ctypes.c_void_p).value
        self._buffer = ctypes.create_string_buffer(64)
        self._flags = ctypes.c_int()
        self._flags_at = ctypes.addressof(self._flags)
        self._at = ctypes.addressof(self._buffer)
        self.text = self._whole_text(text_page)
        self.angle = 0
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
            self.angle = max(range(4), key=letters.__getitem__)
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
        return self.is_upright(start) != (self.angle % 2 == 1)

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
            if self.angle:
                found = rotate_box(found, self.angle)
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
    indexes = itertools.chain(range(middle, low, -1), range(middle + 1, high))
    return next((index for index in indexes if not text[index].isspace()), high)


def _length(line: tuple[int, int]) -> int:
    return line[1] - line[0]


@functools.lru_cache(maxsize=256)
def _font_style(name: bytes, fixed: int) -> tuple[bool, bool]:
    text = name.decode("latin-1")
    return bool(BOLD.search(text)), bool(fixed or FIXED.search(text))


LAM, ALEFS = "\u0644", "\u0622\u0623\u0625\u0627"


class Speller:
    """Reads a line word by word; the gaps between words determine spaces and cells.

    Positions are fetched where a text object begins or ends. Lines with links, and wide
    text objects that may contain gaps, need the positions of all words.
    """

    def __init__(
        self,
        line: Line,
        characters: PageCharacters,
        links: list[tuple[Box, str]],
        borders: list[float],
    ):
        self._line = line
        self._characters = characters
        self._links = links
        self._borders = borders  # of the columns of a ruled table
        self._text = ""
        self._starts: list[int] = []  # start of each cell in the text
        self._last = -1  # page index of the previous character
        self.is_reversed = False  # True if written from right to left

    def spell(self, text: str, start: int, end: int) -> int | None:
        """Fill in the line; return the index at which another line begins, or None."""
        whole = (
            [(start, end)] if self.is_reversed else self._characters.runs(start, end)
        )
        tail = None
        for first, after in whole:
            for at, stop in self._spans(text, first, after):
                spaced = at > start and text[at - 1].isspace()
                tail = self._part(text[at:stop], at, spaced=spaced)
                if tail is not None:
                    self._finish(is_cut=True)
                    return tail
        self._finish(is_cut=False)
        return None

    def _spans(self, text: str, first: int, after: int) -> list[tuple[int, int]]:
        """Return the words of a run, or the whole run if it has no gaps."""
        needs_words = self._links or self.is_reversed or self._borders
        if needs_words or self._is_loose(first, after):
            return [match.span() for match in _WORD.finditer(text, first, after)]
        return [(first, after)]

    def _is_loose(self, first: int, after: int) -> bool:
        """Return True if a run is so wide that it may contain gaps."""
        characters, size = self._characters, self._line.size
        box, count = characters.box(first), after - first
        width = characters.box(after - 1)[2] - box[0]
        if width <= NARROW * size * count:
            return False
        if characters.is_fixed(first):
            return width > (box[2] - box[0]) * count + WIDE_GAP * size
        return width > LOOSE * size * count

    def _part(self, part: str, start: int, *, spaced: bool) -> int | None:
        """Add a word or run, unless it is on another line; return that line's start."""
        characters, last = self._characters, start + len(part) - 1
        box = characters.box(start)
        if self._is_below(box):
            return start
        crossed: list[tuple[Box, str]] = []
        if self._links:
            last_box = characters.box(last)
            crossed = self._links_crossing(box, last_box)
            if crossed and self._is_part(crossed, box, last_box):
                return self._by_sign(part, start, crossed, spaced=spaced)
        if self.is_reversed and characters.piece(start) != characters.piece(last):
            return self._by_sign(part, start, crossed, spaced=spaced)
        self._add(part, start, box, crossed[0][1] if crossed else None, spaced=spaced)
        return None

    def _by_sign(
        self, part: str, start: int, crossed: list[tuple[Box, str]], *, spaced: bool
    ) -> int | None:
        """Add single characters: a word partly linked, or written from right to left."""
        for index, character in enumerate(part, start):
            box = self._characters.box(index)
            if self.is_reversed and self._is_swapped(character, box):
                self._text = f"{self._text[:-1]}{character}{self._text[-1]}"
                self._last = index
                continue
            if self._is_below(box):
                return index
            centre = (box[0] + box[2]) / 2
            url = next((a for r, a in crossed if r[0] <= centre <= r[2]), None)
            self._add(character, index, box, url, spaced=spaced and index == start)
        return None

    def _last_box(self) -> Box:
        return self._characters.box(self._last)

    def _is_swapped(self, character: str, box: Box) -> bool:
        """Return True if ``character`` belongs before the last character of the same glyph.

        PDFium reverses the characters of right-to-left lines, even within ligatures.
        """
        if self._last < 0 or self._last_box() != box:
            return False
        before = self._text[-1]
        return bool(unicodedata.combining(before)) or (
            character == LAM and before in ALEFS
        )

    def _links_crossing(self, first: Box, last: Box) -> list[tuple[Box, str]]:
        left, right = min(first[0], last[0]), max(first[2], last[2])
        return [
            link for link in self._links if link[0][0] < right and left < link[0][2]
        ]

    def _is_part(self, crossed: list[tuple[Box, str]], first: Box, last: Box) -> bool:
        area = crossed[0][0]
        left, right = min(first[0], last[0]), max(first[2], last[2])
        return len(crossed) > 1 or left < area[0] - SLACK or right > area[2] + SLACK

    def _is_below(self, box: Box) -> bool:
        """Return True if ``box`` is on another line than the previous character."""
        if self._last < 0:
            return False
        before = self._last_box()
        if self._characters.angle and not self.is_reversed and box[2] <= before[0] + 1:
            return True  # PDFium reads from the left of the unrotated page to its right
        slack = 0.3 * max(before[3] - before[1], box[3] - box[1])
        return box[3] < before[1] - slack or box[1] > before[3] + slack

    def _add(
        self, word: str, index: int, box: Box, url: str | None, *, spaced: bool
    ) -> None:
        size = self._line.size
        if self._last < 0:
            self._begin_cell(box)
        else:
            before = self._last_box()
            gap = 0.0 if self.is_reversed else box[0] - before[2]
            left, right = before[0] + before[2], box[0] + box[2]
            if gap > WIDE_GAP * size or any(
                left < 2 * border < right for border in self._borders
            ):
                self._line.cells[-1].x1 = before[2]
                self._text += " "
                self._begin_cell(box)
            elif spaced or (
                gap > WORD_GAP * size
                and word[0] not in _CLOSING
                and gap - self._letter_gap(before) > WORD_GAP * size
            ):
                self._text += " "
        start = len(self._text)
        self._text += plain_letters(word)
        self._last = index + len(word) - 1
        if url:
            found = self._line.links
            if found and found[-1][2] == url and found[-1][1] >= start - 1:
                start = found.pop()[0]
            found.append((start, len(self._text), url))

    def _letter_gap(self, before: Box) -> float:
        """Return the gap between the last two characters of a word, else 0."""
        if len(self._text) < 2 or self._text[-2] == " ":
            return 0.0
        return min(
            before[0] - self._characters.box(self._last - 1)[2], before[2] - before[0]
        )

    def _begin_cell(self, box: Box) -> None:
        self._starts.append(len(self._text))
        self._line.cells.append(Cell("", box[0], box[2]))

    def _finish(self, is_cut: bool) -> None:
        line = self._line
        line.text = self._text
        ends = [at - 1 for at in self._starts[1:]] + [len(self._text)]
        for cell, first, last in zip(line.cells, self._starts, ends, strict=True):
            cell.text = self._text[first:last]
        if self._last < 0:
            return
        box = self._last_box()
        line.cells[-1].x1 = box[2] if is_cut else max(box[2], line.x1)
        if is_cut:
            line.x0, line.x1 = line.cells[0].x0, box[2]
            line.y0, line.y1 = box[1], box[3]


class PdfPageReader:
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
        if characters.angle:
            self._links = [
                (rotate_box(box, characters.angle), to) for box, to in self._links
            ]
        self._grids = find_grids(
            [rotate_box(rule, characters.angle) for rule in read_rules(self._page)]
        )
        lines: list[Line] = []
        for start, end in spans:
            self._add_line(start, end, lines)
        is_doubtful = (
            unread_share(characters.text) > MAX_UNREAD
            or self._guessed > MAX_GUESSED * len(lines)
            or (not lines and self._has_text_objects())
        )
        if characters.angle:  # PDFium orders the lines as on an upright page
            lines = list(itertools.chain.from_iterable(rows_of(lines, 0.3)))
        return PageText(lines, urls, characters.angle, grids=self._grids), is_doubtful

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
        tail = speller.spell(characters.text, start, end)
        if line.text:
            lines.append(line)
        if tail is not None:
            self._add_line(tail, end, lines)

    def _links_touching(self, line: Line) -> list[tuple[Box, str]]:
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
        is_letter = characters.text[start].isalnum()
        return max(size, characters.size(start)) if is_letter else size

    def _style(self, start: int, end: int, *, is_piece: bool) -> tuple[bool, bool]:
        """Return whether a line is bold and fixed-width, from up to three characters."""
        bold, fixed = True, True
        samples = (start,) if is_piece else (start, (start + end) // 2, end - 1)
        for index in samples:
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


def _links(document: Any, page: Any) -> Any:
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
