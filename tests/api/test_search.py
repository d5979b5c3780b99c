"""Searches seen from outside: engines, what stands in for them, pages, credits, errors."""

from __future__ import annotations

import time
import urllib.parse
import uuid

import pytest

from tests.api.test_limits import Team
from tests.conftest import KEY, Service
from tests.support.scripted_site import ScriptedSite, answer, page
from tests.support.search_engines import SearchEngines
from tests.support.waiting import wait_until

COUNT = 12
NOWHERE = "http://127.0.0.2:1/nobody"
PAGES = {
    **{
        f"/p{n}": page(title=f"Page {n}", text=f"All about rabbits, part {n}")
        for n in range(COUNT)
    },
    "/gone": answer("<title>Gone</title>", 404),
    "/empty": answer(""),
    "/image": page(
        title="Picture of an okapi",
        head='<meta property="og:image" content="http://i.example/okapi.png">'
        '<meta property="article:published_time" content="2024-05-31">',
        text="An okapi stands by a river",
    ),
    "/guide.pdf.html": page(title="Guide", text="Rabbits need hay"),
    **{f"/hay{n}": page(title=f"Hay {n}", text=f"Straw {n}") for n in range(4)},
    **{f"/secret{n}": page(title="Secret", text="A pelican") for n in range(3)},
}
SHOWN = ("url", "title", "description")


def _results(site):
    web = [
        {"url": site.url(f"/p{n}"), "title": f"Result {n}", "text": f"Rabbits, {n}"}
        for n in range(COUNT)
    ]
    web += [{"url": "mailto:x", "title": "No page"}, {"url": 7}, "nothing", None]
    news = [
        {
            "url": site.url("/p1"),
            "title": "News",
            "text": "It has happened",
            "date": "2 hours ago",
            "image": "http://i.example/n.png",
        }
    ]
    images = [
        {
            "url": site.url("/p2"),
            "title": "Image",
            "image": "http://i.example/a.png",
            "width": 640,
            "height": 480,
        },
        {"url": site.url("/p3"), "title": "None"},
    ]
    return {"web": web, "news": news, "images": images}


@pytest.fixture(scope="module")
def pages():
    with ScriptedSite(PAGES) as site:
        yield site


@pytest.fixture(scope="module")
def engines(pages):
    with SearchEngines(_results(pages)) as running:
        yield running


@pytest.fixture(scope="module")
def searching(engines, tmp_path_factory):
    """Return a function: the service that asks these engines, in this mode.

    One service for all tests that ask for the same.
    """
    running: dict[tuple[str, str], Service] = {}

    def start(providers="searxng", mode="ok"):
        if (providers, mode) not in running:
            running[providers, mode] = Service(
                tmp_path_factory.mktemp("search"),
                **engines.environment(providers, mode),
                SCRAPER_API_KEYS=f"{KEY},other",
            )
        return running[providers, mode]

    yield start
    for service in running.values():
        assert service.stop() == 0


def v2(service, query="rabbits", status=200, key=KEY, **options):
    reply = service.post("/v2/search", {"query": query, **options}, key=key)
    assert reply.status == status, reply
    assert reply.json["success"] is (status == 200)
    return reply.json


def v1(service, query="rabbits", **options):
    reply = service.post("/v1/search", {"query": query, **options})
    assert reply.status == 200, reply
    return reply.json


def urls(items):
    return [item["url"] for item in items]


# -- what engines answer -----------------------------------------------------------------


def test_v2_gives_all_kinds_of_results(searching, pages):
    found = v2(searching(), sources=["web", "news", "images"], limit=2)
    assert list(found["data"]) == ["web", "news", "images"]
    assert found["data"]["web"] == [
        {
            "url": pages.url(f"/p{n}"),
            "title": f"Result {n}",
            "description": f"Rabbits, {n}",
            "position": n + 1,
        }
        for n in range(2)
    ]
    assert found["data"]["news"] == [
        {
            "url": pages.url("/p1"),
            "title": "News",
            "snippet": "It has happened",
            "date": "2 hours ago",
            "imageUrl": "http://i.example/n.png",
            "position": 1,
        }
    ]
    assert found["data"]["images"] == [
        {
            "url": pages.url("/p2"),
            "title": "Image",
            "imageUrl": "http://i.example/a.png",
            "imageWidth": 640,
            "imageHeight": 480,
            "position": 1,
        }
    ]
    assert uuid.UUID(found["id"])
    assert found["creditsUsed"] == 2
    assert "warning" not in found


