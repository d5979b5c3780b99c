"""The main heading of a page, what stands beside it, and what belongs to something else."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.structured_data.fields.concepts import words_of
from scraper_service.content.structured_data.sources.scope import Scope

LEAD_LINES = 20  # behind the main heading that belong to it
LINES_BEFORE = 4
LEAD_LEVELS = 4  # elements around the heading in which lines before it are looked for
MAX_NAMES = 300  # characters of a class attribute
ENOUGH_SHARED = 0.6

_FOREIGN = frozenset(
    "related recommended recommendations upsell crosssell similar sponsored recently carousel "
    "comments sidebar bundle also alsobought bought together accessories footer popular trending "
    "newsletter".split()
)
_FRAME = frozenset({"nav", "footer", "aside"})
_PARTS = re.compile(r"\s+(?:[|/\u00b7\u2022\u2013\u2014\u00bb:-]|::)\s+")


def one_line(scope: Scope, element: Any) -> str:
    """Return the text of an element in one line."""
    return " ".join(scope.reading.text(element).split())


def main_heading(scope: Scope) -> Any:
    """Return the page's main heading, None without any.

    Of several the one that shares most words with the page's title; one of the second
    level has to be most of it.
    """
    if not scope.heading:
        scope.heading = [_main_heading(scope)]
    return scope.heading[0]


def _main_heading(scope: Scope) -> Any:
    parts = [part for title in scope.titles for part in (title, longest_part(title))]
    best, most = None, 0.0
    for tag, least in (("h1", 0.0), ("h2", ENOUGH_SHARED)):
        for heading in scope.all(tag):
            text = one_line(scope, heading)
            above = {parent.tag for parent in heading.iterancestors()}
            if len(text) < 2 or not above.isdisjoint(_FRAME | {"dialog"}):
                continue
            share = max((_likeness(text, part) for part in parts), default=0.0)
            is_first = best is None and tag == "h1"
            if share >= least and (is_first or share > most):
                best, most = heading, share
    return best


def longest_part(title: str) -> str:
    """Return a title without the name of the site: the longest of its parts."""
    return max(_PARTS.split(title), key=len)


def _likeness(one: str, other: str) -> float:
    words, others = set(words_of(one)), set(words_of(other))
    return len(words & others) / max(1, len(words | others))


def shared(one: str, other: str) -> float:
    """Return the share of the words of the shorter text that the other one has."""
    words, others = set(words_of(one)), set(words_of(other))
    return len(words & others) / max(1, min(len(words), len(others)))


def lead(scope: Scope) -> Scope | None:
    """Return the elements right before and behind the main heading: who, when, how many."""
    heading = main_heading(scope)
    if heading is None:
        return None
    reading = scope.reading
    start, end = reading.span(heading)
    before: list[Any] = []
    behind: list[Any] = []
    element, level = heading, 0
    while element is not None and element.tag not in {"body", "main"}:
        for other in element.itersiblings():
            if other not in reading.order:
                continue
            if reading.span(other)[1] > end + LEAD_LINES:
                break
            behind.append(other)
        for other in (
            element.itersiblings(preceding=True) if level < LEAD_LEVELS else ()
        ):
            if other not in reading.order:
                continue
            if reading.span(other)[0] < start - LINES_BEFORE:
                break
            before.insert(0, other)
        element, level = element.getparent(), level + 1
    return Scope(reading, (*before, heading, *behind), "beside the heading")


def is_foreign(element: Any) -> bool:
    """Tell whether an element belongs to the frame, or to other things that are shown."""
    above = (element, *element.iterancestors())
    return any(parent.tag in _FRAME for parent in above) or is_apart(element)


def is_apart(element: Any) -> bool:
    """Tell whether an element belongs to other things that the page also shows."""
    for parent in (element, *element.iterancestors()) if element is not None else ():
        if parent.tag in {"body", "main"}:
            return False
        names = f"{parent.get('class') or ''} {parent.get('id') or ''}"[:MAX_NAMES]
        if names != " " and _FOREIGN & set(words_of(names.replace("-", " "))):
            return True
    return False
