"""Jobs watched while they go on: WebSocket (interface document, 19) and event streams."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import threading
import time
import urllib.parse
import uuid

import pytest
import sqlalchemy as sa
from websockets.exceptions import InvalidStatus

from scraper_service.storage.accounts import teams
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.secrets import key_secret
from tests.api.test_webhooks import ended, start, start_batch, until
from tests.conftest import KEY, Service
from tests.support.crash import kill, sqlite_of
from tests.support.linked_site import named
from tests.support.scripted_site import ScriptedSite, moved, page
from tests.support.waiting import WAIT_S
from tests.support.watching import EventClient, RawSocket, Watched, open_socket, watched
from tools.bench.memory import memory_of

OTHER_KEY = "fc-other-team"
SETTINGS = {
    "SCRAPER_SHUTDOWN_TIMEOUT_S": "1",
    "SCRAPER_API_KEYS": f"{KEY},{OTHER_KEY}",
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31",
}
HASTY = {
    **SETTINGS,
    "SCRAPER_MAX_TEAM_WATCHERS": "3",
    "SCRAPER_MAX_WATCHERS": "4",
    "SCRAPER_WATCHER_PING_S": "3",
    "SCRAPER_WATCHER_STALL_S": "3",
}
PATIENCE_MS = 300_000  # of pages that a test holds
FRAME_BYTES = 2**20  # the limit of a client's library
CATCHUP_BYTES = 900 * 2**10
PAGES = 6
CONTINUATION, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
PATHS = ("/v1/crawl/", "/v2/crawl/", "/v1/batch/scrape/", "/v2/batch/scrape/")
RSS_MB = 120  # that twenty slow readers of 60 MB may cost; a copy for each were 1.2 GB

_names = itertools.count()


@pytest.fixture(scope="module")
def web():
    """A site of six pages in a row, one that fails, many that are large."""
    pages = {f"/{n}": page(f"/{n + 1}", title=f"No. {n}") for n in range(PAGES - 1)}
    pages[f"/{PAGES - 1}"] = page(title="The last: ü 漢 🙂")
    pages["/loop"] = page("/dead", title="Loop")
    pages["/dead"] = moved("/dead")
    line = "A line of a large page: ü 漢 🙂. "
    pages |= {
        f"/large{n}": page(title=f"Large {n}", text=line * 10_000) for n in range(8)
    }
    pages["/huge"] = page(title="Huge", text=line * 60_000)
    with ScriptedSite(pages) as site:
        yield site


def _service(tmp_path_factory, settings):
    running = Service(tmp_path_factory.mktemp("watched"), **settings)
    yield running
    assert running.stop() == 0, running.stderr
    assert "Traceback" not in running.stderr, running.stderr
    assert KEY not in running.stderr
    assert OTHER_KEY not in running.stderr


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    yield from _service(tmp_path_factory, SETTINGS)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A service of few watchers and little patience."""
    yield from _service(tmp_path_factory, HASTY)


@pytest.fixture
def going(web, site):
    """Return a function that starts a batch which goes on after its first pages."""
    jobs = []

    def begin(service, *paths):
        urls = [web.url(path) for path in paths]
        job = start_batch(service, [*urls, site.held()], timeout=PATIENCE_MS)
        jobs.append((service, job))
        until(lambda: service.get(job).json["completed"] == len(paths))
        return job

    yield begin
    for service, job in jobs:
        if service.is_running:
            service.request("DELETE", job)


def id_of(job):
    return job.rpartition("/")[2]


def watch(service, job, key=KEY, then=None):
    with open_socket(service, job, key) as connection:
        return watched(connection, then)


def by_id(documents):
    return {each["metadata"]["scrapeId"]: each for each in documents}


def assert_all_documents(found: Watched, status):
    """Each document of the job came once, in the order of the status."""
    assert found.documents == status["data"]
    assert len(by_id(found.documents)) == len(found.documents) == status["completed"]


