"""Deep research through the API: bounds, sources, a language model, and crashes."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.api.test_limits import Team, wait_until
from tests.api.test_model_jobs import ended, run, start
from tests.conftest import Service
from tests.support import shop
from tests.support.crash import kill
from tests.support.scripted_site import ScriptedSite, answer, page, slow

QUESTION = "Who founded the shop?"
FOUNDED = "The shop was founded by Ida Example in the year 1999."
REPORT = "The founder is Ida Example [1]."
SETTINGS = {"SCRAPER_LEASE_S": "3"}
TOPIC = "The granite bridge of Aldermoor"


def topic_pages():
    """Pages about one thing that name another one, which has pages of its own."""
    said = f"{TOPIC} was designed by the engineer Corvin Hallaway in 1888"
    pages = {
        f"/bridge/{n}": page(title=f"Bridge {n}", text=f"{said}, says source {n}.")
        for n in range(3)
    }
    for n in range(3):
        text = f"Corvin Hallaway was born in Aldermoor as a baker's child, part {n}."
        pages[f"/man/{n}"] = page(title=f"The engineer, part {n}", text=text)
    return pages


@pytest.fixture(scope="module")
def web():
    with ScriptedSite(shop.pages() | topic_pages()) as site:
        yield site


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("research")


@pytest.fixture(scope="module")
def running(data_dir, web, chat):
    service = Service(data_dir, **SETTINGS, **chat.environment)
    know(service, web, shop.pages())
    yield service
    assert service.stop() == 0, service.stderr


def know(service, web, paths):
    """Scrape pages, so that a search finds them."""
    for path in paths:
        service.post("/v2/scrape", {"url": web.url(path)})


def plan(*queries):
    return {"queries": list(queries)}


def research(service, chat, answers, **body):
    """Run deep research with a model that gives ``answers``, one after the other."""
    chat.behave(answer={"answers": answers})
    body = {"query": QUESTION, "maxDepth": 1, "timeLimit": 60, **body}
    return run(service, "/v1/deep-research", **body)


def test_deep_research_without_a_language_model_is_refused(service):
    for key in ("query", "topic"):
        refused = service.post("/v1/deep-research", {key: QUESTION})
        assert refused.status == 400
        assert refused.json == {
            "success": False,
            "code": "LANGUAGE_MODEL_REQUIRED",
            "error": "deep research is not available here: it needs a language model,"
            " which the operator has not set up (SCRAPER_LLM_BASE_URL)",
        }
    assert service.post("/v1/deep-research", {}).json["code"] == "BAD_REQUEST"
    unknown = service.get(f"/v1/deep-research/{uuid.uuid4()}")
    assert (unknown.status, unknown.json["error"]) == (
        404,
        "Deep research job not found",
    )
    assert service.post("/v2/deep-research", {"query": "x"}).status == 404


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({}, ["query"], "query is required"),
        ({"query": " "}, ["query"], "query must not be empty"),
        ({"topic": ""}, ["topic"], "query must not be empty"),
        (
            {"query": "a", "topic": "b"},
            ["topic"],
            "topic is the old name of query: only one of them is allowed",
        ),
    ],
)
def test_deep_research_requires_a_single_question(running, body, path, message):
    found = running.post("/v1/deep-research", body)
    assert found.status == 400
    [detail] = found.json["details"]
    assert (detail["path"], detail["message"]) == (path, message)


def test_a_language_model_plans_and_writes(running, chat, web):
    plans = [plan("founder of the shop", "Ida Example"), plan()]
    found = research(
        *(running, chat, [*plans, REPORT]), analysisPrompt="Be brief.", maxDepth=3
    )
    assert (found["success"], found["status"]) == (True, "completed")
    data = found["data"]
    text, _, listed = data["finalAnalysis"].partition("\n\n## Sources\n\n")
    assert text == REPORT
    assert listed.splitlines() == [
        f"{n}. [{each['title']}]({each['url']})"
        for n, each in enumerate(data["sources"], 1)
    ]
    assert web.url("/about") in {each["url"] for each in data["sources"]}
    assert found["sources"] == data["sources"]
    assert found["activities"] == data["activities"]
    assert (found["currentDepth"], found["maxDepth"]) == (1, 3)
    assert found["totalUrls"] == len(data["sources"])
    messages = [each["message"] for each in found["activities"]]
    assert messages[0] == "Searches to begin with: 2."
    assert any("'Ida Example'" in message for message in messages)
    assert found["activities"][0].keys() == {
        *("type", "status", "message", "timestamp", "depth"),
    }
    assert "json" not in data
    assert "language model" not in found.get("warning", "")
    asked = [each["body"]["messages"] for each in chat.asked()]
    assert len(asked) == 3
    # What pages say is data: it never stands among the orders.
    last = asked[-1]
    assert FOUNDED in last[-1]["content"]
    assert not any(
        FOUNDED in each["content"] for each in last if each["role"] == "system"
    )
    assert "Be brief." in str(last)


def test_the_model_chooses_further_searches_by_the_pages(running, chat, web):
    know(running, web, topic_pages())
    answers = [plan(f"Who designed {TOPIC}?"), plan("Corvin Hallaway"), REPORT]
    found = research(running, chat, answers, maxUrls=6, maxDepth=2)
    read = {each["url"] for each in found["sources"]}
    assert read >= {web.url(f"/bridge/{n}") for n in range(3)}
    assert read & {web.url(f"/man/{n}") for n in range(3)}
    assert found["currentDepth"] == 2
    assert "designed by the engineer" in json.dumps(chat.asked()[1])


def test_pages_that_cannot_be_read_are_named(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "10")
    know(team, web, topic_pages())
    web.put("/bridge/1", answer("gone", 404))
    found = research(team, chat, [plan(f"Who designed {TOPIC}?"), REPORT])
    web.put("/bridge/1", topic_pages()["/bridge/1"])
    read = {each["url"] for each in found["sources"]}
    assert web.url("/bridge/0") in read
    assert web.url("/bridge/1") not in read
    assert f" could not be read: {web.url('/bridge/1')} (" in found["warning"]
    assert team.remaining() == 10 - len(topic_pages()) - len(read)


def test_deep_research_returns_json_instead_of_a_text(running, chat):
    schema = {"jsonOptions": {"schema": shop.SCHEMA}}
    answer = {**plan(QUESTION), "name": "The Shop"}
    found = research(running, chat, [answer], maxUrls=2, formats=["json"], **schema)
    assert found["data"]["finalAnalysis"] == ""
    assert found["data"]["json"]["name"] == "The Shop"


def test_research_costs_a_page_for_a_page(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "10")
    know(team, web, ["/about"])
    found = research(team, chat, [plan(QUESTION), REPORT], maxUrls=5)
    assert found["totalUrls"] == 1
    assert (team.remaining(), team.charged()) == (8, 2)  # one is that of the scrape
    # Another team's pages are not found.
    other = Team(running, data_dir, "--credits", "10")
    found = research(other, chat, [plan(QUESTION), REPORT])
    assert found["status"] == "failed"
    assert "No page about it could be found" in found["error"]
    assert other.remaining() == 10


def test_deep_research_with_a_failed_model_costs_nothing(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "10")
    know(team, web, ["/about"])
    chat.behave("refuses")
    found = run(team, "/v1/deep-research", query=QUESTION, maxDepth=1)
    assert found["status"] == "failed"
    assert found["error"].startswith("The language model wrote no report (")
    assert team.remaining() == 9


def test_there_is_something_to_read_from_the_start(running, chat):
    chat.behave(answer={"answers": [plan(QUESTION), REPORT]})
    path = start(running, "/v1/deep-research", topic=QUESTION, maxDepth=3)
    first = running.get(path).json
    assert first["success"] is True
    for key in ("activities", "sources"):
        assert first[key] == first["data"][key]
    assert first["maxDepth"] == 3
    ended(running, path)


@pytest.mark.full
def test_research_goes_on_after_a_kill(start_service, chat):
    pages = {path: slow(found, 0.3) for path, found in topic_pages().items()}
    queries = plan(f"Who designed {TOPIC}?", "Corvin Hallaway")
    chat.behave(answer={"by_text": {"web searches": queries, "": "Corvin Hallaway."}})
    with ScriptedSite(pages) as web:
        first = start_service(**SETTINGS, **chat.environment)
        know(first, web, pages)
        body = {"query": f"Who designed {TOPIC}?", "maxUrls": 6, "maxDepth": 2}
        path = start(first, "/v1/deep-research", **body)
        wait_until(lambda: first.get(path).json["activities"])
        kill(first)
        second = start_service(**SETTINGS, **chat.environment)
        found = ended(second, path)
        again = run(second, "/v1/deep-research", **body)
    assert found["status"] == "completed"
    read, read_again = ({s["url"] for s in each["sources"]} for each in (found, again))
    assert read == read_again
    assert found["totalUrls"] == len(read)
