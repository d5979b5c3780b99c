"""The launcher of a scrapyd node, which ``deploy/scrapyd.conf`` names. Only scrapyd imports it."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Any

from scrapyd.launcher import Launcher
from twisted.internet.defer import Deferred, DeferredList


class PatientLauncher(Launcher):  # type: ignore[misc]  # scrapyd has no annotations
    """Passes SIGTERM on, so that processes store their pages and return their leases.

    Scrapyd's own launcher ends at once and leaves orphaned processes. Raises
    :exc:`ValueError` for a scrapyd that other machines can reach without a password.
    """

    _stopping = False

    def __init__(self, config: Any, app: Any):
        _check_access(config)
        super().__init__(config, app)

    def stopService(self) -> Deferred[Any]:  # Twisted's name
        self._stopping = True
        running = list(self.processes.values())
        for process in running:
            process.transport.signalProcess("TERM")
        return DeferredList([process.deferred for process in running])

    def _get_message(self, slot: int) -> None:
        if not self._stopping:
            super()._get_message(slot)


def _check_access(config: Any) -> None:
    found = {
        name: os.environ.get(f"SCRAPYD_{name.upper()}") or config.get(name, "")
        for name in ("bind_address", "username", "password")
    }
    address = found["bind_address"] or "127.0.0.1"
    if address == "localhost" or (found["username"] and found["password"]):
        return
    try:
        is_loopback = ip_address(address).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(
            f"bind_address {address} takes SCRAPYD_USERNAME and SCRAPYD_PASSWORD: who"
            " can call scrapyd can run code"
        )
