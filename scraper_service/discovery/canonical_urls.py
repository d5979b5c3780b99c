"""Parses URLs as browsers do, and computes the keys by which crawls find duplicates.

``SeenLinks`` and ``Originals`` are the
bounded memory of a crawl in one process; the frontier stores all URLs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import ada_url

from scraper_service.content.page_urls import is_route
from scraper_service.content.words import distance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tldextract import TLDExtract

    from scraper_service.items import LinkRowT
    from scraper_service.options.jobs import CrawlOptions

MAX_TEXT = 16_384  # characters; longer text is not a URL
MAX_READ = 2048  # URLs in the cache
MAX_CRAWLED_URL = 2000  # characters; longer URLs are crawler traps, and are not cached
MAX_SEGMENTS = 20
MAX_REPEATED_IN_A_ROW = 2
MAX_REPEATED = 3
# "SITEMAPS" in ASCII: a sitemap file and a page with the same URL are separate rows.
_OF_SITEMAPS = 0x53_49_54_45_4D_41_50_53
INDEX_PAGES = ("/index.html", "/index.php")

# Parameters of tracking and sessions, which never select a page.
_TRACKING = (
    r"utm_[^=&]*|gclid|gclsrc|dclid|gbraid|wbraid|gad_source|gad_campaignid|srsltid"
    r"|fbclid|msclkid|yclid|ysclid|twclid|ttclid|li_fat_id|igshid|igsh|epik|scid"
    r"|mc_cid|mc_eid|mkt_tok|_hsenc|_hsmi|hsctatracking|__hs[a-z]*|_ga|_gl|_openstat"
    r"|vero_id|wickedid|oly_anon_id|oly_enc_id|piwik_[^=&]*|pk_[^=&]*|mtm_[^=&]*"
    r"|phpsessid|jsessionid|aspsessionid[a-z]*|oscsid|zenid|cfid|cftoken"
)
# Other sites use these names for pages, so the value must be as long as a session ID.
_SESSION = r"(?:sid|s|session|session_?id|sess_?id)=[0-9a-z,-]{26,}"
_NOISE = re.compile(
    rf"(?:^|&)(?:(?:{_TRACKING})(?:=[^&]*)?|{_SESSION})(?=&|$)",
    re.IGNORECASE | re.ASCII,
)
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sid)=[^/;]*|/\((?:[a-z]\([^()/]*\))+\)(?=/)",
    re.IGNORECASE | re.ASCII,
)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# A URL whose path and query are in normal form: scheme, host, path, query.
# :func:`_is_tidy_path` checks for dot segments, also escaped ones.
_TIDY = re.compile(
    r"(https?)://([a-z0-9.:_-]+)(/[\w.~!$&'()*+,;=:@/%-]*)(?:\?([\w.~!$&()*+,;=:@/?%-]*))?",
    re.ASCII,
)
# Hosts that are surely in normal form: no number at the end, no punycode.
_PLAIN_HOST = re.compile(r"(?!.*xn--)(?:[a-z0-9_-]+\.)+[a-z]{2,}", re.ASCII)
_read: dict[str, ParsedUrl | None] = {}


class ParsedUrl(NamedTuple):
    """The parts of a URL in normal form (WHATWG URL).

    Schemes other than http(s) have only ``href`` and ``scheme``.
    """

    #: The whole URL.
    href: str
    scheme: str
    #: The user name and password before the ``@``.
    user: str = ""
    #: The host, with the port unless the port is the default of the scheme.
    host: str = ""
    path: str = ""
    #: The query without ``?``.
    query: str = ""
    #: The fragment without ``#``.
    fragment: str = ""

    @property
    def is_web(self) -> bool:
        """True if the scheme is http or https."""
        return self.path != ""


def parse_url(url: str) -> ParsedUrl | None:
    """Return the parts of an absolute URL, or None for text that is not a URL.

    The host has no dot at its end.
    A fragment is dropped unless it is a route of a script (:func:`is_route`), and so a
    page of its own. Results are cached, also under the normal form.
    """
    try:
        return _read[url]
    except KeyError:
        parsed = parse_uncached(url)
    if len(url) > MAX_CRAWLED_URL:
        return parsed
    if len(_read) >= MAX_READ:
        _read.clear()
    _read[url] = parsed
    if parsed is not None:
        _read[parsed.href] = parsed
    return parsed


def parse_uncached(url: str) -> ParsedUrl | None:
    """Parse a URL as :func:`parse_url` does, without the cache."""
    if len(url) > MAX_TEXT:
        return None
    if tidy := _TIDY.fullmatch(url):
        scheme, host, path, query = tidy.groups("")
        if _is_tidy_path(path) and is_tidy_host(scheme, host):
            # The constructor would take a third of the time of a tidy URL.
            parts = (url, scheme, "", host, path, query, "")
            return tuple.__new__(ParsedUrl, parts)
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        return None
    if len(href) > MAX_TEXT:
        return None
    scheme, _, tail = href.partition(":")
    if scheme not in {"http", "https"}:
        return ParsedUrl(href, scheme)
    tail, mark, fragment = tail.partition("#")
    if mark and not is_route(fragment):
        href, fragment = f"{scheme}:{tail}", ""
    tail, _, query = tail.partition("?")
    authority, _, path = tail[2:].partition("/")
    user, at, host = authority.rpartition("@")
    if (name := _without_dot(host)) != host:
        href = href.replace(f"//{authority}", f"//{user}{at}{name}", 1)
    return ParsedUrl(href, scheme, user, name, "/" + path, query, fragment)


def _without_dot(host: str) -> str:
    """Return a host without the dot at its end, which makes no other host of it."""
    name, colon, port = host.partition(":")
    is_dotted = name[-1:] == "." and name[-2:-1] not in {"", "."}
    return f"{name[:-1]}{colon}{port}" if is_dotted else host


def _is_tidy_path(path: str) -> bool:
    return "/." not in path and ("%" not in path or "%2e" not in path.lower())


@lru_cache(maxsize=4096)
def is_tidy_host(scheme: str, host: str) -> bool:
    """Return True if the root URL of a host is in normal form."""
    if _PLAIN_HOST.fullmatch(host):
        return True
    if _without_dot(host) != host:
        return False
    root = f"{scheme}://{host}/"
    try:
        return ada_url.normalize_url(root) == root
    except ValueError:
        return False


def normalize_url(url: str) -> str:
    """Return the absolute ``url`` in the normal form in which it is fetched.

    A fragment is dropped unless it is a route of a script. Text that is not a URL is
    returned unchanged.
    """
    parsed = parse_url(url)
    return url if parsed is None else parsed.href


def page_key(
    url: str | ParsedUrl, *, similar: bool = True, ignore_query: bool = False
) -> int:
    """Return the key of ``url`` in a crawl: 8 bytes, signed.

    Escapes of letters, digits and ``-._~`` make no difference (RFC 3986, 6.2.2.2).
    ``similar`` also ignores http or https, ``www.``, a trailing slash, ``/index.html``,
    ``/index.php``, and the parameters of tracking and sessions. ``ignore_query``
    ignores the whole query. Both apply to routes of scripts, too: with ``similar``, the
    route ``#/`` is the page without a route.
    """
    if isinstance(url, str):
        if (parsed := parse_url(url)) is None:
            return _digest(url)
        url = parsed
    href, scheme, _, host, path, query, fragment = url
    if not path:  # not http(s)
        return _digest(href)
    if "%" in path:
        path = unescape(path)
    if ignore_query:
        query = ""
    elif query:
        query = unescape(query)
    if similar:
        scheme, host, path = "", plain_host(host), _similar_path(path)
        if query:
            query = _NOISE.sub("", query).lstrip("&")
    if fragment:
        if ignore_query:
            fragment = fragment.partition("?")[0]
        if similar:
            fragment = _similar_route(fragment)
    mark = f"#{fragment}" if fragment else ""
    return _digest(f"{scheme}//{host}{path}?{query}{mark}")


def crawl_key(options: CrawlOptions, url: str | ParsedUrl) -> int:
    """Return the key of a page in the frontier of a crawl."""
    return page_key(
        url,
        similar=options.deduplicate_similar_urls,
        ignore_query=options.ignore_query_parameters,
    )


def sitemap_key(url: str) -> int:
    """Return the key of a sitemap file in the frontier of a crawl."""
    return page_key(url, similar=False) ^ _OF_SITEMAPS


def plain_page_key(host: str, path: str) -> int:
    """Return the key that :func:`page_key` gives a plain URL, ignoring the same.

    ``host`` comes from :func:`plain_host`, ``path`` starts at the index from ``plain_path``.
    """
    path = _similar_path(path) if path.endswith(INDEX_PAGES) else path.rstrip("/")
    return _digest(f"//{host}{path}?")


def map_url(parsed: ParsedUrl, *, ignore_query: bool) -> tuple[str, int]:
    """Return a URL as maps list it, and its key; duplicates have the same key.

    The URL has no trailing slash, not even for the root, unless a route follows. The key
    ignores http or https, and ``www.`` (docs/api/map-and-search.md, Maps).
    """
    path, route = parsed.path.rstrip("/"), parsed.fragment
    query = f"?{parsed.query}" if parsed.query and not ignore_query else ""
    if route and ignore_query:
        route = route.partition("?")[0]
    if route := _similar_route(route):
        query = f"{query}#{route}"
    key = _digest(f"{plain_host(parsed.host)}{unescape(path)}{unescape(query)}")
    path = parsed.path if route else path
    return f"{parsed.scheme}://{parsed.host}{path}{query}", key


@lru_cache(maxsize=4096)
def plain_host(host: str) -> str:
    """Return ``host`` without ``www.`` and without a trailing dot."""
    host = host.removeprefix("www.")
    if ":" in host:
        return host.replace(".:", ":")
    return host.removesuffix(".")


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the registrable domain of ``host``, which may have a port.

    Below an unknown top-level domain, this is the last two labels. IP addresses, public
    suffixes and names of one label are sites of their own, with their port.
    """
    name = host.rpartition(":")[0] if host[-1:].isdigit() and ":" in host else host
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(labels) == 1 or labels[-1].isdigit() or name.startswith("["):
        return host
    found = _public_suffixes()(name)
    if found.suffix:
        return f"{found.domain}.{found.suffix}" if found.domain else host
    return ".".join(labels[-2:])


