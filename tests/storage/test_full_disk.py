"""A disk that takes no more data is named, whatever was to be stored."""

from __future__ import annotations

import asyncio
import errno

import pytest
from sqlalchemy import text

from scraper_service.errors import DiskFull, StoreUnavailable, unwritable
from scraper_service.storage.database import Database
from scraper_service.storage.files.blob_stores import FileStore
from tests.support.disk import fill, small_disk


def test_a_database_without_space_raises_DiskFull(tmp_path):
    def grow(connection):
        connection.execute(text("CREATE TABLE large (x)"))
        connection.execute(text("INSERT INTO large VALUES (zeroblob(30000000))"))

    with small_disk(tmp_path / "disk") as folder:
        database = Database(folder)
        with pytest.raises(DiskFull, match="disk of the service is full"):
            asyncio.run(database.write(grow))
        database.close()


def test_a_file_without_space_raises_DiskFull_and_leaves_no_partial_file(tmp_path):
    with small_disk(tmp_path / "disk", 2) as folder:
        store = FileStore(folder / "files")
        with pytest.raises(DiskFull):
            asyncio.run(store.put("abc.png", bytes(3 * 2**20)))
        assert [path for path in folder.rglob("*") if path.is_file()] == []
        asyncio.run(store.put("abc.png", bytes(2**20)))
        fill(folder / "filler")
        with pytest.raises(DiskFull):
            asyncio.run(store.put("abd.png", bytes(2**20)))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_quota_is_a_full_disk(number):
    assert isinstance(unwritable(OSError(number, "no")), DiskFull)


def test_another_failure_of_a_file_is_named():
    error = unwritable(PermissionError(errno.EACCES, "Permission denied"))
    assert isinstance(error, StoreUnavailable)
    assert "Permission denied" in str(error)
