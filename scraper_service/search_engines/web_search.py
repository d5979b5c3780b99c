"""What a search engine is to the service, and which ones the settings name."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Protocol

from attrs import frozen
from scrapy.utils.misc import load_object

from scraper_service.content.text.search_query import SearchQuery
from scraper_service.errors import variable
from scraper_service.options.search import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import BaseSettings


OWN = "own"

#: By the names that SEARCH_PROVIDERS may have; anything with a dot is an import path.
PROVIDERS = {
    "searxng": "scraper_service.search_engines.searxng.SearxngSearch",
    "brave": "scraper_service.search_engines.brave.BraveSearch",
    "serper": "scraper_service.search_engines.serper.SerperSearch",
    "ddgs": "scraper_service.search_engines.ddgs_search.DdgsSearch",
    OWN: "scraper_service.search_engines.own_index.OwnIndexSearch",
}
_NEEDED = {
    "searxng": "SEARXNG_URL",
    "brave": "BRAVE_API_KEY",
    "serper": "SERPER_API_KEY",
}


class SearchFailed(Exception):
    """An engine gave no answer that can be used; the text says why, for callers."""


@frozen(kw_only=True)
class Asked:
    """What an engine is asked: ``limit`` results of one source.

    ``text`` is the query as engines write it, ``query`` the same read. ``team_id`` is
    None in runs without a service.
    """

    text: str
    query: SearchQuery
    source: Source
    limit: int
    team_id: str | None = None


@frozen(kw_only=True)
class Hit:
    """A result: of the web ``description`` is about the page, of news it is a part.

    ``date`` is as the engine writes it. Of images ``url`` is the page they stand on;
    sizes are in pixels, None if they are not known.
    """

    url: str
    title: str = ""
    description: str = ""
    date: str | None = None
    image_url: str | None = None
    image_width: int | None = None
    image_height: int | None = None


class SearchProvider(Protocol):
    """A search engine; made by its ``from_settings``.

    ``name`` is what callers read of it, ``sources`` are the kinds that it knows.
    """

    name: str
    sources: frozenset[str]

    async def search(self, asked: Asked) -> list[Hit]:
        """Return results, the best first; raise :exc:`SearchFailed`."""
        ...

    def unheeded(self, source: Source) -> Iterable[str]:
        """Return the names of options of ``source`` that it knows nothing of."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def unheeded(
    source: Source, known: str = "", spans: str = "", *, dates: bool = False
) -> Iterator[str]:
    """Yield what an engine has no use for, in the spelling of callers.

    ``known`` names fields of a source that it does know; ``spans`` are the units that
    it can look back for, with any count if it knows ``dates``, too.
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
    """Return the engines in the order in which they are asked; the own index is one.

    Raises :exc:`ValueError` for a setting that cannot be used.
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
        found.append(kind.from_settings(settings))
    return tuple(found)


def provider_names(settings: BaseSettings) -> list[str]:
    """Return the names that SEARCH_PROVIDERS has, or those of all that can be used."""
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
