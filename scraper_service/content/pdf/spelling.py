"""A line of a page read by PDFium, word by word: where spaces and cells are."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from scraper_service.content.pdf.lines import Cell, Line, shown

if TYPE_CHECKING:
    from scraper_service.content.pdf.lines import Box
    from scraper_service.content.pdf.signs import Signs

WIDE_GAP = 1.5  # between two cells, in sizes of the letters
WORD_GAP = 0.11  # more than between letters: a space that the file leaves out
LOOSE = 0.6  # width of a letter in a piece that may have gaps, in sizes of the letters
NARROW = 0.5  # the same where there is none, in letters of one width either
SLACK = 2.0  # points that a link may be narrower than its text
_WORD = re.compile(r"\S+")
_CLOSING = frozenset(",.;:!?)]}\u201d\u2019%'\"-")
LAM, ALEFS = "\u0644", "\u0622\u0623\u0625\u0627"


class Speller:
    """Reads a line word by word: spaces and cells go by the gaps between them.

    Places are asked for only where one piece of text ends and another begins, but for
    pieces that may have gaps in them, and lines that have links.
    """

    def __init__(
        self,
        line: Line,
        signs: Signs,
        links: list[tuple[Box, str]],
    ):
        self._line = line
        self._signs = signs
        self._links = links
        self._text = ""
        self._starts: list[int] = []  # of the cells, in the text
        self._last = -1  # the sign before, by its index on the page
        self.is_reversed = False  # written from right to left

    def spell(self, text: str, start: int, end: int) -> int | None:
        """Fill in the line; return where text begins that stands on another line."""
        whole = [(start, end)] if self.is_reversed else self._signs.runs(start, end)
        rest = None
        for first, after in whole:
            for at, stop in self._spans(text, first, after):
                spaced = at > start and text[at - 1].isspace()
                rest = self._part(text[at:stop], at, spaced=spaced)
                if rest is not None:
                    self._finish(is_cut=True)
                    return rest
        self._finish(is_cut=False)
        return None

    def _spans(self, text: str, first: int, after: int) -> list[tuple[int, int]]:
        """Return the words of a run, or all of it if it has no gaps."""
        if self._links or self.is_reversed or self._is_loose(first, after):
            return [match.span() for match in _WORD.finditer(text, first, after)]
        return [(first, after)]

    def _is_loose(self, first: int, after: int) -> bool:
        """Tell whether a run is so wide that there may be gaps in it."""
        signs, size = self._signs, self._line.size
        box, count = signs.box(first), after - first
        width = signs.box(after - 1)[2] - box[0]
        if width <= NARROW * size * count:
            return False
        if signs.is_fixed(first):
            return width > (box[2] - box[0]) * count + WIDE_GAP * size
        return width > LOOSE * size * count

    def _part(self, part: str, start: int, *, spaced: bool) -> int | None:
        """Add signs that were written in one go, unless they are of another line."""
        signs, last = self._signs, start + len(part) - 1
        box = signs.box(start)
        if self._is_below(box):
            return start
        crossed: list[tuple[Box, str]] = []
        if self._links:
            last_box = signs.box(last)
            crossed = self._crossed(box, last_box)
            if crossed and self._is_part(crossed, box, last_box):
                return self._by_sign(part, start, crossed, spaced=spaced)
        if self.is_reversed and signs.piece(start) != signs.piece(last):
            return self._by_sign(part, start, crossed, spaced=spaced)
        self._add(part, start, box, crossed[0][1] if crossed else None, spaced=spaced)
        return None

    def _by_sign(
        self, part: str, start: int, crossed: list[tuple[Box, str]], *, spaced: bool
    ) -> int | None:
        """Add signs that have places of their own, as links or swapped ones."""
        for index, sign in enumerate(part, start):
            box = self._signs.box(index)
            if self.is_reversed and self._is_swapped(sign, box):
                self._text = f"{self._text[:-1]}{sign}{self._text[-1]}"
                self._last = index
                continue
            if self._is_below(box):
                return index
            centre = (box[0] + box[2]) / 2
            address = next((a for r, a in crossed if r[0] <= centre <= r[2]), None)
            self._add(sign, index, box, address, spaced=spaced and index == start)
        return None

    def _last_box(self) -> Box:
        """Return where the last sign is."""
        return self._signs.box(self._last)

    def _is_swapped(self, sign: str, box: Box) -> bool:
        """Tell whether ``sign`` belongs before the last one, both being one glyph.

        Signs of a line from right to left were turned round, those of ligatures too.
        """
        if self._last < 0 or self._last_box() != box:
            return False
        before = self._text[-1]
        return bool(unicodedata.combining(before)) or (sign == LAM and before in ALEFS)

    def _crossed(self, first: Box, last: Box) -> list[tuple[Box, str]]:
        """Return the links that a word is part of, or has a part of."""
        left, right = min(first[0], last[0]), max(first[2], last[2])
        return [
            link for link in self._links if link[0][0] < right and left < link[0][2]
        ]

    def _is_part(self, crossed: list[tuple[Box, str]], first: Box, last: Box) -> bool:
        """Tell whether only a part of a word is a link."""
        area = crossed[0][0]
        left, right = min(first[0], last[0]), max(first[2], last[2])
        return len(crossed) > 1 or left < area[0] - SLACK or right > area[2] + SLACK

    def _is_below(self, box: Box) -> bool:
        """Tell whether signs are of another line than the ones before."""
        if self._last < 0:
            return False
        before = self._last_box()
        if self._signs.turn and not self.is_reversed and box[2] <= before[0] + 1:
            return True  # PDFium goes from the left of the page to its right
        slack = 0.3 * max(before[3] - before[1], box[3] - box[1])
        return box[3] < before[1] - slack or box[1] > before[3] + slack

    def _add(
        self, word: str, index: int, box: Box, address: str | None, *, spaced: bool
    ) -> None:
        size = self._line.size
        if self._last < 0:
            self._begin_cell(box)
        else:
            before = self._last_box()
            gap = 0.0 if self.is_reversed else box[0] - before[2]
            if gap > WIDE_GAP * size:
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
        self._text += shown(word)
        self._last = index + len(word) - 1
        if address:
            found = self._line.links
            if found and found[-1][2] == address and found[-1][1] >= start - 1:
                start = found.pop()[0]
            found.append((start, len(self._text), address))

    def _letter_gap(self, before: Box) -> float:
        """Return the gap between the last two signs, if they are of one word."""
        if len(self._text) < 2 or self._text[-2] == " ":
            return 0.0
        return min(
            before[0] - self._signs.box(self._last - 1)[2], before[2] - before[0]
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
