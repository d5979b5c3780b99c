"""The rules of which links a crawl follows (docs/api/crawls.md, Scope), and their checks.

Every rule is a function of one URL and the page that links to it. Other modules check
robots.txt, duplicates and the limit. A converter process checks the links of a page
(:class:`LinkCheck`); the crawl itself applies the rules that need its memory, see
:class:`scraper_service.spiders.crawl.CrawlSpider`.
"""

from __future__ import annotations

import pickle
from enum import StrEnum, auto
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

from scraper_service.content.page_urls import plain_path
from scraper_service.discovery.canonical_urls import (
    INDEX_PAGES,
    MAX_CRAWLED_URL,
    ParsedUrl,
    crawl_key,
    growth_of,
    is_tidy_host,
    parse_uncached,
    parse_url,
    plain_host,
    plain_page_key,
    site_of,
    unescape,
)
from scraper_service.options.jobs import depth_of_path
from scraper_service.options.urls import Patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scraper_service.items import LinkRowT
    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.options.scrape import ScrapeOptions

MAX_HOSTS = 4096  # hosts with a cached decision

# Path endings of files that are never pages (docs/api/crawls.md, Scope).
FILE_TYPES = frozenset(
    ".png .jpg .jpeg .gif .css .js .ico .svg .tiff .webp .zip .exe .dmg .mp4 .mp3 .wav"
    " .pptx .xlsx .avi .flv .woff .woff2 .ttf .inc".split()
)
# Social sites with their short names, and calendars (docs/api/crawls.md, Scope).
SOCIAL_SITES = frozenset(
    "facebook.com fb.com fb.me twitter.com x.com t.co linkedin.com lnkd.in"
    " instagram.com pinterest.com pin.it github.com calendly.com discord.com"
    " discord.gg discordapp.com".split()
)
SOCIAL_HOSTS = frozenset({"calendar.google.com", "mail.google.com"})


class Reason(StrEnum):
    """Why a URL is not fetched, or its page not delivered. The values are public.

    The members are in the order of the rules. Other modules apply ``NOFOLLOW``,
    ``ROBOTS``, ``BLOCKED_SITE``, ``DUPLICATE`` and ``LIMIT``.
    """

    DISCOVERY_DEPTH = auto()
    MALFORMED = auto()
    SCHEME = auto()
    SUBDOMAIN = auto()
    EXTERNAL = auto()
    TRAP = auto()
    PATH_DEPTH = auto()
    EXCLUDED = auto()
    NOT_INCLUDED = auto()
    OUTSIDE_PATH = auto()
    NOFOLLOW = auto()
    ROBOTS = auto()
    FILE_TYPE = auto()
    EXTERNAL_HOP = auto()
    EXTERNAL_HOME = auto()
    SOCIAL_HOST = auto()
    BLOCKED_SITE = auto()
    DUPLICATE = auto()
    LIMIT = auto()

    @property
    def is_lasting(self) -> bool:
        """True if the URL stays refused when other pages link to it."""
        return self not in {
            *(Reason.DISCOVERY_DEPTH, Reason.NOFOLLOW, Reason.EXTERNAL_HOP),
            Reason.LIMIT,
        }


class Refusal(NamedTuple):
    """The reason why a URL is not followed."""

    reason: Reason
    #: The detail for a reader, such as the pattern or the limit.
    rule: str


class ScopeOptions(Protocol):
    """The options of crawls and maps that the rules read."""

    @property
    def url(self) -> str: ...
    @property
    def sitemap(self) -> str: ...
    @property
    def max_discovery_depth(self) -> int | None: ...
    @property
    def max_path_depth(self) -> int | None: ...
    @property
    def crawl_entire_domain(self) -> bool: ...
    @property
    def allow_subdomains(self) -> bool: ...
    @property
    def allow_external_links(self) -> bool: ...
    @property
    def include_paths(self) -> tuple[str, ...]: ...
    @property
    def exclude_paths(self) -> tuple[str, ...]: ...
    @property
    def regex_on_full_url(self) -> bool: ...
    @property
    def scrape(self) -> ScrapeOptions: ...


_Rule: TypeAlias = "Callable[[ParsedUrl, str | None], Refusal | None]"