@cache
def _public_suffixes() -> TLDExtract:
    """Return the list packaged with the library, without a download.

    The list includes private domains: a.github.io and b.github.io are two sites.
    """
    from tldextract import TLDExtract  # noqa: PLC0415  # imports an HTTP client

    return TLDExtract(
        cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True
    )


def growth_of(parsed: ParsedUrl) -> str | None:
    """Return the sign that links in a loop made a URL, or None.

    The names of the signs are those of Heritrix's rules.
    """
    if (length := len(parsed.href)) > MAX_CRAWLED_URL:
        return f"TooLong: {length} of at most {MAX_CRAWLED_URL} characters"
    if parsed.path.count("/") <= MAX_REPEATED_IN_A_ROW:
        return None
    segments = parsed.path.removesuffix("/").split("/")[1:]
    if (count := len(segments)) > MAX_SEGMENTS:
        return f"TooManyPathSegments: {count} of at most {MAX_SEGMENTS}"
    if count - len(set(segments)) < MAX_REPEATED_IN_A_ROW:
        return None
    segment, times = Counter(segments).most_common(1)[0]
    if times > MAX_REPEATED:
        return f"PathologicalPath: {segment[:60]!r} {times} times"
    in_a_row = 1
    for last, this in pairwise(segments):
        in_a_row = in_a_row + 1 if this == last else 1
        if in_a_row > MAX_REPEATED_IN_A_ROW:
            return f"PathologicalPath: {this[:60]!r} {in_a_row} times in a row"
    return None


