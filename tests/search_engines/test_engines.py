"""Engines as the service asks them, without the service: answers, options, failures."""

from __future__ import annotations

import asyncio

import pytest
from scrapy.settings import Settings

from scraper_service.errors import SearchDown, SearchTimedOut
from scraper_service.options.map_search import ResultList, SearchOptions, time_filter
from scraper_service.search_engines.web_search import Searches
from tests.support.search_engines import PAGE, SearchEngines

COUNT = 12
WEB = [
    {"url": f"http://a.example/{n}", "title": f"Result {n}", "text": f"Hay, {n}"}
    for n in range(COUNT)
]
NEWS = [{**WEB[0], "date": "2 hours ago", "image": "http://i.example/n.png"}]
IMAGES = [{**WEB[1], "image": "http://i.example/a.png", "width": 640, "height": 480}]
ODD = [{"url": "mailto:x", "title": "No page"}, {"url": 7}, "nothing", None]


@pytest.fixture(scope="module")
def engines():
    results = {"web": [*WEB, *ODD], "news": [*NEWS, *ODD], "images": [*IMAGES, *ODD]}
    with SearchEngines(results) as running:
        yield running


@pytest.fixture
def find(engines, tmp_path):
    """Return a function: what a search of these engines comes to."""

    def call(providers="searxng", mode="ok", query="hay", timeout_s=60, **options):
        asked = engines.environment(providers, mode)
        settings = Settings()
        settings.setmodule("scraper_service.settings")
        settings.setdict(
            {name.removeprefix("SCRAPER_"): value for name, value in asked.items()}
        )
        settings.set("DATA_DIR", str(tmp_path))
        settings.set("SEARCH_TIMEOUT_S", timeout_s)

        async def ask():
            searches = Searches(settings)
            try:
                return await searches.find(SearchOptions(query=query, **options))
            finally:
                await searches.close()

        return asyncio.run(ask())

    return call


@pytest.mark.parametrize("provider", ["searxng", "brave", "serper"])
def test_each_engine_gives_all_kinds_of_results(find, provider):
    sources = tuple(ResultList(kind=kind) for kind in ("web", "news", "images"))
    found = find(provider, sources=sources, limit=2)
    web, news, images = found.groups.values()
    assert [(hit.url, hit.title, hit.description) for hit in web] == [
        (row["url"], row["title"], row["text"]) for row in WEB[:2]
    ]
    assert [(hit.date, hit.image_url) for hit in news] == [
        ("2 hours ago", "http://i.example/n.png")
    ]
    [image] = images
    assert (image.image_url, image.url) == ("http://i.example/a.png", WEB[1]["url"])
    assert (image.image_width, image.image_height) == (640, 480)
    assert found.warnings == ()


@pytest.mark.parametrize("provider", ["searxng", "brave", "serper"])
def test_more_results_than_one_response_has_are_fetched_page_by_page(find, provider):
    found = find(provider, limit=PAGE + 2)
    assert [hit.url for hit in found.groups["web"]] == [row["url"] for row in WEB]


def test_options_reach_the_engines(find, engines):
    facts = {"when": time_filter("qdr:w"), "language": "de", "country": "at"}
    plain = (ResultList(**facts),)
    find("searxng", sources=plain, limit=1)
    asked = engines.log()[-1]["asked"]
    assert (asked["language"], asked["time_range"]) == ("de-AT", "week")
    find("brave", sources=plain, limit=1)
    asked = engines.log()[-1]["asked"]
    assert (asked["search_lang"], asked["country"]) == ("de", "AT")
    assert asked["freshness"] == "pw"
    found = find(
        "serper", sources=(ResultList(location="Vienna", filter="0", **facts),), limit=1
    )
    asked = engines.log()[-1]["asked"]
    assert (asked["hl"], asked["gl"], asked["tbs"]) == ("de", "at", "qdr:w")
    assert (asked["location"], asked["filter"]) == ("Vienna", "0")
    assert found.warnings == ()


def test_operators_become_part_of_the_query(find, engines):
    cases = {
        "x (site:github.com OR filetype:pdf)": {"categories": ("github", "pdf")},
        "x site:a.example": {"include_domains": ("a.example",)},
        "x -site:a.example -site:b.c": {"exclude_domains": ("a.example", "b.c")},
    }
    for text, options in cases.items():
        find("serper", query="x", **options)
        assert engines.log()[-1]["asked"]["q"] == text


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("blocked", "too many requests"),
        ("closed", "403"),
        ("broken", "500"),
        ("malformed", "no JSON object"),
        ("list", "no JSON object"),
        ("moved", "302"),
        ("huge", "larger response than allowed"),
        ("silent", "google: CAPTCHA"),
    ],
)
def test_an_engine_that_fails_is_never_an_empty_success(find, mode, reason):
    with pytest.raises(SearchDown, match=reason) as raised:
        find("searxng", mode)
    assert "SearXNG" in str(raised.value)


def test_an_engine_that_does_not_respond_is_never_an_empty_success(find, engines):
    with (
        engines.held(),
        pytest.raises(SearchDown, match="SearXNG did not answer in time"),
    ):
        find("searxng", timeout_s=0.2)


def test_the_next_engine_is_tried_and_a_warning_names_the_failures(find):
    found = find("searxng,brave,serper", "blocked,broken,ok", limit=1)
    assert found.groups["web"][0].url == WEB[0]["url"]
    [warning] = found.warnings
    assert "SearXNG gets too many requests" in warning
    assert "Brave answered with status 500" in warning


def test_a_second_engine_is_not_queried_if_the_first_responds(find, engines):
    before = len(engines.log())
    find("serper,brave", limit=1)
    assert [asked["path"] for asked in engines.log()[before:]] == ["/ok/serper/search"]


def test_no_engine_key_appears_in_errors_or_logs(find, caplog):
    with pytest.raises(SearchDown) as raised:
        find("brave", "broken")
    assert "engine-key" not in str(raised.value)
    assert "engine-key" not in caplog.text


def test_a_search_has_a_time_out_of_its_own(find, engines):
    with engines.held(), pytest.raises(SearchTimedOut):
        find("searxng", timeout_ms=200)


def test_settings_that_cannot_be_used_are_named(find):
    with pytest.raises(ValueError, match="'altavista' must be one of searxng, brave"):
        find("altavista")
