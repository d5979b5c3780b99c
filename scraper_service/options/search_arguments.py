"""Spider arguments to the options of a search: ``-a query=... -a limit=20``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.arguments import options_of, read_arguments, whole
from scraper_service.options.jobs import PageOptions
from scraper_service.options.search import (
    CATEGORIES,
    MAX_QUERY,
    MAX_RESULTS,
    SOURCES,
    SearchOptions,
    Source,
    time_filter,
)
from scraper_service.options.structure import short
from scraper_service.options.urls import caller_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.options.arguments import ReadersT

_OF_A_SOURCE = {"tbs": "when", "lang": "language"}
_OF_A_SOURCE |= {name: name for name in ("country", "location", "filter")}


def search_options(arguments: Mapping[str, str]) -> SearchOptions:
    """Return the options of a search that spider arguments ask for.

    With ``formats`` the pages of the results are scraped; their arguments are those of
    a page.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, _READERS, "query")
    common = {
        field: values.pop(name)
        for name, field in _OF_A_SOURCE.items()
        if name in values
    }
    kinds = values.pop("sources", ("web",))
    sources = tuple(Source(kind=kind, **common) for kind in kinds)
    names = {attribute.name for attribute in attrs.fields(SearchOptions)}
    own = {name: values.pop(name) for name in names & values.keys()}
    if own.get("include_domains") and own.get("exclude_domains"):
        text = "include_domains and exclude_domains are not allowed together"
        raise InvalidOptions([Issue("custom", ("exclude_domains",), text)])
    scrape = None
    if "formats" in values:
        page = {"url": "http://result.invalid/", **values}
        scrape = options_of(PageOptions, page).scrape
    return SearchOptions(sources=sources, scrape=scrape, **own)


def _query(text: str) -> str:
    if not text.strip() or len(text) > MAX_QUERY:
        raise ValueError(f"must have 1 to {MAX_QUERY} characters")
    return text.strip()


def _limit(text: str) -> int:
    if not 1 <= (number := whole(text)) <= MAX_RESULTS:
        raise ValueError(f"must be 1 to {MAX_RESULTS}, got {number}")
    return number


def _listed(allowed: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(filter(None, text.replace(",", " ").split())))
        if not names or not set(names) <= set(allowed):
            raise ValueError(f"must be of {', '.join(allowed)}, got {short(text)}")
        return names

    return read


def _domains(text: str) -> tuple[str, ...]:
    return tuple(map(caller_domain, text.replace(",", " ").split()))


_TEXTS: Mapping[str, Any] = dict.fromkeys(
    ("country", "lang", "location", "filter"), str
)
_READERS: ReadersT = {
    **_TEXTS,
    "query": _query,
    "limit": _limit,
    "sources": _listed(SOURCES),
    "categories": _listed(CATEGORIES),
    "include_domains": _domains,
    "exclude_domains": _domains,
    "tbs": time_filter,
}
