"""Crawls and batches through the API, over sockets, against real sites."""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import sqlite3
import time
import urllib.parse
import uuid
from collections import Counter
from contextlib import closing
from datetime import datetime

import pytest

from tests.conftest import Service
from tests.support.crash import fetches, kill, page_of, read_all
from tests.support.disk import fill, small_disk
from tests.support.linked_site import named, page_number
from tests.support.waiting import wait_until

VERSIONS = ("v1", "v2")
KEYS = ("fc-test-key", "fc-other-team")
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
FRESH = {"scrapeOptions": {"maxAge": 0}}
PATIENCE_MS = 300_000  # of pages that a test holds
PATIENT = {"scrapeOptions": {"maxAge": 0, "timeout": PATIENCE_MS}}
NOT_FOUND = {"success": False, "error": "Job not found"}
KEY_USED = {"success": False, "error": "Idempotency key already used"}
CANCELLED = {"success": True, "status": "cancelled"}
CHUNK_BYTES = 10 * 2**20

_numbers = itertools.count()


def new(name):
    """Return the name of a linked site that no other test has."""
    return f"{name}-jobs{next(_numbers)}"


def job_of(reply):
    """Return the path of the status of a job that was just started."""
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True
    return "/" + reply.json["url"].split("/", 3)[3]


def id_of(path):
    return path.rpartition("/")[2]


def read(service, path, **options):
    reply = service.get(path, **options)
    assert reply.status == 200, reply.json
    return reply.json


def ended(service, path):
    """Wait for the end of a job and return its status."""

    def status():
        found = read(service, path)
        return found if found["status"] != "scraping" else None

    return wait_until(status)


def completed(service, path):
    """Wait until a job is completed; return its status and all its documents."""
    status = ended(service, path)
    assert status["status"] == "completed", status
    return status, read_all(service, path)


def error_of(reply, status):
    assert reply.status == status, reply.json
    assert reply.json["success"] is False
    return reply.json["error"]


def details_of(reply):
    assert error_of(reply, 400) == "Bad Request"
    return reply.json["details"]


def sources(documents):
    return [document["metadata"]["sourceURL"] for document in documents]


def html(body):
    """Return the path of a page with this body; pages below ``/html/`` are empty."""
    return f"/html?body={urllib.parse.quote(body)}"


def links_to(*addresses):
    return "".join(f'<p><a href="{address}">x</a></p>' for address in addresses)


@pytest.fixture
def crawl(service, site):
    """Return a function that starts a crawl of a linked site or of an address."""

    def start(name, version="v2", service=service, key=KEYS[0], headers=None, **body):
        url = name if "/" in name else site.url(named(name).path(0))
        body = {"url": url, **FRESH, **body}
        reply = service.post(f"/{version}/crawl", body, key=key, headers=headers)
        return job_of(reply)

    return start


@pytest.fixture
def batch(service):
    """Return a function that starts a batch of addresses."""

    def start(urls, version="v2", service=service, key=KEYS[0], **body):
        body = {"urls": urls, "maxAge": 0, **body}
        return job_of(service.post(f"/{version}/batch/scrape", body, key=key))

    return start


@pytest.fixture
def two_teams(start_service):
    return start_service(SCRAPER_API_KEYS=",".join(KEYS))


# -- start and status ---------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["crawl", "batch/scrape"])
def test_starting_a_job_returns_its_id_and_url_at_once(service, site, version, kind):
    held = site.held()
    body = {"url": held, **FRESH} if kind == "crawl" else {"urls": [held], "maxAge": 0}
    reply = service.post(f"/{version}/{kind}", body)
    assert reply.status == 200
    job_id = reply.json["id"]
    assert str(uuid.UUID(job_id)) == job_id
    url = f"{service.url}/{version}/{kind}/{job_id}"
    expected = {"success": True, "id": job_id, "url": url}
    if (version, kind) == ("v2", "batch/scrape"):
        expected["invalidURLs"] = []
    assert reply.json == expected
    service.request("DELETE", f"/{version}/{kind}/{job_id}")


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("settings", "headers", "base"),
    [
        ({}, {"Host": "my.host:81"}, "http://my.host:81"),
        (
            {},
            {"X-Forwarded-Host": "out.example", "X-Forwarded-Proto": "https"},
            "https://out.example",
        ),
        (
            {},
            {
                "X-Forwarded-Host": "out.example, in.example",
                "X-Forwarded-Proto": "https,http",
            },
            "https://out.example",
        ),
        (
            {"SCRAPER_TRUSTED_PROXIES": "10.0.0.0/8"},
            {
                "Host": "my.host",
                "X-Forwarded-Host": "out.example",
                "X-Forwarded-Proto": "https",
            },
            "http://my.host",
        ),
        (
            {"SCRAPER_PUBLIC_URL": "https://public.example/scraper/"},
            {"Host": "my.host", "X-Forwarded-Host": "out.example"},
            "https://public.example/scraper",
        ),
    ],
    ids=["own host", "trusted proxy", "two proxies", "unknown proxy", "public address"],
)
def test_urls_in_responses_use_the_host_that_the_client_reached(
    start_service, service, site, settings, headers, base
):
    service = start_service(**settings) if settings else service
    body = {"url": site.held(), **PATIENT}
    started = service.post("/v2/crawl", body, headers=headers).json
    path = f"/v2/crawl/{started['id']}"
    assert started["url"] == base + path
    assert service.get(path, headers=headers).json["next"] == f"{base}{path}?skip=0"
    service.request("DELETE", path)


