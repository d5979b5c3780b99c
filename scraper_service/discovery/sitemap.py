"""Sitemaps and feeds: their URLs, compression and entries, and what ``<lastmod>`` proves."""

from __future__ import annotations

import calendar
import io
import json
import re
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field, frozen

from scraper_service.content.decode import (
    SNIFFED_BYTES,
    clean_text,
    codec_of,
    decode_start,
    sniff,
    utf8_of,
)
from scraper_service.content.metadata.dates import w3c_time
from scraper_service.content.page_status import MAX_JUDGED, WEB_PAGE, page_sent_as_file
from scraper_service.discovery.canonical_urls import (
    crawl_key,
    parse_url,
    plain_host,
    site_of,
)
from scraper_service.discovery.scope_rules import CrawlScope, ScopeOptions
from scraper_service.discovery.sitemap_xml import (
    ROOTS,
    START,
    SitemapEntry,
    SitemapParser,
    cut_of,
)
from scraper_service.errors import plural
from scraper_service.items import PageError, PageSource
from scraper_service.options.jobs import CrawlOptions
from scraper_service.options.urls import MAX_URL, join_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    # Makes the rows of a file from all its entries.
    ChoiceT: TypeAlias = Callable[[Iterable[SitemapEntry]], Any]

HOUR_S = 3600
LATEST_ZONE_S = 12 * HOUR_S  # a day ends last in the zone UTC-12
SKEW_S = HOUR_S  # between the clocks of a site and of the service

# W3C Date and Time Formats, https://www.w3.org/TR/NOTE-datetime
_DAY = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?$")
# Limits of one file; the first two are those of sitemaps.org/protocol.html.
MAX_BYTES = 52_428_800  # decoded
MAX_URLS = 50_000  # entries of pages or sitemaps
FETCH_TIMEOUT_S = 120
# Limits of one job, which has to store the files (docs/how-to/crawling.md, Sitemaps).
MAX_FILES = 500
MAX_LEVELS = 3  # levels of nesting: an index, its sitemaps, and one more
# Responses that a crawl keeps for the next one, as received.
MAX_KEPT_BYTES = 8 * 2**20  # of one file
MAX_KEPT_TOTAL = 64 * 2**20  # of one process of a job
# The code of a guessed sitemap that is missing. The job forgets its URL.
GUESS = "guess"
SLICE_ROWS = 1000  # about 100 kB of JSON; decoded in 1 ms
MAX_GZIP_LAYERS = 2  # in the file itself: some servers compress a .gz file again
PIECE = 256 * 2**10  # characters
MAX_PIECE = 2**20  # characters without a cut
FEED_RECORDS = frozenset({"item", "entry"})
_GZIP = b"\x1f\x8b\x08"
_WEB_URL = re.compile(r"https?://(?:[^/?#\s\[]|\[[0-9a-f:.]+\])", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LINE = re.compile(r"(?:^|\r)[ \t]*(https?://\S+)", re.IGNORECASE | re.MULTILINE)
_SITEMAP = re.compile(
    r"https?://[^/?#]+/[^?#]*\.xml(?:\.gz)?(?:[?#]|\Z)", re.IGNORECASE
)
# Endings of pages; a path with such an ending is not a folder.
PAGE_ENDINGS = (".html", ".htm", ".xhtml", ".php", ".asp", ".aspx", ".jsp")


def proves_no_change(lastmod: str, fetched_at: float) -> bool:
    """Return True if a page has not changed after it was fetched.

    ``lastmod`` is the current value in the sitemap, ``fetched_at`` is in seconds since 1970. A
    day, a month or a year counts to its end, in any time zone. Other texts prove nothing.
    """
    end = _end_of(lastmod.strip())
    return end is not None and end + SKEW_S < fetched_at


def _end_of(text: str) -> float | None:
    """Return the last moment that a time may stand for, None for no time."""
    try:
        if found := _DAY.match(text):
            year, month, day = (int(part) if part else 0 for part in found.groups())
            month = month or 12
            day = day or calendar.monthrange(year, month)[1]
            midnight = datetime(year, month, day, tzinfo=UTC).timestamp()
            return midnight + 24 * HOUR_S + LATEST_ZONE_S
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        return None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC).timestamp() + LATEST_ZONE_S
    return moment.timestamp()


# Codes of the errors of a file that was answered.
ABSENT, UNREADABLE = "SITEMAP_ABSENT", "SITEMAP_UNREADABLE"


@frozen(kw_only=True)
class SitemapContent:
    """The result of reading a sitemap file."""

    #: What the choice made of the entries.
    rows: Any = ()
    #: The URLs of further sitemaps, at most :data:`MAX_FILES`.
    nested: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: Why the file is unreadable; None if it was read.
    error: PageError | None = None
    #: What the file is if it is a web page, such as a challenge; or None.
    page: str | None = None
    #: False for a file of another kind, without entries of a sitemap.
    is_sitemap: bool = True


