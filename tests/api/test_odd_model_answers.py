"""Every reader of a language model's answer, with answers that were not asked for.

The browser sessions that a model operates are in tests/browser/test_interact_prompt.py.
"""

from __future__ import annotations

import json

import pytest

from tests.api.test_model_jobs import run
from tests.support.monitors import create, scrape
from tests.support.monitors import run as run_check
from tests.support.scripted_site import ScriptedSite, page

PROSE = (
    "The kettle of the harbour house boils a litre of water in two minutes. "
    "It was built by Amber Grove in 1931, and many people a day use it. "
    "Sailors who come in from the cold find it by its whistle."
)
ODD = {
    "null": "null",
    "an empty list": "[]",
    "an empty object": "{}",
    "a number": "0",
    "a text": '"text"',
    "a truth value": "true",
    "a list of nulls": "[null, null]",
    "an object of wrong types": json.dumps(
        {
            name: {"no": "text"}
            for name in "limit include_paths title quotes numbers found queries"
            " meaningful done commands".split()
        }
    ),
    "deep lists": "[" * 50_000 + "]" * 50_000,
    "a huge text": "x" * 900_000,
    "no JSON": '{"title": "The',
    "brackets without an end": '["' * 100_000,
    "JSON and a text": '{"odd": 1} is what I found. {"more": 2}',
}
TEXTS = {"a number", "a text", "a truth value", "a huge text"}
SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
}
FORMATS = [
    "markdown",
    "summary",
    {"type": "json", "schema": SCHEMA},
    {"type": "question", "question": "Who built it?"},
    {"type": "highlights", "query": "cold"},
]
odd_answers = pytest.mark.parametrize("said", ODD.values(), ids=ODD)


@pytest.fixture(scope="module")
def web():
    pages = {
        "/": page("/news/kettle", title="The kettle", text=PROSE),
        "/news/kettle": page(title="The kettle", text=PROSE),
    }
    with ScriptedSite(pages) as site:
        yield site


@pytest.mark.full(keep=2)
@odd_answers
def test_rules_find_the_options_of_a_crawl(clever, chat, web, said):
    chat.behave(answer=said)
    body = {"url": web.url("/"), "prompt": "only /news, at most 2 pages"}
    found = clever.post("/v2/crawl/params-preview", body)
    assert found.status == 200, found
    wanted = {"limit": 2, "includePaths": ["^/news(?:/|$)"]}
    assert found.json["data"] == {"url": web.url("/"), **wanted}
    assert found.json["warning"].startswith("The language model failed (")
    started = clever.post("/v2/crawl", body)
    assert started.status == 200, started
    assert started.json["promptGeneratedOptions"] == wanted
    assert started.json["warning"].startswith("The language model failed (")


@pytest.mark.full(keep=2)
@odd_answers
def test_rules_fill_json_if_the_model_replies_oddly(clever, chat, web, said):
    chat.behave(answer=said)
    body = {
        "url": web.url("/"),
        "formats": FORMATS,
        "onlyCleanContent": True,
        "maxAge": 0,
    }
    found = clever.post("/v2/scrape", body)
    assert found.status == 200, found
    data = found.json["data"]
    assert data["json"]["title"] in {"The kettle", "The", None}
    assert data["json"].keys() == {"title"}
    assert PROSE.split(". ")[1] in data["markdown"]
    assert not data.get("highlights")
    if said not in {ODD[name] for name in TEXTS}:
        assert "highlights" in data["warning"]
    for name in ("summary", "answer"):
        assert (data.get(name) or "")[:1] not in {"[", "{", "n"}, data[name]
    if said in {"0", "true"}:
        assert data["summary"] in f"{PROSE} "


@odd_answers
def test_a_check_without_a_verdict_is_no_pass(clever, chat, web, said):
    chat.behave(answer=said)
    body = {"url": web.url("/"), "checkPromptInjection": True, "maxAge": 0}
    found = clever.post("/v2/scrape", body)
    assert found.json["code"] == "SCRAPE_ALL_ENGINES_FAILED", found
    assert "The check for prompt injection failed" in found.json["error"]


@pytest.mark.full(keep=2)
@odd_answers
def test_deep_research_and_agents_end_with_a_reason(clever, chat, web, said):
    clever.post("/v2/scrape", {"url": web.url("/")})  # so that a search finds it
    chat.behave(answer=said)
    body = {"query": "kettle", "maxDepth": 1, "timeLimit": 60}
    found = run(clever, "/v1/deep-research", **body)
    if said in {ODD[name] for name in TEXTS}:
        assert found["status"] == "completed"
    else:
        assert found["status"] == "failed"
        assert "The language model wrote no report" in found["error"]
    choice = {
        "answers": [{"action": "scrape", "urls": [web.url("/")]}, {"action": "extract"}]
    }
    answers = {"Choose the action of this round": choice, "": said}
    chat.behave(answer={"by_text": answers})
    body = {"prompt": f"Who built {web.url('/')}", "effort": "low", "schema": SCHEMA}
    found = run(clever, "/v2/agent", **body)
    assert found["status"] in {"completed", "failed"}
    assert "Internal" not in str(found.get("error"))
    assert found.get("data", {"title": None}).keys() == {"title"}


@pytest.mark.full(keep=2)
@odd_answers
def test_a_change_without_a_judgment_costs_no_credit(clever, chat, said):
    pages = {"/a": page(text="old")}
    with ScriptedSite(pages) as site:
        chat.behave(answer=said)
        made = create(clever, scrape(site.url("/a")), goal="Prices")
        run_check(clever, made)
        site.put("/a", page(text="new"))
        done = run_check(clever, made)
    [found] = done["pages"]
    assert found["status"] == "changed"
    assert found.get("judgment") is None
    assert done["actualCredits"] == 1