def assert_time(text):
    assert text.endswith("Z")
    assert time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_status_has_the_shape_of_its_version(service, site, crawl, version):
    running = crawl(site.held(), version, **PATIENT)
    found = read(service, running)
    assert_time(found.pop("expiresAt"))
    if version == "v2":
        assert_time(found.pop("createdAt"))
        assert found.pop("duration") >= 0
    assert found == {
        "success": True,
        "status": "scraping",
        "total": 1,
        "completed": 0,
        "creditsUsed": 0,
        "next": f"{service.url}{running}?skip=0",
        "data": [],
    }
    service.request("DELETE", running)
    over = crawl(new("1"), version)
    ended(service, over)
    found = read(service, over)
    assert_time(found.pop("expiresAt"))
    if version == "v2":
        created, ended_at = found.pop("createdAt"), found.pop("completedAt")
        assert_time(created)
        assert_time(ended_at)
        lasted = datetime.fromisoformat(ended_at) - datetime.fromisoformat(created)
        # Both times are told in milliseconds.
        assert found.pop("duration") == pytest.approx(lasted.total_seconds(), abs=0.002)
    [page] = found.pop("data")
    assert found == {
        "success": True,
        "status": "completed",
        "total": 1,
        "completed": 1,
        "creditsUsed": 1,
    }
    assert set(page) == {"markdown", "metadata"}
    assert page["metadata"]["statusCode"] == 200
    assert page["metadata"]["scrapeId"]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_queued_job_is_shown_as_scraping(start_service, site, crawl, version):
    service = start_service(SCRAPER_MAX_RUNNING_JOBS="1")
    first = crawl(site.held(), service=service, **PATIENT)
    second = crawl(new("3"), version, service=service)
    assert read(service, first)["status"] == "scraping"
    waiting = read(service, second)
    assert (waiting["status"], waiting["total"]) == ("scraping", 1)
    assert waiting["data"] == []
    assert service.request("DELETE", first).json == CANCELLED
    status, documents = completed(service, second)
    assert status["total"] == len(documents) == 3


def test_a_job_whose_pages_all_fail_is_completed(service, site, crawl):
    status, documents = completed(service, crawl(site.url("/drop")))
    assert documents == []
    assert (status["total"], status["completed"], status["creditsUsed"]) == (1, 0, 0)


# -- limit, depth, scope --------------------------------------------------------------------


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("limit", [1, 7, 10, 50])
@pytest.mark.parametrize("concurrency", [1, 4, None])
def test_the_limit_is_exact(service, site, crawl, limit, concurrency):
    name = new("60")
    path = crawl(name, limit=limit, maxConcurrency=concurrency)
    status, documents = completed(service, path)
    assert status["total"] == status["completed"] == status["creditsUsed"] == limit
    numbers = Counter(map(page_of, documents))
    assert len(numbers) == len(documents) == limit
    assert fetches(site, f"/site/{name}/") == numbers


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("limit", "delivered"), [(10, 10), (30, 30), (48, 48), (50, 48)]
)
def test_a_failed_page_does_not_count_towards_the_limit(
    service, crawl, limit, delivered
):
    name = new("60-flaky5")
    path = crawl(name, limit=limit)
    status, documents = completed(service, path)
    errors = read(service, f"{path}/errors")["errors"]
    failed = {page_number(error["url"]) for error in errors}
    assert len({page_of(document) for document in documents}) == delivered
    assert len(documents) == delivered
    assert failed <= named(name).flaky_pages()
    assert status["total"] == delivered + len(errors)
    assert status["completed"] == status["creditsUsed"] == delivered


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(("limit", "delivered"), [(25, 25), (None, 60)])
def test_a_job_goes_on_after_its_process_was_killed(
    start_service, crawl, limit, delivered
):
    settings = {"SCRAPER_LEASE_S": "3"}
    service = start_service(**settings)
    path = crawl(new("60-slow100"), service=service, limit=limit, maxConcurrency=4)
    wait_until(lambda: read(service, path)["completed"] >= 5)
    before = read(service, path)
    kill(service)
    service = start_service(**settings)
    status, documents = completed(service, path)
    assert documents[: len(before["data"])] == before["data"]
    assert len({page_of(document) for document in documents}) == delivered
    assert len(documents) == status["completed"] == status["total"] == delivered


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_links_are_followed_down_to_the_discovery_depth(service, crawl, depth):
    name = new("60")
    options = {"maxDiscoveryDepth": depth, "sitemap": "skip"}
    _, documents = completed(service, crawl(name, **options))
    expected = {0}
    for _ in range(depth):
        expected |= {link for page in expected for link in named(name).links(page)}
    assert sorted(map(page_of, documents)) == sorted(expected)


def test_only_links_below_the_start_path_and_on_the_host_are_followed(
    service, site, crawl
):
    inside = [site.url(path) for path in ("/html/a", "/html/a/b?c=d", "/html-old")]
    outside = [
        site.url("/text"),
        site.url("/html/c", "other"),
        site.https("/html/d"),
        "http://localhost/html/e",
        "mailto:a@example.com",
        "javascript:void(0)",
        site.url("/html/picture.png"),
        site.url("/html/style.CSS?x"),
    ]
    start = site.url(html(links_to(*outside, *inside)))
    _, documents = completed(service, crawl(start))
    assert sorted(sources(documents)) == sorted([start, *inside])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"includePaths": ["a$"]}, {"/html/a"}),
        ({"excludePaths": ["/a", "^/html/b"]}, set()),
        ({"excludePaths": [r"\?"], "regexOnFullURL": True}, {"/html/a", "/html/a/"}),
        ({"ignoreQueryParameters": True}, {"/html/a", "/html/b?c"}),
        ({"crawlEntireDomain": True}, {"/html/a", "/html/b?c", "/html/b?d", "/text"}),
    ],
)
def test_options_choose_among_links(service, site, crawl, options, expected):
    links = ("/html/a", "/html/a/", "/html/b?c", "/html/b?d", "/text")
    start = site.url(html(links_to(*links)))
    _, documents = completed(service, crawl(start, sitemap="skip", **options))
    # A start page that the patterns refuse is left out itself.
    found = {url.removeprefix(site.url("")) for url in {*sources(documents)} - {start}}
    assert found <= expected
    assert {path.rstrip("/") for path in found} == {p.rstrip("/") for p in expected}


def test_deduplicateSimilarURLs_false_keeps_similar_urls(service, site, crawl):
    start = site.url(html(links_to("/html/a", "/html/a/")))
    _, documents = completed(service, crawl(start, deduplicateSimilarURLs=False))
    assert len(documents) == 3


@pytest.mark.parametrize("dots", ["..", "%2e%2E", "a/../.."])
def test_dots_in_a_path_do_not_lead_out_of_the_start_path(service, site, crawl, dots):
    start = site.url(html(links_to(site.url(f"/html/{dots}/json"), "/html/a")))
    _, documents = completed(service, crawl(start))
    assert sources(documents) == [start, site.url("/html/a")]


