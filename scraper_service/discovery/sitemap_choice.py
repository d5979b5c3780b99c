"""What a crawl takes of the addresses that a sitemap lists; runs in the converter pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attrs import define, field

from scraper_service.discovery.canonical_urls import followed, key_of, page_key
from scraper_service.discovery.scope_rules import CrawlScope
from scraper_service.options.jobs import CrawlOptions

_OF_SITEMAPS = 0x53_49_54_45_4D_41_50_53  # a file is another row than a page there

if TYPE_CHECKING:
    from scraper_service.discovery.canonical_urls import Address


class _Entry(Protocol):
    url: str
    lastmod: str | None


def crawl_key(options: CrawlOptions, url: str) -> int:
    """Return the key of a page in the frontier of a crawl."""
    return page_key(
        url,
        similar=options.deduplicate_similar_urls,
        ignore_query=options.ignore_query_parameters,
    )


def crawl_key_of(options: CrawlOptions, address: Address) -> int:
    """Return what :func:`crawl_key` does, of an address once parsed."""
    return key_of(
        address,
        similar=options.deduplicate_similar_urls,
        ignore_query=options.ignore_query_parameters,
    )


def sitemap_key(url: str) -> int:
    """Return the key of a sitemap file in the frontier of a crawl."""
    return page_key(url, similar=False) ^ _OF_SITEMAPS


@define
class SitemapChoice:
    """Make rows of a sitemap's entries, with the fields of ``FoundLink``.

    ``base`` is the address that the crawl's scope is about.
    """

    options: CrawlOptions
    base: str
    _scope: CrawlScope | None = field(default=None, init=False)

    def __call__(self, entry: _Entry) -> tuple[str | int | None, ...]:
        if self._scope is None:
            self._scope = CrawlScope(self.options, self.base)
        url = followed(entry.url)
        refusal = self._scope.refusal(url)
        reason, rule = (refusal.reason.value, refusal.rule) if refusal else (None, None)
        return (url, crawl_key(self.options, url), reason, rule, entry.lastmod)
