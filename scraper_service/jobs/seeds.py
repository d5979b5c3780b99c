"""From options to the first rows of a job."""

from __future__ import annotations

from attrs import frozen

from scraper_service.jobs.model import Link
from scraper_service.options.jobs import BatchOptions, CrawlOptions
from scraper_service.scope import page_key


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
        key = page_key(
            options.url,
            similar=options.deduplicate_similar_urls,
            ignore_query=options.ignore_query_parameters,
        )
        return Seed("crawl", options.url, options.limit, (Link(key, options.url, 0),))
    links = tuple(Link(n, url, 0) for n, url in enumerate(options.urls))
    return Seed("batch", options.urls[0], None, links)
