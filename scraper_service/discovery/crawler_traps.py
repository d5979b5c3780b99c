"""Detects crawler traps by the likeness of their pages, never by count alone.

The state is only in memory: a process that takes over a job starts without groups. See
docs/how-to/crawling.md, Crawler traps.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, field, frozen

from scraper_service.content.words import distance
from scraper_service.discovery.canonical_urls import ParsedUrl, parse_url
from scraper_service.discovery.scope_rules import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

MAX_GROUPS = 512
MAX_SAMPLES = 8  # fingerprints per group
MAX_WORDS = 256  # path segments per group of facets
FUTURE_YEARS = 1  # URLs with years after the next year belong to calendars
PAST_YEARS = 30  # so do URLs with years before the web

_TOKEN = re.compile(
    r"(?<![0-9A-Za-z])(?=[0-9A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])"
    r"(?:[0-9a-f]{16,}|[0-9A-F]{16,}|[0-9A-Za-z]{20,})(?![0-9A-Za-z])"
)
_MONTH, _DAY = r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(
    rf"(?<![0-9])(?:(?P<first>[12][0-9]{{3}})[-_./]{_MONTH}(?:[-_./]{_DAY})?"
    rf"|(?P<packed>[12][0-9]{{3}})(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])?"
    rf"|(?P<week>[12][0-9]{{3}})[-_./]?w[0-5]?[0-9]"
    rf"|(?:{_DAY}[-_./])?{_MONTH}[-_./](?P<last>[12][0-9]{{3}}))(?![0-9])"
    r"|(?<=[?&])(?:year|yr|y|jahr|annee|ano)=(?P<named>[12][0-9]{3})(?=&|$)"
    r"|(?<=[?&])(?:month|mon|m|week|w|day|d)=[0-9]{1,2}(?=&|$)",
    re.IGNORECASE | re.ASCII,
)

_Key: TypeAlias = "Callable[[ParsedUrl, date], str | None]"


@frozen
class _Kind:
    """A kind of trap: how URLs are grouped, and when a group is a trap."""

    name: str
    #: Returns the group of a URL; None if the URL has no group of this kind.
    key: _Key
    #: The most bits between the fingerprints of a page and a sample.
    bits: int
    #: The number of consecutive similar pages that make a group a trap.
    run: int
    #: Count a URL only if the group has all words of its path.
    known_words: bool = False


@define
class _Group:
    """The memory of the delivered pages of one group."""

    samples: list[int] = field(factory=list)
    run: int = 0
    words: set[int] = field(factory=set)

    def add(self, fingerprint: int, bits: int) -> None:
        if any(distance(fingerprint, sample) <= bits for sample in self.samples):
            self.run += 1
        else:
            self.run = 0
            self.samples = [*self.samples[1 - MAX_SAMPLES :], fingerprint]


class TrapGuard:
    """Refuses links to groups of URLs whose last pages were nearly the same.

    Dates in URLs are compared with ``today``. URLs from sitemaps need no check: their
    number is finite.
    """

    def __init__(self, today: date):
        self._today = today
        self._groups: dict[int, _Group] = {}  # the most recently used group is last
        self._closed: set[int] = set()

    def record_page(self, url: str, fingerprint: int) -> None:
        """Record a delivered page.

        ``url`` is the requested URL. ``fingerprint`` is the fingerprint of the main text,
        see :func:`scraper_service.content.words.fingerprint`. A page without
        words has the fingerprint 0 and is ignored.
        """
        parsed = parse_url(url)
        if parsed is None or not fingerprint:
            return
        words = _words(parsed)
        for kind, key in self._groups_of(parsed):
            group = self._groups.pop(key, None) or _Group()
            self._groups[key] = group
            if not kind.known_words or words <= group.words:
                group.add(fingerprint, kind.bits)
            if kind.known_words and len(group.words) < MAX_WORDS:
                group.words |= words
            (self._closed.add if group.run >= kind.run else self._closed.discard)(key)
        while len(self._groups) > MAX_GROUPS:
            oldest = next(iter(self._groups))
            del self._groups[oldest]
            self._closed.discard(oldest)

    def refusal(self, url: str) -> Refusal | None:
        """Return the refusal of a URL in a trap, or None."""
        if not self._closed or (parsed := parse_url(url)) is None:
            return None
        for kind, key in self._groups_of(parsed):
            if key not in self._closed:
                continue
            group = self._groups[key]
            if not kind.known_words or _words(parsed) <= group.words:
                rule = f"{kind.name}: {group.run} pages in a row were nearly the same"
                return Refusal(Reason.TRAP, rule)
        return None

    def _groups_of(self, parsed: ParsedUrl) -> Iterator[tuple[_Kind, int]]:
        for kind in _KINDS:
            if (text := kind.key(parsed, self._today)) is not None:
                yield kind, hash((kind.key, parsed.host, text))


def _query_variants(parsed: ParsedUrl, today: date) -> str | None:
    return parsed.path if parsed.query else None


def _sessions(parsed: ParsedUrl, today: date) -> str | None:
    text, count = _TOKEN.subn("*", _tail(parsed))
    return text if count else None


def _calendar(parsed: ParsedUrl, today: date) -> str | None:
    """Return the path and query with ``*`` for dates if a year is far from ``today``."""
    tail = _tail(parsed)
    years = [
        int(year)
        for match in _DATE.finditer(tail)
        for year in match.groups()
        if year is not None
    ]
    first, last = today.year - PAST_YEARS, today.year + FUTURE_YEARS
    if all(first <= year <= last for year in years):
        return None
    return _DATE.sub("*", tail)


def _facets(parsed: ParsedUrl, today: date) -> str | None:
    return _first(parsed) if parsed.path.count("/") > 2 else None


def _directory(parsed: ParsedUrl, today: date) -> str | None:
    return parsed.path.rpartition("/")[0] if _is_plain(parsed) else None


def _section(parsed: ParsedUrl, today: date) -> str | None:
    several = parsed.path.count("/") > 1
    return _first(parsed) if several and _is_plain(parsed) else None


def _first(parsed: ParsedUrl) -> str:
    return parsed.path.split("/", 2)[1]


def _is_plain(parsed: ParsedUrl) -> bool:
    """Return True if a URL has no query, token or date, which other kinds group by."""
    path = parsed.path
    return not (parsed.query or _TOKEN.search(path) or _DATE.search(path))


def _tail(parsed: ParsedUrl) -> str:
    return f"{parsed.path}?{parsed.query}" if parsed.query else parsed.path


def _words(address: ParsedUrl) -> set[int]:
    return {hash(word) for word in address.path.split("/")[2:]}


# A weak sign in the URL allows few bits, a strong sign more. Months of an empty calendar
# differ in their names and days.
_KINDS = (
    _Kind("Calendar", _calendar, bits=10, run=20),
    _Kind("SessionIds", _sessions, bits=3, run=20),
    _Kind("QueryVariants", _query_variants, bits=3, run=50),
    _Kind("FacetCombinations", _facets, bits=3, run=50, known_words=True),
    # The same words, not only similar ones: short pages are often similar.
    _Kind("SoftNotFound", _directory, bits=0, run=50),
    _Kind("SoftNotFound", _section, bits=0, run=50),
)
