"""Exports of jobs over HTTP (API additions, part 32), read by tools of others."""

from __future__ import annotations

import csv
import gzip
import http.client
import io
import itertools
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.parse
import zipfile
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from scraper_service.exports.export_process import CUT as ROWS_CUT
from tests.conftest import KEY, Service, _stop
from tests.support.gauge import Gauge
from tests.support.scripted_site import ScriptedSite, page
from tests.support.stored_jobs import add_pages
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
WITHOUT_LIBRARIES = ROOT / "tests" / "without_exports"
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
SITE = {
    "/": page("/a", "/b", "/missing", "/private", title="=1+1"),
    "/a": page(
        "/",
        text="Words, with a comma and a \u201cquotation\u201d.",
        title="@a",
        head='<meta name="dc.title" content="DC">',
    ),
    "/b": page("/", title="-b"),
    "/robots.txt": {
        "status": 200,
        "headers": {"Content-Type": "text/plain"},
        "body": "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL3ByaXZhdGUK",
    },
}
CUT = (http.client.IncompleteRead, ConnectionError)  # no last chunk
ROWS = 40
ROW_BYTES = 300_000


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with short time-outs and few exports at a time."""
    data = tmp_path_factory.mktemp("exports")
    found = Service(
        data,
        SCRAPER_EXPORT_CONCURRENCY="2",
        SCRAPER_WATCHER_STALL_S="2",
        SCRAPER_EGRESS_ALLOW="127.0.0.2/31",
    )
    found.data_dir = data
    yield found
    _stop(found)


def crawl(service, url, **options):
    reply = service.post("/v2/crawl", {"url": url, "sitemap": "skip", **options})
    assert reply.status == 200, reply.json
    return reply.json["id"]


def finish(service, job_id):
    status = f"/v2/crawl/{job_id}"
    wait_until(lambda: service.get(status).json["status"] != "scraping")
    return job_id


@pytest.fixture(scope="module")
def job(running):
    """A finished crawl with three pages that are delivered."""
    with ScriptedSite(SITE) as site:
        return finish(running, crawl(running, site.url("/")))


@pytest.fixture(scope="module")
def failing(running):
    """A finished batch whose second URL cannot be fetched."""
    with ScriptedSite(SITE) as site:
        urls = [site.url("/a"), "http://127.0.0.3:9/", site.url("/b")]
        reply = running.post("/v2/batch/scrape", {"urls": urls})
        finish(running, reply.json["id"])
    return reply.json["id"]


@pytest.fixture(scope="module")
def large(running):
    """A finished crawl with more bytes than the buffers of a connection."""
    return grown(running)


def grown(service, rows=ROWS):
    """Return a finished crawl with so many large pages."""
    with ScriptedSite({"/": page()}) as site:
        found = finish(service, crawl(service, site.url("/"), limit=1))
    letters = random.Random(1)
    pages = (
        {
            "markdown": letters.randbytes(ROW_BYTES // 2).hex(),
            "metadata": {
                "url": f"http://example.org/{number}",
                "scrapeId": str(number),
            },
        }
        for number in range(rows - 1)
    )
    add_pages(service.data_dir, found, (json.dumps(each).encode() for each in pages))
    return found


class Received:
    """A whole response as bytes."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def rows(self):
        return list(csv.DictReader(io.StringIO(self.body.decode(), newline="")))

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines()]


@contextmanager
def connected(service, path, method="GET", key=KEY, receive_bytes=None, **headers):
    """Send a request; yield the response, whose body the caller reads."""
    address = urllib.parse.urlsplit(service.url)
    connection = http.client.HTTPConnection(address.netloc, timeout=200)
    if receive_bytes is not None:
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.sock.connect((address.hostname, address.port))
    with closing(connection):
        sent = {"Authorization": f"Bearer {key}", "Accept-Encoding": "identity"}
        connection.request(method, path, headers={**sent, **headers})
        yield connection.getresponse()


def fetch(service, job_id, query="", kind="crawl", **options):
    path = f"/v2/{kind}/{job_id}/export{query}"
    with connected(service, path, **options) as response:
        return Received(response)


