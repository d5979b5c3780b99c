"""Prices, and whether something is to be had."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.fields.concepts import words_of
from scraper_service.content.structured_data.sources.places.around import (
    is_foreign,
    main_heading,
)
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.content.structured_data.sources.reading import Line
    from scraper_service.content.structured_data.sources.scope import Scope

NEAR_TITLE = 45  # lines behind the main heading in which a product's price stands
MAX_LINE = 300  # characters of a line with prices
MAX_NOTE = 80  # characters of a line on what is in stock
MAX_BUTTON = 40
RATIO = 5  # of a price of before to that of now, at most

_OLD = frozenset(
    "old was list regular strike compare original previous before barre crossed rrp msrp retail "
    "strikethrough through line".split()
)
_OF_PRICES = frozenset("price prices strike barre old".split())
_STRUCK = frozenset({"del", "s", "strike"})
_BEFORE = re.compile(
    r"\b(?:was|list|rrp|msrp|reg(?:ular)?|orig(?:inal)?|uvp|statt|before)\b[^.]{0,20}$"
)
_PAID = re.compile(
    r"salary|\bpay\b|per (?:year|hour|month|annum)|/\s?(?:yr|hr|year|hour|month)|\ba year\b|or more"
    r"|\d[kK]?\s*(?:-|\u2013|to)\s*[^\s\d]?\d",
    re.IGNORECASE,
)
_EMPLOYED = re.compile(
    r"full[- ]?time|part[- ]?time|contract(?:or)?|freelance|internship|temporary|permanent"
    r"|vollzeit|teilzeit|cdi|cdd|temps plein|tiempo completo",
    re.IGNORECASE,
)
_CART = re.compile(
    r"\b(?:add(?:ed)? to (?:cart|bag|basket|trolley)|buy now|in den warenkorb|ajouter au panier|"
    r"añadir al carrito|aggiungi al carrello|in winkelwagen|add to my bag|pre-?order)\b",
    re.IGNORECASE,
)


def current_price(scope: Scope) -> Iterator[Found]:
    """Yield the price to pay: not struck out, the lower one of two beside each other."""
    found = _prices(scope)
    now = [price for price, is_old in found if not is_old]
    if not now:
        return
    first = now[0]
    if (
        len(now) > 1
        and len(found) == len(now)
        and _are_beside(now[0].element, now[1].element)
    ):
        amounts = _amount(now[0]), _amount(now[1])
        if min(amounts) > 0 and max(amounts) < RATIO * min(amounts):
            first = now[amounts.index(min(amounts))]
    yield first


def old_price(scope: Scope) -> Iterator[Found]:
    """Yield the price of before, which is above that of now."""
    found = _prices(scope)
    current = next(current_price(scope), None)
    if current is None:
        return
    least = _amount(current)
    for price, is_old in found:
        amount = _amount(price)
        near = is_old or _are_beside(price.element, current.element)
        if near and least < amount < RATIO * least:
            yield price
            return


def _prices(scope: Scope) -> list[tuple[Found, bool]]:
    """Return prices in the order of the page, and whether each is one of before.

    Of a whole page what stands right behind its main heading, where things are sold.
    """
    found = [pair for line in scope.lines for pair in _prices_of(line)]
    if not scope.is_page:
        return found
    title = main_heading(scope)
    if title is None or not found or not sells(scope):
        return []
    start = scope.reading.span(title)[0]
    first_line = scope.reading.first_line
    return [
        (price, is_old)
        for price, is_old in found
        if start <= first_line.get(price.element, -1) <= start + NEAR_TITLE
        and not is_foreign(price.element)
    ]


def _prices_of(line: Line) -> Iterator[tuple[Found, bool]]:
    if not line.has_digits or len(line.text) > MAX_LINE:
        return
    start = 0
    for match in values.PRICE.finditer(line.text):
        before = line.text[start : match.start()].lower()
        start = match.end()
        element = _element_at(line, match[0])
        is_old = _is_old(element) or _BEFORE.search(before) is not None
        yield Found(match[0], "text with a price", 0.7, element), is_old


def _element_at(line: Line, text: str) -> Any:
    for part, element in line.parts:
        if text in " ".join(part.split()):
            return element
    return line.parts[0][1]


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


def _amount(found: Found) -> float:
    price = values.price_of(found.text)
    return float(price[0]) if price else 0.0


def _are_beside(one: Any, other: Any) -> bool:
    above = [one, *one.iterancestors()][:4]
    return any(element in above for element in [other, *other.iterancestors()][:4])


def sells(scope: Scope) -> bool:
    """Tell whether something can be put into a cart."""
    texts: Iterable[str] = (
        line.text for line in scope.lines if len(line.text) < MAX_NOTE
    )
    if any(_CART.search(text) for text in texts):
        return True
    return any(_CART.search(e.get("value") or "") for e in scope.all("input", "button"))


def salaries(scope: Scope) -> Iterator[Found]:
    """Yield lines with what a job pays: a price with a range, a period or its name."""
    for line in scope.lines:
        is_paid = values.PRICE.search(line.text) and _PAID.search(line.text)
        if len(line.text) <= MAX_NOTE and is_paid:
            yield Found(line.text, "text with a salary", 0.65, line.block)


def job_types(scope: Scope) -> Iterator[Found]:
    """Yield how one is employed, where a line says nothing else."""
    for line in scope.lines:
        if _EMPLOYED.fullmatch(line.text.strip()):
            yield Found(line.text, "text", 0.65, line.block)


def stock(scope: Scope) -> Iterator[Found]:
    """Yield texts that tell whether something is to be had."""
    lines = scope.lines
    if scope.is_page:
        title = main_heading(scope)
        start = scope.reading.span(title)[0] if title is not None else 0
        lines = [
            n for n in lines[start : start + NEAR_TITLE] if not is_foreign(n.block)
        ]
    for line in lines:
        told = len(line.text) <= MAX_NOTE and values.stock_of(line.text) is not None
        if told and not _CART.search(line.text):
            yield Found(line.text, "text", 0.7, line.block)
    for line in lines:
        if len(line.text) <= MAX_BUTTON and _CART.search(line.text):
            yield Found("in stock", f'button "{line.text}"', 0.5, line.block)
