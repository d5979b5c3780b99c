"""GET /v2/jobs: the list of a team's jobs and single calls, over sockets."""

from __future__ import annotations

import urllib.parse
from datetime import datetime

import pytest

from tests.conftest import Service, _stop
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until

KEYS = ("fc-first", "fc-second")
JOB_KEYS = {
    *("id", "kind", "apiVersion", "state", "target", "site", "url"),
    *("createdAt", "startedAt", "completedAt", "expiresAt", "duration"),
    *("total", "completed", "creditsUsed", "limit", "origin", "key"),
}
EVERY_KIND = (
    "crawl,batch_scrape,extract,llmstxt,deep_research,agent,monitor_check,"
    "scrape,map,search,parse"
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two teams."""
    running = Service(
        tmp_path_factory.mktemp("history"), SCRAPER_API_KEYS=",".join(KEYS)
    )
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def pages():
    found = {"/": page("/1", "/2"), "/1": page(), "/2": page("/3"), "/3": page()}
    with ScriptedSite(found) as site:
        yield site


def read(service, path, key=KEYS[0]):
    reply = service.get(path, key=key)
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True
    return reply.json


def jobs_of(service, key=KEYS[0], **query):
    """Return all jobs of a list, read part by part."""
    path = "/v2/jobs?" + urllib.parse.urlencode(query)
    found = []
    while True:
        part = read(service, path, key)
        found += part["jobs"]
        if "next" not in part:
            return found
        assert part["next"].startswith(f"{service.url}/v2/jobs?")
        path = part["next"].removeprefix(service.url)


def post(service, path, body, key=KEYS[0]):
    reply = service.post(path, body, key=key)
    assert reply.status == 200, reply.json
    return reply.json


def ended(service, path):
    wait_until(lambda: read(service, path)["status"] == "completed")


@pytest.fixture(scope="module")
def used(shared, pages):
    """Ids of one job or call of each kind that needs no model, in their order."""
    ids = {}
    url = pages.url("/")
    body = {"url": url, "limit": 3, "maxDiscoveryDepth": 1, "origin": "tests"}
    ids["crawl"] = post(shared, "/v2/crawl", body)["id"]
    ended(shared, f"/v2/crawl/{ids['crawl']}")
    body = {"urls": [pages.url("/1")], "zeroDataRetention": True}
    ids["batch_scrape"] = post(shared, "/v1/batch/scrape", body)["id"]
    ended(shared, f"/v2/batch/scrape/{ids['batch_scrape']}")
    ids["llmstxt"] = post(shared, "/v1/llmstxt", {"url": url, "maxUrls": 2})["id"]
    ended(shared, f"/v1/llmstxt/{ids['llmstxt']}")
    body = {"url": pages.url("/1"), "maxAge": 0, "origin": "tests"}
    reply = post(shared, "/v2/scrape", body)
    ids["scrape"] = reply["data"]["metadata"]["scrapeId"]
    post(shared, "/v1/map", {"url": url})
    found = wait_until(lambda: jobs_of(shared, kind="map"))
    ids["map"] = found[0]["id"]
    wait_until(lambda: len(jobs_of(shared, kind=EVERY_KIND)) == len(ids))
    return ids


def test_the_list_has_each_kind_of_job_the_newest_first(shared, used):
    ids = list(reversed(used.values()))
    assert [job["id"] for job in jobs_of(shared, kind=EVERY_KIND)] == ids
    assert [job["id"] for job in jobs_of(shared)] == ids[-3:]
    for kind, job_id in used.items():
        [job] = jobs_of(shared, kind=kind)
        assert (job["id"], job["kind"], job["state"]) == (job_id, kind, "completed")
    assert jobs_of(shared, kind="agent,monitor_check") == []
    assert jobs_of(shared, state="paused") == []
    assert jobs_of(shared, key=KEYS[1], kind=EVERY_KIND) == []


def test_a_job_has_the_members_of_its_kind(shared, pages, used):
    jobs = {job["kind"]: job for job in jobs_of(shared, kind=EVERY_KIND)}
    for kind, job in jobs.items():
        counted = {"counts"} if kind in {"crawl", "batch_scrape"} else set()
        assert set(job) - {"warning"} == JOB_KEYS | counted
        created = datetime.fromisoformat(job["createdAt"])
        started = datetime.fromisoformat(job["startedAt"])
        completed = datetime.fromisoformat(job["completedAt"])
        assert created <= started <= completed
        lasted = (completed - created).total_seconds()
        assert job["duration"] == pytest.approx(lasted, abs=0.002)
        kept = datetime.fromisoformat(job["expiresAt"]) - completed
        assert kept.total_seconds() == pytest.approx(86_400, abs=1)
        assert job["key"] == "fixed key"
    crawl = jobs["crawl"]
    host = urllib.parse.urlsplit(pages.url("/")).hostname
    assert (crawl["target"], crawl["site"]) == (pages.url("/"), host)
    assert (crawl["limit"], crawl["total"], crawl["completed"]) == (3, 3, 3)
    assert (crawl["creditsUsed"], crawl["origin"]) == (3, "tests")
    assert crawl["apiVersion"] == "v2"
    batch = jobs["batch_scrape"]
    assert (batch["target"], batch["site"], batch["apiVersion"]) == (None, None, "v1")
    assert jobs["scrape"]["target"] == pages.url("/1")
    assert (jobs["scrape"]["total"], jobs["scrape"]["completed"]) == (1, 1)


def test_the_counts_are_all_urls_of_the_job(shared, used):
    [crawl] = jobs_of(shared, kind="crawl")
    urls = read(shared, f"/v2/crawl/{used['crawl']}/urls")["urls"]
    states = [each["state"] for each in urls if each["kind"] == "page"]
    names = ("pending", "leased", "held", "done", "failed", "skipped")
    assert crawl["counts"] == {name: states.count(name) for name in names}
    assert crawl["counts"]["done"] == 3
    assert crawl["counts"]["skipped"] == 1  # deeper than maxDiscoveryDepth


def test_the_url_of_a_job_is_the_url_of_its_status(shared, used):
    jobs = {job["kind"]: job for job in jobs_of(shared, kind=EVERY_KIND)}
    for kind in ("crawl", "batch_scrape", "llmstxt", "scrape"):
        url = jobs[kind]["url"]
        assert url.endswith(f"/{used[kind]}")
        read(shared, url.removeprefix(shared.url))


def test_a_failed_call_has_its_error(shared, site):
    refused = site.url("/drop")
    reply = shared.post("/v2/scrape", {"url": refused, "maxAge": 0}, key=KEYS[1])
    assert reply.json["success"] is False

    def listed():
        return jobs_of(shared, KEYS[1], kind="scrape", q="/drop")

    [job] = wait_until(listed)
    assert (job["state"], job["completed"], job["creditsUsed"]) == ("failed", 0, 0)
    assert job["error"] == reply.json["error"]
    assert jobs_of(shared, KEYS[1], kind="scrape", state="failed") == [job]
    assert jobs_of(shared, KEYS[1], kind="scrape", state="completed,queued") == []


def test_a_running_crawl_is_listed_with_its_state(shared, site):
    body = {
        "url": site.held(),
        "scrapeOptions": {"maxAge": 0, "timeout": 300_000},
    }
    job_id = post(shared, "/v2/crawl", body, KEYS[1])["id"]

    def running():
        found = jobs_of(shared, KEYS[1], state="running")
        return found and found[0]["counts"]["leased"] and found

    [job] = wait_until(running)
    assert job["id"] == job_id
    assert job["completedAt"] is None
    assert job["counts"]["leased"] == job["total"] == 1
    [later] = jobs_of(shared, KEYS[1], state="running,queued")
    assert later["duration"] > job["duration"]
    shared.request("DELETE", f"/v2/crawl/{job_id}", key=KEYS[1])
    [job] = jobs_of(shared, KEYS[1], state="cancelled")
    assert job["id"] == job_id
    assert jobs_of(shared, KEYS[1], state="running") == []


def test_filters_and_the_pages_of_a_list(shared, pages, used):
    for query, kinds in (
        ({"q": pages.url("/1").upper()}, {"scrape"}),
        ({"q": "nothing"}, set()),
        ({"site": "127.0.0.2"}, {"crawl", "llmstxt", "scrape", "map"}),
        ({"site": "0.0.2"}, {"crawl", "llmstxt", "scrape", "map"}),
        ({"site": "example.com"}, set()),
        ({"since": "2100-01-01"}, set()),
        ({"until": "2020-01-01T00:00:00Z"}, set()),
        ({"since": "2020-01-01T00:00:00+01:00"}, set(used)),
    ):
        found = jobs_of(shared, kind=EVERY_KIND, **query)
        assert {job["kind"] for job in found} == kinds, query
        assert jobs_of(shared, kind=EVERY_KIND, limit=1, **query) == found


def test_new_jobs_never_shift_later_pages(shared, pages):
    def start():
        body = {"urls": [pages.url("/3")], "origin": "paged"}
        return post(shared, "/v2/batch/scrape", body, KEYS[1])["id"]

    before = [start() for _ in range(12)]
    path = "/v2/jobs?kind=batch_scrape&limit=5"
    found = []
    while path:
        part = read(shared, path, KEYS[1])
        found += [job["id"] for job in part["jobs"]]
        start()
        path = part.get("next", "").removeprefix(shared.url)
    assert found == before[::-1]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("kind=crawls", ["kind", "'crawls'", "crawl, batch_scrape", "monitor_check"]),
        ("kind=", ["kind", "''"]),
        ("kind=crawl,,map", ["kind", "'crawl,,map'"]),
        ("state=scraping", ["state", "'scraping'", "queued, running, completed"]),
        ("site=a%20b", ["site", "'a b'", "host"]),
        ("site=http://a.example/", ["site", "host"]),
        ("q=", ["q", "1 to 200"]),
        ("q=" + "x" * 201, ["q", "1 to 200", "201"]),
        ("since=yesterday", ["since", "'yesterday'", "ISO 8601"]),
        ("until=1", ["until", "'1'", "ISO 8601"]),
        ("limit=0", ["limit", "1 to 100", "'0'"]),
        ("limit=101", ["limit", "1 to 100", "'101'"]),
        ("limit=x", ["limit", "1 to 100", "'x'"]),
        ("cursor=abc", ["cursor", "'abc'", "next"]),
        ("kind=crawl&kind=map", ["kind", "once"]),
    ],
)
def test_a_bad_value_names_field_value_and_what_is_allowed(shared, query, parts):
    reply = shared.get(f"/v2/jobs?{query}", key=KEYS[0])
    assert reply.status == 400
    assert reply.json["success"] is False
    for part in parts:
        assert part in reply.json["error"]


def test_a_cursor_is_for_its_own_filters(shared, used):
    part = read(shared, f"/v2/jobs?kind={EVERY_KIND}&limit=1")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(part["next"]).query)
    [cursor] = query["cursor"]
    reordered = ",".join(reversed(EVERY_KIND.split(",")))
    read(shared, f"/v2/jobs?kind={reordered}&limit=2&cursor={cursor}")
    for others in ("", "kind=crawl&", f"kind={EVERY_KIND}&state=completed&"):
        reply = shared.get(f"/v2/jobs?{others}cursor={cursor}", key=KEYS[0])
        assert reply.status == 400
        assert "cursor" in reply.json["error"]
        assert "filters" in reply.json["error"]


def test_the_list_needs_a_key_and_is_not_in_v1(shared):
    assert shared.get("/v2/jobs", key=None).status == 401
    assert shared.get("/v1/jobs", key=KEYS[0]).status == 404
