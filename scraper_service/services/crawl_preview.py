"""From a sentence to options of a crawl, with a look at the site.

The operator's language model answers, if there is one; else, or where its answer is of
no use, rules over the words do.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve, frozen

from scraper_service.crawling.converter_pool.pool import ConverterPool
from scraper_service.discovery.crawl_prompt import Derived, derived
from scraper_service.discovery.map_results import BETWEEN, address_row
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    MapTimedOut,
    QueueFull,
    ServiceUnavailable,
)
from scraper_service.llm.model import ModelError, language_model
from scraper_service.options.job_arguments import map_options
from scraper_service.options.jobs import SITEMAP_MODES

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.services.accounts import Team
    from scraper_service.services.mapping import MapCrawler

#: Raises :exc:`InvalidOptions` for values that no caller could send.
CheckT: TypeAlias = Callable[[Mapping[str, Any]], None]

MAP_TIMEOUT_MS = 10_000  # for the sitemaps and the first page of the site
KNOWN = 5000  # addresses of the site that are looked at
SHOWN = 300  # of those, to a language model
DERIVE_S = 10.0  # in the pool
MODEL_S = 30.0

UNSEEN = "The site could not be read ({}): the options come from the words alone."
LEFT_OUT = "An option that the language model named was left out ({})."
UNREAD = "The prompt took too long to read."
BY_RULES = "The language model was of no use ({}): rules over the words answered."

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
# Without range: an answer out of range costs one option, not the whole answer.
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


@frozen
class _Known:
    """Addresses of a site as JSON, and why there are none."""

    slices: tuple[bytes, ...] = ()
    warning: str | None = None


class Previews:
    """Derives options; the site is listed as maps do it, politely and not for long."""

    def __init__(self, maps: MapCrawler, settings: BaseSettings):
        self._maps = maps
        self._settings = settings
        self._model = language_model(settings)

    async def derive(self, url: str, prompt: str, team: Team, check: CheckT) -> Derived:
        """Return what a prompt asks for; warnings say what could not be told."""
        known = await self._known(url, team.id)
        reason = None
        if self._model is not None:
            try:
                return await self._asked(url, prompt, team, known, check)
            except (ModelError, InvalidOptions) as error:
                logger.info("a prompt is left to the rules: %s", error)
                reason = str(error)[:200].rstrip(".")
        found = await self._by_rules(url, prompt, team.id, known)
        warnings = [*([known.warning] if known.warning else []), *found.warnings]
        if reason is not None:
            warnings.insert(0, BY_RULES.format(reason))
        return evolve(
            found, warnings=tuple(warnings), is_refused=self._model is not None
        )

    async def _by_rules(
        self, url: str, prompt: str, team_id: str, known: _Known
    ) -> Derived:
        pool = ConverterPool.shared(self._settings)
        try:
            return await pool.run(
                derived,
                prompt,
                url,
                known.slices,
                timeout_s=DERIVE_S,
                team_id=team_id,
            )
        except (ConverterDied, MemoryError, TimeoutError):
            logger.warning("a prompt took too long to read")
            return Derived({}, (UNREAD,))

    async def _asked(
        self, url: str, prompt: str, team: Team, known: _Known, check: CheckT
    ) -> Derived:
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
            for name, value in found.value.items()
            if value is not None and value != []
        }
        values, refused = _usable(values, check)
        if not values:
            raise ModelError(refused[0] if refused else "it named no option")
        check(values)
        warning = (known.warning,) if known.warning else ()
        left_out = [LEFT_OUT.format(reason) for reason in refused]
        return Derived(values, (*warning, *left_out, *found.warnings))

    async def _known(self, url: str, team_id: str) -> _Known:
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
            return _Known(warning=UNSEEN.format("it takes too long"))
        except (QueueFull, ServiceUnavailable) as error:
            return _Known(warning=UNSEEN.format(str(error).rstrip(".")))
        if found.failure:
            return _Known(warning=UNSEEN.format(found.failure.message.rstrip(".")))
        return _Known(found.slices)


def _usable(
    values: Mapping[str, Any], check: CheckT
) -> tuple[dict[str, Any], list[str]]:
    """Return the values that a caller could send, and why the others are not usable."""
    usable, refused = {}, []
    for name, value in values.items():
        try:
            check({name: value})
        except InvalidOptions as error:
            refused.append(str(error)[:200].rstrip("."))
        else:
            usable[name] = value
    return usable, refused
