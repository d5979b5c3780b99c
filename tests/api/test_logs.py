"""The log: JSON or text, its levels, the access log, and the lines and log of jobs."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import urllib.parse

import pytest

from tests.conftest import KEY
from tests.support.linked_site import named
from tests.support.waiting import WAIT_S, wait_until
from tools.bench.processes import ROOT

TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+\] [A-Z]+: ")


def lines(service):
    """Return all lines of a log in JSON."""
    return [json.loads(line) for line in service.stderr.splitlines()]


def of_logger(service, name):
    return [line for line in lines(service) if line["logger"] == name]


def jobs_log(folder, job, *options):
    """Return the output of `jobs log`."""
    command = (sys.executable, "-m", "scraper_service", "jobs", "log", job, *options)
    environment = {k: v for k, v in os.environ.items() if k[:8] != "SCRAPER_"}
    done = subprocess.run(
        (*command, "--data-dir", str(folder)),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def crawl(service, site, name, **options):
    body = {"url": site.url(named(name).path(0)), "sitemap": "skip", **options}
    return service.post("/v2/crawl", body).json["id"]


def state(service, job):
    return service.get(f"/v2/crawl/{job}").json


def test_every_line_may_be_json(start_service, site):
    service = start_service(SCRAPER_LOG_JSON="true")
    service.get("/v2/none-such")
    job = crawl(service, site, "20-json")
    wait_until(lambda: state(service, job)["status"] == "completed")
    service.stop()
    for line in lines(service):
        assert line.keys() >= {"time", "level", "logger", "message"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    began, ended = of_logger(service, "scraper_service.jobs")
    assert (began["event"], began["job"]) == ("began", job)
    assert (ended["event"], ended["job"]) == ("completed", job)
    assert (ended["pages"], ended["failed"], ended["open"]) == (20, 0, 0)
    assert ended["credits"] == 20
    assert ended["seconds"] > 0


def test_lines_are_text_by_default_and_quote_their_callers(start_service, site):
    service = start_service()
    body = {"url": site.url("/text"), "origin": 'a\n2026 [root] INFO: "b"'}
    service.post("/v2/scrape", body)
    service.get("/v2/%1b%0a")
    service.stop()
    found = service.stderr.splitlines()
    assert all(TEXT_LINE.match(line) for line in found)
    [scrape, odd] = [line for line in found if "scraper_service.access" in line]
    assert re.search(r'127\.0\.0\.1 POST "/v2/scrape" 200 \d+ bytes [\d.]+ ms', scrape)
    assert json.dumps(body["origin"]) in scrape
    assert odd.isprintable()


def test_checks_and_readers_of_metrics_have_no_lines(start_service):
    service = start_service(SCRAPER_LOG_JSON="true")
    for path in ("/health", "/health/live", "/health/ready", "/openapi.json"):
        service.get(path)
    service.post("/metrics", {})
    service.stop()
    assert [line["path"] for line in of_logger(service, "scraper_service.access")] == [
        "/openapi.json"
    ]


def test_the_access_log_may_be_off(start_service, site):
    service = start_service(SCRAPER_ACCESS_LOG="false")
    job = crawl(service, site, "20-off")
    wait_until(lambda: state(service, job)["status"] == "completed")
    service.stop()
    assert "access" not in service.stderr
    assert f"job {job} completed" in service.stderr


@pytest.mark.full
def test_levels_count_for_all_lines(start_service, site):
    service = start_service(SCRAPER_LOG_LEVEL="WARNING", SCRAPER_NO_SUCH="1")
    job = crawl(service, site, "20-quiet")
    wait_until(lambda: state(service, job)["status"] == "completed")
    service.stop()
    [line] = service.stderr.splitlines()
    assert "WARNING: no setting has the name SCRAPER_NO_SUCH" in line


@pytest.mark.full
def test_an_unknown_level_is_refused(tmp_path):
    command = (sys.executable, "-m", "scraper_service", "-s", "LOG_LEVEL=LOUD", "serve")
    done = subprocess.run(
        (*command, "--data-dir", str(tmp_path)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 2
    assert "must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL, got 'LOUD'" in (
        done.stderr
    )


def test_a_pause_is_in_the_log_and_in_jobs_log(start_service, site, tmp_path):
    service = start_service(SCRAPER_LOG_JSON="true")
    job = crawl(service, site, "400-slow300-pause")
    wait_until(lambda: state(service, job)["completed"] > 0)
    service.request("PATCH", f"/v2/crawl/{job}", {"paused": True})
    wait_until(
        lambda: (
            [
                line["event"] for line in of_logger(service, "scraper_service.jobs")
            ].count("left")
            == 1
        )
    )
    service.request("PATCH", f"/v2/crawl/{job}", {"paused": False})
    wait_until(lambda: "goes on" in service.stderr)
    service.request("DELETE", f"/v2/crawl/{job}")
    wait_until(
        lambda: (
            [
                line["event"] for line in of_logger(service, "scraper_service.jobs")
            ].count("left")
            == 2
        )
    )
    told = of_logger(service, "scraper_service.jobs")
    assert {line["job"] for line in told} == {job}
    events = [line["event"] for line in told]
    assert sorted(events) == sorted(
        ("began", "paused", "left", "resumed", "began", "cancelled", "left")
    )
    reasons = [line["reason"] for line in told if line["event"] == "left"]
    assert reasons == ["paused", "cancelled"]
    found = jobs_log(tmp_path, job)
    assert found["id"] == job
    assert [entry["event"] for entry in found["log"]].count("began") == 2
    assert {entry["event"] for entry in found["log"]} == {*events, "started"}
    times = [entry["time"] for entry in found["log"]]
    assert times == sorted(times)


@pytest.mark.full
def test_a_take_over_is_in_jobs_log(start_service, site, tmp_path):
    settings = {"SCRAPER_LEASE_S": "2", "SCRAPER_LOG_JSON": "true"}
    first = start_service(**settings)
    job = crawl(first, site, "60-slow300-taken")
    # After the first page there is a moment without claimed URLs.
    wait_until(lambda: len(site.paths("/site/60-slow300-taken/")) > 1)
    first.kill()
    second = start_service(**settings)
    wait_until(lambda: state(second, job)["status"] == "completed")
    wait_until(lambda: '"event": "completed"' in second.stderr)
    found = jobs_log(tmp_path, job[:8])
    begun = [entry["process"] for entry in found["log"] if entry["event"] == "began"]
    assert len(set(begun)) == len(begun) == 2
    [taken] = [entry for entry in found["log"] if entry["event"] == "taken over"]
    assert taken["urls"] > 0
    [told] = [line for line in lines(second) if line.get("event") == "taken over"]
    assert (told["job"], told["urls"]) == (job, taken["urls"])


@pytest.mark.full
def test_errors_are_counted_by_reason(start_service, tmp_path):
    service = start_service()
    urls = ["http://none-1.invalid/", "http://none-2.invalid/"]
    job = service.post("/v2/batch/scrape", {"urls": urls}).json["id"]
    wait_until(lambda: state(service, job)["status"] == "completed")
    [reason] = jobs_log(tmp_path, job, "--json")["reasons"]
    assert (reason["code"], reason["count"]) == ("SCRAPE_DNS_RESOLUTION_ERROR", 2)
    assert "does not resolve" in reason["error"]


@pytest.mark.full
def test_model_jobs_have_lines_too(start_service, site):
    service = start_service(SCRAPER_LOG_JSON="true")
    body = {"url": site.url("/"), "maxUrls": 2}
    job = service.post("/v1/llmstxt", body).json["id"]
    wait_until(lambda: service.get(f"/v1/llmstxt/{job}").json["status"] == "completed")

    def told():
        found = of_logger(service, "scraper_service.jobs")
        return [line for line in found if line["job"] == job]

    wait_until(lambda: [line["event"] for line in told()] == ["began", "completed"])
    assert told()[1]["pages"] == 2
    assert told()[1]["seconds"] > 0


@pytest.mark.full
def test_a_deleted_job_has_a_last_line(start_service, site):
    service = start_service()
    job = crawl(service, site, "20-deleted")
    wait_until(lambda: f"job {job} completed" in service.stderr)
    assert service.request("DELETE", f"/v2/jobs/{job}").status == 200
    assert f"job {job} is deleted" in service.stderr


def test_a_client_that_leaves_has_a_line_with_status_499(start_service, site):
    service = start_service(SCRAPER_LOG_JSON="true")
    address = urllib.parse.urlsplit(service.url)
    body = {"url": site.url("/delay/30"), "maxAge": 0}
    connection = http.client.HTTPConnection(address.hostname, address.port)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request("POST", "/v2/scrape", json.dumps(body), headers)
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 1)
    connection.close()
    wait_until(lambda: '"status": 499' in service.stderr)
    service.stop()
    [line] = of_logger(service, "scraper_service.access")
    assert (line["path"], line["status"], line["bytes"]) == ("/v2/scrape", 499, 0)
    assert "Traceback" not in service.stderr
