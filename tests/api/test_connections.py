"""Many open connections, idle or slow ones, and who is served beside them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import struct
import time
import urllib.parse
import urllib.request

import pytest

from scraper_service.api.http_connections import Connections, Phase, TrustedProxies
from tests.conftest import KEY, Service
from tests.support.scripted_site import ScriptedSite, page

IDLE = 2000
ATTACKER, CLIENT = "127.0.0.5", "127.0.0.6"
NO_PROXY = {"SCRAPER_TRUSTED_PROXIES": "10.0.0.0/8"}  # loopback peers are strangers
HEAD = b"GET /v2/team/queue-status HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"
WHOLE = HEAD % KEY.encode() + b"\r\n"
FORM = b"multipart/form-data; boundary=x"
#: What a connection has sent when it goes idle.
STATES = {
    "nothing": b"",
    "part of a head": b"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nX-A",
    "part of a body": b"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
    "part of a file": b"POST /v2/parse HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\n"
    b"Content-Length: 99\r\n\r\n--x" % FORM,
}


@pytest.fixture(scope="module", autouse=True)
def files():
    """Let this process have the sockets that the tests need."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * IDLE
    if before[1] != resource.RLIM_INFINITY and before[1] < wanted:
        pytest.skip(f"a process may open {before[1]} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], wanted), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A service with the limits that it has by default.

    It begins with a low limit of open files, as shells often have.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[0]), before[1]))
    try:
        running = Service(tmp_path_factory.mktemp("plain"), **NO_PROXY)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A service that takes six connections, three of a peer."""
    limits = {"SCRAPER_MAX_CONNECTIONS": "6", "SCRAPER_MAX_PEER_CONNECTIONS": "3"}
    data = tmp_path_factory.mktemp("small")
    with Service(data, **limits, SCRAPER_TRUSTED_PROXIES="127.0.0.9/32") as running:
        yield running


@pytest.fixture
def connect():
    """Return a function that opens a connection from a loopback address."""
    with contextlib.ExitStack() as stack:

        def open_connection(service, source, sent=b""):
            parts = urllib.parse.urlsplit(service.url)
            found = socket.create_connection(
                (parts.hostname, parts.port), 30, source_address=(source, 0)
            )
            stack.enter_context(found)
            with contextlib.suppress(OSError):  # it may have been closed already
                found.sendall(sent)
            return found

        yield open_connection


def answer(connection):
    """Return status and body of the response on a connection."""
    connection.settimeout(90)
    with contextlib.closing(http.client.HTTPResponse(connection)) as found:
        found.begin()
        return found.status, json.loads(found.read())


def is_open(connection):
    connection.settimeout(0.05)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def count_open(connections):
    return sum(map(is_open, connections))


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


GREETING = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
FLOOD = 6000  # requests


def requests_of(running, route):
    """Return the number of requests of a route that have ended."""
    reply = urllib.request.urlopen(f"{running.url}/metrics").read().decode()
    name = f'scraper_http_requests_total{{method="GET",route="{route}"'
    counts = (x.split()[-1] for x in reply.splitlines() if x.startswith(name))
    return sum(map(float, counts))


def settled(read):
    """Return a number once it has stayed the same for a while."""
    last = None
    while last != (found := read()):
        last = found
        time.sleep(0.5)
    return found


def test_pipelined_requests_are_answered_in_order(plain, connect):
    connection = connect(plain, ATTACKER)
    body = b'{"url": "ftp://a"}'
    post = b"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n" % (
        KEY.encode()
    )
    post += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    missing = b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    connection.sendall((WHOLE + post + GREETING + missing) * 20 + last)
    received = b""
    while part := connection.recv(65536):
        received += part
    statuses = [int(x[:3]) for x in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 400, 200, 404] * 20 + [200]


@pytest.mark.full
def test_a_flood_of_pipelined_requests_lets_others_in(plain, connect):
    flood, left = connect(plain, ATTACKER), FLOOD
    flood.setblocking(True)

    def read():
        nonlocal left
        while left > 0:
            left -= flood.recv(65536).count(b"HTTP/1.1 200")

    with concurrent.futures.ThreadPoolExecutor() as threads:
        reading = threads.submit(read)
        sending = threads.submit(flood.sendall, GREETING * FLOOD)
        answered = 0
        while not reading.done():
            assert plain.get("/health").status == 200
            answered += left > 0
        sending.result()
        reading.result()
    assert answered > 20  # not only between two parts of the flood


def test_requests_of_a_client_that_has_left_are_not_handled(plain, connect):
    before = requests_of(plain, "/")
    flood = connect(plain, ATTACKER)
    flood.sendall(GREETING * FLOOD)
    flood.recv(100)
    flood.close()
    assert settled(lambda: requests_of(plain, "/")) - before < FLOOD / 2


def test_a_client_that_does_not_read_gets_no_further_responses_made(plain, connect):
    before = requests_of(plain, "/openapi.json")
    connection = connect(plain, ATTACKER)
    connection.settimeout(2)
    sent = 0
    part = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 100
    with contextlib.suppress(TimeoutError):
        while sent < 5000:
            connection.sendall(part)
            sent += 100
    made = settled(lambda: requests_of(plain, "/openapi.json")) - before
    assert 1 <= made < 100
    connection.settimeout(30)
    received = 0
    while received < made + 10:  # a reader gets on
        received += connection.recv(2**20).count(b"HTTP/1.1 200")


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("sent", STATES.values(), ids=STATES)
@pytest.mark.parametrize("peers", [1, 8])
def test_idle_connections_do_not_lock_clients_out(plain, connect, peers, sent):
    for number in range(IDLE):
        connect(plain, f"127.0.1.{1 + number % peers}", sent)
    for _ in range(3):
        assert answer(connect(plain, CLIENT, WHOLE))[0] == 200


def test_connections_that_are_reset_with_their_request_end(small, connect):
    sent = b"POST /v2/map HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
    for number in range(40):
        connection = connect(small, ATTACKER)
        if number % 2:
            time.sleep(0.01)  # it is accepted before
        with contextlib.suppress(OSError):
            connection.sendall(sent)
        reset(connection)
    assert answer(connect(small, ATTACKER, WHOLE))[0] == 200
    assert answer(connect(small, CLIENT, WHOLE))[0] == 200


def reset(connection):
    linger = struct.pack("ii", 1, 0)  # close() resets it
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


def test_a_reset_together_with_its_request_cancels_it(start_service, connect, site):
    service = start_service(SCRAPER_LOG_JSON="true")
    body = json.dumps({"url": site.url("/delay/60"), "maxAge": 0}).encode()
    head = f"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
    length = f"Content-Length: {len(body)}\r\n\r\n"
    for times in (1, 1, 1, 2, 2, 2):  # some with a second request behind the first
        connection = connect(service, CLIENT)
        time.sleep(0.05)  # it is accepted before
        os.kill(service.pid, signal.SIGSTOP)  # both arrive before it looks
        connection.sendall((f"{head}{length}".encode() + body) * times)
        reset(connection)
        os.kill(service.pid, signal.SIGCONT)
    until(lambda: service.stderr.count('"status": 499') >= 6, 10)
    assert service.get("/health").json["pendingScrapes"] == 0
    service.stop()
    assert "Traceback" not in service.stderr


@pytest.mark.slow
def test_a_slow_reader_gets_all_of_a_large_response(plain, connect):
    with ScriptedSite({"/": page(text="word " * 1_500_000)}) as site:
        formats = ["rawHtml", "html"]
        body = json.dumps({"url": site.url("/"), "formats": formats}).encode()
        head = f"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
        length = f"Content-Length: {len(body)}\r\n\r\n"
        connection = connect(plain, CLIENT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        connection.sendall(f"{head}{length}".encode() + body)
        connection.settimeout(90)
        with contextlib.closing(http.client.HTTPResponse(connection)) as found:
            found.begin()
            most = int(found.headers["Content-Length"])
            read = 0
            while part := found.read(most // 150):
                read += len(part)
                time.sleep(1)
    assert read == most > 12_000_000


@pytest.mark.full
def test_a_request_under_way_is_not_closed_for_idle_connections(plain, connect, site):
    body = json.dumps({"url": site.url("/delay/10"), "maxAge": 0}).encode()
    head = f"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
    length = f"Content-Length: {len(body)}\r\n\r\n"
    scrape = connect(plain, CLIENT, f"{head}{length}".encode() + body)
    until(lambda: plain.get("/health").json["pendingScrapes"] == 1)
    upload = connect(plain, CLIENT, f"{head}{length}".encode() + body[:-1])
    for number in range(IDLE + 200):
        connect(plain, f"127.0.1.{1 + number % 8}")
    upload.sendall(body[-1:])
    assert answer(scrape)[0] == 200
    assert answer(upload)[0] == 200


def test_the_connection_idle_for_longest_is_closed_first(small, connect):
    used = connect(small, CLIENT, WHOLE)
    assert answer(used)[0] == 200
    idle = [connect(small, f"127.0.1.{n}") for n in range(5)]
    used.sendall(WHOLE)  # the oldest connection, and the one used last
    assert answer(used)[0] == 200
    further = [connect(small, f"127.0.1.{n}") for n in range(5, 7)]
    until(lambda: not is_open(idle[0]) and not is_open(idle[1]))
    assert count_open([*idle[2:], *further, used]) == 6


def test_a_peer_at_its_limit_closes_only_its_own_connections(small, connect):
    other = connect(small, CLIENT)
    own = [connect(small, ATTACKER) for _ in range(9)]
    until(lambda: count_open(own) == 3)
    assert count_open(own[-3:]) == 3
    assert is_open(other)


def test_a_proxy_has_no_limit_of_its_own(small, connect):
    own = [connect(small, "127.0.0.9", WHOLE) for _ in range(6)]
    assert [answer(each)[0] for each in own] == [200] * 6
    assert count_open(own) == 6


@pytest.mark.full
def test_a_connection_is_refused_if_all_others_have_requests(small, connect, site):
    body = json.dumps({"url": site.url("/delay/20"), "maxAge": 0}).encode()
    head = f"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
    text = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    pending = small.get("/health").json["pendingScrapes"]
    busy = [connect(small, ATTACKER, text) for _ in range(3)]
    until(lambda: small.get("/health").json["pendingScrapes"] == pending + 3)
    refused = connect(small, ATTACKER)
    until(lambda: not is_open(refused))
    assert is_open(connect(small, CLIENT))
    assert [answer(each)[0] for each in busy] == [200] * 3


def drip(connection, text, seconds):
    """Send a byte each half second; return what was received until the end."""
    connection.settimeout(0.5)
    received, end = b"", time.monotonic() + seconds
    for number in range(int(2 * seconds)):
        try:
            connection.sendall(text[number : number + 1])
            piece = connection.recv(1000)
        except TimeoutError:
            continue
        except OSError:
            return received
        received += piece
        if not piece:
            return received
    assert time.monotonic() < end, "the connection was never closed"
    raise AssertionError("the connection was never closed")


def test_slow_requests_end_in_time(plain, connect):
    silent = connect(plain, CLIENT)
    first = connect(plain, CLIENT)
    again = connect(plain, CLIENT, WHOLE)
    assert answer(again)[0] == 200
    # A whole request, and the begin of the next one with it.
    behind = connect(plain, CLIENT, WHOLE + b"GET /health HTTP/1.1\r\nX:")
    assert answer(behind)[0] == 200
    kept = connect(plain, CLIENT, WHOLE)
    assert answer(kept)[0] == 200
    body = b'{"url": "http://127.0.0.1:1/"}'  # its answer comes later
    head = HEAD.replace(b"GET /v2/team/queue-status", b"POST /v2/scrape") % KEY.encode()
    posted = b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)
    kept_after_body = connect(plain, CLIENT, posted)
    assert answer(kept_after_body)[0] == 403
    kept.settimeout(0.05)
    kept_after_body.settimeout(0.05)
    slow = b"GET /health HTTP/1.1\r\nX: " + b"a" * 100
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        ends = [
            threads.submit(drip, silent, b"", 25),
            threads.submit(drip, behind, b"", 25),
            threads.submit(drip, first, slow, 25),
            threads.submit(drip, again, slow, 25),
        ]
        found = [end.result() for end in ends]
    assert found[0] == b""
    assert all(text.startswith(b"HTTP/1.1 408 ") for text in found[1:])
    for connection in (kept, kept_after_body):  # with nothing to read
        with pytest.raises(TimeoutError):
            connection.recv(1)


@pytest.mark.slow
def test_a_slow_body_ends_in_time(plain, connect):
    connection = connect(
        plain, CLIENT, STATES["part of a body"].replace(b" 9", b" 900")
    )
    assert drip(connection, b" " * 200, 50).startswith(b"HTTP/1.1 408 ")


def test_the_service_may_open_as_many_files_as_it_needs(plain):
    assert resource.prlimit(plain.pid, resource.RLIMIT_NOFILE)[0] >= IDLE + 1000
    assert "SCRAPER_MAX_CONNECTIONS is" not in plain.stderr


class Fake:
    is_sending = False

    def __init__(self):
        self.is_closed = False

    def close_early(self):
        self.is_closed = True


def opened(connections, host):
    assert connections.has_room(host)
    connection = Fake()
    connections.add(connection, host)
    return connection


def test_an_ipv6_peer_is_a_network_of_64_bits():
    connections = Connections(100, 2, TrustedProxies(["fd00::/8"]))
    first = opened(connections, "2001:db8:1:1::1")
    opened(connections, "2001:db8:1:1::2")
    other = opened(connections, "2001:db8:1:2::1")
    opened(connections, "2001:db8:1:1:ffff:ffff:ffff:ffff")
    assert first.is_closed
    assert not other.is_closed
    proxied = [opened(connections, "fd00::1") for _ in range(5)]
    assert not any(each.is_closed for each in proxied)


def test_ipv4_in_ipv6_is_the_ipv4_peer():
    connections = Connections(100, 1, TrustedProxies(["10.0.0.0/8"]))
    first = opened(connections, "::ffff:192.0.2.1")
    opened(connections, "192.0.2.1")
    assert first.is_closed
    assert "::ffff:10.1.1.1" in TrustedProxies(["10.0.0.0/8"])


def test_connections_that_send_a_body_are_closed_last():
    connections = Connections(3, 3, TrustedProxies())
    body = opened(connections, "192.0.2.1")
    connections.enter(body, Phase.BODY)
    idle = opened(connections, "192.0.2.2")
    busy = opened(connections, "192.0.2.3")
    connections.enter(busy, Phase.ANSWER)
    opened(connections, "192.0.2.4")
    assert (idle.is_closed, body.is_closed) == (True, False)
    connections.enter(opened(connections, "192.0.2.5"), Phase.ANSWER)
    connections.enter(opened(connections, "192.0.2.6"), Phase.ANSWER)
    assert body.is_closed
    assert not connections.has_room("192.0.2.7")
    connections.remove(busy)
    connections.remove(busy)
    assert connections.has_room("192.0.2.7")


def test_a_response_that_is_being_read_is_left_alone():
    connections = Connections(1, 1, TrustedProxies())
    reading = opened(connections, "192.0.2.1")
    reading.is_sending = True
    assert not connections.has_room("192.0.2.2")
    reading.is_sending = False
    assert connections.has_room("192.0.2.2")
