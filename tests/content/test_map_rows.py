"""Rows of a map: what is taken, what is the same, what comes first."""

from __future__ import annotations

import json
import random

import pytest

from scraper_service.content.stored_pages import compress
from scraper_service.content.words import SearchWords
from scraper_service.discovery.map_results import (
    MapChoice,
    Rows,
    address_row,
    choose_rows,
    decode_rows,
    known_rows,
    merge_rows,
    object_row,
    order_rows,
)
from scraper_service.items import KnownPage
from scraper_service.options.spider_arguments import map_options

SITE = "https://site.example"


def options_of(url=SITE + "/", **arguments):
    return map_options({"url": url, **arguments})


def listed(urls, **arguments):
    """Return the addresses of a map that has one source."""
    options = options_of(**arguments)
    entries = [[url, None, None] for url in urls]
    choice = MapChoice(options, options.url, (1,))
    return [row["url"] for row in answered(choose_rows(entries, choice), options)]


def answered(rows, options):
    """Return the decoded rows of an answer."""
    slices, count = order_rows(rows.slices, options)
    found = [row for part in slices for row in decode_rows(part)]
    assert len(found) == count
    return found


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["/", ""], [""]),
        (["/a/", "/a", "/a//"], ["/a"]),
        (["/a?x=1", "/a?x=2"], ["/a"]),
        (["/a.zip", "/A", "/a"], ["/a.zip", "/A", "/a"]),
        (["/%61", "/a"], ["/%61"]),
        (["/a#top", "/a#/route"], ["/a", "/a#/route"]),
        (["/#/b", "/#/b/", "/#/b?x=1", "/#/", "/"], ["/#/b", ""]),
        (["/b/#!c", "/b#!c"], ["/b/#!c"]),
    ],
)
def test_url_spellings_of_one_page_are_listed_once(urls, expected):
    assert listed([SITE + url for url in urls]) == [SITE + url for url in expected]


def test_schemes_and_www_make_no_difference():
    urls = ["http://www.site.example/a", SITE + "/a", SITE + "/b"]
    assert listed(urls) == [urls[0], urls[2]]


def test_ignoreQueryParameters_false_keeps_urls_with_different_queries():
    urls = [SITE + "/a?x=1", SITE + "/a/?x=1", SITE + "/a?x=2"]
    found = listed(urls, ignore_query_parameters="false")
    assert found == [urls[0], urls[2]]


def test_other_hosts_of_the_site_are_an_option():
    urls = ["https://sub.site.example/a", "https://other.example/a", "mailto:a@b.c"]
    assert listed(urls) == urls[:1]
    assert listed(urls, include_subdomains="false") == []


@pytest.mark.parametrize("search", ["", "page 7"])
def test_merging_piece_by_piece_equals_merging_at_once(search):
    options = options_of(search=search, limit="20")
    rng = random.Random(5)
    parts = []
    for place in range(12):
        urls = [f"{SITE}/page/{rng.randrange(90)}" for _ in range(30)]
        choice = MapChoice(options, options.url, (1, place))
        entries = [[url, "Title", None] for url in urls]
        parts.append(choose_rows(entries, choice))
    rng.shuffle(parts)
    whole = merge_rows([part for rows in parts for part in rows.slices], options)
    step = Rows()
    for rows in parts:
        step = merge_rows([*step.slices, *rows.slices], options)
    urls = [[row["url"] for row in answered(r, options)] for r in (whole, step)]
    assert urls[0] == urls[1]
    assert whole.count == 20
    if search:
        assert urls[0][0] == f"{SITE}/page/7"


def test_a_title_comes_from_the_source_that_has_one():
    options = options_of()
    start = MapChoice(options, options.url, (1,))
    first = choose_rows([[SITE + "/a", None, None]], start)
    body = {"metadata": {"title": ["A", "title"], "description": "About\n it"}}
    failed = {"metadata": {"statusCode": 404, "title": "Gone"}}
    pages = [
        KnownPage(SITE + "/a", compress(json.dumps(body).encode())),
        KnownPage(SITE + "/gone", compress(json.dumps(failed).encode())),
        KnownPage(SITE + "/b"),
    ]
    known = known_rows(pages, MapChoice(options, options.url, (3,)))
    rows = Rows((*known.slices, *first.slices))
    assert answered(rows, options) == [
        {"url": SITE + "/a", "title": "A, title", "description": "About it"},
        {"url": SITE + "/b"},
    ]


