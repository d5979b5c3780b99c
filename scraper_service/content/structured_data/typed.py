"""Conversion of a page's texts to values of a field's type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import re2
from attrs import frozen

from scraper_service.content.html.page_urls import absolute
from scraper_service.content.metadata.dates import iso_date
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.nodes import text_of_markup
from scraper_service.content.structured_data.reading import GAP
from scraper_service.content.structured_data.requested_fields import UNITS

if TYPE_CHECKING:
    from scraper_service.content.structured_data.requested_fields import RequestedField

MAX_RATING = 10  # default maximum of a rating; 0 counts as no rating
MAX_NUMBER = 12  # characters of a text that is only a number
MAX_PHONE = 40  # characters of a text that is only a phone number or a price
MAX_STRING = 20_000  # characters

_TIME = re.compile(r"\b(\d{1,2}):(\d\d)(?::(\d\d))?\s*([ap])?\.?m?\b", re.IGNORECASE)
_PER = {"hour": 3600, "min": 60, "sec": 1, "day": 86400, "week": 604800}
_URL_FORMATS = frozenset({"uri", "url", "uri-reference", "iri"})
_ONE_LINE = frozenset("title name person code word place".split())
_LONGEST = {  # longest text of a shape, in characters
    **dict.fromkeys("price count rating number year code word".split(), 200),
    **dict.fromkeys(("date", "duration"), 120),
}
_NUMERIC = re.compile(r"\d|free", re.IGNORECASE)
_WRITTEN = {  # what a text of a shape must have
    **dict.fromkeys("price count rating number quantity year".split(), _NUMERIC),
    "date": re.compile(r"\d|today|yesterday|ago|tomorrow|day", re.IGNORECASE),
}
_JUNK = re.compile(r"^(?:n/?a|breadcrumb|none|null|undefined|tba|tbd)$", re.IGNORECASE)


@frozen
class Typing:
    """Converts texts to values of a field's type."""

    #: Base URL of relative links.
    base: str
    #: Host of the page, for ambiguous currency signs.
    host: str
    #: Language of the page, for dates.
    language: str

    def value(
        self,
        requested: RequestedField,
        text: str,
        *,
        is_cell: bool = False,
        has_unit: bool = True,
    ) -> Any:
        """Return a text as a value of the field's type, None if it is no such value.

        In a table cell, words such as ``none`` count as values. ``has_unit`` is true
        if the label of the text states the unit of the field.
        """
        text, field = text.strip(), requested.field
        if field.kind not in {"integer", "number"}:
            text = text.replace(GAP, " ")
        if field.kind != "boolean" and not any(map(str.isalnum, text)):
            return None
        if _JUNK.match(text) and not (is_cell and text.isalpha()):
            return None
        if field.enum:
            return values.enum_of(field.enum, text)
        if field.kind in {"integer", "number"}:
            return self._number(requested, text, has_unit)
        if field.kind == "boolean":
            return self._flag(requested, text)
        found = self._string(requested, text) if field.kind != "null" else None
        return found if found and self._fits(requested, found) else None

    def _number(
        self, requested: RequestedField, text: str, has_unit: bool
    ) -> float | int | None:
        unit, field = requested.unit, requested.field
        if unit in UNITS:
            found = values.amount_in(text, unit, is_stated=has_unit)
        else:
            found = self._amount(requested, text)
        low, high = field.minimum, field.maximum
        if (
            found is None
            or (field.kind == "integer" and not isinstance(found, int))
            or (low is not None and found < low)
            or (high is not None and found > high)
        ):
            return None
        return found

    def _amount(self, requested: RequestedField, text: str) -> float | int | None:
        shape, currency = requested.shape, requested.unit.upper()
        if currency and any(
            values.currency_of(part, self.host) not in {"", currency}
            for part in (text, *values.PRICE.findall(text[: values.MAX_TEXT]))
        ):
            return None
        if shape in {"price", "salary"}:
            found = values.price_of(text, self.host)
            if found is None and len(text) <= MAX_PHONE and re.search(r"\d", text):
                found = values.amount_of(text, self.host)
            return found[0] if found else None
        if shape == "rating":
            read = values.rating_of if len(text) > MAX_NUMBER else values.number_of
            rating = read(text)
            most = requested.field.maximum or MAX_RATING
            return rating if rating and rating <= most else None
        if shape == "duration" and (seconds := values.seconds_of(text)) is not None:
            words = f"{requested.name} {requested.field.description}".lower()
            found_s = seconds / next((s for n, s in _PER.items() if n in words), 60)
            return int(found_s) if found_s == int(found_s) else round(found_s, 2)
        if shape in {"date", "year"}:
            return values.year_of(text)
        if len(text) > (MAX_NUMBER if shape == "duration" else values.MAX_TEXT // 2):
            return None
        return float(text) if re.fullmatch(r"\.\d+", text) else values.number_of(text)

    @staticmethod
    def _flag(requested: RequestedField, text: str) -> bool | None:
        if requested.shape == "stock" and (found := values.stock_of(text)) is not None:
            return found
        return values.flag_of(text)

    def _string(self, requested: RequestedField, text: str) -> str | None:
        shape, form = requested.shape, requested.field.format
        if form in _URL_FORMATS or shape in {"url", "image"}:
            return self._url(text)
        if form in {"date", "date-time"}:
            return self._date(text, form)
        if form == "email" or shape == "email":
            return values.email_of(text)
        text = text_of_markup(text)
        if shape == "currency":
            is_code = re.fullmatch(r"[A-Za-z]{3}", text)
            return text.upper() if is_code else values.currency_of(text, self.host)
        if shape == "phone":
            is_bare = len(text) <= MAX_PHONE and any(map(str.isdigit, text))
            return text if is_bare else values.phone_of(text)
        if len(text) > _LONGEST.get(shape, MAX_STRING) or (
            shape in _WRITTEN and not _WRITTEN[shape].search(text)
        ):
            return None
        return _normalize(shape, text)[:MAX_STRING]

    def _url(self, text: str) -> str | None:
        if re.search(r"\s", text) or not re.search(r"[/?.][a-z]{2}|/", text):
            return None
        found = absolute(self.base, text)
        return found if found and found.startswith(("http://", "https://")) else None

    def _date(self, text: str, form: str) -> str | None:
        found = iso_date(text, self.language, any_year=True)
        if found is None or form == "date":
            return found and found[:10]
        if len(found) == 10 and (match := _TIME.search(text)):
            hour = int(match[1])
            if match[4]:
                hour = hour % 12 + (12 if match[4].lower() == "p" else 0)
            if hour < 24 and int(match[2]) < 60:
                return f"{found}T{hour:02}:{match[2]}:{match[3] or '00'}"
        return found

    @staticmethod
    def _fits(requested: RequestedField, text: str) -> bool:
        field = requested.field
        most = MAX_STRING if field.max_length is None else field.max_length
        if not field.min_length <= len(text) <= most:
            return False
        try:
            return not field.pattern or re2.search(field.pattern, text) is not None
        except re2.error:
            return True  # no check without a linear-time match


def _normalize(shape: str, text: str) -> str:
    """Return a text in the usual spelling of its shape."""
    if shape == "person":
        return values.person_of(text)
    if shape == "duration":
        return values.duration_text(text)
    if shape == "stock" or (shape == "word" and "schema.org/" in text):
        name = text.rsplit("/", 1)[-1].removesuffix("Condition")
        text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return " ".join(text.split()) if shape in _ONE_LINE else text
