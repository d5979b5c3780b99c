"""The addresses of a map: chosen, ranked and cut in the converter pool.

A row is an address and what is known of it, as the JSON of the answer has it. Each one is
written where it is found; from then on whole slices of them are moved, and their keys
and scores compared. Nobody ever holds the rows of a whole site as objects, and the
reactor none at all.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, evolve, field, frozen

from scraper_service.content.text.search_words import SearchWords
from scraper_service.discovery.canonical_urls import listed, parsed
from scraper_service.discovery.scope_rules import MapScope
from scraper_service.discovery.sitemap import (
    SLICE_ROWS,
    SitemapContent,
    SitemapEntry,
    read_entries,
)
from scraper_service.options.jobs import MapOptions

if TYPE_CHECKING:
    from scraper_service.discovery.canonical_urls import Address
    from scraper_service.items import KnownPage, PageSource

FactsT: TypeAlias = list[Any]  # [url, title or None, description or None]
ShapeT: TypeAlias = Callable[[str, str | None, str | None], str]
PlaceT: TypeAlias = tuple[int, ...]

MAX_TITLE = 500  # characters
MAX_DESCRIPTION = 1000

START, SITEMAPS, LINKS, KNOWN = range(4)  # the first number of a place

# Between rows. JSON allows the line break here, and nothing in a row can have one.
BETWEEN = b",\n"
_SECOND_FACT = b'","'  # in every row with more than an address, and in few others


@frozen
class Slice:
    """Rows of one place: the source's number, then those of the files that led there.

    ``keys`` and ``scores`` have a number for each row, ``scores`` none without a search.
    ``text`` are the rows' JSON, :data:`BETWEEN` them.
    """

    place: PlaceT
    keys: array[int]
    scores: array[int]
    text: bytes


@frozen
class Rows:
    """Slices with ``count`` rows; ``last`` is the last place, None if there is none."""

    slices: tuple[Slice, ...] = ()
    count: int = 0
    last: PlaceT | None = None


def object_row(url: str, title: str | None, description: str | None) -> str:
    """Return the JSON object of what is known of an address."""
    row = f'{{"url":{encode_basestring(url)}'
    if title:
        row += f',"title":{encode_basestring(title)}'
    if description:
        row += f',"description":{encode_basestring(description)}'
    return row + "}"


def address_row(url: str, _title: str | None, _description: str | None) -> str:
    """Return the JSON string of an address."""
    return encode_basestring(url)


@define
class MapChoice:
    """Make rows of what one source lists, as far as it is part of the map.

    ``base`` is the address that the map's scope is about; ``shape``, importable, makes
    the JSON of a row. Without a search the first rows, as many as the map may have, are
    all that can be of use.
    """

    options: MapOptions
    base: str
    place: PlaceT
    shape: ShapeT = object_row
    _scope: MapScope | None = field(default=None, init=False)
    _words: SearchWords | None = field(default=None, init=False)
    _rows: dict[int, str] = field(factory=dict, init=False)  # by key
    _scores: list[int] = field(factory=list, init=False)

    def take(self, entry: SitemapEntry) -> None:
        """Make a row of an entry, unless it is not part of the map, or another's twin."""
        if not self.options.search and len(self._rows) >= self.options.limit:
            return
        if self._scope is None:
            self._scope = MapScope(self.options, self.base)
        address = parsed(entry.url)
        if not self._scope.refusal_of(address):
            assert address is not None
            self._add(address, entry)

    def take_anyway(self, entry: SitemapEntry) -> None:
        """Make a row of an entry whatever the scope says."""
        address = parsed(entry.url)
        assert address is not None
        self._add(address, entry)

    def rows(self) -> Rows:
        """Return the rows that were made, in their order."""
        numbers, rows = iter(self._rows), iter(self._rows.values())
        slices = []
        for first in range(0, len(self._rows), SLICE_ROWS):
            keys = array("q", islice(numbers, SLICE_ROWS))
            scores = array("i", self._scores[first : first + SLICE_ROWS])
            text = ",\n".join(islice(rows, SLICE_ROWS)).encode(errors="replace")
            slices.append(Slice(self.place, keys, scores, text))
        return Rows(tuple(slices), len(self._rows), self.place if slices else None)

    def _add(self, address: Address, entry: SitemapEntry) -> None:
        ignore_query = self.options.ignore_query_parameters
        url, key = listed(address, ignore_query=ignore_query)
        if key in self._rows:
            return
        title = _cut(entry.title, MAX_TITLE)
        about = _cut(entry.description, MAX_DESCRIPTION)
        self._rows[key] = self.shape(url, title, about)
        if self.options.search:
            if self._words is None:
                self._words = SearchWords(self.options.search)
            self._scores.append(self._words.score(url, title, about))


def sitemap_rows(source: PageSource, choice: MapChoice) -> SitemapContent:
    """Read a sitemap; of its rows, return those that may be of use, as :class:`Rows`."""
    content = read_entries(source, choice.take)
    rows = choice.rows()
    if rows.count > choice.options.limit:
        rows = merged_rows(rows.slices, choice.options)
    return evolve(content, slices=rows.slices, count=rows.count)


