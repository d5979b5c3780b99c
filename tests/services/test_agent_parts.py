"""The parts of an agent that need no service: choices, state, prompts, pages."""

from __future__ import annotations

import json

import pytest

from scraper_service.content.formats.llms_txt_and_agents import (
    WHOLE,
    agent_pages,
    cut,
    pages_text,
)
from scraper_service.content.structured_data.merging import PageData
from scraper_service.llm.replies import field_sources, merge_pages
from scraper_service.services.model_jobs.agent_state import (
    MAX_KNOWN,
    MAX_SAID,
    AgentState,
    ChoiceRefused,
    read_choice,
    url_key,
    urls_in_text,
)

KNOWN = "https://a.example/x"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
    "required": ["name"],
}


def state(*rounds):
    found = AgentState(rounds=list(rounds))
    found.learn([KNOWN, "https://b.example/"])
    return found


def read(value, found=None, *, is_strict=False, has_pages=True):
    choice = read_choice(
        value, found or state(), is_strict=is_strict, has_pages=has_pages
    )
    return choice.action, choice.input


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        ({"action": "search", "query": " words "}, ("search", {"query": "words"})),
        ({"action": "map", "url": KNOWN + "/"}, ("map", {"url": KNOWN})),
        ({"action": "scrape", "urls": [KNOWN]}, ("scrape", {"urls": [KNOWN]})),
        ({"action": "scrape", "url": KNOWN}, ("scrape", {"urls": [KNOWN]})),
        (
            {"action": "scrape", "urls": ["HTTPS://B.example", f"{KNOWN}#part", KNOWN]},
            ("scrape", {"urls": ["https://b.example/", KNOWN]}),
        ),
        ({"action": "extract", "urls": ["http://lie.example"]}, ("extract", {})),
    ],
)
def test_actions_are_read(value, read_as):
    assert read(value) == read_as


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "must be one of"),
        (None, "must be a JSON object, got null"),
        (["scrape"], "must be a JSON object"),
        ({"action": "delete"}, "'delete'"),
        ({"action": ["scrape"]}, "must be one of"),
        ({"action": "search"}, "no query"),
        ({"action": "search", "query": "  "}, "no query"),
        ({"action": "map"}, "not in the request"),
        ({"action": "map", "url": "https://a.example/"}, "'https://a.example/'"),
        ({"action": "scrape"}, "no urls"),
        ({"action": "scrape", "urls": [None, 5, " "]}, "no urls"),
        ({"action": "scrape", "urls": [KNOWN + "y"]}, "not in the request"),
        ({"action": "scrape", "urls": ["file:///etc/passwd"]}, "not in the request"),
        ({"action": "scrape", "urls": ["https://a.example/X"]}, "not in the request"),
    ],
)
def test_other_actions_are_refused_with_a_reason(value, why):
    with pytest.raises(ChoiceRefused, match=why):
        read(value)


def test_a_repeated_action_is_refused():
    done = {"action": "search", "input": {"query": "w"}, "said": "", "urls": []}
    read_before = {"action": "scrape", "input": {}, "said": "", "urls": [KNOWN]}
    found = state(done, read_before)
    for value in (
        {"action": "search", "query": "w"},
        {"action": "scrape", "urls": [KNOWN]},
    ):
        with pytest.raises(ChoiceRefused, match="before"):
            read(value, found)
    with pytest.raises(ChoiceRefused, match="no page has been read"):
        read({"action": "extract"}, has_pages=False)


@pytest.mark.parametrize("action", ["search", "map"])
def test_a_strict_run_refuses_searches_and_other_urls(action):
    with pytest.raises(ChoiceRefused, match="strictConstrainToURLs"):
        read({"action": action, "query": "x", "url": KNOWN}, is_strict=True)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        (
            "See https://a.example/x, then (http://b.example).",
            ["https://a.example/x", "http://b.example"],
        ),
        ("https://a.example/A_(b)", ["https://a.example/A_(b)"]),
        ("no ftp://a.example and no http:// at all", []),
        ("`https://a.example/q?a=1&b=2`!", ["https://a.example/q?a=1&b=2"]),
    ],
)
def test_urls_are_found_in_a_prompt(text, urls):
    assert urls_in_text(text) == urls


