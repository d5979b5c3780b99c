"""Commands that let a running service do the work."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest

from tests.cli.command import Command, jobs, lines_of, pages_of, run
from tests.cli.test_runs import UNKNOWN, each_once, numbers
from tests.conftest import KEY, Service
from tests.support.linked_site import named
from tests.support.scripted_site import ScriptedSite, answer, page, sitemap, text
from tests.support.search_engines import SearchEngines
from tests.support.waiting import wait_until


@pytest.fixture
def ask(tmp_path, service):
    """Return a function that runs a command against the service."""

    def ask(*arguments, key=service.key, **options):
        variables = {"SCRAPER_SERVER": service.url, "SCRAPER_KEY": key}
        done = run(tmp_path, *arguments, **variables, **options)
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "data").exists()
        return done

    return ask


def test_a_crawl_of_a_service_is_written_here(ask, tmp_path, site):
    name = "15-remote-flaky5"
    done = ask("crawl", site.url(named(name).path(0)), "-o", "pages.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "completed: 12 pages, 3 failed\n"
    found = numbers(pages_of(tmp_path / "pages.jsonl"))
    assert found == each_once(name) - Counter(named(name).flaky_pages())


def test_each_command_works_against_a_server(ask, site):
    done = ask("scrape", site.url("/article"))
    assert done.stdout.startswith("# ")
    done = ask("scrape", site.url("/article"), "-f", "links", "--json")
    assert set(json.loads(done.stdout)) == {"links", "metadata"}
    done = ask("map", site.url("/article"), "--limit", 1)
    assert done.stdout.split() == [site.url("/article")]
    done = ask("scrape", site.url("/drop"))
    assert done.returncode == 1
    text = f"{site.url('/text')}\nfoo bar://"
    done = ask("batch", "-", "--output-format", "csv", stdin=text)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "left out: foo bar://\ncompleted: 1 page\n"


def test_responses_without_warning_and_without_success_are_handled(ask):
    pages = {
        "/": page("/a", title="Start"),
        "/a": page(title="A"),
        "/robots.txt": text("User-agent: *\nDisallow:\n"),
        "/sitemap.xml": sitemap("/", "/a"),
    }
    with ScriptedSite(pages) as scripted:
        done = ask("map", scripted.url("/"))
        assert (done.returncode, done.stderr) == (0, "")
        assert scripted.url("/a") in done.stdout.split()
    for verb in ("map", "scrape"):
        done = ask(verb, "http://nobody.invalid/")
        assert (done.returncode, done.stdout) == (1, "")
        assert "does not resolve" in done.stderr
        assert "(SCRAPE_DNS_RESOLUTION_ERROR)" in done.stderr


def test_a_search_of_a_service_with_an_engine(tmp_path, site):
    found = {"url": site.url("/article"), "title": "Found", "text": "words"}
    with SearchEngines({"web": [found], "news": [], "images": []}) as engines:
        settings = engines.environment("searxng")
        running = Service(tmp_path / "service", **settings)
        variables = {"SCRAPER_SERVER": running.url, "SCRAPER_KEY": KEY}
        done = run(tmp_path, "search", "words", **variables)
        running.stop()
    assert (done.returncode, done.stderr) == (0, "")
    assert found["url"] in done.stdout


def test_a_service_whose_name_does_not_resolve(tmp_path):
    variables = {"SCRAPER_SERVER": "http://nobody.invalid", "SCRAPER_KEY": "fc-x"}
    done = run(tmp_path, "scrape", "https://example.org", **variables)
    assert done.returncode == 1
    assert "cannot reach http://nobody.invalid: " in done.stderr
    assert "check that the service runs there" in done.stderr
    assert "Unknown error" not in done.stderr


def test_a_job_of_a_service_is_left_followed_and_cancelled(ask, tmp_path, site):
    url = site.url(named("2000-slow100-left").path(0))
    job_id = ask("crawl", url, "--detach").stdout.strip()

    def first():
        lines = ask("jobs", "list").stdout.splitlines()
        row = json.loads(lines[0])
        return row["state"] != "queued" and [row]

    listed = wait_until(first)
    assert listed[0] == {
        "id": job_id,
        "kind": "crawl",
        "state": "scraping",
        "pages": listed[0]["pages"],
        "failed": 0,
        "pending": listed[0]["pending"],
        "url": url,
        "created": listed[0]["created"],
    }
    assert json.loads(ask("jobs", "show", job_id).stdout)["state"] == "scraping"
    done = ask("jobs", "cancel", job_id)
    assert done.stdout == f"cancelled {job_id}\n"
    done = ask("jobs", "resume", job_id, "-o", "pages.jsonl")
    assert done.returncode == 1
    assert "cancelled" in done.stderr
    done = ask("jobs", "export", job_id[:8], "-o", "again.csv")
    assert done.returncode == 0
    assert "a job that is cancelled" in done.stderr


def test_a_job_of_a_service_is_paused_resumed_and_retried(ask, site, service):
    urls = [site.held(), site.url("/redirect-loop")]
    body = {"urls": urls, "maxAge": 0, "timeout": 300_000}
    job_id = service.post("/v2/batch/scrape", body).json["id"]
    path = f"/v2/batch/scrape/{job_id}"
    assert ask("jobs", "pause", job_id).stdout == f"paused {job_id}\n"
    assert service.get(path).json["paused"] is True
    site.release(urls[0])
    done = ask("jobs", "resume", job_id, "-o", "pages.jsonl")
    assert "paused" not in service.get(path).json
    failed = len(service.get(f"{path}/errors").json["errors"])
    assert (failed, done.returncode) == (1, 0), done.stderr
    done = ask("jobs", "retry", job_id, "--code", "SCRAPE_TIMEOUT")
    assert done.stdout == f"retried 0 pages of {job_id}\n"
    assert ask("jobs", "retry", job_id).stdout == f"retried 1 page of {job_id}\n"


def test_other_formats_of_a_job_of_a_service_are_made(ask, site, service):
    body = {"urls": [site.url("/article"), site.url("/text")], "maxAge": 0}
    source = service.post("/v2/batch/scrape", body).json["id"]
    _completed(service, source)
    one = ("--url", site.url("/article"))
    done = ask("jobs", "reprocess", source[:8], "-f", "html", "--whole-page", *one)
    assert done.returncode == 0, done.stderr
    assert f"reprocesses 1 page of {source}" in done.stdout
    job_id = done.stdout.split()[1]
    found = _completed(service, job_id)
    assert (found["sourceJobId"], found["completed"]) == (source, 1)
    assert set(found["data"][0]) == {"html", "metadata"}
    done = ask("jobs", "reprocess", source, "-f", "screenshot")
    assert done.returncode == 2
    assert "--format: must be one of" in done.stderr


def _completed(service, job_id: str) -> dict:
    """The state of a batch once it is completed."""
    path = f"/v2/batch/scrape/{job_id}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    return service.get(path).json


def test_jobs_of_a_service_are_listed_after_their_end(ask, site, service):
    job_id = service.post("/v2/batch/scrape", {"urls": [site.url("/text")]}).json["id"]
    wait_until(lambda: service.get(f"/v2/crawl/{job_id}").json["status"] == "completed")
    [line] = ask("jobs", "list", "--limit", 1).stdout.splitlines()
    row = json.loads(line)
    assert (row["id"], row["kind"]) == (job_id, "batch")
    assert (row["state"], row["pages"]) == ("completed", 1)
    shown = json.loads(ask("jobs", "show", "last").stdout)
    assert shown.pop("stats")["pages/completed"] == 1
    assert shown == {**row, "errors": [], "robotsBlocked": []}
    path = "/v2/jobs?kind=crawl,batch_scrape&limit=20"
    with ScriptedSite({path: answer('{"jobs": []}')}) as empty:
        done = ask("jobs", "list", "--server", empty.url("").rstrip("/"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "there are no jobs\n"


def test_a_job_of_a_service_does_not_print_the_log_of_a_local_job(
    tmp_path, site, service
):
    done = run(tmp_path, "crawl", site.url("/text"), "-q", "-o", "pages.jsonl")
    assert done.returncode == 0, done.stderr
    local = jobs(tmp_path)[0]["id"]
    assert json.loads(run(tmp_path, "jobs", "log", "last").stdout)["id"] == local
    refused = run(tmp_path, "jobs", "log", "last", SCRAPER_SERVER=service.url)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a service does not give the log of a job" in refused.stderr
    named = run(tmp_path, "jobs", "log", "last", "--server", service.url)
    assert (named.returncode, named.stderr) == (2, refused.stderr)


def test_ctrl_c_cancels_the_job_of_a_service(tmp_path, site, service):
    url = site.url(named("2000-slow100-cancel").path(0))
    output = tmp_path / "pages.jsonl"
    asked = ("--server", service.url, "--key", service.key)
    with Command(tmp_path, "crawl", url, "-o", output, *asked) as process:
        wait_until(lambda: lines_of(output) >= 1)
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert service.key not in said
    job_id = said.split("jobs export ")[1].split()[0]
    status = service.get(f"/v2/crawl/{job_id}?limit=1").json
    assert status["status"] == "cancelled"
    assert status["completed"] == lines_of(output)


def test_a_reader_that_goes_away_cancels_the_job(tmp_path, site, service):
    url = site.url(named("2000-slow100-gone").path(0))
    asked = ("--server", service.url, "--key", service.key)
    process = Command(tmp_path, "crawl", url, *asked)
    with process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141
    assert said.startswith("cancelled: nobody reads the output any more\n")
    job_id = said.split("jobs export ")[1].split()[0]
    assert service.get(f"/v2/crawl/{job_id}?limit=1").json["status"] == "cancelled"


def test_refusals_of_a_service_are_printed_unchanged(ask, site, service):
    done = ask("jobs", "list", key="fc-wrong")
    assert done.returncode == 1
    assert "SCRAPER_KEY" in done.stderr
    done = ask("crawl", site.url("/text"), "--limit", 0)
    assert done.returncode == 2
    assert "--limit: must be >= 1" in done.stderr
    for verb in ("show", "cancel", "resume", "export"):
        done = ask("jobs", verb, UNKNOWN, *(("-o", "-") if verb == "export" else ()))
        assert done.returncode == 1
        assert "Job not found" in done.stderr