@pytest.mark.parametrize(
    "bad", ["http://[", "http://[::1", "http://a:99999/", "http://a:b/", "//[", "\\["]
)
def test_an_invalid_link_is_ignored(service, site, crawl, bad):
    start = site.url(html(links_to(bad, "/html/a")))
    path = crawl(start)
    _, documents = completed(service, path)
    assert read(service, f"{path}/errors")["errors"] == []
    assert sources(documents)[:2] == [start, site.url("/html/a")]


def test_a_start_page_with_an_index_name_stands_for_its_folder(service, site, crawl):
    start = site.url(f"/html/index.html?{html(links_to('a', '/text'))[6:]}")
    _, documents = completed(service, crawl(start))
    assert sources(documents) == [start, site.url("/html/a")]


def test_spellings_of_one_page_are_fetched_once(service, site, crawl):
    spellings = ("/html/a", "/html/a/", "/html/a/index.html", "/html/a#part", "html/a")
    start = site.url(html(links_to(*spellings, "/html/b?x=1", "/html/b?x=2")))
    _, documents = completed(service, crawl(start))
    paths = [url.removeprefix(site.url("")) for url in sources(documents)[1:]]
    assert sorted(paths) == ["/html/a", "/html/b?x=1", "/html/b?x=2"]


def test_a_redirect_to_a_known_page_is_delivered_once(service, site, crawl):
    to_text = ("/redirect/1?to=/text", "/redirect/1?to=/text&again=1")
    page = html(links_to(*to_text, "/redirect/1?to=/json"))
    start = site.url(f"/redirect/1?to={urllib.parse.quote(page)}")
    status, documents = completed(service, crawl(start))
    finals = [document["metadata"]["url"] for document in documents]
    assert finals[0] == site.url(page)
    assert sorted(finals[1:]) == [site.url("/json"), site.url("/text")]
    assert status["completed"] == status["creditsUsed"] == 3


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("kind", ["crawl", "batch"])
def test_max_concurrency_is_how_many_pages_are_open_at_once(
    service, crawl, batch, gauge, kind, most
):
    gauge.gate.clear()
    if kind == "crawl":
        path = crawl(gauge.url("/p/"), maxConcurrency=most)
    else:
        urls = [gauge.url(f"/p/{n}") for n in range(gauge.pages)]
        path = batch(urls, maxConcurrency=most)
    wait_until(lambda: gauge.now == most)
    gauge.gate.set()
    _, documents = completed(service, path)
    assert len(documents) == gauge.pages
    assert gauge.most == most


def test_a_delay_fetches_pages_one_after_another(service, crawl, gauge):
    path = crawl(gauge.url("/p/"), delay=0.05, maxConcurrency=5)
    _, documents = completed(service, path)
    assert len(documents) == gauge.pages
    assert gauge.most == 1
    assert len(gauge.asked) == len(set(gauge.asked)) == gauge.pages


# -- reading in pieces ------------------------------------------------------------------------


def chain(service, path):
    """Follow ``next`` literally, as clients do; return the status of each step."""
    steps = [read(service, path)]
    while "next" in steps[-1]:
        url = steps[-1]["next"]
        assert url.startswith(service.url + path.partition("?")[0])
        assert len(steps) < 100, "next does not end"
        steps.append(read(service, url.removeprefix(service.url)))
    return steps


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("query", "sizes"),
    [
        ("", [20]),
        ("?limit=1", [1] * 20),
        ("?limit=7", [7, 7, 6]),
        ("?limit=10", [10, 10]),
        ("?limit=1000", [20]),
        ("?skip=15", [5]),
        ("?skip=15&limit=2", [2, 2, 1]),
        ("?skip=20", [0]),
        ("?skip=2147483647", [0]),
    ],
)
def test_chains_of_next_give_each_document_once(finished, version, query, sizes):
    service, job_id, documents = finished
    steps = chain(service, f"/{version}/crawl/{job_id}{query}")
    assert [len(step["data"]) for step in steps] == sizes
    skip = int(urllib.parse.parse_qs(query[1:]).get("skip", ["0"])[0])
    assert [page for step in steps for page in step["data"]] == documents[skip:]
    assert "next" not in steps[-1]
    assert {step["completed"] for step in steps} == {20}


@pytest.fixture(scope="module")
def finished(service, site):
    """A crawl of 20 pages that has completed: the service, its id, its documents."""
    body = {"url": site.url(named(new("20")).path(0)), **FRESH}
    path = job_of(service.post("/v2/crawl", body))
    status = ended(service, path)
    assert status["completed"] == 20
    return service, id_of(path), status["data"]


def test_next_repeats_limit_and_has_the_path_of_the_request(finished):
    service, job_id, _ = finished
    for path in (f"/v1/crawl/{job_id}", f"/v2/batch/scrape/{job_id}"):
        found = read(service, f"{path}?limit=3&skip=4")
        assert found["next"] == f"{service.url}{path}?skip=7&limit=3"


def test_an_empty_chunk_of_a_running_job_has_no_next(service, site, crawl):
    path = crawl(site.held(), **PATIENT)
    for query in ("?skip=0", "?skip=5", "?skip=5&limit=2"):
        found = read(service, path + query)
        assert found["status"] == "scraping"
        assert found["data"] == []
        assert "next" not in found
    assert read(service, path)["next"] == f"{service.url}{path}?skip=0"
    assert len(chain(service, path)) == 2
    service.request("DELETE", path)


def test_documents_are_appended_while_a_job_runs(service, crawl):
    path = crawl(new("20-slow50"), maxConcurrency=2)
    seen, status = [], "scraping"
    while status == "scraping":
        found = read(service, f"{path}?skip={len(seen)}")
        seen += found["data"]
        status = found["status"]
        if status == "scraping":
            assert ("next" in found) == bool(found["data"])
    seen += read(service, f"{path}?skip={len(seen)}")["data"]
    assert seen == read(service, path)["data"]
    assert len({page_of(document) for document in seen}) == 20


