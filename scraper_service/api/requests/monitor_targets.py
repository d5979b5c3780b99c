"""The targets in request bodies of monitors: scrape, crawl and search."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from scraper_service.options import catalogue, job_requests, page_requests, v2_requests
from scraper_service.options.formats import Markdown
from scraper_service.options.monitors import (
    MAX_CHARACTERS,
    MAX_DOMAINS,
    MAX_FIELDS,
    MAX_PATTERNS,
    MAX_QUERIES,
    MAX_QUERY,
    MAX_RESULTS,
    MAX_URLS,
    WINDOWS,
    Compare,
    CrawlTarget,
    FieldRule,
    ScrapeTarget,
    SearchTarget,
    monitored_formats,
)
from scraper_service.options.parsing import (
    INVALID,
    NO_DEFAULT,
    Array,
    Bool,
    Key,
    KeysT,
    Number,
    Object,
    Pairs,
    Position,
    Tagged,
    Text,
    Then,
    build,
    choice,
    integer,
    need,
    short,
)
from scraper_service.options.selectors import Never
from scraper_service.options.spider_arguments import spellings
from scraper_service.options.urls import caller_domain, caller_patterns
from scraper_service.options.values import (
    URL,
    query_text,
    some_urls,
    unique,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def _target_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError(f"id must be a UUID, got {short(text)}") from None


_ID = Key(
    Then(Text(), _target_id, {"format": "uuid"}),
    "id",
    help="The id of the target; a known one keeps its history.",
)


def _monitored_pages(values: dict[str, Any], at: Position) -> Any:
    """Return the options of monitored pages and the mode of their comparison."""
    values = {"formats": (Markdown(),), **values}
    try:
        values["formats"], mode = monitored_formats(values["formats"])
    except ValueError as error:
        return (at / "formats").report("custom", str(error))
    scrape = v2_requests.scrape_options({"max_age_ms": 0, **values}, at)
    return scrape if scrape is INVALID else (scrape, mode)


_SCRAPE = page_requests.whole_body(
    {
        name: Key(
            key.kind,
            key.to,
            key.required,
            key.alias,
            key.help,
            0,
            key.is_own,
            key.nullable,
        )
        if key.to == "max_age_ms"
        else key
        for name, key in v2_requests.SCRAPE_KEYS.items()
    },
    _monitored_pages,
)
_SCRAPE_KEY = Key(_SCRAPE, "scrape", help="How each page is scraped; maxAge is 0.")
_NOT_OF_MONITORS = frozenset(
    {
        *("url", "webhook", "prompt", "zero_data_retention"),
        *("retention_days", "keep_sources", "since"),
    }
)
_CRAWL_KEYS: KeysT = {
    **{
        name: key
        for name, key in v2_requests.CRAWL_KEYS.items()
        if key.to not in _NOT_OF_MONITORS
    },
    **catalogue.respell(
        catalogue.CRAWL,
        "max_path_depth",
        "v1",
        help="At most N path segments below the path of the URL.",
        default=NO_DEFAULT,
    ),
    "scrapeOptions": _SCRAPE_KEY,
}
_CRAWL_DEFAULTS = catalogue.defaults(catalogue.CRAWL, "v2")


def _scrape_target(values: dict[str, Any], at: Position) -> Any:
    found = values.pop("scrape", None) or _SCRAPE.read({}, at / "scrapeOptions")
    if found is INVALID:
        return INVALID
    scrape, mode = found
    urls = unique(values["urls"])
    compare = values.get("compare", Compare())
    if _lacks_data(compare, mode, at):
        return INVALID
    return ScrapeTarget(
        id=_id_of(values),
        urls=urls,
        scrape=scrape,
        mode=mode,
        compare=compare,
    )


def _crawl_target(values: dict[str, Any], at: Position) -> Any:
    own = values.pop("scrape", None)
    crawl_values = dict(values.pop("crawl", {}))
    nested = crawl_values.pop("scrape", None)
    found = own or nested or _SCRAPE.read({}, at / "scrapeOptions")
    if found is INVALID:
        return INVALID
    scrape, mode = found
    options = job_requests.crawl_options(
        {"url": values["url"], "scrape": scrape, **crawl_values},
        at / "crawlOptions",
        _SCRAPE,
        _CRAWL_DEFAULTS,
    )
    if options is INVALID:
        return INVALID
    compare = values.get("compare", Compare())
    if _lacks_data(compare, mode, at):
        return INVALID
    return CrawlTarget(id=_id_of(values), crawl=options, mode=mode, compare=compare)


def _lacks_data(compare: Compare, mode: str, at: Position) -> bool:
    """Report fields of data that no page of the target will have."""
    if not compare.fields or mode != "markdown":
        return False
    text = "fields needs data: add a json or changeTracking format in json mode to the formats"
    (at / "compare" / "fields").report("custom", text)
    return True


def _search_target(values: dict[str, Any], at: Position) -> Any:
    if values.get("include_domains") and values.get("exclude_domains"):
        text = "includeDomains and excludeDomains must not be given together"
        return (at / "excludeDomains").report("custom", text)
    values["queries"] = unique(values["queries"])
    return SearchTarget(**{**values, "id": _id_of(values)})


def _id_of(values: Mapping[str, Any]) -> str:
    return values.get("id") or str(uuid.uuid4())


def _field_rules(pairs: tuple[tuple[str, Any], ...]) -> tuple[FieldRule, ...]:
    return tuple(FieldRule(path=path, **values) for path, values in pairs)


def _text_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    found = caller_patterns(patterns)
    if len(found) < len(patterns):
        raise ValueError("ignorePatterns must have no empty pattern")
    return found


def _refuse_for(attribute: str) -> Key:
    reason = f"use {v2_requests.wire_name(attribute)} of scrapeOptions"
    return Key(Never(reason), help=f"Refused: {reason}.")


_FIELD_RULE = Object(
    {
        "ignore": Key(Bool(), "ignore", help="Never count the field."),
        "minDifference": Key(
            Number(0), "min_difference", help="The least difference of two numbers."
        ),
        "minPercent": Key(
            Number(0), "min_percent", help="The same in percent of the previous number."
        ),
    }
)
_COMPARE = Key(
    Object(
        {
            "includeSelectors": _refuse_for("include_tags"),
            "excludeSelectors": _refuse_for("exclude_tags"),
            "ignorePatterns": Key(
                Then(Array(Text(1024, minimum=1), MAX_PATTERNS), _text_patterns),
                "ignore_patterns",
                help="Regular expressions of text that does not count, in one line each.",
            ),
            "ignoreNumbers": Key(
                Bool(), "ignore_numbers", help="Numbers do not count."
            ),
            "ignoreDates": Key(
                Bool(), "ignore_dates", help="Dates, times and ages do not count."
            ),
            "minCharacters": Key(
                integer(0, MAX_CHARACTERS),
                "min_characters",
                help="The least number of characters that differ.",
            ),
            "fields": Key(
                Then(Pairs(_FIELD_RULE, MAX_FIELDS), _field_rules),
                "fields",
                help="Rules for fields of the data, by path.",
            ),
        },
        build(Compare),
    ),
    "compare",
    help="What does not count as a change.",
    is_own=True,
)
_HOSTS = Array(Then(Text(), caller_domain), MAX_DOMAINS)
_TARGET_KINDS: Mapping[str, Object] = {
    "scrape": Object(
        {
            "id": _ID,
            "urls": need(
                some_urls(Array(URL, MAX_URLS), "urls must have at least 1 item"),
                "urls",
                "The URLs of the pages.",
            ),
            "scrapeOptions": _SCRAPE_KEY,
            "compare": _COMPARE,
        },
        _scrape_target,
    ),
    "crawl": Object(
        {
            "id": _ID,
            "url": need(URL, "url", "The start URL."),
            "crawlOptions": Key(
                Object(_CRAWL_KEYS), "crawl", help="The options of the crawl."
            ),
            "scrapeOptions": _SCRAPE_KEY,
            "compare": _COMPARE,
        },
        _crawl_target,
    ),
    "search": Object(
        {
            "id": _ID,
            "queries": need(
                some_urls(
                    Array(
                        Then(
                            Text(MAX_QUERY, minimum=1),
                            query_text,
                            {"pattern": r"\S"},
                        ),
                        MAX_QUERIES,
                    ),
                    "queries must have at least 1 item",
                ),
                "queries",
                "What to search for.",
            ),
            "searchWindow": Key(
                choice(*WINDOWS),
                "window",
                help="The age of results.",
                default="24h",
            ),
            "maxResults": Key(
                integer(1, MAX_RESULTS),
                "max_results",
                help="Results of a check, over all queries.",
                default=10,
            ),
            **catalogue.respell(
                catalogue.SEARCH,
                "include_domains",
                kind=_HOSTS,
                help="Only results of these hosts.",
                default=NO_DEFAULT,
            ),
            **catalogue.respell(
                catalogue.SEARCH,
                "exclude_domains",
                kind=_HOSTS,
                help="No results of these hosts.",
                default=NO_DEFAULT,
            ),
        },
        _search_target,
    ),
}
TARGETS = Tagged(_TARGET_KINDS, shorthand=False)

SPELLINGS = spellings(_CRAWL_KEYS, *(kind.fields for kind in _TARGET_KINDS.values()))
