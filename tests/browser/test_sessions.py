"""Cookies and storage of a team, kept under a name: `session` and `profile`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser.conftest import finished


def visit(service, app, session, **options):
    body = {"url": app.url("/storage"), "session": session, "formats": ["rawHtml"]}
    page = service.post("/v2/scrape", {**body, **options}).json["data"]
    assert "cacheState" not in page["metadata"]
    return json.loads(page["rawHtml"].split('<pre id="out">')[1].split("</pre>")[0])


def test_a_session_keeps_cookies_and_storage(service, app):
    first = visit(service, app, "kept")
    second = visit(service, app, "kept")
    assert (first["count"], second["count"]) == (1, 2)
    assert second["cookie"] == "seen=2"
    assert visit(service, app, "other")["count"] == 1
    listed = {row["name"]: row for row in service.get("/v2/sessions").json["sessions"]}
    assert listed["kept"]["cookies"] == 1
    assert listed["kept"]["updatedAt"] >= listed["kept"]["createdAt"]
    assert service.request("DELETE", "/v2/sessions/kept").json == {"success": True}
    assert service.request("DELETE", "/v2/sessions/kept").status == 404
    assert visit(service, app, "kept")["count"] == 1


def test_a_session_is_used_by_jobs(service, app):
    body = {"urls": [app.url("/storage?a")], "session": "job", "maxAge": 0}
    finished(service, service.post("/v2/batch/scrape", body))
    options = {"session": "job", "maxAge": 0}
    body = {"url": app.url("/storage?b"), "limit": 1, "sitemap": "skip"}
    finished(service, service.post("/v2/crawl", {**body, "scrapeOptions": options}))
    assert visit(service, app, "job")["count"] == 3


def test_a_session_is_encrypted_and_of_its_team_only(service, app):
    visit(service, app, "secret")
    with closing(
        sqlite3.connect(Path(service.command[-1]) / "jobs.sqlite")
    ) as database:
        rows = database.execute("SELECT body FROM session").fetchall()
    other = service.get("/v2/sessions", key="fc-other-team").json
    assert other == {"success": True, "sessions": []}
    gone = service.request("DELETE", "/v2/sessions/secret", key="fc-other-team")
    assert gone.status == 404
    assert rows
    assert not any(b"seen" in body or b"cookies" in body for (body,) in rows)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "../up"])
def test_a_name_that_no_session_can_have_is_refused(service, app, name):
    reply = service.post("/v2/scrape", {"url": app.url("/links"), "session": name})
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["session"]


# -- profiles ----------------------------------------------------------------------------


def read(service, app, version="v2", **options):
    body = {"url": app.url("/storage"), "maxAge": 0, "formats": ["rawHtml"], **options}
    page = service.post(f"/{version}/scrape", body).json["data"]
    return json.loads(page["rawHtml"].split('<pre id="out">')[1].split("</pre>")[0])


def test_a_profile_is_changed_or_only_read(service, app):
    name = "of a/person"
    assert read(service, app, profile={"name": name})["count"] == 1
    kept = {"name": name, "saveChanges": False}
    for version in ("v1", "v2"):
        assert read(service, app, version, profile=kept)["count"] == 2
    assert read(service, app, "v1", profile={"name": name})["count"] == 2
    assert name in [s["name"] for s in service.get("/v2/sessions").json["sessions"]]
    path = f"/v2/sessions/{quote(name, safe='')}"
    assert service.request("DELETE", path).json == {"success": True}
    assert read(service, app, profile=kept)["count"] == 1


@pytest.mark.full
def test_a_profile_is_the_session_of_its_name(service, app):
    assert read(service, app, session="both")["count"] == 1
    assert read(service, app, profile={"name": "both"})["count"] == 2
    both = {"session": "both", "profile": {"name": "both", "saveChanges": False}}
    assert read(service, app, **both)["count"] == 3
    assert read(service, app, session="both")["count"] == 3


def test_a_profile_and_a_session_of_different_names_are_refused(service, app):
    body = {"url": app.url("/storage"), "session": "a", "profile": {"name": "b"}}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["profile"]


def test_a_profile_is_used_by_jobs_and_never_by_the_cache(service, app):
    body = {"urls": [app.url("/storage?p")], "profile": {"name": "jobs"}}
    for count in (1, 2):
        [page] = finished(service, service.post("/v2/batch/scrape", body))
        assert f'"count":{count}' in page["markdown"]
