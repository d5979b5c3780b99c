"""Candidates for a single value, each with its trust."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.content.metadata.linked_data import folded
from scraper_service.content.structured_data.declared_values import (
    OF_MAKERS,
    of_a_node,
    of_the_page,
)
from scraper_service.content.structured_data.nodes import PRODUCT, SUBJECT, Node, plain
from scraper_service.content.structured_data.places import (
    BY_SHAPE,
    NAMED,
    OF_RECORDS,
    PLACES,
    contact,
    names,
    numbers,
)
from scraper_service.content.structured_data.places.around import (
    around_heading,
    heading_text,
    is_apart,
    is_foreign,
    longest_part,
    main_heading,
    named,
    one_line,
)
from scraper_service.content.structured_data.requested_fields import content_words_of
from scraper_service.content.structured_data.scope import Candidate, Scope
from scraper_service.content.structured_data.vocabulary import CURRENCIES, phrase_of
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.content.structured_data.page import ExtractionPage
    from scraper_service.content.structured_data.requested_fields import RequestedField

SHORT = 120  # characters of a value after a label
MAX_NAMED = 6  # elements with the same name that are read
MAX_OF_A_KIND = 10  # candidates of the same kind
MAX_SECTION = 5_000  # characters
MANY = 3  # different values from which on they belong to several things
NEAR_LINES = 25  # lines around the main heading
SECTION_LINES = 40
LEAST_ALIKE = 0.6  # share of words that a column and the field must have in common

# Shapes with long values, then shapes with values of several lines.
_LONG = frozenset("prose text texts address".split())
_MANY_LINES = frozenset("prose text address".split())
_GENERIC = frozenset(
    "id type key ref data text value item list name title url section".split()
)
_CALL_TO_ACTION = re.compile(
    r"(?:shop|join|view|see|visit|buy|learn|read|more|show|hide|select|choose|log|sign|add|get)\b",
    re.IGNORECASE,
)  # texts of links and buttons
_TITLES = frozenset({"title", "question"})
# Values that posts and articles show near their heading.
_NEAR_HEADING = frozenset(
    "author votes_count published modified replies_count views_count comments_count domain "
    "answers_count start".split()
)
_PATH = re.compile(r"\s[>\u203a\u00bb]\s")


def candidates(
    page: ExtractionPage, scope: Scope, requested: RequestedField, main: Node | None
) -> Iterator[Candidate]:
    """Yield the candidates for a field; the most trusted kinds of origins come first."""
    name = requested.concept_name
    yield from from_cells(scope, requested)
    own = [phrase for phrase in requested.own_phrases if " " in phrase]
    yield from _from_labels(scope, requested, own)
    if scope.node is not None:
        yield from of_a_node(page.graph, scope.node, scope.name, requested, 0.93)
    elif scope.is_page:
        yield from of_the_page(page.graph, main, requested)
    yield from _from_labels(scope, requested, requested.phrases)
    # Pages about products show reviewers instead of their author.
    is_reviewer = name == "author" and main is not None and main.rank == PRODUCT
    if scope.is_page:
        yield from _shown_on_the_page(page, scope, requested, main)
        near = around_heading(scope) if name in _NEAR_HEADING else None
        for found in _from_record(near, requested) if near and not is_reviewer else ():
            source = f"{found.source}, {near.name if near else ''}"
            yield evolve(found, source=source, trust=found.trust - 0.12)
    elif scope.elements:
        yield from _from_record(scope, requested)
    yield from _from_counts(scope, requested)
    if not (scope.is_page and is_reviewer):
        yield from _from_names(scope, requested)


def from_cells(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    """Yield the cell of the column with the field's name, or with most of its words."""
    best, most = "", 0.0
    for phrase in scope.cells:
        words = content_words_of(phrase)
        common = len(words & requested.content_words)
        share = common / max(1, min(len(words), len(requested.content_words)))
        if common and share >= LEAST_ALIKE and 0.6 + 0.2 * share > most:
            best, most = phrase, 0.6 + 0.2 * share
    for phrase in reversed(requested.phrases):
        if phrase in scope.cells:
            best, most = phrase, 0.97 if phrase in requested.own_phrases else 0.9
    if best:
        yield scope.of(scope.cells[best], f'{scope.name}, column "{best}"', most)


# -- texts ---------------------------------------------------------------------------


