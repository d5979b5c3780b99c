"""Candidates for one value: every place that may hold it, with how far it is trusted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import evolve

from scraper_service.content.structured_data.fields.wishes import content_of
from scraper_service.content.structured_data.matching.declared import (
    OF_MAKERS,
    of_a_node,
    of_the_page,
)
from scraper_service.content.structured_data.matching.whole_page import (
    shown_on_the_page,
)
from scraper_service.content.structured_data.sources import places
from scraper_service.content.structured_data.sources.scope import Found, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.content.structured_data.fields.wishes import Wish
    from scraper_service.content.structured_data.page import ExtractionPage
    from scraper_service.content.structured_data.sources.nodes import Node

SHORT = 120  # characters of a value that stands behind a label
MAX_NAMED = 6  # elements of one name that are looked at
MAX_OF_A_KIND = 10  # places of one kind
MAX_SECTION = 5_000  # characters
MANY = 3  # different values of a label, or numbers before a word
NEAR_LINES = 25  # of the main heading
SECTION_LINES = 40
LEAST_ALIKE = 0.6  # share of words by which a column is known

# Shapes whose values may be long, and those whose values may have several lines.
_LONG = frozenset("prose text texts address".split())
_MANY_LINES = frozenset("prose text address".split())
_GENERIC = frozenset(
    "id type key ref data text value item list name title url section".split()
)
_NAMES = frozenset("name word text person".split())
_ASKING = re.compile(
    r"(?:shop|join|view|see|visit|buy|learn|read|more|show|hide|select|choose|log|sign|add|get)\b",
    re.IGNORECASE,
)  # what links and buttons say
_RESULTS = (("products",), ("items",), ("results",), ("entries",), ("articles",))


def candidates(
    page: ExtractionPage, scope: Scope, wish: Wish, main: Node | None
) -> Iterator[Found]:
    """Yield what the value may be, the surest kinds of places first."""
    yield from _cells(scope, wish)
    own = wish.phrases[: wish.own]
    yield from _labelled(scope, wish, [phrase for phrase in own if " " in phrase])
    if scope.node is not None:
        yield from of_a_node(page.graph, scope.node, scope.name, wish, 0.93)
    elif scope.is_page:
        yield from of_the_page(page.graph, main, wish)
    yield from _labelled(scope, wish, wish.phrases)
    if scope.is_page:
        yield from shown_on_the_page(page, scope, wish, main)
        near = places.lead(scope) if wish.what in _LEADING else None
        if near is not None and not _is_of_a_shop(wish, main):
            for found in _of_a_record(near, wish):
                source = f"{found.source}, {near.name}"
                yield evolve(found, source=source, trust=found.trust - 0.12)
    elif scope.elements:
        yield from _of_a_record(scope, wish)
    if wish.shape == "url" and wish.concept is None and wish.phrases:
        for phrase in wish.phrases[: wish.own]:
            yield from places.named_links(scope, frozenset(phrase.split()))
    yield from _counted(scope, wish)
    if not (scope.is_page and _is_of_a_shop(wish, main)):
        yield from _named(scope, wish)


# What a post or an article has beside its heading.
_LEADING = frozenset(
    "author votes_count published modified replies_count views_count comments_count domain "
    "shares_count answers_count start".split()
)


def _is_of_a_shop(wish: Wish, main: Node | None) -> bool:
    """Tell whether an author is asked of a product, which is shown with its reviewers."""
    return wish.what == "author" and main is not None and main.rank == 0


def _cells(scope: Scope, wish: Wish) -> Iterator[Found]:
    """Yield the cell of the column that has the field's name, or most of its words."""
    for number, phrase in enumerate(wish.phrases if scope.cells else ()):
        if (cell := scope.cells.get(phrase)) is not None:
            trust = 0.97 if number < wish.own else 0.9
            yield scope.of(cell, f'{scope.name}, column "{phrase}"', trust)
            return
    best, most = "", 0.0
    for phrase in scope.cells:
        words = content_of(phrase)
        common = len(words & wish.content)
        share = common / max(1, min(len(words), len(wish.content)))
        if common and share >= LEAST_ALIKE and share > most:
            best, most = phrase, share
    if best:
        name = f'{scope.name}, column "{best}"'
        yield scope.of(scope.cells[best], name, 0.6 + 0.2 * most)


# -- texts ---------------------------------------------------------------------------


def _labelled(scope: Scope, wish: Wish, phrases: Sequence[str]) -> Iterator[Found]:
    own = wish.phrases[: wish.own]
    is_own_page = scope.is_page and wish.what not in OF_MAKERS
    for phrase in phrases:
        is_own = phrase in own
        if scope.is_page and wish.what == "title" and " " not in phrase:
            continue  # of something on the page, which has a title itself
        bonus = (0.06 if " " in phrase else 0.0) if is_own else -0.06
        labelled = list(scope.labelled(phrase))
        if scope.is_page and len({f.text for f in labelled}) >= MANY:
            bonus -= 0.3  # of several things that the page shows
        for found in labelled:
            text = found.text
            if is_own_page and places.is_apart(found.element):
                continue
            if wish.shape == "prose":
                if "heading" not in found.source and len(text) < SHORT:
                    continue
                text = _whole_section(scope, found)
            elif len(text) > SHORT and wish.shape not in _LONG:
                continue
            if not _is_label(wish, text):
                yield evolve(found, text=text, trust=found.trust + bonus)


def _is_label(wish: Wish, text: str) -> bool:
    """Tell whether a text is only the field's name once more, as in an empty form."""
    return (
        len(text) <= SHORT
        and " ".join(re.findall(r"[^\W_]+", text.lower())) in wish.phrases
    )


