"""The stages of a page, and the other items of spiders.

The downloader makes a ``PageSource``, the converter pool turns it into a ``PageContent``,
and pipelines make this a ``Page``, which the caller gets.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from attrs import asdict, evolve, field, frozen

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.formats import ChangeTracking
from scraper_service.options.scrape import ScrapeOptions

# Hash, first byte and end of a block; see scraper_service/content/formats/summary_and_tokens.py.
BlockT = tuple[int, int, int]
DATA_LOSS = "dataloss"  # Scrapy's flag of a truncated response
MAX_FILE_NAME = 255  # characters of the name of an uploaded file
SHOWN = 60  # characters of a name in an error
UPLOADED = "upload://file/"  # URL prefix of uploaded files, before the file name
DUPLICATE = "duplicate"  # error code of a page that equals another page of its job
#: Codes of pages of a crawl with ``since``: the same as before, and gone since then.
UNCHANGED, REMOVED = "unchanged", "removed"
#: Kinds of ``metadata.losses`` with a name for people, in the singular.
LOSS_KINDS = {
    "annotation": "annotation",
    "audio": "sound",
    "chart": "chart",
    "code": "code block",
    "diagram": "diagram",
    "embeddedDocument": "embedded document",
    "formField": "form field",
    "formula": "formula",
    "frame": "frame",
    "hiddenPart": "hidden part",
    "image": "image",
    "recycledRows": "recycled row",
    "shadowRoot": "shadow root",
    "table": "table",
    "truncated": "cut part",
    "unreadableText": "unreadable text",
    "video": "video",
}
QUEUE_FULL = "QUEUE_FULL"  # error code of a page that was refused before conversion


@frozen
class PageError:
    """Why a page could not be fetched or converted."""

    #: An error code, see docs/api/README.md, Errors.
    code: str
    message: str


#: Headers that name the price of a page: of pay per crawl, x402 and L402.
PRICE_HEADERS = (
    "crawler-price",
    "crawler-max-price",
    "payment-required",
    "x-payment-required",
    "www-authenticate",
)


@frozen(kw_only=True)
class PageSource:
    """A response as it was downloaded, and which parts of its content to compute."""

    #: The final URL.
    url: str
    status: int
    #: The body as received, still encoded.
    body: bytes
    #: The header ``Content-Type``; empty without one.
    content_type: str = ""
    #: The header ``Refresh``; empty without one.
    refresh: str = ""
    #: The header ``Last-Modified``; empty without one.
    last_modified: str = ""
    #: The headers of a response with the status 402 that may name a price.
    price_headers: tuple[tuple[str, str], ...] = ()
    #: Compute :attr:`PageContent.found`.
    find_links: bool = False
    #: Computes :attr:`PageContent.links` of ``found``, the depth of the links, the URL, and
    #: ``found_times``.
    check_links: (
        Callable[[tuple[str, ...], int, str, Mapping[str, str]], tuple[bytes, ...]]
        | None
    ) = None
    #: The depth of the links in the crawl.
    link_depth: int = 0
    #: Compute ``fingerprint`` also for a page without a canonical URL of its own.
    find_words: bool = False
    #: Compute ``blocks`` and ``text_print``.
    find_blocks: bool = False
    #: Compute ``shell``.
    find_shell: bool = False
    #: Compute ``search``.
    find_search: bool = False
    #: Compute ``search`` when the other content has been sent.
    finds_search_later: bool = False
    #: Compute so many characters of ``text``.
    find_text: int = 0
    #: Compute ``packed``.
    pack_body: bool = False
    #: Encodings of the body, in lower case, the outermost last.
    content_encodings: tuple[str, ...] = ()
    #: The Markdown of the page that embeds the document; it comes first.
    lead: str = ""
    #: True if the body is truncated.
    is_cut: bool = False
    #: The most bytes of the decoded body.
    max_bytes: int = 20 * 2**20

    @property
    def shown_url(self) -> str:
        """The URL; for an uploaded file its name."""
        if not self.url.startswith(UPLOADED):
            return self.url
        return unquote(self.url.removeprefix(UPLOADED))


class FoundLink(NamedTuple):
    """A link of a crawl. A tuple, since a page may have hundreds."""

    url: str
    #: The key of the URL in the job.
    key: int
    #: Why the link is not followed; None if it is.
    reason: str | None = None
    #: The rule behind ``reason``.
    rule: str | None = None
    #: ``<lastmod>`` of a sitemap.
    lastmod: str | None = None


#: The fields of a :class:`FoundLink`, in a tuple that is made faster.
LinkRowT: TypeAlias = tuple[str, int, str | None, str | None, str | None]


@frozen
class Lease:
    """The right of a process to fetch one URL of a job and to store the outcome."""

    #: The row of the URL in the frontier.
    row_id: int
    #: The key of the URL in the job.
    key: int
    #: The fencing token.
    token: int
    #: Links between the start page and the URL; for a sitemap its level of nesting.
    depth: int
    is_sitemap: bool = False
    #: ``<lastmod>`` of the URL in a sitemap that was read before.
    lastmod: str | None = None


@frozen(kw_only=True)
class Rendered:
    """Results of a browser besides the HTML of a page."""

    #: The URL of the screenshot.
    screenshot: str | None = None
    #: The four lists of action results as JSON text; None without actions.
    actions: bytes | None = None
    #: The time zone that the browser emulated.
    time_zone: str | None = None


@frozen(kw_only=True)
class Snapshot:
    """A new snapshot of a page with change tracking."""

    team_id: str
    #: The key of the page's history.
    key: str
    #: Number of the snapshot that this one replaces; 0 for the first.
    version: int
    body: bytes
    #: Seconds until it expires.
    keep_s: float


@frozen(kw_only=True)
class Tracked:
    """The input of change tracking for one page."""

    team_id: str
    url: str
    #: The options of the format.
    options: ChangeTracking
    #: JSON text, see :mod:`scraper_service.content.formats.change_tracking`.
    draft: bytes
    #: The Markdown as JSON text.
    markdown: bytes
    is_gone: bool
    #: True for a URL that the caller named and no link led to.
    is_asked_for: bool
    #: True if a snapshot may be stored.
    is_kept: bool
    #: The page's warning without the warnings of the comparison.
    warning: str | None = None
    #: None before the comparison.
    snapshot: Snapshot | None = None


@frozen(kw_only=True)
class KeptResponse:
    """The response of a page, which its job keeps."""

    #: The final URL.
    url: str
    #: Seconds since 1970.
    at: float
    engine: str
    #: The status line and the fields, up to the empty line.
    head: bytes
    #: As received, without chunks, with its content encodings.
    body: bytes
    content_type: str = ""
    is_cut: bool = False
    #: The compressed body, if a converter process has made it.
    packed: bytes = b""


@frozen(kw_only=True)
class Fetch:
    """The request for a page and its outcome, as the transport reports them."""

    scrape_id: str
    #: The URL as the caller wrote it.
    source_url: str
    #: The URL of the last request.
    url: str
    options: ScrapeOptions
    #: ``http`` or ``browser``.
    engine: str = "http"
    #: ``basic`` or ``stealth``.
    proxy: str = "basic"
    rendered: Rendered | None = None
    #: Warnings of the transport.
    warnings: tuple[str, ...] = ()
    #: None without a response.
    status: int | None = None
    content_type: str = ""
    #: The header ``X-Robots-Tag``.
    robots_tag: str = ""
    #: Why there is no response.
    cause: BaseException | None = None
    lease: Lease | None = None
    #: ``hit`` or ``miss``; None if the cache was not read.
    cache_state: str | None = None
    #: Time of the cached response in seconds since 1970.
    cached_at: float | None = None
    #: Seconds that the team's limit delayed the request; None without delay.
    queued_s: float | None = None
    #: None outside of the service.
    team_id: str | None = None
    #: True for a URL that the caller named and no link led to.
    is_asked_for: bool = False
    #: True for an uploaded file.
    is_upload: bool = False
    #: When the caller stops waiting (:func:`time.monotonic`).
    deadline: float | None = None
    #: When the first request for the page started (:func:`time.monotonic`).
    began_at: float | None = None
    #: The id of the caller's key or team; empty in local runs.
    account: str = ""
    #: The page of another job that the response was stored for; None for a fetch.
    source_scrape_id: str | None = None
    #: None unless the job keeps the sources of its pages.
    kept: KeptResponse | None = None
    #: True for a page that repeats the one of an earlier job, because it has not changed.
    is_unchanged: bool = False
    #: The compressed JSON of the page of the base of the job, or the hashes of its texts;
    #: None without one.
    base_page: bytes | str | None = None


@frozen
class Upload:
    """An uploaded file."""

    name: str
    #: Empty if unknown.
    content_type: str
    body: bytes


def upload_of(filename: str, kind: str, body: bytes) -> Upload:
    """Return a file with the name and content type that its sender gives.

    Raises :exc:`InvalidOptions` for a file without name or content.
    """
    try:
        name = file_name(filename)
    except ValueError as error:
        raise InvalidOptions([Issue("custom", ("file",), str(error))]) from None
    if not body:
        text = f"the file {name!r} is empty"
        raise InvalidOptions([Issue("custom", ("file",), text)])
    return Upload(name, content_type(name, kind), body)


def file_name(given: str) -> str:
    """Return the name in the path that a client gives.

    Raises :exc:`ValueError` for a path without a name, or with a long one.
    """
    name = given.replace("\\", "/").rpartition("/")[2].strip()
    name = "".join(c for c in name if c.isprintable())
    if not name:
        raise ValueError("the file has no name")
    if len(name) > MAX_FILE_NAME:
        raise ValueError(
            f"a file name has at most {MAX_FILE_NAME} characters, got {len(name)}:"
            f" {name[:SHOWN]!r}..."
        )
    return name


def content_type(name: str, given: str) -> str:
    """Return the type of a file. Its name decides if the client gives none."""
    if given.lower() in {"", "application/octet-stream"}:
        return mimetypes.guess_type(name)[0] or ""
    return given


@frozen(kw_only=True)
class TakenPage:
    """A page as a session of the browser shows it, instead of a fetch."""

    url: str
    status: int
    #: The HTML in UTF-8.
    body: bytes
    rendered: Rendered
    warnings: tuple[str, ...] = ()


@frozen
class MetaRefresh:
    """A ``<meta http-equiv="refresh">`` or the header ``Refresh``."""

    #: Delay in seconds.
    delay_s: float
    #: Absolute URL.
    url: str


@frozen(kw_only=True)
class PageContent:
    """The result of converting one page.

    Either ``error`` is set, or ``values`` holds the requested formats.
    """

    #: By name (``markdown``, ``raw_html``, ...) the JSON text of each format. The pool
    #: makes the text, so that the reactor never encodes large values.
    values: Mapping[str, bytes] = field(factory=dict)
    #: Metadata with names of their own (``title``, ``og_title``, ``published_time``).
    known: Mapping[str, str | list[str]] = field(factory=dict)
    #: All other ``<meta>`` tags.
    other: Mapping[str, str | list[str]] = field(factory=dict)
    #: Absolute http(s) URLs of the raw page in document order, each once.
    found: tuple[str, ...] = ()
    #: The times of the last change of some of ``found``, as a feed has them.
    found_times: Mapping[str, str] = field(factory=dict)
    #: The links of ``found`` instead of it, checked by ``PageSource.check_links``: slices
    #: for :func:`scraper_service.discovery.scope_rules.link_rows`.
    links: tuple[bytes, ...] = ()
    #: The canonical URL that the page declares.
    canonical: str | None = None
    #: Fingerprint of the main text; 0 without text.
    fingerprint: int = 0
    #: Blocks of the Markdown, see :mod:`scraper_service.content.formats.summary_and_tokens`.
    blocks: tuple[BlockT, ...] = ()
    #: Fingerprint of the Markdown; 0 for too little text.
    text_print: int = 0
    refresh: MetaRefresh | None = None
    #: Why the page needs its scripts to run first; None if it does not.
    shell: str | None = None
    #: The URLs of documents that may be the text of a page without text, and whether each is
    #: a file.
    embedded: tuple[tuple[str, bool], ...] = ()
    #: The URL of the embedded document in the formats, set by the spider.
    embedded_url: str | None = None
    #: The packed entry for the search index of the team's pages; may be empty. With
    #: ``finds_search_later`` its future, with None if the process has died.
    search: bytes | Awaitable[bytes | None] = b""
    #: The body as a job stores it, see
    #: :func:`scraper_service.content.stored_pages.pack_body`; may be empty.
    packed: bytes = b""
    #: Converted pages of a PDF file or the like.
    num_pages: int | None = None
    #: All pages of the file.
    total_pages: int | None = None
    #: Tokens of the whole Markdown; None without Markdown.
    token_count: int | None = None
    #: What part of the Markdown the value ``part`` is; None for the whole.
    chunk: Mapping[str, int] | None = None
    #: How often each kind of personal data was replaced; None if it may stay.
    redacted: Mapping[str, int] | None = None
    #: What is in none of the formats, see :mod:`scraper_service.content.losses`.
    losses: tuple[Mapping[str, Any], ...] = ()
    #: The Markdown for a language model.
    text: str = ""
    #: An excerpt that looks like a prompt injection, if this was checked.
    injection: str | None = None
    #: Warnings of extraction rules, by the name of the format.
    rule_warnings: Mapping[str, tuple[str, ...]] = field(factory=dict)
    #: ``rules``, ``model`` or ``both``; None without a question.
    answered_by: str | None = None
    #: Tokens of the language model.
    tokens_used: int | None = None
    warnings: tuple[str, ...] = ()
    #: Why the conversion failed.
    error: PageError | None = None
    #: Set by the spider.
    fetch: Fetch | None = None
    #: New links, set by the spider.
    follow: tuple[LinkRowT, ...] = ()
    #: The URL on another site that a crawl's start page redirected to; by the spider.
    base: str | None = None

    def __str__(self) -> str:
        return f"the page {self.fetch.source_url if self.fetch else None}"  # in logs


@frozen(kw_only=True)
class SitemapFile:
    """A sitemap file of a crawl, read or failed."""

    lease: Lease
    #: JSON arrays with the fields of :class:`FoundLink`.
    slices: tuple[bytes, ...] = ()
    #: Further sitemaps that it lists.
    nested: tuple[FoundLink, ...] = ()
    warnings: tuple[str, ...] = ()
    #: Why nothing could be read.
    error: PageError | None = None
    #: Why there is no response.
    cause: BaseException | None = None
    #: The response, if the job keeps it.
    kept: KeptResponse | None = None


@frozen
class KnownPage:
    """A URL that a crawl of the team has found."""

    url: str
    #: The compressed JSON of its page; None without a useful page.
    body: bytes | None = None


def _is_known(_: object, value: object) -> bool:
    return bool(value)


@frozen
class MapLink:
    """One URL of a map. Unknown facts are None."""

    url: str
    title: str | None = None
    description: str | None = None

    def as_dict(self) -> dict[str, str]:
        """Return what is known, for feeds."""
        return asdict(self, filter=_is_known)


@frozen(kw_only=True)
class Hit:
    """A result of a search engine."""

    #: URL of the page; for an image the page that contains it.
    url: str
    title: str = ""
    #: A description of the page; for news an excerpt.
    description: str = ""
    #: The date in the format of the engine.
    date: str | None = None
    image_url: str | None = None
    #: In pixels; None if unknown.
    image_width: int | None = None
    image_height: int | None = None


@frozen(kw_only=True)
class SearchResult:
    """A result of the search spider. Unknown facts are empty or None."""

    source: str
    #: The rank in its source, from 1.
    position: int
    url: str
    title: str = ""
    description: str = ""
    date: str | None = None
    image_url: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is known, for feeds."""
        return asdict(self, filter=_is_known)


