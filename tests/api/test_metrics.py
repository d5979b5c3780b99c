"""``GET /metrics``: what is counted, who may read it, and what it never shows."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as plain
from twisted.internet.address import IPv4Address, UNIXAddress

from scraper_service.api.errors import NO_SUCH_PATH
from scraper_service.api.openapi.route import VARIABLE
from scraper_service.api.routes.health import MetricsAccess
from scraper_service.storage.database import Database
from scraper_service.storage.jobs.metrics import read_counts
from scraper_service.storage.schema import frontier, worker
from tests.api.test_openapi import APPS
from tests.conftest import Service
from tests.process.test_service import converters_of
from tests.support.receiver import Receiver
from tests.support.waiting import wait_until
from tools.bench.processes import ROOT

KEY = "a-key-of-prometheus"
ACCEPT_OPEN = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
TYPES = {
    "text/plain; version=0.0.4; charset=utf-8": plain,
    "application/openmetrics-text; version=1.0.0; charset=utf-8": open_metrics,
}


def read(service, **headers):
    """Return the response to a reader of metrics: status, content type and text."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(f"{service.url}/metrics", headers=headers)
    try:
        with opener.open(asked, timeout=60) as response:
            text = response.read().decode()
            return response.status, response.headers["Content-Type"], text
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def samples(service, **headers):
    """Return all values by name and labels, as Prometheus reads them."""
    status, media, text = read(service, **headers)
    assert status == 200
    return {
        (each.name, *sorted(each.labels.items())): each.value
        for family in TYPES[media](text)
        for each in family.samples
    }


def value(service, name, **labels):
    return samples(service).get((f"scraper_{name}", *sorted(labels.items())), 0.0)


@pytest.fixture(scope="module")
def measured(site, tmp_path_factory):
    """A service that has scraped a page, a missing host, and crawled three pages."""
    with Service(
        tmp_path_factory.mktemp("measured"),
        SCRAPER_METRICS_KEY=KEY,
        SCRAPER_LOG_JSON="true",
    ) as service:
        body = {"url": site.url("/text"), "maxAge": 60_000}
        for _ in range(2):
            assert service.post("/v2/scrape", body).status == 200
            assert service.get("/v2/team/activity").status == 200
        gone = {"url": "http://no-such-host.invalid/"}
        assert service.post("/v2/scrape", gone).json["success"] is False
        crawl = {"url": site.url("/"), "limit": 3, "scrapeOptions": {"maxAge": 0}}
        job = service.post("/v2/crawl", crawl).json["id"]
        wait_until(
            lambda: service.get(f"/v2/crawl/{job}").json["status"] == "completed"
        )
        yield service


@pytest.mark.parametrize("accept", ["", "text/html", ACCEPT_OPEN])
def test_both_formats_are_valid(measured, accept):
    _, media, _ = read(measured, Accept=accept)
    assert media == list(TYPES)[accept == ACCEPT_OPEN]
    assert samples(measured, Accept=accept)["process_resident_memory_bytes",]


def test_pages_are_counted_once(measured):
    assert value(measured, "pages_total", kind="scrape", result="done") == 2
    assert value(measured, "pages_total", kind="scrape", result="failed") == 1
    assert value(measured, "pages_total", kind="crawl", result="done") == 3
    code = "SCRAPE_DNS_RESOLUTION_ERROR"
    assert value(measured, "page_errors_total", code=code) == 1
    assert value(measured, "cache_lookups_total", result="hit") == 1
    assert value(measured, "cache_lookups_total", result="miss") >= 1
    assert value(measured, "credits_total", operation="scrape") == 2
    assert value(measured, "credits_total", operation="crawl") == 3
    found = samples(measured)
    http = ("engine", "http")
    assert found["scraper_page_seconds_count", http] >= 4
    assert found["scraper_fetch_seconds_count", http] >= 4
    assert found["scraper_fetched_bytes_total", http] > 100
    assert found["scraper_site_responses_total", ("class", "2xx")] >= 4
    assert found["scraper_conversion_seconds_count",] >= 4
    assert found["scraper_database_seconds_count", ("operation", "store")] >= 3
    assert found["scraper_event_loop_lag_seconds_count",] > 0


def test_requests_are_counted_by_route_and_status(measured):
    requests = "http_requests_total"
    scrapes = {"route": "/v2/scrape", "method": "POST", "status": "200"}
    assert value(measured, requests, **scrapes) == 3
    missing = {"route": "/v2", "method": "GET", "status": "404"}
    before = value(measured, requests, **missing)
    measured.get("/v2/no-such-route/x")
    assert value(measured, requests, **missing) == before + 1


def test_a_handler_with_several_paths_has_several_routes(measured):
    routes = {dict(key[1:]).get("route") for key in samples(measured)}
    assert "/v2/crawl/{job_id}" in routes
    assert "/v2/batch/scrape/{job_id}" not in routes


