"""What travels: into the converter pool, out of it, and to the caller.

``PageSource`` is what the downloader brought, ``PageContent`` what the pool understood
of it, ``Page`` what the pipelines make of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from attrs import field, fields, frozen

from scraper_service.options.formats import ChangeTracking
from scraper_service.options.scrape import ScrapeOptions

# Hash, first byte and end of a block; see scraper_service/content/text/markdown_blocks.py.
BlockT = tuple[int, int, int]
DATA_LOSS = "dataloss"  # Scrapy's flag of an answer that broke off
UPLOADED = "upload://file/"  # and the name of a file; nothing resolves against it
DUPLICATE = "duplicate"  # the code of a page that another one of its job is equal to
QUEUE_FULL = "QUEUE_FULL"  # the code of a page that was refused before its conversion


@frozen
class PageError:
    """Why a page could not be had. ``code`` is an error code of the interface."""

    code: str
    message: str


@frozen(kw_only=True)
class PageSource:
    """An answer as the downloader brought it.

    ``body`` is as received, ``content_encodings`` (outermost last, lower case) still
    to be undone, up to ``max_bytes`` of decoded text; ``is_cut``: not all of it came.
    ``url`` is the final address;
    ``content_type`` and ``refresh`` are headers, empty if none came. ``find_links``
    asks for :attr:`PageContent.found`, ``find_blocks`` for ``blocks`` and ``text_print``, ``find_words`` for the ``fingerprint`` even of a
    page that names no other address as its own, ``find_shell`` for ``shell``,
    ``find_text`` for so many characters of ``text``, ``find_search`` for ``search``.
    """

    url: str
    status: int
    body: bytes
    content_type: str = ""
    refresh: str = ""
    find_links: bool = False
    find_words: bool = False
    find_blocks: bool = False
    find_shell: bool = False
    find_search: bool = False
    find_text: int = 0
    content_encodings: tuple[str, ...] = ()
    is_cut: bool = False
    max_bytes: int = 20 * 2**20

    @property
    def shown_url(self) -> str:
        """The address; of a file that a caller sent its name."""
        if not self.url.startswith(UPLOADED):
            return self.url
        return unquote(self.url.removeprefix(UPLOADED))


class FoundLink(NamedTuple):
    """A link that a crawl has not seen before: its address, and its key in the job.

    ``reason`` and ``rule`` say why it is not followed, None if it is. ``lastmod`` is
    what a sitemap says of it. A tuple, as a page may have a hundred of them.
    """

    url: str
    key: int
    reason: str | None = None
    rule: str | None = None
    lastmod: str | None = None


@frozen
class Lease:
    """The right to fetch one address of a job, and to store how it ended.

    ``row_id`` is its row of the frontier, ``key`` its key there, ``token`` the fencing
    token, ``depth`` the links it is away from the start; of a sitemap, how deep it is
    nested.
    """

    row_id: int
    key: int
    token: int
    depth: int
    is_sitemap: bool = False


@frozen(kw_only=True)
class Rendered:
    """What a browser made of a page beside its HTML.

    ``screenshot`` is an address; ``actions`` the JSON text of the four lists of results,
    None where no actions were asked for. ``time_zone`` is the one that the page saw.
    """

    screenshot: str | None = None
    actions: bytes | None = None
    time_zone: str | None = None


@frozen(kw_only=True)
class Snapshot:
    """What to keep of a tracked page, in place of snapshot number ``version``.

    ``key`` names the page's history, ``version`` is 0 before the first one; ``body`` is
    kept for ``keep_s`` seconds.
    """

    team_id: str
    key: str
    version: int
    body: bytes
    keep_s: float


@frozen(kw_only=True)
class Tracked:
    """A page that is to be compared with its last snapshot.

    ``options`` are those of the format, ``draft`` and ``markdown`` JSON texts that the
    pool made (see :mod:`scraper_service.content.change_tracking`). ``is_asked_for`` tells of an
    address that no link led to, ``is_kept`` whether a snapshot may be stored.
    ``warning`` is that of the page without remarks on the comparison; ``snapshot`` is
    None before it.
    """

    team_id: str
    url: str
    options: ChangeTracking
    draft: bytes
    markdown: bytes
    is_gone: bool
    is_asked_for: bool
    is_kept: bool
    warning: str | None = None
    snapshot: Snapshot | None = None


@frozen(kw_only=True)
class Fetch:
    """How a page was asked for and what came of it, seen from the transport.

    ``source_url`` is the address as the caller wrote it, ``url`` the last one asked
    for. ``status`` is None when no answer came; ``cause`` says why. ``cache_state`` is
    ``hit`` or ``miss``, None where the cache was not asked; ``cached_at`` are seconds.
    ``robots_tag`` is the header ``X-Robots-Tag``. ``engine`` is ``http`` or ``browser``,
    ``proxy`` is ``basic`` or ``stealth``; ``warnings`` are those of the transport.
    ``queued_s`` is how long the limit of the team held it up, None if it did not.
    ``team_id`` is None outside of the service; ``is_asked_for`` tells of an address that
    no link led to, ``is_upload`` of a file that a caller sent.
    ``deadline`` is when its caller stops waiting (:func:`time.monotonic`), ``account``
    the id of the key or team that asks, empty in local runs.
    """

    scrape_id: str
    source_url: str
    url: str
    options: ScrapeOptions
    engine: str = "http"
    proxy: str = "basic"
    rendered: Rendered | None = None
    warnings: tuple[str, ...] = ()
    status: int | None = None
    content_type: str = ""
    robots_tag: str = ""
    cause: BaseException | None = None
    lease: Lease | None = None
    cache_state: str | None = None
    cached_at: float | None = None
    queued_s: float | None = None
    team_id: str | None = None
    is_asked_for: bool = False
    is_upload: bool = False
    deadline: float | None = None
    account: str = ""


@frozen
class Upload:
    """A file that a caller sent; ``content_type`` is empty where nothing is said."""

    name: str
    content_type: str
    body: bytes


@frozen
class MetaRefresh:
    """A page's wish to be replaced by ``url`` (absolute) after ``delay_s`` seconds."""

    delay_s: float
    url: str


