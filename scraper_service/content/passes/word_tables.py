"""Lookups of words in tables of numbers.

``word_tables.pyx`` has the same names, and makes no object for a word.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LETTERS = 200  # characters examined of a text or of names
REMEMBERED = 4_000  # names of a process whose scores are kept
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LOWER_PART = re.compile(r"[a-z]{2,}")
_WORD = re.compile(r"[^\W\d_]+")


class WordTable:
    """Numbers by word; the words are in lower case."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        self.numbers = dict(numbers)


class NameScores:
    """The learned scores of names.

    ``low`` is at most 0, ``high`` at least 0. ``rows`` are the rows of ``Tables.kind_rows``
    of their parts. ``kind_low`` and ``kind_high`` are the scores on pages of a kind.
    """

    def __init__(self, low: float, high: float, rows: tuple[int, ...]) -> None:
        self.low = low
        self.high = high
        self.rows = rows
        self.kind_low = self.kind_high = 0.0
        self._page = 0

    def joined(self, other: NameScores) -> NameScores:
        """Return the scores of the names of both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return NameScores(low, high, self.rows + other.rows)

    def take_kind(self, table: Any, chances: Any, page: int) -> None:
        """Compute ``kind_low`` and ``kind_high`` once for each page.

        ``table`` has a row of scores for each part, ``chances`` are those of its columns.
        """
        if self._page == page:
            return
        self._page = page
        scores = [0.0]
        for row in self.rows:
            score = 0.0
            for group, chance in enumerate(chances):
                score += table[row, group] * chance
            scores.append(score)
        self.kind_low, self.kind_high = min(scores), max(scores)


_pages = count(1)


def next_page() -> int:
    """Return a number that no page before had."""
    return next(_pages)


class PartScores:
    """The learned scores of the parts of names; see ``main_content/blocks.py``.

    ``parts`` has a number for each part; ``scores`` and ``rows`` have the score and the
    row of each number, or -1 for no row. ``none`` are the scores of names without a known
    part.
    """

    def __init__(
        self, parts: dict[str, int], scores: list[float], rows: list[int]
    ) -> None:
        self.none = NameScores(0.0, 0.0, ())
        self._parts = WordTable(parts)
        self._scores = scores
        self._rows = rows
        self._known: dict[str, NameScores] = {}

    def of(self, names: str) -> NameScores:
        """Return the scores of names."""
        found = self._known.get(names)
        if found is None:
            found = self._made(names)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[names] = found
        return found

    def _made(self, names: str) -> NameScores:
        numbers = part_numbers(names, self._parts)
        scores = [0.0, *(self._scores[number] for number in numbers)]
        rows = {self._rows[number] for number in numbers}
        low, high, found = min(scores), max(scores), tuple(sorted(rows - {-1}))
        return NameScores(low, high, found) if low or high or found else self.none


def name_parts(names: str) -> list[str]:
    """Return the words in class names and ids, in lower case."""
    names = names[:MAX_LETTERS]
    if names.islower():  # most are
        return _LOWER_PART.findall(names)
    parts = _NAME_PART.findall(names)
    return [part.lower() for part in parts if len(part) > 1]


def part_numbers(names: str, table: WordTable) -> list[int]:
    """Return the numbers of the known parts of class names and ids."""
    numbers = table.numbers
    return [int(numbers[part]) for part in name_parts(names) if part in numbers]


def start_scores(
    text: str, words: WordTable, phrases: WordTable, max_words: int, max_phrase: int
) -> tuple[float, float]:
    """Return the mean score of the first words of a text, and its score as a phrase.

    A text of more than ``max_phrase`` words has no score as a phrase. Digits and
    punctuation are no part of a phrase.
    """
    found = text[:MAX_LETTERS].lower().split(None, max_words)[:max_words]
    scores = words.numbers
    first = 0.0
    for word in found:
        first += scores.get(word, 0.0)
    phrase = 0.0
    if len(found) <= max_phrase:
        phrase = phrases.numbers.get(" ".join(_WORD.findall(" ".join(found))), 0.0)
    return first / (len(found) or 1), phrase
