"""Bodies that start crawls and batches, in both versions."""

from __future__ import annotations

import attrs
import pytest
from firecrawl.v1 import client
from firecrawl.v2 import types
from firecrawl.v2.methods.batch import prepare_batch_scrape_request
from firecrawl.v2.methods.crawl import _prepare_crawl_request

from scraper_service.api.requests import v1
from scraper_service.errors import InvalidOptions
from scraper_service.options import formats
from scraper_service.options import v2_requests as v2
from scraper_service.options.jobs import (
    COMMON_EVENTS,
    BatchOptions,
    CrawlOptions,
    Webhook,
)
from scraper_service.options.scrape import SiteRules
from scraper_service.options.spider_arguments import BATCH_DEFAULTS, CRAWL_DEFAULTS

URL = "https://example.com/docs"
ID = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
HOOK = Webhook(url="http://a.com")
CALLER = {"origin", "integration", "audit_username", "scrape"}
BOTH = pytest.mark.parametrize("api", [v1, v2], ids=["v1", "v2"])


def crawl(api, **body):
    return api.crawl_options({"url": URL, **body})


def batch(api, **body):
    return api.batch_options({"urls": [URL], **body})


def issues_of(read, api, **body):
    with pytest.raises(InvalidOptions) as caught:
        read(api, **body)
    return caught.value.issues


def test_defaults_are_named_for_every_attribute():
    crawl_names = attrs.fields_dict(CrawlOptions).keys()
    assert CRAWL_DEFAULTS.keys() | CALLER | {"url"} == crawl_names
    batch_names = attrs.fields_dict(BatchOptions).keys()
    changed = {"delay_s"}  # is set by a change of the batch only
    assert BATCH_DEFAULTS.keys() | CALLER | {"urls"} | changed == batch_names


@pytest.mark.parametrize(("api", "depth"), [(v1, 10), (v2, None)])
def test_url_alone_is_a_crawl_with_the_defaults(api, depth):
    defaults = {**CRAWL_DEFAULTS, "max_path_depth": depth}
    scrape = api.page_options({"url": URL}).scrape
    assert api.crawl_options({"url": "a.com"}) == CrawlOptions(
        url="http://a.com", scrape=scrape, **defaults
    )


@pytest.mark.parametrize(("api", "invalid"), [(v1, None), (v2, ())])
def test_urls_alone_are_a_batch_with_the_defaults(api, invalid):
    request = api.batch_options({"urls": ["a.com", "a.com"]})
    scrape = api.page_options({"url": URL}).scrape
    assert request.options == BatchOptions(
        urls=("http://a.com", "http://a.com"), scrape=scrape, **BATCH_DEFAULTS
    )
    assert request.append_to is None
    assert request.invalid_urls == invalid


CRAWL_VALUES = [
    ("limit", 1, "limit", 1),
    ("limit", None, "limit", 10_000),
    ("limit", 5.0, "limit", 5),
    ("maxDiscoveryDepth", 0, "max_discovery_depth", 0),
    ("maxDiscoveryDepth", None, "max_discovery_depth", None),
    ("delay", 0.5, "delay_s", 0.5),
    ("delay", 60, "delay_s", 60),
    ("maxConcurrency", 1, "max_concurrency", 1),
    ("crawlEntireDomain", True, "crawl_entire_domain", True),
    ("allowSubdomains", True, "allow_subdomains", True),
    ("allowExternalLinks", True, "allow_external_links", True),
    ("includePaths", ["/a", "b$"], "include_paths", ("/a", "b$")),
    ("includePaths", ["", "b"], "include_paths", ()),
    ("excludePaths", ["/a"], "exclude_paths", ("/a",)),
    ("regexOnFullURL", True, "regex_on_full_url", True),
    ("ignoreRobotsTxt", True, "ignore_robots_txt", True),
    ("robotsUserAgent", "Bot", "robots_user_agent", "Bot"),
    ("deduplicateSimilarURLs", False, "deduplicate_similar_urls", False),
    ("ignoreQueryParameters", True, "ignore_query_parameters", True),
    ("webhook", None, "webhook", None),
    ("webhook", "a.com", "webhook", HOOK),
    ("webhook", {"url": "a.com"}, "webhook", HOOK),
    ("origin", "x", "origin", "x"),
    ("integration", "_x", "integration", "_x"),
    ("auditMetadata", {"username": "u"}, "audit_username", "u"),
    ("__experimental_x", 1, "limit", 10_000),
    ("nobodyKnows", None, "limit", 10_000),
]


