"""The worker: the background work of the service, without its API."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from scraper_service.server.process import Front, MainProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings

    from scraper_service.api.http_server import JsonSite
    from scraper_service.server.background import Background
    from scraper_service.server.listener import Listener

    AnnounceT = Callable[[str, str | None], None]

logger = logging.getLogger(__name__)

NO_DATABASE = (
    "there is no job database in {}: a worker works for services. Name their database in"
    " PostgreSQL with SCRAPER_DATABASE_URL, or on the same machine their folder with --data-dir"
)
NO_KEY_FILE = (
    "a worker needs the secret of the services: set the same SCRAPER_KEY_SECRET, or copy their"
    " key.secret into {}"
)
NO_URL = (
    "SCRAPER_PUBLIC_URL is empty: URLs of screenshots and other files in the webhooks that"
    " this worker sends have no host"
)
ANOTHER_KEY = (
    "the secret is not that of the services of this database: set the same"
    " SCRAPER_KEY_SECRET, or copy their key.secret into {}"
)


class ProbeFront(Front):
    """``/health`` and ``/metrics`` on ``port``, 0 for a free one. None: nothing listens.

    A worker takes no calls, so it ends at once, and answers probes until then. ``announce`` is
    called once with the id of the process and the URL of the port.
    """

    def __init__(self, background: Background, port: int | None, announce: AnnounceT):
        self._background = background
        self._port = port
        self._announce = announce
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Warn of URLs that receivers of webhooks could not use."""
        has_files = self._background.settings["ARTEFACTS"] == "files"
        if has_files and not self._background.own_url:
            logger.warning("%s", NO_URL)

    async def open(self) -> None:
        """Open the port, if there is one."""
        from scraper_service.server.listener import Listener

        if self._port is not None:
            listener = Listener(
                self._background.settings, self._port, self._make_site()
            )
            listener.open()
            self._listener = listener

    def _make_site(self) -> JsonSite:
        from scraper_service.api.errors import NotFoundPage
        from scraper_service.api.http_connections import Connections, TrustedProxies
        from scraper_service.api.http_server import JsonSite, Root
        from scraper_service.server.listener import connections_at_most, probe_pages

        settings = self._background.settings
        pages = probe_pages(self._background, self._background.facts)
        connections = Connections(
            connections_at_most(settings.getint("MAX_CONNECTIONS")),
            settings.getint("MAX_PEER_CONNECTIONS"),
            TrustedProxies(settings.getlist("TRUSTED_PROXIES")),
        )
        page = NotFoundPage()  # type: ignore[no-untyped-call]
        return JsonSite(Root(pages, page), connections)

    def announce(self) -> None:
        """Print the id of the process and the URL of the port."""
        url = None if self._listener is None else self._listener.address
        self._announce(self._background.runner.owner, url)

    async def flush(self) -> None:
        """Close the port."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.flush()


def work(settings: Settings, port: int | None, announce: AnnounceT) -> int:
    """Run a worker until SIGTERM or SIGINT; return the exit code.

    Raises :exc:`ValueError` for invalid settings and without the database or the secret of
    a service, and :exc:`~scraper_service.errors.DatabaseUnusable`.
    """
    from scraper_service.server.background import Background
    from scraper_service.services.observability.health import ServiceManager
    from scraper_service.storage.frontier.leases import WORKER

    _check_files(settings)
    settings.set("PROCESS_KIND", WORKER, priority="cmdline")
    gc.disable()  # until it has started: few of the first objects are garbage
    manager = ServiceManager()
    background = Background(settings)
    background.check_secret(ANOTHER_KEY.format(background.data_dir))
    front = ProbeFront(background, port, announce)
    return MainProcess(manager, background, front).run()


def _check_files(settings: Settings) -> None:
    """Raise :exc:`ValueError` if this cannot be a worker of a service."""
    from scraper_service.storage.connections import SQLITE_FILE
    from scraper_service.storage.secrets import KEY_FILE

    folder = Path(settings["DATA_DIR"])
    if not settings["DATABASE_URL"] and not (folder / SQLITE_FILE).exists():
        raise ValueError(NO_DATABASE.format(folder))
    if not settings["KEY_SECRET"] and not (folder / KEY_FILE).exists():
        raise ValueError(NO_KEY_FILE.format(folder))
