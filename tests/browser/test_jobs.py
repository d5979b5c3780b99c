"""Crawls, batches and the unmodified Python clients, with a browser."""

from __future__ import annotations

import sqlite3
import urllib.request
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from firecrawl import Firecrawl
from firecrawl.v1 import V1FirecrawlApp
from warcio.archiveiterator import ArchiveIterator

from tests.browser.conftest import Png, fetch, finished

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


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


def test_routes_of_a_script_are_pages_of_a_crawl(service, app):
    body = {
        "url": app.url("/routed/"),
        "sitemap": "skip",
        "scrapeOptions": {"maxAge": 0, "formats": ["markdown", "links"]},
    }
    body["scrapeOptions"]["onlyMainContent"] = False
    pages = finished(service, service.post("/v2/crawl", body))
    found = {page["metadata"]["url"].partition("/routed/")[2]: page for page in pages}
    assert set(found) == {"", "#/guide", "#!setup"}
    for route, page in found.items():
        assert f"Of the route {route[1:] or '/'}." in page["markdown"]
    guide = app.url("/routed/#/guide")
    assert f"[Guide]({guide})" in found[""]["markdown"]
    assert found[""]["links"] == [guide, f"{guide}/", app.url("/routed/#/")]
    assert found["#/guide"]["links"] == [app.url("/routed/#!setup")]


def test_routes_of_a_script_are_urls_of_a_map(service, app):
    reply = service.post("/v2/map", {"url": app.url("/routed/"), "sitemap": "skip"})
    urls = {link["url"] for link in reply.json["links"]}
    assert {app.url("/routed"), app.url("/routed/#/guide")} <= urls
    assert app.url("/routed/#below") not in urls


def test_patterns_match_routes_of_a_script(service, app):
    body = {
        "url": app.url("/routed/"),
        "sitemap": "skip",
        "excludePaths": ["#/guide"],
        "scrapeOptions": {"maxAge": 0},
    }
    pages = finished(service, service.post("/v2/crawl", body))
    assert len(pages) == 1


@pytest.mark.full
def test_an_archive_has_the_dom_of_rendered_pages(service, app):
    body = {
        "url": app.url("/links"),
        "crawlEntireDomain": True,
        "sitemap": "skip",
        "scrapeOptions": {"maxAge": 0},
    }
    started = service.post("/v2/crawl", body)
    pages = finished(service, started)
    path = f"{started.json['url']}/export?format=warc"
    request = urllib.request.Request(path)
    request.add_header("Authorization", f"Bearer {service.key}")
    with urllib.request.urlopen(request, timeout=100) as file:
        found = {
            record.rec_headers.get_header("WARC-Target-URI"): (
                record.rec_type,
                record.content_stream().read(),
            )
            for record in ArchiveIterator(file, check_digests="raise")
            if record.rec_type != "warcinfo"
        }
    assert set(found) == {page["metadata"]["url"] for page in pages}
    for page in pages:
        kind, data = found[page["metadata"]["url"]]
        is_rendered = page["metadata"]["engine"] == "browser"
        assert kind == ("resource" if is_rendered else "response")
        assert (b"Made by a script" in data) == ("/client" in page["metadata"]["url"])


def test_other_formats_are_made_of_the_stored_dom(service, app):
    body = {"urls": [app.url("/client")], "maxAge": 0}
    started = service.post("/v2/batch/scrape", body)
    [page] = finished(service, started)
    assert page["metadata"]["engine"] == "browser"
    path = f"/v2/batch/scrape/{started.json['id']}/reprocess"
    [again] = finished(service, service.post(path, {"formats": ["html", "rawHtml"]}))
    assert "Made by a script" in again["html"]
    assert "Made by a script" in again["rawHtml"]
    assert again["metadata"]["engine"] == "browser"
    assert again["metadata"]["url"] == page["metadata"]["url"]


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


@pytest.mark.slow
def test_an_action_that_fails_fails_its_page_only(service, app):
    body = {
        "urls": [app.url("/form?a"), app.url("/links?a")],
        "actions": [{"type": "click", "selector": "#go"}],
        "timeout": 10_000,
    }
    reply = service.post("/v2/batch/scrape", body)
    pages = finished(service, reply)
    assert len(pages) == 1
    path = "/" + reply.json["url"].split("/", 3)[3] + "/errors"
    [error] = service.get(path).json["errors"]
    assert error["url"] == app.url("/links?a")
    assert error["code"] == "SCRAPE_ACTION_ERROR"
    assert error["error"].startswith("Action 0 (click) failed")


# -- clients -----------------------------------------------------------------------------

ACTIONS = [
    {"type": "click", "selector": "#go"},
    {"type": "screenshot"},
    {"type": "executeJavascript", "script": "document.title"},
]


@pytest.mark.full
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


@pytest.mark.full
def test_the_first_python_client_takes_screenshots_and_acts(service, app):
    client = V1FirecrawlApp(api_key=service.key, api_url=service.url)
    found = client.scrape_url(
        app.url("/form"), formats=["markdown", "screenshot"], actions=ACTIONS
    )
    assert found.screenshot.startswith(service.url)
    assert len(found.actions.screenshots) == 1
    assert found.actions.pdfs == []


@pytest.mark.full
def test_text_that_actions_type_is_stored_encrypted(service, app):
    typed = f"canary-{uuid.uuid4().hex}"
    body = {
        "urls": [app.url(f"/form?canary{n}") for n in range(3)],
        "actions": [
            {"type": "click", "selector": "#name"},
            {"type": "write", "text": typed},
            {"type": "wait", "milliseconds": 500},
        ],
        "maxAge": 0,
    }
    folder = Path(service.command[-1])
    reply = service.post("/v2/batch/scrape", body)
    assert typed not in stored(folder), "during the job"
    assert len(finished(service, reply)) == 3
    assert typed not in stored(folder), "after the job"
    assert typed not in service.stderr
    with closing(sqlite3.connect(folder / "jobs.sqlite")) as connection:
        job_id = reply.json["id"]
        rows = connection.execute("SELECT 1 FROM secret WHERE job_id = ?", (job_id,))
        assert rows.fetchall() == []


def stored(folder):
    """Return all that is in the files of a folder, as text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)