@BOTH
@pytest.mark.parametrize(("key", "value", "attribute", "expected"), CRAWL_VALUES)
def test_option_of_a_crawl_is_read(api, key, value, attribute, expected):
    assert getattr(crawl(api, **{key: value}), attribute) == expected


@pytest.mark.parametrize(
    ("api", "body", "attribute", "expected"),
    [
        (v1, {"maxDepth": 1}, "max_path_depth", 1),
        (v1, {"ignoreSitemap": True}, "sitemap", "skip"),
        (v1, {"ignoreSitemap": False}, "sitemap", "include"),
        (v1, {"allowBackwardLinks": True}, "crawl_entire_domain", True),
        (v1, {"allowBackwardCrawling": True}, "crawl_entire_domain", True),
        (
            v1,
            {"crawlEntireDomain": False, "allowBackwardLinks": True},
            "crawl_entire_domain",
            False,
        ),
        (v2, {"sitemap": "only"}, "sitemap", "only"),
        (v2, {"sitemap": "skip"}, "sitemap", "skip"),
        (v2, {"prompt": "the docs"}, "prompt", "the docs"),
    ],
)
def test_an_option_that_only_one_version_has_is_read(api, body, attribute, expected):
    assert getattr(crawl(api, **body), attribute) == expected


@BOTH
@pytest.mark.parametrize(
    ("key", "value", "code", "path"),
    [
        ("url", None, "invalid_type", ("url",)),
        ("url", "ftp://a.com", "custom", ("url",)),
        ("limit", 0, "too_small", ("limit",)),
        ("limit", -1, "too_small", ("limit",)),
        ("limit", "5", "invalid_type", ("limit",)),
        ("limit", 1.5, "invalid_type", ("limit",)),
        ("maxDiscoveryDepth", -1, "too_small", ("maxDiscoveryDepth",)),
        ("delay", 0, "too_small", ("delay",)),
        ("delay", 61, "too_big", ("delay",)),
        ("maxConcurrency", 0, "too_small", ("maxConcurrency",)),
        ("allowSubdomains", 1, "invalid_type", ("allowSubdomains",)),
        ("includePaths", "a", "invalid_type", ("includePaths",)),
        ("includePaths", ["a", "("], "custom", ("includePaths", 1)),
        ("includePaths", ["a", "b", "(?=c)"], "custom", ("includePaths", 2)),
        ("excludePaths", [r"(a)\1"], "custom", ("excludePaths", 0)),
        ("excludePaths", ["a" * 1025], "custom", ("excludePaths", 0)),
        ("excludePaths", ["a"] * 101, "too_big", ("excludePaths",)),
        ("robotsUserAgent", "", "too_small", ("robotsUserAgent",)),
        ("robotsUserAgent", "a\n", "custom", ("robotsUserAgent",)),
        ("webhook", "ftp://a.com", "custom", ("webhook",)),
        ("webhook", 5, "invalid_type", ("webhook",)),
        ("webhook", {}, "invalid_type", ("webhook", "url")),
        ("webhook", {"url": URL, "x": 1}, "unrecognized_keys", ("webhook",)),
        (
            "webhook",
            {"url": URL, "events": ["batch_scrape.page"]},
            "invalid_enum_value",
            ("webhook", "events", 0),
        ),
        (
            "webhook",
            {"url": URL, "headers": {"A": 1}},
            "invalid_type",
            ("webhook", "headers", "A"),
        ),
        ("webhook", {"url": URL, "metadata": []}, "invalid_type", None),
        ("scrapeOptions", {"waitFor": -1}, "too_small", ("scrapeOptions", "waitFor")),
        ("scrapeOptions", {"x": 1}, "unrecognized_keys", ("scrapeOptions",)),
        ("formats", ["markdown"], "unrecognized_keys", ()),
        ("auditMetadata", {}, "invalid_type", ("auditMetadata", "username")),
    ],
)
def test_option_of_a_crawl_is_refused_at_its_path(api, key, value, code, path):
    (issue,) = issues_of(crawl, api, **{key: value})
    assert issue.code == code
    assert issue.path == (("webhook", "metadata") if path is None else path)


