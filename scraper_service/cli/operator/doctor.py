"""The checks of `scraper-service doctor`."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import Settings

    from scraper_service.storage.files.blob_stores import ObjectStore


LOW_SPACE_BYTES = 2**30
PROBE_S = 2.0  # for an answer of what listens on the port


@frozen
class Check:
    """The result of a check."""

    name: str
    #: ``works``, ``missing`` (an optional part) or ``fails``.
    state: str
    #: The finding, with a remedy for a failure.
    text: str


def checks(settings: Settings) -> Iterator[Check]:
    """Run the checks, and yield the result of each."""
    yield _interpreter()
    yield _extension()
    yield _data_directory(Path(settings["DATA_DIR"]))
    yield _database(settings)
    yield _artefact_store(settings)
    yield _port(settings["HOST"], settings.getint("PORT"))
    yield _resolution(settings)
    yield _egress(settings.getlist("EGRESS_ALLOW"))
    yield _browser(settings)
    yield _authorities()
    yield _code(settings)
    yield _model(settings)
    yield _search(settings)
    yield _exports()
    yield _environment()


def _interpreter() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):  # noqa: UP036   # pip can be made to ignore it
        return Check("python", "fails", f"{version} is too old; install 3.11 or later")
    return Check("python", "works", version)


def _extension() -> Check:
    from scraper_service.content.passes import compiled, why_unfit

    name = "compiled extension"
    if compiled is None:
        state = f"does not fit ({why_unfit})" if why_unfit else "not compiled"
        text = (
            f"{state}, so pages take about a third longer; install a C compiler,"
            " then this package again"
        )
        return Check(name, "missing", text)
    return Check(name, "works", "pages are converted with compiled code")


def _data_directory(path: Path) -> Check:
    name = "data directory"
    existing = next(p for p in (path, *path.absolute().parents) if _exists(p))
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        text = f"{existing} cannot be written; choose another with --data-dir"
        return Check(name, "fails", text)
    free = shutil.disk_usage(existing).free
    text = f"{path}, {free / 2**30:.1f} GiB free"
    if free < LOW_SPACE_BYTES:
        return Check(name, "fails", f"{text}; free some space, or choose another")
    return Check(name, "works", text)


def _exists(path: Path) -> bool:
    """Return True if a path exists, as far as this user may look."""
    try:
        return path.exists()
    except PermissionError:
        return False


def _database(settings: Settings) -> Check:
    from scraper_service.errors import DatabaseUnusable
    from scraper_service.storage.database import Database

    path, url = Path(settings["DATA_DIR"]), settings["DATABASE_URL"]
    if not url and not _exists(path / "jobs.sqlite"):
        return Check(
            "job database", "works", "does not exist yet; the first start creates it"
        )
    try:
        Database(path, url, settings["KEY_SECRET"]).close()
    except DatabaseUnusable as error:
        return Check("job database", "fails", str(error))
    return Check("job database", "works", "opens, and its tables are up to date")


def _artefact_store(settings: Settings) -> Check:
    from scraper_service.crawling.artefacts import object_store
    from scraper_service.errors import StoreUnavailable
    from scraper_service.storage.files.artefacts import FOLDER

    name = "artefact store"
    try:
        store = object_store(settings)
        if store is None:
            folder = Path(settings["DATA_DIR"]) / FOLDER
            return Check(name, "works", f"screenshots and PDFs are kept in {folder}")
        whose = asyncio.run(_try_store(store, settings))
    except (StoreUnavailable, ValueError) as error:
        text = f"{error} See SCRAPER_ARTEFACT_STORE and the variables of the store"
        return Check(name, "fails", text)
    return Check(name, "works", f"{store.url} takes files, and belongs to {whose}")


async def _try_store(store: ObjectStore, settings: Settings) -> str:
    """Return whose prefix an object storage is, which takes a file.

    Raises :exc:`StoreUnavailable`, also for the prefix of another job database.
    """
    from scraper_service.errors import StoreUnavailable
    from scraper_service.storage.files.artefacts import owner_of
    from scraper_service.storage.files.blob_stores import FOREIGN
    from scraper_service.storage.secrets import KEY_FILE, key_secret

    owner = await store.owner()
    if owner is not None:
        path, secret = Path(settings["DATA_DIR"]), settings["KEY_SECRET"]
        has_secret = bool(secret) or _exists(path / KEY_FILE)  # else it would be made
        if not has_secret or owner != owner_of(key_secret(path, secret)):
            raise StoreUnavailable(FOREIGN.format(store.url))
    await store.try_out(f"doctor-{uuid.uuid4()}")
    return "nobody yet" if owner is None else "this job database"


def _port(host: str, port: int) -> Check:
    from scraper_service.errors import listen_error

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if _is_ours(host, port):
                return Check("port", "works", f"a service listens on {host}:{port}")
            return Check("port", "fails", listen_error(host, port, error))
    return Check("port", "works", f"{host}:{port} is free")


def _is_ours(host: str, port: int) -> bool:
    """Return True if a service answers at an address of this machine."""
    at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    connection = http.client.HTTPConnection(at, port, timeout=PROBE_S)
    try:
        connection.request("GET", "/health/ready")
        return "schemaVersion" in json.loads(connection.getresponse().read(10_000))
    except (OSError, ValueError, http.client.HTTPException, TypeError):
        return False
    finally:
        connection.close()


def _resolution(settings: Settings) -> Check:
    from scraper_service.discovery.outgoing_requests import OutgoingProxy

    try:
        socket.getaddrinfo("example.org", 443)
    except OSError as error:
        if OutgoingProxy.from_settings(settings).to("https://example.org/"):
            text = (
                "example.org does not resolve here; the outgoing proxy resolves names"
            )
            return Check("names", "works", text)
        text = (
            f"example.org does not resolve ({error}); pages with a host name will fail."
        )
        return Check("names", "fails", f"{text} Check /etc/resolv.conf and the network")
    return Check("names", "works", "example.org resolves")


def _egress(entries: list[str]) -> Check:
    from scraper_service.crawling.egress import EgressPolicy

    try:
        EgressPolicy(entries)
    except ValueError as error:
        return Check("egress", "fails", str(error))
    beside = f" and {', '.join(entries)}" if entries else ""
    return Check("egress", "works", f"pages come from the public internet{beside}")


def _browser(settings: Settings) -> Check:
    from scraper_service.crawling.browser.chromium import (
        find_chromium,
        why_missing,
    )

    if missing := why_missing(settings):
        text = f"screenshots, actions and scripts do not work: {missing}"
        return Check("browser", "missing", text)
    path = find_chromium(settings) or ""
    try:
        done = subprocess.run(  # noqa: S603  # the operator's own browser
            (path, "--version"), capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        text = (
            f"{path} does not run ({error}); reinstall it, or see SCRAPER_CHROMIUM_PATH"
        )
        return Check("browser", "fails", text)
    return Check("browser", "works", f"{path}, {done.stdout.strip()}")


def _authorities() -> Check:
    from scraper_service.crawling.browser.chromium import why_authorities_missing

    name = "browser authorities"
    if missing := why_authorities_missing():
        text = f"rendered pages trust only the certificate authorities of the browser: {missing}"
        return Check(name, "missing", text)
    return Check(
        name,
        "works",
        "rendered pages trust the certificate authorities of this machine",
    )


def _code(settings: Settings) -> Check:
    from scraper_service.services.browser_sessions.caller_code import CallerCode

    name = "code of callers"
    code = CallerCode(settings)
    if not code.languages:
        return Check(name, "missing", "off (SCRAPER_INTERACT_CODE)")
    for language in code.languages:
        if why := asyncio.run(code.why_off(language)):
            return Check(name, "fails", f"{language}: {why}")
    text = f"{' and '.join(code.languages)} can be isolated by bubblewrap"
    return Check(name, "works", text)


def _model(settings: Settings) -> Check:
    from scraper_service.llm.model import ModelError, language_model

    name = "language model"
    try:
        model = language_model(settings)
    except ValueError as error:
        return Check(
            name, "fails", f"{error}; name a class, such as package.module.Class"
        )
    if model is None:
        text = (
            "none (SCRAPER_LLM_BASE_URL); rules make json and summary, with a warning"
        )
        return Check(name, "missing", text)
    where = url_parts(settings["LLM_BASE_URL"]).netloc
    try:
        return Check(name, "works", f"{asyncio.run(model.check())} at {where}")
    except ModelError as error:
        text = f"{settings['LLM_MODEL']} at {where}: {error.reason}; see"
        text += " SCRAPER_LLM_BASE_URL,"
        return Check(name, "fails", f"{text} SCRAPER_LLM_MODEL and SCRAPER_LLM_API_KEY")


def _search(settings: Settings) -> Check:
    from scraper_service.search_engines.search_engine import OWN, load_providers

    try:
        names = [provider.name for provider in load_providers(settings)]
    except ValueError as error:
        return Check("search", "fails", str(error))
    if names == [OWN]:
        text = "finds only pages that were scraped before; see SCRAPER_SEARXNG_URL, or"
        return Check(
            "search", "missing", f"{text} pip install 'scraper-service[search]'"
        )
    engines = ", ".join("scraped pages" if n == OWN else n for n in names)
    return Check("search", "works", f"uses {engines}, in this order")


def _exports() -> Check:
    from scraper_service.exports.formats import FORMATS

    missing = [f"{k}: {each.missing}" for k, each in FORMATS.items() if each.missing]
    if missing:
        return Check("exports", "missing", "; ".join(missing))
    return Check("exports", "works", f"jobs become {', '.join(FORMATS)}")


def _environment() -> Check:
    from scraper_service.settings import unknown_settings

    if unknown := unknown_settings():
        return Check("environment", "fails", unknown)
    return Check("environment", "works", "every SCRAPER_... variable is a setting")
