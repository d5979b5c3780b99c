"""Lookups of words in tables of numbers.

``word_tables.pyx`` has the same names, and makes no object for a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LETTERS = 200  # characters examined of a text or of names
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LOWER_PART = re.compile(r"[a-z]{2,}")
_WORD = re.compile(r"[^\W\d_]+")


class WordTable:
    """Numbers by word; the words are in lower case."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        self.numbers = dict(numbers)


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
