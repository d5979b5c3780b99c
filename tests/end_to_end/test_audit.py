"""The audit log: who changed keys, teams and jobs, and what the operator did."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.storage.accounts.teams import note_secret, use_fixed_keys
from scraper_service.storage.database import Database
from tests.cli.command import run as run_command
from tests.conftest import KEY
from tests.support.crash import sqlite_of
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until

UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a command on the data of the test."""

    def call(*arguments):
        done = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    return call


@pytest.fixture
def entries(run):
    """Return a function that reads the log with the command."""

    def read(*arguments):
        lines = run("audit", "--json", *arguments).splitlines()
        return [json.loads(line) for line in lines]

    return read


@pytest.fixture
def pages():
    with ScriptedSite({"/": page("/1"), "/1": page()}) as site:
        yield site


def acts(found):
    return [(entry["action"], entry["peer"]) for entry in found]


def latest(service, key=KEY, **headers):
    return service.get("/v2/team/audit", key=key, headers=headers).json["data"]


def test_limits_that_are_taken_away_are_in_the_log(run, entries):
    run("keys", "create", "--team", "shop", "--credits", "5", "--disk-mb", "7")
    free = ("--credits", "unlimited", "--concurrency", "unlimited")
    run("teams", "set", "shop", *free, "--disk-mb", "unlimited")
    run("teams", "set", "shop", "--disk-mb", "default")
    found = [each["detail"] for each in entries() if each["action"] == "team.changed"]
    names = ("credits", "plan_credits", "concurrency", "disk_mb")
    assert found[-2:] == [dict.fromkeys(names, "unlimited"), {"disk_mb": "default"}]


def test_commands_on_keys_and_teams_are_in_the_log(run, entries):
    key = run("keys", "create", "--team", "shop", "--name", "mine", "--scope", "read")
    [made] = entries()
    assert (made["action"], made["peer"]) == ("key.created", "command line")
    assert made["detail"] == {
        "name": "mine",
        "scope": "read",
        "key": f"fc-...{key[-4:]}",
    }
    run("teams", "set", "shop", "--credits", "7", "--rate", "map=3")
    run("keys", "revoke", made["target"])
    found = entries("--team", "shop")
    assert [entry["action"] for entry in found] == [
        "key.created",
        "team.changed",
        "key.revoked",
    ]
    assert found[1]["detail"] == {"credits": 7, "plan_credits": 7, "rates": {"map": 3}}
    assert {entry["result"] for entry in found} == {"done"}
    run("gc")
    assert entries()[-1]["action"] == "service.gc"
    assert [entry["action"] for entry in entries("--team", "shop")][-1] == "key.revoked"
    assert entries("--since", "2100-01-01") == []
    assert entries("--since", "2100-01-01T00:00:00+01:00") == []
    assert len(entries("--since", "2001-01-01T12:00:00Z")) == 4
    assert len(run("audit").splitlines()) == 4
    assert key not in run("audit")


def test_a_team_reads_what_its_keys_have_done(start_service, tmp_path, run, pages):
    key = run("keys", "create", "--name", "mine")
    service = start_service(SCRAPER_TRUSTED_PROXIES="127.0.0.1")

    def send(method, path, body=None, address="192.0.2.7"):
        named = {"X-Forwarded-For": f"198.51.100.1, {address}"}
        reply = service.request(method, path, body, key=key, headers=named)
        assert reply.status == 200, reply.json
        return reply.json

    crawl = {"url": pages.url("/"), "limit": 2, "delay": 60}
    job_id = send("POST", "/v2/crawl", crawl)["id"]
    change = {"paused": True, "limit": 1}
    send("PATCH", f"/v2/crawl/{job_id}", change)
    send("PATCH", f"/v2/crawl/{job_id}", {"paused": False, "limit": 2})
    send("DELETE", f"/v2/crawl/{job_id}")
    send("DELETE", f"/v2/jobs/{job_id}")
    scraped = send("POST", "/v2/scrape", {"url": pages.url("/1"), "maxAge": 0})
    call_id = scraped["data"]["metadata"]["scrapeId"]

    def delete_call():
        path = f"/v2/jobs/{call_id}"
        return service.request("DELETE", path, key=key).status == 200

    wait_until(delete_call)
    policy = {"mode": "manual-only", "blacklist": ["secret.example"]}
    send("PUT", "/v2/team/threat-protection", policy, "192.0.2.8")
    found = send("GET", "/v2/team/audit?limit=100")["data"]
    assert [entry["action"] for entry in reversed(found)] == [
        *("key.created", "job.changed", "job.paused", "job.changed", "job.resumed"),
        *("job.cancelled", "job.deleted", "call.deleted", "team.threat-protection"),
    ]
    assert [entry["target"] for entry in found[2:8]] == [job_id] * 6
    assert found[1]["target"] == call_id
    assert {entry["peer"] for entry in found[2:8]} == {"192.0.2.7"}
    assert (found[0]["peer"], found[1]["peer"]) == ("192.0.2.8", "127.0.0.1")
    assert {entry["key"]["name"] for entry in found[:8]} == {"mine"}
    assert found[8]["key"] is None
    assert found[0]["detail"] == {
        "mode": "manual-only",
        "blacklist": 1,
        "whitelist": 0,
        "blockedTlds": 0,
    }
    assert "secret.example" not in json.dumps(found)
    # Page by page it is the same.
    path, parts = "/v2/team/audit?limit=2", []
    while path:
        part = send("GET", path)
        parts += part["data"]
        path = part.get("next", "").removeprefix(service.url)
        path = path and "/v2" + path.partition("/v2")[2]
    assert parts == found
    assert service.get("/v2/team/audit").json["data"][0]["peer"] == "settings"
    reply = service.get("/v2/team/audit?cursor=x")
    assert reply.status == 400
    assert "cursor" in reply.json["error"]