@pytest.mark.parametrize(
    ("api", "key", "value"),
    [
        (v1, "sitemap", "skip"),
        (v1, "prompt", "x"),
        (v2, "maxDepth", 3),
        (v2, "ignoreSitemap", True),
        (v2, "allowBackwardLinks", True),
    ],
)
def test_option_of_the_other_version_is_unknown(api, key, value):
    (issue,) = issues_of(crawl, api, **{key: value})
    assert (issue.code, issue.path) == ("unrecognized_keys", ())


@pytest.mark.parametrize(
    ("url", "depth", "accepted"),
    [
        ("a.com/1/2", 2, True),
        ("a.com/1/2", 1, False),
        ("a.com/index.html", 0, True),
        ("a.com/1/2/3/4/5/6/7/8/9/10/11", None, False),
        ("a.com/1/2/3/4/5/6/7/8/9/10/", None, True),
    ],
)
def test_start_deeper_than_the_greatest_depth_is_refused(url, depth, accepted):
    body = {"url": url, "maxDepth": depth}
    if accepted:
        assert v1.crawl_options(body).max_path_depth == (10 if depth is None else depth)
    else:
        (issue,) = issues_of(crawl, v1, **body)
        assert issue.path == ("url",)
        assert "depth" in issue.message


@BOTH
def test_webhook_is_read(api):
    hook = crawl(
        api,
        webhook={
            "url": "a.com",
            "headers": {"X-A": "1", "X-B": None},
            "metadata": {"a": [1, {"b": True}]},
            "events": ["page", "crawl.page", "crawl.cancelled"],
        },
    ).webhook
    assert hook == Webhook(
        url="http://a.com",
        headers=(("X-A", "1"),),
        metadata={"a": [1, {"b": True}]},
        events=("page", "cancelled"),
    )
    request = batch(api, webhook={"url": URL, "events": ["batch_scrape.started"]})
    assert request.options.webhook.events == ("started",)
    assert HOOK.events == COMMON_EVENTS


@BOTH
def test_options_of_pages_stand_below_scrape_options(api):
    options = crawl(
        api,
        scrapeOptions={"formats": ["links"], "onlyMainContent": False},
        zeroDataRetention=True,
        threatProtection={"blacklist": ["b.com"]},
    )
    assert options.scrape.formats == (formats.Links(),)
    assert not options.scrape.only_main_content
    assert options.scrape.zero_data_retention
    assert options.scrape.site_rules == SiteRules(("b.com",))


@BOTH
def test_site_rules_in_both_crawl_and_scrape_options_are_refused(api):
    rules = {"blacklist": ["b.com"]}
    (issue,) = issues_of(
        crawl, api, threatProtection=rules, scrapeOptions={"threatProtection": rules}
    )
    assert issue.path == ("threatProtection",)


@BOTH
def test_a_batch_body_has_page_options_at_its_top_level(api):
    request = batch(
        api,
        formats=["links"],
        maxConcurrency=3,
        zeroDataRetention=True,
        appendToId=ID.upper(),
        webhook="a.com",
        origin="x",
        threatProtection={"blacklist": ["b.com"]},
    )
    options = request.options
    assert request.append_to == ID
    assert (options.max_concurrency, options.webhook) == (3, HOOK)
    assert options.origin == "x"
    assert options.scrape.formats == (formats.Links(),)
    assert options.scrape.zero_data_retention
    assert options.scrape.site_rules == SiteRules(("b.com",))


@pytest.mark.parametrize(("api", "flag"), [(v1, {"ignoreInvalidURLs": True}), (v2, {})])
def test_invalid_urls_are_left_out_with_ignoreInvalidURLs(api, flag):
    request = batch(api, urls=["ftp://a.com", "b.com", ""], **flag)
    assert request.options.urls == ("http://b.com",)
    assert request.invalid_urls == ("ftp://a.com", "")


