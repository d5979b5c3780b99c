"""Parsers for values as pages write them, and their conversion to a field's type.

Values are numbers, prices, durations, ratings, dates and the like.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import re2
from attrs import frozen
from price_parser import Price
from price_parser.parser import parse_number

from scraper_service.content.metadata.dates import iso_date
from scraper_service.content.page_urls import absolute
from scraper_service.content.structured_data.nodes import text_of_markup
from scraper_service.content.structured_data.requested_fields import (
    LINK_FORMATS,
    UNITS,
    singular,
)

if TYPE_CHECKING:
    from decimal import Decimal

    from scraper_service.content.structured_data.requested_fields import RequestedField
    from scraper_service.options.json_schema import Field

#: Space between the numbers of two elements. Unlike other spaces it ends a number.
GAP = "\u2004"
MAX_TEXT = 400  # characters of a text that are searched for a value
MAX_NAME = 80  # characters of a person's name
MAX_NAME_WORDS = 8

_NUMBER = re.compile(
    r"(?<![\w.,])(?P<number>[-\u2212+]?(?:\d{1,3}(?:[,.\u00a0\u202f' ]\d{3})+|\d+)"
    r"(?:[.,]\d+)?)(?!\d)\s?(?P<unit>[kKmMbB](?!\w)|million|billion|thousand)?"
)
_SCALES = {"k": 1e3, "t": 1e3, "m": 1e6, "b": 1e9}  # by the first letter of the unit
# Bounded: pages may be long rows of numbers. Groups of an amount have the same mark.
_GROUPS = "|".join(
    rf"\d{{1,3}}(?:{mark}\d{{3}}){{1,6}}(?!\d)"
    for mark in (r",(?:\d\d,)*", r"\.", "'", "[\u00a0\u202f ]")
)
_AMOUNT = rf"(?<!\d)(?:{_GROUPS}|\d{{1,18}})(?:[.,]\d{{1,9}}(?!\d)|[.,]-)?"
SYMBOL = (
    r"(?:(?:US|CA|AU|NZ|C|A|R|HK|S)?\$|[€£¥₹₽₩₺₪₫฿₴]|zł|Kč|\bkr\b\.?|\bCHF\b|\bRs\.?"
    r"|\b(?:USD|EUR|GBP|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|JPY|INR|BRL|ZAR|SGD|HKD|BGN)\b)"
)
PRICE = re.compile(
    rf"(?:{SYMBOL}\s?{_AMOUNT}(?:\s?(?:USD|CAD|AUD|NZD)\b)?|{_AMOUNT}\s?{SYMBOL})(?!\d)"
)
_QUANTITY = re.compile(
    rf"(?<![.,/\u2212-])(?P<number>{_AMOUNT})\s?(?P<unit>[^\W\d_]+)(?![\w/])"
)
# The text before an amount that is a part of a range, dimensions or a compound.
_JOINED = re.compile(
    r"\d\s*(?:x|by|to|[a-z'\u2032]+[\s,]*|[^\w\s(/])\s*$", re.IGNORECASE
)
_UNCLEAR = re.compile(r"[1-9]\d{0,2}\.\d{3}")  # thousands or decimals
_FIRST_AMOUNT = re.compile(_AMOUNT)
_EURO_CENTS = re.compile(r"(?<=\d)([€£$])(\d\d)(?!\d)")  # 19€99
EMAIL = re.compile(r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,6}[A-Za-z]{2,24}(?![\w@])")
PHONE = re.compile(
    r"(?<![\w./-])(?:\+\d{1,3}[\s.\-\u2011]?)?(?:\(\d{1,5}\)[\s.\-\u2011]?)?"
    r"\d{1,5}(?:[\s.\-\u2011/]\d{2,5}){1,5}(?![\w/-])"
)
_DATE_LIKE = re.compile(
    r"^(?:19|20)\d\d[-./]\d|\d[-./](?:19|20)\d\d$|^(?:19|20)\d\d[\s-]+(?:19|20)\d\d$"
)
_YEAR = re.compile(r"(?<!\d)(?:1[0-9]|20)\d\d(?!\d)")
_ISO_DURATION = re.compile(r"P[\dWDTHMS.]+", re.IGNORECASE)
_DURATION = re.compile(
    r"(?P<n>\d+(?:[.,]\d+)?)\s*(?:[-\u2013]\s*\d+\s*)?(?P<unit>seconds?|secs?|s|minutes?|mins?|m|"
    r"hours?|hrs?|h|days?|d|weeks?|wks?|w|months?|years?|yrs?)\b",
    re.IGNORECASE,
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "mo": 2629800}
_SECONDS["y"] = 31557600
_RATING = re.compile(
    r"(?P<value>\d(?:[.,]\d{1,2})?|10(?:[.,]0)?)\s*(?:/|out of|of|stars?|★|⭐)",
    re.IGNORECASE,
)
_SIGNS = dict(
    pair.split("=")
    for pair in (
        "€=EUR £=GBP ¥=JPY ₹=INR ₽=RUB ₩=KRW ₺=TRY ₪=ILS ₫=VND ฿=THB ₴=UAH zł=PLN Kč=CZK "
        "Rs=INR US$=USD CA$=CAD C$=CAD AU$=AUD A$=AUD NZ$=NZD R$=BRL HK$=HKD S$=SGD"
    ).split()
)
# Currencies of ambiguous signs by the top-level domain of the site.
_DOLLARS = {"au": "AUD", "ca": "CAD", "nz": "NZD", "sg": "SGD", "hk": "HKD"}
_CROWNS = {"se": "SEK", "no": "NOK", "dk": "DKK", "is": "ISK"}
_FLAGS = {
    **dict.fromkeys("yes true y available ✓ ✔ ☑ included 1".split(), True),
    **dict.fromkeys("no false n unavailable none ✗ ✘ ☒ 0".split(), False),
}
_OUT = re.compile(
    r"out\s*-?_?of\s*-?_?stock|sold\s*-?_?out|unavailable|not available|discontinued|"
    r"no longer available|not in stock|\boos\b|"
    r"available (?:again )?(?:in (?:about |approx\. )?\d|from|soon|later|on \d)|"
    r"\bausverkauft|nicht (?:vorrätig|lieferbar|verfügbar|auf lager)|\bvergriffen\b|"
    r"\b(?:épuisée?|rupture de stock|agotad[oa]|sin existencias|esaurit[oa]|esgotad[oa]|"
    r"uitverkocht)\b",
    re.IGNORECASE,
)
# Texts about other locations, and offers to tell of a later stock.
_NO_STOCK = re.compile(
    r"(?:notify|e-?mail|tell|remind|alert) me|available (?:for|at|as|to|with|by)\b",
    re.IGNORECASE,
)
_IN = re.compile(
    r"in\s*-?_?stock|available|auf lager|vorrätig|lieferbar|en stock|disponible|disponibile|"
    r"add to (?:cart|bag|basket)|buy now|instoreonly|onlineonly|"
    r"limitedavailability|pre-?(?:order|sale)|back-?order|madetoorder|reserved",
    re.IGNORECASE,
)
BY = re.compile(
    r"^(?:(?:written|posted|asked|answered|started|submitted|published|created|recipe|story|words|"
    r"article|text|photos?) )?(?:by|via)\b[:\s]\s*(?P<name>.+)$",
    re.IGNORECASE,
)
_BEHIND = re.compile(r"\s[|·•»]\s|\n|,? on behalf of\b|, for the\b|\s\(")
DATE = re.compile(
    r"\b(?:19|20)\d\d\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep"
    r"|oct|nov|dec)[a-z]*\.? \d{1,2}\b",
    re.IGNORECASE,
)
_NO_NAME = re.compile(
    r"(?:view|see|reply|follow|login|sign|original poster|topic author|about|all|more|posts?|"
    r"joined|author|sold|read|share|comments?|guest|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.IGNORECASE,
)
AGO = re.compile(
    r"\b(?:an?|\d+)\+?\s*(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|"
    r"mo|[smhdwy])\s+ago\b|\byesterday\b|\bjust now\b|\btoday at\b|^\d{1,3}\s?(?:[smhdwy]|mo|hr|min)$",
    re.IGNORECASE,
)
# The date after the name in a byline.
_DATED = re.compile(
    r"(?:\s+(?:on|at)|\s*[,·|»@\u2013—-])\s+(?:[a-z]{3,9},?\s+)?"
    r"(?:\d{1,2}(?:st|nd|rd|th)?\s+[a-z]{3,9},?\s+)?"
    rf"(?:{DATE.pattern}|{AGO.pattern}).*",
    re.IGNORECASE | re.DOTALL,
)
MAX_RATING = 10  # default maximum of a rating; 0 counts as no rating
MAX_NUMBER = 12  # characters of a text that is only a number
MAX_PHONE = 40  # characters of a text that is only a phone number or a price
MAX_STRING = 20_000  # characters
_TIME = re.compile(r"\b(\d{1,2}):(\d\d)(?::(\d\d))?\s*([ap])?\.?m?\b", re.IGNORECASE)
_PER = {"hour": 3600, "min": 60, "sec": 1, "day": 86400, "week": 604800}
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


def number_of(text: str) -> float | int | None:
    """Return the first number of a text, None without a number.

    Whole numbers are integers; ``1.2k`` is 1200.
    """
    match = _NUMBER.search(text[:MAX_TEXT])
    if match is None:
        return None
    written = re.sub(r"[^\d.,-]", "", match["number"].replace("\u2212", "-"))
    separator = "." if re.match(r"-?0\.", written) else None
    unit = (match["unit"] or " ")[0].lower()
    return _whole(parse_number(written, separator), _SCALES.get(unit, 1))


def price_of(text: str, host: str = "") -> tuple[float | int, str] | None:
    """Return amount and currency of the first price, None without a price.

    The currency is an ISO 4217 code, empty if unknown.
    """
    match = PRICE.search(_EURO_CENTS.sub(r".\2\1", text[:MAX_TEXT]))
    return amount_of(match[0], host) if match else None


def amount_of(text: str, host: str = "") -> tuple[float | int, str] | None:
    """Return amount and currency of a text that is a price with or without a sign."""
    match = _FIRST_AMOUNT.search(text[:MAX_TEXT])
    found = _whole(Price.fromstring(match[0] if match else text[:MAX_TEXT]).amount)
    return None if found is None else (found, currency_of(text, host))


def currency_of(text: str, host: str = "") -> str:
    """Return the ISO 4217 code of the currency in a text, empty if unknown.

    A bare dollar is the dollar of the host's country, by default the US dollar.
    Without a host it is unknown.
    """
    sign = (Price.fromstring(text[:MAX_TEXT]).currency or "").rstrip(".")
    country = host.rsplit(".", 1)[-1]
    if sign == "$":
        return _DOLLARS.get(country, "USD") if host else ""
    if sign == "kr":
        return _CROWNS.get(country, "")
    return sign if re.fullmatch(r"[A-Z]{3}", sign) else _SIGNS.get(sign, "")


def amount_in(text: str, unit: str, *, is_stated: bool) -> float | int | None:
    """Return the only amount of a text in a unit.

    Ranges, dimensions and compounds such as ``5 ft 4 in`` have none. A number without
    a unit counts if its label states the unit: ``is_stated``.
    """
    text = text[:MAX_TEXT].strip()
    amounts = _FIRST_AMOUNT.findall(text)
    if is_stated and len(amounts) == 1 and not re.search(r"[^\W\d_]", text):
        return number_of(text)
    found = [
        match["number"]
        for match in _QUANTITY.finditer(text)
        if UNITS.get(singular(match["unit"].lower())) == UNITS[unit]
        and not _JOINED.search(text[: match.start()])
    ]
    is_clear = len(found) == 1 and not _UNCLEAR.fullmatch(found[0])
    return number_of(found[0]) if is_clear else None


def rating_of(text: str) -> float | int | None:
    """Return the rating in ``4.5 out of 5``, ``4,5/5``, ``4.5 stars`` or a bare number."""
    match = _RATING.search(text[:MAX_TEXT])
    if match is None:
        match = re.fullmatch(r"\s*(?P<value>\d{1,2}(?:[.,]\d{1,2})?)\s*", text)
    return number_of(match["value"]) if match else None


def seconds_of(text: str) -> int | None:
    """Return the seconds of a duration in ISO 8601 or in words."""
    text = text.strip()[:MAX_TEXT]
    if _ISO_DURATION.fullmatch(text):
        text = " ".join(re.findall(r"\d+[WDHMS]", text.upper()))
    total, end = 0.0, None
    for match in _DURATION.finditer(text):
        if end is not None and match.start() - end > 6:
            break  # start of another duration
        unit = match["unit"].lower()
        size = _SECONDS["mo" if unit.startswith("mo") else unit[0]]
        total += float(match["n"].replace(",", ".")) * size
        end = match.end()
    return int(total) or None if math.isfinite(total) else None


def duration_text(text: str) -> str:
    """Return ``PT1H30M`` as ``1 hour 30 minutes``, other texts with single spaces."""
    if not _ISO_DURATION.fullmatch(text.strip()):
        return " ".join(text.split())
    seconds = seconds_of(text) or 0
    parts = []
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    return " ".join(parts)


def stock_of(text: str) -> bool | None:
    """Return whether a text states that something is in stock, None without such words.

    The names of schema.org/ItemAvailability count as words.
    """
    if _NO_STOCK.search(text[:MAX_TEXT]):
        return None
    if _OUT.search(text[:MAX_TEXT]):
        return False
    return True if _IN.search(text[:MAX_TEXT]) else None


def flag_of(text: str) -> bool | None:
    """Return the boolean of a text that starts with a word such as yes, no or a tick."""
    words = text.lower().replace(",", " ").split()
    return _FLAGS.get(words[0].strip(".!")) if words else None


def email_of(text: str) -> str | None:
    match = EMAIL.search(text.removeprefix("mailto:")[:2000])
    return match[0].rstrip(".") if match else None


def phone_of(text: str) -> str | None:
    """Return the first phone number of a text as the text writes it."""
    for match in PHONE.finditer(text[:2000]):
        digits = re.sub(r"\D", "", match[0])
        if 7 <= len(digits) <= 15 and not _DATE_LIKE.search(match[0]):
            return match[0].strip()
    return None


def year_of(text: str) -> int | None:
    match = _YEAR.search(text[:MAX_TEXT])
    return int(match[0]) if match else None


def person_of(text: str) -> str:
    """Return the name in a byline, an empty string if the text contains no name."""
    if match := BY.match(text):
        text = _DATED.sub("", match["name"])
    text = re.sub(r"^author\b[:\s]+", "", text, flags=re.IGNORECASE)
    text = _BEHIND.split(text)[0].strip(" ,:·|-\u2013@")
    is_short = 1 < len(text) <= MAX_NAME and len(text.split()) <= MAX_NAME_WORDS
    is_name = is_short and "://" not in text and re.search(r"[^\W\d_]", text)
    if not is_name or any(p.search(text) for p in (AGO, DATE)) or _NO_NAME.match(text):
        return ""
    return text


def enum_of(choices: tuple[Any, ...], text: str) -> Any | None:
    """Return the choice that a text names, None without a match.

    An equal choice comes first, then the longest choice inside the text, then a choice
    with the same meaning about stock. Letter case, spaces and punctuation do not
    matter.
    """
    folded = {choice: f" {_fold(str(choice))} " for choice in choices}
    whole = f" {_fold(text)} "
    inside = [choice for choice, own in folded.items() if own.strip() and own in whole]
    if inside:
        return max(inside, key=lambda choice: len(folded[choice]))
    stock = stock_of(text) if len(whole.split()) <= 6 else None
    for choice, own in folded.items():
        if own.replace(" ", "") == whole.replace(" ", "") or (
            stock is not None and stock_of(own) is stock
        ):
            return choice
    return None


def _fold(text: str) -> str:
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.rsplit("schema.org/", 1)[-1])
    return " ".join(re.findall(r"[^\W_]+", split.lower()))


def _whole(value: Decimal | None, scale: float = 1) -> float | int | None:
    """Return a number as an integer if it is whole, None if it is not finite."""
    number = float(value) * scale if value is not None else math.nan
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) else round(number, 6)


def fits_number(field: Field, number: float) -> bool:
    """Return True if a number has the type of a field, and keeps its limits."""
    low, high = field.minimum, field.maximum
    is_typed = field.kind != "integer" or isinstance(number, int)
    is_within = (low is None or number >= low) and (high is None or number <= high)
    return is_typed and is_within


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
            return enum_of(field.enum, text)
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
            found = amount_in(text, unit, is_stated=has_unit)
        else:
            found = self._amount(requested, text)
        return found if found is not None and fits_number(field, found) else None

    def _amount(self, requested: RequestedField, text: str) -> float | int | None:
        shape, currency = requested.shape, requested.unit.upper()
        if currency and any(
            currency_of(part, self.host) not in {"", currency}
            for part in (text, *PRICE.findall(text[:MAX_TEXT]))
        ):
            return None
        if shape in {"price", "salary"}:
            found = price_of(text, self.host)
            if found is None and len(text) <= MAX_PHONE and re.search(r"\d", text):
                found = amount_of(text, self.host)
            return found[0] if found else None
        if shape == "rating":
            read = rating_of if len(text) > MAX_NUMBER else number_of
            rating = read(text)
            most = requested.field.maximum or MAX_RATING
            return rating if rating and rating <= most else None
        if shape == "duration" and (seconds := seconds_of(text)) is not None:
            words = f"{requested.name} {requested.field.description}".lower()
            found_s = seconds / next((s for n, s in _PER.items() if n in words), 60)
            return int(found_s) if found_s == int(found_s) else round(found_s, 2)
        if shape in {"date", "year"}:
            return year_of(text)
        if len(text) > (MAX_NUMBER if shape == "duration" else MAX_TEXT // 2):
            return None
        return float(text) if re.fullmatch(r"\.\d+", text) else number_of(text)

    @staticmethod
    def _flag(requested: RequestedField, text: str) -> bool | None:
        if requested.shape == "stock" and (found := stock_of(text)) is not None:
            return found
        return flag_of(text)

    def _string(self, requested: RequestedField, text: str) -> str | None:
        shape, form = requested.shape, requested.field.format
        if form in LINK_FORMATS or shape in {"url", "image"}:
            return self._url(text)
        if form in {"date", "date-time"}:
            return self._date(text, form)
        if form == "email" or shape == "email":
            return email_of(text)
        text = text_of_markup(text)
        if shape == "currency":
            is_code = re.fullmatch(r"[A-Za-z]{3}", text)
            return text.upper() if is_code else currency_of(text, self.host)
        if shape == "phone":
            is_bare = len(text) <= MAX_PHONE and any(map(str.isdigit, text))
            return text if is_bare else phone_of(text)
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
    if shape == "person":
        return person_of(text)
    if shape == "duration":
        return duration_text(text)
    if shape == "stock" or (shape == "word" and "schema.org/" in text):
        name = text.rsplit("/", 1)[-1].removesuffix("Condition")
        text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return " ".join(text.split()) if shape in _ONE_LINE else text