class CrawlScope:
    """The rules of which URLs a crawl may fetch in addition to its start page.

    Hosts and paths are compared with ``base``, by default the URL of the options.
    ``follows_links`` is False if the crawl ignores links on pages.
    """

    def __init__(self, options: ScopeOptions, base: str | None = None):
        parsed = parse_url(base or options.url)
        if parsed is None or not parsed.is_web:
            raise ValueError(f"not an http(s) URL: {base or options.url!r:.100}")
        self.options = options
        self.base = parsed
        self.follows_links = options.sitemap != "only"
        self._host = plain_host(parsed.host)
        self._site = site_of(self._host)
        self._refusals: dict[str, Refusal | None] = {}  # by host
        self._path = unescape(_directory(parsed.path))
        self._deepest = (options.max_path_depth or 0) + depth_of_path(parsed.path)
        self._includes = Patterns(options.include_paths)
        self._excludes = Patterns(options.exclude_paths)
        self._rules = tuple(self._active_rules())

    def refusal(
        self, url: str, depth: int = 0, found_on: str | None = None
    ) -> Refusal | None:
        """Return why ``url`` may not be fetched, or None if the crawl may fetch it.

        The first failing rule decides. ``depth`` is the number of links from the start,
        0 for URLs of sitemaps. ``found_on`` is the final URL of the page with the link,
        None for the start page and for sitemaps.
        """
        return self.refusal_of(parse_url(url), found_on, depth)

    def refusal_of(
        self, parsed: ParsedUrl | None, found_on: str | None = None, depth: int = 0
    ) -> Refusal | None:
        """Check a parsed URL as :meth:`refusal` does."""
        if refusal := self._below(depth):
            return refusal
        if error := _url_error(parsed):
            return error
        assert parsed is not None
        for rule in self._rules:
            if found := rule(parsed, found_on):
                return found
        return None

    def _below(self, depth: int) -> Refusal | None:
        deepest = self.options.max_discovery_depth
        if deepest is None or depth <= deepest:
            return None
        return Refusal(Reason.DISCOVERY_DEPTH, f"depth {depth} of at most {deepest}")

    def denial(self, url: str) -> Refusal | None:
        """Return why the start page with the final URL ``url`` is not delivered, or None.

        Only the patterns are checked, as for a page of the site (docs/api/crawls.md, Scope).
        """
        parsed = parse_url(url)
        if error := _url_error(parsed):
            return error
        assert parsed is not None
        subject = self._subject(parsed)
        return self._exclusion(subject) or self._not_included(parsed, None)

    def foreign(self, url: str) -> Refusal | None:
        """Return why the host of ``url`` is outside of the scope, or None.

        Used for pages that redirect.
        """
        parsed = parse_url(url)
        if error := _url_error(parsed):
            return error
        assert parsed is not None
        return self._other_host(parsed, None)

    def rebase(self, url: str) -> Self:
        """Return the scope after the start page has redirected to ``url``.

        Only another host changes the scope. If the base was the root of a host, the new
        base is the root of the new host. Otherwise the new base is ``url``.
        """
        parsed = parse_url(url)
        if parsed is None or not parsed.is_web:
            return self
        if plain_host(parsed.host) == self._host:
            return self
        whole = self.base.path == "/"
        base = f"{parsed.scheme}://{parsed.host}/" if whole else parsed.href
        return type(self)(self.options, base)

    def _active_rules(self) -> Iterator[_Rule]:
        options = self.options
        yield self._other_host
        yield _trap
        if options.max_path_depth is not None:
            yield self._too_deep
        if self._excludes:
            yield self._path_exclusion
        if self._includes:
            yield self._not_included
        if not options.crawl_entire_domain and self._path != "/":
            yield self._outside_path
        yield _file_type
        if options.allow_external_links:
            yield self._external_special

    def _other_host(self, parsed: ParsedUrl, found_on: str | None) -> Refusal | None:
        return self.refusal_of_host(parsed.host)

    def refusal_of_host(self, host: str) -> Refusal | None:
        """Return why no URL of a host may be fetched, or None.

        The first rule, for URLs that are not malformed.
        """
        # Most links of a page lead to few hosts.
        if host in self._refusals:
            return self._refusals[host]
        if len(self._refusals) >= MAX_HOSTS:
            self._refusals.clear()
        refusal = self._refusals[host] = self._refusal_of_host(plain_host(host))
        return refusal

    def _refusal_of_host(self, host: str) -> Refusal | None:
        if host == self._host:
            return None
        if self._is_of_site(host):
            if not self.options.allow_subdomains:
                return Refusal(Reason.SUBDOMAIN, f"{host} is not {self._host}")
        elif not self.options.allow_external_links:
            return Refusal(Reason.EXTERNAL, f"{host} is not of {self._site}")
        return None

    def _is_of_site(self, host: str) -> bool:
        # The host has the name of its site as a part, and site_of() takes much longer.
        return host == self._host or (
            self._site in host and site_of(host) == self._site
        )

    def _too_deep(self, parsed: ParsedUrl, found_on: str | None) -> Refusal | None:
        depth = depth_of_path(parsed.path)
        if depth <= self._deepest:
            return None
        rule = f"path depth {depth} of at most {self._deepest}"
        return Refusal(Reason.PATH_DEPTH, rule)

    def _path_exclusion(
        self, parsed: ParsedUrl, found_on: str | None
    ) -> Refusal | None:
        inside = self._is_of_site(plain_host(parsed.host))
        return self._exclusion(self._subject(parsed) if inside else parsed.href)

    def _exclusion(self, subject: str) -> Refusal | None:
        pattern = self._excludes.first_match(subject)
        return None if pattern is None else Refusal(Reason.EXCLUDED, pattern)

    def _not_included(self, parsed: ParsedUrl, found_on: str | None) -> Refusal | None:
        if (
            not self._includes
            or self._includes.first_match(self._subject(parsed)) is not None
        ):
            return None
        count = len(self._includes)
        rule = "the pattern does not match"
        if count > 1:
            rule = f"none of {count} patterns matches"
        return Refusal(Reason.NOT_INCLUDED, rule)

    def _subject(self, parsed: ParsedUrl) -> str:
        if self.options.regex_on_full_url:
            return parsed.href
        # The route of a script stands for a path.
        route = f"#{parsed.fragment}" if parsed.fragment else ""
        return parsed.path + route

    def _outside_path(self, parsed: ParsedUrl, found_on: str | None) -> Refusal | None:
        if unescape(parsed.path).startswith(self._path):
            return None
        if not self._is_of_site(plain_host(parsed.host)):
            return None
        rule = f"the path does not start with {self._path}"
        return Refusal(Reason.OUTSIDE_PATH, rule)

    def _external_special(
        self, parsed: ParsedUrl, found_on: str | None
    ) -> Refusal | None:
        page = parse_url(found_on) if found_on is not None else None
        if page is not None and not self._is_of_site(plain_host(page.host)):
            return Refusal(Reason.EXTERNAL_HOP, f"found on {plain_host(page.host)}")
        host = plain_host(parsed.host)
        if self._is_of_site(host):
            return None
        if parsed.path == "/" and not parsed.query and not parsed.fragment:
            return Refusal(Reason.EXTERNAL_HOME, host)
        if host in SOCIAL_HOSTS or site_of(host) in SOCIAL_SITES:
            return Refusal(Reason.SOCIAL_HOST, host)
        return None


