"""A search over the configured engines, with fallbacks for failed engines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen
from prometheus_client import Counter

from scraper_service.content.search import engine_text, narrow_query, parse_query
from scraper_service.errors import QueueFull, SearchDown, SearchTimedOut
from scraper_service.items import Hit
from scraper_service.options.map_search import MAX_RESULTS, ResultList, SearchOptions
from scraper_service.options.urls import caller_url, host_of, url_parts
from scraper_service.search_engines.search_engine import (
    OWN,
    EngineQuery,
    SearchFailed,
    SearchProvider,
    load_providers,
)

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


ONLY_OWN = (
    "No search engine is configured: the results are pages that were scraped before."
    " The operator can set SCRAPER_SEARXNG_URL, or pip install 'scraper-service[search]'."
)

logger = logging.getLogger(__name__)

REQUESTS = Counter(
    "scraper_search_requests_total",
    "Requests to search engines: found, empty, failed.",
    ["provider", "result"],
)


@frozen
class SearchOutcome:
    """The results of a search."""

    #: Results by kind of source, the best first.
    groups: Mapping[str, tuple[Hit, ...]] = field(factory=dict)
    #: Sentences for the caller.
    warnings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return sum(map(len, self.groups.values()))


@frozen
class _SourceHits:
    """The results of one source."""

    hits: tuple[Hit, ...]
    #: Messages of failed engines.
    failures: tuple[str, ...]
    #: True if an engine other than the own index responded.
    is_answered: bool
    #: Warnings about options without effect.
    ignored_options: tuple[str, ...]


class Searches:
    """Searches with the engines of ``SEARCH_PROVIDERS``, in their order.

    The next engine is used if the engines before it failed. The own index fills up the
    results to the limit. Raises :exc:`ValueError` for invalid settings.
    """

    def __init__(self, settings: BaseSettings):
        self._providers = load_providers(settings)
        self._most = settings.getint("MAX_PENDING_SEARCHES")
        self.pending = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the engines in their order."""
        return tuple(provider.name for provider in self._providers)

    async def find(
        self, options: SearchOptions, team_id: str | None = None
    ) -> SearchOutcome:
        """Return the results without fetching their pages.

        Raises :exc:`SearchDown` if engines failed and no other engine has results,
        :exc:`SearchTimedOut` after the timeout of the options, and :exc:`QueueFull` if
        ``MAX_PENDING_SEARCHES`` searches run already.
        """
        if self.pending >= self._most:
            raise QueueFull(f"Searches already under way: {self._most}.")
        self.pending += 1
        try:
            async with asyncio.timeout(options.timeout_ms / 1000):
                results = await asyncio.gather(
                    *(self._search(options, each, team_id) for each in options.sources)
                )
        except TimeoutError:
            raise SearchTimedOut from None
        finally:
            self.pending -= 1
        return self._outcome(options.sources, results)

    def _outcome(
        self, sources: Sequence[ResultList], results: Sequence[_SourceHits]
    ) -> SearchOutcome:
        failures = list(
            dict.fromkeys(text for each in results for text in each.failures)
        )
        groups = {s.kind: each.hits for s, each in zip(sources, results, strict=True)}
        is_answered = any(each.is_answered or each.hits for each in results)
        if failures and not is_answered:
            raise SearchDown(failures)
        warnings = []
        if failures:
            warnings.append(f"Not all engines answered: {'; '.join(failures)}.")
        if self.names == (OWN,):
            warnings.append(ONLY_OWN)
        ignored_options = dict.fromkeys(
            text for each in results for text in each.ignored_options
        )
        warnings += ignored_options
        return SearchOutcome(groups, tuple(warnings))

    async def _search(
        self, options: SearchOptions, source: ResultList, team_id: str | None
    ) -> _SourceHits:
        """Return the results of one source."""
        conditions = (
            options.categories,
            options.include_domains,
            options.exclude_domains,
        )
        query = narrow_query(parse_query(options.query), *conditions)
        is_cut = query.is_strict or options.ignore_invalid_urls
        engine_query = EngineQuery(
            text=engine_text(options.query, *conditions),
            query=query,
            source=source,
            limit=min(MAX_RESULTS, options.limit * 2) if is_cut else options.limit,
            team_id=team_id,
        )
        hits: dict[str, Hit] = {}
        failures: list[str] = []
        ignored_options: list[str] = []
        is_answered = False
        for provider in self._providers:
            is_own = provider.name == OWN
            if source.kind not in provider.sources or (is_answered and not is_own):
                continue
            if len(hits) >= options.limit:
                break
            try:
                found = await self._ask(provider, engine_query)
            except SearchFailed as error:
                failures.append(str(error))
                continue
            is_answered = is_answered or not is_own
            if found:
                ignored_options += _ignored_options(provider, source)
            for hit in found:
                if _is_wanted(hit, engine_query, options, is_own=is_own):
                    hits.setdefault(_key(hit), hit)
        kept = tuple(hits.values())[: options.limit]
        return _SourceHits(kept, tuple(failures), is_answered, tuple(ignored_options))

    async def _ask(
        self, provider: SearchProvider, engine_query: EngineQuery
    ) -> list[Hit]:
        result = "failed"
        try:
            found = await provider.search(engine_query)
            result = "found" if found else "empty"
        except SearchFailed as error:
            logger.warning("search: %s", error)
            raise
        except Exception as error:
            # Treat an engine with unexpected responses as down.
            logger.exception("search: %s failed", provider.name)
            raise SearchFailed(f"{provider.name} failed") from error
        finally:
            REQUESTS.labels(provider.name, result).inc()
        return found

    async def close(self) -> None:
        """Close the connections to the engines."""
        for provider in self._providers:
            await provider.close()


def _is_wanted(
    hit: Hit, engine_query: EngineQuery, options: SearchOptions, *, is_own: bool
) -> bool:
    if options.ignore_invalid_urls and not is_valid(hit.url):
        return False
    rules = options.site_rules
    if rules is not None and not rules.allows(host_of(hit.url)):
        return False
    # The own index has searched the whole text; other engines return excerpts only.
    return is_own or engine_query.query.allows(hit.url, hit.title, hit.description)


def _ignored_options(provider: SearchProvider, source: ResultList) -> list[str]:
    names = ", ".join(provider.ignored_options(source))
    if not names:
        return []
    who = "the index of scraped pages" if provider.name == OWN else provider.name
    return [f"Without effect on the results of {who}: {names}."]


def is_valid(url: str) -> bool:
    """Return True if the service can fetch the URL of a result."""
    try:
        caller_url(url)
    except ValueError:
        return False
    return True


def _key(hit: Hit) -> str:
    """Return a key that is equal for duplicates.

    URLs that differ in scheme, ``www.`` or a final slash are duplicates. Results with
    an image are compared by the URL of the image.
    """
    if hit.image_url:
        return hit.image_url
    parts = url_parts(hit.url)
    if not parts.netloc:
        return hit.url
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}"
