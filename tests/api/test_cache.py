"""Pages from the cache: age bounds, keys, teams, what is not stored."""

from __future__ import annotations

import time
import uuid

import pytest

from tests.support.scripted_site import ScriptedSite, answer
from tests.support.waiting import wait_until

DAY_MS = 86_400_000


@pytest.fixture
def fresh(site):
    """Return a function that makes an address nobody has asked for."""
    return lambda path="/echo": site.url(f"{path}?{uuid.uuid4()}")


@pytest.fixture
def scrape(service):
    def call(url, version="v2", key=service.key, **options):
        reply = service.post(f"/{version}/scrape", {"url": url, **options}, key=key)
        assert reply.status == 200, reply.json
        return reply.json["data"]

    return call


def state_of(page):
    return page["metadata"].get("cacheState")


def test_a_page_is_fetched_once_within_its_age(scrape, site, fresh):
    url = fresh()
    first = scrape(url, maxAge=DAY_MS)
    wait_until(lambda: state_of(scrape(url, maxAge=DAY_MS)) == "hit")
    site.forget()
    again = scrape(url, maxAge=DAY_MS, formats=["markdown", "rawHtml"])
    assert state_of(first) == "miss"
    assert again["markdown"] == first["markdown"]
    assert "rawHtml" in again
    assert again["metadata"]["cachedAt"].endswith("Z")
    assert again["metadata"]["creditsUsed"] == 1
    assert again["metadata"]["scrapeId"] != first["metadata"]["scrapeId"]
    assert site.requests == []


@pytest.mark.parametrize(
    ("header", "expected"),
    {
        "Tue, 03 Mar 2026 10:00:00 GMT": "2026-03-03T10:00:00.000Z",
        "2026-03-03T12:00:00+02:00": "2026-03-03T10:00:00.000Z",
        "last week": None,
    }.items(),
)
def test_a_cached_page_has_its_modification_time(scrape, header, expected):
    with ScriptedSite({"/": answer("<p>Hay", Last_Modified=header)}) as site:
        url = site.url("/")
        first = scrape(url, maxAge=DAY_MS)
        wait_until(lambda: state_of(scrape(url, maxAge=DAY_MS)) == "hit")
        again = scrape(url, maxAge=DAY_MS)
        assert site.paths() == ["/"]
    times = [each["metadata"].get("lastModified") for each in (first, again)]
    assert times == [expected, expected]


def test_max_age_0_always_fetches_and_stores(scrape, fresh):
    url = fresh()
    assert state_of(scrape(url, maxAge=0)) is None
    wait_until(lambda: state_of(scrape(url, maxAge=DAY_MS)) == "hit")
    assert state_of(scrape(url, maxAge=0)) is None


def test_a_copy_that_is_too_old_or_too_young_is_not_used(service, scrape, fresh):
    url = fresh()
    scrape(url, maxAge=0)
    wait_until(lambda: state_of(scrape(url, maxAge=DAY_MS)) == "hit")
    time.sleep(0.3)
    body = {"url": url, "minAge": DAY_MS}
    assert service.post("/v2/scrape", body).status == 404
    assert state_of(scrape(url, minAge=100)) == "hit"
    assert state_of(scrape(url, maxAge=1)) == "miss"


def test_lockdown_serves_only_cached_pages(service, scrape, site, fresh):
    url = fresh()
    scrape(url, maxAge=0)
    wait_until(lambda: state_of(scrape(url, maxAge=DAY_MS)) == "hit")
    site.forget()
    assert state_of(scrape(url, lockdown=True)) == "hit"
    other = service.post("/v2/scrape", {"url": fresh(), "lockdown": True})
    assert other.json["code"] == "SCRAPE_LOCKDOWN_CACHE_MISS"
    assert site.requests == []


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X-A": "1"}},
        {"storeInCache": False},
        {"zeroDataRetention": True},
    ],
)
def test_pages_with_private_options_are_not_cached(scrape, fresh, options):
    url = fresh()
    scrape(url, maxAge=DAY_MS, **options)
    time.sleep(0.3)
    assert state_of(scrape(url, maxAge=DAY_MS)) == "miss"


@pytest.mark.parametrize(
    "options", [{"headers": {"X-A": "1"}}, {"zeroDataRetention": True}]
)
def test_such_pages_do_not_come_from_the_cache_either(scrape, fresh, options):
    url = fresh()
    scrape(url)
    wait_until(lambda: state_of(scrape(url)) == "hit")
    assert state_of(scrape(url, **options)) is None


