"""Sessions of the browser between processes of one database, and within the credits of a team."""

from __future__ import annotations

import contextlib
import http.client
import sqlite3
import subprocess
import sys
import time
import urllib.parse

import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.browser.conftest import SETTINGS, chromium_processes
from tests.conftest import KEY, Service
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def two_services(tmp_path_factory, postgres):
    """Two services with one database in PostgreSQL."""
    settings = {
        **SETTINGS,
        "SCRAPER_DATABASE_URL": postgres(),
        "SCRAPER_KEY_SECRET": "the secret of both",
        "SCRAPER_BROWSER_SESSIONS": "2",
    }
    names = ("one", "other")
    running = [Service(tmp_path_factory.mktemp(name), **settings) for name in names]
    yield running
    for each in running:
        assert each.stop() == 0, each.stderr
        assert chromium_processes(each.pid) == []


@pytest.fixture(scope="module", autouse=True)
def minute(tmp_path_factory):
    """A service, and a key with the credits of one minute: that of its session.

    It ends while other tests run.
    """
    folder = tmp_path_factory.mktemp("minute")
    running = Service(folder, **{**SETTINGS, "SCRAPER_BROWSER_SESSIONS": "1"})
    made = ("keys", "create", "--team", "exact", "--credits", "2")
    done = CliRunner().invoke(main, [*made, "--data-dir", str(folder)])
    key = done.stdout.strip()
    opened = running.post("/v2/interact", {"ttl": 60, "activityTtl": 60}, key=key)
    assert opened.status == 200, opened.json
    yield running, key
    assert running.stop() == 0, running.stderr


@pytest.mark.full
def test_a_session_is_ended_by_another_process_and_used_by_its_own(two_services, app):
    one, other = two_services
    session_id = one.post("/v2/interact", {"url": app.url("/form")}).json["id"]
    path = f"/v2/interact/{session_id}"
    [row] = other.get("/v2/interact?status=active").json["sessions"]
    assert row["id"] == session_id
    step = {"code": "get title", "language": "bash"}
    assert one.post(f"{path}/execute", step).json["result"] == "Form"
    elsewhere = other.post(f"{path}/execute", step)
    assert elsewhere.status == 409
    assert "another process" in elsewhere.json["error"]
    ended = other.request("DELETE", path).json
    assert (ended["status"], ended["creditsBilled"]) == ("destroyed", 2)
    assert one.request("DELETE", path).json == ended
    assert one.post(f"{path}/execute", step).status == 410


@pytest.mark.full
def test_the_session_limit_and_profiles_of_a_team_apply_to_all_processes(two_services):
    one, other = two_services
    body = {"profile": {"name": "shared"}}
    first = one.post("/v2/interact", body).json["id"]
    assert other.post("/v2/interact", body).status == 409
    second = other.post("/v2/interact", {}).json["id"]
    for each in two_services:
        assert each.post("/v2/interact", {}).status == 429
    one.request("DELETE", f"/v2/interact/{first}")
    other.request("DELETE", f"/v2/interact/{second}")
    third = other.post("/v2/interact", body)
    assert third.status == 200
    other.request("DELETE", f"/v2/interact/{third.json['id']}")


