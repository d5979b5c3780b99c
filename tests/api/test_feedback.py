"""Feedback on calls: stored once per call, for calls of the team that have not failed."""

from __future__ import annotations

import json

import pytest

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


@pytest.mark.parametrize("endpoint", ["scrape", "map", "search"])
def test_feedback_is_stored_once_per_call(shared, call, documented, endpoint):
    body = {"endpoint": endpoint, "jobId": call(endpoint), "rating": "bad"}
    first = give(shared, note="too short", **body)
    documented.check("POST", "/v2/feedback", first)
    assert first.status == 200
    feedback_id = first.json.pop("feedbackId")
    assert first.json == {"success": True, "creditsRefunded": 0}
    again = give(shared, note="other words", **body)
    documented.check("POST", "/v2/feedback", again)
    assert again.json == {
        "success": True,
        "feedbackId": feedback_id,
        "creditsRefunded": 0,
        "alreadySubmitted": True,
    }
    [entry] = [x for x in listed(shared) if x["jobId"] == body["jobId"]]
    assert entry.pop("createdAt").endswith("Z")
    assert entry == {"id": feedback_id, **body, "note": "too short"}


def test_all_keys_are_stored_as_they_were_sent(shared, call):
    facts = {
        "valuableSources": [{"url": "https://a.example/", "reason": "it is"}],
        "missingContent": [{"topic": "prices", "description": "of the shop"}],
        "querySuggestions": "tides today",
        "issues": ["bad_tables"],
        "tags": ["x-1"],
        "note": "a note",
        "url": "https://a.example/b",
        "pageNumbers": [1, 7],
        "metadata": {"deep": {"n": [1, None]}},
    }
    body = {"endpoint": "scrape", "jobId": call("scrape"), "rating": "partial", **facts}
    reply = give(shared, origin="test", integration="t", **body)
    assert reply.status == 200, reply.json
    entry = listed(shared)[0]
    assert {name: entry[name] for name in body} == body
    assert "origin" not in entry


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
    # The call has feedback now, but the endpoint is still another one.
    assert give(shared, endpoint="map", jobId=search, **body).status == 404


def test_a_failed_call_takes_none(shared):
    assert shared.post("/v2/scrape", {"url": "http://127.0.0.2:9/x"}, key=KEYS[0])
    path = "/v2/team/activity?endpoint=scrape&limit=1"

    def latest():
        return shared.get(path, key=KEYS[0]).json["data"][0]

    wait_until(lambda: latest()["target"].endswith(":9/x"))
    reply = give(
        shared, endpoint="scrape", jobId=latest()["id"], rating="bad", note="failed"
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
def test_the_rating_of_a_search_says_why(shared, call, rating, facts, status):
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


def test_feedback_is_listed_to_its_team_page_by_page(shared, call, documented):
    for endpoint in ("map", "scrape", "map"):
        body = {"endpoint": endpoint, "jobId": call(endpoint, KEYS[1])}
        assert give(shared, KEYS[1], rating="bad", note="x", **body).status == 200
    assert [x["endpoint"] for x in listed(shared, KEYS[1])] == ["map", "scrape", "map"]
    found, path = [], "/v2/feedback?endpoint=map&limit=1"
    while path:
        reply = shared.get(path, key=KEYS[1])
        reply = documented.check("GET", "/v2/feedback", reply).json
        found += reply["data"]
        path = reply.get("next", "").removeprefix(shared.url)
    assert [x["endpoint"] for x in found] == ["map", "map"]
    assert len({x["id"] for x in found}) == 2
    assert not {x["id"] for x in found} & {x["id"] for x in listed(shared)}


@pytest.mark.parametrize(
    "query", ["endpoint=crawl", "limit=0", "limit=101", "cursor=x"]
)
def test_an_invalid_query_is_a_400(shared, query):
    reply = shared.get(f"/v2/feedback?{query}", key=KEYS[0])
    assert reply.status == 400
    assert query.partition("=")[0] in reply.json["error"]


def test_v1_has_no_feedback(shared):
    reply = shared.post("/v1/feedback", {}, key=KEYS[0])
    assert reply.status == 404
    assert "/v2/feedback" in reply.json["error"]


def listed(service, key=KEYS[0]):
    reply = service.get("/v2/feedback?limit=100", key=key)
    assert reply.status == 200, reply.json
    return reply.json["data"]


def test_feedback_on_pages_goes_with_their_job(shared, web):
    started = shared.post("/v2/crawl", {"url": web.url("/"), "limit": 2}, key=KEYS[0])
    path = f"/v2/crawl/{started.json['id']}"

    def pages():
        found = shared.get(path, key=KEYS[0]).json
        return found["data"] if found["status"] == "completed" else None

    scrape_id = wait_until(pages)[0]["metadata"]["scrapeId"]
    body = {"endpoint": "scrape", "jobId": scrape_id, "rating": "bad", "note": "gone"}
    assert give(shared, **body).status == 200
    gone = shared.request("DELETE", path.replace("crawl", "jobs"), key=KEYS[0])
    assert gone.status == 200
    listed = shared.get("/v2/feedback?endpoint=scrape", key=KEYS[0]).json["data"]
    assert scrape_id not in [entry["jobId"] for entry in listed]
    assert give(shared, **body).status == 404
