"""Values as pages write them: numbers, prices, times, and what else has a form."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

MAX_TEXT = 400  # characters of a text in which a number or the like is looked for

_NUMBER = re.compile(
    r"(?<![\w.,])[-\u2212+]?(?:\d{1,3}(?:[,.\u00a0\u202f' ]\d{3})+|\d+)(?:[.,]\d+)?(?![\d])"
    r"\s?(?P<unit>[kKmMbB](?![\w])|million|billion|thousand)?"
)
_SCALES = {
    "k": 1e3,
    "m": 1e6,
    "b": 1e9,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
}
_AMOUNT = r"\d(?:[\d.,\u00a0\u202f' ]*\d)?(?:[.,]-)?"
_SYMBOL = (
    r"(?:(?:US|CA|AU|NZ|C|A|R|HK|S)?\$|[€£¥₹₽₩₺₪₫฿₴]|zł|Kč|\bkr\b\.?|\bCHF\b|\bRs\.?"
    r"|\b(?:USD|EUR|GBP|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|JPY|INR|BRL|ZAR|SGD|HKD|BGN)\b)"
)
PRICE = re.compile(
    rf"(?:{_SYMBOL}\s?{_AMOUNT}(?:\s?(?:USD|CAD|AUD|NZD)\b)?|{_AMOUNT}\s?{_SYMBOL})(?![\d])"
)
EMAIL = re.compile(r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,6}[A-Za-z]{2,24}(?![\w@])")
PHONE = re.compile(
    r"(?<![\w./-])(?:\+\d{1,3}[\s.\-\u2011]?)?(?:\(\d{1,5}\)[\s.\-\u2011]?)?"
    r"\d{1,5}(?:[\s.\-\u2011/]\d{2,5}){1,5}(?![\w/-])"
)
_ISO_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:\.\d+)?S)?)?\Z",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"(?P<n>\d+(?:[.,]\d+)?)\s*(?:[-\u2013]\s*\d+\s*)?"
    r"(?P<unit>seconds?|secs?|s|minutes?|mins?|minuten|min|m|hours?|hrs?|hr|h|stunden?|std|"
    r"heures?|horas?|days?|d|tage?|jours?|weeks?|wks?|wochen?|semaines?|months?|monate?|mois|"
    r"years?|yrs?)\b",
    re.IGNORECASE,
)
_SECONDS = (
    (("sec", "s"), 1),
    (("min", "m"), 60),
    (("h", "std", "stund"), 3600),
    (("d", "tag", "jour"), 86400),
    (("w", "sem"), 604800),
    (("mo",), 2629800),
    (("y",), 31557600),
)
_RATING = re.compile(
    r"(?P<value>\d(?:[.,]\d{1,2})?|10(?:[.,]0)?)\s*"
    r"(?:/|out of|of|von|sur|de|stars?|★|⭐|sterne|étoiles)\s*(?P<best>5|10|100)?",
    re.IGNORECASE,
)
CURRENCIES = {
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "₽": "RUB",
    "₩": "KRW",
    "₺": "TRY",
    "₪": "ILS",
    "₫": "VND",
    "฿": "THB",
    "₴": "UAH",
    "zł": "PLN",
    "kč": "CZK",
    "rs": "INR",
    "rs.": "INR",
    "us$": "USD",
    "ca$": "CAD",
    "c$": "CAD",
    "au$": "AUD",
    "a$": "AUD",
    "nz$": "NZD",
    "r$": "BRL",
    "hk$": "HKD",
    "s$": "SGD",
    "chf": "CHF",
}
# What a sign that several countries have means on a site of one of them.
_DOLLARS = {
    "au": "AUD",
    "ca": "CAD",
    "nz": "NZD",
    "sg": "SGD",
    "hk": "HKD",
    "mx": "MXN",
}
_CROWNS = {"se": "SEK", "no": "NOK", "dk": "DKK", "is": "ISK"}
_YES = frozenset("yes true y ja oui si sí available ✓ ✔ ☑ included 1".split())
_NO = frozenset("no false n nein non unavailable none ✗ ✘ ☒ 0".split())
_OUT = re.compile(
    r"out\s*-?_?of\s*-?_?stock|sold\s*-?_?out|unavailable|not available|ausverkauft|épuisé|"
    r"agotado|discontinued|esaurito|rupture|nicht verfügbar|no longer available|"
    r"not in stock|uitverkocht|back\s?order",
    re.IGNORECASE,
)
_IN = re.compile(
    r"in\s*-?_?stock|available|add to (?:cart|bag|basket)|en stock|auf lager|lieferbar|"
    r"disponible|disponibile|op voorraad|instoreonly|onlineonly|limitedavailability|"
    r"preorder|pre-order",
    re.IGNORECASE,
)


def number_of(text: str) -> float | int | None:
    """Return the first number of a text, whole where it is; 1.2k is 1200."""
    match = _NUMBER.search(text[:MAX_TEXT])
    if match is None:
        return None
    written = match[0]
    unit = match["unit"]
    if unit:
        written = written[: -len(unit)]
    value = _plain_number(written.strip())
    if value is None:
        return None
    if unit:
        value *= _SCALES[unit.lower()]
    return _whole(value) if math.isfinite(value) else None


def _plain_number(written: str) -> float | None:
    """Read digits with whatever signs for thousands and decimals."""
    text = re.sub(r"[\u00a0\u202f' +]", "", written).replace("\u2212", "-")
    last = max(text.rfind("."), text.rfind(","))
    if last >= 0:
        sign = text[last]
        after = len(text) - last - 1
        other = "," if sign == "." else "."
        if other in text or after != 3 or text.lstrip("-").startswith("0"):
            if text.count(sign) == 1:
                text = text.replace(other, "").replace(sign, ".")
            else:
                text = text.replace(sign, "").replace(other, ".")
        elif text.count(sign) == 1 and sign == "." and after == 3:
            text = text.replace(".", "") if len(text.split(".")[0]) <= 3 else text
        else:
            text = text.replace(sign, "")
    try:
        return float(text)
    except ValueError:
        return None


def price_of(text: str, host: str = "") -> tuple[float | int, str] | None:
    """Return amount and currency (ISO 4217, empty if unknown) of the first price."""
    match = PRICE.search(text[:MAX_TEXT])
    return amount_of(match[0], host) if match else None


def amount_of(text: str, host: str = "") -> tuple[float | int, str] | None:
    """Return the same of a text that is known to be a price, with or without a sign."""
    from price_parser import Price  # noqa: PLC0415  # many expressions to compile

    found = Price.fromstring(text[:MAX_TEXT])
    if found.amount is None:
        return None
    amount = float(found.amount)
    if not math.isfinite(amount):
        return None
    return _whole(amount), currency_code(found.currency or "", host, text)


def currency_code(sign: str, host: str = "", text: str = "") -> str:
    """Return the code of a sign; a dollar is that of the site's country, else the US one."""
    key = sign.strip().lower().rstrip(".")
    if re.fullmatch(r"[a-z]{3}", key) and key != "rs.":
        return key.upper() if key != "kr" else ""
    if named := re.search(r"\b(USD|CAD|AUD|NZD|SGD|HKD|MXN)\b", text):
        return named[1]
    country = host.rsplit(".", 1)[-1]
    if key == "$":
        return _DOLLARS.get(country, "USD")
    if key in {"kr", "kr."}:
        return _CROWNS.get(country, "")
    return CURRENCIES.get(key, "")


