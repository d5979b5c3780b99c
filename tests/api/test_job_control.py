"""Control of running jobs (API additions, part 31), seen from sites and clients."""

from __future__ import annotations

import concurrent.futures
import http.client
import itertools
import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import datetime
from functools import partial

import pytest

from tests.conftest import KEY, Reply, Service
from tests.support.crash import kill, read_all, read_rows, sqlite_of
from tests.support.gauge import Gauge
from tests.support.linked_site import named
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, moved, page
from tests.support.waiting import wait_until
from tests.support.watching import EventClient, open_socket

UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
SETTINGS = {
    "SCRAPER_LEASE_S": "3",
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31",
    "SCRAPER_JOB_CONCURRENCY": "4",
    "SCRAPER_HOST_CONCURRENCY": "2",
}
PATIENT = {"maxAge": 0, "timeout": 300_000}
CHANGED = (Reply, OSError, http.client.HTTPException)  # the last two by a kill
NOTHING = {"admitted": 0}
PAGES = {f"/p/{number}" for number in range(1, Gauge.pages)} | {"/p/"}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with few requests at a time, for the tests of this module."""
    data = tmp_path_factory.mktemp("control")
    found = Service(data, **SETTINGS)
    found.data_dir = data
    yield found
    assert found.stop() == 0, found.stderr


@pytest.fixture
def gauge():
    """A site whose pages a test holds."""
    with Gauge() as site:
        site.wait_s = 0
        yield site


def crawl_of(service, gauge, **options):
    """Start a crawl of a site; return the path of its status."""
    body = {
        "url": f"http://{gauge.server_name}:{gauge.server_port}/p/",
        "sitemap": "skip",
        "ignoreRobotsTxt": True,
        "scrapeOptions": PATIENT,
        **options,
    }
    reply = service.post("/v2/crawl", body)
    assert reply.status == 200, reply.json
    return f"/v2/crawl/{reply.json['id']}"


def change(service, path, **body):
    reply = service.request("PATCH", path, body)
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True
    assert reply.json["id"] == path.rpartition("/")[2]
    return reply.json


def status(service, path):
    reply = service.get(path)
    assert reply.status == 200, reply.json
    return reply.json


def ended(service, path):
    wait_until(lambda: status(service, path)["status"] != "scraping")
    found = status(service, path)
    assert found["status"] == "completed", found
    return found


def in_state(service, path, state):
    """Return the number of URLs of a job in a state."""
    return status(service, f"{path}/urls?state={state}")["total"]


def is_at_rest(service, path):
    return in_state(service, path, "leased") == 0


def held_crawl(service, gauge, **options):
    """Start a crawl, and return when two of its pages wait for the gate."""
    gauge.gate.clear()
    path = crawl_of(service, gauge, **options)
    wait_until(lambda: gauge.now == 2)
    return path


def paths_of(documents):
    return Counter("/p/" + d["metadata"]["url"].partition("/p/")[2] for d in documents)


def test_running_pages_arrive_and_no_request_starts(running, gauge):
    path = held_crawl(running, gauge)
    answer = change(running, path, paused=True)
    assert (answer["status"], answer["paused"]) == ("scraping", True)
    assert answer["effect"] == NOTHING
    started = list(gauge.asked)
    gauge.gate.set()
    wait_until(lambda: is_at_rest(running, path))
    found = status(running, path)
    assert (found["status"], found["paused"]) == ("scraping", True)
    assert found["pausedAt"] >= found["createdAt"]
    assert found["completed"] == len(started) == 3
    assert found["total"] == len(PAGES)
    assert gauge.asked == started
    assert change(running, path, paused=False)["paused"] is False
    last = ended(running, path)
    assert last.keys().isdisjoint({"paused", "pausedAt"})
    assert paths_of(read_all(running, path)) == Counter(PAGES)
    assert Counter(gauge.asked) == Counter(PAGES)


@pytest.mark.full
def test_a_pause_survives_a_killed_service(start_service, tmp_path, gauge):
    first = start_service(**SETTINGS)
    path = held_crawl(first, gauge)
    change(first, path, paused=True)
    kill(first)
    gauge.gate.set()
    second = start_service(tmp_path, **SETTINGS)
    wait_until(lambda: is_at_rest(second, path))
    before = list(gauge.asked)
    with Gauge() as other:  # another job runs meanwhile
        ended(second, crawl_of(second, other))
    assert gauge.asked == before
    assert status(second, path)["paused"] is True
    change(second, path, paused=False)
    ended(second, path)
    assert paths_of(read_all(second, path)) == Counter(PAGES)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_all_processes_of_a_job_notice_a_pause(
    start_service, tmp_path, gauge, request, kind
):
    settings = dict(SETTINGS)
    if kind == "postgresql":
        settings["SCRAPER_DATABASE_URL"] = request.getfixturevalue("postgres_tables")()
    services = [start_service(tmp_path, **settings) for _ in range(2)]
    gauge.gate.clear()
    path = crawl_of(services[0], gauge)
    # The first process leases four pages, so the second one has the next.
    wait_until(lambda: in_state(services[0], path, "leased") > 4)
    change(services[0], path, paused=True)
    gauge.gate.set()
    wait_until(lambda: is_at_rest(services[1], path))
    before = Counter(gauge.asked)
    found = status(services[1], path)
    assert (found["paused"], found["completed"]) == (True, before.total())
    change(services[1], path, paused=False)
    ended(services[0], path)
    assert paths_of(read_all(services[0], path)) == Counter(PAGES)
    assert Counter(gauge.asked) == Counter(PAGES)


def has_more(service, path, pages):
    return status(service, path)["completed"] > pages


@pytest.mark.slow
def test_changes_and_kills_lose_no_url(start_service, tmp_path, site):
    name = "200-slow100-changed"
    body = {"url": site.url(named(name).path(0)), "sitemap": "skip"}
    service = start_service(**SETTINGS)
    reply = service.post("/v2/crawl", {**body, "scrapeOptions": {"maxAge": 0}})
    path = f"/v2/crawl/{reply.json['id']}"
    for turn in range(6):
        done = status(service, path)["completed"]
        wanted = {"paused": turn % 3 == 1}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            calls = [
                pool.submit(service.request, "PATCH", path, {**wanted, "limit": limit})
                for limit in (10_000, 10_000 - turn)
            ]
            time.sleep(0.01 * turn)  # so that the kill hits another step each time
            kill(service)
            for call in calls:
                assert isinstance(call.exception() or call.result(), CHANGED)
        service = start_service(tmp_path, **SETTINGS)
        assert status(service, path)["completed"] >= done
        change(service, path, paused=False)
        wait_until(partial(has_more, service, path, done))
    last = ended(service, path)
    rows = read_rows(sqlite_of(tmp_path), path.rpartition("/")[2])
    found = Counter(row["state"] for row in rows.frontier)
    assert (found[3], found[5]) == (rows.job["done"], rows.job["skipped"]) == (200, 0)
    assert last["completed"] == len(rows.pages) == len(rows.ledger) == 200
    assert rows.job["open"] == rows.job["held"] == rows.job["failed"] == 0
    assert rows.endings == ["completed"]


def test_a_batch_is_paused_and_cancelled(running, gauge):
    gauge.gate.clear()
    base = f"http://{gauge.server_name}:{gauge.server_port}"
    urls = [f"{base}/p/{n}" for n in range(1, 9)]
    reply = running.post("/v2/batch/scrape", {"urls": urls, **PATIENT})
    path = f"/v2/batch/scrape/{reply.json['id']}"
    wait_until(lambda: gauge.now == 2)
    answer = change(running, path, paused=True, origin="js-sdk@9")
    assert answer["options"] == {
        "delay": None,
        "maxConcurrency": None,
        "retentionDays": 1,
    }
    gauge.gate.set()
    wait_until(lambda: is_at_rest(running, path))
    assert status(running, path)["completed"] == 2
    assert running.request("DELETE", path).json["status"] == "cancelled"
    assert "paused" not in status(running, path)
    reply = running.request("PATCH", path, {"paused": False})
    assert reply.status == 409
    assert reply.json == {
        "success": False,
        "error": "Batch is already cancelled",
        "code": "JOB_FINISHED",
    }


def test_streams_and_webhooks_report_a_pause(running, gauge):
    with Receiver() as receiver:
        hook = {
            "url": receiver.url("/ok/control"),
            "events": ["crawl.paused", "resumed", "completed"],
        }
        path = held_crawl(running, gauge, webhook=hook, limit=12)
        with (
            open_socket(running, path, KEY) as socket,
            EventClient(running, f"{path}/events") as events,
        ):
            assert "paused" not in socket.recv()
            change(running, path, paused=True)
            change(running, path, paused=True)
            change(running, path, paused=False)
            gauge.gate.set()
            told = list(events)
        by_name = {each.event: each.data for each in told}
        assert Counter(each.event for each in told) == {
            "crawl.started": 1,
            "crawl.page": 12,
            "crawl.paused": 1,
            "crawl.resumed": 1,
            "crawl.completed": 1,
        }
        [facts] = by_name["crawl.paused"]["data"]
        assert facts["options"] == {
            "limit": 12,
            "delay": None,
            "maxConcurrency": None,
            "retentionDays": 1,
        }
        assert facts["effect"] == NOTHING
        assert by_name["crawl.paused"]["success"] is True
        wait_until(lambda: len(receiver.received("/ok/control")) == 3)
        sent = [each.json for each in receiver.received("/ok/control")]
        assert [body["type"] for body in sent] == [
            "crawl.paused",
            "crawl.resumed",
            "crawl.completed",
        ]
        assert sent[0]["data"] == [facts]


def test_a_job_paused_for_too_long_is_cancelled(start_service, tmp_path, gauge):
    first = start_service(**SETTINGS)
    path = held_crawl(first, gauge)
    change(first, path, paused=True)
    gauge.gate.set()
    wait_until(lambda: is_at_rest(first, path))
    assert first.stop() == 0
    week_s = 7 * 86_400
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as database, database:
        database.execute("UPDATE job SET paused_at = paused_at - ?", (week_s,))
    second = start_service(tmp_path, **SETTINGS)
    wait_until(lambda: status(second, path)["status"] == "cancelled")
    with EventClient(second, f"{path}/events") as events:
        [last] = [each for each in events if each.event == "crawl.cancelled"]
    assert last.data["error"].startswith("The job was paused for 7 days")


def test_limits_are_raised_and_lowered_while_a_crawl_runs(running, gauge):
    path = held_crawl(running, gauge, limit=5)
    wait_until(lambda: status(running, path)["total"] == 5)
    raised = change(running, path, limit=8)
    assert raised["effect"] == {**NOTHING, "admitted": 3}
    assert raised["options"]["limit"] == 8
    lowered = change(running, path, limit=4)
    assert lowered["effect"] == NOTHING
    assert status(running, path)["total"] == 4
    gauge.gate.set()
    last = ended(running, path)
    assert (last["completed"], last["total"]) == (4, 4)
    listed = {s: in_state(running, path, s) for s in ("done", "held", "pending")}
    assert listed == {"done": 4, "held": len(PAGES) - 4, "pending": 0}
    assert len(gauge.asked) == 4


def test_the_pace_of_a_running_job_changes(running, gauge):
    path = held_crawl(running, gauge)
    change(running, path, maxConcurrency=1)
    before = len(gauge.log)
    gauge.gate.set()
    ended(running, path)
    assert Counter(gauge.asked) == Counter(PAGES)
    in_flight = list(itertools.accumulate([2] + [n for n, _ in gauge.log[before:]]))
    later = in_flight[in_flight.index(0) :]
    assert set(later) == {0, 1}, "one page at a time after those that ran before"
    assert len(later) > len(PAGES)


@pytest.mark.full
def test_a_delay_applies_and_is_switched_off_again(running, gauge):
    path = held_crawl(running, gauge)
    answer = change(running, path, delay=15)
    assert answer["options"]["delay"] == 15
    gauge.gate.set()
    wait_until(lambda: gauge.now == 0 and is_waiting(running, path))
    assert len(gauge.asked) < len(PAGES)
    assert change(running, path, delay=None)["options"]["delay"] is None
    ended(running, path)
    assert paths_of(read_all(running, path)) == Counter(PAGES)


def is_waiting(service, path):
    report = status(service, f"{path}/report")
    return any(
        delay["source"] == "delay"
        for host in report["hosts"]
        for delay in host["delays"]
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "must have at least one of paused"),
        ({"origin": "api"}, "must have at least one of paused"),
        ({"paused": "yes"}, "paused must be of type boolean, got 'yes'"),
        ({"paused": None}, "must have at least one of paused"),
        ({"pause": True}, "did you mean 'paused'?"),
        ({"scrapeOptions": {}}, "Unrecognized key"),
        ({"retentionDays": 366}, "retentionDays must be 0.01 to 365, got 366"),
        ({"retentionDays": 1e308}, "retentionDays must be 0.01 to 365, got 1e+308"),
        ({"retentionDays": 10**400}, "retentionDays must be 0.01 to 365, got 1000"),
        ({"delay": 0}, "delay must be > 0, got 0"),
        ({"delay": -1}, "delay must be > 0, got -1"),
        ({"delay": 61}, "delay must be <= 60"),
        ({"maxConcurrency": 0}, "maxConcurrency must be >= 1, got 0"),
        ([], "must be of type object"),
    ],
)
def test_bad_changes_are_refused(running, body, text):
    for path in ("crawl", "batch/scrape"):
        reply = running.request("PATCH", f"/v2/{path}/{UNKNOWN}", body)
        assert reply.status == 400, reply.json
        assert reply.json["code"] == "BAD_REQUEST"
        assert text in reply.json["details"][0]["message"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("includePaths", ["/a"]), ("excludePaths", []), ("maxDiscoveryDepth", None)],
)
def test_the_rules_of_a_running_crawl_stay(running, key, value):
    reply = running.request("PATCH", f"/v2/crawl/{UNKNOWN}", {key: value, "limit": 2})
    assert reply.status == 400, reply.json
    assert "cannot change while a crawl runs: cancel the crawl" in str(reply.json)
    assert reply.json["error"].count(key) < 2
    reply = running.request("PATCH", f"/v2/batch/scrape/{UNKNOWN}", {key: value})
    assert reply.status == 400, reply.json


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (0, "limit must be >= 1, got 0"),
        (1.5, "limit must be of type integer"),
        ("9", "limit must be of type integer"),
        (None, "must have at least one of paused, limit"),
    ],
)
def test_bad_limits_are_refused(running, limit, text):
    reply = running.request("PATCH", f"/v2/crawl/{UNKNOWN}", {"limit": limit})
    assert reply.status == 400, reply.json
    assert text in reply.json["details"][0]["message"]


def test_a_batch_has_no_limit(running, gauge):
    reply = running.request("PATCH", f"/v2/batch/scrape/{UNKNOWN}", {"limit": 5})
    assert reply.json["details"][0]["code"] == "unrecognized_keys"
    gauge.gate.clear()
    url = f"http://{gauge.server_name}:{gauge.server_port}/p/1"
    batch = running.post("/v2/batch/scrape", {"urls": [url], **PATIENT}).json["id"]
    reply = running.request("PATCH", f"/v2/crawl/{batch}", {"limit": 5})
    assert reply.status == 400, reply.json
    assert reply.json["details"] == [
        {
            "code": "custom",
            "path": ["limit"],
            "message": "A batch has no such option to change.",
        }
    ]


def test_jobs_that_cannot_be_changed(running):
    good = {"paused": True}
    reply = running.request("PATCH", f"/v2/crawl/{UNKNOWN}", good)
    assert reply.status == 404
    assert reply.json == {"success": False, "error": "Job not found"}
    assert running.request("PATCH", "/v2/crawl/no-id", good).status == 400
    assert running.request("PATCH", f"/v1/crawl/{UNKNOWN}", good).status == 405
    assert running.request("PATCH", f"/v2/crawl/{UNKNOWN}", good, key="x").status == 401


# -- retries ----------------------------------------------------------------------------


@pytest.fixture
def faulty():
    """A site with two pages that redirect to themselves, for now."""
    links = [*(f"/ok/{n}" for n in range(3)), "/loop/1", "/loop/2"]
    pages = {"/": page(*links, title="Start")}
    pages |= {path: page(title=path) for path in links}
    pages |= {path: moved(path) for path in links[3:]}
    with ScriptedSite(pages) as site:
        yield site


def crawled(service, faulty, **options):
    """Crawl the site to its end; return the path of the status."""
    body = {"url": faulty.url("/"), "sitemap": "skip", "scrapeOptions": PATIENT}
    reply = service.post("/v2/crawl", {**body, **options})
    path = f"/v2/crawl/{reply.json['id']}"
    ended(service, path)
    return path


def failed(service, path):
    listed = status(service, f"{path}/errors")["errors"]
    return sorted(each["url"].rpartition("/")[2] for each in listed)


def retry(service, path, body=None, **options):
    reply = service.post(f"{path}/retry", body, **options)
    assert reply.status == 200, reply.json
    return reply.json


def test_failed_pages_are_retried_by_code(running, faulty):
    path = crawled(running, faulty, limit=10)
    assert failed(running, path) == ["1", "2"]
    before = read_all(running, path)
    asked = len(faulty.paths())
    last = status(running, path)
    none = retry(
        running,
        path,
        {"codes": ["SCRAPE_TIMEOUT", "SCRAPE_PDF_ANTIBOT_ERROR"], "origin": "api"},
    )
    assert none == {**none, "status": "completed", "retried": 0}
    assert status(running, path) == last
    faulty.put("/loop/1", page(title="It works"))
    key = {"x-idempotency-key": "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d1a"}
    body = {"codes": ["SCRAPE_SITE_ERROR"], "scrapeOptions": {"timeout": 50_000}}
    again = retry(running, path, body, headers=key)
    assert again == {**again, "status": "scraping", "retried": 2}
    done = ended(running, path)
    assert running.post(f"{path}/retry", body, headers=key).status == 409
    assert failed(running, path) == ["2"]
    assert (done["completed"], done["total"], done["creditsUsed"]) == (5, 6, 5)
    after = read_all(running, path)
    assert after[: len(before)] == before
    assert after[-1]["metadata"]["title"] == "It works"
    assert {path[:5] for path in faulty.paths()[asked:]} == {"/loop"}
    with EventClient(running, f"{path}/events") as events:
        kinds = Counter(each.event for each in events)
    assert kinds == {"crawl.started": 1, "crawl.page": 8, "crawl.completed": 2}


def test_failed_pages_of_a_batch_are_retried_by_host_and_url(running, faulty):
    urls = [faulty.url(f"/loop/{n}") for n in (1, 2)]
    batch = running.post("/v2/batch/scrape", {"urls": urls, **PATIENT}).json["id"]
    path = f"/v2/batch/scrape/{batch}"
    ended(running, path)
    assert retry(running, path, {"hosts": ["a.example"]})["retried"] == 0
    assert retry(running, path, {"urls": urls[:1]})["retried"] == 1
    ended(running, path)
    faulty.put("/loop/1", page(title="One"))
    faulty.put("/loop/2", page(title="Two"))
    assert retry(running, path, {"hosts": ["127.0.0.2"]})["retried"] == 2
    assert ended(running, path)["completed"] == 2
    assert failed(running, path) == []
    assert retry(running, path)["retried"] == 0


def test_a_page_that_fails_again_is_listed_once(running, faulty):
    path = crawled(running, faulty, limit=10)
    before = {each["id"] for each in status(running, f"{path}/errors")["errors"]}
    assert retry(running, path, {})["retried"] == 2
    ended(running, path)
    after = {each["id"] for each in status(running, f"{path}/errors")["errors"]}
    assert len(after) == 2
    assert not after & before, "the newest failure"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"codes": []}, "must have at least 1 item"),
        ({"codes": "SCRAPE_TIMEOUT"}, "codes must be of type array"),
        ({"codes": ["FOO"]}, "codes.0 must be one of 'CONCURRENCY_QUEUE_TIMEOUT', '"),
        ({"codes": ["FOO"]}, "'UNSUPPORTED_FILE_TYPE', got 'FOO'"),
        ({"statusCodes": [99]}, "statusCodes.0 must be >= 100"),
        ({"hosts": ["http://a.example/"]}, "must be a host name without port"),
        ({"urls": ["x"] * 1001}, "urls must have at most 1000 items, got 1001"),
        ({"url": "x"}, "did you mean 'urls'?"),
        ({"scrapeOptions": {"formats": ["html"]}}, "scrapeOptions has no ['formats']"),
        ({"scrapeOptions": {"timeout": 0}}, "scrapeOptions.timeout must be >= 1"),
    ],
)
def test_bad_retries_are_refused(running, body, text):
    reply = running.post(f"/v2/crawl/{UNKNOWN}/retry", body)
    assert reply.status == 400, reply.json
    assert text in reply.json["details"][0]["message"]


def test_jobs_that_cannot_be_retried(running, gauge):
    assert running.post(f"/v2/crawl/{UNKNOWN}/retry", {}).status == 404
    path = held_crawl(running, gauge)
    running.request("DELETE", path)
    reply = running.post(f"{path}/retry", {})
    assert (reply.status, reply.json["code"]) == (409, "JOB_FINISHED")


def expiry(service, path):
    """Return the Unix time of a job's end, and that of its last change."""
    found = status(service, path)
    times = (found[name] for name in ("expiresAt", "completedAt"))
    return [datetime.fromisoformat(text).timestamp() for text in times]


