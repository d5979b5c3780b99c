"""The options of a page, a map and a search in requests of both versions.

The keys are those of the catalogue; here stand the others, and the rules between options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
from attrs import evolve

from scraper_service.options import catalogue, formats
from scraper_service.options.jobs import Caller, PageOptions
from scraper_service.options.map_search import (
    DEFAULT_AGE_MS,
    MapOptions,
    ResultList,
    SearchOptions,
)
from scraper_service.options.parsing import (
    INVALID,
    Anything,
    Key,
    Object,
    Position,
    choice,
)
from scraper_service.options.scrape import CHANGE_WAIT_MS, ScrapeOptions, broken_rules
from scraper_service.options.values import (
    CAPPED_TIMEOUT,
    NO_EFFECT,
    THREAT_PROTECTION,
)

if TYPE_CHECKING:
    from scraper_service.options.parsing import KeysT, MakeT


SpellT: TypeAlias = Callable[[str], str]

EXPERIMENTAL = "__experimental_"


def whole_body(keys: KeysT, make: MakeT) -> Object:
    """Return the kind of a body, which may have keys of experiments of the clients."""
    return Object(keys, make, EXPERIMENTAL)


# The old default of v1. Its client always sends it, so it counts as no time-out.
UNCHOSEN_TIMEOUT_MS = 30_000
MODEL_TIMEOUT_MS = 60_000
PROXY_TIMEOUT_MS = 120_000

# Keys of both versions that are no options here.
FURTHER_KEYS: KeysT = {
    "domainTools": Key(Anything(), help=NO_EFFECT),
    "toolDetail": Key(choice("compact", "summary", "full"), help=NO_EFFECT),
    "useMock": Key(Anything(), help=NO_EFFECT),
    "useIndex": Key(Anything(), help=NO_EFFECT),
    "__searchPreviewToken": Key(Anything(), help=NO_EFFECT),
}
# The keys of the caller are the same in both versions.
CALLER_KEYS: KeysT = catalogue.keys(catalogue.CALLER, "v2")
#: The attributes of :class:`Caller`.
CALLER = tuple(attrs.fields_dict(Caller))
_SINGLE = catalogue.select(catalogue.SCRAPE, "page")
_TOP_LEVEL = tuple(
    each for each in catalogue.SCRAPE if not each.is_nested and each not in _SINGLE
)


def scrape_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of ``scrapeOptions`` in a version."""
    nested = tuple(each for each in catalogue.SCRAPE if each.is_nested)
    return {**catalogue.keys(nested, version), **FURTHER_KEYS, **CALLER_KEYS}


def scrape_kind(keys: KeysT, make: MakeT, **defaults: Any) -> Object:
    """Return the kind of ``scrapeOptions``, with other ``defaults`` than a scrape's.

    ``make`` returns the version's ``ScrapeOptions``.
    """

    def complete(values: dict[str, Any], at: Position) -> Any:
        return make({**defaults, **values}, at)

    known = {
        name: evolve(key, default=defaults[key.to]) if key.to in defaults else key
        for name, key in keys.items()
    }
    return whole_body(known, complete)


# The keys of a request for one page without those of its options.
REQUEST_KEYS: KeysT = catalogue.keys((catalogue.URL, *_TOP_LEVEL), "v2")
# The keys that only a request for a single page has.
SINGLE_KEYS: KeysT = catalogue.keys(_SINGLE, "v2")


def scrape_options(values: Mapping[str, Any], at: Position, spell: SpellT) -> Any:
    """Return ``ScrapeOptions`` from complete ``values``, with time for slow work."""
    options = build_options(values, at, spell)
    return options if options is INVALID else patient(options)


def build_options(values: Mapping[str, Any], at: Position, spell: SpellT = str) -> Any:
    """Return ``ScrapeOptions`` from complete ``values``, or report broken rules.

    ``values`` may contain more than the attributes of the class.
    """
    chosen = {a.name: values[a.name] for a in attrs.fields(ScrapeOptions)}
    try:
        chosen["formats"] = formats.merge_formats(chosen["formats"])
    except ValueError as error:
        return (at / "formats").report("custom", str(error))
    options = ScrapeOptions(**chosen)
    if broken := broken_rules(options, spell):
        return at.below(broken)
    return options


def page_options(values: Mapping[str, Any], scrape: ScrapeOptions) -> PageOptions:
    """Return the options of one page from the ``values`` of a request."""
    names = {a.name for a in attrs.fields(PageOptions)} - {"scrape"}
    given = {name: values[name] for name in names & values.keys()}
    return PageOptions(scrape=scrape, **given)


