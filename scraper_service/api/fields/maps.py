"""What the bodies that ask for a map have in common (interface document, 13.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.fields import common
from scraper_service.api.fields.jobs import CRAWL_FIELDS
from scraper_service.options.job_arguments import MAP_DEFAULTS
from scraper_service.options.jobs import MAX_MAP_LIMIT, MAX_SEARCH, MapOptions
from scraper_service.options.scrape import OVERALL_TIMEOUT_MS
from scraper_service.options.structure import INVALID, Field, Place, Then
from scraper_service.options.values import Anything, Bool, Text, integer

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.api.fields.common import FieldsT

_SCRAPE = ("headers", "location", "site_rules", "timeout_ms")
# How the start page and the sitemaps are fetched: always anew, for their links alone.
_FETCHED = {
    "formats": (),
    "max_age_ms": 0,
    "proxy": "basic",
    "store_in_cache": False,
}


def unread(known: FieldsT, *names: str) -> FieldsT:
    """Return fields that are checked as those of ``known`` and then dropped."""
    return {name: Field(known[name].kind) for name in names}


def _capped_ms(timeout_ms: int) -> int:
    return min(timeout_ms, OVERALL_TIMEOUT_MS)


# Of both versions; how each names the use of sitemaps is its own.
MAP_FIELDS: FieldsT = {
    "url": common.REQUEST_FIELDS["url"],
    "search": Field(Text(MAX_SEARCH), "search"),
    "limit": Field(integer(1, MAX_MAP_LIMIT), "limit"),
    "includeSubdomains": Field(Bool(), "include_subdomains"),
    "ignoreQueryParameters": CRAWL_FIELDS["ignoreQueryParameters"],
    "timeout": Field(Then(integer(1), _capped_ms), "timeout_ms"),
    "filterByPath": Field(Bool(), "filter_by_path"),
    **{
        key: common.SCRAPE_FIELDS[key]
        for key in ("headers", "location", "useIndex", "useMock")
    },
    "ignoreCache": Field(Anything()),
    **{
        key: CRAWL_FIELDS[key]
        for key in ("includePaths", "excludePaths", "regexOnFullURL")
    },
    **unread(
        CRAWL_FIELDS,
        *("maxDiscoveryDepth", "crawlEntireDomain", "allowExternalLinks"),
        *("allowSubdomains", "ignoreRobotsTxt", "deduplicateSimilarURLs", "delay"),
    ),
    **{
        key: CRAWL_FIELDS[key]
        for key in ("threatProtection", "origin", "integration", "auditMetadata")
    },
}


def map_options(
    values: dict[str, Any], at: Place, scrape_options: Callable[..., Any]
) -> Any:
    """Return ``MapOptions`` of ``values``; ``scrape_options`` is the version's own."""
    asked = {name: values.pop(name) for name in _SCRAPE if name in values}
    scrape = scrape_options({**asked, **_FETCHED}, at)
    if scrape is INVALID:
        return INVALID
    return MapOptions(scrape=scrape, **{**MAP_DEFAULTS, **values})