def test_v1_returns_a_single_list(searching, pages):
    found = v1(searching(), limit=2)
    assert [tuple(item) for item in found["data"]] == [SHOWN, SHOWN]
    assert urls(found["data"]) == [pages.url("/p0"), pages.url("/p1")]
    assert found["success"] is True
    assert "warning" not in found


def test_a_warning_names_the_options_that_an_engine_ignores(searching):
    found = v2(searching("searxng"), location="Vienna", tbs="cdr:1,cd_min:1/1/2024")
    assert "SearXNG: location, tbs" in found["warning"]


def test_operators_that_an_engine_ignores_are_applied_to_its_results(searching, pages):
    service = searching()
    host = urllib.parse.urlsplit(pages.address).hostname
    assert v2(service, f"rabbits -site:{host}")["data"] == {"web": []}
    assert v2(service, "rabbits site:b.example")["data"] == {"web": []}
    assert len(v2(service, f"rabbits site:{host}")["data"]["web"]) == 5
    found = v2(service, 'rabbits "result 7"')["data"]["web"]
    assert urls(found) == [pages.url("/p7")]
    assert v2(service, "x", includeDomains=["b.example"])["data"] == {"web": []}
    assert v2(service, "x", excludeDomains=[host])["data"] == {"web": []}
    rules = {"blacklist": [host]}
    assert v2(service, "x", threatProtection=rules)["data"] == {"web": []}


def test_results_of_categories_have_their_names(engines, tmp_path):
    results = {
        "web": [
            {"url": "https://github.com/a/b", "title": "Code"},
            {"url": "https://arxiv.org/abs/1", "title": "Paper"},
            {"url": "https://a.example/x.pdf", "title": "File"},
        ]
    }
    with SearchEngines(results) as own:
        service = Service(tmp_path, **own.environment("searxng"))
        found = v2(service, categories=["github", {"type": "research"}, "pdf"])
        assert service.stop() == 0
    categories = [item["category"] for item in found["data"]["web"]]
    assert categories == ["github", "research", "pdf"]


def test_a_source_that_is_not_there_is_ignored(searching):
    service = searching()
    both = [{"type": "web"}, {"type": "alexandria"}]
    assert list(v2(service, sources=both)["data"]) == ["web"]
    assert list(v2(service, sources=["alexandria"])["data"]) == ["web"]
    more = {"domainTools": True, "toolDetail": "compact", "highlights": True}
    assert v2(service, enterprise=["zdr"], safe="off", **more)["data"]["web"]


# -- engines that fail ---------------------------------------------------------------------


def test_an_engine_that_fails_is_an_error_that_names_it(searching):
    service = searching("searxng", "blocked")
    found = v2(service, "nobody knows", status=500)
    assert "SearXNG gets too many requests" in found["error"]
    assert service.post("/v1/search", {"query": "nobody knows"}).status == 500


def test_a_search_that_takes_too_long_is_a_408(searching, engines):
    service = searching()
    with engines.held():
        found = v2(service, status=408, timeout=1)
    assert found["code"] == "SCRAPE_TIMEOUT"


def test_an_empty_result_of_an_engine_is_no_failure(searching):
    found = v2(searching("searxng", "empty"), sources=["web", "news"])
    assert found["data"] == {"web": [], "news": []}
    assert found["creditsUsed"] == 0
    found = v1(searching("searxng", "empty"))
    assert found["data"] == []
    assert found["warning"] == "No search results found"


# -- pages of results ----------------------------------------------------------------------


def test_v2_scrapes_web_and_news(searching, pages):
    service = searching()
    found = v2(
        service,
        sources=["web", "news", "images"],
        limit=2,
        scrapeOptions={"formats": ["markdown", "links"]},
    )
    web, news, images = found["data"].values()
    assert [item["markdown"].partition("\n")[0] for item in web] == [
        "# Page 0",
        "# Page 1",
    ]
    assert news[0]["markdown"].startswith("# Page 1")
    assert news[0]["snippet"] == "It has happened"
    assert "markdown" not in images[0]
    scraped = [*web, *news]
    assert all(item["metadata"]["statusCode"] == 200 for item in scraped)
    assert found["creditsUsed"] == 2 + sum(
        item["metadata"]["creditsUsed"] for item in scraped
    )
    stored = service.get(f"/v2/scrape/{web[0]['metadata']['scrapeId']}")
    assert stored.json["data"]["markdown"] == web[0]["markdown"]


