"""Uploads in two steps: a URL that takes the bytes once, then the call that parses them."""

from __future__ import annotations

import concurrent.futures
import http.client
import os
import sqlite3
import time
import urllib.parse

import pytest

from scraper_service.api.request_body import MAX_FILE_BYTES
from scraper_service.storage.files.uploads import (
    FOLDER,
    LIFE_S,
    MAX_OPEN,
    MAX_STORED,
)
from tests.conftest import Service, _stop
from tests.support.openapi import Documented
from tests.support.waiting import wait_until

KEYS = ("fc-first", "fc-second")
HTML = (
    b"<!doctype html><title>Tides</title><main><h1>Tides</h1><p>High at six.</p></main>"
)
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
NAMED = {"filename": "tides.html", "contentType": "text/html"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two teams."""
    data = tmp_path_factory.mktemp("uploads")
    running = Service(data, SCRAPER_API_KEYS=",".join(KEYS))
    running.data_dir = data
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def documented(shared):
    return Documented(shared)


def announce(service, key=KEYS[0], **changes):
    reply = service.post("/v2/parse/upload-url", {**NAMED, **changes}, key=key)
    assert reply.status == 200, reply.json
    return reply.json["data"]


def put(service, found, body=HTML, **headers):
    path = urllib.parse.urlsplit(found["uploadUrl"]).path
    sent = {"Content-Type": "text/html", **headers}
    return service.request("PUT", path, raw=body, headers=sent, key=None)


def parse(service, ref, key=KEYS[0], **options):
    return service.post("/v2/parse", {"uploadRef": ref, **options}, key=key)


def stored(service):
    folder = service.data_dir / FOLDER
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def test_a_file_is_sent_without_a_key_and_parsed_once(shared, documented):
    reply = shared.post("/v2/parse/upload-url", NAMED, key=KEYS[0])
    documented.check("POST", "/v2/parse/upload-url", reply)
    found = reply.json["data"]
    assert found["method"] == "PUT"
    assert found["headers"] == {"Content-Type": "text/html"}
    assert found["maxSizeBytes"] == MAX_FILE_BYTES
    assert found["uploadUrl"].startswith(f"{shared.url}/uploads/")
    assert found["uploadRef"] not in found["uploadUrl"]
    sent = documented.check("PUT", "/uploads/{token}", put(shared, found))
    assert (sent.status, sent.json) == (200, {"success": True})
    again = documented.check("PUT", "/uploads/{token}", put(shared, found, b"other"))
    assert again.status == 409
    assert len(stored(shared)) == 1
    page = parse(shared, found["uploadRef"], formats=["markdown", "html"])
    assert page.status == 200, page.json
    data = page.json["data"]
    assert data["markdown"] == "# Tides\n\nHigh at six."
    assert "<h1>" in data["html"]
    assert data["metadata"]["sourceURL"] == "tides.html"
    assert stored(shared) == []
    for reply in (parse(shared, found["uploadRef"]), put(shared, found)):
        assert reply.status == 404
        assert reply.json == {"success": False, "error": "Upload not found"}


def test_a_file_waits_for_its_bytes(shared):
    found = announce(shared)
    early = parse(shared, found["uploadRef"])
    assert early.status == 400
    assert "PUT" in early.json["error"]
    empty = put(shared, found, b"")
    assert empty.status == 400
    assert "empty" in str(empty.json["details"])
    assert put(shared, found).status == 200
    assert parse(shared, found["uploadRef"]).status == 200


def test_bad_options_leave_the_file_for_another_call(shared):
    found = announce(shared)
    assert put(shared, found).status == 200
    for options in ({"formats": ["x"]}, {"mobile": True}, {"nonsense": 1}):
        assert parse(shared, found["uploadRef"], **options).status == 400
    assert parse(shared, found["uploadRef"], onlyMainContent=False).status == 200


def test_an_upload_belongs_to_its_team(shared):
    found = announce(shared)
    assert put(shared, found).status == 200
    assert parse(shared, found["uploadRef"], KEYS[1]).status == 404
    assert parse(shared, UNKNOWN).status == 404
    assert parse(shared, "x").status == 404
    assert parse(shared, found["uploadRef"], "fc-wrong").status == 401
    assert parse(shared, found["uploadRef"]).status == 200
    assert put(shared, {"uploadUrl": f"{shared.url}/uploads/x"}).status == 404
    wrong = shared.get(urllib.parse.urlsplit(found["uploadUrl"]).path, key=None)
    assert (wrong.status, wrong.headers["Allow"]) == (405, "PUT")


def test_a_single_upload_of_parallel_uploads_succeeds(shared):
    found = announce(shared)
    bodies = [b"<h1>%d</h1>" % n for n in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda body: put(shared, found, body).status, bodies))
        assert sorted(sent) == [200] + [409] * 7
        assert len(stored(shared)) == 1
        refs = [found["uploadRef"]] * 8
        pages = list(pool.map(lambda ref: parse(shared, ref), refs))
    assert sorted(page.status for page in pages) == [200] + [404] * 7
    [page] = [page for page in pages if page.status == 200]
    winner = bodies[sent.index(200)].decode()
    assert page.json["data"]["markdown"] == f"# {winner[4]}"
    assert stored(shared) == []


def test_files_up_to_the_size_limit_are_accepted(shared, documented):
    found = announce(shared, filename="a.txt", contentType="text/plain")
    reply = put(shared, found, b"x " * (6 * 2**20))  # more than a JSON body may have
    assert reply.status == 200
    other = announce(shared, declaredSizeBytes=MAX_FILE_BYTES)
    path = urllib.parse.urlsplit(other["uploadUrl"]).path
    address = urllib.parse.urlsplit(shared.url).netloc
    connection = http.client.HTTPConnection(address)
    connection.putrequest("PUT", path)
    connection.putheader("Content-Length", str(MAX_FILE_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    given = {**NAMED, "declaredSizeBytes": MAX_FILE_BYTES + 1}
    reply = shared.post("/v2/parse/upload-url", given, key=KEYS[0])
    documented.check("POST", "/v2/parse/upload-url", reply)
    assert reply.status == 413
    assert str(MAX_FILE_BYTES) in reply.json["error"]


@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [
        ("a.pdf", "application/pdf", 200),
        ("a.docx", "application/octet-stream", 200),
        ("a", "application/octet-stream", 200),
        ("a", "Text/HTML; charset=utf-8", 200),
        ("a.pdf", "application/x-unknown", 200),
        ("a.log", "text/x-log", 200),
        ("film.mp4", "video/mp4", 400),
        ("film.mp4", "application/octet-stream", 400),
        ("a.xyz", "application/x-unknown", 400),
    ],
)
def test_kinds_that_cannot_be_read_are_refused_at_once(shared, name, kind, status):
    body = {"filename": name, "contentType": kind}
    reply = shared.post("/v2/parse/upload-url", body, key=KEYS[1])
    assert reply.status == status, reply.json
    if status == 400:
        assert reply.json["code"] == "UNSUPPORTED_FILE_TYPE"
        assert name in reply.json["error"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"filename": None}, ["filename"]),
        ({"filename": ""}, ["filename"]),
        ({"filename": "/"}, ["filename"]),
        ({"filename": "x" * 256}, ["filename"]),
        ({"contentType": None}, ["contentType"]),
        ({"contentType": "html"}, ["contentType"]),
        ({"contentType": "text/html\r\nX: y"}, ["contentType"]),
        ({"declaredSizeBytes": -1}, ["declaredSizeBytes"]),
        ({"declaredSizeBytes": "1"}, ["declaredSizeBytes"]),
        ({"size": 1}, []),
    ],
)
def test_an_invalid_announcement_is_a_400(shared, changes, path):
    body = {**NAMED, **changes}
    reply = shared.post("/v2/parse/upload-url", body, key=KEYS[0])
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    assert reply.json["details"][0]["path"] == path


def test_a_reference_and_a_file_exclude_each_other(shared):
    parts = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.html"\r\n\r\n'
        b"<p>a</p>\r\n--x\r\nContent-Disposition: form-data; name="
        b'"options"\r\n\r\n{"uploadRef": "x"}\r\n--x--\r\n'
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    reply = shared.request("POST", "/v2/parse", raw=parts, headers=headers, key=KEYS[0])
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["uploadRef"]
    bare = shared.post("/v2/parse", {}, key=KEYS[0])
    assert (bare.status, bare.json["details"][0]["path"]) == (400, ["uploadRef"])


def test_a_team_has_a_limited_number_of_uploads(shared):
    for _ in range(MAX_OPEN):
        reply = shared.post("/v2/parse/upload-url", NAMED, key=KEYS[1])
        if reply.status != 200:
            break
    reply = shared.post("/v2/parse/upload-url", NAMED, key=KEYS[1])
    assert reply.status == 429
    assert int(reply.headers["Retry-After"]) > 0
    announce(shared)  # of another team


def test_uploads_survive_a_restart_and_expired_uploads_are_deleted(
    start_service, tmp_path
):
    first = start_service()
    kept, late = (announce(first, first.key) for _ in range(2))
    for found in (kept, late):
        assert put(first, found).status == 200
    first.kill()
    folder = tmp_path / FOLDER
    assert len(list(folder.iterdir())) == 2
    with sqlite3.connect(tmp_path / "jobs.sqlite") as database:
        which = (LIFE_S, late["uploadRef"])
        database.execute(
            "UPDATE upload SET expires_at = expires_at - ? WHERE id = ?", which
        )
        [[name]] = database.execute("SELECT file FROM upload WHERE id = ?", which[1:])
        assert late["uploadUrl"].rpartition("/")[2] not in str(
            database.execute("SELECT * FROM upload").fetchall()
        )
    database.close()
    past = time.time() - 3600
    for path in folder.iterdir():
        os.utime(path, (past, past))
    second = start_service()
    assert parse(second, late["uploadRef"], second.key).status == 404
    wait_until(lambda: name not in [path.name for path in folder.iterdir()])
    assert len(list(folder.iterdir())) == 1
    page = parse(second, kept["uploadRef"], second.key)
    assert page.json["data"]["markdown"].startswith("# Tides")
    assert list(folder.iterdir()) == []


def test_a_team_has_a_limited_number_of_files_that_wait(start_service):
    service = start_service()
    refs = []
    for _ in range(MAX_STORED):
        found = announce(service, service.key)
        assert put(service, found).status == 200
        refs.append(found["uploadRef"])
    surplus = announce(service, service.key)
    reply = put(service, surplus)
    assert reply.status == 429
    assert str(MAX_STORED) in reply.json["error"]
    assert parse(service, refs[0], service.key).status == 200
    assert put(service, surplus).status == 200
    # The log has no token that could take a file.
    assert 'PUT "/uploads/..." 200 ' in service.stderr
    assert surplus["uploadUrl"].rpartition("/")[2] not in service.stderr