@pytest.mark.parametrize("kind", ["crawl", "batch"])
def test_a_finished_job_takes_another_retention_only(running, site, kind):
    path, body = "/v2/crawl", {"url": site.url("/page/1"), "limit": 1}
    if kind == "batch":
        path, body = "/v2/batch/scrape", {"urls": [site.url("/page/1")]}
    path = f"{path}/{running.post(path, body).json['id']}"
    wait_until(lambda: status(running, path)["status"] == "completed")
    told = change(running, path, retentionDays=3)
    assert (told["status"], told["paused"]) == ("completed", False)
    assert told["options"]["retentionDays"] == 3
    assert told["effect"] == NOTHING
    ends_at, ended_at = expiry(running, path)
    assert ends_at - ended_at == pytest.approx(3 * 86_400, abs=1)
    assert change(running, path, retentionDays=3)["options"]["retentionDays"] == 3
    for body in ({"paused": True}, {"delay": 2, "retentionDays": 1}):
        assert running.request("PATCH", path, body).status == 409
    for days in (366, 0, 0.001, "1"):
        reply = running.request("PATCH", path, {"retentionDays": days})
        assert reply.status == 400, days
        assert reply.json["details"][0]["path"] == ["retentionDays"]
    assert expiry(running, path) == [ends_at, ended_at]