@frozen(kw_only=True)
class PageContent:
    """What the pool understood of a page, or the ``error`` why it could not.

    ``values`` maps a result name (``markdown``, ``raw_html``, ...) to the *JSON text*
    of its value, made in the pool, so that large values are never encoded or decoded
    on the reactor. ``known`` is metadata with a name of its own (``title``,
    ``og_title``, ``published_time``), ``other`` every further ``<meta>``. ``found``
    are the addresses on the raw page: absolute, unique, in document order, http(s)
    only; ``canonical`` is what it names as its own address, ``fingerprint`` that of its
    main text, 0 for none. ``blocks`` are those of the Markdown (see
    :mod:`scraper_service.content.text.markdown_blocks`), ``text_print`` is its fingerprint, 0 for too
    little text. ``shell`` says why it cannot be read before its scripts have run, None
    if it can. ``search`` is what the index of the team's pages keeps of it, packed, empty
    for nothing. ``text`` is its Markdown for a language model, ``injection`` an excerpt of
    what gives orders to one, where that is looked for. ``remarks`` are what the rules
    that made a value have to say of it, by the name of the value; ``answered_by`` is
    ``rules``, ``model`` or ``both``, None where nothing was to be answered;
    ``tokens_used`` are the model's. ``fetch`` is added by the spider; so are ``follow``, the
    links that are new, and ``base``, the address that a crawl's start page was
    redirected to if it is another site.
    """

    values: Mapping[str, bytes] = field(factory=dict)
    known: Mapping[str, str | list[str]] = field(factory=dict)
    other: Mapping[str, str | list[str]] = field(factory=dict)
    found: tuple[str, ...] = ()
    canonical: str | None = None
    fingerprint: int = 0
    blocks: tuple[BlockT, ...] = ()
    text_print: int = 0
    refresh: MetaRefresh | None = None
    shell: str | None = None
    search: bytes = b""
    num_pages: int | None = None
    total_pages: int | None = None
    text: str = ""
    injection: str | None = None
    remarks: Mapping[str, tuple[str, ...]] = field(factory=dict)
    answered_by: str | None = None
    tokens_used: int | None = None
    warnings: tuple[str, ...] = ()
    error: PageError | None = None
    fetch: Fetch | None = None
    follow: tuple[FoundLink, ...] = ()
    base: str | None = None

    def __str__(self) -> str:
        return f"the page {self.fetch.source_url if self.fetch else None}"  # in logs


