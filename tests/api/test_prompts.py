"""Crawls asked for by a sentence: params-preview, and ``prompt`` on a crawl."""

from __future__ import annotations

import json

import pytest
from firecrawl import Firecrawl
from firecrawl.v2.types import ScrapeOptions

from tests.api.test_crawl_scope import Crawl
from tests.cli.command import run
from tests.support.scripted_site import ScriptedSite, page, sitemap, text

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SENTENCE = (
    "only blog posts from 2024, at most 50 pages, skip the archive, follow subdomains"
)
PAGES = {
    "/": page("/weblog/2024/a", "/weblog/2023/b", "/about", title="Start"),
    "/weblog/2024/a": page(title="A"),
    "/weblog/2024/c": page(title="C"),
    "/weblog/2023/b": page(title="B"),
    "/weblog/archive/2024/d": page(title="D"),
    "/about": page(title="About"),
    "/sitemap.xml": sitemap("{site}/weblog/2024/c", "{site}/weblog/archive/2024/d"),
}
DERIVED = {
    "limit": 50,
    "allowSubdomains": True,
    "includePaths": ["^/weblog/(?:.*[/_-])?(?:2024)(?:[/_.-]|$)"],
    "excludePaths": ["^/weblog/archive(?:/|$)"],
}


@pytest.fixture(scope="module")
def blog():
    with ScriptedSite(PAGES) as site:
        yield site


@pytest.fixture
def preview(service):
    def ask(url, prompt, status=200, **more):
        body = {"url": url, "prompt": prompt, **more}
        reply = service.post("/v2/crawl/params-preview", body)
        assert reply.status == status, reply
        return reply.json

    return ask


def test_paths_from_a_prompt_are_paths_of_the_site(preview, blog):
    found = preview(blog.url("/"), SENTENCE, origin="x", integration="y")
    assert found == {"success": True, "data": {"url": blog.url("/"), **DERIVED}}


def test_only_the_first_page_and_sitemaps_are_fetched(preview):
    with ScriptedSite(PAGES) as site:
        preview(site.url("/"), SENTENCE)
        assert set(site.paths()) == {"/", "/robots.txt", "/sitemap.xml"}


def test_robots_are_obeyed(preview):
    refused = {**PAGES, "/robots.txt": text("User-agent: *\nDisallow: /")}
    with ScriptedSite(refused) as site:
        preview(site.url("/"), SENTENCE)
        assert "/" not in site.paths()


def test_a_prompt_is_read_without_the_site_if_the_site_fails(preview):
    found = preview("http://127.0.0.2:9/", "only the docs, max 40")
    assert found["data"]["limit"] == 40
    assert "doc" in found["data"]["includePaths"][0]
    assert "could not be read" in found["warning"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"prompt": "x"}, ["url"]),
        ({"url": "site.example", "prompt": "x"}, ["url"]),
        ({"url": "ftp://site.example", "prompt": "x"}, ["url"]),
        ({"url": "https://site.example"}, ["prompt"]),
        ({"url": "https://site.example", "prompt": ""}, ["prompt"]),
        ({"url": "https://site.example", "prompt": "x" * 10_001}, ["prompt"]),
        ({"url": "https://site.example", "prompt": "x", "limit": 1}, []),
    ],
)
def test_bad_preview_bodies_are_refused_at_their_path(service, body, path):
    reply = service.post("/v2/crawl/params-preview", body)
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    assert reply.json["error"].startswith("Invalid request parameters: ")
    assert reply.json["details"][0]["path"] == path


def test_a_prompt_without_a_crawl_option_is_an_error_or_a_warning(
    preview, service, blog
):
    found = preview(blog.url("/"), "hello", 400)
    assert found["error"].startswith("Failed to process natural language prompt")
    body = {"url": blog.url("/about"), "prompt": "hello", "limit": 1}
    reply = service.post("/v2/crawl", body)
    assert reply.status == 200
    assert reply.json["promptGeneratedOptions"] == {}
    assert "hello" in reply.json["warning"]


@pytest.mark.parametrize(
    "prompt",
    ["9" * 5000 + " pages", "9" * 400 + "k pages", "0" * 5000 + "2 pages"],
    ids=["digits", "thousands", "zeros"],
)
def test_a_prompt_of_odd_numbers_is_read(preview, service, blog, prompt):
    assert "error" in preview(blog.url("/"), prompt, 400)
    found = preview(blog.url("/"), f"{prompt}, only the blog")["data"]
    assert found["includePaths"] == ["^/weblog(?:/|$)"]


def test_v1_has_no_prompts(service, blog):
    body = {"url": blog.url("/"), "prompt": SENTENCE}
    assert service.post("/v1/crawl", body).status == 400


