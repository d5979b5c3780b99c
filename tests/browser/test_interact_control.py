"""The page of a session used by a person, by its interactiveLiveViewUrl (interface, 27.5)."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from playwright.sync_api import expect, sync_playwright
from scrapy.settings import Settings
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from scraper_service.crawling.browser.chromium import find_chromium
from tests.browser.conftest import SETTINGS, chromium_processes, fetch
from tests.conftest import Service
from tests.support.waiting import wait_until

PLACE = """(() => { const box = document.querySelector('{}').getBoundingClientRect();
 return JSON.stringify([(box.x + box.width / 2) / innerWidth, (box.y + box.height / 2) / innerHeight])
})()""".replace("\n", "")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("control"), **SETTINGS)
    yield running
    assert running.stop() == 0, running.stderr
    assert "token=" not in running.stderr
    assert chromium_processes(running.pid) == []


@pytest.fixture
def opened(service, app):
    found = service.post("/v2/interact", {"url": app.url("/form"), "ttl": 300}).json
    yield found
    service.request("DELETE", f"/v2/interact/{found['id']}")


@pytest.fixture
def ask(service, opened):
    """Return a function that runs a line in the page and returns its result."""

    def call(line):
        path = f"/v2/interact/{opened['id']}/execute"
        done = service.post(path, {"code": line, "language": "bash"}).json
        assert done["success"], done
        return done["result"]

    return call


@pytest.fixture
def place(ask):
    """Return a function that returns where an element is in the picture."""

    def find(selector):
        return json.loads(ask(f'eval "{PLACE.replace("{}", selector)}"'))

    return find


def test_a_person_clicks_and_types_in_the_page(opened, ask, place):
    x, y = place("#name")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(Settings({"CHROMIUM_PATH": ""})),
            chromium_sandbox=bool(os.geteuid()),
        )
        page = browser.new_page()
        told = []
        page.on("console", lambda message: told.append(message.text))
        page.goto(opened["interactiveLiveViewUrl"])
        picture = page.get_by_role("img")
        wait_until(lambda: picture.evaluate("e => e.naturalWidth") > 0)
        box = picture.bounding_box()
        page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.keyboard.type("Ada \u00f6")
        page.keyboard.press("Backspace")
        page.keyboard.press("Enter")
        wait_until(lambda: ask("get text '#out'") == "entered Ada")
        page.keyboard.press("Shift+Escape")
        expect(picture).not_to_be_focused()
        assert told == []
        browser.close()


@pytest.mark.full
def test_the_control_socket_accepts_inputs_and_refuses_other_messages(
    opened, ask, place
):
    url = opened["interactiveLiveViewUrl"].replace("http", "ws", 1)
    url = url.replace("/control?", "/control/socket?")
    x, y = place("#name")
    with connect(url) as socket:
        assert next_picture(socket).startswith(b"\xff\xd8")
        for action in ("down", "up"):
            socket.send(json.dumps({"action": action, "x": x, "y": y}))
        socket.send('{"action": "text", "text": "Grace"}')
        for action in ("keydown", "keyup"):
            socket.send(json.dumps({"action": action, "key": "Enter"}))
        wait_until(lambda: ask("get text '#out'") == "entered Grace")
        for message, part in (
            ("no", "must be a JSON object"),
            ("[" * 9000, "must be a JSON object"),
            (b"\0", "must be a JSON object"),
            ('{"action": "jump"}', "action must be one of move, down"),
            ('{"action": "move", "x": 0.5}', "move needs y"),
            ('{"action": "keyup"}', "keyup needs key"),
            ('{"action": "move", "x": 1.5, "y": 0}', "x must be 0 to 1, got 1.5"),
            ('{"action": "move", "x": NaN, "y": 0}', "x must be 0 to 1, got nan"),
            (
                '{"action": "wheel", "x": 0, "y": 0, "dy": 1e9}',
                "dy must be -10000 to 10000",
            ),
            (
                '{"action": "down", "x": 0, "y": 0, "button": "x"}',
                "button must be one of left",
            ),
            ('{"action": "keydown", "key": 5}', "key must be a text"),
        ):
            socket.send(message)
            assert part in next_error(socket)
        socket.send('{"action": "keydown", "key": "NoSuchKey"}')
        socket.send('{"action": "wheel", "x": 0.5, "y": 0.5, "dy": 100}')
        assert ask("get title") == "Form"
        socket.send("x" * 30_000)
        wait_until_closed(socket)


def wait_until_closed(socket):
    with contextlib.suppress(ConnectionClosed):
        for _ in range(1000):
            socket.recv(60)
        pytest.fail("the connection goes on")


def next_picture(socket):
    while isinstance(found := socket.recv(60), str):
        pass
    return found


def next_error(socket):
    while not isinstance(found := socket.recv(60), str):
        pass
    return json.loads(found)["error"]


@pytest.mark.full
def test_a_click_cannot_reach_urls_forbidden_for_scrapes(
    service, opened, ask, place, canary
):
    before = canary.count()
    link = f"document.body.innerHTML = '<a id=out href={canary.url}>away</a>'; 1"
    ask(f'eval "{link}"')
    x, y = place("#out")
    url = opened["interactiveLiveViewUrl"].replace("http", "ws", 1)
    with connect(url.replace("/control?", "/control/socket?")) as socket:
        for action in ("down", "up"):
            socket.send(json.dumps({"action": action, "x": x, "y": y}))
        socket.send('{"action": "no more"}')
        assert "action" in next_error(socket)
        # If the refusal comes during the step, the step says so.
        path = f"/v2/interact/{opened['id']}/execute"
        step = service.post(path, {"code": "get url", "language": "bash"}).json
        assert step["result"].endswith("/form"), step
        assert step["success"] or "SCRAPER_EGRESS_ALLOW" in step["stderr"], step
    assert canary.count() == before


@pytest.mark.full
def test_the_control_token_differs_from_the_view_token_and_ends_with_the_session(
    service, opened, app
):
    view, control = opened["liveViewUrl"], opened["interactiveLiveViewUrl"]
    token = view.partition("token=")[2]
    base = control.partition("?")[0]
    assert token not in control
    status, headers, page = fetch(control)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'sha256-" in policy
    assert b"fc-" not in page
    for url in (base, f"{base}?token={token}", view.replace("/view", "/control")):
        assert fetch(url)[0] == 401
    socket = control.replace("http", "ws", 1).replace("/control?", "/control/socket?")
    with pytest.raises(InvalidStatus), connect(socket.replace("token=", "token=x")):
        pass
    assert fetch(control.replace("/control?", "/control/socket?"))[0] == 400
    with connect(socket) as connection:
        service.request("DELETE", f"/v2/interact/{opened['id']}")
        wait_until_closed(connection)
    assert fetch(control)[0] == 401


@pytest.mark.full
def test_the_control_url_needs_a_key_that_may_act_and_a_live_view(service, opened):
    [row] = service.get("/v2/interact?status=active").json["sessions"]
    assert row["interactiveLiveViewUrl"] == opened["interactiveLiveViewUrl"]
    hidden = service.post("/v2/interact", {"streamWebView": False}).json
    assert "interactiveLiveViewUrl" not in hidden
    service.request("DELETE", f"/v2/interact/{hidden['id']}")
