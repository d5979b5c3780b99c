"""Uploads in two steps, as every database has to keep them."""

from __future__ import annotations

import asyncio
import io
import os
import time

import pytest
from sqlalchemy import update

from scraper_service.errors import (
    DiskQuotaExceeded,
    QueueFull,
    UploadMissing,
    UploadNotFound,
    UploadUsed,
)
from scraper_service.items import Upload
from scraper_service.storage.database import Database
from scraper_service.storage.files.uploads import (
    FOLDER,
    LIFE_S,
    MAX_OPEN,
    MAX_STORED,
    Uploads,
)
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import upload

TEAM, OTHER = "team", "other"
BODY = b"the bytes"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """A job database in a folder, where the bytes are."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_tables")()
    opened = Database(tmp_path, url)
    yield opened
    opened.close()


@pytest.fixture
def uploads(database):
    for name in (TEAM, OTHER):
        database.write_blocking(job_rows.make_team, name)
    return Uploads(database)


def files(database):
    folder = database.data_dir / FOLDER
    return sorted(folder.iterdir()) if folder.exists() else []


def test_each_step_works_once_however_many_try(database, uploads):
    async def run():
        opened = await uploads.open(TEAM, "a.txt", "text/plain")
        with pytest.raises(UploadMissing):
            await uploads.take(opened.ref, TEAM)
        sent = await asyncio.gather(
            *(uploads.store(opened.token, io.BytesIO(BODY)) for _ in range(6)),
            return_exceptions=True,
        )
        assert sum(each is None for each in sent) == 1
        assert sum(isinstance(each, UploadUsed) for each in sent) == 5
        assert [path.read_bytes() for path in files(database)] == [BODY]
        with pytest.raises(UploadNotFound):
            await uploads.take(opened.ref, OTHER)
        taken = await asyncio.gather(
            *(uploads.take(opened.ref, TEAM) for _ in range(6)), return_exceptions=True
        )
        assert taken.count(Upload("a.txt", "text/plain", BODY)) == 1
        assert sum(isinstance(each, UploadNotFound) for each in taken) == 5
        assert files(database) == []
        with pytest.raises(UploadNotFound):
            await uploads.store(opened.token, io.BytesIO(BODY))

    asyncio.run(run())


def test_expired_uploads_and_orphaned_files_are_deleted(database, uploads):
    async def run():
        kept, late, empty = [await uploads.open(TEAM, "a", "x/y") for _ in range(3)]
        for each in (kept, late):
            await uploads.store(each.token, io.BytesIO(BODY))

        def age(connection):
            which = upload.c.id.in_((late.ref, empty.ref))
            earlier = upload.c.expires_at - LIFE_S
            connection.execute(update(upload).where(which).values(expires_at=earlier))

        await database.write(age)
        with pytest.raises(UploadNotFound):
            await uploads.take(late.ref, TEAM)
        with pytest.raises(UploadNotFound):
            await uploads.store(empty.token, io.BytesIO(BODY))
        await uploads.expire()  # the files are new, and may still get their rows
        assert len(files(database)) == 2
        past = time.time() - 3600
        for path in files(database):
            os.utime(path, (past, past))
        await uploads.expire()
        assert len(files(database)) == 1
        assert (await uploads.take(kept.ref, TEAM)).body == BODY

    asyncio.run(run())


def test_a_team_has_a_limited_number(uploads):
    async def run():
        opened = [await uploads.open(TEAM, "a", "x/y") for _ in range(MAX_OPEN)]
        with pytest.raises(QueueFull):
            await uploads.open(TEAM, "a", "x/y")
        await uploads.open(OTHER, "a", "x/y")
        await uploads.store(opened[0].token, io.BytesIO(BODY))
        await uploads.take(opened[0].ref, TEAM)
        await uploads.open(TEAM, "a", "x/y")

    asyncio.run(run())


def test_parallel_uploads_stay_within_number_and_quota(database):
    database.write_blocking(job_rows.make_team, TEAM)
    uploads = Uploads(database, usual_mb=1)

    async def run(count, body):
        opened = [await uploads.open(TEAM, "a", "x/y") for _ in range(count)]
        return await asyncio.gather(
            *(uploads.store(each.token, io.BytesIO(body)) for each in opened),
            return_exceptions=True,
        )

    sent = asyncio.run(run(MAX_STORED + 15, BODY))
    assert sum(each is None for each in sent) == MAX_STORED
    assert sum(isinstance(each, QueueFull) for each in sent) == 15
    database.write_blocking(job_rows.make_team, OTHER)


def test_a_team_at_its_disk_quota_cannot_upload(database):
    database.write_blocking(job_rows.make_team, TEAM)
    uploads = Uploads(database, usual_mb=1)

    async def run():
        opened = [await uploads.open(TEAM, "a", "x/y") for _ in range(6)]
        return await asyncio.gather(
            *(uploads.store(each.token, io.BytesIO(bytes(2**20))) for each in opened),
            return_exceptions=True,
        )

    sent = asyncio.run(run())
    assert sum(each is None for each in sent) == 1
    assert sum(isinstance(each, DiskQuotaExceeded) for each in sent) == 5
    assert len(files(database)) == 1