def test_failed_actions_are_not_in_the_audit_log(start_service, pages):
    service = start_service()
    before = service.get("/v2/team/audit").json["data"]
    assert service.request("DELETE", f"/v2/jobs/{UNKNOWN}").status == 404
    assert service.request("DELETE", f"/v2/crawl/{UNKNOWN}").status == 404
    assert service.request("PUT", "/v2/team/threat-protection", {"a": 1}).status == 400
    job_id = service.post("/v2/crawl", {"url": pages.url("/"), "limit": 1}).json["id"]
    path = f"/v2/crawl/{job_id}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    assert service.request("DELETE", path).status == 409
    assert service.get("/v2/team/audit").json["data"] == before


def test_keys_of_the_settings_and_the_first_key_are_in_the_log(start_service, entries):
    service = start_service(SCRAPER_API_KEYS=None)
    assert acts(entries()) == [("key.created", "service")]
    service.stop()
    start_service(SCRAPER_API_KEYS="fc-one,fc-two").stop()
    start_service(SCRAPER_API_KEYS="fc-two").stop()
    assert acts(entries())[1:] == [
        ("key.created", "settings"),
        ("key.created", "settings"),
        ("key.revoked", "settings"),
    ]


def test_a_key_that_ends_by_itself_has_its_end_in_the_log(run, entries):
    run("keys", "create", "--name", "short", "--expires-in", "2")
    [entry] = entries()
    ends = datetime.fromisoformat(entry["detail"]["expiresAt"])
    days = (ends - datetime.fromisoformat(entry["at"])) / timedelta(days=1)
    assert days == pytest.approx(2, abs=0.01)


def test_old_audit_entries_are_deleted_and_zero_days_keep_no_entry(
    tmp_path, run, entries
):
    run("keys", "create")
    with sa.create_engine(sqlite_of(tmp_path)).begin() as connection:
        connection.execute(sa.text("UPDATE audit SET at = at - 100 * 86400"))
    run("-s", "AUDIT_DAYS=101", "gc")
    assert [entry["action"] for entry in entries()] == ["key.created", "service.gc"]
    run("-s", "AUDIT_DAYS=99", "gc")
    assert {entry["action"] for entry in entries()} == {"service.gc"}
    run("-s", "AUDIT_DAYS=0", "gc")
    run("-s", "AUDIT_DAYS=0", "keys", "create")
    assert entries() == []


def test_backup_and_restore_are_in_the_log(tmp_path, run, entries):
    run("keys", "create")
    kept, target = tmp_path / "kept", tmp_path / "new"
    run("backup", str(kept))
    assert acts(entries())[-1] == ("service.backed-up", "command line")
    assert entries()[-1]["target"] == str(kept)
    restore = ["restore", str(kept), "--data-dir", str(target)]
    assert CliRunner().invoke(main, restore).exit_code == 0
    read = CliRunner().invoke(main, ["audit", "--json", "--data-dir", str(target)])
    found = [json.loads(line)["action"] for line in read.stdout.splitlines()]
    assert found == ["key.created", "service.restored"]


