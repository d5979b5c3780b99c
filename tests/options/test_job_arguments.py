"""Spider arguments of jobs, and the round trip of their options through JSON."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.errors import InvalidOptions
from scraper_service.options import formats, jobs, map_search, spider_arguments
from scraper_service.options.jobs import options_from_json, unstructure
from scraper_service.options.scrape import SiteRules
from scraper_service.options.spider_arguments import (
    batch_options,
    crawl_options,
    map_options,
    page_options,
    search_options,
)
from tests.options.test_arguments import PAGES, SCRAPE, STRINGS, TEXT

URL = "https://example.com/a"
CHANGED_ONLY = {"delay_s"}  # options of a batch that only a change sets
CALLER = {"origin", "integration", "audit_username", "scrape"}
HOOK = {"url": "a.com", "headers": {"X-A": "1"}, "events": ["page"], "metadata": {}}


@pytest.mark.parametrize(
    ("defaults", "kind", "address"),
    [
        (spider_arguments.CRAWL_DEFAULTS, jobs.CrawlOptions, "url"),
        (spider_arguments.BATCH_DEFAULTS, jobs.BatchOptions, "urls"),
        (spider_arguments.MAP_DEFAULTS, map_search.MapOptions, "url"),
    ],
)
def test_defaults_are_named_for_every_attribute(defaults, kind, address):
    apart = CALLER | (CHANGED_ONLY if kind is jobs.BatchOptions else set())
    assert defaults.keys() | apart | {address} == attrs.fields_dict(kind).keys()


def test_url_alone_is_a_crawl():
    options = crawl_options({"url": "example.com", "_job": "5"})
    assert (options.url, options.limit) == ("http://example.com", 10_000)
    assert options.origin == "spider"
    assert options.scrape == page_options({"url": URL}).scrape


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("limit", "50", 50),
        ("max_discovery_depth", "0", 0),
        ("max_discovery_depth", "none", None),
        ("delay_s", "1", 1.0),
        ("delay_s", "0.25", 0.25),
        ("delay_s", "none", None),
        ("max_concurrency", "3", 3),
        ("max_concurrency", "", None),
        ("crawl_entire_domain", "true", True),
        ("include_paths", "/a{1,2}", ("/a{1,2}",)),
        ("include_paths", '["/a", "/b"]', ("/a", "/b")),
        ("exclude_paths", "[ab]", ("[ab]",)),
        ("sitemap", "skip", "skip"),
        ("deduplicate_similar_urls", "false", False),
        ("max_path_depth", "3", 3),
        ("prompt", "the docs", "the docs"),
        ("integration", "x", "x"),
        ("webhook", "a.com", jobs.Webhook(url="http://a.com")),
        (
            "webhook",
            json.dumps(HOOK),
            jobs.Webhook(url="http://a.com", headers=(("X-A", "1"),), events=("page",)),
        ),
    ],
)
def test_argument_of_a_crawl_is_read(name, text, value):
    assert getattr(crawl_options({"url": URL, name: text}), name) == value


@pytest.mark.parametrize(
    ("make", "address"), [(crawl_options, "url"), (batch_options, "urls")]
)
def test_page_arguments_and_job_arguments_are_read_together(make, address):
    options = make(
        {address: URL, "formats": "links", "options": '{"timeout_ms": 5000}'}
    )
    assert options.scrape.formats == (formats.Links(),)
    assert options.scrape.timeout_ms == 5000


@pytest.mark.parametrize(
    "text", ["http://a.com,b.com", " http://a.com \n\tb.com ", "http://a.com, b.com,"]
)
def test_urls_of_a_batch_are_split_at_separators(text):
    assert batch_options({"urls": text}).urls == ("http://a.com", "http://b.com")


def test_urls_of_a_batch_are_read_from_a_file(tmp_path):
    path = tmp_path / "urls.txt"
    path.write_text("http://a.com/x,y\n\nb.com\n")
    options = batch_options({"urls": f"@{path}", "max_concurrency": "2"})
    assert options.urls == ("http://a.com/x,y", "http://b.com")
    assert options.max_concurrency == 2


@pytest.mark.parametrize(
    ("arguments", "path", "word"),
    [
        ({}, ("url",), "required"),
        ({"url": URL, "colour": "red"}, (), "allowed are origin"),
        ({"url": URL, "urls": "a.com"}, (), "Unrecognized key"),
        ({"url": URL, "limit": "0"}, ("limit",), ">= 1"),
        ({"url": URL, "limit": "-1"}, ("limit",), ">= 1"),
        ({"url": URL, "delay_s": "0"}, ("delay_s",), "> 0"),
        ({"url": URL, "delay_s": "61"}, ("delay_s",), "<= 60"),
        ({"url": URL, "delay_s": "nan"}, ("delay_s",), "number, got 'nan'"),
        ({"url": URL, "sitemap": "none"}, ("sitemap",), "'include', 'skip', 'only'"),
        (
            {"url": URL, "include_paths": "("},
            ("include_paths", 0),
            "regular expression",
        ),
        ({"url": URL, "include_paths": "[5]"}, ("include_paths", 0), "string, got 5"),
        ({"url": URL, "webhook": "ftp://a.com"}, ("webhook",), "protocol"),
        ({"url": URL, "webhook": '{"events": []}'}, ("webhook", "url"), "required"),
        (
            {"url": URL, "webhook": '{"url": "a.com", "headers": {"Host": "b"}}'},
            ("webhook", "headers", "Host"),
            "service",
        ),
        ({"url": URL, "formats": "nope"}, ("formats", 0), "markdown"),
    ],
)
def test_bad_argument_of_a_crawl_is_refused_at_its_path(arguments, path, word):
    with pytest.raises(InvalidOptions) as caught:
        crawl_options(arguments)
    (issue,) = caught.value.issues
    assert issue.path == path
    assert word in issue.message


@pytest.mark.parametrize(
    ("arguments", "path", "word"),
    [
        ({}, ("urls",), "required"),
        ({"urls": " , "}, ("urls",), "at least 1 item"),
        ({"urls": "a.com,ftp://b.com"}, ("urls", 1), "URL uses unsupported"),
        ({"urls": "@/no/such/file"}, ("urls",), "cannot read"),
        ({"urls": "a.com", "limit": "5"}, (), "Unrecognized key"),
    ],
)
def test_bad_argument_of_a_batch_is_refused_at_its_path(arguments, path, word):
    with pytest.raises(InvalidOptions) as caught:
        batch_options(arguments)
    (issue,) = caught.value.issues
    assert issue.path == path
    assert word in issue.message


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("limt", "limit"),
        ("timeout", "timeout_ms"),
        ("waitFor", "wait_for_ms"),
        ("max_age", "max_age_ms"),
        ("delay", "delay_s"),
        ("maxDepth", "max_path_depth"),
        ("includePaths", "include_paths"),
    ],
)
def test_an_api_name_is_refused_with_the_name_of_the_argument(name, close):
    with pytest.raises(InvalidOptions) as caught:
        crawl_options({"url": URL, name: "5"})
    (issue,) = caught.value.issues
    assert f"['{name}']; did you mean '{close}'? allowed are" in issue.message


WEBHOOKS = st.none() | st.builds(
    jobs.Webhook,
    url=TEXT,
    headers=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
    metadata=st.dictionaries(TEXT, st.none() | st.integers() | st.lists(TEXT)),
    events=st.sampled_from([(), ("page",), jobs.EVENTS]),
)
COUNTS = st.none() | st.integers(1, 9)
CRAWLS = st.builds(
    jobs.CrawlOptions,
    url=TEXT,
    limit=st.integers(1, 2**53),
    max_discovery_depth=COUNTS,
    delay_s=st.none() | st.just(1) | st.floats(0.1, 60),
    max_concurrency=COUNTS,
    include_paths=STRINGS,
    exclude_paths=STRINGS,
    sitemap=st.sampled_from(jobs.SITEMAP_MODES),
    max_path_depth=COUNTS,
    webhook=WEBHOOKS,
    scrape=SCRAPE,
    integration=st.none() | TEXT,
)
BATCHES = st.builds(
    jobs.BatchOptions,
    urls=st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    max_concurrency=COUNTS,
    webhook=WEBHOOKS,
    scrape=SCRAPE,
)
ANY = st.one_of(
    st.tuples(st.just("scrape"), PAGES),
    st.tuples(st.just("crawl"), CRAWLS),
    st.tuples(st.just("batch"), BATCHES),
)


@given(ANY)
def test_options_survive_json(pair):
    kind, options = pair
    text = json.dumps(unstructure(options))
    assert options_from_json(kind, json.loads(text)) == options


@pytest.mark.parametrize(
    "change", [{"extra": 1}, {"limit": 0}, {"limit": True}, {"scrape": None}]
)
def test_foreign_json_is_refused(change):
    value = unstructure(crawl_options({"url": URL}))
    with pytest.raises(InvalidOptions):
        options_from_json("crawl", {**value, **change})


def test_arguments_of_a_map():
    options = map_options({"url": "example.com", "_job": "5"})
    assert (options.url, options.search, options.limit) == (
        "http://example.com",
        "",
        5000,
    )
    assert options.include_subdomains
    assert options.scrape.formats == ()
    given = {
        "url": URL,
        "search": "price list",
        "limit": "100000",
        "sitemap": "only",
        "include_subdomains": "false",
        "ignore_query_parameters": "false",
        "filter_by_path": "false",
        "exclude_paths": '["^/a", "^/b"]',
        "timeout_ms": "5000",
    }
    options = map_options(given)
    assert options.search == "price list"
    assert options.exclude_paths == ("^/a", "^/b")
    assert options.scrape.deadline_ms == 5000
    assert options.crawl_entire_domain
    assert not options.allow_subdomains


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "100001"),
        ("search", "x" * 10_001),
        ("sitemap", "none"),
        ("filter_by_path", "yes"),
        ("include_paths", "("),
        ("max_discovery_depth", "1"),
    ],
)
def test_wrong_arguments_of_a_map_are_named(name, value):
    with pytest.raises(InvalidOptions, match=name):
        map_options({"url": URL, name: value})


def test_site_rules_of_a_search_apply_to_results_and_pages():
    rules = '{"blacklist": ["*.Example.org"]}'
    options = search_options({"query": "hay", "site_rules": rules})
    assert options.site_rules == SiteRules(("*.example.org",))
    assert options.scrape is None
    options = search_options({"query": "hay", "site_rules": rules, "formats": "html"})
    assert options.scrape.site_rules == options.site_rules
    assert search_options({"query": "hay"}).site_rules is None


def test_a_bad_domain_of_site_rules_is_refused():
    rules = '{"whitelist": ["no domain"]}'
    with pytest.raises(InvalidOptions, match=r"site_rules\.whitelist\.0: not a domain"):
        page_options({"url": URL, "site_rules": rules})


@pytest.mark.parametrize("sources", ["", " ", ",", "[]", "alexandria", "web"])
def test_a_search_without_a_source_is_a_web_search(sources):
    found = search_options({"query": "hay", "sources": sources}).sources
    assert [each.kind for each in found] == ["web"]