@pytest.mark.parametrize(
    ("api", "flag"), [(v1, {}), (v2, {"ignoreInvalidURLs": False})]
)
def test_invalid_urls_are_refused_at_their_paths(api, flag):
    issues = issues_of(batch, api, urls=["ftp://a.com", "b.com", ""], **flag)
    assert [issue.path for issue in issues] == [("urls", 0), ("urls", 2)]
    assert batch(api, **flag).invalid_urls is None


@BOTH
@pytest.mark.parametrize("urls", [[], ["ftp://a.com", "x"]])
def test_a_batch_without_a_valid_url_is_refused(api, urls):
    (issue,) = issues_of(batch, api, urls=urls, ignoreInvalidURLs=True)
    assert issue.path == ("urls",)
    assert issue.message.startswith("No valid URLs provided")


@BOTH
@pytest.mark.parametrize(
    ("key", "value", "code", "path"),
    [
        ("urls", None, "invalid_type", ("urls",)),
        ("urls", URL, "invalid_type", ("urls",)),
        ("urls", [URL, 5], "invalid_type", ("urls", 1)),
        ("urls", [URL] * 100_001, "too_big", ("urls",)),
        ("appendToId", "x", "custom", ("appendToId",)),
        ("appendToId", ID.replace("-", ""), "custom", ("appendToId",)),
        ("maxConcurrency", 0, "too_small", ("maxConcurrency",)),
        ("ignoreInvalidURLs", "true", "invalid_type", ("ignoreInvalidURLs",)),
        ("waitFor", -1, "too_small", ("waitFor",)),
        ("limit", 5, "unrecognized_keys", ()),
        ("url", URL, "unrecognized_keys", ()),
        ("scrapeOptions", {}, "unrecognized_keys", ()),
    ],
)
def test_option_of_a_batch_is_refused_at_its_path(api, key, value, code, path):
    (issue,) = issues_of(batch, api, **{key: value})
    assert (issue.code, issue.path) == (code, path)


@pytest.mark.parametrize(
    ("api", "attribute", "name"),
    [
        (v1, "max_path_depth", "maxDepth"),
        (v1, "sitemap", "ignoreSitemap"),
        (v1, "crawl_entire_domain", "crawlEntireDomain"),
        (v1, "wait_for_ms", "waitFor"),
        (v2, "sitemap", "sitemap"),
        (v2, "delay_s", "delay"),
        (v2, "regex_on_full_url", "regexOnFullURL"),
        (v2, "deduplicate_similar_urls", "deduplicateSimilarURLs"),
        (v2, "append_to", "appendToId"),
        (v2, "webhook", "webhook"),
        (v2, "max_age_ms", "maxAge"),
    ],
)
def test_attribute_has_a_name_on_the_wire(api, attribute, name):
    assert api.wire_name(attribute) == name


def test_v1_accepts_the_bodies_of_the_python_client():
    params = client.V1CrawlParams(
        includePaths=["a"],
        maxDepth=2,
        allowBackwardLinks=True,
        ignoreSitemap=True,
        scrapeOptions=client.V1ScrapeOptions(formats=["markdown"]),
        webhook=client.V1WebhookConfig(url=URL, events=["page"]),
        delay=1,
    )
    body = params.model_dump(by_alias=True)
    options = crawl(v1, origin="python-sdk@1", **body)
    assert options.webhook.events == ("page",)
    assert (options.max_path_depth, options.sitemap) == (2, "skip")


def test_v2_accepts_the_bodies_of_the_python_client():
    hook = types.WebhookConfig(url=URL, events=["page"], metadata={"a": "b"})
    scrape = types.ScrapeOptions(formats=["markdown", "links"], only_main_content=True)
    body = _prepare_crawl_request(
        types.CrawlRequest(
            url=URL,
            limit=5,
            include_paths=["a"],
            sitemap="skip",
            delay=1,
            webhook=hook,
            scrape_options=scrape,
        )
    )
    assert crawl(v2, **body).webhook.metadata == {"a": "b"}
    body = prepare_batch_scrape_request(
        [URL], options=scrape, webhook=hook, ignore_invalid_urls=True
    )
    assert batch(v2, **body).options.webhook.events == ("page",)
