"""Reads a line of a PDFium page word by word, and finds its spaces and cells."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from scraper_service.content.pdf.lines import WIDE_GAP, Cell, Line, plain_letters

if TYPE_CHECKING:
    from scraper_service.content.pdf.characters import PageCharacters
    from scraper_service.content.pdf.lines import Box

# Gaps and widths are relative to the font size.
WORD_GAP = 0.11  # a gap this much wider than between letters is a missing space
LOOSE = 0.6  # mean character width above which a run may contain gaps
NARROW = 0.5  # mean character width up to which no run, even fixed-width, has gaps
SLACK = 2.0  # points by which a link may be narrower than its text
_WORD = re.compile(r"\S+")
_CLOSING = frozenset(",.;:!?)]}\u201d\u2019%'\"-")
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
            crossed = self._crossed(box, last_box)
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
        """Return the position of the last character."""
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

    def _crossed(self, first: Box, last: Box) -> list[tuple[Box, str]]:
        """Return the links that overlap a word."""
        left, right = min(first[0], last[0]), max(first[2], last[2])
        return [
            link for link in self._links if link[0][0] < right and left < link[0][2]
        ]

    def _is_part(self, crossed: list[tuple[Box, str]], first: Box, last: Box) -> bool:
        """Return True if only a part of a word is linked."""
        area = crossed[0][0]
        left, right = min(first[0], last[0]), max(first[2], last[2])
        return len(crossed) > 1 or left < area[0] - SLACK or right > area[2] + SLACK

    def _is_below(self, box: Box) -> bool:
        """Return True if ``box`` is on another line than the previous character."""
        if self._last < 0:
            return False
        before = self._last_box()
        if self._characters.turn and not self.is_reversed and box[2] <= before[0] + 1:
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
