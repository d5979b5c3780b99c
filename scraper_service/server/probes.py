"""The pages for probes and Prometheus, which service and workers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.api.openapi.route import RootResource
    from scraper_service.server.background import Background


def probe_pages(
    background: Background, facts: Callable[[], dict[str, Any]]
) -> dict[str, RootResource]:
    """Return ``/health``, and ``/metrics`` unless it is off, by the names of their paths.

    ``facts`` returns the members of ``/health`` of a ready process.
    """
    from importlib.metadata import version

    from scraper_service.api.routes.health import HealthPages
    from scraper_service.api.routes.metrics import MetricsAccess, MetricsPage
    from scraper_service.services.capabilities import PACKAGE
    from scraper_service.services.metrics.service_metrics import Metrics
    from scraper_service.storage.database import HEAD

    settings = background.settings
    versions = {"version": version(PACKAGE), "schemaVersion": HEAD}
    pages: dict[str, RootResource] = {
        "health": HealthPages(background.health, facts, versions)
    }
    if settings["METRICS"] != "off":
        access = MetricsAccess(settings["METRICS"], settings["METRICS_KEY"])
        metrics = Metrics(background.database, background.health, background.data_dir)
        pages["metrics"] = MetricsPage(metrics, access)
    return pages
