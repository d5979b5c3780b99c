"""Places that make up pages: closed for what their pages are, never for their number."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from scraper_service.content.words import fingerprint
from scraper_service.discovery.crawler_traps import MAX_GROUPS, MAX_WORDS, TrapGuard

TODAY = date(2026, 3, 1)
SITE = "https://example.com"
WORDS = [f"word{number}" for number in range(5000)]
BOILERPLATE = " ".join(WORDS[:150])
SAME = fingerprint(BOILERPLATE)


def prose(number, words=60):
    """Return the fingerprint of a page with words of its own under a common frame."""
    own = random.Random(number).sample(WORDS, words)
    return fingerprint(f"{BOILERPLATE} {' '.join(own)} {number}")


def nearly(number):
    return fingerprint(f"{BOILERPLATE} {number}")


def month(number):
    """Return year, month and the text of a page of an empty calendar."""
    year, index = divmod(number, 12)
    first = date(TODAY.year + 2 + year, index + 1, 1)
    days = " ".join(str(day) for day in range(1, 29 + number % 4))
    text = f"Events {first:%B} {first.year} Mon Tue Wed Thu Fri Sat Sun {days}"
    menu = "previous month next month no events are planned in this period add to list"
    return first, fingerprint(f"{text} {menu} {' '.join(WORDS[:30])}")


def closed_after(pages, asked=None):
    """Return after how many pages the guard refuses the next, and why; None if never."""
    guard = TrapGuard(TODAY)
    for number, (url, mark) in enumerate(pages):
        if refusal := guard.refusal(url):
            return number, refusal.rule.partition(":")[0]
        guard.record_page(url, mark)
    return None


def hexadecimal(number, length=32):
    return f"{random.Random(number).getrandbits(4 * length):0{length}x}"


# Made when a test needs them.
TRAPS = {
    "query variants": (
        ((f"{SITE}/list?page={n}&sort={n % 7}", nearly(n)) for n in range(200)),
        (51, "QueryVariants"),
    ),
    "exactly the same": (
        ((f"{SITE}/list?a={n}", SAME) for n in range(200)),
        (51, "QueryVariants"),
    ),
    "calendar in paths": (
        ((f"{SITE}/cal/{day:%Y/%m}/", mark) for day, mark in map(month, range(100))),
        (21, "Calendar"),
    ),
    "calendar of days": (
        ((f"{SITE}/cal/{day:%Y-%m-01}", mark) for day, mark in map(month, range(100))),
        (21, "Calendar"),
    ),
    "calendar in queries": (
        (
            (f"{SITE}/cal?month={day.month}&year={day.year}", mark)
            for day, mark in map(month, range(100))
        ),
        (21, "Calendar"),
    ),
    "calendar of weeks": (
        ((f"{SITE}/cal/2030-W{n:02}", nearly(n)) for n in range(53)),
        (21, "Calendar"),
    ),
    "calendar of the past": (
        ((f"{SITE}/cal/{1900 - n}/01/", nearly(n)) for n in range(100)),
        (21, "Calendar"),
    ),
    "sessions in paths": (
        ((f"{SITE}/s/{hexadecimal(n)}/home", nearly(n)) for n in range(100)),
        (21, "SessionIds"),
    ),
    "sessions in queries": (
        ((f"{SITE}/home?token={hexadecimal(n)}", nearly(n)) for n in range(100)),
        (21, "SessionIds"),
    ),
    "soft 404 in one folder": (
        ((f"{SITE}/item/{n}", SAME) for n in range(200)),
        (51, "SoftNotFound"),
    ),
    "soft 404 in growing paths": (
        ((f"{SITE}/a/{n}/{n + 1}/{n + 2}", SAME) for n in range(200)),
        (51, "SoftNotFound"),
    ),
}


@pytest.mark.parametrize(("pages", "closed"), TRAPS.values(), ids=TRAPS)
def test_a_url_pattern_whose_pages_have_become_equal_is_closed(pages, closed):
    number, name = closed_after(pages)
    assert name == closed[1]
    assert abs(number - closed[0]) <= 3


def test_combinations_of_known_facets_are_closed():
    colours, sizes, makers = ("red", "blue", "green"), "smlx", "abcdefgh"
    paths = [
        f"{SITE}/shop/{colour}/{size}/{maker}/{price}"
        for colour in colours
        for size in sizes
        for maker in makers
        for price in range(5)
    ]
    random.Random(1).shuffle(paths)
    _, name = closed_after([(path, nearly(n)) for n, path in enumerate(paths)])
    assert name == "FacetCombinations"


def test_pages_with_a_new_name_are_no_combination():
    guard = TrapGuard(TODAY)
    for n in range(200):
        guard.record_page(f"{SITE}/shop/{n % 3}/{n % 5}/{n % 7}", nearly(n))
    assert guard.refusal(f"{SITE}/shop/1/2/3")
    assert guard.refusal(f"{SITE}/shop/1/2/new") is None


@pytest.mark.parametrize(
    "pages",
    [
        ((f"{SITE}/viewtopic.php?f=1&t={n}", prose(n)) for n in range(3000)),
        ((f"{SITE}/p/{n}", nearly(n)) for n in range(500)),
        ((f"{SITE}/p/{n}/{n}/{n}", nearly(n)) for n in range(500)),
        ((f"{SITE}/item?id={n}", prose(n, 12)) for n in range(2000)),
        ((f"{SITE}/{hexadecimal(n)}", prose(n)) for n in range(500)),
        (
            (f"{SITE}/{TODAY - timedelta(n):%Y/%m/%d}/", nearly(n))
            for n in range(0, 5000, 10)
        ),
        ((f"{SITE}/events/2040-01-{1 + n % 28:02}", prose(n)) for n in range(500)),
        ((f"{SITE}/app/{n}", 0) for n in range(500)),
        ((f"{SITE}/app?{n}", 0) for n in range(500)),
        ((f"{SITE}/list?page={n}", prose(n // 40)) for n in range(2000)),
    ],
    ids=[
        "forum",
        "similar pages of few words",
        "numbers in paths",
        "catalogue",
        "hashes as names",
        "archive of the last years",
        "events in years to come",
        "no words",
        "no words in variants",
        "now and then something new",
    ],
)
def test_no_url_pattern_is_closed_for_the_number_of_its_pages(pages):
    assert closed_after(pages) is None


def test_a_trap_closes_a_url_pattern_and_not_the_site():
    guard = TrapGuard(TODAY)
    for n in range(60):
        guard.record_page(f"{SITE}/list?page={n}", SAME)
    refusal = guard.refusal(f"{SITE}/list?page=1000")
    assert refusal.reason == "trap"
    assert refusal.rule == "QueryVariants: 59 pages in a row were nearly the same"
    for url in ("/list", "/list/a", "/lists?page=1", "/other", "/"):
        assert guard.refusal(SITE + url) is None
    assert guard.refusal("https://other.org/list?page=1") is None


def test_a_page_with_new_content_reopens_a_url_pattern():
    guard = TrapGuard(TODAY)
    for n in range(60):
        guard.record_page(f"{SITE}/list?page={n}", SAME)
    guard.record_page(f"{SITE}/list?page=60", prose(1))
    assert guard.refusal(f"{SITE}/list?page=61") is None


def test_dates_of_this_year_and_the_next_are_no_calendar_trap():
    guard = TrapGuard(TODAY)
    for day, mark in map(month, range(60)):
        guard.record_page(f"{SITE}/cal/{day:%Y/%m}/", mark)
    assert guard.refusal(f"{SITE}/cal/2040/05/").rule.startswith("Calendar: ")
    for path in ("/cal/2026/05/", "/cal/2027/12/", "/cal/2001/01/", "/cal/list/"):
        assert guard.refusal(SITE + path) is None


def test_invalid_urls_are_ignored_by_the_trap_guard():
    guard = TrapGuard(TODAY)
    for url in ("", "mailto:a", "http://[", "\ud800"):
        guard.record_page(url, 1)
        assert guard.refusal(url) is None


def test_the_memory_is_bounded():
    guard = TrapGuard(TODAY)
    for n in range(60):
        guard.record_page(f"{SITE}/list?page={n}", SAME)
    for n in range(3000):
        guard.record_page(f"{SITE}/s{n}/a/b/c?d={n}", prose(n, 1))
    for n in range(3000):
        guard.record_page(f"{SITE}/s/{n}/{n + 1}/{n + 2}", prose(n, 1))
    groups = guard._groups.values()
    assert len(groups) == MAX_GROUPS
    assert max(len(group.words) for group in groups) <= MAX_WORDS + 3
    assert max(len(group.samples) for group in groups) <= 8
    assert guard._closed <= guard._groups.keys()
