"""What a page as a whole shows: its title, who made it, what it sells, how to reach them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.content.metadata.linked_data import folded
from scraper_service.content.structured_data.matching.declared import SUBJECT_RANK
from scraper_service.content.structured_data.sources import places
from scraper_service.content.structured_data.sources.nodes import Node, plain
from scraper_service.content.structured_data.sources.scope import Found, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.fields.wishes import Wish
    from scraper_service.content.structured_data.page import ExtractionPage

MAX_OF_A_KIND = 10  # places of one kind
LEAD_LINES = 40  # behind the main heading in which the first paragraph stands
PARAGRAPH = 60  # characters of one, at least
LEAST_SHARED = 0.5  # of the words of a heading and of the page's title

MAX_CHANGED = 200  # characters of a line that says when a page was changed

_CHANGED = re.compile(
    r"\b(?:modified|updated|edited|reviewed|revised)(?: on)?:?\s+(\S.{0,40}?\d{4}|\d{4}-\d\d-\d\d)",
    re.IGNORECASE,
)
_LABELLED = re.compile(r"[\w# ]{1,25}:\s")
_SENTENCE = re.compile(r"[.!?\u2026](?:\s|$)|[\u3002\uff01]")
_PATH = re.compile(r"\s[>\u203a\u00bb]\s")


def shown_on_the_page(
    page: ExtractionPage, scope: Scope, wish: Wish, main: Node | None
) -> Iterator[Found]:
    """Yield what the page shows of a field, or has in its head."""
    what = wish.what
    if what == "title" or (wish.is_subject and not scope.is_titled):
        lower = 0.0 if what == "title" else 0.3
        for found in titles(page, scope, main):
            yield evolve(found, trust=found.trust - lower)
    elif what == "section" and scope.is_listing:
        for found in titles(page, scope, main):
            yield evolve(found, trust=found.trust - 0.3)
    yield from _known(page, wish)
    if what == "modified":
        yield from _changed(scope)
    if what == "description":
        yield from _first_paragraph(scope)
    rated = main is not None and "aggregateRating" in main.data
    if what in places.PLACES and not (rated and what in {"rating", "reviews_count"}):
        here = zip(range(MAX_OF_A_KIND), places.PLACES[what](scope), strict=False)
        for number, found in here:
            yield evolve(found, trust=found.trust - 0.01 * number)
    if what == "currency":
        for found in places.current_price(scope):
            yield evolve(found, trust=0.5)
    yield from _metas(page, wish)


def _known(page: ExtractionPage, wish: Wish) -> Iterator[Found]:
    """Yield what the metadata of the page has, unless it is of a product."""
    what, known = wish.what, page.known
    is_product = page.is_of_a_product  # shown with reviewers, and days of delivery
    if what == "author" and not is_product and (names := known.get("author")):
        listed = names if isinstance(names, list) else [names]
        yield Found(listed[0], "byline or meta", 0.8, None, tuple(listed))
    elif what in {"published", "modified"} and not is_product:
        if told := known.get(f"{what}_time"):
            yield Found(str(told), "metadata", 0.78)
    elif what == "url":
        address = known.get("canonical_url") or page.address
        yield Found(str(address), "address of the page", 0.5)
    elif what == "language" and (language := known.get("language")):
        yield Found(str(language), "metadata", 0.6)


def _metas(page: ExtractionPage, wish: Wish) -> Iterator[Found]:
    for name in wish.concept.metas if wish.concept else ():
        if found := page.evidence.first(name):
            trust = 0.8 if name.startswith(("product:", "book:")) else 0.68
            yield Found(found, f"meta {name}", trust)
            break
    if wish.what == "company" and (site := page.evidence.first("og:site_name")):
        yield Found(site, "meta og:site_name", 0.68)


def titles(page: ExtractionPage, scope: Scope, main: Node | None) -> Iterator[Found]:
    """Yield the name of what the page is about; a heading that is it, too, first."""
    heading = places.main_heading(scope)
    named = ""
    if main is not None and main.rank <= SUBJECT_RANK:
        named = plain(main.data.get("headline") or main.data.get("name"))
    told = [named, page.evidence.first("og:title"), page.evidence.title]
    parts = [places.longest_part(text) for text in told if text]
    shown = places.one_line(scope, heading) if heading is not None else ""
    if shown:
        is_it = not parts or max(places.shared(shown, p) for p in parts) >= LEAST_SHARED
        trust = 0.6 if _is_site(page, shown) else 0.95 if is_it else 0.78
        shown = _PATH.split(shown)[-1] or shown
        yield Found(shown, f"heading {heading.tag}", trust, heading)
    if named and main is not None:
        yield Found(named, f"{main.syntax} {main.type}.name", 0.85)
    headline = page.known.get("headline")
    if headline and headline != shown:
        yield Found(str(headline), "heading", 0.8)
    for text in parts[-1:]:
        yield Found(text, "title", 0.7)


def _is_site(page: ExtractionPage, text: str) -> bool:
    """Tell whether a heading is the name of the site."""
    name = folded(text)
    return name in page.evidence.site_names or name in page.host.split(".")[:-1]


def _changed(scope: Scope) -> Iterator[Found]:
    """Yield the day behind words such as "last modified on"."""
    for line in scope.lines:
        match = _CHANGED.search(line.text) if line.has_digits else None
        if match and len(line.text) <= MAX_CHANGED:
            yield Found(match[1], f'text "{match[0][:40]}"', 0.7, line.block)


def _first_paragraph(scope: Scope) -> Iterator[Found]:
    """Yield the first paragraph behind the main heading."""
    heading = places.main_heading(scope)
    if heading is None:
        return
    start = scope.reading.span(heading)[1]
    for line in scope.lines[start : start + LEAD_LINES]:
        text = line.text
        is_prose = len(text) >= PARAGRAPH and not _LABELLED.match(text)
        is_prose = is_prose and _SENTENCE.search(text) is not None
        if is_prose and not line.frame and not places.is_foreign(line.block):
            yield Found(line.text, "paragraph behind the heading", 0.66, line.block)
            return
