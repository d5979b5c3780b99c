"""What a team reads of itself, and that it reads of nobody else."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from tests.conftest import Service, _stop
from tests.support.openapi import WITH_TOKEN
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until

KEYS = ("fc-first", "fc-second")
VERSIONS = ("v1", "v2")
UNLIMITED = 1_000_000_000
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
# Bodies of routes that check them before the id in the path.
BODIES = {
    "/v2/search/{job_id}/feedback": {"rating": "bad", "querySuggestions": "x"},
    "/v2/crawl/{job_id}": {"limit": 1},
    "/v2/batch/scrape/{job_id}": {"delay": 1},
    "/v2/crawl/{job_id}/retry": {},
    "/v2/batch/scrape/{job_id}/retry": {},
    "/v2/crawl/{job_id}/reprocess": {"formats": ["html"]},
    "/v2/batch/scrape/{job_id}/reprocess": {"formats": ["html"]},
    "/v2/monitor/{monitor_id}": {"status": "paused"},
    "/v2/monitor/{monitor_id}/run": {},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two teams."""
    running = Service(tmp_path_factory.mktemp("team"), SCRAPER_API_KEYS=",".join(KEYS))
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def pages():
    with ScriptedSite({"/": page("/1"), "/1": page()}) as site:
        yield site


@pytest.fixture(scope="module")
def used(shared, pages):
    """What the first team has called: ids of a scrape, a crawl, a batch."""
    body = {"url": pages.url("/"), "maxAge": 0}
    ids = {}
    reply = shared.post("/v2/scrape", body, key=KEYS[0])
    ids["scrape"] = reply.json["data"]["metadata"]["scrapeId"]
    shared.post("/v1/map", {"url": pages.url("/")}, key=KEYS[0])
    crawl = {"url": pages.url("/"), "limit": 2}
    ids["crawl"] = shared.post("/v1/crawl", crawl, key=KEYS[0]).json["id"]
    batch = {"urls": [pages.url("/1")], "zeroDataRetention": True}
    ids["batch"] = shared.post("/v2/batch/scrape", batch, key=KEYS[0]).json["id"]
    for name in ("crawl", "batch"):
        _until_ended(shared, ids[name])
    wait_until(
        lambda: read(shared, "/v2/team/activity")["data"][-1]["id"] == ids["scrape"]
    )
    return ids


def _until_ended(service, job_id):
    wait_until(lambda: read(service, f"/v2/crawl/{job_id}")["status"] == "completed")


def read(service, path, key=KEYS[0]):
    reply = service.get(path, key=key)
    assert reply.status == 200, reply.json
    return reply.json


def test_credit_usage_uses_the_key_spelling_of_each_version(shared):
    for unit in ("credit", "token"):
        first = read(shared, f"/v1/team/{unit}-usage")["data"]
        assert first.pop("billing_period_start") < first.pop("billing_period_end")
        assert first == {f"remaining_{unit}s": UNLIMITED, f"plan_{unit}s": UNLIMITED}
        second = read(shared, f"/v2/team/{unit}-usage")["data"]
        start, end = second.pop("billingPeriodStart"), second.pop("billingPeriodEnd")
        now = datetime.now(UTC).strftime("%Y-%m-%dT")
        assert start[:7] == now[:7]
        assert start.endswith("-01T00:00:00.000Z")
        assert end > start
        name = unit.capitalize()
        assert second == {f"remaining{name}s": UNLIMITED, f"plan{name}s": UNLIMITED}