def test_formats_decide_whether_pages_are_scraped(searching):
    service = searching()
    for options in ({"formats": []}, None):
        [item] = v2(service, limit=1, scrapeOptions=options)["data"]["web"]
        assert tuple(item) == (*SHOWN, "position")
    [item] = v1(service, limit=1, scrapeOptions={"onlyMainContent": False})["data"]
    assert tuple(item) == SHOWN
    [item] = v2(service, limit=1, scrapeOptions={"formats": ["html"]})["data"]["web"]
    assert "html" in item


def test_results_are_scraped_from_the_cache_for_three_days_by_default(searching):
    service = searching()

    def state(**more):
        options = {"formats": ["markdown"], **more}
        [page] = v2(service, limit=1, scrapeOptions=options)["data"]["web"]
        return page["metadata"].get("cacheState")

    wait_until(lambda: state() == "hit")
    assert state(maxAge=0) is None


@pytest.fixture(scope="module")
def mixed(pages, tmp_path_factory):
    """A service whose engine finds good pages and bad ones."""
    bad = [{"url": url, "title": "Bad", "text": "b"} for url in (NOWHERE, "http://x")]
    good = [
        {"url": pages.url(path), "title": path, "text": "g"}
        for path in ("/p0", "/gone", "/empty")
    ]
    with SearchEngines({"web": [*good, *bad], "news": bad}) as engines:
        service = Service(
            tmp_path_factory.mktemp("mixed"), **engines.environment("searxng")
        )
        yield service
        assert service.stop() == 0


MARKDOWN = {"formats": ["markdown"]}


def test_v2_keeps_results_whose_pages_failed(mixed, pages):
    found = v2(mixed, scrapeOptions=MARKDOWN)
    web = {item["url"]: item for item in found["data"]["web"]}
    assert len(web) == 5
    assert "markdown" in web[pages.url("/p0")]
    assert web[pages.url("/gone")]["metadata"]["statusCode"] == 404
    failed = web[NOWHERE]
    assert tuple(failed) == (*SHOWN, "position", "metadata")
    assert failed["metadata"]["error"]
    assert failed["metadata"]["proxyUsed"] == "basic"
    assert web["http://x"]["metadata"]["error"]
    assert found["creditsUsed"] == 2 + 3


def test_v1_leaves_out_results_without_page_content(mixed, pages):
    found = v1(mixed, scrapeOptions=MARKDOWN)
    assert pages.url("/p0") in urls(found["data"])
    assert not {NOWHERE, "http://x", pages.url("/empty")} & {*urls(found["data"])}


def test_v1_keeps_them_where_all_have_failed(pages, tmp_path):
    bad = [{"url": NOWHERE, "title": "Bad", "text": "b"}]
    with SearchEngines({"web": bad}) as engines:
        service = Service(tmp_path, **engines.environment("searxng"))
        found = v1(service, scrapeOptions=MARKDOWN)
        assert service.stop() == 0
    [item] = found["data"]
    assert found["warning"] == "No content found in search results"
    assert item["url"] == NOWHERE
    assert {"statusCode", "error", "proxyUsed"} <= item["metadata"].keys()


def test_urls_that_cannot_be_scraped_are_left_out_with_ignoreInvalidURLs(mixed):
    assert "http://x" in urls(v2(mixed)["data"]["web"])
    found = v2(mixed, ignoreInvalidURLs=True)
    assert "http://x" not in urls(found["data"]["web"])


def test_pages_may_come_later(searching):
    service = searching()
    found = v2(service, limit=2, scrapeOptions=MARKDOWN, asyncScraping=True)
    assert all(tuple(item) == (*SHOWN, "position") for item in found["data"]["web"])
    ids = found["scrapeIds"]["web"]
    assert len(ids) == 2
    wait_until(lambda: service.get(f"/v2/scrape/{ids[1]}").status == 200)
    page = service.get(f"/v2/scrape/{ids[1]}").json["data"]
    assert page["metadata"]["sourceURL"] == found["data"]["web"][1]["url"]