@frozen(kw_only=True)
class MapFound:
    """The result of a map."""

    #: The URLs in order as JSON, in the form that the caller's ``shape`` gives them,
    #: see :func:`scraper_service.discovery.map_results.order_rows`.
    slices: tuple[bytes, ...] = ()
    #: The number of URLs.
    count: int = 0
    warnings: tuple[str, ...] = ()
    #: Name and error of each source without a response.
    failures: tuple[tuple[str, BaseException], ...] = ()


@frozen
class SearchPage:
    """A page for the search index of a team."""

    team_id: str
    url: str
    #: See :attr:`PageContent.search`.
    entry: bytes | Awaitable[bytes | None]


@frozen(kw_only=True)
class PageMetadata:
    """The metadata of a page, see docs/api/scrape.md, Metadata."""

    #: The URL as the caller wrote it.
    source_url: str
    scrape_id: str
    #: See :attr:`Fetch.source_scrape_id`.
    source_scrape_id: str | None = None
    #: The final URL.
    url: str
    #: None without a response.
    status_code: int | None = None
    content_type: str | None = None
    robots_tag: str | None = None
    #: See :attr:`Lease.lastmod`.
    sitemap_lastmod: str | None = None
    proxy_used: str = "basic"
    engine: str | None = None
    time_zone: str | None = None
    #: See :attr:`Fetch.is_unchanged`.
    is_unchanged: bool = False
    #: ``new`` or ``changed``, in a crawl with ``since``.
    change: str | None = None
    credits_used: int = 0
    answered_by: str | None = None
    tokens_used: int | None = None
    cache_state: str | None = None
    cached_at: float | None = None
    num_pages: int | None = None
    total_pages: int | None = None
    token_count: int | None = None
    chunk: Mapping[str, int] | None = None
    redacted: Mapping[str, int] | None = None
    #: See :attr:`PageContent.losses`.
    losses: tuple[Mapping[str, Any], ...] = ()
    #: See :attr:`PageContent.embedded_url`.
    embedded_url: str | None = None
    error: str | None = None
    duplicate_of: str | None = None
    #: Milliseconds that the team's limit delayed the page; None without delay.
    queued_ms: int | None = None
    #: See :attr:`PageContent.known`.
    known: Mapping[str, str | list[str]] = field(factory=dict)
    #: See :attr:`PageContent.other`.
    other: Mapping[str, str | list[str]] = field(factory=dict)