@pytest.mark.parametrize("version", VERSIONS)
def test_history_sums_the_charged_credits(shared, used, version):
    # 1 scrape, 1 map, 2 pages of the crawl, 1 page and 1 for its zero retention
    path = f"/{version}/team/credit-usage/historical"
    [period] = read(shared, path)["periods"]
    assert period.keys() == {"startDate", "endDate", "creditsUsed"}
    assert period["creditsUsed"] == 6
    for length, days in (("day", 1), ("week", 7)):
        [period] = read(shared, f"{path}?timeRange={length}&byApiKey=false")["periods"]
        start, end = (
            datetime.fromisoformat(period[name]) for name in ("startDate", "endDate")
        )
        assert (end - start).days == days
        assert start <= datetime.now(UTC) < end
    [period] = read(shared, f"{path}?byApiKey=true")["periods"]
    assert (period["apiKey"], period["creditsUsed"]) == ("fixed key", 6)
    tokens = path.replace("credit-usage", "token-usage")
    assert read(shared, tokens)["periods"][0]["tokensUsed"] == 90
    assert read(shared, path, KEYS[1])["periods"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_queue_and_concurrency_have_no_data(shared, used, version):
    queue = read(shared, f"/{version}/team/queue-status")
    last = datetime.fromisoformat(queue.pop("mostRecentSuccess"))
    assert abs((datetime.now(UTC) - last).total_seconds()) < 300
    assert queue == {
        "success": True,
        "jobsInQueue": 0,
        "activeJobsInQueue": 0,
        "waitingJobsInQueue": 0,
        "maxConcurrency": UNLIMITED,
    }
    check = read(shared, f"/{version}/concurrency-check")
    assert check == {"success": True, "concurrency": 0, "maxConcurrency": UNLIMITED}
    other = read(shared, f"/{version}/team/queue-status", KEYS[1])
    assert other["mostRecentSuccess"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_activity_lists_the_calls_of_the_last_day(shared, used, pages, version):
    path = f"/{version}/team/activity"
    found = read(shared, path)
    assert (found["cursor"], found["has_more"]) == (None, False)
    listed = [(call["endpoint"], call["api_version"]) for call in found["data"]]
    assert listed == [
        ("batch_scrape", "v2"),
        ("crawl", "v1"),
        ("map", "v1"),
        ("scrape", "v2"),
    ]
    calls = {call["endpoint"]: call for call in found["data"]}
    assert calls["scrape"]["id"] == used["scrape"]
    assert calls["crawl"] == {
        "id": used["crawl"],
        "endpoint": "crawl",
        "api_version": "v1",
        "created_at": calls["crawl"]["created_at"],
        "target": pages.url("/"),
    }
    # Nothing is kept of a call with zero retention.
    assert calls["batch_scrape"]["target"] is None
    assert read(shared, f"{path}?endpoint=map")["data"] == [calls["map"]]
    assert read(shared, path, KEYS[1])["data"] == []


def test_activity_is_read_in_parts(shared, used):
    path, parts, cursor = "/v2/team/activity?limit=3", [], ""
    while cursor is not None:
        found = read(shared, path + (f"&cursor={cursor}" if cursor else ""))
        parts.append([call["id"] for call in found["data"]])
        cursor = found["cursor"]
        assert found["has_more"] is (cursor is not None)
    assert [len(part) for part in parts] == [3, 1]
    whole = read(shared, "/v2/team/activity")["data"]
    assert [*parts[0], *parts[1]] == [call["id"] for call in whole]


def test_activity_lists_uploaded_files(start_service):
    service = start_service()
    form = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        b"Some words\r\n--x--\r\n"
    )
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert service.post("/v2/parse", headers=kind, raw=form).status == 200

    def listed():
        return service.get("/v2/team/activity?endpoint=parse").json["data"]

    (call,) = wait_until(listed)
    assert (call["endpoint"], call["api_version"]) == ("parse", "v2")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("team/activity?limit=0", "limit"),
        ("team/activity?limit=101", "limit"),
        ("team/activity?limit=x", "limit"),
        ("team/activity?cursor=x", "cursor"),
        ("team/activity?cursor=1.5_x", "cursor"),
        ("team/activity?endpoint=nope", "endpoint"),
        ("team/credit-usage/historical?timeRange=year", "timeRange"),
        ("team/credit-usage/historical?byApiKey=yes", "byApiKey"),
        ("team/token-usage/historical?timeRange=", "timeRange"),
        ("team/token-usage/historical?byApiKey=1", "byApiKey"),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_bad_query_is_named(shared, version, path, name):
    reply = shared.get(f"/{version}/{path}", key=KEYS[0])
    assert (reply.status, reply.json["success"]) == (400, False)
    assert re.match(rf"Invalid (pagination: )?{name}", reply.json["error"])


def all_routes():
    """Return method and path of every route of both versions, ids in braces."""
    from scraper_service.api.versions import V1, V2

    for version, app in (("v1", V1), ("v2", V2)):
        for rule in app(None, None, None, None).klein.url_map.iter_rules():
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield method, f"/{version}{path}"


def _routes():
    """Ask a process of its own: Klein installs a reactor."""
    import json
    import subprocess
    import sys

    code = (
        "import json; from tests.api.test_team import all_routes;"
        "print(json.dumps(list(all_routes())))"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def routes():
    found = _routes()
    assert len(found) > 40
    return found


def filled(path, found_id):
    return re.sub(r"\{\w+\}", found_id, path.replace("{number}", "1"))


def test_every_route_needs_a_valid_key(shared, routes):
    for method, path in routes:
        whole = filled(path, UNKNOWN)
        for key in (None, "fc-wrong"):
            reply = shared.request(method, whole, {}, key=key)
            assert reply.status == 401, (method, path)
            assert reply.json["error"].startswith("Unauthorized"), (method, path)


def test_objects_of_another_team_are_unknown_on_every_route(shared, routes, used):
    # Steps of browser sessions are a 400 here: the service has no browser. Tokens stand for
    # keys where a browser is connected to.
    steps = ("/execute", "/interact")
    with_id = [
        (method, path)
        for method, path in routes
        if "{" in path
        and not (method == "POST" and path.endswith(steps))
        and not path.endswith(WITH_TOKEN)
    ]
    assert len(with_id) > 20
    for method, path in with_id:
        nobody = filled(path, UNKNOWN)
        for found in used.values():
            whole = filled(path, found)
            body = BODIES.get(path, {"urls": ["http://a.example"], "state": "pending"})
            reply = shared.request(method, whole, body, key=KEYS[1])
            assert reply.status == 404, (method, whole, reply.json)
            assert reply.json == shared.request(method, nobody, body, key=KEYS[1]).json
    # They are all there for their own team.
    assert read(shared, f"/v2/crawl/{used['crawl']}")["status"] == "completed"
    assert read(shared, f"/v1/scrape/{used['scrape']}")["success"]
