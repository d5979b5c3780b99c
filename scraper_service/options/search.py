"""What a caller may ask of a search (interface document, 14), and its time filter."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from attrs import field, frozen
from attrs.validators import deep_iterable, ge, in_, instance_of, le, min_len, optional

from scraper_service.options.scrape import ScrapeOptions, SiteRules

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES = ("web", "news", "images")
CATEGORIES = ("github", "research", "pdf")
MAX_RESULTS = 100  # of one source
MAX_QUERY = 2000  # characters
MAX_DOMAINS = 100  # of includeDomains and excludeDomains
DEFAULT_LIMIT = 5
DEFAULT_TIMEOUT_MS = 60_000
DEFAULT_AGE_MS = 3 * 86_400_000  # of stored pages that may answer inside a search

SPAN_S: Mapping[str, int] = {
    "h": 3600,
    "d": 86_400,
    "w": 7 * 86_400,
    "m": 31 * 86_400,
    "y": 366 * 86_400,
}
_SPAN = re.compile(r"qdr:([hdwmy])([0-9]{1,3})?")
_DATE = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_TIME_FORMS = (
    "qdr:h, qdr:d, qdr:w, qdr:m or qdr:y (with a number behind it if need be),"
    " cdr:1,cd_min:MM/DD/YYYY,cd_max:MM/DD/YYYY, or sbd:1"
)
_texts = deep_iterable(instance_of(str), instance_of(tuple))


@frozen(kw_only=True)
class TimeFilter:
    """When results were published.

    ``unit`` is a key of :data:`SPAN_S` and ``count`` how many of them back; or the days
    ``first`` and ``last``, None for no bound. ``by_date`` puts the latest first.
    """

    unit: str | None = None
    count: int = 1
    first: date | None = None
    last: date | None = None
    by_date: bool = False

    def bounds(self, now: float) -> tuple[float | None, float | None]:
        """Return from when to when, in seconds since 1970; None for no bound."""
        if self.unit is not None:
            return now - SPAN_S[self.unit] * self.count, None
        last = _seconds(self.last)
        return _seconds(self.first), None if last is None else last + 86_400


def time_filter(text: str) -> TimeFilter:
    """Return what a ``tbs`` asks for.

    :raises ValueError: naming the forms that are allowed.
    """
    facts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition(":")
        facts[name] = value
    bad = f"must be {_TIME_FORMS}, got {text[:60]!r}"
    if not facts or facts.keys() - {"qdr", "cdr", "cd_min", "cd_max", "sbd"}:
        raise ValueError(bad)
    by_date = facts.get("sbd", "0") == "1"
    if "qdr" in facts:
        found = _SPAN.fullmatch(f"qdr:{facts['qdr']}")
        if found is None or facts.keys() & {"cdr", "cd_min", "cd_max"}:
            raise ValueError(bad)
        count = int(found[2] or 1)
        return TimeFilter(unit=found[1], count=max(1, count), by_date=by_date)
    if "cdr" in facts or facts.keys() & {"cd_min", "cd_max"}:
        try:
            first, last = (_day(facts.get(name)) for name in ("cd_min", "cd_max"))
        except ValueError:
            raise ValueError(bad) from None
        return TimeFilter(first=first, last=last, by_date=by_date)
    return TimeFilter(by_date=by_date)


def _day(text: str | None) -> date | None:
    if not text:
        return None
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return date(int(found[3]), int(found[1]), int(found[2]))


def _seconds(day: date | None) -> float | None:
    if day is None:
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


@frozen(kw_only=True)
class Source:
    """One list of results: ``kind`` is of :data:`SOURCES`.

    ``language`` and ``country`` are codes of two letters, lower case; ``location`` is a
    place in the caller's words. ``filter`` is handed to the engine as it is.
    """

    kind: str = field(default="web", validator=in_(SOURCES))
    when: TimeFilter | None = None
    filter: str | None = None
    language: str = "en"
    country: str | None = "us"
    location: str | None = None


@frozen(kw_only=True)
class SearchOptions:
    """What to search for, where, and whether the pages found are scraped, too.

    ``limit`` counts the results of each source. ``scrape`` is None where only the list
    is wanted; with ``in_background`` the answer does not wait for the pages.
    ``include_domains`` and ``exclude_domains`` are host names, ``categories`` of
    :data:`CATEGORIES`; what ``site_rules`` refuse is no result. ``timeout_ms`` is that
    of the whole search.
    """

    query: str = field(validator=min_len(1))
    limit: int = field(default=DEFAULT_LIMIT, validator=[ge(1), le(MAX_RESULTS)])
    sources: tuple[Source, ...] = field(
        default=(Source(),), validator=[min_len(1), deep_iterable(instance_of(Source))]
    )
    categories: tuple[str, ...] = field(
        default=(), validator=deep_iterable(in_(CATEGORIES))
    )
    include_domains: tuple[str, ...] = field(default=(), validator=_texts)
    exclude_domains: tuple[str, ...] = field(default=(), validator=_texts)
    timeout_ms: int = field(default=DEFAULT_TIMEOUT_MS, validator=ge(1))
    ignore_invalid_urls: bool = False
    in_background: bool = False
    site_rules: SiteRules | None = None
    scrape: ScrapeOptions | None = field(
        default=None, validator=optional(instance_of(ScrapeOptions))
    )
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None