@frozen(kw_only=True)
class SitemapFile:
    """A sitemap file of a crawl, read or failed.

    ``slices`` are JSON arrays with the fields of :class:`FoundLink`; ``nested`` are
    further sitemaps. ``error`` is None unless nothing could be read, ``cause`` unless
    no answer came.
    """

    lease: Lease
    slices: tuple[bytes, ...] = ()
    nested: tuple[FoundLink, ...] = ()
    warnings: tuple[str, ...] = ()
    error: PageError | None = None
    cause: BaseException | None = None


@frozen
class KnownPage:
    """An address that a crawl of the team has found.

    ``body`` is the JSON of its page, compressed, None where there is none, or none
    that is worth reading.
    """

    url: str
    body: bytes | None = None


@frozen
class MapLink:
    """One address of a map; ``title`` and ``description`` are None if not known."""

    url: str
    title: str | None = None
    description: str | None = None

    def as_dict(self) -> dict[str, str]:
        """Return what is known, for feeds."""
        facts = ((fact.name, getattr(self, fact.name)) for fact in fields(MapLink))
        return {name: value for name, value in facts if value}


@frozen(kw_only=True)
class SearchResult:
    """A result of a search by hand: ``position`` is counted from 1 in each source.

    What is not known is empty, or None.
    """

    source: str
    position: int
    url: str
    title: str = ""
    description: str = ""
    date: str | None = None
    image_url: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is known, for feeds."""
        facts = ((f.name, getattr(self, f.name)) for f in fields(SearchResult))
        return {name: value for name, value in facts if value}


@frozen(kw_only=True)
class MapFound:
    """What a map came to.

    ``slices`` are ``count`` addresses in their order, as JSON in the shape that the
    caller wanted, see :func:`scraper_service.discovery.map_results.answered_rows`.
    ``failures`` are what brought no answer: its name, and why.
    """

    slices: tuple[bytes, ...] = ()
    count: int = 0
    warnings: tuple[str, ...] = ()
    failures: tuple[tuple[str, BaseException], ...] = ()


@frozen
class SearchPage:
    """A page for the index of a team; ``entry`` is :attr:`PageContent.search`."""

    team_id: str
    url: str
    entry: bytes


@frozen(kw_only=True)
class PageMetadata:
    """Facts about a page; the interface document, part 8, says where each is from.

    ``source_url`` is the address as the caller wrote it, ``url`` the final one.
    ``status_code`` is None when no answer came, ``queued_ms`` when the concurrency of
    the team did not hold the page up, ``answered_by`` and ``tokens_used`` are those
    of the content.
    """

    source_url: str
    scrape_id: str
    url: str
    status_code: int | None = None
    content_type: str | None = None
    robots_tag: str | None = None
    proxy_used: str = "basic"
    engine: str | None = None
    time_zone: str | None = None
    credits_used: int = 0
    answered_by: str | None = None
    tokens_used: int | None = None
    cache_state: str | None = None
    cached_at: float | None = None
    num_pages: int | None = None
    total_pages: int | None = None
    error: str | None = None
    duplicate_of: str | None = None
    queued_ms: int | None = None
    known: Mapping[str, str | list[str]] = field(factory=dict)
    other: Mapping[str, str | list[str]] = field(factory=dict)


@frozen(kw_only=True)
class Page:
    """One page as a caller gets it: fetched, failed or refused.

    ``values`` as in :class:`PageContent`. ``failure`` is None for every page that was
    answered and understood, whatever the site's status. ``blocks`` and ``text_print`` as
    there; ``text`` is what its job remembers of it, ``tracked`` None unless it is
    compared with an earlier scrape, ``search`` what searches will find of it, None for
    nothing. ``lease``, ``follow`` and ``base``
    are those of the page's job.
    """

    metadata: PageMetadata
    values: Mapping[str, bytes] = field(factory=dict)
    warning: str | None = None
    failure: PageError | None = None
    blocks: tuple[BlockT, ...] = ()
    text_print: int = 0
    text: Any = None
    tracked: Tracked | None = None
    search: SearchPage | None = None
    lease: Lease | None = None
    follow: tuple[FoundLink, ...] = ()
    base: str | None = None

    def __str__(self) -> str:
        return f"the page {self.metadata.source_url}"  # in logs
