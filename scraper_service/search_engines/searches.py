"""Searches: the engines in their order, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attrs import evolve, field, frozen

from scraper_service.content.text.search_query import engine_text, narrowed, parse_query
from scraper_service.errors import QueueFull, SearchDown, SearchTimedOut
from scraper_service.options.origins import host_of
from scraper_service.options.search import MAX_RESULTS, SearchOptions, Source
from scraper_service.options.urls import caller_url
from scraper_service.search_engines.web_search import (
    OWN,
    Asked,
    Hit,
    SearchFailed,
    load_providers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from scraper_service.search_engines.web_search import SearchProvider

ONLY_OWN = (
    "No search engine is configured: the results are pages that were scraped before."
)

logger = logging.getLogger(__name__)


@frozen
class Found:
    """The results of a search by kind of source, the best first, and what to know."""

    groups: Mapping[str, tuple[Hit, ...]] = field(factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return sum(map(len, self.groups.values()))


@frozen
class _Listed:
    """What came of one source; ``is_answered`` tells that an engine did answer."""

    hits: tuple[Hit, ...]
    failures: tuple[str, ...]
    is_answered: bool
    unheeded: tuple[str, ...]


class Searches:
    """Asks the engines of ``SEARCH_PROVIDERS``; one stands in for those before it.

    The own index fills up what an engine leaves free. Raises :exc:`ValueError` for
    settings that cannot be used.
    """

    def __init__(self, settings: BaseSettings):
        self._providers = load_providers(settings)
        self._most = settings.getint("MAX_PENDING_SEARCHES")
        self.pending = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The engines in their order."""
        return tuple(provider.name for provider in self._providers)

    async def find(self, options: SearchOptions, team_id: str | None = None) -> Found:
        """Return results; no page of them is fetched.

        Raises :exc:`SearchDown` where engines failed and nothing else has a result,
        :exc:`SearchTimedOut`, and :exc:`QueueFull`.
        """
        if self.pending >= self._most:
            raise QueueFull(f"{self._most} searches are under way already.")
        self.pending += 1
        try:
            async with asyncio.timeout(options.timeout_ms / 1000):
                listed = await asyncio.gather(
                    *(self._listed(options, each, team_id) for each in options.sources)
                )
        except TimeoutError:
            raise SearchTimedOut from None
        finally:
            self.pending -= 1
        return self._found(options.sources, listed)

    def _found(self, sources: Sequence[Source], listed: Sequence[_Listed]) -> Found:
        failures = list(
            dict.fromkeys(text for each in listed for text in each.failures)
        )
        groups = {s.kind: each.hits for s, each in zip(sources, listed, strict=True)}
        is_answered = any(each.is_answered or each.hits for each in listed)
        if failures and not is_answered:
            raise SearchDown(failures)
        warnings = []
        if failures:
            warnings.append(f"Not all engines answered: {'; '.join(failures)}.")
        if self.names == (OWN,):
            warnings.append(ONLY_OWN)
        unheeded = dict.fromkeys(text for each in listed for text in each.unheeded)
        warnings += unheeded
        return Found(groups, tuple(warnings))

    async def _listed(
        self, options: SearchOptions, source: Source, team_id: str | None
    ) -> _Listed:
        """Return the results of one source."""
        places = (
            options.categories,
            options.include_domains,
            options.exclude_domains,
        )
        query = narrowed(parse_query(options.query), *places)
        is_cut = query.is_strict or options.ignore_invalid_urls
        asked = Asked(
            text=engine_text(options.query, *places),
            query=query,
            source=source,
            limit=min(MAX_RESULTS, options.limit * 2) if is_cut else options.limit,
            team_id=team_id,
        )
        hits: dict[str, Hit] = {}
        failures: list[str] = []
        unheeded: list[str] = []
        is_answered = False
        for provider in self._providers:
            is_own = provider.name == OWN
            if source.kind not in provider.sources or (is_answered and not is_own):
                continue
            if len(hits) >= options.limit:
                break
            try:
                found = await self._ask(provider, asked)
            except SearchFailed as error:
                failures.append(str(error))
                continue
            is_answered = is_answered or not is_own
            if found:
                unheeded += _unheeded(provider, source)
            for hit in found:
                if _is_wanted(hit, asked, options, is_own=is_own):
                    hits.setdefault(_key(hit), hit)
        kept = tuple(hits.values())[: options.limit]
        return _Listed(kept, tuple(failures), is_answered, tuple(unheeded))

    async def _ask(self, provider: SearchProvider, asked: Asked) -> list[Hit]:
        try:
            return await provider.search(asked)
        except SearchFailed as error:
            logger.warning("search: %s", error)
            raise
        except Exception as error:
            # An engine that answers in a way nobody thought of is one that is down.
            logger.exception("search: %s failed", provider.name)
            raise SearchFailed(f"{provider.name} failed") from error

    async def close(self) -> None:
        """Close the connections to the engines."""
        for provider in self._providers:
            await provider.close()


def _is_wanted(hit: Hit, asked: Asked, options: SearchOptions, *, is_own: bool) -> bool:
    if options.ignore_invalid_urls and not is_valid(hit.url):
        return False
    rules = options.site_rules
    if rules is not None and not rules.allows(host_of(hit.url)):
        return False
    # The own index has looked into the text; of others only what is shown is known.
    return is_own or asked.query.allows(hit.url, hit.title, hit.description)


def _unheeded(provider: SearchProvider, source: Source) -> list[str]:
    names = ", ".join(provider.unheeded(source))
    if not names:
        return []
    who = "the index of scraped pages" if provider.name == OWN else provider.name
    return [f"Without effect on the results of {who}: {names}."]


def is_valid(url: str) -> bool:
    """Tell whether the page of a result can be asked for."""
    try:
        caller_url(url)
    except ValueError:
        return False
    return True


def _key(hit: Hit) -> str:
    """Return what tells results apart: the same page under http and https is one."""
    if hit.image_url:
        return hit.image_url
    parts = urlsplit(hit.url)
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}"


def options_for(
    query: str,
    limit: int,
    sources: Sequence[str] = ("web",),
    timeout_s: float = 60,
    include_domains: Sequence[str] = (),
) -> SearchOptions:
    """Return the options of a search that a part of the service makes itself."""
    return evolve(
        SearchOptions(query=query, limit=limit),
        sources=tuple(Source(kind=kind) for kind in sources),
        timeout_ms=max(1, round(timeout_s * 1000)),
        include_domains=tuple(include_domains),
    )
