"""Chooses, ranks and cuts the URLs of a map in the converter pool.

A row is the JSON of a URL, its title and its description, as in the response of the
map. The process that finds a URL writes its row. Later steps move whole slices of rows
and compare only keys and scores. No process keeps the rows of a whole site as objects.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field, frozen

from scraper_service.content.stored_pages import decompress
from scraper_service.content.words import SearchWords
from scraper_service.discovery.canonical_urls import ParsedUrl, map_url, parse_url
from scraper_service.discovery.scope_rules import MapScope
from scraper_service.discovery.sitemap import SLICE_ROWS
from scraper_service.discovery.sitemap_xml import SitemapEntry
from scraper_service.options.map_search import MapOptions
from scraper_service.options.urls import host_of, url_parts

if TYPE_CHECKING:
    from scraper_service.items import KnownPage

FactsT: TypeAlias = list[Any]  # [url, title or None, description or None]
ShapeT: TypeAlias = Callable[[str, str | None, str | None], str]
OriginT: TypeAlias = tuple[int, ...]

MAX_TITLE = 500  # characters
MAX_DESCRIPTION = 1000

START, SITEMAPS, LINKS, KNOWN = range(4)  # the sources: the first number of an origin

# The separator of rows. JSON text of a row cannot contain a line break.
BETWEEN = b",\n"
_SECOND_FACT = b'","'  # in every row with a title or description, and in few others


@frozen
class Slice:
    """Rows from one source or sitemap file."""

    #: The number of the source, then the numbers of the sitemap files on the way.
    origin: OriginT
    #: The key of each row.
    keys: array[int]
    #: The score of each row; empty without a search.
    scores: array[int]
    #: The JSON of the rows, joined by :data:`BETWEEN`.
    text: bytes


@frozen
class Rows:
    """The rows of several slices."""

    slices: tuple[Slice, ...] = ()
    #: The number of rows.
    count: int = 0
    #: The last origin; None without rows.
    last: OriginT | None = None


def object_row(url: str, title: str | None, description: str | None) -> str:
    """Return the JSON object of a URL, its title and its description."""
    row = f'{{"url":{encode_basestring(url)}'
    if title:
        row += f',"title":{encode_basestring(title)}'
    if description:
        row += f',"description":{encode_basestring(description)}'
    return row + "}"


def address_row(url: str, _title: str | None, _description: str | None) -> str:
    """Return the JSON string of a URL."""
    return encode_basestring(url)


@define
class MapChoice:
    """Makes rows of the entries of one source that are part of the map.

    Without a search, it stops at the limit of the map.
    """

    options: MapOptions
    #: The base URL of the map's scope.
    base: str
    origin: OriginT
    #: An importable function that makes the JSON of a row.
    shape: ShapeT = object_row
    _scope: MapScope | None = field(default=None, init=False)
    _words: SearchWords | None = field(default=None, init=False)
    _rows: dict[int, str] = field(factory=dict, init=False)  # by key
    _scores: list[int] = field(factory=list, init=False)

    def __call__(self, entries: Iterable[SitemapEntry]) -> Rows:
        """Return the rows of a sitemap, without those beyond the limit of the map."""
        for entry in entries:
            self.take(entry)
        rows = self.rows()
        if rows.count > self.options.limit:
            rows = merge_rows(rows.slices, self.options)
        return rows

    def take(self, entry: SitemapEntry) -> None:
        """Make a row of an entry if the scope admits its URL; skip duplicates."""
        if not self.options.search and len(self._rows) >= self.options.limit:
            return
        if self._scope is None:
            self._scope = MapScope(self.options, self.base)
        parsed = parse_url(entry.url)
        if not self._scope.refusal_of(parsed):
            assert parsed is not None
            self._add(parsed, entry)

    def take_anyway(self, entry: SitemapEntry) -> None:
        """Make a row of an entry without a check of the scope; skip duplicates."""
        parsed = parse_url(entry.url)
        assert parsed is not None
        self._add(parsed, entry)

    def rows(self) -> Rows:
        """Return the rows in the order of their entries."""
        numbers, rows = iter(self._rows), iter(self._rows.values())
        slices = []
        for first in range(0, len(self._rows), SLICE_ROWS):
            keys = array("q", islice(numbers, SLICE_ROWS))
            scores = array("i", self._scores[first : first + SLICE_ROWS])
            text = ",\n".join(islice(rows, SLICE_ROWS)).encode(errors="replace")
            slices.append(Slice(self.origin, keys, scores, text))
        return Rows(tuple(slices), len(self._rows), self.origin if slices else None)

    def _add(self, parsed: ParsedUrl, entry: SitemapEntry) -> None:
        ignore_query = self.options.ignore_query_parameters
        url, key = map_url(parsed, ignore_query=ignore_query)
        if key in self._rows:
            return
        title = _cut(entry.title, MAX_TITLE)
        about = _cut(entry.description, MAX_DESCRIPTION)
        self._rows[key] = self.shape(url, title, about)
        if self.options.search:
            if self._words is None:
                self._words = SearchWords(self.options.search)
            self._scores.append(self._words.score(url, title, about))


def choose_rows(entries: Iterable[FactsT], choice: MapChoice) -> Rows:
    """Return the rows of URLs, such as the links of a page."""
    for url, *facts in entries:
        choice.take(SitemapEntry(url, None, *facts))
    return choice.rows()


def start_row(facts: FactsT, choice: MapChoice) -> Rows:
    """Return the row of the start page, which is always part of the map."""
    url, *about = facts
    choice.take_anyway(SitemapEntry(url, None, *about))
    return choice.rows()


def known_rows(pages: Sequence[KnownPage], choice: MapChoice) -> Rows:
    """Return the rows of pages from earlier crawls."""
    return choose_rows((facts for page in pages if (facts := _facts(page))), choice)


def merge_rows(slices: Iterable[Slice], options: MapOptions) -> Rows:
    """Return the best rows up to the limit of the map, without duplicates.

    The rows are in the order of their origins, also with a search. Of duplicates,
    the first row stays; later rows complete its title and description.
    """
    parts = _without_twins(sorted(slices, key=lambda part: part.origin))
    if sum(len(part.keys) for part in parts) > options.limit:
        best = set(_ranking(parts, options)[: options.limit])
        numbers = count()
        parts = [
            _only(part, [n for n, _ in enumerate(part.keys) if next(numbers) in best])
            for part in parts
        ]
    parts = [part for part in parts if part.keys]
    total = sum(len(part.keys) for part in parts)
    return Rows(tuple(parts), total, parts[-1].origin if parts else None)


def order_rows(
    slices: Iterable[Slice], options: MapOptions
) -> tuple[tuple[bytes, ...], int]:
    """Return the ordered rows of the map as slices of JSON, and their number.

    Slices are without :data:`BETWEEN` at their ends.
    """
    rows = merge_rows(slices, options)
    texts = [part.text for part in rows.slices]
    if options.search:
        every = [row for text in texts for row in text.split(BETWEEN)]
        order = [every[number] for number in _ranking(rows.slices, options)]
        firsts = range(0, len(order), SLICE_ROWS)
        texts = [BETWEEN.join(order[first : first + SLICE_ROWS]) for first in firsts]
    return tuple(texts), rows.count


def decode_rows(text: bytes) -> list[Any]:
    """Return the rows of a slice of :func:`order_rows`."""
    rows: list[Any] = json.loads(b"[%s]" % text)
    return rows


def _without_twins(parts: Iterable[Slice]) -> list[Slice]:
    """Return slices with each key once, at its first origin."""
    seen: set[int] = set()
    duplicates: dict[int, tuple[int, bytes]] = {}  # score and row of duplicates, by key
    found = []
    for part in parts:
        if seen.isdisjoint(part.keys):
            found.append(part)
        else:
            known = [n for n, key in enumerate(part.keys) if key in seen]
            _remember(duplicates, part, known)
            others = set(range(len(part.keys))).difference(known)
            found.append(_only(part, sorted(others)))
        seen.update(part.keys)
    return [_complete(part, duplicates) for part in found] if duplicates else found


def _remember(
    duplicates: dict[int, tuple[int, bytes]], part: Slice, numbers: Sequence[int]
) -> None:
    rows = part.text.split(BETWEEN)
    for number in numbers:
        key, row = part.keys[number], rows[number]
        score = part.scores[number] if part.scores else 0
        if score or _SECOND_FACT in row:
            before, first = duplicates.get(key, (0, row))
            duplicates[key] = max(before, score), _merge_rows(first, row)


def _complete(part: Slice, duplicates: dict[int, tuple[int, bytes]]) -> Slice:
    numbers = [n for n, key in enumerate(part.keys) if key in duplicates]
    if not numbers:
        return part
    rows = part.text.split(BETWEEN)
    scores = part.scores[:]
    for number in numbers:
        score, row = duplicates[part.keys[number]]
        rows[number] = _merge_rows(rows[number], row)
        if scores:
            scores[number] = max(scores[number], score)
    return Slice(part.origin, part.keys, scores, BETWEEN.join(rows))


def _merge_rows(row: bytes, other: bytes) -> bytes:
    """Return ``row``, completed by the facts that only ``other`` has."""
    if _SECOND_FACT not in other or row == other:
        return row
    first, second = json.loads(row), json.loads(other)
    if isinstance(first, str):  # only the URL
        return row
    text = json.dumps({**second, **first}, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _ranking(parts: Iterable[Slice], options: MapOptions) -> Sequence[int]:
    """Return the numbers of all rows: best first with a search, else in order."""
    if not options.search:
        return range(sum(len(part.keys) for part in parts))
    scores = [score for part in parts for score in part.scores]
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


def _only(part: Slice, numbers: Sequence[int]) -> Slice:
    if len(numbers) == len(part.keys):
        return part
    rows = part.text.split(BETWEEN)
    return Slice(
        part.origin,
        array("q", [part.keys[n] for n in numbers]),
        array("i", [part.scores[n] for n in numbers] if part.scores else ()),
        BETWEEN.join([rows[n] for n in numbers]),
    )


def _facts(page: KnownPage) -> FactsT | None:
    if page.body is None:
        return [page.url, None, None]
    metadata = json.loads(decompress(page.body)).get("metadata", {})
    if metadata.get("statusCode", 200) >= 400:
        return None
    return [
        page.url,
        text_of(metadata.get("title")),
        text_of(metadata.get("description")),
    ]


def text_of(fact: str | list[str] | None) -> str | None:
    """Return a value of a page's metadata as one text."""
    return ", ".join(fact) if isinstance(fact, list) else fact


