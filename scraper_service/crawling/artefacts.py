"""Stores files of pages, such as screenshots, or embeds them in the page."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING

from scraper_service.storage.connections import before
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import KINDS, Artefacts
from scraper_service.storage.jobs.job_records import LOCAL_TEAM
from scraper_service.storage.secrets import key_secret
from scraper_service.storage.transactions import DAY_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.settings import BaseSettings

    from scraper_service.options.scrape import ScrapeOptions


def keeper(
    settings: BaseSettings, request: Request, options: ScrapeOptions
) -> Callable[[bytes, str], Awaitable[str]]:
    """Return a function that stores a file of a page, given its bytes and kind.

    The function returns the URL of the file: a signed URL, or a ``data:`` URL if the file
    must not be kept or no service serves it. Raises :exc:`ServiceUnavailable` if the database
    did not respond within the time of the page.
    """
    is_served = request.meta.get("team_id") not in {None, LOCAL_TEAM}
    is_inline = settings["ARTEFACTS"] == "inline"
    if is_inline or not is_served or options.zero_data_retention:
        return _data_url

    ask_on = before(request.meta.get("deadline", 0.0))

    async def keep(data: bytes, kind: str) -> str:
        files = shared_artefacts(settings)
        name = await asyncio.to_thread(files.put, data, kind)
        await ask_on(lambda: hold_artefact(settings, name, request))
        return files.address(name)

    return keep


async def hold_artefact(settings: BaseSettings, name: str, request: Request) -> None:
    """Keep a file for as long as the page of ``request`` is stored."""
    job_id = settings.get("JOB_ID") or None
    holder = job_id or request.meta["scrape_id"]
    await Database.shared(settings).write(artefacts.hold, name, holder, job_id)


def shared_artefacts(settings: BaseSettings) -> Artefacts:
    """Return the files in the data directory of the service."""
    folder = Path(settings["DATA_DIR"]) / artefacts.FOLDER
    most_s = settings.getfloat("MAX_RETENTION_DAYS") * DAY_S
    return Artefacts(folder, service_secret(settings), most_s)


def service_secret(settings: BaseSettings) -> bytes:
    """Return the secret for API keys, signed URLs and sessions."""
    return key_secret(Path(settings["DATA_DIR"]), settings["KEY_SECRET"])


async def _data_url(data: bytes, kind: str) -> str:
    encoded = await asyncio.to_thread(base64.b64encode, data)
    return f"data:{KINDS[kind]};base64,{encoded.decode()}"
