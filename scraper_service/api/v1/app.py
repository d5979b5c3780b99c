"""The routes of /v1."""

from __future__ import annotations

from typing import ClassVar

from klein import Klein

from scraper_service.api.routes.common import add_routes
from scraper_service.api.routes.operations import (
    add_extract_routes,
    add_research_routes,
    add_text_routes,
)
from scraper_service.api.routes.search import add_search_route
from scraper_service.api.routes.team import add_team_routes, snake
from scraper_service.api.v1 import requests, responses
from scraper_service.api.version import Api


class V1(Api):
    """Version 1 of the interface."""

    app: ClassVar[Klein] = Klein()
    add_routes(app, 1, requests, responses)
    add_search_route(app, 1, requests, responses)
    add_team_routes(app, snake)
    add_extract_routes(app, 1, requests.extract_request)
    add_text_routes(app, 1, requests.llms_text_options)
    add_research_routes(app, 1, requests.research_options)