def test_odd_requests_make_no_new_routes_and_methods(measured):
    for number in range(20):
        measured.request(f"ODD{number}", f"/v9/{number}", key=None)
        measured.get(f"/v2/crawl/{number}/{number}")
    labels = [
        dict(key[1:])
        for key in samples(measured)
        if key[0] == "scraper_http_requests_total"
    ]
    served = {
        f"/{version}{VARIABLE.sub('{}', rule.rule)}"
        for version, app in APPS.items()
        for rule in app.klein.url_map.iter_rules()
    }
    known = {"/", "none", "/v1", "/v2", "/web", "/docs", "/health", "/metrics"}
    assert {re.sub("{.*?}", "{}", each["route"]) for each in labels} <= served | known
    assert {each["method"] for each in labels} <= {"GET", "POST", "other"}


def test_the_counts_of_the_database(measured):
    wait_until(lambda: value(measured, "jobs", kind="crawl", state="completed") == 1)
    assert value(measured, "workers") == 1
    assert value(measured, "urls", state="leased") == 0
    assert value(measured, "queue_age_seconds") == 0
    assert value(measured, "webhooks_pending") == 0


def test_labels_name_no_caller_and_no_site(measured, site):
    _, _, text = read(measured)
    teams = {line["team"] for line in _teams(measured)}
    host = site.url("/").split("/")[2].partition(":")[0]
    for secret in (*teams, host, "no-such-host", KEY, "fc-", "test-key"):
        assert secret not in text


def _teams(service):
    lines = (line for line in service.stderr.splitlines() if line[:1] == "{")
    found = [json.loads(line) for line in lines]
    return [line for line in found if "team" in line]


def test_killed_converters_are_counted(measured, site):
    before = value(measured, "converter_restarts_total")
    for pid in converters_of(measured.pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: value(measured, "converter_restarts_total") > before)


def test_deliveries_are_counted_by_result(measured, site):
    before = {
        result: value(measured, "webhook_deliveries_total", result=result)
        for result in ("delivered", "failed")
    }
    with Receiver() as receiver:
        for path in ("/ok", "/always/410"):
            webhook = {"url": receiver.url(path), "events": ["completed"]}
            body = {"urls": [site.url("/text")], "webhook": webhook}
            assert measured.post("/v2/batch/scrape", body).status == 200
        for result, count in before.items():
            wait_until(
                lambda r=result, n=count: (
                    value(measured, "webhook_deliveries_total", result=r) == n + 1
                )
            )
    wait_until(lambda: value(measured, "webhooks_pending") == 0)


def test_searches_are_counted_by_engine(measured):
    engine = {"provider": "own", "result": "empty"}
    before = value(measured, "search_requests_total", **engine)
    reply = measured.post("/v2/search", {"query": "no such word anywhere"})
    assert reply.status == 200
    assert value(measured, "search_requests_total", **engine) == before + 1


@pytest.mark.full
def test_requests_to_the_model_and_their_tokens_are_counted(clever, chat, site):
    before = value(clever, "llm_requests_total", result="answered")
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    chat.behave(answer={"title": "By the model"})
    wanted = {"type": "json", "schema": schema, "prompt": "the title"}
    body = {"url": site.url("/text"), "formats": [wanted], "maxAge": 0}
    page = clever.post("/v2/scrape", body).json["data"]
    assert page["metadata"]["answeredBy"] != "rules"
    assert value(clever, "llm_requests_total", result="answered") == before + 1
    used = page["metadata"]["tokensUsed"]
    directions = [
        value(clever, "llm_tokens_total", direction=each)
        for each in ("input", "output")
    ]
    assert sum(directions) >= used > 0


# -- who may read it -----------------------------------------------------------------------

NOT_FOUND = f'{{"success":false,"error":"{NO_SUCH_PATH}"}}'


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "Origin", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP"],
)
def test_metrics_read_through_a_proxy_need_the_key(measured, header):
    asked = {header: "10.0.0.9"}
    assert read(measured, **asked)[::2] == (404, NOT_FOUND)
    for wrong in ("Bearer x", f"Basic {KEY}", KEY, "Bearer fc-test-key", "Bearer é"):
        sent = {**asked, "Authorization": wrong.encode().decode("latin-1")}
        assert read(measured, **sent)[0] == 404
    sent = {**asked, "Authorization": f"Bearer {KEY}"}
    assert read(measured, **sent)[0] == 200


class Caller:
    """A request from an address, with a header at most."""

    def __init__(self, host, key=None, name=None):
        self._host, self._key, self._name = host, key, name

    def getClientAddress(self):
        return IPv4Address("TCP", self._host, 1) if self._host else UNIXAddress(None)

    def getHeader(self, name):
        return None

    def header(self, name):
        if name == "Host":
            return self._name
        return self._key and f"Bearer {self._key}"


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.9", False),
        ("::ffff:10.0.0.9", False),
        ("2001:db8::1", False),
        (None, False),
    ],
)
def test_other_machines_need_the_key(host, is_here):
    access = MetricsAccess("loopback", KEY)
    assert access.allows(Caller(host)) is is_here
    assert access.allows(Caller(host, "wrong")) is is_here
    assert access.allows(Caller(host, KEY))
    assert MetricsAccess("open", "").allows(Caller(host))


