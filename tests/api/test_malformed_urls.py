"""Malformed URLs of callers, sites, search engines and models: refused or left out."""

from __future__ import annotations

import json

import pytest

from tests.api.test_agent import agent, behave, scrape
from tests.api.test_jobs import completed, sources
from tests.conftest import Service
from tests.support.monitors import RARELY
from tests.support.scripted_site import ScriptedSite, answer, page, sitemap, text
from tests.support.search_engines import SearchEngines

# urllib raises an error for each, some only when the port is read.
BAD = (
    *("http://[::1", "http://[domain]/", "http://user:pa[ss@h/", "http://a]b/", "//["),
    *("http://a\u2100b/", "http://h:99999999/", "http://h:port/"),
)
OK = "http://127.0.0.2:9/"
MONITOR = {"name": "Prices", "schedule": RARELY}
CALLS = {
    "scrape": ("/v2/scrape", {"url": "BAD"}),
    "v1-scrape": ("/v1/scrape", {"url": "BAD"}),
    "crawl": ("/v2/crawl", {"url": "BAD"}),
    "webhook": ("/v2/crawl", {"url": OK, "webhook": {"url": "BAD"}}),
    "v1-webhook": ("/v1/crawl", {"url": OK, "webhook": "BAD"}),
    "crawl-preview": ("/v2/crawl/params-preview", {"url": "BAD", "prompt": "the blog"}),
    "batch": ("/v2/batch/scrape", {"urls": ["BAD"], "ignoreInvalidURLs": False}),
    "map": ("/v2/map", {"url": "BAD"}),
    "extract": ("/v2/extract", {"urls": ["BAD"], "prompt": "prices"}),
    "agent": ("/v2/agent", {"urls": ["BAD"], "prompt": "prices"}),
    "llms.txt": ("/v1/llmstxt", {"url": "BAD"}),
    "domains": ("/v2/search", {"query": "x", "includeDomains": ["BAD"]}),
    "monitor": (
        "/v2/monitor",
        {**MONITOR, "targets": [{"type": "scrape", "urls": ["BAD"]}]},
    ),
    "monitor-crawl": (
        "/v2/monitor",
        {**MONITOR, "targets": [{"type": "crawl", "url": "BAD"}]},
    ),
    "monitor-webhook": (
        "/v2/monitor",
        {
            **MONITOR,
            "targets": [{"type": "scrape", "urls": [OK]}],
            "webhook": {"url": "BAD"},
        },
    ),
}


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("path", "body"), CALLS.values(), ids=CALLS)
def test_a_malformed_url_in_a_request_is_refused(service, path, body, bad):
    sent = json.dumps(body).replace('"BAD"', json.dumps(bad))
    reply = service.post(path, raw=sent.encode())
    assert reply.status == 400, reply.json
    assert reply.json["success"] is False


@pytest.mark.parametrize("host", ["[::1", "[:::::]", "a]b", "h:99999999", "h:port"])
@pytest.mark.parametrize("path", ["/metrics", "/v2/crawl", "/v2/team/credit-usage"])
def test_a_malformed_host_header_is_no_error_of_the_service(service, host, path):
    body = {"url": OK, "limit": 1}
    send = service.post if path == "/v2/crawl" else service.get
    reply = send(path, *([body] if path == "/v2/crawl" else []), headers={"Host": host})
    assert reply.status < 500, reply.json


@pytest.mark.parametrize("header", ["Origin", "Referer"])
@pytest.mark.parametrize("bad", BAD[:5])
def test_a_malformed_origin_or_referer_is_no_error_of_the_service(service, header, bad):
    reply = service.get("/v2/team/credit-usage", headers={header: bad})
    assert reply.status == 200, reply.json


FEED = (
    "<rss version='2.0'><channel><title>News</title><link>{0}</link>{1}</channel></rss>"
)
ITEM = "<item><title>An entry</title><link>{0}</link><enclosure url='{0}'/></item>"


