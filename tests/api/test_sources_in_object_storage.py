"""Responses that jobs keep, in the object storage of the operator, through the service."""

from __future__ import annotations

import asyncio
import random
import socket
import time

import pytest
import sqlalchemy as sa
from scrapy.settings import Settings

from scraper_service.content.stored_pages import StoredResponse
from scraper_service.crawling.download.stored_responses import KeptSources
from scraper_service.crawling.page_errors import SourceMissing, page_error
from scraper_service.storage.database import Database
from scraper_service.storage.files.artefacts import Artefacts
from scraper_service.storage.files.blob_stores import ObjectStore
from scraper_service.storage.files.page_sources import name_of
from scraper_service.storage.secrets import key_secret
from tests.api.test_archives import crawl, records
from tests.api.test_exports import fetch, finish
from tests.api.test_metrics import read
from tests.cli.command import run
from tests.conftest import Service, _stop
from tests.support.crash import sqlite_of
from tests.support.object_storage import ObjectStorage
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until


def words(number):
    source = random.Random(number)
    return " ".join(f"{source.randrange(10**6):x}" for _ in range(1500))


SITE = {
    "/": page("/a", "/b", "/small", text=words(0)),
    "/a": page(text=words(1)),
    "/b": page(text=words(2)),
    "/small": page(text="Little."),
}


@pytest.fixture(scope="module")
def storage():
    with ObjectStorage() as server:
        yield server


@pytest.fixture(scope="module")
def running(tmp_path_factory, storage):
    data = tmp_path_factory.mktemp("sources")
    url = f"s3://{storage.BUCKET}/sources"
    found = Service(data, SCRAPER_ARTEFACT_STORE=url, **storage.environment)
    found.data_dir = data
    yield found
    _stop(found)


@pytest.fixture
def site():
    with ScriptedSite(SITE) as found:
        yield found


def rows(service, query, **values):
    engine = sa.create_engine(sqlite_of(service.data_dir), poolclass=sa.NullPool)
    with engine.connect() as connection:
        found = connection.execute(sa.text(query), values).all()
    engine.dispose()
    return found


def stored(service, job_id):
    """Return the rows of the responses of a job: bytes of their bodies, hash and length."""
    return rows(
        service,
        "SELECT length(body) AS bytes, digest, length FROM page_source"
        " JOIN job ON job.number = job_number WHERE job.id = :job ORDER BY 3",
        job=job_id,
    )


def test_the_command_line_exports_stored_responses_while_the_service_runs(
    running, storage, site, tmp_path
):
    job_id = crawl(running, site.url("/"))
    done = run(
        *(tmp_path, "jobs", "export", job_id, "-o", "x.warc.gz"),
        *("--data-dir", running.data_dir),
        SCRAPER_ARTEFACT_STORE=f"s3://{storage.BUCKET}/sources",
        **storage.environment,
    )
    assert done.returncode == 0, done.stderr
    assert "4 pages of a job that is completed" in done.stderr
    archive = (tmp_path / "x.warc.gz").read_bytes()
    assert archive == fetch(running, job_id, "?format=warc").body
    bodies = [
        data for record, data in records(archive) if record.rec_type == "response"
    ]
    assert sorted(bodies) == sorted(text.encode() for text in SITE.values())


def test_bodies_are_objects_that_archives_and_jobs_read(running, storage, site):
    job_id = crawl(running, site.url("/"))
    found = stored(running, job_id)
    small, *large = found
    assert small.bytes > 0
    assert small.digest is small.length is None
    assert [row.bytes for row in large] == [0] * 3
    for row in large:
        data = storage.data(f"sources/{name_of(row.digest)}")
        assert len(data) == row.length > 2048
    archive = fetch(running, job_id, "?format=warc").body
    bodies = [
        data for record, data in records(archive) if record.rec_type == "response"
    ]
    assert sorted(bodies) == sorted(text.encode() for text in SITE.values())
    path = f"/v2/crawl/{job_id}/reprocess"
    asked, before = {"formats": ["links"]}, site.paths()
    again = finish(running, running.post(path, asked).json["id"])
    pages = running.get(f"/v2/crawl/{again}").json
    assert pages["completed"] == 4
    assert sorted(len(each["links"]) for each in pages["data"]) == [0, 0, 0, 3]
    assert site.paths() == before
    # The same bytes are the same object, and count for both jobs.
    assert [row.digest for row in stored(running, again)] == [
        row.digest for row in found
    ]
    for each in (job_id, again):
        [counted] = rows(
            running,
            "SELECT stored, (SELECT SUM(LENGTH(body)) FROM page"
            " WHERE job_number = number) + (SELECT SUM(LENGTH(head) + LENGTH(body)"
            " + COALESCE(length, 0)) FROM page_source WHERE job_number = number)"
            " AS whole FROM job WHERE id = :job",
            job=each,
        )
        assert counted.stored == counted.whole > sum(row.length for row in large)


