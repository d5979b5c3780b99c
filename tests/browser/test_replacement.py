"""Drivers and browsers that die, hang, or are ended by a page, and who is beside them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scraper_service.crawling.browser.running_browser import processes_of
from tests.browser import fragile
from tests.browser.conftest import SETTINGS
from tests.browser.fragile import driver_and_chromium, homes_of
from tests.support.waiting import wait_until

OTHER = "fc-other-team"
PATIENCE_MS = 85_000  # for a page; a busy machine takes long
PATIENCE_S = PATIENCE_MS / 1000


def browsers_of(service):
    """Return the pids of driver and Chromium of each browser that has both."""
    pairs = [driver_and_chromium(home) for home in homes_of(service)]
    return [pair for pair in pairs if all(pair)]


@pytest.fixture(scope="module")
def fragile_service(tmp_path_factory):
    """A service whose browsers can be ended by a page."""
    from tests.conftest import Service

    settings = {**SETTINGS, "SCRAPER_PLAYWRIGHT_BROWSER_PROVIDER": fragile.FRAGILE}
    running = Service(tmp_path_factory.mktemp("fragile"), **settings)
    yield running
    assert running.stop() == 0, running.stderr
    assert homes_of(running) == set()


class Scrape(threading.Thread):
    """A scrape in a thread of its own; ``reply`` waits for its end."""

    def __init__(self, service, url, key, **options):
        super().__init__()
        self._service, self._key = service, key
        self._body = {"url": url, "maxAge": 0, "timeout": PATIENCE_MS, **options}
        self._reply = None
        self.start()

    def run(self):
        self._reply = self._service.post("/v2/scrape", self._body, key=self._key)

    def reply(self):
        self.join()
        return self._reply


def begin_innocents(service, app, count=2):
    """Begin to scrape slow pages of another team, and wait until they are open."""
    app.paths()
    names = [f"/slow?{random.random()}" for _ in range(count)]
    scrapes = [Scrape(service, app.url(n), OTHER, waitFor=4000) for n in names]
    seen = []
    wait_until(lambda: _are_asked(app, names, seen), PATIENCE_S)
    return scrapes


def _are_asked(app, names, seen):
    seen.extend(app.paths())
    return all(f"127.0.0.2{name}" in seen for name in names)


def assert_came(scrape):
    reply = scrape.reply()
    assert reply.status == 200, reply.json
    assert reply.json["data"]["markdown"].startswith("# Slow")


def assert_renders(service, app):
    assert_came(Scrape(service, app.url("/slow"), OTHER, waitFor=1))


# -- pages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "title",
        *(
            pytest.param(k, marks=pytest.mark.slow)
            for k in ("attribute", "console", "error", "fetch")
        ),
    ],
)
@pytest.mark.timeout(400)
@pytest.mark.slow_on("title")
def test_a_page_with_256_mi_characters_ends_no_page_of_others(service, app, kind):
    innocents = begin_innocents(service, app)
    guilty = Scrape(service, app.url(f"/huge?{kind}"), service.key, waitFor=1000)
    for innocent in innocents:
        assert_came(innocent)
    reply = guilty.reply()
    if reply.status != 200:
        assert reply.json["code"] in {"SCRAPE_SITE_ERROR", "SCRAPE_TIMEOUT"}
    if kind in {"title", "attribute"}:
        assert reply.status != 200
    if reply.status == 500:
        said = reply.json["error"]
        assert "more than 20 MiB" in said or "no other page beside it" in said
    assert_renders(service, app)


@pytest.mark.full
@pytest.mark.parametrize(
    "how",
    [
        "driver-SIGKILL",
        pytest.param("chromium-SIGKILL", marks=pytest.mark.slow),
        pytest.param("driver-SIGSTOP", marks=pytest.mark.slow),
        pytest.param("chromium-SIGSTOP", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(400)
def test_a_page_that_ends_its_browser_fails_alone(fragile_service, app, how):
    service = fragile_service
    innocents = begin_innocents(service, app)
    url = app.other + f"/ender?{how}"  # a host of its own
    guilty = Scrape(service, url, service.key, waitFor=1000)
    for innocent in innocents:
        assert_came(innocent)
    reply = guilty.reply()
    if "SIGKILL" in how:
        assert (reply.status, reply.json["code"]) == (500, "SCRAPE_SITE_ERROR")
        assert "no other page beside it" in reply.json["error"]
    else:  # its time may be over before it was tried often enough
        assert reply.status in {408, 500}
    assert_renders(service, app)
    wait_until(lambda: len(homes_of(service)) <= 1, PATIENCE_S)


@pytest.mark.full
@pytest.mark.timeout(400)
def test_pages_that_end_browsers_do_not_end_pages_of_other_hosts(fragile_service, app):
    service = fragile_service
    url = app.other + "/ender?driver-SIGKILL"
    assert Scrape(service, url, service.key, waitFor=1).reply().status == 500
    innocents = begin_innocents(service, app)
    before = browsers_of(service)
    assert Scrape(service, url, service.key, waitFor=1).reply().status == 500
    assert set(before) <= set(browsers_of(service))
    for innocent in innocents:
        assert_came(innocent)


# -- from outside ------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("kind", ["driver", "chromium"])
@pytest.mark.timeout(400)
@pytest.mark.slow_on("SIGSTOP")
def test_a_browser_that_dies_or_stops_is_replaced(service, app, kind, name):
    assert_renders(service, app)
    scrapes = begin_innocents(service, app)
    before = homes_of(service)
    killed = [pair[kind == "chromium"] for pair in browsers_of(service)]
    assert killed
    pids = [pid for home in before for pid in processes_of(home)]
    for pid in killed:
        os.kill(pid, signal.Signals[name])
    for scrape in scrapes:
        assert_came(scrape)
    assert_renders(service, app)
    wait_until(lambda: not before & homes_of(service), PATIENCE_S)
    wait_until(lambda: not any(_is_there(pid) for pid in pids), PATIENCE_S)


def _is_there(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.full
@pytest.mark.timeout(400)
def test_an_idle_browser_that_stopped_is_replaced(service, app):
    assert_renders(service, app)
    for _, chromium in browsers_of(service):
        os.kill(chromium, signal.SIGSTOP)
    assert_renders(service, app)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["driver", "chromium"])
@pytest.mark.timeout(400)
def test_the_service_ends_while_a_browser_process_is_stopped(start_service, app, kind):
    service = start_service(**SETTINGS)
    assert_renders(service, app)
    [pair] = browsers_of(service)
    pids = [pid for home in homes_of(service) for pid in processes_of(home)]
    os.kill(pair[kind == "chromium"], signal.SIGSTOP)
    assert service.stop() == 0, service.stderr
    assert homes_of(service) == set()
    wait_until(lambda: not any(_is_there(pid) for pid in pids), PATIENCE_S)


@pytest.mark.full
@pytest.mark.timeout(400)
def test_a_service_without_time_to_end_leaves_no_stopped_browser(start_service, app):
    service = start_service(**SETTINGS, SCRAPER_SHUTDOWN_TIMEOUT_S="1")
    assert_renders(service, app)
    [(_, chromium)] = browsers_of(service)
    os.kill(chromium, signal.SIGSTOP)
    assert service.stop() == 0, service.stderr
    assert homes_of(service) == set()
    wait_until(lambda: not _is_there(chromium), PATIENCE_S)


@pytest.mark.full
@pytest.mark.timeout(400)
def test_a_stopped_browser_of_a_killed_service_is_ended_by_the_next(
    start_service, service, app
):
    killed = start_service(**SETTINGS)
    assert_renders(killed, app)
    pids = [pid for home in homes_of(killed) for pid in processes_of(home)]
    [(_, chromium)] = browsers_of(killed)
    os.kill(chromium, signal.SIGSTOP)
    killed.kill()
    assert _is_there(chromium)
    for _, running in browsers_of(service):  # so that it starts another
        os.kill(running, signal.SIGKILL)
    assert_renders(service, app)
    wait_until(lambda: not any(_is_there(pid) for pid in pids), PATIENCE_S)
    assert homes_of(killed) == set()


# -- crawls ------------------------------------------------------------------------------


def crawl_with_kills(service, app, pages, kills):
    """Render many pages while browsers are killed; all come, each of them once."""
    urls = [app.url(f"/slow?{kills}-{n}") for n in range(pages)]
    body = {"urls": urls, "waitFor": 300, "maxAge": 0, "timeout": 200_000}
    reply = service.post("/v2/batch/scrape", body)
    assert reply.status == 200, reply.json
    path = "/" + reply.json["url"].split("/", 3)[3]
    chosen = random.Random(1)  # no secret
    asked, hit = set(), set()
    for number in range(kills):
        # No page is hit twice: one that ends two browsers of its own has failed.
        # Pages of a host whose page died alone are rendered one by one for minutes.
        wait_until(lambda: hit <= came(service, path), 1200)  # noqa: B023
        pair = wait_until(lambda: browsers_of(service), 60)[0]
        time.sleep(chosen.random())
        before = came(service, path)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pair[number % 2], signal.SIGKILL)
        asked |= {app.url("/" + each.partition("/")[2]) for each in app.paths()}
        hit = (asked & set(urls)) - before
    wait_until(lambda: service.get(path).json["status"] != "scraping", 1200)
    errors = service.get(f"{path}/errors").json
    assert [each["error"] for each in errors["errors"]] == [], service.stderr
    assert sorted(pages_of(service, path)) == sorted(urls)


def pages_of(service, path):
    """Return the addresses of the pages that a batch has so far, each as often as it came."""
    found, link = [], f"{path}?limit=100"
    while link:
        part = service.get(link).json
        found += [page["metadata"]["url"] for page in part["data"]]
        link = part.get("next") and "/" + part["next"].split("/", 3)[3]
        if not part["data"]:
            break
    return found


def came(service, path):
    return set(pages_of(service, path))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_batch_comes_whole_while_browsers_are_killed(start_service, app):
    service = start_service(**SETTINGS)
    crawl_with_kills(service, app, pages=45, kills=4)
    assert service.stop() == 0
    assert homes_of(service) == set()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_batch_comes_whole_while_browsers_are_killed_50_times(start_service, app):
    service = start_service(**SETTINGS)
    crawl_with_kills(service, app, pages=400, kills=50)
    assert service.stop() == 0
    assert homes_of(service) == set()


# -- without service ---------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.timeout(400)
def test_scrapy_crawl_survives_the_end_of_its_driver(tmp_path, app):
    output = tmp_path / "page.json"
    environment = {
        **os.environ,
        **{k: v for k, v in SETTINGS.items() if "API_KEYS" not in k},
    }
    app.paths()
    words = ("url=" + app.url("/slow?by-hand"), "wait_for_ms=4000")
    crawl = subprocess.Popen(
        (
            *(sys.executable, "-m", "scrapy", "crawl", "scrape"),
            *(part for word in words for part in ("-a", word)),
            *("-O", str(output)),
        ),
        cwd=Path(__file__).parents[2],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        seen = []
        wait_until(lambda: _are_asked(app, ["/slow?by-hand"], seen), PATIENCE_S)
        [(driver, _)] = browsers_of(crawl)
        os.kill(driver, signal.SIGKILL)
        _, said = crawl.communicate(timeout=PATIENCE_S)
    finally:
        crawl.kill()
        crawl.wait()
    assert crawl.returncode == 0, said
    [page] = json.loads(output.read_text())
    assert page["markdown"].startswith("# Slow"), said
    assert homes_of(crawl) == set()