def _cut(text: str | None, most: int) -> str | None:
    return " ".join(text.split())[:most] if text else None


RowT: TypeAlias = tuple[str, str | None, str | None]  # URL, title, description

# Up to this number, pages of a site without fitting words are read too: URLs may have no
# words.
UNFITTING_PAGES = 10
MAX_NAMES = 30  # names of schema fields that are searched for
MAX_LEVELS = 5  # levels of a schema
# Words of prompts without a topic.
IDLE = frozenset(
    "a about all also an and any are as at be by can data details do each every extract"
    " fetch field fields find for from get give has have her his how i in including info"
    " information is it its list may me my of on or our out page pages please provide"
    " return s scrape search should show site summarise summarize tell that the their"
    " them these they this those to us using value values want was we website were what"
    " when where which who will with would you your".split()
)

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def search_text(prompt: str | None, schema: Mapping[str, Any] | None) -> str:
    """Return the search words of a prompt and of the field names of a schema."""
    texts = islice(_names(schema or {}, 0), MAX_NAMES)
    words = _WORD.findall(" ".join([prompt or "", *texts]).lower())
    found: dict[str, None] = {}
    for word in words:
        if word not in IDLE:
            found[_singular(word)] = None
    return " ".join(found)


def _names(schema: Mapping[str, Any], level: int) -> Iterator[str]:
    """Yield the names of a schema's fields, each level before the levels below it."""
    fields = schema.get("properties")
    below = [schema.get("items")]
    if isinstance(fields, Mapping):
        for name in fields:
            yield _HUMP.sub(" ", str(name)).replace("_", " ")
        below += fields.values()
    if level < MAX_LEVELS:
        for item in below:
            if isinstance(item, Mapping):
                yield from _names(item, level + 1)


