"""Ratings, ranks, and how many there are of something."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.sources.places.around import (
    is_foreign,
    one_line,
)
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.sources.scope import Scope

MAX_TOLD = 200  # characters of a text in which a count or a rating is looked for
RANK_LINES = 3

_DIGIT = re.compile(r"\d")
_REVIEWS = re.compile(
    r"(?P<n>\d[\d.,\u00a0]*[kKmM]?)\+?\s*(?:customer |verified |user |global |google )?"
    r"(?:reviews?|ratings?|bewertungen|avis|opiniones|recensioni|beoordelingen|votes?)\b"
    r"|\((?P<m>\d[\d,]*[kK]?)\)",
    re.IGNORECASE,
)
_STARS = re.compile(
    r"(?P<v>\d(?:[.,]\d{1,2})?)\s*(?:/\s*(?:5|10)\b|out of (?:5|10)\b|of 5\b|von 5\b|sur 5\b"
    r"|stars?\b|avg rating|average rating|★)|rating of (?P<w>\d(?:[.,]\d{1,2})?)"
    r"|rated (?P<x>\d(?:[.,]\d{1,2})?)",
    re.IGNORECASE,
)
_RATED = re.compile(
    r"star|rating|rated|review|★|avg|average|score|out of 5", re.IGNORECASE
)
_RATING = re.compile(r"\(?(\d(?:[.,]\d{1,2})?)\)?")
_READING = re.compile(
    r"(\d{1,3}[ -]?(?:min|mins|minute|minutes))\.?\s*(?:to )?(?:read|reading)\b",
    re.IGNORECASE,
)
_RANK = re.compile(r"^\s*#?(\d{1,5})[.)]?\s*$")
_VOTING = "vote votes voters upvoter score upvotes likes points".split()
_VOTES = re.compile(r"[-+]?\d[\d.,]*[kK]?")


def told(scope: Scope) -> list[tuple[str, Any]]:
    """Return the texts with digits, and what is told to those who cannot see."""
    if scope.told is None:
        scope.told = [
            (line.text, line.block)
            for line in scope.lines
            if line.has_digits and len(line.text) <= MAX_TOLD
        ]
        for element in scope.elements:
            scope.told += [
                (label, found)
                for found in element.iter()
                if found.attrib and (label := _label(found))
            ]
    return scope.told


def _label(element: Any) -> str:
    label = element.get("aria-label") or element.get("title")
    if label is None and element.tag == "img":
        label = element.get("alt")
    fits = label and len(label) <= MAX_TOLD and _DIGIT.search(label)
    return label if fits else ""


def ratings(scope: Scope) -> Iterator[Found]:
    """Yield how something is rated."""
    for text, element in told(scope):
        match = _STARS.search(text)
        if match is None or (scope.is_page and not _RATED.search(text)):
            continue
        if not scope.is_page or not is_foreign(element):
            found = match["v"] or match["w"] or match["x"]
            yield Found(found, "text with a rating", 0.7, element)
    if scope.is_page:
        return
    for word in ("rating", "score", "stars", "note"):
        for element in scope.named((word,)):
            if match := _RATING.fullmatch(one_line(scope, element)):
                yield Found(match[1], f"element named {word}", 0.6, element)


def review_counts(scope: Scope) -> Iterator[Found]:
    """Yield how many have reviewed or rated something."""
    for text, element in told(scope):
        match = _REVIEWS.search(text)
        if match is None or (scope.is_page and is_foreign(element)):
            continue
        if match["n"]:
            yield Found(match["n"], "text with a count", 0.65, element)
        elif not scope.is_page or _STARS.search(text):
            yield Found(match["m"], "text with a count", 0.5, element)


def counts(scope: Scope, words: tuple[str, ...]) -> Iterator[Found]:
    """Yield numbers that stand before these words: ``137 Steam Achievements``."""
    pattern = _count_of(words)
    for text, element in told(scope):
        for match in pattern.finditer(text):
            yield Found(match["n"], f'text "{match[0][:60]}"', 0.65, element)


@lru_cache(maxsize=512)
def _count_of(words: tuple[str, ...]) -> re.Pattern[str]:
    between = r"\W+(?:(?!(?:am|pm|of|to)\b)[^\W\d]+\W+)?"
    named = r"\W+".join(rf"{re.escape(_stem(word))}\w{{0,4}}" for word in words)
    number = r"(?P<n>\d[\d.,\u00a0\u202f]*\s?(?:[kKmM]\b)?)\+?"
    return re.compile(rf"{number}{between}{named}(?!\w)", re.IGNORECASE)


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)]
    return word


def linked_counts(scope: Scope, words: frozenset[str]) -> Iterator[Found]:
    """Yield the numbers of links to a list of what is counted, as in ``/forks``."""
    for link in scope.all("a"):
        end = (link.get("href") or "").split("?")[0].rstrip("/").rsplit("/", 1)[-1]
        text = one_line(scope, link)
        if end.lower() in words and _VOTES.fullmatch(text):
            yield Found(text, f"link to {end[:40]}", 0.7, link)


def votes(scope: Scope) -> Iterator[Found]:
    """Yield the numbers of elements named for votes."""
    for word in _VOTING:
        for element in scope.named((word,)):
            text = one_line(scope, element)
            if _VOTES.fullmatch(text):
                yield Found(text, f"element named {word}", 0.66, element)


def reading_times(scope: Scope) -> Iterator[Found]:
    """Yield how long it takes to read: ``6 min read``."""
    for text, element in told(scope):
        if match := _READING.search(text):
            yield Found(match[1], "text with a time to read", 0.7, element)


def ranks(scope: Scope) -> Iterator[Found]:
    """Yield the number at the beginning of a record."""
    for line in scope.lines[:RANK_LINES]:
        for text in (line.text, line.parts[0][0]):
            if match := _RANK.match(text):
                yield Found(match[1], "number at the beginning", 0.7, line.block)