def _whole_section(scope: Scope, found: Found) -> str:
    """Return all of what stands below the heading that a value stands below."""
    if "below" not in found.source or found.element is None:
        return found.text
    start = scope.reading.span(found.element)[0]
    texts: list[str] = []
    for line in scope.reading.lines[start : start + SECTION_LINES]:
        if texts and (line.heading or line.frame):
            break
        texts.append(line.text)
    return "\n".join(texts)[:MAX_SECTION]


def _counted(scope: Scope, wish: Wish) -> Iterator[Found]:
    """Yield numbers that stand before what the field counts."""
    if wish.shape not in {"count", "number"} and not wish.counted:
        return
    names = [wish.counted] if wish.counted else []
    if wish.concept is not None and wish.concept.shape == "count":
        names += [(word,) for word in wish.concept.words if " " not in word]
    if wish.what == "results_count":
        names += _RESULTS
    near = places.lead(scope) if scope.is_page else None
    for number, words in enumerate(dict.fromkeys(names)):
        lower = 0.02 * number
        for found in places.counts(near, words) if near is not None else ():
            yield evolve(found, trust=0.93 - lower)
        if len(words) == 1 and not scope.is_page:
            plural = frozenset({words[0], f"{words[0]}s"})
            for found in places.linked_counts(scope, plural):
                yield evolve(found, trust=found.trust - lower)
        everywhere = list(places.counts(scope, words))
        if scope.is_page and len({found.text for found in everywhere}) >= MANY:
            lower += 0.2
        for found in everywhere:
            yield evolve(found, trust=found.trust - lower)
    if wish.what == "reviews_count":
        yield from places.review_counts(scope)


def _named(scope: Scope, wish: Wish) -> Iterator[Found]:
    """Yield the elements whose class or the like has the words of the field."""
    longest = 2000 if wish.shape == "prose" else SHORT
    first, last = _near_heading(scope)
    for number, phrase in enumerate(wish.phrases[: wish.own + 4]):
        words = tuple(phrase.split())
        if scope.is_page and len(words) < 2 and phrase in _GENERIC:
            continue
        trust = (0.62 if number < wish.own else 0.52) - 0.12 * scope.is_page
        for _, element in zip(range(MAX_NAMED), scope.named(words), strict=False):
            text = places.one_line(scope, element) or _alt(element)
            start, end = scope.reading.span(element)
            if end - start > 1 and wish.shape not in _MANY_LINES:
                continue
            if len(words) == 1 and not first <= start <= last:
                continue
            if not 0 < len(text) <= longest or _is_label(wish, text):
                continue
            if wish.shape in _NAMES and _ASKING.match(text):
                continue
            if wish.shape == "code" and not any(c.isdigit() for c in text):
                continue
            if not scope.is_page or not _is_framed(scope, element):
                yield Found(text, f"element named {phrase}", trust, element)


def _near_heading(scope: Scope) -> tuple[int, int]:
    """Return the lines in which names of a single word are trusted."""
    heading = places.main_heading(scope) if scope.is_page else None
    if heading is None:
        return 0, len(scope.reading.lines)
    start, end = scope.reading.span(heading)
    return start - NEAR_LINES, end + NEAR_LINES


def _alt(element: Any) -> str:
    image = next(element.iter("img"), None)
    return (image.get("alt") or "") if image is not None else ""


def _is_framed(scope: Scope, element: Any) -> bool:
    start = scope.reading.span(element)[0]
    lines = scope.reading.lines
    framed = start < len(lines) and bool(lines[start].frame)
    return framed or places.is_foreign(element)


# -- records -------------------------------------------------------------------------


def _of_a_record(scope: Scope, wish: Wish) -> Iterator[Found]:
    """Yield what a record has of a kind of value, wherever it stands in it."""
    what = wish.what
    if what in _TITLES or wish.is_subject:
        lower = 0.0 if what in _TITLES else 0.25
        for found in places.titles(scope):
            yield evolve(found, trust=found.trust - lower)
    made = _BY_CONCEPT.get(what) or _BY_SHAPE.get(wish.shape)
    if made is not None and what != "code":
        yield from made(scope)
    if what in places.PLACES:
        here = zip(range(MAX_OF_A_KIND), places.PLACES[what](scope), strict=False)
        for number, found in here:
            yield evolve(found, trust=found.trust - 0.01 * number)


def _addresses(scope: Scope) -> Iterator[Found]:
    title = next(places.titles(scope), None)
    yield from places.links(scope, title.element if title else None)


def _currencies(scope: Scope) -> Iterator[Found]:
    for found in places.current_price(scope):
        yield evolve(found, trust=0.6)


def _domains(scope: Scope) -> Iterator[Found]:
    """Yield the host that a record leads to."""
    for found in _addresses(scope):
        try:
            host = urlsplit(found.text).hostname
        except ValueError:
            continue
        if host:
            name = host.removeprefix("www.")
            yield Found(name, "address of the link", 0.6, found.element)
            return


_TITLES = frozenset({"title", "question"})
_BY_CONCEPT = {
    "author": places.persons,
    "city": places.located,
    "country": places.located,
    "currency": _currencies,
    "description": places.briefs,
    "domain": _domains,
    "site": _domains,
    "location": places.located,
    "state": places.located,
    "venue": places.located,
    "votes_count": places.votes,
}
_BY_SHAPE = {
    "date": places.dates,
    "person": places.persons,
    "prose": places.bodies,
    "url": _addresses,
}
