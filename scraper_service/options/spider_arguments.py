"""Spider arguments, which are texts, to options.

``-a url=... -a limit=50 -a delay_s=1`` starts a crawl, ``-a urls=http://a.com,b.com`` a
batch, ``-a url=... -a search=price`` a map and ``-a query=...`` a search. Each takes the
arguments of a page as well: ``-a formats=markdown,links -a only_main_content=false``.
Names are those of the catalogue. ``-a options={...}`` holds options of the page as JSON;
other arguments override it. Arguments that start with an underscore belong to the
program that starts the spider (scrapyd's ``_job``) and are ignored.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
from attrs import evolve

from scraper_service.errors import InvalidOptions, Issue, prefix_name
from scraper_service.options import catalogue, urls
from scraper_service.options.actions import caller_actions
from scraper_service.options.crawl import (
    MAX_BATCH_URLS,
    MAX_DELAY_S,
    SITEMAP_MODES,
    BatchOptions,
    CrawlOptions,
    PageOptions,
    Webhook,
)
from scraper_service.options.expressions import caller_patterns, caller_selectors
from scraper_service.options.formats import (
    FORMATS,
    NAMED,
    caller_formats,
    merge_formats,
    snake_case,
)
from scraper_service.options.map_search import (
    CATEGORIES,
    MAX_QUERY,
    MAX_SEARCH,
    SOURCES,
    MapOptions,
    ResultList,
    SearchOptions,
    time_filter,
)
from scraper_service.options.parsing import (
    MAX_INTEGER,
    Array,
    Bool,
    Choice,
    Number,
    Text,
    bare_kind,
    guesses,
    short,
)
from scraper_service.options.scrape import ScrapeOptions, SiteRules, broken_rules
from scraper_service.options.serialization import structure, unstructure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T", bound=attrs.AttrsInstance)
ReadersT: TypeAlias = "Mapping[str, Callable[[str], Any]]"

# The options of a page, as JSON values. Every page is fetched, and not stored.
DEFAULTS = unstructure(ScrapeOptions(**catalogue.defaults(catalogue.SCRAPE, "shell")))
CRAWL_DEFAULTS = catalogue.defaults(catalogue.CRAWL, "shell")
BATCH_DEFAULTS = catalogue.defaults(catalogue.BATCH, "shell")
MAP_DEFAULTS = catalogue.defaults(catalogue.MAP, "shell")

# Values of ``type`` that stand for a format with options.
_TAG_ALIASES: dict[str, dict[str, Any]] = {
    row.tag: {"type": row.cls.type, **row.preset} for row in FORMATS if row.preset
}


def page_options(arguments: Mapping[str, str]) -> PageOptions:
    """Return the options of a page from spider arguments.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, (catalogue.URL,))
    return options_of(PageOptions, values)


def crawl_options(arguments: Mapping[str, str]) -> CrawlOptions:
    """Return the options of a crawl from spider arguments.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, catalogue.CRAWL)
    return options_of(CrawlOptions, {**CRAWL_DEFAULTS, **values})


def batch_options(arguments: Mapping[str, str]) -> BatchOptions:
    """Return the options of a batch from spider arguments.

    ``urls`` are separated by commas or white space. ``@name`` stands for the lines of
    a file in UTF-8, where a comma belongs to the URL.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, catalogue.BATCH)
    return options_of(BatchOptions, {**BATCH_DEFAULTS, **values})


def map_options(arguments: Mapping[str, str]) -> MapOptions:
    """Return the options of a map from spider arguments.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, catalogue.MAP)
    options = options_of(MapOptions, {**MAP_DEFAULTS, **values})
    return evolve(options, scrape=evolve(options.scrape, formats=()))


def search_options(arguments: Mapping[str, str]) -> SearchOptions:
    """Return the options of a search from spider arguments.

    With ``formats`` the pages of the results are scraped, with the arguments of a page.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, catalogue.SEARCH)
    names = {option.name("shell"): option.attribute for option in catalogue.SOURCE}
    common = {names[name]: values.pop(name) for name in list(values) if name in names}
    kinds = values.pop("sources", ("web",))
    sources = tuple(ResultList(kind=kind, **common) for kind in kinds)
    own_names = {attribute.name for attribute in attrs.fields(SearchOptions)}
    own_names.remove("site_rules")  # they are read with the options of a page
    own = {name: values.pop(name) for name in own_names & values.keys()}
    if own.get("include_domains") and own.get("exclude_domains"):
        text = "include_domains and exclude_domains are not allowed together"
        raise InvalidOptions([Issue("custom", ("exclude_domains",), text)])
    page = {"url": "http://result.invalid/", **values}
    scrape = options_of(PageOptions, page).scrape
    return SearchOptions(
        sources=sources,
        site_rules=scrape.site_rules,
        scrape=scrape if "formats" in values else None,
        **own,
    )