def unescape(text: str) -> str:
    """Decode needless percent-escapes in ``text`` and put the others in upper case."""
    return _ESCAPE.sub(_plain_character, text) if "%" in text else text


def _plain_character(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    if character.isascii() and (character.isalnum() or character in "-._~"):
        return character
    return escape[0].upper()


def _similar_path(path: str) -> str:
    if ";" in path or "(" in path:
        path = _PATH_SESSION.sub("", path)
    if path.endswith(INDEX_PAGES):
        for index in INDEX_PAGES:
            path = path.removesuffix(index)
    return path.rstrip("/")


def _similar_route(route: str) -> str:
    """Return a route without a trailing slash; empty for the home page of a script."""
    route = route.rstrip("/")
    return "" if route == "!" else route


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


MAX_KNOWN = 500_000  # links per generation of SeenLinks, which has two
MAX_ORIGINALS = 50_000
SAME_BITS = 3  # bits in which the fingerprints of duplicates may differ


class SeenLinks:
    """The keys of the links that a crawl skips, in two bounded sets."""

    def __init__(self) -> None:
        self._keys: set[int] = set()
        self._before: set[int] = set()

    def without(self, rows: Iterable[LinkRowT]) -> list[LinkRowT]:
        """Return the rows of other links."""
        keys, before = self._keys, self._before
        return [row for row in rows if row[1] not in keys and row[1] not in before]

    def update(self, keys: Iterable[int]) -> None:
        """Add some keys."""
        if len(self._keys) >= MAX_KNOWN:
            self._keys, self._before = set(), self._keys
        self._keys.update(keys)


class Originals:
    """The canonical URLs of a crawl, with a fingerprint of their text.

    A canonical URL alone proves no duplicate. Pages of a list often name the first
    page, and some sites name their home page everywhere.
    """

    def __init__(self) -> None:
        self._fingerprints: dict[int, int] = {}  # by the key of the canonical URL

    def has(self, named: int, own: int, fingerprint: int) -> bool:
        """Return True if an earlier page had the canonical URL ``named`` and this text.

        ``named`` and ``own`` are the keys of the canonical URL and of the page.
        """
        known = self._fingerprints.get(named)
        if known is None:
            self._fingerprints[named] = fingerprint
            if len(self._fingerprints) > MAX_ORIGINALS:
                del self._fingerprints[next(iter(self._fingerprints))]
            return False
        return named != own and distance(known, fingerprint) <= SAME_BITS
