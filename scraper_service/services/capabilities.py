"""What this installation can do, and why it cannot do the rest."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.crawling.proxies import Proxies
from scraper_service.errors import OptionUnavailable, ServiceUnavailable
from scraper_service.exports.formats import FORMATS
from scraper_service.options.formats import FORMATS as PAGE_FORMATS
from scraper_service.options.jobs import (
    AgentOptions,
    BatchOptions,
    CrawlOptions,
    ResearchOptions,
)
from scraper_service.options.limits import (
    RECOGNISER,
    can_recognise_text,
    missing_model,
    parse_languages,
    require_agent,
    require_available,
    require_job_available,
    require_researchable,
)
from scraper_service.search_engines.search_engine import OWN
from scraper_service.services.browser_sessions.sandbox import why_no_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.middlewares import Engines
    from scraper_service.options.jobs import ModelJobOptionsT
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.search_engines.web_search import Searches


PACKAGE = "scraper-service"
NO_ENGINE = (
    "no search engine is set up (SCRAPER_SEARXNG_URL, SCRAPER_BRAVE_API_KEY,"
    " SCRAPER_SERPER_API_KEY, or the "
    "package ddgs); searches find what the team has scraped"
)
NO_INDEX = "the operator has switched it off (SCRAPER_SEARCH_INDEX)"
NO_CODE = "the operator lists no language (SCRAPER_INTERACT_CODE)"
NO_RECOGNISER = f"the program {RECOGNISER} is not installed"
NO_STEALTH = "the operator has no stealth proxies (SCRAPER_PROXIES)"
NO_SECRET = "the operator has set no secret (SCRAPER_WEBHOOK_SECRETS)"  # noqa: S105
#: Parts of the reference API that this service does not have.
NOT_OFFERED = {
    "snapshots": "the states of an agent's answer are not kept; partial is its last one",
    "threads": "each run of an agent stands alone; start a new one with more in its prompt",
    "trace": "the steps of an agent are not kept; its webhook sends them as they begin",
    "replay": "sessions of the browser are not recorded; screenshots of their steps are",
}


class Availability:
    """Checks before work begins: is the service open, and can it obey the options?"""

    #: Set at shutdown: from then on no work begins.
    stopping = False

    def __init__(self, settings: BaseSettings, engines: Engines):
        self._engines = engines
        self._no_model = missing_model(settings)

    def check_open(self) -> None:
        """Raise :exc:`~scraper_service.errors.ServiceUnavailable` during shutdown."""
        if self.stopping:
            raise ServiceUnavailable("The service is stopping.")

    def require(self, options: ScrapeOptions) -> None:
        """Raise :exc:`~scraper_service.errors.OptionUnavailable` for a missing part."""
        require_available(options, self._engines.missing, self._no_model)

    def require_job(
        self, options: CrawlOptions | BatchOptions | ModelJobOptionsT
    ) -> None:
        """Do the same as :meth:`require` for the options of a job."""
        missing, no_model = self._engines.missing, self._no_model
        if isinstance(options, CrawlOptions | BatchOptions):
            require_job_available(options, missing, no_model)
            return
        try:
            # The model job sets the formats itself.
            require_available(evolve(options.scrape, formats=()), missing)
        except OptionUnavailable as error:
            error.nested = True
            raise
        if isinstance(options, ResearchOptions):
            require_researchable(no_model)
        if isinstance(options, AgentOptions):
            require_agent(no_model)


def _capability(name: str, missing: str | None) -> dict[str, Any]:
    """Return a feature as JSON members. ``missing`` is why it is off; None if it is on."""
    found: dict[str, Any] = {"name": name, "available": missing is None}
    return found if missing is None else {**found, "reason": missing}


def capabilities(
    settings: BaseSettings, engines: Engines, searches: Searches
) -> dict[str, Any]:
    """Return version, features, formats of pages and exports, search engines and missing endpoints.

    The result has JSON values only, and no secrets.
    """
    no_model = missing_model(settings)
    url = str(settings["DATABASE_URL"] or "")
    return {
        "version": version(PACKAGE),
        "features": list(_features(settings, engines, searches)),
        "formats": [
            _capability(row.tag, row.missing or no_model)
            for row in PAGE_FORMATS
            if row.missing or row.by_model
        ],
        "exports": [_capability(each.name, each.missing) for each in FORMATS.values()],
        "searchEngines": list(searches.names),
        "database": "postgresql" if url.startswith("postgres") else "sqlite",
        "notOffered": [{"name": k, "reason": v} for k, v in NOT_OFFERED.items()],
    }


def _features(
    settings: BaseSettings, engines: Engines, searches: Searches
) -> Iterator[dict[str, Any]]:
    def needs(name: str, is_there: object, missing: str) -> dict[str, Any]:
        return _capability(name, None if is_there else missing)

    yield _capability("browser", engines.missing)
    yield _capability("browserSessions", engines.missing)
    yield _capability("interactCode", _why_no_code(settings, engines))
    yield _capability("model", missing_model(settings))
    yield _capability("agent", missing_model(settings))
    yield needs("webSearch", searches.names != (OWN,), NO_ENGINE)
    yield needs("searchIndex", settings.getbool("SEARCH_INDEX"), NO_INDEX)
    yield needs("textInImages", can_recognise_text(), NO_RECOGNISER)
    yield needs("stealthProxy", Proxies.shared(settings).has("stealth"), NO_STEALTH)
    yield needs("webhookSignatures", settings.getlist("WEBHOOK_SECRETS"), NO_SECRET)
    is_open = "the operator has switched it off (SCRAPER_AUTH_ENABLED)"
    yield needs("authentication", settings.getbool("AUTH_ENABLED"), is_open)


def _why_no_code(settings: BaseSettings, engines: Engines) -> str | None:
    """Return why no code of callers runs, as far as it shows without a trial."""
    if not parse_languages(settings.getlist("INTERACT_CODE")):
        return NO_CODE
    return engines.missing or why_no_program()