def assert_done(found: Watched, status):
    assert found.types[0] == "catchup"
    assert found.types.count("catchup") == 1
    assert set(found.types[1:-1]) <= {"document"}
    assert found.messages[-1] == {
        "type": "done",
        "data": {
            "success": True,
            "status": "completed",
            "total": status["total"],
            "completed": status["completed"],
            "creditsUsed": status["creditsUsed"],
            "expiresAt": status["expiresAt"],
            "data": [],
        },
    }
    assert (found.code, found.reason) == (1000, "{}")
    assert_all_documents(found, status)


# -- WebSocket: what is sent ------------------------------------------------------------------


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", PATHS)
def test_a_running_job_is_watched_to_its_end(live, site, path):
    held = site.held()
    links = urllib.parse.quote(f"<a href={held}>x</a>")
    scrape = {"timeout": PATIENCE_MS}
    url = site.url(f"/html?body={links}")
    job = path + id_of(start(live, url, scrapeOptions=scrape))
    found = watch(live, job, then=lambda: site.release(held))
    status = ended(live, job)
    assert_done(found, status)
    first = found.messages[0]["data"]
    assert first["status"] == "scraping"
    assert "next" not in first
    assert set(status) - {"next", "completedAt"} <= set(first)
    assert "document" in found.types


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", PATHS)
def test_a_socket_on_an_ended_job_sends_catchup_and_done_at_once(live, web, path):
    job = path + id_of(start(live, web.url("/0")))
    status = ended(live, job)
    found = watch(live, job)
    assert found.types == ["catchup", "done"]
    assert found.messages[0]["data"] == status
    assert_done(found, status)


def test_a_job_without_documents_has_an_empty_catchup(live, web):
    job = start_batch(live, [web.url("/dead")])
    status = ended(live, job)
    found = watch(live, job)
    assert found.messages[0]["data"]["data"] == []
    assert_done(found, status)


def test_documents_come_while_the_job_goes_on(live, going):
    job = going(live, "/0", "/1")
    with open_socket(live, job, KEY) as connection:
        catchup = json.loads(connection.recv(timeout=WAIT_S))
        assert len(catchup["data"]["data"]) == 2
        live.request("DELETE", job)
        found = watched(connection)
    assert found.types == ["status"]


def test_a_cancelled_job_ends_with_its_status(live, going):
    job = going(live, "/0", "/1", "/2")
    with open_socket(live, job, KEY) as connection:
        connection.recv(timeout=WAIT_S)
        assert live.request("DELETE", job).status == 200
        found = watched(connection)
    status = live.get(job).json
    expected = {"type": "status", "data": {**status, "data": []}}
    assert found.messages == [expected]
    assert (found.code, found.reason) == (1000, '{"type":"done"}')
    later = watch(live, job)
    assert later.types == ["catchup", "status"]
    assert later.messages[0]["data"] == status
    assert later.messages[1] == expected
    assert (later.code, later.reason) == (1000, '{"type":"done"}')


def test_a_failed_job_ends_with_its_error(start_service, going, tmp_path):
    service = start_service(**SETTINGS)
    job = going(service, "/0")
    with open_socket(service, job, KEY) as connection:
        connection.recv(timeout=WAIT_S)
        # As another process would: nothing but the database tells of it.
        engine = sa.create_engine(sqlite_of(tmp_path))
        with engine.begin() as database:
            assert outcomes.end_job(database, id_of(job), JobState.FAILED, "It broke.")
        engine.dispose()
        found = watched(connection)
    assert found.messages == [{"type": "error", "error": "It broke."}]
    assert (found.code, found.reason) == (1000, "{}")
    later = watch(service, job)
    assert later.types == ["catchup", "error"]
    assert later.messages[0]["data"]["status"] == "failed"
    assert later.messages[0]["data"]["error"] == "It broke."
    assert len(later.documents) == 1


