"""The options of maps of a site and of searches of the web."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, ClassVar

from attrs import field, frozen
from attrs.validators import (
    deep_iterable,
    ge,
    in_,
    instance_of,
    le,
    max_len,
    min_len,
    optional,
)

from scraper_service.options.jobs import SITEMAP_MODES, Caller
from scraper_service.options.scrape import ScrapeOptions, SiteRules

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MAP_LIMIT = 100_000  # URLs
MAX_SEARCH = 10_000  # characters

SOURCES = ("web", "news", "images")
CATEGORIES = ("github", "research", "pdf")
MAX_RESULTS = 100  # of one source
MAX_QUERY = 2000  # characters
MAX_DOMAINS = 100  # of includeDomains and excludeDomains
DEFAULT_LIMIT = 5
DEFAULT_TIMEOUT_MS = 60_000
DEFAULT_AGE_MS = 3 * 86_400_000  # of stored pages that a search may return

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
    "qdr:h, qdr:d, qdr:w, qdr:m or qdr:y (followed by a number if need be),"
    " cdr:1,cd_min:MM/DD/YYYY,cd_max:MM/DD/YYYY, or sbd:1"
)
_texts = deep_iterable(instance_of(str), instance_of(tuple))
_flag = instance_of(bool)


@frozen(kw_only=True)
class MapOptions(Caller):
    """The URLs of a site to list (docs/api/map-and-search.md, Maps)."""

    url: str = field(validator=instance_of(str))
    #: Words that rank the URLs; empty for no ranking.
    search: str = field(validator=max_len(MAX_SEARCH))
    limit: int = field(validator=[ge(1), le(MAX_MAP_LIMIT)])
    sitemap: str = field(validator=in_(SITEMAP_MODES))
    include_subdomains: bool = field(validator=_flag)
    ignore_query_parameters: bool = field(validator=_flag)
    #: True leaves out URLs that are not below the path of ``url``.
    filter_by_path: bool = field(validator=_flag)
    include_paths: tuple[str, ...] = field(validator=_texts)
    exclude_paths: tuple[str, ...] = field(validator=_texts)
    regex_on_full_url: bool = field(validator=_flag)
    #: For the start page and the sitemaps; its time-out is that of the whole map.
    scrape: ScrapeOptions

    # The rules of a crawl's scope read these, too.
    allow_external_links: ClassVar[bool] = False
    max_discovery_depth: ClassVar[int | None] = None
    max_path_depth: ClassVar[int | None] = None

    @property
    def allow_subdomains(self) -> bool:
        """The crawl's name of ``include_subdomains``."""
        return self.include_subdomains

    @property
    def crawl_entire_domain(self) -> bool:
        """The crawl's opposite of ``filter_by_path``."""
        return not self.filter_by_path


@frozen(kw_only=True)
class TimeFilter:
    """The time when results were published: a span until now, or two days."""

    #: A key of :data:`SPAN_S`.
    unit: str | None = None
    #: Units before now.
    count: int = 1
    #: The first and the last day; None for no bound.
    first: date | None = None
    last: date | None = None
    #: True puts the latest results first.
    by_date: bool = False

    def bounds(self, now: float) -> tuple[float | None, float | None]:
        """Return start and end, in seconds since 1970; None for no bound."""
        if self.unit is not None:
            return now - SPAN_S[self.unit] * self.count, None
        last = _seconds(self.last)
        return _seconds(self.first), None if last is None else last + 86_400


def time_filter(text: str) -> TimeFilter:
    """Return the filter of a ``tbs``.

    :raises ValueError: with the valid forms.
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
class ResultList:
    """One list of results."""

    #: One of :data:`SOURCES`.
    kind: str = field(default="web", validator=in_(SOURCES))
    when: TimeFilter | None = None
    #: The engine receives it unchanged.
    filter: str | None = None
    #: Codes of two letters in lower case.
    language: str = "en"
    country: str | None = "us"
    #: The location of the searcher, in the caller's words.
    location: str | None = None


@frozen(kw_only=True)
class SearchOptions(Caller):
    """The words and the sources of a search, and how to scrape the pages of its results."""

    query: str = field(validator=min_len(1))
    #: Results of each source.
    limit: int = field(default=DEFAULT_LIMIT, validator=[ge(1), le(MAX_RESULTS)])
    sources: tuple[ResultList, ...] = field(
        default=(ResultList(),),
        validator=[min_len(1), deep_iterable(instance_of(ResultList))],
    )
    #: Some of :data:`CATEGORIES`.
    categories: tuple[str, ...] = field(
        default=(), validator=deep_iterable(in_(CATEGORIES))
    )
    #: Host names.
    include_domains: tuple[str, ...] = field(default=(), validator=_texts)
    exclude_domains: tuple[str, ...] = field(default=(), validator=_texts)
    #: Time for the whole search.
    timeout_ms: int = field(default=DEFAULT_TIMEOUT_MS, validator=ge(1))
    ignore_invalid_urls: bool = False
    #: True returns before the pages are scraped.
    in_background: bool = False
    #: Refused URLs are no results.
    site_rules: SiteRules | None = None
    #: None returns the list only.
    scrape: ScrapeOptions | None = field(
        default=None, validator=optional(instance_of(ScrapeOptions))
    )
