"""Bodies that start model jobs, in the versions that have them."""

from __future__ import annotations

import json

import pytest
from firecrawl.v2.methods.extract import _prepare_extract_request
from firecrawl.v2.types import AgentOptions, ScrapeOptions

from scraper_service.api.requests import v1
from scraper_service.errors import InvalidOptions
from scraper_service.options import v2_requests as v2
from scraper_service.options.formats import Json, Markdown
from scraper_service.options.jobs import (
    KINDS,
    MODEL_JOBS,
    kinds_of,
    options_from_json,
    unstructure,
)

URL = "https://example.com/docs"
BOTH = pytest.mark.parametrize("api", [v1, v2], ids=["v1", "v2"])
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def extract(api, **body):
    return api.extract_request({"urls": [URL], **body})


def faults(read, body):
    """Return path and message of each fault of a body."""
    with pytest.raises(InvalidOptions) as caught:
        read(body)
    return [(".".join(map(str, i.path)), i.message) for i in caught.value.issues]


@BOTH
def test_an_extract_reads_whole_pages_for_their_data(api):
    asked = {"prompt": "the price", "schema": SCHEMA, "systemPrompt": "Be exact."}
    options = extract(api, **asked).options
    assert options.urls == (URL,)
    wanted = Json(prompt="the price", schema=SCHEMA, system_prompt="Be exact.")
    assert options.scrape.formats == (wanted,)
    assert options.scrape.only_main_content is False
    assert options.include_subdomains is True
    assert not options.searches
    assert not options.enable_web_search
    assert not options.allow_external_links
    assert not options.show_sources
    assert options.limit is None


def test_defaults_differ_by_version():
    assert extract(v1).options.timeout_ms == 60_000
    assert extract(v2).options.timeout_ms is None
    assert extract(v1).invalid_urls is None
    assert extract(v2).invalid_urls == ()
    hook = extract(v2, webhook="https://h.example/x").options.webhook
    assert hook.url == "https://h.example/x"
    [(_, message)] = faults(v1.extract_request, {"urls": [URL], "webhook": "x"})
    assert "webhook" in message


@BOTH
@pytest.mark.parametrize(
    ("body", "path", "word"),
    [
        ({}, "", "urls or prompt"),
        ({"urls": []}, "", "urls or prompt"),
        ({"urls": [URL] * 11}, "urls", "at most 10"),
        ({"urls": [URL], "limit": 0}, "limit", ">= 1"),
        ({"urls": [URL], "prompt": "x" * 10_001}, "prompt", "at most 10000"),
        ({"urls": [URL], "schema": "text"}, "schema", "object"),
        ({"urls": [URL], "timeout": 0}, "timeout", ">= 1"),
        ({"urls": [URL], "agent": {"model": "x"}}, "agent.model", "FIRE-1"),
        ({"urls": [URL], "wrong": 1}, "", "wrong"),
        (
            {"urls": [URL], "scrapeOptions": {"waitFor": -1}},
            "scrapeOptions.waitFor",
            ">= 0",
        ),
        ({"urls": ["http://"], "prompt": "x"}, "urls.0", "Invalid URL"),
        ({"urls": ["ftp://a.com/*"], "prompt": "x"}, "urls.0", "protocol"),
    ],
)
def test_bad_bodies_are_refused_at_the_path_of_the_field(api, body, path, word):
    [(found, message)] = faults(api.extract_request, body)
    assert found == path
    assert word in message


@BOTH
def test_empty_values_that_clients_send_count_as_absent(api):
    body = {"urls": None, "prompt": "p", "schema": None, "scrapeOptions": None}
    options = api.extract_request(body).options
    assert (options.urls, options.schema, options.searches) == ((), None, True)
    assert api.extract_request({"urls": [], "prompt": "p"}).options.searches


def test_url_wildcards_are_kept_and_share_the_page_limit():
    asked = extract(v2, urls=["a.com/*", " https://b.com/x/* ", URL, URL])
    assert asked.options.urls == ("http://a.com/*", "https://b.com/x/*", URL)
    assert list(asked.options.counts(50, 10)) == [50, 50, 1]
    asked = extract(v2, urls=["a.com/*"], limit=7, enableWebSearch=True, prompt="x")
    assert list(asked.options.counts(50, 10)) == [7, 10]


def test_invalid_urls_are_left_out_with_ignoreInvalidURLs():
    given = [URL, "http://", "ftp://x"]
    assert extract(v2, urls=given).invalid_urls == ("http://", "ftp://x")
    assert extract(v1, urls=given, ignoreInvalidURLs=True).options.urls == (URL,)
    for api, body in ((v1, {}), (v2, {"ignoreInvalidURLs": False})):
        found = faults(api.extract_request, {"urls": given, **body})
        assert [path for path, _ in found] == ["urls.1", "urls.2"]


