"""The lists of ``threatProtection``: sites that a request must not fetch."""

from __future__ import annotations

import pytest

from scraper_service.options.scrape import SiteRules
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def web():
    pages = {"/": page("/a", "http://b.bad.example/x", title="Start"), "/a": page()}
    with ScriptedSite(pages) as site:
        yield site


@pytest.mark.parametrize(
    ("rules", "allowed", "refused"),
    [
        (
            SiteRules(blacklist=("a.com",)),
            ["b.com", "www.a.com", "aa.com", "com"],
            ["a.com"],
        ),
        (
            SiteRules(blacklist=("*.a.com",)),
            ["a.com", "ba.com"],
            ["www.a.com", "x.y.a.com"],
        ),
        (
            SiteRules(blocked_tlds=("zip", "co.uk")),
            ["zip.com", "a.uk", "azip"],
            ["a.zip", "b.a.zip", "a.co.uk"],
        ),
        (
            SiteRules(("*.a.com",), ("www.a.com", "*.b.zip"), ("zip",)),
            ["www.a.com", "x.b.zip", "c.com"],
            ["x.a.com", "b.zip", "www.www.a.com"],
        ),
    ],
)
def test_a_host_is_itself_and_a_star_stands_for_subdomains(rules, allowed, refused):
    assert [host for host in allowed if not rules.allows(host)] == []
    assert [host for host in refused if rules.allows(host)] == []


@pytest.mark.parametrize("mode", [{}, {"mode": "manual-only"}])
@pytest.mark.parametrize(
    ("lists", "status"),
    [
        ({"blacklist": ["127.0.0.2"]}, 403),
        ({"blacklist": ["127.0.0.2"], "whitelist": ["127.0.0.2"]}, 200),
        ({"blacklist": ["127.0.0.3"], "blockedTlds": ["example"]}, 200),
    ],
)
def test_a_scrape_keeps_to_the_lists(service, web, mode, lists, status):
    body = {"url": web.url("/a"), "maxAge": 0, "threatProtection": {**mode, **lists}}
    reply = service.post("/v2/scrape", body)
    assert reply.status == status
    if status == 403:
        assert reply.json["code"] == "UNSUPPORTED_SITE"
        assert "threatProtection" in reply.json["error"]


@pytest.mark.parametrize("kind", ["crawl", "batch/scrape", "map"])
def test_nothing_is_fetched_from_a_refused_site(service, kind):
    with ScriptedSite({"/": page()}) as site:
        body = {"threatProtection": {"blacklist": ["127.0.0.2"]}}
        url = site.url("/")
        body |= {"urls": [url]} if kind == "batch/scrape" else {"url": url}
        reply = service.post(f"/v2/{kind}", body)
        if kind == "map":
            assert (reply.status, reply.json["code"]) == (403, "UNSUPPORTED_SITE")
        else:
            path = f"/v2/{kind}/{reply.json['id']}"
            wait_until(lambda: service.get(path).json["status"] != "scraping")
            [error] = service.get(f"{path}/errors").json["errors"]
            assert (error["url"], error["code"]) == (url, "UNSUPPORTED_SITE")
        assert site.paths() == []


@pytest.mark.parametrize("mode", ["normal", "zscaler"])
def test_modes_that_scan_are_refused(service, web, mode):
    body = {"url": web.url("/a"), "threatProtection": {"mode": mode}}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["threatProtection", "mode"]
    assert mode in reply.json["details"][0]["message"]
    assert "manual-only" in reply.json["details"][0]["message"]


@pytest.mark.parametrize("kind", ["crawl", "batch/scrape"])
def test_refused_urls_of_a_job_are_errors(service, web, kind):
    rules = {"mode": "manual-only", "blacklist": ["*.bad.example"]}
    body = {"threatProtection": rules}
    if kind == "crawl":
        body |= {"url": web.url("/"), "allowExternalLinks": True}
    else:
        body |= {"urls": [web.url("/"), web.url("/a"), "http://b.bad.example/x"]}
    started = service.post(f"/v2/{kind}", body)
    assert started.status == 200, started.json
    path = f"/v2/{kind}/{started.json['id']}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    assert len(service.get(path).json["data"]) == 2
    [error] = service.get(f"{path}/errors").json["errors"]
    assert (error["url"], error["code"]) == (
        "http://b.bad.example/x",
        "UNSUPPORTED_SITE",
    )