def test_more_than_10_mib_come_in_chunks(service, site, batch):
    sizes = (4, 4, 4, 11)  # MiB
    urls = [site.url(f"/html?body={'x' * 1024}&count={mib * 1024}") for mib in sizes]
    path = batch(urls, formats=["rawHtml"], timeout=60_000)
    ended(service, path)
    steps = chain(service, path)
    assert len(steps) in {3, 4}
    for step in steps:
        size = sum(len(json.dumps(document)) for document in step["data"])
        assert size <= CHUNK_BYTES or len(step["data"]) == 1
        assert step["data"]
    documents = [document for step in steps for document in step["data"]]
    lengths = sorted(len(document["rawHtml"]) for document in documents)
    assert lengths == [mib * 2**20 for mib in sizes]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("family", ["crawl", "batch/scrape"])
@pytest.mark.parametrize(
    "query",
    [
        *("skip=-1", "skip=x", "skip=1.5", "skip=", "skip=2147483648", "skip=%C2%B2"),
        *("limit=0", "limit=-1", "limit=1001", "limit=x", "limit=", "limit=1e3"),
        "skip=99999999999999999999",
    ],
)
def test_bad_paging_is_refused(finished, version, family, query):
    service, job_id, _ = finished
    reply = service.get(f"/{version}/{family}/{job_id}?{query}")
    assert error_of(reply, 400).startswith("Invalid pagination")


ROUTES = [
    (method, f"/{version}/{family}/{{}}{errors}")
    for version in VERSIONS
    for family in ("crawl", "batch/scrape")
    for errors in ("", "/errors")
    for method in ("GET", "DELETE")
]


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_invalid_ids_and_unknown_ids_get_different_errors(service, method, route):
    for bad in ("x", "1", "0b5f0a3e-41b1-4f0e-8a59", UNKNOWN + "0", "%27--"):
        reply = service.request(method, route.format(bad))
        assert error_of(reply, 400).startswith("Invalid job ID format")
    reply = service.request(method, route.format(UNKNOWN))
    assert (reply.status, reply.json) == (404, NOT_FOUND)


def test_a_job_of_another_team_does_not_exist_on_any_route(
    two_teams, site, crawl, batch
):
    slow = site.held()
    jobs = [
        crawl(slow, service=two_teams, **PATIENT),
        batch([slow], service=two_teams, timeout=PATIENCE_MS),
        crawl(new("1"), service=two_teams),
    ]
    ended(two_teams, jobs[2])
    for method, route in ROUTES:
        for job in jobs:
            path = route.format(id_of(job))
            reply = two_teams.request(method, path, key=KEYS[1])
            assert (reply.status, reply.json) == (404, NOT_FOUND), path
    body = {"urls": [slow], "appendToId": id_of(jobs[1]), "maxAge": 0}
    reply = two_teams.post("/v2/batch/scrape", body, key=KEYS[1])
    assert (reply.status, reply.json) == (404, NOT_FOUND)
    nothing = {"success": True, "crawls": []}
    assert read(two_teams, "/v2/crawl/active", key=KEYS[1]) == nothing
    assert read(two_teams, jobs[0])["status"] == "scraping"
    assert read(two_teams, jobs[1])["total"] == 1
    for job in jobs[:2]:
        two_teams.request("DELETE", job)


# -- cancel, errors, active ---------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancelled_crawl_fetches_no_further_page(service, site, crawl, version):
    name = new("60-slow500")
    path = crawl(name, version, maxConcurrency=2)
    wait_until(lambda: read(service, path)["completed"] >= 3)
    reply = service.request("DELETE", path)
    assert (reply.status, reply.json) == (200, CANCELLED)
    asked = fetches(site, f"/site/{name}/")
    status = read(service, path)
    assert status["status"] == "cancelled"
    assert "next" not in status
    assert len(status["data"]) == status["completed"] >= 3
    reply = service.request("DELETE", path)
    assert (reply.status, reply.json) == (200, CANCELLED)
    time.sleep(1)
    assert fetches(site, f"/site/{name}/") == asked
    assert read(service, path) == status
    assert asked.total() < 60