class MapScope(CrawlScope):
    """The rules of which URLs a map may list: those of a crawl, but for file types."""

    def _active_rules(self) -> Iterator[_Rule]:
        return (rule for rule in super()._active_rules() if rule is not _file_type)


def _url_error(parsed: ParsedUrl | None) -> Refusal | None:
    if parsed is None:
        return Refusal(Reason.MALFORMED, "not an absolute URL")
    if not parsed.is_web:
        return Refusal(Reason.SCHEME, parsed.scheme)
    if parsed.user:
        return Refusal(Reason.MALFORMED, "it has a user name or a password")
    return None


def _trap(parsed: ParsedUrl, found_on: str | None) -> Refusal | None:
    growth = growth_of(parsed)
    return None if growth is None else Refusal(Reason.TRAP, growth)


def _file_type(parsed: ParsedUrl, found_on: str | None) -> Refusal | None:
    _, dot, ending = parsed.path.rpartition("/")[2].rpartition(".")
    if not dot or (ending := f".{ending.lower()}") not in FILE_TYPES:
        return None
    return Refusal(Reason.FILE_TYPE, ending)


def _directory(path: str) -> str:
    for index in INDEX_PAGES:
        if path.endswith(index):
            return path.removesuffix(index[1:])
    return path


SLICE_ROWS = 500  # the reactor reads a slice in less than a millisecond
MAX_CHECKED = 4096  # rows in the cache of a process and crawl; pages repeat their menus


