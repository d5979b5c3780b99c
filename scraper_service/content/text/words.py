"""The words of a page, to tell pages apart, and those that texts share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.passes import compiled

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

MAX_WORDS_TEXT = 20_000  # characters

_WORDS = re.compile(r"\w+")
_SHARED = frozenset(
    "nav header footer aside form script style noscript template select".split()
)


def shared_words(one: str, other: str) -> float:
    """Return the share of the words of the shorter text that the other one has."""
    words, others = (set(_WORDS.findall(text.lower())) for text in (one, other))
    return len(words & others) / max(1, min(len(words), len(others)))


def likeness(one: str, other: str) -> float:
    """Return how alike two texts are by their words: 1 if each has all of the other."""
    words, others = (set(_WORDS.findall(text.lower())) for text in (one, other))
    return 2 * len(words & others) / max(1, len(words) + len(others))


def main_words(document: Document) -> str:
    """Return the text outside what the pages of a site share, from the start a part."""
    parts: list[str] = []
    if compiled is None:
        _collect(document.root, parts, MAX_WORDS_TEXT)
    else:
        compiled.collect(document.root, parts, MAX_WORDS_TEXT, _SHARED)
    return " ".join(parts)[:MAX_WORDS_TEXT]


def _collect(element: Any, parts: list[str], left: int) -> int:
    """Add the text in ``element``; return how many characters are still wanted."""
    text = element.text
    if text:
        parts.append(text)
        left -= len(text)
    for child in element:
        if left < 0:
            break
        if child.tag not in _SHARED:
            left = _collect(child, parts, left)
        text = child.tail
        if text and left >= 0:
            parts.append(text)
            left -= len(text)
    return left