def test_options_that_change_the_page_have_copies_of_their_own(scrape, fresh):
    url = fresh()
    scrape(url)
    wait_until(lambda: state_of(scrape(url)) == "hit")
    location = {"country": "US", "languages": ["de"]}
    assert state_of(scrape(url, location=location)) == "miss"
    assert state_of(scrape(url, blockAds=False)) == "miss"
    assert state_of(scrape(url, onlyMainContent=False)) == "hit"


def test_a_cached_page_has_the_fragment_of_the_request(scrape, fresh):
    url = fresh()
    scrape(f"{url}#first")
    wait_until(lambda: state_of(scrape(url)) == "hit")
    for asked in (url, f"{url}#second"):
        page = scrape(asked)
        assert state_of(page) == "hit"
        assert page["metadata"]["url"] == page["metadata"]["sourceURL"] == asked


def test_routes_in_a_script_have_copies_of_their_own(scrape, fresh):
    url = fresh()
    scrape(f"{url}#/one")
    wait_until(lambda: state_of(scrape(f"{url}#/one")) == "hit")
    assert state_of(scrape(f"{url}#/two")) == "miss"
    assert state_of(scrape(url)) == "miss"


def test_a_copy_fetched_without_tls_verification_does_not_serve_a_strict_request(
    service, site
):
    url = site.https(f"/echo?{uuid.uuid4()}")
    assert service.post("/v2/scrape", {"url": url}).status == 200
    time.sleep(0.3)
    strict = {"url": url, "skipTlsVerification": False}
    assert service.post("/v2/scrape", strict).json["code"] == "SCRAPE_SSL_ERROR"


def test_a_team_has_a_cache_of_its_own(start_service, site):
    service = start_service(SCRAPER_API_KEYS="fc-one,fc-two")
    url = site.url(f"/echo?{uuid.uuid4()}")

    def state(key):
        reply = service.post("/v2/scrape", {"url": url}, key=key)
        return state_of(reply.json["data"])

    assert state("fc-one") == "miss"
    wait_until(lambda: state("fc-one") == "hit")
    assert state("fc-two") == "miss"


def test_the_sites_a_caller_keeps_away_from_count_for_stored_pages(
    service, scrape, site, fresh
):
    plain = fresh()
    moved = fresh("/redirect-to").replace("127.0.0.2", "127.0.2") + f"&url={plain}"
    for url in (plain, moved):
        scrape(url)
        wait_until(lambda url=url: state_of(scrape(url)) == "hit")
        rules = {"blacklist": ["127.0.0.2"]}
        for more in ({}, {"lockdown": True}):
            body = {"url": url, "threatProtection": rules, **more}
            reply = service.post("/v2/scrape", body)
            assert (reply.status, reply.json["code"]) == (403, "UNSUPPORTED_SITE")


def test_stored_pages_of_sites_that_were_blocked_since_are_not_given(
    start_service, site
):
    with ScriptedSite({"/end": "<p>The end.</p>"}, "127.0.0.3") as other:
        everywhere = {"SCRAPER_EGRESS_ALLOW": "127.0.0.0/8"}
        service = start_service(**everywhere)
        body = {"url": site.url(f"/redirect-to?url={other.url('/end')}")}

        def scraped():
            return service.post("/v2/scrape", body)

        wait_until(lambda: state_of(scraped().json["data"]) == "hit")
        assert service.stop() == 0
        service = start_service(SCRAPER_BLOCKED_SITES="127.0.0.3", **everywhere)
        reply = scraped()
    assert (reply.status, reply.json["code"]) == (403, "UNSUPPORTED_SITE")


def test_errors_of_the_site_are_not_stored(scrape, site):
    url = site.url(f"/status/404?{uuid.uuid4()}")
    scrape(url)
    time.sleep(0.3)
    assert state_of(scrape(url)) == "miss"


def test_a_pdf_is_converted_anew_and_never_served_raw_from_the_cache(scrape, site):
    url = site.url(f"/pdf?pages=2&{uuid.uuid4()}")
    scrape(url)
    wait_until(lambda: state_of(scrape(url)) == "hit")
    raw = scrape(url, parsers=[])
    assert raw["markdown"].startswith("JVBERi")
    assert state_of(raw) == "miss"
    assert scrape(url)["metadata"]["numPages"] == 2


def test_v1_fetches_by_default(scrape, fresh):
    url = fresh()
    assert state_of(scrape(url, "v1")) is None
    assert state_of(scrape(url, "v1")) is None


@pytest.mark.slow
def test_the_cache_outlives_a_restart(start_service, site):
    url = site.url(f"/echo?{uuid.uuid4()}")
    first = start_service()

    def state(service):
        reply = service.post("/v2/scrape", {"url": url})
        return state_of(reply.json["data"])

    assert state(first) == "miss"
    wait_until(lambda: state(first) == "hit")
    assert first.stop() == 0
    assert state(start_service()) == "hit"
