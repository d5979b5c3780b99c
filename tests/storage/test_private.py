"""Who may read what the service keeps."""

from __future__ import annotations

import asyncio
import re
import stat
from contextlib import closing

import pytest

from scraper_service import settings
from scraper_service.storage.database import Database
from scraper_service.storage.files.artefacts import FOLDER, Artefacts
from scraper_service.storage.secrets import key_secret, public_environment


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_mask(tmp_path):
    tmp_path.chmod(0o755)


def fill(folder):
    """Have all that a service keeps in a folder be made, or opened."""
    key_secret(folder)
    with closing(Database(folder)) as database:
        database.write_blocking(lambda c: c.exec_driver_sql("SELECT 1"))
        asyncio.run(Artefacts(folder / FOLDER, b"").put(b"a picture", "png"))
        return {path.name: mode(path) for path in folder.rglob("*")}


def test_created_files_are_readable_by_their_user_only(tmp_path):
    folder = tmp_path / "data"
    found = fill(folder)
    assert mode(folder) == 0o700
    assert {"jobs.sqlite", "jobs.sqlite-wal", "jobs.sqlite-shm"} <= found.keys()
    assert {name: oct(m) for name, m in found.items() if m & 0o077} == {}
    assert mode(tmp_path) == 0o755


def test_files_of_older_versions_are_made_private(tmp_path):
    folder = tmp_path / "data"
    fill(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    fill(folder)
    assert mode(folder) == 0o700
    for name in ("jobs.sqlite", "key.secret"):
        assert mode(folder / name) == 0o600


def test_a_folder_with_other_things_keeps_its_mode(tmp_path):
    (tmp_path / "pages.jsonl").touch()
    found = fill(tmp_path)
    assert mode(tmp_path) == 0o755
    opened = {name for name, each in found.items() if each & 0o077}
    assert opened == {"pages.jsonl"}


def test_secrets_of_settings_are_kept_from_other_processes(monkeypatch):
    """A process that converts pages gets no key of a search engine that was added."""
    secret = re.compile(r"_(KEY|KEYS|SECRETS?|PASSWORD|DSN)$|^PROXIES$")
    names = [
        f"SCRAPER_{name}"
        for name, value in vars(settings).items()
        if secret.search(name) and not isinstance(value, int)
    ]
    assert len(names) > 6
    for name in names:
        monkeypatch.setenv(name, "secret")
    assert public_environment().keys() & set(names) == set()