def chosen_rows(entries: Iterable[FactsT], choice: MapChoice) -> Rows:
    """Return the rows of addresses, as those of a page."""
    for url, *facts in entries:
        choice.take(SitemapEntry(url, None, *facts))
    return choice.rows()


def start_row(facts: FactsT, choice: MapChoice) -> Rows:
    """Return the row of the start page, which is part of the map in any case."""
    url, *about = facts
    choice.take_anyway(SitemapEntry(url, None, *about))
    return choice.rows()


def known_rows(pages: Sequence[KnownPage], choice: MapChoice) -> Rows:
    """Return the rows of pages that were crawled before."""
    return chosen_rows((facts for page in pages if (facts := _facts(page))), choice)


def merged_rows(slices: Iterable[Slice], options: MapOptions) -> Rows:
    """Return the best rows, as many as the map may have, each address once.

    They are in the order of their places, also with a search. The first place counts;
    what is missing of title and description comes from others.
    """
    parts = _without_twins(sorted(slices, key=lambda part: part.place))
    if sum(len(part.keys) for part in parts) > options.limit:
        best = set(_ranking(parts, options)[: options.limit])
        numbers = count()
        parts = [
            _only(part, [n for n, _ in enumerate(part.keys) if next(numbers) in best])
            for part in parts
        ]
    parts = [part for part in parts if part.keys]
    total = sum(len(part.keys) for part in parts)
    return Rows(tuple(parts), total, parts[-1].place if parts else None)


def answered_rows(
    slices: Iterable[Slice], options: MapOptions
) -> tuple[tuple[bytes, ...], int]:
    """Return the JSON of the map's rows in their order, in slices, and their number.

    What belongs between rows is missing between slices.
    """
    rows = merged_rows(slices, options)
    texts = [part.text for part in rows.slices]
    if options.search:
        every = [row for text in texts for row in text.split(BETWEEN)]
        order = [every[number] for number in _ranking(rows.slices, options)]
        firsts = range(0, len(order), SLICE_ROWS)
        texts = [BETWEEN.join(order[first : first + SLICE_ROWS]) for first in firsts]
    return tuple(texts), rows.count


def decoded_rows(text: bytes) -> list[Any]:
    """Return the rows of a slice of :func:`answered_rows`."""
    rows: list[Any] = json.loads(b"[%s]" % text)
    return rows


def _without_twins(parts: Iterable[Slice]) -> list[Slice]:
    """Return slices in which each key is once: where it is first."""
    seen: set[int] = set()
    twins: dict[int, tuple[int, bytes]] = {}  # what more is known, by key
    found = []
    for part in parts:
        if seen.isdisjoint(part.keys):
            found.append(part)
        else:
            known = [n for n, key in enumerate(part.keys) if key in seen]
            _remember(twins, part, known)
            others = set(range(len(part.keys))).difference(known)
            found.append(_only(part, sorted(others)))
        seen.update(part.keys)
    return [_completed(part, twins) for part in found] if twins else found


def _remember(
    twins: dict[int, tuple[int, bytes]], part: Slice, numbers: Sequence[int]
) -> None:
    """Add what the rows with these numbers may know more than their twins."""
    rows = part.text.split(BETWEEN)
    for number in numbers:
        key, row = part.keys[number], rows[number]
        score = part.scores[number] if part.scores else 0
        if score or _SECOND_FACT in row:
            before, first = twins.get(key, (0, row))
            twins[key] = max(before, score), _united(first, row)


def _completed(part: Slice, twins: dict[int, tuple[int, bytes]]) -> Slice:
    """Return a slice with what is known of its rows elsewhere."""
    numbers = [n for n, key in enumerate(part.keys) if key in twins]
    if not numbers:
        return part
    rows = part.text.split(BETWEEN)
    scores = part.scores[:]
    for number in numbers:
        score, row = twins[part.keys[number]]
        rows[number] = _united(rows[number], row)
        if scores:
            scores[number] = max(scores[number], score)
    return Slice(part.place, part.keys, scores, BETWEEN.join(rows))


def _united(row: bytes, other: bytes) -> bytes:
    """Return a row with the facts that only the other one has."""
    if _SECOND_FACT not in other or row == other:
        return row
    first, second = json.loads(row), json.loads(other)
    if isinstance(first, str):  # the address alone
        return row
    text = json.dumps({**second, **first}, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _ranking(parts: Iterable[Slice], options: MapOptions) -> Sequence[int]:
    """Return the numbers of all rows, the best first, else in their order."""
    if not options.search:
        return range(sum(len(part.keys) for part in parts))
    scores = [score for part in parts for score in part.scores]
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


def _only(part: Slice, numbers: Sequence[int]) -> Slice:
    """Return the slice with the rows that have these numbers alone."""
    if len(numbers) == len(part.keys):
        return part
    rows = part.text.split(BETWEEN)
    return Slice(
        part.place,
        array("q", [part.keys[n] for n in numbers]),
        array("i", [part.scores[n] for n in numbers] if part.scores else ()),
        BETWEEN.join([rows[n] for n in numbers]),
    )


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
