"""Rows of a map: what is taken, what is the same, what comes first."""

from __future__ import annotations

import json
import random
import zlib

import pytest

from scraper_service.formats import map_rows
from scraper_service.formats.map_rows import (
    MapChoice,
    chosen_rows,
    known_rows,
    merged_rows,
    plain_rows,
    shaped_rows,
)
from scraper_service.formats.search_words import SearchWords
from scraper_service.items import KnownPage
from scraper_service.options.job_arguments import map_options

SITE = "https://site.example"


def options_of(url=SITE + "/", **arguments):
    return map_options({"url": url, **arguments})


def listed(urls, **arguments):
    """Return the addresses of a map that has one source."""
    options = options_of(**arguments)
    entries = [[url, None, None] for url in urls]
    choice = MapChoice(options, options.url, (1,))
    slices, _ = shaped_rows(chosen_rows(entries, choice).slices, options, plain_rows)
    return [row[0] for part in slices for row in json.loads(part)]


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["/", ""], [""]),
        (["/a/", "/a", "/a//"], ["/a"]),
        (["/a?x=1", "/a?x=2"], ["/a"]),
        (["/a.zip", "/A", "/a"], ["/a.zip", "/A", "/a"]),
        (["/%61", "/a"], ["/%61"]),
        (["/a#top", "/a#/route"], ["/a", "/a#/route"]),
    ],
)
def test_addresses_of_a_page_are_listed_once(urls, expected):
    assert listed([SITE + url for url in urls]) == [SITE + url for url in expected]


def test_schemes_and_www_make_no_difference():
    urls = ["http://www.site.example/a", SITE + "/a", SITE + "/b"]
    assert listed(urls) == [urls[0], urls[2]]


def test_queries_may_tell_pages_apart():
    urls = [SITE + "/a?x=1", SITE + "/a/?x=1", SITE + "/a?x=2"]
    found = listed(urls, ignore_query_parameters="false")
    assert found == [urls[0], urls[2]]


def test_other_hosts_of_the_site_are_an_option():
    urls = ["https://sub.site.example/a", "https://other.example/a", "mailto:a@b.c"]
    assert listed(urls) == urls[:1]
    assert listed(urls, include_subdomains="false") == []


@pytest.mark.parametrize("search", ["", "page 7"])
def test_merging_piece_by_piece_gives_what_all_at_once_gives(search):
    options = options_of(search=search, limit="20")
    rng = random.Random(5)
    parts = []
    for place in range(12):
        urls = [f"{SITE}/page/{rng.randrange(90)}" for _ in range(30)]
        choice = MapChoice(options, options.url, (1, place))
        entries = [[url, "Title", None] for url in urls]
        parts.append(chosen_rows(entries, choice))
    rng.shuffle(parts)
    whole = merged_rows([part for rows in parts for part in rows.slices], options)
    step = map_rows.Rows()
    for rows in parts:
        step = merged_rows([*step.slices, *rows.slices], options)
    urls = [
        [row[3] for s in rows.slices for row in json.loads(s)] for rows in (whole, step)
    ]
    assert urls[0] == urls[1]
    assert whole.count == 20
    if search:
        assert urls[0][0] == f"{SITE}/page/7"


def test_a_title_comes_from_where_it_is_known():
    options = options_of()
    start = MapChoice(options, options.url, (1,))
    first = chosen_rows([[SITE + "/a", None, None]], start)
    body = {"metadata": {"title": ["A", "title"], "description": "About\n it"}}
    failed = {"metadata": {"statusCode": 404, "title": "Gone"}}
    pages = [
        KnownPage(SITE + "/a", zlib.compress(json.dumps(body).encode())),
        KnownPage(SITE + "/gone", zlib.compress(json.dumps(failed).encode())),
        KnownPage(SITE + "/b"),
    ]
    known = known_rows(pages, MapChoice(options, options.url, (3,)))
    slices, count = shaped_rows([*known.slices, *first.slices], options, plain_rows)
    assert count == 2
    assert json.loads(slices[0]) == [
        [SITE + "/a", "A, title", "About it"],
        [SITE + "/b", None, None],
    ]


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
def test_what_fits_better_has_more_points(search, better, worse):
    words = SearchWords(search)
    scores = [words.score(SITE + url, *rest) for url, *rest in (better, worse)]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("search", ["", "!!!", "\ud800", "x" * 10_000, "(" * 100])
def test_any_text_is_a_search(search):
    assert SearchWords(search).score(SITE + "/a%FF", "t", None) >= 0
