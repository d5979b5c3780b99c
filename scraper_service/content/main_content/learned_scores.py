"""The learned scores of names, words and pairs of tags, with cached lookups.

Pages repeat the same class attributes hundreds of times, and so do the pages of a site.
"""

from __future__ import annotations

import re
from collections.abc import Callable  # read at run time by attrs
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from scraper_service.content.passes import parts_of, score_names, score_start

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAMES = 200  # characters examined of a class or id
MAX_START = 200  # characters examined at the start of a block
MAX_FIRST_WORDS = 10  # words of a block whose scores are averaged
MAX_PHRASE_WORDS = 5
_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=20_000)
def name_parts(names: str) -> frozenset[str]:
    """Return the words in class names and ids, in lower case."""
    return frozenset(parts_of(names[:MAX_NAMES]))


def phrase_of(words: list[str]) -> str:
    """Return words in lower case as a text without digits and punctuation."""
    text = " ".join(words)
    if text.isascii() and text.replace(" ", "").isalpha():
        return text
    return " ".join(_WORD.findall(text))


# The scores of names: the lowest (at most 0), the highest (at least 0), and the rows of
# ``Tables.kind_names`` that contain a part of the names.
NameScores = tuple[float, float, tuple[int, ...]]
NO_NAMES: NameScores = (0.0, 0.0, ())


def combine_scores(scores: Iterable[NameScores]) -> NameScores:
    """Combine the scores of several names."""
    known = [own for own in scores if own is not NO_NAMES]
    if not known:
        return NO_NAMES
    if len(known) == 1:
        return known[0]
    lows, highs, rows = zip(*known, strict=True)
    return min(lows), max(highs), tuple(chain.from_iterable(rows))


@define
class Tables:
    """The learned scores; a score above 0 favours content."""

    #: Scores of parts of class names, ids, itemprops and labels.
    names: dict[str, float]
    #: The same with a score for each of ``names.GROUPS``.
    kind_names: dict[str, list[float]]
    #: Scores of whole short texts.
    phrases: dict[str, float]
    #: Scores of the first words of a text.
    words: dict[str, float]
    #: Scores of an element's tag in its parent's tag.
    tags: dict[str, float]
    #: ``kind_names`` as an array with a row for each group.
    kind_columns: Any = field(init=False, eq=False)
    #: Returns the scores of a class attribute or id; cached.
    of_names: Callable[[str], NameScores] = field(init=False, eq=False)
    #: Returns the scores of the start of a text; cached.
    of_start: Callable[[str], tuple[float, float]] = field(init=False, eq=False)
    #: The score of each part of a name, and its row in ``kind_names`` or -1.
    _known: dict[str, tuple[float, int]] = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self._known = {part: (score, -1) for part, score in self.names.items()}
        for row, part in enumerate(self.kind_names):
            self._known[part] = self.names.get(part, 0.0), row
        self.kind_columns = np.array(list(self.kind_names.values())).T
        self.of_names = lru_cache(maxsize=20_000)(self._score)
        self.of_start = lru_cache(maxsize=10_000)(self._score_start)

    def _score(self, names: str) -> NameScores:
        return score_names(names[:MAX_NAMES], self._known) or NO_NAMES

    def _score_start(self, text: str) -> tuple[float, float]:
        """Return the mean score of the first words, and the score of a short text."""
        return score_start(
            text,
            self.words,
            self.phrases,
            phrase_of,
            MAX_FIRST_WORDS,
            MAX_PHRASE_WORDS,
        )
