"""The routes of /v1."""

from __future__ import annotations

from scraper_service.api.routes.jobs import JobRoutes
from scraper_service.api.routes.operations import (
    DeepResearchRoutes,
    ExtractRoutes,
    LlmsTextRoutes,
)
from scraper_service.api.routes.pages import PageRoutes, SearchRoutes
from scraper_service.api.routes.team import TeamRoutes
from scraper_service.api.routing import VersionApp
from scraper_service.api.v1 import requests, responses


class V1(VersionApp):
    """Version 1 of the API."""

    version = 1
    requests = requests
    responses = responses
    groups = (
        PageRoutes,
        SearchRoutes,
        JobRoutes,
        ExtractRoutes,
        LlmsTextRoutes,
        DeepResearchRoutes,
        TeamRoutes,
    )
