"""The routes that both versions have; they differ in spelling only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve

from scraper_service.api.application import answer_errors, asyncio_route, note_caller
from scraper_service.api.fields.common import ignored_names
from scraper_service.api.routes import jobs
from scraper_service.api.routes.files import with_base
from scraper_service.api.streams import websocket
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from klein import Klein

    from scraper_service.api.application import Body
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.streams.websocket import WebSocket
    from scraper_service.api.version import Api
    from scraper_service.options.jobs import CrawlOptions
    from scraper_service.services.accounts import Team
    from scraper_service.services.service import ScraperService


PromptedT: TypeAlias = (
    "Callable[[ScraperService, Body, CrawlOptions, Team],"
    " Awaitable[tuple[CrawlOptions, dict[str, Any]]]]"
)


def joined(*sentences: str | None) -> str | None:
    """Return the sentences that there are as one warning, None for none."""
    return " ".join(filter(None, sentences)) or None


def warned(*sentences: str | None) -> dict[str, Any]:
    """Return the member ``warning`` of an answer, no member where all are None."""
    text = joined(*sentences)
    return {} if text is None else {"warning": text}


async def admit_work(
    api: Api, request: JsonRequest, mode: Mode, counted: str = ""
) -> tuple[Team, Body, int]:
    """Admit a call that costs credits; return also how many pages it asks for.

    Raises what :meth:`Edge.admit` raises, then :exc:`SiteBlocked`, :exc:`OutOfCredits`.
    """
    team, body = await api.edge.admit(request, mode)
    pages = await api.edge.asked_pages(team, body, counted)
    prices = api.service.prices
    price = prices.page
    if mode in {Mode.MAP, Mode.SEARCH}:
        price = prices.map if mode is Mode.MAP else prices.search(1)
    await api.service.charges.require(team, pages * price)
    return team, body, pages


def add_routes(  # noqa: PLR0915  # a list of routes
    app: Klein,
    version: int,
    requests: Any,
    views: Any,
    prompted: PromptedT | None = None,
) -> None:
    """Give ``app`` the routes of scrape, map, crawl and batch.

    ``requests`` and ``views`` are the modules of the version: what its bodies mean, and
    how its answers look. ``prompted`` fills the options of a crawl by its prompt, where
    the version has one, and returns what to say of it.
    """
    answer_errors(app, requests.wire_name)
    ignored_by_page = ignored_names(requests.PAGE.fields)
    ignored_by_map = ignored_names(requests.MAP.fields)

    @app.route("/scrape", methods=["POST"])
    @asyncio_route
    async def scrape(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.SCRAPE)
        options = await body.read(requests.page_options)
        note_caller(request, options)
        warning = await body.warning(ignored_by_page)
        page = await api.service.scrape(options, team, version)
        page = evolve(page, warning=joined(page.warning, warning))
        answer = views.scraped(request, page, options)
        return with_base(answer, api.edge.addresses.base(request))

    @app.route("/scrape/<scrape_id>", methods=["GET"])
    @asyncio_route
    async def read_scrape(api: Api, request: JsonRequest, scrape_id: str) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        page = await api.service.stored_scrape(jobs.job_id(scrape_id), team)
        answer = b'{"success":true,"data":%s}' % page
        return with_base(answer, api.edge.addresses.base(request))

    @app.route("/map", methods=["POST"])
    @asyncio_route
    async def find_links(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.MAP)
        options = await body.read(requests.map_options)
        note_caller(request, options)
        warning = await body.warning(ignored_by_map)
        found = await api.service.map(options, team, version, views.MAP_SHAPE)
        found.warnings.extend(filter(None, [warning]))
        answer: bytes = views.mapped(request, found)
        return answer

    @app.route("/crawl", methods=["POST"])
    @asyncio_route
    async def start_crawl(api: Api, request: JsonRequest) -> bytes:
        team, body, pages = await admit_work(api, request, Mode.CRAWL, "limit")
        key = jobs.idempotency_key(request)
        await api.service.check_key(key, team)
        options = await body.read(requests.crawl_options)
        note_caller(request, options)
        facts: dict[str, Any] = {}
        if prompted is not None:
            options, facts = await prompted(api.service, body, options, team)
        facts |= warned(facts.get("warning"), await body.warning(ignored_by_page))
        job = await api.service.start(options, team, version, key, pages)
        base = api.edge.addresses.base(request)
        return jobs.started(job, base, f"v{version}", facts=facts)

    @app.route("/batch/scrape", methods=["POST"])
    @asyncio_route
    async def start_batch(api: Api, request: JsonRequest) -> bytes:
        team, body, _ = await admit_work(api, request, Mode.SCRAPE, "urls")
        key = jobs.idempotency_key(request)
        await api.service.check_key(key, team)
        asked = await body.read(requests.batch_options)
        note_caller(request, asked.options)
        if asked.append_to:
            job = await api.service.add_to_batch(
                asked.append_to, asked.options, team, key
            )
        else:
            job = await api.service.start(asked.options, team, version, key)
        return jobs.started(
            job,
            api.edge.addresses.base(request),
            f"v{version}",
            asked.invalid_urls,
            warned(await body.warning(ignored_by_page)),
        )

    @app.route("/crawl/active", methods=["GET"])
    @app.route("/crawl/ongoing", methods=["GET"])
    @asyncio_route
    async def active_crawls(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        answer: bytes = views.active(await api.service.jobs.active_crawls(team))
        return answer

    @app.route("/crawl/<job_id>", methods=["GET"])
    @app.route("/batch/scrape/<job_id>", methods=["GET"])
    @asyncio_route
    async def status(api: Api, request: JsonRequest, job_id: str) -> bytes | WebSocket:
        if websocket.is_wanted(request):
            return await websocket.watch(api, request, job_id, views.snapshot)
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        skip, limit = asked = jobs.paging(request)
        found = await api.service.jobs.status(
            jobs.job_id(job_id), team, skip or 0, limit
        )
        base = api.edge.addresses.base(request)
        answer = views.status(*found, asked, base + request.path.decode("latin-1"))
        return with_base(answer, base)

    @app.route("/crawl/<job_id>", methods=["DELETE"])
    @app.route("/batch/scrape/<job_id>", methods=["DELETE"])
    @asyncio_route
    async def cancel(api: Api, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        await api.service.jobs.cancel(jobs.job_id(job_id), team)
        return jobs.cancelled()

    # DELETE reads too: a public client asks so for the errors.
    @app.route("/crawl/<job_id>/errors", methods=["GET", "DELETE"])
    @app.route("/batch/scrape/<job_id>/errors", methods=["GET", "DELETE"])
    @asyncio_route
    async def errors(api: Api, request: JsonRequest, job_id: str) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        return await api.service.jobs.errors(jobs.job_id(job_id), team, jobs.errors)
