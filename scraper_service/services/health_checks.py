"""The checks of the service: database, disk, converters, browser, event loop."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text

from scraper_service.crawling.browser import pool as browser
from scraper_service.crawling.browser.chromium import find_chromium, why_missing
from scraper_service.errors import ServiceUnavailable
from scraper_service.services.health import Check, Unhealthy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection

    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.services.event_loop_lag import LoopLag
    from scraper_service.storage.database import Database

PROBE_BYTES = 4096  # written to the disk
MAX_LAG_MS = 1000.0  # of the event loop, the median of a second
MIB = 2**20


def service_checks(
    settings: BaseSettings, database: Database, pool: ConverterPool, lag: LoopLag
) -> Iterator[Check]:
    """Yield the checks of a process that answers requests."""

    async def check_database() -> None:
        try:
            await database.read(_read_something)
            await database.write_apart(_read_something)
        except ServiceUnavailable as error:
            raise Unhealthy(str(error).rstrip(".")) from error

    folder = Path(settings["DATA_DIR"])
    least = settings.getint("MIN_DISK_MB") * MIB

    async def check_disk() -> None:
        await asyncio.to_thread(_check_disk, folder, least)

    async def check_converters() -> None:
        if (why := pool.fault) is not None:
            raise Unhealthy(why.rstrip("."))

    async def check_lag() -> None:
        if (late_ms := lag.recent_ms()) > MAX_LAG_MS:
            raise Unhealthy(f"the event loop is {late_ms:.0f} ms late")

    yield Check("database", check_database)
    yield Check("disk", check_disk)
    yield Check("converters", check_converters)
    program = find_chromium(settings)
    is_wanted = settings["RENDER"] == "always" or why_missing(settings) is None
    if is_wanted:

        async def check_browser() -> None:
            if (why := why_missing(settings)) is not None:
                raise Unhealthy(why)
            await asyncio.to_thread(_check_program, program)
            for state in browser.SharedBrowser.states():
                if state == browser.RESTARTING:
                    raise Unhealthy("the browser ended, and another one starts")
                if state not in {browser.OK, browser.STARTING}:
                    raise Unhealthy(state)

        yield Check("browser", check_browser)
    yield Check("eventLoop", check_lag)


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
