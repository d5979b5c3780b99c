"""Checks of the parts that every request needs, and why one fails.

The parts are database, disk, converters, browser and event loop. systemd learns from the
event loop that the process is alive. ``server/`` has the counts that ``/health`` shows.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from sqlalchemy import text

from scraper_service.crawling.browser import shared_browser
from scraper_service.crawling.browser.chromium import find_chromium, why_missing
from scraper_service.errors import ServiceUnavailable, StoreUnavailable
from scraper_service.storage.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection

    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
    from scraper_service.crawling.observability import LoopLag
    from scraper_service.storage.database import Database
    from scraper_service.storage.files.blob_stores import ObjectStore

WAIT_S = 2.0  # that one report waits for running checks

CheckT = Callable[[], Awaitable[None]]


class Unhealthy(Exception):
    """Raised by a check that fails. The text is a sentence without its full stop."""


@define(eq=False)
class HealthCheck:
    """One check with its latest result. All callers share a run."""

    name: str
    #: Raises :exc:`Unhealthy`. Runs once at a time.
    run: CheckT
    #: Seconds after which a run counts as failed.
    limit_s: float = WAIT_S
    #: Least seconds between the starts of two runs.
    every_s: float = 1.0
    _task: asyncio.Task[None] | None = None
    _started_at: float = float("-inf")
    _reason: str | None = "it has not run yet"

    async def reason(self) -> str | None:
        """Return why the check fails, None if it passes.

        The result is at most ``every_s`` old. While a run is within its limit, the
        result of the previous run counts.
        """
        now = time.monotonic()
        if self._task is None and now - self._started_at >= self.every_s:
            self._started_at = now
            self._task = asyncio.ensure_future(self._run())
        if self._task is not None:
            wait_s = min(WAIT_S, self._started_at + self.limit_s - now)
            if wait_s > 0:
                await asyncio.wait({self._task}, timeout=wait_s)
        late_s = time.monotonic() - self._started_at
        if self._task is not None and late_s >= self.limit_s:
            return f"no answer for {late_s:.0f} s"
        return self._reason

    async def _run(self) -> None:
        try:
            await self.run()
        except Unhealthy as error:
            self._reason = str(error)
        except Exception as error:
            self._reason = f"the check failed ({type(error).__name__}: {error})"
        else:
            self._reason = None
        finally:
            self._task = None


@frozen
class HealthReport:
    """The result of all checks."""

    #: By name of the check: why it fails, None if it passes.
    checks: dict[str, str | None] = field(factory=dict)
    #: True during shutdown.
    is_stopping: bool = False

    @property
    def is_ready(self) -> bool:
        """Return True if the service accepts requests."""
        return not self.is_stopping and not any(self.checks.values())

    def members(self) -> dict[str, Any]:
        """Return the report as JSON members."""
        if self.is_ready:
            return {"success": True, "status": "ok", "checks": self._check_states()}
        status = "stopping" if self.is_stopping else "failing"
        reasons = [
            f"{name}: {reason}" for name, reason in self.checks.items() if reason
        ]
        if self.is_stopping:
            reasons.insert(0, "the service is shutting down")
        error = f"The service is not ready ({'; '.join(reasons)})."
        members = {"status": status, "checks": self._check_states(), "error": error}
        return {"success": False, **members}

    def _check_states(self) -> dict[str, str]:
        return {name: reason or "ok" for name, reason in self.checks.items()}


class Health:
    """Runs the checks of a process. Many reports at a time cost as much as one."""

    def __init__(self, checks: Iterable[HealthCheck], is_stopping: Callable[[], bool]):
        self._checks = tuple(checks)
        self._is_stopping = is_stopping

    async def report(self) -> HealthReport:
        """Return the results of all checks, after :data:`WAIT_S` at the latest."""
        if self._is_stopping():
            return HealthReport(is_stopping=True)
        reasons = await asyncio.gather(*(check.reason() for check in self._checks))
        names = (check.name for check in self._checks)
        return HealthReport(dict(zip(names, reasons, strict=True)))


PROBE_BYTES = 4096  # written to the disk
FILES_S = 30.0  # between calls of the object storage, and the limit of one
MAX_LAG_MS = 1000.0  # of the event loop, the median of a second
MIB = 2**20


def service_checks(
    settings: BaseSettings,
    database: Database,
    pool: ConverterPool,
    lag: LoopLag,
    files: ObjectStore | None,
) -> Iterator[HealthCheck]:
    """Yield the checks of a process that serves requests."""

    async def check_database() -> None:
        try:
            await database.read(_read_something)
            await database.write(_read_something)
        except ServiceUnavailable as error:
            raise Unhealthy(str(error).rstrip(".")) from error

    folder = Path(settings["DATA_DIR"])
    least = settings.getint("MIN_DISK_MB") * MIB

    async def check_disk() -> None:
        await asyncio.to_thread(_check_disk, folder, least)

    async def check_converters() -> None:
        if (why := pool.failure) is not None:
            raise Unhealthy(why.rstrip("."))

    async def check_files() -> None:
        assert files is not None
        try:
            await files.check()
        except StoreUnavailable as error:
            raise Unhealthy(str(error).rstrip(".")) from error
        except FileNotFoundError:
            raise Unhealthy(f"{files.url} has no such bucket") from None

    async def check_lag() -> None:
        if (late_ms := lag.recent_ms()) > MAX_LAG_MS:
            raise Unhealthy(f"the event loop is {late_ms:.0f} ms late")

    yield HealthCheck("database", check_database)
    yield HealthCheck("disk", check_disk)
    yield HealthCheck("converters", check_converters)
    if files is not None:
        yield HealthCheck("files", check_files, limit_s=FILES_S, every_s=FILES_S)
    program = find_chromium(settings)
    is_wanted = settings["RENDER"] == "always" or why_missing(settings) is None
    if is_wanted:

        async def check_browser() -> None:
            if (why := why_missing(settings)) is not None:
                raise Unhealthy(why)
            await asyncio.to_thread(_check_program, program)
            for state in shared_browser.SharedBrowser.states():
                if state == shared_browser.RESTARTING:
                    raise Unhealthy("the browser ended, and another one starts")
                if state not in {shared_browser.OK, shared_browser.STARTING}:
                    raise Unhealthy(state)

        yield HealthCheck("browser", check_browser)
    yield HealthCheck("eventLoop", check_lag)


@transaction(apart=True)
def _read_something(connection: Connection) -> None:
    connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _check_disk(folder: Path, least: int) -> None:
    probe = folder / f".health-{os.getpid()}"
    try:
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        text = f"SCRAPER_DATA_DIR cannot be written to ({error.strerror or error})"
        raise Unhealthy(text) from error
    if free < least:
        raise Unhealthy(
            f"SCRAPER_DATA_DIR has {free // MIB} MiB left, fewer than SCRAPER_MIN_DISK_MB"
            f" ({least // MIB})"
        )


def _check_program(program: str | None) -> None:
    if program is None or not os.access(program, os.X_OK):
        raise Unhealthy(f"the program {program} cannot be run")


# -- systemd -----------------------------------------------------------------------------


class ServiceManager:
    """Tells systemd that the service is ready, alive or stopping: sd_notify(3).

    Does nothing if systemd did not start this process with ``Type=notify``. With
    ``WatchdogSec``, it notifies from the event loop, twice in this time. So systemd restarts a
    service whose event loop hangs. Other processes do not inherit the variables.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        limit_us = os.environ.pop("WATCHDOG_USEC", "")
        self._every_s = int(limit_us) / 2e6 if limit_us.isdigit() else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """Notify that the service accepts requests, and from now on that it is alive."""
        self._send("READY=1")
        if self._address and self._every_s:
            self._go_on()

    def stopping(self) -> None:
        """Notify that the service ends. It stays alive meanwhile."""
        self._send("STOPPING=1")

    def _go_on(self) -> None:
        self._send("WATCHDOG=1")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._every_s, self._go_on)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        # A name in the abstract namespace starts with @.
        address = self._address
        if address.startswith("@"):
            address = f"\0{address[1:]}"
        with (
            suppress(OSError),  # systemd will notice by itself
            socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
            ) as sent,
        ):
            sent.sendto(state.encode(), address)