@pytest.mark.full
def test_a_fixed_key_that_was_revoked_stays_so(start_service, run, entries):
    fixed = {"SCRAPER_API_KEYS": f"{KEY},fc-other-fixed-one"}
    service = start_service(**fixed)
    made = [entry for entry in entries() if entry["action"] == "key.created"]
    [target] = [e["target"] for e in made if e["detail"]["key"].endswith(KEY[-4:])]
    run("keys", "revoke", target)
    wait_until(lambda: service.get("/v2/team/queue-status").status == 401)
    service.stop()
    service = start_service(**fixed)
    assert service.get("/v2/team/queue-status").status == 401
    assert f"the key ...{KEY[-4:]} of SCRAPER_API_KEYS was revoked" in service.stderr
    service.stop()
    start_service(SCRAPER_API_KEYS="fc-a-third-key").stop()
    service = start_service(SCRAPER_API_KEYS="fc-other-fixed-one")
    assert service.get("/v2/team/queue-status", key="fc-other-fixed-one").status == 200
    assert entries()[-1]["action"] == "key.restored"


def test_a_client_cannot_forge_its_ip_address(start_service, pages):
    service = start_service()
    found = start_paused(service, pages)
    for name in ("command line", "10.0.0.1  team forged", "\u00e9"):
        headers = {"X-Forwarded-For": name.encode("latin-1").decode("latin-1")}
        service.request("PATCH", found, {"paused": False}, headers=headers)
        service.request("PATCH", found, {"paused": True}, headers=headers)
    peers = {entry["peer"] for entry in latest(service)}
    assert peers <= {"127.0.0.1", "settings"}
    headers = {"X-Forwarded-For": "203.0.113.9"}
    service.request("PATCH", found, {"paused": False}, headers=headers)
    assert "203.0.113.9" in {entry["peer"] for entry in latest(service)}


def start_paused(service, pages):
    body = {"url": pages.url("/"), "limit": 2, "delay": 20, "maxConcurrency": 1}
    path = f"/v2/crawl/{service.post('/v2/crawl', body).json['id']}"
    service.request("PATCH", path, {"paused": True})
    return path


def test_services_that_start_together_store_a_new_key_once(postgres, tmp_path):
    url, keys = postgres(), [f"fc-new-{number}" for number in range(20)]
    Database(tmp_path, url).close()  # makes the tables

    def begin(_):
        database = Database(tmp_path, url)
        with closing(database):
            database.write_blocking(note_secret, b"secret")
            database.write_blocking(use_fixed_keys, b"secret", keys)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(begin, range(4))) == [None] * 4
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        count = connection.scalar(sa.text("SELECT COUNT(*) FROM key"))
        assert count == len(keys)
        # A team of each key, and none of a key that another service stored.
        assert connection.scalar(sa.text("SELECT COUNT(*) FROM team")) == len(keys)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_another_secret_is_noticed_by_service_backup_and_keys(
    start_service, tmp_path, kind, request
):
    url = request.getfixturevalue("postgres_tables")() if kind == "postgresql" else None
    settings = {"SCRAPER_DATABASE_URL": url, "SCRAPER_KEY_SECRET": "the right one"}
    service = start_service(tmp_path, **settings)
    service.stop()
    assert "secret" not in service.stderr

    def command(secret, *arguments):
        changes = {"SCRAPER_KEY_SECRET": secret}
        if url is not None:
            changes["SCRAPER_DATABASE_URL"] = url
        return run_command(tmp_path, *arguments, "--data-dir", str(tmp_path), **changes)

    made = command("the right one", "keys", "create")
    assert made.returncode == 0, made.stderr
    for arguments in (("keys", "create"), ("backup", str(tmp_path / "copy"))):
        done = command("a wrong one", *arguments)
        assert done.returncode == 1
        assert "the secret is not the one" in done.stderr
    if kind == "sqlite":
        done = command("the right one", "backup", str(tmp_path / "copy"))
        assert done.returncode == 0, done.stderr
    refused = command("another", "serve", "--port", "0")
    assert refused.returncode == 1
    assert "the secret is not the one" in refused.stderr
    key = made.stdout.strip()
    again = start_service(tmp_path, **settings)  # nothing was remembered
    again.key = key
    assert again.get("/v2/team/queue-status").status == 200
    again.stop()
    assert command("another", "keys", "forget-secret").returncode == 0
    start_service(tmp_path, **{**settings, "SCRAPER_KEY_SECRET": "another"}).stop()
    assert command("the right one", "serve", "--port", "0").returncode == 1
