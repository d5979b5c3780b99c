"""Which links a crawl follows (interface document, 11.3 and 11.4).

Every rule is a function of one address: robots.txt, what was seen before and the limit
are the concern of those who know them.
"""

from __future__ import annotations

from enum import StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

from scraper_service.discovery.canonical_urls import (
    INDEX_PAGES,
    Address,
    growth_of,
    parsed,
    plain_host,
    site_of,
    unescaped,
)
from scraper_service.options.jobs import depth_of_path
from scraper_service.options.patterns import Patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scraper_service.options.scrape import ScrapeOptions

MAX_HOSTS = 4096  # whose judgement a scope remembers

# Path endings that are never pages (interface document, 11.4, rule 8).
FILE_TYPES = frozenset(
    ".png .jpg .jpeg .gif .css .js .ico .svg .tiff .webp .zip .exe .dmg .mp4 .mp3 .wav"
    " .pptx .xlsx .avi .flv .woff .woff2 .ttf .inc".split()
)
# Rule 9; the short names of the same companies and calendars with them.
SOCIAL_SITES = frozenset(
    "facebook.com fb.com fb.me twitter.com x.com t.co linkedin.com lnkd.in"
    " instagram.com pinterest.com pin.it github.com calendly.com discord.com"
    " discord.gg discordapp.com".split()
)
SOCIAL_HOSTS = frozenset({"calendar.google.com", "mail.google.com"})


