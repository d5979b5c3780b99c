"""WARC and WACZ files of jobs (API additions, parts 31.3 and 32), read by warcio."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import venv
import zipfile

import pytest
import sqlalchemy as sa
from warcio.archiveiterator import ArchiveIterator

from scraper_service.content.stored_pages import archive_row, compress, pack
from scraper_service.exports.formats import FileSpec, make_writer
from scraper_service.exports.warc import sort_key
from scraper_service.items import KeptResponse
from tests.api.test_exports import fetch, finish
from tests.conftest import Service, _stop
from tests.support.crash import sqlite_of
from tests.support.gauge import Gauge
from tests.support.scripted_site import ScriptedSite, answer, moved, page
from tests.support.waiting import wait_until

ZIPPED = gzip.compress(page(text="A page in gzip.").encode(), mtime=0)
PDF = b"%PDF-1.4\n% not much of a file, but bytes\x00\xff\n"
SITE = {
    "/": page("/a", "/zipped", "/same?x=1", "/same?x=2", "/moved", "/missing"),
    "/a": answer(
        page(text="Alpha."),
        Set_Cookie="id=1",
        X_Odd="\u00e9  b",
        Content_Type="text/html; charset=utf-8",
    ),
    "/zipped": answer(ZIPPED, Content_Type="text/html", Content_Encoding="gzip"),
    "/same?x=1": page(text="The same on two pages."),
    "/same?x=2": page(text="The same on two pages."),
    "/moved": moved("/target"),
    "/target": page(text="Behind a redirect."),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    data = tmp_path_factory.mktemp("archives")
    found = Service(data)
    found.data_dir = data
    yield found
    _stop(found)


def crawl(service, url, **options):
    body = {"url": url, "sitemap": "skip", "deduplicateSimilarURLs": False, **options}
    reply = service.post("/v2/crawl", body)
    assert reply.status == 200, reply.json
    return finish(service, reply.json["id"])


@pytest.fixture(scope="module")
def job(running):
    with ScriptedSite(SITE) as site:
        return site.address, crawl(running, site.url("/"))


def records(data):
    """Return the records of a WARC file: type, URL, headers, head and body."""
    found = ArchiveIterator(io.BytesIO(data), check_digests="raise")
    return [(record, record.raw_stream.read()) for record in found]


def test_each_response_is_a_record_as_it_arrived(running, job):
    address, job_id = job
    data = fetch(running, job_id, "?format=warc")
    assert data.headers["Content-Type"] == "application/warc"
    assert data.headers["Content-Disposition"].endswith('.warc.gz"')
    (info, about), *rest = records(data.body)
    assert (info.rec_type, info.rec_headers.protocol) == ("warcinfo", "WARC/1.1")
    assert b"scraper-service" in about
    pages = running.get(f"/v2/crawl/{job_id}").json["data"]
    assert [r.rec_headers.get_header("WARC-Target-URI") for r, _ in rest] == [
        each["metadata"]["url"] for each in pages
    ]
    by_path = {
        r.rec_headers.get_header("WARC-Target-URI").removeprefix(address): (r, body)
        for r, body in rest
    }
    record, body = by_path["/a"]
    assert (record.rec_type, body) == ("response", page(text="Alpha.").encode())
    assert record.http_headers.get_statuscode() == "200"
    assert record.http_headers.get_header("Set-Cookie") == "id=1"
    assert record.http_headers.get_header("Content-Type") == "text/html; charset=utf-8"
    record, body = by_path["/zipped"]
    assert body == ZIPPED
    assert record.http_headers.get_header("Content-Encoding") == "gzip"
    assert by_path["/missing"][0].http_headers.get_statuscode() == "404"
    assert by_path["/target"][1] == page(text="Behind a redirect.").encode()
    kinds = [by_path[f"/same?x={n}"][0].rec_type for n in (1, 2)]
    assert sorted(kinds) == ["response", "revisit"]
    whole, again = (
        next(r for r, _ in rest if r.rec_type == kind and "same" in str(r.rec_headers))
        for kind in ("response", "revisit")
    )
    for name, other in (("Target-URI", "Target-URI"), ("Date", "Date")):
        assert again.rec_headers.get_header(f"WARC-Refers-To-{name}") == (
            whole.rec_headers.get_header(f"WARC-{other}")
        )


def test_skip_and_limit_count_pages(running, job):
    whole = records(fetch(running, job[1], "?format=warc").body)[1:]
    found = fetch(running, job[1], "?format=warc&skip=1&limit=2")
    assert found.headers["X-Total-Pages"] == "2"
    urls = [r.rec_headers.get_header("WARC-Target-URI") for r, _ in whole]
    assert [
        r.rec_headers.get_header("WARC-Target-URI") for r, _ in records(found.body)[1:]
    ] == urls[1:3]


def test_warcio_accepts_the_warc_file(running, job, tmp_path):
    path = tmp_path / "x.warc.gz"
    path.write_bytes(fetch(running, job[1], "?format=warc").body)
    command = "import sys; from warcio.cli import main; main(sys.argv[1:])"
    words = (sys.executable, "-c", command, "check", "-v", str(path))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "fail" not in done.stdout
    assert done.stdout.count("digest pass") >= 7


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wacz_validator_accepts_the_archive(running, job, tmp_path):
    path = tmp_path / "x.wacz"
    path.write_bytes(fetch(running, job[1], "?format=wacz").body)
    program = tmp_path / "venv"  # its requirements are many, and none of ours
    venv.create(program, with_pip=True)
    pip = (program / "bin" / "python", "-m", "pip", "install", "--quiet", "wacz==0.6.0")
    if subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip("the package wacz cannot be installed")
    words = (program / "bin" / "wacz", "validate", "-f", path)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    damaged = tmp_path / "damaged.wacz"
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(damaged, "w") as changed:
        for name in whole.namelist():
            changed.writestr(name, whole.read(name) + b"\n")
    words = (*words[:-1], damaged)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Validation succeeded" not in done.stdout, "it finds no fault at all"


def test_a_wacz_file_contains_the_files_that_its_datapackage_lists(
    running, job, tmp_path
):
    data = fetch(running, job[1], "?format=wacz").body
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
        stored = {
            each.filename for each in archive.infolist() if not each.compress_type
        }
    assert {"archive/data.warc.gz", "indexes/index.cdx.gz"} <= stored
    package = json.loads(files["datapackage.json"])
    assert package["wacz_version"] == "1.1.1"
    digest = json.loads(files["datapackage-digest.json"])
    assert digest["hash"] == sha256(files["datapackage.json"])
    named = {each["path"]: each for each in package["resources"]}
    assert {*named, "datapackage.json", "datapackage-digest.json"} == set(files)
    for path, each in named.items():
        assert each["bytes"] == len(files[path])
        assert each["hash"] == sha256(files[path])
    warc = files["archive/data.warc.gz"]
    assert warc == fetch(running, job[1], "?format=warc").body
    lines = gzip.decompress(files["indexes/index.cdx.gz"]).decode().splitlines()
    assert lines == sorted(lines)
    for line in lines:
        key, moment, text = line.split(" ", 2)
        facts = json.loads(text)
        start, length = int(facts["offset"]), int(facts["length"])
        [(record, _)] = records(warc[start : start + length])
        assert record.rec_headers.get_header("WARC-Target-URI") == facts["url"]
        assert record.rec_headers.get_header("WARC-Payload-Digest") == facts["digest"]
        assert key == sort_key(facts["url"])
        shown = record.rec_headers.get_header("WARC-Date")
        assert moment == "".join(c for c in shown[:19] if c.isdigit())
    place = json.loads(files["indexes/index.idx"].splitlines()[1].split(b" ", 2)[2])
    assert place["length"] == len(files["indexes/index.cdx.gz"])
    head, *pages = map(json.loads, files["pages/pages.jsonl"].splitlines())
    assert head["format"] == "json-pages-1.0"
    status = running.get(f"/v2/crawl/{job[1]}").json["data"]
    assert [(each["id"], each["url"]) for each in pages] == [
        (each["metadata"]["scrapeId"], each["metadata"]["url"]) for each in status
    ]


def sha256(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["warc", "wacz"])
def test_parts_join_to_the_whole(running, job, name):
    whole = fetch(running, job[1], f"?format={name}")
    size, tag = len(whole.body), whole.headers["ETag"]
    parts = [
        fetch(running, job[1], f"?format={name}", Range=f"bytes={a}-{b - 1}")
        for a, b in ((0, 100), (100, size // 2), (size // 2, size))
    ]
    assert {part.status for part in parts} == {206}
    assert {part.headers["ETag"] for part in parts} == {tag}
    assert b"".join(part.body for part in parts) == whole.body


@pytest.mark.full
def test_a_newer_fetch_of_a_url_does_not_touch_an_older_one(running):
    with Gauge() as site:
        site.wait_s = 0
        url = f"http://{site.server_name}:{site.server_port}/p/"
        options = {"limit": 1, "ignoreRobotsTxt": True}
        first = crawl(running, url, **options, scrapeOptions={"maxAge": 0})
        before = fetch(running, first, "?format=warc").body
        cached = crawl(running, url, **options)  # from the page cache of the team
        newer = crawl(running, url, **options, scrapeOptions={"maxAge": 0})
    assert fetch(running, first, "?format=warc").body == before
    found = [
        records(fetch(running, each, "?format=warc").body)[1]
        for each in (first, cached, newer)
    ]
    dates = [record.rec_headers.get_header("WARC-Date")[:23] for record, _ in found]
    assert dates[0] <= dates[1] < dates[2]
    assert found[0][1] == found[1][1]
    assert "html" in found[1][0].http_headers.get_header("Content-Type")


@pytest.mark.parametrize(
    "options",
    [{"keepSources": False}, {"zeroDataRetention": True}],
)
def test_a_job_without_sources_has_no_archive(running, options):
    with ScriptedSite({"/": page()}) as site:
        found = crawl(running, site.url("/"), limit=1, **options)
    for name in ("warc", "wacz"):
        reply = fetch(running, found, f"?format={name}")
        assert reply.status == 409
        assert reply.lines[0]["code"] == "SOURCES_NOT_STORED"
    assert fetch(running, found).status == 200


@pytest.mark.full
def test_the_operator_may_keep_no_sources(start_service):
    service = start_service(SCRAPER_KEEP_SOURCES="false")
    with ScriptedSite({"/": page()}) as site:
        without = crawl(service, site.url("/"), limit=1)
        chosen = crawl(service, site.url("/"), limit=1, keepSources=True)
    assert fetch(service, without, "?format=warc").status == 409
    assert len(records(fetch(service, chosen, "?format=warc").body)) == 2


@pytest.mark.full
def test_a_database_server_has_the_same_rows(start_service, postgres):
    service = start_service(SCRAPER_DATABASE_URL=postgres())
    with ScriptedSite(SITE) as site:
        found = crawl(service, site.url("/"))
    pages = service.get(f"/v2/crawl/{found}").json["data"]
    assert fetch(service, found).lines == pages
    urls = service.get(f"/v2/crawl/{found}/urls").json["urls"]
    assert fetch(service, found, "?what=urls").lines == urls
    rest = records(fetch(service, found, "?format=warc").body)[1:]
    assert [r.rec_headers.get_header("WARC-Target-URI") for r, _ in rest] == [
        each["metadata"]["url"] for each in pages
    ]


def test_contradictions_are_refused(running, job):
    body = {"url": "http://127.0.0.2/", "keepSources": True, "zeroDataRetention": True}
    reply = running.post("/v2/crawl", body)
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["keepSources"]
    body = {"urls": ["http://127.0.0.2/"], "appendToId": job[1], "keepSources": False}
    reply = running.post("/v2/batch/scrape", body)
    assert reply.status == 400
    assert "appendToId" in reply.json["details"][0]["message"]
    reply = fetch(running, job[1], "?format=warc&what=urls")
    assert reply.status == 400


def test_a_deletion_deletes_the_sources(running):
    with ScriptedSite({"/": page()}) as site:
        found = crawl(running, site.url("/"), limit=1)
    engine = sa.create_engine(sqlite_of(running.data_dir), poolclass=sa.NullPool)
    query = sa.text(
        "SELECT count(*) FROM page_source JOIN job ON job.number = job_number"
        " WHERE job.id = :job"
    )

    def count():
        with engine.connect() as connection:
            return connection.scalar(query, {"job": found})

    assert count() == 1
    assert running.request("DELETE", f"/v2/jobs/{found}").status == 200
    wait_until(lambda: not count())


# -- rows that a site cannot easily make ------------------------------------------------


def kept(**changes):
    facts = {
        "url": "http://example.org/a?b=\u00e9",
        "at": 1_700_000_000.25,
        "engine": "http",
        "head": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        "body": b"<p>body",
        "content_type": "text/html",
    }
    return KeptResponse(**{**facts, **changes})


def written(*responses):
    writer = make_writer(FileSpec(format="warc", at=1_700_000_000.0))
    body = compress(
        json.dumps({"metadata": {"scrapeId": "1", "statusCode": 200}}).encode()
    )
    rows = [archive_row(body, pack(each)) for each in responses]
    data = b"".join([writer.head(), *map(writer.add, rows), writer.end()])
    return records(data)[1:]


def test_the_dom_of_a_browser_is_a_resource():
    [(record, body)] = written(kept(engine="browser"))
    assert (record.rec_type, body) == ("resource", b"<p>body")
    assert record.rec_headers.get_header("Content-Type") == "text/html"
    assert record.rec_headers.get_header("WARC-Date") == "2023-11-14T22:13:20.250000Z"
    assert record.rec_headers.get_header("WARC-Target-URI") == (
        "http://example.org/a?b=%C3%A9"
    )


def test_a_stored_body_without_chunks_has_no_transfer_encoding_header():
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nX: \xe9\r\n\r\n"
    [(record, body)] = written(kept(head=head, body=b"5\r\nplain"))
    assert body == b"5\r\nplain"
    assert record.content_stream().read() == b""
    assert record.http_headers.get_header("Transfer-Encoding") is None
    assert record.http_headers.get_header("X-Archive-Orig-Transfer-Encoding")


def test_a_truncated_body_is_marked():
    [(record, _)] = written(kept(is_cut=True, body=PDF))
    assert record.rec_headers.get_header("WARC-Truncated") == "unspecified"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.Example.org/A/?b=2&a=1", "org,example)/a?a=1&b=2"),
        ("http://example.org:8080", "org,example:8080)/"),
        ("http://127.0.0.1:80/x y", "127.0.0.1)/x%20y"),
        ("http://[bad", "http://[bad"),
    ],
)
def test_keys_of_an_index_sort_by_host(url, key):
    assert sort_key(url) == key