@pytest.mark.full
def test_a_crawl_uses_the_options_of_its_prompt(service, blog):
    body = {"url": blog.url("/"), "prompt": SENTENCE, "scrapeOptions": {"maxAge": 0}}
    started = service.post("/v2/crawl", body).json
    assert started["promptGeneratedOptions"] == DERIVED
    assert started["finalCrawlerOptions"] == {
        **DERIVED,
        "crawlEntireDomain": False,
        "allowExternalLinks": False,
        "sitemap": "include",
        "ignoreQueryParameters": False,
        "deduplicateSimilarURLs": True,
    }
    assert "warning" not in started
    done = Crawl(service, f"/v2/crawl/{started['id']}")
    assert sorted(done.urls) == [blog.url("/weblog/2024/a"), blog.url("/weblog/2024/c")]


def test_explain_uses_the_options_of_the_prompt(service, blog):
    paths = ("/about", "/weblog/2024/a")
    body = {
        "url": blog.url("/"),
        "prompt": SENTENCE,
        "urls": list(map(blog.url, paths)),
    }
    results = service.post("/v2/crawl/explain", body).json["results"]
    assert [each["allowed"] for each in results] == [False, True]


def test_options_that_are_given_win(service, blog):
    body = {
        "url": blog.url("/"),
        "prompt": SENTENCE,
        "limit": 1,
        "includePaths": [],
        "allowSubdomains": False,
        "excludePaths": None,
    }
    final = service.post("/v2/crawl", body).json["finalCrawlerOptions"]
    assert (final["limit"], final["includePaths"]) == (1, [])
    assert final["allowSubdomains"] is False
    assert final["excludePaths"] == DERIVED["excludePaths"]


def test_client(service, blog):
    client = Firecrawl(api_key=service.key, api_url=service.url)
    found = client.crawl_params_preview(
        blog.url("/"), "the weblog only, wait 2 seconds between pages"
    )
    assert found.include_paths == ["^/weblog(?:/|$)"]
    assert found.delay == 2
    job = client.crawl(
        blog.url("/"),
        prompt="only the about page, at most 5 pages",
        scrape_options=ScrapeOptions(formats=["markdown"]),
        poll_interval=1,
    )
    assert [page.metadata.url for page in job.data] == [blog.url("/about")]


@pytest.mark.slow
def test_credits_are_needed_and_not_spent(start_service, tmp_path, blog):
    running = start_service(tmp_path)
    made = run(
        tmp_path,
        *("keys", "create", "--team", "poor", "--credits", "1"),
        *("--data-dir", tmp_path),
    )
    key = made.stdout.split()[-1]
    body = {"url": blog.url("/"), "prompt": SENTENCE}
    for _ in range(2):
        assert running.post("/v2/crawl/params-preview", body, key=key).status == 200


def test_local_runs_read_the_words(tmp_path, blog):
    done = run(
        tmp_path,
        *("crawl", blog.url("/"), "--prompt", "skip /weblog, 5 pages", "-o", "a.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    urls = {json.loads(line)["metadata"]["url"] for line in lines}
    assert urls == {blog.url("/"), blog.url("/about")}


def test_a_model_is_tried_before_the_rules(clever, chat, blog):
    body = {"url": blog.url("/"), "prompt": "the interesting things, not too many"}
    said = {"include_paths": ["^/weblog/"], "limit": 7, "sitemap": None}
    chat.behave(answer=said)
    found = clever.post("/v2/crawl/params-preview", body).json
    assert found["data"] == {
        "url": blog.url("/"),
        "includePaths": ["^/weblog/"],
        "limit": 7,
    }
    assert "warning" not in found
    [asked] = chat.asked()
    texts = json.dumps(asked)
    assert "interesting things" in texts
    assert "/weblog/2024/a" in texts


@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        ({"limit": 10**9}, "limit"),
        ({"limit": 10**30}, "limit"),
        ({"limit": 0}, "limit"),
        ({"max_discovery_depth": -1}, "maxDiscoveryDepth"),
        ({"delay_s": 3600}, "delay"),
        ({"exclude_paths": ["("]}, "excludePaths"),
    ],
)
def test_options_that_a_client_may_not_send_are_dropped_from_a_models_reply(
    clever, chat, blog, said, left_out
):
    chat.behave(answer={"include_paths": ["^/weblog/"], **said})
    body = {"url": blog.url("/"), "prompt": "the interesting things"}
    found = clever.post("/v2/crawl/params-preview", body).json
    assert found["data"] == {"url": blog.url("/"), "includePaths": ["^/weblog/"]}
    assert "was left out" in found["warning"]
    assert left_out in found["warning"]
    assert len(chat.asked()) == 1


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("obeys", {"include_paths": ["("]}),
        ("obeys", {"limit": 10**9}),
        ("obeys", {}),
        ("talks", None),
        ("refuses", None),
    ],
)
def test_rules_derive_the_options_if_the_model_fails(clever, chat, blog, mode, said):
    chat.behave(mode, said)
    body = {"url": blog.url("/"), "prompt": SENTENCE}
    found = clever.post("/v2/crawl/params-preview", body).json
    assert found["data"] == {"url": blog.url("/"), **DERIVED}
    assert "rules derived the options" in found["warning"]
    body = {"url": blog.url("/"), "prompt": "hello"}
    reply = clever.post("/v2/crawl", body)
    assert reply.status == 400
    assert reply.json["error"].startswith("Failed to process natural language prompt")