class LinkCheck:
    """Checks links by the options of a crawl and its scope.

    It is pickled once, and each process compiles the scope once.
    """

    def __init__(self, options: CrawlOptions, scope: CrawlScope):
        self.scope = scope
        self._options = options
        self._checked: dict[str, LinkRowT] = {}
        # By scheme and host: the host without ``www.``, and why the scope refuses it.
        self._hosts: dict[str, tuple[str, tuple[str, str] | None]] = {}

    def __reduce__(self) -> tuple[Callable[[bytes], LinkCheck], tuple[bytes]]:
        return _unpickle, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self._options, self.scope.base.href), protocol=5)

    def __call__(
        self,
        urls: Iterable[str],
        depth: int,
        found_on: str,
        times: Mapping[str, str] | None = None,
    ) -> tuple[bytes, ...]:
        """Return the rows of links, see :meth:`rows`, in slices for :func:`link_rows`.

        ``times`` are those of entries of a feed, by URL.
        """
        rows = self.rows(urls, depth, found_on)
        if times:
            rows = _with_times(rows, urls, times)
        left = iter(rows)
        slices = iter(lambda: list(islice(left, SLICE_ROWS)), [])
        return tuple(pickle.dumps(each, protocol=5) for each in slices)

    def rows(
        self, urls: Iterable[str], depth: int, found_on: str
    ) -> Iterator[LinkRowT]:
        """Yield a row with the fields of ``FoundLink`` for each of ``urls``.

        ``depth`` is that of the links, ``found_on`` is the final URL of their page.
        """
        is_cached = self._depends_on_urls_only(depth)
        checked = self._checked if is_cached else {}
        is_usual = is_cached and self._options.deduplicate_similar_urls
        for url in urls:
            row = checked.get(url)
            if row is None:
                row = self._foreign_row(url) if is_usual else None
                row = row or self._row(url, depth, found_on)
                if len(checked) >= MAX_CHECKED:
                    checked.clear()
                if len(url) <= MAX_CRAWLED_URL:
                    checked[url] = row
            yield row

    def _depends_on_urls_only(self, depth: int) -> bool:
        options = self._options
        deepest = options.max_discovery_depth
        is_near = deepest is None or depth <= deepest
        return is_near and not options.allow_external_links

    def _foreign_row(self, url: str) -> LinkRowT | None:
        """Return the row of a plain URL whose host is refused, None for other URLs.

        Most links are such, and take half of the time of :meth:`_row`.
        """
        start = plain_path(url)
        if not start:
            return None
        origin = url[:start]
        try:
            host, refusal = self._hosts[origin]
        except KeyError:
            host, refusal = self._host(origin)
        if refusal is None:
            return None
        return url, plain_page_key(host, url[start:]), *refusal, None

    def _host(self, origin: str) -> tuple[str, tuple[str, str] | None]:
        scheme, _, host = origin.partition("://")
        refusal = (
            self.scope.refusal_of_host(host) if is_tidy_host(scheme, host) else None
        )
        if len(self._hosts) >= MAX_HOSTS:
            self._hosts.clear()
        found = None if refusal is None else (refusal.reason.value, refusal.rule)
        known = self._hosts[origin] = plain_host(host), found
        return known

    def _row(self, link: str, depth: int, found_on: str) -> LinkRowT:
        parsed = parse_uncached(link)
        url = link if parsed is None else parsed.href
        key = crawl_key(self._options, parsed or url)
        refusal = self.scope.refusal_of(parsed, found_on, depth)
        if refusal is None:
            return url, key, None, None, None
        return url, key, refusal.reason.value, refusal.rule, None


def _with_times(
    rows: Iterable[LinkRowT], urls: Iterable[str], times: Mapping[str, str]
) -> Iterator[LinkRowT]:
    for url, row in zip(urls, rows, strict=True):
        yield *row[:4], times.get(url)


@lru_cache(maxsize=16)
def _unpickle(data: bytes) -> LinkCheck:
    options, base = pickle.loads(data)  # noqa: S301  # of our own service
    return LinkCheck(options, CrawlScope(options, base))


def link_rows(data: bytes) -> list[LinkRowT]:
    """Return the rows of a slice."""
    rows: list[LinkRowT] = pickle.loads(data)  # noqa: S301  # of our own process
    return rows
