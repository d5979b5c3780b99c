"""``/health``, ``/health/live`` and ``/health/ready``, without an API key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from twisted.web.resource import Resource

from scraper_service.api.application import TaskPage
from scraper_service.api.errors import NotFoundPage, not_found, refuse_method
from scraper_service.api.openapi.route import RootResource, Route
from scraper_service.api.schemas import JsonObject, Success, encode, member

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.web.server import Request

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.metrics.health import Health, HealthReport

RETRY_AFTER_S = 5

MembersT = dict[str, Any]


class Constant(Resource):
    """A resource with constant JSON members and no children."""

    isLeaf = True

    def __init__(self, members: dict[str, Any]):
        super().__init__()
        self._body = encode(members)

    def render(self, request: Request) -> bytes:
        if request.postpath:
            return not_found(request)
        refusal = refuse_method(request)
        return self._body if refusal is None else refusal


class _Ok(Success):
    status: Literal["ok"]


class _Failing(JsonObject):
    success: Literal[False]
    status: Literal["failing", "stopping"]
    checks: dict[str, str] = member("By name: ok, or why the check fails.")
    error: str


class _Work(JsonObject):
    pending_maps: int
    pending_scrapes: int
    pending_searches: int
    watchers: int = member("Open streams.")
    loop_lag_p99_ms: float = member(
        "How late the event loop is, in milliseconds.", key="loopLagP99Ms"
    )
    running_jobs: int = member("Crawls and batches that run in this process.")
    running_operations: int = member("Other jobs that run in this process.")
    workers: dict[str, int] = member("Live processes of the database by kind.")
    warnings: list[str] = member("Work that waits because no process or node takes it.")


class _Ready(JsonObject):
    checks: dict[str, str] = member("By name: ok, or why the check fails.")
    version: str
    schema_version: str


class _Working(_Ok, _Work): ...


class _NotWorking(_Work, _Failing): ...


class _AllReady(_Ok, _Ready): ...


class _NotReady(_Ready, _Failing): ...


def _health(path: str, summary: str, ok: type[_Ok], failing: type[_Failing]) -> Route:
    return Route(
        path, summary=summary, returns=ok, failures={503: failing}, is_own=True
    )


class HealthPages(RootResource):
    """``/health`` and its children.

    ``facts`` returns the members of ``/health`` of a ready service. ``versions`` are
    further members of ``/health/ready``.
    """

    routes = (
        _health("GET /health", "Return the work under way.", _Working, _NotWorking),
        Route(
            "GET /health/live",
            summary="Return if the process responds.",
            returns=_Ok,
            is_own=True,
        ),
        _health(
            "GET /health/ready",
            "Return if every part of the service works.",
            _AllReady,
            _NotReady,
        ),
    )

    def __init__(
        self, health: Health, facts: Callable[[], MembersT], versions: MembersT
    ):
        super().__init__()
        self._facts = facts
        self._page = HealthPage(health, self._report_members)
        ready = HealthPage(health, lambda report: {**report.members(), **versions})
        self.putChild(b"ready", ready)
        self.putChild(b"live", Constant(_Ok.of()))

    def _report_members(self, report: HealthReport) -> MembersT:
        if report.is_ready:
            return self._facts()
        return {**self._facts(), **report.members()}

    def render(self, request: JsonRequest) -> bytes | int:
        return self._page.render(request)

    def getChild(self, path: bytes, request: Request) -> Resource:
        return NotFoundPage()


class HealthPage(TaskPage):
    """Responds with a health report: status 200 if ready, else 503."""

    def __init__(self, health: Health, members: Callable[[HealthReport], MembersT]):
        super().__init__()
        self._health = health
        self._members = members

    async def make(self, request: JsonRequest) -> bytes:
        report = await self._health.report()
        if not report.is_ready:
            request.setResponseCode(503)
            request.setHeader("Retry-After", str(RETRY_AFTER_S))
        return encode(self._members(report))
