"""Crawls and batches of the command line, without a service, from outside."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import sqlite3
from collections import Counter

import click
import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.cli.terminal import choose_id
from tests.cli import slow_close
from tests.cli.command import (
    Command,
    Terminal,
    jobs,
    lines_of,
    pages_of,
    run,
)
from tests.support.linked_site import named, page_number
from tests.support.scripted_site import ScriptedSite, answer, moved, page, text
from tests.support.waiting import wait_until

SMALL = "12-cli"
# Slow enough to be interrupted in the middle, short enough to be finished.
LONG = "150-slow200-cli"


def numbers(pages):
    return Counter(page_number(page["metadata"]["sourceURL"]) for page in pages)


def each_once(name):
    return Counter(range(named(name).size))


@pytest.mark.slow
def test_a_crawl_writes_lines_of_json_to_a_pipe(tmp_path, site):
    url = site.url(named(SMALL).path(0))
    done = run(tmp_path, "crawl", url, "-f", "markdown", "-f", "links")
    assert done.returncode == 0
    pages = [json.loads(line) for line in done.stdout.splitlines()]
    assert numbers(pages) == each_once(SMALL)
    assert set(pages[0]) == {"markdown", "links", "metadata"}
    assert pages[0]["metadata"]["statusCode"] == 200
    assert done.stderr == "completed: 12 pages\n"
    done = run(tmp_path, "crawl", url, "--limit", 3, "-q", "--output-format", "csv")
    assert len(list(csv.DictReader(done.stdout.splitlines()))) >= 3
    assert done.stderr == ""
    assert [job["state"] for job in jobs(tmp_path)] == ["completed"] * 2


def test_a_run_ends_after_all_its_components(tmp_path, site):
    url = site.url(named("1-closed").path(0))
    extension = {"tests.cli.slow_close.SlowClose": 1}
    done = run(tmp_path, "crawl", url, SCRAPER_EXTENSIONS=json.dumps(extension))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / slow_close.NAME).exists()


SCOPED = {
    "/docs/": page("/docs/a", "/docs/b", "/docs/b/deep", "/top", title="Home"),
    "/docs/a": page("/docs/far", title="A | [x](y)"),
    "/docs/b": page(title="B"),
    "/docs/b/deep": page(title="Deep"),
    "/docs/far": page(title="Far"),
    "/top": page(title="Top"),
    "/sitemap.xml": answer(status=404),
}


@pytest.mark.slow
def test_the_options_of_a_crawl_limit_its_scope(tmp_path):
    with ScriptedSite(SCOPED) as site:

        def paths(*options):
            done = run(tmp_path, "crawl", site.url("/docs/"), *options, "-q")
            pages = [json.loads(line) for line in done.stdout.splitlines()]
            found = {page["metadata"]["url"] for page in pages}
            return {url.removeprefix(site.address) for url in found}

        start_ = {"/docs/"}
        below = {"/docs/a", "/docs/b", "/docs/b/deep"}
        assert paths("--depth", 1) == start_ | below
        assert paths("--entire-domain", "--depth", 1) == {*start_, *below, "/top"}
        assert paths("--exclude", "b", "--depth", 1) == {*start_, "/docs/a"}
        options = '{"includePaths": ["/docs/$", "deep"]}'
        assert paths("--options", options) == {*start_, "/docs/b/deep"}


def test_a_folder_gets_a_file_for_each_page_and_an_index(tmp_path):
    pages = {**SCOPED, "/docs/b": moved("{site}/docs/b")}
    with ScriptedSite(pages) as site:
        done = run(tmp_path, "crawl", site.url("/docs/"), "-o", "out/")
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "out"
        lines = pages_of(folder / "index.jsonl")
        delivered = [line for line in lines if line["file"]]
        files = {path.name for path in folder.iterdir()}
        assert files == {"index.md", "index.jsonl", *(d["file"] for d in delivered)}
        by_url = {line["url"].removeprefix(site.address): line for line in lines}
        assert by_url["/docs/a"]["title"] == "A | [x](y)"
        assert by_url["/docs/a"]["status"] == 200
        text = (folder / by_url["/docs/a"]["file"]).read_text()
        assert text.startswith('---\nurl: "http')
        assert "\n---\n\n# A" in text
        assert by_url["/docs/b"]["file"] is None
        assert by_url["/docs/b"]["error"]
        # The next crawl does not mix with it, unless that is wanted.
        done = run(tmp_path, "crawl", site.url("/docs/"), "-o", "out")
        assert done.returncode == 1
        assert "--overwrite" in done.stderr
        done = run(tmp_path, "crawl", site.url("/top"), "-o", "out", "--overwrite")
        assert done.returncode == 0
        [line] = pages_of(folder / "index.jsonl")
        assert line["title"] == "Top"


def test_a_batch_reads_lines_and_names_invalid_urls(tmp_path, site):
    urls = [site.url("/text"), site.url("/drop"), site.url("/text")]
    text = "\n".join(["# mine", "", *urls, "foo bar://"])
    done = run(tmp_path, "batch", "-", "-o", "pages.jsonl", stdin=text)
    assert done.returncode == 0
    found = [
        page["metadata"]["sourceURL"] for page in pages_of(tmp_path / "pages.jsonl")
    ]
    assert found == [urls[0]] * 2
    assert done.stderr == "left out: foo bar://\ncompleted: 2 pages, 1 failed\n"
    job = jobs(tmp_path)[0]
    shown = json.loads(run(tmp_path, "jobs", "show", job["id"]).stdout)
    [error] = shown["errors"]
    assert error["url"] == urls[1]
    assert shown["pages"] == shown["stats"]["pages/completed"] == 2
    (tmp_path / "list.txt").write_text(urls[0])
    assert run(tmp_path, "batch", "list.txt", "-o", "x.csv").returncode == 0
    assert lines_of(tmp_path / "x.csv") == 2


def test_a_batch_of_a_file_that_is_no_utf_8_is_refused(tmp_path):
    (tmp_path / "list.txt").write_bytes(b"http://127.0.0.2/caf\xe9")
    done = run(tmp_path, "batch", "list.txt")
    assert done.returncode == 2
    assert "FILE: it cannot be read: 'utf-8' codec" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow_on("2")
def test_a_stopped_crawl_resumes(tmp_path, site, number):
    name = f"{LONG}-{number.name.lower()}"
    output = tmp_path / "pages.jsonl"
    process = Command(tmp_path, "crawl", site.url(named(name).path(0)), "-o", output)
    with process:
        wait_until(lambda: lines_of(output) >= 3)
        os.kill(process.pid, number)
        said = process.stderr.read()
    written = output.read_text()
    [job] = jobs(tmp_path)
    assert job["state"] == "stopped"
    if number is signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert f"scraper-service jobs resume {job['id']}" in said
        assert lines_of(output) == job["pages"]
        assert "Traceback" not in said
    done = run(tmp_path, "jobs", "resume", job["id"])
    assert done.returncode == 0, done.stderr
    assert numbers(pages_of(output)) == each_once(name)
    # What was there is there again, in its place.
    whole = written[: written.rindex("\n") + 1]
    assert output.read_text().startswith(whole)
    assert jobs(tmp_path)[0]["state"] == "completed"
    assert list((tmp_path / "data" / "runs").iterdir()) == []


@pytest.mark.slow
def test_a_job_is_run_by_one_command_at_a_time(tmp_path, site):
    output = tmp_path / "out" / "index.jsonl"
    url = site.url(named("2000-slow100-taken").path(0))
    with Command(tmp_path, "crawl", url, "-o", "out/") as process:
        wait_until(lambda: lines_of(output) >= 2)
        [job] = jobs(tmp_path)
        assert job["state"] == "running"
        done = run(tmp_path, "jobs", "resume", job["id"])
        assert done.returncode == 1
        assert "run by another command" in done.stderr
        assert run(tmp_path, "jobs", "cancel", job["id"]).returncode == 0
        said = process.stderr.read()
    assert process.returncode == 1
    assert said.startswith("cancelled: ")
    [job] = jobs(tmp_path)
    assert job["state"] == "cancelled"
    assert lines_of(output) >= job["pages"] > 0
    done = run(tmp_path, "jobs", "cancel", job["id"])
    assert done.returncode == 0  # it is what was wanted
    done = run(tmp_path, "jobs", "resume", job["id"], "-o", "again.jsonl")
    assert done.returncode == 1
    assert "cancelled" in done.stderr
    done = run(tmp_path, "jobs", "export", job["id"], "-o", "again/")
    assert done.returncode == 0
    assert (
        pages_of(tmp_path / "again/index.jsonl")[: job["pages"]]
        == (pages_of(output)[: job["pages"]])
    )


@pytest.mark.slow
def test_a_service_on_the_same_data_leaves_a_stopped_crawl_alone(
    tmp_path, site, start_service
):
    output = tmp_path / "pages.jsonl"
    url = site.url(named(f"{LONG}-beside").path(0))
    service = start_service(tmp_path / "data")
    with Command(tmp_path, "crawl", url, "-o", output) as process:
        wait_until(lambda: lines_of(output) >= 3)
        os.kill(process.pid, signal.SIGKILL)
    [job] = jobs(tmp_path)
    # The service takes up jobs in their order: this one is later than the crawl.
    later = service.post("/v2/batch/scrape", {"urls": [site.url("/text")]}).json["id"]
    wait_until(lambda: service.get(f"/v2/crawl/{later}").json["status"] == "completed")
    assert jobs(tmp_path)[1] == job
    assert service.get(f"/v2/crawl/{job['id']}").status == 404
    done = run(tmp_path, "jobs", "resume", job["id"])
    assert done.returncode == 0, done.stderr
    assert numbers(pages_of(output)) == each_once(f"{LONG}-beside")


@pytest.mark.slow
def test_a_stopped_crawl_is_kept_for_more_than_a_day(tmp_path, site):
    output = tmp_path / "pages.jsonl"
    url = site.url(named(f"{LONG}-old").path(0))
    with Command(tmp_path, "crawl", url, "-o", output) as process:
        wait_until(lambda: lines_of(output) >= 3)
        process.send_signal(signal.SIGKILL)
    with sqlite3.connect(tmp_path / "data" / "jobs.sqlite") as connection:
        connection.execute("UPDATE job SET expires_at = 1, created_at = 1")
    [job] = jobs(tmp_path)
    done = run(tmp_path, "jobs", "resume", job["id"])
    assert done.returncode == 0, done.stderr
    assert numbers(pages_of(output)) == each_once(f"{LONG}-old")


@pytest.mark.full
def test_a_reader_that_goes_away_stops_the_crawl(tmp_path, site):
    url = site.url(named(f"{LONG}-head").path(0))
    process = Command(tmp_path, "crawl", url)
    with process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141  # as after SIGPIPE
    assert said.startswith("stopped: nobody reads the output any more\nto go on: ")
    assert "Error" not in said
    assert "BrokenPipe" not in said
    [job] = jobs(tmp_path)
    assert job["state"] == "stopped"
    assert f"jobs resume {job['id']}" in said


@pytest.mark.full
def test_a_full_disk_is_an_error_and_no_page_is_lost(tmp_path, site):
    url = site.url(named(SMALL).path(0))
    done = run(tmp_path, "crawl", url, "-o", "/dev/full", "--output-format", "jsonl")
    assert done.returncode == 1
    assert "/dev/full: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    job_id = re.search(r"jobs resume (\S+)", done.stderr)[1]
    done = run(tmp_path, "jobs", "resume", job_id, "-o", "pages.jsonl")
    assert done.returncode == 0
    assert numbers(pages_of(tmp_path / "pages.jsonl")) == each_once(SMALL)


UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.mark.full(keep=8)
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("crawl",), 2, "Missing argument 'URL'"),
        (("crawl", "ftp://127.0.0.2/"), 2, "Error: URL uses unsupported protocol"),
        (("crawl", "http://a b/"), 2, "Error: Invalid URL: not a host name"),
        (("crawl", "http://127.0.0.2/", "--include", "("), 2, "--include: "),
        (("crawl", "http://127.0.0.2/", "--limit", "0"), 2, "--limit: must be >= 1"),
        (("crawl", "http://127.0.0.2/", "--delay", "61"), 2, "--delay: must be <= 60"),
        (("crawl", "http://127.0.0.2/", "-f", "nope"), 2, "--format: "),
        (
            ("-s", "RENDER=never", "crawl", "http://127.0.0.2/", "-f", "screenshot"),
            2,
            "browser",
        ),
        (("crawl", "http://127.0.0.2/", "-H", "nonsense"), 2, "NAME: VALUE"),
        (("crawl", "http://127.0.0.2/", "--options", "[]"), 2, "JSON object"),
        (("crawl", "http://127.0.0.2/", "--options", '{"x": 1}'), 2, "'x'"),
        (("crawl", "http://127.0.0.2/", "-o", "pages.txt"), 2, "-o pages.txt"),
        (("crawl", "http://127.0.0.2/", "--detach"), 2, "--server"),
        (("batch", "nosuch.txt"), 2, "nosuch.txt"),
        (("batch", "-"), 2, "FILE: it has no URLs"),
        (("jobs", "retry", "last", "--code", "FOO"), 2, "'FOO' is not one of 'CONCUR"),
        (("jobs", "show", "12"), 2, "must be the id of a job"),
        (("jobs", "show", UNKNOWN), 1, "no jobs are kept in data"),
        (("jobs", "list", "--server", "http://127.0.0.1:1"), 1, "Connection refused"),
        (("jobs", "list", "--server", "ftp://x"), 2, "--server"),
        (("jobs", "list", "--server", "x", "--data-dir", "y"), 2, "--data-dir"),
        (("-s", "PORT", "jobs", "list"), 2, "-s PORT: must be NAME=VALUE\n"),
        (
            ("-s", "SENTRY_DSN=x", "jobs", "list"),
            2,
            "SENTRY_DSN; the log has each error",
        ),
        (("-s", "FOO=1", "jobs", "list"), 2, "no setting has the name FOO; see docs/"),
        (
            ("-s", "RETENTION_DAY=1", "jobs", "list"),
            2,
            "did you mean 'RETENTION_DAYS'?",
        ),
        (("-s", "SCRAPER_PORT=1", "jobs", "list"), 2, "did you mean 'PORT'?"),
        (("audit", "--since", "foo"), 2, "'--since': must be a day or a time in ISO"),
    ],
)
def test_wrong_usage_is_an_error_of_one_sentence(
    monkeypatch, tmp_path, arguments, code, text
):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.stderr
    assert text in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("http://127.0.0.2/", "-o", "/proc/x/y.csv"), "/proc/x"),
        (("http://127.0.0.2/", "--data-dir", "/proc/x"), "/proc/x"),
        (("http://nosuch.invalid/",), "completed: 0 pages, 1 failed\n"),
        (("http://nosuch.invalid/",), "does not resolve"),
    ],
)
def test_a_crawl_without_pages_names_the_reason(tmp_path, arguments, text):
    done = run(tmp_path, "crawl", *arguments)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_urls_that_a_rule_leaves_out_are_no_failures(tmp_path):
    pages = {
        "/": page("/a", title="Home"),
        "/a": page(title="A"),
        "/robots.txt": text("User-agent: *\nDisallow: /secret\n"),
        "/sitemap.xml": answer(status=404),
    }
    with ScriptedSite(pages) as site:
        done = run(tmp_path, "crawl", site.url("/secret"), "-o", "out/")
        assert done.returncode == 1
        first, why, last = done.stderr.splitlines()
        assert first == "completed: 0 pages, 1 left out"
        assert why.startswith("The job ended without a page. ")
        assert f"{site.url('/secret')}: " in why  # not the sitemap that is missing
        assert last == "left out: 1 that robots.txt refuses"
        [line] = pages_of(tmp_path / "out" / "index.jsonl")
        assert "robots.txt" in line["leftOut"]
        shown = json.loads(run(tmp_path, "jobs", "show", "last").stdout)
        assert shown["robotsBlocked"] == [site.url("/secret")]
        done = run(tmp_path, "crawl", site.url("/"), "--include", "nothing")
    assert done.returncode == 1
    assert re.match(r"completed: 0 pages, \d left out\n", done.stderr)
    assert "failed" not in done.stderr
    assert "that match no --include (includePaths)" in done.stderr


def test_a_crawl_of_an_error_page_names_its_status(tmp_path):
    with ScriptedSite({}) as site:
        done = run(tmp_path, "crawl", site.url("/"), "-o", "pages.jsonl")
    assert done.stderr.splitlines() == [
        "completed: 1 page",
        "The start page answered with HTTP status 404.",
    ]


@pytest.mark.full
def test_a_crawl_without_changes_succeeds(tmp_path):
    pages = {"/": page("/a", title="Home"), "/a": page(title="A")}
    with ScriptedSite(pages) as site:
        assert run(tmp_path, "crawl", site.url("/"), "-o", "a.jsonl").returncode == 0
        [first] = jobs(tmp_path)
        since = json.dumps({"since": first["id"]})
        done = run(tmp_path, "crawl", site.url("/"), "--options", since, "-o", "b/")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "completed: 0 pages, 2 left out",
        f"No page has changed since job {first['id']}: 2 pages are as they were.",
        "left out: 2 that have not changed since the earlier crawl (since)",
    ]


@pytest.mark.full
def test_other_formats_are_made_of_stored_pages_without_their_site(tmp_path):
    pages = {"/": page("/a", title="One"), "/a": page(title="Two")}
    with ScriptedSite(pages) as found:
        urls = [found.url("/"), found.url("/a")]
        done = run(tmp_path, "crawl", urls[0], "-o", "pages.jsonl")
        assert done.returncode == 0, done.stderr
    done = run(tmp_path, "jobs", "reprocess", "last", "-f", "html", "-f", "links")
    assert done.returncode == 0, done.stderr
    job_id = done.stdout.split()[1]
    assert "reprocesses 2 pages of" in done.stdout
    done = run(tmp_path, "jobs", "resume", job_id, "-o", "again.jsonl")
    assert done.returncode == 0, done.stderr
    again = {
        each["metadata"]["url"]: each for each in pages_of(tmp_path / "again.jsonl")
    }
    assert sorted(again) == sorted(urls)
    assert again[urls[0]]["links"] == urls[1:]
    assert "<h1>Two</h1>" in again[urls[1]]["html"]
    wrong = run(tmp_path, "jobs", "reprocess", job_id, "--url", "https://x.example/")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "has no page https://x.example/" in wrong.stderr


@pytest.mark.full
def test_a_table_of_a_resumed_and_an_exported_job_has_its_formats(tmp_path, site):
    (tmp_path / "schema.json").write_text('{"title": "string"}')
    asked = ("-f", "json,summary", "--schema", "schema.json", "-o", "a/b/out.csv")
    done = run(tmp_path, "batch", "-", *asked, stdin=site.url("/article"))
    assert done.returncode == 0, done.stderr
    done = run(tmp_path, "jobs", "export", "last", "-o", "again.csv")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "a/b/out.csv").read_bytes()
    assert (tmp_path / "again.csv").read_bytes() == written
    [row] = csv.DictReader(written.decode().splitlines(keepends=True))
    assert set(json.loads(row["json"])) == {"title"}
    assert row["summary"]
    assert "markdown" not in row


def test_a_job_is_named_by_the_beginning_of_its_id():
    ids = ["abcd1111", "abcd2222", "eeee"]
    assert choose_id("last", ids) == choose_id("abcd1", ids) == "abcd1111"
    for start_, message in (
        ("abcd", "2 jobs have an id abcd...: abcd1111, abcd2222"),
        ("ffff", "no job has an id ffff...; see `jobs list`"),
    ):
        with pytest.raises(click.ClickException) as caught:
            choose_id(start_, ids)
        assert caught.value.message == message
    with pytest.raises(click.ClickException, match="there are no jobs"):
        choose_id("last", [])


@pytest.mark.slow
def test_an_unknown_job_is_named(tmp_path, site):
    run(tmp_path, "batch", "-", "-q", stdin=site.url("/text"))
    for verb in ("show", "cancel", "resume", "export"):
        done = run(tmp_path, "jobs", verb, UNKNOWN)
        assert done.returncode == 1
        assert f"no job has the id {UNKNOWN}" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("columns", [80, 40])
def test_a_terminal_shows_progress_in_one_line(tmp_path, site, columns):
    url = site.url(named(f"40-slow300-tty{columns}").path(0))
    terminal = Terminal(tmp_path, "crawl", url, "-o", "p.jsonl", columns=columns)
    assert terminal.end() == 0
    rows = terminal.rows
    assert max(map(len, rows[:-1])) <= columns
    assert any(re.search(r"[1-9]\d* done  \d+ failed  \d+ pending", r) for r in rows)
    assert rows[-1] == "completed: 40 pages"
    assert terminal.seen.endswith(
        "\x1b[?25h" + terminal.seen.rpartition("\x1b[?25h")[2]
    )
    assert any("127.0.0.2" in row for row in rows) == (columns == 80)
    assert lines_of(tmp_path / "p.jsonl") == 40


def test_ctrl_c_on_a_terminal_prints_the_command_that_resumes(tmp_path, site):
    url = site.url(named("2000-slow1000-ctrl").path(0))
    terminal = Terminal(tmp_path, "crawl", url, NO_COLOR="1")
    terminal.until("200 http")  # without -o, pages are listed
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "\x1b[3" not in terminal.seen  # colours
    [job] = jobs(tmp_path)
    assert job["state"] == "stopped"
    assert terminal.rows[-1] == f"to go on: scraper-service jobs resume {job['id']}"
    assert "Traceback" not in terminal.seen
    # A second one does not wait for anything.
    terminal = Terminal(tmp_path, "jobs", "resume", "last", "-o", "x.jsonl")
    terminal.until("pending")
    terminal.press("\x03")
    terminal.until("stopping")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "leaked" not in terminal.seen  # semaphores of the converter pool
    assert run(tmp_path, "jobs", "cancel", job["id"][:8]).returncode == 0


def test_titles_of_strangers_do_not_steer_the_terminal(tmp_path):
    evil = "<title>\x1b]0;owned\x07\x1b[2Jtitle\u202e</title><p>Text is here.</p>"
    with ScriptedSite(
        {"/": answer(evil, Content_Type="text/html; charset=utf-8")}
    ) as s:
        terminal = Terminal(tmp_path, "crawl", s.url("/"), columns=100)
        assert terminal.end() == 0
    assert "\x1b]0;" not in terminal.seen
    assert "\x1b[2J" not in terminal.seen
    assert "\u202e" not in terminal.seen
    assert any(row.startswith("200 http") for row in terminal.rows)
    terminal = Terminal(tmp_path, "jobs", "list")
    assert terminal.end() == 0
    assert terminal.rows[0].endswith("completed, 1 done, 0 failed")


def test_json_is_requested_by_a_schema_file_and_a_prompt(tmp_path, site):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    asked = ("-f", "json", "--schema", "schema.json", "--prompt", "the title")
    done = run(tmp_path, "scrape", site.url("/article"), *asked)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).keys() == {"title"}
    assert "answered by rules" in done.stderr
    url = site.url(named(SMALL).path(0))
    asked = ("-f", "json", "--schema", "-", "--json-prompt", "a", "--limit", 2)
    done = run(tmp_path, "crawl", url, *asked, stdin=json.dumps(schema))
    pages = [json.loads(line) for line in done.stdout.splitlines()]
    assert {page["metadata"]["answeredBy"] for page in pages} == {"rules"}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--schema", "none.json", "-f", "json"), "none.json cannot be read"),
        (("--schema", "bad.json", "-f", "json"), "must be a JSON object"),
        (("--prompt", "a"), "go with --format json"),
        (("-f", "json", "--schema", "remote.json"), "only references inside"),
    ],
)
def test_an_invalid_schema_is_wrong_usage(tmp_path, arguments, said):
    (tmp_path / "bad.json").write_text("[]")
    (tmp_path / "remote.json").write_text('{"$ref": "https://a.example/"}')
    done = run(tmp_path, "scrape", "https://example.com", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.full
def test_a_run_whose_job_is_paused_ends_with_a_message(tmp_path, site):
    name = "60-slow2000-paused"  # outlasts two commands, also on a busy machine
    output = tmp_path / "pages.jsonl"
    with Command(
        tmp_path, "crawl", site.url(named(name).path(0)), "-o", output
    ) as process:
        wait_until(lambda: lines_of(output) >= 1)
        [job] = jobs(tmp_path)
        assert run(tmp_path, "jobs", "pause", job["id"]).returncode == 0
        said = process.stderr.read()
    assert process.returncode == 1
    assert f"scraper-service jobs log {job['id'][:8]}" in said
    assert "paused: " in said
    assert "jobs resume" in said
    acts = run(tmp_path, "audit", "--json").stdout.splitlines()
    assert "job.paused" in [json.loads(line)["action"] for line in acts]
    done = run(tmp_path, "jobs", "resume", job["id"])
    assert done.returncode == 0, done.stderr
    assert numbers(pages_of(output)) == each_once(name)