def test_messages_stay_below_the_frame_size_of_clients(live, web):
    urls = [web.url(f"/large{n}") for n in range(8)]
    job = start_batch(live, urls)
    status = ended(live, job)
    found = watch(live, job)
    assert all(len(text.encode()) < FRAME_BYTES for text in found.texts)
    assert_done(found, status)
    first = found.messages[0]["data"]
    size = len(json.dumps(first["data"], ensure_ascii=False).encode())
    one = len(json.dumps(status["data"][0], ensure_ascii=False).encode())
    assert CATCHUP_BYTES - 2 * one < size <= CATCHUP_BYTES
    # A client stops reading at a state that is final, and would lose the rest.
    assert (first["status"], first["completed"]) == ("scraping", 8)


def test_a_page_above_the_frame_size_is_sent_whole(live, web):
    job = start_batch(live, [web.url("/huge")])
    status = ended(live, job)
    found = watch(live, job)
    assert len(found.texts[0].encode()) > FRAME_BYTES
    assert found.types == ["catchup", "done"]
    assert_done(found, status)
    with RawSocket(live, job, key=KEY) as raw:
        raw.shake_hands()
        frames = [raw.frame()]
        while frames[-1][1] != CLOSE:
            frames.append(raw.frame())
    opcodes = [opcode for _, opcode, _ in frames]
    assert opcodes[0] == TEXT
    assert set(opcodes[1:-2]) == {CONTINUATION}
    assert opcodes[-2:] == [TEXT, CLOSE]
    assert [last for last, *_ in frames] == [False] * (len(frames) - 3) + [True] * 3
    assert max(len(data) for *_, data in frames) < FRAME_BYTES / 2
    message = b"".join(data for *_, data in frames[:-2])
    assert json.loads(message) == found.messages[0]


def test_many_clients_can_watch_one_job(live, site):
    linked = named(f"30-slow20-watch{next(_names)}")
    job = start(live, site.url(linked.path(0)))
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: watch(live, job), range(20)))
    status = ended(live, job)
    for each in found:
        assert_done(each, status)
    until(lambda: live.get("/health").json["watchers"] == 0)


# -- WebSocket: who may see it ------------------------------------------------------------------


def test_a_key_may_be_sent_as_a_sub_protocol(live, web):
    job = start(live, web.url("/0"))
    ended(live, job)
    for key in (KEY, KEY.removeprefix("fc-")):
        with open_socket(live, job, subprotocols=[key]) as connection:
            assert connection.subprotocol == key
            assert watched(connection).types == ["catchup", "done"]
    # The header wins; who offers a protocol gets it, else a browser hangs up.
    with open_socket(live, job, KEY, subprotocols=["other"]) as connection:
        assert connection.subprotocol == "other"
        assert watched(connection).code == 1000
    with open_socket(live, job, KEY) as connection:
        assert connection.subprotocol is None


@pytest.mark.parametrize(
    ("key", "protocols", "error"),
    [
        (None, None, "Unauthorized"),
        ("fc-wrong", None, "Unauthorized: Invalid token"),
        ("", None, "Unauthorized: Token missing"),
        (None, ["fc-wrong"], "Unauthorized: Invalid token"),
        (None, [KEY, "other"], "Unauthorized"),
    ],
)
def test_an_invalid_key_gets_an_error_message_and_a_close(
    live, web, key, protocols, error
):
    job = start(live, web.url("/0"))
    with open_socket(live, job, key, subprotocols=protocols) as connection:
        found = watched(connection)
    assert found.messages == [{"type": "error", "error": error}]
    assert (found.code, found.reason) == (3000, "{}")


@pytest.mark.parametrize("path", PATHS)
def test_a_job_of_another_team_looks_like_an_unknown_job(live, web, path):
    job = path + id_of(start(live, web.url("/0")))
    foreign = watch(live, job, OTHER_KEY)
    unknown = watch(live, path + str(uuid.uuid4()), OTHER_KEY)
    assert foreign == unknown
    assert foreign.messages == [{"type": "error", "error": "Job not found"}]
    assert (foreign.code, foreign.reason) == (1008, "{}")