@BOTH
def test_an_agent_is_a_prompt_at_most(api):
    agent = {"model": "FIRE-1", "prompt": "the founder"}
    assert extract(api, agent=agent).options.prompt == "the founder"
    assert extract(api, agent=agent, prompt="p").options.prompt == "p"
    assert extract(api, agent={"model": "v3-beta"}).options.prompt is None


@BOTH
def test_site_rules_in_both_extract_and_scrape_options_are_refused(api):
    rules = {"blacklist": ["a.com"]}
    options = extract(api, threatProtection=rules).options
    assert options.scrape.site_rules.blacklist == ("a.com",)
    body = {"scrapeOptions": {"threatProtection": rules}, "threatProtection": rules}
    [(path, _)] = faults(api.extract_request, {"urls": [URL], **body})
    assert path == "threatProtection"


@BOTH
def test_scrape_options_of_an_extract_are_read_in_each_version(api):
    asked = {"onlyMainContent": True, "includeTags": ["main"], "formats": ["html"]}
    scrape = extract(api, scrapeOptions=asked).options.scrape
    assert scrape.only_main_content is True
    assert scrape.include_tags == ("main",)
    assert [f.type for f in scrape.formats] == ["json"]


def test_the_body_of_the_public_client_is_taken():
    body = _prepare_extract_request(
        [URL],
        prompt="p",
        schema=SCHEMA,
        system_prompt="s",
        allow_external_links=True,
        enable_web_search=True,
        show_sources=True,
        scrape_options=ScrapeOptions(formats=["markdown"], max_age=0),
        ignore_invalid_urls=True,
        integration="test",
        agent=AgentOptions(model="FIRE-1"),
    )
    options = v2.extract_request(body).options
    assert options.system_prompt == "s"
    assert options.allow_external_links
    assert options.enable_web_search
    assert options.show_sources
    assert options.scrape.max_age_ms == 0


def test_a_text_file_has_markdown_of_the_main_content():
    options = v1.llms_text_options({"url": "a.com", "__experimental_stream": True})
    assert options.url == "http://a.com"
    assert (options.max_urls, options.show_full_text) == (10, False)
    assert options.scrape.formats == (Markdown(),)
    assert options.scrape.only_main_content is True
    assert options.scrape.max_age_ms > 0
    assert v1.llms_text_options({"url": URL, "cache": False}).scrape.max_age_ms == 0


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": URL, "maxUrls": 0}, "maxUrls"),
        ({"url": URL, "maxUrls": 5001}, "maxUrls"),
        ({"url": URL, "cache": "no"}, "cache"),
    ],
)
def test_a_bad_text_file_is_refused(body, path):
    assert [found for found, _ in faults(v1.llms_text_options, body)] == [path]


def test_research_has_bounds():
    options = v1.research_options({"topic": "old name", "origin": "x"})
    assert options.query == "old name"
    assert (options.max_depth, options.max_urls, options.time_limit_s) == (7, 20, 300)
    assert options.formats == ("markdown",)
    body = {"query": "q", "formats": ["json"], "jsonOptions": {"schema": SCHEMA}}
    options = v1.research_options(body)
    assert (options.formats, options.json.schema) == (("json",), SCHEMA)
    assert options.json.prompt == "q"
    everything = {"mode": "llm", "systemPrompt": "s", "prompt": "p", "temperature": 0}
    body = {"query": "q", "formats": ["json"], "jsonOptions": everything}
    assert v1.research_options(body).json.system_prompt == "s"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "query"),
        ({"query": "  "}, "query"),
        ({"query": "q", "maxDepth": 13}, "maxDepth"),
        ({"query": "q", "maxUrls": 1001}, "maxUrls"),
        ({"query": "q", "timeLimit": 29}, "timeLimit"),
        ({"query": "q", "timeLimit": 601}, "timeLimit"),
        ({"query": "q", "formats": ["html"]}, "formats.0"),
        ({"query": "q", "jsonOptions": {}}, "jsonOptions"),
    ],
)
def test_bad_research_is_refused(body, path):
    assert [found for found, _ in faults(v1.research_options, body)] == [path]


def test_model_jobs_survive_json():
    made = [
        extract(v2, prompt="p", schema=SCHEMA, limit=3, webhook="http://a.com").options,
        v1.llms_text_options({"url": URL}),
        v1.research_options({"query": "q", "formats": ["json", "markdown"]}),
        v2.agent_options({"prompt": "p", "schema": SCHEMA, "webhook": "http://a.com"}),
    ]
    assert {type(options) for options in made} == {
        KINDS[name].options for name in kinds_of(MODEL_JOBS)
    }
    for options in made:
        stored = json.loads(json.dumps(unstructure(options)))
        assert options_from_json(options.kind, stored) == options
