"""``/health``, ``/health/live`` and ``/health/ready``, without an API key."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen
from twisted.web.resource import Resource

from scraper_service.api.errors import NotFoundPage, not_found, refuse_method
from scraper_service.api.http_connections import is_local_host, peer_address
from scraper_service.api.openapi.route import RootResource, Route, TaskPage
from scraper_service.api.schemas import TEXT, JsonObject, Success, encode, member

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.web.server import Request

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.observability.health import Health, HealthReport
    from scraper_service.services.observability.metrics import Metrics


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


OPEN = "open"
TEXT_TYPE = "text/plain"
OPEN_METRICS_TYPE = "application/openmetrics-text"
# Headers of requests that a proxy passes on, or that the page of a site sends from the
# browser of this machine. Their peer is on loopback, their caller is not.
FORWARDED = (
    *("forwarded", "origin", "via", "x-forwarded-for", "x-forwarded-host"),
    *("x-forwarded-proto", "x-real-ip"),
)


@frozen
class MetricsAccess:
    """The access to the metrics: by the settings ``METRICS`` and ``METRICS_KEY``."""

    mode: str
    key: str

    def allows(self, request: JsonRequest) -> bool:
        """Return True for a caller who may read the metrics."""
        if self.mode == OPEN:
            return True
        sent = request.header("Authorization") or ""
        scheme, _, key = sent.partition(" ")
        if self.key and scheme.lower() == "bearer":
            expected = self.key.encode()
            if hmac.compare_digest(key.strip().encode("latin-1"), expected):
                return True
        return _is_here(request)


def _is_here(request: JsonRequest) -> bool:
    """Return True if the caller is on this machine, not behind a proxy of it.

    A web page in a browser of this machine may let its own name lead here (DNS rebinding),
    so a host must be named ``localhost`` or by its IP address.
    """
    if any(request.getHeader(name) for name in FORWARDED):
        return False
    if (host := request.header("Host")) and not is_local_host(host):
        return False
    address: Any = request.getClientAddress()
    try:
        return peer_address(address.host).is_loopback
    except (AttributeError, ValueError):
        return False


class MetricsPage(TaskPage):
    """``/metrics``. Without permission it does not seem to exist."""

    routes = (
        Route(
            "GET /metrics",
            summary="Return the metrics for Prometheus.",
            returns=TEXT,
            errors=(404,),
            media=(TEXT_TYPE, OPEN_METRICS_TYPE),
            is_own=True,
        ),
    )

    def __init__(self, metrics: Metrics, access: MetricsAccess):
        super().__init__()
        self._metrics = metrics
        self._access = access

    def render(self, request: JsonRequest) -> bytes | int:
        if not self._access.allows(request):
            return not_found(request)
        return super().render(request)

    async def make(self, request: JsonRequest) -> bytes:
        body, media = await self._metrics.text(request.header("Accept") or "")
        request.setHeader("Content-Type", media)
        return body