@frozen(kw_only=True)
class Page:
    """One page as a caller gets it: fetched, failed or refused."""

    metadata: PageMetadata
    #: See :attr:`PageContent.values`.
    values: Mapping[str, bytes] = field(factory=dict)
    warning: str | None = None
    #: None for every converted response, whatever its status.
    failure: PageError | None = None
    #: See :attr:`PageContent.blocks`.
    blocks: tuple[BlockT, ...] = ()
    #: See :attr:`PageContent.text_print`.
    text_print: int = 0
    #: The text that its job stores to find duplicates.
    text: Any = None
    #: None without change tracking.
    tracked: Tracked | None = None
    #: None if the page is not put into the search index.
    search: SearchPage | None = None
    #: The lease of the page in its job.
    lease: Lease | None = None
    #: See :attr:`PageContent.follow`.
    follow: tuple[LinkRowT, ...] = ()
    #: See :attr:`PageContent.base`.
    base: str | None = None
    #: See :attr:`Fetch.kept`.
    kept: KeptResponse | None = None
    #: See :attr:`Fetch.base_page`.
    base_page: bytes | str | None = None
    #: The hashes of the texts of the earlier page, of a page that is not delivered.
    text_hashes: str | None = None

    @property
    def whole(self) -> Page:
        """The page with its whole Markdown instead of a part of it."""
        if self.metadata.chunk is None:
            return self
        values = {name: value for name, value in self.values.items() if name != "part"}
        return evolve(self, values=values, metadata=evolve(self.metadata, chunk=None))

    def __str__(self) -> str:
        return f"the page {self.metadata.source_url}"  # in logs