def read_arguments(
    arguments: Mapping[str, str], own: catalogue.TableT
) -> dict[str, Any]:
    """Return the values of ``arguments`` by name: options of ``own`` and of a page.

    :raises InvalidOptions: for unknown names, wrong values and missing arguments.
    """
    table = (*catalogue.CALLER, *catalogue.SCRAPE, *own)
    options = {option.name("shell"): option for option in table}
    readers = {name: _reader(option) for name, option in options.items() if name}
    readers["options"] = _object
    given = {k: v for k, v in arguments.items() if not k.startswith("_")}
    if unknown := [key for key in given if key not in readers]:
        text = f"Unrecognized key in arguments: {short(unknown)}; "
        text += guesses(unknown, readers, _keys_of_requests(table))
        text += f"allowed are {', '.join(sorted(readers))}"
        raise InvalidOptions([Issue("unrecognized_keys", (), text, {"keys": unknown})])
    values: dict[str, Any] = {}
    issues = []
    for name, text in given.items():
        try:
            values[name] = readers[name](text)
        except (ValueError, RecursionError) as error:
            issues.append(Issue("custom", (name,), prefix_name(name, str(error)[:300])))
    for option in own:
        name = option.attribute
        if option.default_value("shell") is catalogue.REQUIRED and name not in given:
            text = f"{name} is required: -a {name}=..."
            issues.append(Issue("invalid_type", (name,), text))
    if issues:
        raise InvalidOptions(issues)
    return values


def _keys_of_requests(table: catalogue.TableT) -> dict[str, str]:
    """Return the names of arguments by the keys that both versions of the API have."""
    return {
        key: argument
        for option in table
        for key in (option.name("v1"), option.name("v2"))
        if key and (argument := option.name("shell"))
    }


