"""From options to the first rows of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from attrs import frozen

from scraper_service.discovery import crawl_key, sitemap_key
from scraper_service.discovery.sitemap_locations import (
    reads_sitemaps,
    starts_with_sitemap,
)
from scraper_service.options.jobs import BatchOptions, CrawlOptions
from scraper_service.storage.job_records import Kind, Link

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen
class Seed:
    """What a job starts with; ``page_limit`` None means no limit."""

    kind: str
    url: str
    page_limit: int | None
    links: tuple[Link, ...]


def seed_of(options: CrawlOptions | BatchOptions) -> Seed:
    """Return the seed for ``options``.

    The key of a batch's entry is its number: equal addresses are separate entries.
    """
    if isinstance(options, CrawlOptions):
        return Seed("crawl", options.url, options.limit, tuple(_first(options)))
    links = tuple(Link(n, url, 0) for n, url in enumerate(options.urls))
    return Seed("batch", options.urls[0], None, links)


def _first(options: CrawlOptions) -> Iterator[Link]:
    if not starts_with_sitemap(options):
        yield Link(crawl_key(options, options.url), options.url, 0)
    if reads_sitemaps(options):
        robots = urljoin(options.url, "/robots.txt")
        yield Link(sitemap_key(robots), robots, 0, kind=Kind.SITEMAP)
