"""GET /v2/jobs: the list of a team's jobs and single calls, over sockets."""

from __future__ import annotations

import concurrent.futures
import sqlite3
import urllib.parse
from contextlib import closing
from datetime import datetime

import pytest

from tests.conftest import Service, _stop
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until
from tests.support.watching import EventClient

KEYS = ("fc-first", "fc-second")
JOB_KEYS = {
    *("id", "kind", "apiVersion", "state", "target", "site", "url"),
    *("createdAt", "startedAt", "completedAt", "expiresAt", "duration"),
    *("total", "completed", "creditsUsed", "limit", "origin", "key"),
    "storedBytes",
}
EVERY_KIND = (
    "crawl,batch_scrape,extract,llmstxt,deep_research,agent,monitor_check,"
    "scrape,map,search,parse"
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two teams."""
    folder = tmp_path_factory.mktemp("history")
    running = Service(folder, SCRAPER_API_KEYS=",".join(KEYS))
    running.database = folder / "jobs.sqlite"
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
    status = f"/v2/crawl/{job_id}"

    def running():
        found = jobs_of(shared, KEYS[1], state="running")
        return found and found[0]["counts"]["leased"] and found

    [job] = wait_until(running)
    assert job["id"] == job_id
    assert job["completedAt"] is None
    assert job["counts"]["leased"] == job["total"] == 1
    [later] = jobs_of(shared, KEYS[1], state="running,queued")
    assert later["duration"] > job["duration"]
    durations = [read(shared, path, KEYS[1])["duration"] for path in 2 * [status]]
    assert durations[0] < durations[1]
    shared.request("DELETE", status, key=KEYS[1])
    [job] = jobs_of(shared, KEYS[1], state="cancelled")
    assert job["id"] == job_id
    durations = [read(shared, path, KEYS[1])["duration"] for path in 2 * [status]]
    assert durations == 2 * [pytest.approx(job["duration"], abs=0.002)]
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
def test_the_error_of_a_bad_value_names_field_value_and_allowed_values(
    shared, query, parts
):
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


# -- one job -------------------------------------------------------------------------


def test_a_job_shows_its_options_without_secrets(shared, pages):
    secret, hook = "secret-of-a-header", {"X-Hook": "secret-of-a-hook"}
    body = {
        "url": pages.url("/"),
        "limit": 2,
        "includePaths": ["/1"],
        "maxConcurrency": None,
        "webhook": {"url": "http://127.0.0.2:9/", "headers": hook, "events": ["page"]},
        "scrapeOptions": {
            "headers": {"X-Secret": secret},
            "formats": ["markdown", {"type": "json", "prompt": "the title"}],
        },
    }
    del body["maxConcurrency"]
    job_id = post(shared, "/v2/crawl", body, KEYS[1])["id"]
    path = f"/v2/jobs/{job_id}"
    for _ in range(2):  # while it may run, and after its end
        reply = shared.get(path, key=KEYS[1])
        data = reply.json["data"]
        assert data["id"] == job_id
        options = data["options"]
        assert (options["limit"], options["includePaths"]) == (2, ["/1"])
        assert options["scrapeOptions"]["headers"] == ["X-Secret"]
        assert options["scrapeOptions"]["formats"][0] == "markdown"
        assert options["webhook"]["headers"] == ["X-Hook"]
        assert options["webhook"]["url"] == "http://127.0.0.2:9/"
        assert "secret-of" not in str(reply.json)
        ended_by(shared, f"/v2/crawl/{job_id}", KEYS[1])
    [listed] = [x for x in jobs_of(shared, KEYS[1]) if x["id"] == job_id]
    del data["options"]
    assert {**listed, "duration": 0} == {**data, "duration": 0}


def ended_by(service, path, key):
    wait_until(lambda: read(service, path, key)["status"] != "scraping")


def test_each_kind_of_job_is_read(shared, used):
    for kind, job_id in used.items():
        data = read(shared, f"/v2/jobs/{job_id}")["data"]
        assert (data["id"], data["kind"]) == (job_id, kind)
        assert (data["options"] is None) == (kind in {"scrape", "map"})
    batch = read(shared, f"/v2/jobs/{used['batch_scrape']}")["data"]["options"]
    assert batch["zeroDataRetention"] is True
    assert "urls" not in batch
    llms = read(shared, f"/v2/jobs/{used['llmstxt']}")["data"]["options"]
    assert llms["maxUrls"] == 2


def test_a_call_is_read_at_once(shared, pages):
    for _ in range(5):
        body = {"url": pages.url("/"), "maxAge": 0}
        page = post(shared, "/v2/scrape", body, KEYS[1])["data"]
        found = read(shared, f"/v2/jobs/{page['metadata']['scrapeId']}", KEYS[1])
        assert found["data"]["state"] == "completed"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_unknown_jobs_and_bad_ids(shared, used, method):
    for job_id in ("0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11", used["crawl"]):
        reply = shared.request(method, f"/v2/jobs/{job_id}", key=KEYS[1])
        assert (reply.status, reply.json["error"]) == (404, "Job not found")
    reply = shared.request(method, "/v2/jobs/x", key=KEYS[1])
    assert reply.status == 400
    assert "'x'" in reply.json["error"]


def assert_nothing_is_readable(service, job_id, family, scrape_ids=()):
    paths = [f"/v2/{family}/{job_id}", f"/v2/jobs/{job_id}"]
    if family != "scrape":
        paths += [f"{paths[0]}/{below}" for below in ("errors", "urls", "report")]
        paths += [f"{paths[0]}/deliveries", f"{paths[0]}/events"]
    paths += [f"/v2/scrape/{each}" for each in scrape_ids]
    for path in paths:
        assert service.get(path, key=KEYS[1]).status == 404, path
    reply = service.request("DELETE", f"/v2/jobs/{job_id}", key=KEYS[1])
    assert reply.status == 404
    calls = read(service, "/v2/team/activity?limit=100", KEYS[1])["data"]
    listed = jobs_of(service, KEYS[1], kind=EVERY_KIND, limit=100)
    assert job_id not in {each["id"] for each in calls + listed}


def delete(service, job_id):
    reply = service.request("DELETE", f"/v2/jobs/{job_id}", key=KEYS[1])
    assert (reply.status, reply.json) == (200, {"success": True})


def test_no_route_reads_a_deleted_job(shared, pages):
    body = {"url": pages.url("/"), "webhook": "http://127.0.0.2:9/"}
    job_id = post(shared, "/v2/crawl", body, KEYS[1])["id"]
    ended_by(shared, f"/v2/crawl/{job_id}", KEYS[1])
    found = read(shared, f"/v2/crawl/{job_id}", KEYS[1])["data"]
    assert len(found) == 4
    scrape_ids = [each["metadata"]["scrapeId"] for each in found]
    assert shared.get(f"/v2/scrape/{scrape_ids[0]}", key=KEYS[1]).status == 200
    delete(shared, job_id)
    assert_nothing_is_readable(shared, job_id, "crawl", scrape_ids)
    wait_until(lambda: rows_of(shared, job_id) == {})


def test_no_route_reads_a_deleted_single_call(shared, pages):
    reply = post(shared, "/v2/scrape", {"url": pages.url("/2")}, KEYS[1])
    scrape_id = reply["data"]["metadata"]["scrapeId"]
    wait_until(lambda: shared.get(f"/v2/jobs/{scrape_id}", key=KEYS[1]).status == 200)
    delete(shared, scrape_id)
    assert_nothing_is_readable(shared, scrape_id, "scrape")


def test_deleting_a_running_job_cancels_it_and_ends_its_writes(shared, site):
    urls = [site.url("/text") for _ in range(40)] + [site.held() for _ in range(4)]
    body = {"urls": urls, "maxAge": 0, "timeout": 300_000}
    job_id = post(shared, "/v2/batch/scrape", body, KEYS[1])["id"]

    def running():
        found = read(shared, f"/v2/jobs/{job_id}", KEYS[1])["data"]
        return found["counts"]["done"] and found["counts"]["leased"]

    wait_until(running)
    stream = f"/v2/batch/scrape/{job_id}/events"
    with EventClient(shared, stream, key=KEYS[1]) as events:
        delete(shared, job_id)
        kinds = {event.event for event in events}  # the stream ends
    assert "batch_scrape.completed" not in kinds
    assert_nothing_is_readable(shared, job_id, "batch/scrape")
    wait_until(lambda: rows_of(shared, job_id) == {})
    body = {"urls": [site.url("/text")], "maxAge": 0}
    other = post(shared, "/v2/batch/scrape", body, KEYS[1])["id"]
    ended_by(shared, f"/v2/batch/scrape/{other}", KEYS[1])
    assert rows_of(shared, job_id) == {}


def rows_of(service, job_id):
    """Return the number of rows of a job in each table that has some."""
    numbered = ("page", "event", "frontier", "page_text", "page_source")
    numbered += ("refused_key", "refused_list")
    tables = ("job_host", "job_robots", "job_stat", "delivery", "webhook", "operation")
    found = {}
    path = f"file:{service.database}?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as database:
        for table in numbered:  # with those of no job
            jobs = "SELECT number FROM job WHERE id <> ?"
            query = f"SELECT count(*) FROM {table} WHERE job_number NOT IN ({jobs})"
            found[table] = database.execute(query, (job_id,)).fetchone()[0]
        for table in (*tables, "secret", "artefact"):
            query = f"SELECT count(*) FROM {table} WHERE job_id = ?"
            found[table] = database.execute(query, (job_id,)).fetchone()[0]
        query = "SELECT count(*) FROM job WHERE id = ?"
        found["job"] = database.execute(query, (job_id,)).fetchone()[0]
    return {table: count for table, count in found.items() if count}


# -- retention -----------------------------------------------------------------------


def starts(pages):
    """Return (path, body, path of the status) of each call with retentionDays."""
    url = pages.url("/3")
    return (
        ("/v2/crawl", {"url": url}, "/v2/crawl/{id}"),
        ("/v2/batch/scrape", {"urls": [url]}, "/v2/batch/scrape/{id}"),
        ("/v2/extract", {"urls": [url], "prompt": "the title"}, "/v2/extract/{id}"),
        ("/v1/llmstxt", {"url": url, "maxUrls": 1}, "/v1/llmstxt/{id}"),
    )


def test_results_expire_after_their_retention(shared, pages):
    for path, body, status in starts(pages):
        for days in (0.01, 30):
            made = post(shared, path, {**body, "retentionDays": days}, KEYS[1])
            ended_as_job(shared, made["id"])
            data = read(shared, f"/v2/jobs/{made['id']}", KEYS[1])["data"]
            kept = seconds(data["expiresAt"]) - seconds(data["completedAt"])
            assert kept == pytest.approx(days * 86_400, abs=1)
            found = read(shared, status.format(id=made["id"]), KEYS[1])
            assert found["expiresAt"] == data["expiresAt"]
            assert data["options"]["retentionDays"] == days


def test_a_scrape_expires_after_its_retention(shared, pages):
    body = {"url": pages.url("/3"), "retentionDays": 2.5}
    scrape_id = post(shared, "/v2/scrape", body, KEYS[1])["data"]["metadata"][
        "scrapeId"
    ]
    wait_until(lambda: shared.get(f"/v2/jobs/{scrape_id}", key=KEYS[1]).status == 200)
    data = read(shared, f"/v2/jobs/{scrape_id}", KEYS[1])["data"]
    kept = seconds(data["expiresAt"]) - seconds(data["completedAt"])
    assert kept == pytest.approx(2.5 * 86_400, abs=1)


def ended_as_job(service, job_id):
    def state():
        data = read(service, f"/v2/jobs/{job_id}", KEYS[1])["data"]
        return data["state"] not in {"queued", "running"}

    wait_until(state)


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("days", [366, 0.009, 0, -1, "1", True, 10**9])
def test_a_bad_retention_is_refused(shared, pages, days):
    for path, body, _ in (*starts(pages), ("/v2/scrape", {"url": pages.url("/3")}, "")):
        reply = shared.post(path, {**body, "retentionDays": days}, key=KEYS[1])
        assert reply.status == 400, (path, reply.json)
        [detail] = reply.json["details"]
        assert detail["path"] == ["retentionDays"]
        assert str(days) in detail["message"] or detail["code"] == "invalid_type"
    if days == 366:
        assert detail["message"] == "retentionDays must be 0.01 to 365, got 366"


def test_zero_data_retention_allows_no_retention(shared, pages):
    url, both = pages.url("/3"), {"zeroDataRetention": True, "retentionDays": 1}
    for path, body in (
        ("/v2/crawl", {"url": url}),
        ("/v2/batch/scrape", {"urls": [url]}),
        ("/v2/scrape", {"url": url}),
    ):
        reply = shared.post(path, {**body, **both}, key=KEYS[1])
        assert reply.status == 400
        [detail] = reply.json["details"]
        assert detail["path"] == ["retentionDays"]
        assert "zeroDataRetention" in detail["message"]


def test_only_the_second_version_has_the_option(shared, pages):
    body = {"url": pages.url("/3"), "retentionDays": 1}
    for path in ("/v1/crawl", "/v1/scrape"):
        reply = shared.post(path, body, key=KEYS[1])
        assert reply.status == 400
        assert reply.json["details"][0]["keys"] == ["retentionDays"]


def test_a_failed_call_with_zero_retention_stores_no_url(shared, site):
    path = "/v2/jobs?kind=scrape&limit=1"
    before = read(shared, path)["jobs"]
    body = {"url": site.url("/redirect-loop"), "zeroDataRetention": True}
    failed = shared.post("/v2/scrape", body, key=KEYS[0])
    assert failed.json["success"] is False

    def newest():
        jobs = read(shared, path)["jobs"]
        return jobs[0] if jobs and jobs != before else None

    found = wait_until(newest)
    assert (found["target"], found["site"]) == (None, None)
    assert found["error"] == failed.json["code"]


def test_many_jobs_are_deleted_at_a_time(shared, site):
    ids = [
        shared.post("/v2/scrape", {"url": site.url(f"/page/{n}")}, key=KEYS[0]).json[
            "data"
        ]["metadata"]["scrapeId"]
        for n in range(8)
    ]

    def delete(each):  # at once: the call may not be stored yet
        return shared.request("DELETE", f"/v2/jobs/{each}", key=KEYS[0])

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(delete, ids))
    assert [reply.status for reply in replies] == [200] * 8
    for each in ids:
        assert shared.get(f"/v2/scrape/{each}", key=KEYS[0]).status == 404