def protect(options: ScrapeOptions, values: dict[str, Any], at: Position) -> Any:
    """Return ``options`` with the ``threatProtection`` next to ``scrapeOptions``.

    It is removed from ``values``, and reported if ``options`` have one, too.
    """
    if (rules := values.pop("site_rules", None)) is None:
        return options
    if options.site_rules is not None:
        text = "threatProtection must stand here or in scrapeOptions, not in both"
        return (at / "threatProtection").report("custom", text)
    return evolve(options, site_rules=rules)


def patient(options: ScrapeOptions) -> ScrapeOptions:
    """Return ``options`` with more time for slow work, if the caller set no time-out.

    The slowest work sets the time.
    """
    if options.timeout_ms != UNCHOSEN_TIMEOUT_MS:
        return options
    timeout_ms, wait_for_ms = options.timeout_ms, options.wait_for_ms
    if options.format(formats.Json):
        timeout_ms = MODEL_TIMEOUT_MS
    if options.format(formats.ChangeTracking):
        timeout_ms = MODEL_TIMEOUT_MS
        wait_for_ms = max(wait_for_ms, CHANGE_WAIT_MS)
    if options.proxy in {"stealth", "auto"}:
        timeout_ms = PROXY_TIMEOUT_MS
    return evolve(options, timeout_ms=timeout_ms, wait_for_ms=wait_for_ms)


# Keys without a warning. Public clients always send them; their values are refused
# unless they have no effect (no map is cached, for instance).
_SILENT = {"ignoreCache", "toolDetail", "urlTrace"}


def ignored_names(keys: KeysT) -> frozenset[str]:
    """Return the keys that are accepted without effect, with a warning.

    Those of ``threatProtection`` begin with its name and a dot: none of it may be dropped in
    silence.
    """
    protection = {
        f"threatProtection.{key}": found
        for key, found in THREAT_PROTECTION.fields.items()
    }
    return frozenset(
        key
        for key, found in {**FURTHER_KEYS, **keys, **protection}.items()
        if found.to is None and key not in _SILENT and not key.startswith("__")
    )


def wire_names(keys: KeysT) -> dict[str, str]:
    """Return the JSON key of each attribute that one of ``keys`` sets."""
    return {
        found.to: key
        for key, found in keys.items()
        if found.to is not None and not found.alias
    }


def camel_case(name: str) -> str:
    """Return a name in snake_case in camelCase."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


MAP_DEFAULTS = catalogue.defaults(catalogue.MAP, "v2")

_SCRAPE_OF_MAP = ("headers", "location", "site_rules", "timeout_ms")
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
        **{key: FURTHER_KEYS[key] for key in ("useIndex", "useMock")},
        "ignoreCache": Key(Anything(), help=NO_EFFECT),
        **unread(catalogue.keys(crawl, version)),
        **CALLER_KEYS,
    }


_SOURCE_NAMES = tuple(each.attribute for each in catalogue.SOURCE)


def map_options(
    values: dict[str, Any], at: Position, read_scrape: Callable[..., Any]
) -> Any:
    """Return ``MapOptions`` from ``values``.

    ``read_scrape`` returns the version's ``ScrapeOptions``.
    """
    scrape_values = {
        name: values.pop(name) for name in _SCRAPE_OF_MAP if name in values
    }
    scrape = read_scrape({**scrape_values, **_FETCHED}, at)
    if scrape is INVALID:
        return INVALID
    return MapOptions(scrape=scrape, **{**MAP_DEFAULTS, **values})


def search_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of a body that starts a search, without ``scrapeOptions``."""
    preview = "__searchPreviewToken"
    return {
        **catalogue.keys(catalogue.SEARCH, version),
        **CALLER_KEYS,
        preview: FURTHER_KEYS[preview],
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


def search_options(
    values: dict[str, Any], at: Position, spell: SpellT = camel_case
) -> Any:
    """Return ``SearchOptions`` from complete ``values``, or report a broken rule."""
    options = SearchOptions(**values)
    if options.include_domains and options.exclude_domains:
        names = (spell("include_domains"), spell("exclude_domains"))
        text = f"{' and '.join(names)} are not allowed together"
        return (at / names[1]).report("custom", text)
    kinds = [source.kind for source in options.sources]
    if len(set(kinds)) < len(kinds):
        text = "sources must have each kind once"
        return (at / "sources").report("custom", text)
    if options.scrape is not None and options.scrape.site_rules is None:
        scrape = evolve(options.scrape, site_rules=options.site_rules)
        return evolve(options, scrape=scrape)
    return options


def pages_of_results(keys: KeysT, read_scrape: MakeT, **defaults: Any) -> Key:
    """Return the key of the options of the pages of results.

    Stored pages up to :data:`DEFAULT_AGE_MS` are accepted.
    """
    kind = scrape_kind(keys, read_scrape, max_age_ms=DEFAULT_AGE_MS, **defaults)
    return Key(kind, "scrape", help="Scrape the results with these options.")