def test_an_invalid_id_gets_an_error_message(live):
    found = watch(live, "/v2/crawl/nonsense")
    [error] = found.messages
    assert error["error"].startswith("Invalid job ID format")
    assert (found.code, found.reason) == (1008, "{}")


def test_anybody_watches_where_keys_are_off(start_service, web):
    service = start_service(SCRAPER_AUTH_ENABLED="false", SCRAPER_API_KEYS=None)
    job = start(service, web.url("/0"))
    ended(service, job)
    assert watch(service, job, None).types == ["catchup", "done"]
    assert watch(service, job, "").types == ["catchup", "done"]
    with open_socket(service, job, subprotocols=["whatever"]) as connection:
        assert connection.subprotocol == "whatever"
        assert watched(connection).code == 1000


def test_any_origin_may_open_a_socket(live, web):
    job = start(live, web.url("/0"))
    ended(live, job)
    headers = {"Origin": "https://elsewhere.example"}
    with open_socket(live, job, KEY, headers=headers) as connection:
        assert watched(connection).code == 1000


@pytest.mark.parametrize(
    ("left_out", "put_in", "error"),
    [
        (
            "Sec-WebSocket-Version",
            {"Sec-WebSocket-Version": "8"},
            "must be 13, got '8'",
        ),
        ("Sec-WebSocket-Key", {}, "Sec-WebSocket-Key"),
        ("Connection", {"Connection": "keep-alive"}, "Connection: Upgrade"),
        ("Connection", {"Connection": "Upgrade, \xe9"}, "Not a WebSocket handshake"),
        ("Sec-WebSocket-Key", {"Sec-WebSocket-Key": "\x01"}, "must be 16 bytes"),
        ("Sec-WebSocket-Key", {"Sec-WebSocket-Key": "YWJj"}, "must be 16 bytes"),
        ("", {"Sec-WebSocket-Protocol": "\xe9"}, "Not a WebSocket handshake"),
    ],
)
def test_a_request_without_a_websocket_handshake_is_a_400(
    live, left_out, put_in, error
):
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    headers.pop(left_out, None)
    path = f"/v2/crawl/{uuid.uuid4()}"
    reply = live.get(path, headers=headers | put_in)
    assert reply.status == 400
    assert error in reply.json["error"]


def test_another_upgrade_is_no_matter(live, web):
    job = start(live, web.url("/0"))
    headers = {"Upgrade": "h2c", "Connection": "Upgrade"}
    assert live.get(job, headers=headers).json["success"] is True


def test_a_key_that_is_revoked_sees_no_more(start_service, tmp_path, site):
    service = start_service(**SETTINGS, SCRAPER_WATCHER_PING_S="1")
    database = Database(tmp_path)
    secret = key_secret(tmp_path)
    with database.engine.begin() as connection:
        key = teams.create_key(connection, secret, "for a while")
        [row] = [r for r in teams.list_keys(connection) if r.name == "for a while"]
    body = {"urls": [site.held()], "timeout": PATIENCE_MS}
    reply = service.post("/v2/batch/scrape", body, key=key)
    job = f"/v2/batch/scrape/{reply.json['id']}"
    with (
        open_socket(service, job, key) as connection,
        EventClient(service, f"{job}/events", key=key) as client,
    ):
        assert json.loads(connection.recv(timeout=WAIT_S))["type"] == "catchup"
        with database.engine.begin() as transaction:
            assert teams.revoke_key(transaction, row.id)
        found = watched(connection)
        assert [each.event for each in client] == ["batch_scrape.started"]
    database.close()
    assert found.messages == [{"type": "error", "error": "Unauthorized: Invalid token"}]
    assert (found.code, found.reason) == (3000, "{}")


# -- limits and the state of connections ------------------------------------------------------


