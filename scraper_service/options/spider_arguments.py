"""Spider arguments, which are texts, to options.

``-a url=... -a limit=50 -a delay_s=1`` starts a crawl, ``-a urls=http://a.com,b.com`` a
batch, ``-a url=... -a search=price`` a map and ``-a query=...`` a search. Each takes the
arguments of a page as well: ``-a formats=markdown,links -a only_main_content=false``.
Names are those of the catalogue. ``-a options={...}`` gives options of the page as JSON;
other arguments override it. Objects have the keys of the API, also in snake_case.
Arguments that start with an underscore belong to the program that starts the spider
(scrapyd's ``_job``) and are ignored.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import catalogue, page_requests
from scraper_service.options.jobs import BatchOptions, CrawlOptions, PageOptions
from scraper_service.options.map_search import MapOptions, SearchOptions
from scraper_service.options.parsing import (
    INVALID,
    Anything,
    Array,
    Bool,
    Choice,
    Key,
    Number,
    Object,
    Position,
    Tagged,
    Text,
    bare_kind,
    short,
    structure,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scraper_service.options.parsing import KeysT
    from scraper_service.options.scrape import ScrapeOptions

DEFAULTS = catalogue.defaults(catalogue.SCRAPE, "shell")
CRAWL_DEFAULTS = catalogue.defaults(catalogue.CRAWL, "shell")
BATCH_DEFAULTS = catalogue.defaults(catalogue.BATCH, "shell")
MAP_DEFAULTS = catalogue.defaults(catalogue.MAP, "shell")


def page_options(arguments: Mapping[str, str]) -> PageOptions:
    """Return the options of a page from spider arguments.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    found: PageOptions = _read(arguments, _PAGE)
    return found


def crawl_options(arguments: Mapping[str, str]) -> CrawlOptions:
    """Return the options of a crawl from spider arguments.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    found: CrawlOptions = _read(arguments, _CRAWL)
    return found


def batch_options(arguments: Mapping[str, str]) -> BatchOptions:
    """Return the options of a batch from spider arguments.

    ``urls`` are separated by commas or white space. ``@name`` stands for the lines of
    a file in UTF-8, where a comma belongs to the URL.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    found: BatchOptions = _read(arguments, _BATCH)
    return found


def map_options(arguments: Mapping[str, str]) -> MapOptions:
    """Return the options of a map from spider arguments.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    found: MapOptions = _read(arguments, _MAP)
    return found


def search_options(arguments: Mapping[str, str]) -> SearchOptions:
    """Return the options of a search from spider arguments.

    With ``formats`` the pages of the results are scraped, with the arguments of a page.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    found: SearchOptions = _read(arguments, _SEARCH)
    return found


def scrape_options(values: Mapping[str, Any]) -> ScrapeOptions:
    """Return the options of a page from JSON values by the names of spider arguments.

    :raises InvalidOptions: with paths that start with the name of the value.
    """
    found: ScrapeOptions = structure(_SCRAPE, _respell(values), _WHERE)
    return found


_WHERE = "arguments"


def _read(arguments: Mapping[str, str], kind: Object) -> Any:
    """Return the options that ``kind`` makes of spider arguments."""
    values: dict[str, Any] = {}
    issues = []
    for name, text in arguments.items():
        try:
            if name == "options":
                values = {**_object(text), **values}
            elif (key := kind.fields.get(name)) is not None:
                values = {**values, name: _parse(name, bare_kind(key.kind), text)}
            elif not name.startswith("_"):
                values[name] = text
        except (ValueError, RecursionError) as error:
            issues.append(Issue("custom", (name,), f"{name}: {str(error)[:300]}"))
    if issues:
        raise InvalidOptions(issues)
    return structure(kind, _respell(values), _WHERE)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"must be a JSON object, got {short(text)}")
    return value


def _parse(name: str, kind: Any, text: str) -> Any:
    """Return the JSON value that a text stands for; ``kind`` refuses what is none."""
    if name == "urls":
        return _read_urls(text.strip())
    if isinstance(kind, Text | Choice):
        return text
    if isinstance(kind, Bool):
        return {"true": True, "false": False}.get(text, text)
    if isinstance(kind, Number):
        if text in {"", "none"}:
            return None
        is_number = re.fullmatch(r"-?[0-9]{1,16}(\.[0-9]{1,9})?", text)
        return json.loads(text) if is_number else text
    value = _json(text)
    if not isinstance(kind, Array) or isinstance(value, list):
        return value
    if isinstance(kind.item, Text):  # selectors and patterns may have commas and blanks
        return [text]
    if isinstance(value, dict):
        return [value]
    return [each for each in re.split(r"[\s,]+", text) if each]


