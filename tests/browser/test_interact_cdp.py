"""The browser of a session for Playwright and Puppeteer, by its cdpUrl (interface, 27.5)."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from scraper_service.cli.main import main
from scraper_service.crawling.browser.devtools import decide
from tests.browser.conftest import SETTINGS, chromium_processes
from tests.conftest import Service
from tests.support.waiting import wait_until
from tools.bench.memory import memory_of

MEMORY_MB = 60  # of messages that wait for a caller


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("cdp")


@pytest.fixture(scope="module")
def service(data_dir):
    settings = {**SETTINGS, "SCRAPER_BROWSER_CDP": "true"}
    running = Service(data_dir, **settings)
    yield running
    assert running.stop() == 0, running.stderr
    assert "token=" not in running.stderr
    assert chromium_processes(running.pid) == []


@pytest.fixture(scope="module")
def session(service, app):
    """One session for the tests of messages, with its cdpUrl."""
    body = {"url": app.url("/form"), "ttl": 600}
    return service.post("/v2/interact", body).json


@pytest.fixture(scope="module")
def playwright():
    with sync_playwright() as running:
        yield running


@contextmanager
def protocol(session):
    """Yield a function that sends a method and returns the reply."""
    with connect(session["cdpUrl"], max_size=None) as socket:
        number = 0

        def call(method, **params):
            nonlocal number
            number += 1
            socket.send(json.dumps({"id": number, "method": method, "params": params}))
            while (reply := json.loads(socket.recv(60))).get("id") != number:
                pass
            return reply

        yield call


def test_playwright_drives_the_page_of_the_session_over_cdp(
    service, app, session, playwright
):
    browser = playwright.chromium.connect_over_cdp(session["cdpUrl"])
    [page] = browser.contexts[0].pages
    assert page.title() == "Form"
    page.fill("#name", "Ada")
    page.press("#name", "Enter")
    for _ in range(12):  # more than the redirects in a row that are followed
        page.goto(app.url("/colours"))
    page.goto(app.url("/form"))
    page.click("#go")
    other = browser.contexts[0].new_page()
    other.goto(app.url("/colours"))
    assert other.title() == "Colours"
    other.close()
    path = f"/v2/interact/{session['id']}/execute"
    step = {"code": "get text '#out'", "language": "bash"}
    assert service.post(path, step).json["result"] == "clicked"
    browser.close()
    assert service.post(path, step).json["result"] == "clicked"


def test_a_browser_over_cdp_reaches_only_urls_allowed_for_scrapes(
    app, session, playwright, canary
):
    before = canary.count()
    browser = playwright.chromium.connect_over_cdp(session["cdpUrl"])
    page = browser.contexts[0].pages[0]
    other = browser.contexts[0].new_page()
    for each in (page, other):
        for url in (canary.url, "file:///etc/passwd", "chrome://version"):
            with pytest.raises(PlaywrightError):
                each.goto(url)
        # The page of an error may come later than the error.
        wait_until(lambda page=each: is_at(page, app.url("/form")))
        # An answer of the proxy, which says nothing of the place.
        each.evaluate(
            "(url) => fetch(url, { mode: 'no-cors' }).catch(() => 0).then(() => 0)",
            canary.url,
        )
        each.evaluate("() => { location = 'file:///etc/passwd' }")
        assert "passwd" not in each.url
    other.close()
    browser.close()
    assert canary.count() == before


def is_at(page, url):
    try:
        page.goto(url)
    except PlaywrightError:
        return False
    return page.url == url


@pytest.mark.parametrize(
    "method",
    [
        "Target.createBrowserContext",
        "Target.exposeDevToolsProtocol",
        "Target.sendMessageToTarget",
        "DOM.setFileInputFiles",
        "Browser.getBrowserCommandLine",
        "Extensions.loadUnpacked",
        "Tethering.bind",
        "SystemInfo.getInfo",
    ],
)
def test_methods_beyond_the_page_are_refused(session, method):
    with protocol(session) as call:
        assert "not allowed" in call(method)["error"]["message"]
        assert "result" in call("Browser.getVersion")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("Target.createTarget", {"url": "file:///etc/passwd"}),
        ("Page.navigate", {"url": "view-source:file:///etc/passwd"}),
        ("Page.navigate", {"url": " FILE:///etc/passwd"}),
        ("Target.attachToTarget", {"targetId": "1"}),
        ("Target.setAutoAttach", {"autoAttach": True, "flatten": False}),
        ("Input.dispatchDragEvent", {"data": {"files": ["/etc/passwd"]}}),
        ("Input.dispatchDragEvent", {"data": {"files": ["/etc/passwd"], "items": 1}}),
        *(
            ("Input.dispatchDragEvent", {"data": {"items": [item]}})
            for item in (
                {"mimeType": "text/uri-list", "data": "file:///etc/passwd"},
                {"mimeType": "TEXT/URI-LIST", "data": "http://a/\r\nFILE:/etc/passwd"},
                {"mimeType": "DownloadURL", "data": "text/plain:a:file:///etc/passwd"},
                {"data": "file:///etc/passwd"},
            )
        ),
        ("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": "/tmp"}),
        ("Page.setDownloadBehavior", {"behavior": "allow"}),
        ("Nothing.known", {}),
    ],
)
def test_parameters_beyond_the_page_are_refused(method, params):
    text = json.dumps({"id": 7, "sessionId": "S", "method": method, "params": params})
    decision = decide(text, "own")
    reply = json.loads(decision.reply)
    assert (reply["id"], reply["sessionId"], decision.sent) == (7, "S", "")
    assert reply["error"]["code"] == -32000


@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        (
            "Browser.setDownloadBehavior",
            {"behavior": "allowAndName", "downloadPath": "/", "browserContextId": "x"},
            {"behavior": "deny", "browserContextId": "own"},
        ),
        ("Page.setDownloadBehavior", {"behavior": "default"}, {"behavior": "deny"}),
        (
            "Target.createTarget",
            {"url": "about:blank", "browserContextId": "other"},
            {"url": "about:blank", "browserContextId": "own"},
        ),
    ],
)
def test_contexts_and_downloads_belong_to_the_session(method, params, sent):
    text = json.dumps({"id": 1, "method": method, "params": params})
    assert json.loads(decide(text, "own").sent)["params"] == sent


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        (
            (
                '{"id": 1, "method": "Page.navigate", "params": {"url": "file:///etc/passwd",'
                ' "url": "http://a.example/"}}'
            ),
            {"url": "http://a.example/"},
        ),
        (
            (
                '{"id": 1, "method": "Input.dispatchDragEvent", "params": {"data": {"files":'
                ' ["/etc/passwd"], "files": [], "items": []}}}'
            ),
            {"data": {"files": [], "items": []}},
        ),
        (
            (
                '{"method": "DOM.setFileInputFiles", "id": 1, "method": "Runtime.evaluate",'
                ' "params": {"x": "\\ud83d"}}'
            ),
            {"x": "\ud83d"},
        ),
    ],
)
def test_the_browser_gets_the_checked_message(text, checked):
    sent = decide(text, "own").sent
    assert json.loads(sent)["params"] == checked
    assert "passwd" not in sent
    assert "setFileInputFiles" not in sent


def test_text_that_names_a_file_may_be_dropped():
    item = {"mimeType": "text/plain", "data": "see file:///etc/hosts"}
    params = {"data": {"items": [item], "files": [], "dragOperationsMask": 1}}
    message = {"id": 1, "method": "Input.dispatchDragEvent", "params": params}
    assert json.loads(decide(json.dumps(message), "own").sent) == message


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_a_number_that_json_does_not_have_is_refused(number):
    text = f'{{"id": 1, "method": "Runtime.evaluate", "params": {{"x": {number}}}}}'
    assert json.loads(decide(text, "own").reply)["error"]["code"] == -32700


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", -32700),
        (b"\0\1", -32700),
        ("[" * 200_000, -32700),
        ("[]", -32600),
        ('{"method": "Browser.getVersion"}', -32600),
        ('{"id": "1", "method": "Browser.getVersion"}', -32600),
        ('{"id": 5, "method": 5}', -32600),
        ('{"id": 5, "method": "Browser.getVersion", "params": [1]}', -32600),
    ],
)
def test_a_malformed_message_gets_an_error_and_the_connection_stays_open(
    session, message, code
):
    with connect(session["cdpUrl"], max_size=None) as socket:
        socket.send(message)
        reply = json.loads(socket.recv(60))
        assert reply["error"]["code"] == code
        assert reply.get("id") == (5 if '"id": 5' in str(message) else None)
        socket.send('{"id": 6, "method": "Browser.getVersion"}')
        assert json.loads(socket.recv(60))["result"]


def test_a_message_of_endless_parts_ends_the_connection(session):
    with connect(session["cdpUrl"], max_size=None) as socket:
        with pytest.raises(ConnectionClosed):
            socket.send("" for _ in range(1_000_000))
        assert socket.close_code == 1009
    with connect(session["cdpUrl"], max_size=None) as socket:
        parts = ['{"id": 6, ', *[""] * 1000, '"method": "Browser.getVersion"}']
        socket.send(parts)
        assert json.loads(socket.recv(60))["result"]


def test_many_parallel_messages_are_answered_in_order(session):
    count = 5000
    with connect(session["cdpUrl"], max_size=None, max_queue=None) as socket:
        for number in range(count):
            socket.send(json.dumps({"id": number, "method": "Nothing.known"}))
        found = [json.loads(socket.recv(60))["id"] for _ in range(count)]
    assert found == [*range(count)]


@pytest.mark.full
def test_a_session_has_at_most_its_limit_of_pages(service):
    opened = service.post("/v2/interact", {}).json
    with connect(opened["cdpUrl"]) as one, connect(opened["cdpUrl"]) as other:
        for number in range(6):
            for socket in (one, other):
                message = {"id": number, "method": "Target.createTarget"}
                message["params"] = {"url": "about:blank"}
                socket.send(json.dumps(message))
        replies = [json.loads(each.recv(60)) for each in (one, other) for _ in range(6)]
        made = [r["result"]["targetId"] for r in replies if "result" in r]
        refused = {r["error"]["message"] for r in replies if "error" in r}
        assert len(made) == 9  # beside the page of the session
        assert refused == {"a session has at most 10 pages; close one"}
        for number, method in enumerate(("closeTarget", "createTarget")):
            params = {"targetId": made[0], "url": "about:blank"}
            message = {"id": number, "method": f"Target.{method}", "params": params}
            one.send(json.dumps(message))
            assert "result" in json.loads(one.recv(60))
    service.request("DELETE", f"/v2/interact/{opened['id']}")


def test_a_token_opens_its_session_only(service, session):
    other = service.post("/v2/interact", {}, key="fc-other-team").json
    base, _, token = session["cdpUrl"].partition("?token=")
    foreign = other["cdpUrl"].partition("?")[0]
    for url in (base, f"{base}?token=x", f"{foreign}?token={token}"):
        with pytest.raises(InvalidStatus) as refused, connect(url):
            pass
        assert refused.value.response.status_code == 401
    path = "/" + session["cdpUrl"].split("/", 3)[3]
    assert service.get(path).status == 400  # no WebSocket
    service.request("DELETE", f"/v2/interact/{other['id']}", key="fc-other-team")


@pytest.mark.full
def test_a_token_ends_with_its_session(service):
    opened = service.post("/v2/interact", {}).json
    with protocol(opened) as call:
        assert call("Browser.getVersion")["result"]
        listed = service.get("/v2/interact?status=active").json["sessions"]
        assert opened["cdpUrl"] in {each["cdpUrl"] for each in listed}
        service.request("DELETE", f"/v2/interact/{opened['id']}")
        for _ in range(1000):
            try:
                call("Browser.getVersion")
            except ConnectionClosed:
                break
        else:
            pytest.fail("the connection outlives its session")
    with pytest.raises(InvalidStatus), connect(opened["cdpUrl"]):
        pass


@pytest.mark.full
def test_closing_the_browser_ends_the_session(service):
    opened = service.post("/v2/interact", {}).json
    with protocol(opened) as call:
        assert call("Browser.close")["result"] == {}

    def is_over():
        path = f"/v2/interact/{opened['id']}/execute"
        return service.post(path, {"actions": []}).status == 410

    wait_until(is_over)


@pytest.mark.full
def test_there_is_no_cdp_url_unless_the_operator_enables_cdp(start_service):
    service = start_service(**SETTINGS)
    opened = service.post("/v2/interact", {}).json
    assert "cdpUrl" not in opened
    assert service.get("/v2/interact").json["sessions"][0]["cdpUrl"] == ""
    path = f"/v2/interact/{opened['id']}/cdp?token="
    assert service.get(path).status == 401


def test_read_only_keys_get_no_cdp_url_and_revoked_keys_have_no_session(
    service, app, data_dir
):
    def keys(*arguments):
        found = CliRunner().invoke(
            main, ["keys", *arguments, "--data-dir", str(data_dir)]
        )
        assert found.exit_code == 0, found.output
        return found.stdout.strip()

    working = keys("create", "--team", "both")
    reading = keys("create", "--team", "both", "--scope", "read", "--name", "reads")
    opened = service.post("/v2/interact", {"url": app.url("/form")}, key=working).json
    [row] = service.get("/v2/interact?status=active", key=working).json["sessions"]
    assert row["cdpUrl"] == opened["cdpUrl"]
    [row] = service.get("/v2/interact?status=active", key=reading).json["sessions"]
    assert (row["id"], row["cdpUrl"]) == (opened["id"], "")
    rows = [line.split() for line in keys("list").splitlines()]
    [key_id] = [row[0] for row in rows if working[-4:] in " ".join(row)]
    with connect(opened["cdpUrl"], max_size=None) as socket:
        keys("revoke", key_id)
        with pytest.raises(ConnectionClosed):
            socket.recv(60)
    ended = "/v2/interact?status=destroyed"
    wait_until(lambda: service.get(ended, key=reading).json["sessions"])


@pytest.mark.full
def test_a_caller_that_does_not_read_costs_no_memory(service, session):
    before = memory_of(service.pid)[0].rss_mb
    with connect(
        session["cdpUrl"], max_size=None, max_queue=1, ping_interval=None
    ) as socket:

        def send(method, **message):
            socket.send(json.dumps({"method": method, **message}))

        send("Target.getTargets", id=1)
        while (reply := json.loads(socket.recv(60))).get("id") != 1:
            pass
        targets = reply["result"]["targetInfos"]
        [page] = [each["targetId"] for each in targets if each["type"] == "page"]
        send("Target.attachToTarget", id=2, params={"targetId": page, "flatten": True})
        while (reply := json.loads(socket.recv(60))).get("id") != 2:
            pass
        inside = reply["result"]["sessionId"]
        send("Runtime.enable", id=3, sessionId=inside)
        script = "for (let n = 0; n < 200; n++) console.log('x'.repeat(1e6) + n)"
        params = {"expression": script}
        send("Runtime.evaluate", id=4, sessionId=inside, params=params)
        peak = 0.0
        for _ in range(50):
            time.sleep(0.1)
            peak = max(peak, memory_of(service.pid)[0].rss_mb)
        assert peak - before < MEMORY_MB
    with protocol(session) as call:
        assert "result" in call("Target.getTargets")
