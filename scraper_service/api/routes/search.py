"""The route of searches, which both versions have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.application import asyncio_route, note_caller
from scraper_service.api.fields.common import ignored_names
from scraper_service.api.routes.common import admit_work
from scraper_service.api.routes.files import with_base
from scraper_service.errors import InvalidOptions
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from klein import Klein

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import Api


def add_search_route(app: Klein, version: int, requests: Any, views: Any) -> None:
    """Give ``app`` the route of searches; the arguments are those of ``add_routes``."""
    ignored = ignored_names(requests.SEARCH.fields)

    @app.route("/search", methods=["POST"])
    @asyncio_route
    async def search(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.SEARCH)
        try:
            options = await body.read(requests.search_options)
        except InvalidOptions as error:
            error.heading, error.code = views.BAD_SEARCH
            raise
        note_caller(request, options)
        warning = await body.warning(ignored)
        found = await api.service.answer_search(options, team, version)
        if warning is not None:
            found = evolve(found, warnings=(*found.warnings, warning))
        return with_base(views.searched(found), api.edge.addresses.base(request))
