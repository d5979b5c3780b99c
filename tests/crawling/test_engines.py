"""Which engine fetches a page; what blockAds blocks; what a session keeps."""

from __future__ import annotations

import subprocess
import sys

import pytest
from attrs import evolve
from scrapy.settings import Settings

from scraper_service.content.html.embedded import AD_HOSTS
from scraper_service.content.page_urls import is_blocked, read_hosts
from scraper_service.crawling.browser.open_page import languages, time_zone
from scraper_service.crawling.middlewares import Engines
from scraper_service.options.formats import Screenshot
from scraper_service.options.scrape import LANGUAGES, Location, Profile
from scraper_service.options.spider_arguments import page_options
from scraper_service.storage.accounts.sessions import (
    MAX_STATE_BYTES,
    SessionBox,
    merge_changes,
)

PLAIN = page_options({"url": "https://example.com"}).scrape
PAGE = "https://a.example/page"


def engines(mode):
    settings = Settings(
        {"RENDER": mode, "CHROMIUM_PATH": "/bin/sh", "BROWSER_SANDBOX": False}
    )
    return Engines(settings)


@pytest.mark.parametrize(
    ("mode", "changes", "engine"),
    [
        ("auto", {}, "http"),
        ("auto", {"formats": (Screenshot(),)}, "browser"),
        ("auto", {"mobile": True}, "browser"),
        ("auto", {"wait_for_ms": 1}, "browser"),
        ("auto", {"location": Location("DE")}, "browser"),
        ("auto", {"location": Location("US", ("de",))}, "http"),
        ("auto", {"profile": Profile("p")}, "browser"),
        ("never", {"profile": Profile("p")}, "http"),
        ("always", {}, "browser"),
        ("always", {"fast_mode": True}, "browser"),
        ("never", {}, "http"),
        ("never", {"location": Location("DE")}, "http"),
    ],
)
def test_the_engine_is_chosen_by_mode_and_options(mode, changes, engine):
    assert engines(mode).choose(PAGE, evolve(PLAIN, **changes)) == engine


def test_a_missing_browser_library_is_an_error_that_names_the_extra():
    code = (
        "import sys; sys.modules['scrapy_playwright'] = sys.modules['playwright'] = None\n"
        "from scrapy.settings import Settings\n"
        "from scraper_service.crawling.browser.chromium import why_missing\n"
        "values = {'CHROMIUM_PATH': '/bin/sh', 'BROWSER_SANDBOX': False}\n"
        "print(why_missing(Settings({**values, 'RENDER': 'auto'})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "pip install 'scraper-service[browser]'" in done.stdout


def test_a_site_with_shells_alone_is_remembered_for_all_its_pages():
    known = engines("auto")
    for _ in range(2):
        known.note_page(PAGE, is_shell=True)
    known.note_page("https://a.example/text", is_shell=False)
    for _ in range(3):
        assert known.choose("https://a.example/other", PLAIN) == "http"
        known.note_page(PAGE, is_shell=True)
    assert known.choose("https://a.example/other", PLAIN) == "browser"
    assert known.choose("https://b.example/", PLAIN) == "http"
    assert known.choose(PAGE, evolve(PLAIN, fast_mode=True)) == "http"


def test_every_country_has_a_zone_and_a_language():
    import zoneinfo

    zones = zoneinfo.available_timezones()
    for country in LANGUAGES:
        place = Location(country)
        assert not zones or time_zone(place) in zones, country
        assert languages(place)[0]


@pytest.mark.parametrize(
    ("country", "zone"),
    [
        ("UA", "Europe/Kyiv"),
        ("US", "America/New_York"),
        ("RU", "Europe/Moscow"),
        ("DE", "Europe/Berlin"),
        ("XK", "Europe/Belgrade"),
        ("BV", "UTC"),
    ],
)
def test_the_time_zone_of_a_country_is_the_zone_of_most_inhabitants(country, zone):
    assert time_zone(Location(country)) == zone


def test_hosts_are_blocked_with_all_below_them():
    for host in ("doubleclick.net", "ad.doubleclick.net", "AD.G.DoubleClick.NET"):
        assert is_blocked(host, AD_HOSTS)
    for host in ("example.com", "notdoubleclick.net", "net", "doubleclick.net.example"):
        assert not is_blocked(host, AD_HOSTS)


def test_lists_are_read_in_every_usual_form():
    text = """
    # a comment
    0.0.0.0 hosts.example   # of a hosts file
    127.0.0.1\tlocal.example
    127.0.0.1 localhost
    ||adblock.example^
    plain.example
    ||rule.example^$third-party
    ! another comment
    @@||allowed.example^
    1.2.3.4
    """
    names = {"hosts", "local", "adblock", "plain"}
    assert read_hosts(text.splitlines()) == {f"{name}.example" for name in names}


def state(cookies, items=()):
    return {
        "cookies": [
            {"domain": "a.example", "path": "/", "name": name, "value": value}
            for name, value in cookies.items()
        ],
        "origins": [
            {
                "origin": "https://a.example",
                "localStorage": [
                    {"name": name, "value": value}
                    for name, value in dict(items).items()
                ],
            }
        ]
        if items
        else [],
    }


def test_parallel_changes_of_a_session_by_pages_are_merged():
    before = state({"same": "1", "changed": "1", "gone": "1"}, {"a": "1"})
    current = state(
        {"same": "1", "changed": "1", "gone": "1", "theirs": "1"}, {"b": "2"}
    )
    after = state({"same": "1", "changed": "2", "mine": "1"}, {"a": "2"})
    found = merge_changes(current, before, after)
    values = {cookie["name"]: cookie["value"] for cookie in found["cookies"]}
    assert values == {"same": "1", "changed": "2", "mine": "1", "theirs": "1"}
    [origin] = found["origins"]
    items = {item["name"]: item["value"] for item in origin["localStorage"]}
    assert items == {"a": "2", "b": "2"}


def test_a_sealed_session_opens_with_its_secret_only():
    box = SessionBox(b"one")
    sealed = box.seal(state({"name": "value"}))
    assert b"value" not in sealed
    assert box.open(sealed) == state({"name": "value"})
    assert SessionBox(b"two").open(sealed) == {"cookies": [], "origins": []}
    with pytest.raises(ValueError, match="at most"):
        box.seal(state({"name": "x" * MAX_STATE_BYTES}))