def test_results_on_blocked_sites_are_not_scraped(pages, engines, tmp_path):
    service = Service(
        tmp_path,
        **engines.environment("searxng"),
        SCRAPER_EGRESS_ALLOW="",
    )
    [item] = v2(service, limit=1, scrapeOptions=MARKDOWN)["data"]["web"]
    assert service.stop() == 0
    assert "markdown" not in item
    assert item["metadata"]["error"]


# -- credits and limits --------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_is_charged_once_and_refused_without_credits(
    engines, tmp_path, start_service
):
    service = start_service(**engines.environment("searxng"))
    key = Team(service, tmp_path, "--credits", "5").key
    assert v2(service, limit=3, key=key)["creditsUsed"] == 2
    usage = service.get("/v2/team/credit-usage", key=key).json["data"]
    assert usage["remainingCredits"] == 3
    # Three are too few for the list of eleven; nothing is done then.
    before = len(engines.log())
    reply = service.post("/v2/search", {"query": "x", "limit": 11}, key=key)
    assert reply.status == 402
    assert reply.json["error"].startswith("Insufficient credits to perform this")
    assert len(engines.log()) == before
    found = v2(service, limit=2, scrapeOptions=MARKDOWN, key=key)
    errors = [item["metadata"].get("error", "") for item in found["data"]["web"]]
    assert sum("Insufficient credits" in error for error in errors) == 1
    assert found["creditsUsed"] == 3
    usage = service.get("/v2/team/credit-usage", key=key).json["data"]
    assert usage["remainingCredits"] == 0
    assert service.post("/v2/search", {"query": "x"}, key=key).status == 402
    [latest, *_] = service.get("/v2/team/activity?endpoint=search", key=key).json[
        "data"
    ]
    assert latest["endpoint"] == "search"


def test_searches_have_a_rate_of_their_own(engines, start_service):
    service = start_service(
        **engines.environment("searxng"), SCRAPER_RATE_LIMITS="search=2"
    )
    statuses = [service.post("/v2/search", {"query": "x"}).status for _ in range(3)]
    assert statuses == [200, 200, 429]


# -- what the body may be ------------------------------------------------------------------

BAD_V2 = {
    "no query": ({"query": None}, ["query"]),
    "an empty query": ({"query": "  "}, ["query"]),
    "a limit of none": ({"limit": 0}, ["limit"]),
    "a large limit": ({"limit": 101}, ["limit"]),
    "an unknown source": ({"sources": ["books"]}, ["sources", 0]),
    "a source twice": (
        {"sources": [{"type": "web"}, {"type": "web", "lang": "de"}]},
        ["sources"],
    ),
    "a category of others": ({"categories": ["developer"]}, ["categories", 0]),
    "both lists of domains": (
        {"includeDomains": ["a.example"], "excludeDomains": ["b.example"]},
        ["excludeDomains"],
    ),
    "no domain": ({"includeDomains": ["not a domain"]}, ["includeDomains", 0]),
    "an unknown time": ({"tbs": "yesterday"}, ["tbs"]),
    "an unknown country": ({"country": "Austria"}, ["country"]),
    "an unknown key": ({"foo": 1}, []),
    "a wrong format": ({"scrapeOptions": {"formats": ["x"]}}, None),
}


@pytest.mark.parametrize("case", BAD_V2)
def test_v2_names_the_errors_of_a_body(service, case):
    body, path = BAD_V2[case]
    reply = service.post("/v2/search", {"query": "x", **body})
    assert reply.status == 400
    assert reply.json["success"] is False
    assert reply.json["error"] == "Invalid request body"
    assert "code" not in reply.json
    found = [issue["path"] for issue in reply.json["details"]]
    assert path is None or found == [path]


def test_v1_names_the_errors_of_a_body(service):
    for body, path in (
        ({}, ["query"]),
        ({"query": "x", "limit": 0}, ["limit"]),
        ({"query": "x", "sources": ["web"]}, []),
    ):
        reply = service.post("/v1/search", body)
        assert reply.status == 400
        assert reply.json["error"] == "Bad Request"
        assert reply.json["code"] == "BAD_REQUEST"
        assert [issue["path"] for issue in reply.json["details"]] == [path]


# -- the index of scraped pages ----------------------------------------------------------------


