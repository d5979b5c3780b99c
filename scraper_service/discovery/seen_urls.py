"""What a crawl remembers in one process, in bounded memory; the frontier knows all."""

from __future__ import annotations

from scraper_service.content.text.fingerprint import distance

MAX_KNOWN = 500_000  # links; twice as many may be remembered
MAX_ORIGINALS = 50_000
SAME_BITS = 3  # in which the fingerprints of the same page may differ


class SeenLinks:
    """Links that need no further look: a set look-up for each link on each page."""

    def __init__(self) -> None:
        self._links: set[int] = set()
        self._before: set[int] = set()

    def __contains__(self, url: str) -> bool:
        number = hash(url)
        return number in self._links or number in self._before

    def add(self, url: str) -> None:
        if len(self._links) >= MAX_KNOWN:
            self._links, self._before = set(), self._links
        self._links.add(hash(url))


class Originals:
    """Pages that others name as their own address, by what their words are.

    Naming alone says little: pages of a list name the first one, and some sites name
    their home page everywhere.
    """

    def __init__(self) -> None:
        self._fingerprints: dict[int, int] = {}  # by the key that was named

    def has(self, named: int, own: int, fingerprint: int) -> bool:
        """Tell whether a page with the key ``own`` was seen as ``named`` already."""
        known = self._fingerprints.get(named)
        if known is None:
            self._fingerprints[named] = fingerprint
            if len(self._fingerprints) > MAX_ORIGINALS:
                del self._fingerprints[next(iter(self._fingerprints))]
            return False
        return named != own and distance(known, fingerprint) <= SAME_BITS
