"""`jobs export` into every kind of file, read by tools of others."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.cli.command import ROOT, environment, run
from tests.support.object_storage import SECRET, ObjectStorage
from tests.support.scripted_site import ScriptedSite, page, text
from tests.support.waiting import WAIT_S, wait_until

SITE = {
    "/": page("/a", "/b", "/gone", "/private", title="=1+1"),
    "/a": page("/", title="A"),
    "/b": page("/", title="B"),
    "/robots.txt": text("User-agent: *\nDisallow: /private\n"),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """A folder with a crawl of a run without a service, and its pages."""
    folder = tmp_path_factory.mktemp("crawled")
    with ScriptedSite(SITE) as site:
        options = ("--sitemap", "skip", "-f", "markdown", "-f", "links")
        done = run(folder, "crawl", site.url("/"), *options)
    assert done.returncode == 0, done.stderr
    return folder, [json.loads(line) for line in done.stdout.splitlines()]


def export(folder, *arguments):
    done = run(folder, "jobs", "export", "last", *arguments)
    assert done.returncode == 0, done.stderr
    assert "4 pages of a job that is completed" in done.stderr
    return done


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["pages.sqlite", "below/pages.db"])
def test_a_database_has_a_row_for_each_page(crawled, name):
    folder, pages = crawled
    for _ in range(2):  # the second time over the first file
        export(folder, "-o", name)
    with closing(sqlite3.connect(folder / name)) as file:
        file.row_factory = sqlite3.Row
        rows = file.execute("SELECT * FROM pages ORDER BY id").fetchall()
        lost = file.execute("SELECT url, code FROM failures").fetchall()
        assert file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert [row["markdown"] for row in rows] == [each["markdown"] for each in pages]
    assert rows[0]["title"] == "=1+1"
    assert [row["statusCode"] for row in rows] == [
        each["metadata"]["statusCode"] for each in pages
    ]
    assert json.loads(rows[0]["links"]) == pages[0]["links"]
    assert json.loads(rows[0]["metadata"]) == pages[0]["metadata"]
    assert lost == []


@pytest.mark.parametrize("make", ["CREATE TABLE mine (a)", None])
def test_other_data_is_left_alone(crawled, make):
    folder, _ = crawled
    path = folder / "mine.sqlite"
    if make is None:
        path.write_text("a text, and no database")
    else:
        with closing(sqlite3.connect(path)) as file:
            file.execute(make)
    before = path.read_bytes()
    done = run(folder, "jobs", "export", "last", "-o", path)
    assert done.returncode == 1
    assert "other data" in done.stderr
    assert path.read_bytes() == before
    path.unlink()


def test_a_parquet_file_has_the_columns_of_the_table(crawled):
    folder, pages = crawled
    export(folder, "-o", "pages.parquet")
    table = pq.read_table(folder / "pages.parquet")
    assert table.column_names[:3] == ["url", "sourceURL", "statusCode"]
    assert table.column_names[-5:] == (
        ["markdown", "links", "warning", "error", "metadata"]
    )
    rows = table.to_pylist()
    assert [row["markdown"] for row in rows] == [each["markdown"] for each in pages]
    assert rows[0]["statusCode"] == 200
    assert json.loads(rows[0]["metadata"]) == pages[0]["metadata"]


def test_an_archive_goes_into_a_file_and_a_pipe(crawled, tmp_path):
    folder, pages = crawled
    export(folder, "-o", "pages.zip")
    with zipfile.ZipFile(folder / "pages.zip") as archive:
        assert archive.testzip() is None
        index = archive.read("index.jsonl").splitlines()
    assert [json.loads(line)["url"] for line in index] == [
        each["metadata"]["url"] for each in pages
    ]


def test_an_unknown_extension_is_an_error_that_lists_known_extensions(crawled):
    folder, _ = crawled
    done = run(folder, "jobs", "export", "last", "-o", "pages.xml")
    assert done.returncode == 2
    assert ".sqlite" in done.stderr
    done = run(folder, "jobs", "export", "last", "--output-format", "sqlite")
    assert done.returncode == 2
    assert "needs a file" in done.stderr


def responses(path):
    """Return the URLs of the responses in a WARC file."""
    with path.open("rb") as file:
        return [
            record.rec_headers.get_header("WARC-Target-URI")
            for record in ArchiveIterator(file, check_digests="raise")
            if record.rec_type == "response"
        ]


def test_an_archive_has_the_responses_of_a_run(crawled):
    folder, pages = crawled
    export(folder, "-o", "pages.warc.gz")
    urls = [each["metadata"]["url"] for each in pages]
    assert responses(folder / "pages.warc.gz") == urls
    export(folder, "-o", "pages.wacz")
    with zipfile.ZipFile(folder / "pages.wacz") as archive:
        assert archive.testzip() is None
        assert len(archive.read("pages/pages.jsonl").splitlines()) == 5


def test_an_archive_comes_from_a_service(start_service, tmp_path):
    service = start_service()
    with ScriptedSite(SITE) as site:
        reply = service.post("/v2/crawl", {"url": site.url("/"), "sitemap": "skip"})
        job_id = reply.json["id"]
        path = f"/v2/crawl/{job_id}"
        wait_until(lambda: service.get(path).json["status"] == "completed")
    where = ("--server", service.url, "--key", service.key)
    done = run(tmp_path, "jobs", "export", job_id, "-o", "x.warc.gz", *where)
    assert done.returncode == 0, done.stderr
    assert "4 pages of a job that is completed" in done.stderr
    urls = [each["metadata"]["url"] for each in service.get(path).json["data"]]
    assert responses(tmp_path / "x.warc.gz") == urls


def test_an_archive_needs_responses_and_the_right_command(tmp_path):
    with ScriptedSite({"/": page()}) as site:
        url = site.url("/")
        refused = run(tmp_path, "crawl", url, "-o", "x.wacz")
        done = run(tmp_path, "crawl", url, "--limit", 1, SCRAPER_KEEP_SOURCES="false")
    assert (refused.returncode, done.returncode) == (2, 0)
    assert "jobs export" in refused.stderr
    done = run(tmp_path, "jobs", "export", "last", "-o", "x.wacz")
    assert done.returncode == 1
    assert "has not kept the responses" in done.stderr
    assert not (tmp_path / "x.wacz").exists()


@pytest.mark.parametrize("command", [("crawl", "x"), ("jobs", "export", "last")])
def test_no_output_goes_into_object_storage(tmp_path, command):
    done = run(tmp_path, *command, "-o", "s3://id:hidden@bucket/run.jsonl")
    assert done.returncode == 2
    assert "-o s3://...: must be a file or folder" in done.stderr
    assert "hidden" not in done.stderr


@pytest.mark.full
def test_feeds_of_scrapy_go_into_object_storage(tmp_path):
    names = ("pages.jsonl", "pages.csv")
    with ScriptedSite(SITE) as site, ObjectStorage() as storage:
        feeds = [part for n in names for part in ("-O", f"s3://{storage.BUCKET}/{n}")]
        command = (sys.executable, "-m", "scrapy", "crawl", "scrape")
        url = f"url={site.url('/a')}"
        done = subprocess.run(
            (*command, "-a", url, "-s", f"DATA_DIR={tmp_path}", *feeds),
            env=environment(**storage.environment),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stderr
        assert sorted(storage.names()) == sorted(names)
        assert site.url("/a") in storage.data("pages.csv").decode()
