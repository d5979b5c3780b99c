"""The interface of a search engine, and the engines of the settings."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Protocol

from attrs import frozen
from scrapy.utils.misc import load_object

from scraper_service.content.search import SearchQuery
from scraper_service.errors import variable
from scraper_service.options.map_search import ResultList

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.items import Hit


OWN = "own"

#: Import paths by name in SEARCH_PROVIDERS. Names with a dot are import paths themselves.
PROVIDERS = {
    "searxng": "scraper_service.search_engines.engines.SearxngSearch",
    "brave": "scraper_service.search_engines.engines.BraveSearch",
    "serper": "scraper_service.search_engines.engines.SerperSearch",
    "ddgs": "scraper_service.search_engines.engines.DdgsSearch",
    OWN: "scraper_service.search_engines.engines.OwnIndexSearch",
}
_NEEDED = {
    "searxng": "SEARXNG_URL",
    "brave": "BRAVE_API_KEY",
    "serper": "SERPER_API_KEY",
}


class SearchFailed(Exception):
    """Raised when an engine gives no usable response; callers see the text."""


@frozen(kw_only=True)
class EngineQuery:
    """A query to one engine."""

    #: The query in the syntax of search engines.
    text: str
    #: The same query, parsed.
    query: SearchQuery
    #: The kind of results, with its options.
    source: ResultList
    #: Maximum of results.
    limit: int
    #: None in runs without a service.
    team_id: str | None = None


class SearchProvider(Protocol):
    """A search engine; its class method ``from_settings`` creates instances."""

    #: The name in messages to callers.
    name: str
    #: The supported kinds of results.
    sources: frozenset[str]

    async def search(self, engine_query: EngineQuery) -> list[Hit]:
        """Return the results, the best first; raise :exc:`SearchFailed` on errors."""
        ...

    def ignored_options(self, source: ResultList) -> Iterable[str]:
        """Return the names of options of ``source`` without effect on the engine."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def ignored_options(
    source: ResultList, known: str = "", spans: str = "", *, dates: bool = False
) -> Iterator[str]:
    """Yield the options that an engine does not support, by their names in requests.

    ``known`` names the supported fields of a source, with spaces. ``spans`` names the supported units
    of time, each for a count of 1. ``dates`` is True if the engine supports dates, and
    thus any count of days or longer units.
    """
    if source.location and "location" not in known:
        yield "location"
    if source.filter and "filter" not in known:
        yield "filter"
    if (when := source.when) is None:
        return
    is_exact = when.unit is not None and when.unit in spans and when.count == 1
    has_time = when.unit is not None or when.first or when.last
    if has_time and not is_exact and not (dates and when.unit != "h"):
        yield "tbs" if when.unit is None else f"tbs (as exact as {when.unit})"
    if when.by_date and "by_date" not in known:
        yield "tbs (sbd)"


def load_providers(settings: BaseSettings) -> tuple[SearchProvider, ...]:
    """Return the engines of the settings in their order, with the own index.

    Raises :exc:`ValueError` for invalid settings.
    """
    found: list[SearchProvider] = []
    for name in provider_names(settings):
        needed = _NEEDED.get(name)
        if needed and not settings[needed]:
            raise ValueError(
                f"SCRAPER_SEARCH_PROVIDERS names {name!r}, which needs"
                f" {variable(needed)}"
            )
        path = PROVIDERS.get(name, name)
        try:
            kind = load_object(path)
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ValueError(
                f"SCRAPER_SEARCH_PROVIDERS entry {name!r}: {error}"
            ) from error
        if not hasattr(kind, "from_settings"):
            raise ValueError(
                f"SCRAPER_SEARCH_PROVIDERS entry {name!r} has no method from_settings"
            )
        found.append(kind.from_settings(settings))
    return tuple(found)


def provider_names(settings: BaseSettings) -> list[str]:
    """Return the names of the engines in their order, with the own index.

    Without names in SEARCH_PROVIDERS these are all engines with their setting, or else
    ``ddgs`` if it is installed.
    """
    names = [name.strip() for name in settings.getlist("SEARCH_PROVIDERS")]
    names = list(dict.fromkeys(filter(None, names)))
    for name in names:
        if name not in PROVIDERS and "." not in name:
            allowed = ", ".join(PROVIDERS)
            raise ValueError(
                f"SCRAPER_SEARCH_PROVIDERS entry {name!r} must be one of {allowed}, or the"
                " import path of a class"
            )
    if not names:
        names = [name for name, needed in _NEEDED.items() if settings[needed]]
        if not names and importlib.util.find_spec("ddgs"):
            names = ["ddgs"]
    return names if OWN in names else [*names, OWN]