def test_a_slow_page_delays_neither_cancel_nor_other_jobs(start_service, site, crawl):
    service = start_service()
    held = site.held()
    path = crawl(held, service=service, **PATIENT)
    wait_until(lambda: held.removeprefix(site.url("")) in site.paths("/held"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.request, "DELETE", path)
        wait_until(lambda: read(service, path)["status"] == "cancelled")
        time.sleep(3)  # the service has looked at its jobs again
        other = crawl(new("3"), service=service)
        assert ended(service, other)["completed"] == 3
        assert answer.result().json == CANCELLED


@pytest.mark.full
def test_a_crawl_that_is_cancelled_while_it_opens_leaves_no_error(start_service, site):
    service = start_service()
    for wait_s in [number * 0.004 for number in range(20)]:
        started = service.post("/v2/crawl", {"url": site.held(), **PATIENT})
        path = f"/v2/crawl/{started.json['id']}"
        time.sleep(wait_s)  # it opens for some hundredths of a second
        assert service.request("DELETE", path).json["status"] == "cancelled"
    assert service.stop() == 0
    assert "Traceback" not in service.stderr


def test_a_cancelled_crawl_returns_its_leases_at_once(start_service, site):
    service = start_service(SCRAPER_LEASE_S="1")
    for wait_s in (0.02, 0.05, 0.3):
        held = site.held()
        started = service.post("/v2/crawl", {"url": held, **PATIENT})
        path = f"/v2/crawl/{started.json['id']}"
        time.sleep(wait_s)  # its page and its robots.txt are asked for, or soon
        assert service.request("DELETE", path).json["status"] == "cancelled"
    time.sleep(2)  # a lease without a crawler is found by two looks, .3 s apart
    assert service.stop() == 0
    assert "no crawler had" not in service.stderr


def test_a_cancelled_batch_stays_cancelled(service, site, batch):
    path = batch([site.url(f"/delay/20?{uuid.uuid4()}") for _ in range(100)])
    assert service.request("DELETE", path).json == CANCELLED
    status = read(service, path)
    assert (status["status"], status["total"]) == ("cancelled", 100)
    assert "next" not in status
    assert service.request("DELETE", path).json == CANCELLED


@pytest.mark.parametrize("version", VERSIONS)
def test_a_completed_job_cannot_be_cancelled(service, site, crawl, batch, version):
    jobs = {
        "Crawl": crawl(new("3"), version),
        "Batch": batch([site.url("/text")], version),
    }
    for kind, path in jobs.items():
        status = ended(service, path)
        reply = service.request("DELETE", path)
        error = {"success": False, "error": f"{kind} is already completed"}
        assert (reply.status, reply.json) == (409, error)
        assert read(service, path) == status


@pytest.mark.parametrize("version", VERSIONS)
def test_failed_pages_are_listed_with_their_reasons(service, site, crawl, version):
    name = new("20-flaky10")
    path = crawl(name, version)
    completed(service, path)
    found = read(service, f"{path}/errors")
    assert set(found) == {"success", "errors", "robotsBlocked"}
    assert found["success"] is True
    assert found["robotsBlocked"] == []
    assert sorted(page_number(error["url"]) for error in found["errors"]) == [9, 19]
    for error in found["errors"]:
        assert set(error) == {"id", "timestamp", "url", "code", "error"}
        assert str(uuid.UUID(error["id"])) == error["id"]
        assert_time(error["timestamp"])
        assert error["url"].startswith(site.url(f"/site/{name}/p/"))
        assert error["code"] == "SCRAPE_SITE_ERROR"
        assert error["error"]
    assert len({error["id"] for error in found["errors"]}) == 2


def test_errors_are_listed_while_a_job_runs_and_delete_reads_them(service, site, batch):
    path = batch([site.url("/drop"), site.held()], timeout=PATIENCE_MS)
    wait_until(lambda: read(service, f"{path}/errors")["errors"])
    found = read(service, f"{path}/errors")
    assert [error["url"] for error in found["errors"]] == [site.url("/drop")]
    reply = service.request("DELETE", f"{path}/errors")
    assert (reply.status, reply.json) == (200, found)
    assert read(service, path)["status"] == "scraping"
    service.request("DELETE", path)


@pytest.fixture(scope="module")
def active_crawls(tmp_path_factory, site):
    """A service with one running crawl of each version and a running batch."""
    service = Service(tmp_path_factory.mktemp("active"))
    slow = site.held()
    common = {"url": slow, "limit": 5, "maxDiscoveryDepth": 2, "delay": 1}
    pages = {
        "formats": ["markdown", "links"],
        "onlyMainContent": False,
        "timeout": PATIENCE_MS,
        "maxAge": 0,
    }
    first = service.post(
        "/v1/crawl",
        {**common, "maxDepth": 10, "ignoreSitemap": True, "scrapeOptions": pages},
    )
    second = service.post(
        "/v2/crawl", {**common, "sitemap": "skip", "scrapeOptions": pages}
    )
    batch = {"urls": [slow], "maxAge": 0, "timeout": PATIENCE_MS}
    service.post("/v2/batch/scrape", batch)
    yield service, [first.json["id"], second.json["id"]]
    service.kill()


@pytest.mark.parametrize("path", ["active", "ongoing"])
@pytest.mark.parametrize("version", VERSIONS)
def test_running_crawls_are_listed_without_batches(active_crawls, site, version, path):
    service, ids = active_crawls
    found = read(service, f"/{version}/crawl/{path}")
    assert set(found) == {"success", "crawls"}
    assert found["success"] is True
    assert [crawl["id"] for crawl in found["crawls"]] == ids
    for crawl in found["crawls"]:
        assert set(crawl) == {"id", "teamId", "url", "created_at", "options"}
        assert isinstance(crawl["teamId"], str)
        assert crawl["url"].startswith(site.url("/held/"))
        assert_time(crawl["created_at"])
        options = crawl["options"]
        assert options["limit"] == 5
        assert options["maxDiscoveryDepth"] == 2
        assert options["delay"] == 1
        assert options["scrapeOptions"]["onlyMainContent"] is False
        assert options["scrapeOptions"]["maxAge"] == 0


def test_listed_options_have_the_names_of_the_version_of_the_path(active_crawls):
    service, _ = active_crawls
    first, second = (
        [crawl["options"] for crawl in read(service, f"/{v}/crawl/active")["crawls"]]
        for v in VERSIONS
    )
    for options in first:
        assert options["ignoreSitemap"] is True
        assert options["allowBackwardLinks"] is False
        assert "sitemap" not in options
    assert first[0]["maxDepth"] == 10
    for options in second:
        assert options["sitemap"] == "skip"
        assert options["crawlEntireDomain"] is False
        assert not {"maxDepth", "maxPathDepth", "ignoreSitemap"} & options.keys()


def test_listed_options_start_the_same_crawl_again(active_crawls, site):
    service, _ = active_crawls
    for version, number in (("v1", 0), ("v2", 1)):
        crawls = read(service, f"/{version}/crawl/active")["crawls"]
        options = crawls[number]["options"]
        body = {"url": site.held(), **options}
        path = job_of(service.post(f"/{version}/crawl", body))
        again = read(service, f"/{version}/crawl/active")["crawls"][-1]
        assert service.request("DELETE", path).status == 200
        assert again["id"] == id_of(path)
        assert again["options"] == options


def test_a_crawl_that_has_ended_is_not_active(two_teams, crawl):
    over = crawl(new("1"), service=two_teams)
    ended(two_teams, over)
    stopped = crawl(new("60-slow500"), service=two_teams)
    two_teams.request("DELETE", stopped)
    nothing = {"success": True, "crawls": []}
    assert read(two_teams, "/v2/crawl/active") == nothing
    assert read(two_teams, "/v1/crawl/ongoing") == nothing


# -- batches --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_returns_one_result_per_url(service, site, batch, version):
    text, echo = site.url("/text?jobs"), site.url("/echo?jobs")
    given = [text, echo, text, site.url("/drop"), text, site.url("/redirect/1?to=/rss")]
    path = batch(given, version, formats=["markdown"])
    status, documents = completed(service, path)
    assert (status["total"], status["completed"], status["creditsUsed"]) == (6, 5, 5)
    given.remove(site.url("/drop"))
    assert Counter(sources(documents)) == Counter(given)
    ids = {document["metadata"]["scrapeId"] for document in documents}
    assert len(ids) == 5
    [error] = read(service, f"{path}/errors")["errors"]
    assert error["url"] == site.url("/drop")


def test_links_on_the_pages_of_a_batch_are_not_followed(service, site, batch):
    name = new("20")
    status, documents = completed(service, batch([site.url(named(name).path(0))]))
    assert status["total"] == len(documents) == 1
    assert fetches(site, f"/site/{name}/").total() == 1


@pytest.mark.parametrize(
    ("version", "flag", "invalid"),
    [
        ("v2", {}, True),
        ("v2", {"ignoreInvalidURLs": True}, True),
        ("v1", {"ignoreInvalidURLs": True}, True),
        ("v2", {"ignoreInvalidURLs": False}, False),
        ("v1", {}, False),
        ("v1", {"ignoreInvalidURLs": False}, False),
    ],
)
def test_invalid_urls_are_left_out_or_refused(service, site, version, flag, invalid):
    good, bad = site.url("/text"), ["ftp://a.example/x", ""]
    body = {"urls": [bad[0], good, bad[1]], "maxAge": 0, **flag}
    reply = service.post(f"/{version}/batch/scrape", body)
    if invalid:
        assert reply.json["invalidURLs"] == bad
        status, documents = completed(service, job_of(reply))
        assert sources(documents) == [good]
        assert status["total"] == 1
    else:
        paths = [detail["path"] for detail in details_of(reply)]
        assert paths == [["urls", 0], ["urls", 2]]
    body = {"urls": [good], "maxAge": 0, **flag}
    reply = service.post(f"/{version}/batch/scrape", body)
    assert reply.json.get("invalidURLs") == ([] if invalid else None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("urls", [[], ["ftp://a.example", "http://"]])
def test_a_batch_without_a_valid_url_is_refused(service, version, urls):
    body = {"urls": urls, "ignoreInvalidURLs": True}
    [detail] = details_of(service.post(f"/{version}/batch/scrape", body))
    assert detail["path"] == ["urls"]
    assert detail["message"].startswith("No valid URLs provided")


def append(service, version, job_id, urls, **options):
    body = {"urls": urls, "appendToId": job_id, "maxAge": 0, **options}
    return service.post(f"/{version}/batch/scrape", body)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_accepts_further_urls(service, site, batch, version):
    text = site.url("/text?append")
    path = batch([site.url("/delay/1"), text], version)
    held = site.held()
    reply = append(service, version, id_of(path), [text, site.url("/rss?append")])
    assert job_of(reply) == path
    assert reply.json["id"] == id_of(path)
    status, documents = completed(service, path)
    assert status["total"] == status["completed"] == 4
    assert Counter(sources(documents))[text] == 2
    before = status["data"]
    reply = append(service, version, id_of(path), [held, text], timeout=PATIENCE_MS)
    assert reply.status == 200
    status = read(service, path)
    assert (status["status"], status["total"]) == ("scraping", 6)
    assert "completedAt" not in status
    site.release(held)
    status, documents = completed(service, path)
    assert status["total"] == status["completed"] == 6
    assert documents[:4] == before
    assert Counter(sources(documents))[text] == 3


def test_added_urls_are_scraped_with_the_options_of_their_own_request(
    service, site, batch
):
    path = batch([site.url("/article?one")], formats=["markdown"])
    ended(service, path)
    urls = [site.url("/article?two")]
    assert append(service, "v2", id_of(path), urls, formats=["links"]).status == 200
    _, [first, second] = completed(service, path)
    assert set(first) == {"markdown", "metadata"}
    assert set(second) == {"links", "metadata"}


def test_added_urls_may_not_request_unavailable_formats(service, site, batch):
    path = batch([site.url("/text")])
    ended(service, path)
    urls = [site.url("/rss")]
    reply = append(service, "v2", id_of(path), urls, formats=["screenshot"])
    assert "not available here" in details_of(reply)[0]["message"]
    assert read(service, path)["total"] == 1


def test_a_request_that_adds_urls_may_not_change_options_of_the_batch(
    service, site, batch
):
    path, urls = batch([site.url("/text")]), [site.url("/rss")]
    reply = append(service, "v2", id_of(path), urls, keepSources=True)
    [detail] = details_of(reply)
    assert (reply.status, detail["path"]) == (400, ["keepSources"])
    assert "appendToId" in detail["message"]
    for key, value in {"maxConcurrency": 1, "dedupeBoilerplate": True}.items():
        reply = append(service, "v2", id_of(path), urls, **{key: value})
        assert reply.json["warning"].endswith(f"no effect here: {key}.")
        assert "warning" not in append(service, "v2", id_of(path), urls).json


def test_added_urls_do_not_prolong_a_batch_with_zero_retention(service, site, batch):
    path = batch([site.url("/text")], zeroDataRetention=True)
    before = completed(service, path)[0]["expiresAt"]
    reply = append(service, "v2", id_of(path), [site.url("/rss")], retentionDays=9)
    [detail] = details_of(reply)
    assert (reply.status, detail["path"]) == (400, ["retentionDays"])
    assert read(service, path)["expiresAt"] == before


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancelled_or_unknown_batch_accepts_no_urls(
    service, site, batch, crawl, version
):
    urls = [site.url("/text")]
    path = batch([site.held()], version, timeout=PATIENCE_MS)
    service.request("DELETE", path)
    reply = append(service, version, id_of(path), urls)
    error = {"success": False, "error": "Batch is already cancelled"}
    assert (reply.status, reply.json) == (409, error)
    assert read(service, path)["total"] == 1
    for job_id in (UNKNOWN, id_of(crawl(new("1"), version))):
        reply = append(service, version, job_id, urls)
        assert (reply.status, reply.json) == (404, NOT_FOUND)


def test_every_job_is_read_on_all_paths_in_the_shape_of_the_path(
    service, site, crawl, batch
):
    jobs = [
        crawl(new("3"), "v1"),
        crawl(new("3"), "v2"),
        batch([site.url("/text"), site.url("/drop")], "v1"),
        batch([site.url("/text"), site.url("/drop")], "v2"),
    ]
    for job in jobs:
        own = ended(service, job)
        own_errors = read(service, f"{job}/errors")
        for version in VERSIONS:
            for family in ("crawl", "batch/scrape"):
                path = f"/{version}/{family}/{id_of(job)}"
                found = read(service, path)
                assert ("createdAt" in found) == (version == "v2")
                assert ("completedAt" in found) == (version == "v2")
                assert ("duration" in found) == (version == "v2")
                for key in own.keys() - {"createdAt", "completedAt", "duration"}:
                    assert found[key] == own[key]
                assert read(service, f"{path}/errors") == own_errors
                if version == "v2":
                    urls = read(service, f"{path}/urls")["urls"]
                    pages = [found for found in urls if found["kind"] == "page"]
                    assert len(pages) == own["total"]
                assert error_of(service.request("DELETE", path), 409)


def test_a_batch_is_cancelled_on_the_path_of_crawls(service, site, batch):
    path = batch([site.held()], timeout=PATIENCE_MS)
    reply = service.request("DELETE", f"/v1/crawl/{id_of(path)}")
    assert (reply.status, reply.json) == (200, CANCELLED)
    assert read(service, path)["status"] == "cancelled"


# -- idempotency ------------------------------------------------------------------------------

STARTS = [(v, kind) for v in VERSIONS for kind in ("crawl", "batch/scrape")]


@pytest.fixture
def post_with_key(site):
    """Return a function that starts a short job with an idempotency key."""

    def call(service, version, kind, used, key=KEYS[0], **body):
        url = site.url("/text")
        short = {"url": url, **FRESH} if kind == "crawl" else {"urls": [url]}
        headers = {"x-idempotency-key": used}
        return service.post(
            f"/{version}/{kind}", {**short, **body}, key=key, headers=headers
        )

    return call


@pytest.mark.parametrize(("version", "kind"), STARTS)
def test_an_idempotency_key_starts_one_job(service, post_with_key, version, kind):
    used = str(uuid.uuid4())
    assert post_with_key(service, version, kind, used).status == 200
    for again in (used, used.upper()):
        reply = post_with_key(service, version, kind, again)
        assert (reply.status, reply.json) == (409, KEY_USED)
    for key in ("not-a-uuid", "", "null"):
        reply = post_with_key(service, version, kind, key)
        [issue] = reply.json.pop("details")
        assert (reply.status, reply.json) == (409, KEY_USED)
        assert issue["message"] == f"x-idempotency-key must be a UUID, got {key!r}"
    other = "crawl" if kind != "crawl" else "batch/scrape"
    assert post_with_key(service, "v2", other, used).status == 409


@pytest.mark.parametrize(("version", "kind"), STARTS)
@pytest.mark.parametrize(
    "fault", [{"nonsense": 1}, {"webhook": "ftp://a.example"}], ids=["bad", "hook"]
)
def test_a_refused_request_does_not_use_its_key(
    service, post_with_key, version, kind, fault
):
    used = str(uuid.uuid4())
    assert post_with_key(service, version, kind, used, **fault).status == 400
    assert post_with_key(service, version, kind, used).status == 200


def test_an_idempotency_key_applies_to_added_urls(service, site, batch, post_with_key):
    path = batch([site.url("/text")])
    used = str(uuid.uuid4())
    options = {"appendToId": id_of(path), "maxAge": 0}
    reply = post_with_key(service, "v2", "batch/scrape", used, **options)
    assert reply.status == 200
    reply = post_with_key(service, "v2", "batch/scrape", used, **options)
    assert (reply.status, reply.json) == (409, KEY_USED)
    status, _ = completed(service, path)
    assert status["total"] == 2


def test_idempotency_keys_belong_to_a_team(two_teams, post_with_key):
    used = str(uuid.uuid4())
    statuses = [
        post_with_key(two_teams, "v2", "crawl", used, key=key).status
        for key in (*KEYS, *KEYS)
    ]
    assert statuses == [200, 200, 409, 409]


def test_equal_calls_at_once_start_one_job(start_service, site, post_with_key):
    service = start_service()
    used = str(uuid.uuid4())
    slow = site.held()

    def call(_):
        return post_with_key(service, "v2", "crawl", used, url=slow, **PATIENT)

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(call, range(20)))
    statuses = Counter(reply.status for reply in replies)
    assert statuses == {200: 1, 409: 19}
    [active] = read(service, "/v2/crawl/active")["crawls"]
    [started] = [reply for reply in replies if reply.status == 200]
    assert active["id"] == started.json["id"]
    service.request("DELETE", job_of(started))


# -- options ----------------------------------------------------------------------------------


COMMON_DEFAULTS = {
    "includePaths": [],
    "excludePaths": [],
    "maxDiscoveryDepth": None,
    "limit": 10_000,
    "crawlEntireDomain": False,
    "allowExternalLinks": False,
    "allowSubdomains": False,
    "ignoreRobotsTxt": False,
    "robotsUserAgent": None,
    "deduplicateSimilarURLs": True,
    "ignoreQueryParameters": False,
    "regexOnFullURL": False,
    "delay": None,
    "maxConcurrency": None,
    "webhook": None,
    "zeroDataRetention": False,
    "origin": "tests",
    "integration": None,
    **FRESH,
}


@pytest.mark.parametrize(
    ("version", "defaults"),
    [
        (
            "v1",
            {
                "maxDepth": 10,
                "allowBackwardLinks": False,
                "allowBackwardCrawling": False,
                "ignoreSitemap": False,
            },
        ),
        ("v1", {"ignoreSitemap": True}),
        ("v2", {"sitemap": "include", "prompt": None}),
        ("v2", {"sitemap": "skip"}),
    ],
)
def test_defaults_may_be_written_out(service, site, version, defaults):
    body = {"url": site.url("/text"), **COMMON_DEFAULTS, **defaults}
    path = job_of(service.post(f"/{version}/crawl", body))
    assert completed(service, path)[0]["completed"] == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"timeout": "x"}, ["scrapeOptions", "timeout"]),
        ({"waitFor": -1}, ["scrapeOptions", "waitFor"]),
        ({"formats": ["nope"]}, ["scrapeOptions", "formats", 0]),
        ({"nonsense": 1}, ["scrapeOptions"]),
        ({"mobile": True}, ["scrapeOptions", "mobile"]),
        ({"formats": ["screenshot"]}, ["scrapeOptions", "formats"]),
    ],
)
def test_wrong_options_of_pages_are_named_below_scrape_options(
    service, site, version, options, path
):
    body = {"url": site.url("/text"), "scrapeOptions": options}
    [detail, *_] = details_of(service.post(f"/{version}/crawl", body))
    assert detail["path"] == path


