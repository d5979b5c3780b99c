"""Webhooks, seen from a real receiver (interface document, part 18)."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import re
import socket
import uuid
from collections import Counter
from urllib.parse import urlsplit

import pytest

from tests.support.crash import kill, sqlite_of
from tests.support.documents import ROOT, blocks
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, moved, page
from tests.support.waiting import wait_until

SECRET = "first:secret"
OLD_SECRET = "the one before"
HOSTS = "127.0.0.2/31"  # .2 and .3
SETTINGS = {
    "SCRAPER_EGRESS_ALLOW": HOSTS,
    "SCRAPER_LEASE_S": "3",
    "SCRAPER_WEBHOOK_RETRY_S": "0,1",
    "SCRAPER_WEBHOOK_TIMEOUT_S": "5",  # what a process was at stays its own as long
    "SCRAPER_WEBHOOK_SECRETS": f"{SECRET},{OLD_SECRET}",
}
PATIENT = {**SETTINGS, "SCRAPER_WEBHOOK_TIMEOUT_S": "100"}
IMPATIENT = {**SETTINGS, "SCRAPER_WEBHOOK_TIMEOUT_S": "1"}
PAGES = 6
LARGE = "A line of the large page, which is told as it is stored. " * 20_000

_names = itertools.count()

until = wait_until


@pytest.fixture(scope="module")
def web():
    """A site of seven pages in a row, one that fails, one that is large."""
    pages = {f"/{n}": page(f"/{n + 1}", title=f"No. {n}") for n in range(PAGES)}
    pages[f"/{PAGES}"] = page(title="The last")
    pages["/loop"] = page("/dead", title="Loop")
    pages["/dead"] = moved("/dead")
    pages["/large"] = page(title="Large", text=LARGE)
    with ScriptedSite(pages) as site:
        yield site


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    """A service with short waits, for the tests of this module."""
    from tests.conftest import Service

    running = Service(tmp_path_factory.mktemp("hooked"), **PATIENT)
    yield running
    assert running.stop() == 0, running.stderr


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    """A service that gives receivers a second."""
    from tests.conftest import Service

    running = Service(tmp_path_factory.mktemp("impatient"), **IMPATIENT)
    yield running
    assert running.stop() == 0, running.stderr


@pytest.fixture
def path():
    """Return a function that makes a path of a receiver that no other test uses."""
    return lambda kind: f"/{kind}/{next(_names)}-{uuid.uuid4().hex}"


def start(service, url, version="v2", hook=None, **options):
    """Start a crawl; return the path of its status."""
    scrape = {"maxAge": 0, **options.pop("scrapeOptions", {})}
    options = {"ignoreRobotsTxt": True, "crawlEntireDomain": True, **options}
    if version == "v2":
        options = {"sitemap": "skip", **options}
    else:
        options = {"ignoreSitemap": True, **options}
    body = {"url": url, "webhook": hook, "scrapeOptions": scrape, **options}
    reply = service.post(f"/{version}/crawl", body)
    assert reply.status == 200, reply
    return f"/{version}/crawl/{reply.json['id']}"


def start_batch(service, urls, version="v2", hook=None, **options):
    body = {"urls": urls, "webhook": hook, "maxAge": 0, **options}
    reply = service.post(f"/{version}/batch/scrape", body)
    assert reply.status == 200, reply
    return f"/{version}/batch/scrape/{reply.json['id']}"


def ended(service, job):
    """Wait for the end of a job; return its status."""

    def status():
        found = service.get(job).json
        return found if found["status"] != "scraping" else None

    return until(status)


def deliveries(service, job, query=""):
    """Return all deliveries of a job, part by part."""
    rows = []
    target = f"{job.replace('/v1/', '/v2/')}/deliveries?limit=3{query}"
    while target:
        reply = service.get(target)
        assert reply.status == 200, reply
        rows += reply.json["deliveries"]
        target = reply.json.get("next", "").removeprefix(service.url)
    return rows


def settled(service, job):
    """Wait until every event of a job that ended was delivered or given up."""
    ended(service, job)

    def found():
        rows = deliveries(service, job)
        return [rows] if all(row["state"] != "pending" for row in rows) else None

    return until(found)[0]


STARTS = [(start, "crawl"), (start_batch, "batch_scrape")]


# -- what is sent -----------------------------------------------------------------------------


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(("begin", "family"), STARTS, ids=["crawl", "batch"])
def test_a_webhook_gets_the_events_of_a_job_from_start_to_end(
    hooked, web, receiver, path, begin, family, version
):
    to = path("ok")
    hook = {
        "url": receiver.url(to),
        "headers": {"X-Mine": "yes", "x-scraper-attempt": "99"},
        "metadata": {"run": 7, "nested": {"a": [None, "ü"]}},
    }
    target = web.url("/0") if begin is start else [web.url(f"/{n}") for n in range(7)]
    job = begin(hooked, target, version, hook)
    rows = settled(hooked, job)
    status = ended(hooked, job)
    received = receiver.received(to)
    kinds = [each.event for each in received]
    assert kinds == ["started", *["page"] * 7, "completed"]
    documents = {d["metadata"]["scrapeId"]: d for d in status["data"]}
    for number, each in enumerate(received, 1):
        body = each.json
        assert list(body) == ["success", "type", "id", "webhookId", "data", "metadata"]
        assert body["success"] is True
        assert body["type"] == f"{family}.{each.event}"
        assert body["id"] == job.rpartition("/")[2]
        assert body["metadata"] == hook["metadata"]
        assert each.headers["content-type"] == "application/json"
        assert each.headers["user-agent"].startswith("Mozilla/5.0 (compatible; scraper")
        assert each.headers["x-mine"] == "yes"
        assert each.headers["x-scraper-attempt"] == "1"
        assert each.headers["x-scraper-sequence"] == str(number)
        assert each.headers["x-scraper-event-id"] == body["webhookId"]
        if each.event == "page":
            [document] = body["data"]
            assert document == documents.pop(document["metadata"]["scrapeId"])
        else:
            assert body["data"] == []
    assert not documents
    assert len({each.id for each in received}) == len(received)
    assert [row["webhookId"] for row in rows] == [each.id for each in received]
    # One at a time: the next one was sent after the answer.
    assert all(a.until <= b.at for a, b in itertools.pairwise(received))


def shown_check():
    """Return the function that docs/api/events.md shows to receivers."""
    [code] = [
        block.text
        for block in blocks(ROOT / "docs" / "api" / "events.md")
        if "def is_genuine" in block.text
    ]
    found = {}
    exec(code, found)
    return found["is_genuine"]


def test_a_delivery_is_signed(hooked, web, receiver, path):
    is_genuine = shown_check()
    to = path("ok")
    settled(hooked, start_batch(hooked, [web.url("/large")], hook=receiver.url(to)))
    received = receiver.received(to)
    assert len(received) == 3
    assert len(received[1].body) > 2**20
    for each in received:
        digest = hmac.new(SECRET.encode(), each.body, hashlib.sha256).hexdigest()
        assert each.headers["x-firecrawl-signature"] == f"sha256={digest}"
        signature = each.headers["x-scraper-signature"]
        found = re.fullmatch(r"t=(\d+),v1=(\w+),v1=(\w+)", signature)
        assert found[1] == each.headers["x-scraper-timestamp"]
        assert abs(int(found[1]) - each.at) < 100
        signed = found[1].encode() + b"." + each.body
        for secret, digest in ((SECRET, found[2]), (OLD_SECRET, found[3])):
            assert hmac.new(secret.encode(), signed, "sha256").hexdigest() == digest
            assert is_genuine(signature, each.body, secret)
        assert not is_genuine(signature, each.body + b" ", SECRET)
    assert SECRET not in hooked.stderr


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["completed"], ["completed"]),
        (["crawl.page", "started"], ["started", "page"]),
        (["failed", "cancelled"], []),
        ([], []),
    ],
)
def test_a_webhook_gets_only_the_events_it_lists(
    hooked, web, receiver, path, events, expected
):
    to = path("ok")
    hook = {"url": receiver.url(to), "events": events}
    rows = settled(hooked, start(hooked, web.url("/6"), hook=hook))
    assert [each.event for each in receiver.received(to)] == expected
    assert len(rows) == len(expected)


def test_the_event_of_a_failed_page_has_its_error(hooked, web, receiver, path):
    to = path("ok")
    job = start(hooked, web.url("/loop"), hook=receiver.url(to))
    rows = settled(hooked, job)
    [error] = hooked.get(f"{job}/errors").json["errors"]
    good, bad = [each.json for each in receiver.received(to) if each.event == "page"]
    assert good["success"] is True
    assert bad["success"] is False
    assert bad["data"] == []
    assert bad["error"] == error["error"]
    assert [row["url"] for row in rows[1:-1]] == [web.url("/loop"), web.url("/dead")]


@pytest.mark.parametrize("asked", [True, False])
def test_a_webhook_gets_the_cancelled_event_if_it_lists_the_event(
    hooked, site, receiver, path, asked
):
    to = path("ok")
    hook = {"url": receiver.url(to)}
    if asked:
        hook["events"] = ["started", "cancelled"]
    job = start(hooked, site.held(), hook=hook)
    assert hooked.request("DELETE", job).status == 200
    settled(hooked, job)
    received = [each.json for each in receiver.received(to)]
    assert received[0]["type"] == "crawl.started"
    if asked:
        [cancelled] = received[1:]
        assert cancelled["type"] == "crawl.cancelled"
        assert (cancelled["success"], cancelled["data"]) == (False, [])
        assert cancelled["error"]
    else:
        assert len(received) == 1


def test_events_of_added_urls_go_to_the_webhook_of_their_request(
    hooked, web, receiver, path
):
    first, second = path("ok"), path("ok")
    job = start_batch(hooked, [web.url("/1")], hook=receiver.url(first))
    settled(hooked, job)
    more = {"appendToId": job.rpartition("/")[2]}
    start_batch(hooked, [web.url("/2")], **more)
    settled(hooked, job)
    kinds = [each.event for each in receiver.received(first)]
    assert kinds == ["started", "page", "completed", "page", "completed"]
    start_batch(hooked, [web.url("/3")], hook=receiver.url(second), **more)
    settled(hooked, job)
    assert len(receiver.received(first)) == 5
    kinds = [each.event for each in receiver.received(second)]
    assert kinds == ["page", "completed"]


def test_jobs_without_a_webhook_use_the_webhook_of_the_operator(
    start_service, web, receiver, path
):
    base, own = path("ok"), path("ok")
    service = start_service(
        **PATIENT, SCRAPER_WEBHOOK_URL=receiver.url(base + "/{job_id}")
    )
    for hook in (None, receiver.url(own)):
        job = start_batch(service, [web.url("/0")], hook=hook)
        job_id = job.rpartition("/")[2]
        settled(service, job)
        events = receiver.received(own if hook else f"{base}/{job_id}")
        assert [x.event for x in events] == ["started", "page", "completed"]
        assert {x.json["id"] for x in events} == {job_id}
    assert len(receiver.received(base)) == 3


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Connection", "A\r\nB"])
def test_headers_that_frame_a_message_are_refused(hooked, web, receiver, name):
    hook = {"url": receiver.url("/ok"), "headers": {name: "1"}}
    reply = hooked.post("/v2/crawl", {"url": web.url("/1"), "webhook": hook})
    assert reply.status == 400


def test_metadata_that_is_large_is_refused(hooked, web, receiver):
    hook = {"url": receiver.url("/ok"), "metadata": {"a": "x" * 70_000}}
    reply = hooked.post("/v2/crawl", {"url": web.url("/1"), "webhook": hook})
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["webhook", "metadata"]


def test_the_webhook_configuration_is_never_shown(hooked, site, receiver, path):
    hook = {"url": receiver.url(path("ok")), "headers": {"Authorization": "s3cr3t"}}
    job = start(hooked, site.held(), hook=hook)
    assert "s3cr3t" not in json.dumps(hooked.get("/v2/crawl/active").json)
    hooked.request("DELETE", job)
    assert "s3cr3t" not in hooked.stderr


# -- receivers that do not do their part ------------------------------------------------------


def test_a_failed_delivery_is_sent_again_unchanged(hooked, web, receiver, path):
    to = path("fails/2")
    job = start_batch(hooked, [web.url("/1")], hook=receiver.url(to))
    rows = settled(hooked, job)
    assert [row["state"] for row in rows] == ["delivered"] * 3
    by_id = {}
    for each in receiver.received(to):
        by_id.setdefault(each.id, []).append(each)
    for tries in by_id.values():
        assert [each.headers["x-scraper-attempt"] for each in tries] == ["1", "2", "3"]
        assert len({each.body for each in tries}) == 1
        assert tries[2].at - tries[1].at > 0.9
    for row in rows:
        first, second, third = row["attempts"]
        assert first["status"] == second["status"] == 500
        assert first["error"] == "answered 500"
        assert (third["status"], "error" in third) == (200, False)
        assert [t["attempt"] for t in row["attempts"]] == [1, 2, 3]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("always/500", 500, "answered 500"),
        ("always/404", 404, "answered 404"),
        ("redirect", 307, "redirects are not followed"),
    ],
)
def test_a_delivery_that_keeps_failing_is_given_up(
    hooked, web, receiver, path, kind, status, error
):
    to = path(kind)
    hook = {"url": receiver.url(to), "events": ["completed"]}
    job = start_batch(hooked, [web.url("/1")], hook=hook)
    [row] = settled(hooked, job)
    assert row["state"] == "failed"
    assert len(row["attempts"]) == 3
    for attempt in row["attempts"]:
        assert attempt.get("status") == status
        assert error in attempt["error"]
    assert len(receiver.received(to)) == 3
    assert receiver.received("/ok/redirected") == []


def test_a_receiver_that_does_not_respond_times_out(impatient, web, receiver, path):
    hook = {"url": receiver.url(path("silent")), "events": ["completed"]}
    job = start_batch(impatient, [web.url("/1")], hook=hook)
    [row] = settled(impatient, job)
    assert row["state"] == "failed"
    for attempt in row["attempts"]:
        assert "status" not in attempt
        assert "no answer within 1 s" in attempt["error"]
    assert len(row["attempts"]) == 3


def test_a_huge_response_of_a_receiver_is_not_read(hooked, web, receiver, path):
    to = path("huge")
    job = start_batch(hooked, [web.url("/1")], hook=receiver.url(to))
    rows = settled(hooked, job)
    assert [row["state"] for row in rows] == ["delivered"] * 3
    # Read to its end it would break off.
    assert all(len(row["attempts"]) == 1 for row in rows)


def test_a_receiver_that_returns_410_gets_no_further_events(
    hooked, web, receiver, path
):
    to = path("always/410")
    rows = settled(hooked, start(hooked, web.url("/0"), hook=receiver.url(to)))
    assert {row["state"] for row in rows} == {"failed"}
    assert len(receiver.received(to)) == 1


def test_a_webhook_to_a_forbidden_ip_address_is_not_sent(hooked, web, canary):
    before = canary.count()
    for host in ("127.0.0.1", "localhost", "[::1]", "0x7f000001", "10.0.0.1"):
        hook = {"url": f"http://{host}:{canary.port}/", "events": ["completed"]}
        job = start_batch(hooked, [web.url("/1")], hook=hook)
        [row] = settled(hooked, job)
        assert row["state"] == "failed"
        [attempt] = row["attempts"]
        assert attempt["error"] == "the address must not be reached from here"
        job_id, name = job.rpartition("/")[2], host.strip("[]")
        text = f"a webhook delivery of job {job_id} to {name}"
        # The same host in another spelling has its line already.
        assert (text in hooked.stderr) is (host != "0x7f000001")
    assert canary.count() == before


def test_a_failing_receiver_is_logged_once_a_minute(start_service, web, path):
    service = start_service(**SETTINGS)
    with Receiver("127.0.0.3") as failing:
        to = failing.url(path("fails/99"))
        jobs = [start_batch(service, [web.url("/1")], hook=to) for _ in range(2)]
        for job in jobs:
            assert {row["state"] for row in settled(service, job)} == {"failed"}
    lines = [x for x in service.stderr.splitlines() if "a webhook delivery of" in x]
    [line] = lines
    assert f" to {urlsplit(to).netloc} failed: answered 500" in line
    assert "WARNING" in line


@pytest.mark.full
def test_silent_receivers_delay_no_other_receiver_and_are_paused(
    impatient, web, receiver, path
):
    with Receiver("127.0.0.3") as silent:
        urls = [web.url(f"/{n}") for n in range(PAGES)]
        jobs = [
            start_batch(impatient, urls, hook=silent.url("/silent")) for _ in range(12)
        ]
        until(lambda: silent.received("/silent"))
        hook = receiver.url(path("ok"))
        rows = settled(impatient, start_batch(impatient, urls, hook=hook))
        assert {row["state"] for row in rows} == {"delivered"}

        def is_left_alone():
            rows = deliveries(impatient, jobs[0])
            tried = [attempt for row in rows for attempt in row["attempts"]]
            return [t for t in tried if "did not answer 5 times" in t["error"]]

        until(is_left_alone)
        assert len(silent.received("/silent")) < 20


def test_a_closed_port_does_not_delay_another_port_of_its_host(
    hooked, web, receiver, path
):
    urls = [web.url(f"/{n}") for n in range(PAGES)]
    with socket.socket() as shut:  # bound, but nothing listens
        shut.bind(("127.0.0.2", 0))
        dead = f"http://127.0.0.2:{shut.getsockname()[1]}/"
        rows = settled(hooked, start_batch(hooked, urls, hook=dead))
    tried = [attempt["error"] for row in rows for attempt in row["attempts"]]
    assert any("did not answer 5 times" in error for error in tried)
    rows = settled(hooked, start_batch(hooked, urls, hook=receiver.url(path("ok"))))
    assert [len(row["attempts"]) for row in rows] == [1] * (PAGES + 2)


# -- the list, and sending again --------------------------------------------------------------


@pytest.mark.slow
def test_large_events_under_way_have_a_bound(start_service, web, receiver, path):
    """Each of them is over a mebibyte, which is all the room: one is sent at a time."""
    service = start_service(**PATIENT, SCRAPER_WEBHOOK_BODIES_MB="1")
    slow = [path("slow/300") for _ in range(3)]
    for to in slow:
        body = {"urls": [web.url("/large")], "webhook": receiver.url(to)}
        service.post("/v2/batch/scrape", body | {"maxAge": 0})
    for to in slow:
        until(lambda to=to: len(receiver.received(to)) == 3)
    sent = [x for to in slow for x in receiver.received(to) if x.event == "page"]
    times = sorted((x.at, x.until) for x in sent)
    assert len(times) == len(slow)
    assert all(len(x.body) > 2**20 for x in sent)
    for (_, ended), (started, _) in itertools.pairwise(times):
        assert started >= ended


@pytest.mark.slow
def test_large_events_that_wait_for_memory_do_not_delay_small_events(
    start_service, web, receiver, path
):
    settings = {"SCRAPER_WEBHOOK_BODIES_MB": "1", "SCRAPER_WEBHOOK_CONCURRENCY": "8"}
    service = start_service(**PATIENT, **settings)
    silent, ok = path("silent"), path("ok")
    hook = {"url": receiver.url(silent), "events": ["page"]}
    for _ in range(8):  # more than are read at a time
        ended(service, start_batch(service, [web.url("/large")], hook=hook))
    until(lambda: receiver.received(silent))
    with Receiver("127.0.0.3") as other:
        hook = {"url": other.url(ok), "events": ["page"]}
        start_batch(service, [web.url("/1")], hook=hook)
        until(lambda: other.received(ok))
    assert len(receiver.received(silent)) == 1


def test_the_list_is_in_parts_and_by_state(hooked, web, receiver, path):
    to = path("fails/1")
    job = start(hooked, web.url("/0"), hook=receiver.url(to))
    rows = settled(hooked, job)
    assert [row["id"] for row in rows] == list(range(1, 10))
    assert rows[0]["type"] == "crawl.started"
    assert all(row["createdAt"].endswith("Z") for row in rows)
    assert deliveries(hooked, job, "&state=delivered") == rows
    assert deliveries(hooked, job, "&state=failed") == []
    for query in ("state=x", "after=-1", "limit=0", "limit=9999"):
        assert hooked.get(f"{job}/deliveries?{query}").status == 400
    plain = start(hooked, web.url("/6"))
    reply = hooked.get(f"{plain}/deliveries")
    assert reply.json == {"success": True, "deliveries": []}
    batch = job.replace("/crawl/", "/batch/scrape/")
    assert hooked.get(f"{batch}/deliveries").status == 200
    unknown = f"/v2/crawl/{uuid.uuid4()}/deliveries"
    assert hooked.get(unknown).status == 404
    assert hooked.post(f"{unknown}/replay").status == 404


def test_deliveries_can_be_sent_again(hooked, web, receiver, path):
    to = path("fails/4")
    job = start(hooked, web.url("/6"), hook=receiver.url(to))
    rows = settled(hooked, job)
    assert {row["state"] for row in rows} == {"failed"}
    reply = hooked.post(f"{job}/deliveries/2/replay")
    assert reply.json == {"success": True, "replayed": 1}
    rows = settled(hooked, job)
    assert [row["state"] for row in rows] == ["failed", "delivered", "failed"]
    assert len(rows[1]["attempts"]) == 5
    assert hooked.post(f"{job}/deliveries/replay").json["replayed"] == 2
    rows = settled(hooked, job)
    assert {row["state"] for row in rows} == {"delivered"}
    by_id = Counter(each.id for each in receiver.received(to))
    assert by_id == {row["webhookId"]: 5 for row in rows}
    assert hooked.post(f"{job}/deliveries/1/replay").json["replayed"] == 1
    until(lambda: len(receiver.received(to)) == 16)
    assert hooked.post(f"{job}/deliveries/replay").json["replayed"] == 0
    assert hooked.post(f"{job}/deliveries/9/replay").status == 404
    assert hooked.post(f"{job}/deliveries/x/replay").status == 400


def test_a_delivery_shows_the_sent_body_and_the_response(hooked, web, receiver, path):
    to = path("ok")
    hook = {"url": receiver.url(to), "metadata": {"mine": "ü"}}
    job = start(hooked, web.url("/large"), hook=hook, limit=1)
    settled(hooked, job)
    for sent in receiver.received(to):
        found = hooked.get(f"{job}/deliveries/{sent.headers['x-scraper-sequence']}")
        delivery = found.json["delivery"]
        assert delivery["webhookId"] == sent.id
        assert delivery["state"] == "delivered"
        assert delivery["body"] == sent.body[:4096].decode("utf-8", "ignore")
        assert delivery["bodyBytes"] == len(sent.body)
        assert delivery["response"] == "ok"
    assert max(len(sent.body) for sent in receiver.received(to)) > 4096
    assert hooked.get(f"{job}/deliveries/9").status == 404
    assert hooked.get(f"{job}/deliveries/x").status == 400
    assert hooked.get(f"/v2/crawl/{uuid.uuid4()}/deliveries/1").status == 404


def test_a_delivery_keeps_the_first_4096_bytes_of_a_response(
    hooked, web, receiver, path
):
    job = start(hooked, web.url("/6"), hook=receiver.url(path("huge")), limit=1)
    settled(hooked, job)
    delivery = hooked.get(f"{job}/deliveries/1").json["delivery"]
    assert delivery["response"] == "x" * 4096
    job = start(hooked, web.url("/6"), hook="http://127.0.0.2:9/closed", limit=1)
    until(lambda: deliveries(hooked, job)[0]["attempts"])
    delivery = hooked.get(f"{job}/deliveries/1").json["delivery"]
    assert "response" not in delivery
    assert delivery["body"].startswith('{"success":true,"type":"crawl.started"')


# -- crashes, restarts, several processes -----------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return SETTINGS | {"address": sqlite_of(tmp_path)}
    address = request.getfixturevalue("postgres_tables")()
    return SETTINGS | {"SCRAPER_DATABASE_URL": address, "address": address}


def settings_of(database):
    return {k: v for k, v in database.items() if k != "address"}


@pytest.mark.slow
def test_retries_go_on_after_a_restart(start_service, web, receiver, path):
    to = path("fails/1")
    settings = {**SETTINGS, "SCRAPER_WEBHOOK_RETRY_S": "20"}
    service = start_service(**settings)
    job = start_batch(service, [web.url("/1")], hook=receiver.url(to))
    ended(service, job)
    until(lambda: len(receiver.received(to)) == 3)
    until(lambda: all(row["attempts"] for row in deliveries(service, job)))
    for row in deliveries(service, job):
        assert row["state"] == "pending"
        assert row["nextAttemptAt"] > row["createdAt"]
    assert service.stop() == 0
    service = start_service(**settings)
    rows = settled(service, job)
    assert [len(row["attempts"]) for row in rows] == [2, 2, 2]
    assert Counter(each.id for each in receiver.received(to)) == {
        row["webhookId"]: 2 for row in rows
    }


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
@pytest.mark.slow_on("sqlite")
def test_no_event_is_lost_by_kills(start_service, web, receiver, path, database):
    settings = settings_of(database)
    to = path("slow/10")
    service = start_service(**settings)
    urls = [web.url(f"/{n % 7}") for n in range(120)]
    job = start_batch(service, urls, hook=receiver.url(to))
    for count in (10, 70) if "sqlite" in database["address"] else (40,):
        until(lambda count=count: len(receiver.received(to)) >= count)
        kill(service)
        service = start_service(**settings)
    rows = settled(service, job)
    assert [row["state"] for row in rows] == ["delivered"] * 122
    received = receiver.received(to)
    expected = {row["webhookId"]: row["type"] for row in rows}
    assert {each.id: each.json["type"] for each in received} == expected
    assert Counter(expected.values()) == {
        "batch_scrape.started": 1,
        "batch_scrape.page": 120,
        "batch_scrape.completed": 1,
    }
    assert len(received) - len(rows) <= 2 * 40  # what a kill makes come twice
    first = dict.fromkeys(each.id for each in received)
    assert list(first) == [row["webhookId"] for row in rows]
    status = ended(service, job)
    stored = {d["metadata"]["scrapeId"] for d in status["data"]}
    told = {
        each.json["data"][0]["metadata"]["scrapeId"]
        for each in received
        if each.event == "page"
    }
    assert stored == told


@pytest.mark.full
@pytest.mark.slow_on("sqlite")
def test_two_processes_deliver_each_event_once(
    start_service, web, receiver, path, database
):
    # What is late would come twice.
    settings = {**settings_of(database), **PATIENT, "SCRAPER_LEASE_S": "100"}
    services = [start_service(**settings) for _ in range(2)]
    jobs = {}
    for number in range(6):
        to = path("ok")
        service = services[number % 2]
        urls = [web.url(f"/{n % 7}") for n in range(30)]
        hook = receiver.url(to)
        job = start_batch(service, urls, hook=hook, storeInCache=False)
        jobs[job] = to
    for job, to in jobs.items():
        rows = settled(services[0], job)
        received = receiver.received(to)
        assert [each.id for each in received] == [row["webhookId"] for row in rows]
        assert len(rows) == 32
    for s in services:
        i = s.stderr.find("deadlock")
        assert i < 0, s.stderr[max(0, i - 300) : i + 1500]
