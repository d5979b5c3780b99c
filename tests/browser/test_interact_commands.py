"""Steps of browser sessions in lines of agent-browser (interface, 27.4)."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import SETTINGS, fetch
from tests.conftest import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("commands"), **SETTINGS)
    yield running
    assert running.stop() == 0, running.stderr


@pytest.fixture(scope="module")
def session(service):
    return service.post("/v2/browser", {"ttl": 600}).json["id"]


@pytest.fixture
def bash(service, session):
    """Return a function that runs lines and returns the result."""

    def call(code, session_id=session, **more):
        body = {"code": code, "language": "bash", **more}
        reply = service.post(f"/v2/browser/{session_id}/execute", body)
        assert reply.status == 200, reply.json
        found = reply.json
        assert found["success"] is (found["exitCode"] == 0) is ("error" not in found)
        return found

    return call


def reference(snapshot, role):
    """Return the id of the first element of a role in a snapshot."""
    return re.search(rf"- {role}.*? (@\w+)", snapshot)[1]


def test_a_form_is_filled_by_the_ids_of_a_snapshot(bash, app):
    tree = bash(f"agent-browser open {app.url('/form')} && snapshot")["stdout"]
    assert "cursor=" not in tree
    field, button = reference(tree, "textbox"), reference(tree, 'button "Go"')
    found = bash(f"fill {field} 'Ada L.'\npress Enter\nclick {button}\nget text '#out'")
    assert found["result"] == "entered Ada L. clicked"
    assert found["url"] == app.url("/form")


def test_a_short_snapshot_lists_the_controls_of_the_page(bash, app):
    whole = bash(f"open {app.url('/form')} && snapshot")["result"]
    short = bash("snapshot -i")["result"]
    assert short
    assert len(short) < len(whole)
    assert {line.split()[1] for line in short.splitlines()} <= {"textbox", "button"}


def test_each_command_prints_its_result(bash, app):
    bash(f"open {app.url('/form')}")
    lines = bash("get url\nget title\neval 'document.links.length'\neval '({a: [1]})'")
    expected = [app.url("/form"), "Form", "0", '{"a": [1]}']
    assert lines["stdout"].splitlines() == expected
    assert "<button" in bash("get html body")["result"]
    assert bash("wait '#late' && get text '#late'")["result"] == "Late"
    bash("wait 10 && wait --load && wait --load domcontentloaded")
    bash("type '#name' abc && find text Go click")
    assert bash("eval \"document.querySelector('#name').value\"")["result"] == "abc"
    assert "clicked" in bash("get text '#out'")["result"]


def test_pages_are_scrolled_and_left_and_come_back(bash, app):
    bash(f"open {app.url('/colours')} && scroll down 200")
    assert bash("eval scrollY")["result"] == "200"
    bash("scroll up 50")
    assert bash("eval scrollY")["result"] == "150"
    assert bash(f"open {app.url('/form')} && back")["url"] == app.url("/colours")


def test_a_screenshot_is_a_file_of_the_service(bash, app):
    url = bash(f"open {app.url('/colours')} && screenshot")["result"]
    status, headers, body = fetch(url)
    assert (status, headers["Content-Type"]) == (200, "image/png")
    assert body.startswith(b"\x89PNG")


def test_formats_come_after_the_commands(bash, app):
    found = bash(f"open {app.url('/form')} && find text Go click", formats=["markdown"])
    assert "clicked" in found["data"]["markdown"]


@pytest.mark.full(keep=5)
@pytest.mark.parametrize(
    ("code", "exit_code", "part"),
    [
        ("agent-browser snapshot | sh", 127, "pipe"),
        ("ls -l", 127, "no program"),
        ("agent-browser record", 1, "allowed are open"),
        ("click @e999", 1, "take another one"),
        ("click '#none'", 1, "no element matches"),
        ("find text 'Not there' click", 1, "no element has the text"),
        ("snapshot --all", 1, "-i"),
        ("scroll left", 1, "up or down"),
        ("click #go", 1, 'in quotes, "#go"'),
        ("open about:blank\npress Entr", 1, "did you mean 'Enter'"),
        ("open file:///etc/passwd", 1, "unsupported protocol"),
        ("open chrome://version", 1, "unsupported protocol"),
        ("open http://127.0.0.2:1/", 1, "Port 1 is on the list"),
        ("open http://127.0.0.2:2/", 1, "refuses connections"),
        ("open http://no-such-host.invalid/", 1, "does not resolve"),
        ("eval 'throw new Error(7)'", 1, "Error: 7"),
    ],
)
def test_a_command_that_fails_has_a_reason(bash, app, code, exit_code, part):
    bash(f"open {app.url('/form')}")
    found = bash(code, timeout=6)
    assert found["exitCode"] == exit_code
    assert part in found["error"]
    assert found["error"] in found["stderr"]
    if code.startswith(
        "open http:"
    ):  # what is left of a page that did not load differs
        bash(f"open {app.url('/form')}")
    assert bash("get title")["result"] == "Form"


def test_commands_before_a_refused_line_are_not_done(bash, app):
    bash(f"open {app.url('/form')}")
    assert bash(f"open {app.url('/colours')} && snapshot | sh")["exitCode"] == 127
    assert bash("get title")["result"] == "Form"


def test_output_before_a_failure_is_kept(bash, app):
    found = bash(f"open {app.url('/form')} && get title && click '#none'", timeout=6)
    assert (found["stdout"], found["exitCode"]) == ("Form\n", 1)


def test_a_private_url_is_refused_before_any_connection(bash, app, canary):
    before = canary.count()
    bash(f"open {app.url('/form')}")
    found = bash(f"open {canary.url}")
    assert "network that this service does not fetch from" in found["error"]
    assert bash("get title")["result"] == "Form"
    assert canary.count() == before


def test_close_ends_the_session(service, bash):
    session_id = service.post("/v2/browser", {}).json["id"]
    assert bash("close", session_id)["exitCode"] == 0
    reply = service.post(
        f"/v2/browser/{session_id}/execute", {"code": "get url", "language": "bash"}
    )
    assert reply.status == 410