def test_lines_are_the_pages_of_the_status_byte_for_byte(running, job):
    with connected(running, f"/v2/crawl/{job}") as response:
        status = response.read()
    found = fetch(running, job)
    lines = found.body.splitlines()
    assert b'"data":[%s]}' % b",".join(lines) in status
    assert found.body.endswith(b"\n")
    assert len(lines) == 4 == int(found.headers["X-Total-Pages"])
    assert found.headers["Content-Type"] == "application/x-ndjson"
    assert found.headers["X-Job-Status"] == "completed"
    assert found.headers["Content-Disposition"] == (
        f'attachment; filename="127.0.0.2-{job[:8]}.jsonl"'
    )


def test_file_urls_use_the_host_of_the_service(running, job):
    stored = {"screenshot": "http://artefacts.invalid/artefacts/a.png", "metadata": {}}
    with ScriptedSite({"/": page()}) as site:
        other = finish(running, crawl(running, site.url("/"), limit=1))
    add_pages(running.data_dir, other, [json.dumps(stored).encode()])
    for query in ("?skip=1", "?skip=1&format=csv&fields=screenshot"):
        text = fetch(running, other, query).body.decode()
        assert f"{running.url}/artefacts/a.png" in text


def test_a_csv_export_escapes_formulas_and_keeps_every_text(running, job):
    found = fetch(running, job, "?format=csv")
    data = running.get(f"/v2/crawl/{job}").json["data"]
    assert found.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert list(found.rows[0]) == (
        "url title description language statusCode markdown json scrapeId"
        " metadata.losses".split()
    )
    titles = {row["title"] for row in found.rows}
    assert {"'=1+1", "'@a", "'-b"} <= titles
    texts = [row["markdown"].replace("\r\n", "\n") for row in found.rows]
    assert texts == [each["markdown"] for each in data]
    assert [row["scrapeId"] for row in found.rows] == [
        each["metadata"]["scrapeId"] for each in data
    ]


def test_fields_are_the_columns_and_the_keys(running, job):
    query = "fields=metadata.statusCode,url,metadata"
    [first, *_] = fetch(running, job, f"?{query}").lines
    assert list(first) == ["metadata.statusCode", "url", "metadata"]
    assert first["metadata.statusCode"] == first["metadata"]["statusCode"] == 200
    assert first["url"] == first["metadata"]["url"]
    [row, *_] = fetch(running, job, f"?{query}&format=csv").rows
    assert (row["metadata.statusCode"], row["url"]) == ("200", first["url"])
    assert json.loads(row["metadata"]) == first["metadata"]


def test_a_key_of_a_path_may_have_dots(running, job):
    data = running.get(f"/v2/crawl/{job}").json["data"]
    key = "dc.title"
    assert any(key in each["metadata"] for each in data)
    found = fetch(running, job, f"?fields=metadata.{key},metadata.nothing.here")
    shown = [each["metadata"].get(key) for each in data]
    assert [line[f"metadata.{key}"] for line in found.lines] == shown
    assert {line["metadata.nothing.here"] for line in found.lines} == {None}


def test_an_archive_has_a_file_for_each_page(running, job, tmp_path):
    found = fetch(running, job, "?format=md")
    assert found.headers["Content-Type"] == "application/zip"
    assert found.headers["Content-Disposition"].endswith('.zip"')
    path = tmp_path / "pages.zip"
    path.write_bytes(found.body)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        index = [json.loads(x) for x in archive.read("index.jsonl").splitlines()]
        texts = {name: archive.read(name).decode() for name in names[:-1]}
    assert [line["file"] for line in index] == names[:-1]
    data = running.get(f"/v2/crawl/{job}").json["data"]
    host = urllib.parse.urlsplit(data[0]["metadata"]["url"]).netloc.replace(":", "-")
    assert {f"{host}/index.md", f"{host}/a.md", f"{host}/b.md"} <= set(names)
    for line, each in zip(index, data, strict=True):
        _, head, text = texts[line["file"]].split("---\n", 2)
        facts = each["metadata"]
        assert yaml.safe_load(head) == {
            key: facts[key] for key in ("url", "title", "scrapeId", "statusCode")
        }
        assert text == f"\n{each['markdown']}\n"
        assert line["url"] == facts["url"]
    # The archive may be unpacked by anything: paths of their own host only.
    subprocess.run(["python3", "-m", "zipfile", "-e", path, tmp_path / "x"], check=True)
    assert (tmp_path / "x" / host / "a.md").is_file()


