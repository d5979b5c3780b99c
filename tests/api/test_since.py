"""Crawls that deliver only what is new or has changed since an earlier crawl."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.scripted_site import ScriptedSite, answer, page, slow
from tests.support.waiting import wait_until

_numbers = itertools.count()


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture
def spot(web):
    """A part of the site of its own, with a start page that links to a, b and c."""
    found = f"/{next(_numbers)}"
    put(web, found, "", "abc")
    for name in "abc":
        put(web, found, name, "")
    return found


def put(web, spot, name, links="", text="One", **headers):
    """Change a page; its tag follows from its text and links."""
    urls = [f"{spot}/{each}" for each in links]
    body = page(*urls, title=f"Page {name}", text=text)
    tag = {"ETag": f'"{text}{links}"'}
    web.put(f"{spot}/{name}", answer(body, **{**tag, **headers}))


def crawl(service, web, spot, **options):
    """Run a crawl, and return its status with all pages."""
    body = {"url": web.url(f"{spot}/"), "sitemap": "skip", **options}
    reply = service.post("/v2/crawl", body)
    assert reply.status == 200, reply.json
    return over(service, reply.json["id"])


def over(service, job_id):
    def ended():
        found = service.get(f"/v2/crawl/{job_id}").json
        return found["status"] != "scraping" and {**found, "id": job_id}

    return wait_until(ended)


def changes(found):
    return {
        each["metadata"]["sourceURL"].rpartition("/")[2]: each["metadata"][
            "changeStatus"
        ]
        for each in found["data"]
    }


def removed(service, found):
    reply = service.get(f"/v2/crawl/{found['id']}/removed")
    assert reply.status == 200, reply.json
    names = [each.rpartition("/")[2] for each in reply.json["urls"]]
    return {**reply.json, "urls": names}


def test_only_new_and_changed_pages_are_delivered(service, web, spot):
    first = crawl(service, web, spot)
    assert first["completed"] == 4
    put(web, spot, "", "abd")  # c is not linked any more
    put(web, spot, "d", "", text="New")
    put(web, spot, "b", "", text="Two")
    second = crawl(service, web, spot, since=first["id"])
    assert changes(second) == {"": "changed", "b": "changed", "d": "new"}
    assert second["sinceJobId"] == first["id"]
    assert second["creditsUsed"] == 3
    assert second["completed"] == 3
    told = removed(service, second)
    assert told["isComplete"] is True
    assert (told["unchanged"], told["total"], told["urls"]) == (1, 1, ["c"])
    paths = web.statuses()
    assert paths.count((f"{spot}/a", 304)) == 1


def test_cached_pages_are_revalidated_with_their_etag(service, web, spot):
    url = web.url(f"{spot}/")

    def state():
        found = service.post("/v2/scrape", {"url": url, "maxAge": 86_400_000}).json
        return found["data"]["metadata"]["cacheState"]

    wait_until(lambda: state() == "hit")
    first = crawl(service, web, spot, scrapeOptions={"maxAge": 86_400_000})
    states = [each["metadata"].get("cacheState") for each in first["data"]]
    assert "hit" in states
    crawl(service, web, spot, since=first["id"])
    assert web.statuses().count((f"{spot}/", 304)) == 1


def test_a_crawl_since_a_crawl_since_a_crawl_knows_all_pages(service, web, spot):
    first = crawl(service, web, spot)
    put(web, spot, "b", "", text="Two")
    second = crawl(service, web, spot, since=first["id"])
    assert changes(second) == {"b": "changed"}
    put(web, spot, "a", "", text="Three")
    third = crawl(service, web, spot, since=second["id"])
    assert changes(third) == {"a": "changed"}
    assert removed(service, third)["unchanged"] == 3
    put(web, spot, "", "ab")
    fourth = crawl(service, web, spot, since=third["id"])
    assert changes(fourth) == {"": "changed"}
    assert removed(service, fourth)["urls"] == ["c"]


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request, start_service):
    """A service with one of the databases."""
    if request.param == "sqlite":
        return start_service()
    url = request.getfixturevalue("postgres_tables")()
    return start_service(SCRAPER_DATABASE_URL=url)


def forget(service, found):
    """Delete a crawl, as its expiry does."""
    reply = service.request("DELETE", f"/v2/jobs/{found['id']}")
    assert reply.status == 200, reply.json


@pytest.mark.full
def test_unchanged_pages_stay_unchanged_without_the_first_crawl_of_a_chain(
    either, web, spot
):
    first = crawl(either, web, spot)
    web.put(f"{spot}/c", answer("down", status=500))
    second = crawl(either, web, spot, since=first["id"])
    assert changes(second) == {}
    forget(either, first)
    put(web, spot, "a", "", text="Two")
    put(web, spot, "c", "")
    web.statuses()
    third = crawl(either, web, spot, since=second["id"])
    assert changes(third) == {"a": "changed"}
    assert third["creditsUsed"] == 1
    assert removed(either, third)["unchanged"] == 3
    assert (f"{spot}/b", 200) in web.statuses()  # in full, and kept
    forget(either, second)
    put(web, spot, "b", "", text="Three")
    fourth = crawl(either, web, spot, since=third["id"])
    assert changes(fourth) == {"b": "changed"}
    assert (f"{spot}/c", 304) in web.statuses()
    forget(either, third)
    fifth = crawl(either, web, spot, since=fourth["id"])
    assert changes(fifth) == {}
    assert removed(either, fifth)["unchanged"] == 4


def test_no_page_counts_as_removed_if_the_base_crawl_is_not_stored(service, web, spot):
    first = crawl(service, web, spot)
    put(web, spot, "", "ab")
    second = crawl(service, web, spot, since=first["id"])
    assert removed(service, second)["urls"] == ["c"]
    forget(service, first)
    told = removed(service, second)
    assert (told["isComplete"], told["urls"]) == (False, [])
    assert told["unchanged"] == 2


def test_other_bytes_with_the_same_words_are_no_change(service, web, spot):
    first = crawl(service, web, spot)
    body = page(title="Page a", text="One", head="<!-- made at noon -->")
    web.put(f"{spot}/a", answer(body))
    second = crawl(service, web, spot, since=first["id"])
    assert changes(second) == {}
    assert removed(service, second)["unchanged"] == 4


def test_a_crawl_without_changes_reports_the_number_of_unchanged_pages(
    service, web, spot
):
    first = crawl(service, web, spot)
    second = crawl(service, web, spot, since=first["id"], sitemap="include")
    assert (second["completed"], second["warning"]) == (
        0,
        f"No page has changed since job {first['id']}: 4 pages are as they were.",
    )
    web.put(f"{spot}/a", answer("down", status=500))
    third = crawl(service, web, spot, since=second["id"])
    assert third["warning"] == (
        f"No page has changed since job {second['id']}: 3 pages are as they were."
        " 1 more URL failed or is gone."
    )


def test_another_spelling_of_a_url_is_the_same_page(service, web, spot):
    first = crawl(service, web, spot)
    urls = [f"{spot}/{each}" for each in ("a/", "b", "c")]
    web.put(f"{spot}/", answer(page(*urls, title="Page ", text="One")))
    web.put(f"{spot}/a/", answer(page(title="Page a", text="One")))
    second = crawl(service, web, spot, since=first["id"])
    assert changes(second) == {"": "changed"}
    assert removed(service, second)["unchanged"] == 3
    assert removed(service, second)["urls"] == []


def test_a_page_that_is_gone_is_removed_and_an_outage_is_not(service, web, spot):
    first = crawl(service, web, spot)
    web.put(f"{spot}/a", answer("gone", status=410))
    web.put(f"{spot}/b", answer("down", status=500))
    second = crawl(service, web, spot, since=first["id"])
    assert changes(second) == {}
    assert removed(service, second)["urls"] == ["a"]
    errors = service.get(f"/v2/crawl/{second['id']}/errors").json["errors"]
    assert sorted(each["code"] for each in errors) == ["SCRAPE_SITE_ERROR", "removed"]
    put(web, spot, "a", "")
    put(web, spot, "b", "")
    third = crawl(service, web, spot, since=second["id"])
    assert changes(third) == {"a": "new"}  # b is the same as before its outage


def test_a_time_selects_the_last_crawl_before_that_time(service, web, spot):
    first = crawl(service, web, spot)
    put(web, spot, "a", "", text="Two")
    crawl(service, web, spot)
    between = datetime.fromisoformat(first["completedAt"]) + timedelta(milliseconds=1)
    second = crawl(service, web, spot, since=between.isoformat())
    assert second["sinceJobId"] == first["id"]
    assert changes(second) == {"a": "changed"}


def test_a_crawl_that_ends_at_its_limit_reports_no_removed_page(service, web, spot):
    first = crawl(service, web, spot)
    put(web, spot, "", "bcd")
    for name in "bcd":
        put(web, spot, name, "", text="Two")
    second = crawl(service, web, spot, since=first["id"], limit=2)
    assert second["completed"] == 2
    told = removed(service, second)
    assert (told["isComplete"], told["urls"]) == (False, [])


def test_a_crawl_without_since_has_no_removed_urls(service, web, spot):
    found = crawl(service, web, spot)
    reply = service.get(f"/v2/crawl/{found['id']}/removed")
    assert reply.status == 400
    assert "since" in reply.json["error"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"since": "yesterday"}, "ISO 8601"),
        ({"since": str(uuid.uuid4())}, "no completed or cancelled crawl"),
        ({"since": "2020-01-01T00:00:00Z"}, "had ended by 2020"),
        ({"since": None}, None),
    ],
)
def test_a_since_that_stands_for_no_crawl_is_a_400(service, web, spot, options, text):
    body = {"url": web.url(f"{spot}/"), **options}
    reply = service.post("/v2/crawl", body)
    assert reply.status == (400 if text else 200)
    if text:
        [issue] = reply.json["details"]
        assert issue["path"] == ["since"]
        assert text in issue["message"]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "scrape",
    [
        {"formats": ["markdown", "html"]},  # other than in the earlier crawl
        {"headers": {"X-A": "b"}},
        {"lockdown": True},
        {"maxTokens": 500},
    ],
)
def test_pages_that_cannot_be_compared_are_a_400(service, web, spot, scrape):
    first = crawl(service, web, spot)
    body = {
        "url": web.url(f"{spot}/"),
        "since": first["id"],
        "scrapeOptions": scrape,
    }
    reply = service.post("/v2/crawl", body)
    assert reply.status == 400
    assert [each["path"] for each in reply.json["details"]] == [["since"]]


def test_a_crawl_without_responses_is_no_base(service, web, spot):
    first = crawl(service, web, spot, keepSources=False)
    body = {"url": web.url(f"{spot}/"), "since": first["id"]}
    reply = service.post("/v2/crawl", body)
    assert reply.status == 400
    assert "keepSources" in reply.json["details"][0]["message"]


def test_a_running_crawl_is_no_base(service, web, spot):
    web.put(f"{spot}/a", slow(page(), 30))
    body = {"url": web.url(f"{spot}/"), "sitemap": "skip"}
    running = service.post("/v2/crawl", body).json["id"]
    try:
        reply = service.post("/v2/crawl", {**body, "since": running})
        assert reply.status == 400
    finally:
        service.request("DELETE", f"/v2/crawl/{running}")


def test_times_without_a_zone_are_in_utc(service, web, spot):
    first = crawl(service, web, spot)
    at = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=1)
    second = crawl(service, web, spot, since=at.isoformat())
    assert second["sinceJobId"] == first["id"]


def test_a_cancelled_crawl_is_the_base_of_one_with_other_rules(service, web, spot):
    """What a PATCH of the rules of a running crawl names as the way."""
    web.put(f"{spot}/c", slow(page(title="Page c"), 60))
    body = {"url": web.url(f"{spot}/"), "sitemap": "skip"}
    first = f"/v2/crawl/{service.post('/v2/crawl', body).json['id']}"
    wait_until(lambda: service.get(first).json["completed"] == 3)
    assert service.request("DELETE", first).json["status"] == "cancelled"
    put(web, spot, "d", "", text="New")
    put(web, spot, "", "abcd")
    since = first.rpartition("/")[2]
    second = crawl(service, web, spot, since=since, excludePaths=["/c$"])
    assert changes(second) == {"": "changed", "d": "new"}