@pytest.mark.parametrize(
    ("name", "is_here"),
    [
        *((name, True) for name in (None, "", "localhost", "LocalHost:8000")),
        *((name, True) for name in ("127.0.0.1:8000", "[::1]:8000", "10.0.0.9")),
        *((name, False) for name in ("evil.example", "evil.example:8000")),
        *((name, False) for name in ("localhost.evil.example", "a@evil", "[::1")),
    ],
)
def test_a_name_that_a_web_page_may_lead_here_needs_the_key(name, is_here):
    access = MetricsAccess("loopback", KEY)
    assert access.allows(Caller("127.0.0.1", None, name)) is is_here
    assert access.allows(Caller("127.0.0.1", KEY, name))
    assert MetricsAccess("open", "").allows(Caller("127.0.0.1", None, name))


def test_a_page_of_another_name_cannot_read_the_metrics(service):
    assert read(service, Host="evil.example")[::2] == (404, NOT_FOUND)
    assert read(service)[0] == 200


def test_without_a_key_no_key_is_accepted(service):
    for sent in ("Bearer ", "Bearer", "Bearer None"):
        assert read(service, Via="1.1 proxy", Authorization=sent)[0] == 404


@pytest.mark.full
def test_off_looks_as_refused(start_service):
    service = start_service(SCRAPER_METRICS="off", SCRAPER_METRICS_KEY=KEY)
    sent = {"Authorization": f"Bearer {KEY}"}
    assert read(service, **sent)[::2] == (404, NOT_FOUND)
    assert "/metrics" not in service.get("/openapi.json").json["paths"]


def test_open_metrics_need_no_key(start_service):
    service = start_service(SCRAPER_METRICS="open")
    assert read(service, Via="1.1 proxy")[0] == 200
    assert service.post("/metrics", {}).status == 405
    assert service.get("/metrics/x").status == 404


# -- without a database --------------------------------------------------------------------


def test_metrics_are_served_while_the_database_is_locked(start_service, tmp_path):
    service = start_service(SCRAPER_METRICS="open")
    before = value(service, "pages_total", kind="scrape", result="done")
    other = sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None, timeout=60)
    with contextlib.closing(other):
        other.execute("BEGIN EXCLUSIVE")
        wait_until(lambda: value(service, "check_passes", check="database") == 0)
        assert value(service, "check_passes", check="disk") == 1
        assert value(service, "pages_total", kind="scrape", result="done") == before
        assert value(service, "workers") == 1  # the last count
        other.execute("ROLLBACK")
    wait_until(lambda: value(service, "check_passes", check="database") == 1)


# -- documents and files -------------------------------------------------------------------


def exported(service):
    """Return the names and labels of all metrics that a service may have."""
    _, _, text = read(service)
    return set(re.findall(r"^# TYPE (scraper_\w+)", text, re.MULTILINE))


def test_every_metric_is_documented(measured):
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(scraper_\w+)`", page, re.MULTILINE))
    assert documented == exported(measured)


@pytest.mark.parametrize("name", ["alerts.yaml", "grafana.json"])
def test_rules_and_board_use_metrics_that_exist(measured, name):
    text = (ROOT / "deploy" / name).read_text()
    used = set(re.findall(r"\bscraper_\w+", text))
    names = exported(measured)
    known = names | {f"{each}_bucket" for each in names}
    assert used
    assert used <= known


def test_documented_labels_equal_the_labels_of_the_samples(measured):
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    rows = re.findall(r"^\| `scraper_(\w+)` \| ([^|]*) \|", page, re.MULTILINE)
    labels = {
        f"scraper_{name}": set(re.findall(r"`(\w+)`", cell)) for name, cell in rows
    }
    for name, *found in samples(measured):
        base = re.sub(r"_(bucket|count|sum)$", "", name)
        if base in labels:
            assert {label for label, _ in found} - {"le"} == labels[base], name


@pytest.mark.full
def test_only_processes_with_leased_urls_are_overdue(start_service, tmp_path):
    service = start_service()
    body = {"urls": ["http://127.0.0.3:9/"]}
    path = f"/v2/batch/scrape/{service.post('/v2/batch/scrape', body).json['id']}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    service.stop()
    database = Database(tmp_path)
    with contextlib.closing(database), database.engine.begin() as connection:
        connection.execute(worker.insert().values(id="dead", until=1000.0))
        assert read_counts(connection).lost_age_s == 0
        connection.execute(frontier.update().values(state=2, owner="dead"))
        assert read_counts(connection).lost_age_s > 1000


@pytest.mark.full
def test_an_idle_service_leaves_its_database_alone(tmp_path):
    with Service(tmp_path, SCRAPER_METRICS_KEY=KEY) as service:

        def reads():
            key = {"Authorization": f"Bearer {KEY}"}
            counted = samples(service, **key)
            return counted["scraper_database_seconds_count", ("operation", "read")]

        time.sleep(2)  # for the work of the start
        before = reads()
        time.sleep(6)
        assert reads() - before < 35  # it was 56 when each turn read what it looks at
