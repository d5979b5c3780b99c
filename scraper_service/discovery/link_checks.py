"""Checks the links of a page by the rules of its crawl, in a converter process.

The crawl itself applies the rules that need its memory, see
:class:`scraper_service.spiders.crawl.CrawlSpider`.
"""

from __future__ import annotations

import pickle
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from scraper_service.content.passes import plain_path
from scraper_service.discovery.canonical_urls import (
    MAX_CRAWLED_URL,
    is_tidy_host,
    parse_uncached,
    plain_host,
    plain_page_key,
)
from scraper_service.discovery.scope_rules import MAX_HOSTS, CrawlScope
from scraper_service.discovery.sitemap import crawl_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scraper_service.items import LinkRowT
    from scraper_service.options.crawl import CrawlOptions

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
        address = parse_uncached(link)
        url = link if address is None else address.href
        key = crawl_key(self._options, address or url)
        refusal = self.scope.refusal_of(address, found_on, depth)
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
