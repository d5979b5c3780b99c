"""Files that pages point at: signed, kept while somebody needs them, then deleted."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from scraper_service.options.spider_arguments import batch_options
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import BASE, Artefacts, name_in
from scraper_service.storage.frontier.links import seed_of
from scraper_service.storage.jobs import job_deletion, job_rows
from scraper_service.storage.schema import artefact, job


@pytest.fixture
def files(tmp_path):
    return KeptFiles(tmp_path / "artefacts", b"secret")


@pytest.fixture
def database():
    found = Database.in_memory()
    yield found
    found.close()


class KeptFiles(Artefacts):
    """The files of a folder, for tests without an event loop."""

    def __init__(self, folder, secret):
        super().__init__(folder, secret)
        self.folder = folder

    def put(self, data, kind):
        return asyncio.run(super().put(data, kind))

    def read(self, name):
        async def whole():
            _, chunks = await self.get(name)
            return b"".join([chunk async for chunk in chunks])

        return asyncio.run(whole())

    def path(self, name):
        return self.folder / name[:2] / name


def swept(database, files):
    with database.engine.begin() as connection:
        artefacts.expire(connection)
    assert not asyncio.run(files.sweep(database))


def aged(files, name):
    """Make a file look as if it was stored long ago."""
    os.utime(files.path(name), (0, 0))
    return name


def test_equal_files_are_stored_once(files):
    first, second = files.put(b"a", "png"), files.put(b"a", "png")
    assert first == second
    assert files.read(first) == b"a"
    assert len(list(files.folder.glob("*/*"))) == 1


def test_a_signed_url_is_valid_for_its_file_until_it_expires(files, monkeypatch):
    name = files.put(b"a", "png")
    address = files.address(name)
    assert address.startswith(BASE)
    assert name_in(address) == name
    query = address.partition("?")[2]
    assert files.allows(name, query)
    assert not files.allows(files.put(b"b", "png"), query)
    assert not Artefacts(files.folder, b"other").allows(name, query)
    for bad in ("", "expires=1", "expires=x&signature=y", "signature=\u00e9&expires=9"):
        assert not files.allows(name, bad)
    later = time.time() + 8 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    assert not files.allows(name, query)


def test_a_foreign_file_name_has_no_file(files):
    files.folder.mkdir()
    (files.folder.parent / "key.secret").touch()
    for name in ("", "../key.secret", "a.png", "a" * 64 + ".exe", "/etc/passwd"):
        with pytest.raises(FileNotFoundError):
            files.read(name)


def test_a_file_is_kept_while_a_row_refers_to_the_file(files, database):
    held, free, fresh = (files.put(text, "png") for text in (b"1", b"2", b"3"))
    aged(files, held), aged(files, free)
    with database.engine.begin() as connection:
        artefacts.hold(connection, held, "a scrape")
        artefacts.hold(connection, held, "another scrape", keep_s=-1)
        artefacts.hold(connection, free, "a scrape", keep_s=-1)
    swept(database, files)
    assert files.path(held).exists()
    assert not files.path(free).exists()
    assert files.path(fresh).exists()  # its row may be on the way


def test_a_file_goes_with_its_job(files, database):
    name = aged(files, files.put(b"1", "png"))
    with database.engine.begin() as connection:
        job_rows.make_team(connection, "team")
        options = batch_options({"urls": "https://a.example"})
        made = job_rows.insert_job(connection, "team", seed_of(options), "{}", 2)
        artefacts.hold(connection, name, made.id, made.id)
    swept(database, files)
    assert files.path(name).exists()
    with database.engine.begin() as connection:
        connection.execute(job.update().values(expires_at=0, state="completed"))
        while job_deletion.expire(connection):
            pass
    swept(database, files)
    assert not files.path(name).exists()
    with database.engine.begin() as connection:
        assert connection.execute(artefact.select()).all() == []
