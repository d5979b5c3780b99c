"""The learned scores of names, words and pairs of tags, with cached lookups.

Pages repeat the same class attributes hundreds of times, and so do the pages of a site.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field

from scraper_service.content.passes import PartScores, WordTable

MAX_NAMES = 200  # characters examined of a class or id
MAX_FIRST_WORDS = 10  # words of a block whose scores are averaged
MAX_PHRASE_WORDS = 5


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
    #: ``tags`` by the parent's tag, then by the element's.
    tags_inside: dict[str, dict[str, float]] = field(init=False, eq=False)
    #: ``kind_names`` as an array with a row for each name.
    kind_rows: Any = field(init=False, eq=False)
    #: ``names`` and ``kind_names`` for quick lookups of class attributes and ids.
    name_scores: PartScores = field(init=False, eq=False)
    #: ``words`` for quick lookups.
    words_at_start: WordTable = field(init=False, eq=False)
    #: ``phrases`` for quick lookups.
    known_phrases: WordTable = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        rows = {part: row for row, part in enumerate(self.kind_names)}
        parts = list(dict.fromkeys((*self.names, *self.kind_names)))
        # A number for each part of a name; per number its score, and its row or -1.
        self.name_scores = PartScores(
            {part: number for number, part in enumerate(parts)},
            [self.names.get(part, 0.0) for part in parts],
            [rows.get(part, -1) for part in parts],
        )
        self.words_at_start = WordTable(self.words)
        self.known_phrases = WordTable(self.phrases)
        self.tags_inside = {}
        for pair, score in self.tags.items():
            parent, _, tag = pair.partition(" ")
            self.tags_inside.setdefault(parent, {})[tag] = score
        scores = list(self.kind_names.values())
        self.kind_rows = np.array(scores, dtype=np.float64).reshape(len(scores), -1)
