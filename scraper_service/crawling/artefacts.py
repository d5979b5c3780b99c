"""Stores files of pages, such as screenshots, or embeds them in the page."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING

from scraper_service.crawling.page_errors import FileNotStored
from scraper_service.errors import StoreUnavailable
from scraper_service.options.limits import DAY_S
from scraper_service.shared_objects import Singletons
from scraper_service.storage.connections import before
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import KINDS, Artefacts
from scraper_service.storage.files.blob_stores import ObjectStore
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.secrets import key_secret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.settings import BaseSettings

    from scraper_service.crawling.page_state import PageState

_stores: Singletons[ObjectStore] = Singletons()


def keeper(
    settings: BaseSettings, state: PageState
) -> Callable[[bytes, str], Awaitable[str]]:
    """Return a function that stores a file of a page, given its bytes and kind.

    The function returns the URL of the file: a signed URL, or a ``data:`` URL if the file
    must not be kept or no service serves it. Raises :exc:`ServiceUnavailable` if the database
    did not respond in the time of the page, or the disk is full, and
    :exc:`FileNotStored` if the store of files did not take the file.
    """
    is_served = state.team_id not in {None, LOCAL_TEAM}
    is_inline = settings["ARTEFACTS"] == "inline"
    if is_inline or not is_served or state.options.zero_data_retention:
        return _data_url

    ask_on = before(state.deadline)

    async def keep(data: bytes, kind: str) -> str:
        files = shared_artefacts(settings)
        try:
            name = await files.put(data, kind)
        except StoreUnavailable as error:
            raise FileNotStored(str(error)) from error
        await ask_on(lambda: hold_artefact(settings, name, state, len(data)))
        return files.address(name)

    return keep


async def hold_artefact(
    settings: BaseSettings, name: str, state: PageState, size: int
) -> None:
    """Keep a file of ``size`` bytes for as long as its page is stored."""
    database = Database.shared(settings)
    if job_id := settings.get("JOB_ID"):
        await database.write(artefacts.hold_for_job, job_id, name, size)
        return
    holder, team_id = state.scrape_id, state.team_id
    await database.write(artefacts.hold, name, holder, team_id=team_id, size=size)


def shared_artefacts(settings: BaseSettings) -> Artefacts:
    """Return the files of the service, in its data directory or ``ARTEFACT_STORE``.

    Raises :exc:`ValueError` if ``ARTEFACT_STORE`` cannot be used.
    """
    folder = Path(settings["DATA_DIR"]) / artefacts.FOLDER
    store = object_store(settings)
    most_s = settings.getfloat("MAX_RETENTION_DAYS") * DAY_S
    return Artefacts(folder, service_secret(settings), most_s, store)


def object_store(settings: BaseSettings) -> ObjectStore | None:
    """Return the object storage of ``ARTEFACT_STORE``, None without one.

    The first call reads the credentials in the environment. Raises :exc:`ValueError`.
    """
    url = settings["ARTEFACT_STORE"]
    return _stores.get(url, lambda: ObjectStore(url)) if url else None


def service_secret(settings: BaseSettings) -> bytes:
    """Return the secret for API keys, signed URLs and sessions."""
    return key_secret(Path(settings["DATA_DIR"]), settings["KEY_SECRET"])


async def _data_url(data: bytes, kind: str) -> str:
    encoded = await asyncio.to_thread(base64.b64encode, data)
    return f"data:{KINDS[kind]};base64,{encoded.decode()}"
