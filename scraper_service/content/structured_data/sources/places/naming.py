"""What a thing is called: the titles of records, brands, places."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.fields.concepts import words_of
from scraper_service.content.structured_data.sources.places.around import (
    main_heading,
    one_line,
)
from scraper_service.content.structured_data.sources.places.people import is_profile
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.sources.scope import Scope

MAX_TITLE = 300  # characters
MAX_BOLD = 150
BRAND_LINES = 6  # behind the main heading

_BUTTON = re.compile(
    r"^(?:quick (?:view|add|shop)|more info|read more|learn more|view (?:details|all|more|company"
    r"|product|profile)\b.*|add to (?:cart|bag|basket|wish ?list|compare)|compare|share|reply"
    r"|report|details|buy(?: now)?|shop now|see (?:more|all|details)|save|like|follow|edit|hide"
    r"|discuss|past|permalink|link|quote|sign in|log ?in|register|choose options|select options"
    r"|continue reading|next|previous|apply(?: now)?|info|image|photo|sponsor|star|new|sale"
    r"|skip to .*)$",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[^\W\d_]{2}")
_PERSONAL = frozenset("user username author member company brand vendor".split())
_TITLES = ("title", "headline", "name", "heading", "subject")
_PLACES = ("location", "venue", "city", "place", "region", "address", "where")


def titles(scope: Scope) -> Iterator[Found]:
    """Yield what may be the name of a record, the likeliest first."""
    headings = scope.all("h1", "h2", "h3", "h4", "h5", "h6")
    for heading in sorted(headings, key=lambda heading: str(heading.tag)):
        text = one_line(scope, heading)
        if text and not _BUTTON.match(text):
            yield Found(text, f"heading {heading.tag}", 0.85, heading)
    for word in _TITLES:
        for element in scope.named((word,)):
            text = _line_of_name(scope, element)
            link = next(element.iter("a"), None)
            if link is not None and len(one_line(scope, link)) > 0.5 * len(text):
                text = _line_of_name(scope, link)
            if 2 <= len(text) <= MAX_TITLE and not _is_personal(element):
                yield Found(text, f"element named {word}", 0.8, element)
    links = [link for link in scope.all("a") if _may_be_title(scope, link)]
    if links:
        best = max(links, key=lambda link: len(one_line(scope, link)))
        yield Found(_line_of_name(scope, best), "link", 0.7, best)
    for bold in scope.all("strong", "b", "dt", "th", "summary"):
        text = one_line(scope, bold)
        if 2 <= len(text) <= MAX_BOLD:
            yield Found(text, f"element {bold.tag}", 0.5, bold)
    for line in scope.lines[:2]:
        if 2 <= len(line.text) <= MAX_BOLD and not values.PRICE.fullmatch(line.text):
            yield Found(line.text, "first line", 0.35, line.block)


def _may_be_title(scope: Scope, link: Any) -> bool:
    href = link.get("href")
    text = one_line(scope, link)
    return bool(text and href and not _BUTTON.match(text) and not is_profile(href))


def _line_of_name(scope: Scope, element: Any) -> str:
    """Return the line of an element that is most like a name: no number, no price."""
    start, end = scope.reading.span(element)
    if end - start <= 1:
        text = one_line(scope, element)
        return text if _LETTERS.search(text) else ""
    texts = [
        line.text
        for line in scope.reading.lines[start:end]
        if _LETTERS.search(line.text)
        and not values.PRICE.search(line.text)
        and not _BUTTON.match(line.text)
    ]
    return max(texts, key=len, default="")


def _is_personal(element: Any) -> bool:
    names = words_of((element.get("class") or "").replace("-", " "))
    return not _PERSONAL.isdisjoint(names)


def brands(scope: Scope) -> Iterator[Found]:
    """Yield short texts that the title has, too, as makers are shown beside products.

    On a whole page they have to begin the title, and to be a link or a heading behind it.
    """
    title = next(titles(scope), None)
    lines = scope.lines
    if scope.is_page:
        heading = main_heading(scope)
        if heading is None:
            return
        title = Found(one_line(scope, heading), "heading", 0.9, heading)
        start = scope.reading.span(heading)[1]
        lines = [
            line
            for line in lines[start : start + BRAND_LINES]
            if line.heading or line.parts[0][1].tag == "a"
        ]
    if title is None:
        return
    folded = f" {' '.join(words_of(title.text))} "
    for line in lines:
        words = words_of(line.text)
        named = f" {' '.join(words)} "
        if not 0 < len(words) <= 3 or len(line.text) < 3 or named == folded:
            continue
        fits = folded.startswith(named) if scope.is_page else named in folded
        if fits and not line.text.isdigit():
            yield Found(line.text, "text that the title has, too", 0.5, line.block)


def located(scope: Scope) -> Iterator[Found]:
    """Yield the place of a record: elements named for it."""
    for word in _PLACES:
        for element in scope.named((word,)):
            text = one_line(scope, element)
            if 1 < len(text) <= MAX_BOLD and _LETTERS.search(text):
                yield Found(text, f"element named {word}", 0.72, element)
