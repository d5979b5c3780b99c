"""Searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.api.application import with_base
from scraper_service.api.errors import WORK_ERRORS
from scraper_service.api.openapi.route import Route
from scraper_service.api.version import Routes
from scraper_service.errors import InvalidOptions, SearchDown, SearchTimedOut
from scraper_service.options.limits import Mode
from scraper_service.options.requests.pages import ignored_names

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest


class SearchRoutes(Routes):
    """Searches of the web and of the team's own pages."""

    @Route(
        "POST /search",
        returns="SEARCHED",
        body="SEARCH",
        example={"query": "web scraping", "limit": 5},
        errors=(*WORK_ERRORS, SearchTimedOut, SearchDown),
        needs=("webSearch", "searchIndex"),
    )
    async def search(self, request: JsonRequest) -> bytes:
        """Return search results, with their pages if the body has scrape options."""
        team, body, _ = await self.checks.admit_work(request, Mode.SEARCH)
        try:
            options = await body.read(self.api.requests.search_options)
        except InvalidOptions as error:
            error.heading, error.code = self.api.responses.BAD_SEARCH
            raise
        warning = await body.warning(ignored_names(self.api.requests.SEARCH.fields))
        found = await self.services.scraping.search(options, team, self.api.version)
        if warning is not None:
            found = evolve(found, warnings=(*found.warnings, warning))
        answer: bytes = self.api.responses.search_response(found)
        return with_base(answer, self.base_url(request))
