"""The browser's own life: killed, replaced, crowded, idle, gone."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest

from tests.browser.conftest import SETTINGS, chromium_processes, finished
from tests.support.waiting import WAIT_S, wait_until


def homes(pid):
    """Return the directories of the browsers that process ``pid`` started."""
    return set(Path(tempfile.gettempdir()).glob(f"scraper-browser-{pid}-*"))


def is_running(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def run(service, app):
    """Return a function that starts a scrape and returns where its reply will be."""

    def start(path, service=service, **options):
        replies = []
        body = {"url": app.url(path), "maxAge": 0, "timeout": 200_000, **options}
        thread = threading.Thread(
            target=lambda: replies.append(service.post("/v2/scrape", body))
        )
        thread.start()

        def reply():
            thread.join()
            return replies[0]

        return reply

    return start


def is_asked(app, path, seen):
    seen.extend(app.paths())
    return f"127.0.0.2{path}" in seen


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["", "renderer"], ids=["browser", "renderer"])
def test_a_page_whose_browser_is_killed_is_tried_again(run, page, service, app, kind):
    page("/links", waitFor=1)
    app.paths()
    reply = run("/slow", waitFor=6000)
    seen = []
    wait_until(lambda: is_asked(app, "/slow", seen))
    victims = chromium_processes(service.pid, kind)
    assert victims
    for pid in victims if kind else victims[:1]:
        os.kill(pid, signal.SIGKILL)
    found = reply()
    assert found.status == 200, found.json
    assert found.json["data"]["markdown"].startswith("# Slow")
    assert page("/links", waitFor=1)["metadata"]["statusCode"] == 200


@pytest.mark.full
def test_a_page_whose_browser_is_killed_twice_fails_with_a_reason(run, service, app):
    app.paths()
    reply = run("/slow", waitFor=20_000)
    wait_until(lambda: is_asked(app, "/slow", []))
    over = threading.Event()

    def kill_all():  # a page may get its process late: any that comes
        while not over.wait(0.1):
            for pid in chromium_processes(service.pid, "renderer"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        found = reply()
    finally:
        over.set()
        killer.join()
    assert (found.status, found.json.get("code")) == (500, "SCRAPE_SITE_ERROR"), (
        found.json
    )
    assert "browser ended" in found.json["error"]


def test_a_client_that_disconnects_leaves_no_open_page(service, app, page):
    import http.client
    import json
    import urllib.parse

    page("/links", waitFor=1)
    before = len(chromium_processes(service.pid, "renderer"))
    app.paths()
    address = urllib.parse.urlsplit(service.url).netloc
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    body = {"url": app.url("/slow?gone"), "waitFor": 60_000, "timeout": 200_000}
    connection.request(
        "POST",
        "/v2/scrape",
        json.dumps(body),
        {"Authorization": f"Bearer {service.key}"},
    )
    seen = []
    wait_until(lambda: is_asked(app, "/slow?gone", seen))
    connection.close()
    wait_until(lambda: len(chromium_processes(service.pid, "renderer")) <= before)


@pytest.mark.slow
def test_a_crowd_waits_and_all_are_served(run):
    replies = [run(f"/links?{n}", waitFor=1) for n in range(12)]
    assert [reply().status for reply in replies] == [200] * 12


@pytest.mark.slow
def test_a_full_browser_queue_refuses_scrapes_and_delays_jobs(start_service, app, run):
    service = start_service(
        **SETTINGS, SCRAPER_BROWSER_CONCURRENCY="1", SCRAPER_BROWSER_QUEUE="1"
    )
    app.paths()
    first = run("/slow?1", service, waitFor=4000)
    wait_until(lambda: is_asked(app, "/slow?1", []))
    body = {"urls": [app.url(f"/slow?b{n}") for n in range(3)], "waitFor": 1}
    batch = service.post("/v2/batch/scrape", body)
    others = [run(f"/slow?{n}", service, waitFor=1) for n in range(2, 5)]
    replies = [reply() for reply in others]
    refused = [reply for reply in replies if reply.status != 200]
    assert refused
    for reply in refused:
        assert reply.json["code"] == "CONCURRENCY_QUEUE_TIMEOUT"
        assert "wait for the browser" in reply.json["error"]
    assert first().status == 200
    assert len(finished(service, batch)) == 3


@pytest.mark.full
def test_a_browser_is_replaced_ends_when_idle_and_ends_with_a_killed_service(
    start_service, app
):
    orphans = [
        Path(tempfile.mkdtemp(prefix=f"scraper-browser-{owner}-"))
        # Above any id of a process; an id that another process had before.
        for owner in ("4194305", f"{os.getpid()}-1")
    ]
    service = start_service(
        **SETTINGS,
        SCRAPER_BROWSER_PAGES="2",
        SCRAPER_BROWSER_IDLE_S="1",
        SCRAPER_BROWSER_CONCURRENCY="1",
    )
    assert chromium_processes(service.pid) == []  # nothing was needed so far
    browsers = set()
    for number in range(4):
        body = {"url": app.url(f"/links?{number}"), "waitFor": 1, "timeout": 200_000}
        assert service.post("/v2/scrape", body).status == 200
        browsers |= homes(service.pid)
    assert len(browsers) == 2
    assert not any(orphan.exists() for orphan in orphans)
    wait_until(lambda: not chromium_processes(service.pid))
    wait_until(lambda: not homes(service.pid))
    assert service.post("/v2/scrape", {**body, "maxAge": 0}).status == 200
    pids = chromium_processes(service.pid)
    assert pids
    service.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_the_service_works_without_a_browser(start_service, app):
    service = start_service(**SETTINGS, SCRAPER_CHROMIUM_PATH="/no/browser")
    reply = service.post("/v2/scrape", {"url": app.url("/client")})
    assert reply.json["data"]["metadata"]["engine"] == "http"
    reply = service.post(
        "/v2/scrape", {"url": app.url("/client"), "formats": ["screenshot"]}
    )
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    assert "CHROMIUM_PATH (/no/browser)" in reply.json["details"][0]["message"]
    batch = {"urls": [app.url("/client")], "mobile": True}
    assert service.post("/v2/batch/scrape", batch).status == 400
