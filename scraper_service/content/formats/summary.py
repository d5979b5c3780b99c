"""Summarises a page with its own sentences, without a model.

TextRank (Mihalcea and Tarau, 2004) ranks a sentence higher if it shares rare words with
other highly ranked sentences. Sentences near the top and sentences with words of the
title weigh more.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np

from scraper_service.content.words import (
    WIDE,
    Sentence,
    is_wide,
    may_stand,
    sentences,
)

MAX_SENTENCES = 200  # of a page that are compared
DAMPING = 0.85
ROUNDS = 30
ALIKE = 0.5  # cosine from which two sentences are duplicates

_WORD = re.compile(r"[^\W_]+")


def summary(markdown: str, title: str = "", description: str = "") -> str:
    """Return two to five sentences of a page, in page order.

    A short page may give fewer. A page without sentences gives ``description``.
    """
    found = [s for s in sentences(markdown) if may_stand(s.text)][:MAX_SENTENCES]
    if not found:
        return description
    wanted = min(5, max(2, 2 + len(found) // 8))
    if len(found) > wanted:
        found = _best(found, title, wanted)
    are_wide = all(is_wide(s.text) and not s.text.isascii() for s in found)
    has_spaces = any(" " in s.text.strip() for s in found)
    glue = "" if are_wide and not has_spaces else " "
    return glue.join(s.text for s in found)


def _words(text: str) -> list[str]:
    """Return the words of a text; in scripts without spaces, pairs of characters."""
    found = []
    for word in _WORD.findall(text.lower()):
        if WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif len(word) > 1:
            found.append(word[:6] if word.isalpha() and len(word) > 6 else word)
    return found


def _best(found: list[Sentence], title: str, wanted: int) -> list[Sentence]:
    counts = [Counter(_words(s.text)) for s in found]
    vectors = _vectors(counts)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, 0.0)
    scores = _ranks(alike) * _weights(found, counts, title)
    chosen: list[int] = []
    for number in np.argsort(-scores, kind="stable"):
        if all(alike[number, other] < ALIKE for other in chosen):
            chosen.append(int(number))
        if len(chosen) == wanted:
            break
    return [found[number] for number in sorted(chosen)]


def _vectors(counts: list[Counter[str]]) -> np.ndarray:
    """Return a row of unit length for each sentence; rare words weigh more."""
    seen = Counter(word for count in counts for word in count)
    columns = {word: i for i, word in enumerate(w for w, n in seen.items() if n > 1)}
    rows = np.zeros((len(counts), max(1, len(columns))))
    for row, count in zip(rows, counts, strict=True):
        for word, times in count.items():
            if (column := columns.get(word)) is not None:
                row[column] = times * math.log(len(counts) / seen[word] + 0.1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def _ranks(alike: np.ndarray) -> np.ndarray:
    sums = alike.sum(axis=1, keepdims=True)
    steps = np.where(sums > 0, alike / np.where(sums > 0, sums, 1), 1 / len(alike))
    ranks = np.full(len(alike), 1 / len(alike))
    for _ in range(ROUNDS):
        ranks = (1 - DAMPING) / len(alike) + DAMPING * (steps.T @ ranks)
    return ranks


def _weights(
    found: list[Sentence], counts: list[Counter[str]], title: str
) -> np.ndarray:
    """Return the weight of each sentence by position and words of the title."""
    named = set(_words(title))
    weights = []
    for sentence, count in zip(found, counts, strict=True):
        lead = 1 + 1 / (1 + sentence.paragraph)
        shared = len(named & count.keys()) / len(named) if named else 0
        weights.append(lead * (1 + shared))
    return np.array(weights)
