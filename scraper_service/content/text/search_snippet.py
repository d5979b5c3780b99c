"""The part of a page that shows best what a search found in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.text.search_terms import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH = 240  # characters
LOOKED_AT = 8000  # characters of the text
STEP = 60  # between two beginnings that are compared
PREFIX = 4  # letters that a form of a word shares with it


def snippet(text: str, description: str, words: Sequence[str]) -> str:
    """Return the description of a page if it has all words, else a part of its text.

    The part is the first one with the most of them, cut at spaces.
    """
    wanted = {word[: max(PREFIX, len(word) - 3)] for word in words if word}
    about = folded(description)
    if description and all(word in about for word in wanted):
        return _cut(description, 0)
    text = text[:LOOKED_AT]
    plain = folded(text)
    if not wanted or len(plain) != len(text):
        plain = text.lower() if len(text.lower()) == len(text) else text
    best, most = 0, 0
    for start in range(0, max(1, len(plain) - LENGTH // 2), STEP):
        part = plain[start : start + LENGTH]
        count = sum(word in part for word in wanted)
        if count > most:
            best, most = start, count
            if most == len(wanted):
                break
    if not most and description:
        return _cut(description, 0)
    return _cut(text, best)


def _cut(text: str, start: int) -> str:
    """Return a part of a text, from the next word on, with dots for what is left out."""
    if start:
        space = text.find(" ", start, start + STEP)
        start = start if space < 0 else space + 1
    end = start + LENGTH
    if end >= len(text):
        return ("… " if start else "") + text[start:]
    space = text.rfind(" ", start, end)
    end = end if space <= start else space
    return f"{'… ' if start else ''}{text[start:end]} …"
