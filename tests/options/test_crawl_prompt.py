"""Sentences to options of a crawl: the table of tools/bench/crawl_prompt_cases.py, and single rules."""

from __future__ import annotations

import json
import re

import pytest

from scraper_service.discovery.crawl_prompt import options_from_prompt
from scraper_service.options import v2_requests as requests
from scraper_service.options.urls import Patterns
from tools.bench.crawl_prompt_cases import HELD_OUT, LATER, SENTENCES, SITES
from tools.bench.crawl_prompts import outcome, wanted_outcome

ALL = (*SENTENCES, *HELD_OUT, *LATER)
TWO_PLACES = "just the staff pages"  # two places have the name; one was meant


@pytest.mark.parametrize(
    "case",
    [x for x in ALL if TWO_PLACES not in x.text],
    ids=lambda case: case.text[:50],
)
def test_a_prompt_becomes_the_expected_options(case):
    assert outcome(case) == wanted_outcome(case)


def options_of(text, *paths, url="https://site.example/"):
    rows = ",".join(json.dumps(f"https://site.example{path}") for path in paths)
    return options_from_prompt(text, url, [rows.encode()] if paths else [])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("max 2k pages", {"limit": 2000}),
        ("two hundred pages", {"limit": 200}),
        ("1.500 pages", {"limit": 1500}),
        ("twenty-five pages", {"limit": 25}),
        ("at most 3 levels and 40 pages", {"max_discovery_depth": 3, "limit": 40}),
        ("depth of 2", {"max_discovery_depth": 2}),
        ("20 requests per minute", {"delay_s": 3}),
        ("wait half a second, 500 ms between pages", {"delay_s": 1}),
        ("a delay of 2 minutes", {}),
        ("wait 2.5 seconds", {"delay_s": 3}),
        ("one page every 5 seconds", {"delay_s": 5}),
        ("crawl it gently", {"delay_s": 1}),
        ("no subdomains please", {"allow_subdomains": False}),
        ("with all subdomains", {"allow_subdomains": True}),
        ("don't leave the site", {"allow_external_links": False}),
        ("follow outbound links", {"allow_external_links": True}),
        ("use the sitemap", {"sitemap": "include"}),
        ("only the sitemap", {"sitemap": "only"}),
        ("without the sitemap", {"sitemap": "skip"}),
        ("leave the sitemap alone", {"sitemap": "skip"}),
        ("everything apart from external links", {"allow_external_links": False}),
        ("ohne subdomains", {"allow_subdomains": False}),
        ("wait 2000 milliseconds", {"delay_s": 2}),
        ("skip duplicates", {"deduplicate_similar_urls": True}),
        ("keep the query strings", {"ignore_query_parameters": False}),
        ("only this page", {"limit": 1}),
        ("0 pages", {}),
        ("", {}),
        ("hello there", {}),
        ("what a nice day!", {}),
    ],
)
def test_words_of_a_prompt_set_options(text, values):
    found = dict(options_of(text, "/a/b").values)
    assert found == values


@pytest.mark.parametrize(
    ("text", "included", "excluded"),
    [
        ("only /Docs/v2/* and https://site.example/b", ["^/Docs/v2", "^/b"], []),
        ("skip https://other.example/a", [], []),
        ("nur /guide, ohne /guide/a", ["^/guide"], ["^/guide/a"]),
        ("everything but the faq", [], ["^/help/faq"]),
        ("leave the faq out", [], ["^/help/faq"]),
        ("not the faq, only the guides", ["^/guide"], ["^/help/faq"]),
        ("Guides. Skip the FAQ. Terms too.", ["^/guide", "^/terms"], ["^/help/faq"]),
        ("at most 5 pages about the terms", ["^/terms"], []),
        ("all about guides, nothing about terms", ["^/guide"], ["^/terms"]),
        ("pages about us, about the FAQ", ["^/about", "^/help/faq"], []),
        ("guides, about and terms", ["^/guide", "^/about", "^/terms"], []),
    ],
)
def test_paths_from_a_prompt_are_paths_of_the_site(text, included, excluded):
    found = options_of(text, "/help/faq", "/guide/a", "/terms", "/about").values
    for name, places in (("include_paths", included), ("exclude_paths", excluded)):
        patterns = [
            re.sub(r"\\|\(\?:/\|\$\)$", "", each) for each in found.get(name, [])
        ]
        assert patterns == places


def test_years_in_a_prompt_select_urls_by_year():
    paths = [f"/news/{year}/{n}" for year in range(2018, 2025) for n in range(2)]
    found = options_of("news since 2022", *paths).values["include_paths"]
    assert kept(found, paths) == {2022, 2023, 2024}
    found = options_of("news, nothing before 2020", *paths).values["exclude_paths"]
    assert kept(found, paths) == {2018, 2019}
    ahead = [f"/news/{year}/{n}" for year in (2022, 2023, 2039) for n in range(2)]
    found = options_of("news, nothing after 2022", *ahead).values["exclude_paths"]
    assert kept(found, ahead) == {2023, 2039}
    found = options_of("news from 2024", "/news/a")
    assert found.values["include_paths"] == ["^/news(?:/|$)"]
    assert "years" in found.warnings[0]


def test_a_year_is_no_number_of_pages():
    paths = [f"/posts/{year}/a" for year in (2023, 2024)]
    found = options_of("only 2024 posts", *paths).values
    assert "limit" not in found
    assert kept(found["include_paths"], paths) == {2024}


def kept(patterns, paths):
    pattern = Patterns(tuple(patterns))
    return {int(path.split("/")[2]) for path in paths if pattern.first_match(path)}


def test_a_section_that_the_site_lacks_causes_a_warning():
    found = options_of("only the zebras, at most 5 pages", "/a", "/b")
    assert found.values == {"limit": 5}
    assert "zebras" in found.warnings[0]


def test_a_section_outside_the_start_path_sets_crawl_entire_domain():
    found = options_of(
        "only the blog", "/docs/a", "/blog/b", url="https://site.example/docs/"
    )
    assert found.values["crawl_entire_domain"] is True
    found = options_of("only a", "/docs/a", "/blog/b", url="https://site.example/docs/")
    assert "crawl_entire_domain" not in found.values


@pytest.mark.parametrize(
    "text",
    [
        "only " * 2000,
        "skip /a " * 1200,
        "at most " * 1200,
        "no " * 3000 + "subdomains",
        "wait " + "x" * 9000,
        "a " * 4000 + "10 pages",
        "/" * 9000,
        "(?" * 4000,
        "\ud800 \0 \u202e \uff14\uff12 pages",
        "only " + ", ".join(f"topic{n}" for n in range(900)),
        "9" * 5000 + " pages",
        "0" * 5000 + "2 pages",
        "9" * 400 + "k pages",
        "1" + ".000" * 2000 + " pages",
        "nothing older than " + "9" * 5000,
        "since " + "9" * 5000,
        "9" * 5000 + " million pages",
        "only http://[ and https://[::1/",
    ],
)
def test_hostile_sentences_end_soon_and_are_valid(text):
    found = options_of(text, *(f"/topic{n}/page" for n in range(200)))
    requests.crawl_options(
        {"url": "https://site.example/", **requests.crawl_body(found.values)}
    )


def test_the_number_of_prompt_cases_is_fixed():
    assert (len(SENTENCES), len(HELD_OUT), len(LATER)) == (33, 17, 17)
    assert {case.site for case in ALL} <= set(SITES)
