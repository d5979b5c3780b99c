"""Sitemaps and feeds: from a file to the addresses in it, in slices.

Sources: sitemaps.org/protocol.html, interface document, part 11.5. Alternates of a page
in other languages (``xhtml:link``) are not taken: the protocol has an entry for each.
Images and videos of a page are no pages.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from attrs import define, evolve, field, frozen

from scraper_service.content.decode import clean_text, codec_of, decode_start
from scraper_service.content.detect_type import SNIFFED_BYTES, sniff
from scraper_service.content.text.xml_repair import cut_of
from scraper_service.discovery.sitemap_xml import START, Found, SitemapParser
from scraper_service.items import PageSource
from scraper_service.options.urls import MAX_URL

if TYPE_CHECKING:
    from collections.abc import Iterator

    ChooseT: TypeAlias = "Callable[[SitemapEntry], Sequence[Any] | None]"

KindT = Literal["urlset", "index", "text", "rss", "atom", "html", "none"]

# Of one file (sitemaps.org/protocol.html).
MAX_BYTES = 52_428_800  # decoded
MAX_URLS = 50_000  # or sitemaps
# Of one job, which has to keep them (interface document, 11.5; THREATS.md, X-10).
FETCH_TIMEOUT_S = 120  # for one file
MAX_FILES = 500
MAX_LEVELS = 3  # of files inside each other: an index, its sitemaps, and one more

SLICE_ROWS = 1000  # about 100 kB of JSON; decoded in 1 ms
MAX_GZIP_LAYERS = 2  # of the file itself: some servers compress a .gz once more
PIECE_BYTES = 256 * 2**10
MAX_PIECE = 2**20  # characters that wait for their end

_GZIP = b"\x1f\x8b\x08"
_ADDRESS = re.compile(r"https?://(?:[^/?#\s\[]|\[[0-9a-f:.]+\])", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LINE = re.compile(r"(?:^|\r)[ \t]*(https?://\S+)", re.IGNORECASE | re.MULTILINE)
_SITEMAP = re.compile(
    r"https?://[^/?#]+/[^?#]*\.xml(?:\.gz)?(?:[?#]|\Z)", re.IGNORECASE
)


class SitemapEntry(NamedTuple):
    """One page of a sitemap. ``url`` is absolute, http(s).

    ``lastmod`` is a W3C date or time (ISO 8601); ``title`` and ``description``, which
    news and feeds have, are plain text.
    """

    url: str
    lastmod: str | None = None
    title: str | None = None
    description: str | None = None


@frozen(kw_only=True)
class SitemapContent:
    """What a file says, or the ``error`` why it says nothing.

    ``slices`` are JSON arrays of at most :data:`SLICE_ROWS` rows each, unique and in
    the order of the file, so that nobody has to decode all of them at once; a map has
    slices of its own. ``count`` is the number of rows, ``found`` that of the entries
    they were chosen from.
    ``nested`` are further sitemaps, :data:`MAX_FILES` or less, as (address, lastmod).
    """

    kind: KindT = "none"
    slices: tuple[Any, ...] = ()
    count: int = 0
    found: int = 0
    nested: tuple[tuple[str, str | None], ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None


def entries_of(rows: bytes) -> list[SitemapEntry]:
    """Return the entries of a slice, if no rows were chosen."""
    return [SitemapEntry(*row) for row in json.loads(rows)]


def read_sitemap(source: PageSource, choose: ChooseT | None = None) -> SitemapContent:
    """Read a sitemap, an index of sitemaps, a text with addresses, RSS or Atom.

    ``choose`` makes a row for JSON of an entry, or leaves it out with None; without it
    rows are the fields of :class:`SitemapEntry`. Damaged files are read up to the
    damage. At most ``source.max_bytes`` and :data:`MAX_BYTES` are decoded. Whether the
    answer's status makes it worth reading is for the caller to know.
    """
    rows = _JsonRows(choose)
    content = read_entries(source, rows.take)
    return evolve(content, slices=rows.slices(), count=rows.count)


def read_entries(
    source: PageSource, take: Callable[[SitemapEntry], None]
) -> SitemapContent:
    """Do what :func:`read_sitemap` does, but give each entry away and have no rows."""
    reading = _Reading(source, take)
    return reading.content(reading.read())


def is_sitemap_address(url: str) -> bool:
    """Tell whether the path of an absolute address ends as that of a sitemap."""
    return ".xml" in url.lower() and _SITEMAP.match(url) is not None


@define
class _JsonRows:
    """Rows as JSON, in slices."""

    choose: ChooseT | None
    count: int = 0
    _rows: list[Sequence[Any]] = field(factory=list)
    _slices: list[bytes] = field(factory=list)

    def take(self, entry: SitemapEntry) -> None:
        row = self.choose(entry) if self.choose else entry
        if row is None:
            return
        self.count += 1
        self._rows.append(row)
        if len(self._rows) == SLICE_ROWS:
            self._end_slice()

    def slices(self) -> tuple[bytes, ...]:
        if self._rows:
            self._end_slice()
        return tuple(self._slices)

    def _end_slice(self) -> None:
        text = json.dumps(self._rows, ensure_ascii=False, separators=(",", ":"))
        self._slices.append(text.encode())
        self._rows.clear()


@define
class _Reading:
    """One file being read."""

    source: PageSource
    take: Callable[[SitemapEntry], None]
    kind: KindT = "none"
    offered: int = 0  # duplicates and refused ones, too
    refused: int = 0
    is_full: bool = False
    nested: dict[str, str | None] = field(factory=dict)
    seen: set[str] = field(factory=set)

    def read(self) -> str | None:
        """Read the file; return what is wrong with it, None for nothing."""
        source = self.source
        limit = min(source.max_bytes, MAX_BYTES)
        body, fault = decode_start(source.body, source.content_encodings, limit)
        for _ in range(MAX_GZIP_LAYERS):
            if body.startswith(_GZIP):
                body, new_fault = decode_start(body, ("gzip",), limit)
                fault = fault or new_fault
        codec, start = codec_of(body, source.content_type, xml=True)
        texts = _decoded(body, codec, start)
        head = next(texts, "")
        match = START.search(_COMMENT.sub("", head[:SNIFFED_BYTES]))
        if not head.strip("\0 \n\t\r"):
            return fault or "is empty"
        if match and match["html"]:
            self.kind = "html"
            return fault
        if match or head.lstrip().startswith("<"):
            head = head[head.find("<") :]
            new_fault = self._read_xml(_pieces(head, texts, cut_of))
            return fault or new_fault
        kind, mime = sniff(body[:SNIFFED_BYTES], "")
        if kind in {"binary", "pdf"} and not codec.startswith("utf-16"):
            return f"is a file of type {mime}"
        self._read_lines(_pieces(head, texts, _end_of_lines))
        return fault

    def content(self, fault: str | None) -> SitemapContent:
        """Return what was read; ``fault`` is what ended it."""
        warnings = [text for text, is_so in self._remarks() if is_so]
        error = None
        if fault and (self.seen or self.nested):
            warnings.append(f"The sitemap {fault}; it was read up to there.")
        elif fault:
            error = f"The sitemap {fault}."
        elif self.kind == "none":
            warnings.append("The file has nothing that a sitemap has.")
        return SitemapContent(
            kind=self.kind,
            found=len(self.seen),
            nested=tuple(self.nested.items())[:MAX_FILES],
            warnings=tuple(warnings),
            error=error,
        )

    def _remarks(self) -> Iterator[tuple[str, bool]]:
        yield "The file is an HTML page, not a sitemap.", self.kind == "html"
        text = f"The sitemap has over {MAX_URLS} addresses; later ones are ignored."
        yield text, self.is_full
        text = f"The index has over {MAX_FILES} sitemaps; later ones are ignored."
        yield text, len(self.nested) > MAX_FILES
        text = f"{self.refused} addresses were ignored: too long, or not of the web."
        yield text, self.refused > 0

    def _read_xml(self, pieces: Iterator[str]) -> str | None:
        parser = SitemapParser(self.source.url)
        for piece in pieces:
            for found in parser.feed(piece):
                self._add(found)
            if parser.fault or self.is_full or parser.kind == "html":
                break
        else:
            parser.close()
        self.kind = cast("KindT", parser.kind)
        return parser.fault

    def _read_lines(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            for line in _LINE.finditer(clean_text(piece)):
                self.kind = "text"
                self._add(Found("url", line[1], None, None, None))
            if self.is_full:
                return

    def _add(self, found: Found) -> None:
        self.offered += 1
        self.is_full = self.offered > MAX_URLS
        record, url, *facts = found
        if self.is_full:
            return
        if len(url) > MAX_URL or not _ADDRESS.match(url):
            self.refused += 1
        # As in the reference, a sitemap may stand among pages, too.
        elif record == "sitemap" or (record == "url" and is_sitemap_address(url)):
            if len(self.nested) <= MAX_FILES:
                self.nested.setdefault(url, found.time)
        elif url not in self.seen:
            self.seen.add(url)
            self.take(SitemapEntry(url, *facts))


def _decoded(body: bytes, codec: str, start: int) -> Iterator[str]:
    """Yield ``body`` from ``start`` as text, piece by piece."""
    decoder = codecs.getincrementaldecoder(codec)("replace")
    for first in range(start, len(body), PIECE_BYTES):
        yield decoder.decode(body[first : first + PIECE_BYTES])
    yield decoder.decode(b"", final=True)


def _pieces(
    head: str, texts: Iterator[str], cut: Callable[[str], int]
) -> Iterator[str]:
    """Yield the same text in pieces that end where ``cut`` says."""
    waiting = head
    for text in texts:
        end = len(waiting) if len(waiting) > MAX_PIECE else cut(waiting)
        if end:
            yield waiting[:end]
        waiting = waiting[end:] + text
    yield waiting


def _end_of_lines(text: str) -> int:
    return text.rfind("\n") + 1
