"""Where a site's sitemaps may be (interface document, part 11.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scraper_service.discovery import CrawlScope
from scraper_service.discovery.canonical_urls import parsed, plain_host, site_of
from scraper_service.discovery.sitemap import MAX_FILES, is_sitemap_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.discovery.scope_rules import ScopeOptions
    from scraper_service.options.jobs import CrawlOptions

# Pages, which have nothing below them.
PAGE_ENDINGS = (".html", ".htm", ".xhtml", ".php", ".asp", ".aspx", ".jsp")


def reads_sitemaps(options: ScopeOptions) -> bool:
    """Tell whether a crawl reads sitemaps at all."""
    return options.sitemap != "skip" and not options.scrape.lockdown


def starts_with_sitemap(options: ScopeOptions) -> bool:
    """Tell whether the start of a crawl is a sitemap instead of a page."""
    return reads_sitemaps(options) and is_sitemap_address(options.url)


def first_scope(options: CrawlOptions) -> CrawlScope:
    """Return the scope that a crawl begins with.

    A sitemap to start with is about its whole site, not what is below its path.
    """
    return CrawlScope(options, first_base(options))


def first_base(options: ScopeOptions) -> str:
    """Return the address that the scope of a crawl or a map begins with."""
    url = options.url
    return urljoin(url, "/") if starts_with_sitemap(options) else url


def sitemap_places(start_url: str, declared: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses to try, in this order, :data:`MAX_FILES` or less.

    Those ``declared`` in robots.txt, the start itself or a file below it, a file at its
    origin, and one at the main domain if it is a subdomain. All are http(s), in normal
    form, without duplicates.
    """
    places: dict[str, None] = {}
    for place in _candidates(start_url, declared):
        address = parsed(place)
        if address is not None and address.is_web:
            places[address.href.partition("#")[0]] = None
    return tuple(places)


def _candidates(start_url: str, declared: Sequence[str]) -> Iterator[str]:
    start = parsed(start_url)
    if start is None or not start.is_web:
        raise ValueError(f"not an http(s) address: {start_url!r:.100}")
    origin = f"{start.scheme}://{start.host}"
    # The last places are few and the likeliest: they are not crowded out.
    for place in declared[: MAX_FILES - 3]:
        yield _joined(origin, place)
    if is_sitemap_address(start.href):
        yield start.href
    else:
        yield f"{origin}{_folder(start.path)}/sitemap.xml"
    yield f"{origin}/sitemap.xml"
    name, colon, port = start.host.partition(":")
    site = site_of(start.host)
    if site not in {start.host, plain_host(name)}:
        yield f"{start.scheme}://{site}{colon}{port}/sitemap.xml"


def _joined(origin: str, place: str) -> str:
    try:
        return urljoin(f"{origin}/robots.txt", place.strip())
    except ValueError:  # "http://[" and the like
        return ""


def _folder(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return folder if name.lower().endswith(PAGE_ENDINGS) else path.rstrip("/")
