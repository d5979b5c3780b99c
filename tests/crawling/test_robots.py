"""What a site answers for its robots.txt, and what comes of it (RFC 9309, 2.3, 2.4)."""

from __future__ import annotations

import re

import pytest
from scrapy.settings import Settings

from scraper_service import settings
from scraper_service.crawling.robots import product_token, robots_url
from scraper_service.options.urls import origin
from tests.support.robots_client import RobotsClient
from tests.support.robots_site import RobotsSite

TIMEOUT_S = 4
RETRY_S = 300
DAY_S = 86_400


@pytest.fixture(scope="module")
def sites(canary):
    with RobotsSite(canary.url) as running:
        yield running


@pytest.fixture(scope="module")
def client():
    """A policy whose clock only ever goes forward."""
    with RobotsClient() as running:
        yield running


@pytest.fixture(scope="module")
def hasty():
    """The same for sites that take too long."""
    with RobotsClient(ROBOTS_TIMEOUT_S=str(TIMEOUT_S)) as running:
        yield running


ALL, SOME, NONE = [], ["/private/x"], ["/", "/private/x"]  # what is refused


@pytest.mark.full(keep=10)
@pytest.mark.parametrize(
    ("name", "state", "refused", "detail"),
    [
        ("good", "ok", SOME, ""),
        ("empty", "ok", ALL, ""),
        ("no-content", "ok", ALL, ""),
        ("html", "unreadable", ALL, "is a web page, not a list of rules"),
        ("challenge", "unreadable", ALL, "a Cloudflare challenge"),
        ("huge", "ok", SOME, ""),
        ("utf-16", "ok", SOME, ""),
        ("bom", "ok", SOME, ""),
        ("gzip", "ok", SOME, ""),
        ("chain-5", "ok", SOME, ""),
        ("elsewhere", "ok", SOME, ""),
        ("chain-6", "absent", ALL, "redirects more than 5 times"),
        ("loop", "absent", ALL, "redirects more than 5 times"),
        ("nowhere", "absent", ALL, "answered 302"),
        ("to-ftp", "absent", ALL, "answered 301"),
        ("bad-redirect", "absent", ALL, "answered 301"),
        ("401", "absent", ALL, "answered 401"),
        ("403", "absent", ALL, "answered 403"),
        ("404", "absent", ALL, "answered 404"),
        ("410", "absent", ALL, "answered 410"),
        ("429", "absent", ALL, "answered 429"),
        ("500", "unreachable", NONE, "answered 500"),
        ("503", "unreachable", NONE, "answered 503"),
        ("999", "unreachable", NONE, "answered 999"),
        ("drop", "unreachable", NONE, "closed the connection"),
        ("refused", "unreachable", NONE, "refuses connections"),
        ("truncated", "unreachable", NONE, "broke off"),
        ("broken-gzip", "unreachable", NONE, "it is not valid gzip"),
        ("forbidden", "unreachable", NONE, "does not fetch from"),
        ("to-no-host", "unreachable", NONE, "does not resolve"),
    ],
)
def test_responses_decide_the_state_of_a_robots_txt(
    sites, client, canary, name, state, refused, detail
):
    before = canary.count()
    found = client.ask("rules", url=sites.url(name))
    assert (found["state"], found["refused"]) == (state, refused), found
    assert detail in found["detail"]
    if state == "unreachable":
        assert found["detail"].startswith("robots.txt could not be fetched: ")
    assert bool(found["detail"]) == (state != "ok")
    assert canary.count() == before
    assert client.stderr == ""


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["silent", "trickle"])
def test_a_robots_txt_that_times_out_is_unreachable(sites, hasty, name):
    found = hasty.ask("rules", url=sites.url(name))
    assert (found["state"], found["refused"]) == ("unreachable", NONE)
    assert "did not load in time" in found["detail"]


def test_a_name_that_does_not_resolve(client):
    found = client.ask("rules", url="http://nowhere.invalid/")
    assert found["state"] == "unreachable"
    assert re.fullmatch(
        r"robots\.txt could not be fetched: the host name of the URL does not resolve\."
        r" It is fetched again after \d\d:\d\d UTC\.",
        found["detail"],
    )


def test_robots_txt_of_a_forbidden_site_is_not_fetched(client, canary):
    before = canary.count()
    found = client.ask("rules", url=canary.url)
    assert (found["state"], found["refused"]) == ("unreachable", NONE)
    assert canary.count() == before


def test_relative_sitemap_urls_are_resolved_against_the_robots_txt(sites, client):
    found = client.ask("rules", url=sites.url("elsewhere"))
    assert found["sitemaps"] == [sites.url("other", "/map.xml")]


def test_robots_txt_is_fetched_with_page_headers_and_without_cookies(sites):
    with RobotsClient() as client:
        for _ in range(2):
            client.ask("rules", url=sites.url("good", "/some/page?x=1"))
            client.ask("later", seconds=DAY_S)
        *_, first, second = sites.requests("good")
    assert {first["path"], second["path"]} == {"/robots.txt"}
    assert first["headers"] == second["headers"]
    assert first["headers"]["user-agent"] == settings.USER_AGENT


def test_parallel_lookups_share_one_fetch(sites, client):
    found = client.ask("together", url=sites.url("slow"))
    assert found == {"gone": True, "states": ["ok"] * 9}
    assert len(sites.requests("slow")) == 1