@pytest.mark.full
def test_a_session_needs_the_credits_of_its_whole_time(start_service, tmp_path):
    service = start_service(**SETTINGS)
    made = subprocess.run(
        (
            *(sys.executable, "-m", "scraper_service", "keys", "create"),
            *("--team", "poor", "--credits", "9", "--data-dir", str(tmp_path)),
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    key = made.stdout.split()[-1]
    poor = service.post("/v2/interact", {}, key=key)  # 5 minutes
    assert poor.status == 402
    assert service.get("/v2/interact", key=key).json["sessions"] == []
    opened = service.post("/v2/interact", {"ttl": 240}, key=key)
    assert opened.status == 200, opened.json
    assert left(service, key) == 1
    path = f"/v2/interact/{opened.json['id']}"
    assert service.request("DELETE", path, key=key).json["creditsBilled"] == 2
    wait_until(lambda: left(service, key) == 7)


@pytest.mark.full
def test_a_session_is_over_though_its_team_cannot_pay(start_service, tmp_path):
    """Credits that a team has spent elsewhere, such as after an outage."""
    service = start_service(**SETTINGS, SCRAPER_BROWSER_SESSIONS="1")
    made = ("keys", "create", "--team", "poor", "--credits", "2")
    done = CliRunner().invoke(main, [*made, "--data-dir", str(tmp_path)])
    key = done.stdout.strip()
    body = {"ttl": 60, "profile": {"name": "shop"}}
    opened = service.post("/v2/interact", body, key=key)
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as database:
        database.execute("DELETE FROM hold")
        database.commit()
    path = f"/v2/interact/{opened.json['id']}"
    ended = service.request("DELETE", path, key=key).json
    assert (ended["status"], ended["creditsBilled"]) == ("destroyed", 0)
    [row] = service.get("/v2/interact", key=key).json["sessions"]
    assert row["status"] == "destroyed"
    add = ("teams", "set", "poor", "--add-credits", "2")
    CliRunner().invoke(main, [*add, "--data-dir", str(tmp_path)])
    assert service.post("/v2/interact", body, key=key).status == 200


@pytest.mark.full
def test_a_client_that_leaves_while_its_session_is_stored_keeps_no_slot(
    start_service, tmp_path
):
    service = start_service(**SETTINGS, SCRAPER_BROWSER_SESSIONS="1")
    place = urllib.parse.urlsplit(service.url).netloc
    head = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with contextlib.closing(locked(tmp_path)) as database:
        # Several times: another write of the service may be before that of the session.
        for _ in range(5):
            database.execute("BEGIN IMMEDIATE")
            client = http.client.HTTPConnection(place)
            client.request("POST", "/v2/interact", "{}", head)
            for _ in range(5):  # its turn has come
                assert service.get("/v2/interact").status == 200
            client.close()
            for _ in range(5):
                assert service.get("/v2/interact").status == 200
            database.execute("ROLLBACK")
            time.sleep(0.3)  # what has waited is stored
    wait_until(lambda: service.get("/v2/interact").json["sessions"] == [])
    wait_until(lambda: chromium_processes(service.pid) == [])
    assert service.post("/v2/interact", {}).status == 200


@pytest.mark.full
def test_a_session_whose_end_falls_into_an_outage_of_the_database_is_over(
    start_service, tmp_path
):
    service = start_service(
        **SETTINGS, SCRAPER_BROWSER_SESSIONS="1", SCRAPER_LEASE_S="200"
    )
    opened = service.post("/v2/interact", {"profile": {"name": "shop"}}).json
    path = f"/v2/interact/{opened['id']}"
    with contextlib.closing(locked(tmp_path)) as database:
        database.execute("BEGIN IMMEDIATE")
        ended = service.request("DELETE", path).json  # although it is not stored yet
        assert ended["status"] == "destroyed"
        assert service.request("DELETE", path).json == ended
        assert service.post(f"{path}/execute", {"actions": []}).status == 410
        database.execute("ROLLBACK")

    def status():
        return service.get("/v2/interact").json["sessions"][0]["status"]

    wait_until(lambda: status() == "destroyed")
    assert service.post("/v2/interact", {"profile": {"name": "shop"}}).status == 200


def locked(folder):
    """Return a connection whose ``BEGIN IMMEDIATE`` keeps the service from writing."""
    return sqlite3.connect(folder / "jobs.sqlite", isolation_level=None, timeout=30)


def left(service, key):
    found = service.get("/v2/team/credit-usage", key=key).json["data"]
    return found["remainingCredits"]


@pytest.mark.full
def test_files_of_sessions_count_and_go_with_their_session(
    start_service, tmp_path, app
):
    service = start_service(**SETTINGS)
    made = ("keys", "create", "--team", "full", "--disk-mb", "1")
    done = CliRunner().invoke(main, [*made, "--data-dir", str(tmp_path)])
    key = done.stdout.strip()
    opened = service.post("/v2/interact", {"url": app.url("/form")}, key=key)
    session_id = opened.json["id"]
    path = f"/v2/interact/{session_id}"
    noise = """document.body.innerHTML = '<canvas width=900 height=600>';
      const place = document.querySelector('canvas').getContext('2d');
      const image = place.createImageData(900, 600);
      for (let i = 0; i < image.data.length; i += 1) image.data[i] = Math.random() * 256;
      place.putImageData(image, 0, 0);"""
    actions = [
        {"type": "executeJavascript", "script": noise},
        {"type": "screenshot", "fullPage": True},
    ]
    step = {"actions": actions}
    done = service.post(f"{path}/execute", step, key=key)
    assert done.json["success"] is True, done.json["error"]
    refused = service.post(f"{path}/execute", step, key=key)
    assert (refused.status, "disk quota" in refused.json["error"]) == (402, True)
    assert service.post("/v2/interact", {}, key=key).status == 402
    assert service.request("DELETE", f"/v2/jobs/{session_id}", key=key).status == 404
    service.request("DELETE", path, key=key)
    assert service.request("DELETE", f"/v2/jobs/{session_id}", key=key).status == 200
    used = service.get("/v2/team/disk-usage", key=key).json["data"]["usedBytes"]
    assert used == 0
    assert service.post("/v2/interact", {}, key=key).status == 200


@pytest.mark.full
def test_a_session_to_the_end_of_its_minute_costs_that_minute(minute):
    service, key = minute

    def row():
        return service.get("/v2/interact", key=key).json["sessions"][0]

    wait_until(lambda: row()["status"] == "destroyed")
    path = f"/v2/interact/{row()['id']}"
    assert service.request("DELETE", path, key=key).json["creditsBilled"] == 2
    assert left(service, key) == 0