def _singular(word: str) -> str:
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if is_plural else word


def rows_of(slices: Sequence[bytes]) -> list[RowT]:
    """Return the rows of a map with slices of JSON objects."""
    rows = json.loads(b"[" + BETWEEN.join(slices) + b"]")
    return [(row["url"], row.get("title"), row.get("description")) for row in rows]


def pages_of_site(
    slices: Sequence[bytes], start: str, text: str, limit: int
) -> list[str]:
    """Return up to ``limit`` URLs of a map that fit a text, in the order of the map.

    Only URLs with the path of ``start`` or a path below it count. If few URLs fit, others
    follow, up to :data:`UNFITTING_PAGES` in all. Without a text all URLs fit.
    """
    path = url_parts(start).path.rstrip("/")
    rows = [
        row
        for row in rows_of(slices)
        if f"{url_parts(row[0]).path}/".startswith(f"{path}/")
    ]
    if not text:
        return [row[0] for row in rows[:limit]]
    words = SearchWords(text)
    fitting = [row[0] for row in rows if words.score(*row)]
    left = max(0, UNFITTING_PAGES - len(fitting))
    known = set(fitting)
    others = [row[0] for row in rows if row[0] not in known][:left]
    return [*fitting, *others][:limit]


def pages_elsewhere(
    pages: Sequence[bytes], urls: Sequence[str], text: str, limit: int
) -> list[str]:
    """Return up to ``limit`` links to other hosts that fit a text, best first.

    ``pages`` are the JSON of pages with their links. Links to the hosts of ``urls`` are
    left out.
    """
    own = {"", *(_host(url) for url in urls)}
    words = SearchWords(text)
    scores: dict[str, int] = {}
    for body in pages:
        for link in json.loads(body).get("links") or ():
            if link not in scores and _host(link) not in own:
                scores[link] = words.score(link, None, None) if text else 1
    fitting = sorted((url for url in scores if scores[url]), key=lambda u: -scores[u])
    return fitting[:limit]


def _host(url: str) -> str:
    return host_of(url).removeprefix("www.")