def test_a_parquet_file_has_typed_columns(running, job, failing):
    found = fetch(running, job, "?format=parquet")
    assert found.headers["Content-Type"] == "application/vnd.apache.parquet"
    file = pq.ParquetFile(io.BytesIO(found.body))
    assert (
        file.schema_arrow.names
        == (
            "url title description language statusCode markdown json scrapeId"
            " metadata.losses metadata"
        ).split()
    )
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    data = running.get(f"/v2/crawl/{job}").json["data"]
    rows = file.read().to_pylist()
    assert [json.loads(row["metadata"]) for row in rows] == [
        each["metadata"] for each in data
    ]
    assert [row["markdown"] for row in rows] == [each["markdown"] for each in data]
    assert {row["title"] for row in rows} >= {"=1+1", "@a"}
    assert {row["statusCode"] for row in rows} == {200, 404}
    fields = "fields=metadata.wordCount,metadata.title,metadata.creditsUsed"
    found = fetch(running, job, f"?format=parquet&{fields}")
    table = pq.read_table(io.BytesIO(found.body))
    assert [str(each.type) for each in table.schema] == ["int64", "string", "int64"]
    assert all(row["metadata.creditsUsed"] == 1 for row in table.to_pylist())
    query = "?format=parquet&what=errors&fields=url,code"
    found = fetch(running, failing, query, kind="batch/scrape")
    [row] = pq.read_table(io.BytesIO(found.body)).to_pylist()
    errors = running.get(f"/v2/batch/scrape/{failing}/errors").json["errors"]
    assert row == {key: errors[0][key] for key in ("url", "code")}


@pytest.mark.full
def test_row_groups_are_bounded(running, large):
    file = pq.ParquetFile(io.BytesIO(fetch(running, large, "?format=parquet").body))
    assert file.metadata.num_rows == ROWS
    assert file.num_row_groups > 1
    sizes = {file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)}
    assert max(sizes) <= 8 * 2**20 // ROW_BYTES + 2


def test_exported_errors_and_urls_equal_their_lists(running, failing, job):
    kind = "batch/scrape"
    errors = running.get(f"/v2/{kind}/{failing}/errors").json["errors"]
    assert len(errors) == 1
    found = fetch(running, failing, "?what=errors", kind=kind)
    assert found.lines == errors
    assert found.headers["X-Total-Pages"] == "1"
    [row] = fetch(running, failing, "?what=errors&format=csv", kind=kind).rows
    assert row == errors[0]
    urls = running.get(f"/v2/crawl/{job}/urls").json["urls"]
    assert {each["state"] for each in urls} == {"done", "skipped"}
    assert fetch(running, job, "?what=urls").lines == urls
    part = fetch(running, job, "?what=urls&skip=1&limit=2&fields=url,state")
    assert part.lines == [{k: u[k] for k in ("url", "state")} for u in urls[1:3]]


def test_skip_and_limit_choose_a_part(running, job):
    whole = fetch(running, job).body.splitlines()
    found = fetch(running, job, "?skip=1&limit=2")
    assert found.body.splitlines() == whole[1:3]
    assert found.headers["X-Total-Pages"] == "2"
    beyond = fetch(running, job, "?skip=9")
    assert (beyond.status, beyond.body) == (200, b"")
    assert beyond.headers["X-Total-Pages"] == "0"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("query", ["", "?format=csv"])
