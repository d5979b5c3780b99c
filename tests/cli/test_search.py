"""Searches from the shell: engines, and what crawls have kept."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import run
from tests.support.scripted_site import ScriptedSite, page
from tests.support.search_engines import SearchEngines

PAGES = {
    f"/p{n}": page("/p0", "/p1", title=f"Page {n}", text=f"Hay for rabbits, part {n}")
    for n in range(2)
}


@pytest.fixture(scope="module")
def pages():
    with ScriptedSite(PAGES) as site:
        yield site


@pytest.fixture(scope="module")
def engines(pages):
    web = [
        {"url": pages.url(path), "title": f"Found {path}", "text": "Hay"}
        for path in PAGES
    ]
    with SearchEngines({"web": web, "news": web}) as running:
        yield running


def test_results_are_printed_for_the_eye_and_for_programs(tmp_path, engines, pages):
    asks = engines.environment("searxng")
    done = run(tmp_path, "search", "hay", "--limit", 1, **asks)
    assert done.stdout == f"Found /p0\n{pages.url('/p0')}\nHay\n\n"
    sources = ("--source", "web", "--source", "news")
    done = run(tmp_path, "search", "hay", *sources, "--json", **asks)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["source"], each["position"]) for each in found] == [
        *(("web", 1), ("web", 2)),
        *(("news", 1), ("news", 2)),
    ]
    options = json.dumps({"scrapeOptions": {"formats": ["markdown"]}})
    done = run(tmp_path, "search", "hay", "--json", "--options", options, **asks)
    scraped = [json.loads(line)["markdown"] for line in done.stdout.splitlines()]
    assert sorted(text.partition("\n")[0] for text in scraped) == [
        "# Page 0",
        "# Page 1",
    ]


def test_pages_of_crawls_are_found_without_a_search_engine(tmp_path, pages):
    own = {"SCRAPER_SEARCH_PROVIDERS": "own"}
    crawl = ("crawl", pages.url("/p0"), "--entire-domain", "-q")
    assert run(tmp_path, *crawl, **own).returncode == 0
    done = run(tmp_path, "search", "rabbit hay", "--json", **own)
    assert done.stdout == ""
    assert "No search engine is configured" in done.stderr
    assert run(tmp_path, *crawl, "--keep", **own).returncode == 0
    done = run(tmp_path, "search", "rabbit hay", "--json", **own)
    urls = [json.loads(line)["url"] for line in done.stdout.splitlines()]
    assert sorted(urls) == [pages.url(path) for path in PAGES]


def test_failures_have_an_exit_code_and_a_sentence(tmp_path, engines):
    done = run(tmp_path, "search", "hay", **engines.environment("brave", "blocked"))
    assert done.returncode == 1
    assert (
        "Error: No search engine answered: Brave gets too many requests" in done.stderr
    )
    done = run(tmp_path, "search", "hay", "--tbs", "soon")
    assert done.returncode == 2
    assert "--tbs: must be qdr:h" in done.stderr
    done = run(tmp_path, "search", "hay", SCRAPER_SEARCH_PROVIDERS="searxng")
    assert done.returncode != 0
    assert "needs SCRAPER_SEARXNG_URL" in done.stderr
    wrong = {
        "googel": "must be one of searxng",
        "collections.OrderedDict": "from_settings",
    }
    for engine, told in wrong.items():
        done = run(tmp_path, "search", "hay", SCRAPER_SEARCH_PROVIDERS=engine)
        assert done.returncode != 0
        (line,) = done.stderr.splitlines()
        assert told in line