@pytest.mark.parametrize("version", VERSIONS)
def test_an_invalid_pattern_is_an_error_at_its_path(service, version):
    body = {"url": "http://a.example", "excludePaths": ["a", "(b"]}
    reply = service.post(f"/{version}/crawl", body)
    start = "excludePaths.1: not a regular expression"
    assert error_of(reply, 400).startswith(start)
    assert reply.json["code"] == "BAD_REQUEST"
    assert reply.json["details"][0]["path"] == ["excludePaths", 1]
    for more in ({"limit": 0}, {"excludePaths": "(b"}):
        details_of(service.post(f"/{version}/crawl", {**body, **more}))


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_of_a_crawl_are_scraped_with_the_scrape_options(service, crawl, version):
    options = {
        "formats": ["links", "html"],
        "excludeTags": ["h1"],
        "onlyMainContent": False,
        "maxAge": 0,
    }
    _, documents = completed(service, crawl(new("3"), version, scrapeOptions=options))
    assert len(documents) == 3
    for document in documents:
        assert set(document) == {"links", "html", "metadata"}
        assert "<h1>" not in document["html"]


# -- single pages by their id -------------------------------------------------------------------


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_page_can_be_read_again_by_its_id(two_teams, site, crawl, batch, version):
    body = {"url": site.url("/article"), "formats": ["markdown", "links"], "maxAge": 0}
    pages = [two_teams.post(f"/{version}/scrape", body).json["data"]]
    for path in (
        crawl(new("3"), version, service=two_teams),
        batch([site.url("/text")] * 2, version, service=two_teams),
    ):
        pages += completed(two_teams, path)[1]
    assert len(pages) == 6
    for page in pages:
        path = f"/{version}/scrape/{page['metadata']['scrapeId']}"
        reply = two_teams.get(path)
        assert (reply.status, reply.json) == (200, {"success": True, "data": page})
        reply = two_teams.get(path, key=KEYS[1])
        error = {"success": False, "error": "Job not found."}
        assert (reply.status, reply.json) == (404, error)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_page_without_retention_cannot_be_read_again(service, site, version):
    body = {"url": site.url("/text"), "zeroDataRetention": True, "maxAge": 0}
    page = service.post(f"/{version}/scrape", body).json["data"]
    for scrape_id in (page["metadata"]["scrapeId"], UNKNOWN):
        reply = service.get(f"/{version}/scrape/{scrape_id}")
        assert error_of(reply, 404) == "Job not found."
    reply = service.get(f"/{version}/scrape/x")
    assert error_of(reply, 400).startswith("Invalid job ID format")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_page_of_a_job_without_retention_is_read_with_the_job_only(
    service, site, crawl, batch, version
):
    private = {"zeroDataRetention": True}
    crawled = completed(service, crawl(new("3"), version, **private))[1]
    path = batch([site.url("/text")], version)
    completed(service, path)
    job_id = path.rpartition("/")[2]
    batch([site.url("/article")], version, appendToId=job_id, **private)
    kept, appended = completed(service, path)[1]
    for each in (*crawled, appended):
        reply = service.get(f"/{version}/scrape/{each['metadata']['scrapeId']}")
        assert error_of(reply, 404) == "Job not found."
    reply = service.get(f"/{version}/scrape/{kept['metadata']['scrapeId']}")
    assert reply.json["data"] == kept


