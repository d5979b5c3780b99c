"""Callers who leave, pages that attack, more work than there is room for."""

from __future__ import annotations

import concurrent.futures
import json
import os
import socket
import urllib.parse
from pathlib import Path

import pytest

from tests.support.waiting import WAIT_S, wait_until

WAITING_CONVERTER = Path(__file__).parents[1] / "waiting_converter"

PATIENCE_MS = 200_000
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
    address = (parts.hostname, parts.port)
    connection = socket.create_connection(address, timeout=WAIT_S)
    body = json.dumps({"url": url, "timeout": 300_000}).encode()
    connection.sendall(
        b"POST /v2/scrape HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (service.key.encode(), len(body), body)
    )
    return connection


def test_clients_that_disconnect_free_their_permits(start_service, site):
    service = start_service(SCRAPER_HOST_CONCURRENCY="2")
    site.forget()
    connections = [send_and_leave(service, site.url("/delay/600")) for _ in range(20)]
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 20)
    wait_until(lambda: len(site.requests) >= 2)
    for connection in connections:
        connection.close()
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 0)
    # Both places at the host are free again, long before ten minutes are over.
    reply = service.post("/v2/scrape", {"url": site.url("/text"), "timeout": 120_000})
    assert reply.status == 200
    assert "Traceback" not in service.stderr


def test_scrapes_above_the_pending_limit_get_a_429(start_service, site):
    service = start_service(SCRAPER_MAX_PENDING_SCRAPES="3")
    held = site.held()
    waiting = [send_and_leave(service, held) for _ in range(3)]
    wait_until(lambda: service.get("/health").json["pendingScrapes"] == 3)
    reply = service.post("/v2/scrape", {"url": site.url("/text")})
    assert reply.status == 429
    assert int(reply.headers["Retry-After"]) > 0
    assert reply.json["success"] is False
    site.release(held)
    for connection in waiting:
        with connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_ends_and_other_pages_succeed_meanwhile(service, site, name):
    piece, count = HOSTILE[name]
    query = urllib.parse.urlencode({"body": piece, "count": count})
    hostile = {
        "url": site.url(f"/html?{query}"),
        "formats": ["markdown", "links"],
        "timeout": PATIENCE_MS,
    }
    harmless = {"url": site.url("/article"), "timeout": PATIENCE_MS}
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        attack = threads.submit(service.post, "/v2/scrape", hostile)
        good = [threads.submit(service.post, "/v2/scrape", harmless) for _ in range(5)]
        statuses = [future.result().status for future in good]
        reply = attack.result()
    assert statuses == [200] * 5
    assert reply.status in {200, 408, 500}
    assert reply.json.get("code") != "UNKNOWN_ERROR"


@pytest.mark.full
def test_a_conversion_without_end_is_killed_alone(start_service, site, tmp_path):
    conversions = tmp_path / "conversions"
    conversions.mkdir()
    service = start_service(
        SCRAPER_CONVERTER_TIMEOUT_S="3",
        SCRAPER_CONVERTER_PROCESSES="2",
        SCRAPER_MARKDOWN_CONVERTER="html2text",
        PYTHONPATH=str(WAITING_CONVERTER),
        CONVERSIONS=str(conversions),
    )
    endless = {"url": site.url("/html?body=Wait+for+ever"), "maxAge": 0}

    def attack():
        """Take all processes; return the ids of those that were at it in time."""
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            replies = list(threads.map(service.post, ["/v2/scrape"] * 2, [endless] * 2))
        assert [reply.status for reply in replies] == [408, 408]
        assert all("s to convert" in reply.json["error"] for reply in replies)
        return [int(path.name) for path in conversions.iterdir()]

    for pid in wait_until(attack):
        wait_until(lambda pid=pid: not is_running(pid))
    # The process in place of a killed one may take as long to start as a page may take.
    page = {"url": site.url("/text")}
    wait_until(lambda: service.post("/v2/scrape", page).status == 200)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