def rows_of(place, entries, options, shape=object_row):
    choice = MapChoice(options, options.url, (place,), shape)
    return choose_rows(entries, choice)


def united(*rows):
    return Rows(tuple(part for each in rows for part in each.slices))


def test_duplicates_in_other_slices_are_listed_once_at_their_first_position():
    options = options_of(limit="100000")
    count = 2500  # addresses, in slices of a thousand
    first = [[f"{SITE}/{n}", None, None] for n in range(count)]
    second = [[f"{SITE}/{n}", f"T{n}", None] for n in range(500, count + 500)]
    both = united(rows_of(2, second, options), rows_of(1, first, options))
    found = answered(both, options)
    assert [row["url"] for row in found] == [f"{SITE}/{n}" for n in range(count + 500)]
    titles = [row.get("title") for row in found]
    assert titles == [None] * 500 + [f"T{n}" for n in range(500, count + 500)]


def test_the_first_known_title_counts_and_the_best_score():
    options = options_of(search="price")
    sources = [
        [[f"{SITE}/a", None, None], [f"{SITE}/b", None, None]],
        [[f"{SITE}/b", None, "The price"]],
        [[f"{SITE}/b", 'Say "so",', "Another"], [f"{SITE}/c", None, None]],
    ]
    rows = [rows_of(number, each, options) for number, each in enumerate(sources)]
    known = {"title": 'Say "so",', "description": "The price"}
    expected = [
        {"url": f"{SITE}/b", **known},
        {"url": f"{SITE}/a"},
        {"url": f"{SITE}/c"},
    ]
    assert answered(united(*reversed(rows)), options) == expected
    step = merge_rows(united(rows[0], rows[2]).slices, options)
    assert len(answered(united(step, rows[1]), options)) == 3


@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, 2400, 5000])
@pytest.mark.parametrize("search", ["", "nothing"])
def test_a_limit_cuts_the_list_at_its_number(limit, search):
    options = options_of(limit=str(limit), search=search)
    entries = [[f"{SITE}/{n % 1700}", None, None] for n in range(2400)]
    rows = united(rows_of(2, entries, options), rows_of(1, entries[:800], options))
    found = [row["url"] for row in answered(rows, options)]
    assert found == [f"{SITE}/{n}" for n in range(min(limit, 1700))]


@pytest.mark.parametrize(
    "title", ['"', "\\", "a\u2028\n,\nb", "\ud800", "\0", '","', "{"]
)
def test_any_text_is_a_title(title):
    options = options_of()
    rows = rows_of(1, [[f"{SITE}/{n}", title, title] for n in range(2)], options)
    one, two = answered(rows, options)
    assert (
        one["title"] == two["title"] == " ".join(title.split()).replace("\ud800", "?")
    )


def test_a_map_can_return_urls_without_titles():
    options = options_of()
    duplicates = [[f'{SITE}/a","b', None, None], [f"{SITE}/c", "T", None]]
    rows = [rows_of(number, duplicates, options, address_row) for number in (1, 2)]
    assert answered(united(*rows), options) == [f"{SITE}/a%22,%22b", f"{SITE}/c"]


@pytest.mark.parametrize(
    ("search", "better", "worse"),
    [
        ("price", ("/price", None, None), ("/prices", None, None)),
        ("price list", ("/a", "Price list", None), ("/price", None, None)),
        ("caf\u00e9", ("/caf%C3%A9", None, None), ("/tea", None, None)),
        ("CAFE", ("/a", "Caf\u00e9", None), ("/tea", None, None)),
        ("price", ("/a", None, "The price of it"), ("/a", None, None)),
        ("price", ("/a", "Price", None), ("/a", None, "Price")),
        ("p 3", ("/p/3", None, None), ("/p/35", "Page 3x", "prices")),
    ],
)
def test_better_matches_have_a_higher_score(search, better, worse):
    words = SearchWords(search)
    scores = [words.score(SITE + url, *rest) for url, *rest in (better, worse)]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("search", ["", "!!!", "\ud800", "x" * 10_000, "(" * 100])
def test_any_text_is_a_search(search):
    assert SearchWords(search).score(SITE + "/a%FF", "t", None) >= 0
