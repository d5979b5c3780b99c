"""Sessions of the browser: a page that stays open between calls (interface, part 27)."""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from urllib.parse import urljoin

import pytest

from scraper_service.crawling.browser.running_browser import processes_of
from tests.browser.conftest import SETTINGS, chromium_processes, fetch
from tests.conftest import Service
from tests.support.raw_site import PLAIN, RawSite
from tests.support.waiting import wait_until

OTHER = "fc-other-team"
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
GONE = "Browser session has been destroyed."


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service whose teams may have three sessions."""
    settings = {**SETTINGS, "SCRAPER_BROWSER_SESSIONS": "3"}
    running = Service(tmp_path_factory.mktemp("interact"), **settings)
    yield running
    assert running.stop() == 0, running.stderr
    assert chromium_processes(running.pid) == []


@pytest.fixture
def open_session(service):
    """Return a function that opens a session, which the end of the test ends."""
    opened = []

    def call(path="/v2/interact", **body):
        reply = service.post(path, body)
        assert reply.status == 200, reply.json
        assert reply.json["success"] is True
        opened.append(reply.json["id"])
        return reply.json["id"]

    yield call
    for each in opened:
        service.request("DELETE", f"/v2/interact/{each}")


@pytest.fixture(scope="module")
def session(service, app):
    """One session for the tests of steps, on the page of a form."""
    found = service.post("/v2/interact", {"url": app.url("/form"), "ttl": 600}).json
    yield found["id"]
    service.request("DELETE", f"/v2/interact/{found['id']}")


@pytest.fixture(scope="module", autouse=True)
def idle(service):
    """A session of another team that gets no calls; it ends while other tests run."""
    reply = service.post("/v2/interact", {"activityTtl": 10}, key=OTHER)
    assert reply.status == 200, reply.json
    return reply.json["id"]


@pytest.fixture
def step(service, session):
    """Return a function that does a step in the session of the module."""

    def call(session_id=session, **body):
        return service.post(f"/v2/interact/{session_id}/execute", body)

    return call


def done(reply):
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True, reply.json
    return reply.json


def failed(reply):
    assert reply.status == 200, reply.json
    assert reply.json["success"] is False, reply.json
    assert reply.json["error"]
    return reply.json


def test_a_page_stays_open_between_its_steps(service, app, open_session):
    session_id = open_session(url=app.url("/form"))
    steps = [{"type": "click", "selector": "#name"}, {"type": "write", "text": "Ada"}]
    first = done(service.post(f"/v2/interact/{session_id}/execute", {"actions": steps}))
    assert first["url"] == app.url("/form")
    assert first["exitCode"] == 0
    assert first["killed"] is False
    body = {
        "actions": [
            {"type": "press", "key": "Enter"},
            {"type": "executeJavascript", "script": "document.title"},
        ],
        "formats": ["markdown", "rawHtml"],
    }
    second = done(service.post(f"/v2/browser/{session_id}/execute", body))
    assert "entered Ada" in second["data"]["markdown"]
    assert second["data"]["metadata"]["engine"] == "browser"
    assert second["data"]["metadata"]["url"] == app.url("/form")
    returned = second["actions"]["javascriptReturns"]
    assert returned == [{"type": "string", "value": "Form"}]
    assert second["actions"].keys() == {
        *("screenshots", "scrapes", "javascriptReturns", "pdfs")
    }


@pytest.mark.full
def test_both_paths_show_the_same_sessions(service, open_session):
    session_id = open_session("/v2/browser")
    for path in ("/v2/interact", "/v2/browser"):
        listed = service.get(f"{path}?status=active").json["sessions"]
        [row] = [each for each in listed if each["id"] == session_id]
        assert row["status"] == "active"
        assert row["cdpUrl"] == ""
        assert f"{session_id}/view?token=" in row["liveViewUrl"]
        assert row["streamWebView"] is True
    others = service.get("/v2/interact", key=OTHER).json["sessions"]
    assert session_id not in {each["id"] for each in others}


def test_an_ended_session_is_listed_and_keeps_its_figures(service, open_session):
    session_id = open_session()
    first = service.request("DELETE", f"/v2/browser/{session_id}").json
    assert first["status"] == "destroyed"
    assert first["creditsBilled"] == 2  # one started minute
    assert 0 < first["sessionDurationMs"] < 60_000
    assert service.request("DELETE", f"/v2/interact/{session_id}").json == first
    path = "/v2/interact?status=destroyed"
    assert session_id in {each["id"] for each in service.get(path).json["sessions"]}
    reply = service.post(f"/v2/interact/{session_id}/execute", {"actions": []})
    assert (reply.status, reply.json["error"]) == (410, GONE)
    listed = service.get("/v2/interact?status=active").json["sessions"]
    assert session_id not in {each["id"] for each in listed}


@pytest.mark.full
def test_ended_sessions_are_in_the_activity_by_both_names(service, open_session):
    session = open_session()
    assert service.request("DELETE", f"/v2/interact/{session}").status == 200
    path = "/v2/team/activity?endpoint="

    def ids():
        calls = service.get(f"{path}browser").json["data"]
        return {call["id"] for call in calls}

    wait_until(lambda: session in ids())
    assert ids() == {each["id"] for each in service.get(f"{path}interact").json["data"]}


@pytest.mark.parametrize("session_id", [UNKNOWN, "no-uuid"])
def test_unknown_sessions_are_404s(service, session_id):
    replies = [
        service.post(f"/v2/interact/{session_id}/execute", {"actions": []}),
        service.request("DELETE", f"/v2/interact/{session_id}"),
    ]
    for reply in replies:
        assert (reply.status, reply.json["error"]) == (
            404,
            "Browser session not found.",
        )


def test_a_session_belongs_to_its_team(service, session):
    path = f"/v2/interact/{session}"
    assert service.post(f"{path}/execute", {"actions": []}, key=OTHER).status == 404
    assert service.request("DELETE", path, key=OTHER).status == 404


@pytest.mark.full
def test_a_team_has_at_most_its_limit_of_sessions(service, session, open_session):
    open_session()
    open_session()
    reply = service.post("/v2/interact", {})
    assert reply.status == 429
    assert reply.json["error"] == (
        "You have reached the maximum number of active browser sessions."
    )
    assert int(reply.headers["Retry-After"]) > 0
    other = service.post("/v2/interact", {}, key=OTHER)
    assert other.status == 200
    service.request("DELETE", f"/v2/interact/{other.json['id']}", key=OTHER)


def test_a_failed_action_fails_the_step_and_not_the_session(step):
    bad = failed(
        step(
            actions=[{"type": "click", "selector": "#none"}],
            formats=["markdown"],
            timeout=8,
        )
    )
    assert "no element matches '#none'" in bad["error"]
    assert bad["exitCode"] == 1
    assert bad["data"]["markdown"]
    assert done(step(actions=[]))["exitCode"] == 0


def test_a_step_ends_at_its_timeout_and_the_page_goes_on(step):
    script = {"type": "executeJavascript", "script": "for (;;) {}"}
    late = failed(step(actions=[script], timeout=1))
    assert (late["killed"], late["exitCode"]) == (True, 124)
    assert "1 s" in late["error"]
    title = {"type": "executeJavascript", "script": "document.title"}
    [value] = done(step(actions=[title]))["actions"]["javascriptReturns"]
    assert value["value"] == "Form"


def test_a_screenshot_is_a_format_of_a_step(step):
    shot = done(step(actions=[], formats=["screenshot"]))["data"]["screenshot"]
    assert shot.startswith("http")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "exactly one of code, prompt, actions must be given, got none"),
        ({"code": "1", "actions": []}, "got code, actions"),
        ({"actions": [], "timeout": 301}, "timeout must be <= 300"),
        ({"actions": [], "timeout": 0}, "timeout must be >= 1"),
        ({"actions": [], "language": "ruby"}, "'node', 'python', 'bash'"),
        ({"actions": [{"type": "hover"}]}, "must be one of"),
        ({"actions": [], "formats": ["changeTracking", "markdown"]}, "changeTracking"),
        ({"actions": [], "waitFor": 5}, "Unrecognized key"),
        ({"code": ""}, "code"),
    ],
)
def test_invalid_steps_are_refused(step, body, part):
    reply = step(**body)
    assert reply.status == 400
    assert part in json.dumps(reply.json["details"])


@pytest.mark.parametrize("language", [None, "node", "python"])
def test_code_is_off_by_default(step, language):
    reply = step(code="1 + 1", **({"language": language} if language else {}))
    assert (reply.status, reply.json["code"]) == (400, "CODE_EXECUTION_DISABLED")
    assert "INTERACT_CODE" in reply.json["error"]
    assert "actions" in reply.json["error"]


def test_a_prompt_needs_a_model(step):
    reply = step(prompt="press the button")
    assert (reply.status, reply.json["code"]) == (400, "LANGUAGE_MODEL_REQUIRED")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"ttl": 29}, "ttl must be >= 30"),
        ({"ttl": 3601}, "ttl must be <= 3600"),
        ({"activityTtl": 9}, "activityTtl must be >= 10"),
        ({"profile": {"name": ""}}, "profile"),
        ({"url": "file:///etc/passwd"}, "unsupported protocol"),
        ({"unknown": 1}, "Unrecognized key"),
    ],
)
def test_invalid_sessions_are_refused(service, body, part):
    reply = service.post("/v2/interact", body)
    assert reply.status == 400
    assert part in json.dumps(reply.json["details"])


def test_a_session_cannot_reach_urls_forbidden_for_scrapes(
    service, canary, open_session
):
    before = canary.count()
    refused = service.post("/v2/interact", {"url": canary.url})
    assert (refused.status, refused.json["code"]) == (403, "UNSUPPORTED_SITE")
    session_id = open_session()
    for script in (
        f"location = '{canary.url}'",
        "location = 'file:///etc/passwd'",
    ):
        action = {"type": "executeJavascript", "script": script}
        reply = service.post(
            f"/v2/interact/{session_id}/execute", {"actions": [action]}
        )
        assert reply.json["success"] is False
        assert "passwd" not in reply.json["url"]
    assert canary.count() == before


def test_navigations_to_refused_urls_leave_the_page_unchanged(step, app, canary):
    before = canary.count()
    for script in (
        f"location = '{canary.url}'",
        f"fetch('{canary.url}', {{mode: 'no-cors'}}).catch(() => 1)",
        f"open('{canary.url}') && 1",
    ):
        step(actions=[{"type": "executeJavascript", "script": script}])
    assert done(step(actions=[]))["url"] == app.url("/form")
    assert canary.count() == before


@pytest.mark.full
def test_a_profile_begins_and_ends_a_session(service, app, open_session):
    read = {
        "type": "executeJavascript",
        "script": "document.querySelector('#out').textContent",
    }

    def visit(**profile):
        session_id = open_session(url=app.url("/storage"), profile=profile)
        reply = service.post(f"/v2/interact/{session_id}/execute", {"actions": [read]})
        [value] = done(reply)["actions"]["javascriptReturns"]
        return session_id, json.loads(value["value"])["count"]

    first, count = visit(name="shop")
    assert count == 1
    reply = service.post("/v2/interact", {"profile": {"name": "shop"}})
    assert reply.status == 409
    assert "saveChanges" in reply.json["error"]
    service.request("DELETE", f"/v2/interact/{first}")
    second, count = visit(name="shop", saveChanges=False)
    assert count == 2
    service.request("DELETE", f"/v2/interact/{second}")
    assert visit(name="shop")[1] == 2


def test_a_session_ends_without_calls(service, idle):
    def state():
        listed = service.get("/v2/interact", key=OTHER).json["sessions"]
        return next(each["status"] for each in listed if each["id"] == idle)

    wait_until(lambda: state() == "destroyed")
    path = f"/v2/interact/{idle}/execute"
    assert service.post(path, {"actions": []}, key=OTHER).status == 410


@pytest.mark.full
def test_a_first_page_slower_than_the_time_without_calls_opens_a_session(
    service, open_session
):
    with RawSite({"/": (12.0, PLAIN)}) as site:
        session_id = open_session(url=site.url("/"), activityTtl=10, ttl=600)

    def state():
        listed = service.get("/v2/interact").json["sessions"]
        return next(each["status"] for each in listed if each["id"] == session_id)

    assert state() == "active"
    wait_until(lambda: state() == "destroyed")


def test_sessions_need_a_browser(start_service):
    service = start_service()  # SCRAPER_RENDER is never
    for path in ("/v2/interact", f"/v2/browser/{UNKNOWN}/execute"):
        body = {} if path.endswith("interact") else {"actions": []}
        reply = service.post(path, body)
        assert (reply.status, reply.json["code"]) == (400, "BROWSER_REQUIRED")
    assert service.get("/v2/browser").json == {"success": True, "sessions": []}


@pytest.mark.full
def test_session_times_follow_the_options(service, open_session):
    before = time.time()
    reply = service.post("/v2/interact", {"ttl": 60})
    ends = datetime.fromisoformat(reply.json["expiresAt"]).timestamp()
    service.request("DELETE", f"/v2/interact/{reply.json['id']}")
    assert 60 <= ends - before <= 60 + 60


@pytest.mark.full
def test_a_session_whose_browser_is_killed_is_over(service, open_session):
    others = set(chromium_processes(service.pid))
    session_id = open_session()
    own = set(chromium_processes(service.pid)) - others
    os.kill(min(own), signal.SIGKILL)
    path = f"/v2/interact/{session_id}/execute"
    wait_until(lambda: service.post(path, {"actions": []}).status == 410)
    wait_until(lambda: not own & set(chromium_processes(service.pid)))
    ended = service.request("DELETE", f"/v2/interact/{session_id}").json
    assert ended["creditsBilled"] == 2


@pytest.mark.full
def test_a_killed_service_leaves_no_session_processes(app, start_service):
    quick = {**SETTINGS, "SCRAPER_LEASE_S": "2"}
    first = start_service(**quick)
    opened = first.post("/v2/interact", {"url": app.url("/form")})
    assert opened.status == 200, opened.json
    session_id = opened.json["id"]
    [home] = Path(tempfile.gettempdir()).glob(f"scraper-browser-{first.pid}-*")
    assert processes_of(str(home))
    os.kill(first.pid, signal.SIGKILL)
    second = start_service(**quick)
    path = f"/v2/interact/{session_id}/execute"
    wait_until(lambda: second.post(path, {"actions": []}).status == 410)
    wait_until(lambda: not home.exists() and not processes_of(str(home)))
    [row] = second.get("/v2/interact").json["sessions"]
    assert (row["id"], row["status"]) == (session_id, "destroyed")
    ended = second.request("DELETE", f"/v2/interact/{session_id}").json
    assert (ended["status"], ended["creditsBilled"]) == ("destroyed", 0)
    assert second.post("/v2/interact", {}).status == 200


def test_credits_are_charged_once_by_started_minutes(start_service):
    service = start_service(**SETTINGS)
    before = spent(service)
    session_id = service.post("/v2/interact", {}).json["id"]
    for _ in range(2):
        billed = service.request("DELETE", f"/v2/interact/{session_id}").json
        assert billed["creditsBilled"] == 2
    wait_until(lambda: spent(service) == before + 2)


def spent(service):
    return sum(
        period["creditsUsed"]
        for period in service.get("/v2/team/credit-usage/historical").json["periods"]
    )


@pytest.mark.full
def test_the_view_shows_pictures_of_the_page(service, app):
    opened = service.post("/v2/interact", {"url": app.url("/colours")}).json
    status, headers, page = fetch(opened["liveViewUrl"])
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert b"<script" not in page
    place = re.search(rb'src="([^"]+)"', page)[1].decode()
    with urllib.request.urlopen(urljoin(opened["liveViewUrl"], place)) as stream:
        kind = stream.headers["Content-Type"]
        assert kind == "multipart/x-mixed-replace; boundary=picture"
        assert stream.readline() == b"--picture\r\n"
        assert stream.readline() == b"Content-Type: image/jpeg\r\n"
        size = int(stream.readline().partition(b":")[2])
        assert stream.readline() == b"\r\n"
        assert stream.read(size).startswith(b"\xff\xd8")
        service.request("DELETE", f"/v2/interact/{opened['id']}")
        stream.read()  # it ends with the session
    assert fetch(opened["liveViewUrl"])[0] == 401


@pytest.mark.full
def test_a_session_without_a_live_view_has_no_live_view_url(service):
    opened = service.post("/v2/interact", {"streamWebView": False}).json
    assert opened.keys() == {"success", "id", "expiresAt"}
    path = f"/v2/interact/{opened['id']}"
    for other in ("/view", "/view/pictures"):
        assert service.get(f"{path}{other}?token=x").status == 401
    service.request("DELETE", path)
