"""The addresses of a map: chosen, ranked and cut in the converter pool.

A row is ``[score, place, key, url, title, description]``. ``place`` is a list of
numbers: that of the source, below it those of the sitemaps that led to the file. Rows
travel as JSON arrays of :data:`~scraper_service.formats.sitemap.SLICE_ROWS` each, so
that nobody ever holds those of a whole site as objects, and the reactor none at all.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from attrs import define, evolve, field, frozen

from scraper_service.formats.search_words import SearchWords
from scraper_service.formats.sitemap import (
    SLICE_ROWS,
    SitemapContent,
    SitemapEntry,
    read_sitemap,
)
from scraper_service.options.jobs import MapOptions
from scraper_service.scope.addresses import listed, parsed
from scraper_service.scope.rules import MapScope

if TYPE_CHECKING:
    from scraper_service.items import KnownPage, PageSource

RowT: TypeAlias = list[Any]
FactsT: TypeAlias = list[Any]  # [url, title or None, description or None]
ShapeT: TypeAlias = Callable[[list[FactsT]], bytes]

MAX_TITLE = 500  # characters
MAX_DESCRIPTION = 1000

START, SITEMAPS, LINKS, KNOWN = range(4)  # the first number of a place


class _Row(NamedTuple):
    score: int
    place: list[int]
    key: int
    url: str
    title: str | None
    description: str | None


@frozen
class Rows:
    """Slices of rows; ``last`` is the place of the last one, None if there is none."""

    slices: tuple[bytes, ...] = ()
    count: int = 0
    last: tuple[int, ...] | None = None


@define
class MapChoice:
    """Make rows of what one source lists, as far as it is part of the map.

    ``base`` is the address that the map's scope is about. Without a search the first
    rows, as many as the map may have, are all that can be of use.
    """

    options: MapOptions
    base: str
    place: tuple[int, ...]
    _scope: MapScope | None = field(default=None, init=False)
    _words: SearchWords | None = field(default=None, init=False)
    _seen: set[int] = field(factory=set, init=False)

    def __call__(self, entry: SitemapEntry) -> RowT | None:
        if self._scope is None:
            self._scope = MapScope(self.options, self.base)
            self._words = SearchWords(self.options.search)
        if not self.options.search and len(self._seen) >= self.options.limit:
            return None
        if self._scope.refusal(entry.url):
            return None
        return self.row(entry)

    def row(self, entry: SitemapEntry) -> RowT | None:
        """Return the row of an entry whatever the scope says; None of one twice."""
        address = parsed(entry.url)
        assert address is not None
        ignore_query = self.options.ignore_query_parameters
        url, key = listed(address, ignore_query=ignore_query)
        if key in self._seen:
            return None
        self._seen.add(key)
        title = _cut(entry.title, MAX_TITLE)
        about = _cut(entry.description, MAX_DESCRIPTION)
        words = self._words or SearchWords(self.options.search)
        score = words.score(url, title, about) if self.options.search else 0
        return [score, self.place, key, url, title, about]


def sitemap_rows(source: PageSource, choice: MapChoice) -> SitemapContent:
    """Read a sitemap; of its rows, return those that may be of use."""
    content = read_sitemap(source, choice)
    if content.count <= choice.options.limit:
        return content
    rows = merged_rows(content.slices, choice.options)
    return evolve(content, slices=rows.slices, count=rows.count)


def chosen_rows(entries: Iterable[FactsT], choice: MapChoice) -> Rows:
    """Return the rows of addresses, as those of a page."""
    found = (choice(SitemapEntry(url, None, *facts)) for url, *facts in entries)
    return _sliced([row for row in found if row is not None])


def start_row(facts: FactsT, choice: MapChoice) -> Rows:
    """Return the row of the start page, which is part of the map in any case."""
    url, *about = facts
    row = choice.row(SitemapEntry(url, None, *about))
    return _sliced([row] if row else [])


def known_rows(pages: Sequence[KnownPage], choice: MapChoice) -> Rows:
    """Return the rows of pages that were crawled before."""
    return chosen_rows((facts for page in pages if (facts := _facts(page))), choice)


def merged_rows(slices: Sequence[bytes], options: MapOptions) -> Rows:
    """Return the best rows, as many as the map may have, each address once.

    The first place counts; what is missing of title and description comes from others.
    """
    rows = sorted(
        (_Row(*row) for part in slices for row in json.loads(part)),
        key=lambda row: row.place,
    )
    best: dict[int, _Row] = {}
    for row in rows:
        known = best.setdefault(row.key, row)
        if known is not row:
            best[row.key] = known._replace(
                score=max(known.score, row.score),
                title=known.title or row.title,
                description=known.description or row.description,
            )
    ordered = list(best.values())
    if options.search:
        ordered.sort(key=lambda row: -row.score)
    return _sliced(ordered[: options.limit])


def shaped_rows(
    slices: Sequence[bytes], options: MapOptions, shape: ShapeT
) -> tuple[tuple[bytes, ...], int]:
    """Return what ``shape`` makes of the map's rows, slice by slice, and their number.

    ``shape``, an importable function, takes lists of address, title, description.
    """
    rows = merged_rows(slices, options)
    shaped = [shape([row[3:] for row in json.loads(part)]) for part in rows.slices]
    return tuple(shaped), rows.count


def plain_rows(rows: list[FactsT]) -> bytes:
    """Return rows as they are, for :func:`shaped_rows`."""
    return json.dumps(rows).encode()


def _sliced(rows: Sequence[Sequence[Any]]) -> Rows:
    slices = tuple(
        json.dumps(rows[n : n + SLICE_ROWS], ensure_ascii=False).encode(
            errors="replace"
        )
        for n in range(0, len(rows), SLICE_ROWS)
    )
    last = max((tuple(row[1]) for row in rows), default=None)
    return Rows(slices, len(rows), last)


def _facts(page: KnownPage) -> FactsT | None:
    """Return address, title and description of a page; None of one that failed."""
    if page.body is None:
        return [page.url, None, None]
    metadata = json.loads(zlib.decompress(page.body)).get("metadata", {})
    if metadata.get("statusCode", 200) >= 400:
        return None
    return [
        page.url,
        text_of(metadata.get("title")),
        text_of(metadata.get("description")),
    ]


def text_of(fact: str | list[str] | None) -> str | None:
    """Return a fact of a page's metadata as one text."""
    return ", ".join(fact) if isinstance(fact, list) else fact


def _cut(text: str | None, most: int) -> str | None:
    return " ".join(text.split())[:most] if text else None
