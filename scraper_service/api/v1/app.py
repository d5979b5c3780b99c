"""The routes of /v1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.routes.jobs import JobRoutes
from scraper_service.api.routes.operations import (
    DeepResearchRoutes,
    ExtractRoutes,
    LlmsTextRoutes,
)
from scraper_service.api.routes.pages import PageRoutes
from scraper_service.api.routes.search import SearchRoutes
from scraper_service.api.routes.team.team import TeamRoutes
from scraper_service.api.routing import VersionApp
from scraper_service.api.v1 import requests, responses
from scraper_service.api.version import Api

if TYPE_CHECKING:
    from scraper_service.api.application import RequestChecks
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.streams.streaming import Watchers
    from scraper_service.api.version import Services

ROUTES = (
    PageRoutes,
    SearchRoutes,
    JobRoutes,
    ExtractRoutes,
    LlmsTextRoutes,
    DeepResearchRoutes,
    TeamRoutes,
)


class V1(VersionApp):
    """Version 1 of the API."""

    def __init__(
        self,
        checks: RequestChecks,
        services: Services,
        watchers: Watchers,
        urls: PublicUrls,
    ):
        api = Api(
            version=1,
            requests=requests,
            responses=responses,
            checks=checks,
            services=services,
            watchers=watchers,
            urls=urls,
        )
        super().__init__(api, ROUTES)