def read_sitemap(source: PageSource, choice: ChoiceT = list) -> SitemapContent:
    """Read a sitemap, an index of sitemaps, a text file of URLs, RSS or Atom.

    ``choice`` gets the entries in the order of the file, each URL once. Damaged files
    are read up to the damage. At most ``source.max_bytes`` and :data:`MAX_BYTES` are
    decoded. The caller checks the status of the response.
    """
    reading = _Reading(source)
    rows = choice(reading.entries())
    return reading.content(rows)


def absent(status: int) -> PageError:
    """Return the error of a file that the site does not send."""
    return PageError(ABSENT, f"HTTP status {status}")


def json_slices(rows: Iterable[Sequence[Any]]) -> tuple[bytes, ...]:
    """Return JSON arrays of up to :data:`SLICE_ROWS` rows each."""
    left = iter(rows)
    slices = iter(lambda: list(islice(left, SLICE_ROWS)), [])
    return tuple(
        json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode()
        for each in slices
    )


def is_sitemap_url(url: str) -> bool:
    """Return True if the path of an absolute URL ends in ``.xml`` or ``.xml.gz``."""
    return ".xml" in url.lower() and _SITEMAP.match(url) is not None


@define
class _Reading:
    """The reader of one file: first all :meth:`entries`, then the :meth:`content`."""

    source: PageSource
    is_html: bool = False
    #: What the file is if it is a web page, such as a challenge.
    page: str | None = None
    #: True for the root of a sitemap or feed, and for a file with entries.
    is_sitemap: bool = False
    #: The error of the file as the end of a sentence, or None.
    error: str | None = None
    #: The number of entries, including duplicates and refused entries.
    offered: int = 0
    #: The number of entries that are too long or not http(s).
    refused: int = 0
    #: The URLs of further sitemaps, in order.
    nested: dict[str, None] = field(factory=dict)
    #: The URLs of pages.
    seen: set[str] = field(factory=set)
    #: The time of the last change of the file, which is that of entries of feeds without a
    #: time of their own.
    modified: str | None = field(init=False)

    @modified.default
    def _default_modified(self) -> str | None:
        return w3c_time(self.source.last_modified)

    def entries(self) -> Iterator[SitemapEntry]:
        """Yield the entry of each page."""
        for record, entry in self._records():
            self.is_sitemap = True
            self.offered += 1
            url = entry.url
            if self.offered > MAX_URLS:
                return
            if len(url) > MAX_URL or not _WEB_URL.match(url):
                self.refused += 1
            # As in the reference API, a sitemap may also stand among pages.
            elif record == "sitemap" or (record == "url" and is_sitemap_url(url)):
                if len(self.nested) <= MAX_FILES:
                    self.nested[url] = None
            elif url not in self.seen:
                self.seen.add(url)
                if record in FEED_RECORDS and entry.lastmod is None:
                    entry = entry._replace(lastmod=self.modified)  # noqa: PLW2901
                yield entry

    def content(self, rows: Any) -> SitemapContent:
        """Return the content of the file with these ``rows``."""
        warnings = []
        if self.offered > MAX_URLS:
            text = f"The sitemap has over {MAX_URLS} URLs; later ones are ignored."
            warnings.append(text)
        if len(self.nested) > MAX_FILES:
            text = f"The index has over {MAX_FILES} sitemaps; later ones are ignored."
            warnings.append(text)
        if self.refused:
            text = f"Ignored {plural(self.refused, 'URL')}: too long, or not http(s)."
            warnings.append(text)
        error = None
        if self.page is not None:
            error = PageError(UNREADABLE, f"The file is {self.page}, not a sitemap.")
        elif self.error and (self.seen or self.nested):
            warnings.append(f"The sitemap {self.error}; it was read up to there.")
        elif self.error:
            error = PageError(UNREADABLE, f"The sitemap {self.error}.")
        elif not self.is_sitemap:
            warnings.append("The file has no entries of a sitemap.")
        nested = tuple(self.nested)[:MAX_FILES]
        return SitemapContent(
            rows=rows,
            nested=nested,
            warnings=tuple(warnings),
            error=error,
            page=self.page,
            is_sitemap=self.is_sitemap,
        )

    def _records(self) -> Iterator[tuple[str, SitemapEntry]]:
        source = self.source
        limit = min(source.max_bytes, MAX_BYTES)
        body, self.error = decode_start(source.body, source.content_encodings, limit)
        for _ in range(MAX_GZIP_LAYERS):
            if body.startswith(_GZIP):
                body, error = decode_start(body, ("gzip",), limit)
                self.error = self.error or error
        yield from self._entries_of(body)
        if self.is_html or not self.is_sitemap:
            html = utf8_of(body[:MAX_JUDGED], source.content_type)
            self.page = page_sent_as_file(html, source.url)
            if self.is_html:
                self.page = self.page or WEB_PAGE

    def _entries_of(self, body: bytes) -> Iterator[tuple[str, SitemapEntry]]:
        source = self.source
        codec, start = codec_of(body, source.content_type, "xml")
        stream = io.BytesIO(body)
        stream.seek(start)
        text = io.TextIOWrapper(stream, codec, "replace", newline="")
        head = text.read(PIECE)
        match = START.search(_COMMENT.sub("", head[:SNIFFED_BYTES]))
        kind, mime = sniff(body[:SNIFFED_BYTES], "")
        if not head.strip("\0 \n\t\r"):
            self.error = self.error or "is empty"
        elif match and match["html"]:
            self.is_html = True
        elif match or head.lstrip().startswith("<"):
            head = head[head.find("<") :]
            yield from self._xml_records(_pieces(head, text, cut_of))
        elif kind in {"binary", "pdf"} and not codec.startswith("utf-16"):
            self.error = f"is a file of type {mime}"
        else:
            for piece in _pieces(head, text, _end_of_lines):
                for line in _LINE.finditer(clean_text(piece)):
                    yield "url", SitemapEntry(line[1])

    def _xml_records(self, pieces: Iterator[str]) -> Iterator[tuple[str, SitemapEntry]]:
        parser = SitemapParser(self.source.url)
        for piece in pieces:
            yield from parser.feed(piece)
            if parser.error or parser.root == "html":
                break
        else:
            parser.close()
        self.is_html = parser.root == "html"
        self.is_sitemap |= parser.root in ROOTS
        self.error = self.error or parser.error