def test_a_robots_txt_is_cached_for_a_day(sites):
    url = sites.url("other")
    with RobotsClient() as client:
        assert client.ask("known", url=url) == {"state": None}
        client.ask("rules", url=url)
        client.ask("later", seconds=DAY_S - 10)
        assert client.ask("known", url=url) == {"state": "ok"}
        assert client.ask("known", url=url.replace("http:", "https:"))["state"] is None
        client.ask("later", seconds=10)
        assert client.ask("known", url=url) == {"state": None}
        client.ask("rules", url=url)
        assert client.ask("stat", name="robots/ok") == 2


@pytest.mark.parametrize(
    ("name", "state"), [("broken-gzip", "unreachable"), ("429", "absent")]
)
def test_a_failed_robots_txt_is_refetched_at_growing_intervals(sites, name, state):
    url = sites.url(name)
    before = len(sites.requests(name))
    with RobotsClient() as client:
        client.ask("rules", url=url)
        for wait_s in (RETRY_S, 2 * RETRY_S):
            client.ask("later", seconds=wait_s - 5)
            assert client.ask("known", url=url) == {"state": state}
            client.ask("later", seconds=5)
            assert client.ask("known", url=url) == {"state": None}
            client.ask("rules", url=url)
    assert len(sites.requests(name)) == before + 3


def test_rules_stay_while_their_site_fails(sites):
    url = sites.url("failing")
    with RobotsClient() as client:
        client.ask("rules", url=url)
        client.ask("later", seconds=DAY_S)
        found = client.ask("rules", url=url)
        assert (found["state"], found["refused"]) == ("ok", SOME)
        assert "answered 503" in found["detail"]
        client.ask("later", seconds=RETRY_S)
        assert client.ask("known", url=url) == {"state": None}
        client.ask("later", seconds=30 * DAY_S)
        assert client.ask("rules", url=url)["state"] == "unreachable"


@pytest.mark.parametrize("name", ["soon", "dropping"])
def test_a_robots_txt_that_fails_is_tried_again_like_a_page(sites, name):
    with RobotsClient(RETRY_TIMES="2") as client:
        found = client.ask("rules", url=sites.url(name))
    assert (found["state"], found["refused"]) == ("ok", SOME)
    assert len(sites.requests(name)) == 3


@pytest.mark.parametrize("name", ["busy", "busy-for-a-second"])
def test_a_robots_txt_with_a_429_is_fetched_again_before_all_is_allowed(sites, name):
    with RobotsClient(RETRY_TIMES="2") as client:
        found = client.ask("rules", url=sites.url(name))
    assert (found["state"], found["refused"]) == ("ok", SOME)
    assert len(sites.requests(name)) == 3


def test_rules_stay_while_a_challenge_page_replaces_the_robots_txt(sites):
    url = sites.url("later-challenge")
    with RobotsClient() as client:
        client.ask("rules", url=url)
        client.ask("later", seconds=DAY_S)
        found = client.ask("rules", url=url)
        assert (found["state"], found["refused"]) == ("ok", SOME)
        assert "challenge" in found["detail"]


def test_a_pause_of_the_site_is_waited_for(sites, hasty):
    url = sites.url("paused")
    assert hasty.ask("rules", url=url)["state"] == "absent"
    hasty.ask("later", seconds=RETRY_S)
    assert hasty.ask("rules", url=url)["state"] == "ok"
    assert len(sites.requests("paused")) == 2


def test_the_largest_file_is_not_read_to_its_end(sites):
    with RobotsClient(DOWNLOAD_MAXSIZE="100") as client:
        found = client.ask("rules", url=sites.url("huge"))
        received = client.ask("stat", name="downloader/response_bytes")
    assert (found["state"], found["refused"]) == ("ok", SOME)
    # Of 10 MB; what the socket holds at the cut counts, which is more on a busy machine.
    assert 500 * 2**10 < received < 4 * 2**20


def test_the_memory_for_rules_is_limited(sites):
    urls = [sites.url(name) for name in ("good", "bom", "many")]
    with RobotsClient(ROBOTS_CACHE_MB="1") as client:
        for url in urls:
            client.ask("rules", url=url)
        known = [client.ask("known", url=url)["state"] for url in urls]
    assert known == [None, None, "ok"]


def test_the_end_of_a_crawl_does_not_cancel_the_fetch_for_other_crawls(sites):
    url = sites.url("good")
    with RobotsClient() as client:
        found = client.ask("closed", url=url)
        assert found == {"states": ["unreachable", "ok"]}
        assert client.ask("known", url=url) == {"state": "ok"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example/b?c", "http://a.example/robots.txt"),
        ("https://A.example.:443/", "https://a.example/robots.txt"),
        ("https://u:p@a.example:8443", "https://a.example:8443/robots.txt"),
        ("http://a.example:443/", "http://a.example:443/robots.txt"),
        ("http://[::1]:81/x", "http://[::1]:81/robots.txt"),
    ],
)
def test_the_url_of_a_robots_txt(url, expected):
    assert robots_url(origin(url)) == expected


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        (settings.USER_AGENT, "scraper-service"),
        ("ExampleBot/2.1 (+https://example.org)", "ExampleBot"),
        ("Mozilla/5.0 (X11; Linux)", "Mozilla"),
        ("", ""),
    ],
)
def test_the_product_token_comes_from_the_user_agent(user_agent, token):
    names = {"USER_AGENT": user_agent, "ROBOTS_AGENT": ""}
    assert product_token(Settings(names)) == token
    assert product_token(Settings({**names, "ROBOTS_AGENT": "Own"})) == "Own"
