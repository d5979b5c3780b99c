"""The routes of /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from klein import Klein

from scraper_service.api import jobs
from scraper_service.api.routes import answer_errors, asyncio_route, note_caller
from scraper_service.api.v2 import requests, views

if TYPE_CHECKING:
    from scraper_service.api.routes import Edge
    from scraper_service.api.site import JsonRequest
    from scraper_service.runtime.service import ScraperService


class V2:
    """Version 2 of the interface."""

    app: ClassVar[Klein] = Klein()
    answer_errors(app, requests.wire_name)

    def __init__(self, edge: Edge, service: ScraperService):
        self.edge = edge
        self.service = service

    @app.route("/scrape", methods=["POST"])
    @asyncio_route
    async def scrape(self, request: JsonRequest) -> bytes:
        team, body = await self.edge.admit(request)
        options = await body.read(requests.page_options)
        note_caller(request, options)
        page = await self.service.scrape(options, team)
        return views.scraped(request, page, options)

    @app.route("/scrape/<scrape_id>", methods=["GET"])
    @asyncio_route
    async def read_scrape(self, request: JsonRequest, scrape_id: str) -> bytes:
        team, _ = await self.edge.admit(request)
        page = await self.service.stored_scrape(jobs.job_id(scrape_id), team)
        return b'{"success":true,"data":%s}' % page

    @app.route("/crawl", methods=["POST"])
    @asyncio_route
    async def start_crawl(self, request: JsonRequest) -> bytes:
        team, body = await self.edge.admit(request)
        key = jobs.idempotency_key(request)
        await self.service.check_key(key, team)
        options = await body.read(requests.crawl_options)
        note_caller(request, options)
        job = await self.service.start(options, team, 2, key)
        return jobs.started(job, self.edge.addresses.base(request), "v2")

    @app.route("/batch/scrape", methods=["POST"])
    @asyncio_route
    async def start_batch(self, request: JsonRequest) -> bytes:
        team, body = await self.edge.admit(request)
        key = jobs.idempotency_key(request)
        await self.service.check_key(key, team)
        asked = await body.read(requests.batch_options)
        note_caller(request, asked.options)
        if asked.append_to:
            job = await self.service.add_to_batch(
                asked.append_to, asked.options, team, key
            )
        else:
            job = await self.service.start(asked.options, team, 2, key)
        base = self.edge.addresses.base(request)
        return jobs.started(job, base, "v2", asked.invalid_urls)

    @app.route("/crawl/active", methods=["GET"])
    @app.route("/crawl/ongoing", methods=["GET"])
    @asyncio_route
    async def active_crawls(self, request: JsonRequest) -> bytes:
        team, _ = await self.edge.admit(request)
        return views.active(await self.service.active_crawls(team))

    @app.route("/crawl/<job_id>", methods=["GET"])
    @app.route("/batch/scrape/<job_id>", methods=["GET"])
    @asyncio_route
    async def status(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request)
        skip, limit = asked = jobs.paging(request)
        found = await self.service.status(jobs.job_id(job_id), team, skip or 0, limit)
        base = self.edge.addresses.base(request)
        return views.status(*found, asked, base + request.path.decode("latin-1"))

    @app.route("/crawl/<job_id>", methods=["DELETE"])
    @app.route("/batch/scrape/<job_id>", methods=["DELETE"])
    @asyncio_route
    async def cancel(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request)
        await self.service.cancel(jobs.job_id(job_id), team)
        return jobs.cancelled()

    # DELETE reads too: a public client asks so for the errors.
    @app.route("/crawl/<job_id>/errors", methods=["GET", "DELETE"])
    @app.route("/batch/scrape/<job_id>/errors", methods=["GET", "DELETE"])
    @asyncio_route
    async def errors(self, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await self.edge.admit(request)
        return jobs.errors(await self.service.errors(jobs.job_id(job_id), team))
