"""Feedback on calls of the team that have not failed: logged and counted."""

from __future__ import annotations

import json

import pytest

from tests.api.test_metrics import samples
from tests.conftest import Service, _stop
from tests.support.openapi import Documented
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until

KEYS = ("fc-first", "fc-second")
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
LONG = "x" * 5000


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two teams."""
    data = tmp_path_factory.mktemp("feedback")
    running = Service(data, SCRAPER_API_KEYS=",".join(KEYS))
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({"/": page("/1"), "/1": page(title="Tides")}) as site:
        yield site


@pytest.fixture
def call(shared, web):
    """Return a function that makes a call and returns its id."""

    def make(endpoint, key=KEYS[0]):
        body = {"url": web.url("/1"), "query": "tides", "limit": 2}
        names = {"scrape": ("url",), "map": ("url",), "search": ("query", "limit")}
        given = {name: body[name] for name in names[endpoint]}
        reply = shared.post(f"/v2/{endpoint}", given, key=key)
        assert reply.status == 200, reply.json
        found = reply.json
        return found.get("id") or found["data"]["metadata"]["scrapeId"]

    return make


@pytest.fixture(scope="module")
def documented(shared):
    return Documented(shared)


def give(service, key=KEYS[0], path="/v2/feedback", **body):
    return service.post(path, body, key=key)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("endpoint", ["scrape", "map", "search"])
def test_feedback_is_logged_and_counted(shared, call, documented, endpoint):
    facts = {
        "valuableSources": [{"url": "https://a.example/", "reason": "it is"}],
        "issues": ["bad_tables"],
        "note": "a note on ä",
        "pageNumbers": [1, 7],
        "metadata": {"deep": {"n": [1, None]}},
    }
    body = {"endpoint": endpoint, "jobId": call(endpoint), "rating": "partial"}
    before = counted(shared, endpoint)
    reply = give(shared, **body, **facts, origin="test", integration="t")
    documented.check("POST", "/v2/feedback", reply)
    assert reply.status == 200, reply.json
    feedback_id = reply.json.pop("feedbackId")
    assert reply.json == {"success": True, "creditsRefunded": 0}
    head = f"feedback {feedback_id} on {endpoint} {body['jobId']}: partial "
    [line] = [line for line in shared.stderr.splitlines() if head in line]
    assert json.loads(line.partition(head)[2]) == facts
    assert give(shared, **body, **facts).json["feedbackId"] != feedback_id
    assert counted(shared, endpoint) == before + 2


def counted(service, endpoint):
    labels = ("endpoint", endpoint), ("rating", "partial")
    return samples(service).get(("scraper_feedback_total", *labels), 0)


def test_a_page_of_a_crawl_takes_feedback_as_a_scrape(shared, web):
    crawl = shared.post("/v2/crawl", {"url": web.url("/"), "limit": 1}, key=KEYS[0])
    path = f"/v2/crawl/{crawl.json['id']}"
    wait_until(lambda: shared.get(path, key=KEYS[0]).json["status"] == "completed")
    [found] = shared.get(path, key=KEYS[0]).json["data"]
    body = {"endpoint": "scrape", "rating": "good", "note": "fine"}
    scrape_id = found["metadata"]["scrapeId"]
    assert give(shared, jobId=scrape_id, **body).status == 200
    assert give(shared, jobId=scrape_id, key=KEYS[1], **body).status == 404
    assert give(shared, jobId=crawl.json["id"], **body).status == 404


def test_unknown_foreign_and_other_calls_are_not_found(shared, call, documented):
    body = {"rating": "bad", "note": "no"}
    search, foreign = call("search"), call("scrape", KEYS[1])
    for endpoint, job_id in (
        ("scrape", UNKNOWN),
        ("scrape", foreign),
        ("map", search),
        ("scrape", search),
    ):
        reply = give(shared, endpoint=endpoint, jobId=job_id, **body)
        documented.check("POST", "/v2/feedback", reply)
        assert reply.status == 404
        assert reply.json["feedbackErrorCode"] == "JOB_NOT_FOUND"
    assert give(shared, endpoint="search", jobId=search, **body).status == 200


def test_a_failed_call_accepts_no_feedback(shared):
    assert shared.post("/v2/scrape", {"url": "http://127.0.0.2:9/x"}, key=KEYS[0])
    path = "/v2/team/activity?endpoint=scrape&limit=1"

    def failed():
        found = shared.get(path, key=KEYS[0]).json["data"]
        return [each for each in found if each["target"].endswith(":9/x")]

    [call] = wait_until(failed)
    reply = give(
        shared, endpoint="scrape", jobId=call["id"], rating="bad", note="failed"
    )
    assert reply.status == 409
    assert reply.json["feedbackErrorCode"] == "JOB_NOT_ELIGIBLE"
    assert "failed" in reply.json["error"]


@pytest.mark.parametrize(
    ("rating", "facts", "status"),
    [
        ("good", {"valuableSources": [{"url": "https://a.example"}]}, 200),
        ("good", {"missingContent": [{"topic": "x"}]}, 400),
        ("partial", {"missingContent": [{"topic": "x"}]}, 200),
        ("partial", {"valuableSources": []}, 400),
        ("bad", {"querySuggestions": "x"}, 200),
        ("bad", {"valuableSources": [{"url": "https://a.example"}]}, 400),
        ("bad", {"missingContent": [{"topic": "x"}] * 21}, 400),
        ("bad", {"querySuggestions": "x", "note": "x"}, 400),
        ("bad", {"querySuggestions": "x", "jobId": UNKNOWN}, 400),
    ],
)
def test_a_search_rating_needs_a_reason(shared, call, rating, facts, status):
    path = f"/v2/search/{call('search')}/feedback"
    reply = give(shared, path=path, rating=rating, **facts)
    assert reply.status == status, reply.json
    if status == 400:
        assert reply.json["feedbackErrorCode"] == "INVALID_REQUEST"
        assert reply.json["details"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"endpoint": "crawl"}, ["endpoint"]),
        ({"endpoint": None}, ["endpoint"]),
        ({"jobId": "x"}, ["jobId"]),
        ({"jobId": None}, ["jobId"]),
        ({"rating": "great"}, ["rating"]),
        ({"note": None}, []),
        ({"note": None, "tags": ["x"], "metadata": {"x": 1}}, []),
        ({"note": LONG}, ["note"]),
        ({"tags": ["Upper"]}, ["tags", 0]),
        ({"issues": ["x"] * 21}, ["issues"]),
        ({"pageNumbers": [0]}, ["pageNumbers", 0]),
        ({"url": "ftp://a.example"}, ["url"]),
        ({"missingContent": [{"topic": ""}]}, ["missingContent", 0, "topic"]),
        ({"valuableSources": [{"reason": "x"}]}, ["valuableSources", 0, "url"]),
        ({"metadata": {"x": "\u00e4" * 4100}}, ["metadata"]),
        ({"metadata": [1]}, ["metadata"]),
        ({"mood": "x"}, []),
    ],
)
def test_an_invalid_body_is_a_400_that_names_the_key(shared, changes, path):
    body = {"endpoint": "scrape", "jobId": UNKNOWN, "rating": "bad", "note": "x"}
    reply = give(shared, **{**body, **changes})
    assert reply.status == 400
    assert reply.json["feedbackErrorCode"] == "INVALID_REQUEST"
    assert reply.json["details"][0]["path"] == path


def test_other_bad_requests_have_the_code_too(shared):
    good = json.dumps({"rating": "bad", "querySuggestions": "x"}).encode()
    for path, raw in (("/v2/feedback", b"{"), ("/v2/search/x/feedback", good)):
        reply = shared.request("POST", path, raw=raw, key=KEYS[0])
        assert reply.status == 400
        assert reply.json["feedbackErrorCode"] == "INVALID_REQUEST"
    reply = give(shared, key="fc-wrong")
    assert reply.status == 401
    assert "feedbackErrorCode" not in reply.json


def test_v1_has_no_feedback(shared):
    assert shared.post("/v1/feedback", {}, key=KEYS[0]).status == 404