def test_a_change_of_retentionDays_applies_to_a_running_job(running, gauge):
    path = crawl_of(running, gauge, limit=3)
    assert change(running, path, retentionDays=0.5)["options"]["retentionDays"] == 0.5
    wait_until(lambda: status(running, path)["status"] == "completed")
    ends_at, ended_at = expiry(running, path)
    assert ends_at - ended_at == pytest.approx(43_200, abs=1)


def test_a_job_with_zero_retention_refuses_retentionDays(running, gauge):
    path = crawl_of(running, gauge, limit=3, zeroDataRetention=True)
    reply = running.request("PATCH", path, {"retentionDays": 1})
    assert reply.status == 400
    assert "zeroDataRetention" in reply.json["details"][0]["message"]


def test_pages_of_a_long_paused_job_stay_readable(running, gauge):
    gauge.gate.clear()  # all pages but the first wait
    path = crawl_of(running, gauge, limit=5, retentionDays=0.01)
    pages = wait_until(lambda: status(running, path)["data"])
    change(running, path, paused=True)
    scrape = f"/v2/scrape/{pages[0]['metadata']['scrapeId']}"
    with closing(sqlite3.connect(running.data_dir / "jobs.sqlite")) as database:
        database.execute(
            "UPDATE job SET expires_at = 1 WHERE id = ?", [path.rpartition("/")[2]]
        )
        database.commit()
    assert running.get(scrape).status == 200
    gauge.gate.set()
    change(running, path, paused=False)
