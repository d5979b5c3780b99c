"""Workers beside the services of a test."""

from __future__ import annotations

from tests.conftest import Service


class Worker(Service):
    """``scraper-service worker`` with probes on a free port, like :class:`Service`."""

    subcommand = "worker"
    ready = "working as "
