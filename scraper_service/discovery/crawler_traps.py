"""Places that make up pages without end: found by what their pages are, never by count.

Nothing is stored: a job that is taken over by another process learns anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, field, frozen

from scraper_service.content.text.fingerprint import distance
from scraper_service.discovery.canonical_urls import Address, parsed
from scraper_service.discovery.scope_rules import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

MAX_GROUPS = 512
MAX_SAMPLES = 8  # different pages of a group that are remembered
MAX_WORDS = 256  # of a group of facets
FUTURE_YEARS = 1  # pages about years after this one and the next are calendars'
PAST_YEARS = 30  # the Web is not older

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

_Key: TypeAlias = "Callable[[Address, date], str | None]"


@frozen
class _Kind:
    """A kind of trap: which addresses belong together, and what gives it away.

    ``key`` names the group of an address, None for none. ``run`` pages of a group in a
    row, each at most ``bits`` from one of the samples, are a trap. With
    ``known_words``, an address counts only if the group knows all words of its path.
    """

    name: str
    key: _Key
    bits: int
    run: int
    known_words: bool = False


@define
class _Group:
    """What is remembered of the delivered pages of one group."""

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
    """Refuse the links into places whose pages have become all the same.

    ``today`` is what dates in addresses are compared with. Addresses that a sitemap
    lists should not be asked about: their number is finite.
    """

    def __init__(self, today: date):
        self._today = today
        self._groups: dict[int, _Group] = {}  # the one used last stands last
        self._closed: set[int] = set()

    def seen(self, url: str, fingerprint: int) -> None:
        """Take note of a delivered page.

        ``url`` is the address as it was asked for, ``fingerprint`` that of the main
        text, see :func:`scraper_service.content.text.fingerprint.fingerprint`; 0, a page without
        words, tells nothing.
        """
        address = parsed(url)
        if address is None or not fingerprint:
            return
        words = _words(address)
        for kind, key in self._groups_of(address):
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
        """Return why ``url`` leads into a trap, None if nothing says so."""
        if not self._closed or (address := parsed(url)) is None:
            return None
        for kind, key in self._groups_of(address):
            if key not in self._closed:
                continue
            group = self._groups[key]
            if not kind.known_words or _words(address) <= group.words:
                rule = f"{kind.name}: {group.run} pages in a row were nearly the same"
                return Refusal(Reason.TRAP, rule)
        return None

    def _groups_of(self, address: Address) -> Iterator[tuple[_Kind, int]]:
        for kind in _KINDS:
            if (text := kind.key(address, self._today)) is not None:
                yield kind, hash((kind.key, address.host, text))


def _query_variants(address: Address, today: date) -> str | None:
    return address.path if address.query else None


def _sessions(address: Address, today: date) -> str | None:
    text, count = _TOKEN.subn("*", _tail(address))
    return text if count else None


def _calendar(address: Address, today: date) -> str | None:
    """Return the address without its dates if one is far from ``today``."""
    tail = _tail(address)
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


def _facets(address: Address, today: date) -> str | None:
    return _first(address) if address.path.count("/") > 2 else None


def _directory(address: Address, today: date) -> str | None:
    return address.path.rpartition("/")[0] if _is_plain(address) else None


def _section(address: Address, today: date) -> str | None:
    several = address.path.count("/") > 1
    return _first(address) if several and _is_plain(address) else None


def _first(address: Address) -> str:
    return address.path.split("/", 2)[1]


def _is_plain(address: Address) -> bool:
    """Tell whether a page belongs to no group that is closer than its directory."""
    path = address.path
    return not (address.query or _TOKEN.search(path) or _DATE.search(path))


def _tail(address: Address) -> str:
    return f"{address.path}?{address.query}" if address.query else address.path


def _words(address: Address) -> set[int]:
    """Return what stands behind the first segment of a path, hashed."""
    return {hash(word) for word in address.path.split("/")[2:]}


# The bits are few where the address says little, and more where it says much: months
# of an empty calendar differ in their names and days.
_KINDS = (
    _Kind("Calendar", _calendar, bits=10, run=20),
    _Kind("SessionIds", _sessions, bits=3, run=20),
    _Kind("QueryVariants", _query_variants, bits=3, run=50),
    _Kind("FacetCombinations", _facets, bits=3, run=50, known_words=True),
    # The very same words, not only similar ones: pages of few words are similar soon.
    _Kind("SoftNotFound", _directory, bits=0, run=50),
    _Kind("SoftNotFound", _section, bits=0, run=50),
)