def test_spellings_of_a_url_share_a_key():
    assert url_key("HTTP://A.Example/P/#x") == url_key("http://a.example/P")
    assert url_key("http://a.example/#/p") != url_key("http://a.example/")
    assert url_key("http://a.example/p") != url_key("http://a.example/P")


def test_a_state_is_bounded_and_survives_json():
    found = state()
    found.learn(f"https://a.example/{n}" for n in range(2 * MAX_KNOWN))
    found.pending = {"action": "scrape", "input": {"urls": [KNOWN]}}
    assert found.urls == [KNOWN]
    found.end_round("ä" * MAX_SAID, [KNOWN])
    assert len(found.known) == MAX_KNOWN
    assert len(found.rounds[0]["said"].encode()) <= MAX_SAID
    stored = json.loads(json.dumps({"agent": found.as_json()}))
    again = AgentState.of(stored)
    assert again == found
    again.rounds.clear()
    assert stored["agent"]["rounds"]


def body(**members):
    facts = {"sourceURL": KNOWN, "url": KNOWN, "statusCode": 200, "creditsUsed": 1}
    facts |= members.pop("metadata", {})
    return json.dumps({"metadata": facts, **members}).encode()


def test_pages_are_kept_whole_or_as_sentences():
    sentence = "The granite bridge of Aldermoor was built by Corvin Hallaway. "
    links = ["https://a.example/z", "https://a.example/bridge#x", "mailto:a@b.c"]
    links.append("https://a.example/#/route")
    found = agent_pages(
        [
            body(markdown="| Price | 20.50 |", links=links, json={"name": "x"}),
            body(markdown=sentence + "Nothing of it matters much to anybody. " * 400),
            body(markdown="gone", metadata={"statusCode": 404}),
            body(markdown=" "),
        ],
        "Who built the granite bridge?",
        "granite bridge",
    )
    assert found[0].text == 'Data: {"name": "x"}\n| Price | 20.50 |'
    assert found[0].links == (
        "https://a.example/bridge",
        "https://a.example/z",
        "https://a.example/#/route",
    )
    assert "Corvin Hallaway" in found[1].text
    assert len(found[1].text) <= WHOLE
    assert [page.error for page in found] == [
        *(None, None, "the site answered 404", "it has no text")
    ]
    told = pages_text(found[:2], 500)
    assert told.startswith(f"[1] {KNOWN} ({KNOWN})\nData:")
    assert "[2]" in told
    assert len(told.encode()) <= 500


def test_a_text_is_cut_between_characters():
    assert cut("äöü", 3) == "ä"
    assert cut("abc", 3) == "abc"


def test_merged_data_is_valid_if_it_fits_the_schema():
    pages = [PageData("a", {"name": "Lamp"}), PageData("b", {"name": "B", "price": 2})]
    found = merge_pages(pages, SCHEMA)
    assert (found.value, found.is_valid) == ({"name": "Lamp", "price": 2}, True)
    found = merge_pages([PageData("a", {"price": 2})], SCHEMA)
    assert (found.value, found.is_valid) == ({"name": None, "price": 2}, False)
    assert found.missing == ("/name",)
    assert not merge_pages([PageData("a", {"name": 5})], SCHEMA).is_valid
    assert merge_pages([PageData("a", None), PageData("b", {})], SCHEMA).value is None


def test_fields_name_the_pages_that_have_their_value():
    pages = [PageData("a", {"name": "lamp "}), PageData("b", {"name": "B", "price": 2})]
    found = field_sources({"name": "Lamp", "price": 2, "of": None}, pages)
    assert found == {"name": ["a"], "price": ["b"]}
    assert field_sources(["Lamp"], pages) == {}