# -- a database in trouble ------------------------------------------------------------------------


@pytest.mark.slow
def test_jobs_outlast_a_locked_database(start_service, tmp_path, crawl):
    service = start_service()
    running = crawl(new("60-slow1000"), service=service, maxConcurrency=4)
    wait_until(lambda: read(service, running)["completed"] >= 3)
    path = tmp_path / "jobs.sqlite"
    lock = sqlite3.connect(path, isolation_level=None, timeout=60)
    with closing(lock), concurrent.futures.ThreadPoolExecutor(1) as pool:
        lock.execute("BEGIN EXCLUSIVE")
        starting = pool.submit(crawl, new("3"), service=service)
        time.sleep(3)
        assert read(service, running)["status"] == "scraping"
        assert not starting.done()
        lock.execute("ROLLBACK")
        started = starting.result()
    for path, pages in ((running, 60), (started, 3)):
        status, documents = completed(service, path)
        assert status["total"] == status["completed"] == len(documents) == pages
        assert len({page_of(document) for document in documents}) == pages


FULL = "The disk of the service is full."


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        yield folder


@pytest.mark.full
def test_jobs_outlast_a_full_disk(disk, start_service, site, crawl):
    service = start_service(data_dir=disk)
    path = crawl(new("60-slow500"), service=service, maxConcurrency=4)
    wait_until(lambda: read(service, path)["completed"] >= 3)
    filler = disk / "filler"
    fill(filler)

    def refused():
        fill(filler)
        urls = [site.url(f"/text?{n}") for n in range(2000)]
        reply = service.post("/v2/batch/scrape", {"urls": urls, "maxAge": 0})
        assert reply.status in {200, 503}, reply.json
        if reply.status == 200:
            service.request("DELETE", job_of(reply))
        return reply if reply.status == 503 else None

    reply = wait_until(refused)
    assert error_of(reply, 503).startswith(FULL)
    assert int(reply.headers["Retry-After"]) > 0
    before = read(service, path)
    assert before["status"] == "scraping"
    filler.unlink()
    status, documents = completed(service, path)
    assert status["total"] == status["completed"] == len(documents) == 60
    assert len({page_of(document) for document in documents}) == 60
    assert documents[: len(before["data"])] == before["data"]
    assert read(service, f"{path}/errors")["errors"] == []