def test_a_crawl_since_another_reads_its_objects(running, site):
    first = crawl(running, site.url("/"))
    second = crawl(running, site.url("/"), since=first)
    pages = running.get(f"/v2/crawl/{second}").json
    assert pages["completed"] == 0
    report = running.get(f"/v2/crawl/{second}/removed").json
    assert (report["unchanged"], report["total"]) == (4, 0)


def test_a_response_that_is_gone_is_left_out(running, storage, site):
    job_id = crawl(running, site.url("/"))
    *_, last = stored(running, job_id)
    storage.call("DELETE", f"{storage.BUCKET}/sources/{name_of(last.digest)}")
    archive = fetch(running, job_id, "?format=warc").body
    kinds = [record.rec_type for record, _ in records(archive)]
    assert kinds.count("response") == 3
    path = f"/v2/crawl/{job_id}/reprocess"
    again = finish(running, running.post(path, {"formats": ["links"]}).json["id"])
    errors = running.get(f"/v2/crawl/{again}/errors").json["errors"]
    assert [error["code"] for error in errors] == ["SOURCE_NOT_STORED"]


@pytest.mark.parametrize("url", ["s3://pages/down", ""], ids=["down", "unset"])
def test_an_unreadable_stored_response_is_an_error_with_its_reason(
    storage, monkeypatch, tmp_path, url
):
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.3:9")  # nobody listens
    settings = {"ARTEFACT_STORE": url, "DATA_DIR": str(tmp_path), "KEY_SECRET": "x"}
    sources = KeptSources(Settings(settings))
    with pytest.raises(SourceMissing) as raised:
        asyncio.run(sources.read(StoredResponse("{}", b"", b"", digest=bytes(32))))
    error = page_error(raised.value)
    why = "server cannot be reached" if url else "set no SCRAPER_ARTEFACT_STORE"
    assert error.code == "SOURCE_NOT_STORED"
    assert "cannot be read now" in error.message
    assert why in error.message


def test_zero_data_retention_stores_no_response(running, storage, site):
    before = set(storage.names())
    with ScriptedSite({"/": page(text=words(9))}) as other:
        job_id = crawl(running, other.url("/"), zeroDataRetention=True)
    assert stored(running, job_id) == []
    assert set(storage.names()) == before


def test_only_objects_of_expired_jobs_are_deleted(running, storage, site, monkeypatch):
    kept = crawl(running, site.url("/"))
    with ScriptedSite({"/": page(text=words(11))}) as other:
        deleted = crawl(running, other.url("/"))
    names = {name_of(row.digest) for row in stored(running, kept) if row.digest}
    [row] = stored(running, deleted)
    running.request("DELETE", f"/v2/jobs/{deleted}")
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(f"s3://{storage.BUCKET}/sources")
    secret = key_secret(running.data_dir, "")
    files = Artefacts(running.data_dir / "artefacts", secret, store=store)
    wait_until(lambda: not stored(running, deleted))  # by the service
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    database = Database(running.data_dir)
    try:
        asyncio.run(files.sweep(database))
    finally:
        database.close()
    left = {name.rpartition("/")[2] for name in storage.names()}
    assert names <= left
    assert name_of(row.digest) not in left


@pytest.mark.full
@pytest.mark.parametrize("kind", ["refuses", "silent"])
def test_a_crawl_goes_on_without_its_object_storage(tmp_path, storage, site, kind):
    listener = socket.create_server(("127.0.0.3", 0))  # which never answers
    port = listener.getsockname()[1]
    if kind == "refuses":
        listener.close()
    service = Service(
        tmp_path,
        **storage.environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.3:{port}"},
        SCRAPER_ARTEFACT_STORE=f"s3://{storage.BUCKET}/down",
    )
    service.data_dir = tmp_path
    try:
        begin = time.monotonic()
        job_id = crawl(service, site.url("/"))
        assert time.monotonic() - begin < 30
        assert all(row.bytes and not row.digest for row in stored(service, job_id))
        assert len(stored(service, job_id)) == 4
        archive = fetch(service, job_id, "?format=warc").body
        kinds = [record.rec_type for record, _ in records(archive)]
        assert kinds.count("response") == 4
        _, _, text = read(service)
        assert 'scraper_kept_responses_total{place="database"}' in text
    finally:
        _stop(service)
        listener.close()
    assert service.stderr.count("stay in the database for now") == 1
