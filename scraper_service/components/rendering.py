"""Pages by the browser, as the download handler takes them."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.http import Response

from scraper_service.components.browser.errors import BrowserGone
from scraper_service.components.browser.pool import SharedBrowser
from scraper_service.errors import ServiceUnavailable
from scraper_service.jobs import artefacts
from scraper_service.jobs.artefacts import KINDS, Artefacts
from scraper_service.jobs.database import Database
from scraper_service.jobs.model import LOCAL_TEAM
from scraper_service.jobs.secrets import key_secret
from scraper_service.jobs.sessions import SessionBox, read_session, save_session

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scraper_service.components.browser.page import PageOrder, RenderedPage
    from scraper_service.components.egress import EgressPolicy
    from scraper_service.components.proxies import UpstreamProxy
    from scraper_service.jobs.sessions import StateT
    from scraper_service.options.scrape import ScrapeOptions

logger = logging.getLogger(__name__)

ATTEMPTS = 2  # at a page whose browser ended
CONVERT_S = 0.5  # left for the page to be understood
EMPTY: StateT = {"cookies": [], "origins": []}


class PageRendering:
    """Open pages of one crawler in the shared browser.

    Reads and writes ``request.meta`` as
    :class:`~scraper_service.components.handler.PageDownloadHandler` does; ``rendered``
    is what the browser brought beside the HTML.
    """

    def __init__(self, crawler: Crawler, policy: EgressPolicy):
        self._settings = crawler.settings
        self._policy = policy
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        self._name = _product(crawler.settings["USER_AGENT"])
        self._inline = crawler.settings["ARTEFACTS"] == "inline"
        self._browser = SharedBrowser.shared(crawler.settings)
        self._browser.enter()

    async def close(self) -> None:
        """Note that the crawler has ended."""
        await self._browser.leave()

    async def download(
        self, request: Request, upstream: UpstreamProxy | None
    ) -> Response:
        """Return the page as its scripts left it.

        Raises the errors of :mod:`scraper_service.components.browser.errors` and what
        the downloader of plain pages raises.
        """
        options: ScrapeOptions = request.meta["options"]
        before = await self._state(request, options)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                page = await self._open(request, options, upstream, before)
                break
            except BrowserGone:
                if attempt == ATTEMPTS:
                    raise
                logger.info("a browser ended in the middle of a page; trying again")
        if page.state is not None:
            await self._save(request, options, before or EMPTY, page.state)
        request.meta["rendered"] = page.rendered
        request.meta["download_latency"] = page.latency_s
        request.meta["transport_warnings"] = (
            *request.meta.get("transport_warnings", ()),
            *page.warnings,
        )
        return Response(
            page.url,
            page.status,
            headers=page.headers,
            body=page.body,
            request=request,
            flags=["browser"],
        )

    async def _open(
        self,
        request: Request,
        options: ScrapeOptions,
        upstream: UpstreamProxy | None,
        state: StateT | None,
    ) -> RenderedPage:
        is_of_job = request.meta.get("lease") is not None
        asked_at = time.monotonic()
        async with self._browser.lend(patient=is_of_job) as running:
            if is_of_job:  # nobody waits for it: the queue does not cost its time
                request.meta["deadline"] += time.monotonic() - asked_at
            # Playwright takes 0.3 s to import, which lend() has done in a thread.
            from scraper_service.components.browser import page  # noqa: PLC0415

            ends_at = request.meta.get("deadline", math.inf)
            ends_at = min(ends_at, time.monotonic() + options.deadline_ms / 1000)
            order: PageOrder = page.PageOrder(
                url=request.url,
                options=options,
                load_s=request.meta["download_timeout"],
                ends_at=ends_at - CONVERT_S,
                name=self._name,
                policy=self._policy,
                blocked=await self._browser.blocked_hosts(),
                keep=self._keeper(request, options),
                upstream=upstream,
                state=state,
            )
            return await page.render(running, order)

    def _keeper(self, request: Request, options: ScrapeOptions) -> Any:
        team_id = request.meta.get("team_id")
        is_served = team_id not in {None, LOCAL_TEAM}
        if self._inline or not is_served or options.zero_data_retention:
            return _data_url

        async def keep(data: bytes, kind: str) -> str:
            files = shared_artefacts(self._settings)
            name = await asyncio.to_thread(files.put, data, kind)
            await hold_artefact(self._settings, name, request)
            return files.address(name)

        return keep

    async def _state(self, request: Request, options: ScrapeOptions) -> StateT | None:
        if options.session is None or not request.meta.get("team_id"):
            return None
        return await Database.shared(self._settings).read(
            read_session, request.meta["team_id"], options.session, self._box()
        )

    async def _save(
        self, request: Request, options: ScrapeOptions, before: StateT, after: StateT
    ) -> None:
        assert options.session is not None
        if not (team_id := request.meta.get("team_id")):
            remark = "The session was not kept: only the service keeps sessions."
        else:
            try:
                await Database.shared(self._settings).write_locking(
                    _save, options.session, team_id, self._box(), before, after
                )
                return
            except (ValueError, ServiceUnavailable) as error:
                remark = f"The session was not kept: {error}."
        request.meta["transport_warnings"] = (remark,)

    def _box(self) -> SessionBox:
        return SessionBox(_secret(self._settings))


def _save(
    connection: Any, name: str, team_id: str, box: SessionBox, *states: StateT
) -> None:
    save_session(connection, team_id, name, box, *states)


async def hold_artefact(settings: Any, name: str, request: Request) -> None:
    """Have a file kept for as long as the page of ``request`` is."""
    job_id = settings.get("JOB_ID") or None
    holder = job_id or request.meta["scrape_id"]
    await Database.shared(settings).write(artefacts.hold, name, holder, job_id)


def shared_artefacts(settings: Any) -> Artefacts:
    """Return the files of the service's data directory."""
    return Artefacts(Path(settings["DATA_DIR"]) / artefacts.FOLDER, _secret(settings))


def _secret(settings: Any) -> bytes:
    return key_secret(Path(settings["DATA_DIR"]), settings["KEY_SECRET"])


async def _data_url(data: bytes, kind: str) -> str:
    encoded = await asyncio.to_thread(base64.b64encode, data)
    return f"data:{KINDS[kind]};base64,{encoded.decode()}"


def _product(user_agent: str) -> str:
    """Return the words of ``USER_AGENT`` that say whose requests these are."""
    inside = user_agent.partition("(compatible;")[2].partition(")")[0].split(";")
    return (inside[0] or user_agent).strip()
