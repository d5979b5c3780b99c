"""What every request meets before a route: keys, bodies, methods, paths, limits."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
import urllib.parse

import pytest

from scraper_service.api.errors import NO_SUCH_PATH
from tests.support.openapi import WITH_TOKEN, version_apps
from tests.support.waiting import WAIT_S, wait_until

JSON_TYPE = "application/json; charset=utf-8"
UUID = "00000000-0000-4000-8000-000000000000"
SERVED = sorted(
    (method, f"/{version}{re.sub('<[^>]+>', UUID, rule.rule)}")
    for version, app in version_apps().items()
    for rule in app.klein.url_map.iter_rules()
    for method in rule.methods - {"HEAD"}
)
ROUTES = [(method, path) for method, path in SERVED if not path.endswith(WITH_TOKEN)]
TOKEN_PATHS = [path for _, path in SERVED if path.endswith(WITH_TOKEN)]


@pytest.mark.parametrize("path", TOKEN_PATHS)
@pytest.mark.parametrize(
    "query", ["", "?token=", "?token=wrong", f"?token={'x' * 500}"]
)
def test_a_token_in_the_url_is_refused_and_a_key_does_not_help(service, path, query):
    for key in (None, service.key):
        reply = service.get(path + query, key=key)
        assert (reply.status, reply.json["error"]) == (
            401,
            "Unauthorized: Invalid token",
        )


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("header", "error"),
    [
        (None, "Unauthorized"),
        ("", "Unauthorized: Token missing"),
        ("Bearer", "Unauthorized: Token missing"),
        ("Bearer ", "Unauthorized: Token missing"),
        ("Basic abc", "Unauthorized: Token missing"),
        ("Bearer None", "Unauthorized: Invalid token"),
        ("Bearer fc-wrong", "Unauthorized: Invalid token"),
        ("Bearer " + "x" * 5000, "Unauthorized: Invalid token"),
        ("Bearer ' OR 1=1 --", "Unauthorized: Invalid token"),
        ("Bearer \xe9\xff", "Unauthorized: Invalid token"),
    ],
)
def test_a_request_without_a_valid_key_is_refused(service, header, error):
    headers = {} if header is None else {"Authorization": header}
    for method, path in ROUTES:
        reply = service.request(method, path, {"url": "x"}, key=None, headers=headers)
        assert reply.status == 401, (method, path)
        assert reply.json == {"success": False, "error": error}, (method, path)


@pytest.mark.parametrize(
    ("header", "status"), [("x-idempotency-key", 409), ("X-Forwarded-Host", 200)]
)
def test_a_header_may_be_of_any_bytes(service, site, header, status):
    body = {"url": site.url("/text"), "limit": 1}
    reply = service.post("/v2/crawl", body, headers={header: "\xe9\xff"})
    assert reply.status == status


NO_HOSTS = ["\xff\xfe", "b\xfccher.example", "a..b", ".", "a" * 64, "a b", "[a]", "a:b"]


@pytest.mark.parametrize(
    ("target", "host"),
    [
        *((path, host) for path in ("/v2/nope", "/health", "/") for host in NO_HOSTS),
        ("http://a..b/v2/nope", "a"),
    ],
)
def test_an_invalid_host_is_refused_without_a_traceback(
    service, answer_of, target, host
):
    before = len(service.stderr)
    answer = answer_of(service, "GET", target, Host=host)
    body = json.loads(answer.read())
    assert (answer.status, body["code"]) == (400, "BAD_REQUEST")
    assert "Host" in body["error"]
    assert "Traceback" not in service.stderr[before:]


HOSTS = [
    "",
    ":80",
    "a",
    "my_service:80",
    "a.example.",
    "1.2.3.4:8",
    "[::1]:80",
    "[::1]",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_valid_host_is_accepted(service, answer_of, host):
    assert answer_of(service, "GET", "/v2/nope", Host=host).status == 404


@pytest.mark.parametrize(
    "target", [b"/health", b"/v2/nope", b"http://a.example/health"]
)
def test_http_1_1_without_a_host_is_a_bad_request(service, connect, target):
    connection = connect(service)
    connection.sendall(b"GET %s HTTP/1.1\r\n\r\n" % target)
    with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
        answer.begin()
        body = json.loads(answer.read())
    assert (answer.status, body["code"]) == (400, "BAD_REQUEST")
    assert body["error"] == "The header Host is missing, which HTTP/1.1 requires."


def test_http_1_0_needs_no_host(service, connect):
    connection = connect(service)
    connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
    with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
        answer.begin()
        assert answer.status == 200


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Authorization",
            "Content-Type",
            "Host",
            "Last-Event-ID",
            "x-idempotency-key",
        ),
        *("Sec-WebSocket-Key", "Sec-WebSocket-Version", "authorization"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/team/queue-status", "/v2/nope", "/health"])
def test_a_header_with_one_value_is_refused_if_sent_twice(service, connect, name, path):
    good = f"Bearer {service.key}".encode()
    first, second = (b"Bearer fc-other", good) if name[:1] in "Aa" else (b"a", b"a")
    other = {b"Authorization": good, b"Host": b"a"}
    other.pop(name.title().encode(), None)
    sent = [(name.encode(), first), *other.items(), (name.lower().encode(), second)]
    lines = b"".join(b"%s: %s\r\n" % pair for pair in sent)
    connection = connect(service)
    connection.sendall(b"GET %s HTTP/1.1\r\n%s\r\n" % (path.encode(), lines))
    with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
        answer.begin()
        body = json.loads(answer.read())
    assert (answer.status, body["code"]) == (400, "BAD_REQUEST")
    assert name.lower() in body["error"].lower()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/v2/crawl/{UUID}", "limit"),
        (f"/v2/crawl/{UUID}", "skip"),
        (f"/v2/crawl/{UUID}/urls", "state"),
        (f"/v2/crawl/{UUID}/deliveries", "after"),
        ("/v2/team/activity", "cursor"),
    ],
)
def test_a_parameter_of_the_query_is_refused_twice(service, path, name):
    reply = service.get(f"{path}?{name}=1&{name}=2")
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    assert f"{name} must be given once" in reply.json["error"]


@pytest.mark.parametrize("text", ["1" + "0" * 5000, "0" * 11 + "1" + "0" * 5000])
@pytest.mark.parametrize(
    "path",
    [
        f"/v2/crawl/{UUID}?limit=%s",
        f"/v2/crawl/{UUID}?skip=%s",
        f"/v2/crawl/{UUID}/deliveries?after=%s",
        "/v2/team/activity?limit=%s",
    ],
)
def test_a_number_of_the_query_is_bounded(service, path, text):
    reply = service.get(path % text)
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("key", ["fc-test-key", "test-key"])
def test_a_key_is_the_same_with_and_without_its_prefix(service, site, key):
    reply = service.post("/v2/scrape", {"url": site.url("/text")}, key=key)
    assert reply.status == 200


@pytest.mark.parametrize("path", ["/health", "/"])
def test_health_and_greeting_need_no_key(service, path):
    reply = service.get(path, key=None)
    assert reply.status == 200
    assert reply.json["success"] is True


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer None", "Bearer any"])
def test_with_auth_switched_off_everybody_may_call(start_service, site, header):
    service = start_service(SCRAPER_AUTH_ENABLED="false", SCRAPER_API_KEYS=None)
    headers = {} if header is None else {"Authorization": header}
    body = {"url": site.url("/text")}
    reply = service.post("/v2/scrape", body, key=None, headers=headers)
    assert reply.status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nonsense",
        b'{"url": NaN}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"url": "\\ud800"}',
        b'{"url": "a\\u0000b"}',
        b'{"url": "\xff"}',
        b"[" * 300_000,
    ],
    ids=lambda raw: repr(raw[:12]),
)
def test_a_body_that_is_not_json_is_a_400_before_the_key_is_looked_at(service, raw):
    reply = service.post("/v2/scrape", raw=raw, key=None)
    assert reply.status == 400
    assert reply.json["code"] == "BAD_REQUEST_INVALID_JSON"
    assert reply.json["error"] == "Bad request, malformed JSON"


@pytest.mark.parametrize("depth", [450, 900])
@pytest.mark.parametrize(
    "start",
    [
        '/v2/monitor {"name": "a", "targets": [',
        '/v2/crawl {"url": "https://a.example/", "scrapeOptions": [',
        '/v2/scrape {"url": "https://a.example/", "formats": [',
        '/v2/scrape {"url": "https://a.example/", "actions": [{"type": ',
        '/v2/scrape {"url": "https://a.example/", "formats": [{"type": "json", "schema": ',
    ],
)
def test_a_body_of_great_depth_is_refused(service, start, depth):
    path, _, text = start.partition(" ")
    if text.endswith("["):
        text, end = text + "[" * depth + "]" * depth, "]}"
    else:
        text, end = text + '{"not":' * depth + "{}" + "}" * depth, "}]}"
    reply = service.post(path, raw=(text + end).encode())
    assert reply.status == 400, reply.json


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "the body is not JSON: Expecting property name"),
        (b'{"url": NaN}', "the body is not JSON: NaN"),
        (b"[1e999]", "the number 1e999 is too large"),
        (b"[" + b"9" * 5000 + b"]", "a number has more than 4300 digits"),
        (b"[-" + b"9" * 500_000 + b"]", "a number has more than 4300 digits"),
        (b'{"url": "\xff"}', "the body is not JSON: 'utf-8' codec can't decode"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_the_syntax_error_of_a_json_body_is_named(service, raw, message):
    [issue] = service.post("/v2/scrape", raw=raw).json["details"]
    assert issue["message"].startswith(message)
    assert "sys." not in issue["message"]


@pytest.mark.parametrize(
    ("raw", "got"),
    [
        (b"", "but is empty or null"),
        (b"null", "but is empty or null"),
        (b"[]", "got []"),
        (b"[null, true]", "got [null, true]"),
        (b'"x"', "got 'x'"),
        (b"1", "got 1"),
    ],
)
def test_a_body_that_is_no_object_is_a_bad_request(service, raw, got):
    reply = service.post("/v2/scrape", raw=raw)
    assert reply.status == 400
    assert reply.json["code"] == "BAD_REQUEST"
    [issue] = reply.json["details"]
    assert issue["message"] == f"body (v2) must be of type object, {got}"


def test_the_content_type_of_a_body_does_not_matter(service, site):
    body = {"url": site.url("/text")}
    reply = service.post("/v2/scrape", body, headers={"Content-Type": "text/plain"})
    assert reply.status == 200


def test_a_large_body_is_read(service):
    body = {"url": "http://127.0.0.2/", "unknown": ["x" * 1000] * 4000}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    assert reply.json["details"][0]["keys"] == ["unknown"]


def test_a_body_over_10_mib_is_a_413(service):
    reply = service.post("/v2/scrape", raw=b" " * (10 * 2**20 + 1))
    assert reply.status == 413
    assert reply.json["success"] is False


def test_no_client_gets_a_100_continue_for_a_body_over_10_mib(service, connect):
    connection = connect(service)
    connection.sendall(
        b"POST /v2/scrape HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: 11000000\r\nExpect: 100-continue\r\n\r\n"
    )
    found = b""
    with contextlib.suppress(ConnectionResetError):  # after a while
        while part := connection.recv(4096):
            found += part
    assert found.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in found


def test_a_chunked_body_without_end_is_a_413(service, connect):
    connection = connect(service)
    connection.sendall(
        b"POST /v2/scrape HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for _ in range(161):
        connection.sendall(chunk)
    assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.fixture
def connect():
    """Return a function that opens a connection to a service; closed afterwards."""
    with contextlib.ExitStack() as stack:

        def open_connection(service):
            parts = urllib.parse.urlsplit(service.url)
            connection = socket.create_connection((parts.hostname, parts.port), 30)
            return stack.enter_context(connection)

        yield open_connection


@pytest.fixture
def answer_of():
    """Return a function that sends a request as it is and returns the answer."""
    with contextlib.ExitStack() as stack:

        def send(service, method, path, body=None, **headers):
            address = urllib.parse.urlsplit(service.url).netloc
            connection = http.client.HTTPConnection(address, timeout=WAIT_S)
            stack.callback(connection.close)
            names = {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, body, headers=names)
            return stack.enter_context(connection.getresponse())

        yield send


HEAD = b"POST /v2/scrape HTTP/1.1\r\nHost: a\r\n"
NO_HTTP = {
    "no request line": (b"\x16\x03\x01\x02\r\n\r\n", 400),
    "version": (b"GET / HTTP/2.0\r\n\r\n", 400),
    "header": (HEAD + b"nonsense\r\n\r\n", 400),
    "length": (HEAD + b"Content-Length: x\r\n\r\n{}", 400),
    "long length": (HEAD + b"Content-Length: " + b"1" * 5000 + b"\r\n\r\n{}", 400),
    "lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
    "chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n", 400),
    "headers": (HEAD + b"X: a\r\n" * 600 + b"\r\n", 400),
    "long header": (HEAD + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    "long path": (b"GET /v2/crawl/" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
}


@pytest.mark.parametrize(("sent", "status"), NO_HTTP.values(), ids=NO_HTTP)
def test_input_that_is_not_http_gets_a_json_error(service, connect, sent, status):
    connection = connect(service)
    connection.sendall(sent)
    with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
        answer.begin()
        body = json.loads(answer.read())
    assert (answer.status, answer.reason) == (status, http.HTTPStatus(status).phrase)
    assert body["success"] is False
    assert isinstance(body["error"], str)


def test_a_refusal_for_its_rate_has_a_reason(start_service, answer_of):
    service = start_service(SCRAPER_RATE_LIMITS="account=1")
    path, key = "/v2/team/queue-status", f"Bearer {service.key}"
    answers = [answer_of(service, "GET", path, Authorization=key) for _ in range(2)]
    found = [(answer.status, answer.reason) for answer in answers]
    assert found == [(200, "OK"), (429, "Too Many Requests")]


@pytest.mark.parametrize(
    "path", ["/v1/scrape/", "//v1/scrape", "/v2/scrape/", "//v2//scrape"]
)
def test_extra_slashes_make_no_difference(service, site, path):
    assert service.post(path, {"url": site.url("/text")}).status == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://a.example/health", 200),
        ("HTTPS://a.example:1/health?x=1", 200),
        ("http://a.example", 200),
        ("http://a.example?x=1", 200),
        ("http://a.example//nope", 404),
    ],
)
def test_a_target_may_have_the_absolute_form(service, answer_of, target, status):
    assert answer_of(service, "GET", target).status == status


def test_urls_use_the_host_of_an_absolute_request_target(service, site, answer_of):
    target = "http://me@a.example:81/v2/batch/scrape"
    body = json.dumps({"urls": [site.url("/text")]}).encode()
    answer = answer_of(
        service, "POST", target, body, Host="b", Authorization=f"Bearer {service.key}"
    )
    url = json.loads(answer.read())["url"]
    assert url.startswith("http://a.example:81/v2/batch/scrape/")


@pytest.mark.parametrize(
    "path",
    ["/nope", "/v1", "/v2/nope", "/v3/scrape", "/v1/scrape/x/y", "/v2/%ff", "/%00"],
)
def test_an_unknown_path_is_a_404_in_json(service, path):
    reply = service.get(path)
    assert reply.status == 404
    assert reply.json == {"success": False, "error": NO_SUCH_PATH}
    assert reply.headers["Content-Type"] == JSON_TYPE


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        (
            "GET",
            f"/v2/crawl/{UUID}?limt=5",
            "'limt' in the query: the parameters are skip, limit, maxTokens",
        ),
        (
            "GET",
            f"/v1/crawl/{UUID}/errors?skip=1",
            "'skip' in the query: the path has no",
        ),
        ("POST", "/v2/scrape?formats=html", "'formats' in the query: the path has no"),
        ("GET", "/v2/team/credit-usage?%ff=1", "'\ufffd' in the query"),
    ],
)
def test_a_name_that_the_query_does_not_have_is_refused(service, method, path, error):
    body = {"url": "http://127.0.0.2/"} if method == "POST" else None
    reply = service.request(method, path, body)
    assert reply.status == 400
    assert f"Invalid {error}" in reply.json["error"]
    assert service.request(method, path, body, key="wrong").status == 401


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_a_wrong_method_is_a_405_in_json(service, method):
    reply = service.request(method, "/v2/scrape")
    assert reply.status == 405
    assert reply.json == {"success": False, "error": "Method not allowed"}
    assert "POST" in reply.headers["Allow"]


def test_a_preflight_allows_any_origin_and_header(service, answer_of):
    asked = {"Access_Control_Request_Headers": "x-mine", "Origin": "http://a.example"}
    answer = answer_of(service, "OPTIONS", "/v2/scrape", **asked)
    assert answer.status == 204
    assert answer.read() == b""
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "x-mine" in answer.headers["Access-Control-Allow-Headers"]
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert "DELETE" in answer.headers["Access-Control-Allow-Methods"]


def test_responses_allow_any_origin_and_have_no_server_header(service):
    headers = service.get("/health").headers
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Server" not in headers


def test_head_is_get_without_a_body(service, answer_of):
    answer = answer_of(service, "HEAD", "/health")
    assert answer.status == 200
    assert answer.read() == b""


@pytest.mark.slow
def test_headers_that_drip_are_cut_off(service, connect):
    connection = connect(service)
    connection.sendall(b"POST /v2/scrape HTTP/1.1\r\n")
    started = time.monotonic()
    received = b""
    connection.settimeout(1)
    while time.monotonic() - started < 100:
        try:
            connection.sendall(b"X-A: b\r\n")
            piece = connection.recv(1000)
        except TimeoutError:
            continue
        except OSError:
            break
        received += piece
        if not piece:
            break
    assert time.monotonic() - started < 90
    assert b" 408 " in received


def test_connections_above_the_limit_are_closed_and_the_others_served(
    start_service, connect
):
    service = start_service(SCRAPER_MAX_CONNECTIONS="20")
    idle = [connect(service) for _ in range(60)]
    wait_until(lambda: sum(is_closed(connection) for connection in idle) >= 40)
    for connection in idle:
        connection.close()

    def is_served():
        try:
            return service.get("/health").status == 200
        except (OSError, http.client.HTTPException):
            return False

    wait_until(is_served)


def is_closed(connection):
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_the_access_log_has_one_json_line_per_request_and_no_secrets(
    start_service, site
):
    service = start_service(SCRAPER_LOG_JSON="true")
    service.post("/v2/scrape", {"url": site.url("/text?token=s3cret"), "origin": "me"})
    service.get("/nope?token=s3cret")
    service.request("X" * 10_000, "/nope")
    service.stop()
    found = [json.loads(line) for line in service.stderr.splitlines()]
    lines = [line for line in found if line["logger"] == "scraper_service.access"]
    assert [(line["path"], line["status"]) for line in lines] == [
        ("/v2/scrape", 200),
        ("/nope", 404),
        ("/nope", 404),
    ]
    assert lines[2]["method"] == "X" * 20
    assert lines[0]["origin"] == "me"
    assert lines[0]["team"]
    assert lines[0]["ms"] > 0
    assert "s3cret" not in service.stderr
    assert "test-key" not in service.stderr
