"""Checks the links of a page by the rules of its crawl, in a converter process.

The crawl itself applies the rules that need its memory, see
:class:`scraper_service.spiders.crawl.CrawlSpider`.
"""

from __future__ import annotations

import pickle
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from scraper_service.discovery.canonical_urls import MAX_CRAWLED_URL, parse_uncached
from scraper_service.discovery.scope_rules import CrawlScope
from scraper_service.discovery.sitemap_locations import crawl_key

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

    def __reduce__(self) -> tuple[Callable[[bytes], LinkCheck], tuple[bytes]]:
        return _unpickled, (self._pickled,)

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
        checked = self._checked if self._depends_on_urls_only(depth) else {}
        for url in urls:
            row = checked.get(url)
            if row is None:
                row = self._row(url, depth, found_on)
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
def _unpickled(data: bytes) -> LinkCheck:
    options, base = pickle.loads(data)  # noqa: S301  # of our own service
    return LinkCheck(options, CrawlScope(options, base))


def link_rows(data: bytes) -> list[LinkRowT]:
    """Return the rows of a slice."""
    rows: list[LinkRowT] = pickle.loads(data)  # noqa: S301  # of our own process
    return rows