def test_watchers_are_limited_by_team_and_in_all(hasty, going, site):
    job = going(hasty, "/0")
    body = {"urls": [site.held()], "maxAge": 0, "timeout": PATIENCE_MS}
    reply = hasty.post("/v2/batch/scrape", body, key=OTHER_KEY)
    others = f"/v2/batch/scrape/{reply.json['id']}"
    events = f"{job}/events"
    with open_socket(hasty, job, KEY), EventClient(hasty, events):
        with open_socket(hasty, job, KEY):
            assert hasty.get("/health").json["watchers"] == 3
            reply = hasty.get(events)
            assert reply.status == 429
            assert reply.json["error"].startswith("3 watchers of this team are open")
            assert int(reply.headers["Retry-After"]) > 0
            with pytest.raises(InvalidStatus) as refused:
                open_socket(hasty, job, KEY)
            answer = refused.value.response
            assert answer.status_code == 429
            assert int(answer.headers["Retry-After"]) > 0
            assert json.loads(answer.body) == reply.json
            with open_socket(hasty, others, OTHER_KEY):
                reply = hasty.get(f"{others}/events", key=OTHER_KEY)
                assert reply.status == 429
                assert reply.json["error"].startswith("4 watchers are open")
        until(lambda: hasty.get("/health").json["watchers"] == 2)
        with open_socket(hasty, job, KEY) as connection:
            assert json.loads(connection.recv(timeout=WAIT_S))["type"] == "catchup"
    until(lambda: hasty.get("/health").json["watchers"] == 0)
    hasty.request("DELETE", others, key=OTHER_KEY)


@pytest.mark.full
def test_clients_that_do_not_answer_pings_are_disconnected(hasty, going):
    job = going(hasty, "/0")
    goodbye = (1000).to_bytes(2) + b"enough"
    silent, lively = (RawSocket(hasty, job, key=KEY) for _ in range(2))
    with silent, lively:
        assert silent.shake_hands().startswith(b"HTTP/1.1 101 ")
        lively.shake_hands()
        assert lively.frame()[1] == silent.frame()[1] == TEXT
        for _ in range(3):
            assert lively.frame() == (True, PING, b"")
            lively.send_frame(PONG)
        assert silent.rest() == [(True, PING, b"")] * 2
        lively.send_frame(PING, b"are you there?")
        lively.send_frame(TEXT, b"what I say is ignored")
        lively.send_frame(CLOSE, goodbye)
        answers = [frame for frame in lively.rest() if frame[1] != PING]
        assert answers == [(True, PONG, b"are you there?"), (True, CLOSE, goodbye)]
    until(lambda: hasty.get("/health").json["watchers"] == 0)


def test_nonsense_ends_the_connection_alone(hasty, going):
    job = going(hasty, "/0")
    with RawSocket(hasty, job, key=KEY) as raw:
        raw.shake_hands()
        raw.socket.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        assert CLOSE in [opcode for _, opcode, _ in raw.rest()]
    until(lambda: hasty.get("/health").json["watchers"] == 0)
    assert hasty.get(job).status == 200


@pytest.mark.full
def test_a_message_of_endless_parts_ends_the_connection(hasty, going):
    job = going(hasty, "/0")
    empty = b"\0\x80" + bytes(4)  # a part with neither data nor end
    with RawSocket(hasty, job, key=KEY) as raw:
        raw.shake_hands()
        raw.socket.sendall(b"\1\x80" + bytes(4))
        with contextlib.suppress(OSError):  # the service may have had enough
            raw.socket.sendall(empty * 1_000_000)
        [closing] = [data for _, opcode, data in raw.rest() if opcode == CLOSE]
    assert int.from_bytes(closing[:2]) == 1009
    until(lambda: hasty.get("/health").json["watchers"] == 0)


