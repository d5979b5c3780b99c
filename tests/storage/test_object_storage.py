"""Files of pages in the object storage of the operator."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

from scraper_service.errors import StoreUnavailable
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts, blob_stores
from scraper_service.storage.files.artefacts import Artefacts
from scraper_service.storage.files.blob_stores import ObjectStore, check_store_url
from tests.support.azurite import AzureStorage, AzuriteMissing
from tests.support.object_storage import SECRET, GoogleStorage, ObjectStorage

LATER_S = 3600.0


@pytest.fixture(scope="module")
def storage():
    with ObjectStorage() as server:
        yield server


@pytest.fixture
def store(storage, monkeypatch, request):
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectStore(f"s3://{storage.BUCKET}/{request.node.name}")


@pytest.fixture
def database():
    found = Database.in_memory()
    yield found
    found.close()


async def read(files, name):
    size, chunks = await files.get(name)
    data = b"".join([chunk async for chunk in chunks])
    assert len(data) == size
    return data


def test_files_are_stored_below_the_prefix_and_read_in_parts(store, storage, tmp_path):
    data = os.urandom(3 * blob_stores.CHUNK_BYTES)
    files = Artefacts(tmp_path, b"", store=store)

    async def stored():
        name = await files.put(data, "png")
        assert await read(files, name) == data
        _, chunks = await files.get(name)
        assert len([chunk async for chunk in chunks]) > 1
        return name

    name = asyncio.run(stored())
    prefix = store.url.rpartition("/")[2]
    assert storage.data(f"{prefix}/{name}") == data
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["s3", "gs", "az"])
def any_store(request, monkeypatch):
    """A store of each kind, and its server."""
    servers = {"s3": ObjectStorage, "gs": GoogleStorage, "az": AzureStorage}
    try:
        server = servers[request.param]()
    except AzuriteMissing as error:
        pytest.skip(str(error))
    with server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield ObjectStore(f"{server.scheme}://{server.BUCKET}/any"), server


@pytest.mark.full(keep=1)
def test_each_kind_of_store_does_the_same(any_store, tmp_path, monkeypatch):
    store, server = any_store
    files = Artefacts(tmp_path, b"", store=store)
    data = os.urandom(2 * blob_stores.CHUNK_BYTES)
    monkeypatch.setattr(blob_stores, "SLICE", 2)

    async def use():
        await store.check()
        assert await store.owner() is None
        names = [await files.put(data, "png"), await files.put(b"", "pdf")]
        assert await store.owner() == artefacts.owner_of(b"")
        assert await files.put(data, "png") == names[0]
        assert await read(files, names[0]) == data
        assert [await store.size(name) for name in names] == [len(data), 0]
        later, listed = time.time() + LATER_S, []
        while found := await store.next_names(later):
            listed += found
        assert sorted(listed) == sorted([*names, "owner"])
        await store.delete([names[0], "gone"], later)
        with pytest.raises(FileNotFoundError):
            await store.get(names[0])
        await store.try_out("a-test")
        return names[1]

    left = asyncio.run(use())
    assert sorted(server.names()) == sorted([f"any/{left}", "any/owner"])
    assert server.data("any/owner").decode() == artefacts.owner_of(b"")
    theirs = Artefacts(tmp_path, b"theirs", store=ObjectStore(store.url))
    with pytest.raises(StoreUnavailable, match="belongs to another job database"):
        asyncio.run(theirs.put(b"theirs", "png"))


def test_a_prefix_belongs_to_one_database(store, database, tmp_path, monkeypatch):
    ours = Artefacts(tmp_path, b"ours", store=store)
    name = asyncio.run(ours.put(b"ours", "png"))
    theirs = Artefacts(tmp_path, b"theirs", store=ObjectStore(store.url))
    with pytest.raises(StoreUnavailable, match="belongs to another job database"):
        asyncio.run(theirs.put(b"theirs", "png"))
    later = time.time() + LATER_S
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(StoreUnavailable, match="SCRAPER_ARTEFACT_STORE"):
        asyncio.run(theirs.sweep(database))
    again = Artefacts(tmp_path, b"ours", store=ObjectStore(store.url))
    assert asyncio.run(read(again, name)) == b"ours"


def test_files_of_the_folder_stay_readable(store, tmp_path):
    async def both():
        name = await Artefacts(tmp_path, b"").put(b"before", "png")
        return await read(Artefacts(tmp_path, b"", store=store), name)

    assert asyncio.run(both()) == b"before"


def test_only_old_files_without_a_row_are_deleted(
    store, database, tmp_path, monkeypatch
):
    files = Artefacts(tmp_path, b"", store=store)
    monkeypatch.setattr(blob_stores, "SLICE", 2)  # several slices

    async def fill():
        names = [await files.put(b"%d" % n, "png") for n in range(5)]
        await store.put("notes.txt", b"of the operator")
        await files.sweep(database)  # too new
        assert [await read(files, name) for name in names] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]
        return names

    held, *free = asyncio.run(fill())
    with database.engine.begin() as connection:
        artefacts.hold(connection, held, "a scrape")
    later = time.time() + LATER_S
    monkeypatch.setattr(time, "time", lambda: later)

    async def left():
        store._listed_at = float("-inf")  # an hour is over
        while await files.sweep(database):
            pass
        found = []
        for name in (held, *free, "notes.txt"):
            try:
                await store.get(name)
                found.append(name)
            except FileNotFoundError:
                continue
        return found

    assert asyncio.run(left()) == [held, "notes.txt"]


def test_a_store_that_is_down_fails_in_time_and_keeps_its_credentials(
    storage, monkeypatch
):
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.3:9")  # nobody listens
    down = ObjectStore("s3://pages/down")
    calls = (
        lambda: down.put("a", b""),
        lambda: down.get("a"),
        lambda: down.next_names(0.0),
        lambda: down.delete(["a"], 0.0),
        down.check,
    )

    async def failure(call):
        with pytest.raises(StoreUnavailable) as raised:
            await call()
        return str(raised.value)

    for call in calls:
        text = asyncio.run(failure(call))
        assert text.startswith("The object storage s3://pages/down did not")
        assert text.endswith(": its server cannot be reached.")
        assert SECRET not in text


def test_a_bucket_that_does_not_exist_is_noticed(storage, monkeypatch):
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    missing = ObjectStore("s3://missing/prefix")
    with pytest.raises(StoreUnavailable, match="bucket does not exist"):
        asyncio.run(missing.put("a", b""))


@pytest.mark.parametrize("url", ["s3://b/p", "s3://b", "gs://b/p", "az://c/p"])
def test_urls_of_all_three_are_accepted(url):
    check_store_url(url)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://b/p", "s3://", "bucket", "file:///tmp"),
        *("s3://id:hidden@b/p", "az://c/p?sig=hidden"),
    ],
)
def test_other_urls_are_refused_without_their_secrets(url):
    with pytest.raises(ValueError, match="SCRAPER_ARTEFACT_STORE must") as raised:
        check_store_url(url)
    assert "hidden" not in str(raised.value)


def test_a_missing_extra_is_named(tmp_path):
    (tmp_path / "obstore.py").write_text("raise ImportError")
    code = (
        "from scraper_service.storage.files.blob_stores import ObjectStore\n"
        "ObjectStore('gs://bucket/prefix')"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = (sys.executable, "-c", code)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert "gs://bucket/prefix needs the extra object-storage" in done.stderr
