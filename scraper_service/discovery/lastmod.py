"""What ``<lastmod>`` of a sitemap proves about a page."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime

HOUR_S = 3600
LATEST_ZONE_S = 12 * HOUR_S  # a day ends last in the zone UTC-12
SKEW_S = HOUR_S  # between the clocks of a site and of the service

# W3C Date and Time Formats, https://www.w3.org/TR/NOTE-datetime
_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?$")


def proves_no_change(lastmod: str, fetched_at: float) -> bool:
    """Return True if a page has not changed after it was fetched.

    ``lastmod`` is what the sitemap says now, ``fetched_at`` is in seconds since 1970. A day, a
    month or a year counts to its end, in any time zone. Other texts prove nothing.
    """
    end = _end_of(lastmod.strip())
    return end is not None and end + SKEW_S < fetched_at


def _end_of(text: str) -> float | None:
    """Return the last moment that a time may stand for, None for no time."""
    try:
        if found := _DAY.match(text):
            year, month, day = (int(part) if part else 0 for part in found.groups())
            month = month or 12
            day = day or calendar.monthrange(year, month)[1]
            midnight = datetime(year, month, day, tzinfo=UTC).timestamp()
            return midnight + 24 * HOUR_S + LATEST_ZONE_S
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        return None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC).timestamp() + LATEST_ZONE_S
    return moment.timestamp()