def _json(text: str) -> Any:
    """Return the value of a JSON text, else the text itself, which its kind refuses."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_urls(text: str) -> list[str]:
    if not text.startswith("@"):
        return [name for name in re.split(r"[\s,]+", text) if name]
    try:
        return Path(text[1:]).read_text(encoding="utf-8-sig").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {short(text[1:])}: {error!s:.200}") from None


def _respell(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of arguments with inner keys in the spelling of the API."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        try:
            if name == "formats" and value is not None:
                found |= camel_keys({name: value}, _SPELLINGS)
            else:
                found[name] = camel_keys(value, _SPELLINGS)
        except RecursionError:
            text = f"{name} is nested too deeply, got {short(value)}"
            raise InvalidOptions([Issue("custom", (name,), text)]) from None
    return found


# Values whose keys are the caller's own.
_FREE = frozenset({"schema", "headers", "metadata", "fields"})


def spellings(*tables: KeysT) -> dict[str, str]:
    """Return the key for each snake-case spelling of the keys of ``tables``.

    Includes the keys of nested objects, and the values of ``type``.
    """
    names = {name for table in tables for name in _names(table)}
    return {_snake(name): name for name in names if _snake(name) != name}


def _names(keys: KeysT) -> Iterator[str]:
    for name, key in keys.items():
        yield name
        yield from _names_in(key.kind)


def _names_in(kind: Any) -> Iterator[str]:
    kind = bare_kind(kind)
    if isinstance(kind, Object):
        yield from _names(kind.fields)
    elif isinstance(kind, Array):
        yield from _names_in(kind.item)
    elif isinstance(kind, Tagged):
        yield from kind.kinds
        for each in kind.kinds.values():
            yield from _names_in(each)


def _snake(name: str) -> str:
    """Return ``only_main_content`` for ``onlyMainContent``, ``..._url`` for ``...URL``."""
    found = ""
    for before, letter in zip(f" {name}", name, strict=False):
        starts = letter.isupper() and not before.isupper()
        found += f"_{letter}" if starts and found else letter
    return found.lower()


def camel_keys(value: Any, known: Mapping[str, str]) -> Any:
    """Return a JSON value with keys and types in the spelling of the API.

    ``known`` is the result of :func:`spellings`. A key in both spellings keeps the value
    of the API's own. Null values are left out.
    """
    if isinstance(value, list | tuple):
        return [camel_keys(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = known.get(key, key)
        if item is None or (name != key and value.get(name) is not None):
            continue
        if name in _FREE:
            found[name] = item
        elif name == "type":
            found[name] = _spelled_name(item, known)
        elif name == "formats" and isinstance(item, list | tuple):
            found[name] = [camel_keys(_spelled_name(x, known), known) for x in item]
        else:
            found[name] = camel_keys(item, known)
    return found


def _spelled_name(value: Any, known: Mapping[str, str]) -> Any:
    return known.get(value, value) if isinstance(value, str) else value


def _page_kind(cls: Any, table: catalogue.TableT) -> Object:
    """Return the kind of the arguments ``table`` and of those of a page."""
    defaults = catalogue.defaults(table, "shell")
    names = attrs.fields_dict(cls).keys()

    def make(values: dict[str, Any], at: Position) -> Any:
        scrape = _scrape(values, at)
        if scrape is INVALID:
            return INVALID
        own = {name: value for name, value in values.items() if name in names}
        return cls(**{"origin": "spider", **defaults, **own, "scrape": scrape})

    return _kind(table, make)


def _kind(table: catalogue.TableT, make: Any) -> Object:
    rows = (*catalogue.CALLER, *catalogue.SCRAPE, *table)
    keys = {**catalogue.keys(rows, "shell"), "options": Key(Anything())}
    return Object(keys, make, ignored_prefix="_")


def _scrape(values: dict[str, Any], at: Position) -> Any:
    return page_requests.build_options({**DEFAULTS, **values}, at)


def _map(values: dict[str, Any], at: Position) -> Any:
    return _ANY_MAP.make({**values, "formats": ()}, at)


def _search(values: dict[str, Any], at: Position) -> Any:
    common = page_requests.pop_common(values)
    given = [each for each in values.pop("sources", ()) if each is not None]
    made = (page_requests.make_source(each, common) for each in given or [{}])
    own = {name: values.pop(name) for name in _OWN_OF_SEARCH & values.keys()}
    scrape = _scrape(values, at)
    if scrape is INVALID:
        return INVALID
    facts = {
        "origin": "spider",
        "site_rules": scrape.site_rules,
        **own,
        "sources": tuple(dict.fromkeys(made)),
        "scrape": scrape if "formats" in values else None,
    }
    return page_requests.search_options(facts, at, str)


_SCRAPE = Object(catalogue.keys(catalogue.SCRAPE, "shell"), _scrape)
_PAGE = _page_kind(PageOptions, (catalogue.URL,))
_CRAWL = _page_kind(CrawlOptions, catalogue.CRAWL)
_BATCH = _page_kind(BatchOptions, catalogue.BATCH)
_ANY_MAP = _page_kind(MapOptions, catalogue.MAP)
_MAP = attrs.evolve(_ANY_MAP, make=_map)
# The rules of sites are read with the options of a page.
_OWN_OF_SEARCH = attrs.fields_dict(SearchOptions).keys() - {"site_rules"}
_SEARCH = _kind(catalogue.SEARCH, _search)
_SPELLINGS = spellings(*(x.fields for x in (_PAGE, _CRAWL, _SEARCH)))
