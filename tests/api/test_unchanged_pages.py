"""Checks of monitors that fetch and convert only what may have changed."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from tests.support.crash import sqlite_of
from tests.support.monitors import create, run, scrape, states
from tests.support.scripted_site import ScriptedSite, answer, moved, page

_numbers = itertools.count()


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture
def spot(web):
    """A part of the site of its own."""
    return f"/{next(_numbers)}"


def statuses(web, spot):
    """Return the statuses of all responses below a part of the site, by path."""
    found: dict[str, list[int]] = {}
    for path, status in web.statuses():
        if path.startswith(f"{spot}/"):
            found.setdefault(path.removeprefix(f"{spot}/"), []).append(status)
    return found


def stored(service, scrape_id):
    reply = service.get(f"/v2/scrape/{scrape_id}")
    assert reply.status == 200, reply.json
    return reply.json["data"]


def as_validators(kind):
    if kind == "etag":
        return {"ETag": '"1"'}
    return {"Last_Modified": "Sun, 01 Nov 2026 08:00:00 GMT"}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["etag", "date"])
def test_a_304_is_the_same_page(service, web, spot, kind):
    web.put(f"{spot}/a", answer(page(text="One"), **as_validators(kind)))
    made = create(service, scrape(web.url(f"{spot}/a"), formats=["markdown", "links"]))
    first = run(service, made)["pages"][0]
    second = run(service, made)["pages"][0]
    third = run(service, made)["pages"][0]
    assert statuses(web, spot) == {"a": [200, 304, 304]}
    assert [x["status"] for x in (first, second, third)] == ["new", "same", "same"]
    assert third["statusCode"] == 200
    before, after = (stored(service, x["currentScrapeId"]) for x in (first, third))
    told, repeated = before.pop("metadata"), after.pop("metadata")
    assert after == before
    assert repeated.pop("unchanged") is True
    assert repeated.pop("scrapeId") != told.pop("scrapeId")
    assert repeated == told
    web.put(f"{spot}/a", answer(page(text="Two"), ETag='"2"'))
    assert states(run(service, made)) == {"a": "changed"}


@pytest.mark.parametrize("tag", ['"\u00e9"', '"' + "x" * 5000 + '"'])
def test_an_odd_tag_is_not_sent_back(service, web, spot, tag):
    web.put(f"{spot}/a", answer(page(text="One"), ETag=tag))
    made = create(service, scrape(web.url(f"{spot}/a")))
    run(service, made)
    assert states(run(service, made)) == {"a": "same"}
    assert statuses(web, spot) == {"a": [200, 200]}


def test_the_same_bytes_are_not_converted_again(service, web, spot):
    web.put(f"{spot}/a", page(text="One"))
    made = create(service, scrape(web.url(f"{spot}/a")))
    run(service, made)
    second = run(service, made)["pages"][0]
    assert statuses(web, spot) == {"a": [200, 200]}
    assert second["status"] == "same"
    assert stored(service, second["currentScrapeId"])["metadata"]["unchanged"] is True


def test_an_unchanged_page_has_a_price_of_its_own(start_service, web, spot):
    service = start_service(SCRAPER_CREDITS_UNCHANGED="2")
    web.put(f"{spot}/a", answer(page(text="One"), ETag='"1"'))
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    formats = [{"type": "json", "schema": schema}]
    made = create(service, scrape(web.url(f"{spot}/a"), formats=formats))
    prices = [run(service, made)["actualCredits"] for _ in range(2)]
    assert prices == [5, 2]


def test_other_options_fetch_and_convert_again(service, web, spot):
    web.put(f"{spot}/a", answer(page(text="One"), ETag='"1"'))
    made = create(service, scrape(web.url(f"{spot}/a")))
    run(service, made)
    target = {**made["targets"][0], "scrapeOptions": {"formats": ["markdown", "html"]}}
    change = {"targets": [target]}
    assert service.request("PATCH", f"/v2/monitor/{made['id']}", change).status == 200
    second = run(service, made)["pages"][0]
    assert statuses(web, spot) == {"a": [200, 200]}
    assert "html" in stored(service, second["currentScrapeId"])


def test_validators_go_to_the_url_that_sent_them(service, web, spot):
    web.put(f"{spot}/old", moved(web.url(f"{spot}/a")))
    web.put(f"{spot}/a", answer(page(text="One"), ETag='"1"'))
    made = create(service, scrape(web.url(f"{spot}/old")))
    run(service, made)
    assert states(run(service, made)) == {"old": "same"}
    assert statuses(web, spot) == {"old": [301, 301], "a": [200, 304]}
    web.put(f"{spot}/b", answer(page(text="Two"), ETag='"1"'))
    web.put(f"{spot}/old", moved(web.url(f"{spot}/b")))
    assert states(run(service, made)) == {"old": "changed"}
    assert statuses(web, spot)["b"] == [200]


def test_a_page_that_comes_back_is_not_taken_for_unchanged(service, web, spot):
    web.put(f"{spot}/a", answer(page(text="One"), ETag='"1"'))
    web.put(f"{spot}/b", page(text="Always here"))
    made = create(service, scrape(web.url(f"{spot}/a"), web.url(f"{spot}/b")))
    run(service, made)
    web.put(f"{spot}/a", answer("gone", status=404))
    assert states(run(service, made))["a"] == "removed"
    web.put(f"{spot}/a", answer(page(text="One"), ETag='"1"'))
    assert states(run(service, made))["a"] == "new"
    assert states(run(service, made))["a"] == "same"
    assert statuses(web, spot)["a"] == [200, 404, 200, 304]


def test_links_of_unchanged_pages_are_followed(service, web, spot):
    for name, links in {"": "ab", "a": "c", "b": "c", "c": ""}.items():
        urls = [f"{spot}/{each}" for each in links]
        web.put(f"{spot}/{name}", answer(page(*urls, title=f"Page {name}"), ETag='"1"'))
    made = create(service, crawl(web, f"{spot}/", sitemap="skip"))
    first = run(service, made)
    assert states(first) == dict.fromkeys(["", "a", "b", "c"], "new")
    # Another page may have found the link first.
    web.put(f"{spot}/a", answer(page(title="Page a, changed"), ETag='"2"'))
    assert states(run(service, made)) == {
        "": "same",
        "a": "changed",
        "b": "same",
        "c": "same",
    }
    assert statuses(web, spot) == {
        "": [200, 304],
        "a": [200, 200],
        "b": [200, 304],
        "c": [200, 304],
    }


def crawl(web, path, **options):
    return {"type": "crawl", "url": web.url(path), "crawlOptions": options}


def put_sitemap(web, spot, times, padding=0, **headers):
    rows = "".join(
        f"<url><loc>{web.url(f'{spot}/{name}')}</loc><lastmod>{at}</lastmod></url>"
        for name, at in times.items()
    )
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    body = f'<urlset xmlns="{space}">{rows}{" " * padding}</urlset>'
    found = answer(body, Content_Type="application/xml", **headers)
    web.put(f"{spot}/sitemap.xml", found)


def test_a_page_is_not_fetched_if_its_sitemap_has_the_same_time(service, web, spot):
    today = datetime.now(UTC)
    long_ago, now = "2026-01-02T10:00:00Z", f"{today:%Y-%m-%d}"
    times = {"a": long_ago, "b": long_ago, "c": now, "d": long_ago}
    for name in times:
        web.put(f"{spot}/{name}", page(title=f"Page {name}"))
    put_sitemap(web, spot, times)
    made = create(service, crawl(web, f"{spot}/sitemap.xml"))
    assert set(states(run(service, made)).values()) == {"new"}
    later = (today - timedelta(days=3)).isoformat(timespec="seconds")
    put_sitemap(web, spot, {**times, "b": later})
    web.put(f"{spot}/d", answer("gone", status=404))
    check = run(service, made)
    assert states(check) == dict.fromkeys(times, "same")
    counts = {name: len(found) for name, found in statuses(web, spot).items()}
    # c may have changed today after its fetch.
    assert {name: counts[name] for name in times} == {"a": 1, "b": 2, "c": 2, "d": 1}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["etag", "date"])
def test_an_unchanged_sitemap_is_not_sent_again(service, web, spot, kind):
    names = [f"p{number}" for number in range(20)]
    for name in names:
        web.put(f"{spot}/{name}", answer(page(title=f"Page {name}"), ETag='"1"'))
    put_sitemap(web, spot, dict.fromkeys(names, "2999-01-01"), **as_validators(kind))
    made = create(service, crawl(web, f"{spot}/sitemap.xml"))
    expected = dict.fromkeys(names, "new")
    for count in (1, 2, 3):
        assert states(run(service, made)) == expected
        found = statuses(web, spot)
        assert found["sitemap.xml"] == [200, 304, 304][:count]
        assert found["p0"] == [200, 304, 304][:count]
        expected = dict.fromkeys(names, "same")
    put_sitemap(web, spot, dict.fromkeys(names[:15], "2999-01-01"), ETag='"2"')
    check = run(service, made)
    assert statuses(web, spot)["sitemap.xml"] == [200, 304, 304, 200]
    assert check["summary"]["same"] == 15
    assert check["summary"]["removed"] == 5


@pytest.mark.full
def test_a_large_sitemap_is_fetched_again(service, web, spot):
    web.put(f"{spot}/a", answer(page(), ETag='"1"'))
    put_sitemap(web, spot, {"a": "2999-01-01"}, ETag='"1"', padding=9 * 2**20)
    made = create(service, crawl(web, f"{spot}/sitemap.xml"))
    for expected in ("new", "same"):
        assert states(run(service, made)) == {"a": expected}
    assert statuses(web, spot) == {"a": [200, 304], "sitemap.xml": [200, 200]}


def put_feed(web, path, entries, **headers):
    """Put an RSS feed; ``entries`` have the time of each page, empty for none."""
    rows = "".join(
        f"<item><title>{name}</title><link>{web.url(name)}</link>"
        f"{at and f'<pubDate>{at}</pubDate>'}</item>"
        for name, at in entries.items()
    )
    body = f'<rss version="2.0"><channel><title>News</title>{rows}</channel></rss>'
    web.put(path, answer(body, Content_Type="application/rss+xml", **headers))


OLD, NEWER = "Sun, 04 Jan 2026 10:00:00 GMT", "Mon, 05 Jan 2026 10:00:00 GMT"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["news", "news.xml"])  # a page, and a sitemap
@pytest.mark.parametrize("has_times", [False, True])
def test_entries_of_an_unchanged_feed_are_not_fetched(
    service, web, spot, name, has_times
):
    paths = [f"{spot}/{each}" for each in "abc"]
    for path in paths:
        web.put(path, page(title=f"Page {path}"))
    times = dict.fromkeys(paths[:2], OLD if has_times else "")
    put_feed(web, f"{spot}/{name}", times, Last_Modified=OLD)
    target = crawl(web, f"{spot}/{name}", crawlEntireDomain=True)
    made = create(service, target)
    first = run(service, made)
    assert {"a": "new", "b": "new"}.items() <= states(first).items()
    again = states(run(service, made))
    assert again == dict.fromkeys(states(first), "same")
    found = statuses(web, spot)
    found.pop(f"{name}/sitemap.xml", None)  # looked for below each start page
    assert found == {name: [200, 304], "a": [200], "b": [200]}
    later = dict.fromkeys(paths[1:], NEWER if has_times else "")
    put_feed(web, f"{spot}/{name}", later, Last_Modified=NEWER)
    assert states(run(service, made))["c"] == "new"
    found = statuses(web, spot)
    assert (found[name], found["c"]) == ([200, 304, 200], [200])
    assert (found["a"], found["b"]) == ([200], [200, 200])


def test_lastmod_of_sitemaps_is_trusted_for_SCRAPER_LASTMOD_TRUST_S(
    start_service, web, spot
):
    service = start_service(SCRAPER_LASTMOD_TRUST_S="0")
    web.put(f"{spot}/a", page(title="Page a"))
    put_sitemap(web, spot, {"a": "2026-01-02T10:00:00Z"})
    made = create(service, crawl(web, f"{spot}/sitemap.xml"))
    run(service, made)
    run(service, made)
    assert statuses(web, spot)["a"] == [200, 200]


@pytest.mark.full
def test_only_the_last_check_keeps_responses(start_service, web, spot, tmp_path):
    service = start_service()
    web.put(f"{spot}/a", answer(page(text="One" * 1000), ETag='"1"'))
    made = create(service, scrape(web.url(f"{spot}/a")))
    for _ in range(3):
        run(service, made)
    assert statuses(web, spot) == {"a": [200, 304, 304]}
    engine = sa.create_engine(sqlite_of(tmp_path), poolclass=sa.NullPool)
    with engine.begin() as connection:
        count = connection.scalar(sa.text("SELECT count(*) FROM page_source"))
    engine.dispose()
    assert count == 1


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["etag", "bytes"])
@pytest.mark.parametrize("is_crawl", [False, True])
def test_an_unchanged_page_costs_no_call_of_the_model(
    clever, chat, web, spot, kind, is_crawl
):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    data = {"type": "changeTracking", "modes": ["json"], "schema": schema}
    options = {"formats": [{**data, "prompt": "The title"}, "summary"]}
    headers = as_validators(kind) if kind == "etag" else {}
    web.put(f"{spot}/a", answer(page(text="One " * 50), **headers))
    target = scrape(web.url(f"{spot}/a"), **options)
    if is_crawl:
        target = {**crawl(web, f"{spot}/a", sitemap="skip"), "scrapeOptions": options}
    verdict = {"meaningful": True, "confidence": "high", "reason": "It is another."}
    replies = {"matters": verdict, "Summarise": "A lamp.", "": {"title": "Lamp"}}
    chat.behave(answer={"by_text": replies})
    made = create(clever, target, goal="Other titles")
    assert states(run(clever, made)) == {"a": "new"}
    calls = len(chat.asked())
    assert calls >= 2
    for _ in range(2):
        [found] = run(clever, made)["pages"]
        assert found["status"] == "same"
        assert found["snapshot"]["json"] == {"title": "Lamp"}
    assert len(chat.asked()) == calls
    replies[""] = {"title": "Lamp of the year"}
    chat.behave(answer={"by_text": replies})
    web.put(f"{spot}/a", page(text="Two " * 50))
    [found] = run(clever, made)["pages"]
    assert (found["status"], found["judgment"]["reason"]) == (
        "changed",
        "It is another.",
    )
    assert len(chat.asked()) == calls + 1