def test_texts_are_compressed_on_request(running, job, query):
    plain = fetch(running, job, query)
    packed = fetch(running, job, query, **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["ETag"] != plain.headers["ETag"]
    assert gzip.decompress(packed.body) == plain.body
    refused = fetch(running, job, query, **{"Accept-Encoding": "gzip;q=0"})
    assert refused.headers["Content-Encoding"] is None


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("query", "coding"),
    [
        ("", "identity"),
        ("?format=csv", "gzip"),
        ("?format=md", "gzip"),
        ("?format=parquet", "gzip"),
    ],
)
def test_parts_of_a_finished_job_join_to_the_whole(running, job, query, coding):
    def part(**headers):
        return fetch(running, job, query, **{"Accept-Encoding": coding, **headers})

    whole = part()
    assert whole.headers["Accept-Ranges"] == "bytes"
    size, tag = len(whole.body), whole.headers["ETag"]
    cuts = [0, 1, size // 3, size - 1, size]
    joined = b""
    for start, end in itertools.pairwise(cuts):
        found = part(Range=f"bytes={start}-{end - 1}", **{"If-Range": tag})
        assert found.status == 206
        assert found.headers["Content-Range"] == f"bytes {start}-{end - 1}/{size}"
        assert found.headers["ETag"] == tag
        joined += found.body
    assert joined == whole.body
    assert part(Range="bytes=-5").body == whole.body[-5:]
    assert part(Range="bytes=7-").body == whole.body[7:]
    assert part(Range=f"bytes=7-{size * 2}").body == whole.body[7:]


def test_a_range_needs_no_earlier_read(running):
    with ScriptedSite({"/": page()}) as site:
        fresh = finish(running, crawl(running, site.url("/"), limit=1))
    assert fetch(running, fresh, method="HEAD").headers["Content-Length"] is None
    found = fetch(running, fresh, Range="bytes=2-9")
    whole = fetch(running, fresh)
    assert found.body == whole.body[2:10]
    assert whole.headers["Content-Length"] == str(len(whole.body))
    head = fetch(running, fresh, method="HEAD")
    assert (head.body, head.headers["Content-Length"]) == (b"", str(len(whole.body)))
    assert head.headers["ETag"] == whole.headers["ETag"]


@pytest.mark.full
def test_a_range_of_another_version_is_the_whole(running, job):
    whole = fetch(running, job)
    found = fetch(running, job, Range="bytes=0-3", **{"If-Range": '"other"'})
    assert (found.status, found.body) == (200, whole.body)
    for odd in ("bytes=5-2", "bytes=0-1,4-5", "lines=1-2", "bytes=-"):
        found = fetch(running, job, Range=odd)
        assert (found.status, found.body) == (200, whole.body)
    known = fetch(running, job, **{"If-None-Match": whole.headers["ETag"]})
    assert (known.status, known.body) == (304, b"")


@pytest.mark.parametrize("range_", ["bytes=99999999-", "bytes=-0"])
def test_a_range_past_the_end_is_refused(running, job, range_):
    size = len(fetch(running, job).body)
    found = fetch(running, job, Range=range_)
    assert found.status == 416
    assert found.headers["Content-Range"] == f"bytes */{size}"
    assert found.headers["ETag"] is None
    assert found.lines[0]["success"] is False


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "format=xml",
            "Invalid format: must be one of jsonl, csv, md, parquet, warc, wacz",
        ),
        ("what=links", "Invalid what: must be one of pages, errors, urls"),
        (
            "format=md&what=urls",
            "Invalid what: urls can be exported as jsonl, csv, parquet",
        ),
        ("format=md&fields=url", "Invalid fields: only jsonl, csv, parquet"),
        ("fields=nonsense", "Invalid fields: a path must begin with one of actions"),
        ("fields=wordCount", "; another key of the metadata is metadata.wordCount"),
        ("fields=url,,title", "Invalid fields: a path must begin"),
        ("fields=", "Invalid fields: a path must begin"),
        ("fields=url,url", "each path must be given once, got 'url' twice"),
        (f"fields={'url,' * 100}url", "Invalid fields: must be at most 100 paths"),
        ("what=errors&fields=markdown", "Invalid fields: a path must begin"),
        ("skip=-1", "skip must be an integer from 0"),
        ("limit=0", "limit must be an integer from 1"),
        (
            "formatt=csv",
            "Invalid 'formatt' in the query: the parameters are format, what, fields",
        ),
    ],
)
def test_bad_parameters_are_refused_by_name(running, job, query, words):
    found = fetch(running, job, f"?{query}")
    assert found.status == 400
    assert words in found.lines[0]["error"]


