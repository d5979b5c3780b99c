"""Where a site's sitemaps may be, and which of their URLs a crawl takes.

See docs/crawling.md, Sitemaps. The choice of URLs runs in the converter pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.discovery.canonical_urls import (
    page_key,
    parse_url,
    plain_host,
    site_of,
)
from scraper_service.discovery.scope_rules import CrawlScope
from scraper_service.discovery.sitemap import (
    MAX_FILES,
    is_sitemap_address,
    json_slices,
)
from scraper_service.options.crawl import CrawlOptions
from scraper_service.options.urls import join_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scraper_service.discovery.canonical_urls import ParsedUrl
    from scraper_service.discovery.scope_rules import ScopeOptions
    from scraper_service.discovery.sitemap_xml import SitemapEntry

# Endings of pages; a path with such an ending is not a folder.
PAGE_ENDINGS = (".html", ".htm", ".xhtml", ".php", ".asp", ".aspx", ".jsp")


def reads_sitemaps(options: ScopeOptions) -> bool:
    """Return True if a crawl or map reads sitemaps."""
    return options.sitemap != "skip" and not options.scrape.lockdown


def starts_with_sitemap(options: ScopeOptions) -> bool:
    """Return True if the start URL is a sitemap instead of a page."""
    return reads_sitemaps(options) and is_sitemap_address(options.url)


def first_scope(options: CrawlOptions) -> CrawlScope:
    """Return the initial scope of a crawl, see :func:`first_base`."""
    return CrawlScope(options, first_base(options))


def first_base(options: ScopeOptions) -> str:
    """Return the initial base URL of a crawl or a map.

    If the start URL is a sitemap, the base is the root of the host.
    """
    url = options.url
    return join_url(url, "/") if starts_with_sitemap(options) else url


def sitemap_places(start_url: str, declared: Sequence[str]) -> tuple[str, ...]:
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
    first = start.href if is_sitemap_address(start.href) else folder
    # The three usual places are the likeliest: the declared URLs leave room for them.
    places = [*declared[: MAX_FILES - 3], first, f"{root}/sitemap.xml"]
    name, colon, port = start.host.partition(":")
    site = site_of(start.host)
    if site not in {start.host, plain_host(name)}:
        places.append(f"{start.scheme}://{site}{colon}{port}/sitemap.xml")
    found = (address for place in places if (address := parse_url(place)))
    urls = (address.href.partition("#")[0] for address in found if address.is_web)
    return tuple(dict.fromkeys(urls))


def _folder(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return folder if name.lower().endswith(PAGE_ENDINGS) else path.rstrip("/")


# "SITEMAPS" in ASCII: a sitemap file and a page with the same URL are separate rows.
_OF_SITEMAPS = 0x53_49_54_45_4D_41_50_53


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


@frozen
class SitemapChoice:
    """Turns the entries of a sitemap into rows with the fields of ``FoundLink``."""

    options: CrawlOptions
    #: The base URL of the crawl's scope.
    base: str

    def __call__(self, entries: Iterable[SitemapEntry]) -> tuple[bytes, ...]:
        scope = CrawlScope(self.options, self.base)
        return json_slices(self._row(scope, entry) for entry in entries)

    def _row(
        self, scope: CrawlScope, entry: SitemapEntry
    ) -> tuple[str | int | None, ...]:
        address = parse_url(entry.url)
        url = entry.url if address is None else address.href
        refusal = scope.refusal_of(address)
        reason, rule = (refusal.reason.value, refusal.rule) if refusal else (None, None)
        return (
            url,
            crawl_key(self.options, address or url),
            reason,
            rule,
            entry.lastmod,
        )
