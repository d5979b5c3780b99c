"""Parses dates as pages write them into ISO 8601, and times of files as W3C times.

W3C times (https://www.w3.org/TR/NOTE-datetime) are those of sitemaps, feeds and headers.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime

FIRST_YEAR = 1990
DAYS_AHEAD = 366  # from now; later dates are no dates of a publication
MAX_TEXT = 200  # characters that are searched

# First letters of the names of months in several languages.
_MONTHS = (
    "jan janv ene gen januar styc янв ocak",
    "feb febr févr fev fevr лют фев şub lut",
    "mar mär märz maart mars mrt mac мар mart",
    "apr avr abr kwi апр nis avril",
    "may mai mag maj mei май мая maio",
    "jun juin giu czerw июн haz",
    "jul juil lug lip июл tem",
    "aug août aout ago sie авг ağu",
    "sep sept set wrz сен eyl",
    "oct okt ott out paź окт eki",
    "nov lis ноя kas",
    "dec déc dez dic des gru дек ara",
)
_MONTH = {name: n for n, names in enumerate(_MONTHS, 1) for name in names.split()}
_DIGIT = re.compile(r"\d")
_WORD = r"(?P<word>[^\W\d_]{3,12})"
_DAY = r"(?P<d>\d{1,2})"
_YEAR = r"(?P<y>(?:19|20)\d\d)"
_ISO = re.compile(
    r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})(?!\d)"
    r"(?:[T ]+(?P<h>\d\d):(?P<min>\d\d)(?::(?P<sec>\d\d))?(?:[.,]\d+)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?"
)
_FORMS = (
    re.compile(rf"\b{_WORD}\.?\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}\b"),
    re.compile(
        rf"\b{_DAY}(?:st|nd|rd|th|er|º|\.)?[\s-]+(?:de\s+|of\s+)?{_WORD}\.?,?"
        rf"[\s-]+(?:de\s+|del\s+)?{_YEAR}\b"
    ),
    re.compile(
        r"(?P<y>\d{4})\s*[年년]\s*(?P<m>\d{1,2})\s*[月월]\s*(?P<d>\d{1,2})\s*[日일]"
    ),
    re.compile(rf"(?<![\d.])(?P<d>\d{{1,2}})\.\s?(?P<m>\d{{1,2}})\.\s?{_YEAR}\b"),
    re.compile(rf"(?<![\d/])(?P<a>\d{{1,2}})[/-](?P<b>\d{{1,2}})[/-]{_YEAR}\b"),
    re.compile(r"\A(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)(?:T?\d{4,6}Z?)?\Z"),
)
_AS_IT_IS = re.compile(
    r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?"
)
_EPOCH = re.compile(r"1[0-9]{9}(?:[0-9]{3})?")
_IN_URL = re.compile(r"/(?P<y>(?:19|20)\d\d)[/-](?P<m>\d\d?)[/-](?P<d>\d\d?)(?=\D|$)")
_W3C_TIME = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)? ?"
    r"(?:Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)


def iso_date(text: str, language: str = "", *, any_year: bool = False) -> str | None:
    """Return the first date of ``text`` in ISO 8601, with time and zone if it has them.

    ``language`` (a tag) decides whether ``1/2/2024`` is in January, as in the USA, or
    in February. Returns None if ``text`` has no date. Dates before 1990 or far ahead
    count only with ``any_year``.
    """
    text = text[:MAX_TEXT].strip()
    if not _DIGIT.search(text):
        return None
    if match := _ISO.search(text):
        day = _day(match["y"], match["m"], match["d"], any_year)
        if day is None or _AS_IT_IS.fullmatch(text):
            return day and text
        return day + _time(match)
    if _EPOCH.fullmatch(text):
        moment = datetime.fromtimestamp(int(text[:10]), UTC)
        return moment.isoformat().replace("+00:00", "Z")
    for form in _FORMS:
        for match in form.finditer(text):
            if found := _date_of_match(match.groupdict(), language, any_year):
                return found
    return None


def url_date(url: str) -> str | None:
    """Return the date in the path of a URL, such as ``/2024/05/31/title``, or None."""
    match = _IN_URL.search(url)
    return _day(match["y"], match["m"], match["d"]) if match else None


def _date_of_match(
    parts: dict[str, str | None], language: str, any_year: bool
) -> str | None:
    if word := parts.get("word"):
        month: int | None = None
        lower = word.lower()
        for size in (5, 4, 3):
            month = month or _MONTH.get(lower[:size])
        return _day(parts["y"], month, parts["d"], any_year) if month else None
    if "a" in parts:
        first, second = int(parts["a"] or 0), int(parts["b"] or 0)
        american = not language or language.lower() in {"en", "en-us", "en_us"}
        if first > 12 or (second <= 12 and not american):
            first, second = second, first
        return _day(parts["y"], first, second, any_year)
    return _day(parts["y"], parts["m"], parts["d"], any_year)


def _day(
    year: object, month: object, day: object, any_year: bool = False
) -> str | None:
    try:
        found = date(int(str(year)), int(str(month)), int(str(day)))
    except ValueError:
        return None
    latest = datetime.now(UTC).date() + timedelta(DAYS_AHEAD)
    fits = any_year or (FIRST_YEAR <= found.year and found <= latest)
    return found.isoformat() if fits else None


def _time(match: re.Match[str]) -> str:
    """Return time of day and zone in ISO 8601; empty without a valid time."""
    if match["h"] is None or int(match["h"]) > 23 or int(match["min"]) > 59:
        return ""
    zone = match["zone"] or ""
    if zone in {"UTC", "GMT"}:
        zone = "Z"
    elif len(zone) == 3:
        zone += ":00"
    elif len(zone) == 5:
        zone = f"{zone[:3]}:{zone[3:]}"
    return f"T{match['h']}:{match['min']}:{match['sec'] or '00'}{zone}"


def w3c_time(text: str) -> str | None:
    """Return a W3C time unchanged, a time of RSS or HTTP (RFC 822) as W3C time, or None."""
    if not text:
        return None
    if _W3C_TIME.fullmatch(text):
        return text
    try:
        moment = parsedate_to_datetime(text[:64])
        # RFC 5322, 3.3: ``-0000`` is UTC, and the result then has no zone.
        return utc_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def utc_time(text: str) -> str | None:
    """Return a time as API responses have it, see :func:`utc_text`.

    A W3C time that is no moment stays as it is: a day, or a time without a zone.
    """
    found = w3c_time(text)
    try:
        moment = datetime.fromisoformat(found or "")
        return utc_text(moment) if moment.tzinfo else found
    except (ValueError, OverflowError):
        return found


def utc_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, with milliseconds and ``Z``."""
    found = moment.astimezone(UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