def test_bytes_after_the_close_frame_are_ignored(start_service):
    service = start_service()
    with RawSocket(service, "/v2/crawl/nonsense", key=KEY) as raw:
        raw.shake_hands()
        while raw.frame()[1] != CLOSE:
            pass
        raw.socket.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        assert raw.rest() == []
    until(lambda: service.get("/health").json["watchers"] == 0)
    service.stop()
    assert "Traceback" not in service.stderr


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["socket", "events"])
def test_clients_that_do_not_read_are_disconnected(hasty, web, kind):
    job = start_batch(hasty, [web.url(f"/large{n % 8}") for n in range(40)])
    ended(hasty, job)
    path = job if kind == "socket" else f"{job}/events"
    with RawSocket(hasty, path, key=KEY, buffer_bytes=4096) as raw:
        if kind == "socket":
            raw.shake_hands()
        else:
            raw.send_head()
            raw._some()  # what is answered counts as a watcher
        until(lambda: hasty.get("/health").json["watchers"] == 0)
        documents = ended(hasty, job)["data"]
        size = sum(len(json.dumps(d, ensure_ascii=False)) for d in documents)
        assert raw.drain() < size / 2


@pytest.mark.slow
def test_slow_readers_cost_little_memory(live, web):
    urls = [web.url(f"/large{n % 8}") for n in range(60)]
    job = start_batch(live, urls)
    size = sum(len(json.dumps(d)) for d in ended(live, job)["data"])
    assert size > 8 * 2**20
    before = memory_of(live.pid)[0].rss_mb
    raws = [
        RawSocket(live, path, key=KEY, buffer_bytes=4096)
        for path in (job, f"{job}/events")
        for _ in range(10)
    ]
    for raw in raws[:10]:
        raw.shake_hands()
    for raw in raws[10:]:
        raw.send_head()
    until(lambda: live.get("/health").json["watchers"] == 20)
    peak = 0.0
    for _ in range(20):
        raws[0]._some()
        time.sleep(0.05)
        peak = max(peak, memory_of(live.pid)[0].rss_mb)
    assert peak - before < RSS_MB
    for raw in raws:
        raw.socket.close()
    until(lambda: live.get("/health").json["watchers"] == 0)


def test_connections_are_given_back(start_service, web):
    """One that was a WebSocket counts no more once it has ended."""
    service = start_service(SCRAPER_MAX_CONNECTIONS="5", SCRAPER_LOG_JSON="true")
    job = start(service, web.url("/0"))
    ended(service, job)
    for _ in range(12):
        assert watch(service, job).code == 1000

    def lines():
        return [each for each in service.stderr.splitlines() if '"status": 101' in each]

    until(lambda: len(lines()) == 12)
    logged = json.loads(lines()[0])
    assert logged["path"] == job
    assert logged["bytes"] > 1000


def test_a_stopping_service_closes_sockets_and_streams(start_service, site):
    service = start_service(**SETTINGS)
    job = start(service, site.held(), scrapeOptions={"timeout": PATIENCE_MS})
    with (
        open_socket(service, job, KEY) as connection,
        EventClient(service, f"{job}/events") as client,
    ):
        assert json.loads(connection.recv(timeout=WAIT_S))["type"] == "catchup"
        events = iter(client)
        assert next(events).event == "crawl.started"
        stopping = threading.Thread(target=service.stop)
        stopping.start()
        found = watched(connection)
        assert list(events) == []
        stopping.join()
    assert found.texts == []
    assert (found.code, found.reason) == (1001, "{}")


# -- event streams ----------------------------------------------------------------------------


def events_of(service, job, last=None, **options):
    path = f"{job.replace('/v1/', '/v2/')}/events"
    with EventClient(service, path, last, **options) as client:
        return list(client)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("begin", "family"), [(start, "crawl"), (start_batch, "batch_scrape")]
)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_events_of_a_job_are_sent_in_order(live, web, begin, family, version):
    target = (
        web.url("/0") if begin is start else [web.url(f"/{n}") for n in range(PAGES)]
    )
    job = begin(live, target, version)
    events = events_of(live, job)
    status = ended(live, job)
    kinds = ["started", *["page"] * PAGES, "completed"]
    assert [each.event for each in events] == [f"{family}.{kind}" for kind in kinds]
    numbers = [int(each.id) for each in events]
    assert numbers == sorted(set(numbers))
    documents = []
    for each in events:
        body = each.data
        assert list(body) == ["success", "type", "id", "webhookId", "data", "metadata"]
        assert (body["success"], body["type"]) == (True, each.event)
        assert body["id"] == id_of(job)
        assert body["metadata"] == {}
        documents += body["data"]
    assert documents == status["data"]
    assert len({each.data["webhookId"] for each in events}) == len(events)
    other = job.replace("/crawl/", "/batch/scrape/")
    assert events_of(live, other) == events


