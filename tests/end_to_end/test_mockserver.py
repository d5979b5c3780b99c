from __future__ import annotations

import gzip
import http.client
import io
import json
import socket
import ssl
import time
import urllib.parse
import zlib
from typing import TYPE_CHECKING

import brotli
import pytest
from pdfminer.high_level import extract_text

from tests.support.mockserver import MIB, SAMPLES, SMALL_PAGE, MockServer, zstd
from tests.support.waiting import WAIT_S

if TYPE_CHECKING:
    from tests.support.mockserver import Canary


def fetch(
    url: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """Return answer and body of one request; redirects are not followed."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=WAIT_S)
    try:
        target = url.removeprefix(f"http://{parts.netloc}")
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def read_raw(url: str, until: bytes = b"nothing of it", limit: int = 4 * MIB) -> bytes:
    """Return what comes, up to ``until`` or ``limit`` bytes."""
    parts = urllib.parse.urlsplit(url)
    assert parts.hostname is not None
    found = b""
    with socket.create_connection((parts.hostname, parts.port or 80), WAIT_S) as peer:
        peer.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        )
        while len(found) < limit and until not in found:
            data = peer.recv(2**16)
            if not data:
                break
            found += data
    return found


def test_stops_with_code_0():
    assert MockServer().stop() == 0


def test_the_request_log_has_method_path_headers_and_body(site: MockServer):
    fetch(site.url("/echo?for=log"), "POST", b"caf\xe9", X_Test="yes")
    (request,) = [r for r in site.requests if "for=log" in r["path"]]
    assert request["method"] == "POST"
    assert request["path"] == "/echo?for=log"
    assert request["headers"]["x_test"] == "yes"
    assert request["body"] == "café"


def test_forget_empties_requests():
    with MockServer() as server:
        fetch(server.url("/"))
        server.forget()
        assert server.requests == []


@pytest.mark.parametrize(
    ("path", "content_type", "needle"),
    [
        ("/", "text/html", b"/page/1"),
        ("/page/2", "text/html", b"/page/3"),
        ("/article", "text/html", b'class="language-python"'),
        ("/big", "text/html", b"the last lamp was lit"),
        ("/html?body=%3Cp%3Ehi&count=2", "text/html", b"<p>hi<p>hi"),
        ("/json", "application/json", b"heights"),
        ("/text", "text/plain", "Höhe".encode()),
        ("/xml", "application/xml", b"<tide>"),
        ("/rss", "application/rss+xml", b"<rss"),
        ("/csv", "text/csv", b"hour,height"),
        ("/png", "image/png", b"\x89PNG\r\n"),
        ("/png-as-html", "text/html", b"\x89PNG\r\n"),
        ("/binary", "application/octet-stream", bytes(range(256))),
        ("/pdf-broken", "application/pdf", b"%PDF-"),
        ("/metas", "text/html", b"og:locale:alternate"),
        ("/base64", "text/html", b"data:image/gif;base64,"),
        ("/iframe", "text/html", b"<iframe"),
        ("/encoding/shift_jis", "text/html; charset=shift_jis", b"\x92\xaa"),
        ("/encoding/windows-1251-meta", "text/html", b'<meta charset="windows-1251">'),
        ("/encoding/utf-16", "text/html; charset=utf-16", b"\xff\xfe"),
        ("/encoding/utf-8-none", "text/html", SAMPLES[0].encode()),
        ("/encoding/lying", "charset=utf-8", SAMPLES[1].encode("windows-1251")),
    ],
)
def test_document_has_type_and_content(
    site: MockServer, path: str, content_type: str, needle: bytes
):
    answer, body = fetch(site.url(path))
    assert answer.status == 200
    assert content_type in answer.headers["Content-Type"]
    assert needle in body


@pytest.mark.parametrize(("path", "size"), [("/article", 17_000), ("/big", 200_000)])
def test_realistic_page_has_its_size(site: MockServer, path: str, size: int):
    assert len(fetch(site.url(path))[1]) == pytest.approx(size, rel=0.05)


def test_empty_is_200_without_a_body(site: MockServer):
    answer, body = fetch(site.url("/empty"))
    assert (answer.status, body) == (200, b"")


@pytest.mark.parametrize("path", ["/page/21", "/page/x", "/nothing"])
def test_unknown_path_is_404(site: MockServer, path: str):
    assert fetch(site.url(path))[0].status == 404


@pytest.mark.parametrize("status", [200, 204, 304, 404, 429, 503])
def test_the_status_path_returns_its_status(site: MockServer, status: int):
    assert fetch(site.url(f"/status/{status}"))[0].status == status


def test_head_has_no_body(site: MockServer):
    answer, body = fetch(site.url("/article"), "HEAD")
    assert (answer.status, body) == (200, b"")


def test_echo_paths_return_the_request(site: MockServer):
    body = fetch(site.url("/echo/a%2Fb/%C3%A9?z=1&a=%20&a"))[1]
    assert json.loads(body) == {"path": "/echo/a%2Fb/%C3%A9", "query": "z=1&a=%20&a"}
    assert json.loads(fetch(site.url("/headers"), A="b")[1])["a"] == "b"


def test_cookies_are_set_and_echoed(site: MockServer):
    answer, _ = fetch(site.url("/cookies/set?a=b"))
    assert answer.headers["Set-Cookie"] == "a=b; Path=/"
    assert answer.headers["Location"] == "/cookies"
    body = fetch(site.url("/cookies"), Cookie="a=b; c=d")[1]
    assert json.loads(body) == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    ("path", "status", "location"),
    [
        ("/redirect/3?to=/text", 302, "/redirect/2?to=/text"),
        ("/redirect/1?to=/text", 302, "/text"),
        ("/redirect-loop", 302, "/redirect-loop"),
        (
            "/redirect-to?url=http%3A%2F%2Fa.example%2F&status=307",
            307,
            "http://a.example/",
        ),
    ],
)
def test_redirects_name_the_next_url(
    site: MockServer, path: str, status: int, location: str
):
    answer, _ = fetch(site.url(path))
    assert (answer.status, answer.headers["Location"]) == (status, location)


def test_refreshes_name_the_next_url(site: MockServer):
    assert (
        b'content="3; url=/text"'
        in fetch(site.url("/meta-refresh?to=/text&delay=3"))[1]
    )
    assert b"url=/meta-refresh-loop" in fetch(site.url("/meta-refresh-loop"))[1]
    answer, _ = fetch(site.url("/refresh-header?to=/text"))
    assert answer.headers["Refresh"] == "0; url=/text"


def test_delay_comes_late(site: MockServer):
    begin = time.monotonic()
    assert fetch(site.url("/delay/0.3"))[0].status == 200
    assert time.monotonic() - begin >= 0.3


def test_slow_body_stops_in_the_middle(site: MockServer):
    url = site.url("/slow-body?seconds=0.3")
    begin = time.monotonic()
    assert fetch(url)[1] == b"<h1>Slow</h1><p>one</p><p>two</p>"
    assert time.monotonic() - begin >= 0.3


@pytest.mark.parametrize(
    ("coding", "unpack"),
    [
        ("gzip", gzip.decompress),
        ("deflate", zlib.decompress),
        ("br", brotli.decompress),
        ("zstd", zstd.decompress),
    ],
)
def test_coding_unpacks(site: MockServer, coding: str, unpack):
    answer, body = fetch(site.url(f"/{coding}"))
    assert answer.headers["Content-Encoding"] == coding
    assert unpack(body) == SMALL_PAGE
    answer, body = fetch(site.url(f"/bomb/{coding}?mb=8"))
    assert answer.headers["Content-Encoding"] == coding
    assert len(body) < 9000
    assert len(unpack(body)) == 8 * MIB


def test_encodings_are_nested_as_often_as_the_path_names(site: MockServer):
    answer, body = fetch(site.url("/encodings/100"))
    assert answer.headers["Content-Encoding"].split(", ") == ["gzip"] * 100
    for _ in range(100):
        body = gzip.decompress(body)
    assert body == SMALL_PAGE


def test_pdf_has_its_pages(site: MockServer):
    text = extract_text(io.BytesIO(fetch(site.url("/pdf?pages=3"))[1]))
    assert text.count("\f") == 3
    assert "Page 3 of 3" in text


def test_drop_resets(site: MockServer):
    with pytest.raises(ConnectionResetError):
        fetch(site.url("/drop"))


@pytest.mark.parametrize("path", ["/endless", "/header-flood"])
def test_flood_goes_on(site: MockServer, path: str):
    assert len(read_raw(site.url(path))) >= 4 * MIB


def test_header_flood_never_ends_its_head(site: MockServer):
    assert b"\r\n\r\n" not in read_raw(site.url("/header-flood"))


def test_drip_sends_single_bytes(site: MockServer):
    _, _, body = read_raw(site.url("/drip"), b"...").partition(b"\r\n\r\n")
    assert body.strip(b".") == b""


def test_huge_length_is_silent_after_a_start(site: MockServer):
    found = read_raw(site.url("/huge-length"), b"</h1>")
    head, _, body = found.partition(b"\r\n\r\n")
    assert b"Content-Length: 1000000000000" in head
    assert body == b"<h1>Soon</h1>"


def test_huge_header_is_legal_and_long(site: MockServer):
    answer, body = fetch(site.url("/huge-header"))
    assert len(answer.headers["X-Huge"]) == 32 * 1024
    assert body == b"<h1>Big</h1>"


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        ("self-signed", "self-signed certificate"),
        ("expired", "certificate has expired"),
        ("wrong-name", "IP address mismatch"),
        ("valid", None),
    ],
)
def test_certificate_fails_for_its_reason_only(
    site: MockServer, certificate: str, reason: str | None
):
    context = ssl.create_default_context(cafile=site.ca_file)
    address = urllib.parse.urlsplit(site.https("/", certificate))
    connection = http.client.HTTPSConnection(
        address.netloc, timeout=WAIT_S, context=context
    )
    try:
        if reason is None:
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match=reason):
                connection.request("GET", "/")
    finally:
        connection.close()


def test_other_origin_is_the_same_site(site: MockServer):
    assert site.url("/", "other") != site.url("/")
    assert fetch(site.url("/json", "other"))[0].status == 200


def test_canary_counts_connections(canary: Canary):
    before = canary.count()
    socket.create_connection(("127.0.0.1", canary.port), 5).close()
    assert canary.count() == before + 1
