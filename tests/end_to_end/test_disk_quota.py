"""The bytes that teams have stored are counted exactly, and limited."""

from __future__ import annotations

import random
import urllib.request

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.support.crash import kill, sqlite_of
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until

MIB = 2**20
# What is stored of a team, as the tables have it. Deleted jobs count no more.
STORED = """
SELECT
    (SELECT COALESCE(SUM(LENGTH(p.body)), 0) FROM page p JOIN job j ON j.number = p.job_number
        WHERE j.expires_at > 0)
    + (SELECT COALESCE(SUM(LENGTH(s.head) + LENGTH(s.body)), 0) FROM page_source s
        JOIN job j ON j.number = s.job_number WHERE j.expires_at > 0)
    + (SELECT COALESCE(SUM(LENGTH(body)), 0) FROM scrape)
    + (SELECT COALESCE(SUM(size), 0) FROM upload)
    + (SELECT COALESCE(SUM(LENGTH(o.result)), 0) FROM operation o
        JOIN job j ON j.id = o.job_id WHERE j.expires_at > 0)
"""
COUNTED = "SELECT COALESCE(SUM(bytes), 0) FROM disk_use"
OF_JOBS = "SELECT COALESCE(SUM(stored), 0) FROM job"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """The URL of an empty database, and the settings that name it."""
    if request.param == "sqlite":
        return sqlite_of(tmp_path), {}
    address = request.getfixturevalue("postgres_tables")()
    return address, {"SCRAPER_DATABASE_URL": address}


def scalar(address, query):
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return int(connection.scalar(sa.text(query)))


def noise(seed, size):
    """Return text that hardly gets smaller when it is compressed."""
    return random.Random(seed).randbytes(size).hex()


@pytest.fixture
def run(tmp_path, database):
    def call(*arguments):
        _, settings = database
        found = [f"DATABASE_URL={url}" for url in settings.values()]
        chosen = [part for each in found for part in ("-s", each)]
        command = [*chosen, *arguments, "--data-dir", str(tmp_path)]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    return call


@pytest.fixture
def pages():
    """A start page with links to 30 pages of some 60 kB."""
    paths = [f"/{n}" for n in range(30)]
    answers = {path: page(text=noise(path, 30_000)) for path in paths}
    with ScriptedSite({"/": page(*paths), **answers}) as site:
        yield site


def status_of(service, job_id, key):
    return service.get(f"/v2/crawl/{job_id}", key=key).json


def used(service, key):
    return service.get("/v2/team/disk-usage", key=key).json["data"]


def test_stored_bytes_are_counted_exactly(start_service, database, run, pages):
    address, settings = database
    key = run("keys", "create")
    service = start_service(**settings)

    def equal():
        assert scalar(address, COUNTED) == scalar(address, STORED)
        assert used(service, key)["usedBytes"] == scalar(address, COUNTED)
        return scalar(address, COUNTED)

    assert equal() == 0
    body = {"url": pages.url("/"), "limit": 12, "keepSources": True}
    job_id = service.post("/v2/crawl", body, key=key).json["id"]
    wait_until(lambda: status_of(service, job_id, key)["status"] == "completed")
    of_crawl = equal()
    assert of_crawl > 12 * 25_000
    details = service.get(f"/v2/jobs/{job_id}", key=key).json
    assert details["data"]["storedBytes"] == of_crawl
    scrape = {"url": pages.url("/20"), "maxAge": 0}
    reply = service.post("/v2/scrape", scrape, key=key)
    call_id = reply.json["data"]["metadata"]["scrapeId"]
    wait_until(lambda: scalar(address, COUNTED) > of_crawl)
    with_scrape = equal()
    hidden = {**scrape, "zeroDataRetention": True}
    assert service.post("/v2/scrape", hidden, key=key).status == 200
    assert equal() == with_scrape
    asked = {"filename": "a.txt", "contentType": "text/plain"}
    opened = service.post("/v2/parse/upload-url", asked, key=key).json["data"]
    sent = urllib.request.Request(opened["uploadUrl"], b"x" * 5000, method="PUT")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sent).close()
    assert equal() == with_scrape + 5000
    parse = {"uploadRef": opened["uploadRef"], "zeroDataRetention": True}
    assert service.post("/v2/parse", parse, key=key).status == 200
    assert equal() == with_scrape
    assert service.request("DELETE", f"/v2/jobs/{job_id}", key=key).status == 200
    assert used(service, key)["usedBytes"] == with_scrape - of_crawl
    wait_until(lambda: scalar(address, "SELECT COUNT(*) FROM page") == 0)
    assert equal() == with_scrape - of_crawl
    assert service.request("DELETE", f"/v2/jobs/{call_id}", key=key).status == 200
    assert equal() == 0