def rating_of(text: str) -> float | int | None:
    """Return the rating of ``4.5 out of 5``, ``4,5/5``, ``4.5 stars`` or a bare number."""
    match = _RATING.search(text[:MAX_TEXT])
    if match:
        return _whole(float(match["value"].replace(",", ".")))
    if re.fullmatch(r"\s*\d{1,2}(?:[.,]\d{1,2})?\s*", text):
        return _whole(float(text.replace(",", ".")))
    return None


def seconds_of(text: str) -> int | None:
    """Return a duration, ISO 8601 or in words, in seconds."""
    text = text.strip()[:MAX_TEXT]
    if match := _ISO_DURATION.match(text):
        sizes = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
        found = sum(int(match[k] or 0) * size for k, size in sizes.items())
        return found or None
    total = 0.0
    end = None
    for match in _DURATION.finditer(text):
        if end is not None and match.start() - end > 6:
            break  # another duration
        total += float(match["n"].replace(",", ".")) * _unit(match["unit"].lower())
        end = match.end()
    return int(total) or None if math.isfinite(total) else None


def _unit(word: str) -> int:
    if word.startswith(("mo", "mois")):
        return 2629800
    for starts, size in _SECONDS:
        if word.startswith(starts) and not (size == 60 and word.startswith("mo")):
            return size
    return 60


def duration_text(text: str) -> str:
    """Return ``PT1H30M`` as ``1 hour 30 minutes``; other texts as they are."""
    match = _ISO_DURATION.match(text.strip())
    if match is None:
        return " ".join(text.split())
    seconds = seconds_of(text) or 0
    parts = []
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    return " ".join(parts)


def stock_of(text: str) -> bool | None:
    """Tell whether a text says that something is to be had."""
    head = text[:MAX_TEXT]
    if _OUT.search(head):
        return False
    return True if _IN.search(head) else None


def flag_of(text: str) -> bool | None:
    """Return the truth of a word such as yes, no, true or a tick."""
    word = text.strip().lower().strip(".!")
    if word in _YES:
        return True
    return False if word in _NO else None


def email_of(text: str) -> str | None:
    match = EMAIL.search(text.removeprefix("mailto:")[:2000])
    return match[0].rstrip(".") if match else None


def phone_of(text: str) -> str | None:
    """Return the first number of a phone in a text, as it is written there."""
    for match in PHONE.finditer(text[:2000]):
        digits = re.sub(r"\D", "", match[0])
        if 7 <= len(digits) <= 15 and not _DATE_LIKE.search(match[0]):
            return match[0].strip()
    return None


_DATE_LIKE = re.compile(
    r"^(?:19|20)\d\d[-./]\d|\d[-./](?:19|20)\d\d$|^(?:19|20)\d\d[\s-]+(?:19|20)\d\d$"
)


@lru_cache(maxsize=4096)
def year_of(text: str) -> int | None:
    match = re.search(r"(?<!\d)(?:1[0-9]|20)\d\d(?!\d)", text[:MAX_TEXT])
    return int(match[0]) if match else None


def enum_of(choices: tuple[Any, ...], text: str) -> Any | None:
    """Return the one of ``choices`` that a text is, or names alone among them."""
    wanted = _folded(text)
    if not wanted:
        return None
    folded = {choice: _folded(str(choice)) for choice in choices if choice != ""}
    for choice, own in folded.items():
        if own == wanted:
            return choice
    within = [c for c, own in folded.items() if own and f" {own} " in f" {wanted} "]
    longest = max(within, key=lambda c: len(folded[c]), default=None)
    if longest is not None:
        return longest
    joined = wanted.replace(" ", "")
    for choice, own in folded.items():
        if own.replace(" ", "") == joined:
            return choice
    if (known := stock_of(text)) is not None and len(wanted.split()) <= 6:
        return next(
            (c for c, own in folded.items() if own and stock_of(own) is known), None
        )
    return None


def _folded(text: str) -> str:
    text = text.rsplit("schema.org/", 1)[-1]
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return " ".join(re.findall(r"[^\W_]+", split.lower()))


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
