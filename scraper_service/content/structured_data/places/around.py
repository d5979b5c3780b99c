"""The main heading of a page, the elements around it, and parts about other things."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.reading import GAP, collapse, join_texts
from scraper_service.content.structured_data.scope import Candidate, Scope
from scraper_service.content.structured_data.vocabulary import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAD_LINES = 20  # lines after the main heading that belong to it
LINES_BEFORE = 4
LEAD_LEVELS = 4  # levels above the heading that are searched for lines before it
MAX_NAMES = 300  # characters of a class attribute
ENOUGH_SHARED = 0.6

_FOREIGN = frozenset(
    "related recommended recommendations upsell crosssell similar sponsored recently carousel "
    "comments sidebar bundle also alsobought bought together accessories footer popular trending "
    "newsletter".split()
)
_FRAME = frozenset({"nav", "footer", "aside"})
_BUTTON = frozenset({"button"})
_NUMBERS = re.compile(r"(?<=\d)\n(?=\d)")  # on two lines
_PARTS = re.compile(r"\s+(?:[|/\u00b7\u2022\u2013\u2014\u00bb:-]|::)\s+")


def one_line(scope: Scope, element: Any) -> str:
    """Return the text of an element on a single line."""
    text = scope.reading.text(element)
    return collapse(_NUMBERS.sub(GAP, text) if "\n" in text else text)


def heading_text(scope: Scope, heading: Any) -> str:
    """Return the text of a heading on a single line, without buttons beside the text."""
    text = one_line(scope, heading)
    if next(heading.iter("button"), None) is None:
        return text
    start, end = scope.reading.span(heading)
    parts = (part for line in scope.reading.lines[start:end] for part in line.parts)
    return join_texts(p for p in parts if not _is_inside(p[1], _BUTTON)) or text


def named(scope: Scope, names: str, trust: float) -> Iterator[Candidate]:
    """Yield the elements with a class or id of these names, in the order of the names.

    ``names`` are separated by spaces; a name of several words has hyphens.
    """
    for name in names.split():
        for element in scope.elements_named(tuple(name.split("-"))):
            text = one_line(scope, element)
            yield Candidate(text, f"element named {name}", trust, element)


def main_heading(scope: Scope) -> Any:
    """Return the page's main heading, None without a heading.

    Of several headings, the heading most similar to the page's title wins. A heading of
    level 2 needs a similarity of at least ``ENOUGH_SHARED``.
    """
    if not scope.heading:
        scope.heading = [_main_heading(scope)]
    return scope.heading[0]


def _main_heading(scope: Scope) -> Any:
    texts = (part for title in scope.titles for part in (title, longest_part(title)))
    parts = [set(words_of(text)) for text in texts]
    best, most = None, 0.0
    for tag, least in (("h1", 0.0), ("h2", ENOUGH_SHARED)):
        for heading in scope.all(tag):
            text = one_line(scope, heading)
            if len(text) < 2 or _is_inside(heading, _FRAME | {"dialog"}):
                continue
            words = set(words_of(text))
            similarity = max((_similarity(words, part) for part in parts), default=0.0)
            is_first = best is None and tag == "h1"
            if similarity >= least and (is_first or similarity > most):
                best, most = heading, similarity
    return best


def longest_part(title: str) -> str:
    """Return the longest part of a title, usually the title without the site's name."""
    return max(_PARTS.split(title), key=len)


def _similarity(words: set[str], others: set[str]) -> float:
    """Return the words of both texts as a share of all their words."""
    shared = len(words & others)
    return shared / max(1, len(words) + len(others) - shared)


def around_heading(scope: Scope) -> Scope | None:
    """Return the elements beside the main heading, None without a heading.

    These elements often show the author, the date and counts. Those with entries of
    a list, such as teasers, are left out.
    """
    heading = main_heading(scope)
    if heading is None:
        return None
    reading = scope.reading
    start, end = reading.span(heading)
    found: list[Any] = [heading]
    element, level = heading, 0
    while element is not None and element.tag not in {"body", "main"}:
        found += [
            other
            for other in element.itersiblings()
            if other in reading.order
            and reading.span(other)[1] <= end + LEAD_LINES
            and reading.entries.of_lists.isdisjoint(other.iter())
        ]
        before = element.itersiblings(preceding=True) if level < LEAD_LEVELS else ()
        for other in before:
            if (
                other in reading.order
                and reading.span(other)[0] >= start - LINES_BEFORE
            ):
                found.insert(0, other)
        element, level = element.getparent(), level + 1
    return Scope(reading, tuple(found), "beside the heading")


def is_foreign(element: Any) -> bool:
    """Return True if an element belongs to the page's frame or to other things."""
    return _is_inside(element, _FRAME) or is_apart(element)


def _is_inside(element: Any, tags: frozenset[str]) -> bool:
    return any(parent.tag in tags for parent in (element, *element.iterancestors()))


def is_apart(element: Any) -> bool:
    """Return True if an element belongs to other things, such as related products."""
    for parent in (element, *element.iterancestors()) if element is not None else ():
        if parent.tag in {"body", "main"}:
            return False
        names = f"{parent.get('class') or ''} {parent.get('id') or ''}"[:MAX_NAMES]
        if not _FOREIGN.isdisjoint(words_of(names.replace("-", " "))):
            return True
    return False
