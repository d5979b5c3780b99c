"""The routes of /v2."""

from __future__ import annotations

from typing import ClassVar

from klein import Klein

from scraper_service.api.operations import Api, add_routes
from scraper_service.api.v2 import requests, views


class V2(Api):
    """Version 2 of the interface."""

    app: ClassVar[Klein] = Klein()
    add_routes(app, 2, requests, views)
