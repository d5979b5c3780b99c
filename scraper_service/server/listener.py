"""The port of a process, and its pages for probes and Prometheus.

The port is opened last, and closed without losing accepted requests. Service and workers
have both.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings
    from twisted.internet.interfaces import IListeningPort

    from scraper_service.api.http_server import JsonSite
    from scraper_service.api.openapi.route import RootResource
    from scraper_service.server.background import Background

logger = logging.getLogger(__name__)

BACKLOG = 512  # connections that wait to be accepted
OTHER_FILES = 1000  # open files besides client connections: fetches, databases, pipes
FLUSH_S = 1  # for the last responses to be sent
# After the port is closed, for the requests of connections that were accepted before.
LAST_REQUESTS_S = 1
ACCEPTS = 1000  # of connections that wait when the port is closed
LOOK_S = 0.05  # between two looks at the running requests


class Listener:
    """Listens on ``HOST`` and ``port`` for the requests of a site."""

    def __init__(self, settings: Settings, port: int, site: JsonSite):
        self._host = settings["HOST"]
        self._wanted = port
        self._site = site
        self._port: IListeningPort | None = None
        # Kept: a closed port has no address.
        self._at: Any = None

    def open(self) -> None:
        """Start to accept connections.

        Raises :exc:`~twisted.internet.error.CannotListenError`.
        """
        from twisted.internet import reactor

        self._port = reactor.listenTCP(
            self._wanted,
            self._site,  # type: ignore[arg-type]  # the zope plugin's own type
            BACKLOG,
            self._host,
        )
        self._at = self._port.getHost()

    @property
    def address(self) -> str:
        """The URL of the port, with the address that it listens on; also once it is closed."""
        return f"http://{self._at.host}:{self._at.port}"

    @property
    def url(self) -> str:
        """The URL of the port for callers on this machine; also once it is closed."""
        return _url_of(self._at.host, self._at.port)

    async def drain(self, drain_s: float) -> None:
        """Serve for ``drain_s`` more, so that load balancers turn away first.

        From this call on, each response closes its connection. A call that another service
        can take is not lost: the port closes while no request is on its way to it.
        """
        self._site.is_leaving = True
        if self._port is not None and drain_s > 0:
            await asyncio.sleep(drain_s)
            self._accept_the_last()
            self._port.stopListening()
            await asyncio.sleep(LAST_REQUESTS_S)

    def _accept_the_last(self) -> None:
        """Accept connections that the kernel would reset with the port."""
        port: Any = self._port
        port.numberAccepts = ACCEPTS
        port.doRead()

    def close(self) -> None:
        """Accept no further connections."""
        if self._port is not None:
            self._port.stopListening()

    async def wait_until_answered(self) -> None:
        """Wait until all requests have their responses."""
        while self._site.answering:  # noqa: ASYNC110  # a count
            await asyncio.sleep(LOOK_S)

    def give_up(self) -> None:
        """End the requests that still run with a 503."""
        self._site.give_up()

    async def flush(self) -> None:
        """Wait until the last responses are sent, for at most :data:`FLUSH_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await asyncio.sleep(LOOK_S)
                await self.wait_until_answered()


def _url_of(host: str, port: int) -> str:
    """Return the URL of a port of this machine; localhost for all addresses."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # only compared
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def connections_at_most(wanted: int) -> int:
    """Return the number of connections that the limit of open files permits.

    Increase this limit as far as needed and allowed. A process at its limit can neither
    fetch pages nor read its database.
    """
    infinity = resource.RLIM_INFINITY
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == infinity:
        return wanted
    needed = wanted + OTHER_FILES
    if soft < needed:
        soft = needed if hard == infinity else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = max(1, min(wanted, soft - min(OTHER_FILES, soft // 2)))
    if most < wanted:
        text = (
            "SCRAPER_MAX_CONNECTIONS is %s, not %s: this process may open %s files"
            " (ulimit -n)"
        )
        logger.warning(text, most, wanted, soft)
    return most


def probe_pages(
    background: Background, facts: Callable[[], dict[str, Any]]
) -> dict[str, RootResource]:
    """Return ``/health``, and ``/metrics`` unless it is off, by the names of their paths.

    ``facts`` returns the members of ``/health`` of a ready process.
    """
    from importlib.metadata import version

    from scraper_service.api.routes.health import (
        HealthPages,
        MetricsAccess,
        MetricsPage,
    )
    from scraper_service.services.capabilities import PACKAGE
    from scraper_service.services.observability.metrics import Metrics
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
