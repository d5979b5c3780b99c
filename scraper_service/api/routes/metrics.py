"""``GET /metrics``: counts and gauges as text for Prometheus."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.api.application import TaskPage
from scraper_service.api.connections import is_local_host, peer_address
from scraper_service.api.errors import not_found
from scraper_service.api.openapi.route import Route
from scraper_service.api.schemas import TEXT

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.metrics.service_metrics import Metrics

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
    """Who may read the metrics: by the settings ``METRICS`` and ``METRICS_KEY``."""

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