def test_the_event_of_a_failed_page_has_its_error(live, web):
    job = start(live, web.url("/loop"))
    events = events_of(live, job)
    [error] = live.get(f"{job}/errors").json["errors"]
    good, bad = [each.data for each in events if each.event == "crawl.page"]
    assert good["success"] is True
    assert bad == {
        "success": False,
        "type": "crawl.page",
        "id": id_of(job),
        "webhookId": bad["webhookId"],
        "data": [],
        "error": error["error"],
        "metadata": {},
    }


def test_large_events_come_whole(live, web):
    job = start_batch(live, [web.url("/huge"), web.url("/large0"), web.url("/0")])
    events = events_of(live, job)
    documents = [each.data["data"][0] for each in events[1:-1]]
    assert documents == ended(live, job)["data"]


def test_a_stream_resumes_after_the_last_event_id(live, web):
    job = start(live, web.url("/0"))
    events = events_of(live, job)
    assert events_of(live, job, "0") == events_of(live, job, "") == events
    for number, each in enumerate(events, 1):
        assert events_of(live, job, each.id) == events[number:]
        with EventClient(live, f"{job}/events?lastEventId={each.id}") as client:
            assert list(client) == events[number:]
    # A browser that comes again keeps the query and has a header that is newer.
    path = f"{job}/events?lastEventId={events[0].id}"
    with EventClient(live, path, events[-2].id) as client:
        assert list(client) == events[-1:]


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", "1 2", "9" * 18, "9" * 40, "\u00b2"])
def test_a_bad_number_is_refused(live, web, bad):
    job = start_batch(live, [web.url("/0")])
    path = f"{job}/events"
    for reply in (
        live.get(path, headers={"Last-Event-ID": bad}),
        live.get(f"{path}?lastEventId={urllib.parse.quote(bad)}"),
    ):
        assert reply.status == 400
        assert reply.json["success"] is False
        assert reply.json["error"].startswith("Invalid Last-Event-ID: must be")


def test_the_number_of_another_job_is_refused(live, web):
    first, second = (start(live, web.url("/4")) for _ in range(2))
    number = events_of(live, first)[-1].id
    reply = live.get(f"{second}/events", headers={"Last-Event-ID": number})
    assert reply.status == 400


def test_events_are_shown_to_their_team_only(live, web):
    job = start(live, web.url("/0"))
    ended(live, job)
    foreign = live.get(f"{job}/events", key=OTHER_KEY)
    unknown = live.get(f"/v2/crawl/{uuid.uuid4()}/events", key=OTHER_KEY)
    assert foreign.status == unknown.status == 404
    assert foreign.json == unknown.json == {"success": False, "error": "Job not found"}
    assert live.get(f"{job}/events", key=None).status == 401
    assert live.get(f"{job}/events", key="fc-wrong").status == 401
    assert live.get("/v2/crawl/nonsense/events").status == 400
    assert live.post(f"{job}/events").status == 405
    assert live.get(f"{job.replace('v2', 'v1')}/events").status == 404


def test_the_head_of_a_stream(live, web):
    job = start(live, web.url("/0"))
    with EventClient(live, f"{job}/events") as client:
        headers = client.response.headers
        assert client.response.status == 200
        assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Access-Control-Allow-Origin"] == "*"
        list(client)
    with EventClient(live, f"{job}/events", method="HEAD") as client:
        assert client.response.status == 200
        assert client.response.headers["Content-Type"].startswith("text/event-stream")
        assert client.response.read() == b""