def _from_labels(
    scope: Scope, requested: RequestedField, phrases: Sequence[str]
) -> Iterator[Candidate]:
    """Yield the values beside labels with these phrases."""
    is_own_page = scope.is_page and requested.concept_name not in OF_MAKERS
    for phrase in phrases:
        if scope.is_page and requested.concept_name == "title" and " " not in phrase:
            continue  # the label belongs to another thing with a title
        bonus = 0.06 if " " in phrase else 0.0
        if phrase not in requested.own_phrases:
            bonus = -0.06
        values_found = list(scope.labelled_values(phrase))
        if scope.is_page and len({found.text for found in values_found}) >= MANY:
            # the label recurs for several things of the page
            bonus -= 0.6 if requested.shape == "price" else 0.3
        for found in values_found:
            text = found.text
            if not text or (is_own_page and is_apart(found.element)):
                continue
            if requested.shape == "prose" and "below" in found.source:
                text = _whole_section(scope, found)
            is_fit = len(text) <= SHORT or requested.shape in _LONG
            if requested.shape == "prose" and "heading" not in found.source:
                is_fit = len(text) >= SHORT
            if is_fit and not _is_label(requested, text):
                yield evolve(found, text=text, trust=found.trust + bonus)


def _is_label(requested: RequestedField, text: str) -> bool:
    """Return True if a text only repeats the field's name, as in an empty form."""
    return len(text) <= SHORT and phrase_of(text) in requested.phrases


def _whole_section(scope: Scope, found: Candidate) -> str:
    """Return the section of a value below a heading."""
    start = scope.reading.span(found.element)[0]
    texts: list[str] = []
    for line in scope.reading.lines[start : start + SECTION_LINES]:
        if texts and (line.heading or line.frame):
            break
        texts.append(line.text)
    return "\n".join(texts)[:MAX_SECTION]


