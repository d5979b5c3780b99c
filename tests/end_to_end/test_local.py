"""Local runs: the command line and ``scrapy crawl``, without service and database."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support import forked_start
from tests.support.linked_site import named, page_number
from tests.support.scripted_site import ScriptedSite, page, sitemap

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "scraper_service")


def run(*command, cwd=ROOT):
    variables = {
        **os.environ,
        "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
        "SCRAPER_RENDER": "never",
    }
    *_, name = command[:3]
    program = forked_start.SCRAPY if name == "scrapy" else forked_start.SERVICE
    return forked_start.run(program, command[3:], variables, cwd)


def crawl(tmp_path, *arguments):
    output = tmp_path / "page.json"
    done = run(
        *(sys.executable, "-m", "scrapy", "crawl", "scrape"),
        *(part for argument in arguments for part in ("-a", argument)),
        *("-O", str(output)),
    )
    text = output.read_text() if output.exists() else ""
    return done, json.loads(text or "null")


def test_scrapy_crawl_writes_the_page(tmp_path, site):
    url = site.url("/redirect/1?to=/article")
    done, pages = crawl(tmp_path, f"url={url}", "formats=markdown,links")
    assert done.returncode == 0, done.stderr
    [page] = pages
    assert page["links"]
    assert page["markdown"].startswith("# ")
    assert page["sourceURL"] == url
    assert page["url"] == site.url("/article")
    assert page["statusCode"] == 200


@pytest.mark.parametrize("spider", ["crawl", "batch"])
def test_a_job_takes_the_options_of_pages_as_json_too(tmp_path, site, spider):
    start = {"crawl": "url", "batch": "urls"}[spider]
    output = tmp_path / "pages.jsonl"
    done = run(
        *(sys.executable, "-m", "scrapy", "crawl", spider),
        *("-a", f"{start}={site.url('/article')}"),
        *("-a", 'options={"formats": ["links"]}', "-O", str(output)),
    )
    assert done.returncode == 0, done.stderr
    first, *_ = map(json.loads, output.read_text().splitlines())
    assert first["url"] == site.url("/article")
    assert "links" in first
    assert "markdown" not in first


def test_scrapy_crawl_writes_a_failed_page_too(tmp_path, site):
    _, [page] = crawl(tmp_path, f"url={site.url('/drop')}")
    assert page["errorCode"] == "SCRAPE_SITE_ERROR"
    assert page["sourceURL"] == site.url("/drop")


def test_scrapy_crawl_makes_no_files_of_ours(tmp_path, site):
    run(
        *(sys.executable, "-m", "scrapy", "crawl", "scrape"),
        *("-a", f"url={site.url('/text')}"),
        *("-s", f"DATA_DIR={tmp_path / 'data'}"),
    )
    assert list(tmp_path.iterdir()) == []


def job(tmp_path, spider, *arguments):
    """Run a spider of a job; return its pages, once nothing else was written."""
    output = tmp_path / "pages.jsonl"
    done = run(
        *(sys.executable, "-m", "scrapy", "crawl", spider),
        *(part for argument in arguments for part in ("-a", argument)),
        *("-O", str(output)),
        *("-s", f"DATA_DIR={tmp_path / 'data'}"),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [output]
    return [json.loads(line) for line in output.read_text().splitlines()]


def test_scrapy_crawl_writes_the_pages_of_a_crawl_up_to_its_limit(tmp_path, site):
    url = site.url(named("30-local").path(0))
    pages = job(tmp_path, "crawl", f"url={url}", "limit=5")
    assert len(pages) == 5
    urls = [page["sourceURL"] for page in pages]
    assert urls[0] == url
    assert len(set(map(page_number, urls))) == 5
    assert all(page["markdown"].startswith("# Page") for page in pages)


def test_scrapy_crawl_writes_the_pages_of_a_batch(tmp_path, site):
    urls = [site.url(path) for path in ("/text", "/drop", "/text", "/article")]
    pages = job(tmp_path, "batch", f"urls={','.join(urls)}")
    assert sorted(page["sourceURL"] for page in pages) == sorted(urls)
    [failed] = [page for page in pages if "error" in page]
    assert failed["sourceURL"] == site.url("/drop")


def test_scrapy_crawl_reads_the_urls_of_a_batch_from_a_file(
    tmp_path, site, tmp_path_factory
):
    urls = [site.url("/text"), site.url("/rss")]
    source = tmp_path_factory.mktemp("lists") / "urls.txt"
    source.write_text("\n".join(urls))
    pages = job(tmp_path, "batch", f"urls=@{source}", "formats=links")
    assert sorted(page["sourceURL"] for page in pages) == sorted(urls)


@pytest.mark.parametrize(
    "argument", ["formats=nope", "formats=screenshot", "nonsense=1", "timeout_ms=x"]
)
def test_scrapy_crawl_refuses_wrong_arguments(tmp_path, site, argument):
    done, pages = crawl(tmp_path, f"url={site.url('/text')}", argument)
    assert done.returncode != 0
    assert not pages
    assert argument.split("=")[-1] in done.stderr or argument in done.stderr


def test_the_command_prints_markdown(site):
    done = run(*COMMAND, "scrape", site.url("/article"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# ")
    assert done.stderr == ""


def test_the_command_prints_json_for_several_formats(site):
    done = run(*COMMAND, "scrape", site.url("/article"), "-f", "links", "-f", "images")
    page = json.loads(done.stdout)
    assert set(page) == {"links", "images", "metadata"}


def test_the_command_writes_a_file(tmp_path, site):
    output = tmp_path / "page.md"
    done = run(*COMMAND, "scrape", site.url("/text"), "-o", str(output))
    assert done.stdout == ""
    assert output.read_text().strip()


def test_the_command_prints_the_error_of_a_failed_page(site):
    done = run(*COMMAND, "scrape", site.url("/drop"))
    assert done.returncode == 1
    assert "SCRAPE_SITE_ERROR" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("scrape", "file:///etc/passwd"), "URL uses unsupported protocol"),
        (("scrape", "http://127.0.0.2/", "-f", "screenshot"), "browser"),
        (("scrape", "http://127.0.0.2/", "-f", "nope"), "nope"),
        (("-s", "NOPE=1", "scrape", "http://127.0.0.2/"), "NOPE"),
        (("scrape",), "URL"),
    ],
)
def test_the_command_refuses_wrong_usage_in_one_sentence(arguments, text):
    done = run(*COMMAND, *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_names_failed_checks(tmp_path):
    wrong = ("-s", "EGRESS_ALLOW=x", "-s", "LANGUAGE_MODEL=x")
    done = run(*COMMAND, *wrong, "doctor", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "fails    egress: SCRAPER_EGRESS_ALLOW entry 'x'" in done.stdout
    assert "fails    language model: setting SCRAPER_LANGUAGE_MODEL: " in done.stdout
    assert "works    python" in done.stdout
    assert "browser" in done.stdout


def test_doctor_names_the_browser_or_the_install_command(tmp_path):
    doctor = ("doctor", "--data-dir", str(tmp_path))
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho Chromium 1.2.3")
    browser.chmod(0o755)
    for path, text in (
        (browser, f"works    browser: {browser}, Chromium 1.2.3"),
        (tmp_path / "none", "apt-get install chromium-headless-shell"),
    ):
        values = ("RENDER=auto", f"CHROMIUM_PATH={path}", "BROWSER_SANDBOX=false")
        settings = (word for value in values for word in ("-s", value))
        assert text in run(*COMMAND, *settings, *doctor).stdout


LISTED = {
    "/": page("/linked", title="Home"),
    "/sitemap.xml": sitemap("{site}/a", "{site}/pricing"),
}


def test_scrapy_crawl_writes_the_links_of_a_map(tmp_path):
    with ScriptedSite(LISTED) as site:
        links = job(tmp_path, "map", f"url={site.url('/')}", "search=pricing")
        assert links == [
            {"url": site.url("/pricing")},
            {"url": site.address, "title": "Home"},
            {"url": site.url("/a")},
            {"url": site.url("/linked")},
        ]


def test_the_map_command_prints_the_urls_of_a_site():
    with ScriptedSite(LISTED) as site:
        done = run(*COMMAND, "map", site.url("/"), "--limit", "2")
        assert done.stdout.split() == [site.address, site.url("/a")]
        assert done.stderr == ""
        done = run(*COMMAND, "map", site.url("/"), "--sitemap", "skip", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines[0] == {"url": site.address, "title": "Home"}


def test_the_map_command_prints_the_error_of_a_failed_map():
    done = run(*COMMAND, "map", "http://nosuch.invalid/")
    assert done.returncode == 1
    assert "SCRAPE_DNS_RESOLUTION_ERROR" in done.stderr
    done = run(*COMMAND, "map", "http://127.0.0.2/", "--limit", "0")
    assert done.returncode == 2
    assert "must be >= 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("serve",),
        ("scrape",),
        ("map",),
        ("crawl",),
        ("jobs",),
        ("keys",),
        ("doctor",),
    ],
    ids=str,
)
def test_every_command_has_help(command):
    done = run(*COMMAND, *command, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout
