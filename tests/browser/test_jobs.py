"""Crawls, batches, sessions and the unmodified Python clients, with a browser."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from firecrawl import Firecrawl
from firecrawl.v1 import V1FirecrawlApp

from tests.browser.conftest import Png, fetch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def finished(service, reply):
    """Return the pages of a job that was just started, when it is completed."""
    assert reply.status == 200, reply.json
    path = "/" + reply.json["url"].split("/", 3)[3]
    end = time.monotonic() + 60
    while (found := service.get(path).json)["status"] == "scraping":
        assert time.monotonic() < end
        time.sleep(0.1)
    assert found["status"] == "completed", found
    return found["data"]


def test_a_crawl_renders_the_pages_that_need_it(service, app):
    body = {
        "url": app.url("/links"),
        "crawlEntireDomain": True,
        "sitemap": "skip",
        "scrapeOptions": {"maxAge": 0},
    }
    pages = finished(service, service.post("/v2/crawl", body))
    assert len(pages) == 5
    made = [page for page in pages if "/client" in page["metadata"]["url"]]
    assert len(made) == 4
    assert all("Made by a script" in page["markdown"] for page in made)
    assert all(page["metadata"]["engine"] == "browser" for page in made)


def test_a_batch_brings_screenshots_and_actions(service, app):
    body = {
        "urls": [app.url(f"/form?{n}") for n in range(3)],
        "formats": ["markdown", "screenshot"],
        "actions": [{"type": "click", "selector": "#go"}, {"type": "screenshot"}],
        "maxAge": 0,
    }
    for version in ("v1", "v2"):
        pages = finished(service, service.post(f"/{version}/batch/scrape", body))
        assert len(pages) == 3
        for page in pages:
            assert "clicked" in page["markdown"]
            [taken] = page["actions"]["screenshots"]
            for address in (page["screenshot"], taken):
                status, _, data = fetch(address)
                assert status == 200
                assert Png(data).width == 1280


def test_an_action_that_fails_fails_its_page_only(service, app):
    body = {
        "urls": [app.url("/form?a"), app.url("/links?a")],
        "actions": [{"type": "click", "selector": "#go"}],
        "timeout": 4000,
    }
    reply = service.post("/v2/batch/scrape", body)
    pages = finished(service, reply)
    assert len(pages) == 1
    path = "/" + reply.json["url"].split("/", 3)[3] + "/errors"
    [error] = service.get(path).json["errors"]
    assert error["url"] == app.url("/links?a")
    assert error["code"] == "SCRAPE_ACTION_ERROR"
    assert error["error"].startswith("Action 0 (click) failed")


# -- sessions ----------------------------------------------------------------------------


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


# -- clients -----------------------------------------------------------------------------

ACTIONS = [
    {"type": "click", "selector": "#go"},
    {"type": "screenshot"},
    {"type": "executeJavascript", "script": "document.title"},
]


def test_the_python_client_takes_screenshots_and_acts(service, app):
    client = Firecrawl(api_key=service.key, api_url=service.url)
    found = client.scrape(
        app.url("/form"),
        formats=["markdown", {"type": "screenshot", "full_page": True}],
        actions=ACTIONS,
        max_age=0,
    )
    assert found.screenshot.startswith(service.url)
    assert "clicked" in found.markdown
    assert len(found.actions["screenshots"]) == 1
    assert found.actions["javascriptReturns"][0]["value"] == "Form"
    assert found.metadata.proxy_used == "basic"


def test_the_first_python_client_takes_screenshots_and_acts(service, app):
    client = V1FirecrawlApp(api_key=service.key, api_url=service.url)
    found = client.scrape_url(
        app.url("/form"), formats=["markdown", "screenshot"], actions=ACTIONS
    )
    assert found.screenshot.startswith(service.url)
    assert len(found.actions.screenshots) == 1
    assert found.actions.pdfs == []
