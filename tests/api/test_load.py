"""Callers who leave, pages that attack, more work than there is room for."""

from __future__ import annotations

import concurrent.futures
import json
import socket
import urllib.parse

import pytest

from tests.waiting import wait_until

HOSTILE = {
    "comments": ("<!--", 100_000),
    "open links": ("<a ", 100_000),
    "nested lists": ("<ul><li>x", 10_000),
    "nested blocks": ("<div>", 100_000),
    "tables in tables": ("<table><tr><td>", 2_000),
    "many links": ("<a href=/x>y</a>", 100_000),
    "newlines": ("\n", 200_000),
    "backticks": ("<code>`</code>", 50_000),
    "bold": ("<b>", 200_000),
}


def send_and_leave(service, url):
    """Send a scrape on a connection of its own; return it without reading."""
    parts = urllib.parse.urlsplit(service.url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=30)
    body = json.dumps({"url": url}).encode()
    connection.sendall(
        b"POST /v2/scrape HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (service.key.encode(), len(body), body)
    )
    return connection


def test_callers_who_leave_free_their_places(start_service, site):
    service = start_service(SCRAPER_HOST_CONCURRENCY="2")
    site.forget()
    connections = [send_and_leave(service, site.url("/delay/60")) for _ in range(20)]
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 20)
    wait_until(lambda: len(site.requests) >= 2)
    for connection in connections:
        connection.close()
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 0)
    # Both places at the host are free again, long before the minute is over.
    reply = service.post("/v2/scrape", {"url": site.url("/text"), "timeout": 10_000})
    assert reply.status == 200
    assert "Traceback" not in service.stderr


def test_more_scrapes_than_places_are_answered_429(start_service, site):
    service = start_service(SCRAPER_MAX_PENDING_SCRAPES="3")
    waiting = [send_and_leave(service, site.url("/delay/5")) for _ in range(3)]
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 3)
    reply = service.post("/v2/scrape", {"url": site.url("/text")})
    assert reply.status == 429
    assert int(reply.headers["Retry-After"]) > 0
    assert reply.json["success"] is False
    for connection in waiting:
        with connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_ends_and_good_pages_beside_it_succeed(service, site, name):
    piece, count = HOSTILE[name]
    query = urllib.parse.urlencode({"body": piece, "count": count})
    hostile = {"url": site.url(f"/html?{query}"), "formats": ["markdown", "links"]}
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        attack = threads.submit(service.post, "/v2/scrape", hostile)
        good = [
            threads.submit(service.post, "/v2/scrape", {"url": site.url("/article")})
            for _ in range(5)
        ]
        statuses = [future.result().status for future in good]
        reply = attack.result()
    assert statuses == [200] * 5
    assert reply.status in {200, 500}
    assert reply.json.get("code") != "UNKNOWN_ERROR"


def test_a_conversion_without_end_is_killed_alone(start_service, site):
    service = start_service(
        SCRAPER_CONVERTER_TIMEOUT_S="3", SCRAPER_CONVERTER_PROCESSES="2"
    )
    piece = "<p class=a>word <b>x</b> <i>y</i> <a href=/x>z</a>"
    query = urllib.parse.urlencode({"body": piece, "count": 300_000})
    slow = {"url": site.url(f"/html?{query}"), "formats": ["markdown", "html"]}
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(service.post, "/v2/scrape", slow) for _ in range(2)]
        replies = [attack.result() for attack in attacks]
    assert [reply.status for reply in replies] == [408, 408]
    # The process in place of a killed one may take as long to start as a page may take.
    page = {"url": site.url("/text")}
    assert any(service.post("/v2/scrape", page).status == 200 for _ in range(5))


@pytest.mark.slow
def test_a_conversion_that_eats_memory_is_an_error(start_service, site):
    service = start_service(
        SCRAPER_CONVERTER_MEMORY_MB="320", SCRAPER_CONVERTER_PROCESSES="1"
    )
    piece = "<p>water " * 10
    query = urllib.parse.urlencode({"body": piece, "count": 230_000})
    formats = ["markdown", "html", "rawHtml"]
    body = {"url": site.url(f"/html?{query}"), "formats": formats}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 500
    assert reply.json["code"] == "SCRAPE_ALL_ENGINES_FAILED"
    assert service.post("/v2/scrape", {"url": site.url("/text")}).status == 200