@pytest.mark.full
def test_a_format_without_its_library_is_refused(start_service, tmp_path):
    service = start_service(PYTHONPATH=f"{WITHOUT_LIBRARIES}:{ROOT}")
    with ScriptedSite({"/": page()}) as site:
        found = finish(service, crawl(service, site.url("/"), limit=1))
    exports = service.get("/v2/capabilities").json["data"]["exports"]
    assert [each["name"] for each in exports if each["available"]] == (
        ["jsonl", "csv", "md"]
    )
    for name, extra in (("parquet", "parquet"), ("warc", "warc"), ("wacz", "warc")):
        reply = fetch(service, found, f"?format={name}")
        assert reply.status == 400
        assert reply.lines[0]["code"] == "EXPORT_UNAVAILABLE"
        assert f"scraper-service[{extra}]" in reply.lines[0]["error"]
    assert fetch(service, found, "?format=md").status == 200


def test_unknown_jobs_and_jobs_of_other_teams_are_not_found(running, job):
    assert fetch(running, UNKNOWN).status == 404
    assert fetch(running, "nonsense").status == 400
    assert fetch(running, job, key="fc-wrong").status == 401


def test_an_export_of_a_running_job_has_the_stored_pages(running):
    with Gauge() as site:
        site.wait_s = 0
        url = f"http://{site.server_name}:{site.server_port}/p/"
        found = crawl(
            running,
            url,
            ignoreRobotsTxt=True,
            scrapeOptions={"maxAge": 0, "timeout": 300_000},
            delay=0.2,
        )
        path = f"/v2/crawl/{found}"
        wait_until(lambda: running.get(path).json["completed"] >= 2)
        first = fetch(running, found, Range="bytes=0-1")
        assert first.status == 200  # whole: the bytes may change
        assert first.headers["X-Job-Status"] == "scraping"
        assert first.headers["Accept-Ranges"] == "none"
        assert first.headers["ETag"] is None
        count = int(first.headers["X-Total-Pages"])
        assert len(first.lines) == count >= 2
        refused = fetch(running, found, "?format=parquet")
        assert refused.status == 409
        assert "paused" in refused.lines[0]["error"]
        wait_until(lambda: running.get(path).json["completed"] > count)
        rest = fetch(running, found, f"?skip={count}")
        assert running.request("PATCH", path, {"paused": True}).status == 200
        paused = fetch(running, found, "?format=parquet")
        assert paused.status == 200
        assert paused.headers["Accept-Ranges"] == "none"
        assert pq.read_table(io.BytesIO(paused.body)).num_rows > count
        running.request("DELETE", path)
    finish(running, found)
    whole = fetch(running, found)
    assert whole.headers["X-Job-Status"] == "cancelled"
    assert whole.body.startswith(first.body + rest.body)


# -- the ends of exports that do not come to their end ------------------------------------


def is_free(service, job_id):
    """Return True if every export of the team has ended."""
    try:
        with (
            connected(service, f"/v2/crawl/{job_id}/export", receive_bytes=8192) as one,
            connected(service, f"/v2/crawl/{job_id}/export", receive_bytes=8192) as two,
        ):
            return one.status == two.status == 200
    finally:
        wait_until(lambda: not export_processes(service))


