"""Pages rendered by the operator's browser elsewhere, by its DevTools address."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

import pytest

from tests.browser import test_leaks
from tests.browser.conftest import SETTINGS, fetch
from tests.conftest import Service
from tests.support.remote_chromium import RemoteChromium
from tests.support.waiting import wait_until

WAYS, render = test_leaks.WAYS, test_leaks.render
forbidden, hostile = test_leaks.forbidden, test_leaks.hostile


@pytest.fixture(scope="module")
def remote():
    with RemoteChromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def service(tmp_path_factory, remote):
    settings = {**SETTINGS, "SCRAPER_BROWSER_CDP_URL": remote.socket_url}
    running = Service(tmp_path_factory.mktemp("remote"), **settings)
    yield running
    assert running.stop() == 0, running.stderr
    assert "/devtools/browser/" not in running.stderr  # the path is a secret


def test_pages_are_rendered_elsewhere_and_leave_nothing_there(service, app, remote):
    body = {
        "url": app.url("/client"),
        "maxAge": 0,
        "formats": ["markdown", "screenshot"],
    }
    found = service.post("/v2/scrape", body).json["data"]
    assert found["metadata"]["engine"] == "browser"
    assert "made by a script" in found["markdown"]
    assert fetch(found["screenshot"])[2].startswith(b"\x89PNG")
    wait_until(lambda: app.url("") not in str(fetch(f"{remote.url}/json/list")[2]))


@pytest.mark.full
def test_no_way_of_a_page_leads_to_a_forbidden_place_there(service, hostile, forbidden):
    reply = render(service, hostile, "/", formats=["markdown", "screenshot"])
    assert reply.status == 200, reply.json
    assert f"tried {len(WAYS)} ways" in reply.json["data"]["markdown"]
    assert forbidden.seen == []


@pytest.mark.full
@pytest.mark.slow_on("script-move", "meta-move")
@pytest.mark.parametrize("path", ["/moved", "/script-move", "/meta-move"])
def test_a_page_that_moves_to_a_forbidden_place_fails_there_too(
    service,
    hostile,
    forbidden,
    path,
):
    reply = render(service, hostile, path, formats=["rawHtml", "screenshot"])
    assert (reply.status, reply.json.get("code")) == (403, "UNSUPPORTED_SITE")
    assert forbidden.seen == []


@pytest.mark.full
def test_a_session_has_a_browser_of_this_machine(service, app):
    opened = service.post("/v2/interact", {"url": app.url("/form")})
    assert opened.status == 200, opened.json
    service.request("DELETE", f"/v2/interact/{opened.json['id']}")


@pytest.mark.full
def test_a_browser_of_another_address_than_its_url_gets_no_page(
    start_service, app, remote
):
    with Forwarder("127.0.0.9", remote.url) as url:
        service = start_service(**SETTINGS, SCRAPER_BROWSER_CDP_URL=url)
        body = {"url": app.url("/client"), "maxAge": 0, "waitFor": 1}
        reply = service.post("/v2/scrape", body)
        assert reply.status == 400, reply.json
        assert "SCRAPER_BROWSER_PROXY_ADDRESS" in reply.json["error"]


class Forwarder:
    """A port of another address of this machine that leads to a browser."""

    def __init__(self, host, url):
        self._target = url.removeprefix("http://").split(":")
        self._server = socket.create_server((host, 0))

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        host, port = self._server.getsockname()
        return f"http://{host}:{port}"

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._server.close()

    def _accept(self):
        host, port = self._target
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection((host, int(port)))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()


def carry(source, target):
    with source, contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def doctor(url, *settings):
    """Return the line of the browser that the command prints."""
    names = [x for each in (f"BROWSER_CDP_URL={url}", *settings) for x in ("-s", each)]
    done = subprocess.run(
        [sys.executable, "-m", "scraper_service", *names, "doctor", "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    [line] = (x for x in done.stdout.splitlines() if " browser: " in x)
    return line


@pytest.mark.full
def test_doctor_tries_the_browser(remote):
    found = doctor(remote.url)
    assert found.startswith("works")
    assert found.endswith(f" at {remote.url.removeprefix('http://')}")


@pytest.mark.full
def test_a_wrong_address_is_named_by_doctor_and_by_each_page(start_service, app):
    body = {"url": app.url("/client"), "maxAge": 0, "waitFor": 1}
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"ws://user:hidden@127.0.0.1:{closed.getsockname()[1]}/x?token=hidden"
    found = doctor(dead)
    assert found.startswith("fails")
    assert "ECONNREFUSED" in found
    assert "SCRAPER_BROWSER_CDP_URL" in found
    assert "hidden" not in found
    service = start_service(**SETTINGS, SCRAPER_BROWSER_CDP_URL=dead)
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    assert "remote browser cannot be reached" in reply.json["error"]
    assert service.get("/health").status == 503
    assert "hidden" not in service.stderr
    body = {"url": app.url("/client"), "formats": ["screenshot"]}
    wrong = start_service(
        **SETTINGS, SCRAPER_BROWSER_CDP_URL="ftp://user:hidden@there/?token=hidden"
    )
    reply = wrong.post("/v2/scrape", body)
    assert reply.status == 400
    message = reply.json["details"][0]["message"]
    assert "SCRAPER_BROWSER_CDP_URL must be a URL such as" in message
    assert "got 'ftp://there/'" in message


@pytest.mark.slow
def test_pages_go_on_when_the_browser_comes_back(start_service, app):
    with RemoteChromium() as first:
        settings = {**SETTINGS, "SCRAPER_BROWSER_CDP_URL": first.url}
        service = start_service(**settings)
        body = {"url": app.url("/client"), "maxAge": 0, "waitFor": 1}
        assert service.post("/v2/scrape", body).status == 200
        port = first.port
        first.kill()
        with RemoteChromium(port):
            assert service.post("/v2/scrape", body).status == 200


@pytest.mark.full
def test_a_document_that_its_script_holds_up_is_read_as_received_there(service, app):
    body = {"url": app.url("/held-script"), "maxAge": 0, "timeout": 10_000}
    found = service.post("/v2/scrape", {**body, "waitFor": 1}).json["data"]
    assert "The last words of a page that waits." in found["markdown"]
    assert "/never.js" in found["warning"]