@pytest.mark.full
def test_expired_data_leaves_the_disk_use(start_service, database, run, pages):
    address, settings = database
    service = start_service(**settings)
    body = {"urls": [pages.url("/1"), pages.url("/2")], "retentionDays": 0.01}
    job_id = service.post("/v2/batch/scrape", body).json["id"]
    path = f"/v2/batch/scrape/{job_id}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    scrape = {"url": pages.url("/3"), "maxAge": 0, "retentionDays": 0.01}
    assert service.post("/v2/scrape", scrape).status == 200
    wait_until(lambda: scalar(address, "SELECT COUNT(*) FROM scrape") == 1)
    assert scalar(address, COUNTED) == scalar(address, STORED) > 0
    service.stop()
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE job SET expires_at = expires_at - 9999"))
        connection.execute(sa.text("UPDATE scrape SET expires_at = expires_at - 9999"))
    run("gc")
    assert scalar(address, "SELECT COUNT(*) FROM page") == 0
    assert scalar(address, COUNTED) == 0
    # The rows are joined to one, so that a read stays cheap.
    assert scalar(address, "SELECT COUNT(*) FROM disk_use") <= 1


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
def test_the_count_is_exact_after_crashes(start_service, database, pages):
    address, settings = database
    settings = {**settings, "SCRAPER_LEASE_S": "1"}
    service = start_service(**settings)
    body = {"url": pages.url("/"), "limit": 31, "maxConcurrency": 3}
    job_id = service.post("/v2/crawl", body).json["id"]
    path = f"/v2/crawl/{job_id}"

    def has(count):
        return service.get(path).json["completed"] >= count

    for enough in (2, 8, 16):
        wait_until(lambda n=enough: has(n))
        kill(service)
        assert scalar(address, COUNTED) == scalar(address, STORED)
        assert scalar(address, OF_JOBS) == scalar(address, STORED)
        service = start_service(**settings)
    wait_until(lambda: service.get(path).json["status"] == "completed")
    assert service.get(path).json["completed"] == 31
    assert scalar(address, COUNTED) == scalar(address, STORED)
    assert scalar(address, OF_JOBS) == scalar(address, STORED)


@pytest.mark.full
@pytest.mark.slow_on("sqlite")
def test_a_job_pauses_at_the_disk_quota_and_resumes(
    start_service, database, run, pages
):
    _, settings = database
    key = run("keys", "create", "--team", "small", "--disk-mb", "1")
    service = start_service(**settings)
    body = {
        "url": pages.url("/"),
        "limit": 31,
        "delay": 0.2,  # there are pages left when the quota is looked at
        "keepSources": True,
        "scrapeOptions": {"formats": ["markdown", "rawHtml"], "maxAge": 0},
    }
    job_id = service.post("/v2/crawl", body, key=key).json["id"]
    job_path = f"/v2/jobs/{job_id}"

    def job():
        return service.get(job_path, key=key).json["data"]

    wait_until(lambda: job()["state"] == "paused")
    assert "the disk quota of the team, 1 MiB, is used up" in job()["warning"]
    found = used(service, key)
    assert found["limitBytes"] == MIB
    assert found["usedBytes"] >= MIB
    stored = status_of(service, job_id, key)["completed"]
    assert 0 < stored < 31
    scrape = {"url": pages.url("/1"), "maxAge": 0}
    upload = {"filename": "a.txt", "contentType": "text/plain"}
    calls = {
        "/v2/scrape": scrape,
        "/v1/scrape": {"url": pages.url("/1")},
        "/v2/crawl": {"url": pages.url("/1")},
        "/v2/batch/scrape": {"urls": [pages.url("/1")]},
        "/v2/extract": {"urls": [pages.url("/1")], "prompt": "the title"},
        "/v2/parse/upload-url": upload,
    }
    for path, sent in calls.items():
        reply = service.post(path, sent, key=key)
        assert reply.status == 402, (path, reply)
        assert reply.json["code"] == "DISK_QUOTA_EXCEEDED"
        assert (
            "of 1.0 MiB are stored. Delete jobs with DELETE /v2/jobs"
            in reply.json["error"]
        )
    hidden = {**scrape, "zeroDataRetention": True}
    assert service.post("/v2/scrape", hidden, key=key).status == 200
    assert service.post("/v2/map", {"url": pages.url("/")}, key=key).status == 200
    go_on = {"paused": False}
    reply = service.request("PATCH", f"/v2/crawl/{job_id}", go_on, key=key)
    assert (reply.status, reply.json["code"]) == (402, "DISK_QUOTA_EXCEEDED")
    # Another team is not affected, and nothing was lost.
    assert service.post("/v2/scrape", scrape).status == 200
    assert status_of(service, job_id, key)["completed"] >= stored
    run("teams", "set", "small", "--disk-mb", "100")

    def goes_on():
        sent = service.request("PATCH", f"/v2/crawl/{job_id}", go_on, key=key)
        return sent.status == 200

    wait_until(goes_on)  # a key is remembered for a second
    wait_until(lambda: status_of(service, job_id, key)["status"] == "completed")
    assert status_of(service, job_id, key)["completed"] == 31


def test_the_quota_of_the_settings_is_for_all_teams_but_those_with_their_own(
    start_service, database, run
):
    _, settings = database
    keys = {
        limit: run("keys", "create", "--disk-mb", limit)
        for limit in ("default", "unlimited", "7")
    }
    service = start_service(SCRAPER_TEAM_DISK_MB="3", **settings)
    found = {limit: used(service, key)["limitBytes"] for limit, key in keys.items()}
    assert found == {"default": 3 * MIB, "unlimited": None, "7": 7 * MIB}
    listed = run("teams", "list").splitlines()
    ends = [line.rpartition("  ")[2] for line in listed[:3]]
    assert ends == [
        "disk 0.0 MiB of default",
        "disk 0.0 MiB of unlimited",
        "disk 0.0 MiB of 7 MiB",
    ]
    assert "scraper_team_stored_bytes 0.0" in metrics_of(service)


def metrics_of(service):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{service.url}/metrics") as response:
        return response.read().decode()
