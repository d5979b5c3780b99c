"""Times of sitemaps, feeds and headers as W3C times (https://www.w3.org/TR/NOTE-datetime)."""

from __future__ import annotations

import re
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
        return parsedate_to_datetime(text[:64]).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