class Reason(StrEnum):
    """Why an address is not fetched, or its page not delivered. The values are public.

    The order is that of the rules; the last ones belong to other parts.
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
        """Whether the address stays refused, also when it is found on other pages."""
        return self not in {Reason.DISCOVERY_DEPTH, Reason.EXTERNAL_HOP, Reason.LIMIT}


class Refusal(NamedTuple):
    """One answer "no"; ``rule`` is the detail for a reader: the pattern, the bound."""

    reason: Reason
    rule: str


class ScopeOptions(Protocol):
    """What the rules ask of options: those of a crawl, or of a map."""

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


_Rule: TypeAlias = "Callable[[Address, str | None], Refusal | None]"


class CrawlScope:
    """What a crawl may fetch beside its start page.

    ``base`` is the address that hosts and paths are compared with, None for the
    options' own. ``follows_links`` tells whether links on pages count at all.
    """

    def __init__(self, options: ScopeOptions, base: str | None = None):
        address = parsed(base or options.url)
        if address is None or not address.is_web:
            raise ValueError(f"not an http(s) address: {base or options.url!r:.100}")
        self.options = options
        self.base = address
        self.follows_links = options.sitemap != "only"
        self._host = plain_host(address.host)
        self._site = site_of(self._host)
        self._refusals: dict[str, Refusal | None] = {}  # by host
        self._path = unescaped(_directory(address.path))
        self._deepest = (options.max_path_depth or 0) + depth_of_path(address.path)
        self._includes = Patterns(options.include_paths)
        self._excludes = Patterns(options.exclude_paths)
        self._rules = tuple(self._active_rules())

    def refusal(
        self, url: str, depth: int = 0, found_on: str | None = None
    ) -> Refusal | None:
        """Return why ``url`` is not to be fetched, None if it is.

        The first of the rules that fails decides. ``depth`` is the number of links from
        the start, 0 for what a sitemap lists; ``found_on`` is the final address of the
        page with the link, None for the start page and for sitemaps.
        """
        return self.refusal_of(parsed(url), found_on, depth)

    def refusal_of(
        self, address: Address | None, found_on: str | None = None, depth: int = 0
    ) -> Refusal | None:
        """Return what :meth:`refusal` does, of an address once parsed."""
        deepest = self.options.max_discovery_depth
        if deepest is not None and depth > deepest:
            return Refusal(
                Reason.DISCOVERY_DEPTH, f"depth {depth} of at most {deepest}"
            )
        if fault := _fault(address):
            return fault
        assert address is not None
        for rule in self._rules:
            if found := rule(address, found_on):
                return found
        return None

    def denial(self, url: str) -> Refusal | None:
        """Return why the start page, whose final address is ``url``, is not delivered.

        It is judged by the patterns alone, as a page of the site (interface document,
        11.4, at the end).
        """
        address = parsed(url)
        if fault := _fault(address):
            return fault
        assert address is not None
        subject = self._subject(address)
        return self._exclusion(subject) or self._not_included(address, None)

    def foreign(self, url: str) -> Refusal | None:
        """Return why the host of ``url`` is not admitted: for pages that redirect."""
        address = parsed(url)
        if fault := _fault(address):
            return fault
        assert address is not None
        return self._other_host(address, None)

    def rebased(self, url: str) -> Self:
        """Return the scope of a crawl whose start page has redirected to ``url``.

        Only another host changes it. A crawl that started at the root of a host has
        all of the new one; any other one, what is below the path of ``url``.
        """
        address = parsed(url)
        if address is None or not address.is_web:
            return self
        if plain_host(address.host) == self._host:
            return self
        whole = self.base.path == "/"
        base = f"{address.scheme}://{address.host}/" if whole else address.href
        return type(self)(self.options, base)

    def _active_rules(self) -> Iterator[_Rule]:
        options = self.options
        yield self._other_host
        yield _trap
        if options.max_path_depth is not None:
            yield self._too_deep
        if self._excludes:
            yield self._excluded
        if self._includes:
            yield self._not_included
        if not options.crawl_entire_domain and self._path != "/":
            yield self._outside_path
        yield _file_type
        if options.allow_external_links:
            yield self._external_special

    def _other_host(self, address: Address, found_on: str | None) -> Refusal | None:
        # Most links of a page lead to few hosts.
        host = address.host
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
        return host == self._host or site_of(host) == self._site

    def _too_deep(self, address: Address, found_on: str | None) -> Refusal | None:
        depth = depth_of_path(address.path)
        if depth <= self._deepest:
            return None
        rule = f"path depth {depth} of at most {self._deepest}"
        return Refusal(Reason.PATH_DEPTH, rule)

    def _excluded(self, address: Address, found_on: str | None) -> Refusal | None:
        inside = self._is_of_site(plain_host(address.host))
        return self._exclusion(self._subject(address) if inside else address.href)

    def _exclusion(self, subject: str) -> Refusal | None:
        pattern = self._excludes.found_in(subject)
        return None if pattern is None else Refusal(Reason.EXCLUDED, pattern)

    def _not_included(self, address: Address, found_on: str | None) -> Refusal | None:
        if (
            not self._includes
            or self._includes.found_in(self._subject(address)) is not None
        ):
            return None
        rule = f"none of {len(self._includes)} patterns matches"
        return Refusal(Reason.NOT_INCLUDED, rule)

    def _subject(self, address: Address) -> str:
        return address.href if self.options.regex_on_full_url else address.path

    def _outside_path(self, address: Address, found_on: str | None) -> Refusal | None:
        if unescaped(address.path).startswith(self._path):
            return None
        if not self._is_of_site(plain_host(address.host)):
            return None
        rule = f"the path does not start with {self._path}"
        return Refusal(Reason.OUTSIDE_PATH, rule)

    def _external_special(
        self, address: Address, found_on: str | None
    ) -> Refusal | None:
        page = parsed(found_on) if found_on is not None else None
        if page is not None and not self._is_of_site(plain_host(page.host)):
            return Refusal(Reason.EXTERNAL_HOP, f"found on {plain_host(page.host)}")
        host = plain_host(address.host)
        if self._is_of_site(host):
            return None
        if address.path == "/" and not address.query and not address.fragment:
            return Refusal(Reason.EXTERNAL_HOME, host)
        if host in SOCIAL_HOSTS or site_of(host) in SOCIAL_SITES:
            return Refusal(Reason.SOCIAL_HOST, host)
        return None


class MapScope(CrawlScope):
    """What a map may list: as a crawl, but files are not left out (13.2)."""

    def _active_rules(self) -> Iterator[_Rule]:
        return (rule for rule in super()._active_rules() if rule is not _file_type)


def _fault(address: Address | None) -> Refusal | None:
    """Return why it is no address to follow at all (rule 1)."""
    if address is None:
        return Refusal(Reason.MALFORMED, "not an absolute address")
    if not address.is_web:
        return Refusal(Reason.SCHEME, address.scheme)
    if address.user:
        return Refusal(Reason.MALFORMED, "it has a user name or a password")
    return None


def _trap(address: Address, found_on: str | None) -> Refusal | None:
    growth = growth_of(address)
    return None if growth is None else Refusal(Reason.TRAP, growth)


def _file_type(address: Address, found_on: str | None) -> Refusal | None:
    _, dot, ending = address.path.rpartition("/")[2].rpartition(".")
    if not dot or (ending := f".{ending.lower()}") not in FILE_TYPES:
        return None
    return Refusal(Reason.FILE_TYPE, ending)


def _directory(path: str) -> str:
    """Return what the path of a page below ``path`` starts with."""
    for index in INDEX_PAGES:
        if path.endswith(index):
            return path.removesuffix(index[1:])
    return path
