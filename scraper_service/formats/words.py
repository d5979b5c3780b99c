"""The words of a page without what all pages of a site share, to tell pages apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

MAX_WORDS_TEXT = 20_000  # characters

_SHARED = frozenset(
    "nav header footer aside form script style noscript template select".split()
)


def main_words(document: Document) -> str:
    """Return the text of the page outside menus and scripts, from the start a part."""
    parts: list[str] = []
    _collect(document.root, parts, MAX_WORDS_TEXT)
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