def options_of(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return options of ``kind``; values it has no attribute for are of its pages.

    :raises InvalidOptions: with paths that start with the name of the value.
    """
    names = {a.name for a in attrs.fields(kind)}
    own = {name: value for name, value in values.items() if name in names}
    pages = {name: value for name, value in values.items() if name not in names}
    scrape = {**DEFAULTS, **pages.pop("options", {}), **pages}
    if issues := list(_unknown_formats(scrape["formats"])):
        raise InvalidOptions(issues)
    scrape = {name: _expand(name, value) for name, value in scrape.items()}
    checked = _check(structure(scrape, ScrapeOptions))
    return kind(**{"origin": "spider", **own, "scrape": checked})


def _check(options: ScrapeOptions) -> ScrapeOptions:
    """Return ``options`` after the checks that a type cannot express.

    The domains of the site rules become those of :func:`urls.caller_domain`.
    """
    issues = list(broken_rules(options))
    for name, check in _CHECKS.items():
        try:
            check(getattr(options, name))
        except InvalidOptions as error:
            issues += [attrs.evolve(i, path=(name, *i.path)) for i in error.issues]
    try:
        formats = merge_formats(options.formats)
    except ValueError as error:
        issues.append(Issue("custom", ("formats",), str(error)))
        formats = ()
    rules = options.site_rules
    try:
        rules = rules and _with_plain_domains(rules)
    except ValueError as error:
        issues.append(Issue("custom", ("site_rules",), str(error)))
    if issues:
        raise InvalidOptions(issues)
    # mypy leaves the type variable of the field's converter unbound.
    return attrs.evolve(options, formats=formats, site_rules=rules)  # type: ignore[arg-type]


def _with_plain_domains(rules: SiteRules) -> SiteRules:
    return SiteRules(
        tuple(map(urls.host_pattern, rules.blacklist)),
        tuple(map(urls.host_pattern, rules.whitelist)),
        tuple(map(urls.caller_domain, rules.blocked_tlds)),
    )


def _unknown_formats(given: Any) -> Iterator[Issue]:
    """Yield an issue for each format of a name that callers do not know."""
    for index, item in enumerate(given if isinstance(given, list) else ()):
        name = item.get("type") if isinstance(item, dict) else item
        if isinstance(name, str) and snake_case(name) in _FORMAT_TAGS:
            continue
        text = f"formats.{index}: no format has the name {short(name)}; "
        text += guesses([str(name)], NAMED)
        text += f"allowed are {', '.join(NAMED)}"
        yield Issue("custom", ("formats", index), text)


def _expand(name: str, value: Any) -> Any:
    """Return ``value`` with short forms written out."""
    if name in {"formats", "parsers", "actions"} and isinstance(value, list):
        return [_tag(item) for item in value]
    if name == "headers" and isinstance(value, dict):
        return [[key, item] for key, item in value.items()]
    return value


def _tag(item: Any) -> Any:
    if isinstance(item, str):
        item = {"type": item}
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return item
    tag = snake_case(item["type"])
    return {**item, "type": tag, **_TAG_ALIASES.get(tag, {})}


_FORMAT_TAGS = {*(row.tag for row in NAMED.values()), *_TAG_ALIASES}


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "headers": urls.caller_headers,
    "include_tags": caller_selectors,
    "exclude_tags": caller_selectors,
    "formats": caller_formats,
    "actions": caller_actions,
}


def _reader(option: catalogue.Option) -> Callable[[str], Any]:
    """Return the function that reads an argument: a special one, or by its kind."""
    if special := _SPECIAL_READERS.get(option.attribute):
        return special
    kind = bare_kind(option.value_kind("shell"))
    if isinstance(kind, Bool):
        return _flag
    if isinstance(kind, Number):
        reader = partial(_integer, kind)
        is_optional = option.default_value("shell") is None
        return partial(_or_none, reader) if is_optional else reader
    if isinstance(kind, Array):
        return _parse_list
    return str if isinstance(kind, Text | Choice) else json.loads


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"must be true or false, got {short(text)}")
    return text == "true"


def _integer(kind: Number, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,16}", text) or int(text) > MAX_INTEGER:
        raise ValueError(
            f"must be an integer from {kind.minimum} to {kind.maximum},"
            f" got {short(text)}"
        )
    if (number := int(text)) < kind.minimum:
        raise ValueError(f"must be >= {kind.minimum}, got {number}")
    if number > kind.maximum:
        raise ValueError(f"must be <= {kind.maximum}, got {number}")
    return number


def _or_none(read: Callable[[str], Any], text: str) -> Any:
    return None if text in {"", "none"} else read(text)


def _parse_list(text: str) -> list[Any]:
    """Return the JSON array that ``text`` is, else a list of ``text`` alone."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, list) else [text]


def _names(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        return json.loads(text)
    return [name.strip() for name in text.split(",") if name.strip()]


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"must be a JSON object, got {short(text)}")
    return value


def _search(text: str) -> str:
    if len(text) > MAX_SEARCH:
        raise ValueError(f"must have at most {MAX_SEARCH} characters, got {len(text)}")
    return text


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise ValueError(f"must be a number of seconds, got {short(text)}")
    if not 0 < (seconds := float(text)) <= MAX_DELAY_S:
        raise ValueError(f"must be > 0 and <= {MAX_DELAY_S}, got {short(text)}")
    return seconds


def _patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(_parse_list(text))
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise ValueError(f"must be strings, got {short(text)}")
    return caller_patterns(patterns)


def _sitemap(text: str) -> str:
    if text not in SITEMAP_MODES:
        allowed = ", ".join(SITEMAP_MODES)
        raise ValueError(f"must be one of {allowed}, got {short(text)}")
    return text


def _webhook(text: str) -> Webhook:
    value = json.loads(text) if text.lstrip().startswith("{") else {"url": text}
    if isinstance(headers := value.get("headers"), dict):
        value = {**value, "headers": [list(pair) for pair in headers.items()]}
    webhook = structure(value, Webhook)
    urls.caller_headers(webhook.headers)
    return evolve(webhook, url=urls.caller_url(webhook.url))


def _urls(text: str) -> tuple[str, ...]:
    names = _read_urls(text.strip())
    if not 1 <= len(names) <= MAX_BATCH_URLS:
        text = f"must be 1 to {MAX_BATCH_URLS} URLs, got {len(names)}"
        raise ValueError(text)
    good = []
    issues = []
    for index, name in enumerate(names):
        try:
            good.append(urls.caller_url(name))
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
    if issues:
        raise InvalidOptions(issues)
    return tuple(good)


def _read_urls(text: str) -> list[str]:
    if not text.startswith("@"):
        return [name for name in re.split(r"[\s,]+", text) if name]
    try:
        return Path(text[1:]).read_text(encoding="utf-8-sig").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {short(text[1:])}: {error!s:.200}") from None


def _query(text: str) -> str:
    if not text.strip() or len(text) > MAX_QUERY:
        raise ValueError(f"must have 1 to {MAX_QUERY} characters")
    return text.strip()


def _of(
    allowed: tuple[str, ...],
) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(filter(None, text.replace(",", " ").split())))
        if not names or not set(names) <= set(allowed):
            raise ValueError(f"must be of {', '.join(allowed)}, got {short(text)}")
        return names

    return read


def _domains(text: str) -> tuple[str, ...]:
    return tuple(map(urls.caller_domain, text.replace(",", " ").split()))


# Readers of arguments whose text is not that of their kind.
_SPECIAL_READERS: ReadersT = {
    "url": urls.caller_url,
    "urls": _urls,
    "audit_username": str,
    "formats": _names,
    "parsers": _names,
    "actions": json.loads,
    "include_paths": _patterns,
    "exclude_paths": _patterns,
    "sitemap": _sitemap,
    "delay_s": partial(_or_none, _seconds),
    "webhook": _webhook,
    "search": _search,
    "query": _query,
    "sources": _of(SOURCES),
    "categories": _of(CATEGORIES),
    "include_domains": _domains,
    "exclude_domains": _domains,
    "when": time_filter,
}
