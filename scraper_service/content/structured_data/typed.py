"""Giving what was found on a page the type that a schema wants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import re2
from attrs import frozen

from scraper_service.content.html.page_urls import absolute
from scraper_service.content.metadata.dates import iso_date
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.sources.nodes import text_of_markup
from scraper_service.content.structured_data.sources.places.people import person

if TYPE_CHECKING:
    from scraper_service.content.structured_data.fields.wishes import Wish

MAX_RATING = 10  # where a schema allows no more; none is 0
MAX_NUMBER = 12  # characters of a number with nothing else
MAX_PHONE = 40  # of that of a phone, or of a price
MAX_STRING = 20_000  # characters

_TIME = re.compile(r"\b(\d{1,2}):(\d\d)(?::(\d\d))?\s*([ap])?\.?m?\b", re.IGNORECASE)
_PER = {
    "hour": 3600,
    "minute": 60,
    "min": 60,
    "second": 1,
    "sec": 1,
    "day": 86400,
    "week": 604800,
}
_ADDRESSES = frozenset({"uri", "url", "uri-reference", "iri"})
_ONE_LINE = frozenset("title name person code word place".split())
_LONGEST = {  # characters of a text that is such a value
    "price": 200,
    "count": 200,
    "rating": 200,
    "number": 200,
    "year": 200,
    "code": 200,
    "word": 200,
    "date": 120,
    "duration": 120,
}
_NUMERIC = re.compile(r"\d|free|gratis|kostenlos", re.IGNORECASE)
_TIMELY = re.compile(r"\d|today|yesterday|ago|tomorrow|day", re.IGNORECASE)
_WRITTEN = {
    **dict.fromkeys("price count rating number quantity year".split(), _NUMERIC),
    "date": _TIMELY,
}
_STOCK = re.compile(
    r"(?:https?://schema\.org/)?(InStock|OutOfStock|PreOrder|SoldOut|LimitedAvailability|"
    r"Discontinued|BackOrder|InStoreOnly|OnlineOnly|oos)",
    re.IGNORECASE,
)
_KNOWN_STOCK = {
    "instock": "In Stock",
    "outofstock": "Out of Stock",
    "oos": "Out of Stock",
}
_REMOTE = re.compile(r"remote|telecommut|anywhere", re.IGNORECASE)
_JUNK = re.compile(
    r"^(?:n/?a|breadcrumb|none|null|undefined|-+|\u2014|\u2013|\?|tba|tbd)$",
    re.IGNORECASE,
)


@frozen
class Typing:
    """Makes values of texts; ``base`` completes addresses, ``language`` reads dates."""

    base: str
    host: str
    language: str

    def value(self, wish: Wish, text: str, *, is_cell: bool = False) -> Any:
        """Return a text as the type of the field, None where it is no such value.

        The cell of a table may hold words that elsewhere stand for nothing.
        """
        text = text.strip()
        if not any(map(str.isalnum, text)):
            return None
        if _JUNK.match(text) and not (is_cell and text.isalpha()):
            return None
        wanted = wish.field
        if wanted.enum:
            return values.enum_of(wanted.enum, text)
        if wanted.kind in {"integer", "number"}:
            return self._number(wish, text)
        if wanted.kind == "boolean":
            return self._flag(wish, text)
        if wanted.kind == "null":
            return None
        found = self._string(wish, text)
        return found if found and self._fits(wish, found) else None

    def _number(self, wish: Wish, text: str) -> float | int | None:
        found = self._amount(wish, text)
        if found is None:
            return None
        if wish.field.kind == "integer" and not isinstance(found, int):
            return None
        low, high = wish.field.minimum, wish.field.maximum
        if (low is not None and found < low) or (high is not None and found > high):
            return None
        return found

    def _amount(self, wish: Wish, text: str) -> float | int | None:
        shape = wish.shape
        if shape in {"price", "salary"}:
            return self._price(text)
        if shape == "rating":
            read = values.rating_of if len(text) > MAX_NUMBER else values.number_of
            rating = read(text)
            most = wish.field.maximum or MAX_RATING
            return rating if rating and rating <= most else None
        if shape == "duration":
            return self._lasting(wish, text)
        if shape in {"date", "year"}:
            return values.year_of(text)
        if len(text) > values.MAX_TEXT // 2:
            return None
        return float(text) if re.fullmatch(r"\.\d+", text) else values.number_of(text)

    def _price(self, text: str) -> float | int | None:
        found = values.price_of(text, self.host)
        if found is None and len(text) <= MAX_PHONE and re.search(r"\d", text):
            found = values.amount_of(text, self.host)
        return found[0] if found else None

    @staticmethod
    def _lasting(wish: Wish, text: str) -> int | float | None:
        seconds = values.seconds_of(text)
        if seconds is None:
            return values.number_of(text) if len(text) <= MAX_NUMBER else None
        said = f"{wish.name} {wish.field.description}".lower()
        unit = next((size for name, size in _PER.items() if name in said), 60)
        found = seconds / unit
        return int(found) if found == int(found) else round(found, 2)

    @staticmethod
    def _flag(wish: Wish, text: str) -> bool | None:
        found = values.flag_of(text)
        if found is not None:
            return found
        if wish.shape == "stock":
            return values.stock_of(text)
        if wish.what == "remote":
            return True if _REMOTE.search(text) else None
        first = re.match(r"(yes|no|true|false|ja|nein|oui|non|sí|si)\b", text.lower())
        return values.flag_of(first[1]) if first else None

    def _string(self, wish: Wish, text: str) -> str | None:
        shape, form = wish.shape, wish.field.format
        if form in _ADDRESSES or shape in {"url", "image"}:
            return self._address(text)
        if form in {"date", "date-time"}:
            return self._moment(text, form)
        if form == "email" or shape == "email":
            return values.email_of(text)
        if "<" in text or "&" in text:
            text = text_of_markup(text)
        if shape == "currency":
            return self._currency(text)
        if shape == "phone":
            is_bare = len(text) <= MAX_PHONE and any(map(str.isdigit, text))
            return text if is_bare else values.phone_of(text)
        if len(text) > _LONGEST.get(shape, MAX_STRING) or (
            shape in _WRITTEN and not _WRITTEN[shape].search(text)
        ):
            return None
        return _spelled(shape, text)[:MAX_STRING] or None

    def _address(self, text: str) -> str | None:
        if re.search(r"\s", text.strip()) or text.startswith("data:"):
            return None
        looks = re.match(r"(?:https?:)?//|/|\.|\?", text) or re.search(
            r"\.[a-z]{2,}(?:/|$)|/", text
        )
        found = absolute(self.base, text) if looks else None
        return found if found and found.startswith(("http://", "https://")) else None

    def _moment(self, text: str, form: str) -> str | None:
        found = iso_date(text, self.language, any_year=True)
        if found is None:
            return None
        if form == "date":
            return found[:10]
        if len(found) == 10 and (match := _TIME.search(text)):
            hour = (
                int(match[1]) % 12 + (12 if match[4].lower() == "p" else 0)
                if match[4]
                else int(match[1])
            )
            if hour < 24 and int(match[2]) < 60:
                return f"{found}T{hour:02}:{match[2]}:{match[3] or '00'}"
        return found

    def _currency(self, text: str) -> str | None:
        if re.fullmatch(r"[A-Za-z]{3}", text):
            return text.upper()
        found = values.price_of(text, self.host)
        if found and found[1]:
            return found[1]
        return values.currency_code(text, self.host) or None if len(text) <= 3 else None

    @staticmethod
    def _fits(wish: Wish, text: str) -> bool:
        wanted = wish.field
        if len(text) < wanted.min_length:
            return False
        if wanted.max_length is not None and len(text) > wanted.max_length:
            return False
        if not wanted.pattern:
            return True
        try:
            return re2.search(wanted.pattern, text) is not None
        except re2.error:
            return True  # not one that can be run in linear time


def _spelled(shape: str, text: str) -> str:
    """Return a text as values of a shape are spelled."""
    if shape == "person":
        return person(text)
    if shape == "duration":
        return values.duration_text(text)
    if shape == "word" and "schema.org/" in text:
        text = _apart(text.rsplit("/", 1)[-1].removesuffix("Condition"))
    elif shape == "stock" and (match := _STOCK.fullmatch(text)):
        text = _KNOWN_STOCK.get(match[1].lower(), _apart(match[1]))
    return " ".join(text.split()) if shape in _ONE_LINE else text


def _apart(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word)