def test_a_waiting_client_gets_comments_and_then_the_end(hasty, going):
    job = going(hasty, "/0")
    with EventClient(hasty, f"{job}/events") as client:
        events = iter(client)
        assert next(events).event == "batch_scrape.started"
        assert next(events).event == "batch_scrape.page"
        for line in client.response:
            client.comments += line.startswith(b":")
            if client.comments >= 2:
                break
        assert hasty.request("DELETE", job).status == 200
        [last] = list(client)
    assert last.event == "batch_scrape.cancelled"
    assert (last.data["success"], last.data["data"]) == (False, [])
    assert last.data["error"]


def test_the_metadata_of_the_webhook_is_in_the_events(live, web):
    hook = {
        "url": "http://127.0.0.3:9/",
        "metadata": {"run": 7},
        "headers": {"X": "s3cr3t"},
    }
    job = start(live, web.url("/4"), hook=hook)
    events = events_of(live, job)
    assert [each.data["metadata"] for each in events] == [{"run": 7}] * 4
    assert "s3cr3t" not in json.dumps([each.data for each in events])


def test_a_batch_with_added_urls_sends_further_events(live, web):
    job = start_batch(live, [web.url("/1")])
    first = events_of(live, job)
    start_batch(live, [web.url("/2")], appendToId=id_of(job))
    more = events_of(live, job, first[-1].id)
    assert [each.event for each in more] == [
        "batch_scrape.page",
        "batch_scrape.completed",
    ]
    assert events_of(live, job) == first + more
    assert_done(watch(live, job), ended(live, job))


# -- crashes, restarts, several processes -----------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    if request.param == "sqlite":
        return {"SCRAPER_LEASE_S": "3"}
    address = request.getfixturevalue("postgres_tables")()
    return {"SCRAPER_LEASE_S": "3", "SCRAPER_DATABASE_URL": address}


@pytest.mark.full
@pytest.mark.slow_on("sqlite")
def test_a_client_that_reconnects_misses_no_event(start_service, site, database):
    linked = named(f"40-slow40-flaky10-watch{next(_names)}")
    service = start_service(**database)
    job = start(service, site.url(linked.path(0)))
    events, ends = [], 0

    def read_on():
        try:
            with EventClient(
                service, f"{job}/events", events[-1].id if events else None
            ) as client:
                for each in client:
                    events.append(each)
                    if len(events) == 20 and not ends:
                        kill(service)
        except (OSError, http.client.HTTPException):
            pass

    while not events or events[-1].event != "crawl.completed":
        read_on()
        if not service.is_running:
            ends += 1
            service = start_service(**database)
    assert ends == 1
    numbers = [int(each.id) for each in events]
    assert numbers == sorted(set(numbers))
    status = ended(service, job)
    told = [page for each in events for page in each.data["data"]]
    assert told == status["data"]
    errors = service.get(f"{job}/errors").json["errors"]
    failed = [each for each in events if each.data.get("error")]
    assert len(failed) == len(errors)
    assert len(events) == 2 + status["total"]
    assert [(e.id, e.data) for e in events_of(service, job)] == [
        (e.id, e.data) for e in events
    ]


@pytest.mark.slow
def test_jobs_of_another_process_are_watched(start_service, site, postgres):
    address = postgres()
    services = [start_service(SCRAPER_DATABASE_URL=address) for _ in range(2)]
    linked = named(f"40-slow40-watch{next(_names)}")
    job = start(services[0], site.url(linked.path(0)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        watching = [pool.submit(watch, each, job) for each in services]
        following = [pool.submit(events_of, each, job) for each in services]
        status = ended(services[0], job)
        for each in watching:
            assert_done(each.result(), status)
        logs = [[(e.id, e.data) for e in each.result()] for each in following]
    assert logs[0] == logs[1]
    assert [p for _, data in logs[0] for p in data["data"]] == status["data"]