def _pieces(
    head: str, text: io.TextIOWrapper, cut: Callable[[str], int]
) -> Iterator[str]:
    """Yield ``head`` and the tail of ``text`` in pieces of the lengths from ``cut``."""
    waiting = head
    for part in iter(partial(text.read, PIECE), ""):
        end = len(waiting) if len(waiting) > MAX_PIECE else cut(waiting)
        if end:
            yield waiting[:end]
        waiting = waiting[end:] + part
    yield waiting


def _end_of_lines(text: str) -> int:
    return text.rfind("\n") + 1


def reads_sitemaps(options: ScopeOptions) -> bool:
    """Return True if a crawl or map reads sitemaps."""
    return options.sitemap != "skip" and not options.scrape.lockdown


def starts_with_sitemap(options: ScopeOptions) -> bool:
    """Return True if the start URL is a sitemap instead of a page."""
    return reads_sitemaps(options) and is_sitemap_url(options.url)


def first_scope(options: CrawlOptions) -> CrawlScope:
    """Return the initial scope of a crawl, see :func:`first_base`."""
    return CrawlScope(options, first_base(options))


def first_base(options: ScopeOptions) -> str:
    """Return the initial base URL of a crawl or a map.

    If the start URL is a sitemap, the base is the root of the host.
    """
    url = options.url
    return join_url(url, "/") if starts_with_sitemap(options) else url


def sitemap_candidates(start_url: str, declared: Sequence[str]) -> tuple[str, ...]:
    """Return the sitemap URLs to try, in order, at most :data:`MAX_FILES`.

    First come the absolute URLs ``declared`` in robots.txt. Then the start URL if it is
    a sitemap, else ``sitemap.xml`` in its folder. Then ``sitemap.xml`` at the root of the
    host and, for a subdomain, of the main domain. All URLs are http(s), unique and in
    normal form.
    """
    start = parse_url(start_url)
    if start is None or not start.is_web:
        raise ValueError(f"not an http(s) URL: {start_url!r:.100}")
    root = f"{start.scheme}://{start.host}"
    folder = f"{root}{_folder(start.path)}/sitemap.xml"
    first = start.href if is_sitemap_url(start.href) else folder
    # The three usual URLs are the likeliest: the declared URLs leave capacity for them.
    candidates = [*declared[: MAX_FILES - 3], first, f"{root}/sitemap.xml"]
    name, colon, port = start.host.partition(":")
    site = site_of(start.host)
    if site not in {start.host, plain_host(name)}:
        candidates.append(f"{start.scheme}://{site}{colon}{port}/sitemap.xml")
    found = (parsed for url in candidates if (parsed := parse_url(url)))
    urls = (parsed.href.partition("#")[0] for parsed in found if parsed.is_web)
    return tuple(dict.fromkeys(urls))


def _folder(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return folder if name.lower().endswith(PAGE_ENDINGS) else path.rstrip("/")


@frozen
class SitemapChoice:
    """Converts the entries of a sitemap to rows with the fields of ``FoundLink``."""

    options: CrawlOptions
    #: The base URL of the crawl's scope.
    base: str

    def __call__(self, entries: Iterable[SitemapEntry]) -> tuple[bytes, ...]:
        scope = CrawlScope(self.options, self.base)
        return json_slices(self._row(scope, entry) for entry in entries)

    def _row(
        self, scope: CrawlScope, entry: SitemapEntry
    ) -> tuple[str | int | None, ...]:
        parsed = parse_url(entry.url)
        url = entry.url if parsed is None else parsed.href
        refusal = scope.refusal_of(parsed)
        reason, rule = (refusal.reason.value, refusal.rule) if refusal else (None, None)
        return (
            url,
            crawl_key(self.options, parsed or url),
            reason,
            rule,
            entry.lastmod,
        )
