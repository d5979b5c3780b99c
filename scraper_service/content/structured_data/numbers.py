"""Prices, availability, salaries, ratings, ranks and counts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.requested_fields import singular, words_of
from scraper_service.content.structured_data.scope import (
    Candidate,
    is_foreign,
    main_heading,
    one_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.reading import TextLine
    from scraper_service.content.structured_data.scope import Scope

NEAR_TITLE = 45  # lines after the main heading that may hold the product's price
MAX_LINE = 300  # characters of a line with prices
MAX_TEXT = 200  # characters of a text with a count or a rating
MAX_NOTE = 80  # characters of a line about stock or pay
MAX_BUTTON = 40
RATIO = 5  # highest ratio of the old price to the current price
RANK_LINES = 3

_OLD = frozenset(
    "old was list regular strike compare original previous before crossed rrp msrp retail "
    "strikethrough through line".split()
)
_OF_PRICES = frozenset("price prices strike old".split())
_STRUCK = frozenset({"del", "s", "strike"})
_BEFORE = re.compile(
    r"\b(?:was|list|rrp|msrp|reg(?:ular)?|orig(?:inal)?|before)\b[^.]{0,20}$"
)
_PAID = re.compile(
    r"salary|\bpay\b|per (?:year|hour|month|annum)|/\s?(?:yr|hr|year|hour|month)|\ba year\b|or more"
    r"|\d[kK]?\s*(?:-|\u2013|to)\s*[^\s\d]?\d",
    re.IGNORECASE,
)
_EMPLOYED = re.compile(
    r"full[- ]?time|part[- ]?time|contract(?:or)?|freelance|internship|temporary|permanent",
    re.IGNORECASE,
)
_CART = re.compile(
    r"\b(?:add(?:ed)? to (?:my )?(?:cart|bag|basket|trolley)|buy now|pre-?order)\b",
    re.IGNORECASE,
)
_REVIEWS = re.compile(
    r"(?P<n>\d[\d.,\u00a0]*[kKmM]?)\+?\s*(?:customer |verified |user |global )?"
    r"(?:reviews?|ratings?|votes?)\b|\((?P<m>\d[\d,]*[kK]?)\)",
    re.IGNORECASE,
)
_NUMBER = r"(\d(?:[.,]\d{1,2})?)"
_STARS = re.compile(
    rf"{_NUMBER}\s*(?:/\s*(?:5|10)\b|out of (?:5|10)\b|of 5\b|stars?\b|avg rating"
    rf"|average rating|★|from [\d.,]+ (?:votes?|ratings?|reviews?)\b)"
    rf"|rating of {_NUMBER}|rated {_NUMBER}",
    re.IGNORECASE,
)
_RATED = re.compile(
    r"star|rating|rated|review|vote|★|avg|average|score|out of 5", re.IGNORECASE
)
_RATE_IT = re.compile(r"\s*rate\b", re.IGNORECASE)  # a control that asks for a rating
_CONTROLS = frozenset({"input", "label", "select", "option", "textarea"})
# Words in the names of elements with an end of the scale of ratings.
_ENDS = frozenset("max maximum min minimum best worst".split())
_READING = re.compile(
    r"(\d{1,3}[ -]?min(?:ute)?s?)\.?\s*(?:to )?read(?:ing)?\b", re.IGNORECASE
)
_RANK = re.compile(r"^\s*#?(\d{1,5})[.)]?\s*$")
_COUNT = re.compile(r"[-+]?\d[\d.,]*[kK]?")


def current_price(scope: Scope) -> Iterator[Candidate]:
    """Yield the current price: the first price that is not an old price.

    Of two adjacent prices without an old price, the lower price is the current price.
    """
    found = _prices(scope)
    now = [price for price, is_old in found if not is_old][:2]
    if len(now) == 2 and not any(is_old for _, is_old in found):
        one, other = now
        if _are_beside(one.element, other.element) and (
            _amount(one) / RATIO < _amount(other) < _amount(one)
        ):
            now = [other]
    yield from now[:1]


def old_price(scope: Scope) -> Iterator[Candidate]:
    """Yield the price before the discount, which is above the current price."""
    for current in current_price(scope):
        least = _amount(current)
        for price, is_old in _prices(scope):
            near = is_old or _are_beside(price.element, current.element)
            if near and least < _amount(price) < RATIO * least:
                yield price
                return


def _prices(scope: Scope) -> list[tuple[Candidate, bool]]:
    """Return prices in document order, each with True if it is an old price.

    On a whole page, these are the prices after the main heading of an item for sale.
    """
    lines = _lines_near_title(scope)
    if scope.is_page and (main_heading(scope) is None or not has_cart_button(scope)):
        return []
    return [pair for line in lines for pair in _prices_of(line)]


def _lines_near_title(scope: Scope) -> list[TextLine]:
    """Return the lines of a record, or the lines of a page after its heading."""
    if not scope.is_page:
        return scope.lines
    start = scope.reading.span(main_heading(scope))[0]
    lines = scope.lines[start : start + NEAR_TITLE]
    return [line for line in lines if not is_foreign(line.block)]


def _prices_of(line: TextLine) -> Iterator[tuple[Candidate, bool]]:
    start = 0
    has_price = line.has_digits and len(line.text) <= MAX_LINE
    for match in values.PRICE.finditer(line.text) if has_price else ():
        before = line.text[start : match.start()].lower()
        start = match.end()
        holders = (e for part, e in line.parts if match[0] in " ".join(part.split()))
        element = next(holders, line.parts[0][1])
        is_old = _is_old(element) or _BEFORE.search(before) is not None
        yield Candidate(match[0], "text with a price", 0.7, element), is_old


def _is_old(element: Any) -> bool:
    for place, parent in enumerate((element, *element.iterancestors())):
        if parent.tag in _STRUCK:
            return True
        if place > 2 or parent.tag in {"li", "body"}:
            return False
        names = set(words_of((parent.get("class") or "").replace("-", " ")[:MAX_LINE]))
        if names & _OLD and names & _OF_PRICES:
            return True
    return False


def _amount(found: Candidate) -> float:
    price = values.price_of(found.text)
    return float(price[0]) if price else 0.0


def _are_beside(one: Any, other: Any) -> bool:
    above = [one, *one.iterancestors()][:4]
    return any(element in above for element in [other, *other.iterancestors()][:4])


def has_cart_button(scope: Scope) -> bool:
    """Return True if a text or a button offers to add something to a cart."""
    texts = [line.text for line in scope.lines if len(line.text) < MAX_NOTE]
    texts += [e.get("value") or "" for e in scope.all("input", "button")]
    return any(map(_CART.search, texts))


def salaries(scope: Scope) -> Iterator[Candidate]:
    """Yield lines with a salary: a price with a range, a period or a word for pay."""
    for line in scope.lines:
        if len(line.text) > MAX_NOTE:
            continue
        if values.PRICE.search(line.text) and _PAID.search(line.text):
            yield Candidate(line.text, "text with a salary", 0.65, line.block)


def job_types(scope: Scope) -> Iterator[Candidate]:
    """Yield employment types from lines that hold nothing else."""
    for line in scope.lines:
        if _EMPLOYED.fullmatch(line.text):
            yield Candidate(line.text, "text", 0.65, line.block)


def stock(scope: Scope) -> Iterator[Candidate]:
    """Yield texts about availability."""
    lines = [n for n in _lines_near_title(scope) if len(n.text) <= MAX_NOTE]
    for line in lines:
        if values.stock_of(line.text) is not None and not _CART.search(line.text):
            yield Candidate(line.text, "text", 0.7, line.block)
    for line in lines:
        if len(line.text) <= MAX_BUTTON and _CART.search(line.text):
            yield Candidate("in stock", f'button "{line.text}"', 0.5, line.block)


def digit_texts(scope: Scope) -> list[tuple[str, Any]]:
    """Return texts with digits: lines, ARIA labels, titles and alternative texts.

    Labels of form controls say what a visitor may enter, and are left out.
    """
    if scope.digit_texts is None:
        scope.digit_texts = [
            (line.text, line.block)
            for line in scope.lines
            if line.has_digits and len(line.text) <= MAX_TEXT
        ]
        for element in (x for holder in scope.elements for x in holder.iter()):
            if element.tag in _CONTROLS:
                continue
            label = element.get("aria-label") or element.get("title")
            if label is None and element.tag == "img":
                label = element.get("alt")
            if label and len(label) <= MAX_TEXT and re.search(r"\d", label):
                scope.digit_texts.append((label, element))
    return scope.digit_texts


def ratings(scope: Scope) -> Iterator[Candidate]:
    """Yield ratings."""
    for text, element in digit_texts(scope):
        match = None if _RATE_IT.match(text) else _STARS.search(text)
        if match and (
            not scope.is_page or (_RATED.search(text) and not is_foreign(element))
        ):
            found = match[1] or match[2] or match[3]
            yield Candidate(found, "text with a rating", 0.7, element)


def is_end_of_scale(element: Any) -> bool:
    """Return True if an element is named as the best or the worst possible rating."""
    names = f"{element.get('class') or ''} {element.get('itemprop') or ''}"[:MAX_LINE]
    return not _ENDS.isdisjoint(words_of(names.replace("-", " ")))


def review_counts(scope: Scope) -> Iterator[Candidate]:
    """Yield the numbers of reviews or ratings."""
    for text, element in digit_texts(scope):
        match = _REVIEWS.search(text)
        if match is None or (scope.is_page and is_foreign(element)):
            continue
        if match["n"]:
            yield Candidate(match["n"], "text with a count", 0.65, element)
        elif not scope.is_page or _STARS.search(text):
            yield Candidate(match["m"], "text with a count", 0.5, element)


def counts(scope: Scope, words: tuple[str, ...]) -> Iterator[Candidate]:
    """Yield numbers before the given words, as in ``137 Steam Achievements``."""
    pattern = _count_of(words)
    for text, element in digit_texts(scope):
        for match in pattern.finditer(text):
            yield Candidate(match["n"], f'text "{match[0][:60]}"', 0.65, element)


@lru_cache(maxsize=512)
def _count_of(words: tuple[str, ...]) -> re.Pattern[str]:
    between = r"\W+(?:(?!(?:am|pm|of|to)\b)[^\W\d]+\W+)?"
    stems = (re.escape(singular(word).removesuffix("y")) for word in words)
    counted = r"\W+".join(rf"{stem}\w{{0,4}}" for stem in stems)
    number = r"(?P<n>\d[\d.,\u00a0\u202f]*\s?(?:[kKmM]\b)?)\+?"
    return re.compile(rf"{number}{between}{counted}(?!\w)", re.IGNORECASE)


def linked_counts(scope: Scope, words: frozenset[str]) -> Iterator[Candidate]:
    """Yield numbers in links whose URL ends with a word, as in ``/forks``."""
    for link in scope.all("a"):
        end = (link.get("href") or "").split("?")[0].rstrip("/").rsplit("/", 1)[-1]
        text = one_line(scope, link)
        if end.lower() in words and _COUNT.fullmatch(text):
            yield Candidate(text, f"link to {end[:40]}", 0.7, link)


def reading_times(scope: Scope) -> Iterator[Candidate]:
    """Yield reading times, as in ``6 min read``."""
    for text, element in digit_texts(scope):
        if match := _READING.search(text):
            yield Candidate(match[1], "text with a time to read", 0.7, element)


def ranks(scope: Scope) -> Iterator[Candidate]:
    """Yield the number at the start of a record."""
    for line in scope.lines[:RANK_LINES]:
        if match := _RANK.match(line.text) or _RANK.match(line.parts[0][0]):
            yield Candidate(match[1], "number at the beginning", 0.7, line.block)
