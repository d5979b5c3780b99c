"""``/health``, ``/health/live`` and ``/health/ready``; no key is needed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from scraper_service.api.page_json import encode
from scraper_service.api.routes.constants import (
    Constant,
    NotFound,
    not_found,
    refused_method,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.web.server import Request

    from scraper_service.services.health import Health, Report

RETRY_AFTER_S = 5

MembersT = dict[str, Any]


class HealthPages(Resource):
    """``/health`` with what is below it.

    ``facts`` are the members of ``/health`` where all is well, ``versions`` further
    ones of ``/health/ready``.
    """

    def __init__(
        self, health: Health, facts: Callable[[], MembersT], versions: MembersT
    ):
        super().__init__()
        self._facts = facts
        self._page = HealthPage(health, self._told)
        ready = HealthPage(health, lambda report: {**report.members(), **versions})
        self.putChild(b"ready", ready)
        self.putChild(b"live", Constant({"success": True, "status": "ok"}))

    def _told(self, report: Report) -> MembersT:
        if report.is_ready:
            return self._facts()
        return {**self._facts(), **report.members()}

    def render(self, request: Request) -> bytes | int:
        return self._page.render(request)

    def getChild(self, path: bytes, request: Request) -> Resource:
        return NotFound()


class HealthPage(Resource):
    """Waits for a report and tells of it: 200 where all is well, else 503."""

    isLeaf = True

    def __init__(self, health: Health, members: Callable[[Report], MembersT]):
        super().__init__()
        self._health = health
        self._members = members
        self._tasks: set[asyncio.Task[None]] = set()

    def render(self, request: Request) -> bytes | int:
        if request.postpath:
            return not_found(request)
        if (refusal := refused_method(request)) is not None:
            return refusal
        task = asyncio.ensure_future(self._answer(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return NOT_DONE_YET

    async def _answer(self, request: Request) -> None:
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # the client went away
        report = await self._health.report()
        if gone.called:
            return
        body = encode(self._members(report))
        request.setHeader(b"Content-Length", b"%d" % len(body))
        if not report.is_ready:
            request.setResponseCode(503)
            request.setHeader(b"Retry-After", b"%d" % RETRY_AFTER_S)
        request.write(body)
        request.finish()
