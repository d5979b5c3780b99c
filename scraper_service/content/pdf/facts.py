"""What a PDF file says of itself, as metadata of a page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from scraper_service.content.decode import clean_text

_FACTS = {
    "Author": "author",
    "Subject": "subject",
    "Keywords": "keywords",
    "Creator": "creator",
    "Producer": "producer",
}
_DATES = {"CreationDate": "published_time", "ModDate": "modified_time"}


def metadata(facts: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts with names of their own, and the others."""

    def said(name: str) -> str:
        return " ".join(clean_text(facts.get(name, "")).split())[:2000]

    known = {"title": said("Title"), "language": said("Lang")[:100]}
    known |= {name: _date(said(key)) for key, name in _DATES.items()}
    other = {name: said(key) for key, name in _FACTS.items()}
    return _present(known), _present(other)


def _present(facts: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}


def _date(text: str) -> str:
    """Return a date of a PDF file (ISO 32000-1, 7.9.4) as ISO 8601, or nothing."""
    digits = text.removeprefix("D:").replace("'", "")
    try:
        moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S")  # below
        sign, hours, minutes = digits[14:15], digits[15:17], digits[17:19]
        shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        zone = (
            UTC
            if sign not in "+-" or not sign
            else timezone(-shift if sign == "-" else shift)
        )
        return moment.replace(tzinfo=zone).isoformat()
    except (ValueError, OverflowError):
        return ""
