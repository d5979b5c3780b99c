"""The routes of /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from klein import Klein

from scraper_service.api.application import asyncio_route, note_caller, write
from scraper_service.api.page_json import camel, encode
from scraper_service.api.routes import crawl_preview, jobs, sessions
from scraper_service.api.routes import crawl_report as report
from scraper_service.api.routes import crawl_urls as addresses
from scraper_service.api.routes import webhook_deliveries as deliveries
from scraper_service.api.routes.common import add_routes, admit_work
from scraper_service.api.routes.operations import add_extract_routes
from scraper_service.api.routes.parse import add_parse_routes
from scraper_service.api.routes.search import add_search_route
from scraper_service.api.routes.team import add_team_routes
from scraper_service.api.streams import server_sent_events
from scraper_service.api.v2 import requests, responses
from scraper_service.api.version import Api
from scraper_service.errors import InvalidOptions
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.streams.server_sent_events import EventStream


class V2(Api):
    """Version 2 of the interface."""

    app: ClassVar[Klein] = Klein()
    add_routes(app, 2, requests, responses, crawl_preview.prompted)
    add_search_route(app, 2, requests, responses)
    add_parse_routes(app)
    add_team_routes(app, camel)
    add_extract_routes(app, 2, requests.extract_request)

    @app.route("/crawl/<job_id>/urls", methods=["GET"])
    @app.route("/batch/scrape/<job_id>/urls", methods=["GET"])
    @asyncio_route
    async def addresses(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        query = addresses.asked(request)
        found = await self.service.jobs.addresses(jobs.job_id(job_id), team, query)
        path = self.edge.addresses.base(request) + request.path.decode("latin-1")
        return addresses.listed(found, query, path)

    @app.route("/crawl/<job_id>/events", methods=["GET"])
    @app.route("/batch/scrape/<job_id>/events", methods=["GET"])
    @asyncio_route
    async def events(self, request: JsonRequest, job_id: str) -> EventStream:
        return await server_sent_events.follow(self, request, job_id)

    @app.route("/crawl/<job_id>/report", methods=["GET"])
    @app.route("/batch/scrape/<job_id>/report", methods=["GET"])
    @asyncio_route
    async def report(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        found = jobs.job_id(job_id)
        return await self.service.jobs.report(found, team, report.reported)

    @app.route("/crawl/<job_id>/deliveries", methods=["GET"])
    @app.route("/batch/scrape/<job_id>/deliveries", methods=["GET"])
    @asyncio_route
    async def deliveries(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        query = deliveries.asked(request)
        found = await self.service.jobs.deliveries(jobs.job_id(job_id), team, **query)
        path = self.edge.addresses.base(request) + request.path.decode("latin-1")
        return deliveries.listed(*found, query, path)

    @app.route("/crawl/<job_id>/deliveries/replay", methods=["POST"])
    @app.route("/batch/scrape/<job_id>/deliveries/replay", methods=["POST"])
    @asyncio_route
    async def replay_failed(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        count = await self.service.jobs.replay(jobs.job_id(job_id), team)
        return deliveries.replayed(count)

    @app.route("/crawl/<job_id>/deliveries/<number>/replay", methods=["POST"])
    @app.route("/batch/scrape/<job_id>/deliveries/<number>/replay", methods=["POST"])
    @asyncio_route
    async def replay(self, request: JsonRequest, job_id: str, number: str) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        wanted = deliveries.delivery_number(number)
        count = await self.service.jobs.replay(jobs.job_id(job_id), team, wanted)
        return deliveries.replayed(count)

    @app.route("/capabilities", methods=["GET"])
    @asyncio_route
    async def capabilities(self, request: JsonRequest) -> bytes:
        await self.edge.admit(request, Mode.CRAWL_STATUS)
        return encode({"success": True, "data": self.service.capabilities()})

    @app.route("/sessions", methods=["GET"])
    @asyncio_route
    async def sessions(self, request: JsonRequest) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        return sessions.listed(await self.service.sessions(team))

    @app.route("/sessions/<path:name>", methods=["DELETE"])
    @asyncio_route
    async def delete_session(self, request: JsonRequest, name: str) -> bytes:
        team, _ = await self.edge.admit(request, Mode.CRAWL_STATUS)
        await self.service.delete_session(sessions.name_of(name), team)
        return sessions.deleted()

    @app.route("/crawl/params-preview", methods=["POST"])
    @asyncio_route
    async def preview(self, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(self, request, Mode.CRAWL)
        try:
            asked = await body.read(crawl_preview.preview_request)
        except InvalidOptions as error:
            return write(request, crawl_preview.refused(error))
        note_caller(request, asked)
        found = await self.service.preview(
            asked.url, asked.prompt, team, crawl_preview.check
        )
        return crawl_preview.answered(asked.url, found)

    @app.route("/crawl/explain", methods=["POST"])
    @asyncio_route
    async def explain(self, request: JsonRequest) -> bytes:
        team, body = await self.edge.admit(request, Mode.CRAWL)
        asked = await body.read(requests.explain_request)
        options, _ = await crawl_preview.prompted(
            self.service, body, asked.options, team
        )
        found = await self.service.explain(options, asked.urls, asked.depth)
        return addresses.explained(found)
