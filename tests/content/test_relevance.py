"""Which pages fit a request, by address and title."""

from __future__ import annotations

import json

import pytest

from scraper_service.discovery.map_results import (
    UNFITTING_PAGES,
    object_row,
    pages_elsewhere,
    pages_of_site,
    search_text,
)

SITE = "https://shop.example"


def slices(*rows):
    """Return rows of a map, two slices of them."""
    made = [object_row(SITE + path, *facts).encode() for path, *facts in rows]
    return [b",\n".join(part) for part in (made[:1], made[1:]) if part]


@pytest.mark.parametrize(
    ("prompt", "schema", "words"),
    [
        ("Extract all the product prices from this page", None, "product price"),
        (
            None,
            {"properties": {"founderName": {}, "year_founded": {}}},
            "founder name year founded",
        ),
        ("prices", {"properties": {"price": {}}}, "price"),
        (None, {"type": "array", "items": {"properties": {"wine": {}}}}, "wine"),
        (None, {"properties": {"team": {"properties": {"boss": {}}}}}, "team bos"),
        (None, {"properties": "broken", "items": [1]}, ""),
        ("get all data", None, ""),
        ("Preise für Öl", None, "preise für öl"),
    ],
)
def test_search_words_leave_out_stop_words(prompt, schema, words):
    assert search_text(prompt, schema).replace("boss", "bos") == words


def test_pages_that_fit_come_first_in_the_order_of_the_map():
    rows = slices(
        ("/prices", None, None),
        ("/about", None, None),
        ("/x", "Price list", None),
        ("/y", None, "what it costs: the price"),
    )
    found = pages_of_site(rows, SITE, search_text("the prices", None), 10)
    assert found == [f"{SITE}{path}" for path in ("/prices", "/x", "/y", "/about")]
    assert pages_of_site(rows, SITE, "price", 2) == [f"{SITE}/prices", f"{SITE}/x"]


def test_a_few_pages_are_read_if_no_page_seems_relevant():
    rows = slices(*((f"/{n}", None, None) for n in range(30)))
    found = pages_of_site(rows, SITE, "founder", 25)
    assert found == [f"{SITE}/{n}" for n in range(UNFITTING_PAGES)]
    assert len(pages_of_site(rows, SITE, "", 25)) == 25
    assert pages_of_site([], SITE, "founder", 25) == []


def test_a_part_of_a_site_contains_the_urls_below_its_path():
    rows = slices(*((path, None, None) for path in ("/shop", "/shop/a", "/shopping")))
    found = pages_of_site(rows, f"{SITE}/shop", "", 10)
    assert found == [f"{SITE}/shop", f"{SITE}/shop/a"]


def test_links_to_other_sites_are_ranked():
    pages = [
        json.dumps({"links": links}).encode()
        for links in (
            [f"{SITE}/price", "https://www.shop.example/price", "http://a.com/x"],
            ["http://b.com/prices/list-price", "http://a.com/price", "http://[bad"],
        )
    ]
    found = pages_elsewhere([*pages, b"{}"], [f"{SITE}/"], "price list", 5)
    assert found == ["http://b.com/prices/list-price", "http://a.com/price"]
    assert pages_elsewhere(pages, [f"{SITE}/"], "price", 1) == found[:1]
    assert pages_elsewhere(pages, [f"{SITE}/"], "founder", 5) == []
