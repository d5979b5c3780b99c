"""Times of sitemaps, feeds and headers as W3C times (https://www.w3.org/TR/NOTE-datetime)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_W3C_TIME = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)? ?"
    r"(?:Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)


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