def export_processes(service):
    """Return the ids of the service's export processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if b"exports.export_process" in words and int(parent) == service.pid:
            found.append(int(entry.name))
    return found


def test_a_team_has_a_number_of_exports_at_a_time(running, large):
    path = f"/v2/crawl/{large}/export"
    with (
        connected(running, path, receive_bytes=8192) as one,
        connected(running, path, receive_bytes=8192) as two,
    ):
        assert one.status == two.status == 200
        refused = fetch(running, large)
        assert refused.status == 429
        assert refused.headers["Retry-After"] == "5"
        assert fetch(running, large, method="HEAD").status == 200
    wait_until(lambda: is_free(running, large))


def test_a_client_that_does_not_read_is_cut_off(running, large):
    path = f"/v2/crawl/{large}/export"
    with connected(running, path, receive_bytes=8192) as response:
        assert response.read(10) == b'{"markdown'
        wait_until(lambda: not export_processes(running))
        with pytest.raises(CUT):
            response.read()
    assert is_free(running, large)


def test_a_client_that_goes_away_ends_its_export(running, large):
    path = f"/v2/crawl/{large}/export"
    with connected(running, path, receive_bytes=8192) as response:
        response.read(10)
        assert export_processes(running)
    wait_until(lambda: not export_processes(running))
    assert is_free(running, large)


def test_a_killed_process_leaves_an_incomplete_body(running, large):
    path = f"/v2/crawl/{large}/export"
    with connected(running, path, receive_bytes=8192) as response:
        response.read(10)
        for number in export_processes(running):
            os.kill(number, signal.SIGKILL)
        with pytest.raises(CUT):
            response.read()


def test_a_job_that_is_deleted_cuts_its_export(running):
    found = grown(running)
    with connected(
        running, f"/v2/crawl/{found}/export", receive_bytes=8192
    ) as response:
        response.read(10)
        assert running.request("DELETE", f"/v2/jobs/{found}").status == 200
        with pytest.raises(CUT):
            response.read()
    assert fetch(running, found).status == 404


@pytest.mark.full
def test_a_stop_of_the_service_cuts_its_exports(start_service, tmp_path):
    service = start_service()
    service.data_dir = tmp_path
    found = grown(service)
    path = f"/v2/crawl/{found}/export"
    with connected(service, path, receive_bytes=8192) as response:
        response.read(10)
        processes = export_processes(service)
        assert len(processes) == 1
        assert service.stop() == 0
        with pytest.raises(CUT):
            response.read()
    wait_until(lambda: not Path(f"/proc/{processes[0]}").exists())


def test_every_byte_of_a_large_job_arrives_in_order(running, large):
    found = fetch(running, large)
    assert len(found.lines) == ROWS
    assert [line["metadata"]["scrapeId"] for line in found.lines[1:]] == [
        str(number) for number in range(ROWS - 1)
    ]
    half = len(found.body) // 2
    rest = fetch(running, large, Range=f"bytes={half}-")
    assert found.body[:half] + rest.body == found.body


@pytest.mark.full
def test_urls_of_a_job_that_still_gives_pages_back_have_no_fixed_bytes(running):
    with ScriptedSite(SITE) as site:
        job_id = finish(running, crawl(running, site.url("/")))

    def lease(before, after):
        database = sqlite3.connect(running.data_dir / "jobs.sqlite")
        with closing(database), database:
            text = (
                "UPDATE frontier SET state = ? WHERE state = ?"
                " AND job_number = (SELECT number FROM job WHERE id = ?)"
            )
            database.execute(text, (after, before, job_id))

    done, leased = 3, 2
    lease(done, leased)
    for _ in range(2):  # the length of the first is not that of the second
        reply = fetch(running, job_id, "?what=urls")
        assert reply.headers["Accept-Ranges"] == "none"
        assert reply.headers["ETag"] is None
        assert reply.headers["Content-Length"] is None
        assert reply.body.count(b"leased") == 4
    lease(leased, done)
    reply = fetch(running, job_id, "?what=urls")
    assert reply.headers["Accept-Ranges"] == "bytes"
    assert b"leased" not in reply.body


def test_a_client_that_leaves_before_an_export_begins_leaves_no_traceback():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = f"from scraper_service.exports.export_process import main; main({theirs.fileno()})"
        ours.close()
        done = subprocess.run(
            (sys.executable, "-c", code),
            pass_fds=(theirs.fileno(),),
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (ROWS_CUT, "")
