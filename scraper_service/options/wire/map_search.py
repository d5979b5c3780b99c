"""Request bodies that start a map of a site or a search of the web, in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve

from scraper_service.options import catalogue
from scraper_service.options.map_search import (
    DEFAULT_AGE_MS,
    MapOptions,
    ResultList,
    SearchOptions,
)
from scraper_service.options.parsing import INVALID, Anything, Key, Position
from scraper_service.options.wire import pages
from scraper_service.options.wire.values import CAPPED_TIMEOUT, NO_EFFECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.options.parsing import KeysT, MakeT

MAP_DEFAULTS = catalogue.defaults(catalogue.MAP, "v2")

_SCRAPE = ("headers", "location", "site_rules", "timeout_ms")
# The start page and the sitemaps are always fetched, for their links only.
_FETCHED = {
    "formats": (),
    "max_age_ms": 0,
    "proxy": "basic",
    "store_in_cache": False,
}
# Options of a crawl that a map accepts without effect.
_UNREAD = (
    *("max_discovery_depth", "crawl_entire_domain", "allow_external_links"),
    *("allow_subdomains", "ignore_robots_txt", "deduplicate_similar_urls", "delay_s"),
    "max_path_depth",
)


def unread(known: KeysT) -> KeysT:
    """Return keys whose values are checked as those of ``known`` and then dropped."""
    return {name: Key(key.kind, help=NO_EFFECT) for name, key in known.items()}


def map_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of a body that starts a map."""
    page = catalogue.select(catalogue.SCRAPE, "headers", "location", "site_rules")
    crawl = catalogue.select(catalogue.CRAWL, *_UNREAD)
    return {
        **catalogue.keys(catalogue.MAP, version),
        **catalogue.keys(page, version),
        "timeout": Key(
            CAPPED_TIMEOUT,
            "timeout_ms",
            help="Give up after this time, in milliseconds.",
        ),
        **{key: pages.FURTHER_KEYS[key] for key in ("useIndex", "useMock")},
        "ignoreCache": Key(Anything(), help=NO_EFFECT),
        **unread(catalogue.keys(crawl, version)),
        **pages.CALLER_KEYS,
    }


_SOURCE_NAMES = tuple(each.attribute for each in catalogue.SOURCE)


def map_options(
    values: dict[str, Any], at: Position, scrape_options: Callable[..., Any]
) -> Any:
    """Return ``MapOptions`` from ``values``.

    ``scrape_options`` returns the version's ``ScrapeOptions``.
    """
    scrape_values = {name: values.pop(name) for name in _SCRAPE if name in values}
    scrape = scrape_options({**scrape_values, **_FETCHED}, at)
    if scrape is INVALID:
        return INVALID
    return MapOptions(scrape=scrape, **{**MAP_DEFAULTS, **values})


def search_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of a body that starts a search, without ``scrapeOptions``."""
    preview = "__searchPreviewToken"
    return {
        **catalogue.keys(catalogue.SEARCH, version),
        **pages.CALLER_KEYS,
        preview: pages.FURTHER_KEYS[preview],
    }


def make_source(values: dict[str, Any], common: dict[str, Any]) -> ResultList:
    """Return a source from its own ``values`` and those ``common`` to all sources.

    The default country applies only without a location in words.
    """
    facts = {**common, **values}
    if facts.get("location") and "country" not in facts:
        facts["country"] = None
    return ResultList(**facts)


def pop_common(values: dict[str, Any]) -> dict[str, Any]:
    """Remove from the values of a body those common to all sources, and return them."""
    return {name: values.pop(name) for name in _SOURCE_NAMES if name in values}


def search_options(values: dict[str, Any], at: Position) -> Any:
    """Return ``SearchOptions`` from complete ``values``, or report a broken rule."""
    options = SearchOptions(**values)
    if options.include_domains and options.exclude_domains:
        text = "includeDomains and excludeDomains are not allowed together"
        return (at / "excludeDomains").report("custom", text)
    kinds = [source.kind for source in options.sources]
    if len(set(kinds)) < len(kinds):
        text = "sources must have each kind once"
        return (at / "sources").report("custom", text)
    if options.scrape is not None and options.scrape.site_rules is None:
        scrape = evolve(options.scrape, site_rules=options.site_rules)
        return evolve(options, scrape=scrape)
    return options


def pages_of_results(keys: KeysT, scrape_options: MakeT, **defaults: Any) -> Key:
    """Return the key of the options of the pages of results.

    Stored pages up to :data:`DEFAULT_AGE_MS` are accepted.
    """
    kind = pages.scrape_kind(
        keys, scrape_options, max_age_ms=DEFAULT_AGE_MS, **defaults
    )
    return Key(kind, "scrape", help="Scrape the results with these options.")