def _from_counts(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    """Yield numbers before the words for the counted things."""
    concept = requested.concept
    things = [requested.counted] if requested.counted else []
    if concept is not None and concept.shape == "count":
        things += [(word,) for word in concept.words if " " not in word]
    if requested.concept_name == "results_count":
        things += [("products",), ("items",), ("entries",), ("articles",)]
    near = around_heading(scope) if scope.is_page and things else None
    for number, words in enumerate(dict.fromkeys(things)):
        penalty = 0.02 * number
        for found in numbers.counts(near, words) if near else ():
            yield evolve(found, trust=0.93 - penalty)
        if len(words) == 1 and not scope.is_page:
            plural = frozenset({words[0], f"{words[0]}s"})
            for found in numbers.linked_counts(scope, plural):
                yield evolve(found, trust=found.trust - penalty)
        everywhere = list(numbers.counts(scope, words))
        if scope.is_page and len({found.text for found in everywhere}) >= MANY:
            penalty += 0.2
        for found in everywhere:
            yield evolve(found, trust=found.trust - penalty)


def _from_names(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    """Yield elements whose class or id has the words of the field."""
    longest = 2000 if requested.shape == "prose" else SHORT
    first, last = 0, len(scope.reading.lines)
    if scope.is_page and (heading := main_heading(scope)) is not None:
        first, last = scope.reading.span(heading)
    for number, phrase in enumerate(requested.phrases[: requested.own_count + 4]):
        words = tuple(phrase.split())
        if scope.is_page and len(words) < 2 and phrase in _GENERIC:
            continue
        trust = (0.62 if number < requested.own_count else 0.52) - 0.12 * scope.is_page
        for element in islice(scope.elements_named(words), MAX_NAMED):
            text = one_line(scope, element)
            if not text and (image := next(element.iter("img"), None)) is not None:
                text = image.get("alt") or ""
            start, end = scope.reading.span(element)
            is_near = first - NEAR_LINES <= start <= last + NEAR_LINES
            if (
                (end - start > 1 and requested.shape not in _MANY_LINES)
                or (len(words) == 1 and not is_near)
                or not 0 < len(text) <= longest
                or _is_label(requested, text)
                or _CALL_TO_ACTION.match(text)
                or (requested.shape == "code" and not any(map(str.isdigit, text)))
                or (requested.shape == "rating" and numbers.is_end_of_scale(element))
                or (scope.is_page and is_foreign(element))
            ):
                continue
            yield Candidate(text, f"element named {phrase}", trust, element)


# -- records -------------------------------------------------------------------------


def _from_record(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    """Yield a record's values of the field's kind, wherever they stand."""
    name = requested.concept_name
    if name in _TITLES or requested.is_subject:
        penalty = 0.0 if name in _TITLES else 0.25
        for found in names.titles(scope):
            yield evolve(found, trust=found.trust - penalty)
    if requested.shape == "url" or name in {"domain", "site"}:
        title = next(names.titles(scope), None)
        links = contact.links(scope, title.element if title else None)
        yield from links if requested.shape == "url" else _domains(links)
    if generator := OF_RECORDS.get(name) or BY_SHAPE.get(requested.shape):
        yield from generator(scope)
    for found in named(scope, NAMED.get(name, ""), 0.69):
        if 0 < len(found.text) <= SHORT:
            yield found
    yield from _of_kind(scope, name)


def _of_kind(scope: Scope, name: str) -> Iterator[Candidate]:
    """Yield the values of a concept that need no label; earlier values come first."""
    found = PLACES[name](scope) if name in PLACES else ()
    for number, candidate in enumerate(islice(found, MAX_OF_A_KIND)):
        yield evolve(candidate, trust=candidate.trust - 0.01 * number)


def _domains(links: Iterator[Candidate]) -> Iterator[Candidate]:
    """Yield the host that a record links to."""
    for found in links:
        if host := url_parts(found.text).hostname:
            name = host.removeprefix("www.")
            yield Candidate(name, "address of the link", 0.6, found.element)
            return


# -- the whole page ------------------------------------------------------------------


def _shown_on_the_page(
    page: ExtractionPage, scope: Scope, requested: RequestedField, main: Node | None
) -> Iterator[Candidate]:
    """Yield the values of a field that the page shows or declares in its head."""
    name = requested.concept_name
    if name == "title" or requested.is_subject:
        penalty = 0.0 if name == "title" else 0.3
        for found in _titles(page, scope, main):
            yield evolve(found, trust=found.trust - penalty)
    yield from _from_metadata(page, name)
    rated = main is not None and "aggregateRating" in main.data
    if not rated or name not in {"rating", "reviews_count"}:
        yield from _of_kind(scope, name)
    metas = requested.concept.metas if requested.concept else ()
    for meta in metas:
        if found_text := page.evidence.first(meta):
            if requested.unit in CURRENCIES:
                found_text += " " + page.evidence.first(
                    meta.replace("amount", "currency")
                )
            trust = 0.8 if meta.startswith(("product:", "book:")) else 0.68
            yield Candidate(found_text, f"meta {meta}", trust)
            break


def _from_metadata(page: ExtractionPage, name: str) -> Iterator[Candidate]:
    """Yield values from the page's metadata.

    Product pages yield no authors and dates, because they show reviewers and delivery
    dates.
    """
    known = page.known
    if name in {"author", "published", "modified"} and not page.is_of_a_product:
        value = known.get(name if name == "author" else f"{name}_time")
        listed = value if isinstance(value, list) else [value] if value else []
        for text in listed[:1]:
            yield Candidate(str(text), "metadata", 0.8, None, tuple(map(str, listed)))
    elif name == "url":
        url = known.get("canonical_url") or page.base_url
        yield Candidate(str(url), "address of the page", 0.5)
    elif name == "language" and (language := known.get("language")):
        yield Candidate(str(language), "metadata", 0.6)


def _titles(
    page: ExtractionPage, scope: Scope, main: Node | None
) -> Iterator[Candidate]:
    """Yield titles of the page's subject, the main heading first."""
    heading, declared = main_heading(scope), ""
    if main is not None and main.rank <= SUBJECT:
        declared = plain(main.data.get("headline") or main.data.get("name"))
    shown = heading_text(scope, heading) if heading is not None else ""
    if shown:
        sites = {*page.evidence.site_names, *page.host.split(".")[:-1]}
        shown = _PATH.split(shown)[-1] or shown
        trust = 0.6 if folded(shown) in sites else 0.95
        yield Candidate(shown, f"heading {heading.tag}", trust, heading)
    if declared and main is not None:
        yield Candidate(declared, f"{main.name}.name", 0.85)
    headline = page.known.get("headline")
    if headline and headline != shown:
        yield Candidate(str(headline), "heading", 0.8)
    if title := page.evidence.title or page.evidence.first("og:title"):
        yield Candidate(longest_part(title), "title", 0.7)
