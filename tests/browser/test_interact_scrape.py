"""The session of the browser after a scrape, which opens its page again (interface, 27.2)."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from firecrawl import Firecrawl

from tests.browser.conftest import SETTINGS, finished
from tests.conftest import KEY, Service
from tests.support.waiting import wait_until

OTHER = "fc-other-team"
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
UNAVAILABLE = (
    "Replay context is unavailable for this scrape job. Please rerun the scrape."
)
SECRET = "Tr0ub4dor"
READ_OUT = "document.querySelector('#out').textContent"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    settings = {**SETTINGS, "SCRAPER_BROWSER_SESSIONS": "6"}
    running = Service(tmp_path_factory.mktemp("replay"), **settings)
    yield running
    assert running.stop() == 0, running.stderr


@pytest.fixture
def scraped(service, app):
    """Return a function that scrapes a path and returns the id."""
    used = []

    def call(path, **options):
        body = {"url": app.url(path), "maxAge": 0, **options}
        reply = service.post("/v2/scrape", body)
        assert reply.status == 200, reply.json
        used.append(reply.json["data"]["metadata"]["scrapeId"])
        return used[-1]

    yield call
    for each in used:
        service.request("DELETE", f"/v2/scrape/{each}/interact")


def interact(service, scrape_id, **body):
    return service.post(f"/v2/scrape/{scrape_id}/interact", body)


def value(reply):
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True, reply.json
    return reply.json["actions"]["javascriptReturns"][-1]["value"]


def script(text):
    return {"type": "executeJavascript", "script": text}


def test_a_session_goes_on_where_the_scrape_ended(service, scraped):
    steps = [
        {"type": "click", "selector": "#name"},
        {"type": "write", "text": SECRET},
        {"type": "press", "key": "Enter"},
    ]
    scrape_id = scraped("/form", actions=steps)
    first = interact(service, scrape_id, actions=[script(READ_OUT)])
    assert f"entered {SECRET}" in value(first)
    click = {"type": "click", "selector": "#go"}
    second = interact(service, scrape_id, actions=[click, script(READ_OUT)])
    assert value(second).endswith("clicked")
    [row] = [
        each
        for each in service.get("/v2/interact?status=active").json["sessions"]
        if each["id"]
    ]
    # The same session is there by its own id.
    path = f"/v2/browser/{row['id']}/execute"
    assert value(service.post(path, {"actions": [script(READ_OUT)]}))
    with closing(
        sqlite3.connect(Path(service.command[-1]) / "jobs.sqlite")
    ) as database:
        found = database.execute("SELECT replay FROM scrape").fetchall()
    assert any(replay for (replay,) in found)
    assert not any(SECRET.encode() in (replay or b"") for (replay,) in found)


@pytest.mark.full
def test_a_session_uses_headers_and_device_of_its_scrape(service, scraped):
    scrape_id = scraped("/facts", mobile=True, location={"country": "DE"})
    reply = interact(service, scrape_id, actions=[script(READ_OUT)])
    facts = json.loads(value(reply))
    assert facts["touch"] is True
    assert facts["zone"] == "Europe/Berlin"


@pytest.mark.full
def test_a_session_of_a_scrape_ends_once(service, scraped):
    scrape_id = scraped("/form")
    path = f"/v2/scrape/{scrape_id}/interact"
    missing = service.request("DELETE", path)
    assert (missing.status, missing.json["error"]) == (
        404,
        "Browser session not found.",
    )
    assert interact(service, scrape_id, code="get url", language="bash").status == 200
    first = service.request("DELETE", path)
    assert first.status == 200
    assert first.json["creditsBilled"] == 2
    assert service.request("DELETE", path).json == first.json
    gone = interact(service, scrape_id, actions=[])
    assert (gone.status, gone.json["error"]) == (
        410,
        "Browser session has been destroyed.",
    )


@pytest.mark.full
def test_parallel_calls_share_a_session(service, scraped):
    scrape_id = scraped("/form")
    replies = []

    def act():
        replies.append(interact(service, scrape_id, actions=[script("1")]))

    threads = [threading.Thread(target=act) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [value(each) for each in replies] == [1, 1, 1]
    active = service.get("/v2/interact?status=active").json["sessions"]
    assert len(active) == 1


@pytest.mark.full
def test_pages_of_jobs_have_sessions_as_well(service, app):
    body = {"urls": [app.url("/form"), app.url("/storage")], "maxAge": 0}
    pages = finished(service, service.post("/v2/batch/scrape", body))
    for page in pages:
        scrape_id = page["metadata"]["scrapeId"]
        reply = interact(service, scrape_id, actions=[script("location.href")])
        assert value(reply) == page["metadata"]["url"]
        service.request("DELETE", f"/v2/scrape/{scrape_id}/interact")


def test_a_job_whose_headers_are_deleted_is_not_opened_without_them(service, app):
    body = {"urls": [app.url("/form")], "maxAge": 0, "headers": {"X-Key": "1"}}
    [page] = finished(service, service.post("/v2/batch/scrape", body))
    reply = interact(service, page["metadata"]["scrapeId"], actions=[])
    assert (reply.status, reply.json["error"]) == (409, UNAVAILABLE)


def test_a_scrape_without_retention_cannot_be_opened_again(service, scraped):
    scrape_id = scraped("/form", zeroDataRetention=True)
    reply = interact(service, scrape_id, actions=[])
    assert (reply.status, reply.json["error"]) == (409, UNAVAILABLE)


def test_unknown_scrapes_and_scrapes_of_other_teams_are_404s(service, scraped):
    scrape_id = scraped("/form")
    replies = [
        interact(service, UNKNOWN, actions=[]),
        service.post(f"/v2/scrape/{scrape_id}/interact", {"actions": []}, key=OTHER),
    ]
    for reply in replies:
        assert (reply.status, reply.json["error"]) == (404, "Job not found.")
    reply = interact(service, "no-uuid", actions=[])
    assert reply.status == 400
    assert reply.json["error"].startswith("Invalid job ID format")


@pytest.mark.full
def test_a_page_that_is_gone_is_a_failed_scrape_and_leaves_no_session(service, scraped):
    scrape_id = scraped("/form", actions=[{"type": "click", "selector": "#go"}])
    path = Path(service.command[-1]) / "jobs.sqlite"
    change = "UPDATE scrape SET replay = replace(replay, '/form', '/none') WHERE id = ?"

    def is_changed():
        with closing(sqlite3.connect(path)) as database, database:
            return database.execute(change, (scrape_id,)).rowcount == 1

    wait_until(is_changed)
    reply = interact(service, scrape_id, actions=[])
    assert (reply.status, reply.json["code"]) == (500, "SCRAPE_ACTION_ERROR")
    missing = service.request("DELETE", f"/v2/scrape/{scrape_id}/interact")
    assert missing.status == 404


@pytest.mark.full
def test_the_python_client_goes_on_with_a_scrape(service, app):
    client = Firecrawl(api_key=KEY, api_url=service.url)
    scrape_id = client.scrape(app.url("/form")).metadata.scrape_id
    done = client.interact(scrape_id, "find text Go click", language="bash")
    assert (done.success, done.exit_code, done.killed) == (True, 0, False)
    with pytest.raises(Exception, match="no element matches '#none'"):
        client.interact(scrape_id, "click '#none'", language="bash", timeout=4)
    with pytest.raises(Exception, match="INTERACT_CODE"):
        client.interact(scrape_id, "1 + 1")
    ended = client.stop_interaction(scrape_id)
    assert ended.credits_billed == 2
    sessions = client.list_browsers(status="destroyed").sessions
    assert sessions[0].status == "destroyed"


@pytest.mark.full
def test_agents_use_a_page_by_tools(service, app):
    def tool(name, **given):
        call = {"name": name, "arguments": given}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        accept = {"Accept": "application/json, text/event-stream"}
        reply = service.post("/mcp", message, headers=accept)
        assert reply.status == 200, reply.json
        result = reply.json["result"]
        assert result["isError"] is False, result
        return json.loads(result["content"][0]["text"])

    lines = {"code": "find text Go click && get text '#out'", "language": "bash"}
    opened = tool("firecrawl_interact", url=app.url("/form"), **lines)
    assert opened["result"] == "clicked"
    again = tool("firecrawl_interact", scrapeId=opened["scrapeId"], **lines)
    assert again["result"] == "clicked clicked"
    ended = tool("firecrawl_interact_stop", scrapeId=opened["scrapeId"])
    assert ended["creditsBilled"] == 2