def site_with_bad_urls():
    """Return a site whose links, robots.txt, sitemaps and feeds have malformed URLs."""
    bad = BAD[:-3] + BAD[-2:]  # in ASCII
    named = "".join(f"Sitemap: {url}\n" for url in bad)
    head = "".join(
        f'<link rel=canonical href="{url}"><base href="{url}">'
        f'<link rel=alternate type="application/rss+xml" href="{url}">'
        for url in bad
    )
    feed = FEED.format(bad[0], "".join(map(ITEM.format, (*bad, "{site}/entry"))))
    return ScriptedSite(
        {
            "/": page(*bad, "/linked", "/feed.xml", title="Home", head=head),
            "/linked": page(*bad),
            "/entry": page(*bad),
            "/listed": page(*bad),
            "/feed.xml": answer(feed, Content_Type="application/rss+xml"),
            "/robots.txt": text(f"{named}Sitemap: {{site}}/index.xml\n"),
            "/index.xml": sitemap(*bad, "{site}/sitemap.xml", index=True),
            "/sitemap.xml": sitemap(*bad, "{site}/listed"),
        }
    )


def test_a_map_leaves_malformed_urls_of_a_site_out(service):
    with site_with_bad_urls() as site:
        reply = service.post("/v2/map", {"url": site.url("/"), "ignoreCache": True})
        assert reply.status == 200, reply.json
        found = {each["url"].removeprefix(site.address) for each in reply.json["links"]}
    assert {"", "/listed", "/linked"} <= found
    assert not {each for each in found if not each.startswith("/") and each}


def test_a_crawl_leaves_malformed_urls_of_a_site_out(service):
    with site_with_bad_urls() as site:
        started = service.post("/v2/crawl", {"url": site.url("/")}).json
        job = f"/v2/crawl/{started['id']}"
        _, found = completed(service, job)
        errors = service.get(f"{job}/errors").json["errors"]
        paths = [url.removeprefix(site.address) for url in sources(found)]
    assert sorted(paths) == ["/", "/entry", "/feed.xml", "/linked", "/listed"]
    assert errors == []


@pytest.mark.parametrize("start", ["/sitemap.xml", "/feed.xml"])
def test_a_crawl_of_a_sitemap_or_feed_leaves_malformed_urls_out(service, start):
    with site_with_bad_urls() as site:
        started = service.post("/v2/crawl", {"url": site.url(start)}).json
        _, found = completed(service, f"/v2/crawl/{started['id']}")
        expected = {"/sitemap.xml": "/listed", "/feed.xml": "/entry"}[start]
        assert site.url(expected) in sources(found)


@pytest.fixture(scope="module")
def searching(tmp_path_factory):
    """A service whose engine finds malformed URLs."""
    hits = [{"url": bad, "title": "Bad", "text": "b"} for bad in BAD]
    images = [{**hit, "image": hit["url"], "width": 9, "height": 9} for hit in hits]
    with SearchEngines({"web": hits, "news": hits, "images": images}) as engines:
        service = Service(
            tmp_path_factory.mktemp("s"), **engines.environment("searxng")
        )
        yield service
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, BAD),
        ({"ignoreInvalidURLs": True}, ()),
        ({"scrapeOptions": {"formats": ["markdown"]}}, BAD),
        ({"excludeDomains": ["a.example"]}, BAD),
        ({"includeDomains": ["a.example"]}, ()),
        ({"query": "x site:a.example"}, ()),
    ],
    ids=str,
)
def test_malformed_results_of_a_search_engine_do_no_harm(searching, options, shown):
    body = {"query": "x", "sources": ["web", "news", "images"], "limit": 20}
    reply = searching.post("/v2/search", {**body, **options})
    assert reply.status == 200, reply.json
    urls = [each["url"] for each in reply.json["data"].get("web", ())]
    assert urls == [url for url in shown if url.startswith("http")]


@pytest.mark.full
def test_malformed_urls_that_a_model_chooses_are_refused(clever, chat):
    with ScriptedSite({"/": page(text="Some words here.")}) as site:
        behave(chat, scrape(*BAD, site.url("/")))
        found = agent(clever, urls=[site.url("/")], effort="low")
    assert found["status"] == "completed"
    assert [each["url"] for each in found["sources"]] == [site.url("/")]
