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
def test_no_page_of_a_refused_site_is_fetched(service, kind):
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


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"mode": "x"}, "mode must be one of 'off', 'manual-only', got 'x'"),
        (
            {"blacklist": ["http://x"]},
            "not a domain: 'http://x'; must be a host name, such as example.com or *.",
        ),
        (
            {"blockedTlds": ["a b"]},
            "not a domain: 'a b'; must be a host name, such as zip",
        ),
    ],
)
def test_messages_name_the_accepted_values(service, web, rules, message):
    body = {"url": web.url("/a"), "threatProtection": rules}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    assert message in reply.json["details"][0]["message"]


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


POLICY = "/v2/team/threat-protection"
REFUSING = {"mode": "manual-only", "blacklist": ["127.0.0.2"]}


@pytest.fixture
def strict(start_service):
    """A service whose team refuses the host of the sites."""
    service = start_service()
    reply = service.request("PUT", POLICY, REFUSING)
    assert reply.status == 200
    return service


def test_a_team_without_a_policy_refuses_no_site(service):
    assert service.get(POLICY).json == {
        "success": True,
        "data": {
            "mode": "off",
            "blacklist": [],
            "whitelist": [],
            "blockedTlds": [],
            "allowRequestOverrides": False,
        },
    }


def test_a_policy_is_replaced_as_a_whole(strict):
    data = strict.get(POLICY).json["data"]
    assert (data["mode"], data["blacklist"]) == ("manual-only", ["127.0.0.2"])
    body = {"blockedTlds": ["zip"], "allowRequestOverrides": True}
    replaced = strict.request("PUT", POLICY, body).json["data"]
    assert replaced == strict.get(POLICY).json["data"]
    assert (replaced["mode"], replaced["blacklist"]) == ("off", [])
    assert replaced["blockedTlds"] == ["zip"]
    assert replaced["allowRequestOverrides"] is True


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"mode": "normal"}, ["mode"]),
        ({"mode": "zscaler"}, ["mode"]),
        ({"blacklist": ["a b"]}, ["blacklist", 0]),
        ({"allowRequestOverrides": "x"}, ["allowRequestOverrides"]),
        ({"unknown": 1}, []),
    ],
)
def test_wrong_policies_are_refused(strict, body, path):
    before = strict.get(POLICY).json
    reply = strict.request("PUT", POLICY, body)
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == path
    assert strict.get(POLICY).json == before


def test_keys_without_an_effect_are_named(strict):
    body = {**REFUSING, "failurePolicy": "closed"}
    reply = strict.request("PUT", POLICY, body)
    assert "failurePolicy" in reply.json["warning"]


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    "path", ["/v1/scrape", "/v2/scrape", "/v2/map", "/v2/crawl", "/v2/batch/scrape"]
)
def test_the_policy_of_the_team_is_kept(strict, path):
    with ScriptedSite({"/": page()}) as site:
        url = site.url("/")
        body = {"urls": [url]} if "batch" in path else {"url": url}
        reply = strict.post(path, body)
        if path.endswith(("/crawl", "/batch/scrape")):
            job = f"{path}/{reply.json['id']}"
            wait_until(lambda: strict.get(job).json["status"] != "scraping")
            [error] = strict.get(f"{job}/errors").json["errors"]
            assert error["code"] == "UNSUPPORTED_SITE"
        else:
            assert reply.status == 403
        assert site.paths() == []


def test_requests_replace_lists_only_where_the_team_allows_it(strict):
    with ScriptedSite({"/": page()}) as site:
        body = {
            "url": site.url("/"),
            "maxAge": 0,
            "threatProtection": {"whitelist": ["127.0.0.2"]},
        }
        reply = strict.post("/v2/scrape", body)
        assert reply.status == 400
        assert reply.json["details"][0]["path"] == ["threatProtection"]
        assert "allowRequestOverrides" in reply.json["details"][0]["message"]
        assert site.paths() == []
        strict.request("PUT", POLICY, {**REFUSING, "allowRequestOverrides": True})
        assert strict.post("/v2/scrape", body).status == 200
        del body["threatProtection"]
        assert strict.post("/v2/scrape", body).status == 403
        strict.request("PUT", POLICY, {**REFUSING, "mode": "off"})
        assert strict.post("/v2/scrape", body).status == 200
