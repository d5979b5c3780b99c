"""What a crawl would do, without a crawl: options from a prompt, and URLs in its scope.

The options come from the operator's language model. Without a model or a usable output
they come from rules over the words of the prompt.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve, frozen

from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.discovery.canonical_urls import normalize_url
from scraper_service.discovery.crawl_prompt import PromptOptions, options_from_prompt
from scraper_service.discovery.map_results import BETWEEN, address_row
from scraper_service.discovery.scope_rules import Reason, Refusal
from scraper_service.discovery.sitemap import first_scope
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    MapTimedOut,
    QueueFull,
    ServiceUnavailable,
)
from scraper_service.llm.model import ModelError, language_model
from scraper_service.options.jobs import SITEMAP_MODES
from scraper_service.options.spider_arguments import map_options
from scraper_service.services.map_search import Listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.robots import RobotsPolicy
    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.services.accounts import Team
    from scraper_service.services.map_search import MapCrawler

#: Raises :exc:`InvalidOptions` for values that the API does not accept.
CheckT: TypeAlias = Callable[[Mapping[str, Any]], None]

MAP_TIMEOUT_MS = 10_000  # for the sitemaps and the first page of the site
KNOWN = 5000  # URLs of the site that the rules see
SHOWN = 300  # URLs of the site that a language model sees
DERIVE_S = 10.0  # for the rules, in the converter pool
MODEL_S = 30.0

UNSEEN = "The site could not be read ({}): the options come from the words alone."
LEFT_OUT = "An option that the language model named was left out ({})."
UNREAD = "The prompt took too long to read."
BY_RULES = "The language model failed ({}): rules derived the options from the words."

TASK = """A user says in words what a web crawl should fetch. Answer with the options of \
the crawl that the words ask for, and no others: leave out what is not spoken of.
include_paths and exclude_paths are regular expressions (RE2, no lookaround) that are \
searched in the path of an address, such as ^/blog(?:/|$). The document has addresses of \
the site: prefer paths that are there. max_discovery_depth counts links from the start \
page, delay_s is the pause between two pages in seconds, limit counts pages.
The crawl starts at {url}
The user says: {prompt}"""
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
# Without a range: a value out of range then costs one option, not the whole output.
_COUNT = {"type": "integer"}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "include_paths": _TEXTS,
        "exclude_paths": _TEXTS,
        "max_discovery_depth": _COUNT,
        "crawl_entire_domain": _FLAG,
        "allow_external_links": _FLAG,
        "allow_subdomains": _FLAG,
        "sitemap": {"type": "string", "enum": list(SITEMAP_MODES)},
        "ignore_query_parameters": _FLAG,
        "deduplicate_similar_urls": _FLAG,
        "delay_s": _COUNT,
        "limit": _COUNT,
    },
}

logger = logging.getLogger(__name__)


class Previews:
    """Derives the options of a crawl from a prompt and a short map of the site."""

    def __init__(self, maps: MapCrawler, settings: BaseSettings):
        self._maps = maps
        self._settings = settings
        self._model = language_model(settings)

    async def derive(
        self, url: str, prompt: str, team: Team, check: CheckT
    ) -> PromptOptions:
        """Return the options that a prompt asks for.

        Warnings name the parts of the prompt that were not understood.
        """
        known = await self._map_site(url, team.id)
        reason = None
        if self._model is not None:
            try:
                return await self._ask_model(url, prompt, team, known, check)
            except (ModelError, InvalidOptions) as error:
                logger.info("a prompt is left to the rules: %s", error)
                reason = str(error)[:200].rstrip(".")
        found = await self._by_rules(url, prompt, team.id, known)
        warnings = [*([known.error] if known.error else []), *found.warnings]
        if reason is not None:
            warnings.insert(0, BY_RULES.format(reason))
        return evolve(
            found, warnings=tuple(warnings), is_refused=self._model is not None
        )

    async def _by_rules(
        self, url: str, prompt: str, team_id: str, known: Listed
    ) -> PromptOptions:
        pool = ConverterPool.shared(self._settings)
        try:
            return await pool.run(
                options_from_prompt,
                prompt,
                url,
                known.slices,
                timeout_s=DERIVE_S,
                team_id=team_id,
            )
        except (ConverterDied, MemoryError, TimeoutError):
            logger.warning("a prompt took too long to read")
            return PromptOptions({}, (UNREAD,))

    async def _ask_model(
        self, url: str, prompt: str, team: Team, known: Listed, check: CheckT
    ) -> PromptOptions:
        assert self._model is not None
        rows = BETWEEN.join(known.slices).split(BETWEEN, SHOWN)[:SHOWN]
        addresses: list[str] = json.loads(b"[%s]" % BETWEEN.join(rows))
        found = await self._model.ask(
            task=TASK.format(url=url, prompt=prompt),
            data="\n".join(addresses) or None,
            schema=SCHEMA,
            deadline_s=MODEL_S,
            account=team.key_id or team.id,
        )
        values = {
            name: value
            for name, value in (found.value or {}).items()
            if value is not None and value != []
        }
        values, refused = _usable(values, check)
        if not values:
            raise ModelError(refused[0] if refused else "it named no option")
        check(values)
        warning = (known.error,) if known.error else ()
        left_out = [LEFT_OUT.format(reason) for reason in refused]
        return PromptOptions(values, (*warning, *left_out, *found.warnings))

    async def _map_site(self, url: str, team_id: str) -> Listed:
        options = map_options({"url": url, "limit": str(KNOWN)})
        options = evolve(
            options,
            filter_by_path=False,
            include_subdomains=False,
            scrape=evolve(options.scrape, timeout_ms=MAP_TIMEOUT_MS),
        )
        try:
            found = await self._maps.find(
                options, team_id, str(uuid.uuid4()), address_row
            )
        except MapTimedOut:
            return Listed(error=UNSEEN.format("it takes too long"))
        except (QueueFull, ServiceUnavailable) as error:
            return Listed(error=UNSEEN.format(str(error).rstrip(".")))
        if found.failure:
            return Listed(error=UNSEEN.format(found.failure.message.rstrip(".")))
        return Listed(found.slices)


def _usable(
    values: Mapping[str, Any], check: CheckT
) -> tuple[dict[str, Any], list[str]]:
    """Return the values that the API accepts, and the errors of the others."""
    usable, refused = {}, []
    for name, value in values.items():
        try:
            check({name: value})
        except InvalidOptions as error:
            refused.append(str(error)[:200].rstrip("."))
        else:
            usable[name] = value
    return usable, refused


@frozen
class Explanation:
    """Whether a crawl would fetch a URL."""

    url: str
    #: The rule against it; None if the crawl would fetch it.
    refusal: Refusal | None = None
    #: ``allowed``, ``refused``, ``unknown``, or None if robots.txt is ignored.
    robots: str | None = None


async def explain(
    options: CrawlOptions, urls: Sequence[str], depth: int, robots: RobotsPolicy
) -> list[Explanation]:
    """Return for each URL whether a crawl would fetch it.

    ``depth`` is the number of links between the start page and each URL. Only cached
    robots.txt files count; nothing is fetched.
    """
    found = await asyncio.to_thread(_by_rules, options, urls, depth)
    if options.ignore_robots_txt:
        return found
    return [_with_robots(each, options, robots) for each in found]


def _by_rules(
    options: CrawlOptions, urls: Sequence[str], depth: int
) -> list[Explanation]:
    """Apply the rules of a crawl that depend on the URL alone."""
    scope = first_scope(options)
    found = []
    for url in urls:
        address = normalize_url(url)
        found.append(Explanation(address, scope.refusal(address, depth)))
    return found


def _with_robots(
    found: Explanation, options: CrawlOptions, robots: RobotsPolicy
) -> Explanation:
    if found.refusal is not None:
        return found
    if (rules := robots.find_cached(found.url)) is None:
        return evolve(found, robots="unknown")
    agents = robots.agents(options.robots_user_agent)
    if rule := rules.refusal(found.url, agents):
        return evolve(found, robots="refused", refusal=Refusal(Reason.ROBOTS, rule))
    return evolve(found, robots="allowed")