def test_scraped_pages_are_found_without_an_engine_and_by_their_team_only(
    searching, pages
):
    service = searching("own")
    service.post("/v2/scrape", {"url": pages.url("/image"), "formats": ["links"]})
    wait_until(lambda: v2(service, "okapis")["data"]["web"])
    found = v2(service, "okapis", sources=["web", "news", "images"])
    assert "No search engine is configured" in found["warning"]
    assert found["data"]["web"] == [
        {
            "url": pages.url("/image"),
            "title": "Picture of an okapi",
            "description": "An okapi stands by a river",
            "position": 1,
        }
    ]
    assert found["data"]["news"][0]["date"] == "2024-05-31"
    assert found["data"]["images"][0]["imageUrl"] == "http://i.example/okapi.png"
    assert v2(service, "okapis", key="other")["data"]["web"] == []
    [item] = v1(service, "okapis", scrapeOptions=MARKDOWN)["data"]
    assert "An okapi stands" in item["markdown"]


def test_pages_of_jobs_are_found(searching, pages):
    service = searching("own")
    job = service.post(
        "/v2/batch/scrape", {"urls": [pages.url(f"/p{n}") for n in range(COUNT)]}
    ).json
    wait_until(lambda: len(v2(service, "rabbit", limit=50)["data"]["web"]) == COUNT)
    assert service.get(f"/v2/batch/scrape/{job['id']}").json["status"] == "completed"
    [hit] = v2(service, '"part 7"')["data"]["web"]
    assert hit["url"] == pages.url("/p7")


PRIVATE = (
    {"zeroDataRetention": True},
    {"storeInCache": False},
    {"headers": {"Cookie": "a=b"}},
)


@pytest.mark.parametrize("number", range(len(PRIVATE)))
def test_private_pages_are_never_found(searching, pages, number):
    service = searching("own")
    body = {"url": pages.url(f"/secret{number}"), **PRIVATE[number]}
    assert service.post("/v2/scrape", body).status == 200
    scrape_and_find(service, pages.url(f"/hay{number}"))
    assert v2(service, "pelican")["data"]["web"] == []


def test_pages_that_failed_are_not_found(searching, pages):
    service = searching("own")
    service.post("/v2/scrape", {"url": pages.url("/gone")})
    scrape_and_find(service, pages.url("/hay3"))
    assert v2(service, "inurl:gone")["data"]["web"] == []


def scrape_and_find(service, url):
    """Scrape a page; return when searches find it, and all that came before it."""
    service.post("/v2/scrape", {"url": url})
    wait_until(lambda: url in urls(v2(service, "straw", limit=20)["data"]["web"]))


def test_the_index_stands_in_for_an_engine_that_is_down(searching, pages):
    service = searching("searxng", "blocked")
    service.post("/v2/scrape", {"url": pages.url("/guide.pdf.html")})
    wait_until(lambda: service.post("/v2/search", {"query": "hay"}).status == 200)
    found = v2(service, "hay")
    assert urls(found["data"]["web"]) == [pages.url("/guide.pdf.html")]
    assert "SearXNG gets too many requests" in found["warning"]


def test_the_index_fills_up_what_an_engine_leaves_free(searching, pages):
    service = searching("searxng", "empty")
    service.post("/v2/scrape", {"url": pages.url("/guide.pdf.html")})
    wait_until(lambda: v2(service, "hay")["data"]["web"])
    assert "warning" not in v2(service, "hay")


@pytest.mark.slow
def test_the_index_can_be_switched_off(pages, start_service):
    service = start_service(
        SCRAPER_SEARCH_INDEX="false", SCRAPER_SEARCH_PROVIDERS="own"
    )
    service.post("/v2/scrape", {"url": pages.url("/guide.pdf.html")})
    time.sleep(1)
    assert v2(service, "hay")["data"]["web"] == []


@pytest.mark.slow
def test_the_index_survives_a_crash(pages, tmp_path, start_service):
    own = {"SCRAPER_SEARCH_PROVIDERS": "own"}
    service = start_service(**own)
    service.post("/v2/scrape", {"url": pages.url("/guide.pdf.html")})
    wait_until(lambda: v2(service, "hay")["data"]["web"])
    service.kill()
    service = start_service(**own)
    assert urls(v2(service, "hay")["data"]["web"]) == [pages.url("/guide.pdf.html")]
